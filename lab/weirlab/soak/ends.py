"""A host at each end of a switch: numbered frames at a load, PFC obeyed, and its own account of what it sent and received."""

import collections
import errno
import os
import random
import select
import socket
import struct
import threading
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 64 << 20
BROADCAST = b"\xff" * 6
CONTROL_ADDRESS = bytes.fromhex("0180c2000001")
CONTROL_TYPE = b"\x88\x08"
PFC_OPCODE = b"\x01\x01"
LONGEST_QUANTA = 65535
QUANTUM_BITS = 512
LOSSLESS = 3
# Streams of an end: to the other end in a lossy and in the lossless class, and to nobody that a switch knows.
LOSSY_STREAM, LOSSLESS_STREAM, FLOOD_STREAM = STREAMS = range(3)
DSCP = {LOSSY_STREAM: 0, LOSSLESS_STREAM: LOSSLESS, FLOOD_STREAM: 0}
MAGIC = b"soak"
STAMP = struct.Struct(">4sBQ")
STAMP_AT = 42
SHORTEST, LONGEST = 64, 1514
# What a frame takes on the wire besides: FCS, preamble and gap.
OVERHEAD_BYTES = 24
# A sender that had no CPU makes up for so much time.
CATCH_UP_S = 0.05
FRAMES_AT_ONCE = 64
NAP_S = 0.002
STORM_EVERY_S = 0.05


class PacketSocket:
    """The kernel's end of a cable: an interface of a namespace."""

    def __init__(self, namespace, interface):
        with namespace.entered():
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self._socket.setblocking(False)
        self._socket.bind((interface, ETH_P_ALL))
        self._overrun = 0

    def fileno(self):
        return self._socket.fileno()

    def send(self, frame):
        """Whether the kernel has it now, be it to lose it; an interface that is down takes none."""
        try:
            self._socket.send(frame)
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                return True
            if error.errno in (errno.ENETDOWN, errno.EAGAIN, errno.ENXIO):
                return False
            raise
        return True

    def receive(self):
        """The next frame; None where there is none now."""
        try:
            return self._socket.recv(65536)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.ENETDOWN):
                return None
            raise

    def overrun(self):
        """Frames so far that came and that this socket had no room for."""
        self._overrun += struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        return self._overrun

    def close(self):
        self._socket.close()


class GuestCable:
    """The far end of a guest's NIC: frames as datagrams."""

    def __init__(self, cable):
        self._cable, self._waiting = cable, collections.deque()

    def send(self, frame):
        try:
            self._cable.socket.sendto(frame, socket.MSG_DONTWAIT, self._cable.nic)
        except BlockingIOError:
            return False
        return True

    def receive(self):
        self._waiting.extend(self._cable.take())
        return self._waiting.popleft() if self._waiting else None

    def overrun(self):
        return 0

    def close(self):
        """The guest closes it."""


class End(threading.Thread):
    """Sends to `peer` at a part of `rate` and counts what comes; `load` 0 sends nothing. Frames of the lossless class wait while it is paused."""

    def __init__(self, link, mac, peer, rate_bps, seed, cpu):
        super().__init__(daemon=True)
        self._link, self._rate, self._cpu = link, rate_bps, cpu
        self._random = random.Random(seed)
        self._heads = {stream: _head(mac, BROADCAST if stream == FLOOD_STREAM else peer, DSCP[stream]) for stream in STREAMS}
        self.load, self.flood, self.storm = 0.0, 0.0, False
        self.sent, self.control_sent = dict.fromkeys(STREAMS, 0), 0
        self.received, self.control_received, self.foreign = dict.fromkeys(STREAMS, 0), 0, 0
        self.out_of_order = 0
        self._last = dict.fromkeys(STREAMS, -1)
        self._paused_until, self._storm_at, self._credit, self._at = 0.0, 0.0, 0.0, time.monotonic()
        self._quiet, self._ended = threading.Event(), False
        self.fault = None

    def run(self):
        os.sched_setaffinity(threading.get_native_id(), {self._cpu})
        try:
            while not self._ended:
                moved = self._receive_all()
                moved |= self._send_due()
                if not moved:
                    time.sleep(NAP_S)
        except Exception as error:
            self.fault = error
            raise
        finally:
            self._link.close()

    def be_quiet(self):
        """Sends no more; returns when the last frame has been sent."""
        self.load, self.flood, self.storm = 0.0, 0.0, False
        self._quiet.clear()
        while self.is_alive() and not self._quiet.wait(0.1):
            pass

    def end(self):
        self._ended = True
        self.join()

    def frames_sent(self):
        return sum(self.sent.values()) + self.control_sent

    def frames_received(self):
        """All that reached this end, those included that its socket had no room for."""
        return sum(self.received.values()) + self.control_received + self.foreign + self._link.overrun()

    def _receive_all(self):
        moved = False
        for _ in range(4 * FRAMES_AT_ONCE):
            frame = self._link.receive()
            if frame is None:
                break
            moved = True
            self._handle(frame)
        return moved

    def _handle(self, frame):
        if frame[12:14] == CONTROL_TYPE:
            self.control_received += 1
            if frame[14:16] == PFC_OPCODE and frame[17] >> LOSSLESS & 1:
                quanta = int.from_bytes(frame[18 + 2 * LOSSLESS : 20 + 2 * LOSSLESS], "big")
                self._paused_until = time.monotonic() + quanta * QUANTUM_BITS / self._rate
            return
        if len(frame) < STAMP_AT + STAMP.size or frame[STAMP_AT : STAMP_AT + 4] != MAGIC:
            self.foreign += 1
            return
        _, stream, number = STAMP.unpack_from(frame, STAMP_AT)
        self.received[stream] += 1
        self.out_of_order += number <= self._last[stream]
        self._last[stream] = max(number, self._last[stream])

    def _send_due(self):
        now = time.monotonic()
        took, self._at = now - self._at, now
        if self.storm and now >= self._storm_at:
            self._storm_at = now + STORM_EVERY_S
            self.control_sent += self._link.send(_pause(LOSSLESS))
        load = self.load + self.flood
        if not load:
            self._quiet.set()
            self._credit = 0.0
            return False
        bytes_a_second = self._rate * load / 8
        self._credit = min(self._credit + took * bytes_a_second, CATCH_UP_S * bytes_a_second)
        moved = False
        for _ in range(FRAMES_AT_ONCE):
            if self._credit <= 0:
                break
            stream = self._stream(load, now)
            length = self._random.randint(SHORTEST, LONGEST)
            if stream is not None:
                frame = (self._heads[stream] + STAMP.pack(MAGIC, stream, self.sent[stream])).ljust(length, b"\0")
                if not self._link.send(frame):
                    break
                self.sent[stream] += 1
                moved = True
            self._credit -= length + OVERHEAD_BYTES
        return moved

    def _stream(self, load, now):
        """The stream of the next frame; None for one of a paused class."""
        if self._random.random() * load < self.flood:
            return FLOOD_STREAM
        if self._random.random() < 0.5:
            return LOSSY_STREAM
        return LOSSLESS_STREAM if now >= self._paused_until else None


def _head(source, destination, dscp):
    """Ethernet, IPv4 and UDP, whose lengths are the longest frame's: a switch reads the code point alone."""
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, dscp << 2, LONGEST - 14, 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    return destination + source + b"\x08\x00" + ip + struct.pack(">HHHH", 4791, 4791, 0, 0)


def _pause(traffic_class):
    quanta = [LONGEST_QUANTA if number == traffic_class else 0 for number in range(8)]
    frame = CONTROL_ADDRESS + bytes.fromhex("020000000099") + CONTROL_TYPE + PFC_OPCODE + struct.pack(">H8H", 1 << traffic_class, *quanta)
    return frame.ljust(60, b"\0")
