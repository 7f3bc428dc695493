"""vhost-user ports with a peer that is not ours: DPDK's virtio driver in testpmd, which passes frames on to a cable.

testpmd interprets nothing: what is seen on the cable is what the virtio driver took out of the rings, and what is sent into it
reaches Weir by them.
"""

import subprocess
import time

import pytest
from conftest import need
from pfc import LONGEST, Stream, is_control, pfc, stamp_of

from weirlab import testpmd
from weirlab.switch import Switch
from weirlab.waiting import until
from weirlab.wire import Recorder

pytestmark = pytest.mark.root

GUEST, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
CLASSES = range(8)
QUEUES = 4

CONFIG = """
[switch]
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "4MB"
headroom = "400KB"
policy = "static"
[buffer.static]
threshold = "{threshold}"
[classes]
lossless = [3, 4]
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
name = "vm"
vhost_user = {{ socket = "{socket}", queues = {queues}{more} }}
rate = "{rate}"
mac = "02:00:00:00:0a:01"
[[ports]]
name = "other"
af_packet = "sw-other"
rate = "{other_rate}"
[[static_macs]]
mac = "02:00:00:00:00:01"
port = "vm"
[[static_macs]]
mac = "02:00:00:00:00:02"
port = "other"
"""


@pytest.fixture
def bench(cables, tmp_path):
    """A switch and testpmd's place: `bench.guest()` starts it, `bench.switch()` the switch."""
    if reason := testpmd.why_not():
        pytest.skip(reason)
    return Bench(*cables("vhost", ["vm", "other"]), tmp_path)


class Bench:
    def __init__(self, here, wires, folder):
        self.here, self.wires, self.folder = here, wires, folder
        self.socket = folder / "vm.sock"

    def config(self, queues=QUEUES, client=False, rate="1Gbps", other_rate="1Gbps", threshold="100KB"):
        more = ", client = true" if client else ""
        file = self.folder / "switch.toml"
        text = CONFIG.format(socket=self.socket, queues=queues, more=more, rate=rate, other_rate=other_rate, threshold=threshold)
        file.write_text(text)
        return file

    def switch(self, **options):
        self.log = []
        return Switch(self.config(**options), namespace=self.here, arguments=["--quiet"], on_line=self.log.append)

    def guest(self, pairs=QUEUES, used=None, server=False):
        return testpmd.Testpmd(self.here, self.socket, "sw-vm", pairs, used, server)

    def count(self, text):
        return sum(text in line for line in list(self.log))

    def wait_until_told(self, text, times=1):
        until(lambda: self.count(text) >= times, lambda: f"{text!r} {times} times in {self.log}")


def numbers(recorder):
    """The numbers of the test frames that came, by class."""
    arrived = {number: [] for number in CLASSES}
    for at, frame in list(recorder.frames):
        if stamp := stamp_of(frame):
            arrived[stamp[0]].append((stamp[1], at))
    return arrived


def wait_for_frames(recorder, counts):
    def have():
        return {number: len(arrivals) for number, arrivals in numbers(recorder).items() if arrivals}

    until(lambda: have() == counts, lambda: f"expected {counts}, measured {have()}")


def test_each_class_has_its_queue(bench):
    counts = {number: 10 * (number + 1) for number in CLASSES}
    with bench.switch() as switch, bench.guest() as guest, Recorder(bench.wires["vm"]) as recorder:
        bench.wait_until_told("queue 0, 1, 2, 3 of 4")
        for number, count in counts.items():
            stream = Stream(OTHER, GUEST, number)
            for _ in range(count):
                bench.wires["other"].send(stream.next())
        wait_for_frames(recorder, counts)
        for queue in range(QUEUES):
            expected = sum(count for number, count in counts.items() if number % QUEUES == queue)
            assert guest.received(queue) == expected, f"queue {queue}"
        finished = switch.stop()
    finished.check_sound()
    for number, arrivals in numbers(recorder).items():
        assert [arrival[0] for arrival in arrivals] == list(range(counts[number])), f"class {number}"
    assert (finished.switch["drops"], finished.port("vm")["queue_fallbacks"]) == ({}, 0)


def test_queues_that_the_guest_does_not_use_are_done_without(bench):
    counts = {number: 20 for number in CLASSES}
    with bench.switch() as switch, bench.guest(used=2) as guest, Recorder(bench.wires["vm"]) as recorder:
        bench.wait_until_told("queue 0, 1 of 4; frames of class 2, 3, 6, 7 leave by queue 0")
        for number, count in counts.items():
            stream = Stream(OTHER, GUEST, number)
            for _ in range(count):
                bench.wires["other"].send(stream.next())
        wait_for_frames(recorder, counts)
        assert (guest.received(0), guest.received(1)) == (6 * 20, 2 * 20)
        finished = switch.stop()
    finished.check_sound()
    assert (finished.switch["drops"], finished.port("vm")["queue_fallbacks"]) == ({}, 4 * 20)


def test_all_queues_are_received_from(bench):
    with bench.switch() as switch, bench.guest(), Recorder(bench.wires["other"]) as recorder:
        bench.wait_until_told("queue 0, 1, 2, 3 of 4")
        # testpmd's interface parts flows among its queues, and so among the guest's.
        streams = [Stream(GUEST, OTHER, number) for number in CLASSES]
        for _ in range(50):
            for stream in streams:
                bench.wires["vm"].send(stream.next())
        wait_for_frames(recorder, {number: 50 for number in CLASSES})
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {}


def test_a_guest_with_more_queues_is_told_of(bench):
    with bench.switch(queues=2) as switch, bench.guest():
        bench.wait_until_told("the guest may send by queue 2, and the port has 2")
        switch.stop().check_sound()


@pytest.mark.parametrize("client", [False, True], ids=["server", "client"])
def test_links_follow_the_guest(bench, client):
    """Down until the guest is there, up with it, down when it ends, and up with the next one."""
    stream = Stream(OTHER, GUEST, 3)
    with bench.switch(client=client) as switch, Recorder(bench.wires["vm"]) as recorder:
        bench.wait_until_told("link down")
        bench.wires["other"].send(Stream(OTHER, GUEST, 0).next())
        for round in (1, 2):
            with bench.guest(server=client) as guest:
                bench.wait_until_told("link up", round)
                for _ in range(10):
                    bench.wires["other"].send(stream.next())
                wait_for_frames(recorder, {3: 10 * round})
                guest.quit()
            bench.wait_until_told("link down", round + 1)
            if client:
                # As testpmd leaves it; QEMU removes its own.
                bench.socket.unlink(missing_ok=True)
        finished = switch.stop()
    finished.check_sound()
    # The one frame that was sent while nobody was there.
    assert finished.switch["drops"] == {"port_down": 1}


def test_exactly_the_paused_class_stops_and_resumes(bench):
    """PFC that a guest sends. At 20 Mb/s one pause of 65535 quanta lasts 1.68 s, and is ended by another frame."""
    asked_s, least_s = 0.6, 0.3
    with bench.switch(rate="20Mbps") as switch, bench.guest(), Recorder(bench.wires["vm"]) as recorder:
        bench.wait_until_told("queue 0, 1, 2, 3 of 4")
        streams = [Stream(OTHER, GUEST, number) for number in CLASSES]

        def have_arrived():
            return [len(arrivals) for arrivals in numbers(recorder).values()]

        def send_until(done):
            while not done():
                for _ in range(5):
                    for stream in streams:
                        bench.wires["other"].send(stream.next())
                    time.sleep(0.004)

        def is_alone(number):
            """The class stands while all others have gone on: a busy machine may hold up the PAUSE."""
            arrived = have_arrived()
            standing = arrived.pop(number)
            return min(arrived) >= standing + 5

        send_until(lambda: min(have_arrived()) >= 50)
        bench.wires["vm"].send(pfc({3: LONGEST}))
        send_until(lambda: is_alone(3))
        stood_at = time.monotonic()
        send_until(lambda: time.monotonic() >= stood_at + asked_s)
        resumed_at = time.time_ns()
        bench.wires["vm"].send(pfc({3: 0}))
        send_until(lambda: time.time_ns() >= resumed_at + 400_000_000)
        wait_for_frames(recorder, {number: stream.sent for number, stream in enumerate(streams)})
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {}
    arrivals = numbers(recorder)
    for number in CLASSES:
        assert [arrival[0] for arrival in arrivals[number]] == list(range(streams[number].sent)), f"class {number}"
    times = [at for _, at in arrivals[3]]
    last, first = max(at for at in times if at < resumed_at), min(at for at in times if at >= resumed_at)
    assert first - last >= least_s * 1e9, f"class 3 stood still for {(first - last) / 1e6:.1f} ms, asked for {asked_s * 1e3:.0f}"
    for number in CLASSES:
        if number != 3:
            meanwhile = sum(last < at < first for _, at in arrivals[number])
            assert meanwhile >= 10, f"class {number} sent {meanwhile} frames while class 3 was paused"
    told = finished.traffic_class("vm", 3)
    assert (told["xoff_rx"], told["pauses_rx"], finished.port("vm")["pfc_rx"]) == (1, 1, 2)


def test_a_queue_that_grows_pauses_the_guest(bench):
    """PFC that a guest gets: the right classes, XOFF and XON, as tshark reads them."""
    need("tshark")
    frames = 300
    with bench.switch(other_rate="20Mbps", threshold="50KB") as switch, bench.guest():
        with Recorder(bench.wires["vm"]) as recorder, Recorder(bench.wires["other"]) as other:
            bench.wait_until_told("queue 0, 1, 2, 3 of 4")
            stream = Stream(GUEST, OTHER, 3, 1_000)
            paused = False
            seen = 0
            while stream.sent < frames:
                for _, frame in recorder.frames[seen:]:
                    seen += 1
                    if is_control(frame) and frame[16:18] == b"\x00\x08":
                        paused = frame[24:26] != b"\0\0"
                if paused:
                    time.sleep(0.001)
                else:
                    bench.wires["vm"].send(stream.next())
            wait_for_frames(other, {3: frames})
            # The last message of all resumes.
            until(
                lambda: any(is_control(frame) for _, frame in recorder.frames[-1:]) and recorder.frames[-1][1][24:26] == b"\0\0",
                lambda: "no XON at the end",
            )
            finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {}
    control = [frame for _, frame in recorder.frames if is_control(frame)]
    read = tshark(control, bench.folder / "guest.pcap")
    assert len(read) == len(control) == finished.port("vm")["pfc_tx"]
    for frame in read:
        assert int(frame["eth.type"], 0) == 0x8808 and int(frame["macc.opcode"], 0) == 0x0101, frame
        assert (frame["eth.src"], frame["eth.dst"]) == ("02:00:00:00:0a:01", "01:80:c2:00:00:01"), frame
        assert (int(frame["macc.cbfc.enbv"], 0), int(frame["frame.len"])) == (1 << 3, 60), frame
        assert frame["_ws.expert.message"] == "", frame
    times = [int(frame["macc.cbfc.pause_time.c3"], 0) for frame in read]
    assert times[0] == LONGEST and times[-1] == 0 and set(times) == {0, LONGEST}, times


def tshark(frames, file):
    """tshark's reading of some frames."""
    from scapy.utils import wrpcap

    wrpcap(str(file), frames, linktype=1)
    fields = ["eth.type", "eth.src", "eth.dst", "frame.len", "macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3"]
    fields.append("_ws.expert.message")
    command = ["tshark", "-r", str(file), "-T", "fields", "-E", "separator=;"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [dict(zip(fields, line.split(";"))) for line in done.stdout.splitlines()]
