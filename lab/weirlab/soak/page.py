"""The page of a soak, as Markdown, from its journal alone."""

import collections
import statistics

from weirlab.soak import disturbances
from weirlab.soak.run import FIRST_S, GROWTH_KB, LOADS

INTRODUCTION = """# Soak

Made by `make soak` from its journal.

Switches ran under load, each between two ends that send and count numbered frames themselves, and were disturbed in {kinds} × {disturbances} ways.
After each cell the ends are silent until nothing moves. Then all of this has to hold, or the cell has failed:

- at each port, frames that the other side passed to it = received + counted as lost by the device; sent = frames that the other side took + counted as
  lost. The other side is the kernel, the emulated NIC, or the guest's kernel;
- in the switch, received = sent + dropped, each drop with its reason, and nothing held;
- each end's own count = the other side's, less what that lost, and no frame comes twice or out of order;
- since the first minute of a process its anonymous memory has grown by at most {growth:,} kB, and as many descriptors are open;
- at the end, the summary has the same counts, no packet memory is missing, and the exit code fits them.

"""
FAULT_CHARACTERS = 200
KINDS = {
    "veth": "`af_packet` on veth",
    "af-xdp": "`af_xdp` on veth",
    "rings": "two switches, joined by a `ring`",
    "driver": "DPDK's drivers on emulated NICs",
    "guest": "`vhost_user` with a Linux guest",
}


def of(journal):
    """The page of all cells so far."""
    head, cells = journal.entries[0], [entry for entry in journal.cells() if "seconds" in entry]
    runs = [entry for entry in journal.entries if "run" in entry]
    text = INTRODUCTION.format(kinds=len(KINDS), disturbances=len(disturbances.ALL), growth=GROWTH_KB)
    failed = [entry for entry in cells + runs if entry["faults"]]
    versions = dict.fromkeys(entry["version"].splitlines()[0] for entry in journal.entries if "version" in entry)
    loads = [entry["load_average"] for entry in cells if "load_average" in entry] or [0.0]
    text += table(
        ["", ""],
        [
            ["hours", f"{journal.seconds() / 3600:.2f}, until {journal.entries[-1]['at']}"],
            ["cells; ends of a process by SIGTERM", f"{len(cells)}; {len(runs)}"],
            ["failures", str(len(failed))],
            ["frames sent by the ends", f"{total(cells, 'ends_sent'):,}"],
            ["frames dropped by the switches; lost by devices; all counted", f"{total(cells, 'dropped'):,}; {total(cells, 'device_lost'):,}"],
            ["load of each end, of its port's rate", ", ".join(map(str, LOADS))],
            ["program", ", then ".join(versions) + (f", {head['note']}" if head["note"] else "")],
            ["machine", f"{head['cpus']} CPUs, {head['machine']}, Linux {head['kernel']}"],
            ["load average of the machine, median; most", "; ".join(f"{load:.1f}" for load in (statistics.median(loads), max(loads)))],
            ["again", f"`make soak HOURS={round(journal.seconds() / 3600) or 1} SEED={head['seed']}`"],
        ],
    )
    text += "\n## Cells\n\n"
    text += table(
        ["Ports", "Disturbance", "Cells", "Failed", "Sent by the ends", "Dropped", "Lost by devices", "Reasons of drops"], [row(*of) for of in grouped(cells)]
    )
    text += "\n| disturbance | what happens |\n|---|---|\n"
    text += "".join(f"| {name} | {disturb.__doc__.strip()} |\n" for name, disturb in disturbances.ALL.items())
    text += "\nThe wall clock steps in the process alone, by a library that is preloaded: stamps of the kernel stay.\n"
    text += f"\n## Memory and descriptors\n\nOf each process that lived for longer than {FIRST_S:.0f} s: anonymous memory at most, and open descriptors.\n\n"
    text += table(["Ports", "Round", "kB, first minute", "kB, later", "Descriptors, first minute", "Later"], list(memory(cells)))
    skipped = collections.Counter((entry["kind"], entry["skipped"]) for entry in journal.cells() if "skipped" in entry)
    if skipped:
        text += "\n## Not run here\n\n" + "".join(f"- {KINDS[kind]}: {reason}\n" for kind, reason in skipped)
    text += "\n## Failures\n\n"
    text += "".join(failure(entry) for entry in failed) or "None.\n"
    return text


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def total(cells, key):
    return sum(entry.get(key, 0) for entry in cells)


def grouped(cells):
    """Cells by kind and disturbance, in the order of both lists."""
    for kind in KINDS:
        for name in disturbances.ALL:
            of = [entry for entry in cells if (entry["kind"], entry["disturbance"]) == (kind, name)]
            if of:
                yield kind, name, of


def row(kind, name, cells):
    drops = sum((collections.Counter(entry.get("drops", {})) for entry in cells), collections.Counter())
    failed = sum(bool(entry["faults"]) for entry in cells)
    counts = [total(cells, key) for key in ("ends_sent", "dropped", "device_lost")]
    nics = sorted({entry["nic"] for entry in cells if entry.get("nic")})
    ports = KINDS[kind] + (f" ({', '.join(nics)})" if nics else "")
    reasons = ", ".join(f"`{reason}` {frames:,}" for reason, frames in sorted(drops.items()))
    return [ports, name, str(len(cells)), str(failed), *(f"{count:,}" for count in counts), reasons]


def memory(cells):
    """A row for each switch that lived for longer than a minute."""
    of = collections.defaultdict(list)
    for entry in cells:
        if "memory_kb" in entry:
            of[entry["round"], entry["kind"]].append(entry)
    for (turn, kind), entries in of.items():
        first = entries[0]
        kb = max(entry["memory_kb"][1] for entry in entries)
        descriptors = sorted({entry["descriptors"][1] for entry in entries})
        yield [KINDS[kind], str(turn + 1), f"{first['memory_kb'][0]:,}", f"{kb:,}", str(first["descriptors"][0]), ", ".join(map(str, descriptors))]


def failure(entry):
    of = f"cell {entry['cell']}, {entry['kind']}, {entry['disturbance']}, load {entry['load']}" if "cell" in entry else f"end of {entry['run']}"
    # Of an exception the message alone; the journal has its place, and the log.
    said = "; ".join(fault.splitlines()[0][:FAULT_CHARACTERS] for fault in entry["faults"] if not fault.startswith(" "))
    return f"- {of}: {said}\n"
