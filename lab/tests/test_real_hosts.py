"""`--backend hosts` with network namespaces, of a scenario and of an experiment: what iperf3 and the kernels say, and that nothing stays behind."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from weirlab.netns import ip
from weirlab.scenario import at_one_switch, flow, host, run_with_hosts
from weirlab.switch import weir_binary
from weirlab.waiting import until

TOOLS = ["iperf3", "nstat", "pgrep", "ss"]
missing = [tool for tool in TOOLS if not shutil.which(tool)]
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(missing), reason=f"missing here: {', '.join(missing)}")]

# Two TCPs into one slow port: Cubic and Reno, which each kernel has.
MARKED = """
[[switch.classes.queues]]
class = 0
ecn = { kmin = "15KB", kmax = "15KB", pmax = 1.0 }
"""
SCENARIO = (
    at_one_switch("two-tcps", "2s", buffer="1MB", classes=MARKED)
    + host("A", '"netns"')
    + host("B", '"netns"')
    + host("C", '"netns"', rate="10Mbps")
    + flow("first", "A", "C", 0, transport="tcp-cubic")
    + flow("second", "B", "C", 0, transport="tcp-reno")
)

# Ranks of a collective, and triggers of htsim's format: 100 KB take 8 ms at 100 Mb/s.
RANKS = """
[[workloads]]
name = "ring"
kind = "collective"
class = 3
collective = "ring-all-reduce"
bytes = "300KB"
times = 2
compute = "100ms"

[[workloads]]
name = "matrix"
kind = "connection-matrix"
class = 4
file = "triggers.cm"
"""
TRIGGERS = """Nodes 3
Connections 3
Triggers 2
0->1 id 1 start 300000 size 90000 send_done_trigger 1
2->0 id 2 trigger 1 size 50000 recv_done_trigger 2
1->2 id 3 trigger 2 size 4000
trigger id 1 oneshot
trigger id 2 oneshot
"""

# An experiment of two points: what a port's rate leaves to one TCP. They are so far apart that a machine with other work to do tells them apart too.
ONE_TCP = at_one_switch("one-tcp", "2s", buffer="200KB") + host("A", '"netns"') + host("B", '"netns"') + flow("only", "A", "B", 0, transport="tcp-cubic")
SWEEP = """
scenario = "scenario.toml"

[parameters]
"hosts.B.rate" = ["2Mbps", "100Mbps"]
"""
MEASURE = """
[[measures]]
name = "{0}"
unit = "Mb/s"
value = "flows.only.throughput_bps"
where = {{ "hosts.B.rate" = "{0}" }}
"""
PAPER = """
title = "A port's rate"
paper = "Nobody et al., A Port's Rate, EXAMPLE 2026"
figure = "Fig. 0"
setting = "One TCP into one port."
found = "A faster port carries more."
backends = ["sim", "hosts"]

[takes]
full = "1s"

[[claims]]
says = "A faster port carries more"
conclusion = true
measure = "2Mbps"
below = { measure = "100Mbps", times = 0.5 }
"""


@pytest.fixture
def experiment(tmp_path):
    folder = tmp_path / "rate.0"
    folder.mkdir()
    for name, text in [("scenario", ONE_TCP), ("sweep", SWEEP), ("paper", PAPER + MEASURE.format("2Mbps") + MEASURE.format("100Mbps"))]:
        (folder / f"{name}.toml").write_text(text)
    return folder


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "two-tcps.toml"
    path.write_text(SCENARIO)
    return path


def weir(*arguments, **options):
    command = [weir_binary(), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def of_process(process):
    """Namespaces and interfaces that a run's process has made."""
    names = ip("netns", "list").split() + ip("-brief", "link").split()
    return [name for name in names if name.startswith((f"weirhost-{process}-", f"wr{process}n"))]


def check_gone(process):
    until(lambda: not of_process(process), lambda: f"the end of {of_process(process)}")


def test_iperf3_between_namespaces(scenario, tmp_path):
    runs = tmp_path / "runs"
    command = [weir_binary(), "testbed", "run", scenario, "--backend", "hosts", "-o", runs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        printed, _ = running.communicate(timeout=300)
    assert running.returncode == 0, printed
    check_gone(running.pid)
    directory = runs / "two-tcps"
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["backend"] == "hosts" and summary["failures"] == [], summary["failures"]

    for flow, control in zip(summary["flows"], ["cubic", "reno"], strict=True):
        said = json.loads((directory / "hosts" / f"{flow['name']}.client.txt").read_text())
        assert said["end"]["sum_received"]["bytes"] == flow["bytes_received"] > 0
        assert said["end"]["sum_sent"]["bytes"] == flow["bytes_sent"] >= flow["bytes_received"]
        assert said["end"]["sender_tcp_congestion"] == control
    arrived = sum(flow["bytes_received"] for flow in summary["flows"])
    hosts = {host["name"]: host["counters"] for host in summary["real_hosts"]}
    assert hosts["C"]["nstat.IpExtInOctets"] > arrived, "the kernel counts headers too"
    # Two windows that grow until they are marked meet at a port of 10 Mb/s.
    assert hosts["C"]["nstat.IpExtInCEPkts"] > 0
    assert hosts["A"]["nstat.TcpExtTCPDeliveredCE"] + hosts["B"]["nstat.TcpExtTCPDeliveredCE"] > 0

    check_counters(directory, hosts)
    check_connections(directory, summary)
    page = tmp_path / "report.html"
    reported = weir("report", runs, "-o", page)
    assert reported.returncode == 0, reported.stderr
    assert "iperf3" in page.read_text() and "congestion window" in page.read_text()


def ranks_on(*backends):
    """The scenario of ranks A, B and C, with these backends."""
    classes = "[switch.classes.dscp]\n40 = 4\n"
    return at_one_switch("ranks", "8s", classes=classes) + "".join(host(name, backend) for name, backend in zip("ABC", backends, strict=True)) + RANKS


def test_ranks_exchange_messages_between_namespaces(tmp_path):
    (tmp_path / "triggers.cm").write_text(TRIGGERS)
    ended, directory = run_with_hosts(tmp_path, "ranks", ranks_on(*['"netns"'] * 3))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["failures"] == []
    done = [(traffic["name"], traffic["completed"], len(traffic["repetitions"])) for traffic in summary["traffic"]]
    assert done == [("ring", 2 * 3 * 4, 2), ("matrix", 3, 1)]
    assert all(repetition["completion_ns"] for traffic in summary["traffic"] for repetition in traffic["repetitions"])
    with open(directory / "fct.csv") as table:
        rows = list(csv.DictReader(table))
    starts = {sender: sorted(float(row["released_us"]) for row in rows if (row["flow"], row["from"]) == ("ring", sender)) for sender in "ABC"}
    for before, sender in zip("CAB", "ABC", strict=True):
        assert starts[sender][0] == 100_000, "after the computation, by the clock"
        for step in [1, 2, 3, 5, 6, 7]:
            assert starts[sender][step] > starts[before][step - 1] + 7_000, (sender, step, starts)
    matrix = {row["from"]: (float(row["released_us"]), float(row["fct_us"])) for row in rows if row["flow"] == "matrix"}
    assert matrix["A"][0] == 300_000
    assert matrix["C"][0] >= sum(matrix["A"]) and matrix["B"][0] > matrix["C"][0]
    # The kernels counted what the ranks sent, and more.
    for real in summary["real_hosts"]:
        assert real["counters"]["nstat.IpExtInOctets"] > 2 * 4 * 100_000, real
        assert real["counters"]["nstat.IpExtOutOctets"] > 2 * 4 * 100_000, real


@pytest.mark.parametrize("other", [None, '"vm"'])
def test_ranks_are_all_in_namespaces_or_all_emulated(tmp_path, other):
    (tmp_path / "triggers.cm").write_text(TRIGGERS)
    ended, directory = run_with_hosts(tmp_path, "ranks", ranks_on('"netns"', '"netns"', other))
    assert ended.returncode == 2 and not directory.exists(), ended.stdout
    assert 'workload ring: rank A is on a real host, and rank C on none with backend = "netns": write it for all ranks' in ended.stderr


def test_ranks_in_namespaces_have_the_kernels_congestion_control(tmp_path):
    (tmp_path / "triggers.cm").write_text(TRIGGERS)
    scenario = ranks_on(*['"netns"'] * 3).replace('kind = "collective"', 'kind = "collective"\ncongestion_control = "dcqcn"')
    ended, directory = run_with_hosts(tmp_path, "ranks", scenario)
    assert ended.returncode == 2 and not directory.exists(), ended.stdout
    assert "workload ring: ranks in namespaces send over TCP, with the kernel's congestion control" in ended.stderr


def test_rdma_flows_of_real_hosts_have_the_congestion_control_of_their_nics(tmp_path):
    scenario = at_one_switch("own", "1s") + host("A", '"vm"') + host("B", '"vm"') + flow("rdma", "A", "B", congestion_control="dcqcn")
    ended, directory = run_with_hosts(tmp_path, "own", scenario)
    assert ended.returncode == 2 and not directory.exists(), ended.stdout
    assert "flow rdma: real hosts send with the congestion control of their NICs" in ended.stderr


def check_counters(directory, hosts):
    """What the kernels had counted before and after, told in full and as a table."""
    with open(directory / "hosts" / "counters.csv") as table:
        rows = {(row["host"], row["counter"]): (int(row["before"]), int(row["after"])) for row in csv.DictReader(table)}
    for name, counters in hosts.items():
        for counter, grown in counters.items():
            before, after = rows[name, counter]
            assert after - before == grown > 0, (name, counter)
        for when, number in (("before", 0), ("after", 1)):
            told = (directory / "hosts" / f"{name}.{when}.txt").read_text()
            segments = re.search(r"^TcpOutSegs\s+(\d+)", told, re.M)
            assert int(segments[1]) == rows[name, "nstat.TcpOutSegs"][number]
            assert "@nic" in told


def check_connections(directory, summary):
    """The window and the round trip of each sender's kernel, all through the run."""
    with open(directory / "hosts" / "connections.csv") as table:
        rows = list(csv.DictReader(table))
    for flow in summary["flows"]:
        own = [row for row in rows if row["flow"] == flow["name"]]
        sent = [int(row["bytes_sent"]) for row in own]
        assert len(own) >= 3 and sent == sorted(sent) and sent[-1] > 0, own
        assert all(int(row["cwnd_segments"]) > 0 and float(row["rtt_us"]) >= 0 for row in own)
        assert flow["tool"]["connection"]["samples"] == len(own)
        # Data at 10 Mb/s behind a queue of 15 KB, 12 ms, for two; a machine that stands still makes some round trips as long as it likes.
        trips = [float(row["rtt_us"]) for row in own]
        assert any(1_000 < trip < 2_000_000 for trip in trips), trips
        told = json.loads((directory / "hosts" / f"{flow['name']}.client.txt").read_text())
        assert int(own[-1]["retransmits"]) <= told["end"]["sum_sent"]["retransmits"]


def test_an_interrupted_run_leaves_nothing(scenario, tmp_path):
    scenario.write_text(SCENARIO.replace('end = "2s"', 'end = "120s"'))
    command = [weir_binary(), "testbed", "run", scenario, "--backend", "hosts", "-o", tmp_path / "runs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            until(lambda: clients(running.pid), "iperf3's clients run")
            inside = processes_in(running.pid)
            running.send_signal(signal.SIGINT)
            printed, _ = running.communicate(timeout=100)
        finally:
            running.kill()
    assert running.returncode != 0, printed
    check_gone(running.pid)
    until(lambda: not [process for process in inside if os.path.exists(f"/proc/{process}")], "its programs have ended")


def processes_in(process):
    named = [name for name in ip("netns", "list").split() if name.startswith(f"weirhost-{process}-")]
    return [inside for name in named for inside in ip("netns", "pids", name).split()]


def clients(process):
    def arguments(inside):
        try:
            return Path(f"/proc/{inside}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return []

    return any(arguments(inside)[:2] == [b"iperf3", b"--client"] for inside in processes_in(process))


def children(process):
    return subprocess.run(["pgrep", "--parent", str(process)], capture_output=True, text=True, check=False).stdout.split()


def test_an_experiment_with_namespaces_and_in_virtual_time(experiment, tmp_path):
    def reproduce(backend):
        # However late a busy machine makes the switch: the rates are far enough apart for that.
        arguments = ["--lateness", "100"] if backend == "hosts" else []
        ran = weir("reproduce", experiment, "--backend", backend, *arguments, "-o", tmp_path / backend)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    for backend in ("sim", "hosts"):
        reproduce(backend)
        verdict = json.loads((tmp_path / backend / "rate.0" / "verdict.json").read_text())
        assert (verdict["backend"], verdict["conclusions"]) == (backend, "reproduced"), verdict
        slow, fast = (number["weir"] for number in verdict["numbers"])
        assert 0 < slow < 2 and 2 < fast < 100, (slow, fast)
    # What it goes by is what iperf3 said, in each run.
    runs = tmp_path / "hosts" / "rate.0" / "sweep" / "runs"
    for summary in runs.glob("*/summary.json"):
        said = json.loads((summary.parent / "hosts" / "only.client.txt").read_text())
        [flow] = json.loads(summary.read_text())["flows"]
        assert said["end"]["sum_received"]["bytes"] == flow["bytes_received"] > 0
    assert len(list(runs.glob("*/summary.json"))) == 2
    assert "finished by an earlier call" in reproduce("hosts"), "runs that are there are not made again"

    compared = weir("compare", "backends", tmp_path / "sim" / "rate.0", tmp_path / "hosts" / "rate.0")
    assert compared.returncode == 0, compared.stderr
    for row in ("|  | sim | hosts |", "| conclusions | **reproduced** | **reproduced** |", "| **A faster port carries more** | holds | holds |"):
        assert row in compared.stdout, compared.stdout


def test_an_experiment_that_the_machine_held_up_is_not_judged(experiment, tmp_path):
    def reproduce(*more):
        return weir("reproduce", experiment, "--backend", "hosts", "-o", tmp_path / "out", *more)

    def verdict():
        return json.loads((tmp_path / "out" / "rate.0" / "verdict.json").read_text())

    # Each run stands still for a quarter of its two seconds.
    command = [weir_binary(), "reproduce", experiment, "--backend", "hosts", "-o", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            held = []

            def sending():
                return [point for point in children(running.pid) if point not in held and clients(point)]

            for _ in range(2):
                until(sending, "iperf3's client runs")
                [point] = sending()
                held.append(point)
                os.kill(int(point), signal.SIGSTOP)
                time.sleep(0.5)
                os.kill(int(point), signal.SIGCONT)
            printed, complaint = running.communicate(timeout=100)
        finally:
            running.kill()
    assert running.returncode == 3 and "rate.0: not judged: the machine was late in 2 of 2 runs" in complaint, printed + complaint
    said = verdict()
    assert said["conclusions"] == "not-judged", said
    assert said["says"] == "Not judged: the machine was late in 2 of 2 runs, on which the only main claim depends."
    assert [claim["judgement"] for claim in said["claims"]] == ["not-judged"]
    assert len(said["lateness"]["late"]) == 2 and said["lateness"]["most_percent"] > 20, said["lateness"]
    assert "(not judged)" in printed and "Not judged: the machine was late" in (tmp_path / "out" / "rate.0" / "report.html").read_text()

    # By whatever ran: the same runs, and nothing new.
    again = reproduce("--lateness", "100")
    assert again.returncode == 0 and "2 of them finished by an earlier call" in again.stdout, again.stdout + again.stderr
    assert verdict()["lateness"]["late"] == [] and verdict()["claims"][0]["judgement"] in ("holds", "fails")
    # By less, what was late is made anew; whether the machine is quiet now is its own matter.
    again = reproduce("--lateness", "15")
    assert "2 of them lost too much of their time to the machine, and run anew" in again.stdout, again.stdout + again.stderr


def test_an_interrupted_experiment_leaves_nothing(experiment, tmp_path):
    (experiment / "scenario.toml").write_text(ONE_TCP.replace('end = "2s"', 'end = "120s"'))
    command = [weir_binary(), "reproduce", experiment, "--backend", "hosts", "-o", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            until(lambda: any(clients(point) for point in children(running.pid)), "iperf3's client runs")
            [point] = children(running.pid)
            inside = processes_in(point)
            running.send_signal(signal.SIGINT)
            printed, _ = running.communicate(timeout=100)
        finally:
            running.kill()
    assert running.returncode != 0 and "repeat the command to go on" in printed, printed
    check_gone(point)
    until(lambda: not [process for process in inside if os.path.exists(f"/proc/{process}")], "its programs have ended")


def test_check_tells_what_lacks(scenario):
    checked = weir("testbed", "check", "--hosts", scenario)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "TCP cubic" in checked.stdout and "TCP reno" in checked.stdout
    lacking = weir("testbed", "check", "--hosts", scenario, env={"PATH": "/nonexistent"})
    assert lacking.returncode == 1 and "A, programs: apt-get install " in lacking.stdout, lacking.stdout
    scenario.write_text(SCENARIO.replace('"tcp-reno"', '"tcp-rhino"'))
    wrong = weir("testbed", "check", "--hosts", scenario)
    assert wrong.returncode == 2 and 'none of "rdma"' in wrong.stderr, wrong.stderr
