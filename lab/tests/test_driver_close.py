"""What a driver returns from its close decides nothing: a run's summary, JSON and record are there, and its frames alone make it fail."""

import json
import subprocess

import pytest

from weirlab.switch import Switch, weir_binary

# Stands before DPDK's function, which is called all the same.
CLOSE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

int rte_eth_dev_close(uint16_t port)
{
	((int (*)(uint16_t))dlsym(RTLD_NEXT, "rte_eth_dev_close"))(port);
	return CLOSE_RETURNS;
}
"""
# Two ports joined by a ring inside the process, a device of DPDK's.
CABLE = """
[switch]
idle = "sleep"
[lcores]
layout = "single"
[[ports]]
name = "a"
ring = "cable"
rate = "10Gbps"
[[ports]]
name = "b"
ring = "cable"
rate = "10Gbps"
"""


@pytest.fixture
def closes_with(tmp_path, monkeypatch):
    """Has every driver's close return a number, in the programs that the test starts."""

    def set_up(number):
        library = tmp_path / "close.so"
        flags = ["-shared", "-fPIC", f"-DCLOSE_RETURNS=({number})"]
        subprocess.run(["cc", *flags, "-x", "c", "-", "-o", str(library)], input=CLOSE, text=True, check=True)
        monkeypatch.setenv("LD_PRELOAD", str(library))

    return set_up


# 1: callbacks removed, as ixgbe and i40e return it. -5: EIO.
@pytest.mark.parametrize("number", [1, -5])
def test_a_run_leaves_its_results_whatever_close_returns(closes_with, tmp_path, number):
    closes_with(number)
    file, record = tmp_path / "switch.toml", tmp_path / "record"
    file.write_text(CABLE)
    with Switch(file, arguments=["-o", str(record)]) as switch:
        finished = switch.stop()
    finished.check_sound()
    assert json.loads((record / "summary.json").read_text())["ports"], "the record is whole"
    assert ("close: Input/output error" in finished.stderr) == (number < 0), finished.stderr


@pytest.mark.parametrize("number", [1, -5])
def test_devices_are_tried_whatever_close_returns(closes_with, tmp_path, number):
    closes_with(number)
    file = tmp_path / "cable.toml"
    file.write_text(CABLE)
    done = subprocess.run([weir_binary(), "check", "--try", "--json", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fit"]
