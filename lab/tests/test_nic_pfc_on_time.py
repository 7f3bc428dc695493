"""What leaves a NIC ahead of a PFC frame, on DPDK's driver for the 82599: its packet buffer, and none of the data that waits in the ring.

The NIC is held, so that its buffer and ring are as full as they can be whatever the machine does, and frames are counted.
"""

import subprocess

import pytest
from pfc import Stream

from weirlab.emulated_nic import Nic
from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until

pytestmark = pytest.mark.root

WITHIN_S = 60
LOSSY_DSCP, LOSSLESS_DSCP = 0, 26
PFC_OPCODE, LOSSLESS = 0x0101, 3
STATIONS = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
# 82599: its transmit packet buffer, and where it fetches no more (8.2.3.9.16, TXPBTHRESH) less a frame.
PACKET_BUFFER, FETCHED_AT_LEAST = 160 << 10, 140 << 10
# Descriptors of a transmit ring; the driver leaves one free.
RING = 127
MTU = 9216
HEAD = f"""
[switch]
idle = "sleep"
mtu = {MTU}
[lcores]
layout = "single"
[buffer]
size = "16MB"
policy = "static"
headroom = "2MB"
[buffer.static]
threshold = "60KB"
[classes]
lossless = [{LOSSLESS}]
[classes.dscp]
"0-25" = 0
26 = {LOSSLESS}
"27-63" = 0
"""


def shown(path, *what):
    """What `weir show` prints."""
    done = subprocess.run([weir_binary(), "show", *what, "--socket", path], capture_output=True, text=True, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_off(path, port):
    """Whether who sends the lossless class to a port is to pause."""
    labels = [f'port="{port}"', f'priority="{LOSSLESS}"']
    lines = [line for line in shown(path, "metrics").splitlines() if line.startswith("weir_policy_off{")]
    return any(line.endswith(" 1") and all(label in line for label in labels) for line in lines)


def first_xoff(nics):
    """The first frame that pauses the lossless class, as port 0 sent it; None before."""
    of_port = [event for event in nics.events("control_sent") if event["nic"] == nics[0].address]
    return next((event for event in of_port if event["opcode"] == PFC_OPCODE and event["quanta"][LOSSLESS] > 0), None)


def send(wire, ends, dscp, length, frames):
    stream = Stream(*ends, dscp, length)
    for _ in range(frames):
        wire.send(stream.next())


def let_one_leave(nics):
    """Has port 0's NIC send a frame; returns its counters of before."""
    before = nics.counters(0)
    nics.release(0, 1)
    until(lambda: nics.counters(0)["tx_frames"] > before["tx_frames"], lambda: nics.counters(0))
    return before


@pytest.mark.parametrize("length", [1_522, 9_014])
def test_a_pfc_frame_waits_for_the_packet_buffer_alone(wired_nics, place, length):
    nics, (near, far) = wired_nics("82599", Nic(options="held"), Nic(options="held"))
    socket, file = place / "c.sock", place / "switch.toml"
    stations = "".join(f'[[static_macs]]\nmac = "{mac}"\nport = "p{number}"\n' for number, mac in enumerate(STATIONS))
    file.write_text(HEAD + nics.ports() + stations)
    frames = RING + 2 * PACKET_BUFFER // length + 200
    with Switch(file, namespace=nics, arguments=("--quiet", "--control", str(socket))):
        # More data than port 0's NIC takes, which fills its packet buffer each time that a frame leaves.
        send(far, STATIONS[::-1], LOSSY_DSCP, length, frames)
        until(lambda: nics.counters(1)["rx_frames"] >= frames, lambda: nics.counters(1))
        while nics.counters(0)["tx_held_bytes"] < FETCHED_AT_LEAST:
            let_one_leave(nics)
        # More of the lossless class from there than port 1's NIC takes.
        send(near, STATIONS, LOSSLESS_DSCP, length, frames)
        until(lambda: is_off(socket, "p0"), "the lossless class does not come to Xoff")
        before = nics.counters(0)
        while not (xoff := first_xoff(nics)):
            ahead = let_one_leave(nics)
        sent = nics.counters(0)["tx_queue_frames"]
        nics.release(0)
    frames_ahead, bytes_ahead = (ahead[what] - before[what] for what in ("tx_frames", "tx_bytes"))
    assert frames_ahead > 0, "nothing was ahead that could delay it"
    assert bytes_ahead <= PACKET_BUFFER, f"{frames_ahead} frames left first"
    assert xoff["queue"] != sent.index(max(sent)), "the queue of data"
