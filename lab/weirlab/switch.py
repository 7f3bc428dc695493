"""`weir run` as a child process."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# The file of a switch on a pair of rings, whose ends may be joined: no frame comes from anywhere.
QUIET = """
[switch]
name = "{name}"
idle = "sleep"
[lcores]
layout = "single"
[classes]
lossless = [3]
[[ports]]
name = "up"
ring = "one"
rate = "1Gbps"
[[ports]]
name = "down"
ring = "two"
rate = "1Gbps"
"""
# How long a switch may take to start forwarding, and to end. Much, for machines that do much else.
START_S = 60
STOP_S = 30


def cable_ports(**rates):
    """Ports of a switch's file at the cables of fixture `cables`, each with its rate: `cable_ports(a="1Gbps")`."""
    return "".join(f'[[ports]]\nname = "{port}"\naf_packet = "sw-{port}"\nrate = "{rate}"\n' for port, rate in rates.items())


def weir_binary():
    """The command under test: `WEIR_BIN`, or the release build of this tree."""
    return os.environ.get("WEIR_BIN") or str(REPOSITORY / "target" / "release" / "weir")


class Finished:
    """What a `weir` that has ended left."""

    def __init__(self, code, stdout, stderr, summary):
        self.code, self.stdout, self.stderr, self.summary = code, stdout, stderr, summary

    @property
    def switch(self):
        """The summary of the only switch."""
        (switch,) = self.summary["switches"]
        return switch

    def port(self, name):
        (port,) = [port for port in self.switch["ports"] if port["name"] == name]
        return port

    def traffic_class(self, port, number):
        """A class of a port; zeros if nothing happened to it."""
        for known in self.port(port)["classes"]:
            if known["class"] == number:
                return known
        return {"rx_frames": 0, "tx_frames": 0, "xoff_rx": 0, "xoff_tx": 0, "pauses_rx": 0, "paused_rx_us": 0, "drops": {}}

    def poll_gap_s(self):
        """The longest that any core of the switch was kept from polling: the machine's doing, not the switch's."""
        return max(lcore["poll_gap_max_us"] for lcore in self.summary["lcores"]) / 1e6

    def poll_gaps_s(self):
        """The longest that a frame waited for all lcores together: it passes from one to the next, and each may be late."""
        return sum(lcore["poll_gap_max_us"] for lcore in self.summary["lcores"]) / 1e6

    def check_sound(self):
        """Ended well, frames are conserved, nothing is held, no packet memory is lost."""
        assert self.code == 0, f"exit code {self.code}\n{self.stderr}"
        assert self.summary["mbufs_missing"] == 0
        for switch in self.summary["switches"]:
            check_balance(switch)


def check_balance(switch):
    balance = switch["frame_conservation"]
    assert balance["holds"], balance
    assert balance["received"] + balance["copied"] == balance["sent"] + balance["dropped"] + balance["held"], balance
    assert balance["held"] == 0, balance
    assert balance["dropped"] == sum(switch["drops"].values()), (balance, switch["drops"])


class Switch:
    """Runs `weir run` on configuration files; ended with the `with` block at the latest.

    `namespace` is where its interfaces are. Its output is collected, and handed to `on_line` as it comes.
    """

    def __init__(self, *files, namespace=None, arguments=(), eal=(), binary=None, on_line=None):
        self._directory = tempfile.TemporaryDirectory(prefix="weir-lab-")
        self.summary_file = pathlib.Path(self._directory.name) / "summary.json"
        command = [binary or weir_binary(), "run", "--json", str(self.summary_file), *arguments, *map(str, files)]
        if eal:
            command += ["--", *eal]
        self.command = namespace.command(*command) if namespace else command
        # A group of its own: Ctrl-C in a terminal is for the lab, which then ends the switch.
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self._forwarding = threading.Event()
        self._lines = {"stdout": [], "stderr": []}
        streams = {"stdout": self.process.stdout, "stderr": self.process.stderr}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream, on_line), daemon=True)
            for name, stream in streams.items()
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name, stream, on_line):
        for line in stream:
            self._lines[name].append(line)
            if "forwarding" in line:
                self._forwarding.set()
            if on_line:
                on_line(line.rstrip("\n"))
        if name == "stderr":
            # Nothing more will come, so nobody need wait.
            self._forwarding.set()

    def suspend(self):
        """Stops all threads of the switch, until it gets SIGCONT."""
        self.process.send_signal(signal.SIGSTOP)
        # It returns when the last thread has stopped, which takes a while where others have the CPUs.
        os.waitpid(self.process.pid, os.WUNTRACED)

    def __enter__(self):
        try:
            self.wait_until_forwarding()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        self._directory.cleanup()

    def has_said(self, text):
        """Whether it has logged a line with this text."""
        return any(text in line for line in self._lines["stderr"])

    def has_printed(self, text):
        """Whether it has printed a line with this text."""
        return any(text in line for line in list(self._lines["stdout"]))

    def times_said(self, text):
        """In how many lines of its log this text is."""
        return sum(text in line for line in list(self._lines["stderr"]))

    def wait_until_forwarding(self):
        self._forwarding.wait(START_S)
        if not self.has_said("forwarding"):
            raise RuntimeError(f"{' '.join(self.command)} does not forward:\n{''.join(self._lines['stderr'])}")

    def wait(self, timeout=STOP_S):
        """Waits until it ends by itself."""
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join()
        text = self.summary_file.read_text() if self.summary_file.exists() else ""
        stdout, stderr = ("".join(self._lines[name]) for name in ("stdout", "stderr"))
        return Finished(code, stdout, stderr, json.loads(text) if text else None)

    def stop(self, number=signal.SIGTERM):
        """Asks it to end, and returns what it left."""
        self.process.send_signal(number)
        return self.wait()
