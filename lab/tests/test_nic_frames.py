"""Frames of all lengths and tags through DPDK's drivers for NICs: none is changed, none is sent in part, and all packet memory is back.

NIC_FRAMES is how many frames of each MTU are sent: some hundreds, or 1000000 by hand.
"""

import functools
import os
import time

import pytest
from pfc import Stream, is_control

from weirlab.switch import Switch

pytestmark = pytest.mark.root

KINDS = ["82599", "82576", "i225"]
# MTUs that the pages name, and MTUs at which drivers' buffers of whole KiB were too short.
MTUS = [1_500, 3_000, 4_200, 9_000, 9_216]
FRAMES = int(os.environ.get("NIC_FRAMES", "300"))
STATIONS = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
ROCE_DSCP = 26
CUSTOMER, SERVICE = bytes.fromhex("81006064"), bytes.fromhex("88a86064")
TAGS = [b"", CUSTOMER, SERVICE, SERVICE + CUSTOMER]
HEADER_BYTES = 14
MINIMUM_BYTES = 60
# Frames under way at a time: fewer than a tap device or a descriptor ring takes.
WINDOW = 50
WITHIN_S = 5

HEAD = """
[switch]
idle = "sleep"
mtu = {mtu}
[lcores]
layout = "single"
[buffer]
size = "12MB"
headroom = "200KB"
[classes]
preset = "roce"
trust = "port"
"""


def configuration(nics, mtu):
    file = nics.place.parent / "switch.toml"
    stations = "".join(f'[[static_macs]]\nmac = "{mac}"\nport = "p{number}"\n' for number, mac in enumerate(STATIONS))
    file.write_text(HEAD.format(mtu=mtu) + nics.ports(more="priority = 3") + stations)
    return file


@functools.cache
def stream(to, length):
    return Stream(STATIONS[1 - to], STATIONS[to], ROCE_DSCP, length)


@functools.cache
def filler(number):
    return bytes((number + at * 7) & 0xFF for at in range(256)) * (max(MTUS) // 256 + 1)


def frame(number, length, to, tag=b""):
    """A frame of this length that carries its number, on which all other bytes of its data depend."""
    numbered = stream(to, length - len(tag))
    numbered.sent = number
    plain = numbered.next()[:MINIMUM_BYTES]
    data = plain[:12] + tag + plain[12:]
    return (data + filler(number * 131 & 0xFF))[:length]


def lengths(longest):
    """Both ends, about each whole KiB, and others."""
    edges = [60, 61, longest - 1, longest] + [at for kib in range(1024, longest, 1024) for at in (kib - 1, kib, kib + 1)]
    yield from (at for at in edges if at <= longest)
    number = 0
    while True:
        number += 1
        yield 60 + number * 1237 % (longest - 59)


def frames(count, mtu, to):
    """Frames with every kind of tags in turn, each of all lengths up to the full MTU."""
    by_tags = [lengths(mtu + HEADER_BYTES + len(tag)) for tag in TAGS]
    for number in range(count):
        kind = number % len(TAGS)
        yield frame(number, next(by_tags[kind]), to, TAGS[kind])


def receive(wire, count):
    """The next frames that are no MAC control frames; fewer where no more come."""
    received = []
    while len(received) < count and (one := wire.receive_until(lambda data: not is_control(data), WITHIN_S)):
        received.append(one[1])
    return received


def difference(mtu, to, sent, received):
    wrong = [len(data) for data in sent if data not in received]
    return f"mtu {mtu}, to port {to}: {len(received)} of {len(sent)} arrived; changed or lost: {wrong} B"


def check_no_fault(nics):
    """What the NICs themselves found: no frame sent in part, none that was too long, no memory that is not the program's."""
    for number in (0, 1):
        counted = nics.counters(number)
        for fault in ("tx_damaged", "tx_unsupported", "dma_faults", "rx_too_long"):
            assert counted[fault] == 0, (number, fault, counted, nics.events("tx_damaged")[:3])


@pytest.mark.parametrize("mtu", MTUS)
@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_all_lengths_and_tags_are_unchanged(wired_nics, kind, mtu):
    nics, wires = wired_nics(kind)
    with Switch(configuration(nics, mtu), namespace=nics) as switch:
        all_sent = 0
        for to in (1, 0):
            sent = frames(FRAMES // 2, mtu, to)
            while window := [one for _, one in zip(range(WINDOW), sent)]:
                for data in window:
                    wires[1 - to].send(data)
                received = receive(wires[to], len(window))
                assert received == window, difference(mtu, to, window, received)
                all_sent += len(window)
        check_no_fault(nics)
        finished = switch.stop()
    finished.check_sound()
    check_no_fault(nics)
    assert sum(nics.counters(number)["tx_frames"] for number in (0, 1)) == all_sent


@pytest.mark.parametrize("kind", KINDS)
def test_frames_above_the_mtu_are_dropped_whole_and_counted(wired_nics, kind):
    """Longer than the switch forwards: within the NIC's limit the switch drops them, and beyond it the NIC."""
    mtu = 4_200
    nics, wires = wired_nics(kind)
    longest = mtu + HEADER_BYTES + 8
    with Switch(configuration(nics, mtu), namespace=nics) as switch:
        too_long = [frame(number, longest + 1 + number * 40, 1) for number in range(60)]
        for data in too_long:
            wires[0].send(data)
        last = frame(60, longest, 1, SERVICE + CUSTOMER)
        wires[0].send(last)
        assert receive(wires[1], 1) == [last]
        # The device is read once a second.
        time.sleep(2)
        finished = switch.stop()
    by_switch = finished.switch["drops"].get("oversize", 0)
    by_device = finished.port("p0")["device_losses"]["receive"]["frames"]
    assert by_device == nics.counters(0)["rx_too_long"] > 0, (by_device, nics.counters(0))
    assert by_switch + by_device == len(too_long), (by_switch, by_device)
    assert finished.summary["mbufs_missing"] == 0 and nics.counters(1)["tx_damaged"] == 0
