"""Hosts in network namespaces, cabled to the ports of a switch; ping and iperf3 between them."""

import contextlib
import json
import re
import subprocess

from weirlab import netns
from weirlab.switch import REPOSITORY, Switch

SCENARIOS = {2: REPOSITORY / "scenarios" / "lab-veth-2.toml", 4: REPOSITORY / "scenarios" / "lab-veth-4.toml"}
PAYLOAD_MTU = 1500


class Host:
    """A namespace with one interface, eth0, and an address."""

    def __init__(self, name, namespace, number):
        self.name, self.namespace, self.number = name, namespace, number
        self.address, self.address6 = f"10.99.0.{number + 1}", f"fd99::{number + 1}"

    def ping(self, other, count=5, size=56, ipv6=False):
        """Round trips in milliseconds of the first `count` requests; fewer than `count` where some were lost.

        Without a deadline ping waits for its last reply no longer than two round trips or its interval, and a reply that a busy machine
        keeps back counts as lost. With one it sends on until `count` are answered: replies to requests after the first `count` mean a loss.
        """
        family = "-6" if ipv6 else "-4"
        command = ["ping", family, "-n", "-c", str(count), "-i", "0.05", "-w", "5", "-s", str(size)]
        done = self.namespace.run(*command, other.address6 if ipv6 else other.address)
        replies = re.findall(r"icmp_seq=(\d+) .*time=([\d.]+) ms", done.stdout)
        return [float(ms) for number, ms in replies if int(number) <= count]

    def neighbours(self):
        """Addresses that ARP and neighbour discovery have found, to MAC addresses."""
        known = json.loads(self.namespace.ip("-json", "neighbour"))
        return {entry["dst"]: entry["lladdr"] for entry in known if "lladdr" in entry}

    def mac(self):
        return netns.mac_of(self.namespace, "eth0")


class Hosts:
    """`count` hosts, and the switch's ends of their cables in a namespace of its own, named as the scenarios have them."""

    def __init__(self, prefix, count):
        with contextlib.ExitStack() as stack:
            self.switch = stack.enter_context(netns.Namespace(f"{prefix}-sw"))
            self.switch.be_silent()
            self.hosts = []
            for number in range(count):
                name = f"h{number}"
                namespace = stack.enter_context(netns.Namespace(f"{prefix}-{name}"))
                self.hosts.append(Host(name, namespace, number))
                netns.veth((self.switch, f"weir-p{number}"), (namespace, "eth0"))
                namespace.ip("link", "set", "lo", "up")
                namespace.ip("address", "add", f"{self.hosts[-1].address}/24", "dev", "eth0")
                namespace.ip("address", "add", f"{self.hosts[-1].address6}/64", "dev", "eth0", "nodad")
            self._stack = stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def run_switch(self, **options):
        return Switch(SCENARIOS[len(self.hosts)], namespace=self.switch, **options)


class Iperf3Failed(Exception):
    """iperf3 could not connect or ended with an error."""


class Iperf3:
    """TCP from one host to another; several may run at once. Ended with the `with` block."""

    def __init__(self, client, server, seconds, port=5201, reverse=False, options=()):
        self.client, self.server, self.reverse = client, server, reverse
        listen = ["iperf3", "--server", "--one-off", "--port", str(port), "--forceflush"]
        self._server = subprocess.Popen(
            server.namespace.command(*listen), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._client = None
        for line in self._server.stdout:
            if "listening" in line:
                break
        command = ["iperf3", "--client", server.address, "--port", str(port), "--time", str(seconds), "--json", *options]
        if reverse:
            command.append("--reverse")
        self._client = subprocess.Popen(client.namespace.command(*command), stdout=subprocess.PIPE, text=True)
        self._timeout = seconds + 30

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self._client, self._server):
            if process and process.poll() is None:
                process.kill()
            if process:
                process.communicate()

    def result(self):
        """{"sender", "receiver", "gbps", "retransmits", "bytes"} of the finished transfer, as its receiver has it."""
        output, _ = self._client.communicate(timeout=self._timeout)
        told = json.loads(output)
        if "error" in told:
            raise Iperf3Failed(told["error"])
        end = told["end"]
        sender, receiver = (self.server, self.client) if self.reverse else (self.client, self.server)
        return {
            "sender": sender.name,
            "receiver": receiver.name,
            "gbps": end["sum_received"]["bits_per_second"] / 1e9,
            "retransmits": end["sum_sent"].get("retransmits", 0),
            "bytes": end["sum_received"]["bytes"],
        }
