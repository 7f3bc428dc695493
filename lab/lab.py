#!/usr/bin/env python3
"""The namespace lab: Linux hosts on one machine, cabled to a switch. Needs root, and nothing but Python.

    lab.py run            make the lab, ping and iperf3 through it, print what was measured, take it down
    lab.py up             make it and leave it running
    lab.py exec h0 …      run a command on a host of it (`sw` is where the switch's interfaces are)
    lab.py down           end its switch and remove it
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

from weirlab import netns
from weirlab.lab import SCENARIOS, Hosts, Iperf3
from weirlab.switch import REPOSITORY, START_S, STOP_S, check_balance, weir_binary

PREFIX = "weir"
STATE = pathlib.Path("/run/weir-lab")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="run | up | exec | down")
    for name in ("run", "up"):
        command = commands.add_parser(name)
        command.add_argument("--hosts", type=int, choices=sorted(SCENARIOS), default=2, help="default: 2")
        command.add_argument("--weir", metavar="FILE", help="the weir binary (default: the release build of this tree)")
        if name == "run":
            command.add_argument("--seconds", type=int, default=5, help="length of each transfer (default: 5)")
    command = commands.add_parser("exec")
    command.add_argument("host", help="h0, h1, …, or sw")
    command.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND", help="default: a shell")
    commands.add_parser("down")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("lab.py: needs root, since it makes network namespaces and veth pairs; call it with sudo")
    if getattr(arguments, "weir", None):
        os.environ["WEIR_BIN"] = os.path.abspath(arguments.weir)
    if arguments.command in ("run", "up") and not os.access(weir_binary(), os.X_OK):
        sys.exit(f"lab.py: there is no {weir_binary()}; build it with: cargo build --release -p weir")
    # Ended by a signal, it still removes what it made.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("lab.py: ended by SIGTERM"))
    try:
        return {"run": run, "up": up, "exec": execute, "down": down}[arguments.command](arguments)
    except KeyboardInterrupt:
        sys.exit("lab.py: interrupted; what it made is removed")
    except OSError as error:
        sys.exit(f"lab.py: {error}")


def run(arguments):
    """The whole lab, in the time of one command. The exit code is the switch's, or 1 where something did not arrive."""
    with Hosts(f"{PREFIX}-{os.getpid()}", arguments.hosts) as net:
        print(f"{arguments.hosts} hosts on a switch: {SCENARIOS[arguments.hosts].relative_to(REPOSITORY)}")
        for host in net.hosts:
            print(f"  {host.name}: {host.address}, {host.address6}, {host.mac()}")
        with net.run_switch(arguments=["--quiet"]) as switch:
            complete = ping_all(net)
            iperf3_all(net, arguments.seconds)
            finished = switch.stop()
        print("\nThe switch's own summary:")
        print(finished.stdout.rstrip())
        if finished.code != 0:
            print(finished.stderr.rstrip(), file=sys.stderr)
            return finished.code
        check_balance(finished.switch)
        print("\nevery ping was answered" if complete else "\nPINGS WERE LOST", end="; ")
        print("the switch conserved all frames")
        return 0 if complete else 1


def ping_all(net, count=10):
    print("\nping, ms")
    rows, complete = [["From", "To", "Answered", "Shortest", "Median", "Longest"]], True
    for here in net.hosts:
        for there in net.hosts:
            if here is there:
                continue
            times = here.ping(there, count)
            complete &= len(times) == count
            shown = [f"{f(times):.3f}" if times else "-" for f in (min, statistics.median, max)]
            rows.append([here.name, there.name, f"{len(times)}/{count}", *shown])
    print_table(rows)
    return complete


def iperf3_all(net, seconds):
    first, *others = net.hosts
    print(f"\nTCP, {seconds} s each")
    rows = [["Transfer", "From", "To", "Gb/s", "Retransmits"]]

    def transfer(name, *pairs):
        with contextlib.ExitStack() as stack:
            running = [
                stack.enter_context(Iperf3(here, there, seconds, port=5201 + n, reverse=reverse))
                for n, (here, there, reverse) in enumerate(pairs)
            ]
            for result in [each.result() for each in running]:
                rows.append(
                    [name, result["sender"], result["receiver"], f"{result['gbps']:.3f}", str(result["retransmits"])]
                )

    transfer("one way", (first, others[0], False))
    transfer("the other way", (first, others[0], True))
    transfer("both ways", (first, others[0], False), (first, others[0], True))
    if len(others) > 1:
        transfer("all into one", *((other, first, False) for other in others))
        halves = len(net.hosts) // 2
        transfer("in pairs", *((net.hosts[n], net.hosts[n + halves], False) for n in range(halves)))
    print_table(rows)


def up(arguments):
    """The lab, and a switch that runs on."""
    if STATE.exists():
        sys.exit(f"lab.py: there is a lab already ({STATE}); remove it with: lab.py down")
    net = Hosts(PREFIX, arguments.hosts)
    try:
        STATE.mkdir(mode=0o700)
        log = STATE / "switch.log"
        command = [weir_binary(), "run", "--json", str(STATE / "summary.json"), str(SCENARIOS[arguments.hosts])]
        with open(log, "w") as output:
            process = subprocess.Popen(
                net.switch.command(*command), stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True
            )
        (STATE / "lab.json").write_text(json.dumps({"hosts": arguments.hosts, "switch": process.pid}))
        deadline = time.monotonic() + START_S
        while "forwarding" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise OSError(f"the switch does not start:\n{log.read_text()}")
            time.sleep(0.05)
    except BaseException:
        remove()
        raise
    print(f"the switch runs as process {process.pid}, its output is in {log}")
    for host in net.hosts:
        print(f"  {host.name}: {host.address}    ip netns exec {host.namespace.name} …   or   lab.py exec {host.name} …")
    print("end it with: lab.py down")
    return 0


def execute(arguments):
    if not STATE.exists():
        sys.exit("lab.py: there is no lab; make one with: lab.py up")
    command = arguments.words or [os.environ.get("SHELL", "/bin/sh")]
    os.execvp("ip", ["ip", "netns", "exec", f"{PREFIX}-{arguments.host}", *command])


def down(_):
    if not STATE.exists():
        print("there is no lab")
        return 0
    stopped = remove_switch()
    log = (STATE / "switch.log").read_text() if (STATE / "switch.log").exists() else ""
    # The summary stands at the end, after an empty line; where there is none, all of the output may say why.
    print(log[log.find("\n\n") + 2 :] if stopped else log)
    remove()
    return 0


def remove_switch():
    """Ends the switch of the lab that is up, if it still runs; whether it ended in time."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        pid = json.loads((STATE / "lab.json").read_text())["switch"]
        # The id may long be another's.
        if b"weir" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
            return True
        os.kill(pid, signal.SIGTERM)
        for _ in range(STOP_S * 20):
            if not pathlib.Path(f"/proc/{pid}").exists() or "\nState:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text():
                return True
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        return False
    return True


def remove():
    remove_switch()
    for role in ["sw", *(f"h{n}" for n in range(max(SCENARIOS)))]:
        with contextlib.suppress(OSError):
            netns.ip("netns", "delete", f"{PREFIX}-{role}")
    for name in ("lab.json", "switch.log", "summary.json"):
        (STATE / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        STATE.rmdir()


def print_table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip())
        if number == 0:
            print("  " + "-" * (sum(widths) + 2 * len(widths) - 2))


if __name__ == "__main__":
    sys.exit(main())
