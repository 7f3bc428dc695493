"""Captures replayed into a switch: do the frames arrive as they were, at their own times, and does a pause hold them?

The far side is judged by scapy and tshark. Gaps are compared with what the machine allowed: the longest time that a core was kept from
polling, and how long the replay's clock stood still.
"""

import csv
import json
import shutil
import signal
import socket
import subprocess
import time

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter, RawPcapReader

from weirlab.netns import Namespace, veth
from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until

HOST, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
FRAMES = 400
GAP_NS = 250_000


def frame(number, dscp=26, length=None):
    """A lossless UDP frame with its number; lengths differ, up to that of the port's MTU."""
    length = length or 60 + number * 37 % 1_440
    head = Ether(src=HOST, dst=OTHER) / IP(src="10.0.0.1", dst="10.0.0.2", tos=dscp << 2) / UDP(sport=7, dport=9)
    return bytes(head / Raw(number.to_bytes(4, "big") + b"r" * (length - len(head) - 4)))


def write(path, frames, nano=True):
    """Frames with the nanoseconds at which they are to leave."""
    with PcapWriter(str(path), nano=nano, linktype=1) as writer:
        writer.write_header(None)
        for at_ns, data in frames:
            second, rest = divmod(1_700_000_000 * 10**9 + at_ns, 10**9)
            writer.write_packet(data, sec=second, usec=rest if nano else rest // 1_000)


def read(path):
    """(nanosecond, bytes) of each frame, as a reader that we did not write has them."""
    reader = RawPcapReader(str(path))
    scale = 1 if reader.nano else 1_000
    return [(meta.sec * 10**9 + meta.usec * scale, data) for data, meta in reader]


def switch_file(directory, replay, rate="1Gbps", out_rate="1Gbps", size="2MB"):
    path = directory / "switch.toml"
    path.write_text(
        f"""
        [buffer]
        size = "{size}"
        mean_frame = "exact"
        [classes]
        preset = "roce"
        [pfc]
        reaction = "2ms"
        [[ports]]
        name = "in"
        replay = {replay}
        rate = "{rate}"
        [[ports]]
        name = "out"
        pcap = {{ tx = "{directory}/out.pcap" }}
        rate = "{out_rate}"
        [[static_macs]]
        mac = "{OTHER}"
        port = "out"
        """
    )
    return path


def run(directory, **options):
    """Until the trace has been replayed; what the switch then holds leaves before it ends."""
    with Switch(switch_file(directory, **options)) as switch:
        return replayed(switch)


def replayed(switch):
    until(lambda: switch.has_said("all traces have been replayed"), "not replayed")
    return switch.stop()


@pytest.mark.parametrize(("speed", "factor"), [("1", 1), ("2.5", 2.5)])
def test_frames_leave_at_their_own_times(tmp_path, speed, factor):
    sent = [(number * GAP_NS + number % 7 * 10_000, frame(number)) for number in range(FRAMES)]
    write(tmp_path / "in.pcap", sent)
    finished = run(tmp_path, replay=f'{{ file = "{tmp_path}/in.pcap", speed = {speed} }}')
    finished.check_sound()
    replay = finished.summary["replay"]
    (trace,) = replay["traces"]
    assert replay["is_done"] and trace["sent"] == trace["frames"] == FRAMES, trace
    came = read(tmp_path / "out.pcap")
    assert [data for _, data in came] == [data for _, data in sent]
    allowed = finished.poll_gaps_s() * 1e9 + trace["late_ns"]["max_ns"] + replay["clock_stood_still_us"] * 1_000 + 100_000
    for (at, _), (was, _) in zip(came, sent):
        wrong = (at - came[0][0]) - (was - sent[0][0]) / factor
        assert abs(wrong) <= allowed, (wrong, allowed)
    assert trace["late_ns"]["count"] == trace["late_machine_ns"]["count"] == FRAMES
    assert trace["late_paused_ns"]["count"] == 0


def test_loops_go_on_without_a_seam_and_a_rate_is_kept(tmp_path):
    write(tmp_path / "in.pcap", [(number, frame(number, length=1_000)) for number in range(50)], nano=False)
    finished = run(tmp_path, replay=f'{{ file = "{tmp_path}/in.pcap", send_rate = "100Mbps", loops = 4 }}')
    finished.check_sound()
    came = read(tmp_path / "out.pcap")
    assert [data for _, data in came] == [frame(number, length=1_000) for number in range(50)] * 4
    trace = finished.summary["replay"]["traces"][0]
    # 1,024 B on the wire take 81.92 us.
    lasts = came[-1][0] - came[0][0]
    stood = finished.summary["replay"]["clock_stood_still_us"] * 1_000
    allowed = finished.poll_gaps_s() * 1e9 + trace["late_ns"]["max_ns"] + stood + 100_000
    assert abs(lasts - 199 * 81_920) <= allowed, (lasts, allowed)


@pytest.mark.parametrize("when_paused", ["wait", "drop", "ignore"])
def test_a_pause_holds_the_trace_or_makes_it_drop(tmp_path, when_paused):
    # 600 frames of 1,000 B at 1 Gb/s into 20 Mb/s: far more than the class may take before a PAUSE. What heeds none takes all of the
    # buffer five times over, also where the machine stands still for a second meanwhile.
    frames = 3_000 if when_paused == "ignore" else 600
    write(tmp_path / "in.pcap", [(number * 10_000, frame(number, length=1_000)) for number in range(frames)])
    replay = f'{{ file = "{tmp_path}/in.pcap", when_paused = "{when_paused}" }}'
    finished = run(tmp_path, replay=replay, out_rate="20Mbps", size="600KB")
    trace = finished.summary["replay"]["traces"][0]
    came = [data for _, data in read(tmp_path / "out.pcap")]
    assert trace["pauses_received"] > 0
    assert trace["sent"] + trace["dropped_paused"] + trace["not_taken"] + trace["left"] == frames, trace
    if when_paused == "ignore":
        assert finished.code == 1 and finished.switch["drops"]["headroom_violation"] > 0
        return
    finished.check_sound()
    assert not finished.switch["drops"]
    assert len(came) == trace["sent"]
    if when_paused == "wait":
        assert came == [frame(number, length=1_000) for number in range(frames)]
        assert trace["late_paused_ns"]["count"] > 0 and trace["dropped_paused"] == 0
    else:
        assert trace["dropped_paused"] == trace["dropped_paused_by_class"][3] > 0


def test_frames_that_cannot_be_sent_are_named(tmp_path):
    write(tmp_path / "in.pcap", [(0, frame(0)), (1_000, frame(1, length=3_000)), (2_000, frame(2))])
    file = switch_file(tmp_path, f'"{tmp_path}/in.pcap"')
    with Switch(file) as switch:
        assert switch.has_said("longer than can be sent: 1 (number 2 of 3000 B)")
        finished = replayed(switch)
    assert finished.summary["replay"]["traces"][0]["sent"] == 2
    file.write_text(file.read_text().replace("in.pcap", "none.pcap"))
    done = subprocess.run([weir_binary(), "check", str(file)], capture_output=True, text=True)
    # Broken into lines wherever the folder's name ends.
    told = " ".join(done.stderr.replace("|", " ").split())
    assert done.returncode == 3 and "none.pcap: can't be read" in told and "switch.toml:" in told


def captures(path):
    """Waits until a capture has begun: its file's header is written when the interface is listened on."""
    until(lambda: path.exists() and path.stat().st_size > 0, f"{path} has no header")


def roce(number):
    """A RoCEv2 packet with its ICRC, by scapy."""
    ip = IP(src="10.0.0.1", dst="10.0.0.2", tos=26 << 2)
    return bytes(Ether(src=HOST, dst=OTHER) / ip / UDP(sport=49_152, dport=4_791) / BTH(opcode=4, dqpn=17, psn=number) / Raw(b"R" * 64))


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_traces_go_into_ports_of_a_running_switch_with_other_addresses(tmp_path, namespace):
    """Two traces on two ports in one clock; tshark says whether checksums hold, scapy whether the ICRC does."""
    lab = namespace("lab")
    lab.be_silent()
    for n in range(3):
        veth((lab, f"p{n}"), (lab, f"h{n}"))
    config = tmp_path / "lab.toml"
    ports = "".join(f'[[ports]]\nname = "p{n}"\naf_packet = "p{n}"\nrate = "100Mbps"\n' for n in range(3))
    mac = '[[static_macs]]\nmac = "02:00:00:00:00:09"\nport = "p2"\n'
    config.write_text(f'[buffer]\nsize = "4MB"\n[pfc]\nreaction = "5ms"\n{ports}{mac}')
    to = Ether(src=HOST, dst=OTHER)
    ip = {"src": "10.0.0.1", "dst": "10.0.0.2"}
    others = [
        bytes(to / IP(**ip) / TCP(sport=1, dport=2) / Raw(b"tcp")),
        bytes(to / IP(**ip) / UDP(sport=1, dport=2) / Raw(b"udp")),
        bytes(to / Dot1Q(vlan=7) / IP(**ip) / UDP(sport=1, dport=2) / Raw(b"tagged")),
        bytes(to / IPv6(src="fd00::1", dst="fd00::2") / TCP() / Raw(b"v6")),
    ]
    write(tmp_path / "a.pcap", [(number * 2_000_000, roce(number)) for number in range(50)])
    write(tmp_path / "b.pcap", [(1_000_000 + number * 2_000_000, others[number % 4]) for number in range(50)])
    control = tmp_path / "lab.control"
    capture = tmp_path / "far.pcapng"
    with Switch(config, namespace=lab, arguments=["--control", str(control)]) as switch:
        # The far side is captured by somebody else.
        command = lab.command("tshark", "-i", "h2", "-w", str(capture), "-c", "100", "-a", "duration:60")
        tshark = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            captures(capture)
            command = [
                weir_binary(), "replay", str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap"), "--socket", str(control),
                "--port", "p0", "--port", "p1", "--map", "10.0.0.0/24=10.9.7.0/24", "--map", "fd00::/64=fd09::/64",
                "--map", f"{OTHER}=02:00:00:00:00:09", "--json", str(tmp_path / "replay.json"),
            ]  # fmt: skip
            done = lab.run(*command)
            assert done.returncode == 0, done.stderr
            tshark.wait(60)
        finally:
            tshark.kill()
            tshark.wait()
        finished = switch.stop()
    finished.check_sound()
    told = json.loads((tmp_path / "replay.json").read_text())
    assert [trace["sent"] for trace in told["traces"]] == [50, 50], told
    fields = ["frame.time_epoch", "ip.src", "ipv6.src", "ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "infiniband.bth.psn"]
    options = ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
    arguments = [argument for field in fields for argument in ("-e", field)]
    text = subprocess.run(["tshark", "-r", str(capture), *options, "-T", "fields", *arguments], capture_output=True, text=True).stdout
    rows = [line.split("\t") for line in text.splitlines()]
    assert len(rows) == 100
    assert {row[1] for row in rows} == {"10.9.7.1", ""} and {row[2] for row in rows} == {"fd09::1", ""}
    # 1: good; 2: there is none to check.
    assert {status for row in rows for status in row[3:6]} <= {"1", "2", ""}, rows
    # The traces take turns, a millisecond from each other, as far as the machine let them.
    psns = [int(row[6]) for row in rows if row[6]]
    assert psns == list(range(50))
    allowed = (told["traces"][0]["late_ns"]["max_ns"] + told["clock_stood_still_us"] * 1_000) / 1e9 + finished.poll_gaps_s() + 2e-3
    times = [float(row[0]) for row in rows if row[6]]
    for number, at in enumerate(times):
        assert abs(at - times[0] - number * 2e-3) <= allowed, (number, at - times[0], allowed)
    for data, _ in RawPcapReader(str(to_pcap(capture))):
        packet = Ether(data)
        if BTH in packet:
            carried, packet[BTH].icrc = packet[BTH].icrc, None
            assert Ether(bytes(packet))[BTH].icrc == carried, "the ICRC covers the addresses"


def to_pcap(capture):
    out = capture.with_suffix(".pcap")
    subprocess.run(["editcap", "-F", "pcap", str(capture), str(out)], check=True, capture_output=True)
    return out


def test_wrong_arguments_are_told(tmp_path):
    write(tmp_path / "a.pcap", [(0, frame(0))])

    def said(*arguments):
        done = subprocess.run([weir_binary(), "replay", *arguments], capture_output=True, text=True)
        assert done.returncode == 2, (arguments, done.stderr)
        return done.stderr

    trace = str(tmp_path / "a.pcap")
    assert "the traces have no destination" in said(trace)
    assert "2 traces and 1 times --device" in said(trace, trace, "--device", "af_packet=lo")
    assert "no network interface nosuch0" in said(trace, "--device", "af_packet=nosuch0")
    assert "write 1, 2.5 or another factor" in said(trace, "--device", "af_packet=lo", "--speed", "fast")
    assert "--map 10.0.0.1" in said(trace, "--device", "af_packet=lo", "--map", "10.0.0.1")
    assert "can't be read" in said(str(tmp_path / "none.pcap"), "--device", "af_packet=lo")
    (tmp_path / "text.pcap").write_text("no capture, but long enough to be one")
    assert "no capture file" in said(str(tmp_path / "text.pcap"), "--device", "af_packet=lo")


def completed(directory):
    """(from, to), bytes of each message that a run has completed, in the order in which they were handed to NICs."""
    with open(directory / "fct.csv") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: float(row["released_us"]))
    return [((row["from"], row["to"]), int(row["bytes"])) for row in rows]


def in_order(messages):
    """Whether messages of each pair of hosts start one after the other."""
    pairs = {ends for ends, _ in messages}
    starts = ([start for ends, start in messages if ends == pair] for pair in pairs)
    return all(list(of_pair) == sorted(of_pair) for of_pair in starts)


SCENARIO = """
[scenario]
end = "10ms"
[topology]
kind = "single"
hosts = 3
rate = "10Gbps"
delay = "2us"
[switch.buffer]
size = "4MB"
[switch.classes]
preset = "roce"
[[workloads]]
kind = "list"
class = 3
file = "list.csv"
[capture]
host = "H0"
data_frames = 100000
"""


def test_a_recorded_run_plays_on_another_backend(tmp_path):
    """Real frames of emulated hosts, captured, recorded, and played in virtual time: the same messages, bytes and order."""
    (tmp_path / "run.toml").write_text(SCENARIO)
    # From and to H0, whose port is captured: 1 B to 59 KB.
    wanted = [(100 + number * 150, ("H0", "H1") if number % 3 else ("H2", "H0"), 1 + number * 999) for number in range(60)]
    wanted_place = {size: place for place, (_, _, size) in enumerate(wanted)}
    lines = [f"{at},{ends[0]},{ends[1]},{size}" for at, ends, size in wanted]
    (tmp_path / "list.csv").write_text("\n".join(["start_us,from,to,bytes", *lines]) + "\n")

    def weir(*arguments):
        return subprocess.run([weir_binary(), *arguments], capture_output=True, text=True, cwd=tmp_path)

    done = weir("testbed", "run", "run.toml", "--backend", "dpdk", "-o", "real")
    assert done.returncode == 0, done.stderr
    done = weir("record", "real/run", "-o", "again.toml")
    assert done.returncode == 0, done.stderr
    recorded = [line.split(",") for line in (tmp_path / "again-rdma-3.csv").read_text().splitlines()[1:]]
    # Two hosts' messages are in order as far as neither was late; those of each always are.
    recorded.sort(key=lambda row: wanted_place[int(row[3])])
    assert [((row[1], row[2]), int(row[3])) for row in recorded] == [(ends, size) for _, ends, size in wanted]
    assert in_order([((row[1], row[2]), float(row[0])) for row in recorded])
    # A message's first frame is at the captured port between the message's release and its completion, as the run's own record has them.
    with open(tmp_path / "real/run/fct.csv") as file:
        took_us = {int(row["bytes"]): float(row["fct_us"]) for row in csv.DictReader(file)}
    for row, (at, _, size) in zip(recorded, wanted):
        assert 0 <= float(row[0]) - at <= took_us[size], (row, at, took_us[size])
    done = weir("testbed", "run", "again.toml", "--backend", "sim", "-o", "played")
    assert done.returncode == 0, done.stderr
    played = completed(tmp_path / "played/again")
    assert sorted(played, key=lambda message: wanted_place[message[1]]) == [(ends, size) for _, ends, size in wanted]
    assert [size for ends, size in played if ends[0] == "H0"] == [size for _, ends, size in wanted if ends[0] == "H0"]
    assert weir("record", "real/run", "-o", "again.toml").returncode == 2, "files are not written over"
    whole = next((tmp_path / "real/run").glob("*.pcapng")).read_bytes()
    (tmp_path / "cut.pcapng").write_bytes(whole[:-6])
    done = weir("record", "cut.pcapng", "-o", "cut.toml")
    assert done.returncode == 1 and "the file ends in the middle of a frame" in done.stderr, done.stderr
    assert not (tmp_path / "cut.toml").exists()
    done = weir("record", "cut.pcapng", "-o", "cut.toml", "--allow-damaged")
    assert done.returncode == 0 and "the file ends in the middle of a frame" in done.stdout, done.stderr


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_data_of_linux_tcp_is_recorded_to_the_byte(tmp_path, namespace):
    """A connection of Linux, captured by tshark: two stretches of data with a pause between."""
    left, right = namespace("left"), namespace("right")
    veth((left, "eth0"), (right, "eth0"))
    left.ip("address", "add", "10.0.0.1/24", "dev", "eth0")
    right.ip("address", "add", "10.0.0.2/24", "dev", "eth0")
    capture = tmp_path / "tcp.pcapng"
    command = left.command("tshark", "-i", "eth0", "-f", "tcp", "-w", str(capture))
    tshark = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        captures(capture)
        with right.entered():
            server = socket.create_server(("10.0.0.2", 4_000))
        with left.entered():
            client = socket.create_connection(("10.0.0.2", 4_000), timeout=30)
        with server, client:
            peer, _ = server.accept()
            with peer:
                for size in (100_000, 12_345):
                    client.sendall(b"x" * size)
                    left_over = size
                    while left_over:
                        left_over -= len(peer.recv(left_over))
                    time.sleep(1.5)
    finally:
        # What it has captured is written out.
        tshark.send_signal(signal.SIGINT)
        tshark.wait(30)
    command = [weir_binary(), "record", "tcp.pcapng", "-o", "again.toml", "--idle", "700ms"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in (tmp_path / "again-tcp-0.csv").read_text().splitlines()[1:]]
    assert [(row[1:3], int(row[3])) for row in rows] == [(["H1", "H2"], 100_000), (["H1", "H2"], 12_345)]
    assert "2 messages of 112,345 B between 2 hosts" in done.stdout
    done = subprocess.run([*command, "--force", "--json"], capture_output=True, text=True, cwd=tmp_path)
    told = json.loads(done.stdout)
    assert (told["messages"], told["bytes"], told["hosts"], told["missing"]) == (2, 112_345, 2, 0), told
    assert told["written"] == ["again.toml", "again-tcp-0.csv"] and [of["file"] for of in told["captures"]] == ["tcp.pcapng"]
