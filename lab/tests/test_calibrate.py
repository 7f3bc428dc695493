"""`weir calibrate` on a switch that runs: is the delay that it tells the one that the peer had?

The peer is a host of ours with a delay of its own: it sends on for so long after the kernel had a PAUSE for it. Times are the kernel's and the
host's, and they are compared with what Weir says within the longest time that an lcore was kept from polling.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time

import pytest
from pfc import Stream, is_control, pfc
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Ether

from weirlab.switch import Switch, cable_ports, weir_binary
from weirlab.waiting import until

pytestmark = pytest.mark.root
PATIENCE_S = 120
# A bar is drawn five times a second.
SILENCE_S = 20
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
CLASS, DSCP = 3, 26
# Ten times as long as most machines keep an lcore from polling, so that something is advised.
DELAY_NS = 40_000_000
# Some times as long as from one frame of a host to its next.
SILENCE_NS = 1_000_000
SWITCH = (
    """
[switch]
name = "lab"
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "32MB"
mean_frame = 1000
[classes]
preset = "roce"
"""
    + cable_ports(a="1Gbps", b="1Gbps")
    + f"""
[[static_macs]]
mac = "{B}"
port = "b"
"""
)

# Its headroom has room for a peer of some 80 ms by the rule, and follows what is measured.
ADAPTIVE = SWITCH.replace("[buffer]\n", '[buffer]\npolicy = "adaptive"\n').replace('name = "a"\n', 'name = "a"\ndelay = "40ms"\n')


class Host:
    """Sends all the time, and stops `DELAY_NS` after a PAUSE came, or not at all. Times of PAUSEs, and of the last frame after each, at the
    earliest and at the latest, and the longest time between two frames."""

    def __init__(self, wire, obeys):
        self._wire, self._obeys = wire, obeys
        self.pauses, self.longest_silence_ns = [], 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _run(self):
        stream, paused_at, last = Stream(A, B, DSCP, 1_000), None, (0, 0)
        while not self._is_over.is_set():
            # Not a frame after another without a pause: it is the test's only CPU, maybe.
            came = self._wire.receive(0.0002)
            if came and is_control(came[1]) and self._obeys:
                times = Ether(came[1])[MACControlClassBasedFlowControl]
                if times.c3_enabled and times.c3_pause_time and paused_at is None:
                    paused_at, last = came[0], (came[0], came[0])
                elif times.c3_enabled and not times.c3_pause_time and paused_at is not None:
                    self.pauses.append((paused_at, *last))
                    paused_at = None
            if paused_at is not None and time.time_ns() - paused_at > DELAY_NS:
                continue
            before = time.time_ns()
            self.longest_silence_ns = max(self.longest_silence_ns, before - last[1])
            self._wire.send(stream.next())
            last = (before, time.time_ns())


@pytest.fixture
def cabled(cleanup, cables, place, request):
    """A switch with two cables, and a host's end of the first."""
    (place / "switch.toml").write_text(getattr(request, "param", SWITCH))
    here, wires = cables("sw", ["a", "b"])
    arguments = ["--control", str(place / "c.sock")]
    cleanup.enter_context(Switch(place / "switch.toml", namespace=here, arguments=arguments))
    return place, wires


def calibrate(directory, *arguments):
    command = [weir_binary(), "calibrate", "--socket", str(directory / "c.sock"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def headroom_now(directory):
    """Φ of the lossless class of port a, as the running switch has it."""
    command = [weir_binary(), "show", "buffer", "configuration", "-p", "a", "--socket", str(directory / "c.sock")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (row,) = re.findall(rf"^ +a +{CLASS} +lossless .* ([\d,]+)$", told, re.M)
    return int(row.replace(",", ""))


@pytest.mark.parametrize("cabled", [ADAPTIVE], indirect=True, ids=["adaptive"])
def test_the_delay_is_the_peers(cabled):
    directory, wires = cabled
    fragment = directory / "fragment.toml"
    by_the_rule = headroom_now(directory)
    with Host(wires["a"], obeys=True) as host:
        # An lcore that had no CPU for long advises nothing; called again, it may have one.
        for _ in range(3):
            # A host of Python's on a busy machine takes its time to obey.
            done = calibrate(directory, "-p", "a", "-n", 12, "--hold", "400ms", "--json", "--apply", "-o", fragment)
            if done.returncode != 3:
                break
        if done.returncode == 0:
            # A queue's headroom is reckoned anew as a frame comes.
            until(lambda: headroom_now(directory) != by_the_rule, "headroom by the measured delay")
    assert done.returncode in (0, 3), done.stderr
    told = json.loads(done.stdout)
    (link,) = told["links"]
    assert link["class"] == CLASS
    longest_gap = told["machine"]["longest_ns"]
    compared = 0
    for sample in link["peer_stops"]["samples"]:
        # Which of the host's pauses that was: they are some 120 ms from each other.
        paused_at, earliest, latest = min(host.pauses, key=lambda pause: abs(pause[0] - sample["at_ns"]))
        if abs(paused_at - sample["at_ns"]) > 30_000_000 + longest_gap:
            continue
        # A host that had no CPU until it stopped sent nothing meanwhile.
        compared += sample["frames"] > 1
        # A late poll moves either end.
        assert earliest - paused_at - longest_gap <= sample["last_frame_ns"] <= latest - paused_at + longest_gap, (sample, told["machine"])
    assert compared >= 6, (compared, host.pauses, link)
    if done.returncode == 3:
        assert "nothing is advised" in done.stderr and told["fragment"] is None and not fragment.exists()
        assert longest_gap * 10 > max(sample["last_frame_ns"] for sample in link["peer_stops"]["samples"])
        assert told["applied_delay_ns"] is None and headroom_now(directory) == by_the_rule
        return
    # Adaptive headroom goes by it at once: what 1 Gb/s brings in that time and a quarter more, far from the rule's.
    applied = told["applied_delay_ns"]
    assert applied >= max(sample["last_frame_ns"] for sample in link["peer_stops"]["samples"])
    assert applied / 8 < headroom_now(directory) < min(applied / 8 * 1.3, by_the_rule * 0.95), by_the_rule
    # The advised headroom holds all that came, and a switch can be made of it.
    most = max(sample["bytes"] for sample in link["peer_stops"]["samples"])
    assert link["advice"]["headroom_bytes"] > most
    assert link["advice"]["tau_ns"] > DELAY_NS
    headroom = fragment.read_text()
    file = directory / "advised.toml"
    # Another policy: adaptive headroom takes no `headroom`.
    file.write_text(SWITCH.replace("[buffer]\n", headroom, 1))
    checked = subprocess.run([weir_binary(), "check", "--files-only", "--json", file], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_a_peer_that_does_not_stop_is_named_and_nothing_stays_paused(cabled):
    directory, wires = cabled
    # A host that has no CPU while it is paused is taken for one that obeys. Weir is called again where the machine stood still, or where
    # the host alone had no CPU.
    with Host(wires["a"], obeys=False) as host:
        for _ in range(10):
            host.longest_silence_ns = 0
            done = calibrate(directory, "-p", "a", "-n", 3, "--hold", "200ms")
            if done.returncode == 1 or done.returncode == 0 and host.longest_silence_ns < SILENCE_NS:
                break
    assert done.returncode == 1 and "does not obey" in done.stderr and "headroom =" not in done.stdout, (done.stdout, done.stderr)
    shown = subprocess.run(
        [weir_binary(), "show", "interfaces", "--json", "--socket", directory / "c.sock"], capture_output=True, text=True
    )
    (switch,) = json.loads(shown.stdout)["switches"]
    assert all(port["forced_pause"] == [] for port in switch["interfaces"]), switch


def test_how_long_the_switch_takes_to_stop_is_told_too(cabled):
    directory, wires = cabled
    is_over = threading.Event()

    def press():
        # 655 us at 1 Gb/s each time, in which the class is still.
        while not is_over.wait(0.01):
            wires["b"].send(pfc({CLASS: 1_280}))

    presser = threading.Thread(target=press)
    with Host(wires["a"], obeys=False):
        presser.start()
        try:
            done = calibrate(directory, "-p", "b", "-n", 1, "--json")
        finally:
            is_over.set()
            presser.join()
    # Nobody sends to the switch there.
    assert done.returncode == 1 and "no frames of class 3 arrived" in done.stderr, done.stderr
    told = json.loads(done.stdout)
    # The switch's own histogram has each of these messages.
    reaction = told["reaction"]
    assert 0 < reaction["p50_ns"] <= reaction["p99_ns"] <= reaction["p999_ns"] <= reaction["max_ns"], told
    stops = told["links"][0]["switch_stops"]
    assert len(stops["samples"]) + stops["left_out"]["too_short"] > 5, stops
    # A frame or two that its device had, but no more than were sent between two polls.
    for sample in stops["samples"]:
        assert sample["last_frame_ns"] <= told["machine"]["longest_ns"], (sample, told["machine"])


def test_what_cannot_be_measured_is_told(cabled):
    directory, _ = cabled
    silent = calibrate(directory, "-p", "b", "-n", 1, "--hold", "1ms")
    assert silent.returncode == 1 and "no frames of class 3 arrived" in silent.stderr, silent.stderr
    for arguments, said in [
        (["-p", "c"], "there is no such port; there are a, b"),
        (["--class", 0], "not lossless"),
        (["--hold", "2s"], "a second at most"),
        (["--b-m", "0B"], "such as 1MB"),
        (["--apply"], "adaptive headroom alone changes it"),
        (["-o", directory / "none" / "phi.toml"], "in a directory that exists"),
    ]:
        done = calibrate(directory, *arguments)
        assert done.returncode == 2 and said in done.stderr, (arguments, done.stderr)


def test_ctrl_c_ends_it_with_what_was_measured_and_progress_stands_on_the_terminal(cabled):
    directory, wires = cabled
    command = [weir_binary(), "calibrate", "--socket", str(directory / "c.sock"), "-p", "a", "-n", "10000", "--hold", "100ms"]
    # Without this a terminal is taken for one that can draw nothing, and has no bar.
    environment = {**os.environ, "TERM": "xterm"}
    # A pause at least, from which the rest is estimated.
    bar = r"[1-9]\d* of 10000 pauses, \d+\w+ left"
    with Host(wires["a"], obeys=True):
        # A host that has no CPU before each of some pauses has none measured: the command ends by itself then, and is called again.
        for _ in range(5):
            ours, its = pty.openpty()
            running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=its, text=True, env=environment)
            os.close(its)
            shown = terminal(ours, bar)
            running.send_signal(signal.SIGINT)
            told, _ = running.communicate(timeout=PATIENCE_S)
            shown += terminal(ours)
            os.close(ours)
            if "interrupted" in shown and re.search(bar, shown):
                break
    assert running.returncode == 1, shown[-300:]
    assert re.search(bar, shown), shown[-300:]
    assert re.search(r"interrupted after [1-9]\d* pauses; the same command measures all", shown), shown[-300:]
    assert "from a PAUSE to the last frame that still came" in told


def terminal(end, until=None):
    """What comes at this end of a terminal until it says so, nobody is at its other end, or it is silent for long."""
    shown = ""
    while not (until and re.search(until, shown)) and select.select([end], [], [], SILENCE_S if until else 0.5)[0]:
        try:
            shown += os.read(end, 4_096).decode()
        except OSError:
            break
    return shown
