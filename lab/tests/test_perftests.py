"""perftest's programs between guests with Soft-RoCE, and between a guest and an emulated host, which waits for one that is not ready; DCTCP
of a guest's kernel; and PFC with and without Weir's NIC in front of a guest, which decides what is lost.

Two guests and one boot for all of it: the host behind Weir's NIC, which obeys PFC, and one that does not know it, share a buffer that is
smaller than Soft-RoCE's windows. perftest's tables and the counters of Soft-RoCE judge.
"""

import json
import re
import subprocess

import pytest
from conftest import need, need_guest

from weirlab.scenario import at_one_switch, flow, host, run_with_hosts

pytestmark = [pytest.mark.guest, pytest.mark.idle_machine]
MESSAGE = 16_384
# Soft-RoCE has up to 128 packets of a queue pair on their way, 142 KB.
BUFFER = "100KB"
# After the others.
LATE = "4s"
SHORT, SHORTS = 1_000, 64
# How long a sender is to wait where a receiver is not ready, by the code of perftest's queue pairs (IBA, table 45).
RNR_WAITS_S = {12: 0.000_640}


def sent(messages):
    return {"message": f"{MESSAGE}B", "total": f"{messages * MESSAGE}B"}


MARKED = """
[[switch.classes.queues]]
class = 0
ecn = { kmin = "8KB", kmax = "8KB", pmax = 1.0 }
"""
SCENARIO = (
    at_one_switch("perftests", "6s", buffer=BUFFER, mean_frame=1_000, classes=MARKED)
    + host("OBEYS", '{ by = "vm", queues = 4 }')
    + host("DEAF", '{ by = "vm", nic = false }', rate="8Mbps")
    + host("E", rate="4Mbps")
    + flow("writes", "OBEYS", "DEAF", qps=4, **sent(8))
    + flow("sends", "OBEYS", "DEAF", perftest="ib_send_bw", qps=2, **sent(8))
    + flow("reads", "OBEYS", "DEAF", perftest="ib_read_bw", **sent(8))
    + flow("pings", "OBEYS", "DEAF", 0, perftest="ib_send_lat", message="64B", total="3200B")
    + flow("sends-in", "OBEYS", "E", perftest="ib_send_bw", start=LATE, **sent(16))
    + flow("sends-out", "E", "DEAF", perftest="ib_send_bw", **sent(8))
    + flow("dctcp", "OBEYS", "DEAF", 0, transport="tcp-dctcp", message="1MB", total="1MB")
    + flow("lost", "DEAF", "E", start=LATE, **sent(16))
    # A message a packet, one behind the other at 100 Mb/s, for a receiver with a single buffer.
    + host("F")
    + flow("short", "F", "OBEYS", perftest="ib_send_bw", receive_depth=1, message=f"{SHORT}B", total=f"{SHORTS * SHORT}B")
    + '\n[capture]\nhost = "F"\n'
)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The run's directory, and what was printed. It fails, for what the deaf guest loses."""
    need_guest()
    run, directory = run_with_hosts(tmp_path_factory.mktemp("perftests"), "perftests", SCENARIO)
    assert run.returncode == 1 and (directory / "summary.json").exists(), run.stdout + run.stderr
    return directory, run.stdout + run.stderr


@pytest.fixture(scope="module")
def summary(ended):
    return json.loads((ended[0] / "summary.json").read_text())


def said(ended, name, size):
    """The last row of one of perftest's tables."""
    text = (ended[0] / "hosts" / name).read_text()
    rows = re.findall(rf"^\s*({size}\s+\d+\s+\d.*)$", text, re.M)
    assert rows, text
    return [float(cell) for cell in rows[-1].split()]


def fitted_clock(ended, name):
    """Whether perftest could fit its clock. Where another program takes its CPU meanwhile it prints rates of zero and infinite times."""
    return "Correlation coefficient" not in (ended[0] / "hosts" / name).read_text()


@pytest.mark.parametrize(
    ("name", "file", "tool", "messages"),
    [
        ("writes", "writes.client.txt", "ib_write_bw", 20),
        ("sends", "sends.client.txt", "ib_send_bw", 10),
        ("reads", "reads.client.txt", "ib_read_bw", 8),
        ("sends-in", "sends-in.client.txt", "ib_send_bw", 16),
        ("sends-out", "sends-out.server.txt", None, 8),
    ],
)
def test_messages_of_every_kind_arrive(ended, summary, name, file, tool, messages):
    """As perftest counts them at its end: five messages a queue pair at least."""
    size, iterations, _, average, *_ = said(ended, file, MESSAGE)
    clock = fitted_clock(ended, file)
    assert (size, iterations) == (MESSAGE, messages) and (average > 0) == clock
    (own,) = [flow for flow in summary["flows"] if flow["name"] == name]
    assert own["bytes_received"] == messages * MESSAGE and own["messages_done"] == messages, own
    if tool:
        assert own["tool"]["tool"] == tool and own["tool"]["rate_bps"] == (pytest.approx(average * 1e9, rel=1e-3) if clock else None)
        # DSCP 26 in class 3, and ECT(0).
        assert "--tclass=106" in own["tool"]["command"]


def test_each_class_leaves_a_guest_by_its_own_ring(ended):
    """So that a class whose ring is not read holds back no other."""
    counters = (ended[0] / "hosts" / "counters.csv").read_text()
    grown = {
        int(ring): int(after) - int(before)
        for ring, before, after in re.findall(r"^OBEYS,\S*?tx_queue_(\d)_packets,(\d+),(\d+)$", counters, re.M)
    }
    # RDMA of class 3 by ring 3; TCP and the ping by that of class 0.
    assert grown[3] > 100 and grown[0] > 100 and grown[1] == grown[2] == 0, grown


def test_reads_are_asked_for_by_their_receiver(ended, summary):
    """Data goes as the flow says, and so the client is where it ends: its kernel counts what arrived."""
    (reads,) = [flow for flow in summary["flows"] if flow["name"] == "reads"]
    assert reads["tool"]["command"].endswith(" 10.0.0.1")


def test_latency(ended, summary):
    size, iterations, shortest, longest, typical, *_ = said(ended, "pings.client.txt", 64)
    (pings,) = [flow for flow in summary["flows"] if flow["name"] == "pings"]
    assert (size, iterations) == (64, 50)
    if fitted_clock(ended, "pings.client.txt"):
        assert 0 < shortest <= typical <= longest and pings["tool"]["times_ns"]["typical"] == pytest.approx(typical * 1e3, rel=1e-3)
    else:
        assert "typical" not in pings["tool"]["times_ns"]


def test_a_guests_kernel_sees_marks(ended, summary):
    """DCTCP's window fills the queue of a slow port to where packets are marked: the receiver counts marks, and the sender is told of them."""
    counted = {host["name"]: host["counters"] for host in summary["real_hosts"]}
    marked = counted["DEAF"].get("nstat.IpExtInCEPkts", 0)
    assert marked > 0 and 0 < counted["OBEYS"].get("nstat.TcpExtTCPDeliveredCE", 0), counted
    said = json.loads((ended[0] / "hosts" / "dctcp.client.txt").read_text())
    # What iperf3's server has when the client ends is less, by what is on its way.
    assert said["end"]["sender_tcp_congestion"] == "dctcp" and said["end"]["sum_sent"]["bytes"] >= 1_000_000
    (own,) = [flow for flow in summary["flows"] if flow["name"] == "dctcp"]
    assert own["tool"]["connection"]["cwnd_max"] > 0
    # It ends with the clients, though it would have gone on for much longer.
    assert "dctcp" in (ended[0] / "hosts" / "OBEYS.ss.txt").read_text()


def test_only_the_guest_that_pfc_does_not_hold_loses(ended, summary):
    """Both send into the slow port through a small buffer. The one behind Weir's NIC waits."""
    ports = {port["host"]: port for port in summary["ports"]}
    lossless = {host: next(of for of in port["classes"] if of["class"] == 3) for host, port in ports.items()}
    assert lossless["OBEYS"]["pauses_sent"] > 0 and lossless["DEAF"]["pauses_sent"] > 0, lossless
    dropped = {host: sum(of["drops"].values()) for host, of in lossless.items()}
    assert dropped["OBEYS"] == dropped["E"] == 0 and dropped["DEAF"] > 0, lossless
    missed = {host["name"]: host["counters"].get("rdma.rcvd_seq_err", 0) for host in summary["real_hosts"]}
    assert missed["OBEYS"] == 0 and missed["DEAF"] > 0, missed
    assert "lossless frames" in ended[1]


def test_an_emulated_sender_waits_for_a_receiver_that_is_not_ready(ended, summary):
    """What it sent is sent again, not before the time that the guest's NIC asked for, and all of it arrives."""
    need("tshark")
    size, iterations, *_ = said(ended, "short.server.txt", SHORT)
    assert (size, iterations) == (SHORT, SHORTS)
    (own,) = [flow for flow in summary["flows"] if flow["name"] == "short"]
    assert own["messages_done"] == SHORTS and own["bytes_received"] == SHORT * SHORTS, own
    (capture,) = ended[0].glob("*.pcapng")
    told = [("frame.time_epoch", float), ("infiniband.bth.psn", int), ("infiniband.aeth.syndrome", lambda text: int(text, 0) if text else None)]
    command = ["tshark", "-r", capture, "-Y", "infiniband", "-T", "fields", *(word for field, _ in told for word in ("-e", field))]
    read = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    frames = [[kind(text) for (_, kind), text in zip(told, line.split("\t"))] for line in read]
    not_ready = [(at, psn, syndrome & 0x1F) for at, psn, syndrome in frames if syndrome is not None and syndrome >> 5 == 1]
    counted = next(host["counters"] for host in summary["real_hosts"] if host["name"] == "OBEYS")
    assert own["naks"]["receiver not ready"] == counted["rdma.send_rnr_err"] >= len(not_ready) > 0, (own, counted)
    waited = 0
    for at, psn, timer in not_ready:
        sent_at = [when for when, number, syndrome in frames if syndrome is None and number == psn]
        if sent_at[-1] - at >= RNR_WAITS_S[timer]:
            waited += 1
        else:
            # What an earlier sequence error had sent again crossed this message on the link, and the receiver was ready for that.
            assert len(sent_at) > 1, (psn, at, sent_at)
    assert waited > 0, not_ready


REFUSED = {
    "reads": (flow("f", "E", "OBEYS", perftest="ib_read_bw"), "neither ask for READs nor answer them"),
    "pings": (flow("f", "OBEYS", "E", perftest="ib_send_lat"), "no program that answers a message with a message"),
    "pairs": (flow("f", "OBEYS", "E", qps=2), "one queue pair a flow: take `qps` out"),
    "end": (flow("f", "E", "OBEYS", perftest="ib_send_bw"), "write `total`"),
    "few": (flow("f", "E", "OBEYS", perftest="ib_send_bw", **sent(2)), "5 messages or more"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_emulated_hosts_do_not_speak_is_refused(tmp_path, what):
    text, why = REFUSED[what]
    run, _ = run_with_hosts(tmp_path, "refused", at_one_switch("refused", "1s") + host("OBEYS", '"vm"') + host("E") + text, patience=60)
    assert run.returncode == 2 and why in run.stderr, run.stderr
