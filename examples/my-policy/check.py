"""The policy is accepted by name, does what it says on both backends, and is told of everywhere."""

from functools import partial
from pathlib import Path

from checks import BACKENDS, call, check_switch, expect, run, series, summary

HERE = Path(__file__).parent
SCENARIO = HERE / "scenario.toml"

SWITCH = """[buffer]
size = "1MB"
headroom = "50KB"
policy = "two-steps"

[buffer.two-steps]
plenty = 1
scarce = "1/2"

[classes]
lossless = [3]

[[ports]]
name = "a"
ring = "x"
rate = "10Gbps"

[[ports]]
name = "b"
ring = "x"
rate = "10Gbps"
"""


switch = partial(check_switch, SWITCH)


def closed_form():
    said = switch()
    expect(said, 'policy "two-steps"', "two-steps: T = α free, α = 1 while more than half is free, else 1/2", "gauge scarce")
    # One queue takes half of the 900 KB that are shared, where the steps meet; two take 1/(2 + 2) each in the second.
    rows = [" ".join(line.split()) for line in said.splitlines()]
    assert any(row.startswith("1 none 450,000 ") for row in rows), said
    assert any(row.startswith("2 none 225,000 ") for row in rows), said


def wrong_files():
    expect(switch("plenty = 1", "plenti = 1", 2), "switch.toml:7", "unknown key `plenti`", "write `plenty`")
    expect(switch('scarce = "1/2"', 'scarce = "2"', 2), "switch.toml:8", "`scarce` 2 is above `plenty` 1", "or less")
    expect(switch('scarce = "1/2"', 'scarce = "a bit"', 2), "switch.toml:8", '"a bit" is not')
    expect(switch('policy = "two-steps"', 'policy = "two-step"', 2), "switch.toml:4", 'write policy = "two-steps"')


def runs(backend):
    output = run(SCENARIO, backend)
    mine, others = output / "two-steps", output / "dt"
    steps = {row["H0.3.scarce"] for row in series(mine)}
    port = next(port for port in summary(mine)["ports"] if port["name"] == "H0")
    share = next(of_class for of_class in port["classes"] if of_class["class"] == 3)["scarce_permille"]
    if backend == "sim":
        assert steps == {"0", "1"} and 0 < share < 1000, f"the policy went through both steps: {steps}, {share}"
    else:
        # How full the buffer gets with real frames depends on the machine.
        assert steps in ({"0"}, {"0", "1"}) and 0 <= share < 1000, f"the policy tells its step: {steps}, {share}"
    assert {row["H0.3.scarce"] for row in series(others)} == {""}, "DT has no steps"
    assert summary(mine)["lossless"] and summary(mine)["policy"] == "two-steps"
    return mine


def report(run_directory):
    call("report", run_directory, "-o", "report.html")
    expect(Path("report.html").read_text(), '<section id="scarce">', "Green while half")


def sweep():
    """The points of a sweep are processes of this program, and so know the policy, its keys and its figures."""
    Path("sweep.toml").write_text(
        f"""scenario = "{SCENARIO}"
runs = ["two-steps"]

[parameters]
"switch.buffer.two-steps.scarce" = ["1/16", "1/2"]

[results]
columns = ["pauses_sent", "ports.H0.classes.0.scarce_permille"]
"""
    )
    call("sweep", "sweep.toml", "-o", "swept")
    rows = Path("swept/results.csv").read_text().splitlines()
    assert len(rows) == 3 and "scarce_permille" in rows[0], rows


closed_form()
wrong_files()
on = {backend: runs(backend) for backend in BACKENDS}
report(on["sim"])
sweep()
