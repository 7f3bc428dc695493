"""Interfaces that change their speed in mid-run: a port without a rate follows, one with a rate does not."""

import fcntl
import os
import queue
import struct
import time

import pytest
from conftest import need
from pfc import pfc

from weirlab.switch import Switch

pytestmark = pytest.mark.root

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 2, 0x1000
WITHIN_S = 20
QUANTA = 65_535
PAUSES = 5
QUANTUM_BITS = 512
FILE = """
[lcores]
layout = "single"
[switch]
idle = "sleep"
[buffer]
size = "4MB"
headroom = "60KB"
[classes]
lossless = [3]
[[ports]]
name = "tap"
af_packet = "sw-tap"
{rate}
[[ports]]
name = "other"
pcap = {{ tx = "{directory}/other.pcap" }}
"""


class Tap:
    """A TAP interface, made in a namespace, and its far end: frames that are written come in at the interface."""

    def __init__(self, namespace, interface):
        self.namespace, self.interface = namespace, interface
        with namespace.entered():
            self.far_end = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(self.far_end, TUNSETIFF, struct.pack("16sH22x", interface.encode(), IFF_TAP | IFF_NO_PI))
        namespace.ip("link", "set", interface, "up")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.far_end)

    def set_speed(self, mbps):
        self.namespace.must_run("ethtool", "-s", self.interface, "speed", str(mbps), "duplex", "full")

    def send(self, frame):
        os.write(self.far_end, bytes(frame))


@pytest.fixture
def tap(namespace, cleanup):
    need("ethtool")
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("there is no /dev/net/tun")
    here = namespace("speed")
    here.be_silent()
    tap = cleanup.enter_context(Tap(here, "sw-tap"))
    tap.set_speed(10_000)
    return tap


def send_pauses(tap, mbps):
    """Some pauses of class 3, each after the one before has ended; returns how many microseconds they last together."""
    lasts_us = QUANTA * QUANTUM_BITS / mbps
    for _ in range(PAUSES):
        tap.send(pfc({3: QUANTA}))
        time.sleep(2 * lasts_us / 1e6 + 0.05)
    return PAUSES * lasts_us


def wait_for(lines, *texts):
    """Reads lines until one has them all; returns it."""
    deadline = time.monotonic() + WITHIN_S
    while (left := deadline - time.monotonic()) > 0:
        line = lines.get(timeout=left)
        if all(text in line for text in texts):
            return line
    raise AssertionError(f"no line with {texts}")


def run(tap, tmp_path, rate, during):
    """Runs a switch with this `rate` at the port; returns what it left, and what `during` did."""
    file = tmp_path / "switch.toml"
    file.write_text(FILE.format(rate=rate, directory=tmp_path))
    lines = queue.Queue()
    with Switch(file, namespace=tap.namespace, arguments=["--quiet"], on_line=lines.put) as switch:
        done = during(lines)
        return switch.stop(), done


def test_pauses_last_as_long_as_the_link_is_slow(tap, tmp_path):
    def during(lines):
        wait_for(lines, "port=tap", "the port has its link's rate, 10Gbps")
        expected = send_pauses(tap, 10_000)
        for before, after, shown in ((10_000, 1_000, ("1Gbps", "10Gbps")), (1_000, 2_500, ("2.5Gbps", "1Gbps"))):
            tap.set_speed(after)
            wait_for(lines, "port=tap", f"the port has its link's new rate, {shown[0]} (was {shown[1]})")
            expected += send_pauses(tap, after)
        return expected

    finished, expected = run(tap, tmp_path, "", during)
    finished.check_sound()
    paused = finished.traffic_class("tap", 3)["paused_rx_us"]
    assert finished.port("tap")["pfc_rx"] == 3 * PAUSES
    # 252 ms; 50 ms if all counted at 10 Gb/s. Pauses that a busy machine delivers late overlap, and last less.
    assert expected / 2 <= paused <= expected, (paused, expected)


def test_a_port_with_a_rate_keeps_it(tap, tmp_path):
    def during(_):
        tap.set_speed(1_000)
        # The kernel is asked once a second.
        time.sleep(2.5)
        return send_pauses(tap, 10_000)

    finished, expected = run(tap, tmp_path, 'rate = "10Gbps"', during)
    finished.check_sound()
    assert 0 < finished.traffic_class("tap", 3)["paused_rx_us"] <= expected
    assert "link's" not in finished.stderr
