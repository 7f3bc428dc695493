"""What the machine did while a test ran, by the kernel's books."""

import os
import time


def read():
    """The books now: (time, CPU time of all, of a hypervisor, of this process and the children it has waited for), in seconds."""
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
