"""Ports with maps of their own: frames of one DSCP from several ports get different classes, priority groups and queues, on the wire.

The second test has the maps and VLANs of SONiC's tables, imported.
"""

import json
import subprocess

import pytest
from pfc import Stream, is_control
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Dot1Q, Ether

from weirlab.switch import REPOSITORY, Switch, weir_binary
from weirlab.waiting import until
from weirlab.wire import Recorder

pytestmark = pytest.mark.root

WITHIN_S = 30
DSCP, PRIORITY = 26, 5
FRAMES, LENGTH = 40, 1500
SINK = "02:00:00:00:00:0f"
MACS = {port: f"02:00:00:00:00:0{n}" for n, port in enumerate("abcde", 1)}
# What a port's keys make of DSCP 26, and of priority 5 with a tag: priority group and queue.
KEYS = {
    "a": ("", 3, 3),
    "b": ("dscp = { 26 = 4 }", 4, 4),
    "c": ('trust = "pcp"\npcp = { 5 = 6 }', 6, 6),
    "d": ('trust = "port"\npriority = 7', 7, 7),
    "e": ("dscp = { 26 = 4 }\ntc_to_pg = { 4 = 6 }\ntc_to_queue = { 4 = 3 }", 6, 3),
}
CONFIG = """
[switch]
idle = "sleep"
[lcores]
layout = "{layout}"
[buffer]
size = "8MB"
headroom = "100KB"
policy = "static"
[buffer.static]
threshold = "20KB"
[classes]
preset = "roce"
lossless = [3, 4, 6, 7]
"""


def file_of(place, layout):
    text = CONFIG.format(layout=layout)
    for port, keys in {"out": "", **{port: keys for port, (keys, *_) in KEYS.items()}}.items():
        rate = "2Mbps" if port == "out" else "1Gbps"
        text += f'[[ports]]\nname = "{port}"\naf_packet = "sw-{port}"\nrate = "{rate}"\n{keys}\n'
    text += f'[[static_macs]]\nmac = "{SINK}"\nport = "out"\n'
    file = place / "maps.toml"
    file.write_text(text)
    return file


def frames_of(port):
    """Frames of DSCP 26 with a priority's tag."""
    stream = Stream(MACS[port], SINK, DSCP, length=LENGTH)
    frames = [Ether(stream.next()) for _ in range(FRAMES)]
    return [bytes(Ether(src=frame.src, dst=frame.dst) / Dot1Q(prio=PRIORITY, type=0x0800) / frame.payload) for frame in frames]


def show(socket, *view):
    done = subprocess.run([weir_binary(), "show", "--socket", str(socket), *view], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def state(socket, *view_and_key):
    *view, key = view_and_key
    return json.loads(show(socket, *view, "--json"))["switches"][0][key]


def paused_classes(frames):
    """Classes that PFC frames pause, as scapy reads them."""
    classes = set()
    for frame in filter(is_control, frames):
        repr_ = Ether(frame)[MACControlClassBasedFlowControl]
        classes |= {n for n in range(8) if getattr(repr_, f"c{n}_enabled") and getattr(repr_, f"c{n}_pause_time")}
    return classes


@pytest.mark.parametrize("layout", ["single", "rx-fwd-tx"])
def test_one_dscp_has_the_class_of_its_port(cables, tmp_path, layout):
    here, wires = cables("maps", ["out", *KEYS])
    sent = {port: frames_of(port) for port in KEYS}
    socket = tmp_path / "control"
    file = file_of(tmp_path, layout)
    checked = subprocess.run([weir_binary(), "check", "--files-only", str(file)], capture_output=True, text=True)
    assert "classes of b by DSCP, with a map of its own" in checked.stdout, checked.stdout + checked.stderr
    assert "e: class 4 arrives in priority group 6 and leaves by queue 3" in checked.stdout + checked.stderr
    with Switch(file, namespace=here, arguments=["--quiet", "--control", str(socket)]) as switch:
        recorders = {port: Recorder(wires[port]) for port in KEYS}
        with Recorder(wires["out"]) as sink:
            for recorder in recorders.values():
                recorder.__enter__()
            for port, frames in sent.items():
                for frame in frames:
                    wires[port].send(frame)
            until(lambda: sum(not is_control(frame) for _, frame in sink.frames) == FRAMES * len(KEYS), "all frames", WITHIN_S)
            for recorder in recorders.values():
                recorder.__exit__()
        groups = {of["port"]: of for of in state(socket, "priority-group", "watermark", "shared", "priority_groups")}
        for port, (_, group, _) in KEYS.items():
            assert paused_classes(frame for _, frame in recorders[port].frames) == {group}, port
            assert groups[port]["frames"] == [FRAMES if n == group else 0 for n in range(8)], port
            assert [n for n in range(8) if groups[port]["shared_watermark_bytes"][n]] == [group], port
        queues = {of["port"]: of["frames"] for of in state(socket, "queue", "counters", "queues")}
        of_ports = [queue for *_, queue in KEYS.values()]
        assert queues["out"] == [FRAMES * of_ports.count(n) for n in range(8)]
        maps = show(socket, "qos", "map", "dscp-tc")
        assert "Ports: out, a, c, d\n" in maps and "Ports: b, e\n" in maps
        assert all("Ports: e\n" in show(socket, "qos", "map", name) for name in ("tc-pg", "tc-queue"))
        finished = switch.stop()
    finished.check_sound()


def test_sonics_maps_and_vlans_of_ports_hold_on_the_wire(cables, tmp_path):
    tables = json.loads((REPOSITORY / "weir" / "tests" / "sonic" / "th2" / "config_db.json").read_text())
    ports = dict(zip(list(tables["PORT"])[:3], ["a", "b", "out"], strict=True))
    first, second, sink = ports
    # As in PCBB: DSCP 2 is bounced back, lossless, at the uplink alone.
    tables["DSCP_TO_TC_MAP"]["UPLINK"] = {"2": "2", "3": "3", "4": "4"}
    tables["TC_TO_PRIORITY_GROUP_MAP"]["UPLINK"] = tables["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"] | {"2": "2"}
    for port in ports:
        own = tables["PORT_QOS_MAP"].setdefault(port, {})
        own |= {"pfc_enable": "3,4", "dscp_to_tc_map": "AZURE"}
        if port == second:
            own |= {"pfc_enable": "2,3,4", "dscp_to_tc_map": "UPLINK", "tc_to_pg_map": "UPLINK"}
        for key in [key for key in tables["BUFFER_PG"] if key.startswith(f"{port}|3-4")]:
            tables["BUFFER_PG"][f"{port}|2"] = dict(tables["BUFFER_PG"][key])
    tables["VLAN"] = {f"Vlan{vlan}": {"vlanid": str(vlan)} for vlan in (10, 20)}
    tables["VLAN_MEMBER"] = {
        f"Vlan10|{first}": {"tagging_mode": "untagged"},
        f"Vlan20|{second}": {"tagging_mode": "untagged"},
        f"Vlan10|{sink}": {"tagging_mode": "tagged"},
        f"Vlan20|{sink}": {"tagging_mode": "tagged"},
    }
    source, file = tmp_path / "config_db.json", tmp_path / "lab.toml"
    source.write_text(json.dumps(tables))
    chosen = [argument for port, name in ports.items() for argument in ("--port", f"{port}=af_packet:sw-{name}")]
    done = subprocess.run([weir_binary(), "import", "sonic", source, *chosen, "-o", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here, wires = cables("sonicmaps", ["a", "b", "out"])
    socket = tmp_path / "control"
    with Switch(file, namespace=here, arguments=["--quiet", "--control", str(socket)]) as switch:
        for vlan in (10, 20):
            wires["out"].send(Ether(src=SINK, dst="ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=vlan, type=0x88B5) / bytes(60))
        with Recorder(wires["out"]) as seen:
            for name in "ab":
                stream = Stream(MACS[name], SINK, 2)
                for _ in range(FRAMES):
                    wires[name].send(stream.next())
            until(lambda: len(seen.frames) == 2 * FRAMES, "all frames", WITHIN_S)
        # The new tag's priority is the class.
        tags = {(frame.src, frame[Dot1Q].vlan, frame[Dot1Q].prio) for frame in (Ether(frame) for _, frame in seen.frames)}
        assert tags == {(MACS["a"], 10, 1), (MACS["b"], 20, 2)}
        queues = {of["port"]: of["frames"] for of in state(socket, "queue", "counters", "queues")}
        assert queues[sink][1:3] == [FRAMES, FRAMES]
        finished = switch.stop()
    finished.check_sound()
