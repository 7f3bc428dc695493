"""One device, one instance: a second one is refused, and a dead one leaves nothing in the way."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from weirlab import netns
from weirlab.switch import Switch, weir_binary

TIMEOUT_S = 60


def sockets(directory):
    names = ["a.sock", "b.sock", "c.sock"]
    file = directory / "switch.toml"
    kinds = ['vhost_user = "{}"', 'vhost_user = "{}"', 'memif = {{ socket = "{}" }}']
    ports = "".join(
        f'[[ports]]\nname = "p{n}"\n{kind.format(directory / name)}\nrate = "1Gbps"\n'
        for n, (kind, name) in enumerate(zip(kinds, names))
    )
    file.write_text(f'[switch]\nidle = "sleep"\n[lcores]\nlayout = "single"\n[buffer]\nsize = "1MB"\n{ports}')
    return file, [directory / name for name in names]


def run(*arguments, namespace=None):
    command = [weir_binary(), *map(str, arguments)]
    command = namespace.command(*command) if namespace else command
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


def run_as(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


def check_refused(done, first):
    text = " ".join(done.stderr.replace("|", " ").split())
    assert done.returncode == 3 and f"process {first.process.pid}" in text and "switch.toml:" in text, done.stderr


def test_a_second_instance_is_refused_and_leaves_the_firsts_sockets(tmp_path):
    file, paths = sockets(tmp_path)
    with Switch(file) as first:
        before = [os.stat(path).st_ino for path in paths]
        check_refused(run("run", file, "--duration", "1"), first)
        check_refused(run("check", file), first)
        assert [os.stat(path).st_ino for path in paths] == before
        first.stop().check_sound()


def test_sockets_that_a_dead_instance_left_are_removed_at_once(tmp_path):
    file, paths = sockets(tmp_path)
    with Switch(file) as first:
        first.process.kill()
        first.process.wait()
    assert all(path.exists() for path in paths)
    told = run("check", file)
    assert told.returncode == 0 and all(f"{path} is left by" in told.stdout for path in paths), told.stderr
    with Switch(file) as again:
        again.stop().check_sound()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    file, paths = sockets(tmp_path)
    paths[0].write_text("mine")
    done = run("run", file, "--duration", "1")
    assert done.returncode == 3 and "no socket" in " ".join(done.stderr.split()), done.stderr
    assert paths[0].read_text() == "mine"


def as_nobody(*command):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, and setpriv of util-linux, to be another user")
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *map(str, command)]


def everybodys():
    """A directory of its own for sockets that every user may reach and make."""
    shared = tempfile.mkdtemp(prefix="weir-users-")
    os.chmod(shared, 0o777)
    return pathlib.Path(shared)


def test_root_and_another_user_exclude_each_other(cleanup):
    shared = everybodys()
    cleanup.callback(shutil.rmtree, shared, ignore_errors=True)
    file, _ = sockets(shared)
    file.chmod(0o644)
    users_check = as_nobody(weir_binary(), "check", file)
    with Switch(file) as first:
        check_refused(run_as(users_check), first)
        first.stop().check_sound()
    # What root's instance locked is nobody's now.
    assert run_as(users_check).returncode == 0, run_as(users_check).stderr
    users = subprocess.Popen(as_nobody(weir_binary(), "run", file, "--quiet", "--control", "none"), stderr=subprocess.PIPE, text=True)
    try:
        for line in users.stderr:
            if "forwarding" in line:
                break
        else:
            pytest.skip("DPDK does not start as another user here")
        told = run("check", file)
        text = " ".join(told.stderr.replace("|", " ").split())
        assert told.returncode == 3 and f"process {users.pid}" in text, told.stderr
        # However it ends.
        users.kill()
        users.wait(TIMEOUT_S)
        done = run("run", file, "--duration", "1", "--quiet")
        assert done.returncode == 0, done.stderr
    finally:
        users.kill()
        users.communicate()


def test_a_lock_that_can_not_be_had_is_told_with_what_to_do(cleanup, tmp_path):
    file, paths = sockets(tmp_path)
    name = f"/run/lock/weir-socket-{str(paths[0]).replace('/', '%2f')}.lock"
    if not os.path.isdir("/run/lock"):
        pytest.skip("locks are elsewhere here")
    os.symlink("/etc/hostname", name)
    cleanup.callback(os.unlink, name)
    done = run("run", file, "--duration", "1")
    text = "".join(done.stderr.replace("|", " ").split())
    assert done.returncode == 3 and f"rm-r{name}" in text, done.stderr


@pytest.mark.root
def test_whatever_opens_devices_takes_their_locks(namespace, tmp_path):
    here = namespace("all")
    for n in range(2):
        netns.veth((here, f"v{n}"), (here, f"w{n}"))
    ports = "".join(f'[[ports]]\nname = "p{n}"\naf_packet = "v{n}"\nrate = "1Gbps"\n' for n in range(2))
    file = tmp_path / "switch.toml"
    file.write_text(f'[switch]\nidle = "sleep"\n[buffer]\nsize = "1MB"\n{ports}')
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        '[scenario]\nend = "1ms"\ntime_dilation = 1\n[switch.port]\nrate = "1Gbps"\n[[switches]]\nname = "S"\n'
        '[[hosts]]\nname = "H1"\nport = "S.p1"\nport_device = { af_packet = "w0" }\ndevice = { af_packet = "v0" }\n'
        '[[hosts]]\nname = "H2"\nport = "S.p2"\n[[flows]]\nfrom = "H1"\nto = "H2"\nclass = 3\ntotal = "10KB"\n'
    )
    with Switch(file, namespace=here, arguments=["--quiet"]) as first:
        check_refused(run("check", "--try", file, namespace=here), first)
        output = tmp_path / "runs"
        done = run("testbed", "run", scenario, "--backend", "dpdk", "-o", output, namespace=here)
        assert done.returncode == 3 and f"process {first.process.pid}" in " ".join(done.stderr.split()), done.stderr
        assert not output.exists(), "nothing is left behind"
        first.stop()
    done = run("testbed", "run", scenario, "--backend", "dpdk", "-o", tmp_path / "then", namespace=here)
    assert done.returncode in (0, 1) and "process" not in done.stderr, done.stderr


@pytest.mark.root
def test_an_interface_has_one_instance_in_its_namespace(namespace, tmp_path):
    file = tmp_path / "switch.toml"
    ports = "".join(f'[[ports]]\nname = "p{n}"\naf_packet = "v{n}"\nrate = "1Gbps"\n' for n in range(2))
    file.write_text(f'[switch]\nidle = "sleep"\n[buffer]\nsize = "1MB"\n{ports}')
    here, there = namespace("one"), namespace("two")
    for place in (here, there):
        netns.veth((place, "v0"), (place, "v1"))
    with Switch(file, namespace=here, arguments=["--quiet"]) as first:
        check_refused(run("run", file, "--duration", "1", namespace=here), first)
        # Interfaces of the name in another namespace are others.
        assert run("check", file, namespace=there).returncode == 0
        first.stop()
