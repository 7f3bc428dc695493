"""Ports on Linux interfaces: frames pass as they are, fragments and tags too, and what is lost is counted."""

import os
import signal
import socket
import struct
import time

import pytest
from conftest import need
from pfc import Stream, stamp_of
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether

from weirlab.lab import Hosts
from weirlab.switch import Switch
from weirlab.wire import SOL_PACKET, Recorder, Wire

pytestmark = pytest.mark.root

PACKET_VNET_HDR = 15
# struct virtio_net_hdr: flags, kind of segments, bytes of headers and of a segment, where the checksum begins, and its field.
VIRTIO_NET_HDR = struct.Struct("=BBHHHH")
NEEDS_CSUM, GSO_TCPV4 = 1, 1
LEFT, RIGHT = "02:00:00:00:00:01", "02:00:00:00:00:02"
TAGS = {
    "untagged": [],
    "802.1Q": [Dot1Q(vlan=5, prio=3)],
    "802.1ad": [Dot1AD(vlan=6, prio=5)],
    "two-tags": [Dot1AD(vlan=6), Dot1Q(vlan=5)],
    "two-802.1Q": [Dot1Q(vlan=7), Dot1Q(vlan=5, prio=2)],
}
CONFIG = """
[switch]
mtu = {mtu}
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "4MB"
[classes]
trust = "port"
lossless = {lossless}
[[ports]]
name = "left"
af_packet = "sw-left"
rate = "{rate}"
flow_control = "none"
[[ports]]
name = "right"
af_packet = "sw-right"
rate = "1Gbps"
flow_control = "none"
[[static_macs]]
mac = "02:00:00:00:00:01"
port = "left"
[[static_macs]]
mac = "02:00:00:00:00:02"
port = "right"
"""


@pytest.fixture
def switch_between(cables, cleanup, tmp_path):
    """A switch between two wires, `left` and `right`."""

    def make(mtu=1500, lossless="[]", rate="1Gbps"):
        here, wires = cables("netdev", ["left", "right"])
        for interface in ("sw-left", "host-left", "sw-right", "host-right"):
            here.ip("link", "set", interface, "mtu", str(mtu))
        config = tmp_path / "netdev.toml"
        config.write_text(CONFIG.format(mtu=mtu, lossless=lossless, rate=rate))
        return here, wires, cleanup.enter_context(Switch(config, namespace=here, arguments=["--quiet"]))

    return make


def tagged(header, tags, payload):
    for tag in tags:
        header = header / tag
    return bytes(header / payload).ljust(60, b"\0")


def fragments(source, destination, number, tags):
    """The frames of an IPv4 datagram of 3,000 bytes in three fragments."""
    datagram = IP(src="10.0.0.1", dst="10.0.0.2", id=number) / UDP(sport=1, dport=2, chksum=0) / (bytes(range(250)) * 12)
    return [tagged(Ether(src=source, dst=destination), tags, part) for part in datagram.fragment(1200)]


def exchange(wires, forth, back):
    """Sends frames both ways; returns what arrived of them at the right, and at the left."""
    with Recorder(wires["right"]) as right, Recorder(wires["left"]) as left:
        for frame in forth:
            wires["left"].send(frame)
        for frame in back:
            wires["right"].send(frame)
        deadline = time.monotonic() + 10
        while (len(right.frames) < len(forth) or len(left.frames) < len(back)) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
    return [frame for _, frame in right.frames], [frame for _, frame in left.frames]


@pytest.mark.parametrize("tags", TAGS.values(), ids=TAGS)
def test_fragments_pass_unchanged(switch_between, tags):
    _, wires, switch = switch_between()
    whole, (first, *_), (*_, last) = (fragments(LEFT, RIGHT, number, tags) for number in range(3))
    forth = [*whole, first, last, whole[0]]
    back = [frame for number in range(2) for frame in fragments(RIGHT, LEFT, 9 + number, tags)[1:]]
    assert exchange(wires, forth, back) == (forth, back)
    finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {}


def test_ping_of_3000_bytes(cleanup):
    need("ping")
    net = cleanup.enter_context(Hosts(f"weir-{os.getpid()}", 2))
    with net.run_switch(arguments=["--quiet"]) as switch:
        for here, there in (net.hosts, reversed(net.hosts)):
            assert len(here.ping(there, count=3, size=3000)) == 3
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {}


def test_jumbo_frames(switch_between):
    _, wires, switch = switch_between(mtu=9000)
    lengths = [60, 1514, 4000, 8999, 9014]
    forth = [Stream(LEFT, RIGHT, dscp=0, length=length).next() for length in lengths]
    forth.append(tagged(Ether(src=LEFT, dst=RIGHT), TAGS["802.1Q"], IP() / bytes(8980)))
    forth.append(tagged(Ether(src=LEFT, dst=RIGHT), TAGS["two-tags"], IP() / bytes(8972)))
    forth.append(tagged(Ether(src=LEFT, dst=RIGHT), TAGS["802.1ad"], IP() / bytes(8976)))
    assert max(map(len, forth)) == 9018
    arrived, _ = exchange(wires, forth, [])
    assert arrived == forth
    switch.stop().check_sound()


def test_frames_that_a_stopped_switch_does_not_fetch_are_counted(switch_between):
    _, wires, switch = switch_between(rate="10Mbps")
    stream = Stream(LEFT, RIGHT, dscp=0)
    frames = 6000
    switch.suspend()
    for _ in range(frames):
        wires["left"].send(stream.next())
    switch.process.send_signal(signal.SIGCONT)
    arrived = 0
    while received := wires["right"].receive(timeout=2):
        arrived += stamp_of(received[1]) is not None
    finished = switch.stop()
    missed = finished.port("left")["device_missed"]
    balance = finished.switch["frame_conservation"]
    assert missed > 0
    assert balance["received"] + missed == frames
    assert balance["sent"] == arrived


def test_a_pause_shorter_than_the_ring_loses_nothing(switch_between):
    """At 62,500 frames a second the ring of a 1 Gb/s port takes what comes in 50 ms, and much more."""
    _, wires, switch = switch_between(lossless="[0]")
    stream = Stream(LEFT, RIGHT, dscp=0, length=1000)
    frames = 6000
    switch.suspend()
    for _ in range(frames):
        wires["left"].send(stream.next())
    switch.process.send_signal(signal.SIGCONT)
    while wires["right"].receive(timeout=2):
        pass
    finished = switch.stop()
    assert finished.port("left")["device_missed"] == 0
    assert finished.switch["frame_conservation"]["received"] == frames


def test_an_mtu_lowered_in_mid_run(switch_between):
    """Frames that the interface no longer takes are lost, and others pass: the port neither stops nor fails."""
    here, wires, switch = switch_between()
    long, short = (Stream(LEFT, RIGHT, dscp=0, length=length) for length in (1000, 200))
    forth = [long.next(), short.next()]
    assert exchange(wires, forth, [])[0] == forth
    here.ip("link", "set", "sw-right", "mtu", "500")
    forth = [long.next(), short.next(), long.next(), short.next()]
    assert exchange(wires, forth, [])[0] == forth[1::2]
    here.ip("link", "set", "sw-right", "mtu", "1500")
    forth = [long.next(), short.next()]
    assert exchange(wires, forth, [])[0] == forth
    switch.stop()


def test_checksums_left_to_the_device_are_completed(cleanup):
    """A Linux host whose interface says that it does checksums: what the switch sends on has them."""
    net = cleanup.enter_context(Hosts(f"weir-{os.getpid()}", 2))
    sender, receiver = net.hosts
    sender.namespace.must_run("ethtool", "-K", "eth0", "tx", "on")
    receiver.namespace.must_run("ethtool", "-K", "eth0", "rx", "off")
    payloads = [bytes([n % 251]) * n for n in (1, 2, 63, 64, 1471, 1472)]
    with net.run_switch(arguments=["--quiet"]) as switch:
        wire = cleanup.enter_context(Wire(receiver.namespace, "eth0"))
        with Recorder(wire) as recorder:
            sent = receive_datagrams(sender, receiver, payloads)
        finished = switch.stop()
    assert sent == payloads
    datagrams = [packet for packet in (Ether(frame) for _, frame in recorder.frames) if UDP in packet]
    assert [bytes(packet[UDP].payload)[: packet[UDP].len - 8] for packet in datagrams] == payloads
    for packet in datagrams:
        told = packet[UDP].chksum
        del packet[UDP].chksum
        assert Ether(bytes(packet))[UDP].chksum == told != 0
    finished.check_sound()


def test_several_segments_in_one_frame_are_dropped_and_told(switch_between):
    """What a sender with segmentation offload hands over: 3 segments in one frame, which no wire carries."""
    here, wires, switch = switch_between()
    here.must_run("ethtool", "-K", "host-left", "tx", "on", "tso", "on", "gso", "on", "sg", "on")
    segments = Ether(src=LEFT, dst=RIGHT) / IP(src="10.0.0.1", dst="10.0.0.2") / TCP() / bytes(3 * 400)
    with here.entered():
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with out:
        out.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        out.bind(("host-left", 0))
        out.send(VIRTIO_NET_HDR.pack(NEEDS_CSUM, GSO_TCPV4, 54, 400, 34, 16) + bytes(segments))
    one = [Stream(LEFT, RIGHT, dscp=0).next()]
    assert exchange(wires, one, [])[0] == one
    finished = switch.stop()
    assert finished.switch["frame_conservation"]["received"] == 1
    assert "sw-left: 1 frames received with several segments in one were dropped" in finished.stderr


def receive_datagrams(sender, receiver, payloads):
    """Sends datagrams from a socket of one host to one of the other."""
    with sender.namespace.entered():
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver.namespace.entered():
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with out, into:
        into.bind((receiver.address, 4000))
        into.settimeout(10)
        received = []
        for payload in payloads:
            out.sendto(payload, (receiver.address, 4000))
            received.append(into.recv(2048))
        return received
