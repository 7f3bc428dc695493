"""Ranks on guests: do their messages start when those that they wait for have arrived, go as RDMA WRITEs of the class with all their bytes,
and arrive although frames are lost; and does a queue pair that fails end the run? Soft-RoCE's counters and tshark judge."""

import collections
import csv
import json
import os
import subprocess

import pytest
from conftest import need, need_guest

from weirlab.scenario import at_one_switch, host
from weirlab.switch import weir_binary
from weirlab.waiting import until

pytestmark = pytest.mark.guest
# A guest that is emulated beside others takes its time.
PATIENCE_S = 900
BYTES, STEPS, TIMES = 100_000, 4, 2
# DSCP 26 of class 3, and ECT(0). Packets have 1024 B of payload.
TRAFFIC_CLASS, MTU = 106, 1_024
# 5 s of computation are longer than ranks and tcpdump need to start in a guest.
RING = f"""
[[workloads]]
name = "ring"
kind = "collective"
class = 3
collective = "ring-all-reduce"
bytes = "{3 * BYTES}B"
times = {TIMES}
compute = "5s"
"""
# Both other ranks send to C's slow port at once, through a lossy class whose queue holds less than Soft-RoCE's windows.
LOSSY = """
[[workloads]]
name = "lossy"
kind = "collective"
class = 0
collective = "pairwise-all-to-all"
bytes = "900KB"
"""
TRIGGERED = """
[[workloads]]
name = "triggered"
kind = "connection-matrix"
class = 4
file = "triggers.cm"
"""
# Of htsim's format. The first message is two WRITEs.
TRIGGERS = """Nodes 3
Connections 3
Triggers 2
0->1 id 1 start 300000 size 1500000 send_done_trigger 1
2->0 id 2 trigger 1 size 50000 recv_done_trigger 2
1->2 id 3 trigger 2 size 4000
trigger id 1 oneshot
trigger id 2 oneshot
"""
# To each rank: of the ring, of two others through the lossy class, and of what is triggered.
WRITES = {"A": TIMES * STEPS + 2 + 1, "B": TIMES * STEPS + 2 + 2, "C": TIMES * STEPS + 2 + 1}


def scenario(name, end, workloads):
    classes = "[switch.classes.dscp]\n40 = 4\n"
    hosts = host("A", '"vm"') + host("B", '"vm"') + host("C", '"vm"', rate="20Mbps")
    return at_one_switch(name, end, buffer="200KB", mean_frame=1_000, classes=classes) + hosts + workloads


class Run:
    """A run whose guests can be reached meanwhile."""

    def __init__(self, folder, name, text):
        (folder / f"{name}.toml").write_text(text)
        (folder / "triggers.cm").write_text(TRIGGERS)
        self._folder, self.directory = folder, folder / "runs" / name
        command = [weir_binary(), "testbed", "run", folder / f"{name}.toml", "--backend", "hosts", "-o", folder / "runs"]
        self.process = subprocess.Popen(
            command, env=os.environ | {"TMPDIR": str(folder)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Guests end with it.
        self.process.kill()
        self.process.communicate()

    def _guests(self):
        return [file.parent for file in self._folder.glob("weir-hosts-*/vm/*/guest.json")]

    def wait_for_guests(self):
        def are_ready():
            assert self.process.poll() is None, self.process.communicate()[0]
            consoles = [guest / "console" for guest in self._guests()]
            return len(consoles) == 3 and all(file.exists() and "weir: ready" in file.read_text(errors="replace") for file in consoles)

        until(are_ready, "three guests have booted", PATIENCE_S)

    def in_guest(self, name, command):
        ran = subprocess.run(
            [weir_binary(), "vm", "run", "--folder", self._guests()[0].parent, name, command], capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def end(self):
        printed, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, printed


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The run's summary, its messages, and frames that A has sent for the ring, as tshark reads them."""
    need_guest()
    need("tshark")
    # A path that sockets' names fit in.
    folder = tmp_path_factory.mktemp("g")
    frames = TIMES * STEPS * -(-BYTES // MTU)
    with Run(folder, "ranks", scenario("ranks", "60s", RING + LOSSY + TRIGGERED)) as run:
        run.wait_for_guests()
        capture = f"ip[1] = {TRAFFIC_CLASS} and src host 10.0.0.1 and udp port 4791 and greater 200"
        run.in_guest("A", f"tcpdump -Z root -i eth0 -s 100 -B 4096 -c {frames} -w /a.pcap '{capture}'")
        pcap = run.in_guest("A", "base64 /a.pcap")
        code, printed = run.end()
    assert code == 0, printed
    (folder / "a.pcap.64").write_text(pcap)
    with open(folder / "a.pcap", "wb") as file:
        subprocess.run(["base64", "-d", folder / "a.pcap.64"], stdout=file, check=True)
    with open(run.directory / "fct.csv") as table:
        messages = list(csv.DictReader(table))
    return json.loads((run.directory / "summary.json").read_text()), messages, folder / "a.pcap"


def test_jobs_complete(ended):
    summary, _, _ = ended
    assert summary["failures"] == []
    done = {traffic["name"]: (traffic["completed"], len(traffic["repetitions"])) for traffic in summary["traffic"]}
    assert done == {"ring": (TIMES * 3 * STEPS, TIMES), "lossy": (6, 1), "triggered": (3, 1)}
    repetitions = [repetition for traffic in summary["traffic"] for repetition in traffic["repetitions"]]
    assert all(repetition["completion_ns"] for repetition in repetitions)
    ring = summary["traffic"][0]["repetitions"]
    # nccl-tests' bus bandwidth of an all-reduce: 2 (n - 1) / n of the bytes.
    for repetition in ring:
        expected = 3 * BYTES * 4 / 3 / (repetition["completion_ns"] / 1e9)
        assert repetition["bus_bytes_per_second"] == pytest.approx(expected, rel=1e-3)


def test_messages_wait_for_those_that_they_depend_on(ended):
    _, messages, _ = ended
    starts = {
        sender: sorted(float(row["released_us"]) for row in messages if (row["flow"], row["from"]) == ("ring", sender)) for sender in "ABC"
    }
    # 100 KB take 8 ms at 100 Mb/s, and 40 ms to C.
    link_us = {"A": 8_000, "B": 8_000, "C": 40_000}
    for before, sender in zip("CAB", "ABC", strict=True):
        assert starts[sender][0] == 5_000_000, "after the computation, by the clock"
        for step in [1, 2, 3, 5, 6, 7]:
            assert starts[sender][step] > starts[before][step - 1] + 0.9 * link_us[sender], (sender, step, starts)
    triggered = {row["from"]: (float(row["released_us"]), float(row["fct_us"])) for row in messages if row["flow"] == "triggered"}
    assert triggered["A"][0] == 300_000 and triggered["C"][0] >= sum(triggered["A"]) and triggered["B"][0] > triggered["C"][0]


def test_soft_roce_has_received_every_write(ended):
    summary, _, _ = ended
    for real in summary["real_hosts"]:
        assert real["backend"] == "vm" and real["rdma"] == "rxe0"
        assert real["counters"]["rdma.rdma_recvs"] == WRITES[real["name"]], real


def test_lost_frames_are_sent_again(ended):
    summary, _, _ = ended
    dropped = {of["class"]: sum(of["drops"].values()) for port in summary["ports"] for of in port["classes"] if sum(of["drops"].values())}
    assert list(dropped) == [0], dropped
    counters = collections.Counter()
    for real in summary["real_hosts"]:
        counters.update(real["counters"])
    assert counters["rdma.rcvd_seq_err"] + counters["rdma.completer_retry_err"] > 0, counters
    assert counters["rdma.retry_exceeded_err"] == 0, counters


def test_frames_are_writes_of_the_class_with_all_bytes(ended):
    _, _, pcap = ended
    fields = ["infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.opcode", "infiniband.reth.dmalen", "infiniband.immdt", "udp.length"]
    command = ["tshark", "-r", pcap, "-T", "fields", *(word for field in ["ip.dsfield", *fields] for word in ("-e", field))]
    read = [line.split("\t") for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()]
    assert {int(frame[0], 0) for frame in read} == {TRAFFIC_CLASS}
    # What is sent again counts once. Each rank of a ring has one queue pair to send.
    assert len({frame[1] for frame in read}) == 1
    by_number = {int(frame[2]): frame[3:] for frame in read}
    message, sizes, immediates = 0, [], []
    # First, Middle, Last with Immediate, Only with Immediate (IBA, table 38).
    headers = {6: 16, 7: 0, 9: 4, 11: 20}
    for number in sorted(by_number):
        opcode, length, immediate, udp = by_number[number]
        if int(opcode) == 6:
            assert int(length) == BYTES
        # UDP 8 B, BTH 12 B, ICRC 4 B.
        message += int(udp) - 24 - headers[int(opcode)]
        if int(opcode) in (9, 11):
            sizes.append(message)
            immediates.append(int(immediate.split(",")[0], 16))
            message = 0
    # All messages, unless a machine with other work to do had Soft-RoCE send frames twice.
    assert len(sizes) >= 2 and sizes == [BYTES] * len(sizes), sizes
    assert immediates == list(range(len(sizes)))


def test_a_queue_pair_that_fails_ends_the_run(tmp_path_factory):
    need_guest()
    with Run(tmp_path_factory.mktemp("g"), "cut", scenario("cut", "40s", RING.replace(f"times = {TIMES}", "times = 1000"))) as run:
        run.wait_for_guests()
        # Once messages arrive, the next go to nobody.
        lost = "ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent"
        run.in_guest("A", f"until rdma statistic | grep -q 'rdma_recvs [1-9]'; do sleep 0.2; done; {lost}")
        code, printed = run.end()
    assert code == 1, printed
    assert "the rank on host A has failed: its queue pair to the rank on host B has ended with IBV_WC_RETRY_EXC_ERR" in printed, printed


MIXED = {
    "mixed": ('"netns"', "", 'workload ring: rank A is on a real host, and rank C on none with backend = "vm": write it for all ranks'),
    "dcqcn": ('"vm"', 'congestion_control = "dcqcn"\n', "workload ring: ranks in guests send by Soft-RoCE, which has no congestion control"),
    "ssh": ('{ by = "ssh", to = "root@h", interface = "e" }\nport_device = { pci = "0000:81:00.0" }', "", 'rank C on none with backend = "vm"'),
}


@pytest.mark.parametrize("what", MIXED)
def test_what_ranks_on_guests_cannot_do_is_refused(tmp_path, what):
    backend, more, why = MIXED[what]
    file = tmp_path / "refused.toml"
    file.write_text(at_one_switch("refused", "20s") + host("A", '"vm"') + host("B", '"vm"') + host("C", backend) + RING + more)
    for command in (["check", "--hosts"], ["run", "--backend", "hosts", "-o", tmp_path / "runs"]):
        ran = subprocess.run([weir_binary(), "testbed", *command, file], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 2 and why in ran.stderr, ran.stdout + ran.stderr
