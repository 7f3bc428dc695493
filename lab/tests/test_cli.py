"""The command itself: wrong input is told with its line and what to write instead, and nothing is started or left."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from conftest import need
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader, wrpcap

from weirlab.switch import REPOSITORY, Switch, check_balance, weir_binary
from weirlab.waiting import until

NOBODY = 65534
TIMEOUT_S = 60

PORTS = """
[[ports]]
name = "a"
null = {}
rate = "1Gbps"
[[ports]]
name = "b"
null = {}
rate = "1Gbps"
"""
SMALL = '[buffer]\nsize = "1MB"\n' + PORTS


def weir(*arguments, cwd, user=None):
    command = [weir_binary(), *map(str, arguments)]
    if user:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S)


def check_no_panic(done):
    for word in ("panicked", "RUST_BACKTRACE", "stack backtrace", "SIGSEGV"):
        assert word not in done.stdout + done.stderr, done.stderr


# The file's fault, what the message must say, and the line that it must point at.
WRONG = {
    "malformed": ("[buffer\nsize = 1", ["expected `]`"], 1),
    "unknown key": ('[switch]\nnaem = "x"\n' + PORTS, ["naem", "[switch]", "name"], 2),
    "unknown table": ("[swich]\n" + PORTS, ["swich"], 1),
    "wrong unit": ('[buffer]\nsize = "12 parsecs"\n' + PORTS, ["12 parsecs", "MB"], 2),
    "time as size": ('[buffer]\nsize = "12us"\n' + PORTS, ["12us"], 2),
    "rate without unit": (PORTS.replace('"1Gbps"', '"1"', 1), ["rate"], 5),
    "wrong type": ("[switch]\nmtu = true\n" + PORTS, ["mtu"], 2),
    "segments that do not fit": ('[buffer]\nsize = "1KB"\n' + PORTS, ["size", "private", "headroom"], 2),
    "threshold that does not fit": (
        '[buffer]\nsize = "1MB"\npolicy = "static"\n[buffer.static]\nthreshold = "2MB"\n' + PORTS,
        ["threshold", "2MB"],
        5,
    ),
    "table of another policy": ('[buffer]\npolicy = "dt"\n[buffer.sih]\nalpha = 1\n' + PORTS, ["sih"], 3),
    "unknown interface": (PORTS.replace("null = {}", 'af_packet = "nosuch0"', 1), ["no network interface nosuch0"], 4),
    "missing PCI device": (PORTS.replace("null = {}", 'pci = "ffff:1f:1f.7"', 1), ["no PCI device ffff:1f:1f.7", "dpdk-devbind"], 4),
    "missing capture": (PORTS.replace("null = {}", 'pcap = { rx = "no.pcap" }', 1), ["no.pcap can't be read"], 4),
    "a device twice": (PORTS.replace("null = {}", 'tap = "t0"'), ["t0", "two ports", "again"], 8),
    "a name twice": (PORTS.replace('"b"', '"a"'), ["again"], 7),
    "a core twice": ("[lcores]\nlayout = 'rx-tx'\ncores = [0, 0]\n" + PORTS, ["core 0", "twice"], 3),
    "no such core": ("[lcores]\ncores = [1023]\n" + PORTS, ["no CPU 1023", "may use CPUs"], 2),
    "one port": (PORTS[: PORTS.index("[[ports]]", 5)], ["2"], None),
    "a ring with one end": (PORTS.replace("null = {}", 'ring = "r"', 1), ["one end only"], 4),
}
# Files that are right, and name what is not here.
NOT_HERE = {"unknown interface", "missing PCI device", "missing capture", "no such core"}


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_configuration(tmp_path, case, command):
    text, said, line = WRONG[case]
    (tmp_path / "switch.toml").write_text(text)
    done = weir(command, "switch.toml", cwd=tmp_path)
    check_no_panic(done)
    assert done.returncode == (3 if case in NOT_HERE else 2), done.stderr
    # Long lines are broken wherever they are full.
    message = " ".join(done.stderr.replace("|", " ").split())
    assert all(word in message for word in said), done.stderr
    assert "help:" in done.stderr
    if line:
        places = [word for word in done.stderr.split() if "switch.toml:" in word]
        assert any(f"switch.toml:{line}:" in place for place in places), done.stderr
    assert os.listdir(tmp_path) == ["switch.toml"], "nothing is left"


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    (tmp_path / "one.toml").write_text('[switch]\nfoo = 1\nbar = 2\n' + PORTS)
    (tmp_path / "two.toml").write_text('[switch]\nbaz = 3\n' + PORTS)
    done = weir("check", "one.toml", "two.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert all(word in done.stderr for word in ("foo", "bar", "baz", "one.toml:2", "one.toml:3", "two.toml:2")), done.stderr


@pytest.mark.parametrize("files", [["nosuch.toml"], ["."], []], ids=["missing", "directory", "none"])
def test_no_such_file(tmp_path, files):
    done = weir("run", *files, cwd=tmp_path)
    check_no_panic(done)
    assert done.returncode == 2, done.stderr


@pytest.mark.parametrize(
    "eal", [["--no-such-option"], ["--vdev=net_nosuch0"], ["-l", "0"], ["stray"]], ids=["option", "vdev", "lcores", "word"]
)
def test_wrong_eal_arguments(tmp_path, eal):
    (tmp_path / "switch.toml").write_text(SMALL)
    done = weir("run", "switch.toml", "--quiet", "--duration", "1", "--", *eal, cwd=tmp_path)
    check_no_panic(done)
    if eal == ["stray"]:
        # EAL leaves what is no option to the program.
        assert done.returncode in (0, 1, 2)
        return
    assert done.returncode == 2, done.stderr
    assert eal[0] in done.stderr and "DPDK" in done.stderr
    assert os.listdir(tmp_path) == ["switch.toml"]


def test_a_summary_that_cannot_be_written_is_told_before_the_start(tmp_path):
    (tmp_path / "switch.toml").write_text(SMALL)
    done = weir("run", "switch.toml", "--json", "no/such/directory.json", cwd=tmp_path)
    check_no_panic(done)
    assert done.returncode == 2
    assert "no/such/directory.json" in done.stderr and "forwarding" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_run_with_a_summary(tmp_path, number):
    (tmp_path / "switch.toml").write_text(SMALL)
    with Switch(tmp_path / "switch.toml") as switch:
        # One each second, and later where the machine has no CPU for the switch.
        until(lambda: switch.has_printed("kpps"), "a line of rates")
        finished = switch.stop(number)
    check_no_panic(finished)
    finished.check_sound()
    assert finished.switch["name"] == "switch"
    assert finished.summary["ran_for_s"] > 1
    balance = finished.switch["frame_conservation"]
    assert balance["sent"] > 0
    # The summary as people read it.
    assert f"sent {balance['sent']:,} + dropped {balance['dropped']:,} + held 0" in finished.stdout


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2])
def test_a_signal_while_starting_ends_it_too(tmp_path, after_s):
    (tmp_path / "switch.toml").write_text(SMALL)
    command = [weir_binary(), "run", "--quiet", "switch.toml"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(after_s)
    process.terminate()
    _, stderr = process.communicate(timeout=TIMEOUT_S)
    # Before it listens to signals, the signal's own way.
    assert process.returncode in (0, -signal.SIGTERM), stderr
    assert os.listdir(tmp_path) == ["switch.toml"]


def test_quiet_and_duration(tmp_path):
    (tmp_path / "switch.toml").write_text(SMALL)
    started = time.monotonic()
    done = weir("run", "switch.toml", "--quiet", "--duration", "2", "--json", "s.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started >= 2
    assert "kpps" not in done.stdout
    check_balance(json.loads((tmp_path / "s.json").read_text())["switches"][0])


def two_switches(directory):
    """Frames go from a capture file into one switch, over a ring to another, and into a second capture file."""
    frames = [
        bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x88B5) / n.to_bytes(4, "big")).ljust(60, b"\0")
        for n in range(500)
    ]
    wrpcap(str(directory / "in.pcap"), [Ether(frame) for frame in frames])
    for name, own in (("left", 'rx = "in.pcap"'), ("right", 'tx = "out.pcap"')):
        (directory / f"{name}.toml").write_text(
            f'[buffer]\nsize = "1MB"\n[[ports]]\nname = "capture"\npcap = {{ {own} }}\nrate = "1Gbps"\n'
            f'[[ports]]\nname = "trunk"\nring = "trunk"\nrate = "1Gbps"\n'
        )
    return frames


def check_two_switches(directory, done, frames):
    assert done.returncode == 0, done.stderr
    with RawPcapReader(str(directory / "out.pcap")) as capture:
        assert [frame for frame, _ in capture] == frames
    left, right = json.loads((directory / "summary.json").read_text())["switches"]
    assert (left["name"], right["name"]) == ("left", "right")
    for switch in (left, right):
        check_balance(switch)
        assert switch["frame_conservation"]["sent"] == len(frames)


TWO = ["run", "left.toml", "right.toml", "--quiet", "--control", "none", "--duration", "1", "--json", "summary.json"]


def test_two_switches_joined_by_a_ring(tmp_path):
    frames = two_switches(tmp_path)
    check_two_switches(tmp_path, weir(*TWO, cwd=tmp_path), frames)


def test_an_ordinary_user_may_run_pcap_ring_and_null_ports():
    """Only where root can turn into another user; else all of this file runs as one."""
    if os.geteuid() != 0:
        pytest.skip("this user is no root: the whole file has shown it")
    need("setpriv")
    with tempfile.TemporaryDirectory(prefix="weir-user-") as name:
        directory = pathlib.Path(name)
        frames = two_switches(directory)
        (directory / "null.toml").write_text(SMALL)
        shutil.chown(directory, NOBODY, NOBODY)
        check_two_switches(directory, weir(*TWO, cwd=directory, user=NOBODY), frames)
        done = weir("run", "null.toml", "--quiet", "--duration", "1", "--control", "none", cwd=directory, user=NOBODY)
        assert done.returncode == 0, done.stderr
        (directory / "tap.toml").write_text(PORTS.replace("null = {}", 'tap = "weir-no"', 1))
        done = weir("run", "tap.toml", cwd=directory, user=NOBODY)
        assert done.returncode == 3 and "CAP_NET_ADMIN" in done.stderr and "tap.toml:4" in done.stderr, done.stderr


def test_check_tells_what_follows(tmp_path):
    text = '[buffer]\nsize = "2MB"\nheadroom = "50KB"\nprivate = "1KB"\n[buffer.dt]\nalpha = 1\n' + PORTS
    (tmp_path / "switch.toml").write_text(text)
    done = weir("check", "switch.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # 2 ports x 8 classes x 1 KB, 2 ports x 2 lossless classes x 50 KB, the rest; DT with alpha 1 leaves one queue half of it.
    for number in ("2,000,000", "16,000", "200,000", "1,784,000", "892,000"):
        assert number in done.stdout, done.stdout


def test_tables_and_log_as_json(tmp_path):
    (tmp_path / "switch.toml").write_text(SMALL)
    done = weir("check", "--json", "switch.toml", cwd=tmp_path)
    checked = json.loads(done.stdout)
    assert done.returncode == 0 and checked["machine"]["lacks"] == [], done.stderr
    switch = checked["switches"][0]
    buffer = switch["buffer"]
    parts = [buffer[f"{part}_bytes"] for part in ("private", "headroom", "shared")]
    assert buffer["size_bytes"] == sum(parts) == 1_000_000 and [port["rate_bps"] for port in switch["ports"]] == [10**9] * 2
    (tmp_path / "other.toml").write_text(PORTS.replace("null = {}", 'af_packet = "nosuch0"', 1))
    done = weir("check", "--json", "other.toml", cwd=tmp_path)
    lacks = json.loads(done.stdout)["machine"]["lacks"]
    assert done.returncode == 3 and [(lack["line"], "nosuch0" in lack["message"]) for lack in lacks] == [(4, True)], done.stdout
    done = weir("run", "switch.toml", "--duration", "500ms", "--json", "-", "--log-format", "json", cwd=tmp_path)
    assert done.returncode == 0
    check_balance(json.loads(done.stdout)["switches"][0])
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert any(line["message"].startswith("forwarding") and line["level"] == "INFO" for line in lines), done.stderr
    assert any(line.get("port") == "a" and line["switch"] == "switch" for line in lines), done.stderr


def test_a_supervisor_hears_of_start_life_and_end(tmp_path):
    """The protocol of sd_notify(3). scripts/deb-test has systemd itself at the other end."""
    (tmp_path / "switch.toml").write_text(SMALL)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(TIMEOUT_S)
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        command = [weir_binary(), "run", "--quiet", "--control", "none", "switch.toml"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            assert supervisor.recv(1000).decode() == "READY=1\nSTATUS=forwarding between 2 ports (switch)"
            for _ in range(3):
                assert supervisor.recv(1000) == b"WATCHDOG=1"
        finally:
            process.terminate()
            _, stderr = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, stderr
        said = [supervisor.recv(1000)]
        while said[-1] == b"WATCHDOG=1":
            said.append(supervisor.recv(1000))
        assert said[-1].startswith(b"STOPPING=1"), said


@pytest.mark.parametrize("scenario", sorted(path.name for path in (REPOSITORY / "scenarios").glob("*.toml")))
def test_scenarios_are_read(tmp_path, scenario):
    """A scenario names interfaces, NICs and cores that are not here; nothing else may be wrong with it."""
    done = weir("check", REPOSITORY / "scenarios" / scenario, cwd=tmp_path)
    check_no_panic(done)
    if done.returncode == 0:
        return
    text = (REPOSITORY / "scenarios" / scenario).read_text()
    if "[[switches]]" in text or "[topology]" in text:
        assert f"weir testbed run {REPOSITORY / 'scenarios' / scenario}" in done.stderr, done.stderr
        assert done.returncode == 2
        return
    assert done.returncode == 3 and "nothing is wrong with the configuration" in done.stdout, done.stderr
    elsewhere = weir("check", "--files-only", REPOSITORY / "scenarios" / scenario, cwd=tmp_path)
    assert elsewhere.returncode == 0 and "CPU" not in elsewhere.stdout, elsewhere.stderr
    messages = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
    missing_here = ("there is no network interface", "there is no PCI device", "there is no CPU", "PCI device", "ring ", "af_packet ports need")
    assert messages and all(message.startswith(missing_here) for message in messages), done.stderr
