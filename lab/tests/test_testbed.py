"""`weir testbed run`: the GFC paper's ring with real frames, and scenarios that are wrong. Needs no root."""

import csv
import json
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from weirlab.switch import weir_binary
from weirlab.waiting import until

RING = Path(__file__).parents[2] / "scenarios" / "gfc-ring.toml"
# The share of a line's time that a late machine may take from a host, whatever the run shows then.
LATE_MAX = 0.02
# Where the run shows what the scenario expects.
LATE_MAX_AS_EXPECTED = 0.1
DEADLOCK, FLOW = "PFC, arrival", "GFC by stages, round-robin"


def run_scenario(*arguments, timeout=120):
    command = [weir_binary(), "testbed", "run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """PFC with the order of arrival, and GFC with turns, for the first half of the scenario: what was printed, and the directory.

    By a slower clock if others had the CPUs: what a host or a port lost of its line's time then is the machine's doing.
    """
    dilation = []
    half = tmp_path_factory.mktemp("half") / RING.name
    half.write_text(RING.read_text().replace('end = "30ms"', 'end = "15ms"'))
    for _ in range(3):
        folder = tmp_path_factory.mktemp("ring") / "runs"
        finished = run_scenario(half, "--run", DEADLOCK.lower(), "--run", FLOW, "-o", folder, *dilation, timeout=400)
        runs = [summary(folder, run)[0] for run in (DEADLOCK, FLOW)]
        late = max(run["late_ns"] / run["duration_ns"] for run in runs)
        if late <= (LATE_MAX_AS_EXPECTED if finished.returncode == 0 else LATE_MAX):
            break
        dilation = ["--dilation", 3 * runs[0]["time_dilation"]]
    return finished, folder


def summary(folder, run):
    name = "-".join(word for word in run.lower().replace(",", " ").replace("-", " ").split())
    return json.loads((folder / name / "summary.json").read_text()), folder / name


@pytest.mark.idle_machine
@pytest.mark.one_cpu
def test_pfc_deadlocks_and_says_so_first(ring):
    finished, folder = ring
    results, directory = summary(folder, DEADLOCK)
    assert results["lossless"], finished.stdout
    cycle = results["deadlock"]["cycle"]
    assert cycle == "S1.next -> S2.next -> S3.next -> S1.next, class 3"
    assert results["deadlock"]["dissolved_ns"] is None
    last = results["windows"][-1]
    assert [flow["bytes_received"] for flow in last["flows"]] == [0, 0, 0], "throughput is 0 for good"
    alarm = next(line for line in finished.stdout.splitlines() if line.startswith(DEADLOCK))
    assert "DEADLOCK" in alarm and cycle in alarm
    with open(directory / "events.csv", newline="") as file:
        assert [row["detail"] for row in csv.DictReader(file) if row["event"] == "deadlock"] == [cycle]


@pytest.mark.idle_machine
@pytest.mark.one_cpu
def test_gfc_flows_on(ring):
    finished, folder = ring
    results, directory = summary(folder, FLOW)
    assert results["lossless"] and results["deadlock"] is None, finished.stdout
    last = results["windows"][-1]
    assert all(flow["throughput_bps"] > 1_000_000_000 for flow in last["flows"]), last["flows"]
    port = next(port for port in results["ports"] if port["name"] == "S1.h1")
    assert (port["flow_control"], port["feedback_ns"]) == ("GFC by stages", 90_000)
    assert 0 < port["messages"]["share_ppm"] <= port["messages"]["share_worst_ppm"]
    lane = next(lane for lane in results["links"] if lane["to"] == "S1.h1")
    assert lane["feedback"]["max_ns"] > 79_000, "there and back on a link of 40 us"
    with open(directory / "events.csv", newline="") as file:
        stages = [int(row["detail"]) for row in csv.DictReader(file) if (row["event"], row["port"]) == ("stage_sent", "S1.h1")]
    assert stages and stages[0] == 1, stages


@pytest.mark.idle_machine
@pytest.mark.one_cpu
def test_the_comparison_and_the_figure(ring):
    finished, folder = ring
    assert finished.returncode == 0, "the deadlock is what the scenario expects: " + finished.stderr
    for text in (DEADLOCK, FLOW, "tau configured", "messages, worst millisecond"):
        assert text in finished.stdout, finished.stdout
    figure = ElementTree.parse(folder / "figure.svg")
    texts = [element.text.strip() for element in figure.iter() if element.tag.endswith("text")]
    assert "B_1 750 KB" in texts and "ingress queue (KB)" in texts and "time (ms)" in texts, texts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ends = [\"S1.next\", \"S2.prev\"]", "ends = [\"S1.next\", \"S4.prev\"]"), "S4"),
        (("from = \"H1\"", "from = \"H9\""), "H9"),
        (("b_1 = \"750KB\"", "b_1 = \"950KB\""), "b_1"),
        (("end = ", "ende = "), "ende"),
    ],
)
def test_wrong_scenarios_are_refused_with_their_line(tmp_path, change, message):
    text = RING.read_text()
    assert change[0] in text
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(text.replace(*change, 1))
    finished = run_scenario(wrong, "-o", tmp_path / "runs")
    line = text[: text.index(change[0])].count("\n") + 1
    assert finished.returncode == 2
    assert message in finished.stderr and f"wrong.toml:{line}" in finished.stderr, finished.stderr
    assert not (tmp_path / "runs").exists(), "nothing is half-started"


def test_a_run_that_there_is_not(tmp_path):
    finished = run_scenario(RING, "--run", "InfiniBand", "-o", tmp_path / "runs")
    assert finished.returncode == 2
    assert "InfiniBand" in finished.stderr and "GFC by time, arrival" in finished.stderr


VIRTUAL = ["--backend", "sim", "--ns3-files"]
#: What a run in virtual time leaves that depends on where and when it ran.
OF_THE_MACHINE = {"provenance.json", "speed.json"}


def test_virtual_time_leaves_the_same_bytes_each_time(tmp_path):
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        finished = run_scenario(RING, *VIRTUAL, "-o", folder)
        assert finished.returncode == 0, "the deadlocks are what the scenario expects: " + finished.stderr
        assert "in virtual time" in finished.stdout and "EAL" not in finished.stderr, finished.stderr
        assert any(line.startswith(DEADLOCK + ": DEADLOCK from") for line in finished.stdout.splitlines()), finished.stdout
    runs = sorted(run.name for run in folders[0].iterdir() if run.is_dir())
    assert len(runs) == 8, runs
    for run in runs:
        one, other = (folder / run for folder in folders)
        results = json.loads((one / "summary.json").read_text())
        assert results["failures"] == [] and results["lossless"] and results["backend"] == "sim", run
        names = {file.name for file in one.iterdir()}
        assert OF_THE_MACHINE | {"summary.json", "series.csv", "events.csv", "fct.csv", "fct.txt", "pfc.txt", "qlen.txt"} <= names
        for name in names - OF_THE_MACHINE:
            assert (one / name).read_bytes() == (other / name).read_bytes(), f"{run}: {name}"


def test_an_interrupted_run_in_virtual_time_leaves_its_results(tmp_path):
    scenario = tmp_path / "long.toml"
    scenario.write_text(RING.read_text().replace('end = "30ms"', 'end = "900s"').replace('sample_every = "50us"', 'sample_every = "1ms"'))
    command = [weir_binary(), "testbed", "run", scenario, "--run", FLOW, "--run", DEADLOCK, "--backend", "sim", "-o", tmp_path / "runs"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The run with a deadlock stands first, and stands still soon.
    series = tmp_path / "runs" / "pfc-arrival" / "series.csv"
    until(lambda: series.exists() and series.stat().st_size > 10_000, "the first run's samples")
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=180)
    assert running.returncode == 1, stderr
    results, _ = summary(tmp_path / "runs", DEADLOCK)
    assert results["failures"][0].startswith("interrupted at ") and results["failures"][0].endswith(" of 900s")
    assert 0 < results["duration_ns"] < 900e9
    assert "interrupted at" in stdout and not (tmp_path / "runs" / "gfc-by-stages-round-robin" / "summary.json").exists()


def test_an_interrupted_run_with_real_frames_leaves_its_results(tmp_path):
    scenario = tmp_path / "long.toml"
    scenario.write_text(RING.read_text().replace('end = "30ms"', 'end = "900s"').replace('sample_every = "50us"', 'sample_every = "100us"'))
    command = [weir_binary(), "testbed", "run", scenario, "--run", FLOW, "--run", DEADLOCK, "--backend", "dpdk", "-o", tmp_path / "runs"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    series = tmp_path / "runs" / "pfc-arrival" / "series.csv"
    until(lambda: series.exists() and series.stat().st_size > 10_000, "the first run's samples")
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=180)
    assert running.returncode == 1, stderr
    results, _ = summary(tmp_path / "runs", DEADLOCK)
    assert results["failures"][0].startswith("interrupted at ") and results["failures"][0].endswith(" of 900s"), results["failures"]
    assert 0 < results["duration_ns"] < 900e9 and results["lossless"]
    assert "INTERRUPTED: 1 of 2 runs" in stdout, stdout
    assert not (tmp_path / "runs" / "gfc-by-stages-round-robin" / "summary.json").exists()


@pytest.mark.parametrize(
    ("scenario", "arguments", "messages"),
    [
        (RING, ["--ns3-files"], ["--ns3-files", "--backend sim"]),
        (RING, ["--backend", "ns3"], ["ns3", "--backend", "sim", "dpdk"]),
        (RING.with_name("leaf-spine-websearch.toml"), ["--backend", "dpdk"], ["--backend dpdk: ", "takes virtual time", "write --backend sim"]),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, scenario, arguments, messages):
    finished = run_scenario(scenario, *arguments, "-o", tmp_path / "runs")
    assert finished.returncode == 2, finished.stderr
    assert all(message in finished.stderr for message in messages), finished.stderr
    assert not (tmp_path / "runs").exists()
