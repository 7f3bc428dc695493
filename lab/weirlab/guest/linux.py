"""A Linux guest whose NIC is a vhost-user port: its kernel passes every frame between that NIC and a cable."""

import shutil

from . import image, packages
from .cable import Cable
from .emulator import Emulator

MEMORY_MB = 256
TOOLS = ["tc", "ethtool"]
# Addresses on the bus: the order of the kernel's interfaces, eth0 being the first.
NIC_SLOT, CABLE_SLOT = 4, 5


def why_not():
    """The missing part, if it can't run here."""
    try:
        packages.parts()
    except packages.Unavailable as reason:
        return f"no guest: {reason}"
    missing = [tool for tool in TOOLS if not _tool(tool)]
    return f"missing here, for the guest: {', '.join(missing)}" if missing else None


def _tool(name):
    return shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")


class LinuxGuest(Emulator):
    """Boots a guest at a vhost-user socket, which it makes itself as a `server`. `cable` is the far end of its other NIC."""

    def __init__(self, vhost_socket, queues=1, server=False):
        super().__init__(packages.parts())
        self.cable = None
        try:
            image.build(self.parts, self.image, tools=[_tool(name) for name in TOOLS])
            self.cable = Cable(self.folder, "cable")
            devices = self._devices(vhost_socket, queues, server)
            self._boot("pc", MEMORY_MB, "net.ifnames=0 ipv6.disable=1", devices)
            self._join()
        except BaseException:
            self.close()
            raise

    def _devices(self, vhost_socket, queues, server):
        devices = ["-object", f"memory-backend-memfd,id=mem,size={MEMORY_MB}M,share=on", "-numa", "node,memdev=mem"]
        end = "server=on,wait=off" if server else "reconnect=1"
        devices += ["-chardev", f"socket,id=vhost,path={vhost_socket},{end}"]
        devices += ["-netdev", f"vhost-user,id=nic,chardev=vhost,queues={queues}"]
        several = ",mq=on" if queues > 1 else ""
        devices += ["-device", f"virtio-net-pci,netdev=nic,addr={NIC_SLOT:#x},romfile=,vectors=0{several}"]
        return [*devices, *self.cable.netdev("cable"), "-device", f"virtio-net-pci,netdev=cable,addr={CABLE_SLOT:#x},romfile=,vectors=0"]

    def _join(self):
        """Has the kernel pass every frame from one NIC to the other."""
        for interface, other in (("eth0", "eth1"), ("eth1", "eth0")):
            self.must_run(f"ifconfig {interface} up promisc")
            # By its path: the shell would run its own.
            self.must_run(f"/usr/bin/tc qdisc add dev {interface} clsact")
            self.must_run(f"/usr/bin/tc filter add dev {interface} ingress matchall action mirred egress redirect dev {other}")

    def close(self):
        if self.cable:
            self.cable.close()
        super().close()
