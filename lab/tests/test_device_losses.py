"""Frames lost before and behind the switch: counted, told, and a failed run where they may have been lossless."""

import contextlib
import json
import re
import signal
import subprocess
import threading
import time

import pytest
from pfc import LONGEST, Stream, pfc, stamp_of

from weirlab.switch import Switch, check_balance, weir_binary
from weirlab.waiting import until
from weirlab.wire import SOL_PACKET, Wire

pytestmark = pytest.mark.root

LOSSLESS_DSCP, LOSSY_DSCP = 3, 10
MACS = {"p0": "02:00:00:00:00:01", "p1": "02:00:00:00:00:02"}
STOPPED_S = 2
FRAMES = 30_000
WITHIN_S = 20
# linux/if_packet.h.
PACKET_QDISC_BYPASS = 20


def config(directory, device, settings=""):
    ports = "".join(f'[[ports]]\nname = "{name}"\n{device} = "sw-{name}"\nrate = "1Gbps"\n' for name in MACS)
    macs = "".join(f'[[static_macs]]\nmac = "{mac}"\nport = "{name}"\n' for name, mac in MACS.items())
    file = directory / "switch.toml"
    file.write_text(f'[switch]\nidle = "sleep"\n[lcores]\nlayout = "single"\n[buffer]\nsize = "12MB"\n{settings}{ports}{macs}')
    return file


def losses(finished, port, direction):
    return finished.port(port)["device_losses"][direction]


def received(finished, port):
    return sum(number["rx_frames"] for number in finished.port(port)["classes"])


def flood_while_stopped(switch, wire, stream):
    """Sends more than any device keeps while the switch does not poll; what the switch left when it ended."""
    switch.suspend()
    for _ in range(FRAMES):
        wire.send(stream.next())
    switch.process.send_signal(signal.SIGCONT)
    time.sleep(2.5)
    return switch.stop()


def check_told(finished, port, direction):
    """Beside the JSON, people are told: in the log, in the table, and by how the command ends."""
    assert f"frames on {direction}" in finished.stderr, finished.stderr
    assert "lost at devices: see the table" in finished.stdout
    assert finished.code == 1 and f"port {port}: its device lost" in finished.stderr, finished.stderr


@pytest.mark.parametrize("device", ["af_xdp", "af_packet"])
def test_what_comes_while_the_switch_does_not_poll_is_lost_and_told(cables, tmp_path, device):
    here, wires = cables(f"stop-{device}", MACS)
    stream = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP)
    with Switch(config(tmp_path, device), namespace=here) as switch:
        for _ in range(50):
            wires["p0"].send(stream.next())
        time.sleep(0.5)
        finished = flood_while_stopped(switch, wires["p0"], stream)
    check_balance(finished.switch)
    lost = losses(finished, "p0", "receive")
    came = received(finished, "p0")
    assert came < stream.sent, "the device's ring has no room for all"
    assert came + lost["frames"] == stream.sent, lost
    assert lost["lossless_at_most"] == lost["frames"]
    check_told(finished, "p0", "receive")


def test_lossy_frames_that_a_device_lost_fail_no_run(cables, tmp_path):
    here, wires = cables("lossy", MACS)
    stream = Stream(MACS["p0"], MACS["p1"], LOSSY_DSCP)
    with Switch(config(tmp_path, "af_xdp", "[classes]\nlossless = []\n"), namespace=here) as switch:
        finished = flood_while_stopped(switch, wires["p0"], stream)
    check_balance(finished.switch)
    assert finished.code == 0 and "its device lost" not in finished.stderr, finished.stderr
    lost = losses(finished, "p0", "receive")
    assert lost["frames"] == stream.sent - received(finished, "p0") > 0
    assert lost["lossless_at_most"] == 0


def test_lossless_frames_that_are_all_lost_before_one_came_fail_the_run(cables, tmp_path):
    """The port takes none of them, so that no frame of a lossless class was ever seen; lossy ones were."""
    here, wires = cables("unseen", MACS)
    file = config(tmp_path, "af_packet")
    file.write_text(file.read_text().replace("[switch]", "[switch]\nmtu = 1000"))
    lossy = Stream(MACS["p0"], MACS["p1"], LOSSY_DSCP)
    lossless = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP, length=1400)
    with Switch(file, namespace=here) as switch:
        for _ in range(100):
            wires["p0"].send(lossy.next())
            wires["p0"].send(lossless.next())
        time.sleep(2.5)
        finished = switch.stop()
    check_balance(finished.switch)
    lost = losses(finished, "p0", "receive")
    assert (received(finished, "p0"), lost["frames"], lost["lossless_at_most"]) == (100, 100, 100), lost
    check_told(finished, "p0", "receive")


def test_frames_with_two_tags_that_all_arrive_are_no_losses(cables, tmp_path):
    """The kernel counts them as dropped, since none of its protocols takes what is behind the outer tag."""
    here, wires = cables("tags", MACS)
    tags = bytes.fromhex("88a8606481006065")
    stream = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP)
    with Switch(config(tmp_path, "af_packet"), namespace=here) as switch:
        for _ in range(400):
            plain = stream.next()
            wires["p0"].send(plain[:12] + tags + plain[12:])
            assert wires["p1"].receive_until(lambda data: data[12:20] == tags, WITHIN_S)
        dropped = int(here.must_run("cat", "/sys/class/net/sw-p0/statistics/rx_dropped"))
        assert dropped >= 400, "the kernel counts them"
        # The device is read once a second.
        time.sleep(1.2)
        finished = switch.stop()
    finished.check_sound()
    lost = losses(finished, "p0", "receive")
    assert (received(finished, "p0"), lost["frames"], lost["complete"]) == (400, 0, True), lost


def test_pfc_for_a_lossy_class_stops_nothing(cables, tmp_path):
    """It is counted, and ignored; lossless classes of the same frame are paused."""
    here, wires = cables("lossy-pfc", MACS)
    file = config(tmp_path, "af_packet", "[classes]\nlossless = [3]\n")
    lossy, lossless = (Stream(MACS["p0"], MACS["p1"], dscp) for dscp in (LOSSY_DSCP, LOSSLESS_DSCP))
    with Switch(file, namespace=here) as switch:
        for _ in range(100):
            wires["p1"].send(pfc({0: LONGEST, 1: LONGEST, 2: LONGEST}))
            wires["p0"].send(lossy.next())
            assert wires["p1"].receive_until(lambda data: stamp_of(data) is not None, WITHIN_S)
        wires["p1"].send(pfc({1: LONGEST, 3: LONGEST}))
        time.sleep(0.2)
        wires["p1"].send(pfc({3: 0}))
        wires["p0"].send(lossless.next())
        assert wires["p1"].receive_until(lambda data: stamp_of(data) is not None, WITHIN_S)
        time.sleep(1.2)
        told = switch.times_said("classes that are lossy here")
        finished = switch.stop()
    finished.check_sound()
    port = finished.port("p1")
    assert (port["pfc_rx"], port["pfc_rx_lossy"], told) == (102, 101, 1), port
    assert finished.traffic_class("p1", 1)["paused_rx_us"] == 0 and finished.traffic_class("p1", 3)["paused_rx_us"] > 0


def test_lossless_frames_that_the_switch_drops_are_told_while_it_goes_on(cables, tmp_path, place):
    """A peer that does not obey PFC: each burst of it is in the log, and among the events."""
    here, wires = cables("drops", MACS)
    file = config(tmp_path, "af_packet", 'policy = "static"\nheadroom = "10KB"\n[buffer.static]\nthreshold = "20KB"\n')
    file.write_text(file.read_text().replace('"12MB"', '"500KB"').replace('sw-p1"\nrate = "1Gbps"', 'sw-p1"\nrate = "1Mbps"'))
    stream = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP, length=1400)
    with Switch(file, namespace=here, arguments=["--control", str(place / "control")]) as switch:
        for burst in (1, 2):
            for _ in range(100):
                wires["p0"].send(stream.next())
            until(lambda: switch.times_said("lossless frames dropped (headroom_violation)") >= burst, f"burst {burst}", WITHIN_S)
            time.sleep(1.2)
        command = [weir_binary(), "show", "events", "--socket", str(place / "control"), "--json"]
        events = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S).stdout)["events"]
        finished = switch.stop()
    dropped = finished.switch["drops"]["headroom_violation"]
    told = [int(number) for number in re.findall(r"(\d+) lossless frames dropped \(headroom_violation\)", finished.stderr)]
    assert len(told) >= 2 and sum(told) == dropped, (told, dropped)
    noted = [event["detail"].split() for event in events if event["event"] == "drop"]
    assert sum(int(frames) for reason, frames in noted if reason == "headroom_violation") == dropped, noted
    assert finished.code == 1


def test_what_a_tap_device_had_no_room_for(cables, tmp_path):
    """The interface is the host's end: what it drops, the port did not receive."""
    here, _ = cables("tap", ["p0"])
    file = config(tmp_path, "af_packet")
    file.write_text(file.read_text().replace('af_packet = "sw-p1"', 'tap = "weir-tap"'))
    stream = Stream(MACS["p1"], MACS["p0"], LOSSLESS_DSCP)
    with Switch(file, namespace=here) as switch:
        here.ip("link", "set", "weir-tap", "up")
        with Wire(here, "weir-tap") as host:
            # Past the queueing discipline, whose drops are its own.
            host.socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
            for _ in range(50):
                host.send(stream.next())
            time.sleep(0.5)
            switch.suspend()
            for _ in range(FRAMES // 10):
                # The interface drops it and says so to the sender.
                with contextlib.suppress(OSError):
                    host.send(stream.next())
            switch.process.send_signal(signal.SIGCONT)
            time.sleep(2.5)
            finished = switch.stop()
    check_balance(finished.switch)
    lost = losses(finished, "p1", "receive")
    assert 0 < received(finished, "p1") == stream.sent - lost["frames"] < stream.sent, lost
    assert lost["complete"] and lost["lossless_at_most"] == lost["frames"], lost
    check_told(finished, "p1", "receive")


def test_a_tap_device_that_is_off_loses_nothing(cables, tmp_path):
    """Its frames are dropped for want of a link, with that reason, and come through when it is on again."""
    here, wires = cables("tap-off", ["p0"])
    file = config(tmp_path, "af_packet")
    file.write_text(file.read_text().replace('af_packet = "sw-p1"', 'tap = "weir-tap"'))
    stream = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP)
    up, down = threading.Event(), threading.Event()

    def note(line):
        if "port=p1" in line and "link up" in line:
            up.set()
        elif "port=p1" in line and "link down" in line:
            down.set()

    with Switch(file, namespace=here, on_line=note) as switch:
        here.ip("link", "set", "weir-tap", "up")
        time.sleep(1)
        here.ip("link", "set", "weir-tap", "down")
        assert down.wait(WITHIN_S)
        up.clear()
        for _ in range(30):
            wires["p0"].send(stream.next())
        time.sleep(0.3)
        here.ip("link", "set", "weir-tap", "up")
        assert up.wait(WITHIN_S)
        with Wire(here, "weir-tap") as host:
            frame = stream.next()
            wires["p0"].send(frame)
            assert host.receive_until(lambda got: got == frame, WITHIN_S)
        finished = switch.stop()
    check_balance(finished.switch)
    assert finished.switch["drops"] == {"port_down": 30}
    assert losses(finished, "p1", "transmit")["frames"] == 0 and finished.code == 0


def test_a_tap_device_has_no_jumbo_frames(tmp_path):
    file = config(tmp_path, "tap")
    file.write_text(file.read_text().replace("[switch]", "[switch]\nmtu = 9000"))
    done = subprocess.run([weir_binary(), "run", file, "--duration", "1"], capture_output=True, text=True, timeout=60)
    text = " ".join(done.stderr.replace("|", " ").split())
    assert done.returncode == 3 and "no frame longer than 1522 B" in text and "switch.toml:" in text, done.stderr


@pytest.mark.parametrize("device", ["af_xdp", "af_packet"])
def test_frames_behind_the_switch_that_its_peer_does_not_take(cables, tmp_path, device):
    """The far end's MTU is lowered: the veth pair drops what is longer, and nobody else counts it."""
    here, wires = cables(f"mtu-{device}", MACS)
    stream = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP, length=1400)
    with Switch(config(tmp_path, device), namespace=here) as switch:
        here.ip("link", "set", "host-p1", "mtu", "1000")
        for _ in range(100):
            wires["p0"].send(stream.next())
        time.sleep(2.5)
        finished = switch.stop()
    check_balance(finished.switch)
    lost = losses(finished, "p1", "transmit")
    assert lost["frames"] == 100 and lost["complete"], lost
    assert lost["lossless_at_most"] == lost["frames"]
    check_told(finished, "p1", "transmit")


def test_the_switchs_own_interface_has_its_mtu_lowered(cables, tmp_path):
    here, wires = cables("own-mtu", MACS)
    forth = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP, length=1400)
    back = Stream(MACS["p1"], MACS["p0"], LOSSLESS_DSCP, length=1400)
    with Switch(config(tmp_path, "af_packet"), namespace=here) as switch:
        wires["p1"].send(back.next())
        time.sleep(0.3)
        here.ip("link", "set", "sw-p1", "mtu", "1000")
        for _ in range(100):
            wires["p0"].send(forth.next())
        time.sleep(0.5)
        for _ in range(100):
            # The veth pair drops it and says so to the sender.
            with contextlib.suppress(OSError):
                wires["p1"].send(back.next())
        time.sleep(2.5)
        finished = switch.stop()
    check_balance(finished.switch)
    lost = losses(finished, "p1", "transmit")
    assert lost["frames"] == 100 and lost["complete"], lost
    assert losses(finished, "p1", "receive")["frames"] == 100
    assert finished.code == 1


def test_nothing_lost_is_said_as_that(cables, tmp_path):
    here, wires = cables("none", MACS)
    stream = Stream(MACS["p0"], MACS["p1"], LOSSLESS_DSCP)
    with Switch(config(tmp_path, "af_xdp"), namespace=here) as switch:
        for _ in range(100):
            wires["p0"].send(stream.next())
        time.sleep(1.5)
        finished = switch.stop()
    check_balance(finished.switch)
    assert "lost at devices: none" in finished.stdout and "lost at devices 0" in finished.stdout
    assert "its device lost" not in finished.stderr, finished.stderr
