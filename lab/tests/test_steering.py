"""`weir set`, `weir reload` and `weir config` beside a switch that runs: is a change seen on the wire, does no frame get lost by it,
and does the file say what runs? Nothing here waits for a time to pass: what has not come yet is waited for, and what is measured by
the kernel's clock is held against bounds that a busy machine can't break."""

import json
import os
import re
import signal
import subprocess

import pytest
from conftest import need
from pfc import Stream, is_control, stamp_of
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from test_control import path, refused, row, shown, told, until, weir  # noqa: F401 (`path` is a fixture)

from weirlab.lab import Hosts, Iperf3
from weirlab.switch import Switch, cable_ports, weir_binary
from weirlab.wire import Recorder

A, B, C = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c"
DSCP, CLASS = 26, 3
LENGTH = 1_000
# A frame takes 12 ms and more at the slow rate: FCS, preamble and gap are 24 B.
SLOW, SLOW_BPS, WIRE_BITS = "500Kbps", 500_000, (LENGTH + 24) * 8
FILE = """# What a test steers.
[switch]
name = "lab"
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "2MB"
headroom = "60KB"
policy = "static"
[buffer.static]
threshold = "1MB" # of the ingress queue
[classes]
lossless = [3]
[classes.dscp]
26 = 3
[pfc]
quanta = 2000
{ports}
[[static_macs]]
mac = "02:00:00:00:00:0a"
port = "a"
"""


def configuration(directory, ports="abc", more=""):
    file = directory / "lab.toml"
    file.write_text(FILE.format(ports=cable_ports(**dict.fromkeys(ports, "100Mbps"))) + more)
    return file


@pytest.fixture
def steered(cables, path, tmp_path):  # noqa: F811
    """Starts the switch: its file, its wires, and what runs it."""

    def start(ports="abc", **more):
        here, wires = cables("steer", list(ports))
        file = configuration(tmp_path, ports)
        switch = Switch(file, namespace=here, arguments=("--quiet", "--control", str(path)), **more)
        # Only there are the file's interfaces.
        switch.check = lambda file: here.run(weir_binary(), "check", str(file))
        return file, wires, switch

    return start


def set_keys(path, *changes):  # noqa: F811
    """What `weir set` answers: outcomes by key, and notes."""
    (changed,) = json.loads(told(path, "set", "--json", *changes))
    return {change["key"]: change["outcome"] for change in changed["changes"]}, changed["notes"]


def data(frames):
    return [(at, frame) for at, frame in frames if stamp_of(frame)]


def introduce(wires):
    """Every station speaks once, to nobody that there is."""
    for port, mac in (("b", B), ("c", C)):
        if port in wires:
            wires[port].send(bytes(Ether(src=mac, dst="01:80:c2:00:00:0e", type=0x88B5)).ljust(60, b"\0"))
            wires[port].send(bytes(Ether(src=mac, dst=A, type=0x88B5)).ljust(60, b"\0"))


def known(path, mac):  # noqa: F811
    return [entry for entry in shown(path, "mac") if entry["mac"] == mac]


def span_s(frames):
    return (frames[-1][0] - frames[0][0]) / 1e9


@pytest.mark.root
def test_a_ports_rate_is_another_from_the_answer_on(steered, path):  # noqa: F811
    _, wires, switch = steered("ab")
    stream, frames = Stream(A, B, DSCP, LENGTH), 300
    with switch, Recorder(wires["b"]) as recorder:
        introduce(wires)
        until(lambda: known(path, B), bool)
        assert set_keys(path, f"ports.b.rate={SLOW}") == ({"ports.b.rate": "applied"}, [])
        for _ in range(frames):
            wires["a"].send(stream.next())
        until(lambda: data(recorder.frames), lambda got: len(got) >= 10)
        assert row(shown(path, "interfaces"), "b")["rate_bps"] == SLOW_BPS
        # The rest takes some 5 s at the slow rate, and some 50 ms at this one.
        assert len(data(recorder.frames)) < frames
        set_keys(path, "ports.b.rate=50Mbps")
        until(lambda: data(recorder.frames), lambda got: len(got) == frames)
        slow = data(recorder.frames)[:10]
        # A switch that is polled late makes up some of it.
        assert span_s(slow) > 9 * WIRE_BITS / SLOW_BPS - 0.11
        rest = data(recorder.frames)[-200:]
        assert span_s(rest) < 199 * WIRE_BITS / SLOW_BPS * 0.8
        assert [stamp_of(frame)[1] for _, frame in data(recorder.frames)] == list(range(frames))
        finished = switch.stop()
    finished.check_sound()
    assert "weir set: ports.b.rate: 500Kbps -> 50Mbps" in finished.stderr


@pytest.mark.root
@pytest.mark.idle_machine
def test_iperf3_gets_the_rate_that_is_set(cleanup, path):  # noqa: F811
    need("iperf3")
    net = cleanup.enter_context(Hosts(f"weir-{os.getpid()}", 2))
    first, second = net.hosts

    def goodput_mbps():
        with Iperf3(first, second, seconds=2) as transfer:
            return transfer.result()["gbps"] * 1e3

    with net.run_switch(arguments=("--quiet", "--control", str(path))) as switch:
        for rate in (10, 100, 20):
            set_keys(path, *(f"ports.p{port}.rate={rate}Mbps" for port in (0, 1)))
            # TCP's share of a 1538-byte slot on the wire is 94 %.
            assert rate * 0.5 < goodput_mbps() < rate * 0.97
        finished = switch.stop()
    finished.check_sound()
    assert set(finished.switch["drops"]) <= {"egress_threshold"}


@pytest.mark.root
def test_a_port_that_is_down_is_silent_and_one_that_is_blocked_forwards_nothing(steered, path):  # noqa: F811
    _, wires, switch = steered()
    to_b, to_a = Stream(A, B, DSCP), Stream(B, A, DSCP)
    lost = lambda: sum(loss["frames"] for loss in shown(path, "losses") if loss["reason"] == "port_down")  # noqa: E731
    with switch, Recorder(wires["b"]) as at_b, Recorder(wires["a"]) as at_a:
        introduce(wires)
        until(lambda: known(path, B), bool)
        dropped = 0
        for state, letter in (("down", "X"), ("blocked", "B")):
            outcome, notes = set_keys(path, f"ports.b.state={state}")
            assert outcome == {"ports.b.state": "applied"} and "port b" in notes[0]
            assert row(shown(path, "interfaces"), "b")["state"] == state
            assert re.search(rf"^ +b +{letter} ", told(path, "show", "interfaces"), re.MULTILINE)
            before = len(at_a.frames), len(at_b.frames)
            for _ in range(20):
                wires["a"].send(to_b.next())
                wires["b"].send(to_a.next())
            dropped += 40
            until(lost, lambda count, dropped=dropped: count == dropped)
            assert (len(at_a.frames), len(at_b.frames)) == before
            set_keys(path, "ports.b.state=up")
            for wire, recorder, stream in ((wires["a"], at_b, to_b), (wires["b"], at_a, to_a)):
                frame = stream.next()
                wire.send(frame)
                until(lambda recorder=recorder: [got for _, got in recorder.frames], lambda got, frame=frame: frame in got)
        finished = switch.stop()
    assert finished.switch["drops"]["port_down"] == dropped
    finished.check_sound()


@pytest.mark.root
def test_tshark_sees_a_forced_pause_and_its_end(steered, path, tmp_path):  # noqa: F811
    need("tshark")
    _, wires, switch = steered("ab")
    control = lambda: [(at, frame) for at, frame in recorder.frames if is_control(frame)]  # noqa: E731
    with switch, Recorder(wires["a"]) as recorder, Recorder(wires["b"]) as other:
        assert set_keys(path, "ports.a.pause=3,4")[0] == {"ports.a.pause": "applied"}
        assert row(shown(path, "interfaces"), "a")["forced_pause"] == [3, 4]
        until(control, lambda frames: len(frames) > 5)
        assert set_keys(path, "ports.a.pause=none")[0] == {"ports.a.pause": "applied"}
        until(control, lambda frames: frames[-1][1][18:34] == bytes(16))
        count = len(control())
        # A second word of a class would have to come before this.
        wires["b"].send(Stream(B, A, DSCP).next())
        until(lambda: data(recorder.frames), bool)
        assert len(control()) == count and not [frame for _, frame in other.frames if is_control(frame)]
        # By a timer.
        set_keys(path, "--for", "1s", "ports.a.pause=3")
        until(control, lambda frames: len(frames) > count + 3)
        until(control, lambda frames: frames[-1][1][18:34] == bytes(16))
        assert row(shown(path, "interfaces"), "a")["forced_pause"] == []
        finished = switch.stop()
    finished.check_sound()
    file = tmp_path / "control.pcap"
    wrpcap(str(file), [Ether(frame) for _, frame in control()])
    fields = [part for name in ("opcode", "cbfc.enbv", "cbfc.pause_time.c3", "cbfc.pause_time.c4") for part in ("-e", f"macc.{name}")]
    read = subprocess.run(["tshark", "-r", file, "-T", "fields", *fields], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in read.stdout.splitlines()]
    assert all(int(row[0], 16) == 0x0101 for row in rows)
    seen = [(int(row[1], 16), row[2], row[3]) for row in rows]
    assert (0x18, "2000", "2000") in seen[:6] and seen[count - 1] == (0x18, "0", "0"), seen
    assert seen[-1][1] == "0" and (0x08, "2000", "0") in seen[count:], seen


@pytest.mark.root
def test_a_threshold_below_what_is_held_loses_nothing(steered, path):  # noqa: F811
    _, wires, switch = steered("ab")
    stream, frames = Stream(A, B, DSCP, LENGTH), 200
    with switch, Recorder(wires["a"]) as at_a, Recorder(wires["b"]) as at_b:
        introduce(wires)
        until(lambda: known(path, B), bool)
        set_keys(path, f"ports.b.rate={SLOW}")
        for _ in range(frames):
            wires["a"].send(stream.next())
        received = lambda: row(shown(path, "priority-group", "watermark", "shared"), "a")["frames"][CLASS]  # noqa: E731
        until(received, lambda count: count == frames)
        assert not [frame for _, frame in at_a.frames if is_control(frame)]
        outcome, notes = set_keys(path, "buffer.static.threshold=20KB", "buffer.xon_offset=4KB")
        assert outcome == {"buffer.static.threshold": "applied", "buffer.xon_offset": "applied"}
        assert re.search(r"port a, class 3: the ingress queue holds [\d,]+ B, above its threshold of now, 20,000 B", notes[0])
        # The next frame is taken by headroom, and its sender told to pause.
        wires["a"].send(stream.next())
        until(lambda: at_a.frames, lambda got: any(is_control(frame) for _, frame in got))
        set_keys(path, "ports.b.rate=100Mbps")
        until(lambda: data(at_b.frames), lambda got: len(got) == frames + 1)
        # It is let go when the queue is below.
        until(lambda: at_a.frames, lambda got: is_control(got[-1][1]) and got[-1][1][18:34] == bytes(16))
        finished = switch.stop()
    finished.check_sound()
    assert finished.traffic_class("a", CLASS)["drops"] == {}


@pytest.mark.root
def test_static_addresses_are_entered_and_removed(steered, path):  # noqa: F811
    _, wires, switch = steered()
    stream, to_all = Stream(A, "02:00:00:00:00:77", DSCP), Stream(A, "ff:ff:ff:ff:ff:ff", DSCP)

    def reached():
        """The ports that a frame to the station comes out by, once it has come out by one."""
        frame = stream.next()
        wires["a"].send(frame)
        # Frames of a class leave a port in order, so that this one comes after the first.
        beacon = to_all.next()
        wires["a"].send(beacon)
        frames = {port: lambda port=port: [got for _, got in recorders[port].frames] for port in "bc"}
        for port in "bc":
            until(frames[port], lambda got, beacon=beacon: beacon in got)
        return [port for port in "bc" if frame in frames[port]()]

    with switch, Recorder(wires["b"]) as at_b, Recorder(wires["c"]) as at_c:
        recorders = {"b": at_b, "c": at_c}
        assert reached() == ["b", "c"], "it is flooded"
        key = "static_macs.02:00:00:00:00:77"
        for port in "bc":
            assert set_keys(path, f"{key}={port}")[0] == {key: "applied"}
            assert known(path, "02:00:00:00:00:77")[0]["port"] == port
            assert reached() == [port]
        assert set_keys(path, f"{key}=default")[0] == {key: "applied"}
        assert reached() == ["b", "c"]
        finished = switch.stop()
    finished.check_sound()


@pytest.mark.root
def test_what_runs_is_saved_compared_and_applied_again(steered, path, tmp_path):  # noqa: F811
    file, wires, switch = steered("ab")
    before = file.read_text()

    def differences():
        (differs,) = json.loads(told(path, "config", "diff", "--json"))
        assert differs["file"] == str(file)
        return {key["key"]: (key["file"], key["running"], bool(key["needs_restart"])) for key in differs["keys"]}

    with switch:
        assert differences() == {} and "the file has what the switch runs with" in told(path, "config", "diff")
        assert told(path, "config", "show") == before
        set_keys(path, "ports.b.rate=20Mbps", "classes.queues.3.weight=4", "buffer.static.threshold=500KB")
        set_keys(path, "--for", "1h", "ports.a.rate=10Mbps")
        assert differences() == {
            "ports.a.rate": ("100Mbps", "10Mbps", False),
            "ports.b.rate": ("100Mbps", "20Mbps", False),
            "classes.queues.3.weight": (None, "4", False),
            "buffer.static.threshold": ("1MB", "500KB", False),
        }
        # Saved elsewhere, it is a file that weir takes, without what holds for a time.
        copy = tmp_path / "copy.toml"
        assert "ports.a.rate" in told(path, "config", "save", str(copy))
        text = copy.read_text()
        assert "# of the ingress queue" in text and '"500KB"' in text and '"20Mbps"' in text and '"10Mbps"' not in text
        # Over its own file.
        told(path, "config", "save")
        assert file.read_text() == text and list(differences()) == ["ports.a.rate"]
        # A file that has not changed since it was read takes nothing back.
        switch.process.send_signal(signal.SIGHUP)
        until(lambda: switch.has_said("nothing to open anew"), bool)
        # The file is changed by hand: what can be is applied, by SIGHUP as by the command.
        file.write_text(text.replace('"20Mbps"', '"30Mbps"').replace('size = "2MB"', 'size = "3MB"'))
        assert differences()["buffer.size"] == ("3MB", "2MB", True)
        assert "buffer.size" in told(path, "config", "diff") and "needs a restart: the buffer is cut" in told(path, "config", "diff")
        switch.process.send_signal(signal.SIGHUP)
        until(lambda: row(shown(path, "interfaces"), "b")["rate_bps"], lambda rate: rate == 30_000_000)
        until(lambda: switch.has_said("reload: ports.b.rate: 20Mbps -> 30Mbps"), bool)
        until(lambda: switch.has_said("reload: buffer.size: 2MB -> 3MB needs a restart: the buffer is cut"), bool)
        # What was set for a time went with it.
        assert list(differences()) == ["buffer.size"] and row(shown(path, "interfaces"), "a")["rate_bps"] == 100_000_000
        file.write_text(file.read_text().replace('"30Mbps"', '"40Mbps"').replace('policy = "static"', 'policy = "static"\nprivate = "1KB"'))
        (changed,) = json.loads(told(path, "reload", "--json"))
        outcomes = {change["key"]: change["outcome"] for change in changed["changes"]}
        assert outcomes == {"buffer.private": "needs_restart", "buffer.size": "needs_restart", "ports.b.rate": "applied"}
        # Saving writes over what waits for a restart, and says so.
        elsewhere = file.read_text()
        assert "buffer.size was 3MB in the file" in told(path, "config", "save")
        assert differences() == {}
        file.write_text(elsewhere)
        # A file that is wrong changes nothing, and is told as `weir check` tells it.
        file.write_text(file.read_text().replace('"40Mbps"', '"40"'))
        checked, reloaded = switch.check(file), weir("reload", "--socket", path)
        refused(reloaded, "lab.toml:", "`rate`")
        message = [line for line in checked.stderr.splitlines() if "`rate`" in line][0].strip(" x")
        assert message in reloaded.stderr
        assert row(shown(path, "interfaces"), "b")["rate_bps"] == 40_000_000
        switch.process.send_signal(signal.SIGHUP)
        until(lambda: switch.has_said("SIGHUP: nothing is applied"), bool)
        finished = switch.stop()
    finished.check_sound()
    # While the switch ran, its ports were taken.
    checked = switch.check(copy)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.root
def test_weights_share_a_port_as_they_are_set(steered, path):  # noqa: F811
    _, wires, switch = steered("ab")
    streams = {3: Stream(A, B, DSCP, LENGTH), 0: Stream(A, B, 8, LENGTH)}
    each = 250
    with switch, Recorder(wires["b"]) as recorder:
        introduce(wires)
        until(lambda: known(path, B), bool)
        set_keys(path, "ports.b.rate=8Kbps", "buffer.lossy_alpha=64")
        for _ in range(each):
            for stream in streams.values():
                wires["a"].send(stream.next())
        queues = lambda: row(shown(path, "priority-group", "watermark", "shared"), "a")["frames"]  # noqa: E731
        until(queues, lambda frames: frames[3] >= each and frames[0] >= each)
        set_keys(path, "classes.queues.3.weight=4", "classes.queues.0.weight=1")
        set_keys(path, "ports.b.rate=100Mbps")
        until(lambda: data(recorder.frames), lambda got: len(got) == 2 * each)
        # As long as both wait, four of one class go to one of the other, whatever the machine does.
        classes = [stamp_of(frame)[0] for _, frame in data(recorder.frames)][10:250]
        share = classes.count(DSCP) / len(classes)
        assert 0.77 < share < 0.83, share
        finished = switch.stop()
    finished.check_sound()


def messages(recorder):
    """PFC and PAUSE in the order in which they came: which, and whether it pauses."""
    frames = [frame for _, frame in recorder.frames if is_control(frame)]
    told = {b"\x01\x01": lambda frame: ("pfc", any(frame[18:34])), b"\x00\x01": lambda frame: ("pause", any(frame[16:18]))}
    return [told[frame[14:16]](frame) for frame in frames]


@pytest.mark.root
def test_a_port_turns_from_pfc_to_pause_to_none(steered, path):  # noqa: F811
    file, wires, switch = steered("ab")
    with switch, Recorder(wires["a"]) as recorder:
        set_keys(path, "ports.a.pause=3")
        until(lambda: messages(recorder), bool)
        assert set_keys(path, "ports.a.flow_control=pause") == ({"ports.a.flow_control": "applied"}, [])
        got = until(lambda: messages(recorder), lambda got: got[-1] == ("pause", True))
        turned = got.index(("pfc", False))
        assert set(got[:turned]) == {("pfc", True)} and set(got[turned + 1 :]) == {("pause", True)}, got
        assert row(shown(path, "interfaces"), "a")["flow_control"] == "pause"
        outcome, (note,) = set_keys(path, "ports.a.flow_control=none", "ports.a.pause=none")
        assert outcome == {"ports.a.flow_control": "applied", "ports.a.pause": "applied"}
        assert "dropped once headroom is full" in note
        until(lambda: messages(recorder), lambda got: got[-1] == ("pause", False))
        assert "flow_control" in told(path, "config", "diff")
        told(path, "reload")
        assert row(shown(path, "interfaces"), "a")["flow_control"] == "pfc"
        assert messages(recorder)[-1] == ("pause", False), "nothing is to pause"
        file.write_text(file.read_text().replace('name = "a"\n', 'name = "a"\nflow_control = "cbfc"\n', 1))
        assert re.search(r"ports.a.flow_control .* needs a restart: both ends", told(path, "reload"))
        finished = switch.stop()
    finished.check_sound()


@pytest.mark.root
def test_wrong_input_is_told_and_changes_nothing(steered, path):  # noqa: F811
    file, _, switch = steered("ab")
    with switch:
        wrong = {
            ("ports.b.rate=5",): ("`rate`", "unit"),
            ("buffer.static.threshold=3MB",): ("above the shared buffer",),
            ("buffer.static.treshold=30KB",): ("unknown key `treshold`",),
            ("ports.z.rate=5Mbps",): ("no port is named `z`", "a, b"),
            ("ports.b.state=asleep",): ("`state`",),
            ("ports.b.rate=1Gbps", "buffer.size=3MB"): ("`buffer.size` can't change while the switch runs", "cut"),
            ("ports.a.flow_control=cbfc",): ("can't change while the switch runs", "both ends"),
            ("buffer.policy=dt", "buffer.static.threshold=default"): ("can't change while the switch runs",),
            ("ports.a.pause=9",): ("write classes such as 3",),
            ("static_macs.02:00:00:00:00:01=q",): ("no port is named",),
            ("--for", "soon", "ports.b.rate=5Mbps"): ("10s",),
            ("--for", "48h", "ports.b.rate=5Mbps"): ("longer than a day",),
            ("ports.b.rate",): ("KEY=VALUE",),
        }
        for arguments, said in wrong.items():
            refused(weir("set", *arguments, "--socket", path), *said)
        refused(weir("set", "ports.b.rate=5Mbps", "--socket", path, "--switch", "other"), "no switch of this process")
        assert "the file has what the switch runs with" in told(path, "config", "diff")
        refused(weir("config", "save", "/nowhere/lab.toml", "--socket", path), "can't be written")
        # As a table.
        text = told(path, "set", "ports.b.rate=5Mbps", "ports.a.rate=100Mbps")
        assert re.search(r"ports.b.rate +100Mbps +5Mbps +applied", text) and re.search(r"ports.a.rate .* as before", text)
        events = [event for event in json.loads(told(path, "show", "events", "--json"))["events"] if event["event"] == "key_set"]
        assert [(event["port"], event["detail"]) for event in events] == [("b", "ports.b.rate: 100Mbps -> 5Mbps")]
        finished = switch.stop()
    finished.check_sound()
