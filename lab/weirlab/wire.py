"""A host's end of a cable: raw frames, with the kernel's time of each."""

import select
import socket
import struct
import threading
import time

ETH_P_ALL = 3
SO_TIMESTAMPNS = 35
SOL_PACKET = 263
PACKET_AUXDATA = 8
SO_RCVBUFFORCE = 33
PACKET_OUTGOING = 4
TIMESPEC = struct.Struct("qq")
# struct tpacket_auxdata: status, length, captured length, MAC and network offset, VLAN control word and type.
AUXDATA = struct.Struct("=IIIHHHH")
TP_STATUS_VLAN_VALID = 1 << 4
# Destination and source.
ADDRESSES_BYTES = 12
RECEIVE_BUFFER_BYTES = 64 << 20


class Wire:
    """Sends and receives whole frames on an interface of a namespace."""

    def __init__(self, namespace, interface):
        with namespace.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        self.socket.bind((interface, ETH_P_ALL))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, frame):
        self.socket.send(bytes(frame))

    def receive(self, timeout):
        """The next frame that came in, as (kernel's time in ns, bytes); None after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if not select.select([self.socket], [], [], max(left, 0))[0]:
                return None
            frame, ancillary, _, address = self.socket.recvmsg(65536, 256)
            if address[2] == PACKET_OUTGOING:
                continue
            told = {(level, kind): data for level, kind, data in ancillary}
            seconds, nanos = TIMESPEC.unpack(told[socket.SOL_SOCKET, SO_TIMESTAMPNS])
            return seconds * 1_000_000_000 + nanos, with_tag(frame, told[SOL_PACKET, PACKET_AUXDATA])

    def receive_until(self, wanted, timeout):
        """The first frame within `timeout` seconds that `wanted` says yes to, others thrown away; or None."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            received = self.receive(left)
            if received and wanted(received[1]):
                return received
        return None


def with_tag(frame, auxdata):
    """The frame as it was on the wire: the kernel takes an outer VLAN tag out and tells it beside."""
    status, *_, control, kind = AUXDATA.unpack(auxdata)
    if not status & TP_STATUS_VLAN_VALID:
        return frame
    return frame[:ADDRESSES_BYTES] + struct.pack(">HH", kind, control) + frame[ADDRESSES_BYTES:]


class Recorder:
    """Keeps all that comes in on a wire, in a thread of its own, for the time of a `with` block."""

    def __init__(self, wire):
        self.frames = []
        self._wire, self._stop = wire, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._stop.is_set():
            while received := self._wire.receive(0.05):
                self.frames.append(received)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
