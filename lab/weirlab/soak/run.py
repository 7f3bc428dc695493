"""Cells of a soak, one after the other, each with its line in the journal."""

import collections
import datetime
import json
import os
import pathlib
import random
import shutil
import tempfile
import threading
import time
import traceback

from weirlab import emulated_nic
from weirlab.guest import linux
from weirlab.soak import disturbances
from weirlab.soak.accounts import faults, settled
from weirlab.soak.benches import KINDS, Bench
from weirlab.soak.ends import LOSSLESS
from weirlab.switch import check_balance

LOADS = (0.6, 0.8, 1.0, 1.2)
FIRST_S = 60.0
SAMPLE_S = 1.0
# Memory that a process may take more than in its first minute. A record keeps each value of its samples that it had not seen, for
# percentiles; a leak of three bytes a frame is above this after as many cells as there are disturbances.
GROWTH_KB = 4_096
# Reasons for which a dropped frame of the lossless class is one that was lost, and fails the run.
LOST = ("headroom_violation", "no_memory")
CLOCK_SOURCE = pathlib.Path(__file__).with_name("clock.c")
LOG_LINES = 30


def plan(seed):
    """All cells, without end: (number, round, kind, disturbance, load, seed of the cell). Cells of a kind follow each other, on one switch."""
    draw, number = random.Random(seed), 0
    for turn in range(10**9):
        for kind in draw.sample(KINDS, len(KINDS)):
            between = [name for name in disturbances.ALL if name not in ("none", "kill -9")]
            for name in ("none", *draw.sample(between, len(between)), "kill -9"):
                yield number, turn, kind, name, draw.choice(LOADS), draw.getrandbits(32)
                number += 1


def why_not(kind):
    """The reason why ports of a kind can't be had here; None if they can."""
    if kind == "af-xdp" and not list(pathlib.Path("/usr/lib").glob("*/dpdk/pmds-*/librte_net_af_xdp.so")):
        return "DPDK's driver for AF_XDP is not installed"
    if kind == "driver":
        return emulated_nic.why_not() or (None if os.path.exists("/dev/net/tun") else "there is no /dev/net/tun")
    return linux.why_not() if kind == "guest" else None


class Watch(threading.Thread):
    """Memory and descriptors of a process, each second."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.since, self.samples, self._ended = pid, time.monotonic(), [], threading.Event()
        self.start()

    def run(self):
        while not self._ended.wait(SAMPLE_S):
            try:
                self.samples.append((time.monotonic() - self.since, resident_kb(self.pid), len(os.listdir(f"/proc/{self.pid}/fd"))))
            except OSError:
                return

    def end(self):
        self._ended.set()

    def judge(self, since_s):
        """Of the samples since then: memory at most and descriptors at least, the same of the first minute, and what is wrong with them."""
        first = [sample for sample in self.samples if sample[0] <= FIRST_S]
        later = [sample for sample in self.samples if sample[0] > max(since_s, FIRST_S)]
        if not first or not later:
            return None, []
        told = {
            "memory_kb": [max(kb for _, kb, _ in part) for part in (first, later)],
            "descriptors": [min(fds for _, _, fds in part) for part in (first, later)],
        }
        wrong = []
        (was, now), (had, has) = told["memory_kb"], told["descriptors"]
        if now > was + GROWTH_KB:
            wrong.append(f"memory: {now} kB, {was} kB in the first minute")
        if has != had:
            wrong.append(f"descriptors: {has} at least, {had} in the first minute")
        return told, wrong


def resident_kb(pid):
    """Memory that is the process's own: pages of files and of packet memory come and go with what the kernel takes back."""
    with open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


class Journal:
    """Lines of JSON, each on the disk before the next cell begins."""

    def __init__(self, path):
        self.path = path
        self.entries = []
        if path.exists():
            whole = path.read_text()
            # A line that was being written when the soak was killed is none.
            lines = whole[: whole.rfind("\n") + 1].splitlines()
            self.entries = [json.loads(line) for line in lines]
            path.write_text("".join(line + "\n" for line in lines))

    def add(self, **entry):
        entry = {"at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), **entry}
        self.entries.append(entry)
        with open(self.path, "a") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def cells(self):
        return [entry for entry in self.entries if "cell" in entry]

    def seconds(self):
        return sum(entry.get("seconds", 0.0) for entry in self.cells())


class Soak:
    """Goes on with the journal's plan until its cells have lasted so many hours, or until `cells` cells are done."""

    def __init__(self, journal, token, cell_seconds, print_line=print):
        self.journal, self.token, self.cell_seconds, self.print = journal, token, cell_seconds, print_line
        self.seed = journal.entries[0]["seed"]
        self._bench = self._watch = self._folder = self._base = None
        self._at = None

    def go_on(self, hours, cells=None, kinds=KINDS):
        done = {entry["cell"] for entry in self.journal.cells()}
        missing = {kind: reason for kind in KINDS if (reason := why_not(kind))}
        if all(kind in missing for kind in kinds):
            raise SystemExit("soak.py: nothing can be run here: " + "; ".join(f"{kind}: {missing[kind]}" for kind in kinds))
        try:
            for number, turn, kind, name, load, seed in plan(self.seed):
                if number in done or kind not in kinds:
                    continue
                if self.journal.seconds() >= hours * 3600 or cells is not None and len(self.journal.cells()) >= cells:
                    return
                entry = {"cell": number, "round": turn, "kind": kind, "disturbance": name, "load": load}
                if kind in missing:
                    self.journal.add(**entry, skipped=missing[kind])
                    continue
                self._cell(entry, (turn, kind), random.Random(seed))
        finally:
            self._close()

    def _cell(self, entry, place, draw):
        begun = time.monotonic()
        try:
            if self._at != place:
                self._close()
                self._open(entry["kind"], draw, place)
            wrong, told = self._disturb(entry, draw)
        except Exception as error:
            told, wrong = {}, [f"{type(error).__name__}: {error}", *traceback.format_exc().splitlines()[-6:]]
            log = list(self._bench.log[-LOG_LINES:]) if self._bench else []
            self._abandon()
            told["log"] = log
        seconds = time.monotonic() - begun
        self.journal.add(**entry, seconds=round(seconds, 1), faults=wrong, **told)
        self.print(f"cell {entry['cell']}: {entry['kind']}, {entry['disturbance']}, load {entry['load']}: {'; '.join(wrong) or 'ok'}")

    def _open(self, kind, draw, place):
        # One that a killed soak left is in the way.
        folder = self._folder = pathlib.Path(tempfile.gettempdir()) / f"weir-soak-{self.token}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
        clock = disturbances.Clock(folder, CLOCK_SOURCE)
        bench = Bench(kind, self.token, folder, draw, clock)
        self._bench = bench
        bench.__enter__()
        self._at = place
        self._watch = Watch(bench.switch.process.pid)
        self._base = settled(bench)

    def _disturb(self, entry, draw):
        bench, load = self._bench, entry["load"]
        disturb, seconds = disturbances.ALL[entry["disturbance"]], self.cell_seconds
        if entry["disturbance"] == "kill -9":
            self._conclude()
            self._watch.end()
            bench.start()
            seconds /= 2
            self._load(load)
            disturb(bench, draw, time.monotonic() + seconds)
            self._watch = Watch(bench.switch.process.pid)
            self._base = settled(bench)
            disturb = disturbances.none
        since_s = time.monotonic() - self._watch.since
        before = self._base
        self._load(load)
        disturb(bench, draw, time.monotonic() + seconds)
        after = settled(bench)
        wrong = faults(before, after, heard_all=entry["disturbance"] != "flaps")
        memory, more = self._watch.judge(since_s)
        wrong += more
        for name, end in bench.ends.items():
            if not end.is_alive():
                wrong.append(f"the end {name} failed: {end.fault}")
        self._base = after
        told = totals(before, after) | {"nic": bench.nic, "action": bench.action, "load_average": round(os.getloadavg()[0], 1)}
        return wrong, told | (memory or {})

    def _conclude(self):
        """Ends the switch, whose summary has to agree with what was counted while it ran."""
        try:
            wrong, told = conclude(self._bench, self._base)
        except Exception as error:
            wrong, told = [f"{type(error).__name__}: {error}"], {}
        self.journal.add(run=self._bench.kind, faults=wrong, **told)
        self.print(f"end of {self._bench.kind}: {'; '.join(wrong) or 'ok'}")

    def _load(self, load):
        for end in self._bench.ends.values():
            end.load = load

    def _close(self):
        if self._bench and self._base:
            for end in self._bench.ends.values():
                end.be_quiet()
            self._conclude()
        self._abandon()

    def _abandon(self):
        """Ends all that the bench made."""
        self._at = None
        if self._watch:
            self._watch.end()
        if self._bench:
            self._bench.__exit__()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._bench = self._watch = self._folder = self._base = None


def totals(before, after):
    """What happened between two snapshots, in frames."""
    sums = collections.Counter()
    for name in after.switches:
        was = before.switches.get(name, collections.Counter())
        for key in ("received", "sent", "dropped"):
            sums[key] += after.switches[name][key] - was[key]
    for port in after.ports:
        was = before.ports.get(port, collections.Counter())
        sums["device_lost"] += sum(after.ports[port][key] - was[key] for key in ("lost on rx", "lost on tx"))
    return {
        "ends_sent": sum(after.sent.values()) - sum(before.sent.values()),
        "ends_received": sum(after.received.values()) - sum(before.received.values()),
        **sums,
        "drops": dict(after.drops - before.drops),
    }


def conclude(bench, base):
    """Ends a switch at rest: what is wrong with its end, and its exit code."""
    finished = bench.switch.stop()
    wrong = []
    if finished.summary is None:
        return [f"no summary, exit code {finished.code}"], {"code": finished.code, "log": bench.log[-LOG_LINES:]}
    if finished.summary["mbufs_missing"]:
        wrong.append(f"{finished.summary['mbufs_missing']} mbufs are missing")
    lost = 0
    for switch in finished.summary["switches"]:
        try:
            check_balance(switch)
        except AssertionError as error:
            wrong.append(f"the summary of {switch['name']}: {error}")
        live = base.switches[switch["name"]] if base else None
        balance = switch["frame_conservation"]
        if live and any(live[key] != balance[key] for key in ("received", "sent", "dropped")):
            wrong.append(f"the summary of {switch['name']} is {balance}, counted before {dict(live)}")
        for port in switch["ports"]:
            devices = [losses for losses in port["device_losses"].values() if not losses.get("in_host")]
            lost += sum(losses["lossless_at_most"] for losses in devices)
            drops = [known["drops"] for known in port["classes"] if known["class"] == LOSSLESS]
            lost += sum(known.get(reason, 0) for known in drops for reason in LOST)
    stopped = any("the record stops here" in line for line in bench.log[bench.log_since :])
    if finished.code != (1 if lost or stopped else 0):
        wrong.append(f"exit code {finished.code}: {lost} lossless frames lost, the record {'stopped' if stopped else 'is whole'}")
    told = {"code": finished.code, "lossless_lost_at_most": lost, "record_stopped": stopped}
    if wrong:
        told["log"] = bench.log[-LOG_LINES:]
    return wrong, told
