"""The PFC and PAUSE frames that a congested switch sends, as tshark and scapy read them on the sender's cable."""

import subprocess
import time

import pytest
from conftest import need
from pfc import LONGEST, MINIMUM_BYTES, Stream, is_control, pfc, stamp_of
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from weirlab.switch import Switch

pytestmark = pytest.mark.root

RECEIVER, SENDER = "02:00:00:00:00:01", "02:00:00:00:00:10"
PORT_MAC = "02:00:00:00:0a:01"
QUANTA, REFRESH_PERCENT = 40_000, 40
# At 100 Mb/s a quantum is 5.12 us.
PAUSE_S = QUANTA * 5.12e-6
REFRESH_S = PAUSE_S * REFRESH_PERCENT / 100
FRAME_BYTES = 1_000
# With FCS, as the buffer counts them.
CHARGED_BYTES = FRAME_BYTES + 4
FRAMES_TO_XOFF = 20
# A frame's way through veth pairs when the kernel is busy.
KERNEL_S = 0.005
# Long against all delays here: what has not come by then does not come.
QUIET_S = 0.3
WAIT_S = 5

CONFIG = f"""
[switch]
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "2MB"
headroom = "60KB"
policy = "static"
[buffer.static]
threshold = "{FRAMES_TO_XOFF * CHARGED_BYTES}B"
[pfc]
quanta = {QUANTA}
refresh_percent = {REFRESH_PERCENT}
[[ports]]
name = "in"
af_packet = "sw-in"
rate = "100Mbps"
mac = "{PORT_MAC}"
flow_control = "FLOW_CONTROL"
[[ports]]
name = "out"
af_packet = "sw-out"
rate = "100Mbps"
[[static_macs]]
mac = "{RECEIVER}"
port = "out"
"""

FIELDS = ["frame.time_epoch", "frame.len", "eth.src", "eth.dst", "eth.type", "_ws.expert.message"]
FIELDS += ["macc.opcode", "macc.pause_time", "macc.cbfc.enbv"]
TIMES = [f"macc.cbfc.pause_time.c{number}" for number in range(8)]


class Capture:
    """tcpdump on an interface, for MAC control frames that come in there; `frames` are tshark's reading of them."""

    def __init__(self, namespace, interface, file):
        self._file = file
        command = ["tcpdump", "-i", interface, "-Q", "in", "-U", "--immediate-mode", "-w", str(file), "ether proto 0x8808"]
        self._process = subprocess.Popen(namespace.command(*command), stderr=subprocess.PIPE, text=True)
        for line in self._process.stderr:
            if "listening on" in line:
                return
        raise RuntimeError("tcpdump does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.stderr.read()
        self._process.wait()

    def frames(self):
        command = ["tshark", "-r", str(self._file), "-T", "fields", "-E", "separator=;"]
        for field in FIELDS + TIMES:
            command += ["-e", field]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [dict(zip(FIELDS + TIMES, line.split(";"))) for line in done.stdout.splitlines()]


class Bench:
    """A sender and a receiver on a switch; the receiver lets nothing pass for as long as the test wants."""

    def __init__(self, wires, streams):
        self._in, self._out, self._streams = wires["in"], wires["out"], streams
        self._paused, self._repeat_at = {}, None

    def pause_receiver(self, numbers):
        self._paused = {number: LONGEST for number in numbers}
        self._tell()
        time.sleep(QUIET_S / 3)

    def resume_receiver(self, numbers):
        for number in numbers:
            self._paused.pop(number)
        self._out.send(pfc({number: 0 for number in numbers} | self._paused))

    def _tell(self):
        self._out.send(pfc(self._paused))
        self._repeat_at = time.monotonic() + 0.1

    def send(self, number, frames):
        for _ in range(frames):
            self._in.send(self._streams[number].next())
            time.sleep(0.001)

    def arrive(self, number, frames):
        """Waits until so many frames of a class have come to the receiver."""

        def of_class(frame):
            stamp = stamp_of(frame)
            return stamp is not None and stamp[0] == self._streams[number].dscp

        for n in range(frames):
            assert self._out.receive_until(of_class, WAIT_S), f"{n} of {frames} frames"

    def control(self, timeout):
        """The next control frame that the sender receives, or None; the receiver stays paused meanwhile."""
        deadline = time.monotonic() + timeout
        while (now := time.monotonic()) < deadline:
            if self._paused and now >= self._repeat_at:
                self._tell()
            if received := self._in.receive_until(is_control, 0.02):
                return received[1]
        return None


@pytest.fixture
def rig(cables, tmp_path):
    """A switch with a bench around it, and a capture on the sender's cable."""
    need("tcpdump")
    need("tshark")
    here, wires = cables("wire", ["in", "out"])
    streams = {number: Stream(SENDER, RECEIVER, dscp, FRAME_BYTES) for number, dscp in ((1, 1), (3, 3), (4, 4))}

    def run(script, flow_control="pfc"):
        config = tmp_path / "congested.toml"
        config.write_text(CONFIG.replace("FLOW_CONTROL", flow_control))
        file = tmp_path / "sender.pcap"
        with Capture(here, "host-in", file) as capture, Switch(config, namespace=here, arguments=["--quiet"]) as switch:
            script(Bench(wires, streams))
            finished = switch.stop()
        finished.check_sound()
        assert finished.switch["drops"] == {}
        return finished, capture.frames(), file

    return run


def check_frame(frame, opcode):
    """What every flow-control frame of this port looks like."""
    assert int(frame["macc.opcode"], 0) == opcode
    assert int(frame["eth.type"], 0) == 0x8808
    assert frame["eth.src"] == PORT_MAC
    assert frame["eth.dst"] == "01:80:c2:00:00:01"
    # 64 with the FCS, which no capture shows.
    assert int(frame["frame.len"]) == MINIMUM_BYTES
    assert frame["_ws.expert.message"] == "", "tshark finds fault with it"


def times_of(frame):
    """The pause times of the classes that a PFC frame enables."""
    enabled = int(frame["macc.cbfc.enbv"], 0)
    return {number: int(frame[TIMES[number]], 0) for number in range(8) if enabled >> number & 1}


def check_refreshes(frames, finished):
    """PAUSEs are repeated after the configured share of their time: not more often, and later only by what the switch was not polled."""
    times = [float(frame["frame.time_epoch"]) for frame in frames]
    slack = 2 * finished.poll_gap_s() + KERNEL_S
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert len(gaps) >= 4, times
    assert all(REFRESH_S - slack < gap < REFRESH_S + slack for gap in gaps), (gaps, REFRESH_S, slack)


def congest(bench, number):
    """Fills class `number` to its threshold: the last frame that fits brings the PAUSE, and none before."""
    bench.send(number, FRAMES_TO_XOFF - 1)
    assert bench.control(QUIET_S) is None, "PAUSE below the threshold"
    bench.send(number, 1)
    assert bench.control(WAIT_S), "no PAUSE at the threshold"


def test_pause_refresh_resume_of_the_congested_class_alone(rig):
    def script(bench):
        bench.pause_receiver([3])
        congest(bench, 3)
        # Frames still under way go to the headroom.
        bench.send(3, 10)
        for _ in range(6):
            assert bench.control(WAIT_S), "no refresh"
        bench.resume_receiver([3])
        while not bench.control(WAIT_S)[24:26] == b"\0\0":
            pass
        assert bench.control(QUIET_S) is None, "nothing is to be said after RESUME"

    finished, frames, file = rig(script)
    for frame in frames:
        check_frame(frame, opcode=0x0101)
        assert int(frame["macc.cbfc.enbv"], 0) == 1 << 3
    *pauses, resume = frames
    assert all(times_of(frame) == {3: QUANTA} for frame in pauses), pauses
    assert times_of(resume) == {3: 0}
    check_refreshes(pauses, finished)

    counted = finished.traffic_class("in", 3)
    assert (counted["xoff_tx"], counted["xon_tx"], counted["pauses_tx"]) == (len(pauses), 1, 1)
    assert counted["headroom_max_bytes"] == 10 * CHARGED_BYTES
    assert counted["shared_max_bytes"] == FRAMES_TO_XOFF * CHARGED_BYTES
    assert finished.port("in")["pfc_tx"] == len(frames)
    assert finished.port("out")["pfc_tx"] == 0

    # scapy reads the same.
    for packet, frame in zip(rdpcap(str(file)), frames, strict=True):
        assert isinstance(packet, Ether) and packet.src == PORT_MAC
        control = packet[MACControlClassBasedFlowControl]
        enabled = {number: control.getfieldval(f"c{number}_pause_time") for number in range(8) if control.getfieldval(f"c{number}_enabled")}
        assert enabled == times_of(frame)
        assert bytes(packet)[34:] == bytes(26), "zeros pad the frame"


def test_two_congested_classes_are_told_together_and_resumed_apart(rig):
    def script(bench):
        bench.pause_receiver([3, 4])
        congest(bench, 3)
        bench.send(4, FRAMES_TO_XOFF)
        while bench.control(WAIT_S)[17] != 0b11000:
            pass
        bench.resume_receiver([4])
        while bench.control(WAIT_S)[26:28] != b"\0\0":
            pass
        bench.control(WAIT_S)
        bench.resume_receiver([3])
        while bench.control(WAIT_S)[24:26] != b"\0\0":
            pass

    finished, frames, _ = rig(script)
    told = []
    for frame in frames:
        check_frame(frame, opcode=0x0101)
        if times_of(frame) not in told:
            told.append(times_of(frame))
    # A frame that resumes 4 may refresh 3 with it; a class that runs is no longer named.
    assert told == [{3: QUANTA}, {3: QUANTA, 4: QUANTA}, {3: QUANTA, 4: 0}, {3: 0}], told
    for number in (3, 4):
        counted = finished.traffic_class("in", number)
        assert (counted["xon_tx"], counted["pauses_tx"]) == (1, 1)


def test_a_lossy_class_brings_no_pause(rig):
    def script(bench):
        bench.pause_receiver([1])
        bench.send(1, 3 * FRAMES_TO_XOFF)
        assert bench.control(QUIET_S) is None
        bench.resume_receiver([1])
        bench.arrive(1, 3 * FRAMES_TO_XOFF)

    finished, frames, _ = rig(script)
    assert frames == []
    assert finished.traffic_class("out", 1)["tx_frames"] == 3 * FRAMES_TO_XOFF


def test_a_port_of_802_3x_pauses_the_whole_link(rig):
    def script(bench):
        bench.pause_receiver([3])
        congest(bench, 3)
        for _ in range(5):
            assert bench.control(WAIT_S), "no refresh"
        bench.resume_receiver([3])
        while bench.control(WAIT_S)[16:18] != b"\0\0":
            pass
        assert bench.control(QUIET_S) is None

    finished, frames, _ = rig(script, flow_control="pause")
    for frame in frames:
        check_frame(frame, opcode=0x0001)
    *pauses, resume = frames
    assert all(int(frame["macc.pause_time"], 0) == QUANTA for frame in pauses)
    assert int(resume["macc.pause_time"], 0) == 0
    check_refreshes(pauses, finished)
    assert (finished.port("in")["pause_tx"], finished.port("in")["pfc_tx"]) == (len(frames), 0)
