"""`weir capture` beside a switch that runs: does a capture have what scapy sent and what the switch made of it, do tshark and capinfos
read it, does a dropped frame carry its reason, and does a reader that is too slow cost the switch no frame?"""

import collections
import json
import os
import signal
import subprocess
import time

import pytest
from pfc import Stream, is_control, pfc
from scapy.utils import PcapNgReader

from weirlab.switch import Switch, cable_ports, weir_binary

# Much, for machines that do much else.
PATIENCE_S = 60
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
CLASS, DSCP = 3, 26
LENGTH, FCS = 1_000, 4
# B's port is slow, so that frames wait there: those of class 3 have A's port paused, and those of class 0 find their queue full.
CABLED = (
    """
[switch]
name = "lab"
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "{buffer}"
headroom = "200KB"
lossy_alpha = "1/8"
policy = "static"
[buffer.static]
threshold = "20KB"
[classes]
lossless = [3]
[classes.dscp]
0 = 0
26 = 3
"""
    + cable_ports(a="1Gbps", b="{rate}")
    + f"""
[[static_macs]]
mac = "{B}"
port = "b"
"""
)


class Capturing:
    """`weir capture` as a child process, once the switch says that it has begun."""

    def __init__(self, switch, place, *arguments, stdout=None):
        before = switch.times_said(" begins")
        command = [weir_binary(), "capture", "--socket", str(place / "c.sock"), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, start_new_session=True)
        until(lambda: switch.times_said(" begins"), lambda times: times > before)

    def end(self, how=signal.SIGINT):
        """Ends it, if it has not ended; what it said."""
        if how is not None and self.process.poll() is None:
            self.process.send_signal(how)
        _, said = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, said
        return said.decode()


def until(ask, is_enough):
    """Asks again until the answer will do."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_enough(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    return answer


def weir(*arguments):
    return subprocess.run([weir_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S)


def told(place, *what):
    done = weir("show", *what, "--json", "--socket", place / "c.sock")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sent_by(place, port):
    (switch,) = told(place, "queue", "counters", "-p", port)["switches"]
    return sum(switch["queues"][0]["frames"])


def dropped(place):
    (switch,) = told(place, "losses")["switches"]
    return collections.Counter({loss["reason"]: loss["frames"] for loss in switch["losses"] if loss["frames"]})


Frame = collections.namedtuple("Frame", "at port way bytes length said")


def read(file):
    """Frames as scapy reads them, with comments as a dictionary."""
    frames = []
    with PcapNgReader(str(file)) as reader:
        for packet in reader:
            (comment,) = [packet.comment] if packet.comment else [b""]
            said = dict(part.split("=") for part in comment.decode().split())
            way = {1: "in", 2: "out"}.get(packet.direction, packet.direction)
            data = bytes(packet.original)
            frames.append(Frame(packet.time, packet.sniffed_on, way, data, packet.wirelen, said))
    return frames


def tshark(file, *arguments):
    done = subprocess.run(["tshark", "-n", "-r", str(file), *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def started(cables, place, name, buffer="800KB", rate="20Mbps"):
    (place / "lab.toml").write_text(CABLED.format(buffer=buffer, rate=rate))
    here, wires = cables(name, ["a", "b"])
    return Switch(place / "lab.toml", namespace=here, arguments=("--quiet", "--control", str(place / "c.sock"))), wires


@pytest.mark.root
def test_what_passes_and_what_is_dropped_and_why(cables, place):
    switch, wires = started(cables, place, "capture")
    lossless, lossy = Stream(A, B, DSCP, length=LENGTH), Stream(A, B, 0, length=LENGTH)
    frames = [stream.next() for _ in range(120) for stream in (lossless, lossy)]
    with switch:
        everything = Capturing(switch, place, "-o", place / "all.pcapng")
        drops = Capturing(switch, place, "--drops", "-p", "a", "-o", place / "drops.pcapng")
        control = Capturing(switch, place, "--control-only", "--class", CLASS, "--direction", "out", "-o", place / "pfc.pcapng")
        of_class = Capturing(switch, place, "--class", CLASS, "--snaplen", 60, "-p", "b", "-o", place / "class.pcapng")
        busy = weir("capture", "-o", place / "fifth.pcapng", "--socket", place / "c.sock")
        assert busy.returncode == 2 and "has 4 captures already" in busy.stderr
        assert not (place / "fifth.pcapng").exists()
        began = time.time()
        for frame in frames:
            wires["a"].send(frame)
        wires["b"].send(pfc({CLASS: 0, 5: 10}))
        lost = until(lambda: dropped(place), lambda lost: sent_by(place, "b") + lost.total() == len(frames))
        ended = time.time()
        assert lost["egress_threshold"] > 0 and set(lost) == {"egress_threshold"}
        said = everything.end()
        assert "frames of a, b" in said and "missing" not in said
        drops.end(), control.end(), of_class.end(signal.SIGTERM)
        done = switch.stop()
    done.check_sound()

    captured = read(place / "all.pcapng")
    came = [frame for frame in captured if (frame.port, frame.way) == ("a", "in")]
    assert [frame.bytes for frame in came] == frames
    left = [frame for frame in captured if (frame.port, frame.way) == ("b", "out")]
    assert [frame.bytes for frame in left if frame.said.get("class") == "3"] == frames[::2]
    assert collections.Counter(frame.bytes for frame in left) <= collections.Counter(frames)
    assert len(left) == done.switch["frame_conservation"]["sent"] == len(frames) - lost.total()
    assert all(began - 1 <= frame.at <= ended + 1 and frame.length == len(frame.bytes) for frame in captured)
    # PFC as the switch counts it, both ways.
    made = [frame for frame in captured if frame.way == "out" and is_control(frame.bytes)]
    assert len(made) == done.port("a")["pfc_tx"] > 0 and {frame.port for frame in made} == {"a"}
    heard = [frame for frame in captured if frame.way == "in" and is_control(frame.bytes)]
    assert [(frame.port, frame.bytes) for frame in heard] == [("b", pfc({CLASS: 0, 5: 10}))]
    # Queues at that instant: the first frame that leaves is alone, and the queue has never been longer than the summary says.
    first = [frame.said for frame in left if frame.said["class"] == "3"][0]
    assert (first["ingress"], first["egress"]) == ("a:3", "b:3") and int(first["queue"]) >= LENGTH + FCS
    longest = max(int(frame.said["held"]) for frame in captured if frame.said.get("ingress") == "a:3")
    most = done.traffic_class("a", CLASS)
    assert 10 * LENGTH < longest <= most["shared_max_bytes"] + most["headroom_max_bytes"]
    assert all(int(used) <= int(of) for used, of in (frame.said["pool"].split("/") for frame in captured))
    # A queue that is OFF has had its sender paused.
    assert any(frame.said.get("off") == "1" for frame in captured)

    gone = read(place / "drops.pcapng")
    assert len(gone) == lost.total() and {frame.said["drop"] for frame in gone} == {"egress_threshold"}
    assert all((frame.port, frame.way, frame.said["class"], frame.said["egress"]) == ("a", "in", "0", "b:0") for frame in gone)
    left_or_gone = [frame.bytes for frame in left + gone]
    assert sorted(left_or_gone) == sorted(frames)

    assert [frame.bytes for frame in read(place / "pfc.pcapng")] == [frame.bytes for frame in made]
    of_class = read(place / "class.pcapng")
    assert [(frame.bytes, frame.length) for frame in of_class if not is_control(frame.bytes)] == [
        (frame[:60], LENGTH) for frame in frames[::2]
    ]
    assert [is_control(frame.bytes) for frame in of_class].count(True) == 1

    # Wireshark's own programs.
    file = place / "all.pcapng"
    infos = subprocess.run(["capinfos", "-M", str(file)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert infos.returncode == 0, infos.stderr
    assert f"Number of packets:   {len(captured)}" in infos.stdout and "nanoseconds (9)" in infos.stdout
    assert "Number of interfaces in file: 2" in infos.stdout and "Name = a" in infos.stdout
    assert "Strict time order:   True" in infos.stdout, infos.stdout
    assert len(tshark(file, "-Y", "macc.opcode == 0x0101")) == len(made) + len(heard)
    names = tshark(file, "-Y", 'frame.comment contains "egress=b:3"', "-T", "fields", "-e", "frame.interface_name")
    assert set(names) == {"a", "b"}
    reasons = tshark(place / "drops.pcapng", "-T", "fields", "-e", "frame.comment")
    assert len(reasons) == lost.total() and all(reason.startswith("drop=egress_threshold class=0 ") for reason in reasons)


@pytest.mark.root
def test_files_in_a_ring_a_pipe_and_an_end_of_its_own(cables, place):
    switch, wires = started(cables, place, "ring")
    stream = Stream(A, B, DSCP, length=LENGTH)
    with switch:
        ring = Capturing(switch, place, "-p", "a", "--file-size", "10KB", "--files", 3, "--count", 40, "-o", place / "r.pcapng")
        piped = Capturing(switch, place, "-p", "a", "--direction", "in", "--count", 5, "-o", "-", stdout=subprocess.PIPE)
        reader = subprocess.Popen(
            ["tshark", "-n", "-r", "-", "-T", "fields", "-e", "ip.dsfield.dscp"],
            stdin=piped.process.stdout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        piped.process.stdout.close()
        timed = Capturing(switch, place, "--duration", "300ms", "-o", place / "timed.pcapng")
        for _ in range(60):
            wires["a"].send(stream.next())
        # All three end by themselves.
        assert "lab: 40 frames of a" in ring.end(None)
        assert reader.communicate(timeout=PATIENCE_S)[0].split() == [str(DSCP)] * 5
        piped.process.wait(PATIENCE_S)
        assert "in " + str(place / "timed.pcapng") in timed.end(None)
        files = sorted(place.glob("r_*.pcapng"))
        counts = [len(read(file)) for file in files]
        # Nine frames of 1,000 B and what is said of them find room in a file.
        assert len(files) == 3 and 0 < sum(counts) < 40 and max(counts) <= 9, (files, counts)
        assert [file.name.split("_")[1] for file in files] == [f"{n:05}" for n in range(int(files[0].name.split("_")[1]), 6)][:3]
        # A switch that ends ends captures well.
        last = Capturing(switch, place, "-p", "b", "-o", place / "last.pcapng")
        wires["b"].send(Stream(B, A, 0).next())
        file = place / "last.pcapng"
        until(lambda: file.stat().st_size if file.exists() else 0, lambda size: size > 300)
        switch.stop().check_sound()
        assert "frames of b" in last.end(None)
    assert any(frame.way == "in" for frame in read(place / "last.pcapng"))


@pytest.mark.root
def test_a_reader_that_is_too_slow_costs_the_switch_no_frame(cables, place):
    switch, wires = started(cables, place, "slow", buffer="32MB", rate="1Gbps")
    frames = 14_000
    stream, answer = Stream(A, B, DSCP, length=1_400), Stream(B, A, 0)
    with switch:
        wires["a"].send(stream.next())
        until(lambda: sent_by(place, "b"), lambda sent: sent == 1)
        # A pipe that nobody reads.
        end, write = os.pipe()
        slow = Capturing(switch, place, "-p", "a", "--direction", "out", "-o", "-", stdout=write)
        os.close(write)
        burst = [answer.next().ljust(1_400, b"\0") for _ in range(frames)]
        for n, frame in enumerate(burst):
            wires["b"].send(frame)
            if n % 50 == 49:
                time.sleep(0.001)
            # What a switch that is kept from its CPU has not read waits in the kernel, which has room for some 4,000 of them.
            if n % 2_000 == 1_999:
                until(lambda: sent_by(place, "a"), lambda sent: sent > n - 1_000)
        until(lambda: sent_by(place, "a"), lambda sent: sent == frames)
        # It goes on where it was, when somebody reads.
        slow.process.send_signal(signal.SIGINT)
        with os.fdopen(end, "rb") as pipe:
            (place / "slow.pcapng").write_bytes(pipe.read())
        said = slow.end(None)
        done = switch.stop()
    done.check_sound()
    assert done.switch["drops"] == {}
    captured = read(place / "slow.pcapng")
    missed = int(said.split("; ")[1].split(" ")[0]) if "missing" in said else 0
    assert len(captured) + missed == frames and missed > 0, said
    assert f"{missed} missed by the capture" in done.stderr


@pytest.mark.root
def test_wrong_input_is_told(cables, place):
    socket = ("--socket", place / "c.sock")
    out = ("-o", place / "x.pcapng")
    none = weir("capture", *out, *socket)
    assert none.returncode == 2 and "no switch runs with it" in none.stderr
    switch, _ = started(cables, place, "wrong")
    with switch:
        for arguments, said in [
            (("-p", "c", *out), "no port is named `c`; the ports are: a, b"),
            (("--class", 8, *out), "8 is not in 0..8"),
            (("--snaplen", 3, *out), "a snapshot length is 14 to 16384 bytes"),
            (("--switch", "other", *out), "no switch of this process is named `other`"),
            (("-o", place / "no" / "x.pcapng"), "name a file in a directory that exists"),
            (("--file-size", "1MB", "-o", "-"), "--file-size makes files"),
            (("--files", 2, *out), "--file-size"),
            ((), "--output"),
        ]:
            done = weir("capture", *arguments, *socket)
            assert done.returncode == 2 and said in done.stderr, (arguments, done.stderr)
        assert not (place / "x.pcapng").exists()
        switch.stop().check_sound()
