"""The guest's file system: an archive that the kernel unpacks into memory."""

import os
import pathlib
import re
import stat
import subprocess
import tempfile

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /var/run /root /usr/bin /usr/sbin /sbin
/bin/busybox --install -s /bin
chmod 755 /; chmod 1777 /tmp; mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/hugepages; mount -t hugetlbfs none /dev/hugepages
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root
for module in $(cat /modules.order); do insmod "/modules/$module" || echo "insmod $module failed"; done
ip link set lo up
cd /root
# The agent's port opens only once. A shell of its own takes each command, so that `exit` ends none but itself.
exec 3<>/dev/vport0p1
exec sh <&3 >&3 2>&1
"""

# DPDK's libraries that are loaded by name: buses, and the drivers of the emulated NICs and of virtual ports.
PLUGINS = ["bus_pci", "bus_vdev", "mempool_ring", "net_e1000", "net_virtio", "net_vmxnet3", "net_ring", "net_null"]


def build(parts, target, weir=None, tools=()):
    """Writes the archive: busybox, modules, `weir` with DPDK's drivers if it is given, other programs, and all libraries."""
    with tempfile.TemporaryDirectory(prefix="weir-image-") as work:
        files = {"/init": Entry(INIT.encode(), 0o755), "/bin/busybox": Entry(parts.busybox, 0o755)}
        plugins = []
        if weir:
            slim = pathlib.Path(work) / "weir"
            # The whole command in one file, as whose `weir` the guest has it; it is emulated, and starts sooner without the other.
            weir = pathlib.Path(weir).with_name("weir-dpdk")
            subprocess.run(["strip", "-o", slim, weir], check=True)
            plugins = _plugins()
            files["/usr/bin/weir"] = Entry(slim, 0o755)
        files |= {f"/usr/bin/{pathlib.Path(tool).name}": Entry(pathlib.Path(tool).resolve(), 0o755) for tool in tools}
        for path in [*plugins, *_libraries([*([weir] if weir else []), *plugins, *tools])]:
            files |= {str(step): Entry(step, 0o755) for step in _chain(path)}
        archive(target, parts.modules, files)


def archive(target, modules, files):
    """Writes an archive of entries by their paths, with what every guest has besides: modules in their order, and a root user."""
    everything = {"/etc/passwd": Entry(b"root:x:0:0:root:/root:/bin/sh\n", 0o644)}
    everything["/modules.order"] = Entry("".join(f"{path.name}\n" for path in modules).encode(), 0o644)
    for module in modules:
        everything[f"/modules/{module.name}"] = Entry(module, 0o644)
    # Links stand in for the merged /lib of Debian.
    for name in ("lib", "lib64"):
        everything[f"/{name}"] = Entry(f"usr/{name}".encode(), link=True)
    moved = {_merged(name): entry for name, entry in (everything | files).items()}
    with open(target, "wb") as stream:
        _write(stream, moved)


class Entry:
    """A file's bytes or where they are, or a link's target."""

    def __init__(self, content, mode=0o644, link=False):
        if isinstance(content, pathlib.Path) and content.is_symlink() and not link:
            content, link = os.readlink(content).encode(), True
        self.content, self.mode = content, (stat.S_IFLNK | 0o777) if link else (stat.S_IFREG | mode)

    def bytes(self):
        return self.content if isinstance(self.content, bytes) else pathlib.Path(self.content).read_bytes()


def _merged(name):
    return re.sub(r"^/(lib|lib64)/", r"/usr/\1/", name)


def _plugins():
    """DPDK's drivers, as the system has them: in a folder that DPDK looks through at its start."""
    asked = subprocess.run(["pkg-config", "--variable=libdir", "libdpdk"], capture_output=True, text=True)
    folder = next(pathlib.Path(asked.stdout.strip()).glob("dpdk/pmds-*"))
    return [path for name in PLUGINS for path in folder.glob(f"librte_{name}.so.*")]


def _chain(path):
    """A file with the links that lead to it, each as it is: a plugin that is there twice would be loaded twice."""
    chain = [path]
    while path.is_symlink():
        path = pathlib.Path(os.path.normpath(path.parent / os.readlink(path)))
        chain.append(path)
    return chain


def _libraries(binaries):
    """Every shared library that the binaries need, the loader too."""
    libraries = set()
    for binary in binaries:
        listed = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout
        libraries |= {pathlib.Path(path) for path in re.findall(r"(?:=> |^\t)(/\S+)", listed, re.M)}
    # glibc loads it by name when a thread ends.
    libraries |= {path.parent / "libgcc_s.so.1" for path in libraries if (path.parent / "libgcc_s.so.1").exists()}
    return sorted(libraries)


def _write(archive, entries):
    """The kernel's own format: cpio, `newc`."""
    folders = {str(parent) for name in entries for parent in pathlib.PurePosixPath(name).parents} - {"/"}
    everything = [(name, stat.S_IFDIR | 0o755, b"") for name in sorted(folders - set(entries))]
    everything += [("/dev/console", None, b"")]
    everything += [(name, entry.mode, entry) for name, entry in entries.items()]
    inode = 0
    for name, mode, entry in everything:
        inode += 1
        data = entry if isinstance(entry, bytes) else entry.bytes()
        device = (5, 1) if mode is None else (0, 0)
        _member(archive, inode, name.lstrip("/"), stat.S_IFCHR | 0o600 if mode is None else mode, data, device)
    _member(archive, 0, "TRAILER!!!", 0, b"", (0, 0))


def _member(archive, inode, name, mode, data, device):
    fields = [inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    archive.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))
