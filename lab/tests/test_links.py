"""Links that go in mid-run: noticed, told, and frames for them dropped as `port_down`."""

import contextlib
import datetime
import signal
import socket
import struct
import threading
import time

import pytest
from pfc import LONGEST, Stream, pfc, stamp_of

from weirlab import netns
from weirlab.switch import Switch, check_balance
from weirlab.waiting import until
from weirlab.wire import Wire

pytestmark = pytest.mark.root

MACS = {"p0": "02:00:00:00:00:01", "p1": "02:00:00:00:00:02"}
WITHIN_S = 20
# For frames that were sent to be looked at.
SETTLE_S = 0.3


def configuration(directory):
    ports = "".join(f'[[ports]]\nname = "{name}"\naf_packet = "sw-{name}"\nrate = "1Gbps"\n' for name in MACS)
    macs = "".join(f'[[static_macs]]\nmac = "{mac}"\nport = "{name}"\n' for name, mac in MACS.items())
    file = directory / "switch.toml"
    file.write_text(f'[switch]\nidle = "sleep"\n[lcores]\nlayout = "single"\n[buffer]\nsize = "1MB"\n{ports}{macs}')
    return file


def test_a_peers_namespace_is_deleted(namespace, cleanup, tmp_path):
    here = namespace("links")
    far = netns.Namespace(here.name + "-far")
    cleanup.callback(lambda: far.name and far.delete())
    here.be_silent()
    far.be_silent()
    netns.veth((here, "sw-p0"), (here, "host-p0"))
    netns.veth((here, "sw-p1"), (far, "host-p1"))
    wire = cleanup.enter_context(Wire(here, "host-p0"))
    file = configuration(tmp_path)
    gone, down, again, up = (threading.Event() for _ in range(4))

    def note(line):
        uses = "there is an interface sw-p1 again: the port uses it"
        for word, event in (("is gone", gone), ("link down", down), (uses, again)):
            if word in line:
                event.set()
        if again.is_set() and "link up" in line:
            up.set()

    stream = Stream(MACS["p0"], MACS["p1"], dscp=10)
    with Switch(file, namespace=here, arguments=["--quiet"], on_line=note) as switch:
        here.ip("link", "set", "sw-p0", "mtu", "1400")
        # The kernel takes the interfaces of a namespace down in the background.
        far.delete()
        far.name = None
        assert gone.wait(WITHIN_S) and down.wait(WITHIN_S)
        for _ in range(50):
            wire.send(stream.next())
        time.sleep(0.3)
        netns.veth((here, "sw-p1"), (here, "host-p1"))
        assert again.wait(WITHIN_S) and up.wait(WITHIN_S)
        with Wire(here, "host-p1") as back:
            for wire_in, wire_out, sent in ((wire, back, stream), (back, wire, Stream(MACS["p1"], MACS["p0"], dscp=10))):
                frame = sent.next()
                wire_in.send(frame)
                assert wire_out.receive_until(lambda got, frame=frame: got == frame, WITHIN_S)
        finished = switch.stop()
    check_balance(finished.switch)
    assert finished.switch["drops"] == {"port_down": 50}
    assert "the MTU of sw-p0 is 1400 now" in finished.stderr
    assert finished.port("p1")["link_up"]


class Removals:
    """The kernel's word of when an interface of a namespace was removed: by netlink, in seconds of the clock."""

    RTMGRP_LINK, RTM_DELLINK = 1, 17

    def __init__(self, namespace, name):
        with namespace.entered():
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.socket.bind((0, self.RTMGRP_LINK))
        self.name, self.at, self.seen = name.encode() + b"\0", 0.0, threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        with contextlib.suppress(OSError):
            while message := self.socket.recv(65536):
                at = time.time()
                (kind,) = struct.unpack_from("=H", message, 4)
                if kind == self.RTM_DELLINK and self.name in message:
                    self.at = at
                    self.seen.set()


def time_of(line):
    """When the switch wrote a line of its log, in seconds of the clock."""
    stamp = line.split()[0].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(stamp).timestamp()


DELETIONS = 5
SEEN_WITHIN_S = 0.1


def test_a_deleted_namespace_is_seen_within_a_tenth_of_a_second(namespace, cleanup, tmp_path):
    """The best of some deletions counts: on a machine that does much else, one may be seen late."""
    here = namespace("seen")
    here.be_silent()
    netns.veth((here, "sw-p0"), (here, "host-p0"))
    wire = cleanup.enter_context(Wire(here, "host-p0"))
    removals = Removals(here, "sw-p1")
    cleanup.callback(removals.socket.close)
    gone, up, log = threading.Event(), threading.Event(), []

    def note(line):
        if "is gone" in line:
            log.append(time_of(line))
            gone.set()
        elif "link up" in line:
            up.set()

    def lay(n):
        far = netns.Namespace(f"{here.name}-{n}")
        cleanup.callback(lambda: far.name and far.delete())
        far.be_silent()
        netns.veth((here, "sw-p1"), (far, "host-p1"))
        return far

    stream, took, after = Stream(MACS["p0"], MACS["p1"], dscp=10), [], 0
    far = lay(0)
    with Switch(configuration(tmp_path), namespace=here, arguments=["--quiet"], on_line=note) as switch:
        for n in range(1, DELETIONS + 1):
            removals.seen.clear()
            far.delete()
            far.name = None
            while not gone.is_set():
                wire.send(stream.next())
                time.sleep(0.001)
            assert removals.seen.wait(WITHIN_S)
            took.append(log[-1] - removals.at)
            # Nothing of these is sent to nobody.
            for _ in range(100):
                wire.send(stream.next())
                after += 1
            time.sleep(SETTLE_S)
            gone.clear()
            up.clear()
            far = lay(n)
            assert up.wait(WITHIN_S)
        finished = switch.stop()
    check_balance(finished.switch)
    assert set(finished.switch["drops"]) == {"port_down"}, finished.switch["drops"]
    # An lcore that the machine kept from polling for as long has frames when there is somebody again.
    dropped, gap_s = finished.switch["drops"]["port_down"], finished.poll_gap_s()
    assert dropped >= after or gap_s >= SETTLE_S, f"{dropped} of {after} dropped, longest poll gap {gap_s * 1e3:.1f} ms"
    assert min(took) <= SEEN_WITHIN_S, [f"{seconds * 1e3:.1f} ms" for seconds in took]


def link_news():
    """Events that a link went down, and came up; and what sets them, line by line of the log."""
    down, up = threading.Event(), threading.Event()

    def note(line):
        if "link down" in line:
            down.set()
        elif "link up" in line:
            up.set()

    return down, up, note


# The ends of a pair. With one number at both the kernel takes the pair for no pair, and its own news of a carrier waits for up to a second
# after the last, as of a NIC's.
NUMBER = "77"
FLAPS = 4
AWAY_OF_FLAP_S = 0.05


@pytest.mark.parametrize("device", ["af_packet", "af_xdp"])
def test_a_carrier_is_back_within_a_tenth_of_a_second(namespace, tmp_path, device):
    """The best of some flaps counts: on a machine that does much else, one may be seen late."""
    here, far = namespace("flap"), namespace("flap-far")
    for end in (here, far):
        end.be_silent()
    here.ip("link", "add", "sw-p0", "index", NUMBER, "type", "veth", "peer", "name", "host-p0", "index", NUMBER, "netns", far.name)
    here.ip("link", "set", "sw-p0", "up")
    far.ip("link", "set", "host-p0", "up")
    netns.veth((here, "sw-p1"), (far, "host-p1"))
    news, came = [], threading.Condition()

    def note(line):
        if "port=p0" in line and ("link up" in line or "link down" in line):
            with came:
                news.append(("up" if "link up" in line else "down", time_of(line)))
                came.notify()

    def seen(where, interface, way):
        """How long after `ip` began the switch wrote that the link is so."""
        with came:
            news.clear()
            at = time.time()
            where.ip("link", "set", interface, way)
            assert came.wait_for(lambda: news and news[-1][0] == way, WITHIN_S)
            return news[-1][1] - at

    file = configuration(tmp_path)
    file.write_text(file.read_text().replace('af_packet = "sw-p0"', f'{device} = "sw-p0"'))
    with Switch(file, namespace=here, arguments=["--quiet"], on_line=note) as switch:
        for end in (here, "sw-p0"), (far, "host-p0"):
            took = {"down": [], "up": []}
            for _ in range(1 + FLAPS):
                for way in took:
                    took[way].append(seen(*end, way))
                    time.sleep(AWAY_OF_FLAP_S)
            # The first change after a while is news at once.
            for way, times in took.items():
                assert min(times[1:]) <= SEEN_WITHIN_S, (end[1], way, [f"{seconds * 1e3:.1f} ms" for seconds in times])
        switch.stop()


# How long the link has no carrier after the last frame of a round.
AWAY_S = 0.3


@pytest.mark.parametrize("device", ["af_packet", "af_xdp"])
def test_no_frame_vanishes_when_a_carrier_is_lost(cables, tmp_path, device):
    """Frames that come while a link goes: delivered, counted as lost by the device, or dropped for want of a link."""
    here, wires = cables(f"carrier-{device}", MACS)
    down, up, note = link_news()
    file = configuration(tmp_path)
    file.write_text(file.read_text().replace("af_packet", device))
    stream = Stream(MACS["p0"], MACS["p1"], dscp=3)
    with Switch(file, namespace=here, arguments=["--quiet"], on_line=note) as switch:
        # The kernel takes its time to call an interface running that was just made.
        def reached():
            wires["p0"].send(stream.next())
            return wires["p1"].receive_until(lambda frame: stamp_of(frame) is not None, SETTLE_S)

        until(reached, "a frame that arrives")
        for _ in range(3):
            for event in (down, up):
                event.clear()
            for _ in range(20):
                wires["p0"].send(stream.next())
            time.sleep(0.3)
            # These wait for the switch, which does not know yet.
            switch.suspend()
            for _ in range(50):
                wires["p0"].send(stream.next())
            here.ip("link", "set", "host-p1", "down")
            switch.process.send_signal(signal.SIGCONT)
            assert down.wait(WITHIN_S)
            for _ in range(30):
                wires["p0"].send(stream.next())
            time.sleep(AWAY_S)
            here.ip("link", "set", "host-p1", "up")
            assert up.wait(WITHIN_S)
        time.sleep(1.5)
        finished = switch.stop()
    check_balance(finished.switch)
    # Not by a socket, which ends with the link that it hears.
    arrived = int(here.must_run("cat", "/sys/class/net/host-p1/statistics/rx_packets"))
    lost = finished.port("p1")["device_losses"]["transmit"]
    dropped = finished.switch["drops"].get("port_down", 0)
    # What the kernel tells of a link comes late on a busy machine, and a link may seem to go once more. A switch that had no CPU for as
    # long as the link was away finds it there again.
    gap_s = finished.poll_gap_s()
    assert arrived > 20 and (dropped >= 90 or gap_s >= AWAY_S), (arrived, dropped, lost, f"longest poll gap {gap_s * 1e3:.1f} ms")
    assert arrived + lost["frames"] + dropped == stream.sent, (arrived, dropped, lost)
    assert finished.code == (1 if lost["frames"] else 0), finished.stderr


def test_a_pause_is_over_with_its_link(cables, tmp_path):
    """On the wire: a peer that paused the switch for long comes back, and gets its frames at once."""
    here, wires = cables("anew", MACS)
    down, up, note = link_news()
    # 65,535 quanta at 1 Mb/s are 33 s.
    file = configuration(tmp_path)
    file.write_text(file.read_text().replace("1Gbps", "1Mbps").replace('size = "1MB"', 'size = "1MB"\nheadroom = "50KB"'))
    stream = Stream(MACS["p0"], MACS["p1"], dscp=3)
    with Switch(file, namespace=here, arguments=["--quiet"], on_line=note) as switch:
        # Until then the peer paused the switch.
        wires["p1"].send(pfc({3: LONGEST}))
        time.sleep(0.3)
        wires["p0"].send(stream.next())
        held = wires["p1"].receive_until(lambda frame: stamp_of(frame) is not None, 1)
        here.ip("link", "set", "host-p1", "down")
        assert down.wait(WITHIN_S)
        here.ip("link", "set", "host-p1", "up")
        assert up.wait(WITHIN_S)
        # A socket ends with the link that it hears.
        with Wire(here, "host-p1") as again:
            frame = stream.next()
            wires["p0"].send(frame)
            assert held is None and again.receive_until(lambda got: got == frame, WITHIN_S)
        switch.stop()
