"""Switches to soak, one of each kind of port, with an end at both sides and counters of the parties that carry the frames between."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import time

from weirlab import emulated_nic, netns
from weirlab.emulated_nic import Nic
from weirlab.guest import linux
from weirlab.soak.ends import End, GuestCable, PacketSocket
from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until

MACS = {"left": "02:00:00:00:00:01", "right": "02:00:00:00:00:02"}
KINDS = ("veth", "af-xdp", "rings", "driver", "guest")
MBPS = {"guest": 5}
MBPS_OTHERWISE = 20
SPEEDS = {"82599": "10Gbps", "82576": "1Gbps", "i225": "2.5Gbps"}
HEAD = """
[switch]
name = "{name}"
idle = "sleep"
storm_control = "{flood_kbps}Kbps"
[lcores]
layout = "single"
[buffer]
size = "4MB"
headroom = "400KB"
[pfc_watchdog]
action = "{action}"
detection_time = "400ms"
restoration_time = "400ms"
poll_interval = "100ms"
[classes]
lossless = [3]
[classes.dscp]
0 = 0
3 = 3
"""
UP_S = 120
# A guest that is emulated beside others answers late.
GUEST_UP_S = 600
OUTPUT_BYTES = 64 << 20


@dataclasses.dataclass
class Passed:
    """Frames that another party passed to a port, and took from it."""

    to_port: int
    from_port: int


class Bench:
    """A switch between two ends, for the time of a `with` block. `left` and `right` are the ends.

    `start` starts the switch anew; `passed()` has the counters of the other party of each port, named as (switch, port).
    """

    def __init__(self, kind, token, folder, draw, clock):
        self.kind, self.folder, self.clock = kind, pathlib.Path(folder), clock
        self.rate_bps = MBPS.get(kind, MBPS_OTHERWISE) * 1_000_000
        self.action = draw.choice(["drop", "forward"])
        self.nic = draw.choice(sorted(SPEEDS)) if kind == "driver" else ""
        self._seeds = [draw.getrandbits(32) for _ in MACS]
        self.stack, self.log, self.starts = contextlib.ExitStack(), [], 0
        self.name = f"weir-soak-{token}"
        self.switch = None

    def __enter__(self):
        try:
            self.here = self.stack.enter_context(netns.Namespace(self.name))
            self.here.be_silent()
            self.output = self.folder / "output"
            self.output.mkdir()
            mount(self.output, OUTPUT_BYTES)
            self.stack.callback(unmount, self.output)
            self._lay()
            self.start()
            self._make_ends()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    # What differs by kind.

    def _lay(self):
        """Cables, NICs and files."""
        self.nics = None
        if self.kind == "driver":
            self.nics = self.stack.enter_context(emulated_nic.EmulatedNics(self.folder, [Nic(self.nic), Nic(self.nic)], namespace=self.here))
            self.interfaces = dict(zip(MACS, (nic.tap for nic in self.nics)))
        else:
            self.interfaces = {end: f"host-{end}" for end in MACS if not (self.kind == "guest" and end == "right")}
            for end, interface in self.interfaces.items():
                netns.veth((self.here, f"sw-{end}"), (self.here, interface))
        self.vhost = self.folder / "vm.sock"
        self.files = [self._file(name) for name in (("a", "b") if self.kind == "rings" else ("soak",))]

    def _file(self, name):
        text = HEAD.format(name=name, action=self.action, flood_kbps=self.rate_bps // 50_000)
        rate = f"{self.rate_bps // 1_000_000}Mbps"
        here = {"a": ["left"], "b": ["right"]}.get(name, list(MACS))
        for end in here:
            device = {
                "af-xdp": f'af_xdp = "sw-{end}"',
                "driver": f'pci = "{self.nics[list(MACS).index(end)].address}"' if self.nics else "",
                "guest": f'vhost_user = {{ socket = "{self.vhost}" }}\nmac = "02:00:00:00:0a:01"' if end == "right" else "",
            }.get(self.kind) or f'af_packet = "sw-{end}"'
            text += f'[[ports]]\nname = "{end}"\n{device}\nrate = "{rate}"\n[[static_macs]]\nmac = "{MACS[end]}"\nport = "{end}"\n'
        if self.kind == "rings":
            (far,) = set(MACS) - set(here)
            text += f'[[ports]]\nname = "link"\nring = "link"\nrate = "{rate}"\n[[static_macs]]\nmac = "{MACS[far]}"\nport = "link"\n'
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    def command(self, *command):
        """The command line of a program among these interfaces."""
        libraries = [self.clock.library] + ([emulated_nic.library()] if self.nics else [])
        settings = [f"SOAK_CLOCK={self.clock.file}", f"LD_PRELOAD={':'.join(libraries)}"]
        return (self.nics or self.here).command("env", *settings, *command)

    # What all have.

    def start(self):
        """Starts the switch, and waits until its links are up."""
        self.starts += 1
        self.log_since = len(self.log)
        for before in self.output.iterdir():
            shutil.rmtree(before)
        self.socket, self.record = self.folder / "control", self.output / f"record{self.starts}"
        arguments = ["--quiet", "--control", str(self.socket), "-o", str(self.record), "--capture", self._port("right")]
        self.switch = self.stack.enter_context(Switch(*self.files, namespace=self, arguments=arguments, on_line=self.log.append))
        if self.kind == "guest" and self.starts == 1:
            self.guest = self.stack.enter_context(linux.LinuxGuest(self.vhost))
            self.interfaces["guest"] = "eth0"
        until(self._is_up, lambda: f"the links are down:\n{''.join(self.log[-20:])}", GUEST_UP_S if self.kind == "guest" else UP_S)

    def _port(self, end):
        return f"{'a' if end == 'left' else 'b'}.{end}" if self.kind == "rings" else end

    def _is_up(self):
        assert self.switch.process.poll() is None, "\n".join(self.log[-20:])
        links = [value for name, _, value in self.metrics() if name == "weir_port_link_up"]
        return links and all(links) and all(self.carries(end) for end in self.interfaces if end != "guest")

    def carries(self, end):
        """Whether the kernel sends what is given to the interface of an end: for a while after it came up, it throws it away."""
        return " qdisc noop " not in self.here.ip("link", "show", self.interfaces[end])

    def _make_ends(self):
        links = {end: PacketSocket(self.here, interface) for end, interface in self.interfaces.items() if end != "guest"}
        if self.kind == "guest":
            links["right"] = GuestCable(self.guest.cable)
        cpu = max(os.sched_getaffinity(0))
        self.ends = {}
        for seed, (end, mac) in zip(self._seeds, MACS.items()):
            (peer,) = set(MACS) - {end}
            made = End(links[end], bytes.fromhex(mac.replace(":", "")), bytes.fromhex(MACS[peer].replace(":", "")), self.rate_bps, seed, cpu)
            self.ends[end] = made
            made.start()
            self.stack.callback(made.end)

    def flap(self, end, seconds):
        """The link of an end is down for so long."""
        if self.nics:
            number = list(MACS).index(end)
            self.nics.down(number)
            time.sleep(seconds)
            self.nics.up(number)
            return
        sender = self.ends[end]
        load = sender.load
        # What is given to an interface while it goes down or comes up, the kernel throws away without a word.
        sender.be_quiet()
        self.here.ip("link", "set", self.interfaces[end], "down")
        time.sleep(seconds)
        self.here.ip("link", "set", self.interfaces[end], "up")
        until(lambda: self.carries(end), f"{end} carries frames")
        sender.load = load

    def metrics(self):
        """What the switch counts now: (name, labels, value) of each sample."""
        command = [weir_binary(), "show", "metrics", "--socket", str(self.socket)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return list(samples(done.stdout))

    def passed(self):
        """What other parties counted at each port: (switch, port) to `Passed`."""
        counted = {}
        for number, end in enumerate(MACS):
            name = {"rings": {"left": "a", "right": "b"}[end]}.get(self.kind, "soak")
            if self.nics:
                nic = self.nics.counters(number)
                # Frames that come while there is no link are nobody's.
                counted[name, end] = Passed(nic["rx_wire_frames"] - nic["rx_link_down"] - nic["rx_disabled"], nic["tx_frames"])
            elif self.kind == "guest" and end == "right":
                counted[name, end] = Passed(*(self.in_guest(f"{way}_packets") for way in ("tx", "rx")))
            else:
                counted[name, end] = Passed(*(self.statistic(end, f"{way}_packets") for way in ("tx", "rx")))
        return counted

    def lost_between(self):
        """Frames that were lost between an end and the other party of its port: on the way there, and on the way back."""
        lost = {}
        for number, end in enumerate(MACS):
            if self.nics:
                nic = self.nics.counters(number)
                lost[end] = (self.statistic(end, "tx_dropped") + nic["rx_link_down"] + nic["rx_disabled"], nic["tx_cable_refused"])
            elif self.kind == "guest" and end == "right":
                # Its kernel passes frames between its two NICs, and drops what the other has no room for.
                continue
            else:
                lost[end] = (self.statistic(end, "tx_dropped"), 0)
        return lost

    def statistic(self, end, counter):
        """A counter of the kernel, of the interface of an end."""
        return int(self.here.must_run("cat", f"/sys/class/net/{self.interfaces[end]}/statistics/{counter}"))

    def in_guest(self, counter):
        return int(self.guest.must_run(f"cat /sys/class/net/eth0/statistics/{counter}").split()[-1])


def samples(text):
    """The samples of a text in OpenMetrics."""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        head, value = line.rsplit(" ", 1)
        name, _, labels = head.partition("{")
        pairs = (label.split("=", 1) for label in labels.rstrip("}").split('",') if label)
        yield name, {key: text.strip('"') for key, text in pairs}, float(value)


def mount(folder, size):
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "weir-soak", str(folder))


def unmount(folder):
    run("umount", "--lazy", str(folder))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
