"""A Linux guest whose NIC is a vhost-user port: its kernel passes every frame between that NIC and a cable."""

import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from . import image, packages
from .cable import Cable
from .machine import BOOT_S, COMMAND_S, Shell

MEMORY_MB = 256
CPUS = 2
TOOLS = ["tc", "ethtool"]
# Of the bus: the order of the kernel's interfaces, eth0 being the first.
NIC_SLOT, CABLE_SLOT = 4, 5


def why_not():
    """What is missing, if it can't run here."""
    try:
        packages.parts()
    except packages.Unavailable as reason:
        return f"no guest: {reason}"
    missing = [tool for tool in TOOLS if not _tool(tool)]
    return f"missing here, for the guest: {', '.join(missing)}" if missing else None


def _tool(name):
    return shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")


class LinuxGuest:
    """Boots a guest at a vhost-user socket, which it makes itself as a `server`. `cable` is the far end of its other NIC."""

    def __init__(self, vhost_socket, queues=1, server=False):
        self._directory = tempfile.TemporaryDirectory(prefix="weir-guest-")
        self.folder = pathlib.Path(self._directory.name)
        self.cable, self._process = None, None
        try:
            self._boot(vhost_socket, queues, server)
        except BaseException:
            self.close()
            raise

    def _boot(self, vhost_socket, queues, server):
        parts = packages.parts()
        image.build(parts, self.folder / "image", tools=[_tool(name) for name in TOOLS])
        self.cable = Cable(self.folder, "cable")
        command, environment = parts.qemu()
        command += ["-machine", "pc", "-accel", "tcg", "-cpu", "max", "-smp", str(CPUS), "-m", str(MEMORY_MB)]
        command += ["-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self.folder / 'console'}"]
        command += ["-kernel", str(parts.kernel), "-initrd", str(self.folder / "image")]
        command += ["-append", "console=ttyS0 panic=-1 quiet mitigations=off net.ifnames=0 ipv6.disable=1"]
        command += ["-object", f"memory-backend-memfd,id=mem,size={MEMORY_MB}M,share=on", "-numa", "node,memdev=mem"]
        end = "server=on,wait=off" if server else "reconnect=1"
        command += ["-chardev", f"socket,id=vhost,path={vhost_socket},{end}"]
        command += ["-netdev", f"vhost-user,id=nic,chardev=vhost,queues={queues}"]
        several = ",mq=on" if queues > 1 else ""
        command += ["-device", f"virtio-net-pci,netdev=nic,addr={NIC_SLOT:#x},romfile=,vectors=0{several}"]
        command += [*self.cable.netdev("cable"), "-device", f"virtio-net-pci,netdev=cable,addr={CABLE_SLOT:#x},romfile=,vectors=0"]
        command += ["-device", "virtio-serial-pci,addr=0x03,vectors=0"]
        command += ["-chardev", f"socket,id=agent,path={self.folder / 'agent'},server=on,wait=off"]
        command += ["-device", "virtserialport,chardev=agent,name=agent"]
        with open(self.folder / "qemu.log", "w") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._shell = Shell(self._connect("agent"))
        self._shell.wait_until_ready(BOOT_S)
        for interface, other in (("eth0", "eth1"), ("eth1", "eth0")):
            self.must_run(f"ifconfig {interface} up promisc")
            # By its path: the shell would run its own.
            self.must_run(f"/usr/bin/tc qdisc add dev {interface} clsact")
            self.must_run(f"/usr/bin/tc filter add dev {interface} ingress matchall action mirred egress redirect dev {other}")

    def _connect(self, name):
        deadline = time.monotonic() + BOOT_S
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the emulator ended:\n{(self.folder / 'qemu.log').read_text()}")
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
        """Ends it as a crash would."""
        if self._process:
            self._process.kill()
            self._process.wait()
        if self.cable:
            self.cable.close()
        self._directory.cleanup()

    def must_run(self, command, within=COMMAND_S):
        code, output = self._shell.run(command, within)
        assert code == 0, f"{command}: exit code {code}\n{output}\n{(self.folder / 'console').read_text(errors='replace')[-2000:]}"
        return output
