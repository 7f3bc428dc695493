"""Gets QEMU, a kernel, busybox and the tools of RDMA hosts from Debian's archive, and unpacks them without installing anything.

The command `weir vm` carries this file, `image` and `roce` with it, and runs them; the lab's tests import them. So this package must
do with Python's own library.
"""

import fcntl
import functools
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import zlib

STORE = pathlib.Path(os.environ.get("WEIR_GUEST_DIR") or pathlib.Path(__file__).resolve().parents[3] / "target" / "guest")
# igb, the 82576, is there from QEMU 8.0 on; Debian 12 has 7.2, and its backports have a newer one.
BACKPORTS = {"bookworm": "bookworm-backports"}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What the guest's kernel needs: the agent's serial port, what binds a NIC to DPDK, drivers of the emulated NICs, and what passes
# frames from one to another.
MODULES = [
    "virtio_pci", "virtio_console", "vfio", "vfio_iommu_type1", "vfio-pci", "uio_pci_generic",
    "igb", "e1000e", "vmxnet3", "virtio_net", "sch_ingress", "cls_matchall", "act_mirred",
]  # fmt: skip
# What an RDMA host's kernel needs: Soft-RoCE, DCTCP, and what maps classes to a NIC's queues.
ROCE_MODULES = [
    "virtio_pci", "virtio_console", "virtio_net", "crc32_generic", "rdma_rxe", "rdma_ucm", "ib_uverbs", "tcp_dctcp", "tcp_cubic",
    "tcp_diag", "inet_diag", "8021q", "sch_ingress", "sch_fq", "cls_flower", "cls_matchall", "act_skbedit", "act_mirred",
]  # fmt: skip
ROCE_PACKAGES = [
    "dash", "perftest", "rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "iperf3", "ethtool", "iproute2", "tcpdump",
    "dropbear-bin", "python3-pyverbs",
]  # fmt: skip


class Unavailable(Exception):
    """The guest can't be had here, and why."""


class Parts:
    """The unpacked parts: the emulator's command line, the kernel, its modules in the order to load them, busybox, and the tools of
    an RDMA host with all their libraries, below `tools`."""

    def __init__(self, folder):
        self.folder = folder
        self.kernel = folder / "vmlinux"
        self.busybox = folder / "busybox"
        self.tools = folder / "tools"
        self.modules = self._modules("modules.order")
        self.roce_modules = self._modules("roce.order")
        self._root = folder / "qemu"

    def _modules(self, order):
        return [self.folder / "modules" / name for name in (self.folder / order).read_text().split()]

    def qemu(self):
        """The emulator's command and environment."""
        libraries = ":".join(str(path) for path in self._root.glob("usr/lib/*-linux-gnu*"))
        environment = os.environ | {
            "LD_LIBRARY_PATH": libraries,
            "QEMU_MODULE_DIR": str(next(self._root.glob("usr/lib/*-linux-gnu*/qemu"))),
        }
        share = self._root / "usr/share"
        folders = [name for name in ("qemu", "seabios") if (share / name).is_dir()]
        command = [str(self._root / "usr/bin/qemu-system-x86_64")]
        return command + [word for name in folders for word in ("-L", str(share / name))], environment

    def has_device(self, name):
        """Whether the emulator knows a device, by its name or an alias. `-device NAME,help` says so by its exit code in some versions alone."""
        return f'"{name}"' in self._devices

    @functools.cached_property
    def _devices(self):
        """The names and aliases of all devices, as QEMU lists them: `name "igb", bus PCI, alias ...`."""
        command, environment = self.qemu()
        listed = subprocess.run([*command, "-device", "help"], env=environment, capture_output=True, text=True, check=True)
        return set(re.findall(r'(?:name|alias) ("[^"]+")', listed.stdout))


@functools.cache
def parts():
    """Everything unpacked; from the network the first time, later from the store."""
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if not shutil.which(tool):
            raise Unavailable(f"there is no {tool}: the guest is made of Debian's packages")
    STORE.mkdir(parents=True, exist_ok=True)
    # Test files run side by side: one makes the parts, the others wait for them.
    with open(STORE / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Parts(_made())


def _made():
    """The folder of the parts, made if there is none."""
    key = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]
    folder = STORE / f"parts-{key}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(prefix="making-", dir=STORE) as making:
            made = pathlib.Path(making) / "parts"
            made.mkdir()
            _make(pathlib.Path(making), made)
            made.rename(folder)
        for old in STORE.glob("parts-*"):
            if old != folder:
                shutil.rmtree(old)
    return folder


def _make(work, folder):
    apt = _Apt(work / "apt")
    kernel = apt.dependency("linux-image-amd64")
    debs = apt.download(work / "debs", [kernel, "busybox-static", *apt.missing_for("qemu-system-x86")])
    for deb in apt.download(work / "tools", apt.closure(ROCE_PACKAGES)):
        _unpack(deb, folder / "tools")
    (kernel_deb,) = [deb for deb in debs if deb.name.startswith("linux-image-")]
    busybox_deb = next(deb for deb in debs if deb.name.startswith("busybox-static"))
    _unpack(kernel_deb, work / "kernel")
    _unpack(busybox_deb, work / "busybox")
    for deb in debs:
        if deb not in (kernel_deb, busybox_deb):
            _unpack(deb, folder / "qemu")
    (image,) = (work / "kernel/boot").glob("vmlinuz-*")
    (folder / "vmlinux").write_bytes(_vmlinux(image.read_bytes()))
    shutil.copy(work / "busybox/bin/busybox", folder / "busybox")
    _keep_modules(work / "kernel", folder, {"modules.order": MODULES, "roce.order": ROCE_MODULES})


class _Apt:
    """apt with lists and cache of its own, so that nothing of the machine's changes, and no root is needed."""

    def __init__(self, folder):
        for part in ("lists/partial", "cache/archives/partial", "empty"):
            (folder / part).mkdir(parents=True)
        sources = folder / "sources.list"
        options = {
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": folder / "empty",
            "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
            "Acquire::Languages": "none",
            "APT::Install-Recommends": "false",
            "Debug::NoLocking": "true",
        }
        self._options = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        (folder / "status").touch()
        self._nothing_installed = ["-o", f"Dir::State::status={folder / 'status'}"]
        sources.write_text("".join(self._lines()))
        self._run("apt-get", "update")
        self._release = self._backports

    def _lines(self):
        """The machine's own Debian archives, and the backports of its release beside them."""
        asked = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"],
            capture_output=True,
            text=True,
        )
        archives = sorted({tuple(line.split()) for line in asked.stdout.splitlines() if len(line.split()) == 3})
        codename = re.search(r"^VERSION_CODENAME=(\S+)", pathlib.Path("/etc/os-release").read_text(), re.M)
        codename = codename[1] if codename else ""
        archives = [entry for entry in archives if entry[1].startswith(codename) and entry[2] == "main"]
        mains = [uri for uri, suite, _ in archives if suite == codename]
        if not mains:
            raise Unavailable("apt knows no archive of this Debian release (apt-get update?)")
        signed = f"[signed-by={KEYRING}]" if os.path.exists(KEYRING) else ""
        self._backports = BACKPORTS.get(codename)
        suites = [(uri, suite) for uri, suite, _ in archives]
        if self._backports:
            suites.append((mains[0], self._backports))
        return [f"deb {signed} {uri} {suite} main\n" for uri, suite in suites]

    def _run(self, program, *arguments, cwd=None):
        done = subprocess.run(
            [program, *self._options, *arguments],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=os.environ | {"LC_ALL": "C"},
        )
        if done.returncode != 0:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Unavailable(f"{program} {arguments[0]} failed: {lines[-1] if lines else 'no reason given'}")
        return done.stdout

    def dependency(self, package):
        """The package that a meta package stands for."""
        found = re.search(r"Depends: (\S+)", self._run("apt-cache", "depends", package))
        if not found:
            raise Unavailable(f"{package} depends on nothing")
        return found[1]

    def missing_for(self, package):
        """A package and what else it needs that is not installed here."""
        release = ["-t", self._release] if self._release else []
        planned = self._run("apt-get", *release, "install", "--simulate", "--reinstall", package)
        names = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", planned, re.M)
        return [f"{name}={version}" for name, version in names]

    def closure(self, packages):
        """Packages and all that they need, whatever is installed here."""
        nothing = self._nothing_installed
        planned = self._run("apt-get", *nothing, "install", "--simulate", *packages)
        names = re.findall(r"^Inst (\S+) \((\S+)", planned, re.M)
        return [f"{name}={version}" for name, version in names]

    def download(self, folder, packages):
        folder.mkdir()
        self._run("apt-get", "download", *packages, cwd=folder)
        return sorted(folder.glob("*.deb"))


def _unpack(deb, folder):
    subprocess.run(["dpkg-deb", "--extract", deb, folder], check=True, capture_output=True)


def _vmlinux(image):
    """The kernel inside a bzImage. Booted directly (PVH), it spares the emulator the decompression."""
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if payload[:6] == b"\xfd7zXZ\0":
        return lzma.LZMADecompressor().decompress(payload)
    if payload[:2] == b"\x1f\x8b":
        return zlib.decompress(payload, 31)
    raise Unavailable("the kernel is packed in a way that is not known here")


def _keep_modules(root, folder, orders):
    """Copies the modules that are needed, and writes in which order each guest loads its own: `orders` has files and modules' names."""
    (modules,) = (path for path in root.glob("**/lib/modules/*") if path.is_dir())
    by_name = {path.name.removesuffix(".ko").replace("-", "_"): path for path in modules.rglob("*.ko")}

    def add(name, order):
        path = by_name.get(name.replace("-", "_"))
        if path is None or path in order:
            return  # Built into the kernel, or known already.
        depends = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for other in depends[1].decode().split(",") if depends else []:
            if other:
                add(other, order)
        order.append(path)

    (folder / "modules").mkdir()
    for file, names in orders.items():
        order = []
        for name in names:
            add(name, order)
        for path in order:
            if not (folder / "modules" / path.name).exists():
                shutil.copy(path, folder / "modules" / path.name)
                if shutil.which("strip"):
                    subprocess.run(["strip", "--strip-debug", folder / "modules" / path.name], check=False, capture_output=True)
        (folder / file).write_text("".join(f"{path.name}\n" for path in order))
