"""Ports on Linux interfaces through AF_XDP: a clean end, and frames that the switch did not fetch are counted."""

import pathlib
import signal

import pytest
from pfc import Stream

from weirlab.switch import Switch

pytestmark = pytest.mark.root

# The socket's rings have 2,048 places each.
MORE_THAN_A_SOCKET_HOLDS = 6_000
LEFT, RIGHT = "02:00:00:00:00:01", "02:00:00:00:00:02"
CONFIG = """
[switch]
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "4MB"
[[static_macs]]
mac = "02:00:00:00:00:02"
port = "right"
"""


@pytest.fixture
def switch_between(cables, cleanup, tmp_path):
    if not list(pathlib.Path("/usr/lib").glob("*/dpdk/pmds-*/librte_net_af_xdp.so")):
        pytest.skip("DPDK's driver for AF_XDP is not installed")
    here, wires = cables("xdp", ["left", "right"])
    ports = "".join(
        f'[[ports]]\nname = "{name}"\naf_xdp = "sw-{name}"\nrate = "1Gbps"\nflow_control = "none"\n' for name in wires
    )
    config = tmp_path / "xdp.toml"
    config.write_text(CONFIG + ports)
    return here, wires, cleanup.enter_context(Switch(config, namespace=here, arguments=["--quiet"]))


def test_a_clean_end(switch_between):
    _, wires, switch = switch_between
    stream = Stream(LEFT, RIGHT, dscp=0)
    for _ in range(100):
        wires["left"].send(stream.next())
    assert wires["right"].receive_until(lambda frame: frame[:12] == stream.next()[:12], timeout=10)
    finished = switch.stop()
    finished.check_sound()


def test_frames_that_a_stopped_switch_does_not_fetch_are_counted(switch_between):
    here, wires, switch = switch_between
    stream = Stream(LEFT, RIGHT, dscp=0)
    sent = reached = 0
    switch.suspend()
    # On a busy machine the kernel itself loses frames between the two ends of the cable, where no switch can count them.
    while reached < MORE_THAN_A_SOCKET_HOLDS:
        for _ in range(100):
            wires["left"].send(stream.next())
        sent += 100
        reached = sent - int(here.must_run("cat", "/sys/class/net/host-left/statistics/tx_dropped"))
    switch.process.send_signal(signal.SIGCONT)
    while wires["right"].receive(timeout=2):
        pass
    finished = switch.stop()
    missed = finished.port("left")["device_missed"]
    assert missed > 0
    assert finished.switch["frame_conservation"]["received"] + missed == reached
