"""What the machine did while a test ran, by the kernel's counters."""

import os
import threading
import time

# How often a watch looks, and from when on a look that came late counts: far more than a scheduler keeps from a program that sleeps.
LOOK_S, STOOD_S = 0.02, 0.15


class StoodStill(Exception):
    """The machine did, while a test ran that failed: the cause of it, maybe."""


class Watch:
    """Looks on in a thread of its own whether the machine stands still: as a virtual one does that is taken from its processors, or
    one whose processors are all others'."""

    def __init__(self):
        self._longest = 0.0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self):
        last = time.monotonic()
        while True:
            time.sleep(LOOK_S)
            now = time.monotonic()
            self._longest = max(self._longest, now - last - LOOK_S)
            last = now

    def begin(self):
        """Forgets what was."""
        self._longest = 0.0

    def blame(self, failure):
        """Adds to the causes of a failure that the machine stood still since then, where it did."""
        if self._longest < STOOD_S:
            return
        while cause := failure.__cause__ or failure.__context__:
            failure = cause
        failure.__cause__ = StoodStill(f"for {self._longest:.1f} s")


def read():
    """The counters now: (time, CPU time of all, of a hypervisor, of this process and the children it has waited for), in seconds."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    own = sum(os.times()[:4])
    return time.monotonic(), (user + nice + system + irq + softirq) / tick, steal / tick, own


def taken(before, now):
    """What others took between two readings, in words. A child that still runs counts as another's."""
    span, busy, stolen, own = (late - early for early, late in zip(before, now))
    cpus = os.cpu_count()
    others = max(busy - own, 0) / (span * cpus)
    return (
        f"in {span:.1f} s others took {others:.0%} of {cpus} CPUs and a hypervisor {stolen / (span * cpus):.1%}, "
        f"load {os.getloadavg()[0]:.2f}"
    )
