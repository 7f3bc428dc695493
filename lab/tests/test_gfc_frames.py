"""GFC's stages and credits on the wire, as scapy and tshark read them: a queue fills and empties behind capture files.

Needs no root. Each of three ports receives the same burst for a slow port, and what it tells its peer is captured.
"""

import struct
import subprocess

import pytest
from conftest import need
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import RawPcapReader, RawPcapWriter

from weirlab.switch import Switch

pytestmark = [pytest.mark.idle_machine, pytest.mark.one_cpu]

RECEIVER = "02:00:00:00:00:01"
FRAME_BYTES, FRAMES = 1_000, 150
# With FCS, as the buffer counts them, and in blocks of 64 B.
CHARGED_BYTES, BLOCKS = FRAME_BYTES + 4, 16
B_M, B_1 = 200_000, 60_000
BUFFER_BLOCKS = B_M // 64
PERIOD_MS = 5
MINIMUM_BYTES = 60
PORTS = {
    "stages": f'kind = "gfc-buffer"\nb_m = "{B_M}B"\nb_1 = "{B_1}B"\nrefresh = "{PERIOD_MS}ms"',
    "time": f'kind = "gfc-time"\nb_m = "{B_M}B"\nb_0 = "50KB"\nperiod = "{PERIOD_MS}ms"\nunsafe_thresholds = true',
    "credit": f'kind = "cbfc"\nbuffer = "{B_M}B"\nperiod = "{PERIOD_MS}ms"',
}
FIELDS = ["macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3", "eth.src", "eth.dst", "frame.len", "_ws.expert.message"]


def stage_of(queue):
    """The largest k with B_k = B_m - (B_m - B_1) / 2^(k-1) at or below the queue."""
    stage = 0
    while queue >= B_M - (B_M - B_1) / 2**stage:
        stage += 1
    return stage


def port_mac(number):
    return f"02:00:00:00:0a:0{number}"


def frames_of(path):
    with RawPcapReader(str(path)) as capture:
        return [frame for frame, _ in capture]


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """What each port sent, by its name, and the switch's summary."""
    folder = tmp_path_factory.mktemp("gfc")
    text = '[switch]\nname = "gfc"\n[buffer]\nsize = "3MB"\ncell_bytes = 4\nheadroom = "10KB"\npolicy = "static"\n'
    text += f'[buffer.static]\nthreshold = "{B_M}B"\n[classes]\nlossless = [3]\n'
    for number, (name, flow_control) in enumerate(PORTS.items()):
        data = Ether(src=f"02:00:00:00:01:0{number}", dst=RECEIVER) / IP(src="10.0.0.1", dst="10.0.0.2", tos=3 << 2) / UDP()
        data = bytes(data / Raw(b"\xa5" * (FRAME_BYTES - len(data))))
        with RawPcapWriter(str(folder / f"{name}.in.pcap"), linktype=1, sync=False) as capture:
            capture.write_header(None)
            for frame in range(FRAMES):
                capture.write_packet(data, sec=0, usec=frame)
        files = f'pcap = {{ rx = "{folder / name}.in.pcap", tx = "{folder / name}.out.pcap" }}'
        text += f'[[ports]]\nname = "{name}"\n{files}\nrate = "1Gbps"\nmac = "{port_mac(number)}"\n[ports.flow_control]\n{flow_control}\n'
    text += f'[[ports]]\nname = "slow"\npcap = {{ tx = "{folder / "slow"}.out.pcap" }}\nrate = "20Mbps"\nflow_control = "none"\n'
    text += f'[[static_macs]]\nmac = "{RECEIVER}"\nport = "slow"\n'
    config = folder / "gfc.toml"
    config.write_text(text)
    # A run that got too little of the machine is repeated.
    for _ in range(3):
        with Switch(config, arguments=["--quiet", "--duration", "2"]) as switch:
            finished = switch.wait()
        sent = {name: frames_of(folder / f"{name}.out.pcap") for name in PORTS}
        if all(len(frames) > 50 for frames in sent.values()):
            break
    return folder, sent, finished


def test_the_run_is_sound(captures):
    _, sent, finished = captures
    finished.check_sound()
    assert finished.switch["drops"] == {}
    assert all(len(frames) > 50 for frames in sent.values()), {name: len(frames) for name, frames in sent.items()}


def test_stages_rise_and_fall_with_the_queue(captures):
    _, sent, _ = captures
    highest = stage_of(FRAMES * CHARGED_BYTES)
    stages = []
    for frame in sent["stages"]:
        assert len(frame) == MINIMUM_BYTES
        message = Ether(frame)
        assert (message.dst, message.src) == ("01:80:c2:00:00:01", port_mac(0))
        gfc = message[MACControlClassBasedFlowControl]
        enabled = [getattr(gfc, f"c{number}_enabled") for number in range(8)]
        assert enabled == [number == 3 for number in range(8)]
        stages.append(gfc.c3_pause_time)
    assert stages[-1] == 0, "the queue has drained"
    peak = stages.index(max(stages))
    assert 1 <= stages[peak] <= highest
    assert stages[:peak] == sorted(stages[:peak]) and stages[peak:] == sorted(stages[peak:], reverse=True)
    assert set(range(stages[peak] + 1)) <= set(stages[peak:]), "each stage is told on the way down"


@pytest.mark.parametrize("name", ["time", "credit"])
def test_credit_counts_blocks(captures, name):
    _, sent, finished = captures
    limits, accounts = [], []
    for frame in sent[name]:
        assert len(frame) == MINIMUM_BYTES
        destination, source, ethertype, opcode = struct.unpack(">6s6sHH", frame[:16])
        assert destination == bytes.fromhex("0180c2000001")
        assert source == bytes.fromhex(port_mac(list(PORTS).index(name)).replace(":", ""))
        assert (ethertype, opcode, frame[16:20]) == (0x8808, 0xFFFE, bytes.fromhex("02575201"))
        assert frame[20:22] == bytes([0, 1 << 3])
        accounts.append(struct.unpack(">BBI", frame[54:]))
        credit = struct.unpack(">8I", frame[22:54])
        assert not any(credit[number] for number in range(8) if number != 3)
        limits.append(credit[3])
    # In turn: what a queue may hold, and what the port itself has sent of class 3.
    assert {account for account in accounts[::2]} == {(1, 0, BUFFER_BLOCKS)}
    assert {account for account in accounts[1::2]} == {(2, 3, 0)}
    # What the buffer charges for the frames is less than the blocks that they were sent for.
    assert BUFFER_BLOCKS <= limits[0] <= BUFFER_BLOCKS + FRAMES
    assert limits == sorted(limits), "a limit never goes back"
    assert limits[-1] == BUFFER_BLOCKS + FRAMES * BLOCKS, "all that came has left"
    assert len(set(limits)) > 10, "credit comes back as the queue drains"


def test_tshark_reads_stages_as_pfc_and_takes_no_offence_at_credits(captures):
    need("tshark")
    folder, sent, _ = captures
    for name in PORTS:
        command = ["tshark", "-r", str(folder / f"{name}.out.pcap"), "-T", "fields"]
        for field in FIELDS:
            command += ["-e", field]
        rows = [line.split("\t") for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()]
        assert len(rows) == len(sent[name])
        for row, frame in zip(rows, sent[name], strict=True):
            values = dict(zip(FIELDS, row, strict=False))
            assert int(values["macc.opcode"], 16) == int.from_bytes(frame[14:16], "big")
            assert "alformed" not in values.get("_ws.expert.message", "")
            if name == "stages":
                assert int(values["macc.cbfc.enbv"], 16) == 1 << 3
                assert int(values["macc.cbfc.pause_time.c3"]) == int.from_bytes(frame[24:26], "big")
