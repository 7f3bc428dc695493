"""PFC frames that scapy makes, sent into a port that streams all classes: what stops, for how long, and what goes on.

A rate of 100 Mb/s makes a quantum 5.12 us and the longest pause 336 ms, long against what a busy machine adds. How much
that is, the switch tells itself: the longest gap between two of its polls.
"""

import time

import pytest
from pfc import LONGEST, Stream, is_control, pause, pfc, stamp_of

from weirlab.switch import Switch
from weirlab.wire import Recorder

pytestmark = [pytest.mark.root, pytest.mark.idle_machine, pytest.mark.one_cpu]

QUANTUM_NS = 5_120
LONGEST_NS = LONGEST * QUANTUM_NS
PAUSER, OTHER, SENDER = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:10"
# Every class sends a frame each 2 ms, so a stop is seen this finely.
INTERVAL_S = 0.002
CLASSES = range(8)
# Beside the switch's own gaps: a frame's way through two veth pairs, when the kernel is busy.
KERNEL_NS = 5_000_000
# Clocks that are steered apart, and a timestamp taken on the way.
CLOCKS_NS = 50_000
CLOCKS_PPM = 1_000
# On a machine busier than this nothing can be timed; a run is then made again, a few times.
GAP_MAX_S = 0.05
RUNS_MAX = 5

CONFIG = """
[lcores]
layout = "single"
[buffer]
size = "4MB"
[pfc]
obey = "all"
[classes.dscp]
0 = 0
1 = 1
2 = 2
3 = 3
4 = 4
5 = 5
6 = 6
7 = 7
[[ports]]
name = "in"
af_packet = "sw-in"
rate = "1Gbps"
[[ports]]
name = "out"
af_packet = "sw-out"
rate = "100Mbps"
flow_control = "{flow_control}"
[[ports]]
name = "other"
af_packet = "sw-other"
rate = "100Mbps"
[[static_macs]]
mac = "02:00:00:00:00:01"
port = "out"
[[static_macs]]
mac = "02:00:00:00:00:02"
port = "other"
"""


class Run:
    """What was sent into the port and when, what came out of each, and the switch's summary."""

    def __init__(self, finished, sent, told, recorded):
        self.finished, self.sent, self.told = finished, sent, told
        self.arrivals = {}
        for where, frames in recorded.items():
            for at, frame in frames:
                if stamp := stamp_of(frame):
                    self.arrivals.setdefault((where, stamp[0]), []).append((stamp[1], stamp[2], at))
        self.slack_ns = int(2e9 * finished.poll_gap_s()) + KERNEL_NS

    def check_all_arrived(self):
        """Nothing is lost, doubled or out of order, paused or not."""
        for (where, number), sent in self.sent.items():
            numbers = [arrival[0] for arrival in self.arrivals[where, number]]
            assert numbers == list(range(sent)), f"class {number} to {where}"

    def check_ran_on(self, where, number):
        """No frame of a class was late by more than the machine explains."""
        late = max(at - sent for _, sent, at in self.arrivals[where, number])
        assert late < self.slack_ns, f"class {number} to {where}: {late / 1e6:.1f} ms late, {self.slack_ns / 1e6:.1f} allowed"

    def check_stopped(self, number, start, wait_ns):
        """A class stood still from the frame with index `start` on, for `wait_ns`, not less, and little more."""
        before, after = self.told[start]
        arrivals = self.arrivals["out", number]
        gap, position = max((arrivals[i + 1][2] - arrivals[i][2], i) for i in range(len(arrivals) - 1))
        last, first = arrivals[position][2], arrivals[position + 1][2]
        what = f"class {number} stood still for {gap / 1e6:.2f} ms, asked for {wait_ns / 1e6:.2f}"
        assert last < after + self.slack_ns, f"{what}: it went on for {(last - after) / 1e6:.2f} ms after the frame"
        early = before + wait_ns - wait_ns * CLOCKS_PPM // 1_000_000 - CLOCKS_NS - first
        assert early <= 0, f"{what}: {early / 1e6:.3f} ms too early"
        late = first - (after + wait_ns)
        assert late < self.slack_ns, f"{what}: {late / 1e6:.2f} ms too late, {self.slack_ns / 1e6:.1f} allowed"

    def check_others_ran_on(self, stopped):
        for number in CLASSES:
            if number not in stopped:
                self.check_ran_on("out", number)
            self.check_ran_on("other", number)

    def out(self, number):
        return self.finished.traffic_class("out", number)


@pytest.fixture
def stream(cables, tmp_path):
    """Runs a stream of all classes while frames are sent into port "out" at given seconds."""
    here, wires = cables("wire", ["in", "out", "other"])

    def once(script, seconds, flow_control):
        config = tmp_path / "pfc.toml"
        config.write_text(CONFIG.format(flow_control=flow_control))
        streams = {
            (where, number): Stream(SENDER, mac, number)
            for where, mac in (("out", PAUSER), ("other", OTHER))
            for number in CLASSES
        }
        told, script = [], list(script)
        recorders = {port: Recorder(wire) for port, wire in wires.items()}
        with Switch(config, namespace=here, arguments=["--quiet"]) as switch:
            with recorders["in"], recorders["out"], recorders["other"]:
                start = time.monotonic()
                tick = 0
                while (now := time.monotonic() - start) < seconds:
                    if script and now >= script[0][0]:
                        _, frame = script.pop(0)
                        before = time.time_ns()
                        wires["out"].send(frame)
                        told.append((before, time.time_ns()))
                    if now >= tick * INTERVAL_S:
                        tick += 1
                        for one in streams.values():
                            wires["in"].send(one.next())
                    time.sleep(INTERVAL_S / 10)
                # Frames held at the end are still waited for.
                time.sleep(0.3)
            finished = switch.stop()
        recorded = {port: recorder.frames for port, recorder in recorders.items()}
        assert not any(is_control(frame) for port in ("in", "other") for _, frame in recorded[port]), "PFC was forwarded"
        sent = {key: one.sent for key, one in streams.items()}
        return Run(finished, sent, told, recorded)

    def run(script, seconds=0.8, flow_control="pfc"):
        for _ in range(RUNS_MAX):
            result = once(script, seconds, flow_control)
            result.finished.check_sound()
            result.check_all_arrived()
            if result.finished.poll_gap_s() < GAP_MAX_S:
                return result
        pytest.skip(f"the machine kept the switch from polling for {result.finished.poll_gap_s() * 1e3:.0f} ms")

    return run


def test_exactly_the_paused_class_stops_for_exactly_the_time(stream):
    run = stream([(0.2, pfc({3: LONGEST}))])
    run.check_stopped(3, 0, LONGEST_NS)
    run.check_others_ran_on([3])
    assert (run.out(3)["xoff_rx"], run.out(3)["pauses_rx"]) == (1, 1)
    assert run.out(3)["paused_rx_us"] == LONGEST_NS // 1_000
    assert run.finished.port("out")["pfc_rx"] == 1


def test_one_frame_pauses_classes_for_different_times(stream):
    run = stream([(0.2, pfc({0: 20_000, 4: 40_000, 7: LONGEST}))])
    for number, quanta in ((0, 20_000), (4, 40_000), (7, LONGEST)):
        run.check_stopped(number, 0, quanta * QUANTUM_NS)
        assert run.out(number)["paused_rx_us"] == quanta * QUANTUM_NS // 1_000
    run.check_others_ran_on([0, 4, 7])


def test_time_zero_resumes_early(stream):
    run = stream([(0.2, pfc({3: LONGEST, 4: LONGEST})), (0.3, pfc({3: 0}))])
    run.check_stopped(3, 0, run.told[1][0] - run.told[0][1])
    run.check_stopped(4, 0, LONGEST_NS)
    run.check_others_ran_on([3, 4])
    assert (run.out(3)["xoff_rx"], run.out(3)["pauses_rx"]) == (1, 1)


@pytest.mark.parametrize("quanta", [10_000, LONGEST], ids=["shorter", "longer"])
def test_a_new_frame_replaces_the_timer(stream, quanta):
    run = stream([(0.2, pfc({3: LONGEST})), (0.35, pfc({3: quanta}))], seconds=1.0)
    run.check_stopped(3, 0, run.told[1][0] - run.told[0][1] + quanta * QUANTUM_NS)
    run.check_others_ran_on([3])
    assert (run.out(3)["xoff_rx"], run.out(3)["pauses_rx"]) == (2, 1)


def test_times_of_classes_that_are_not_enabled_mean_nothing(stream):
    frame = bytearray(pfc({number: 40_000 for number in CLASSES}))
    # The vector's upper byte is reserved, and to be ignored.
    frame[16:18] = bytes([0xFF, 1 << 3])
    run = stream([(0.2, frame)])
    run.check_stopped(3, 0, 40_000 * QUANTUM_NS)
    run.check_others_ran_on([3])
    assert all(run.out(number)["xoff_rx"] == 0 for number in CLASSES if number != 3)


def test_a_zero_source_address_counts(stream):
    run = stream([(0.2, pfc({3: 40_000}, source="00:00:00:00:00:00"))])
    run.check_stopped(3, 0, 40_000 * QUANTUM_NS)
    assert run.finished.port("out")["pfc_rx"] == 1


def test_a_frame_that_enables_no_class_is_no_pfc(stream):
    run = stream([(0.2, pfc({}))], seconds=0.5)
    run.check_others_ran_on([])
    port = run.finished.port("out")
    assert (port["pfc_rx"], port["control_malformed"]) == (0, 1)


def test_global_pause_is_ignored_where_pfc_is_spoken(stream):
    run = stream([(0.2, pause(LONGEST))])
    run.check_others_ran_on([])
    port = run.finished.port("out")
    assert (port["pause_rx"], port["pfc_rx"], port["control_ignored"]) == (1, 0, 1)


def test_global_pause_is_obeyed_where_it_is_spoken(stream):
    run = stream([(0.2, pause(LONGEST))], flow_control="pause")
    for number in CLASSES:
        run.check_stopped(number, 0, LONGEST_NS)
        run.check_ran_on("other", number)
    assert (run.finished.port("out")["pause_rx"], run.finished.port("out")["control_ignored"]) == (1, 0)


@pytest.mark.parametrize("flow_control", ["pause", "none"])
def test_pfc_is_ignored_where_it_is_not_spoken(stream, flow_control):
    run = stream([(0.2, pfc({3: LONGEST}))], flow_control=flow_control)
    run.check_others_ran_on([])
    assert (run.finished.port("out")["pfc_rx"], run.finished.port("out")["control_ignored"]) == (1, 1)
