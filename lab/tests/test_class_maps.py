"""Ports with maps of their own: frames of one DSCP from several ports get different classes, by PFC and by queues on the wire.
"""

import json
import subprocess

import pytest
from pfc import Stream, is_control
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.l2 import Dot1Q, Ether

from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until
from weirlab.wire import Recorder

pytestmark = pytest.mark.root

WITHIN_S = 30
DSCP, PRIORITY = 26, 5
FRAMES, LENGTH = 40, 1500
SINK = "02:00:00:00:00:0f"
MACS = {port: f"02:00:00:00:00:0{n}" for n, port in enumerate("abcd", 1)}
# What a port's keys make of DSCP 26, and of priority 5 with a tag.
KEYS = {"a": ("", 3), "b": ("dscp = { 26 = 4 }", 4), "c": ('trust = "pcp"\npcp = { 5 = 6 }', 6), "d": ('trust = "port"\npriority = 7', 7)}
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
    for port, keys in {"out": "", **{port: keys for port, (keys, _) in KEYS.items()}}.items():
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
        for port, (_, wanted) in KEYS.items():
            assert paused_classes(frame for _, frame in recorders[port].frames) == {wanted}, port
        queues = {of["port"]: of["frames"] for of in json.loads(show(socket, "queue", "counters", "--json"))["switches"][0]["queues"]}
        assert queues["out"] == [FRAMES if n in (3, 4, 6, 7) else 0 for n in range(8)]
        maps = show(socket, "qos", "map", "dscp-tc")
        assert "Ports: out, a, c, d\n" in maps and "Ports: b\n" in maps
        finished = switch.stop()
    finished.check_sound()
