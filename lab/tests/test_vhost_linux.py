"""A vhost-user port with a Linux guest under QEMU: its kernel's virtio driver takes and sends every frame that is judged here.

The guest's kernel passes all frames between the port and a cable, so that what is seen on the cable went through its driver.
"""

import re
import time

import pytest
from pfc import LONGEST, Stream, pfc
from test_vhost_ports import CLASSES, GUEST, OTHER, QUEUES, Bench, numbers, tshark, wait_for_frames

from weirlab import machine
from weirlab.guest import linux
from weirlab.waiting import until
from weirlab.wire import Recorder

pytestmark = [pytest.mark.root, pytest.mark.guest]

# Slow beside an emulated guest, so that queues stand in the switch: a pause of 65535 quanta lasts 3.4 s.
RATES = {"rate": "10Mbps", "other_rate": "2Mbps", "threshold": "50KB"}
ASKED_S, LEAST_S = 2.0, 0.5
# A guest that is emulated beside others takes its time.
PASS_S = 0.02


@pytest.fixture
def bench(cables, tmp_path):
    if reason := linux.why_not():
        pytest.skip(reason)
    return Bench(*cables("linux", ["other"]), tmp_path)


# A guest without a CPU loses frames of its own cable, or sends none while it waits.
@pytest.mark.flaky(reruns=2, only_rerun=["not within 60 s: expected {0:", "frames while class 3 was paused", "TimeoutExpired", machine.StoodStill])
@pytest.mark.parametrize("client", [False, True], ids=["server", "client"])
def test_a_linux_guest(bench, client):
    with bench.switch(client=client, **RATES) as switch:
        bench.wait_until_told("link down")
        with linux.LinuxGuest(bench.socket, QUEUES, server=client) as guest:
            bench.wait_until_told("link up")
            use_all_queues(bench, guest)
            check_queues(bench, guest)
            streams = check_pause_obeyed(bench, guest)
            control = check_pauses_sent(bench, guest)
            finished = switch.stop()
            finished.check_sound()
            assert finished.switch["drops"] == {}
            told = finished.traffic_class("vm", 3)
            assert (told["xoff_rx"], told["pauses_rx"]) == (1, 1)
            assert len(control) == finished.port("vm")["pfc_tx"]
            check_restart(bench, guest, client, streams[0])


def use_all_queues(bench, guest):
    """Linux uses as many queues as it has CPUs until it is told otherwise; the others' classes do without."""
    bench.wait_until_told("queue 0, 1 of 4; frames of class 2, 3, 6, 7 leave by queue 0")
    guest.must_run("ethtool -L eth0 combined 4")
    bench.wait_until_told("queue 0, 1, 2, 3 of 4")


def received(guest):
    """Frames that the guest's driver received, by queue."""
    told = dict(re.findall(r"rx_queue_(\d+)_packets: (\d+)", guest.must_run("ethtool -S eth0")))
    return [int(told[str(queue)]) for queue in range(QUEUES)]


def check_queues(bench, guest):
    counts = {number: 3 * (number + 1) for number in CLASSES}
    before = received(guest)
    for number, count in counts.items():
        stream = Stream(OTHER, GUEST, number)
        for _ in range(count):
            bench.wires["other"].send(stream.next())
    wait_for_frames(guest.cable, counts)
    for queue, (was, now) in enumerate(zip(before, received(guest))):
        expected = sum(count for number, count in counts.items() if number % QUEUES == queue)
        assert now - was == expected, f"queue {queue}"


def check_pause_obeyed(bench, guest):
    """PFC that comes out of the guest stops its class until it is resumed, and no other."""
    guest.cable.clear()
    streams = [Stream(OTHER, GUEST, number) for number in CLASSES]
    start, paused_at, resumed_at = time.monotonic(), None, None
    while resumed_at is None or time.monotonic() < resumed_at + 0.5:
        now = time.monotonic()
        if paused_at is None and now > start + 0.5:
            guest.cable.send(pfc({3: LONGEST}))
            paused_at = time.monotonic()
        if paused_at and not resumed_at and now > paused_at + ASKED_S:
            resumed_at = time.monotonic()
            guest.cable.send(pfc({3: 0}))
        for stream in streams:
            bench.wires["other"].send(stream.next())
        time.sleep(PASS_S)
    wait_for_frames(guest.cable, {number: stream.sent for number, stream in enumerate(streams)})
    arrivals = numbers(guest.cable)
    for number in CLASSES:
        assert [arrival[0] for arrival in arrivals[number]] == list(range(streams[number].sent)), f"class {number}"
    times = [at for _, at in arrivals[3]]
    gap, last, first = max((b - a, a, b) for a, b in zip(times, times[1:]))
    assert first >= resumed_at, f"class 3 went on {resumed_at - first:.3f} s before it was resumed"
    assert gap >= LEAST_S, f"class 3 stood still for {gap:.3f} s, asked for {ASKED_S}"
    for number in CLASSES:
        if number != 3:
            meanwhile = sum(last < at < first for _, at in arrivals[number])
            assert meanwhile >= 5, f"class {number} sent {meanwhile} frames while class 3 was paused"
    return streams


def check_pauses_sent(bench, guest):
    """A queue that grows pauses its class in the guest, and resumes it; a sender that obeys loses nothing."""
    frames = 300
    guest.cable.clear()
    with Recorder(bench.wires["other"]) as recorder:
        stream = Stream(GUEST, OTHER, 3, 1_000)
        for _ in range(frames):
            guest.cable.send_obeying(stream.next(), 3, within=60)
        wait_for_frames(recorder, {3: frames})
    assert [number for number, _ in numbers(recorder)[3]] == list(range(frames))

    def last_is_xon():
        return guest.cable.control and guest.cable.control[-1][1][24:26] == b"\0\0"

    until(last_is_xon, lambda: "no XON at the end")
    control = [frame for _, frame in guest.cable.control]
    read = tshark(control, bench.folder / "guest.pcap")
    for frame in read:
        assert int(frame["eth.type"], 0) == 0x8808 and int(frame["macc.opcode"], 0) == 0x0101, frame
        assert (int(frame["macc.cbfc.enbv"], 0), int(frame["frame.len"])) == (1 << 3, 60), frame
        assert frame["_ws.expert.message"] == "", frame
    times = [int(frame["macc.cbfc.pause_time.c3"], 0) for frame in read]
    assert times[0] == LONGEST and times[-1] == 0 and set(times) == {0, LONGEST}, times
    return control


def check_restart(bench, guest, client, stream):
    """A switch that is started again finds the guest, or is found by it; then the guest is killed."""
    guest.cable.clear()
    with bench.switch(client=client, **RATES) as switch:
        bench.wait_until_told("queue 0, 1, 2, 3 of 4")
        # The link may follow its queues. As a client the switch may be connected before it forwards: its link was never down then.
        until(lambda: bench.count("link up") >= bench.count("link down"), lambda: f"no link: {bench.log}")
        bench.wires["other"].send(stream.next())
        wait_for_frames(guest.cable, {0: 1})
        downs = bench.count("link down")
        guest.close()
        bench.wait_until_told("link down", downs + 1)
        switch.stop().check_sound()
