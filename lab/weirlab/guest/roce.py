"""An RDMA host's image: Soft-RoCE, perftest, iperf3 and their tools, all of Debian's packages.

As a program it makes what is missing in a store, and prints as JSON where all of it is: `python3 -m weirguest.roce STORE`.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

if __name__ == "__main__":
    # Before `packages` looks for it.
    os.environ["WEIR_GUEST_DIR"] = sys.argv[1]

from . import image, packages

# By their paths below the tools' root.
BINARIES = [
    "bin/dash", "bin/ip", "bin/ss", "sbin/tc", "sbin/bridge", "sbin/dcb", "sbin/ethtool", "usr/bin/rdma", "usr/bin/nstat",
    "usr/bin/iperf3", "usr/bin/tcpdump", "usr/bin/rping", "usr/bin/ibv_devinfo", "usr/bin/ibv_devices", "usr/bin/ibv_rc_pingpong",
    "usr/sbin/dropbear",
    *(f"usr/bin/ib_{verb}_{what}" for verb in ("write", "send", "read") for what in ("bw", "lat")),
]  # fmt: skip
# What a library loads by name.
PLUGINS = ["libibverbs/librxe-rdmav*.so"]
LOADER = "lib64/ld-linux-x86-64.so.2"
PYTHON, PYTHON_PATH = "usr/bin/python3", "usr/lib/python3/dist-packages"
# The program of ranks; and what lists the modules that it loads by their paths below a root, each with its compiled file, which an emulated
# guest loads sooner.
RANK = pathlib.Path(__file__).with_name("rank.py")
LIST_MODULES = """
import runpy, sys
program, root, folder = sys.argv[1:]
runpy.run_path(program, run_name="listed")
files = {getattr(module, "__file__", None) or "" for module in sys.modules.values()}
import py_compile
for number, file in enumerate(sorted(file for file in files if file.startswith(root))):
    compiled = f"{folder}/{number}"
    if file.endswith(".py"):
        py_compile.compile(file, compiled, file[len(root):], doraise=True)
        print(f"{file[len(root):]}c {compiled}")
    else:
        print(f"{file[len(root):]} {file}")
"""

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run/agent /tmp /var/run /root /usr/bin /usr/sbin /sbin
/bin/busybox --install -s /bin
# Not of busybox: its shell would run its own `ip`.
ln -sf /usr/bin/dash /bin/sh
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mkdir -p /dev/shm; mount -t tmpfs none /dev/shm; chmod 755 /; chmod 1777 /tmp /dev/shm
exec /bin/sh /setup
"""

SETUP = """
name=host address= mtu=1500 queues=1 rings= accept=
for word in $(cat /proc/cmdline); do
  case $word in weir.*=*) word=${word#weir.}; eval "${word%%=*}='${word#*=}'";; esac
done
hostname "$name"
[ -z "$accept" ] || { echo "weir: it boots"; poweroff -f; }
for module in $(cat /modules.order); do insmod "/modules/$module" || echo "insmod $module failed"; done
ip link set lo up
# No frames that nobody asked for.
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
# Marks are of use only where ends agree to heed them.
sysctl -qw net.ipv4.tcp_ecn=1
n=0; until [ -e /sys/class/net/eth0 ] || [ $n = 100 ]; do sleep 0.1; n=$((n+1)); done
# A switch must see whole frames of a length that wires carry.
ethtool -K eth0 rx off tx off sg off tso off gso off gro off > /dev/null 2>&1
[ "$queues" = 1 ] || ethtool -L eth0 combined "$queues"
# Each class by its own ring, so that one that is held back holds no other: the ring of what has no other, and DSCP:RING.
if [ -n "$rings" ]; then
  tc qdisc add dev eth0 clsact
  for ring in $(echo "$rings" | tr , ' '); do
    case $ring in
      *:*) tc filter add dev eth0 egress prio 1 protocol ip flower ip_tos $((${ring%:*} * 4))/0xfc action skbedit queue_mapping ${ring#*:};;
      *) tc filter add dev eth0 egress prio 2 matchall action skbedit queue_mapping "$ring";;
    esac
  done
fi
ip link set eth0 mtu "$mtu" up
[ -z "$address" ] || ip address add "$address" dev eth0
rdma link add rxe0 type rxe netdev eth0
ulimit -l unlimited
cd /root
# Each port takes commands one after the other; the first is for whoever ends what another runs. A port whose other end nobody holds has
# nothing to read, and can't be waited for. What passes the time between looks is the read of a terminal of nobody's, which ends after
# 0.3 s: a `sleep` for each look of each port would take a quarter of an emulated guest's CPU, and all that it has on a busy machine.
for port in /dev/vport*p*; do
  (
    exec 3<>"$port" 4<"/dev/tty${port##*p}"
    stty -icanon min 0 time 3 <&4
    while :; do
      if IFS= read -r line <&3; then { printf '%s\\n' "$line"; cat <&3; } | sh >&3 2>&1 4<&-; fi
      read -r _ <&4
    done
  ) &
done
echo "weir: ready after $(cut -d' ' -f1 /proc/uptime) s"
while :; do wait; sleep 1; done
"""


def build(parts):
    """The archive for these parts, made if there is none."""
    sources = [pathlib.Path(__file__), pathlib.Path(image.__file__), RANK]
    key = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    target = parts.folder / f"roce-{key}.cpio"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(prefix="making-", dir=parts.folder) as making:
        made = pathlib.Path(making) / "image"
        image.archive(made, parts.roce_modules, _files(parts.tools, pathlib.Path(making)) | {
            "/init": image.Entry(INIT.encode(), 0o755),
            "/setup": image.Entry(SETUP.encode(), 0o644),
            "/bin/busybox": image.Entry(parts.busybox, 0o755),
        })  # fmt: skip
        made.rename(target)
    for old in parts.folder.glob("roce-*.cpio"):
        if old != target:
            old.unlink()
    return target


def _files(root, making):
    """The tools with all libraries that they need, by their paths in the guest. What is compiled goes to a folder."""
    tools = [root / name for name in [*BINARIES, PYTHON]]
    folders = [folder for folder in (root / "lib/x86_64-linux-gnu", root / "usr/lib/x86_64-linux-gnu") if folder.is_dir()]
    plugins = [path for pattern in PLUGINS for folder in folders for path in folder.glob(pattern)]
    drivers = list((root / "etc/libibverbs.d").glob("rxe.driver"))
    files = {f"/usr/bin/{tool.name}": image.Entry(tool.resolve(), 0o755) for tool in tools}
    files |= {f"/{path.relative_to(root)}": image.Entry(path.resolve(), 0o755) for path in [*plugins, *drivers]}
    files["/rank.py"] = image.Entry(RANK.read_bytes(), 0o644)
    modules = _python_modules(root, folders, making)
    files |= {name: image.Entry(path, 0o644) for name, path in modules.items()}
    loaded = [path for name, path in modules.items() if name.endswith(".so")]
    for name, path in _libraries(root, folders, [*tools, *plugins, *loaded]).items():
        # Debian's interpreter has all of that library itself.
        is_python = path.name.startswith("libpython")
        files[name] = image.Entry(b"libc.so.6", link=True) if is_python else image.Entry(path, 0o755)
    return files


def _python_modules(root, folders, making):
    """The modules that the program of ranks loads, by their paths in the guest: the root's own interpreter says so."""
    command = [root / LOADER, "--library-path", ":".join(map(str, folders)), root / PYTHON, "-SB", "-c", LIST_MODULES, RANK, root, making]
    environment = os.environ | {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": str(root / PYTHON_PATH)}
    listed = subprocess.run(command, env=environment, capture_output=True, text=True)
    if listed.returncode != 0:
        raise packages.Unavailable(f"{RANK.name}: {listed.stderr.strip()}")
    return {name: pathlib.Path(path) for name, path in map(str.split, listed.stdout.splitlines())}


def _libraries(root, folders, binaries):
    """The libraries of the root that the binaries need, as its own loader finds them, by their paths in the guest."""
    loader = root / LOADER
    path = ":".join(str(folder) for folder in folders)
    found = {f"/{LOADER}": loader.resolve()}
    for binary in binaries:
        listed = subprocess.run([loader, "--library-path", path, "--list", binary], capture_output=True, text=True)
        missing = re.findall(r"^\s*(\S+) => not found", listed.stdout, re.M)
        if listed.returncode != 0 or missing:
            raise packages.Unavailable(f"{binary.name} needs {', '.join(missing) or listed.stderr.strip()}")
        for library in re.findall(r"=> (/\S+)", listed.stdout):
            library = pathlib.Path(library)
            found[f"/usr/lib/x86_64-linux-gnu/{library.name}"] = library.resolve()
    # glibc loads it by name when a thread ends.
    found |= {f"/usr/lib/x86_64-linux-gnu/{path.name}": path.resolve() for folder in folders for path in folder.glob("libgcc_s.so.1")}
    return found


def main():
    try:
        parts = packages.parts()
        initrd = build(parts)
    except (packages.Unavailable, OSError, subprocess.SubprocessError) as reason:
        sys.exit(f"{reason}")
    command, environment = parts.qemu()
    own = {name: environment[name] for name in ("LD_LIBRARY_PATH", "QEMU_MODULE_DIR")}
    print(json.dumps({"kernel": str(parts.kernel), "initrd": str(initrd), "qemu": command, "environment": own}))


if __name__ == "__main__":
    main()
