"""What a switch under load is troubled by: each takes a bench and goes on until the cell's end."""

import ctypes
import datetime
import os
import signal
import struct
import subprocess
import time

from weirlab.waiting import until


MADV_PAGEOUT = 21
SYS_PIDFD_OPEN, SYS_PROCESS_MADVISE = 434, 440
NANOS = 1_000_000_000
# Steps of the wall clock that no delay of a busy machine looks like: an hour, and a day and a half.
CHECKED_STEPS_S = (3_600.0, 130_000.0)


def none(bench, draw, end_at):
    """Load alone."""
    _rest(end_at - time.monotonic(), end_at)


def flaps(bench, draw, end_at):
    """The link of an end goes and comes."""
    while time.monotonic() < end_at:
        end = draw.choice(sorted(name for name in bench.interfaces if name != "guest"))
        bench.flap(end, draw.uniform(0.05, 2.0))
        _rest(draw.uniform(0.5, 4.0), end_at)


def flood(bench, draw, end_at):
    """Frames to everybody at twice the link's rate, far above what storm control lets pass."""
    while time.monotonic() < end_at:
        end = bench.ends[draw.choice(sorted(bench.ends))]
        end.flood = 2.0
        _rest(draw.uniform(0.5, 3.0), end_at)
        end.flood = 0.0
        _rest(draw.uniform(1.0, 3.0), end_at)


def pfc_storm(bench, draw, end_at):
    """An end pauses its lossless class without end, and the watchdog finds it out."""
    while time.monotonic() < end_at:
        end = bench.ends[draw.choice(sorted(bench.ends))]
        end.storm = True
        _rest(draw.uniform(1.0, 5.0), end_at)
        end.storm = False
        _rest(draw.uniform(2.0, 5.0), end_at)


def stops(bench, draw, end_at):
    """The process gets SIGSTOP, and SIGCONT up to four seconds later."""
    while time.monotonic() < end_at:
        bench.switch.suspend()
        try:
            _rest(draw.choice([0.02, 0.2, 1.0, 4.0]), end_at)
        finally:
            bench.switch.process.send_signal(signal.SIGCONT)
        _rest(draw.uniform(1.0, 5.0), end_at)


def memory(bench, draw, end_at):
    """The kernel takes back what it can of the process's memory, as under pressure: its code comes from the disk again, page by page."""
    while time.monotonic() < end_at:
        until_at = min(time.monotonic() + draw.uniform(1.0, 4.0), end_at)
        while time.monotonic() < until_at:
            page_out(bench.switch.process.pid)
            time.sleep(0.05)
        _rest(draw.uniform(0.5, 2.0), end_at)


def disk(bench, draw, end_at):
    """The file system of the record is full for a while; SIGHUP has the record go on."""
    while time.monotonic() < end_at:
        ballast = bench.output / "ballast"
        fill(ballast)
        _rest(draw.uniform(3.0, 8.0), end_at)
        ballast.unlink()
        bench.switch.process.send_signal(signal.SIGHUP)
        _rest(draw.uniform(3.0, 6.0), end_at)


def clock(bench, draw, end_at):
    """The wall clock that the process sees steps to and fro, by up to a day and a half; its log has each step."""
    while time.monotonic() < end_at:
        seconds = draw.choice([-1, 1]) * draw.choice([0.5, 2.0, 60.0, *CHECKED_STEPS_S])
        bench.clock.write(seconds)
        # The line that it logs of this has the time.
        lines = len(bench.log)
        bench.switch.process.send_signal(signal.SIGHUP)
        until(lambda: any("opened anew" in line for line in bench.log[lines:]), "the record is opened anew")
        (line, *_) = [line for line in bench.log[lines:] if "opened anew" in line]
        seen_s = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp() - time.time()
        assert abs(seconds) not in CHECKED_STEPS_S or abs(seen_s - seconds) < min(CHECKED_STEPS_S) / 2, (seen_s, seconds)
        _rest(draw.uniform(0.5, 3.0), end_at)
    bench.clock.write(0)


def kill(bench, draw, end_at):
    """The process ends by SIGKILL amid traffic and is started again at once, three times. Frames in between are in nobody's account."""
    for _ in range(3):
        _rest(draw.uniform(1.0, 5.0), end_at)
        bench.switch.process.kill()
        bench.switch.process.wait()
        bench.start()


ALL = {
    "none": none,
    "flaps": flaps,
    "flood": flood,
    "pfc-storm": pfc_storm,
    "SIGSTOP": stops,
    "memory": memory,
    "disk": disk,
    "clock": clock,
    "kill -9": kill,
}


class Clock:
    """The wall clock of programs that `library` is preloaded into."""

    def __init__(self, folder, source):
        self.library, self.file = str(folder / "clock.so"), folder / "clock"
        self.write(0)
        done = subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self.library, str(source), "-ldl"], capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(done.stderr)

    def write(self, seconds):
        with open(self.file, "r+b" if self.file.exists() else "wb") as file:
            file.write(struct.pack("q", int(seconds * NANOS)))


def page_out(pid):
    """Asks the kernel to take back all pages of a process that it can: process_madvise(2)."""
    with open(f"/proc/{pid}/maps") as maps:
        ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps if "[v" not in line]
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(SYS_PIDFD_OPEN, pid, 0)
    if pidfd < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    try:
        for first, last in ranges:
            # A mapping that can't be taken back refuses.
            vector = struct.pack("PP", first, last - first)
            libc.syscall(SYS_PROCESS_MADVISE, pidfd, ctypes.c_char_p(vector), ctypes.c_ulong(1), MADV_PAGEOUT, 0)
    finally:
        os.close(pidfd)


def fill(path):
    """Writes a file until its file system is full."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue


def _rest(seconds, end_at):
    time.sleep(max(min(seconds, end_at - time.monotonic()), 0.0))
