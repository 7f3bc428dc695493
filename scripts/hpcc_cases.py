"""Fabrics and flow lists for HPCC's simulator (alibaba-edu/High-Precision-Congestion-Control), as the files that it reads."""

import random

# Web search: bytes, and the share of messages that have so many or fewer, in percent.
WEB_SEARCH = [
    (0, 0), (10_000, 15), (20_000, 20), (30_000, 30), (50_000, 40), (80_000, 53), (200_000, 60), (1_000_000, 70),
    (2_000_000, 80), (5_000_000, 90), (10_000_000, 97), (30_000_000, 100),
]  # fmt: skip
# Flows of the simulators begin here, in seconds.
BEGIN = 2
HOST_GBPS = 100


class Case:
    """A fabric, and what is sent over it."""

    def __init__(self, hosts, switches, links, pairs, *, load, ms, buffer_mib, incast):
        self.hosts, self.switches, self.links = hosts, switches, links
        # Which hosts send the background, and to which.
        self.pairs, self.load, self.ms, self.buffer_mib = pairs, load, ms, buffer_mib
        # Every so many us, from so many hosts, so many bytes each.
        self.incast = incast

    def topology(self):
        nodes = self.hosts + self.switches
        lines = [f"{nodes} {self.switches} {len(self.links)}", " ".join(str(self.hosts + n) for n in range(self.switches))]
        lines += [f"{one} {other} {gbps}Gbps 0.001ms 0" for one, other, gbps in self.links]
        return "\n".join(lines) + "\n"

    def flows(self, seed):
        """Poisson arrivals at each sender, and incasts: (start in ns, from, to, bytes)."""
        draw = random.Random(f"beside-ns3-{seed}")
        mean = sum((b - a) / 100 * (x + y) / 2 for (x, a), (y, b) in zip(WEB_SEARCH, WEB_SEARCH[1:]))
        senders, receivers = self.pairs
        end = self.ms * 1e6
        flows = []
        for sender in senders:
            at = 0
            while True:
                at += draw.expovariate(HOST_GBPS * self.load / 8 / mean)
                if at >= end:
                    break
                to = draw.choice([host for host in receivers if host != sender])
                flows.append((int(at), sender, to, max(1, int(size_of(draw.uniform(0, 100))))))
        if self.incast:
            every, fan, size = self.incast
            at = every * 500
            while at < end:
                to = draw.choice(receivers)
                others = [host for host in senders if host != to]
                flows += [(at, sender, to, size) for sender in draw.sample(others, min(fan, len(others)))]
                at += every * 1_000
        return sorted(flows)


def size_of(share):
    for (x, a), (y, b) in zip(WEB_SEARCH, WEB_SEARCH[1:]):
        if share <= b:
            return x + (y - x) * (share - a) / (b - a)
    return WEB_SEARCH[-1][0]


def star():
    links = [(host, 16, HOST_GBPS) for host in range(16)]
    return Case(16, 1, links, (range(16), range(16)), load=0.5, ms=6, buffer_mib=5, incast=(1_000, 15, 400_000))


def leaf_spine(spines, gbps):
    links = [(host, 16 + host // 4, HOST_GBPS) for host in range(16)]
    links += [(16 + leaf, 20 + spine, gbps) for leaf in range(4) for spine in range(spines)]
    return Case(16, 4 + spines, links, (range(16), range(16)), load=0.5, ms=4, buffer_mib=5, incast=(1_000, 12, 200_000))


def cascade():
    # Eight hosts on one switch send to eight on another: PAUSEs reach the first switch, and by it the hosts.
    links = [(host, 16 + host // 8, HOST_GBPS) for host in range(16)] + [(16, 17, 400)]
    return Case(16, 2, links, (range(8), range(8, 16)), load=0.3, ms=6, buffer_mib=3, incast=(1_000, 8, 500_000))


CASES = {
    "switch": star(),
    "leaf-spine": leaf_spine(4, 100),
    "spines-400g": leaf_spine(2, 400),
    "cascade": cascade(),
}

# As the simulator's run.py has them for this rate of hosts.
CONTROLS = {
    "dcqcn": dict(mode=1, t_alpha=1, t_dec=4, t_inc=300, ai=20, hai=200, window=0, react=0, high=1),
    "dcqcn_paper": dict(mode=1, t_alpha=50, t_dec=50, t_inc=55, ai=20, hai=200, window=0, react=0, high=1),
    "timely": dict(mode=7, t_alpha=1, t_dec=4, t_inc=300, ai=100, hai=500, window=0, react=0, high=1),
    "hp": dict(mode=3, t_alpha=1, t_dec=4, t_inc=300, ai=40, hai=40, window=1, react=1, high=0),
}

CONFIGURATION = """ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
PACKET_PAYLOAD_SIZE 1000
TOPOLOGY_FILE topology.txt
FLOW_FILE flow.txt
TRACE_FILE trace.txt
TRACE_OUTPUT_FILE /dev/null
FCT_OUTPUT_FILE fct.txt
PFC_OUTPUT_FILE pfc.txt
SIMULATOR_STOP_TIME {stop}
CC_MODE {mode}
ALPHA_RESUME_INTERVAL {t_alpha}
RATE_DECREASE_INTERVAL {t_dec}
CLAMP_TARGET_RATE 0
RP_TIMER {t_inc}
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI {ai}Mb/s
RATE_HAI {hai}Mb/s
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 1000Mb/s
ERROR_RATE_PER_LINK 0.0
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
HAS_WIN {window}
GLOBAL_T 1
VAR_WIN {window}
FAST_REACT {react}
U_TARGET 0.95
MI_THRESH 0
INT_MULTI {multi}
MULTI_RATE 0
SAMPLE_FEEDBACK 0
PINT_LOG_BASE 1.01
PINT_PROB 1.0
RATE_BOUND 1
ACK_HIGH_PRIO {high}
LINK_DOWN 0 0 0
ENABLE_TRACE 0
KMAX_MAP 2 100000000000 1600 400000000000 6400
KMIN_MAP 2 100000000000 400 400000000000 1600
PMAX_MAP 2 100000000000 0.2 400000000000 0.2
BUFFER_SIZE {buffer}
QLEN_MON_FILE /dev/null
QLEN_MON_START 1
QLEN_MON_END 1
"""

# Not all messages of a case are done when its last has begun.
AFTER_S = 0.05


def write(folder, case, control, seed):
    """Writes the simulator's four files into a folder, and returns the flows: (start in ns, from, to, bytes)."""
    flows = case.flows(seed)
    stop = BEGIN + case.ms / 1e3 + AFTER_S
    (folder / "topology.txt").write_text(case.topology())
    (folder / "trace.txt").write_text("0\n\n")
    lines = [f"{a} {b} 3 100 {size} {BEGIN + at / 1e9:.9f}" for at, a, b, size in flows]
    (folder / "flow.txt").write_text("\n".join([str(len(lines)), *lines]) + "\n")
    values = dict(CONTROLS[control], stop=stop, buffer=case.buffer_mib, multi=HOST_GBPS // 25)
    (folder / "config.txt").write_text(CONFIGURATION.format(**values))
    return flows
