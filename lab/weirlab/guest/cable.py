"""The far end of an emulated NIC's cable: a datagram socket, one frame in each datagram."""

import os
import socket
import struct
import threading
import time

BUFFER_BYTES = 8 << 20
CONTROL_TYPE = b"\x88\x08"
PFC = b"\x01\x01"


class Cable:
    """Sends frames to a NIC and keeps what comes back, with the time of each.

    A host behind it may obey PFC: `send_obeying` waits while its class is paused.
    """

    def __init__(self, folder, name):
        self.nic, self.here = str(folder / f"{name}.nic"), str(folder / f"{name}.far")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        self.socket.bind(self.here)
        self._paused = set()
        self._lock = threading.Condition()
        self.frames, self.control = [], []
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def netdev(self, name):
        """QEMU's arguments for its end."""
        ends = f"local.type=unix,local.path={self.nic},remote.type=unix,remote.path={self.here}"
        return ["-netdev", f"dgram,id={name},{ends}"]

    def close(self):
        self.socket.close()
        for path in (self.here, self.nic):
            if os.path.exists(path):
                os.unlink(path)

    def clear(self):
        with self._lock:
            self.frames, self.control = [], []

    def take(self):
        """All that came since the last call, control frames first."""
        with self._lock:
            taken = [frame for _, frame in self.control + self.frames]
            self.frames, self.control = [], []
            return taken

    def send(self, frame, within=60.0):
        """Sends a frame; a NIC that takes none for long is a failure, and never a silent loss."""
        deadline = time.monotonic() + within
        while True:
            try:
                self.socket.sendto(frame, socket.MSG_DONTWAIT, self.nic)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.nic} takes no frames") from None
                time.sleep(0.0005)

    def send_obeying(self, frame, traffic_class, within=60.0):
        """Sends a frame when its class is not paused."""
        with self._lock:
            resumed = self._lock.wait_for(lambda: traffic_class not in self._paused, within)
        assert resumed, f"class {traffic_class} stays paused"
        self.send(frame)

    def wait_for(self, count, within=20.0):
        """The frames that came, once there are `count` of them or time is over; control frames are not among them."""
        with self._lock:
            self._lock.wait_for(lambda: len(self.frames) >= count, within)
            return [frame for _, frame in self.frames]

    def _receive(self):
        while True:
            try:
                frame = self.socket.recv(65536)
            except OSError:
                return
            now = time.monotonic()
            with self._lock:
                if frame[12:14] == CONTROL_TYPE:
                    self.control.append((now, frame))
                    if frame[14:16] == PFC:
                        self._obey(frame)
                else:
                    self.frames.append((now, frame))
                self._lock.notify_all()

    def _obey(self, frame):
        enabled, *quanta = struct.unpack_from(">9H", frame, 16)
        for traffic_class, time_of_pause in enumerate(quanta):
            if enabled >> traffic_class & 1:
                (self._paused.add if time_of_pause else self._paused.discard)(traffic_class)
