"""The flow control is accepted by name, stops and loses nothing on both backends, and is told of everywhere."""

import struct
from functools import partial
from pathlib import Path

from checks import BACKENDS, call, check_switch, expect, run, series, summary

HERE = Path(__file__).parent
SCENARIO = HERE / "scenario.toml"
# Destination and source are before it: MAC control, the opcode of organisations, and whose message it is.
MESSAGE = bytes.fromhex("8808fffe027473")

SWITCH = """[buffer]
size = "4MB"
headroom = "300KB"
policy = "static"

[buffer.static]
threshold = "300KB"

[classes]
lossless = [3]

[[ports]]
name = "a"
ring = "x"
rate = "10Gbps"
delay = "1us"
flow_control = { kind = "timed-stop", limit = "400KB", hold = "200us" }

[[ports]]
name = "b"
ring = "x"
rate = "10Gbps"
flow_control = "pfc"
"""


switch = partial(check_switch, SWITCH)


def closed_form():
    # τ is two frames of 1,542 B on the wire, 2 us of wire and 50 us of reaction: 68.084 KB, and a frame that has begun.
    said = switch()
    expect(said, "a: timed stop at 10Gbps", "stops for 200us from 330394B on; 69606B may come after that")
    expect(said, "gauge stops_received (stops received) in series and summaries")


def wrong_files():
    expect(switch(" hold =", " hodl =", 2), "switch.toml:17", "unknown key `hodl`", "write `hold`")
    expect(switch("timed-stop", "timed-stops", 2), "switch.toml:17", 'write kind = "timed-stop"')
    expect(switch("200us", "99us", 2), "switch.toml:17", "`hold` 99us is less than twice `reaction` 50us")
    expect(switch("400KB", "60KB", 2), "switch.toml:17", "69606B may come after a stop, and `limit` is 60KB")
    expect(switch("limit =", "b_m =", 2), "switch.toml:17", '`kind` "timed-stop" has no `b_m`')
    expect(switch('"pfc"', '{ kind = "pfc", hold = "1ms" }', 2), "switch.toml:23", '"timed-stop" has it')


def frames(capture):
    """The frames of a capture in the pcapng format."""
    data = capture.read_bytes()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            (size,) = struct.unpack_from("<I", data, at + 20)
            yield data[at + 28 : at + 28 + size]
        at += length


def runs(backend):
    mine = run(SCENARIO, backend) / "timed-stop"
    result = summary(mine)
    assert result["lossless"] and not result["failures"], result["failures"]
    sent = {port["name"]: port["messages"]["sent"] for port in result["ports"]}
    assert sent["H0"] > 0 and sent["H1"] > 0, f"{backend}: the switch stops both senders: {sent}"
    rows = series(mine)
    stops = [int(row["H2.3.stops_received"]) for row in rows]
    assert stops == sorted(stops) and stops[-1] > 0, f"{backend}: the receiver stops the switch: {stops}"
    (class_of_h2,) = [port["classes"][0] for port in result["ports"] if port["name"] == "H2"]
    assert class_of_h2["stops_received"] == class_of_h2["stops_received_max"] == stops[-1], class_of_h2
    expect(call("report", mine, "--output", "report.html") and Path("report.html").read_text(), "Messages that stopped the class.")
    held = max(int(row[f"{host}.3.ingress_bytes"]) for row in rows for host in ["H0", "H1"])
    assert 100_000 < held <= 400_000, f"{backend}: a queue held {held} B"
    # Virtual time has no bytes on its links.
    if backend == "dpdk":
        are_on_the_wire(mine)


def are_on_the_wire(run_directory):
    [capture] = run_directory.glob("*.pcapng")
    messages = [frame for frame in frames(capture) if frame[12:19] == MESSAGE]
    assert messages and all(frame[19] == 1 << 3 and frame[20:24] == struct.pack(">I", 200_000) for frame in messages)


closed_form()
wrong_files()
for backend in BACKENDS:
    runs(backend)
