"""Frames of the shortest length, each of which takes an mbuf: their senders are paused before mbufs are used up."""

import select
import time

import pytest
from pfc import LONGEST, MINIMUM_BYTES, Stream, is_control, pfc

from weirlab import machine
from weirlab.switch import Switch, check_balance

pytestmark = pytest.mark.root

LOSSLESS, LOSSLESS_DSCP, LOSSY_DSCP = 3, 3, 1
RECEIVER = "02:00:00:00:00:01"
SENDERS = {"in": "02:00:00:00:00:10", "beside": "02:00:00:00:00:11"}
# At 1 Gb/s a quantum is 512 ns.
QUANTUM_S = 512e-9
BATCH = 64
# Headroom for 20 ms of what these ports bring: for so long a peer here may be kept from its CPU.
REACTION = "20ms"
WITHIN_S = 60

CONFIG = f"""
[switch]
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "12MB"
lossy_alpha = 16
[classes]
lossless = [{LOSSLESS}]
[pfc]
reaction = "{REACTION}"
[[ports]]
name = "in"
af_packet = "sw-in"
rate = "1Gbps"
[[ports]]
name = "beside"
af_packet = "sw-beside"
rate = "1Gbps"
[[ports]]
name = "out"
af_packet = "sw-out"
rate = "OUT_RATE"
[[static_macs]]
mac = "{RECEIVER}"
port = "out"
"""


class Sender:
    """A host that sends frames of the lossless class, and stops for PFC."""

    def __init__(self, wire, length):
        self._wire = wire
        self.stream = Stream(SENDERS["in"], RECEIVER, LOSSLESS_DSCP, length)
        self.pauses, self._paused_until = 0, 0.0

    def send_batch(self):
        """Sends some frames, if it may; says whether it did."""
        while select.select([self._wire.socket], [], [], 0)[0]:
            received = self._wire.receive(0)
            if received and is_control(received[1]):
                self._obey(received[1])
        if time.monotonic() < self._paused_until:
            time.sleep(0.0005)
            return False
        for _ in range(BATCH):
            self._wire.send(self.stream.next())
        return True

    def _obey(self, frame):
        if frame[17] >> LOSSLESS & 1:
            quanta = int.from_bytes(frame[18 + 2 * LOSSLESS :][:2], "big")
            self._paused_until = time.monotonic() + quanta * QUANTUM_S
            self.pauses += quanta > 0


def config(directory, out_rate):
    file = directory / "short.toml"
    file.write_text(CONFIG.replace("OUT_RATE", out_rate))
    return file


def lossless_drops(finished):
    """Frames of the lossless class that the switch dropped, by reason."""
    return finished.traffic_class("in", LOSSLESS)["drops"]


def test_short_lossless_frames_into_a_port_that_stands_still(cables, tmp_path):
    here, wires = cables("short", [*SENDERS, "out"])
    sender, receiver = Sender(wires["in"], MINIMUM_BYTES), wires["out"]
    with Switch(config(tmp_path, "100Mbps"), namespace=here) as switch:
        until = time.monotonic() + WITHIN_S
        while sender.stream.sent < 48_000 and time.monotonic() < until:
            # The receiver lets nothing pass until the sender was paused, and then all.
            receiver.send(pfc({LOSSLESS: 0 if sender.pauses else LONGEST}))
            sender.send_batch()
        receiver.send(pfc({LOSSLESS: 0}))
        time.sleep(2)
        finished = switch.stop()
    check_balance(finished.switch)
    assert sender.pauses > 0 and finished.traffic_class("in", LOSSLESS)["pauses_tx"] > 0, "no PFC"
    assert lossless_drops(finished) == {}
    lost_at_device = finished.port("in")["device_losses"]["receive"]["frames"]
    came = finished.traffic_class("in", LOSSLESS)["rx_frames"]
    assert came + lost_at_device == sender.stream.sent >= 48_000


# Where the switch had no CPU for longer than its PAUSE lasts, the sender goes on, and more frames come than headroom holds.
@pytest.mark.flaky(reruns=2, only_rerun=["headroom_violation", "TimeoutExpired", machine.StoodStill])
def test_short_lossy_frames_beside_a_lossless_flow(cables, tmp_path):
    here, wires = cables("flood", [*SENDERS, "out"])
    sender = Sender(wires["in"], 1000)
    flood = Stream(SENDERS["beside"], RECEIVER, LOSSY_DSCP, MINIMUM_BYTES)
    with Switch(config(tmp_path, "1Mbps"), namespace=here) as switch:
        for n in range(60_000):
            wires["beside"].send(flood.next())
            # The lossless flow begins when much is queued, and goes on after the flood.
            if n > 30_000 and n % 100 == 0:
                sender.send_batch()
        until = time.monotonic() + 2
        while time.monotonic() < until:
            sender.send_batch()
        finished = switch.stop()
    check_balance(finished.switch)
    lossy = [number for number in finished.port("beside")["classes"] if number["rx_frames"]]
    assert sum(sum(number["drops"].values()) for number in lossy) > 0, "the flood is no load"
    # What stands in a queue when the switch ends is lost then.
    assert lossless_drops(finished).keys() <= {"shutdown"}, lossless_drops(finished)
    assert finished.traffic_class("in", LOSSLESS)["rx_frames"] > 100
    assert sender.pauses > 0, "no PFC"
