"""The guest, running: its NICs, its shell, its links."""

import json

from . import image, packages
from .cable import Cable
from .emulator import Emulator

MEMORY_MB = 1280


class Machine(Emulator):
    """A guest with an IOMMU and the NICs asked for, each given as (name, model, PCI slot).

    A model that the emulator lacks is left out: `cables` has the others' far ends, by name. Two NICs may be joined by one
    cable with `joined`, pairs of names; these have no far end.
    """

    def __init__(self, weir, nics, joined=()):
        super().__init__(packages.parts())
        known = {model: self.parts.has_device(model) for model in {model for _, model, _ in nics}}
        self.nics = {name: (model, slot) for name, model, slot in nics if known[model]}
        self.cables = {}
        peers = dict(joined) | {b: a for a, b in joined}
        try:
            image.build(self.parts, self.image, weir)
            devices = ["-device", "intel-iommu,intremap=on,caching-mode=on"]
            devices += ["-qmp", f"unix:{self.folder / 'qmp'},server=on,wait=off"]
            for name, (model, slot) in self.nics.items():
                devices += self._nic(name, model, slot, peers.get(name))
            # iommu=pt: a NIC that is not given to a guest or to DPDK's vfio sees physical memory, as uio_pci_generic needs it.
            self._boot("q35", MEMORY_MB, "intel_iommu=on iommu=pt iomem=relaxed", devices)
        except BaseException:
            self.close()
            raise

    def _nic(self, name, model, slot, peer):
        # Behind an IOMMU virtio needs its modern form.
        virtio = ",disable-legacy=on,iommu_platform=on" if model.startswith("virtio") else ""
        device = f"{model},netdev=n-{name},id=nic-{name},mac=52:54:00:01:00:{slot:02x},addr={slot:#x},romfile={virtio}"
        if peer:
            ends = f"local.type=unix,local.path={self.folder / name},remote.type=unix,remote.path={self.folder / peer}"
            return ["-netdev", f"dgram,id=n-{name},{ends}", "-device", device]
        self.cables[name] = Cable(self.folder, name)
        return [*self.cables[name].netdev(f"n-{name}"), "-device", device]

    def close(self):
        for cable in self.cables.values():
            cable.close()
        super().close()

    def address(self, name):
        """A NIC's PCI address."""
        return f"0000:00:{self.nics[name][1]:02x}.0"

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
