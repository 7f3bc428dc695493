"""Linux hosts in namespaces joined by the switch: ARP, neighbour discovery, ping, TCP by iperf3."""

import contextlib
import json
import os

import pytest
from conftest import need
from pfc import Stream, stamp_of

from weirlab.lab import PAYLOAD_MTU, SCENARIOS, Hosts, Iperf3
from weirlab.switch import Switch, weir_binary
from weirlab.wire import Recorder, Wire

pytestmark = pytest.mark.root

SECONDS = 2
PORT_RATE_GBPS = 1.0
SEGMENT_BYTES = 1448
# TCP's share of a 1538-byte slot on the wire, with timestamps.
GOODPUT_MAX_GBPS = PORT_RATE_GBPS * SEGMENT_BYTES / 1538
# What a machine with two busy cores still carries; a broken path carries nothing.
GOODPUT_MIN_GBPS = 0.05
# TCP also repeats what was only late: for each drop once more, and this share of all segments.
LATE_SHARE = 0.01
# Headers of IPv4 and ICMP.
PING_HEADERS_BYTES = 28


@pytest.fixture
def lab(cleanup):
    def make(hosts):
        need("ping")
        return cleanup.enter_context(Hosts(f"weir-{os.getpid()}", hosts))

    return make


def check_rate(gbps):
    """Not faster than the port, and not stuck."""
    assert GOODPUT_MIN_GBPS < gbps < GOODPUT_MAX_GBPS * 1.02


def check_ends_well(finished, transfers=()):
    """Frames are conserved, only a lossy queue that was full has lost anything, and TCP repeated no more than that."""
    finished.check_sound()
    drops = finished.switch["drops"]
    assert set(drops) <= {"egress_threshold"}, drops
    segments = sum(result["bytes"] for result in transfers) / SEGMENT_BYTES
    retransmits = sum(result["retransmits"] for result in transfers)
    assert retransmits <= 2 * sum(drops.values()) + LATE_SHARE * segments, (transfers, drops)


@pytest.mark.parametrize("count", [2, 4])
def test_ping_and_arp(lab, count):
    net = lab(count)
    with net.run_switch(arguments=["--quiet"]) as switch:
        for here in net.hosts:
            for there in net.hosts:
                if here is not there:
                    assert len(here.ping(there, count=3)) == 3, f"{here.name} to {there.name}"
                    assert len(here.ping(there, count=2, ipv6=True)) == 2, f"{here.name} to {there.name}, IPv6"
                    known = here.neighbours()
                    assert known[there.address] == known[there.address6] == there.mac()
        first, second = net.hosts[:2]
        assert len(first.ping(second, count=3, size=PAYLOAD_MTU - PING_HEADERS_BYTES)) == 3, "frames of the MTU"
        finished = switch.stop()
    check_ends_well(finished)
    assert finished.switch["drops"] == {}
    assert finished.switch["frame_conservation"]["copied"] > 0 or count == 2, "ARP requests are flooded"


@pytest.mark.idle_machine
def test_a_learned_address_is_not_flooded_and_one_that_moves_is_followed(lab):
    net = lab(4)
    for host in net.hosts:
        host.namespace.be_silent()
        host.namespace.ip("address", "flush", "dev", "eth0")
    addresses = [f"02:00:00:00:00:0{n}" for n in range(4)]
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(net.run_switch(arguments=["--quiet"]))
        wires = [stack.enter_context(Wire(host.namespace, "eth0")) for host in net.hosts]

        def reaches(sender, source, destination):
            """The hosts that a frame reaches."""
            frame = Stream(addresses[source], addresses[destination], dscp=0).next()
            recorders = [Recorder(wire) for wire in wires]
            with contextlib.ExitStack() as recording:
                for recorder in recorders:
                    recording.enter_context(recorder)
                wires[sender].send(frame)
            return [n for n, recorder in enumerate(recorders) if any(stamp_of(got) for _, got in recorder.frames)]

        assert reaches(0, source=0, destination=1) == [1, 2, 3], "unknown: flooded"
        assert reaches(1, source=1, destination=0) == [0], "learned"
        assert reaches(2, source=2, destination=1) == [1], "for all ports"
        assert reaches(0, source=0, destination=0) == [], "to where it comes from"
        assert reaches(3, source=1, destination=0) == [0], "host 1 moves to port 3"
        assert reaches(0, source=0, destination=1) == [3], "and is found there"
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {"same_port": 1}


@pytest.mark.idle_machine
@pytest.mark.parametrize("reverse", [False, True], ids=["forth", "back"])
def test_tcp_between_two_hosts(lab, reverse):
    need("iperf3")
    net = lab(2)
    with net.run_switch(arguments=["--quiet"]) as switch:
        with Iperf3(*net.hosts, seconds=SECONDS, reverse=reverse) as iperf3:
            result = iperf3.result()
        finished = switch.stop()
    check_rate(result["gbps"])
    check_ends_well(finished, [result])


@pytest.mark.idle_machine
def test_tcp_both_ways_at_once(lab):
    need("iperf3")
    net = lab(2)
    with net.run_switch(arguments=["--quiet"]) as switch:
        with Iperf3(*net.hosts, seconds=SECONDS, port=5201) as forth:
            with Iperf3(*net.hosts, seconds=SECONDS, port=5202, reverse=True) as back:
                results = forth.result(), back.result()
        finished = switch.stop()
    for result in results:
        check_rate(result["gbps"])
    check_ends_well(finished, results)


@pytest.mark.idle_machine
def test_three_senders_into_one_receiver(lab):
    need("iperf3")
    net = lab(4)
    receiver, *senders = net.hosts
    with net.run_switch(arguments=["--quiet"]) as switch:
        with contextlib.ExitStack() as stack:
            transfers = [
                stack.enter_context(Iperf3(sender, receiver, seconds=SECONDS, port=5201 + n))
                for n, sender in enumerate(senders)
            ]
            results = [transfer.result() for transfer in transfers]
        finished = switch.stop()
    check_rate(sum(result["gbps"] for result in results))
    assert all(result["bytes"] > 0 for result in results), results
    check_ends_well(finished, results)


def test_tap_ports_come_and_go_with_the_switch(namespace, tmp_path):
    here = namespace("tap")
    config = tmp_path / "tap.toml"
    ports = "".join(f'[[ports]]\nname = "t{n}"\ntap = "weir-t{n}"\nrate = "1Gbps"\n' for n in range(2))
    config.write_text('[buffer]\nsize = "1MB"\n' + ports)
    with Switch(config, namespace=here, arguments=["--quiet"]) as switch:
        assert {"weir-t0", "weir-t1"} <= interfaces(here)
        finished = switch.stop()
    finished.check_sound()
    assert interfaces(here) == {"lo"}


def test_check_finds_all_that_a_scenario_names(lab):
    net = lab(2)
    done = net.switch.run(weir_binary(), "check", str(SCENARIOS[2]))
    assert done.returncode == 0, done.stderr
    assert "everything that the configuration names is on this machine" in done.stdout


def interfaces(namespace):
    return {entry["ifname"] for entry in json.loads(namespace.ip("-json", "link"))}
