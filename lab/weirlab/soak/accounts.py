"""The account of a switch between two instants: each frame that others gave it was sent, or dropped and counted."""

import collections
import dataclasses
import time

QUIET_S, PATIENCE_S, LOOK_S = 3.0, 180.0, 0.5
MOVING = ("weir_received_frames_total", "weir_sent_frames_total", "weir_held_frames", "weir_dropped_frames_total")


@dataclasses.dataclass
class Snapshot:
    """All counters at an instant at which nothing moved. `ports` has (switch, port) to counters, `switches` a switch's to counters."""

    ports: dict
    switches: dict
    drops: collections.Counter
    passed: dict
    sent: dict
    received: dict
    out_of_order: int
    lost_between: dict


def snapshot(bench):
    """The counters now."""
    ports = collections.defaultdict(collections.Counter)
    switches = collections.defaultdict(collections.Counter)
    drops = collections.Counter()
    for name, labels, value in bench.metrics():
        value = round(value)
        port = (labels.get("switch"), labels.get("port"))
        if name in ("weir_port_rx_frames_total", "weir_pfc_rx_frames_total"):
            ports[port]["rx"] += value
        elif name in ("weir_port_tx_frames_total", "weir_pfc_tx_frames_total"):
            ports[port]["tx"] += value
        elif name == "weir_device_losses_total":
            ports[port][f"lost on {labels['direction']}"] += value
        elif name == "weir_port_drops_total":
            drops[labels["reason"]] += value
        elif name in MOVING:
            switches[labels["switch"]][name.removeprefix("weir_").removesuffix("_total").removesuffix("_frames")] += value
    ends = bench.ends
    return Snapshot(
        dict(ports),
        dict(switches),
        drops,
        bench.passed(),
        {name: end.frames_sent() for name, end in ends.items()},
        {name: end.frames_received() for name, end in ends.items()},
        sum(end.out_of_order for end in ends.values()),
        bench.lost_between(),
    )


def settled(bench):
    """The counters, once the ends are quiet and nothing has moved for a while."""
    for end in bench.ends.values():
        end.be_quiet()
    last, since, end = snapshot(bench), time.monotonic(), time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        time.sleep(LOOK_S)
        now = snapshot(bench)
        if now != last or any(switch["held"] for switch in now.switches.values()):
            last, since = now, time.monotonic()
        elif time.monotonic() - since >= QUIET_S:
            return now
    raise TimeoutError(f"something still moves {PATIENCE_S:.0f} s after the ends were silent")


def faults(before, after, heard_all=True):
    """What does not add up between two snapshots, as texts. An end that was not cut off meanwhile has `heard_all`."""
    wrong = []

    def compare(what, left, right):
        if left != right:
            wrong.append(f"{what}: {left} is not {right}")

    for name, now in after.switches.items():
        was = before.switches.get(name, collections.Counter())
        received, sent, dropped = (now[key] - was[key] for key in ("received", "sent", "dropped"))
        compare(f"switch {name}: received and sent + dropped", received, sent + dropped)
        compare(f"switch {name}: frames held", now["held"], 0)
    compare("drops by reason and dropped", sum((after.drops - before.drops).values()), sum(
        now["dropped"] - before.switches.get(name, collections.Counter())["dropped"] for name, now in after.switches.items()))
    for port, passed in after.passed.items():
        was, now = before.ports.get(port, collections.Counter()), after.ports[port]
        moved = {key: now[key] - was[key] for key in now}
        gave = passed.to_port - before.passed[port].to_port
        took = passed.from_port - before.passed[port].from_port
        name = ".".join(port)
        compare(f"{name}: given to it and received + lost on receive", gave, moved["rx"] + moved.get("lost on rx", 0))
        compare(f"{name}: sent and taken from it + lost on transmit", moved["tx"], took + moved.get("lost on tx", 0))
        sent, received = (getattr(after, way)[port[1]] - getattr(before, way)[port[1]] for way in ("sent", "received"))
        if port[1] not in after.lost_between:
            # A guest in between, which may lose frames, and makes none.
            if sent < gave or received > took:
                wrong.append(f"{name}: its end sent {sent} and received {received}, the guest {gave} and {took}")
            continue
        lost = [after.lost_between[port[1]][way] - before.lost_between[port[1]][way] for way in range(2)]
        compare(f"{name}: sent by its end, and given to the port + lost between", sent, gave + lost[0])
        if heard_all:
            compare(f"{name}: taken from the port, and received by its end + lost between", took, received + lost[1])
    for (switch, port), now in after.ports.items():
        if port == "link" and switch == "a":
            far, was = after.ports["b", "link"], before.ports.get(("a", "link"), collections.Counter())
            far_was = before.ports.get(("b", "link"), collections.Counter())
            compare("link a to b", now["tx"] - was["tx"], far["rx"] - far_was["rx"])
            compare("link b to a", far["tx"] - far_was["tx"], now["rx"] - was["rx"])
    compare("frames out of order or twice", after.out_of_order - before.out_of_order, 0)
    return wrong
