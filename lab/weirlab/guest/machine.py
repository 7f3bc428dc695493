"""The guest, running: its NICs, its shell, its links."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import time

from . import image, packages
from .cable import Cable

MEMORY_MB = 1280
# Of translated code; QEMU would take a gigabyte.
TRANSLATED_MB = 256
BOOT_S = 120
# The machine under emulation is slow, and others may want the CPUs besides.
COMMAND_S = 120


class EmulatorEnded(Exception):
    """The emulator is gone, and what it and the guest's kernel said last."""


class Machine:
    """A guest with an IOMMU and the NICs asked for, each given as (name, model, PCI slot).

    A model that the emulator lacks is left out: `cables` has the others' far ends, by name. Two NICs may be joined by one
    cable with `joined`, pairs of names; these have no far end.
    """

    def __init__(self, weir, nics, joined=()):
        self.parts = packages.parts()
        known = {model: self.parts.has_device(model) for model in {model for _, model, _ in nics}}
        self.nics = {name: (model, slot) for name, model, slot in nics if known[model]}
        self._directory = tempfile.TemporaryDirectory(prefix="weir-guest-")
        self.folder = pathlib.Path(self._directory.name)
        self.cables, self._process = {}, None
        try:
            image.build(self.parts, self.folder / "image", weir)
            self._boot(dict(joined) | {b: a for a, b in joined})
        except BaseException:
            self.close()
            raise

    def _boot(self, joined):
        command, environment = self.parts.qemu()
        command += ["-machine", "q35", "-accel", f"tcg,tb-size={TRANSLATED_MB}", "-cpu", "max", "-smp", "2", "-m", str(MEMORY_MB)]
        command += ["-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self.folder / 'console'}"]
        command += ["-kernel", str(self.parts.kernel), "-initrd", str(self.folder / "image")]
        # iommu=pt: a NIC that is not given to a guest or to DPDK's vfio sees physical memory, as uio_pci_generic needs it.
        words = "console=ttyS0 panic=-1 quiet mitigations=off intel_iommu=on iommu=pt iomem=relaxed"
        command += ["-append", words]
        command += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
        command += ["-device", "virtio-serial-pci,addr=0x03,vectors=0"]
        command += ["-chardev", f"socket,id=agent,path={self.folder / 'agent'},server=on,wait=off"]
        command += ["-device", "virtserialport,chardev=agent,name=agent"]
        command += ["-qmp", f"unix:{self.folder / 'qmp'},server=on,wait=off"]
        for name, (model, slot) in self.nics.items():
            command += self._nic(name, model, slot, joined.get(name))
        with open(self.folder / "qemu.log", "w") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._shell = Shell(self._connect("agent"))
        self._or_ended(self._shell.wait_until_ready, BOOT_S)

    def _nic(self, name, model, slot, peer):
        # Behind an IOMMU virtio needs its modern form.
        virtio = ",disable-legacy=on,iommu_platform=on" if model.startswith("virtio") else ""
        device = f"{model},netdev=n-{name},id=nic-{name},mac=52:54:00:01:00:{slot:02x},addr={slot:#x},romfile={virtio}"
        if peer:
            ends = f"local.type=unix,local.path={self.folder / name},remote.type=unix,remote.path={self.folder / peer}"
            return ["-netdev", f"dgram,id=n-{name},{ends}", "-device", device]
        self.cables[name] = Cable(self.folder, name)
        return [*self.cables[name].netdev(f"n-{name}"), "-device", device]

    def _connect(self, name):
        deadline = time.monotonic() + BOOT_S
        while True:
            if not self.alive():
                raise EmulatorEnded(self.last_words())
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(self.folder / name))
                return connection
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._process:
            self._process.kill()
            self._process.wait()
        for cable in self.cables.values():
            cable.close()
        self._directory.cleanup()

    def alive(self):
        return self._process.poll() is None

    def _or_ended(self, action, *arguments):
        """Does something, and where the emulator has ended (as it does too when the guest's kernel gives up) says all that
        is known of its end."""
        try:
            return action(*arguments)
        except ConnectionError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            raise EmulatorEnded(self.last_words()) from None

    def last_words(self):
        """What a guest that is of no use any more said last."""
        log = (self.folder / "qemu.log").read_text(errors="replace")
        code = self._process.poll()
        end = "closed the guest's port" if code is None else f"ended with {code}"
        return f"the emulator {end}:\n{log[-2000:]}\nthe guest's console:\n{self.console()[-6000:]}"

    def console(self):
        return (self.folder / "console").read_text(errors="replace")

    def address(self, name):
        """A NIC's PCI address."""
        return f"0000:00:{self.nics[name][1]:02x}.0"

    def run(self, command, within=COMMAND_S):
        """Runs a shell command to its end: (exit code, output)."""
        return self._or_ended(self._shell.run, command, within)

    def must_run(self, command, within=COMMAND_S):
        code, output = self.run(command, within)
        assert code == 0, f"{command}: exit code {code}\n{output}\n{self.console()[-2000:]}"
        return output

    def write(self, path, text):
        self.must_run(f"cat > {path} <<'END OF FILE'\n{text}\nEND OF FILE")

    def bind(self, names, driver):
        """Gives NICs to a driver, as dpdk-devbind.py does."""
        self.must_run(f"[ -d /sys/bus/pci/drivers/{driver} ]")
        for name in names:
            device = f"/sys/bus/pci/devices/{self.address(name)}"
            self.must_run(
                f"[ ! -e {device}/driver ] || echo {self.address(name)} > {device}/driver/unbind;"
                f" echo {driver} > {device}/driver_override; echo {self.address(name)} > /sys/bus/pci/drivers_probe;"
                f" [ $(basename $(readlink {device}/driver)) = {driver} ]"
            )

    def reserve_hugepages(self, count):
        self.must_run(f"echo {count} > /proc/sys/vm/nr_hugepages; [ $(cat /proc/sys/vm/nr_hugepages) = {count} ]")

    def set_link(self, name, up):
        """Plugs a NIC's cable in, or out."""
        connection = self._connect("qmp")
        with connection, connection.makefile("rw") as stream:
            stream.readline()
            for message in (
                {"execute": "qmp_capabilities"},
                {"execute": "set_link", "arguments": {"name": f"nic-{name}", "up": up}},
            ):
                stream.write(json.dumps(message) + "\n")
                stream.flush()
                while "return" not in (answer := json.loads(stream.readline())):
                    assert "error" not in answer, answer

    def register(self, name, offset):
        """A 32-bit register of a NIC's first BAR."""
        return int(self.must_run(f"devmem {self._bar(name) + offset:#x} 32"), 16)

    def set_register(self, name, offset, value):
        self.must_run(f"devmem {self._bar(name) + offset:#x} 32 {value:#x}")

    def _bar(self, name):
        resource = self.must_run(f"head -n 1 /sys/bus/pci/devices/{self.address(name)}/resource").split()
        return int(resource[0], 16)


class Shell:
    """Commands to the guest's shell, and what they print."""

    def __init__(self, connection):
        self._socket, self._buffer, self._number = connection, b"", 0

    def wait_until_ready(self, within):
        deadline = time.monotonic() + within
        # Until the guest has opened its end, what is sent goes nowhere.
        while time.monotonic() < deadline:
            try:
                if self.run("echo ready", 1)[1].strip().endswith("ready"):
                    self._drain()
                    return
            except TimeoutError:
                pass
        raise TimeoutError("the guest does not answer")

    def _drain(self):
        self._socket.settimeout(0.5)
        try:
            while self._socket.recv(65536):
                pass
        except TimeoutError:
            self._buffer = b""

    def run(self, command, within):
        self._number += 1
        mark = f"<{self._number} ended "
        self._buffer = b""
        # In two pieces, so that an echo of the command is not taken for its end.
        self._socket.settimeout(within)
        self._socket.sendall(f"( {command}\n) </dev/null; echo '{mark[:3]}''{mark[3:]}'$?'>'\n".encode())
        deadline = time.monotonic() + within
        pattern = re.compile(re.escape(mark).encode() + rb"(\d+)>\r?\n")
        while not (end := pattern.search(self._buffer)):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{command}: no end within {within} s\n{self._buffer.decode(errors='replace')}")
            self._socket.settimeout(left)
            try:
                received = self._socket.recv(65536)
            except TimeoutError:
                continue
            if not received:
                raise ConnectionResetError("the emulator closed the guest's port")
            self._buffer += received
        return int(end[1]), self._buffer[: end.start()].decode(errors="replace").replace("\r", "")
