"""PFC and PAUSE frames as scapy makes them, and test frames of each class."""

import struct
import time

from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

CONTROL_ADDRESS = "01:80:c2:00:00:01"
CONTROL_TYPE = bytes.fromhex("8808")
LONGEST = 65535
MINIMUM_BYTES = 60
# Class, number, time of sending: what the payload of a test frame says.
STAMP = struct.Struct(">BIQ")


def pfc(times, source="02:00:00:00:00:99"):
    """A PFC frame that enables exactly the classes in `times`, each with its pause time in quanta."""
    fields = {}
    for number, quanta in times.items():
        fields |= {f"c{number}_enabled": 1, f"c{number}_pause_time": quanta}
    return padded(Ether(src=source, dst=CONTROL_ADDRESS) / MACControlClassBasedFlowControl(**fields))


def pause(quanta, source="02:00:00:00:00:99"):
    """An 802.3x PAUSE frame."""
    return padded(Ether(src=source, dst=CONTROL_ADDRESS) / MACControlPause(pause_time=quanta))


def padded(frame):
    return bytes(frame).ljust(MINIMUM_BYTES, b"\0")


def is_control(frame):
    return frame[12:14] == CONTROL_TYPE


class Stream:
    """Numbered UDP frames of one DSCP, each with its time of sending."""

    def __init__(self, source, destination, dscp, length=100):
        ip = {"src": "10.0.0.1", "dst": "10.0.0.2", "tos": dscp << 2}
        head = Ether(src=source, dst=destination) / IP(len=length - 14, **ip) / UDP(dport=4791, len=length - 34, chksum=0)
        self._head, self._length, self.dscp, self.sent = bytes(head), length, dscp, 0

    def next(self):
        stamp = STAMP.pack(self.dscp, self.sent, time.time_ns())
        self.sent += 1
        return (self._head + stamp).ljust(self._length, b"\0")


def stamp_of(frame):
    """(class, number, time of sending in ns) of a test frame; None of another."""
    if frame[12:14] != b"\x08\x00" or len(frame) < 42 + STAMP.size:
        return None
    return STAMP.unpack_from(frame, 42)
