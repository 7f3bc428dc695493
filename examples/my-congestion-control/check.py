"""The congestion control is chosen by name, keeps the queue short on both backends, and shows what it does."""

from pathlib import Path

from checks import BACKENDS, call, changed, expect, is_late, run, series, summary

HERE = Path(__file__).parent
SCENARIO = (HERE / "scenario.toml").read_text()
CONTROL = 'congestion_control = "gentle-aimd"'
# Where hosts lost more of their line time, queues are the machine's.
LATE_PERCENT_MAX = 5


def file(name, *changes):
    text = SCENARIO
    for old, new in changes:
        text = changed(text, old, new)
    path = Path(f"{name}.toml")
    path.write_text(text)
    return path


def wrong_files():
    def told(old, new, *parts):
        expect(call("testbed", "run", file("wrong", (old, new)), "--backend", "sim", code=2), "wrong.toml:", *parts)

    told('step = "20Mbps"', 'stepp = "20Mbps"', "unknown key `stepp` in [nic.gentle-aimd]", "write `step`")
    told('step = "20Mbps"', "step = 20", '"20" is not a rate with its unit', 'step = "40Mbps" or "line/1000"')
    told('step = "20Mbps"', 'step = "400Gbps"', "a step of 400Gbps is more than the line has", "write a smaller step")
    told("cut = 0.5", "cut = 1.5", "`cut`: 1.5 is out of range")
    told('{ step = "40Mbps" }', '{ step = "40MB" }', '"40MB" is not a rate')
    told(CONTROL, 'congestion_control = "gentle-aimt"', 'write congestion_control = "gentle-aimd"')


def steady(name, backend, *changes):
    """The run's directory, and the longest queue on average, PAUSEs and rates in it; None where the machine was too busy to tell."""
    output = run(file(name, *changes), backend, LATE_PERCENT_MAX)
    directory = next(path.parent for path in output.rglob("summary.json"))
    words = summary(directory)
    assert words["lossless"] and not words["failures"], words["failures"]
    if is_late(words, LATE_PERCENT_MAX):
        print(f"{name} on {backend}: the machine is busy, and its queues are not compared")
        return directory, None
    window = next(window for window in words["windows"] if window["name"] == "steady")
    queue = max(port["ingress_mean_bytes"] for port in window["ports"])
    rate = sum(flow["throughput_bps"] for flow in window["flows"])
    return directory, (queue, sum(port["pauses_sent"] for port in window["ports"]), rate)


def controls(backend):
    mine, with_it = steady("with", backend)
    other_run, without = steady("without", backend, (CONTROL, 'congestion_control = "none"'))
    if with_it and without:
        assert with_it[0] < without[0] / 2, f"{backend}: a queue of {with_it[0]} B, and of {without[0]} B without"
        assert with_it[1] < without[1] / 4, f"{backend}: {with_it[1]} PAUSEs, and {without[1]} without"
        assert with_it[2] > without[2] / 2, f"{backend}: {with_it[2]} b/s, and {without[2]} without"
    rows = series(mine)
    shares = [float(row["F0.marked"]) for row in rows if row["F0.marked"]]
    assert max(shares) > 0 and all(0 <= share <= 1 for share in shares), shares
    (shown,) = [flow["gauges"]["marked"] for flow in summary(mine)["flows"] if flow["name"] == "F0"]
    assert (shown["last"], shown["max"]) == (shares[-1], max(shares)) and 0 < shown["mean"] < 1, shown
    if with_it:
        assert len({row["F1.rate_bps"] for row in rows}) > 5, f"{backend}: rates change"
    assert {row["F1.window_bytes"] for row in rows} == {"1250000"}, rows[0]
    call("report", mine, "-o", "report.html")
    expect(Path("report.html").read_text(), "the share of marks in the last round trip")
    assert "F0.rate_bps" not in series(other_run)[0], "what nothing controls shows nothing"


def sweep():
    """The points of a sweep are processes of this program, and its keys vary like any other."""
    scenario = file("swept", ("flow_gauges = true", "flow_gauges = false"))
    Path("sweep.toml").write_text(
        f"""scenario = "{scenario}"

[parameters]
"nic.congestion_control" = ["gentle-aimd", "gentle-aimd-fast"]
"nic.gentle-aimd.cut" = [0.25, 0.75]

[results]
columns = ["pauses_sent", "windows.steady.flows.F0.throughput_bps"]
"""
    )
    call("sweep", "sweep.toml", "-o", "swept")
    rows = Path("swept/results.csv").read_text().splitlines()
    assert len(rows) == 5 and "nic.gentle-aimd.cut" in rows[0], rows
    assert len({row.rsplit(",", 1)[1] for row in rows[1:]}) > 1, "the parameter makes a difference"


wrong_files()
for backend in BACKENDS:
    controls(backend)
sweep()
