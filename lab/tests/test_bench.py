"""`weir bench` on Linux interfaces: the generator finds the other end of a veth pair, and accounts for every frame."""

import json
import os
import signal
import subprocess

import pytest

from weirlab.switch import weir_binary

pytestmark = pytest.mark.root

CONFIG = """
[buffer]
size = "1MB"
[[ports]]
name = "left"
af_packet = "{left}"
rate = "1Gbps"
[[ports]]
name = "right"
af_packet = "{right}"
rate = "1Gbps"
"""
TIMEOUT_S = 300


def bench(namespace, folder, *arguments, left="sw-left", right="sw-right"):
    file = folder / "switch.toml"
    file.write_text(CONFIG.format(left=left, right=right))
    command = [weir_binary(), "bench", "rfc2544", str(file), "--from", "left", "--to", "right", *arguments]
    return subprocess.run(namespace.command(*command), capture_output=True, text=True, timeout=TIMEOUT_S)


def test_frames_between_veth_pairs_are_accounted_for(cables, tmp_path):
    here, _ = cables("netdev", ["left", "right"])
    results = tmp_path / "rfc2544.json"
    # A rate that a busy machine carries too, and trials that are over soon where it does not.
    options = ["--max-rate", "10Mbps", "--duration", "100ms", "--trials", "3", "--resolution", "20", "--bursts", "0"]
    done = bench(here, tmp_path, *options, "--frame-bytes", "64,1518", "--shares", "50", "--json", results)
    assert done.returncode == 0, done.stderr
    report = json.loads(results.read_text())
    assert [size["frame_bytes"] for size in report["sizes"]] == [64, 1518]
    # Frames that the kernel sends by itself may be among these.
    assert report["received"] >= report["sent"] > 0
    for size in report["sizes"]:
        for at in size["latency"]:
            assert at["through"]["count"] + at["untimed"] + at["lost"] == at["sent"] > 0
            assert (at["reordered"], at["duplicated"]) == (0, 0)


def test_an_interface_whose_other_end_is_not_known_wants_it_named(cables, tmp_path):
    here, _ = cables("netdev", ["left", "right"])
    done = bench(here, tmp_path, right="lo")
    assert done.returncode == 2 and not done.stdout, done.stderr
    assert "port right: what is cabled to lo is not known" in done.stderr
    assert "--to-device af_packet=eth1" in done.stderr


def test_ctrl_c_shows_what_is_finished_and_how_to_go_on(tmp_path):
    results = tmp_path / "idle.json"
    command = [weir_binary(), "bench", "idle", "--rounds", "1000", "--duration", "50ms", "--interval", "1ms", "--json", results]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "WEIR_LOG": "info"})
    try:
        # The second round has begun, so the first is finished.
        heard = iter(bench.stderr.readline, "")
        assert any("round 2 of 1000" in line for line in heard)
        bench.send_signal(signal.SIGINT)
        shown, said = bench.communicate(timeout=TIMEOUT_S)
    finally:
        bench.kill()
        bench.wait()
    assert bench.returncode == 1, said
    report = json.loads(results.read_text())
    interrupted = report["interrupted"]
    assert interrupted["planned"] == 1000 * len(report["modes"]) > interrupted["done"] > 0
    assert f"interrupted: {interrupted['done']} of {interrupted['planned']} measurements are finished" in said
    assert f"--rounds {interrupted['rounds_left']}" in said and interrupted["rounds_left"] <= 999
    assert "generator alone" in shown and report["modes"][0]["mode"] in shown
