"""Frames that a NIC loses: counted by the NIC and by the switch alike, told while they go on, and a failed run where they may be lossless."""

import json
import re
import subprocess
import time

import pytest
from pfc import Stream

from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until

pytestmark = pytest.mark.root

KINDS = ["82599", "82576", "i225"]
STATIONS = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
ROCE_DSCP = 26
BATCH = 500
MOST_FRAMES = 60_000
WITHIN_S = 20
HEAD = """
[switch]
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "12MB"
[classes]
lossless = [{lossless}]
"""


def configuration(nics, lossless):
    file = nics.place.parent / "switch.toml"
    stations = "".join(f'[[static_macs]]\nmac = "{mac}"\nport = "p{number}"\n' for number, mac in enumerate(STATIONS))
    headroom = 'headroom = "200KB"\n' if lossless else ""
    file.write_text(HEAD.format(lossless=lossless).replace("[classes]", headroom + "[classes]") + nics.ports() + stations)
    return file


def lost_by(nics):
    counted = nics.counters(0)
    return counted["rx_buffer_full"] + counted["rx_no_descriptor"]


def lose(nics, wire, stream):
    """Sends until frames find neither a descriptor nor room in the NIC's packet buffer, then has them go on."""
    nics.stop_descriptors(0)
    before = lost_by(nics)
    while lost_by(nics) < before + BATCH and stream.sent < MOST_FRAMES:
        begun = nics.counters(0)["rx_wire_frames"]
        for _ in range(BATCH):
            wire.send(stream.next())
        until(lambda: nics.counters(0)["rx_wire_frames"] >= begun + BATCH, lambda: nics.counters(0), WITHIN_S)
    nics.resume_descriptors(0)
    assert lost_by(nics) > before, nics.counters(0)


def device_losses_among_events(control):
    command = [weir_binary(), "show", "events", "--socket", str(control), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    return [event for event in json.loads(done.stdout)["events"] if event["event"] == "device_lost"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_finds_no_descriptor_is_counted_and_told_each_time(wired_nics, place, kind):
    nics, wires = wired_nics(kind)
    stream = Stream(*STATIONS, ROCE_DSCP, 1_400)
    log = re.compile(r"the device lost (\d+) frames on receive")
    with Switch(configuration(nics, 3), namespace=nics, arguments=["--control", str(place / "control")]) as switch:
        for turn in (1, 2):
            lose(nics, wires[0], stream)
            until(lambda: switch.times_said("the device lost") >= turn, f"loss {turn} is told", WITHIN_S)
            # The device is read once a second.
            time.sleep(1.2)
        events = device_losses_among_events(place / "control")
        finished = switch.stop()
    lost = finished.port("p0")["device_losses"]["receive"]
    assert lost["frames"] == lost["lossless_at_most"] == lost_by(nics), (lost, nics.counters(0))
    assert lost["complete"] and lost["by_cause"] == {"receive_queue_full": lost["frames"]}, lost
    assert sum(int(found[1]) for found in log.finditer(finished.stderr)) == lost["frames"], finished.stderr
    assert sum(int(event["detail"].split()[-1]) for event in events) == lost["frames"], events
    assert finished.code == 1 and "port p0: its device lost" in finished.stderr, finished.stderr
    received = sum(known["rx_frames"] for known in finished.port("p0")["classes"])
    assert received + lost["frames"] == stream.sent


def test_lossy_frames_that_a_nic_lost_fail_no_run(wired_nics):
    nics, wires = wired_nics("82599")
    with Switch(configuration(nics, ""), namespace=nics) as switch:
        lose(nics, wires[0], Stream(*STATIONS, ROCE_DSCP, 1_400))
        time.sleep(1.2)
        finished = switch.stop()
    assert finished.port("p0")["device_losses"]["receive"]["frames"] == lost_by(nics) > 0
    assert finished.code == 0, finished.stderr
