"""Network namespaces and veth pairs that go away with the `with` block that made them."""

import contextlib
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000


def ip(*arguments):
    """Runs `ip`; what it complains of is in the exception."""
    command = ["ip", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Namespace:
    """A network namespace. Deleting it deletes every interface in it."""

    def __init__(self, name):
        self.name = name
        ip("netns", "add", name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()

    def delete(self):
        ip("netns", "delete", self.name)

    def command(self, *command):
        """The command line that runs `command` in here; `ip` replaces itself, so the process keeps its id."""
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, *command, **options):
        """Runs a command in here to its end."""
        return subprocess.run(self.command(*command), capture_output=True, text=True, **options)

    def must_run(self, *command):
        done = self.run(*command)
        if done.returncode != 0:
            raise OSError(f"in {self.name}: {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def ip(self, *arguments):
        return ip("-netns", self.name, *arguments)

    def be_silent(self):
        """No IPv6 of its own: interfaces made from now on send nothing unasked."""
        self.must_run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is in here for the block: sockets made in it stay in here."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
            try:
                _setns(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                _setns(home)
        finally:
            os.close(home)


def veth(left, right):
    """Joins two interfaces, each given as (namespace, name), and brings them up as wires: no offloads."""
    (left_ns, left_name), (right_ns, right_name) = left, right
    left_ns.ip("link", "add", left_name, "type", "veth", "peer", "name", right_name, "netns", right_ns.name)
    for namespace, name in (left, right):
        # Offloads make frames that no wire carries: without checksums, or longer than the MTU.
        namespace.must_run("ethtool", "-K", name, "rx", "off", "tx", "off", "gso", "off", "gro", "off", "tso", "off")
        namespace.ip("link", "set", name, "up")


def mac_of(namespace, interface):
    return namespace.must_run("cat", f"/sys/class/net/{interface}/address").strip()


_libc = ctypes.CDLL(None, use_errno=True)


def _setns(descriptor):
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")
