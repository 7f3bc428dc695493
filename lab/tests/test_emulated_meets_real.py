"""An emulated host and a guest's Soft-RoCE at one switch, as `ib_write_bw` has them: do Linux and perftest take Weir's RDMA for one, and
the other way round?

perftest's own tables, the guest's counters of RDMA, scapy's ICRC and tshark's reading of a capture at the emulated host's port judge.
"""

import csv
import json
import re
import shutil
import subprocess

import pytest
from conftest import need_guest
from scapy.contrib.roce import BTH
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgReader, PcapReader

from weirlab.scenario import at_one_switch, flow, host, run_with_hosts
from weirlab.switch import weir_binary

pytestmark = pytest.mark.guest
MESSAGE, MESSAGES = 65_536, 16
TOTAL = MESSAGE * MESSAGES
WRITES = {6: "first", 7: "middle", 8: "last", 10: "only"}
ACKNOWLEDGE = 17
# What a guest is told of, as perftest has it.
SYNDROME_ACK = 0x1F
SIZES = {"message": f"{MESSAGE}B", "total": f"{TOTAL}B"}
SCENARIO = (
    # An emulated sender goes on at the link's rate while the switch waits for its CPU.
    at_one_switch("meeting", "2s", buffer="4MB", reaction="50ms")
    + host("R", '"vm"')
    + host("E")
    + flow("in", "R", "E", **SIZES)
    + flow("out", "E", "R", **SIZES)
    + '\n[capture]\nhost = "E"\n'
)


@pytest.fixture(scope="module")
def met(tmp_path_factory):
    """The run's directory."""
    need_guest()
    run, directory = run_with_hosts(tmp_path_factory.mktemp("meeting"), "meeting", SCENARIO)
    assert run.returncode == 0, run.stdout + run.stderr
    return directory


def table(directory, name):
    """Bytes and messages of one of perftest's tables. A busy machine may leave its rates at 0.00."""
    said = (directory / "hosts" / name).read_text()
    row = re.search(rf"^\s*({MESSAGE})\s+(\d+)\s+[\d.]+\s+[\d.]+\s+[\d.]+", said, re.M)
    assert row, said
    return int(row[1]), int(row[2])


def test_perftest_and_the_kernel_count_what_weir_counts(met):
    summary = json.loads((met / "summary.json").read_text())
    assert summary["failures"] == [], summary["failures"]
    flows = {flow["name"]: flow for flow in summary["flows"]}
    for name, said in (("in", "in.client.txt"), ("out", "out.server.txt")):
        assert table(met, said) == (MESSAGE, MESSAGES)
        # A guest that answers late is sent to again.
        assert flows[name]["bytes_sent"] >= flows[name]["bytes_received"] == TOTAL, flows[name]
    (guest,) = summary["real_hosts"]
    counted = guest["counters"]
    # Packets of 1024 B, and an acknowledgement of each message at least.
    packets = TOTAL // 1024
    assert counted["rdma.sent_pkts"] >= packets and counted["rdma.rcvd_pkts"] >= packets + MESSAGES, counted
    for name in ("rcvd_seq_err", "out_of_seq_request", "rcvd_rnr_err", "retry_exceeded_err"):
        assert counted.get(f"rdma.{name}", 0) == 0, counted


def frames(directory):
    (capture,) = directory.glob("*.pcap*")
    reader = PcapNgReader if capture.suffix == ".pcapng" else PcapReader
    return capture, [Ether(bytes(frame)) for frame in reader(str(capture))]


def test_frames_of_both_are_alike(met):
    capture, all_frames = frames(met)
    seen = [frame for frame in all_frames if UDP in frame and frame[UDP].dport == 4791 and BTH in frame]
    macs = {"guest": "02:00:00:00:00:01", "weir": "02:00:00:00:00:02"}
    for name, mac in macs.items():
        own = [frame for frame in seen if frame.src == mac]
        opcodes = {frame[BTH].opcode for frame in own}
        assert opcodes == {6, 7, 8, ACKNOWLEDGE}, (name, opcodes)
        for frame in own[:50]:
            # scapy reckons it anew for what it is given.
            told = frame[BTH].icrc if frame[BTH].icrc is not None else None
            again = frame.copy()
            again[BTH].icrc = None
            assert Ether(bytes(again))[BTH].icrc == told, frame.show2(dump=True)
    if not shutil.which("tshark"):
        return
    fields = ["-T", "fields", "-e", "eth.src", "-e", "infiniband.bth.opcode", "-e", "infiniband.aeth.syndrome", "-e", "infiniband.aeth.msn"]
    read = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband.aeth", *fields], capture_output=True, text=True, check=True)
    acknowledged = [line.split("\t") for line in read.stdout.splitlines()]
    for mac in macs.values():
        told = [(int(syndrome, 0), int(number, 0)) for source, _, syndrome, number in acknowledged if source == mac]
        assert {syndrome for syndrome, _ in told} == {SYNDROME_ACK}, told
        numbers = [number for _, number in told]
        assert numbers == sorted(numbers), numbers
    warned = subprocess.run(
        ["tshark", "-r", capture, "-Y", "infiniband && (_ws.malformed || _ws.expert.severity >= 0x00600000)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert warned.stdout == "", warned.stdout


def rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_a_recording_of_it_plays_on_another_backend(met, tmp_path):
    """What both sent, read out of the capture: messages, bytes and order of each are kept, and in virtual time each begins when its first
    frame had passed."""

    def weir(*arguments):
        done = subprocess.run([weir_binary(), *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr

    weir("record", met, "-o", "again.toml")
    recorded = rows(tmp_path / "again-rdma-3.csv")
    for ends in (("R", "E"), ("E", "R")):
        own = [row for row in recorded if (row["from"], row["to"]) == ends]
        assert [int(row["bytes"]) for row in own] == [MESSAGE] * MESSAGES, (ends, own)
        starts = [float(row["start_us"]) for row in own]
        assert starts == sorted(starts), starts
    weir("testbed", "run", "again.toml", "--backend", "sim", "-o", "played")
    (completed,) = (tmp_path / "played").glob("*/fct.csv")
    # Beside it stands what perftest's ends told each other over TCP.
    played = [row for row in rows(completed) if row["flow"] == "rdma-3"]
    assert len(played) == len(recorded) == 2 * MESSAGES
    for row, message in zip(sorted(recorded, key=by("start_us")), sorted(played, key=by("released_us"))):
        assert [row[key] for key in ("from", "to", "bytes")] == [message[key] for key in ("from", "to", "bytes")]
        # As the list's microseconds have it.
        assert abs(float(row["start_us"]) - float(message["released_us"])) <= 0.002, (row, message)


def by(column):
    return lambda row: (float(row[column]), row["from"])
