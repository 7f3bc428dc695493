"""`weir show` and `weir clear` beside a switch that runs: do the counters say what scapy sent, does clearing leave frame conservation alone,
and is wrong input told? Nothing here waits for a time to pass: what is not shown yet is asked for again."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest
from pfc import Stream, pfc

from weirlab.switch import Switch, cable_ports, weir_binary

# Much, for machines that do much else.
PATIENCE_S = 60
A, B, SCAPY = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:99"
CLASS, DSCP = 3, 26
LENGTH, FCS = 1_000, 4
# No frame comes from anywhere.
QUIET = """
[switch]
name = "{name}"
idle = "sleep"
[lcores]
layout = "single"
{more}
[[ports]]
name = "{name}-0"
ring = "{one}"
rate = "1Gbps"
[[ports]]
name = "{name}-1"
ring = "{other}"
rate = "1Gbps"
"""
# Slow enough that frames wait at the port to B.
CABLED = """
[switch]
name = "lab"
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "2MB"
[classes]
lossless = [3]
[classes.dscp]
0 = 0
26 = 3
""" + cable_ports(a="1Gbps", b="5Mbps")


KEPT_NAMES = pathlib.Path(__file__).resolve().parents[2] / "docs/KEPT_NAMES.txt"


def quiet(directory, name="lab", more="", rings=None):
    one, other = rings or (f"{name}-ring", f"{name}-ring")
    file = directory / f"{name}.toml"
    file.write_text(QUIET.format(name=name, more=more, one=one, other=other))
    return file


@pytest.fixture
def path(place):
    """For a control socket."""
    return place / "c.sock"


def started(file, path, **more):
    return Switch(file, arguments=("--quiet", "--control", str(path)), **more)


def weir(*arguments, binary=None):
    command = [binary or weir_binary(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def told(path, *arguments):
    """What a command prints that ends well."""
    done = weir(*arguments, "--socket", path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(path, *what):
    """A view of the only switch, as JSON: its rows."""
    (switch,) = json.loads(told(path, "show", *what, "--json"))["switches"]
    (rows,) = [value for key, value in switch.items() if key not in ("switch", "counters_cleared_unix_ms")]
    return rows


def row(rows, port):
    (found,) = [row for row in rows if row["port"] == port]
    return found


def until(ask, is_enough):
    """Asks again until the answer will do."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_enough(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


def refused(done, *said):
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert all(text in done.stderr for text in said), done.stderr
    assert "panicked" not in done.stderr


@pytest.mark.root
def test_counters_are_seen_and_cleared_and_the_conserves_frames(cables, path, tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text(CABLED)
    here, wires = cables("control", ["a", "b"])
    stream = Stream(A, B, DSCP, length=LENGTH)

    def send(frames):
        for _ in range(frames):
            wires["a"].send(stream.next())

    def sent_of():
        return row(shown(path, "queue", "counters"), "b")["frames"][CLASS]

    with started(file, path, namespace=here) as switch:
        # So that B is known, and no frame is flooded.
        wires["b"].send(Stream(B, A, 0).next())
        until(lambda: shown(path, "mac"), lambda rows: [entry["mac"] for entry in rows] == [B])
        send(30)
        until(sent_of, lambda sent: sent == 30)
        a, b = (row(shown(path, "interfaces"), port) for port in "ab")
        assert (a["rx"]["frames"], b["tx"]["frames"], b["rx"]["frames"]) == (30, 30, 1)
        assert (a["rx"]["bytes"], a["rx"]["dropped"], a["link_up"], a["flow_control"]) == (30 * LENGTH, 0, True, "pfc")
        (only,) = shown(path, "interfaces", "-p", "a")
        assert only["port"] == "a"
        macs = shown(path, "mac")
        assert [(entry["mac"], entry["port"], entry["is_static"]) for entry in macs] == [(A, "a", False), (B, "b", False)]

        # PFC: five frames that pause, two that resume.
        earliest = time.time_ns() // 1_000_000
        for quanta in [100] * 5 + [0] * 2:
            wires["b"].send(pfc({CLASS: quanta}, source=SCAPY))
        counters = until(lambda: row(shown(path, "pfc", "counters"), "b"), lambda row: row["rx"][CLASS] == 7)
        assert sum(counters["rx"]) == 7 and sum(counters["tx"]) == 0
        assert counters["rx_pauses"][CLASS] >= 1
        last = counters["rx_last_pause"][CLASS]
        # Times are cut to milliseconds, of two readings of the clock.
        assert earliest - 2 <= last["unix_ms"] <= time.time_ns() // 1_000_000, (earliest, last)
        # An lcore that was late takes in all seven at once, and nothing was paused for any time.
        assert last["us"] <= counters["rx_paused_us"][CLASS] and counters["rx_last_pause"].count(None) == 7

        # The queue to B held frames; nothing is there now.
        def group():
            return row(shown(path, "priority-group", "watermark", "shared"), "a")

        before = group()
        mark, persistent = (before[key][CLASS] for key in ("shared_watermark_bytes", "shared_persistent_watermark_bytes"))
        assert mark == persistent >= LENGTH + FCS and before["shared_bytes"][CLASS] == 0
        told(path, "clear", "watermarks")
        assert (group()["shared_watermark_bytes"][CLASS], group()["shared_persistent_watermark_bytes"][CLASS]) == (0, persistent)
        (pool,) = shown(path, "buffer", "pool")
        assert (pool["pool"], pool["watermark_bytes"], pool["used_bytes"]) == ("shared", 0, 0)
        assert pool["persistent_watermark_bytes"] >= persistent

        # Cleared, for all who ask; what comes then is counted from there.
        told(path, "clear", "counters")
        a, b = (row(shown(path, "interfaces"), port) for port in "ab")
        assert [a["rx"]["frames"], a["rx"]["bytes"], b["tx"]["frames"], b["rx"]["frames"]] == [0] * 4
        cleared = row(shown(path, "pfc", "counters"), "b")
        assert sum(cleared["rx"]) == 0 and cleared["rx_last_pause"] == [None] * 8
        assert "Counters since 2" in told(path, "show", "pfc", "counters")
        send(1)
        until(sent_of, lambda sent: sent == 1)
        assert row(shown(path, "interfaces"), "a")["rx"]["frames"] == 1
        # A frame alone is the most since watermarks were cleared.
        assert group()["shared_watermark_bytes"][CLASS] == LENGTH + FCS
        assert row(shown(path, "queue", "watermark"), "b")["watermark_bytes"][CLASS] == LENGTH + FCS
        metrics = told(path, "show", "metrics").splitlines()
        assert f'weir_port_rx_frames_total{{switch="lab",port="a",priority="{CLASS}"}} 31' in metrics
        assert f'weir_pfc_rx_frames_total{{switch="lab",port="b",priority="{CLASS}"}} 7' in metrics
        assert 'weir_frames_conserved{switch="lab"} 1' in metrics and metrics[-1] == "# EOF"

        # Persistent watermarks are cleared alone, and metrics keep them.
        told(path, "clear", "queue", "persistent-watermark", "unicast")
        queue = row(shown(path, "queue", "watermark"), "b")
        assert (queue["watermark_bytes"][CLASS], queue["persistent_watermark_bytes"][CLASS]) == (LENGTH + FCS, 0)
        labels = f'{{switch="lab",port="a",priority="{CLASS}",segment="shared"}}'
        assert f"weir_priority_group_persistent_watermark_bytes{labels} {persistent}" in told(path, "show", "metrics").splitlines()

        # Forgotten, flooded to, and learned again.
        assert "2 learned addresses are forgotten" in told(path, "clear", "mac")
        assert shown(path, "mac") == []
        send(1)
        until(lambda: shown(path, "mac"), lambda rows: [entry["mac"] for entry in rows] == [A])
        until(sent_of, lambda sent: sent == 2)
        events = json.loads(told(path, "show", "events", "--json"))["events"]
        cleared = [event["event"] for event in events if event["event"].endswith("_cleared")]
        assert cleared == ["watermarks_cleared", "counters_cleared", "watermarks_cleared", "mac_cleared"]

        done = switch.stop()
        done.check_sound()
        of_class = done.traffic_class("a", CLASS)
        assert (of_class["rx_frames"], of_class["shared_max_bytes"]) == (32, persistent)
        assert done.port("b")["pfc_rx"] == 7 and done.switch["frame_conservation"]["received"] == 33
    assert not path.exists()


@pytest.mark.root
def test_portstat_has_the_rates_of_bytes_and_of_frames(cables, path, tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text(CABLED)
    here, wires = cables("rates", ["a", "b"])
    stream, sent = Stream(A, B, DSCP, length=LENGTH), 0

    def rx(frames):
        nonlocal sent
        for _ in range(frames):
            wires["a"].send(stream.next())
        sent += frames
        return row(shown(path, "interfaces"), "a")["rx"]

    with started(file, path, namespace=here) as switch:
        # All frames have one length, and both rates are rounded down.
        found = until(lambda: rx(10), lambda rx: rx["frames_per_second"])
        assert -0.01 < found["bits_per_second"] / 8 / LENGTH - found["frames_per_second"] < 1.01, found
        rows = [line.split() for line in told(path, "portstat", "-R", "-i", "a").splitlines()]
        assert rows[0] == "IFACE STATE RX_OK RX_BPS RX_PPS RX_UTIL TX_OK TX_BPS TX_PPS TX_UTIL".split()
        assert rows[-1][:2] == ["a", "U"] and rows[-1][5].endswith("/s") and float(rows[-1][5][:-2]) >= 0, rows
        # Counts of the period alone, of which there are none.
        until(lambda: rx(0), lambda rx: rx["frames"] == sent)
        rows = [line.split() for line in told(path, "show", "interfaces", "counters", "-i", "a", "-p", "1").splitlines()]
        assert rows[0] == "The rates are calculated within 1 seconds period".split() and rows[-1][2] == "0", rows
        assert told(path, "portstat", "-c")
        assert row(shown(path, "interfaces"), "a")["rx"]["frames"] == 0
        switch.stop().check_sound()


@pytest.mark.root
def test_losses_are_shown_where_and_why(cables, path, tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text(CABLED)
    here, wires = cables("losses", ["a", "b"])
    with started(file, path, namespace=here) as switch:
        # To the port that it came from, and one that no bridge forwards.
        wires["a"].send(Stream(A, A, DSCP).next())
        wires["b"].send(Stream(B, "01:80:c2:00:00:0e", 0).next())
        wanted = {("a", "ingress", CLASS, "same_port", 1), ("b", "ingress", 0, "link_local", 1)}

        def lost():
            keys = ["port", "place", "class", "reason", "frames"]
            return {tuple(loss[key] for key in keys) for loss in shown(path, "losses") if loss["frames"]}

        until(lost, lambda losses: losses == wanted)
        assert "same port" in told(path, "show", "losses")
        told(path, "clear", "counters")
        assert lost() == set()
        done = switch.stop()
        done.check_sound()
        assert done.switch["drops"] == {"same_port": 1, "link_local": 1}


@pytest.mark.root
def test_clearing_all_the_time_conserves_frames(cables, path, tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text(CABLED)
    here, wires = cables("busy", ["a", "b"])
    done, highest, failures = threading.Event(), [0], []

    def ask(*request):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(str(path))
            answers = client.makefile("rb")
            while not done.is_set():
                for one in request:
                    client.sendall(json.dumps({"weir": 1, "request": one}).encode() + b"\n")
                    answer = json.loads(answers.readline())
                    if "reply" not in answer:
                        failures.append(answer)
                    for switch in answer.get("reply", {}).get("switches", []):
                        for port in switch.get("priority_groups", []):
                            marks = port["shared_watermark_bytes"][CLASS], port["shared_persistent_watermark_bytes"][CLASS]
                            if marks[0] > marks[1] or marks[1] < highest[0] and port["port"] == "a":
                                failures.append((marks, highest))
                            highest[0] = max(highest[0], marks[0])

    show = {"show": {"what": "priority_groups"}}
    clears = [{"clear": {"what": what}} for what in ("watermarks", "counters", "mac")]
    with started(file, path, namespace=here) as switch:
        asking = [threading.Thread(target=ask, args=requests) for requests in [(show, *clears[:2]), tuple(clears)]]
        for thread in asking:
            thread.start()
        try:
            stream, other = Stream(A, B, DSCP, length=LENGTH), Stream(B, A, 0)
            for n in range(500):
                wires["a"].send(stream.next())
                if n % 10 == 0:
                    wires["b"].send(other.next())
                    time.sleep(0.001)
        finally:
            done.set()
            for thread in asking:
                thread.join()
        assert not failures, failures[:3]
        # Metrics know of no clear.
        received = 'weir_received_frames_total{switch="lab"} 550'
        until(lambda: told(path, "show", "metrics").splitlines(), lambda lines: received in lines)
        finished = switch.stop()
    finished.check_sound()
    of_class = finished.traffic_class("a", CLASS)
    assert (finished.switch["frame_conservation"]["received"], of_class["rx_frames"]) == (550, 500)
    assert of_class["shared_max_bytes"] >= highest[0] > 0


def fields(value, path=""):
    """Paths of all fields: `.switches[].port`."""
    if isinstance(value, list):
        for item in value:
            yield from fields(item, path + "[]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield f"{path}.{name}"
            yield from fields(item, f"{path}.{name}")


def test_every_view_is_shown_as_a_table_and_as_json(path, tmp_path):
    names = set()
    more = '[buffer]\nsize = "1MB"\npolicy = "dsh"\n[pfc_watchdog]\n'
    with started(quiet(tmp_path, more=more), path) as switch:
        views = [
            "interfaces", "pfc counters", "pfc counters --history", "pfc watchdog", "pfc delays", "priority-group watermark shared",
            "priority-group persistent-watermark headroom", "priority-group drop", "queue watermark",
            "queue persistent-watermark", "queue counters", "buffer pool", "buffer configuration", "mac", "dsh", "lcores",
            "losses", "events",
            # As SONiC's operators type them.
            "interfaces counters", "interfaces counters errors", "interfaces counters rates", "interfaces counters -a",
            "interfaces counters trim", "interfaces counters fec-stats", "interfaces counters fec-histogram lab-0",
            "interfaces counters errors -p 1", "interfaces status", "pfcwd stats", "pfcwd config", "pfc priority",
            "pfc asymmetric", "queue counters lab-0", "queue watermark unicast", "queue wredcounters", "priority-group drop counters",
            "buffer_pool watermark", "headroom-pool persistent-watermark", "qos map dscp-tc", "qos map tc-queue",
        ]
        for view in views:
            text = told(path, "show", *view.split())
            assert "---" in text or view == "losses", (view, text)
            reply = json.loads(told(path, "show", *view.split(), "--json"))
            names |= {f"show {view} {field}" for field in fields(reply)}
        # Releases of one minor version keep them. The list of the next one is `names`.
        missing = {line for line in KEPT_NAMES.read_text().splitlines() if line.startswith("show ")} - names
        assert not missing, sorted(missing)
        commands = [
            "pfcwd show stats", "pfcwd show config", "portstat", "portstat -a -nz", "portstat -e -p 1", "portstat -R -i lab-0",
            "portstat -l -i lab-0", "portstat -T", "portstat -c", "sonic-clear pfccounters", "sonic-clear queue watermark unicast",
        ]
        for command in commands:
            assert told(path, *command.split()), command
        (lcore,) = json.loads(told(path, "show", "lcores", "--json"))["lcores"]
        assert lcore["polls"] > 0 and sum(gap["polls"] for gap in lcore["gaps"]) > 0
        queues = shown(path, "dsh")["queues"]
        assert {(queue["port"], queue["class"]) for queue in queues} == {(port, n) for port in ("lab-0", "lab-1") for n in (3, 4)}
        for view, said in [("spfc", "lab has dsh"), ("gfc", "speaks GFC"), ("cbfc", "speaks CBFC")]:
            refused(weir("show", view, "--socket", path), said)
        # Rates are known when the first interval is over: here, none at all.
        rate = until(lambda: shown(path, "interfaces")[0]["rx"]["bits_per_second"], lambda rate: rate is not None)
        assert rate == 0 and " 0bps " in told(path, "show", "interfaces")
        assert " 0.00/s " in told(path, "show", "interfaces", "counters", "rates")
        switch.stop().check_sound()


def test_what_can_not_be_shown_is_told(path, tmp_path):
    refused(weir("show", "interfaces", "--socket", path), str(path), "no switch runs with it")
    with started(quiet(tmp_path), path) as switch:
        refused(weir("show", "interfaces", "-p", "p9", "--socket", path), "no port is named `p9`", "lab-0, lab-1")
        refused(weir("show", "mac", "--switch", "left", "--socket", path), "no switch of this process is named `left`", "lab")
        refused(weir("clear", "counters", "--switch", "left", "--socket", path), "no switch of this process")
        refused(weir("show", "weather", "--socket", path), "weather")
        refused(weir("show", "mac", "--watch", "0", "--socket", path), "100ms to 24h")
        switch.stop().check_sound()
    refused(weir("show", "interfaces", "--socket", path), "no switch runs with it")


def test_two_switches_of_a_process_are_told_apart(path, tmp_path):
    files = [quiet(tmp_path, "left", rings=("x", "y")), quiet(tmp_path, "right", rings=("x", "y"))]
    with Switch(*files, arguments=("--quiet", "--control", str(path))) as switch:
        both = json.loads(told(path, "show", "interfaces", "--json"))["switches"]
        assert [(of["switch"], [port["port"] for port in of["interfaces"]]) for of in both] == [
            ("left", ["left-0", "left-1"]),
            ("right", ["right-0", "right-1"]),
        ]
        text = told(path, "show", "interfaces")
        assert text.startswith("left\n") and "\nright\n" in text
        (one,) = json.loads(told(path, "show", "interfaces", "--switch", "right", "--json"))["switches"]
        assert one["switch"] == "right"
        # One alone.
        told(path, "clear", "counters", "--switch", "right")
        left, right = json.loads(told(path, "show", "interfaces", "--json"))["switches"]
        assert "counters_cleared_unix_ms" not in left and "counters_cleared_unix_ms" in right
        switch.stop().check_sound()


def test_files_that_do_not_agree_on_the_socket_are_refused(path, tmp_path):
    left = quiet(tmp_path, "left", f'[control]\nsocket = "{path}"\n', ("x", "y"))
    right = quiet(tmp_path, "right", '[control]\nsocket = "none"\n', ("x", "y"))
    refused(weir("run", left, right, "--duration", "1"), "right.toml:", "one control socket")
    bad = quiet(tmp_path, "bad", '[control]\ngroup = "no-such-group"\n')
    refused(weir("run", bad, "--duration", "1"), "bad.toml:", "no group no-such-group")
    nowhere = quiet(tmp_path, "nowhere", f'[control]\nsocket = "{path.parent}/none/c.sock"\n')
    refused(weir("run", nowhere, "--duration", "1"), "nowhere.toml:", "No such file")
    path.write_text("mine")
    refused(weir("run", quiet(tmp_path), "--duration", "1", "--control", path), "no socket")
    assert path.read_text() == "mine"


def test_the_socket_has_the_mode_that_the_file_gives(path, tmp_path):
    def mode():
        found = os.stat(path).st_mode
        assert stat.S_ISSOCK(found)
        return stat.S_IMODE(found)

    with started(quiet(tmp_path), path) as switch:
        assert mode() == 0o600
        switch.stop().check_sound()
    with started(quiet(tmp_path, more='[control]\nmode = "0622"\n'), path) as switch:
        assert mode() == 0o622
        switch.stop().check_sound()
    with Switch(quiet(tmp_path, more=f'[control]\nsocket = "{path}"\ngroup = "{os.getgid()}"\n'), arguments=("--quiet",)) as switch:
        assert (mode(), os.stat(path).st_gid) == (0o660, os.getgid())
        switch.stop().check_sound()
    with started(quiet(tmp_path), "none") as switch:
        assert not path.exists() and not switch.has_said("control socket")
        switch.stop().check_sound()


def test_a_live_socket_is_refused_and_a_dead_ones_replaced(path, tmp_path):
    with started(quiet(tmp_path), path) as first:
        second = weir("run", quiet(tmp_path, "other"), "--duration", "1", "--control", path)
        refused(second, "--control", f"process {first.process.pid}")
        assert shown(path, "mac") == []
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    assert path.exists()
    refused(weir("show", "mac", "--socket", path), "has ended")
    with started(quiet(tmp_path), path) as again:
        assert shown(path, "mac") == []
        again.stop().check_sound()


def test_the_thin_program_asks_by_itself(path, tmp_path):
    alone = tmp_path / "weir"
    shutil.copy(weir_binary(), alone)
    with started(quiet(tmp_path), path) as switch:
        done = weir("show", "interfaces", "--socket", path, binary=alone)
        assert done.returncode == 0 and "lab-1" in done.stdout, done.stderr
        switch.stop().check_sound()


def said_to(path, *lines):
    """All that a client hears who sends these lines."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(path))
        client.sendall(b"".join(lines))
        client.shutdown(socket.SHUT_WR)
        heard = b""
        while some := client.recv(65536):
            heard += some
        return [json.loads(line) for line in heard.splitlines()]


def test_malformed_requests_get_an_error_and_stop_nothing(path, tmp_path):
    with started(quiet(tmp_path), path) as switch:
        hello = b'{"weir":1,"request":"hello"}\n'
        answers = said_to(
            path, hello, b"\x00\xff\n", b"[]\n", b'{"weir":1,"request":{"show":{"what":"weather"}}}\n', b'{"weir":99,"ask":1}\n', hello
        )
        kinds = [answer.get("error", {}).get("kind") for answer in answers]
        assert kinds == [None, "malformed", "malformed", "malformed", "version", None], answers
        assert answers[0]["reply"]["hello"]["switches"] == ["lab"] and answers[0]["reply"]["hello"]["process"] == switch.process.pid
        assert "version 1" in answers[4]["error"]["message"]
        # Clients that say nothing, or break off, do not keep others waiting.
        silent = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        try:
            for client in silent:
                client.connect(str(path))
                client.sendall(b'{"weir":')
            silent[0].close()
            assert shown(path, "mac") == []
        finally:
            for client in silent:
                client.close()
        switch.stop().check_sound()


def test_a_switch_of_another_version_is_told(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer():
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(b'{"weir":2,"error":{"kind":"version","message":"ask in version 2"}}\n')

        answering = threading.Thread(target=answer)
        answering.start()
        done = weir("show", "interfaces", "--socket", path)
        answering.join()
    refused(done, "speaks version 2", "ask in version 2")


def test_a_view_is_repeated_until_it_is_ended(path, tmp_path):
    with started(quiet(tmp_path), path) as switch:
        command = [weir_binary(), "show", "mac", "--watch", "0.1", "--socket", str(path)]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            heads = 0
            while heads < 3:
                heads += "MacAddress" in watching.stdout.readline()
        finally:
            watching.kill()
            watching.communicate()
        switch.stop().check_sound()


def test_another_user_may_ask_only_if_let_in(path, tmp_path):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, and setpriv of util-linux, to be another user")
    group = 64_321

    def connects():
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        user = ["setpriv", "--reuid=65534", f"--regid={group}", "--clear-groups", sys.executable, "-I", "-S", "-c", code]
        return subprocess.run(user, capture_output=True).returncode == 0

    with started(quiet(tmp_path), path) as switch:
        assert not connects()
        switch.stop().check_sound()
    with started(quiet(tmp_path, more=f'[control]\ngroup = "{group}"\n'), path) as switch:
        assert connects()
        switch.stop().check_sound()


def test_an_ordinary_users_switch_is_found_where_it_usually_is(path, tmp_path):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, and setpriv of util-linux, to be another user")
    runtime = path.parent
    os.chown(runtime, 65534, 65534)
    file = quiet(runtime)
    file.chmod(0o644)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"XDG_RUNTIME_DIR={runtime}", weir_binary()]

    def as_user(*arguments):
        return subprocess.run([*user, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)

    refused(as_user("show", "mac", "--switch", "lab"), "no running switch is named `lab`")
    running = subprocess.Popen([*user, "run", str(file), "--quiet"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        if not any("forwarding" in line for line in running.stderr):
            pytest.skip("DPDK does not start as another user here")
        assert stat.S_ISSOCK(os.stat(runtime / "weir" / "lab.control").st_mode)
        done = as_user("show", "interfaces", "--switch", "lab", "--json")
        assert done.returncode == 0, done.stderr
        (switch,) = json.loads(done.stdout)["switches"]
        assert [port["port"] for port in switch["interfaces"]] == ["lab-0", "lab-1"]
        # Another one of the name has a socket of its own, and a switch's name is not enough then.
        file.write_text(file.read_text().replace("lab-ring", "other-ring"))
        second = subprocess.Popen([*user, "run", str(file), "--quiet"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            assert any("forwarding" in line for line in second.stderr)
            assert (runtime / "weir" / f"lab-{second.pid}.control").exists()
            refused(as_user("show", "mac", "--switch", "lab"), "several runs are meant", f"process {second.pid}", "--socket PATH")
        finally:
            second.terminate()
            second.communicate()
        running.terminate()
        assert running.wait(PATIENCE_S) == 0
        assert list((runtime / "weir").iterdir()) == []
    finally:
        running.kill()
        running.communicate()


def fuzzed(random):
    """What somebody may send who means harm, or has the wrong program."""
    words = ["{", "}", "[", ":", ",", '"weir"', "1", "-1", "1e999", '"request"', '"show"', '"what"', '"mac"', "null", '"\\ud800"']
    asked = [
        {"show": {"what": "queues", "ports": ["\u0000" * 50]}},
        {"set": {"changes": [{"key": "ports.lab-0.rate", "value": "9" * 5_000}]}},
        {"set": {"changes": [{"key": "x" * 30_000}], "for_ms": 2**64 - 1}},
        {"set": {"changes": [{"key": "buffer.dt.alpha", "value": "]\n[["}] * 500}},
        {"reload": {"switch": "../../etc/passwd"}},
        {"configuration": {}},
        {"capture": {"ports": ["lab-0"], "classes": [255], "snaplen": 2**32 - 1, "frames": 0}},
        {"capture": {"for_ms": random.randrange(3), "drops": True, "snaplen": 14}},
        {"capture": {"frames": 0}},
        {"clear": {"what": "mac"}},
    ]
    kind = random.randrange(6)
    if kind == 0:
        return random.randbytes(random.randrange(2_000))
    if kind == 1:
        return "".join(random.choices(words, k=60)).encode() + b"\n"
    if kind == 2:
        return b"[" * random.choice([10, 70_000, 300_000])
    line = json.dumps({"weir": random.choice([1, 1, 1, 2]), "request": random.choice(asked)}).encode() + b"\n"
    if kind == 3:
        cut = random.randrange(len(line))
        return line[:cut] + random.randbytes(1) + line[cut + 1:]
    return line[: random.randrange(len(line))] if kind == 4 else line * random.randrange(1, 4)


def test_whatever_is_sent_the_switch_goes_on(path, tmp_path):
    seed = time.time_ns()
    print(f"seed {seed}")
    errors = []

    def flood(random):
        try:
            for n in range(120):
                with socket.socket(socket.AF_UNIX) as client:
                    client.settimeout(PATIENCE_S)
                    client.connect(str(path))
                    try:
                        client.sendall(fuzzed(random))
                        # Some listen, some go at once.
                        if n % 3 == 0:
                            client.shutdown(socket.SHUT_WR)
                            while client.recv(65_536):
                                pass
                    except (BrokenPipeError, ConnectionResetError):
                        pass
        except OSError as error:
            errors.append(error)

    def resident_kb(process):
        lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])

    with started(quiet(tmp_path), path) as switch:
        told(path, "show", "interfaces")
        before = resident_kb(switch.process.pid)
        floods = [threading.Thread(target=flood, args=(random.Random(seed + n),)) for n in range(4)]
        for thread in floods:
            thread.start()
        for thread in floods:
            thread.join()
        assert not errors, errors
        # Whoever asks properly is answered once the flood is over.
        until(lambda: weir("show", "interfaces", "--socket", path).returncode, lambda code: code == 0)
        # A ring of each capture, requests, and threads' stacks: a bound, whatever the flood's length.
        assert resident_kb(switch.process.pid) - before < 200_000
        done = switch.stop()
    done.check_sound()
    assert "panicked" not in done.stderr
