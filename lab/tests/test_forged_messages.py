"""One forged message on a port: it neither stops the port for good nor opens it without limit. Needs no root.

The messages come from a capture file, and after that the peer says nothing; data for the port is replayed without end.
"""

import struct

import pytest
from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import RawPcapWriter

from weirlab.switch import Switch

RECEIVER = "02:00:00:00:00:01"
FRAME_BYTES = 1_000
SECONDS = 3
BUFFER_BYTES = 200_000
CONTROL = bytes.fromhex("0180c20000010200000000998808")


def pause():
    frame = Ether(src="02:00:00:00:00:99", dst="01:80:c2:00:00:01") / MACControlClassBasedFlowControl(c3_enabled=1, c3_pause_time=0xFFFF)
    return bytes(frame).ljust(60, b"\0")


def pause_of_all():
    frame = Ether(src="02:00:00:00:00:99", dst="01:80:c2:00:00:01") / MACControlPause(pause_time=0xFFFF)
    return bytes(frame).ljust(60, b"\0")


def credit(blocks, account=bytes(6)):
    return CONTROL + bytes.fromhex("fffe025752010008") + struct.pack(">8I", 0, 0, 0, blocks, 0, 0, 0, 0) + account


def queue(length):
    return CONTROL + bytes.fromhex("fffe025752030008") + struct.pack(">8I", 0, 0, 0, length, 0, 0, 0, 0) + bytes(6)


def write(path, frames):
    with RawPcapWriter(str(path), linktype=1, sync=False) as capture:
        capture.write_header(None)
        for number, frame in enumerate(frames):
            capture.write_packet(frame, sec=0, usec=number)


@pytest.fixture
def run(tmp_path):
    def run(flow_control, messages):
        """Runs the messages against a port that data waits for; its part of the summary, that of class 3, and the log."""
        data = Ether(src="02:00:00:00:00:02", dst=RECEIVER) / IP(src="10.0.0.1", dst="10.0.0.2", tos=3 << 2) / UDP()
        write(tmp_path / "data.pcap", [bytes(data / Raw(b"\xa5" * (FRAME_BYTES - len(data))))] * 100)
        write(tmp_path / "messages.pcap", messages)
        file = tmp_path / "forged.toml"
        # Data is lossless and comes without end: what finds no room is counted as lost, and is not what this is about.
        file.write_text(
            '[switch]\nname = "forged"\nidle = "sleep"\n[buffer]\nsize = "2MB"\nheadroom = "10KB"\npolicy = "static"\n'
            f'[buffer.static]\nthreshold = "{BUFFER_BYTES}B"\n[classes]\nlossless = [3]\n'
            f'[[ports]]\nname = "data"\npcap = {{ rx = "{tmp_path / "data.pcap"}", infinite = true }}\nrate = "1Gbps"\nflow_control = "none"\n'
            f'[[ports]]\nname = "port"\npcap = {{ rx = "{tmp_path / "messages.pcap"}", tx = "{tmp_path / "out.pcap"}" }}\n'
            f'rate = "100Mbps"\nflow_control = {flow_control}\n[[static_macs]]\nmac = "{RECEIVER}"\nport = "port"\n'
        )
        with Switch(file, arguments=["--quiet", "--duration", str(SECONDS)]) as switch:
            finished = switch.wait()
        classes = [told for told in finished.port("port")["classes"] if told["class"] == 3]
        return finished.port("port"), classes[0]["tx_frames"] if classes else 0, finished.stdout + finished.stderr

    return run


@pytest.mark.parametrize(("kind", "forged"), [("pfc", pause()), ("pause", pause_of_all())], ids=["pfc", "pause"])
def test_a_pause_holds_for_its_quanta_alone(run, kind, forged):
    port, sent, _ = run(f'"{kind}"', [forged])
    # The longest is 335 ms at 100 Mb/s.
    assert sent > 300, sent
    assert port[f"{kind}_rx"] == 1, port


@pytest.mark.parametrize(
    ("kind", "forged", "foreign"),
    [
        ("gfc-buffer", pause(), 1),
        ("gfc-conceptual", queue(2**31), 0),
        ("gfc-time", credit(0), 0),
    ],
    ids=["stages", "conceptual", "time"],
)
def test_gfc_is_slowed_for_the_ageing_time_alone(run, kind, forged, foreign):
    port, sent, log = run(f'{{ kind = "{kind}", b_m = "{BUFFER_BYTES}B", unsafe_thresholds = true }}', [forged])
    # The ageing time is 335 ms at 100 Mb/s, then 12,000 frames go in a second; a machine that does something else sends fewer.
    # Slowed for good, it is 3 frames.
    assert sent > 300, sent
    assert port["foreign_messages"] == foreign
    if foreign:
        assert "pauses of PFC: they slow its classes down" in log, log
    assert "says nothing of GFC" in log, log


def test_forged_credit_opens_nothing(run):
    port, sent, log = run(f'{{ kind = "cbfc", buffer = "{BUFFER_BYTES}B" }}', [credit(2**31 - 1)])
    assert (sent, port["excessive_credits"]) == (0, 1)
    assert "the peer gives credit for more than the buffer" in log, log
    assert "without credit nothing of its classes is sent" in log, log


def test_forged_credit_for_a_forged_buffer_is_a_buffer(run):
    account = bytes([1, 0]) + struct.pack(">I", 2**31)
    port, sent, _ = run(f'{{ kind = "cbfc", buffer = "{BUFFER_BYTES}B" }}', [credit(0, account), credit(2**31 - 1)])
    # A frame takes 16 blocks of 64 B.
    assert (sent, port["excessive_credits"]) == (BUFFER_BYTES // 64 // 16, 1)


def test_a_peer_with_pfc_is_told_at_a_port_with_credit(run):
    port, sent, log = run(f'{{ kind = "cbfc", buffer = "{BUFFER_BYTES}B" }}', [credit(1_600), pause()])
    assert (sent, port["foreign_messages"], port["control_ignored"]) == (100, 1, 1)
    assert "the port speaks CBFC, and its peer sends messages of another flow control" in log, log
