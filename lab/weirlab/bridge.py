"""A learning bridge on paper: what a switch must do with each frame.

Written from IEEE 802.1Q and Weir's configuration page, and not from its source, so that both can't be wrong alike.
The bridge knows no VLANs: tags are carried, and not looked at. But what would be MAC control without its tags goes nowhere.
"""

from collections import Counter

CONTROL_TYPE = bytes([0x88, 0x08])
TAG_TYPES = (bytes([0x81, 0x00]), bytes([0x88, 0xA8]))
CONTROL_ADDRESS = bytes([0x01, 0x80, 0xC2, 0x00, 0x00, 0x01])
RESERVED_ADDRESSES = bytes([0x01, 0x80, 0xC2, 0x00, 0x00])
HEADER_BYTES = 14
TAG_BYTES = 4


class Bridge:
    """Ports by name, addresses that are fixed, the largest payload, which may stand behind two tags."""

    def __init__(self, ports, static_macs, mtu):
        self.ports = list(ports)
        self.static = dict(static_macs)
        self.learned = {}
        self.frame_bytes_max = HEADER_BYTES + 2 * TAG_BYTES + mtu
        self.drops = Counter()
        # Frames of flow control, by port and kind: they end here and are no data.
        self.control = {port: Counter() for port in self.ports}

    def handle(self, port, frame):
        """The ports that a frame which arrived on `port` leaves by."""
        if len(frame) < HEADER_BYTES:
            return self._drop("malformed")
        destination, source = frame[:6], frame[6:12]
        if type_behind_tags(frame) == CONTROL_TYPE:
            self.control[port][control_kind(frame)] += 1
            return []
        if source[0] & 1:
            return self._drop("malformed")
        if len(frame) > self.frame_bytes_max:
            return self._drop("oversize")
        if destination[:5] == RESERVED_ADDRESSES and destination[5] <= 0x0F:
            return self._drop("link_local")
        if source not in self.static:
            self.learned[source] = port
        if destination[0] & 1:
            return self._others(port)
        to = self.static.get(destination) or self.learned.get(destination)
        if to is None:
            return self._others(port)
        return self._drop("same_port") if to == port else [to]

    def _others(self, port):
        return [other for other in self.ports if other != port]

    def _drop(self, reason):
        self.drops[reason] += 1
        return []


def type_behind_tags(frame):
    """The Ethertype behind all VLAN tags."""
    at = HEADER_BYTES - 2
    while frame[at : at + 2] in TAG_TYPES:
        at += TAG_BYTES
    return frame[at : at + 2]


def control_kind(frame):
    """How a port that speaks PFC counts a MAC control frame."""
    if len(frame) < 16 or frame[:6] != CONTROL_ADDRESS or frame[12:14] != CONTROL_TYPE:
        return "malformed"
    opcode = int.from_bytes(frame[14:16], "big")
    if opcode == 0x0101:
        return "pfc" if len(frame) >= 34 and frame[17] != 0 else "malformed"
    if opcode == 0x0001:
        return "pause" if len(frame) >= 18 else "malformed"
    return "unknown"
