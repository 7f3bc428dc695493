"""The record of `weir run -o DIR`: what it holds, and what is left of it when the run is killed, its files are moved away, the
disk is full, or nobody reads the terminal. Needs no root: frames come from a capture that scapy wrote."""

import csv
import json
import os
import re
import resource
import signal
import subprocess

import pytest
from conftest import need
from pfc import Stream
from scapy.utils import wrpcap

from weirlab.switch import REPOSITORY, Switch, weir_binary
from weirlab.waiting import until

# Much, for machines that do much else; nothing waits for it to pass.
PATIENCE_S = 60
CONFIG = """
[switch]
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "1MB"
policy = "static"
headroom = "400KB"
[buffer.static]
threshold = "20KB"
[classes]
lossless = [3]
[classes.dscp]
26 = 3
[[ports]]
name = "in"
pcap = {{ rx = "{frames}", tx = "{told}" }}
rate = "1Gbps"
[[ports]]
name = "out"
pcap = {{ tx = "{sent}" }}
rate = "10Mbps"
[[static_macs]]
mac = "02:00:00:00:00:01"
port = "out"
"""


@pytest.fixture
def recorded(tmp_path):
    """Starts a switch that keeps a record in `tmp_path / "record"`, and gets 200 lossless frames of 1,000 B at once."""
    stream = Stream("02:00:00:00:00:10", "02:00:00:00:00:01", 26, length=1_000)
    frames = tmp_path / "frames.pcap"
    wrpcap(str(frames), [stream.next() for _ in range(200)], linktype=1)
    names = {"frames": frames, "told": tmp_path / "told.pcap", "sent": tmp_path / "sent.pcap"}
    config = tmp_path / "lab.toml"
    config.write_text(CONFIG.format(**names))
    directory = tmp_path / "record"

    def start(*arguments, **options):
        every = [] if "--sample-every" in arguments else ["--sample-every", "100ms"]
        return Switch(config, arguments=["-o", str(directory), *every, *arguments], **options), directory

    return start


def rows(path):
    """The whole rows of a table so far, as dictionaries."""
    if not path.exists():
        return []
    text = path.read_text()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))


def keys(value):
    """Keys of objects in a JSON value, but for those of maps, which are reasons, causes and parameters."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(keys(below) for key, below in value.items() if key not in ("drops", "by_cause", "parameters")))


def report(*arguments):
    return subprocess.run([weir_binary(), "report", *map(str, arguments)], capture_output=True, text=True)


def test_a_record_has_what_happened(recorded, tmp_path):
    switch, directory = recorded("--capture", "in", "--capture-frames", "50")
    with switch:
        until(lambda: any(row["event"] == "resume_sent" for row in rows(directory / "events.csv")), "a RESUME")
        finished = switch.stop()
    finished.check_sound()
    events = [(row["port"], row["class"], row["event"]) for row in rows(directory / "events.csv")]
    assert ("in", "3", "pause_sent") in events and ("in", "3", "resume_sent") in events, events
    series = rows(directory / "series.csv")
    assert max(int(row["in.3.ingress_bytes"]) for row in series) > 20_000
    assert any(row["in.3.paused"] == "1" for row in series)
    # As ns-3's users read it: the node behind the port is paused, and resumed.
    kinds = {line.split()[4] for line in (directory / "pfc.txt").read_text().splitlines()}
    assert kinds == {"0", "1"}, kinds
    summary = json.loads((directory / "summary.json").read_text())
    (at_in,) = [port for port in summary["ports"] if port["name"] == "in"]
    assert (summary["failures"], summary["lossless"], summary["backend"]) == ([], True, "dpdk")
    assert at_in["classes"][0]["pauses_sent"] == finished.traffic_class("in", 3)["pauses_tx"] > 0
    assert json.loads((directory / "provenance.json").read_text())["format"] == "weir-run-2"
    assert json.loads((directory / "switches.json").read_text()) == finished.summary
    explained = set(re.findall(r"`(\w+)`", (REPOSITORY / "docs/RUN_DIRECTORY.md").read_text()))
    for file in ("summary.json", "switches.json", "provenance.json", "topology.json"):
        untold = keys(json.loads((directory / file).read_text())) - explained
        assert not untold, f"docs/RUN_DIRECTORY.md does not have these keys of {file}: {untold}"
    assert not list(directory.glob("summary.json.*")), "the results so far are gone when there are whole ones"
    page = tmp_path / "report.html"
    made = report(directory, "-o", page)
    assert made.returncode == 0, made.stderr
    assert "PAUSE" in page.read_text()
    text = report(directory, "--text")
    assert text.returncode == 0 and "static" in text.stdout, text


def test_tshark_reads_the_capture(recorded):
    need("tshark")
    switch, directory = recorded("--capture", "in", "--capture-frames", "50")
    with switch:
        until(lambda: any(row["event"] == "resume_sent" for row in rows(directory / "events.csv")), "a RESUME")
        switch.stop().check_sound()

    def frames(wanted):
        command = ["tshark", "-r", directory / "in.pcapng", "-Y", wanted, "-T", "fields", "-e", "frame.number"]
        return len(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())

    assert frames("udp && !macc") == 50
    told = [row["event"] for row in rows(directory / "events.csv") if row["event"].startswith(("pause", "resume"))]
    assert frames("macc.opcode == 0x0101") == len(told) > 1


def test_a_killed_run_leaves_what_was_up_to_its_last_second(recorded):
    switch, directory = recorded()
    so_far = directory / "summary.json.part"
    with switch:
        until(lambda: so_far.exists() and len(rows(directory / "series.csv")) >= 3, "three samples")
        switch.process.kill()
        switch.process.wait()
    assert not (directory / "summary.json").exists()
    assert any(row["event"] == "pause_sent" for row in rows(directory / "events.csv"))
    summary = json.loads(so_far.read_text())
    assert "did not end" in summary["failures"][0], summary["failures"]
    made = report(directory, "--text")
    assert made.returncode == 0 and "did not end" in made.stdout, made


def test_samples_are_as_near_to_each_other_as_is_asked_for(recorded):
    switch, directory = recorded("--sample-every", "2ms")

    def least_gap_us():
        times = [float(row["t_us"]) for row in rows(directory / "series.csv")]
        return min((later - at for at, later in zip(times, times[1:])), default=float("inf"))

    # Far below 20 ms, the time in which links are looked at; a busy machine leaves others out.
    with switch:
        until(lambda: least_gap_us() < 10_000, "two samples with less than 10 ms between them")
        switch.stop().check_sound()


def test_rotated_files_are_opened_anew_by_sighup(recorded):
    switch, directory = recorded("--capture", "in")
    series, old = directory / "series.csv", directory.parent / "series.csv.1"
    with switch:
        until(lambda: len(rows(series)) >= 2, "two samples")
        series.rename(old)
        switch.process.send_signal(signal.SIGHUP)
        until(lambda: len(rows(series)) >= 2, "two samples in the new file")
        switch.stop().check_sound()
    assert rows(old)[0].keys() == rows(series)[0].keys()
    assert float(rows(old)[-1]["t_us"]) < float(rows(series)[0]["t_us"])


def test_signals_ask_for_the_state_and_end_nothing(recorded):
    switch, directory = recorded()
    with switch:
        for number, asked in enumerate([signal.SIGUSR1, signal.SIGQUIT], start=1):
            switch.process.send_signal(asked)
            snapshot = directory / f"snapshot-{number}.json"
            until(lambda path=snapshot: path.exists() and path.read_text().endswith("}\n"), snapshot.name)
            (state,) = json.loads(snapshot.read_text())["switches"]
            assert [port["name"] for port in state["ports"]] == ["in", "out"]
        finished = switch.stop()
    finished.check_sound()
    assert finished.stdout.count("shared buffer: peak") == 3, "twice asked for, and at the end"


def test_without_a_record_sighup_ends_nothing(recorded, tmp_path):
    recorded()[0].__exit__()
    with Switch(tmp_path / "lab.toml") as switch:
        switch.process.send_signal(signal.SIGHUP)
        until(lambda: switch.has_said("nothing to open anew"), "a message")
        switch.stop().check_sound()


def test_a_closed_terminal_ends_no_switch(recorded, tmp_path):
    recorded()[0].__exit__()
    directory = tmp_path / "other"
    command = [weir_binary(), "run", tmp_path / "lab.toml", "-o", directory, "--sample-every", "100ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout.readline().startswith(b"lab  rx")
            process.stdout.close()
            process.stderr.close()
            seen = len(rows(directory / "series.csv"))
            # The line of rates comes each second: two of them find nobody.
            until(lambda: len(rows(directory / "series.csv")) >= seen + 25, "25 samples more")
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    assert (directory / "summary.json").exists()


def test_a_full_disk_is_told_and_the_switch_goes_on(recorded):
    # The limit of a file's size stands for a disk that is full.
    switch, directory = recorded()
    series = directory / "series.csv"
    with switch:
        until(lambda: len(rows(series)) >= 2, "two samples")
        unlimited = resource.prlimit(switch.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(switch.process.pid, resource.RLIMIT_FSIZE, (1, unlimited[1]))
        until(lambda: switch.has_said("the record stops here"), "a message")
        resource.prlimit(switch.process.pid, resource.RLIMIT_FSIZE, unlimited)
        before = len(rows(series))
        switch.process.send_signal(signal.SIGHUP)
        until(lambda: len(rows(series)) >= before + 3, "samples after there is room again")
        finished = switch.stop()
    assert finished.code == 1, finished.stderr
    (told,) = [line for line in finished.stderr.splitlines() if "the record stops here" in line]
    assert str(directory) in told and "the switch goes on" in told
    assert finished.summary["switches"][0]["frame_conservation"]["holds"]
    summary = json.loads((directory / "summary.json").read_text())
    assert any("File too large" in failure for failure in summary["failures"]), summary["failures"]
    assert any(row["event"] == "mark" and "record resumed" in row["detail"] for row in rows(directory / "events.csv"))


def test_what_is_wrong_is_told_before_anything_starts(recorded, tmp_path):
    switch, directory = recorded()
    switch.__exit__()
    config = str(tmp_path / "lab.toml")

    def refused(*arguments):
        made = subprocess.run([weir_binary(), "run", config, *map(str, arguments)], capture_output=True, text=True)
        assert made.returncode == 2, made
        return made.stderr

    directory.mkdir(exist_ok=True)
    (directory / "thesis.tex").write_text("mine")
    assert "thesis.tex" in refused("-o", directory)
    assert (directory / "thesis.tex").read_text() == "mine"
    assert "name one of: in, out" in refused("-o", tmp_path / "other", "--capture", "nowhere")
    assert "--output" in refused("--capture", "in")
    assert "sample-every" in refused("-o", tmp_path / "other", "--sample-every", "often")
    assert "write 1ms or more" in refused("-o", tmp_path / "other", "--sample-every", "0s")
    assert not (tmp_path / "other").exists()
    assert os.path.exists(config)
