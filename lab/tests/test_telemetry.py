"""The telemetry trailer on the wire: real frames of a run as tshark and scapy read them. Needs no root."""

import struct
import subprocess
from collections import namedtuple

import pytest
from conftest import need
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

from weirlab.switch import weir_binary

TIMEOUT_S = 120
#: As many as are captured.
FRAMES = 800
#: FCS, preamble and gap.
OVERHEAD = 24
WRAPS = 1 << 40
ACKNOWLEDGE = 0x11
#: The hosts' addresses are numbered as they stand in the file. F1 comes over two switches, F2 and F3 over one.
F1, F2, F3, RECEIVER = (f"10.0.0.{n}" for n in range(1, 5))
#: So slow that a CPU which is away for some milliseconds is so for a few round trips of the scenario; and messages so short that
#: a flow which congestion control slowed down for that ends its last one soon. A round trip in which the CPU was away slows TIMELY
#: down, and it is slow to recover: it keeps a part of the link.
SCENARIO = """
[scenario]
end = "8ms"
time_dilation = 1000
[switch.classes]
preset = "roce"
[switch.port]
rate = "10Gbps"
delay = "2us"
[nic.timely]
rate_min = "2Gbps"
[capture]
host = "R"
data_from = "500us"
data_frames = 800
[[switches]]
name = "S1"
[[switches]]
name = "S2"
[[links]]
ends = ["S1.next", "S2.prev"]
""" + "".join(
    f'[[hosts]]\nname = "{name}"\nport = "{port}"\n' for name, port in (("H1", "S1.h1"), ("H2", "S2.h2"), ("H3", "S2.h3"), ("R", "S2.r"))
) + "".join(
    f'[[flows]]\nfrom = "{host}"\nto = "R"\nclass = 3\nmessage = "16KB"\ncongestion_control = "{control}"\n'
    for host, control in (("H1", "powertcp"), ("H2", "powertcp"), ("H3", "timely"))
)

Trailer = namedtuple("Trailer", "places collects sent_ns hops")
Hop = namedtuple("Hop", "ns tx_bytes queue mbps")
Frame = namedtuple("Frame", "source destination opcode length trailer")


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("telemetry")
    (folder / "telemetry.toml").write_text(SCENARIO)
    command = [weir_binary(), "testbed", "run", "telemetry.toml", "--backend", "dpdk", "-o", "runs"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (folder / "runs").rglob("*.pcapng")
    return path


def trailer_of(behind):
    """What stands behind the IP packet, by the table of docs/FRAMES.md."""
    magic, version, stamped, places, flags, sent_ns = struct.unpack(">4sBBBBQ", behind[:16])
    assert (magic, version) == (b"WINT", 1)
    assert len(behind) == 16 + 16 * places and stamped <= places and flags in (0, 1)
    cells = [int.from_bytes(behind[16 + 16 * n : 32 + 16 * n], "big") for n in range(places)]
    assert not any(cells[stamped:]), "a place that nobody took is empty"
    hops = [Hop(cell >> 88, cell >> 48 & WRAPS - 1, cell >> 24 & 0xFFFFFF, cell & 0xFFFFFF) for cell in cells[:stamped]]
    return Trailer(places, flags == 1, sent_ns, hops)


@pytest.fixture(scope="module")
def frames(capture):
    """The data and acknowledgements that passed the receiver's port, in their order."""
    read = []
    with RawPcapNgReader(str(capture)) as reader:
        for data, _ in reader:
            ip = Ether(data)[IP]
            read.append(Frame(ip.src, ip.dst, data[42], len(data), trailer_of(data[14 + ip.len :])))
    assert len(read) == FRAMES
    return read


def of_flow(frames, source):
    return [frame for frame in frames if frame.source == source]


def test_tshark_reads_roce_all_the_same(capture):
    need("tshark")
    fields = ["infiniband.bth.opcode", "infiniband.invariant.crc", "ip.checksum.status", "_ws.malformed", "_ws.expert.message"]
    command = ["tshark", "-n", "-o", "ip.check_checksum:TRUE", "-r", capture, "-T", "fields", "-E", "separator=|"]
    for field in fields:
        command += ["-e", field]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout.splitlines()
    rows = [line.split("|") for line in lines]
    assert len(rows) == FRAMES
    for row in rows:
        opcode, crc, checksum, malformed, expert = row
        assert opcode and crc and checksum in ("1", "Good") and not malformed and not expert, row


def test_each_switch_on_the_way_stamps_once(frames):
    for source, places, hops in ((F1, 5, 2), (F2, 5, 1), (F3, 0, 0)):
        flow = of_flow(frames, source)
        assert len(flow) > 5, f"{source}: {len(flow)} frames"
        shapes = {(frame.trailer.places, frame.trailer.collects, len(frame.trailer.hops)) for frame in flow}
        assert shapes == {(places, places > 0, hops)}, source
        sent = [frame.trailer.sent_ns for frame in flow]
        assert sent == sorted(sent) and sent[-1] > sent[0]
        assert all(hop.mbps == 10_000 and hop.queue < 1_000_000 for frame in flow for hop in frame.trailer.hops)


def test_times_and_bytes_of_a_port_rise_as_its_frames_leave(frames):
    # The last hop of all that ask for stamps is the receiver's port, which sends nothing else but F3's frames.
    last, sent_since = None, 0
    for frame in frames:
        if frame.destination != RECEIVER:
            continue
        if frame.trailer.hops:
            hop = frame.trailer.hops[-1]
            if last:
                assert (hop.tx_bytes - last.tx_bytes) % WRAPS == sent_since
                assert (hop.ns - last.ns) % WRAPS < 1_000_000_000
            last, sent_since = hop, 0
        sent_since += frame.length + OVERHEAD
    first_hops = [frame.trailer.hops[0] for frame in of_flow(frames, F1)]
    for before, after in zip(first_hops, first_hops[1:]):
        assert (after.tx_bytes - before.tx_bytes) % WRAPS < 10_000_000
        assert (after.ns - before.ns) % WRAPS < 1_000_000_000


def test_acknowledgements_bring_it_back_and_are_not_stamped(frames):
    answered = 0
    for source in (F1, F2, F3):
        brought = {(frame.trailer.sent_ns, tuple(frame.trailer.hops)) for frame in of_flow(frames, source)}
        for frame in frames:
            if (frame.source, frame.destination) == (RECEIVER, source):
                assert frame.opcode == ACKNOWLEDGE and not frame.trailer.collects
                answered += (frame.trailer.sent_ns, tuple(frame.trailer.hops)) in brought
    assert answered > 50, "the first ones answer what passed before the capture began"
