"""`scripts/beside-simulators`: a simulator whose program is named stands with Weir in a table."""

import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/beside-simulators"

# Leaves a run directory in place of Weir: 1,024 messages, and 16 million packet-hops.
WEIR = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
mkdir -p "$2/run"
echo '{"packet_hops": 16000000}' > "$2/run/speed.json"
(echo released_us,fct_us; seq 1024 | sed 's/^/1,/') > "$2/run/fct.csv"
"""
# Ends as htsim does when all messages are done.
HTSIM = """#!/bin/sh
seq 1024 | sed 's/.*/Flow finished at & us/'
"""
# Writes the files of HPCC's simulator for flow.txt in its folder: a line for each message, and one PAUSE with its RESUME.
HPCC = """#!/bin/sh
[ "$1" = config.txt ] || exit 1
tail -n +2 flow.txt > fct.txt
printf 'off\\non\\n' > pfc.txt
"""
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("WEIR_HPCC", "WEIR_HTSIM", "WEIR_HTSIM_UEC")}


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def run(tmp_path, *arguments, case="permutation", environment=None):
    weir = executable(tmp_path / "weir", WEIR)
    command = [sys.executable, SCRIPT, tmp_path / "peers", "--weir", weir, "--cases", case, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT | (environment or {}))


def test_htsim_is_compared(tmp_path):
    program = executable(tmp_path / "htsim_roce", HTSIM)
    for done in (run(tmp_path, "--htsim", program), run(tmp_path, environment={"WEIR_HTSIM": str(program)})):
        assert done.returncode == 0, done.stderr
        weir, htsim, ratios = done.stdout.splitlines()[1:]
        assert weir.startswith("permutation, 1,024 hosts, PFC  Weir ") and " 16.00 " in weir
        assert weir.split()[-2:] == ["1,024", "1025"]
        # 1,954 packets each way, over six links mostly.
        assert 18 < float(htsim.split()[2]) < 24.1 and htsim.split()[-2:] == ["1,024", "1024"]
        assert "Weir takes" in ratios and "of the CPU time of htsim" in ratios


def test_packet_hops_are_not_counted_where_a_message_is_not_done(tmp_path):
    done = run(tmp_path, "--htsim", executable(tmp_path / "htsim_roce", HTSIM.replace("1024", "1023")))
    htsim = done.stdout.splitlines()[2]
    assert htsim.split()[2] == "-" and htsim.split()[-2] == "1,023"


def test_collectives_are_compared_with_both_transports(tmp_path):
    # Each of 32 ranks sends to 3 on its leaf and 28 on others, 256 packets and their acknowledgements, over 2 and 4 links.
    hops = {"all-to-all": 32 * (3 * 2 + 28 * 4) * 512, "ring": (24 * 2 + 8 * 4) * 62 * 512}
    for case, messages, triggers in [("all-to-all-spray", 992, 0), ("ring-spray", 1_984, 1_952)]:
        done = executable(tmp_path / "htsim", HTSIM.replace("1024", str(messages)))
        done = run(tmp_path, "--htsim", done, "--htsim-uec", done, case=case)
        assert done.returncode == 0, done.stderr
        weir, roce, uec, _, last = done.stdout.splitlines()[1:]
        kind = case.removesuffix("-spray")
        assert weir.startswith(f"{kind}, 32 ranks, round robin ")
        assert roce.split()[:3:2] == ["htsim_roce", f"{hops[kind] / 1e6:.2f}"] and roce.split()[-1] == str(messages)
        assert uec.split()[:3:2] == ["htsim_uec", "-"] and "of the CPU time of htsim_uec" in last
        lines = (tmp_path / "peers" / case / "collective.cm").read_text().splitlines()
        assert lines[:3] == ["Nodes 32", f"Connections {messages}", f"Triggers {triggers}"]
        waits = [line.split()[4] for line in lines if " trigger " in line]
        fired = [line.split()[-1] for line in lines if "send_done_trigger" in line]
        assert len(waits) == triggers and sorted(waits) == sorted(fired)


def test_hpccs_simulator_is_compared(tmp_path):
    done = run(tmp_path, "--hpcc", executable(tmp_path / "third", HPCC), case="web-search")
    assert done.returncode == 0, done.stderr
    _, simulator, ratios = done.stdout.splitlines()[1:]
    flows = flows_of_web_search(tmp_path)
    # Frames of 1,000 B and their acknowledgements on two or four links, a PAUSE and a RESUME.
    links = [2 if one // 8 == to // 8 else 4 for one, to, _ in flows]
    hops = 2 + sum(2 * -(-size // 1_000) * count for (_, _, size), count in zip(flows, links))
    assert f" {hops / 1e6:.2f} " in simulator and simulator.split()[-2] == f"{len(flows):,}"
    assert "of the CPU time of HPCC's simulator" in ratios


def flows_of_web_search(tmp_path):
    """The messages of the file that HPCC's simulator reads: from, to, bytes."""
    lines = (tmp_path / "peers/web-search/flow.txt").read_text().splitlines()
    rows = [line.split() for line in lines[1:]]
    assert len(rows) == int(lines[0]) > 100
    return [(int(one), int(to), int(size)) for one, to, _, _, size, _ in rows]


def test_a_path_without_a_program_is_wrong_input(tmp_path):
    sources = tmp_path / "main_roce.cpp"
    sources.write_text("")
    for path in (tmp_path, tmp_path / "nothing", sources):
        done = run(tmp_path, "--htsim", path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"WEIR_HTSIM: {path} is no program" in done.stderr and "datacenter/htsim_roce" in done.stderr
    assert not (tmp_path / "peers").exists()


def test_a_program_that_fails_is_named(tmp_path):
    done = run(tmp_path, "--htsim", executable(tmp_path / "htsim_roce", "#!/bin/sh\nexit 3\n"))
    assert done.returncode == 2 and "exit code 3" in done.stderr and "htsim.log" in done.stderr


def test_without_a_program_recorded_figures_stand_in_its_place(tmp_path):
    for case, simulator, note in [
        ("permutation", "htsim_roce", "WEIR_HTSIM does not name datacenter/htsim_roce of github.com/ultraethernet/uet-htsim: recorded figures"),
        ("web-search", "HPCC's simulator", "WEIR_HPCC does not name scratch/third of github.com/alibaba-edu/"),
    ]:
        done = run(tmp_path, case=case)
        assert done.returncode == 0, done.stderr
        weir, recorded, last = done.stdout.splitlines()[1:]
        assert " Weir " in weir and f"{simulator}, recorded " in recorded and last.startswith(note)
        # CPU seconds, packet-hops, their ratio, and memory in MB.
        cpu_s, hops, rate, memory = (float(word) for word in recorded.split("recorded")[1].split()[:4])
        assert abs(hops / cpu_s - rate) < 0.01 and memory > 20
