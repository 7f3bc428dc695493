"""`weir demo` as a newcomer runs it, on the small testbed: what it prints, what it leaves, and what Wireshark makes of that."""

import csv
import json
import subprocess

import pytest
from conftest import need

from weirlab.switch import weir_binary

TIMEOUT_S = 180
# What the machine takes is told and allowed for; a clock as slow as rates to be believed want would take twice the time.
DILATION = "80"
POLICIES = {"st": "st", "dt:1": "dt-1"}
ALL_POLICIES = {
    "st", "dt", "spfc", "sih", "oversubscribed", "adaptive", "dsh", "dsh-no-insurance", "dsh-no-shared", "sonic", "abm", "reverie",
}


def demo(*arguments, cwd):
    command = [weir_binary(), "demo", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    where = tmp_path_factory.mktemp("demo")
    # Without congestion control the outcome can be reckoned, whatever the machine.
    arguments = ["--backend", "dpdk", "--testbed", "--dilation", DILATION, "--bursts", "4", "--separate-hosts", "--policies", ",".join(POLICIES), "--congestion-control", "none"]
    done = demo(*arguments, cwd=where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, where / "runs" / "demo"


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    """The defaults of hosts, under policies that show their own state."""
    where = tmp_path_factory.mktemp("controlled")
    done = demo("--backend", "dpdk", "--testbed", "--dilation", DILATION, "--bursts", "4", "--policy", "spfc,dsh:1/2", cwd=where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, where / "runs" / "demo"


def summary(directory, policy):
    return json.loads((directory / policy / "summary.json").read_text())


def window(of, name):
    return next(window for window in of["windows"] if window["name"] == name)


@pytest.mark.idle_machine
@pytest.mark.one_cpu
def test_nothing_is_lost_and_the_table_says_so(runs):
    printed, directory = runs
    row = next(line for line in printed.splitlines() if "lossless frames lost" in line)
    assert row.split()[-2:] == ["0", "0"]
    for policy in POLICIES.values():
        result = summary(directory, policy)
        assert result["lossless"]
        assert all(flow["lost"] == flow["reordered"] == 0 for flow in result["flows"])


@pytest.mark.idle_machine
@pytest.mark.one_cpu
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


@pytest.mark.idle_machine
@pytest.mark.one_cpu
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


@pytest.mark.idle_machine
@pytest.mark.one_cpu
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
    done = demo("--backend", "sim", "--policies", "st", "-o", "mine", cwd=tmp_path)
    assert done.returncode == 2 and "thesis.tex" in done.stderr and "panicked" not in done.stderr
    assert (foreign / "thesis.tex").read_text() == "years of work"


def cells(printed, row):
    return next(line for line in printed.splitlines() if row in line).split()


@pytest.mark.idle_machine
@pytest.mark.one_cpu
def test_the_state_of_a_policy_stands_in_table_series_and_summary(controlled):
    printed, directory = controlled
    assert cells(printed, "F1 before")[-2:] and "spfc-1" in printed and "dsh-1/2" in printed
    victim, other = cells(printed, "P0 in the victim state")[-2:]
    assert 0 < int(victim) <= 100 and other == "-"
    other, estimate = cells(printed, "highest headroom estimate on P0")[-2:]
    assert other == "-" and int(estimate.replace(",", "")) >= 0
    for policy, column, key in (
        ("spfc-1", "victim", "victim_permille"),
        ("dsh-1_2", "headroom_estimate_bytes", "headroom_estimate_max_bytes"),
    ):
        with open(directory / policy / "series.csv", newline="") as file:
            series = list(csv.DictReader(file))
        for name in ("victim", "headroom_estimate_bytes"):
            values = {row[f"p0.3.{name}"] for row in series}
            assert ("" in values) == (name != column) and (name == column or values == {""}), f"{policy}: {name}"
        assert window(summary(directory, policy), "burst")["ports"][0][key] is not None


@pytest.mark.idle_machine
@pytest.mark.one_cpu
def test_congestion_control_holds_back_the_flow_that_congests(controlled):
    _, directory = controlled
    result = summary(directory, "spfc-1")
    f1, f2, *bursts = result["flows"]
    assert f2["congestion_notifications"] > 0 and f2["frames_marked"] > 0
    assert all(flow["congestion_notifications"] == 0 for flow in (f1, *bursts))
    before, burst = (window(result, name)["flows"][1]["throughput_bps"] for name in ("before", "burst"))
    assert burst < before / 4


@pytest.mark.idle_machine
@pytest.mark.one_cpu
def test_notifications_are_roce_to_wireshark(controlled):
    need("tshark")
    _, directory = controlled
    fields = ["-e", "ip.dsfield.dscp", "-e", "ip.dsfield.ecn", "-e", "_ws.malformed"]
    lines = subprocess.run(
        ["tshark", "-n", "-r", directory / "spfc-1" / "p0.pcapng", "-Y", "infiniband.bth.opcode == 0x81", "-T", "fields", *fields],
        capture_output=True, text=True, check=True, timeout=TIMEOUT_S,
    ).stdout.splitlines()
    assert lines and {tuple(line.split()) for line in lines} == {("48", "0")}


def test_the_exact_result_comes_first_and_stands_beside_that_of_real_frames(tmp_path):
    """By default. Rates of real frames are judged only where the machine kept up; nothing is lost either way."""
    done = demo("--testbed", "--dilation", DILATION, "--bursts", "4", "--policy", "st,spfc", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    exact, real = json.loads(done.stdout)["backends"]
    assert (exact["backend"], real["backend"], exact["judged"]) == ("sim", "dpdk", True)
    assert real["judged"] != any("not judged: " in sentence for sentence in real["conclusions"]), real["conclusions"]
    for directory, half in (("st-sim", exact), ("st-dpdk", real)):
        assert summary(tmp_path / "runs" / "demo", directory) == half["runs"][0]["summary"]
    for half in (exact, real):
        assert [run["lossless_frames_lost"] for run in half["runs"]] == [0, 0]

    done = demo("--testbed", "--dilation", DILATION, "--bursts", "4", "--policy", "st", cwd=tmp_path)
    first, second = (done.stdout.index(text) for text in ("In virtual time, exact", "With real frames"))
    assert first < second and done.stdout.index("st sim") > second, done.stdout
    assert cells(done.stdout[second:], "lossless frames lost")[-2:] == ["0", "0"]


def test_in_virtual_time_it_is_the_same_each_time(tmp_path):
    """With the defaults: 100 Gb/s, and 24 burst ports of which 23 are copies."""
    for name in ("one", "other"):
        done = demo("--backend", "sim", "-o", name, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "In virtual time" in done.stdout and "EAL" not in done.stderr, done.stderr
        assert cells(done.stdout, "lossless frames lost")[-3:] == ["0", "0", "0"]
        assert "As the burst begins spfc-1 keeps F1" in done.stdout, done.stdout
    for policy in ("st", "dt-1", "spfc-1"):
        result = summary(tmp_path / "one", policy)
        assert result["backend"] == "sim" and result["failures"] == []
        for file in ("summary.json", "series.csv", "events.csv", "fct.csv"):
            assert (tmp_path / "one" / policy / file).read_bytes() == (tmp_path / "other" / policy / file).read_bytes(), file


def test_virtual_time_has_room_for_more_hosts_and_no_dilation(tmp_path):
    many = demo("--backend", "sim", "--testbed", "--bursts", "14", "--separate-hosts", "--policy", "dt", cwd=tmp_path)
    assert many.returncode == 0, many.stdout + many.stderr
    slowed = demo("--backend", "sim", "--dilation", "100", cwd=tmp_path)
    assert slowed.returncode == 2 and "--dilation 100" in slowed.stderr and "--backend dpdk" in slowed.stderr, slowed.stderr


def test_a_wrong_policy_is_told_which_there_are(tmp_path):
    done = demo("--policy", "dt:1,red", cwd=tmp_path)
    assert done.returncode == 2 and "red" in done.stderr
    assert all(name in done.stderr for name in ALL_POLICIES), done.stderr


def test_every_policy_is_known(tmp_path):
    """Read, and then refused for its headroom: nothing runs."""
    done = demo("--policy", ",".join(f"{name}:1/2" if name != "st" else name for name in sorted(ALL_POLICIES)), "--dilation", "1", cwd=tmp_path)
    assert done.returncode == 2 and "--dilation 1" in done.stderr and "--policy" not in done.stderr, done.stderr


@pytest.mark.parametrize("wrong", [["--bursts", "30"], ["--policy", "red"], ["--policy", "dt:0"], ["--policy", "st:1"], ["--dilation", "0"], ["--dilation", "1"], ["--backend", "ns3"]])
def test_wrong_arguments(tmp_path, wrong):
    done = demo(*wrong, cwd=tmp_path)
    assert done.returncode == 2 and wrong[0] in done.stderr and "panicked" not in done.stderr
