"""Emulated NICs under an unchanged `weir`: DPDK's own drivers on the registers that dpdk-io/emulated-nic models.

    nics, wires = wired_nics("82599")    # a fixture: two NICs, each with a tap in a namespace and a Wire on it
    file.write_text(HEAD + nics.ports())
    with Switch(file, namespace=nics) as switch:
        wires[0].send(frame)
        nics.down(0); nics.up(0); nics.speed(0, 1000); nics.counters(0)["rx_frames"]; nics.events("control_sent")
    nics.counters(0)    # as they were at exit

Without a namespace (fixture `emulated_nics`) no root is needed, and ports are joined in pairs. `nics.run("check", "--try", str(file))`
runs a command to its end. A port `Nic("82599", "paced")` sends at its link's speed, `Nic("82599", "held")` only what
`nics.release(0, frames)` lets pass, so that there is a backlog: an event `control_sent` says of each MAC control frame what left ahead of it.
dpdk-io/emulated-nic/nic.h describes what can be set up, and the counters.
"""

import dataclasses
import itertools
import json
import os
import pathlib
import platform
import shutil
import socket
import subprocess

from weirlab.switch import REPOSITORY, weir_binary

# PCI device IDs of Intel's.
DEVICES = {"82599": 0x10FB, "82576": 0x10C9, "i225": 0x15F2}
RATES = {"82599": "10Gbps", "82576": "1Gbps", "i225": "2.5Gbps"}
SYSFS = "/sys/bus/pci/devices"
FIRST_GROUP = 100
BUSES = itertools.count()
# Longer than any frame of these NICs.
TAP_MTU = 16_000
TAP_FRAMES = 16_384
ANSWER_S = 30


def library():
    """The model: `WEIR_EMULATED_NIC`, or where `make nic-model` leaves it."""
    return os.environ.get("WEIR_EMULATED_NIC") or str(REPOSITORY / "target" / "emulated-nic" / "emulated-nic.so")


def why_not():
    """The reason why it can't run here; None if it can."""
    if platform.machine() != "x86_64":
        return "emulated NICs decode instructions of x86-64 alone"
    if not os.path.isdir(SYSFS):
        return f"there is no {SYSFS} to mount a folder over"
    if not os.path.exists(library()):
        return f"there is no {library()}; build it with: make nic-model"
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    done = subprocess.run([*unshare, "mount", "--bind", SYSFS, SYSFS], capture_output=True, text=True)
    if done.returncode != 0:
        return f"mount namespaces are not possible here: {done.stderr.strip()}"
    return None


@dataclasses.dataclass
class Nic:
    """A port: its kind, and options of its line in the model's file, for example "paced" or "held"."""

    kind: str = "82599"
    options: str = ""
    address: str = ""
    tap: str = ""


class EmulatedNics:
    """NICs for the programs that are started by it, as `namespace` of a `Switch` or by `run`.

    In a network namespace each port has a tap device there; without one port 0 is cabled to port 1, port 2 to port 3.
    """

    def __init__(self, place, nics, namespace=None, mutant=None, user=None):
        """`user` is the number of another user that programs run as; `mutant` breaks a rule of the NICs (nic.h)."""
        self.place, self.namespace, self.mutant, self.user = pathlib.Path(place) / "nics", namespace, mutant, user
        self._nics = nics
        # Weir locks a device for the whole machine, so that others' have other addresses: a domain for each process, and a bus for each set.
        domain, bus = 1 + os.getpid() % 0xFFFE, next(BUSES) % 256
        for number, nic in enumerate(nics):
            nic.address = f"{domain:04x}:{bus:02x}:00.{number}"
            nic.tap = f"nic{number}" if namespace else ""

    def __enter__(self):
        self.place.mkdir()
        if self.user:
            os.chown(self.place, self.user, self.user)
        for number, nic in enumerate(self._nics):
            self._make_device(number, nic)
            if self.namespace:
                self.namespace.ip("tuntap", "add", "dev", nic.tap, "mode", "tap")
                self.namespace.ip("link", "set", nic.tap, "mtu", str(TAP_MTU), "txqueuelen", str(TAP_FRAMES), "up")
        cable = lambda number, nic: f"tap {nic.tap}" if nic.tap else f"peer {self._nics[number ^ 1].address}"
        lines = [f"nic {nic.address} {nic.kind} {cable(number, nic)} {nic.options}" for number, nic in enumerate(self._nics)]
        lines += [f"{what} {self._file(what)}" for what in ("control", "counters", "events")]
        self._file("set-up").write_text("\n".join(lines) + "\n")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.place)

    def __getitem__(self, number):
        return self._nics[number]

    def __iter__(self):
        return iter(self._nics)

    def _file(self, name):
        return self.place / name

    def _make_device(self, number, nic):
        """Its folder, as Linux has it of a device that is bound to vfio-pci and alone in its IOMMU group."""
        device = self.place / "devices" / nic.address
        device.mkdir(parents=True)
        files = {
            "vendor": "0x8086",
            "device": f"{DEVICES[nic.kind]:#06x}",
            "subsystem_vendor": "0x8086",
            "subsystem_device": "0x0003",
            "class": "0x020000",
            "numa_node": "-1",
            "resource": "\n".join(["0x00000000e0000000 0x00000000e001ffff 0x0000000000040200"] + ["0x0 0x0 0x0"] * 5),
        }
        for name, text in files.items():
            (device / name).write_text(text + "\n")
        (device / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
        group = self.place / "groups" / str(FIRST_GROUP + number)
        (group / "devices").mkdir(parents=True)
        (group / "devices" / nic.address).symlink_to(device)
        (device / "iommu_group").symlink_to(group)

    def command(self, *command):
        """The command line that runs `command` with these NICs. Each part replaces itself, so that the process keeps its id."""
        settings = [f"LD_PRELOAD={library()}", f"EMULATED_NICS={self._file('set-up')}"]
        if self.mutant:
            settings.append(f"EMULATED_NIC_MUTANT={self.mutant}")
        mount = f'mount --bind "{self.place}/devices" {SYSFS} && exec "$@"'
        become = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] if self.user else []
        unshare = ["unshare", "-m"] if os.geteuid() == 0 and not self.user else ["unshare", "-Urm"]
        inside = [*become, *unshare, "sh", "-c", mount, "sh", "env", *settings, *command]
        return self.namespace.command(*inside) if self.namespace else inside

    def run(self, *arguments, timeout=ANSWER_S):
        """Runs `weir` to its end."""
        return subprocess.run(
            self.command(weir_binary(), *arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )

    def ports(self, rate=None, more=""):
        """A `[[ports]]` for each, p0, p1 and so on, with further lines. `rate` is the link's where none is given; "" for a port without one."""
        lines = []
        for number, nic in enumerate(self._nics):
            lines += ["[[ports]]", f'name = "p{number}"', f'pci = "{nic.address}"']
            if rate != "":
                lines.append(f'rate = "{rate or RATES[nic.kind]}"')
            lines.append(more)
        return "\n".join(lines) + "\n"

    def ask(self, line):
        """A command of the model's socket, and its answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(str(self._file("control")))
            connection.sendall(line.encode() + b"\n")
            answer = json.loads(connection.makefile().readline())
        assert "error" not in answer, f"{line}: {answer['error']}"
        return answer

    def counters(self, number):
        """A port's counters: now, or at exit where the program has ended."""
        try:
            told = self.ask("counters")
        except (ConnectionRefusedError, FileNotFoundError):
            told = json.loads(self._file("counters").read_text())
        return told[self._nics[number].address]

    def events(self, kind):
        """Events of one kind so far: control_sent, tx_damaged, dma_fault."""
        file = self._file("events")
        known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [event for event in known if event["event"] == kind]

    def down(self, number):
        """Takes the link of a port down, at both ends of its cable."""
        self._tell(number, "down")

    def up(self, number):
        self._tell(number, "up")

    def speed(self, number, mbps):
        """A new speed of the link, which is down for a moment."""
        self._tell(number, f"speed {mbps}")

    def hold(self, number):
        """Nothing leaves any more."""
        self._tell(number, "hold")

    def release(self, number, frames=None):
        """So many frames may leave; all from now on without a number."""
        self._tell(number, f"release {frames}" if frames is not None else "release")

    def stop_descriptors(self, number):
        """The NIC gets no more receive descriptors, as if the program did not poll."""
        self._tell(number, "stop-descriptors")

    def resume_descriptors(self, number):
        self._tell(number, "resume-descriptors")

    def request_removal(self, number):
        """Asks for the device, as Linux does before it unbinds one that is in use."""
        self._tell(number, "request-removal")

    def remove(self, number):
        """Pulls the device out: its registers read as all ones, and its folder is gone."""
        self._tell(number, "remove")
        shutil.rmtree(self.place / "devices" / self._nics[number].address)

    def _tell(self, number, verb):
        self.ask(f"{self._nics[number].address} {verb}")
