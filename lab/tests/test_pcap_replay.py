"""Frames of all kinds from capture files through the switch, against a learning bridge on paper. Needs no root.

The ports replay at once and nothing fixes their order among each other. So every unicast address that a frame of another
port is sent to is static or never seen; learning across ports is tested in test_namespaces.py.
"""

import random
import struct

import pytest
from scapy.contrib.lacp import LACP, SlowProtocol
from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause
from scapy.contrib.roce import BTH
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, ICMPv6EchoRequest
from scapy.layers.l2 import ARP, LLC, STP, Dot1AD, Dot1Q, Dot3, Ether
from scapy.packet import Raw
from scapy.utils import RawPcapReader, RawPcapWriter

from weirlab.bridge import HEADER_BYTES, TAG_BYTES, Bridge
from weirlab.switch import Switch

PORTS = ["p0", "p1", "p2", "p3"]
# Behind each port one host whose address the switch is told; p3 only writes what it is sent.
STATIC = {f"02:00:00:00:00:0{n}": port for n, port in enumerate(PORTS)}
HOSTS = list(STATIC)
UNKNOWN = "02:ee:ee:ee:ee:ee"
RUN_S = 2


def address(text):
    return bytes.fromhex(text.replace(":", ""))


def kinds(mtu):
    """One frame of each kind that hosts, neighbours and broken machines send, from host 0."""
    here, there = HOSTS[0], HOSTS[1]
    to = {"src": here, "dst": there}
    ip = {"src": "10.0.0.1", "dst": "10.0.0.2"}
    longest = HEADER_BYTES + 2 * TAG_BYTES + mtu
    udp = Ether(**to) / IP(**ip) / UDP(sport=1, dport=9)

    def sized(frame, length):
        return bytes(frame / Raw(b"\xa5" * (length - len(frame))))

    yield from (
        Ether(src=here, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=here, psrc="10.0.0.1", pdst="10.0.0.2"),
        Ether(**to) / IP(**ip) / TCP(flags="S"),
        Ether(**to) / IP(**ip) / ICMP(),
        udp / Raw(b"payload"),
        Ether(**to) / IPv6(src="fd00::1", dst="fd00::2") / ICMPv6EchoRequest(),
        Ether(**to) / IPv6(src="fd00::1", dst="fd00::2", tc=3 << 2) / UDP() / Raw(b"lossless"),
        Ether(src=here, dst="33:33:00:00:00:01") / IPv6(src="fe80::1", dst="ff02::1") / UDP(),
        Ether(src=here, dst="01:00:5e:00:00:01") / IP(src="10.0.0.1", dst="224.0.0.1") / UDP(),
        Ether(**to) / Dot1Q(vlan=7, prio=3) / IP(**ip) / UDP(),
        Ether(**to) / Dot1AD(vlan=100) / Dot1Q(vlan=7) / IP(**ip) / UDP(),
        Ether(**to) / Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3) / IP(**ip) / UDP(),
        Ether(**to) / Dot1Q(vlan=7),
        # Behind a tag, these are no flow control, and go nowhere.
        Ether(src=here, dst="01:80:c2:00:00:01") / Dot1Q(vlan=7) / Raw(bytes.fromhex("880801010008") + b"\xff" * 40),
        Ether(**to) / Dot1AD(vlan=7) / Dot1Q(vlan=8) / Raw(bytes.fromhex("88080001ffff") + bytes(40)),
        # RoCEv2, lossless by SONiC's map.
        Ether(**to) / IP(tos=3 << 2 | 2, **ip) / UDP(sport=49152, dport=4791) / BTH(opcode=4, dqpn=17, psn=1) / Raw(b"R" * 64),
        Ether(**to, type=0x88B5) / Raw(b"experimental"),
        Dot3(src=here, dst=there) / LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / Raw(b"802.3 length, no type"),
        # What bridges keep: spanning tree, LACP, LLDP, the first and last of the reserved addresses.
        Dot3(src=here, dst="01:80:c2:00:00:00") / LLC(dsap=0x42, ssap=0x42, ctrl=3) / STP(),
        Ether(src=here, dst="01:80:c2:00:00:02") / SlowProtocol() / LACP(),
        Ether(src=here, dst="01:80:c2:00:00:0e", type=0x88CC) / Raw(bytes.fromhex("020704020000000000 0404031234 0602007800 00".replace(" ", ""))),
        Ether(src=here, dst="01:80:c2:00:00:0f") / IP(**ip),
        # The next one is an ordinary group address.
        Ether(src=here, dst="01:80:c2:00:00:10") / IP(**ip),
        # To nobody known; back to where it comes from; with another port's address as its source.
        Ether(src=here, dst=UNKNOWN) / IP(**ip) / UDP(),
        Ether(src="02:aa:00:00:00:01", dst=here) / IP(**ip) / UDP(),
        Ether(src="02:aa:00:00:00:02", dst="02:aa:00:00:00:01") / IP(**ip) / UDP(),
        Ether(src=there, dst=HOSTS[2]) / IP(**ip) / UDP(),
        Ether(src="00:00:00:00:00:00", dst=there) / IP(**ip) / UDP(),
        # Nobody is a group.
        Ether(src="01:00:5e:00:00:07", dst=there) / IP(**ip) / UDP(),
        Ether(src="ff:ff:ff:ff:ff:ff", dst=there) / IP(**ip) / UDP(),
        # Flow control, known and not, and broken.
        Ether(src=here, dst="01:80:c2:00:00:01") / MACControlClassBasedFlowControl(c3_enabled=1, c3_pause_time=5),
        Ether(src=here, dst="01:80:c2:00:00:01") / MACControlClassBasedFlowControl(),
        Ether(src=here, dst="01:80:c2:00:00:01") / MACControlPause(pause_time=5),
        Ether(src=here, dst="01:80:c2:00:00:01", type=0x8808) / Raw(bytes([0x02, 0x02]) + bytes(44)),
        Ether(src=here, dst=there, type=0x8808) / MACControlClassBasedFlowControl(c3_enabled=1, c3_pause_time=9),
    )
    # Length: the longest that is allowed, one more, and much more.
    for length in (longest - 1, longest, longest + 1, longest + 2, 2 * longest, 9_018, 9_019, 12_000, 16_000):
        yield sized(udp, length)
    yield sized(Ether(**to) / Dot1Q(vlan=7) / IP(**ip) / UDP(), longest)
    # Runts, down to less than a header.
    whole = bytes(udp / Raw(bytes(range(64))))
    for length in (59, 40, 33, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 10, 6, 1):
        yield whole[:length]
    control = bytes(Ether(src=here, dst="01:80:c2:00:00:01") / MACControlClassBasedFlowControl(c0_enabled=1))
    for length in (33, 17, 16, 15, 14):
        yield control[:length]
    # IP headers that are none.
    start = address(there) + address(here)
    for kind, header in (("0800", "65"), ("0800", "4f"), ("0800", "40"), ("86dd", "45"), ("86dd", "60"), ("0800", "45ff")):
        yield start + bytes.fromhex(kind + header)
        yield start + bytes.fromhex(kind + header) + b"\xff" * 46
    yield start + bytes.fromhex("8100")
    yield start + bytes.fromhex("810060")
    yield start + bytes.fromhex("88a8e0078100e007")


def stamped(frames, port):
    """The frames made distinct, so that each can be found again: as a source of its own where it may have any."""
    seen = set()
    for number, frame in enumerate(frames):
        frame = bytes(frame)
        while frame in seen:
            frame = frame[:6] + struct.pack(">BBI", 0x02, 0x80 + PORTS.index(port), number) + frame[12:]
            number += 1 << 16
        seen.add(frame)
        yield frame


def noise(seed, count):
    """Frames of no sense: any length, and fields drawn from those that matter."""
    draw = random.Random(seed)
    groups = ["ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03", "01:80:c2:00:00:01", "01:80:c2:00:00:07", "01:80:c2:00:01:00"]
    types = ["0800", "86dd", "8100", "88a8", "8808", "0806", "0000", "ffff", "05dc"]
    for number in range(count):
        destination = address(draw.choice(HOSTS * 3 + [UNKNOWN] + groups))
        source = bytes([0x01 if draw.random() < 0.05 else 0x02, 0x70]) + struct.pack(">I", number)
        payload = draw.randbytes(draw.choice([0, 1, 3, 4, 20, 46, draw.randrange(46, 1500), draw.randrange(1490, 1530)]))
        if draw.random() < 0.5:
            payload = bytes([draw.choice([0x45, 0x46, 0x60, 0x63, 0x00])]) + payload
        tags = b"".join(
            bytes.fromhex(draw.choice(["8100", "88a8"])) + draw.randbytes(2) for _ in range(draw.choice([0, 0, 0, 1, 2, 3]))
        )
        yield destination + source + tags + bytes.fromhex(draw.choice(types)) + payload


def write_capture(path, frames):
    with RawPcapWriter(str(path), linktype=1, sync=False) as capture:
        capture.write_header(None)
        for number, frame in enumerate(frames):
            capture.write_packet(frame, sec=number // 1000, usec=number % 1000)


def read_capture(path):
    with RawPcapReader(str(path)) as capture:
        return [frame for frame, _ in capture]


def class_of(frame):
    """The class by SONiC's DSCP map; 0 for what is not IP. Frames of one class from one port keep their order."""
    at = HEADER_BYTES
    for _ in range(2):
        if frame[at - 2 : at] in (b"\x81\x00", b"\x88\xa8"):
            at += TAG_BYTES
    kind, header = frame[at - 2 : at], frame[at:]
    if kind == b"\x08\x00" and len(header) >= 20 and header[0] >> 4 == 4:
        dscp = header[1] >> 2
    elif kind == b"\x86\xdd" and len(header) >= 40 and header[0] >> 4 == 6:
        dscp = int.from_bytes(header[:2], "big") >> 6 & 63
    else:
        return 0
    return {3: 3, 4: 4, 5: 2, 8: 0, 46: 5, 48: 6}.get(dscp, 1)


def replay(directory, inputs, mtu):
    """Runs the inputs through a switch; returns what it left and what each port sent."""
    text = f'[switch]\nname = "replay"\nidle = "sleep"\nmtu = {mtu}\n[buffer]\nsize = "16MB"\ncell_bytes = 208\n'
    for port in PORTS:
        rx = f'rx = "{directory / port}.in.pcap", ' if port in inputs else ""
        text += f'[[ports]]\nname = "{port}"\nrate = "10Gbps"\npcap = {{ {rx}tx = "{directory / port}.out.pcap" }}\n'
    for mac, port in STATIC.items():
        text += f'[[static_macs]]\nmac = "{mac}"\nport = "{port}"\n'
    config = directory / "replay.toml"
    config.write_text(text)
    for port, frames in inputs.items():
        write_capture(directory / f"{port}.in.pcap", frames)
    with Switch(config, arguments=["--quiet", "--duration", str(RUN_S)]) as switch:
        finished = switch.wait()
    return finished, {port: read_capture(directory / f"{port}.out.pcap") for port in PORTS}


def compare(inputs, finished, outputs, mtu):
    """Every frame is where the bridge on paper puts it, or counted under its reason."""
    bridge = Bridge(PORTS, {address(mac): port for mac, port in STATIC.items()}, mtu)
    expected = {port: {} for port in PORTS}
    copies = 0
    for port, frames in inputs.items():
        for frame in frames:
            leaves_by = bridge.handle(port, frame)
            copies += max(len(leaves_by) - 1, 0)
            for to in leaves_by:
                expected[to].setdefault((port, class_of(frame)), []).append(frame)

    for port in PORTS:
        came_from = {frame: key for key, frames in expected[port].items() for frame in frames}
        assert len(came_from) == sum(map(len, expected[port].values())), "the test's frames are distinct"
        sent = {}
        for position, frame in enumerate(outputs[port]):
            assert frame in came_from, f"{port} sent what it should not, frame {position}: {frame[:40].hex()} ({len(frame)} B)"
            sent.setdefault(came_from[frame], []).append(frame)
        for key, frames in expected[port].items():
            lost = set(frames) - set(sent.get(key, []))
            assert not lost, f"{port} did not send {len(lost)} frames of {key}, among them {sorted(lost)[0][:40].hex()}"
            assert sent[key] == frames, f"{port} sent frames of {key} twice or out of order"

    finished.check_sound()
    assert finished.switch["drops"] == dict(bridge.drops)
    received = sum(map(len, inputs.values())) - sum(sum(kinds.values()) for kinds in bridge.control.values())
    balance = finished.switch["frame_conservation"]
    assert (balance["received"], balance["copied"], balance["sent"]) == (received, copies, sum(map(len, outputs.values())))
    for port in PORTS:
        counted = finished.port(port)
        kinds = bridge.control[port]
        assert counted["pfc_rx"] == kinds["pfc"], port
        assert counted["pause_rx"] == kinds["pause"], port
        # A port that speaks PFC ignores PAUSE of the whole link, and what it does not know.
        assert counted["control_ignored"] == kinds["pause"] + kinds["unknown"], port
        assert counted["control_malformed"] == kinds["malformed"], port


@pytest.mark.parametrize("mtu", [1500, 2000, 9000])
def test_every_kind_of_frame_from_one_port(tmp_path, mtu):
    inputs = {"p0": list(stamped(kinds(mtu), "p0"))}
    finished, outputs = replay(tmp_path, inputs, mtu)
    compare(inputs, finished, outputs, mtu)
    assert {"malformed", "oversize", "link_local", "same_port"} == set(finished.switch["drops"])


def test_every_kind_of_frame_from_three_ports_at_once(tmp_path):
    def shifted(frame, by):
        """This conversation one host further on: host n here is host n + by there."""
        frame = bytes(frame)
        for n in reversed(range(len(HOSTS) - by)):
            frame = frame.replace(address(HOSTS[n]), address(HOSTS[n + by]))
        # Sources that are learned are this port's own.
        return frame.replace(b"\x02\xaa\x00\x00\x00", bytes([0x02, 0xAA, 0, 0, by]))

    inputs = {
        port: list(stamped((shifted(frame, n) for frame in kinds(1500) if len(frame) <= 3000), port))
        for n, port in enumerate(PORTS[:3])
    }
    # Equal bytes from two ports would not tell where they came from.
    seen = set()
    for port in inputs:
        inputs[port] = [frame for frame in inputs[port] if frame not in seen]
        seen.update(inputs[port])
    finished, outputs = replay(tmp_path, inputs, 1500)
    compare(inputs, finished, outputs, 1500)


@pytest.mark.parametrize("seed", range(3))
def test_noise(tmp_path, seed):
    inputs = {
        port: [frame[:7] + bytes([0x70 + n]) + frame[8:] for frame in noise(seed * 10 + n, 1500)]
        for n, port in enumerate(PORTS[:3])
    }
    finished, outputs = replay(tmp_path, inputs, 1500)
    compare(inputs, finished, outputs, 1500)
