"""What the checks of the examples have in common: the program, its runs on both backends, and what they left."""

import csv
import json
import subprocess
import sys
import tomllib
from pathlib import Path

PROGRAM = sys.argv[1]
BACKENDS = ["sim", "dpdk"]


def start(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=600)


def judge(done, code=0):
    """What a program that has run printed. It must have ended with this exit code."""
    said = done.stdout + done.stderr
    assert done.returncode == code, f"{done.args}: exit code {done.returncode}, not {code}\n{said}"
    return said


def call(*arguments, code=0):
    """Runs the program, and returns what it printed. It must end with this exit code."""
    return judge(start(*arguments), code)


ATTEMPTS = 5


def run(scenario, backend, late_percent=10):
    """Runs a scenario, and returns the folder of its runs. With real frames it is run again, up to ATTEMPTS times in all, if the
    machine had so much else to do that hosts lost more than this part of their line time: switches are as late then, and may lose
    frames. Each time its clocks run at half the speed, so that a machine that stays busy is less late by them."""
    output = Path(f"{Path(scenario).stem}-on-{backend}")
    dilation = tomllib.loads(Path(scenario).read_text())["scenario"]["time_dilation"]
    for attempt in range(1, ATTEMPTS + 1):
        done = start("testbed", "run", scenario, "--backend", backend, "--output", output, "--dilation", dilation)
        runs = [summary(path.parent) for path in output.glob("*/summary.json")]
        if attempt == ATTEMPTS or not any(is_late(run, late_percent) for run in runs):
            break
        dilation *= 2
        print(f"{scenario}: the machine was late; once more, {dilation} times slower than real time")
    judge(done)
    return output


def is_late(words, percent):
    """Whether hosts lost more than this part of their line time, by a run's summary."""
    return words["late_ns"] * 100 > percent * words["duration_ns"]


def series(run_directory):
    """The rows of a run's series, each by column."""
    with open(run_directory / "series.csv", newline="") as file:
        return list(csv.DictReader(file))


def summary(run_directory):
    return json.loads((run_directory / "summary.json").read_text())


def changed(text, old, new):
    """The text with something else in one place, which must be there once."""
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    return text.replace(old, new)


def check_switch(text, old="", new="", code=0):
    """What `weir check` says of a switch's file with this text, after such a change in one place."""
    Path("switch.toml").write_text(changed(text, old, new) if old else text)
    return call("check", "switch.toml", code=code)


def expect(said, *parts):
    """All of these stand in what the program said."""
    for part in parts:
        assert part in said, f"{part!r} is missing in:\n{said}"
