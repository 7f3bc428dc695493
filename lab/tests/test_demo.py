"""`weir demo` as a newcomer runs it, on the small testbed: what it prints, what it leaves, and what Wireshark makes of that."""

import csv
import json
import subprocess

import pytest
from conftest import need

from weirlab.switch import weir_binary

TIMEOUT_S = 180
POLICIES = {"st": "st", "dt:1": "dt-1"}


def demo(*arguments, cwd):
    command = [weir_binary(), "demo", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    where = tmp_path_factory.mktemp("demo")
    done = demo("--testbed", "--bursts", "4", "--policies", ",".join(POLICIES), cwd=where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, where / "runs" / "demo"


def summary(directory, policy):
    return json.loads((directory / policy / "summary.json").read_text())


def window(of, name):
    return next(window for window in of["windows"] if window["name"] == name)


def test_nothing_is_lost_and_the_table_says_so(runs):
    printed, directory = runs
    row = next(line for line in printed.splitlines() if "lossless frames lost" in line)
    assert row.split()[-2:] == ["0", "0"]
    for policy in POLICIES.values():
        result = summary(directory, policy)
        assert result["lossless"]
        assert all(flow["lost"] == flow["reordered"] == 0 for flow in result["flows"])


def test_the_victim_suffers_while_h0_is_paused(runs):
    _, directory = runs
    for policy in POLICIES.values():
        result = summary(directory, policy)
        before, burst = (window(result, name) for name in ("before", "burst"))
        f1_before, f1_burst = (part["flows"][0]["throughput_bps"] for part in (before, burst))
        assert before["ports"][0]["pauses_sent"] == 0
        assert burst["ports"][0]["pauses_sent"] > 0
        # The fair share with N = 4 burst hosts is two fifths; without the pauses F1 would keep all.
        assert f1_burst < 0.75 * f1_before, f"{policy}: F1 {f1_before} b/s before, {f1_burst} b/s in the burst"


def test_series_and_events_tell_the_same(runs):
    _, directory = runs
    for policy in POLICIES.values():
        with open(directory / policy / "events.csv", newline="") as file:
            events = list(csv.DictReader(file))
        pauses = sum(event["port"] == "p0" and event["event"] == "pause_sent" for event in events)
        assert pauses > 0
        with open(directory / policy / "series.csv", newline="") as file:
            series = list(csv.DictReader(file))
        times = [float(row["t_us"]) for row in series]
        assert times == sorted(times) and len(times) > 50
        assert max(int(row["p0.3.ingress_bytes"]) for row in series) > 0


def test_wireshark_reads_the_capture(runs):
    need("tshark")
    _, directory = runs
    for policy in POLICIES.values():
        capture = directory / policy / "p0.pcapng"
        fields = ["-e", "infiniband.bth.opcode", "-e", "macc.opcode", "-e", "_ws.malformed"]
        lines = subprocess.run(
            ["tshark", "-n", "-r", capture, "-T", "fields", "-E", "separator=,", *fields],
            capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
        ).stdout.splitlines()
        roce, control, malformed = (sum(bool(line.split(",")[n]) for line in lines) for n in range(3))
        assert roce > 1000 and control > 0 and malformed == 0, f"{roce} RoCE, {control} control, {malformed} malformed"


def test_a_second_run_replaces_the_first_and_a_foreign_directory_is_refused(tmp_path):
    foreign = tmp_path / "mine" / "st"
    foreign.mkdir(parents=True)
    (foreign / "thesis.tex").write_text("years of work")
    done = demo("--policies", "st", "-o", "mine", cwd=tmp_path)
    assert done.returncode == 2 and "thesis.tex" in done.stderr and "panicked" not in done.stderr
    assert (foreign / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("wrong", [["--bursts", "14"], ["--policies", "red"], ["--dilation", "0"], ["--dilation", "1"]])
def test_wrong_arguments(tmp_path, wrong):
    done = demo(*wrong, cwd=tmp_path)
    assert done.returncode == 2 and wrong[0] in done.stderr and "panicked" not in done.stderr
