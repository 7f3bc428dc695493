#!/usr/bin/env python3
"""A switch under load for hours: each kind of port, disturbed in each way, with its accounts kept at both ends. Needs root.

A second call with the same folder goes on where the first ended, however it ended, and a page of it all is written each time.
"""

import argparse
import os
import pathlib
import platform
import random
import secrets
import signal
import subprocess
import sys

from weirlab.soak import page
from weirlab.soak.benches import KINDS
from weirlab.soak.run import Journal, Soak
from weirlab.switch import REPOSITORY, weir_binary

INSIDE = "WEIR_SOAK_INSIDE"


def kinds(text):
    names = text.split(",")
    if unknown := [name for name in names if name not in KINDS]:
        raise argparse.ArgumentTypeError(f"there is no kind {unknown[0]!r}; write some of {','.join(KINDS)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0, help="how long all cells last together (default: 1)")
    parser.add_argument("--output", type=pathlib.Path, default=REPOSITORY / "runs" / "soak", help="folder of the journal")
    parser.add_argument("--page", type=pathlib.Path, help="the page, as Markdown (default: soak.md in the folder)")
    parser.add_argument("--seed", type=int, help="of a new soak (default: random)")
    parser.add_argument("--cell-seconds", type=float, default=55.0, help="load of a cell (default: 55)")
    parser.add_argument("--note", default="", help="what the page says of a new soak's program and machine besides")
    parser.add_argument("--cells", type=int, help="end after so many cells")
    parser.add_argument("--kinds", type=kinds, default=KINDS, help=f"kinds of ports, of {','.join(KINDS)} (default: all)")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("soak.py: needs root, since it makes network namespaces and veth pairs; call it with sudo")
    if not os.access(weir_binary(), os.X_OK):
        sys.exit(f"soak.py: there is no {weir_binary()}; build it with: cargo build --release -p weir")
    if INSIDE not in os.environ:
        enclose()
    # Ended by a signal, it still removes what it made.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("soak.py: ended by SIGTERM"))
    arguments.output.mkdir(parents=True, exist_ok=True)
    journal = Journal(arguments.output / "journal.jsonl")
    if not journal.entries:
        seed = random.SystemRandom().getrandbits(32) if arguments.seed is None else arguments.seed
        journal.add(seed=seed, token=secrets.token_hex(3), note=arguments.note, **machine())
    elif [entry["version"] for entry in journal.entries if "version" in entry][-1] != machine()["version"]:
        journal.add(**machine())
    if journal.seconds() >= arguments.hours * 3600:
        print(f"this soak has lasted {journal.seconds() / 3600:.1f} hours: more go on with it, and without {journal.path} a new one begins")
    token = journal.entries[0]["token"]
    # Namespaces of a soak that was killed went with it; their names stay.
    pathlib.Path(f"/run/netns/weir-soak-{token}").unlink(missing_ok=True)
    try:
        Soak(journal, token, arguments.cell_seconds).go_on(arguments.hours, arguments.cells, arguments.kinds)
    except KeyboardInterrupt:
        sys.exit("soak.py: interrupted; the same call goes on")
    finally:
        (arguments.page or arguments.output / "soak.md").write_text(page.of(journal))
    return 1 if any(entry.get("faults") for entry in journal.entries) else 0


def enclose():
    """Goes on as the first process of a PID namespace with mounts of its own: the kernel ends and removes all that is in it with it, also
    where it is killed."""
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv]
    os.execvpe(command[0], command, os.environ | {INSIDE: "1"})


def machine():
    """What a soak runs on."""
    version = subprocess.run([weir_binary(), "--version"], capture_output=True, text=True).stdout.strip()
    return {"version": version, "kernel": platform.release(), "machine": platform.machine(), "cpus": os.cpu_count()}


if __name__ == "__main__":
    sys.exit(main())
