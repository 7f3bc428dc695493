"""DPDK's drivers for real NICs in the loop: the unchanged switch on emulated 82599s, 82576s and I225s, every frame and every message
counted by the NICs and by the switch alike.

The model's rules are those of datasheets and drivers; each that a result here hangs on is broken on purpose once, and the check finds it.
"""

import os
import pathlib
import shutil
import subprocess
import time

import pytest
from pfc import LONGEST, Stream, is_control, pfc

from weirlab import emulated_nic
from weirlab.emulated_nic import Nic
from weirlab.switch import Switch, check_balance, weir_binary
from weirlab.waiting import until
from weirlab.wire import Recorder

DRIVERS = {"82599": ("net_ixgbe", 10_000), "82576": ("net_e1000_igb", 1_000), "i225": ("net_igc", 2_500)}
KINDS = list(DRIVERS)
# Another speed, as links report it and as the switch writes it.
SLOWER = {"82599": (1_000, "1Gbps", "10Gbps"), "82576": (100, "100Mbps", "1Gbps"), "i225": (1_000, "1Gbps", "2.5Gbps")}
STATIONS = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
ROCE_DSCP = 26
LOSSLESS_CLASS = 3
# A rate at which a pause lasts 336 ms at most.
SLOW = "100Mbps"
MTU = 1_500
TAG = bytes.fromhex("81006064")
# More than a receive queue of these NICs has, and in what steps they are used up.
MOST_DESCRIPTORS, BATCH = 5_000, 500
QUIET_S = 0.3
WITHIN_S = 60
# What has not come by then is taken for lost.
RECEIVE_S = 30
NOBODY = 65_534

HEAD = f"""
[switch]
idle = "sleep"
mtu = {MTU}
[lcores]
layout = "single"
[buffer]
size = "12MB"
headroom = "200KB"
policy = "static"
[buffer.static]
threshold = "{{threshold}}"
[classes]
preset = "roce"
"""


def configuration(nics, rate=None, threshold="1MB"):
    file = nics.place.parent / "switch.toml"
    stations = "".join(f'[[static_macs]]\nmac = "{mac}"\nport = "p{number}"\n' for number, mac in enumerate(STATIONS))
    file.write_text(HEAD.format(threshold=threshold) + nics.ports(rate) + stations)
    return file


def frame(number, length, to, tag=b""):
    """A lossless frame of this length, whose every byte hangs on its number."""
    stream = Stream(STATIONS[1 - to], STATIONS[to], ROCE_DSCP, length - len(tag))
    stream.sent = number
    plain = stream.next()
    filler = bytes((number * 131 + at * 7) & 0xFF for at in range(length))
    return plain[:12] + tag + plain[12:60] + filler[60 + len(tag) : length]


def frames(count, to):
    """Frames of all lengths that the MTU allows, the longest with a tag."""
    lengths = [60, 61, 64, 65, MTU + 14, MTU + 18] + [60 + number * 1237 % (MTU - 45) for number in range(count)]
    return [frame(number, length, to, TAG if length > MTU + 14 else b"") for number, length in enumerate(lengths[:count])]


def receive_all(wire, count):
    """The next frames that are no MAC control frames, in order; fewer where no more come."""
    received = []
    while len(received) < count and (one := wire.receive_until(lambda data: not is_control(data), RECEIVE_S)):
        received.append(one[1])
    return received


def check_identical(wires, count=200):
    """Frames both ways arrive byte for byte and in order."""
    for to in (1, 0):
        sent = frames(count, to)
        for data in sent:
            wires[1 - to].send(data)
        received = receive_all(wires[to], count)
        wrong = [number for number, (is_, was) in enumerate(zip(received, sent)) if is_ != was]
        assert received == sent, f"{len(received)} of {count} frames arrived at port {to}, changed: {wrong[:10]}"
    return 2 * count


def check_counts(nics, finished):
    """The NICs found no fault in what the driver told them, and the switch counted what they did."""
    for number in (0, 1):
        counted, port = nics.counters(number), finished.port(f"p{number}")
        for fault in ("tx_damaged", "tx_unsupported", "dma_faults", "rx_too_long", "tx_cable_refused", "rx_held_bytes", "tx_held_bytes"):
            assert counted[fault] == 0, (number, fault, counted)
        messages = {way: port[f"pfc_{way}"] + port[f"pause_{way}"] for way in ("rx", "tx")}
        data = {way: sum(known[f"{way}_frames"] for known in port["classes"]) for way in ("rx", "tx")}
        for way in ("rx", "tx"):
            assert counted[f"{way}_control_frames"] == messages[way], (number, way, counted)
            assert counted[f"{way}_frames"] == messages[way] + data[way], (number, way, counted, port)
        lost = counted["rx_no_descriptor"] + counted["rx_buffer_full"]
        assert port["device_losses"]["receive"]["frames"] == lost, (number, counted, port["device_losses"])


def check_tried(nics, kind):
    """`weir check --try` passes, with a row of what it found."""
    done = nics.run("check", "--try", str(configuration(nics)))
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    row = [cell.strip() for cell in done.stdout.splitlines()[-1].strip("|").split("|")]
    driver, mbps = DRIVERS[kind]
    assert row[1:3] == [driver, "ordinary pages, virtual addresses"], row
    assert row[3].startswith(f"up, {mbps} Mb/s"), row
    assert "200 of 200" in row[4] and row[5] == "802.1Q, 802.1ad, both" and row[6] == "yes / yes", row
    assert row[7:9] == ["off", "no"], row
    for number in (0, 1):
        counted = nics.counters(number)
        assert counted["dma_faults"] == counted["tx_damaged"] == counted["rx_held_bytes"] == 0, counted
        assert counted["rx_frames"] == nics.counters(1 - number)["tx_frames"] >= 200, counted


@pytest.mark.parametrize("kind", KINDS)
def test_cabled_ports_are_tried(emulated_nics, kind):
    check_tried(emulated_nics(Nic(kind), Nic(kind)), kind)


@pytest.mark.root
def test_no_root_is_needed(emulated_nics, place):
    reachable = all(part.stat().st_mode & 1 for part in pathlib.Path(weir_binary()).parents) and shutil.which("setpriv")
    if not reachable:
        pytest.skip(f"user {NOBODY} can't run {weir_binary()}, or there is no setpriv")
    nics = emulated_nics(Nic(), Nic(), user=NOBODY)
    os.chown(place, NOBODY, NOBODY)
    check_tried(nics, "82599")


def check_pfc(nics, wires, count=300):
    """Every PFC message of the wire reaches the switch."""
    before = nics.counters(1)["rx_wire_frames"]
    for number in range(count):
        wires[1].send(pfc({LOSSLESS_CLASS: LONGEST if number + 1 < count else 0}))
    until(lambda: nics.counters(1)["rx_wire_frames"] == before + count, lambda: nics.counters(1), WITHIN_S)
    assert nics.counters(1)["rx_control_frames"] == count, nics.counters(1)


def check_backlog(nics, wires):
    """A paused receiver's frames fill the switch's queue, and their sender is told, by messages that the NIC sent."""
    wires[1].send(pfc({LOSSLESS_CLASS: LONGEST}))
    until(lambda: nics.counters(1)["rx_control_frames"] == 1, lambda: nics.counters(1), WITHIN_S)
    sent = [frame(number, 1_000, 1) for number in range(100)]
    with Recorder(wires[0]) as at_sender:
        for number, data in enumerate(sent):
            wires[0].send(data)
            if number % 10 == 9:
                wires[1].send(pfc({LOSSLESS_CLASS: LONGEST}))
        until(lambda: nics.counters(0)["tx_control_frames"] > 0, lambda: nics.counters(0), WITHIN_S)
        wires[1].send(pfc({LOSSLESS_CLASS: 0}))
        assert receive_all(wires[1], len(sent)) == sent
        time.sleep(QUIET_S)
    messages = [data for _, data in at_sender.frames if is_control(data)]
    assert len(messages) == nics.counters(0)["tx_control_frames"] >= 2, (len(messages), nics.counters(0))
    assert len(nics.events("control_sent")) == len(messages)
    for message in messages:
        assert (len(message), message[:6], message[14:18]) == (60, bytes.fromhex("0180c2000001"), bytes.fromhex("01010008"))


@pytest.mark.root
@pytest.mark.parametrize("kind", KINDS)
def test_frames_and_pfc_both_ways(wired_nics, kind):
    nics, wires = wired_nics(kind)
    with Switch(configuration(nics, SLOW, threshold="20KB"), namespace=nics) as switch:
        check_backlog(nics, wires)
        paused = nics.counters(1)["rx_control_frames"]
        check_identical(wires)
        time.sleep(QUIET_S)
        finished = switch.stop()
    finished.check_sound()
    check_counts(nics, finished)
    assert finished.port("p0")["pfc_tx"] > 0 and finished.port("p1")["pfc_rx"] == paused
    assert finished.traffic_class("p1", LOSSLESS_CLASS)["paused_rx_us"] > 0


@pytest.mark.root
@pytest.mark.parametrize("kind", KINDS)
def test_links_are_followed(wired_nics, kind):
    nics, wires = wired_nics(kind)
    mbps, now, before = SLOWER[kind]
    with Switch(configuration(nics, rate=""), namespace=nics) as switch:
        until(lambda: switch.times_said(f"the port has its link's rate, {before}") == 2, "both rates", WITHIN_S)
        check_identical(wires, 20)
        nics.down(1)
        until(lambda: switch.has_said("link down"), "the link is down", WITHIN_S)
        for number in range(50):
            wires[0].send(frame(number, 100, 1))
        time.sleep(QUIET_S)
        nics.up(1)
        until(lambda: switch.has_said("link up"), "the link is up", WITHIN_S)
        # A busy machine may have kept some of the frames back until now.
        late = 0
        while wires[1].receive(QUIET_S):
            late += 1
        check_identical(wires, 20)
        nics.speed(1, mbps)
        until(lambda: switch.has_said(f"the port has its link's new rate, {now} (was {before})"), "the new speed", WITHIN_S)
        check_identical(wires, 20)
        time.sleep(QUIET_S)
        finished = switch.stop()
    assert finished.code == 0, finished.stderr
    check_balance(finished.switch)
    check_counts(nics, finished)
    assert late < 50 and finished.switch["drops"] == {"port_down": 50 - late}
    assert finished.port("p1")["link_up"]


@pytest.mark.root
def test_a_killed_switch_starts_again(wired_nics):
    nics, wires = wired_nics("82599")
    file = configuration(nics)
    with Switch(file, namespace=nics) as switch:
        check_identical(wires, 50)
        switch.process.kill()
        switch.process.wait()
    with Switch(file, namespace=nics) as switch:
        check_identical(wires, 50)
        finished = switch.stop()
    finished.check_sound()
    check_counts(nics, finished)


def check_waits_for_descriptors(nics, wires):
    """Frames that find no descriptor wait in the NIC's packet buffer, and none is lost."""
    nics.stop_descriptors(0)
    sent, plain = [], frame(0, 64, 1)
    begun = nics.counters(0)["rx_wire_frames"]
    while not (waiting := nics.counters(0)["rx_held_bytes"]) and len(sent) < MOST_DESCRIPTORS:
        for _ in range(BATCH):
            sent.append(plain[:60] + len(sent).to_bytes(4))
            wires[0].send(sent[-1])
        until(lambda: nics.counters(0)["rx_wire_frames"] >= begun + len(sent), lambda: nics.counters(0), WITHIN_S)
    nics.resume_descriptors(0)
    assert waiting > 0, nics.counters(0)
    assert receive_all(wires[1], len(sent)) == sent, nics.counters(0)


@pytest.mark.root
@pytest.mark.parametrize("kind", KINDS)
def test_frames_wait_for_descriptors(wired_nics, kind):
    nics, wires = wired_nics(kind)
    with Switch(configuration(nics), namespace=nics) as switch:
        check_waits_for_descriptors(nics, wires)
        time.sleep(QUIET_S)
        finished = switch.stop()
    finished.check_sound()
    check_counts(nics, finished)


@pytest.mark.parametrize("mutant", [None, "pmcf-ignored", "drop-en-inverted", "one-kib-less"])
def test_the_models_rules(emulated_nics, mutant):
    """By registers and descriptors alone, without DPDK (dpdk-io/emulated-nic/tests/rules.c)."""
    nics = emulated_nics(Nic(options="held"), Nic())
    environment = os.environ | {"EMULATED_NICS": str(nics.place / "set-up")} | ({"EMULATED_NIC_MUTANT": mutant} if mutant else {})
    program = pathlib.Path(emulated_nic.library()).with_name("rules")
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=WITHIN_S)
    assert (done.returncode == 0) == (mutant is None), done.stderr
    assert mutant is None or "not so" in done.stderr, done.stderr


# What breaks a rule of the NIC's, and the check above that finds it.
MUTANTS = {
    "pmcf-ignored": check_pfc,
    "drop-en-inverted": check_waits_for_descriptors,
    "one-kib-less": lambda _, wires: check_identical(wires),
}


@pytest.mark.root
@pytest.mark.parametrize("mutant", [None, *MUTANTS])
@pytest.mark.parametrize("kind", ["82599"])
def test_a_broken_rule_is_found(wired_nics, kind, mutant):
    """Without a mutant all checks pass; with one the check of its rule does not."""
    nics, wires = wired_nics(kind, mutant=mutant)
    with Switch(configuration(nics), namespace=nics):
        for broken, check in MUTANTS.items():
            if mutant is None:
                check(nics, wires)
            elif mutant == broken:
                with pytest.raises(AssertionError):
                    check(nics, wires)
