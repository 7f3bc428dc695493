"""One device, one instance: a second one is refused, and a dead one leaves nothing in the way."""

import os
import subprocess

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
    file.write_text(f'[lcores]\nlayout = "single"\n[buffer]\nsize = "1MB"\n{ports}')
    return file, [directory / name for name in names]


def run(*arguments, namespace=None):
    command = [weir_binary(), *map(str, arguments)]
    command = namespace.command(*command) if namespace else command
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


def check_refused(done, first):
    text = " ".join(done.stderr.replace("|", " ").split())
    assert done.returncode == 2 and f"process {first.process.pid}" in text and "switch.toml:" in text, done.stderr


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
    assert done.returncode == 2 and "no socket" in " ".join(done.stderr.split()), done.stderr
    assert paths[0].read_text() == "mine"


@pytest.mark.root
def test_an_interface_has_one_instance_in_its_namespace(namespace, tmp_path):
    file = tmp_path / "switch.toml"
    ports = "".join(f'[[ports]]\nname = "p{n}"\naf_packet = "v{n}"\nrate = "1Gbps"\n' for n in range(2))
    file.write_text(f'[buffer]\nsize = "1MB"\n{ports}')
    here, there = namespace("one"), namespace("two")
    for place in (here, there):
        netns.veth((place, "v0"), (place, "v1"))
    with Switch(file, namespace=here, arguments=["--quiet"]) as first:
        check_refused(run("run", file, "--duration", "1", namespace=here), first)
        # Interfaces of the name in another namespace are others.
        assert run("check", file, namespace=there).returncode == 0
        first.stop()
