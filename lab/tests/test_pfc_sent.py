"""Ports whose PFC would never leave the NIC are refused before anything starts."""

import subprocess

import pytest

from weirlab.switch import weir_binary

pytestmark = pytest.mark.root

# In a mount namespace, the interface has a device of that driver; all else of its folder stays as it is.
WITH_DRIVER = """
set -e
folder=/sys/devices/virtual/net/$1
mkdir -p "$2/all" "$2/folder/device" "$2/drivers/$3"
mount --bind "$folder" "$2/all"
for file in "$2/all"/*; do ln -s "$file" "$2/folder/$(basename "$file")"; done
ln -s "$2/drivers/$3" "$2/folder/device/driver"
mount --bind "$2/folder" "$folder"
shift 3
exec "$@"
"""
SWITCH = """
[classes]
lossless = [{lossless}]
[buffer]
headroom = "100KB"
[[ports]]
name = "p0"
af_packet = "sw-p0"
rate = "1Gbps"
{more}
[[ports]]
name = "p1"
af_packet = "sw-p1"
rate = "1Gbps"
"""


@pytest.fixture
def weir_on(cables, tmp_path):
    """Runs `weir` where the interface of port p0 has a driver."""
    here, _ = cables("sends", ["p0", "p1"])

    def run(driver, *arguments, lossless="3", more=""):
        file = tmp_path / "switch.toml"
        file.write_text(SWITCH.format(lossless=lossless, more=more))
        place = tmp_path / f"sys-{len(list(tmp_path.iterdir()))}"
        inside = ["unshare", "-m", "sh", "-c", WITH_DRIVER, "sh", "sw-p0", str(place), driver]
        command = here.command(*inside, weir_binary(), *arguments, str(file))
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("driver", ["i40e", "ice"])
@pytest.mark.parametrize("command", [("check",), ("run", "--duration", "1s")])
def test_a_lossless_port_that_can_not_pause_its_peer_is_refused(weir_on, driver, command):
    done = weir_on(driver, *command)
    told = done.stdout + done.stderr
    assert done.returncode in (2, 3), told
    assert f"PFC will not be sent: the {driver} driver" in told and "switch.toml:8" in told, told
    assert "device_flow_control = { sends = true }" in told, told


@pytest.mark.parametrize(
    "driver, settings",
    [
        ("ice", {"more": "device_flow_control = { sends = true }"}),
        ("ice", {"more": 'flow_control = "none"'}),
        ("ice", {"lossless": ""}),
        ("igb", {}),
    ],
    ids=["overridden", "no flow control", "no lossless class", "a driver that sends it"],
)
def test_other_ports_are_not(weir_on, driver, settings):
    done = weir_on(driver, "run", "--duration", "1s", **settings)
    assert done.returncode == 0, done.stdout + done.stderr
