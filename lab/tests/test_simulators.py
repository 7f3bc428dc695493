"""`scripts/beside-simulators`: a simulator is built from sources that stay as they are, and stands beside Weir in a table."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/beside-simulators"

# Leaves a run directory in place of Weir: 1,024 messages, and 16 million packet-hops.
WEIR = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
mkdir -p "$2/run"
echo '{"packet_hops": 16000000}' > "$2/run/speed.json"
(echo fct_us; seq 1024) > "$2/run/fct.csv"
"""
# Ends as htsim does when all messages are done.
PROGRAM = """#!/bin/sh
seq 1024 | sed 's/$/ finished at 1/'
"""
# By one of the rules that make has built in.
LIBRARY = "libhtsim.a: library\n\tcp library $@\n"
BUILDS = "htsim_roce: main_roce.cpp ../libhtsim.a\n\tcp main_roce.cpp $@ && chmod +x $@ && echo built >> ../../../builds\n"
# Writes what HPCC's simulator does of flow.txt in its folder: a line for each message, and one PAUSE with its RESUME.
THIRD = """#include <fstream>
#include "ns3/core-module.h"
int main(int, char** arguments) {
    std::ifstream flows("flow.txt");
    int count = 0;
    flows >> count;
    std::ofstream done("fct.txt"), pauses("pfc.txt");
    for (int n = 0; n < count; n++) done << "a b\\n";
    pauses << "off\\non\\n";
    return count != answer() || std::string(arguments[1]) != "config.txt";
}
"""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("WEIR_HPCC", "WEIR_HTSIM")}
# As in Weir's own make.
ENVIRONMENT["MAKEFLAGS"] = "r"
FAILS = "htsim_roce:\n\t@echo main_roce.cpp: no such class >&2; false\n"


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def sources(tmp_path):
    """Sources of a program that is built as htsim is."""
    folder = tmp_path / "csg-htsim"
    (folder / "sim/datacenter").mkdir(parents=True)
    (folder / "sim/Makefile").write_text(LIBRARY)
    (folder / "sim/library.sh").write_text("")
    (folder / "sim/datacenter/Makefile").write_text(BUILDS)
    (folder / "sim/datacenter/main_roce.cpp").write_text(PROGRAM)
    return folder


def run(tmp_path, *arguments, case="permutation"):
    weir = executable(tmp_path / "weir", WEIR)
    command = [sys.executable, SCRIPT, tmp_path / "peers", "--weir", weir, "--cases", case, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def builds(tmp_path):
    return (tmp_path / "peers/builds").read_text().count("built")


def test_a_simulator_is_built_once_and_compared(tmp_path, sources):
    before = contents(sources)
    for path in (sources, sources / "sim"):
        done = run(tmp_path, "--htsim", path)
        assert done.returncode == 0, done.stderr
        weir, htsim, ratios = done.stdout.splitlines()[1:]
        assert weir.startswith("permutation, 1,024 hosts, PFC  Weir ") and " 16.00 " in weir and weir.endswith(" 1,024")
        # 1,954 packets each way, over six links mostly.
        assert 18 < float(htsim.split()[2]) < 24.1 and htsim.endswith("1,024")
        assert "Weir takes" in ratios and "of the CPU time of htsim" in ratios
    assert builds(tmp_path) == 1, "not built once more"
    assert contents(sources) == before
    (sources / "sim/datacenter/main_roce.cpp").write_text(PROGRAM.replace("1024", "1023"))
    done = run(tmp_path, "--htsim", sources)
    assert builds(tmp_path) == 2, "sources that changed are built"
    # Packet-hops are not counted where a message is not done.
    assert done.stdout.splitlines()[2].split()[2] == "-" and done.stdout.splitlines()[2].endswith("1,023")


def test_a_bare_repository_serves_too(tmp_path, sources):
    def git(*arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)

    bare = tmp_path / "htsim.git"
    git("init", sources)
    git("-C", sources, "add", ".")
    git("-C", sources, "commit", "-m", "sources")
    git("clone", "--bare", sources, bare)
    done = run(tmp_path, "--htsim", bare)
    assert done.returncode == 0 and "of the CPU time of htsim" in done.stdout, done.stderr


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_hpccs_simulator_is_built_by_its_lists(tmp_path):
    simulation = tmp_path / "hpcc/simulation"
    (simulation / "scratch").mkdir(parents=True)
    for module in ("core", "network", "internet", "bridge", "mpi", "stats", "tools", "point-to-point", "applications"):
        (simulation / "src" / module).mkdir(parents=True)
        (simulation / "src" / module / "wscript").write_text("    # 'model/gone.cc',\n")
    core = simulation / "src/core"
    (core / "model").mkdir()
    (core / "wscript").write_text("'model/answer.cc',\n'model/answer.h',\n# 'model/broken.cc',\n")
    (core / "model/answer.h").write_text("int answer();\n")
    flows = flows_of_web_search(tmp_path)
    (core / "model/answer.cc").write_text(f'#include "ns3/answer.h"\nint answer() {{ return {len(flows)}; }}\n')
    (core / "model/broken.cc").write_text("#error not listed\n")
    (simulation / "scratch/third.cc").write_text(THIRD)
    before = contents(simulation)
    done = run(tmp_path, "--hpcc", tmp_path / "hpcc", case="web-search")
    assert done.returncode == 0, done.stderr
    _, simulator, ratios = done.stdout.splitlines()[1:]
    # Frames of 1,000 B and their acknowledgements on two or four links, a PAUSE and a RESUME.
    links = [2 if one // 8 == to // 8 else 4 for _, one, to, _ in flows]
    hops = 2 + sum(2 * -(-size // 1_000) * count for (_, _, _, size), count in zip(flows, links))
    assert f" {hops / 1e6:.2f} " in simulator and simulator.endswith(f" {len(flows):,}")
    assert "of the CPU time of HPCC's simulator" in ratios
    assert contents(simulation) == before


def flows_of_web_search(tmp_path):
    """What a run without the simulator writes for it: when in s, from, to, bytes."""
    assert run(tmp_path, case="web-search").returncode == 0
    lines = (tmp_path / "peers/web-search/flow.txt").read_text().splitlines()
    rows = [line.split() for line in lines[1:]]
    assert len(rows) == int(lines[0]) > 100
    return [(float(at), int(one), int(to), int(size)) for one, to, _, _, size, at in rows]


def test_a_path_without_sources_is_wrong_input(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        done = run(tmp_path, "--htsim", path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"WEIR_HTSIM: {path}" in done.stderr and "sim/datacenter/main_roce.cpp" in done.stderr
    assert not (tmp_path / "peers").exists()


def test_a_build_that_fails_is_told_with_its_last_lines(tmp_path, sources):
    (sources / "sim/datacenter/Makefile").write_text(FAILS)
    before = contents(sources)
    for _ in range(2):
        done = run(tmp_path, "--htsim", sources)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Broadcom/csg-htsim does not build" in done.stderr and "no such class" in done.stderr
    assert contents(sources) == before


def test_without_sources_recorded_figures_stand_in_their_place(tmp_path):
    for case, simulator, told in [
        ("permutation", "htsim", "WEIR_HTSIM names no folder with the sources of Broadcom/csg-htsim: recorded figures"),
        ("web-search", "HPCC's simulator", "WEIR_HPCC names no folder with the sources of alibaba-edu/"),
    ]:
        done = run(tmp_path, case=case)
        assert done.returncode == 0, done.stderr
        weir, recorded, note = done.stdout.splitlines()[1:]
        assert " Weir " in weir and f"{simulator}, recorded " in recorded and note.startswith(told)
        # CPU seconds, packet-hops, their ratio, and memory in MB.
        cpu_s, hops, rate, memory = (float(word) for word in recorded.split("recorded")[1].split()[:4])
        assert abs(hops / cpu_s - rate) < 0.01 and memory > 20
