"""NICs on a PCI bus behind an IOMMU, in a guest: every frame as it was sent, PFC both ways, links, crashes.

The guest's NICs are QEMU's. They write to memory by themselves through an emulated IOMMU, which stops what may not be
written, so a wrong address is seen here as on a server. What QEMU's models lack, a PAUSE engine of their own and receive
queues that overflow, can't be tried: their registers are read instead.
"""

import contextlib
import math
import time
import warnings

import pytest
from conftest import need_guest
from pfc import LONGEST, pfc

from weirlab.guest import machine
from weirlab.guest.switch import GuestSwitch
from weirlab.switch import weir_binary
from weirlab.waiting import until

# An emulator that crashes or loses its guest's timer is not what is tested here; one that does twice in the same test is a failure.
pytestmark = [pytest.mark.guest, pytest.mark.flaky(reruns=1, only_rerun=["EmulatorEnded"])]

NICS = [
    ("igb0", "igb", 4),
    ("igb1", "igb", 6),
    ("e1000e0", "e1000e", 8),
    ("e1000e1", "e1000e", 9),
    ("vmxnet0", "vmxnet3", 10),
    ("virtio0", "virtio-net-pci", 11),
    ("joined0", "e1000e", 12),
    ("joined1", "e1000e", 13),
]
# One cable between the two.
JOINED = [("joined0", "joined1")]
# 200 pages of 2 MiB.
HUGEPAGES = 200
JUMBO_MTU = 9_000
# Registers of 82576 and 82574 alike: the device's control register, and the NIC's own PAUSE in it.
CTRL, RFCE, TFCE = 0x0, 1 << 27, 1 << 28
# In it too: whether the link's speed is set by hand, and to what.
FRCSPD, SPEED, SPEED_100 = 1 << 11, 3 << 8, 1 << 8
ROCE_DSCP = 26

CONFIG = """
[switch]
idle = "sleep"
mtu = {mtu}
[lcores]
layout = "single"
[buffer]
size = "{buffer}"
cell_bytes = 208
headroom = "{headroom}"
policy = "static"
[buffer.static]
threshold = "60KB"
[classes]
preset = "roce"
"""


def config(guest, names, rates=(), mtu=JUMBO_MTU):
    """A switch on these NICs; a rate is 1 Gb/s where none is given. Headroom holds all that a test sends, since nobody says how
    soon a busy machine obeys."""
    text = CONFIG.format(buffer="2MB", headroom="500KB", mtu=mtu)
    rates = list(rates) + ["1Gbps"] * (len(names) - len(rates))
    for name, rate in zip(names, rates):
        text += f'[[ports]]\nname = "{name}"\npci = "{guest.address(name)}"\nrate = "{rate}"\n'
    return text


@pytest.fixture(scope="module")
def guests(binary):
    """A guest for all tests, and another one where an emulator came to its end."""
    need_guest()
    with contextlib.ExitStack() as stack:
        running = []

        def guest():
            if not (running and running[-1].alive()):
                if running:
                    warnings.warn(running[-1].last_words())
                running.append(stack.enter_context(machine.Machine(weir_binary(), NICS, JOINED)))
            return running[-1]

        yield guest


@pytest.fixture
def guest(guests):
    return guests()


@pytest.fixture
def nics(guest):
    """Binds NICs to a driver, with that many hugepages reserved; skips where the emulator lacks one."""

    def bound(names, driver="vfio-pci", hugepages=0):
        lacking = [name for name in names if name not in guest.nics]
        if lacking:
            pytest.skip(f"this emulator has no {', '.join(lacking)}")
        guest.bind(names, driver)
        for name in names:
            guest.set_link(name, True)
        guest.reserve_hugepages(hugepages)
        return [guest.cables.get(name) for name in names]

    yield bound
    if guest.alive():
        guest.reserve_hugepages(0)


def mac(number):
    return bytes([2, 0, 0, 0, 0, number])


def frame(destination, source, length, number=0, dscp=ROCE_DSCP, tags=b""):
    """A UDP frame of this length without FCS, whose every byte hangs on its number."""
    body = length - 14 - len(tags) - 20
    ip = bytes([0x45, dscp << 2]) + (20 + body).to_bytes(2) + bytes([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination])
    checksum = sum(int.from_bytes(ip[at : at + 2]) for at in range(0, 20, 2))
    checksum = 0xFFFF - (checksum % 0xFFFF)
    ip = ip[:10] + checksum.to_bytes(2) + ip[12:]
    udp = (4791).to_bytes(2) * 2 + body.to_bytes(2) + b"\0\0" + number.to_bytes(4)
    filler = bytes((number * 131 + at * 7) & 0xFF for at in range(256)) * (body // 256 + 1)
    return mac(destination) + mac(source) + tags + b"\x08\x00" + ip + (udp + filler)[:body]


def teach(cables, within=30):
    """Has the switch learn where everybody is: port n has station n + 1. Links may take their time to come up."""
    for number, cable in enumerate(cables):
        others = [other for other in cables if other is not cable]
        deadline = time.monotonic() + within
        while not all(other.wait_for(1, 0.3) for other in others):
            assert time.monotonic() < deadline, "an unknown address is flooded to every port"
            cable.send(frame(0xEE, number + 1, 60, dscp=0))
    # Frames still on their way have these addresses too.
    time.sleep(0.5)
    for cable in cables:
        cable.clear()


def check_identical(left, right, count, mtu=JUMBO_MTU, first=1, second=2, within=20.0):
    """`count` frames each way, of all lengths from 60 B to the MTU's, arrive byte for byte and in order."""
    longest = mtu + 18
    lengths = [60, 61, 64, 65, 1514, 1518, longest] + [60 + n * 1237 % (longest - 59) for n in range(count)]
    there, back = [], []
    for number, length in enumerate(lengths[:count]):
        there.append(frame(second, first, length, number, tags=bytes.fromhex("81006064") if length > mtu + 14 else b""))
        back.append(frame(first, second, length, number, tags=bytes.fromhex("81006064") if length > mtu + 14 else b""))
        left.send(there[-1])
        right.send(back[-1])
    for cable, sent in ((right, there), (left, back)):
        received = cable.wait_for(len(sent), within)
        wrong = [n for n, (is_, was) in enumerate(zip(received, sent)) if is_ != was]
        assert received == sent, f"{len(received)} of {len(sent)} frames arrived, changed: {wrong[:10]}"
        cable.clear()


def check_tags(left, right, mtu):
    """One tag, a service tag, and both, pass unchanged, in frames up to the full MTU."""
    for tags in (bytes.fromhex("81006064"), bytes.fromhex("88a86064"), bytes.fromhex("88a8606481000065")):
        for length in (200, 14 + len(tags) + mtu):
            sent = frame(2, 1, length, tags=tags)
            left.send(sent)
            assert right.wait_for(1) == [sent], f"tags {tags.hex()}, {length} B"
            right.clear()


def hold(receiver, sender):
    """Pauses class 3 of the switch's port to `receiver`: for 3.3 s at 10 Mb/s."""
    receiver.send(pfc({3: LONGEST}))
    # Once a frame behind it has come through, the switch in its guest has had the message.
    behind = frame(1, 2, 300)
    receiver.send(behind)
    assert sender.wait_for(1) == [behind]
    sender.clear()


def check_pauses(sender, receiver, count=200):
    """Class 3 stands still at a port: the switch pauses a sender, which obeys, and all frames arrive."""
    receiver.clear()
    sender.clear()
    frames = [frame(2, 1, 1_000, number) for number in range(count)]
    hold(receiver, sender)
    # More than the threshold.
    for data in frames[:100]:
        sender.send(data)
    until(lambda: sender.control, "the switch sent no PFC")
    receiver.send(pfc({3: 0}))
    for data in frames[100:]:
        sender.send_obeying(data, 3)
    received = receiver.wait_for(count, within=60)
    assert received == frames
    messages = [data for _, data in sender.control]
    assert len(messages) >= 2, "the switch sent no XON"
    for message in messages:
        assert (len(message), message[:6], message[12:18]) == (60, bytes.fromhex("0180c2000001"), bytes.fromhex("880801010008"))
        assert message[24:26] in (b"\xff\xff", b"\0\0")
    receiver.clear()


def check_obeys(sender, receiver, tries=5):
    """Class 3 stands from XOFF to XON and goes on then; class 0 goes on all the while.

    A guest that gets no CPU goes on late; one of several tries goes on before the pause's end, if XON ends it. Returns their number.
    """
    late = []
    while not late or late[-1] >= 3:
        assert len(late) < tries, f"class 3 waited for its pause's end, and not for XON: {late} s"
        late.append(resumes_after(sender, receiver))
    return len(late)


def resumes_after(sender, receiver):
    """Pauses class 3 for a second of 3.3; seconds until its first frame comes, without end if class 0 stands still meanwhile."""
    sent = 0
    receiver.clear()
    sender.clear()
    hold(receiver, sender)
    start = time.monotonic()
    while time.monotonic() < start + 1:
        for dscp in (ROCE_DSCP, 0):
            sender.send(frame(2, 1, 300, sent, dscp))
        sent += 1
        time.sleep(0.005)
    resume = time.monotonic()
    receiver.send(pfc({3: 0}))
    receiver.wait_for(2 * sent)
    arrived = {dscp: [(at, data) for at, data in receiver.frames if data[15] >> 2 == dscp] for dscp in (ROCE_DSCP, 0)}
    for dscp, frames in arrived.items():
        assert [data for _, data in frames] == [frame(2, 1, 300, number, dscp) for number in range(sent)]
    assert arrived[ROCE_DSCP][0][0] > resume, "class 3 went on while it was paused"
    if sum(at < resume for at, _ in arrived[0]) <= sent // 2:
        # Class 0 stood still too: the guest had no CPU.
        return math.inf
    receiver.clear()
    return arrived[ROCE_DSCP][0][0] - start


def check_flow_control_off(guest, names):
    """The emulator's 82574 switches PAUSE on by itself when its negotiation ends, whatever the driver asked for; the driver
    switches it off again as the switch asks for the link's state."""
    for name in names:
        until(
            lambda name=name: guest.register(name, CTRL) & (RFCE | TFCE) == 0,
            lambda name=name: f"{name} obeys or sends PAUSE by itself: CTRL {guest.register(name, CTRL):#x}",
        )


@pytest.mark.parametrize(
    "kind, hugepages, mtu",
    # Across the ends of ordinary pages QEMU's models send nothing, as a real NIC behind an IOMMU does.
    [("igb", 0, 1_500), ("e1000e", HUGEPAGES, JUMBO_MTU)],
    ids=["igb-ordinary-pages", "e1000e-hugepages"],
)
def test_behind_the_iommu(guest, nics, kind, hugepages, mtu):
    names = [f"{kind}0", f"{kind}1"]
    left, right = cables = nics(names, hugepages=hugepages)
    with GuestSwitch(guest, config(guest, names, mtu=mtu)) as switch:
        teach(cables)
        check_flow_control_off(guest, names)
        check_identical(left, right, 100, mtu)
        check_tags(left, right, mtu)
        for up in (False, True):
            seen = link_changes(switch, names[1], up)
            guest.set_link(names[1], up)
            until(lambda: link_changes(switch, names[1], up) > seen, switch.log)
        check_identical(left, right, 20, mtu)
        check_flow_control_off(guest, names)
        log = switch.log()
        switch.stop().check_sound()
    memory = "hugepages" if hugepages else "ordinary pages"
    assert f"memory in {memory}; devices reach it by virtual addresses" in log
    # Off, or on where the emulator's negotiation had ended a moment before: check_flow_control_off.
    for name in names:
        assert any("the device's own flow control" in line and f"port={name}" in line for line in log.splitlines()), log
    with GuestSwitch(guest, config(guest, names, ["1Gbps", "10Mbps"], 1_500)) as switch:
        teach(cables)
        check_pauses(left, right)
        tries = check_obeys(left, right)
        finished = switch.stop()
    finished.check_sound()
    assert finished.traffic_class(names[0], 3)["pauses_tx"] >= 1
    assert finished.traffic_class(names[1], 3)["xoff_rx"] == 1 + tries
    assert finished.traffic_class(names[1], 3)["paused_rx_us"] >= 1_000_000


def test_a_crashed_switch_starts_again(guest, nics):
    names = ["e1000e0", "e1000e1"]
    cables = nics(names)
    with GuestSwitch(guest, config(guest, names, mtu=1_500)) as switch:
        teach(cables)
        switch.kill()
        switch.start()
        teach(cables)
        check_identical(*cables, 20, 1_500)
        switch.stop().check_sound()


@pytest.mark.parametrize("other", ["vmxnet0", "virtio0"])
def test_ports_of_two_kinds(guest, nics, other):
    names = ["e1000e0", other]
    cables = nics(names, hugepages=HUGEPAGES)
    with GuestSwitch(guest, config(guest, names)) as switch:
        teach(cables)
        check_identical(*cables, 60)
        check_tags(*cables, JUMBO_MTU)
        switch.stop().check_sound()


@pytest.mark.parametrize("driver, eal", [("vfio-pci", ["--iova-mode=pa"]), ("uio_pci_generic", [])], ids=["vfio", "uio"])
def test_physical_addresses(guest, nics, driver, eal):
    names = ["e1000e0", "e1000e1"]
    cables = nics(names, driver, HUGEPAGES)
    with GuestSwitch(guest, config(guest, names), eal) as switch:
        teach(cables)
        check_identical(*cables, 60)
        assert "memory in hugepages; devices reach it by physical addresses" in switch.log()
        switch.stop().check_sound()


def test_a_port_without_a_rate_has_its_links(guest, nics):
    names = ["e1000e0", "e1000e1"]
    cables = nics(names, hugepages=HUGEPAGES)
    text = config(guest, names).replace('rate = "1Gbps"\n', "")
    with GuestSwitch(guest, text) as switch:
        teach(cables)
        check_identical(*cables, 20)
        assert switch.log().count("the port has its link's rate, 1Gbps") == 2, switch.log()
        # 33.6 ms, or less.
        cables[1].send(pfc({3: LONGEST}))
        control = guest.register(names[1], CTRL)
        for value, new, before in ((control & ~SPEED | FRCSPD | SPEED_100, "100Mbps", "1Gbps"), (control, "1Gbps", "100Mbps")):
            guest.set_register(names[1], CTRL, value)
            until(lambda told=f"the port has its link's new rate, {new} (was {before})": told in switch.log(), switch.log)
            if new == "100Mbps":
                # 336 ms.
                cables[1].send(pfc({3: LONGEST}))
                check_identical(*cables, 20)
        check_identical(*cables, 20)
        finished = switch.stop()
    finished.check_sound()
    assert finished.traffic_class(names[1], 3)["xoff_rx"] == 2
    paused = finished.traffic_class(names[1], 3)["paused_rx_us"]
    assert 300_000 <= paused <= 335_539 + 33_554 + 1, paused


def test_a_nic_that_is_taken_away_is_released(guest, nics):
    names = ["e1000e0", "e1000e1", "igb0"]
    cables = nics(names, hugepages=HUGEPAGES)
    away = guest.address("igb0")
    with GuestSwitch(guest, config(guest, names, mtu=1_500)) as switch:
        teach(cables)
        # It waits until who has the device has given it back.
        guest.must_run(f"( echo 1 > /sys/bus/pci/devices/{away}/remove; echo done > /tmp/removed ) & true")
        try:
            until(lambda: guest.run("cat /tmp/removed")[1].strip() == "done", switch.log)
        finally:
            guest.must_run("rm -f /tmp/removed; echo 1 > /sys/bus/pci/rescan")
        log = [line for line in switch.log().splitlines() if "port=igb0" in line]
        told = [n for n, line in enumerate(log) if f"{away}\" is taken away: frames for the port are dropped as port_down" in line]
        assert len(told) == 1, log
        assert any("is released" in line for line in log[told[0] :]), log
        # The link may be seen to go down before the removal is.
        assert [line for line in log if "link up" in line or "link down" in line][-1].count("link down") == 1, log
        events = guest.must_run("weir show events -p igb0")
        assert events.count("device_removed") == 1 and "link_down" in events, events
        # The others go on.
        check_identical(*cables[:2], 20, 1_500)
        finished = switch.stop()
    assert finished.code == 0, finished.stderr


def check_output(guest, text):
    guest.write("/root/check.toml", text)
    return guest.run("weir check check.toml 2>&1")


def test_check_tells_what_is_missing(guest, nics):
    names = ["e1000e0", "e1000e1"]
    text = config(guest, names)
    nics(names, "e1000e")
    code, output = check_output(guest, text)
    assert code == 3 and "belongs to the kernel's driver e1000e" in output, output
    assert f"dpdk-devbind.py --bind=vfio-pci {guest.address(names[0])}" in output
    nics(names, "uio_pci_generic")
    code, output = check_output(guest, text)
    assert code == 3 and "hugepages are needed" in output and "check.toml:" in output, output
    nics(names, "uio_pci_generic", HUGEPAGES)
    code, output = check_output(guest, text)
    assert code == 0 and "physical addresses, in hugepages" in output, output
    nics(names)
    code, output = check_output(guest, text)
    assert code == 0 and "IOMMU, in ordinary pages" in output and "receive descriptors cover" in output, output


def test_check_refuses_what_is_no_nic(guest, nics):
    names = ["e1000e0", "e1000e1"]
    nics(names)
    classes = guest.must_run("cd /sys/bus/pci/devices; grep -l 0x0c0500 */class || grep -l 0x060100 */class").split()
    other = classes[0].split("/")[0]
    code, output = check_output(guest, config(guest, names).replace(guest.address(names[1]), other))
    assert code == 3 and f"PCI device {other} is no NIC: its class is 0x0" in output, output
    assert "--bind" not in output, output


def test_locked_memory_and_files_are_checked_before_the_start(guest, nics):
    names = ["e1000e0", "e1000e1"]
    nics(names)
    guest.write("/root/limits.toml", config(guest, names))
    for command in ("check", "run"):
        code, output = guest.run(f"ulimit -n 20; weir {command} limits.toml 2>&1")
        assert code == 3 and "this process may have 20 (ulimit -n)" in output and "LimitNOFILE=" in output, output
    # A user without capabilities who has the groups' files, and the kernel's usual limit.
    guest.must_run("grep -q ^olga: /etc/passwd || echo olga:x:1000:1000::/tmp:/bin/sh >> /etc/passwd; cp /root/limits.toml /tmp; chmod 644 /tmp/limits.toml")
    for name in names:
        guest.must_run(f"chown 1000 /dev/vfio/$(basename $(readlink /sys/bus/pci/devices/{guest.address(name)}/iommu_group))")
    for command in ("check", "run", "doctor"):
        code, output = guest.run(f"ulimit -l 8192; su olga -c 'weir {command} /tmp/limits.toml 2>&1'")
        assert code == (1 if command == "doctor" else 3), output
        assert "this process may lock 8192 KiB (ulimit -l)" in output and "LimitMEMLOCK=infinity" in output, output


def test_without_hugepages_uio_is_refused(guest, nics):
    nics(["e1000e0", "e1000e1"], "uio_pci_generic")
    guest.write("/root/uio.toml", config(guest, ["e1000e0", "e1000e1"]))
    code, output = guest.run("weir run uio.toml 2>&1")
    assert code == 3 and "nr_hugepages" in output, output


# A guest without a CPU for longer than its NICs' rings last loses frames that its switch forwards.
@pytest.mark.flaky(reruns=2, only_rerun=["once a switch had forwarded them", "EmulatorEnded"])
def test_two_cabled_ports_are_tried(guest, nics):
    names = ["joined0", "joined1"]
    nics(names, hugepages=HUGEPAGES)
    guest.write("/root/try.toml", config(guest, names))
    code, output = guest.run("weir check --try try.toml 2>/tmp/try.log")
    assert code == 0, output + guest.must_run("cat /tmp/try.log")
    row = [cell.strip() for cell in output.splitlines()[-1].strip("|").split("|")]
    assert row[1:3] == ["net_e1000_em", "hugepages, virtual addresses"], row
    assert row[3:9] == ["up, 1000 Mb/s", "200 of 200", "802.1Q, 802.1ad, both", "yes / yes", "off", "no"], row
    guest.set_link("joined1", False)
    code, output = guest.run("weir check --try try.toml 2>/dev/null")
    assert code == 1 and "0 of 200" in output, output


def link_changes(switch, name, up):
    """How often the log tells of it."""
    text = f"link {'up' if up else 'down'}"
    return sum(text in line and f"port={name}" in line for line in switch.log().splitlines())
