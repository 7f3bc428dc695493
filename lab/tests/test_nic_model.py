"""A NIC in front of a real host: hosts that know nothing of PFC lose nothing in the switch, and it is seen where they wait or lose.

Hosts are a capture, namespaces on veth pairs with iperf3, and DPDK's virtio driver in testpmd. tshark reads the flow control.
"""

import collections
import contextlib
import json
import os
import re
import subprocess
import time

import pytest
from conftest import need
from pfc import LONGEST, STAMP, Stream, is_control, pfc, stamp_of
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap, wrpcap

from weirlab import testpmd
from weirlab.lab import Hosts
from weirlab.switch import Switch, weir_binary
from weirlab.waiting import until
from weirlab.wire import Recorder

# A machine that does much else must not fail a test.
WITHIN_S = 60
# A NIC's line is as good as if it were never polled late, where no poll comes later.
LATE_S = 0.005
# Where GFC by pulses holds a queue's end.
B_M = 150_000
GUEST, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
LOSSLESS_DSCP = 26
HEAD = """
[switch]
idle = "sleep"
stats_interval = "1s"
[lcores]
layout = "single"
[buffer]
size = "{size}"
policy = "static"
headroom = "{headroom}"
[buffer.static]
threshold = "{threshold}"
[classes]
lossless = [3]
[classes.dscp]
"0-25" = 0
26 = 3
"27-63" = 0
"""


def head(size="4MB", headroom="200KB", threshold="100KB"):
    return HEAD.format(size=size, headroom=headroom, threshold=threshold)


def port(name, device, rate, more=""):
    return f'[[ports]]\nname = "{name}"\n{device}\nrate = "{rate}"\n{more}\n'


def nic_of(finished, name):
    """The summary of a port's NIC, whose frame counters agree with those of the switch's port."""
    told = finished.port(name)
    nic = told["nic"]
    for way in ("to_switch", "to_host"):
        counters = nic[way]
        assert counters["came"] + counters["made"] == counters["left"] + counters["ended"] + counters["dropped"] + counters["held"], counters
        assert (counters["held"], counters["dropped"]) == (0, sum(counters["drops"].values())), counters
    assert nic["holds"]
    data = [sum(known[key] for known in told["classes"]) for key in ("rx_frames", "tx_frames")]
    messages = [sum(told[f"{kind}_{way}"] for kind in ("pfc", "pause", "credit")) for way in ("rx", "tx")]
    assert nic["to_switch"]["left"] == data[0] + messages[0]
    assert nic["to_host"]["came"] == data[1] + messages[1]
    return nic


def class_of(nic, number):
    (known,) = [known for known in nic["classes"] if known["class"] == number]
    return known


CAPTURE = [  # flow control of the port, nic, is all kept
    pytest.param("pfc", "nic = {}", True, id="pfc"),
    pytest.param("gfc-buffer", "nic = {}", True, id="gfc"),
    # A frame in each period is slower than the port behind.
    pytest.param({"kind": "gfc-buffer", "peer": "pfc", "pulse_period": "1ms", "b_m": f"{B_M}B"}, "nic = {}", True, id="gfc-by-pulses"),
    pytest.param("pause", "nic = {}", True, id="pause"),
    pytest.param("cbfc", "nic = {}", True, id="cbfc"),
    pytest.param("pfc", f"nic = {{ core = {max(os.sched_getaffinity(0))} }}", True, id="on-a-core-of-its-own"),
    pytest.param("none", "nic = {}", False, id="no-flow-control"),
    pytest.param("pfc", "nic = { rx_pause = false }", False, id="a-nic-that-does-not-obey"),
    pytest.param("pfc", "", False, id="no-nic"),
]


@pytest.mark.parametrize("flow_control, nic, is_lossless", CAPTURE)
def test_a_capture_waits_where_a_nic_obeys(tmp_path, flow_control, nic, is_lossless):
    """1 Gb/s into 50 Mb/s: nothing but a pause keeps the frames of a file. By pulses, each of which ends by itself, what a late switch lets
    in is measured: slower, so that a late poll is little."""
    by_pulses = isinstance(flow_control, dict)
    stream = Stream(OTHER, GUEST, LOSSLESS_DSCP, length=1_000)
    frames, sent = [stream.next() for _ in range(1_500)], tmp_path / "sent.pcap"
    wrpcap(str(tmp_path / "in.pcap"), frames, linktype=1)
    config = tmp_path / "switch.toml"
    # A NIC on another core sends on while the machine keeps the switch from its own, as a real one would: headroom for all frames.
    # By stages a switch that polls late lets in what passes B_m: headroom beyond it.
    by_stages = flow_control == "gfc-buffer"
    headroom = "1700KB" if "core" in nic or by_pulses or by_stages else "200KB"
    rates = ("100Mbps", "10Mbps") if by_pulses else ("1Gbps", "50Mbps")
    spoken = flow_control if by_pulses else {"kind": flow_control} | ({"b_m": "290KB"} if by_stages else {})
    spoken = ", ".join(f'{key} = "{value}"' for key, value in spoken.items())
    config.write_text(
        head(headroom=headroom)
        + port("in", f'pcap = {{ rx = "{tmp_path}/in.pcap" }}', rates[0], f"flow_control = {{ {spoken} }}\n{nic}")
        + port("out", f'pcap = {{ tx = "{sent}" }}', rates[1], 'flow_control = "none"')
        + f'[[static_macs]]\nmac = "{GUEST}"\nport = "out"\n'
    )
    def has_lost():
        return switch.has_said("lossless frames dropped")

    def are_sent():
        return sent.exists() and sent.stat().st_size >= 24 + len(frames) * (16 + 1_000)

    with Switch(config, arguments=["--quiet"]) as switch:
        if is_lossless:
            until(lambda: are_sent() or has_lost(), "the frames")
        else:
            # Told once a second, when all have long been read.
            until(has_lost, "a loss")
        finished = switch.stop()
    if by_pulses:
        # A pulse ends by itself, and a NIC goes on then: so much comes while the machine keeps the switch from its CPU.
        late_bytes = finished.poll_gap_s() * 100e6 / 8
        stood = finished.traffic_class("in", 3)["ingress_max_bytes"]
        assert B_M / 5 < stood <= B_M + late_bytes, (stood, late_bytes)
    if is_lossless:
        finished.check_sound()
        assert finished.switch["drops"] == {}
        assert [bytes(frame) for frame in rdpcap(str(sent))] == frames, "each once, in order"
    else:
        assert finished.switch["drops"]["headroom_violation"] > 0 and finished.code == 1, finished.stderr
    if nic:
        told = nic_of(finished, "in")
        assert told["to_switch"]["dropped"] == 0
        assert class_of(told, 3)["held_back"] > 0, "the file was read no faster than the link"
        # By pulses the switch pauses a NIC that knows PFC alone for a part of each period.
        pauses = class_of(told, 3)["pauses_rx"]
        assert not is_lossless or flow_control != "pfc" or pauses > 0, "the switch has paused it"
        assert not by_pulses or pauses >= 10, f"{pauses} pulses"


def incast(net, seconds):
    """iperf3 by UDP from two hosts to the third, far above what its port takes: of each sender what it sent, what had come when it
    ended, and what was missing before the last that had come."""
    *senders, receiver = net.hosts
    with contextlib.ExitStack() as stack:

        def start(host, *arguments):
            command = host.namespace.command("iperf3", *arguments)
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(lambda: process.poll() is None and process.kill())
            return process

        clients = []
        for number, sender in enumerate(senders):
            server = start(receiver, "--server", "--one-off", "--port", str(5201 + number), "--forceflush")
            for line in server.stdout:
                if "listening" in line:
                    break
            options = ["--udp", "--bitrate", "40M", "--length", "1000", "--tos", str(LOSSLESS_DSCP << 2), "--json"]
            command = ["--client", receiver.address, "--port", str(5201 + number), "--time", str(seconds), *options]
            clients.append(start(sender, *command))
        told = [json.loads(client.communicate(timeout=WITHIN_S)[0]) for client in clients]
    for result in told:
        assert "error" not in result, result["error"]
    ends = [(result["end"]["sum_sent"], result["end"]["sum_received"]) for result in told]
    return [(sent["packets"], came["packets"] - came["lost_packets"], came["lost_packets"]) for sent, came in ends]


@pytest.mark.root
@pytest.mark.parametrize("flow_control", ["pfc", "none"])
def test_an_incast_of_namespaces_loses_in_the_sender_and_not_in_the_switch(cleanup, tmp_path, flow_control):
    need("iperf3")
    net = cleanup.enter_context(Hosts(f"weir-{os.getpid()}", 3))
    config = tmp_path / "switch.toml"
    rates = ["100Mbps", "100Mbps", "20Mbps"]
    ports = [
        port(f"p{n}", f'af_packet = "weir-p{n}"', rate, f'flow_control = "{flow_control}"\nnic = {{}}')
        for n, rate in enumerate(rates)
    ]
    config.write_text(head() + "".join(ports))
    with Switch(config, namespace=net.switch, arguments=["--quiet"]) as switch:
        for sender in net.hosts[:2]:
            assert sender.ping(net.hosts[2], count=2)
        results = incast(net, 3)
        for sender in net.hosts[:2]:
            # In the class of the others, and so behind them.
            last = sender.namespace.run("ping", "-n", "-c", "1", "-W", "30", "-Q", str(LOSSLESS_DSCP << 2), net.hosts[2].address)
            assert last.returncode == 0, last.stdout
        finished = switch.stop()
    nics = [nic_of(finished, f"p{n}") for n in range(3)]
    lost_in_senders = [finished.port(f"p{n}")["device_losses"]["receive"] for n in range(2)]
    dropped = finished.switch["drops"]
    assert all(nic["to_switch"]["dropped"] + nic["to_host"]["dropped"] == 0 for nic in nics)
    if flow_control == "none":
        assert sum(dropped.values()) > 1_000, dropped
        assert [class_of(nic, 3)["pauses_rx"] for nic in nics] == [0, 0, 0]
        # A NIC that is polled late loses time of its line, and then takes frames more slowly than they come.
        assert finished.poll_gap_s() > LATE_S or [losses["frames"] for losses in lost_in_senders] == [0, 0]
        return
    finished.check_sound()
    assert dropped == {}
    for (sent, came, missing), losses, nic in zip(results, lost_in_senders, nics):
        assert losses["in_host"] and losses["frames"] > 0
        # All that iperf3 misses is counted there, and besides no more than what had not come yet, and frames of its TCP. It misses none
        # where the frames that the host had before the first loss have not all come.
        assert missing <= losses["frames"] <= sent - came + 500, (sent, came, missing, losses)
        assert class_of(nic, 3)["pauses_rx"] > 0 and class_of(nic, 3)["held_back"] > 0
    assert "lost in the host" in finished.stderr


@pytest.mark.root
def test_pauses_of_both_ends_are_on_the_link(cleanup, cables, tmp_path):
    """A host that takes 2 Mb/s, and one that sends more, also on a busy machine: the switch is paused by the one and pauses the other."""
    need("tshark")
    here, wires = cables("nic", ["fast", "slow"])
    config, record = tmp_path / "switch.toml", tmp_path / "record"
    config.write_text(
        head(threshold="30KB")
        + port("fast", 'af_packet = "sw-fast"', "100Mbps", 'nic = {}\nmac = "02:00:00:00:0a:01"')
        + port("slow", 'af_packet = "sw-slow"', "100Mbps", 'nic = { receive_rate = "2Mbps" }\nmac = "02:00:00:00:0a:02"')
        + f'[[static_macs]]\nmac = "{GUEST}"\nport = "slow"\n[[static_macs]]\nmac = "{OTHER}"\nport = "fast"\n'
    )
    arguments = ["--quiet", "-o", str(record), "--capture", "fast", "--capture", "slow", "--capture-frames", "20"]
    stream, frames = Stream(OTHER, GUEST, LOSSLESS_DSCP, 1_000), 500
    with Switch(config, namespace=here, arguments=arguments) as switch, Recorder(wires["slow"]) as recorder:
        # Its NIC takes over the address of a host that has sent.
        wires["slow"].send(Stream(GUEST, OTHER, 0).next())
        assert wires["fast"].receive_until(stamp_of, WITHIN_S)
        for _ in range(frames):
            wires["fast"].send(stream.next())
            # No more than the kernel keeps for a socket that is not read.
            time.sleep(0.0005)

        def arrived():
            return [stamp_of(frame)[1] for _, frame in list(recorder.frames) if stamp_of(frame)]

        until(lambda: len(arrived()) >= frames, lambda: f"{len(arrived())} of {frames}")
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {} and arrived() == list(range(frames))
    assert not any(is_control(frame) for _, frame in recorder.frames), "a NIC keeps flow control to itself"
    for name, ours, theirs in [("fast", "02:00:00:00:0a:01", OTHER), ("slow", "02:00:00:00:0a:02", GUEST)]:
        told = tshark(record / f"{name}.pcapng", "macc.opcode == 0x0101")
        sources = {frame["eth.src"] for frame in told}
        nic = nic_of(finished, name)
        if name == "fast":
            assert sources == {ours} and class_of(nic, 3)["pauses_rx"] > 0
        else:
            assert sources == {theirs} and class_of(nic, 3)["pauses_tx"] > 0
        times = [int(frame["macc.cbfc.pause_time.c3"], 0) for frame in told]
        assert times[0] == LONGEST and times[-1] == 0 and set(times) == {0, LONGEST}, times
        assert all(frame["_ws.expert.message"] == "" and int(frame["macc.cbfc.enbv"], 0) == 8 for frame in told)


def tshark(file, wanted):
    """tshark's reading of the frames of a capture that it picks."""
    fields = ["eth.src", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3", "_ws.expert.message"]
    command = ["tshark", "-r", str(file), "-Y", wanted, "-T", "fields", "-E", "separator=;"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [dict(zip(fields, line.split(";"))) for line in done.stdout.splitlines()]


QUEUES = 4


@pytest.fixture
def guest_bench(cables, tmp_path):
    """Makes a switch with a guest behind a NIC, and a host that is a wire."""
    if reason := testpmd.why_not():
        pytest.skip(reason)
    here, wires = cables("nicvm", ["vm", "other"])
    return lambda other_rate: bench(here, wires, tmp_path, other_rate)


def bench(here, wires, tmp_path, other_rate):
    config = tmp_path / "switch.toml"
    nic = 'nic = { send_buffer = "16KB" }\nmac = "02:00:00:00:0a:01"'
    # Headroom for all that a test sends: these hosts obey late on a busy machine.
    config.write_text(
        head(size="16MB", headroom="3300KB", threshold="30KB")
        + port("vm", f'vhost_user = {{ socket = "{tmp_path}/vm.sock", queues = {QUEUES} }}', "1Gbps", nic)
        + port("other", 'af_packet = "sw-other"', other_rate)
        + f'[[static_macs]]\nmac = "{GUEST}"\nport = "vm"\n[[static_macs]]\nmac = "{OTHER}"\nport = "other"\n'
    )
    switch = Switch(config, namespace=here, arguments=["--quiet"])
    return switch, lambda: testpmd.Testpmd(here, tmp_path / "vm.sock", "sw-vm", QUEUES), wires


def flow(dscp, source_port, numbers):
    """Numbered frames of a guest's flow; its interface parts flows among queues by their addresses and ports."""
    for number in numbers:
        stamp = STAMP.pack(dscp, number, 0)
        yield bytes(Ether(src=GUEST, dst=OTHER) / IP(src="10.0.0.1", dst="10.0.0.2", tos=dscp << 2) / UDP(sport=source_port, dport=4791, chksum=0) / stamp.ljust(958, b"\0"))


def sent_by_queue(guest):
    answer = guest.ask("show port xstats 0")
    return [int(re.search(rf"tx_q{queue}_good_packets: (\d+)", answer)[1]) for queue in range(QUEUES)]


def two_flows_of_different_queues(guest, wires, recorder):
    """Source ports of two flows that leave the guest by different queues, by trying."""
    first = None
    for source_port in range(1_000, 1_032):
        before = sent_by_queue(guest)
        seen = len(recorder.frames)
        for frame in flow(0, source_port, range(5)):
            wires["vm"].send(frame)
        until(lambda: len(recorder.frames) >= seen + 5, "five frames")
        (queue,) = [n for n, (now, then) in enumerate(zip(sent_by_queue(guest), before)) if now - then >= 5]
        if first is None:
            first = source_port, queue
        elif queue != first[1]:
            return first[0], source_port
    raise AssertionError("all flows leave by one queue")


def by_class(recorder, from_frame):
    arrived = collections.defaultdict(list)
    for _, frame in list(recorder.frames)[from_frame:]:
        if stamp := stamp_of(frame):
            arrived[stamp[0]].append(stamp[1])
    return arrived


@pytest.mark.root
def test_a_paused_class_stops_one_ring_of_a_guest(guest_bench):
    """400 frames of the paused class stand in the guest's ring but for what NIC and switch hold, while another ring goes on."""
    # A pause lasts for 6.7 s at 5 Mb/s, and is told again long before that.
    switch, guest, wires = guest_bench("5Mbps")
    # testpmd uses 512 places of its ring, and throws away what finds none.
    lossless, lossy = 400, 300
    with switch, guest() as guest, Recorder(wires["other"]) as recorder:
        until(lambda: switch.has_said("queue 0, 1, 2, 3 of 4"), "the guest")
        paused_flow, free_flow = two_flows_of_different_queues(guest, wires, recorder)
        before = len(recorder.frames)
        frames = [*flow(LOSSLESS_DSCP, paused_flow, range(lossless)), *flow(0, free_flow, range(lossy))]
        for number, frame in enumerate(frames):
            if number % 100 == 0:
                wires["other"].send(pfc({3: LONGEST}))
            wires["vm"].send(frame)

        def lossy_has_come():
            wires["other"].send(pfc({3: LONGEST}))
            return len(by_class(recorder, before)[0]) == lossy

        until(lossy_has_come, lambda: f"{len(by_class(recorder, before)[0])} of {lossy} of the class that is not paused")
        come = by_class(recorder, before)
        assert come[0] == list(range(lossy)) and len(come[LOSSLESS_DSCP]) <= 2, len(come[LOSSLESS_DSCP])
        wires["other"].send(pfc({3: 0}))
        until(
            lambda: len(by_class(recorder, before)[LOSSLESS_DSCP]) == lossless,
            lambda: f"{len(by_class(recorder, before)[LOSSLESS_DSCP])} of {lossless}",
        )
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {}
    assert by_class(recorder, before)[LOSSLESS_DSCP] == list(range(lossless))
    nic = nic_of(finished, "vm")
    told = class_of(nic, 3)
    assert told["pauses_rx"] >= 1 and told["held_back"] >= 1
    in_weir = told["send_max_bytes"] + finished.traffic_class("vm", 3)["ingress_max_bytes"]
    assert in_weir < lossless * 1_000 / 3, f"{in_weir} B in Weir, so that the guest held nothing back"


@pytest.mark.root
def test_a_guest_that_takes_nothing_has_the_switch_paused(guest_bench):
    """Its ring, its NIC and the switch fill one after the other, back to the sender, and nothing is lost."""
    switch, guest, wires = guest_bench("20Mbps")
    frames = 3_000
    stream = Stream(OTHER, GUEST, LOSSLESS_DSCP, 1_000)
    with switch, guest() as guest, Recorder(wires["vm"]) as recorder, Recorder(wires["other"]) as other:
        until(lambda: switch.has_said("queue 0, 1, 2, 3 of 4"), "the guest")
        guest.ask("stop")
        seen, is_paused, has_been = 0, False, False
        deadline = time.monotonic() + WITHIN_S
        while stream.sent < frames:
            assert time.monotonic() < deadline
            for _, frame in other.frames[seen:]:
                seen += 1
                if is_control(frame) and frame[16:18] == b"\x00\x08":
                    is_paused = frame[24:26] != b"\0\0"
            if is_paused and not has_been:
                has_been = True
                assert not any(stamp_of(frame) for _, frame in list(recorder.frames)), "the guest takes frames"
                guest.ask("start")
            if is_paused:
                time.sleep(0.001)
            else:
                wires["other"].send(stream.next())
                # On a busy machine what comes back is read late: there is time for that before the buffer and its headroom are full.
                time.sleep(0.02 if stream.sent % 50 == 0 else 0.0003)
        assert has_been, "the sender was never paused"

        # As testpmd's driver counts them; its interface loses some of what comes at once.
        until(lambda: guest.received(3) == frames, lambda: f"{guest.received(3)} of {frames}")
        finished = switch.stop()
    finished.check_sound()
    assert finished.switch["drops"] == {}
    assert class_of(nic_of(finished, "vm"), 3)["pauses_tx"] >= 1
    assert finished.traffic_class("vm", 3)["pauses_rx"] >= 1 and finished.traffic_class("other", 3)["pauses_tx"] >= 1


@pytest.mark.root
def test_what_a_guest_leaves_behind_is_counted_and_the_next_one_is_served(guest_bench):
    """A guest ends while its class is paused, and frames of the other host are on their way to it."""
    switch, guest, wires = guest_bench("5Mbps")
    sent = 200
    with switch, Recorder(wires["other"]) as recorder:
        with guest() as first:
            until(lambda: switch.has_said("queue 0, 1, 2, 3 of 4"), "the guest")
            wires["other"].send(pfc({3: LONGEST}))
            for frame in flow(LOSSLESS_DSCP, 1_000, range(sent)):
                wires["vm"].send(frame)
            until(lambda: sum(sent_by_queue(first)) >= sent, "the guest's frames")
            first.quit()
        until(lambda: switch.times_said("link down") >= 2, "the end of the first guest")
        wires["other"].send(pfc({3: 0}))
        with guest() as second, Recorder(wires["vm"]) as at_guest:
            until(lambda: switch.times_said("link up") >= 2, "the second guest")
            for frame in flow(0, 1_000, range(20)):
                wires["vm"].send(frame)
            until(lambda: len(by_class(recorder, 0)[0]) == 20, "frames of the second guest")
            stream = Stream(OTHER, GUEST, LOSSLESS_DSCP)
            for _ in range(20):
                wires["other"].send(stream.next())
            until(lambda: second.received(3) == 20, "frames for the second guest")
        finished = switch.stop()
    finished.check_sound()
    nic = nic_of(finished, "vm")
    assert nic["to_switch"]["drops"].get("no_host", 0) > 0, nic
    # What was in the switch when the guest went had been sent, and arrives.
    came = by_class(recorder, 0)[LOSSLESS_DSCP]
    assert came == list(range(len(came))) and 0 < len(came) < sent


def test_a_file_that_can_not_be_is_refused_with_its_line(tmp_path):
    config = tmp_path / "switch.toml"
    config.write_text(head() + port("a", 'ring = "x"', "1Gbps", 'nic = { xof = "1KB" }') + port("b", 'ring = "x"', "1Gbps"))
    done = subprocess.run([weir_binary(), "run", str(config)], capture_output=True, text=True)
    assert done.returncode == 2 and "switch.toml:23" in done.stderr and 'write `xoff`' in done.stderr.replace("did you mean", "write"), done.stderr
