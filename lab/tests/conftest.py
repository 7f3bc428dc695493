"""What all wire tests share: who may run what, and namespaces that never stay behind."""

import collections
import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

from weirlab import emulated_nic, machine, netns, switch
from weirlab.guest import packages
from weirlab.wire import Wire

# How often a test that is marked as one for an idle machine is repeated before it fails.
REPEATED = 2
BEFORE = pytest.StashKey()
WATCH = machine.Watch()
ROOT_TOOLS = ["ip", "ethtool", "sysctl"]


def pytest_configure(config):
    # A test run that is ended still removes its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))


def pytest_collection_modifyitems(items):
    # The longest begin first, and the others fill the time: with workers side by side (-n) a file's tests stay together.
    tests = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: ("guest" not in item.keywords, -tests[item.path], item.path))
    reason = why_no_namespaces()
    for item in items:
        if reason and "root" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=reason))
        if "idle_machine" in item.keywords:
            item.add_marker(pytest.mark.flaky(reruns=REPEATED))
        elif not item.get_closest_marker("flaky"):
            # What others kept from the CPU for half a minute has its chance once more, and what ran while the machine stood still; what
            # is wrong is not repeated.
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=["TimeoutExpired", machine.StoodStill]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.stash[BEFORE] = machine.read()
    WATCH.begin()
    return (yield)


def blaming():
    try:
        return (yield)
    except Exception as failure:
        WATCH.blame(failure)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    return (yield from blaming())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    return (yield from blaming())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A marked test that fails says what the machine took."""
    report = yield
    if call.excinfo and "idle_machine" in item.keywords:
        report.sections.append(("the machine", machine.taken(item.stash[BEFORE], machine.read())))
    return report


def why_no_namespaces():
    if os.geteuid() != 0:
        return "needs root: it makes network namespaces and veth pairs"
    missing = [tool for tool in ROOT_TOOLS if not shutil.which(tool)]
    return f"missing here: {', '.join(missing)}" if missing else None


@pytest.fixture(scope="session", autouse=True)
def binary():
    """The command under test is there."""
    path = switch.weir_binary()
    assert os.access(path, os.X_OK), f"there is no {path}; build it with: cargo build --release -p weir"
    return path


@pytest.fixture
def cleanup():
    """A stack of what is to be undone when the test ends, however it ends."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def place(cleanup):
    """A directory that all may enter, as those of pytest are not, and short as sockets' paths must be."""
    directory = pathlib.Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="weir-")))
    directory.chmod(0o755)
    return directory


@pytest.fixture
def namespace(cleanup):
    """Makes namespaces of unique names, gone with the test."""
    made = []

    def make(role):
        name = f"weir-{os.getpid()}-{role}"
        made.append(cleanup.enter_context(netns.Namespace(name)))
        return made[-1]

    return make


@pytest.fixture
def cables(namespace, cleanup):
    """Makes a silent namespace with a veth pair for each port, `sw-PORT` to `host-PORT`, and a wire on each host's end."""

    def lay(role, ports):
        here = namespace(role)
        here.be_silent()
        for port in ports:
            netns.veth((here, f"sw-{port}"), (here, f"host-{port}"))
        return here, {port: cleanup.enter_context(Wire(here, f"host-{port}")) for port in ports}

    return lay


@pytest.fixture
def emulated_nics(place, cleanup):
    """Makes emulated NICs; skips where they can't be had, with the reason."""

    def make(*nics, **options):
        if reason := emulated_nic.why_not():
            pytest.skip(reason)
        return cleanup.enter_context(emulated_nic.EmulatedNics(place, list(nics), **options))

    return make


@pytest.fixture
def wired_nics(emulated_nics, namespace, cleanup):
    """Makes two emulated NICs of a kind, or those that are given, in a silent namespace, and a host's wire at each."""

    def make(kind="82599", *nics, mutant=None):
        if not os.path.exists("/dev/net/tun"):
            pytest.skip("there is no /dev/net/tun")
        here = namespace("nics")
        here.be_silent()
        made = emulated_nics(*(nics or [emulated_nic.Nic(kind), emulated_nic.Nic(kind)]), namespace=here, mutant=mutant)
        return made, [cleanup.enter_context(Wire(here, nic.tap)) for nic in made]

    return make


def need_guest():
    """Skips where a guest cannot be had, with the reason."""
    try:
        packages.parts()
    except packages.Unavailable as reason:
        pytest.skip(f"no guest: {reason}")


def need(tool):
    """Skips the test where a program of the set-up is missing."""
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed; make setup installs it")
