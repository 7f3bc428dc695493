"""The soak itself: an account that does not add up is found, and a soak that is killed goes on where it was and leaves nothing behind."""

import copy
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections import Counter

import pytest

from weirlab.soak import page
from weirlab.soak.accounts import Snapshot, faults
from weirlab.soak.benches import Passed
from weirlab.soak.run import Journal, plan
from weirlab.switch import REPOSITORY
from weirlab.waiting import until

LEFT, RIGHT = ("soak", "left"), ("soak", "right")


def before():
    zero = {port: Counter() for port in (LEFT, RIGHT)}
    ends = {"left": 0, "right": 0}
    passed = {port: Passed(0, 0) for port in (LEFT, RIGHT)}
    return Snapshot(zero, {"soak": Counter()}, Counter(), passed, ends, ends, 0, {"left": (0, 0), "right": (0, 0)})


def after():
    """100 frames from left to right, of which the cable, the device, the switch and the device again lose some."""
    return Snapshot(
        {
            LEFT: Counter({"rx": 93, "tx": 4, "lost on rx": 5}),
            RIGHT: Counter({"rx": 4, "tx": 90, "lost on tx": 7}),
        },
        {"soak": Counter({"received": 97, "sent": 94, "dropped": 3, "held": 0})},
        Counter({"egress_threshold": 3}),
        {LEFT: Passed(98, 4), RIGHT: Passed(4, 83)},
        {"left": 100, "right": 4},
        {"left": 4, "right": 83},
        0,
        {"left": (2, 0), "right": (0, 0)},
    )


def test_an_account_that_adds_up_has_no_faults():
    assert faults(before(), after()) == []


def changed(change):
    snapshot = copy.deepcopy(after())
    change(snapshot)
    return snapshot


@pytest.mark.parametrize("port", [LEFT, RIGHT], ids=["left", "right"])
@pytest.mark.parametrize("counter", ["rx", "tx", "lost on rx", "lost on tx"])
def test_a_frame_that_a_port_counts_too_much_is_found(port, counter):
    assert faults(before(), changed(lambda snapshot: snapshot.ports[port].update({counter: 1})))


@pytest.mark.parametrize("counter", ["received", "sent", "dropped", "held"])
def test_a_frame_that_the_switch_counts_too_much_is_found(counter):
    assert faults(before(), changed(lambda snapshot: snapshot.switches["soak"].update({counter: 1})))


def lose(snapshot, what, end):
    getattr(snapshot, what)[end] -= 1


@pytest.mark.parametrize(("what", "end"), list(itertools.product(["sent", "received"], ["left", "right"])))
def test_a_frame_that_an_end_misses_is_found(what, end):
    assert faults(before(), changed(lambda snapshot: lose(snapshot, what, end)))


def test_a_frame_that_comes_twice_is_found():
    def twice(snapshot):
        snapshot.out_of_order = 1

    assert faults(before(), changed(twice)) == ["frames out of order or twice: 1 is not 0"]


def test_a_seed_has_its_cells_and_each_round_has_all():
    cells = list(itertools.islice(plan(7), 90))
    assert cells == list(itertools.islice(plan(7), 90)) != list(itertools.islice(plan(8), 90))
    kinds = [{(kind, name) for _, turn, kind, name, *_ in cells if turn == number} for number in (0, 1)]
    assert kinds[0] == kinds[1] and len(kinds[0]) == 45


def test_the_line_that_a_killed_soak_was_writing_is_left_out(tmp_path):
    file = tmp_path / "journal.jsonl"
    file.write_text('{"seed": 1}\n{"cell": 0, "seconds": 1.5}\n{"cell": 1, "sec')
    journal = Journal(file)
    journal.add(cell=1, seconds=2.0)
    assert [entry.get("cell") for entry in Journal(file).entries] == [None, 0, 1]
    assert Journal(file).seconds() == 3.5


@pytest.mark.root
def test_a_killed_soak_goes_on_and_leaves_nothing(tmp_path):
    first = next(kind for _, _, kind, *_ in plan(SEED))
    assert first == "veth"
    command = [sys.executable, REPOSITORY / "lab" / "soak.py", "--output", tmp_path, "--seed", str(SEED), "--cell-seconds", "1"]
    soak = subprocess.Popen([*command, "--cells", "9"], stdout=subprocess.DEVNULL)
    file = tmp_path / "journal.jsonl"
    try:
        until(lambda: file.exists() and len(file.read_text().splitlines()) >= 2, "a cell", 120)
    finally:
        soak.send_signal(signal.SIGKILL)
        soak.wait()
    token = json.loads(file.read_text().splitlines()[0])["token"]
    until(lambda: not processes(f"weir-soak-{token}"), lambda: processes(f"weir-soak-{token}"))
    killed = Journal(file).cells()
    done = subprocess.run([*command, "--cells", str(len(killed) + 1)], capture_output=True, text=True, timeout=300)
    cells = Journal(file).cells()
    assert done.returncode == 0, done.stdout + done.stderr
    assert [entry["cell"] for entry in cells] == list(range(len(killed) + 1)) and cells[: len(killed)] == killed
    assert all(entry["faults"] == [] and entry["ends_received"] > 0 for entry in cells), cells
    assert not pathlib.Path(f"/run/netns/weir-soak-{token}").exists() and not pathlib.Path(f"/tmp/weir-soak-{token}").exists()
    text = (tmp_path / "soak.md").read_text()
    assert text == page.of(Journal(file)) and "| failures | 0 |" in text


# Its first cells are on veth.
SEED = next(seed for seed in range(100) if next(plan(seed))[2] == "veth")


def processes(name):
    """Processes whose command line has this text."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if name in words:
                found.append(words)
    return found
