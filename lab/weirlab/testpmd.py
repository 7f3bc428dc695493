"""DPDK's testpmd as the machine behind a vhost-user port: its own virtio driver, joined to a Linux interface."""

import os
import pty
import re
import shutil
import subprocess
import threading
import time

PROGRAM = "dpdk-testpmd"
ANSWER_S = 60
MEMORY_MB = 256


def why_not():
    """The missing part, if it can't run here."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} is not installed; make setup installs it (Debian's package dpdk-dev)"


class Testpmd:
    """Passes all frames between a vhost-user socket and an interface of a namespace, for the time of a `with` block.

    The socket's guest has `pairs` queue pairs, and uses `used` of them. As a `server` testpmd makes the socket.
    """

    # Not one of pytest's classes.
    __test__ = False

    def __init__(self, namespace, socket, interface, pairs=1, used=None, server=False):
        used = used or pairs
        cpus = sorted(os.sched_getaffinity(0))
        virtio = f"net_virtio_user0,path={socket},queues={pairs},queue_size=1024,cq=1{',server=1' if server else ''}"
        netdev = f"net_af_packet0,iface={interface},qpairs={used},framecnt=2048,blocksz=65536,framesz=2048"
        command = [PROGRAM, f"--lcores=0@{cpus[0]},1@{cpus[-1]}", "--no-pci", "--no-huge", "-m", str(MEMORY_MB)]
        # Files of no other process of DPDK are in its way.
        command += ["--no-shconf", "--no-telemetry"]
        command += ["--vdev", virtio, "--vdev", netdev, "--"]
        command += ["-i", "--forward-mode=io", "--total-num-mbufs=16384", f"--rxq={used}", f"--txq={used}", "--no-lsc-interrupt"]
        # It buffers what it prints into a pipe.
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            namespace.command(*command), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._text, self._changed = "", threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                some = os.read(self._terminal, 65536)
            except OSError:
                some = b""
            with self._changed:
                self._text += some.decode(errors="replace")
                self._changed.notify_all()
            if not some:
                return

    def __enter__(self):
        try:
            self._wait_for("testpmd> ", 0)
            self.ask("start")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._terminal)

    def _wait_for(self, text, start):
        """Waits until it has printed this; returns what it has printed from `start` on."""
        deadline = time.monotonic() + ANSWER_S
        with self._changed:
            while text not in self._text[start:]:
                left = deadline - time.monotonic()
                if left <= 0 or self.process.poll() is not None:
                    raise RuntimeError(f"{PROGRAM} does not say {text!r}:\n{self._text}")
                self._changed.wait(min(left, 0.5))
            return self._text[start:]

    def ask(self, command):
        """Gives it a command; returns its answer."""
        with self._changed:
            start = len(self._text)
        os.write(self._terminal, command.encode() + b"\n")
        return self._wait_for("testpmd> ", start + len(command))

    def received(self, queue):
        """Frames that came from the socket by a queue."""
        answer = self.ask("show port xstats 0")
        told = re.search(rf"rx_q{queue}_good_packets: (\d+)", answer)
        assert told, answer
        return int(told[1])

    def quit(self):
        """Ends it as a guest is shut down."""
        os.write(self._terminal, b"quit\n")
        self.process.wait(ANSWER_S)
