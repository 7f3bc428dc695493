"""`weir vm`: guests that outlive the command that boots them, however that ends, and of which each `down` ends its own and nothing else."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import need_guest

from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until

pytestmark = pytest.mark.guest
# A guest that is emulated beside others takes its time.
BOOT_S = 330


@pytest.fixture
def ports(place, cleanup):
    """A switch with a vhost-user port for each of two guests, and its file."""
    need_guest()
    file = place / "switch.toml"
    guests = "".join(
        f'[[ports]]\nname = "{name}"\nvhost_user = "{place}/{name}.sock"\nnic = {{}}\nrate = "100Mbps"\n' for name in ("h0", "h1")
    )
    file.write_text(
        f'[switch]\nidle = "sleep"\n[lcores]\nlayout = "single"\n[buffer]\nsize = "2MB"\n[classes]\npreset = "roce"\n{guests}'
    )
    cleanup.enter_context(Switch(file, arguments=["--quiet"]))
    return file


@pytest.fixture
def fleets(place, cleanup):
    """Two folders of guests; whatever a test leaves in them is ended."""
    folders = [place / name for name in ("ours", "others")]
    for folder in folders:
        cleanup.callback(vm, "down", "--folder", folder)
    return folders


def vm(*arguments):
    return subprocess.run([weir_binary(), "vm", *map(str, arguments)], capture_output=True, text=True, timeout=BOOT_S)


def guests(folder):
    """Guests of a folder by their names, as they are listed."""
    listed = vm("list", "--json", "--folder", folder)
    assert listed.returncode == 0, listed.stderr
    return {guest["name"]: guest for guest in json.loads(listed.stdout)}


def processes(folder):
    """Who has the folder in its arguments, but for `weir vm` itself."""

    def arguments(process):
        try:
            return (process / "cmdline").read_bytes()
        except OSError:
            return b""

    known = [(process, arguments(process)) for process in Path("/proc").glob("[0-9]*")]
    return [int(process.name) for process, said in known if bytes(folder) + b"/" in said and b"qemu" in said.split(b"\0")[0]]


def test_guests_are_found_and_ended_whatever_became_of_who_booted_them(ports, fleets):
    ours, others = fleets
    up = ["up", ports, "--port"]
    with subprocess.Popen([weir_binary(), "vm", *map(str, up), "h0", "--folder", ours], stdout=subprocess.DEVNULL) as booting:
        until(lambda: guests(ours).get("h0", {}).get("process"), "a guest that boots")
        booting.send_signal(signal.SIGKILL)
    assert guests(ours)["h0"]["state"] == "boots"
    booted = vm(*up, "h1", "--folder", others)
    assert booted.returncode == 0 and re.search(r"^h1: up after [\d.]+ s, 10\.0\.0\.2/24$", booted.stdout, re.M), booted.stdout + booted.stderr
    until(lambda: guests(ours)["h0"]["state"] == "ready", lambda: guests(ours), BOOT_S)
    # It is as good as one whose command lived.
    again = vm(*up, "h0", "--folder", ours)
    assert again.returncode == 2 and "h0" in again.stderr, again.stderr
    failed = vm("run", "--folder", ours, "h0", "echo here; exit 7")
    assert (failed.returncode, failed.stdout) == (7, "here\n"), failed.stderr
    pinged = vm("run", "--folder", ours, "h0", "ping", "-c", "1", "-W", "10", "10.0.0.2")
    assert pinged.returncode == 0, pinged.stdout + pinged.stderr
    # A command in a guest whose `weir vm run` is killed ends with the next one by that shell.
    with subprocess.Popen([weir_binary(), "vm", "run", "--folder", ours, "h0", "echo begun; sleep 1234"], stdout=subprocess.PIPE) as left:
        assert left.stdout.readline() == b"begun\n"
        left.send_signal(signal.SIGKILL)
    gone = vm("run", "--folder", ours, "h0", "ps w | grep '[s]leep 1234'")
    assert gone.returncode == 1, gone.stdout

    ended, other = processes(ours), processes(others)
    assert len(ended) == len(other) == 1 and ended == [guests(ours)["h0"]["process"]]
    down = vm("down", "--folder", ours)
    assert down.returncode == 0 and down.stdout.startswith("ended h0 in"), down.stdout + down.stderr
    assert processes(ours) == [] and guests(ours) == {}
    assert processes(others) == other and vm("run", "--folder", others, "h1", "true").returncode == 0
    assert vm("down", "--folder", others).returncode == 0 and processes(others) == []
