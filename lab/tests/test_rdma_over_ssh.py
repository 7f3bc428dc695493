"""A machine that ssh reaches and that has RDMA: `weir testbed check` and `run` by the code that a lab's machines are reached by, with a guest
in their place, whose ssh server listens on a NIC of its own, out of the switch's sight."""

import json
import re
import socket
import subprocess

import pytest
from conftest import need, need_guest

from weirlab.guest import packages, roce
from weirlab.guest.emulator import Emulator
from weirlab.scenario import at_one_switch, flow, host
from weirlab.switch import Switch, weir_binary

pytestmark = pytest.mark.guest
PATIENCE_S = 200
MEMORY_MB = 192
MESSAGE, MESSAGES = 16_384, 16
SIZES = {"message": f"{MESSAGE}B", "total": f"{MESSAGE * MESSAGES}B"}
# Which of the bus: eth0 is the first.
NIC_SLOT, SSH_SLOT = 4, 5


class Machine(Emulator):
    """An RDMA host at a vhost-user socket, with a port of this machine that leads to its ssh server."""

    def __init__(self, nic, public_key):
        super().__init__(packages.parts())
        try:
            self.image = roce.build(self.parts)
            self.port = free_port()
            self._boot("pc", MEMORY_MB, "net.ifnames=0 weir.name=server weir.address=10.0.0.1/24", self._devices(nic))
            self._serve(public_key)
        except BaseException:
            self.close()
            raise

    def _devices(self, nic):
        devices = ["-object", f"memory-backend-memfd,id=mem,size={MEMORY_MB}M,share=on", "-numa", "node,memdev=mem"]
        devices += ["-chardev", f"socket,id=nic,path={nic},reconnect=1", "-netdev", "vhost-user,id=nic,chardev=nic"]
        rings = "rx_queue_size=1024,tx_queue_size=1024"
        devices += ["-device", f"virtio-net-pci,netdev=nic,addr={NIC_SLOT:#x},mac=02:00:00:00:00:77,romfile=,vectors=0,{rings}"]
        devices += ["-netdev", f"user,id=ssh,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"]
        return [*devices, "-device", f"virtio-net-pci,netdev=ssh,addr={SSH_SLOT:#x},romfile=,vectors=0"]

    def _serve(self, public_key):
        self.must_run("ip address add 10.0.2.15/24 dev eth1 && ip link set eth1 up && mkdir -p /etc/dropbear /root/.ssh")
        self.must_run(f"echo '{public_key}' > /root/.ssh/authorized_keys && chmod -R go-rwx /root")
        self.must_run("dropbear -R -E -p 22 2> /tmp/dropbear.log")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ssh_of(place, port):
    """A program in ssh's place that knows where the machine is, and takes its key for true."""
    config = place / "ssh_config"
    config.write_text(
        f"Host server\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {place}/key\n IdentitiesOnly yes\n"
        " StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n"
    )
    program = place / "ssh"
    program.write_text(f'#!/bin/sh\nexec ssh -F {config} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def machine(place):
    need_guest()
    need("ssh")
    need("ssh-keygen")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / "key"], check=True)
    # QEMU starts a guest when its NIC's other end is there; a switch that is none of the test's stands in for it meanwhile.
    stand_in = place / "stand-in.toml"
    port = f'[[ports]]\nname = "s"\nvhost_user = "{place}/s.sock"\nrate = "100Mbps"\n'
    stand_in.write_text(f'[switch]\nidle = "sleep"\n[lcores]\nlayout = "single"\n{port}[[ports]]\nname = "n"\nnull = {{}}\nrate = "1Mbps"\n')
    with Switch(stand_in) as switch, Machine(place / "s.sock", (place / "key.pub").read_text().strip()) as machine:
        assert switch.stop().code == 0
        yield machine


@pytest.fixture
def weir(machine, place, monkeypatch):
    monkeypatch.setenv("WEIR_SSH", str(ssh_of(place, machine.port)))
    file = place / "over-ssh.toml"
    server = host("S", '{ by = "ssh", to = "server", interface = "eth0" }').rstrip()
    file.write_text(
        at_one_switch("over-ssh", "2s")
        + f'{server}\nport_device = {{ vhost_user = "{place}/s.sock" }}\n'
        + host("E")
        + flow("in", "S", "E", **SIZES)
        + flow("out", "E", "S", perftest="ib_send_bw", **SIZES)
    )

    def run(*arguments):
        command = [weir_binary(), "testbed", *(file if word == "FILE" else word for word in arguments)]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE_S)

    return run


def test_rdma_of_a_machine_that_ssh_reaches(machine, weir, place):
    checked = weir("check", "--hosts", "FILE")
    said = checked.stdout + checked.stderr
    # Its virtio NIC has no PFC to be asked for: all else that RDMA needs is there.
    for what in ("reached by ssh", "RDMA device", "GID", "RDMA MTU", "programs", "address"):
        assert re.search(rf"^\s*S\s+ok\s+{what}\b", said, re.M), said
    lacking = machine.run("ip address del 10.0.0.1/24 dev eth0") and weir("check", "--hosts", "FILE")
    assert lacking.returncode == 1 and "ssh server ip address add 10.0.0.1/24 dev eth0" in lacking.stdout, lacking.stdout
    machine.must_run("ip address add 10.0.0.1/24 dev eth0")

    ran = weir("run", "FILE", "--backend", "hosts", "-o", place / "runs")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    directory = place / "runs" / "over-ssh"
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["failures"] == []
    for name, file in (("in", "in.client.txt"), ("out", "out.server.txt")):
        # Rates that a busy machine leaves may be 0.00 Gb/s.
        row = re.search(rf"^\s*{MESSAGE}\s+(\d+)\s+[\d.]+\s+[\d.]+", (directory / "hosts" / file).read_text(), re.M)
        assert row and int(row[1]) == MESSAGES
        (own,) = [of for of in summary["flows"] if of["name"] == name]
        # A guest that answers late is sent to again.
        assert own["bytes_sent"] >= own["bytes_received"] == MESSAGE * MESSAGES
    (server,) = summary["real_hosts"]
    assert server["backend"] == "ssh" and server["rdma"] == "rxe0" and server["has_nic_model"] is False
    counted = server["counters"]
    assert counted["rdma.sent_pkts"] >= MESSAGES * MESSAGE // 1024 and counted.get("rdma.rcvd_seq_err", 0) == 0
    # Nothing of it is left there.
    assert machine.run("pidof ib_write_bw ib_send_bw")[0] != 0
