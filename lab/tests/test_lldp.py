"""LLDP and DCBX as tshark and lldpd read them, lldpd as a neighbour, and two ports of one switch that a cable or a bridge joins."""

import json
import os
import subprocess
import time

import pytest
from conftest import need
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from weirlab import netns
from weirlab.switch import Switch, cable_ports, check_balance, weir_binary
from weirlab.waiting import until
from weirlab.wire import Recorder

pytestmark = pytest.mark.root

WITHIN_S = 20
ETHERTYPE = b"\x88\xcc"
LOOP_GUARD_ETHERTYPE = b"\x88\xb5"
TOKEN = slice(14, 22)
CONFIG = """
[switch]
name = "lab"
idle = "sleep"
lldp = true
[lcores]
layout = "single"
[buffer]
size = "4MB"
headroom = "60KB"
[classes]
lossless = [3, 4]
[classes.dscp]
26 = 4
[[classes.queues]]
class = 3
weight = 4
[[classes.queues]]
class = 6
strict = true
"""


def started(directory, ports, namespace):
    file, socket = directory / "switch.toml", directory / "control"
    file.write_text(CONFIG + ports)
    return Switch(file, namespace=namespace, arguments=["--quiet", "--control", str(socket)]), socket


def show(socket, *view):
    """What `weir show` prints."""
    done = subprocess.run([weir_binary(), "show", "--socket", str(socket), *view], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ports(socket):
    """LLDP by port."""
    (switch,) = json.loads(show(socket, "--json", "lldp", "neighbors"))["switches"]
    return {port["port"]: port for port in switch["lldp"]}


def test_tshark_reads_every_tlv(cables, tmp_path):
    need("tshark")
    here, wires = cables("lldp", ["a", "b"])
    switch, socket = started(tmp_path, cable_ports(a="1Gbps", b="1Gbps"), here)
    with switch:
        _, frame = wires["a"].receive_until(lambda frame: frame[12:14] == ETHERTYPE, WITHIN_S)
        assert ports(socket)["a"]["tx"] >= 1
        mac = netns.mac_of(here, "sw-a")
        finished = switch.stop()
    _, last = wires["b"].receive_until(lambda frame: frame[12:14] == ETHERTYPE and frame[34:36] == b"\0\0", WITHIN_S)
    finished.check_sound()
    capture = tmp_path / "lldp.pcap"
    wrpcap(str(capture), [Ether(frame), Ether(last)])
    command = ["tshark", "-r", str(capture), "-V", "-O", "lldp"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Malformed" not in text and "Expert Info (Error" not in text, text
    for expected in (
        f"Chassis Subtype = MAC address, Id: {mac}",
        "Port Subtype = Interface name, Id: a",
        "Time To Live = 121 sec",
        "System Name = lab",
        "Port Description = af_packet",
        "ETS Configuration",
        "ETS Recommendation",
        "Priority Flow Control Configuration",
        "PFC for Priority 3: Enabled",
        "PFC for Priority 4: Enabled",
        "PFC for Priority 5: Disabled",
        "Bandwidth for PGID 3: 40",
        "TSA for Traffic Class 6: Strict Priority",
        "Application Priority: 4",
        "Application Protocol Id: 0x12b7",
        "Time To Live = 0 sec",
    ):
        assert expected in text, f"{expected}\n{text}"


def test_lldpd_is_a_neighbour_with_pfc_classes(namespace, cables, cleanup, place, tmp_path):
    need("lldpd")
    here, _ = cables("switch", ["b"])
    host = namespace("host")
    host.be_silent()
    netns.veth((here, "sw-a"), (host, "eth0"))
    switch, socket = started(tmp_path, cable_ports(a="1Gbps", b="1Gbps"), here)
    with switch:
        daemon = Lldpd(host, place, cleanup)
        until(lambda: "SysName:      lab" in daemon.ask("show", "neighbors", "details"), "lldpd has a neighbour", WITHIN_S)
        text = daemon.ask("show", "neighbors", "details")
        assert "PortID:       ifname a" in text and "Capability:   Bridge, on" in text, text
        # PFC for classes 3 and 4, not willing, up to 8 of them: lldpd prints the TLVs of DCBX as they are.
        assert "OUI: 00,80,C2, SubType: 11, Len: 2 08,18" in text, text
        until(lambda: ports(socket)["a"]["neighbours"], "lldpd is a neighbour", WITHIN_S)
        (neighbour,) = ports(socket)["a"]["neighbours"]
        assert (neighbour["port_id"], neighbour["pfc_comparison"]) == (netns.mac_of(host, "eth0"), "unknown")
        for octets, expected in (("80,00", "willing"), ("08,18", "equal"), ("08,08", "mismatch")):
            daemon.ask("configure", "lldp", "custom-tlv", "replace", "oui", "00,80,c2", "subtype", "11", "oui-info", octets)
            until(lambda: ports(socket)["a"]["neighbours"][0]["pfc_comparison"] == expected, expected, WITHIN_S)
        assert "MISMATCH" in show(socket, "lldp", "table")
        assert "Local PFC:    3,4, MISMATCH" in show(socket, "lldp", "neighbors")
        assert switch.has_said("PFC for classes 3, not 3,4")
        events = [event["event"] for event in json.loads(show(socket, "--json", "events"))["events"]]
        assert events.count("pfc_mismatch") == 1 and events.count("lldp_neighbour_found") == 1, events
        daemon.stop()
        until(lambda: not ports(socket)["a"]["neighbours"], "lldpd has withdrawn", WITHIN_S)
        finished = switch.stop()
    check_balance(finished.switch)
    assert finished.switch["drops"] == {}


def states(socket):
    (switch,) = json.loads(show(socket, "--json", "interfaces"))["switches"]
    return {port["port"]: port["state"] for port in switch["interfaces"]}


def loops(socket):
    """Port and other port of each loop found."""
    events = json.loads(show(socket, "--json", "events"))["events"]
    return [(event["port"], event["detail"]) for event in events if event["event"] == "port_loop"]


def reopen(socket, port):
    done = subprocess.run([weir_binary(), "set", "--socket", str(socket), f"ports.{port}.state=up"], check=False)
    assert done.returncode == 0


def of_loop_guard(frame):
    return frame[12:14] == LOOP_GUARD_ETHERTYPE


FORWARDED, LINK_LOCAL = "035765697201", "0180c200000e"
# A peer that counts data gets frames of the loop guard that no bridge forwards.
FLOW_CONTROLS = {
    "pfc": ('"pfc"', FORWARDED),
    "gfc-buffer": ('{ kind = "gfc-buffer", b_m = "200KB", b_1 = "60KB", refresh = "5ms" }', FORWARDED),
    "gfc-time": ('{ kind = "gfc-time", b_m = "200KB", b_0 = "50KB", period = "5ms", unsafe_thresholds = true }', LINK_LOCAL),
    "cbfc": ('{ kind = "cbfc", buffer = "50KB", period = "5ms" }', LINK_LOCAL),
}


@pytest.mark.parametrize("flow_control", FLOW_CONTROLS)
def test_ports_cabled_to_each_other_are_closed(cables, tmp_path, flow_control):
    here, wires = cables("loop", ["a"])
    netns.veth((here, "sw-b"), (here, "sw-c"))
    ports = cable_ports(a="1Gbps", b="1Gbps", c="1Gbps")
    keys, destination = FLOW_CONTROLS[flow_control]
    ports = ports.replace("rate", f"flow_control = {keys}\nrate")
    switch, socket = started(tmp_path, ports, here)
    with switch:
        until(lambda: states(socket)["c"] == "down", lambda: states(socket), WITHIN_S)
        assert states(socket) == {"a": "up", "b": "up", "c": "down"}
        assert loops(socket) == [("c", "b")]
        assert switch.has_said("the port is cabled to port b of this switch, or other bridges join them")
        _, frame = wires["a"].receive_until(of_loop_guard, WITHIN_S)
        assert frame[:6] == bytes.fromhex(destination)
        # The cable is still there.
        reopen(socket, "c")
        until(lambda: len(loops(socket)) == 2, lambda: loops(socket), WITHIN_S)
        assert states(socket)["c"] == "down"
        finished = switch.stop()
    check_balance(finished.switch)


def foreign_bridge(namespace, here):
    """A bridge in a namespace, with cables to the switch's ports b and c. Only the first is in the bridge."""
    other = namespace("bridge")
    other.be_silent()
    for port in ("b", "c"):
        netns.veth((here, f"sw-{port}"), (other, f"br-{port}"))
    other.ip("link", "add", "foreign", "type", "bridge", "mcast_snooping", "0")
    other.ip("link", "set", "foreign", "up")
    other.ip("link", "set", "br-b", "master", "foreign")
    return other


def test_ports_joined_by_another_bridge_are_closed(namespace, cables, tmp_path):
    here, wires = cables("loop", ["a"])
    other = foreign_bridge(namespace, here)
    switch, socket = started(tmp_path, cable_ports(a="1Gbps", b="1Gbps", c="1Gbps"), here)
    with switch:
        # One cable to the bridge is no loop, whatever the bridge floods.
        for _ in range(4):
            assert wires["a"].receive_until(of_loop_guard, WITHIN_S)
        assert states(socket) == {"a": "up", "b": "up", "c": "up"}
        other.ip("link", "set", "br-c", "master", "foreign")
        wires["a"].send(bytes(Ether(src="02:00:00:00:00:01", dst="ff:ff:ff:ff:ff:ff")).ljust(60, b"\0"))
        until(lambda: states(socket)["c"] == "down", lambda: states(socket), WITHIN_S)
        assert states(socket) == {"a": "up", "b": "up", "c": "down"}
        assert loops(socket) == [("c", "b")]
        (line,) = [line.split() for line in show(socket, "interfaces", "status").splitlines() if line.split()[:1] == ["c"]]
        assert line.count("down") == 2, line
        metrics = show(socket, "metrics")
        assert 'weir_port_admin_up{switch="lab",port="b"} 1' in metrics and 'weir_port_admin_up{switch="lab",port="c"} 0' in metrics
        # The loop is gone when the port is opened.
        other.ip("link", "set", "br-c", "nomaster")
        reopen(socket, "c")
        for _ in range(4):
            assert wires["a"].receive_until(of_loop_guard, WITHIN_S)
        assert states(socket)["c"] == "up" and len(loops(socket)) == 1
        finished = switch.stop()
    check_balance(finished.switch)


@pytest.mark.parametrize("vlan_of_c", [10, 20])
def test_a_bridge_between_vlans_is_no_loop(namespace, cables, tmp_path, vlan_of_c):
    here, wires = cables("vlans", ["a"])
    foreign_bridge(namespace, here).ip("link", "set", "br-c", "master", "foreign")
    ports = [cable_ports(**{port: "1Gbps"}) + f"vlan = {vlan}\n" for port, vlan in {"a": 10, "b": 10, "c": vlan_of_c}.items()]
    switch, socket = started(tmp_path, "".join(ports), here)
    with switch:
        for _ in range(4):
            assert wires["a"].receive_until(of_loop_guard, WITHIN_S)
        if vlan_of_c == 10:
            until(lambda: loops(socket), lambda: states(socket), WITHIN_S)
        assert states(socket)["c"] == {10: "down", 20: "up"}[vlan_of_c]
        finished = switch.stop()
    check_balance(finished.switch)


def test_frames_that_look_like_the_loop_guards_close_no_port(cables, tmp_path):
    here, wires = cables("forged", ["a", "b"])
    switch, socket = started(tmp_path, cable_ports(a="1Gbps", b="1Gbps"), here)
    with switch:
        with Recorder(wires["a"]) as recorder:
            until(lambda: sum(of_loop_guard(frame) for _, frame in recorder.frames) >= 5, "frames of the loop guard", WITHIN_S)
        _, announced = wires["b"].receive_until(lambda frame: frame[12:14] == ETHERTYPE, WITHIN_S)
        frames = [frame for _, frame in recorder.frames if of_loop_guard(frame)]
        assert len({frame[TOKEN] for frame in frames}) == len(frames)
        # From a capture; one mirrored in time, thrice; forged; the switch's own LLDPDU.
        time.sleep(3)
        _, fresh = wires["a"].receive_until(of_loop_guard, WITHIN_S)
        while (later := wires["a"].receive(0)) is not None:
            fresh = later[1] if of_loop_guard(later[1]) else fresh
        forged = [fresh[:14] + bytes(7) + bytes([n]) + fresh[22:] for n in range(8)]
        for frame in [fresh] * 3 + forged + frames * 2 + [announced] * 2:
            for port in ("a", "b"):
                wires[port].send(frame)
                # As fast as the control thread takes them.
                time.sleep(0.02)
        for _ in range(3):
            assert wires["a"].receive_until(of_loop_guard, WITHIN_S)
        assert states(socket) == {"a": "up", "b": "up"} and loops(socket) == []

        def returned():
            received = wires["a"].receive_until(of_loop_guard, 0.2)
            if received:
                wires["a"].send(received[1])
            return loops(socket)

        # A wire that returns all of them is a loop.
        until(returned, "a loop", WITHIN_S)
        assert loops(socket) == [("a", "a")] and states(socket) == {"a": "down", "b": "up"}
        finished = switch.stop()
    check_balance(finished.switch)
    assert finished.switch["drops"] == {}


class Lldpd:
    """lldpd in a namespace, with its files in a directory of its own."""

    def __init__(self, namespace, directory, cleanup):
        self._namespace, self._socket = namespace, str(directory / "lldpd.socket")
        command = ["lldpd", "-d", "-u", self._socket, "-I", "eth0"]
        log = cleanup.enter_context(open(directory / "lldpd.log", "w"))
        self._process = subprocess.Popen(namespace.command(*command), stdout=log, stderr=log)
        cleanup.callback(self._end)
        until(lambda: os.path.exists(self._socket), "lldpd's socket", WITHIN_S)

    def ask(self, *command):
        return self._namespace.run("lldpcli", "-u", self._socket, *command).stdout

    def stop(self):
        self._process.terminate()
        self._process.wait(WITHIN_S)

    def _end(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
