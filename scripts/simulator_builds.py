"""Builds other simulators from sources that are at hand, in a folder of their own: the sources stay as they are."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path


class Wrong(Exception):
    """A mistake, with what to do."""


@dataclass(frozen=True)
class Peer:
    """A simulator."""

    name: str
    repository: str
    # Which variable names its sources.
    variable: str
    # The folder of the repository that is needed, and a file in it by which it is told.
    part: str
    told_by: str
    # Builds it in a folder that has the sources, and returns the program.
    build: object


def program(peer, path, folder):
    """The simulator's program, built in `folder` from the sources at `path` unless they are those it was built from."""
    sources, stamp, binary = folder / "sources", folder / "built-from", folder / "program"
    found = find(peer, Path(path).resolve())
    digest = found.digest()
    if stamp.is_file() and stamp.read_text() == digest and binary.exists():
        return binary.resolve()
    print(f"{peer.repository}: building it in {folder}, which takes minutes", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found.copy(sources)
    with open(folder / "build.log", "w") as log:
        try:
            built = peer.build(sources, folder, log)
        except (subprocess.CalledProcessError, OSError) as error:
            log.flush()
            tail = "".join(f"\n  {line}" for line in (folder / "build.log").read_text().splitlines()[-5:])
            raise Wrong(f"{peer.repository} does not build: {error}; see {folder / 'build.log'}, which ends with{tail}") from None
    binary.symlink_to(built)
    stamp.write_text(digest)
    return built


@dataclass(frozen=True)
class Folder:
    """Sources in a folder."""

    path: Path

    def files(self):
        inside = (Path(root) / name for root, _, names in os.walk(self.path) for name in names)
        return sorted(path for path in inside if path.suffix not in (".o", ".a", ".so") and path.is_file())

    def digest(self):
        sums = hashlib.sha256()
        for path in self.files():
            sums.update(f"{path.relative_to(self.path)}\n".encode())
            sums.update(hashlib.sha256(path.read_bytes()).digest())
        return sums.hexdigest()

    def copy(self, to):
        for path in self.files():
            copied = to / path.relative_to(self.path)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copied)


@dataclass(frozen=True)
class Bare:
    """Sources in a git repository that has no work tree."""

    path: Path
    part: str

    def git(self, *arguments, **options):
        return subprocess.run(["git", "-C", self.path, *arguments], check=True, stdout=subprocess.PIPE, **options).stdout

    def digest(self):
        return self.git("rev-parse", f"HEAD:{self.part}").decode().strip()

    def copy(self, to):
        to.mkdir()
        archive = self.git("archive", f"HEAD:{self.part}")
        subprocess.run(["tar", "--extract", "--directory", to], input=archive, check=True)


def find(peer, path):
    """The sources of a simulator at a path: of its repository, of the folder in it that is needed, or of a bare repository."""
    for folder in (path / peer.part, path):
        if (folder / peer.told_by).is_file():
            return Folder(folder)
    bare = Bare(path, peer.part)
    if (path / "HEAD").is_file() and shutil.which("git"):
        try:
            bare.git("cat-file", "-e", f"HEAD:{peer.part}/{peer.told_by}", stderr=subprocess.DEVNULL)
            return bare
        except subprocess.CalledProcessError:
            pass
    wanted = f"{peer.part}/{peer.told_by}"
    what = "has no" if path.exists() else "does not exist: there is no"
    raise Wrong(f"{peer.variable}: {path} {what} {wanted}; name a copy of github.com/{peer.repository}")


def compiler():
    found = shutil.which(os.environ.get("CXX", "g++"))
    if not found:
        raise Wrong("there is no C++ compiler (g++, or what CXX names)")
    return found


# The modules of ns-3 that the experiment needs.
MODULES = ("core", "network", "internet", "bridge", "mpi", "stats", "tools", "point-to-point", "applications")
# Sources for other systems, or for libraries that nothing here needs.
LEFT_OUT = re.compile(r"win32|cairo|int64x64-double\.cc|nsc-|sqlite|realtime|wall-clock-synchronizer")
# What its configuration finds on Linux.
CORE_CONFIG = "".join(
    f"#define {name} 1\n"
    for name in (
        "INT64X64_USE_128", "HAVE___UINT128_T", "HAVE_STDINT_H", "HAVE_INTTYPES_H", "HAVE_SYS_TYPES_H", "HAVE_STAT_H",
        "HAVE_SYS_STAT_H", "HAVE_DIRENT_H", "HAVE_STDLIB_H", "HAVE_GETENV", "HAVE_SIGNAL_H", "HAVE_PTHREAD_H",
    )
)  # fmt: skip


def build_hpcc(sources, folder, log):
    """By the lists of its build files, which want Python 2; optimised as by its profile "optimized", and as one program."""
    include, objects = folder / "include/ns3", folder / "objects"
    include.mkdir(parents=True)
    objects.mkdir()
    (include / "core-config.h").write_text(CORE_CONFIG)
    units = [sources / "scratch/third.cc"]
    for module in MODULES:
        listed = files_of(sources / "src" / module)
        units += [path for path in listed if path.suffix == ".cc"]
        headers = [path for path in listed if path.suffix == ".h"]
        for header in headers:
            shutil.copy2(header, include)
        names = "".join(f'#include "ns3/{header.name}"\n' for header in headers)
        (include / f"{module}-module.h").write_text(names)
    cxx = compiler()
    flags = ["-std=gnu++11", "-O3", "-march=native", "-fpermissive", "-w", f"-I{include.parent}"]

    def compile_one(number_and_unit):
        number, unit = number_and_unit
        made = objects / f"{number}-{unit.stem}.o"
        subprocess.run([cxx, *flags, "-c", unit, "-o", made], check=True, stdout=log, stderr=log)
        return made

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        made = list(pool.map(compile_one, enumerate(units)))
    third = folder / "third"
    subprocess.run([cxx, *made, "-o", third, "-pthread"], check=True, stdout=log, stderr=log)
    return third


def files_of(module):
    """The sources and headers that a module's build file lists."""
    text = "\n".join(line for line in (module / "wscript").read_text().splitlines() if not line.strip().startswith("#"))
    listed = re.findall(r"'((?:model|utils|helper)/[\w-]+\.(?:cc|h))'", text)
    paths = [module / name for name in dict.fromkeys(listed) if not LEFT_OUT.search(name)]
    return [path for path in paths if path.is_file()]


def build_htsim(sources, folder, log):
    """By its own makefiles, optimised as its library is."""
    # `make bench-simulators` does without built-in rules, which these makefiles need.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    make = ["make", f"-j{len(os.sched_getaffinity(0))}", f"CC={compiler()}", "CFLAGS=-std=c++17 -O3 -w"]
    for where, target in ((sources, "libhtsim.a"), (sources / "datacenter", "htsim_roce")):
        subprocess.run([*make, "-C", where, target], check=True, stdout=log, stderr=log, env=environment)
    return sources / "datacenter/htsim_roce"


HPCC = Peer("hpcc", "alibaba-edu/High-Precision-Congestion-Control", "WEIR_HPCC", "simulation", "scratch/third.cc", build_hpcc)
HTSIM = Peer("htsim", "Broadcom/csg-htsim", "WEIR_HTSIM", "sim", "datacenter/main_roce.cpp", build_htsim)
