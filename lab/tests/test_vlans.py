"""VLANs on the wire: who gets which frame with which tag, and two switches with a trunk between Linux hosts."""

import contextlib
import json
import subprocess
import time

import pytest
from conftest import need
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from weirlab import netns
from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until
from weirlab.wire import Recorder

pytestmark = pytest.mark.root

WITHIN_S = 20
# Frames in flight are gone after that.
QUIET_S = 0.3
CLASS, OTHERS = 3, "ff:ff:ff:ff:ff:ff"
A, B, T, TWICE = (f"02:00:00:00:00:0{n}" for n in range(1, 5))
SHORTEST, LONGEST = 60, 1514
CONFIG = """
[switch]
name = "lab"
idle = "sleep"
[lcores]
layout = "{layout}"
[buffer]
size = "4MB"
headroom = "60KB"
[classes]
lossless = [3]
"""
# Two access ports, a trunk, and a trunk with a native VLAN.
PORTS = {"a": "vlan = 10", "b": "vlan = 20", "t": "tagged = [10, 20]", "n": "vlan = 20\ntagged = [10]"}


def file_of(directory, layout="single"):
    ports = "".join(
        f'[[ports]]\nname = "{port}"\naf_packet = "sw-{port}"\nrate = "1Gbps"\nflow_control = "none"\n{keys}\n' for port, keys in PORTS.items()
    )
    file = directory / "vlans.toml"
    file.write_text(CONFIG.format(layout=layout) + ports)
    return file


def frame(source, destination, tag=None, length=SHORTEST):
    """A frame of class 3; `tag` is a VLAN and a priority. The length is that of the frame without its tag, as is the padding."""
    packet = IP(src="10.0.0.1", dst="10.0.0.2", tos=CLASS << 2) / UDP(sport=1, dport=2, chksum=0)
    payload = bytes(packet).ljust(length - 14, b"\0")
    header = Ether(src=source, dst=destination)
    if tag:
        vlan, priority = tag
        return bytes(header / Dot1Q(vlan=vlan, prio=priority, type=0x0800) / payload)
    return bytes(Ether(src=source, dst=destination, type=0x0800) / payload)


class Exchange:
    """Sends one frame, and compares what each port gets: what is expected, however late, and nothing more."""

    def __init__(self, wires):
        self.wires = wires

    def __call__(self, port, sent, expected):
        recorders = {name: Recorder(wire) for name, wire in self.wires.items()}

        def got():
            return {name: [got for _, got in recorder.frames] for name, recorder in recorders.items() if recorder.frames}

        with contextlib.ExitStack() as recording:
            for recorder in recorders.values():
                recording.enter_context(recorder)
            self.wires[port].send(sent)
            until(lambda: got() == expected, lambda: f"{got()} in place of {expected}", WITHIN_S)
            time.sleep(QUIET_S)
        assert got() == expected


def show(socket, *view):
    done = subprocess.run([weir_binary(), "show", "--socket", str(socket), *view], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("layout", ["single", "rx-fwd-tx"])
def test_frames_stay_in_their_vlan_and_have_its_tag(cables, tmp_path, layout):
    here, wires = cables("vlans", list(PORTS))
    socket = tmp_path / "control"
    arguments = ["--quiet", "--control", str(socket)]
    with Switch(file_of(tmp_path, layout), namespace=here, arguments=arguments) as switch:
        sends = Exchange(wires)
        # Without a tag it has the access port's VLAN; a new tag has the class as its priority.
        for length in (SHORTEST, LONGEST):
            sends("a", frame(A, OTHERS, length=length), {port: [frame(A, OTHERS, (10, CLASS), length)] for port in ("t", "n")})
        # With a tag it keeps the priority where it leaves with one, and the shortest length where it does not.
        sends("t", frame(T, OTHERS, (20, 5)), {port: [frame(T, OTHERS)] for port in ("b", "n")})
        # A known station.
        sends("n", frame(B, T), {"t": [frame(B, T, (20, CLASS))]})
        sends("t", frame(T, A, (10, 6)), {"a": [frame(T, A)]})
        # Padding instead of the tag.
        sends("t", frame(T, A, (10, 6), SHORTEST - 4), {"a": [frame(T, A)]})
        sends("n", frame(TWICE, OTHERS, (10, 6)), {"a": [frame(TWICE, OTHERS)], "t": [frame(TWICE, OTHERS, (10, 6))]})
        # A priority alone is no VLAN, and the VLAN of an access port may have its tag.
        sends("a", frame(A, T, (0, 7)), {"t": [frame(A, T, (10, 7))]})
        sends("a", frame(A, T, (10, 2)), {"t": [frame(A, T, (10, 2))]})
        # One address in two VLANs is in two places.
        sends("a", frame(TWICE, T), {"t": [frame(TWICE, T, (10, CLASS))]})
        sends("b", frame(TWICE, T), {"t": [frame(TWICE, T, (20, CLASS))]})
        sends("t", frame(T, TWICE, (10, 0)), {"a": [frame(T, TWICE)]})
        sends("t", frame(T, TWICE, (20, 0)), {"b": [frame(T, TWICE)]})
        # What is of no VLAN of the port goes nowhere, and teaches nothing.
        for port, stray in (("a", frame(B, OTHERS, (20, 0))), ("t", frame(A, OTHERS)), ("t", frame(A, OTHERS, (30, 0)))):
            sends(port, stray, {})
        rows = [line.split() for line in show(socket, "mac").splitlines()]
        assert rows[0] == ["No.", "Vlan", "MacAddress", "Port", "Type"]
        known = {(row[1], row[2], row[3]) for row in rows if row[-1] == "Dynamic"}
        assert {("10", TWICE, "a"), ("20", TWICE, "b"), ("10", T, "t"), ("20", T, "t"), ("10", A, "a"), ("20", B, "n")} == known
        entries = json.loads(show(socket, "mac", "--json"))["switches"][0]["mac"]
        assert all(entry["vlan"] in (10, 20) for entry in entries)
        brief = [line.split() for line in show(socket, "vlan", "brief").splitlines()[2:]]
        assert brief == [
            ["10", "a", "untagged", "disabled"],
            ["t", "tagged"],
            ["n", "tagged"],
            ["20", "b", "untagged", "disabled"],
            ["t", "tagged"],
            ["n", "untagged"],
        ]
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {"vlan_filter": 3}


def test_linux_hosts_meet_over_a_trunk(namespace, tmp_path):
    """Hosts of two VLANs at two switches, which a trunk joins. The two at one switch have one address and one MAC."""
    need("ping")
    here = namespace("vlans")
    here.be_silent()
    netns.veth((here, "left"), (here, "right"))
    files, hosts = [], {}
    for switch in ("left", "right"):
        text = CONFIG.format(layout="single").replace('"lab"', f'"{switch}"')
        for name, keys in ((switch, "tagged = [10, 20]"), (f"a-{switch}", "vlan = 10"), (f"b-{switch}", "vlan = 20")):
            text += f'[[ports]]\nname = "{name}"\naf_packet = "{name}"\nrate = "1Gbps"\nflow_control = "none"\n{keys}\n'
            if name != switch:
                hosts[name] = namespace(name)
                hosts[name].be_silent()
                netns.veth((here, name), (hosts[name], "eth0"))
        files.append(tmp_path / f"{switch}.toml")
        files[-1].write_text(text)
    addresses = {"a-left": 1, "b-left": 1, "a-right": 2, "b-right": 3}
    for name, number in addresses.items():
        hosts[name].ip("link", "set", "eth0", "address", f"02:00:00:00:00:0{number}")
        hosts[name].ip("address", "add", f"10.0.0.{number}/24", "dev", "eth0")

    def reaches(name, to, *options):
        return hosts[name].run("ping", "-c", "1", "-W", "1", *options, f"10.0.0.{addresses[to]}").returncode == 0

    with Switch(*files, namespace=here, arguments=["--quiet"]) as switches:
        for name, to in (("a-left", "a-right"), ("b-left", "b-right")):
            until(lambda: reaches(name, to), f"{name} does not reach {to}", WITHIN_S)
            assert reaches(name, to, "-M", "do", "-s", "1472"), f"the longest datagram of {name}"
        for name, to in (("a-left", "b-right"), ("b-left", "a-right"), ("a-right", "b-right")):
            assert not reaches(name, to), f"{name} reaches {to}"
        for name, to in (("a-right", "a-left"), ("b-right", "b-left")):
            assert reaches(name, to), f"{name} no longer reaches {to}"
        finished = switches.stop()
    finished.check_sound()
    assert [switch["drops"] for switch in finished.summary["switches"]] == [{}, {}]
