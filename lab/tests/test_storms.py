"""Storms and stations: what a port floods is limited, stations that move between ports are reported, and a flood of addresses leaves others' known."""

import json
import subprocess
import time

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from weirlab import netns
from weirlab.switch import Switch, cable_ports, weir_binary
from weirlab.waiting import until
from weirlab.wire import Recorder

pytestmark = pytest.mark.root

WITHIN_S = 20
# A frame of 60 B takes 84 B on the wire: 12 frames a second at the lowest limit.
FLOOD_FPS = 8_000 / 8 / 84
CONFIG = """
[switch]
name = "lab"
idle = "sleep"
fdb_size = 64
{extra}
[lcores]
layout = "single"
[buffer]
size = "4MB"
headroom = "60KB"
"""
BROADCAST = "ff:ff:ff:ff:ff:ff"


def station(number):
    return f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"


def frame(source, destination):
    return bytes(Ether(src=source, dst=destination) / IP() / UDP()).ljust(60, b"\0")


def started(directory, namespace, ports, extra=""):
    file, socket = directory / "switch.toml", directory / "control"
    file.write_text(CONFIG.format(extra=extra) + ports)
    return Switch(file, namespace=namespace, arguments=["--quiet", "--control", str(socket)]), socket


def weir(socket, *command):
    done = subprocess.run([weir_binary(), command[0], "--socket", str(socket), *command[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def events(socket, kind):
    """Port and detail of all events of a kind."""
    found = json.loads(weir(socket, "show", "--json", "events"))["events"]
    return [(event["port"], event["detail"]) for event in found if event["event"] == kind]


def stations(socket):
    (switch,) = json.loads(weir(socket, "show", "--json", "interfaces"))["switches"]
    return {port["port"]: port["stations"] for port in switch["interfaces"]}


def test_a_port_floods_no_more_than_storm_control_allows(cables, tmp_path):
    here, wires = cables("storm", ["a", "b"])
    ports = cable_ports(a="1Gbps", b="1Gbps")
    switch, socket = started(tmp_path, here, ports, 'storm_control = "8Kbps"')
    with switch:
        wires["b"].send(frame(station(2), BROADCAST))
        assert wires["a"].receive_until(lambda got: got[6:12] == bytes.fromhex("020000000002"), WITHIN_S)
        begin = time.monotonic()
        with Recorder(wires["b"]) as recorder:
            for number in range(1_000):
                wires["a"].send(frame(station(1), (BROADCAST, "01:00:5e:01:02:03", station(99))[number % 3]))
                # The last frame of all: it arrives after the flooded ones.
                if number % 10 == 9:
                    wires["a"].send(frame(station(1), station(2)))

            def to_known():
                return sum(got[:6] == bytes.fromhex("020000000002") for _, got in recorder.frames)

            until(lambda: to_known() == 100, to_known, WITHIN_S)
            took = time.monotonic() - begin
            flooded = len(recorder.frames) - 100
        assert 1 <= flooded <= FLOOD_FPS * (took + 0.1) + 2, (flooded, took)
        until(lambda: events(socket, "storm_control"), "an event", WITHIN_S)
        assert [port for port, _ in events(socket, "storm_control")] == ["a"]
        # Without a limit all are flooded.
        weir(socket, "set", "switch.storm_control=default")
        with Recorder(wires["b"]) as recorder:
            for _ in range(500):
                wires["a"].send(frame(station(1), BROADCAST))
            until(lambda: len(recorder.frames) == 500, lambda: len(recorder.frames), WITHIN_S)
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {"storm_control": 1_000 - flooded}


def test_stations_that_move_are_reported(cables, tmp_path):
    here, wires = cables("moves", ["a", "b"])
    switch, socket = started(tmp_path, here, cable_ports(a="1Gbps", b="1Gbps"))
    with switch:
        # A guest that migrates.
        for port in ("a", "b"):
            wires[port].send(frame(station(7), BROADCAST))
            time.sleep(0.1)
        until(lambda: stations(socket)["b"]["moves"] == 1, lambda: stations(socket), WITHIN_S)
        for _ in range(200):
            for port in ("a", "b"):
                wires[port].send(frame(station(8), BROADCAST))
                time.sleep(0.005)
        until(lambda: events(socket, "mac_move"), "an event", WITHIN_S)
        assert events(socket, "mac_move")[0] in [("a", f"{station(8)} b"), ("b", f"{station(8)} a")]
        assert len(events(socket, "mac_move")) == 1
        assert switch.has_said(f"station {station(8)} moves between this port and port")
        until(lambda: stations(socket)["a"]["moves"] >= 100, lambda: stations(socket), WITHIN_S)
        assert "Moves" in weir(socket, "show", "interfaces", "stations")
        switch.stop().check_sound()


def test_a_loop_through_another_switch_is_reported(cables, tmp_path):
    here, wires = cables("loop", ["a"])
    here.ip("link", "add", "foreign", "type", "bridge", "mcast_snooping", "0")
    here.ip("link", "set", "foreign", "up")
    for port in ("b", "c"):
        netns.veth((here, f"sw-{port}"), (here, f"br-{port}"))
        here.ip("link", "set", f"br-{port}", "master", "foreign")
    switch, socket = started(tmp_path, here, cable_ports(a="1Gbps", b="1Gbps", c="1Gbps"), 'storm_control = "1Mbps"')
    with switch:
        wires["a"].send(frame(station(3), BROADCAST))
        until(lambda: events(socket, "mac_move"), "an event", WITHIN_S)
        ((port, detail),) = events(socket, "mac_move")
        assert detail.split()[0] == station(3), detail
        assert {port, detail.split()[1]} <= {"a", "b", "c"}
        # The host at the other port is still served.
        wires["a"].send(frame(station(4), station(3)))
        switch.stop()


def test_a_flood_of_addresses_leaves_others_known(cables, tmp_path):
    here, wires = cables("flood", ["a", "b", "c"])
    ports = cable_ports(a="1Gbps", b="1Gbps", c="1Gbps")
    switch, socket = started(tmp_path, here, ports)
    with switch:
        for number, port in enumerate("bc"):
            wires[port].send(frame(station(number), BROADCAST))
        until(lambda: stations(socket)["c"]["learned"] == 1, lambda: stations(socket), WITHIN_S)
        for number in range(1_000, 3_000):
            wires["a"].send(frame(station(number), station(0)))
        until(lambda: stations(socket)["a"]["learned"] > 200, lambda: stations(socket), WITHIN_S)
        with Recorder(wires["a"]) as attacker, Recorder(wires["c"]) as recorder:
            for _ in range(100):
                wires["b"].send(frame(station(0), station(1)))

            def received(at):
                return sum(got[:12] == frame(station(0), station(1))[:12] for _, got in at.frames)

            until(lambda: received(recorder) == 100, lambda: received(recorder), WITHIN_S)
            time.sleep(0.2)
            assert received(attacker) == 0
        until(lambda: events(socket, "stations_refused"), "an event", WITHIN_S)
        assert [port for port, _ in events(socket, "stations_refused")] == ["a"]
        # No station beyond a maximum is learned.
        weir(socket, "set", "ports.b.stations_max=3")
        for number in range(20_000, 20_010):
            wires["b"].send(frame(station(number), station(1)))
        until(lambda: len(events(socket, "stations_refused")) == 2, "another event", WITHIN_S)
        assert stations(socket)["b"] == {"learned": 3, "max": 3, "refused_frames": 8, "moves": 0}
        switch.stop()
