"""Who may connect to the sockets that ports make, and which are refused."""

import grp
import os
import shutil
import socket
import stat
import subprocess
import sys

import pytest
from test_instances import check_refused, run

from weirlab.switch import Switch

CONFIG = """
[lcores]
layout = "single"
[buffer]
size = "1MB"
[[ports]]
name = "vm"
vhost_user = {{ socket = "{folder}/vm.sock"{access} }}
rate = "1Gbps"
[[ports]]
name = "memif"
memif = {{ socket = "{folder}/memif.sock"{access} }}
rate = "1Gbps"
"""
SOCKETS = {"vm.sock": socket.SOCK_STREAM, "memif.sock": socket.SOCK_SEQPACKET}
# Nobody's; of a number that no group has.
USER, GROUP, OTHER_GROUP = 65534, 64321, 64322


def config(place, access):
    file = place / "switch.toml"
    file.write_text(CONFIG.format(folder=place, access="".join(f', {key} = "{value}"' for key, value in access.items())))
    return file


def of(path):
    told = os.stat(path)
    assert stat.S_ISSOCK(told.st_mode)
    return stat.S_IMODE(told.st_mode), told.st_gid


def connects_as(path, kind, group):
    """Whether a user who is in this group alone may connect."""
    code = f"import socket; end = socket.socket(socket.AF_UNIX, {int(kind)}); end.connect({str(path)!r})"
    if kind == socket.SOCK_SEQPACKET:
        # memif's server speaks first; DPDK's panics where its client has gone before that.
        code += "; end.recv(4096)"
    command = ["setpriv", f"--reuid={USER}", f"--regid={group}", "--clear-groups", sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 or "PermissionError" in done.stderr, done.stderr
    return done.returncode == 0


def test_sockets_have_the_mode_that_the_file_gives(place):
    before = os.umask(0o022)
    try:
        with Switch(config(place, {"mode": "0622"})) as switch:
            assert [of(place / name)[0] for name in SOCKETS] == [0o622, 0o622]
            switch.stop().check_sound()
    finally:
        os.umask(before)


@pytest.mark.root
def test_a_group_may_connect_and_others_may_not(place):
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed (util-linux)")
    with Switch(config(place, {"group": GROUP})) as switch:
        for name, kind in SOCKETS.items():
            path = place / name
            assert of(path) == (0o660, GROUP)
            assert connects_as(path, kind, GROUP), name
            assert not connects_as(path, kind, OTHER_GROUP), name
        switch.stop().check_sound()
    with Switch(config(place, {"group": GROUP, "mode": "0600"})) as switch:
        for name, kind in SOCKETS.items():
            assert of(place / name) == (0o600, GROUP)
            assert not connects_as(place / name, kind, GROUP), name
        switch.stop()


def test_a_group_by_name(place):
    name = grp.getgrgid(os.getegid()).gr_name
    with Switch(config(place, {"group": name})) as switch:
        assert [of(place / path) for path in SOCKETS] == [(0o660, os.getegid())] * 2
        switch.stop()


@pytest.mark.parametrize("command", [["check"], ["run", "--duration", "1"]], ids=["check", "run"])
def test_what_can_not_be_is_refused(place, command):
    file = config(place, {"group": "no-such-group"})
    done = run(*command, file)
    text = " ".join(done.stderr.replace("|", " ").split())
    assert done.returncode == 3 and "no group no-such-group" in text and "getent group" in text, done.stderr
    assert f"{file.name}:8" in text and f"{file.name}:12" in text, done.stderr
    done = run(*command, config(place, {"mode": "rw"}))
    assert done.returncode == 2 and 'mode = "0660"' in done.stderr, done.stderr
    assert not any((place / name).exists() for name in SOCKETS)


def test_two_instances_do_not_share_a_guest(place):
    """Neither two that connect to a guest's socket, nor one that connects and one that listens."""
    ports = '[[ports]]\nname = "vm"\nvhost_user = {{ socket = "{0}/vm.sock"{1} }}\nrate = "1Gbps"\n'
    ports += '[[ports]]\nname = "other"\nnull = {{}}\nrate = "1Gbps"\n'
    files = {}
    for name, more in (("client", ", client = true"), ("server", "")):
        files[name] = place / f"{name}.switch.toml"
        files[name].write_text('[buffer]\nsize = "1MB"\n' + ports.format(place, more))
    with Switch(files["client"], arguments=["--quiet"]) as first:
        for file in files.values():
            check_refused(run("run", file, "--duration", "1"), first)
        assert not (place / "vm.sock").exists()
        first.stop()
    (place / "vm.sock").write_text("mine")
    done = run("check", files["client"])
    text = " ".join(done.stderr.replace("|", " ").split())
    assert done.returncode == 3 and "and it is no socket" in text, done.stderr
