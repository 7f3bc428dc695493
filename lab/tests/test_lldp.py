"""LLDP and DCBX as tshark and lldpd read them, lldpd as a neighbour, and two ports of one switch cabled to each other."""

import json
import os
import subprocess

import pytest
from conftest import need
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from weirlab import netns
from weirlab.switch import Switch, cable_ports, check_balance, weir_binary
from weirlab.waiting import until

pytestmark = pytest.mark.root

WITHIN_S = 20
ETHERTYPE = b"\x88\xcc"
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


def test_ports_cabled_to_each_other_are_closed(cables, tmp_path):
    here, _ = cables("loop", ["a"])
    netns.veth((here, "sw-b"), (here, "sw-c"))
    switch, socket = started(tmp_path, cable_ports(a="1Gbps", b="1Gbps", c="1Gbps"), here)

    def states():
        (switch,) = json.loads(show(socket, "--json", "interfaces"))["switches"]
        return {port["port"]: port["state"] for port in switch["interfaces"]}

    with switch:
        until(lambda: states()["c"] == "down", states, 5)
        assert states() == {"a": "up", "b": "up", "c": "down"}
        events = json.loads(show(socket, "--json", "events"))["events"]
        assert [(event["port"], event["detail"]) for event in events if event["event"] == "port_loop"] == [("c", "b")]
        assert switch.has_said("the port is cabled to port b of this switch")
        # The cable is still there.
        done = subprocess.run([weir_binary(), "set", "--socket", str(socket), "ports.c.state=up"], check=False)
        assert done.returncode == 0
        until(lambda: states()["c"] == "down", states, 5)
        finished = switch.stop()
    check_balance(finished.switch)


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
