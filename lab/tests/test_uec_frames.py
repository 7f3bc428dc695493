"""UEC's CF_Update and CC_Update on the wire: a scapy packet with FRAMES.md's fields reads the switch's, and makes the peer's.

Needs no root. Frames go from one port to another behind capture files; the peer of the second grants credit once.
"""

import pytest
from scapy.fields import ByteField, FieldListField, IntField, ShortField, X3BytesField, XShortField
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import RawPcapReader, RawPcapWriter

from weirlab.switch import Switch

RECEIVER = "02:00:00:00:00:01"
MACS = {"in": "02:00:00:00:0a:00", "out": "02:00:00:00:0a:01"}
MAC_CONTROL = "01:80:c2:00:00:01"
CELL_BYTES = 128
# With FCS 1,004 B: 8 cells.
FRAME_BYTES, FRAME_CELLS, FRAMES = 1_000, 8, 150
CF_UPDATE, CC_UPDATE = 4, 5


class CreditUpdate(Packet):
    """Bytes 14 to 60 of a frame."""

    name = "UEC credit update"
    fields_desc = [
        XShortField("opcode", 0xFFFE),
        X3BytesField("identifier", 0x025752),
        ByteField("message", CF_UPDATE),
        ShortField("classes", 1 << 3),
        FieldListField("cells", [0] * 8, IntField("", 0), count_from=lambda _: 8),
        ByteField("account", 0),
        ByteField("account_class", 0),
        IntField("cell_bytes", CELL_BYTES),
    ]


def updates(path, port):
    """Credit updates that a port sent, and the number of its other frames."""
    with RawPcapReader(str(path)) as capture:
        frames = [frame for frame, _ in capture]
    control = [frame for frame in frames if frame[12:14] == b"\x88\x08"]
    found = []
    for frame in control:
        header = Ether(frame[:14])
        assert (len(frame), header.dst, header.src) == (60, MAC_CONTROL, MACS[port])
        update = CreditUpdate(frame[14:])
        assert not update.payload and bytes(update) == frame[14:]
        assert (update.opcode, update.identifier, update.classes) == (0xFFFE, 0x025752, 1 << 3)
        assert (update.cell_bytes, update.account, update.account_class) == (CELL_BYTES, 0, 0)
        assert not any(update.cells[number] for number in range(8) if number != 3)
        found.append((update.message, update.cells[3]))
    return found, len(frames) - len(control)


def write(path, frames):
    with RawPcapWriter(str(path), linktype=1, sync=False) as capture:
        capture.write_header(None)
        for number, frame in enumerate(frames):
            capture.write_packet(frame, sec=0, usec=number)


def run(folder, from_peer):
    """What each port sent, and the switch's drops."""
    data = Ether(src="02:00:00:00:01:00", dst=RECEIVER) / IP(src="10.0.0.1", dst="10.0.0.2", tos=3 << 2) / UDP()
    data = bytes(data / Raw(b"\xa5" * (FRAME_BYTES - len(data))))
    write(folder / "in.in.pcap", [data] * FRAMES)
    write(folder / "out.in.pcap", from_peer)
    text = f'[switch]\nname = "uec"\n[buffer]\nsize = "3MB"\ncell_bytes = {CELL_BYTES}\nheadroom = "10KB"\npolicy = "static"\n'
    text += '[buffer.static]\nthreshold = "200KB"\n[classes]\nlossless = [3]\n'
    for name, rate in (("in", "1Gbps"), ("out", "20Mbps")):
        files = f'pcap = {{ rx = "{folder / name}.in.pcap", tx = "{folder / name}.out.pcap" }}'
        text += f'[[ports]]\nname = "{name}"\n{files}\nrate = "{rate}"\nmac = "{MACS[name]}"\n'
        text += '[ports.flow_control]\nkind = "uec-cbfc"\nlimit = "200KB"\ncc_period = "5ms"\n'
    text += f'[[static_macs]]\nmac = "{RECEIVER}"\nport = "out"\n'
    config = folder / "uec.toml"
    config.write_text(text)
    with Switch(config, arguments=["--quiet", "--duration", "1"]) as switch:
        finished = switch.wait()
    return {name: updates(folder / f"{name}.out.pcap", name) for name in MACS}, finished.switch["drops"]


def counts(found, message):
    return [cells for kind, cells in found if kind == message]


def test_credit_lets_frames_pass_and_comes_back_as_they_leave(tmp_path):
    grant = bytes(Ether(src="02:00:00:00:02:00", dst=MAC_CONTROL, type=0x8808) / Raw(bytes(CreditUpdate())))
    sent, drops = run(tmp_path, [grant])
    (freed, _), (consumed, passed) = sent["in"], sent["out"]
    assert (passed, drops) == (FRAMES, {})
    freed, consumed = counts(freed, CF_UPDATE), counts(consumed, CC_UPDATE)
    for cells in (freed, consumed):
        assert cells == sorted(cells) and len(set(cells)) > 2
        assert cells[-1] == FRAMES * FRAME_CELLS and all(count % FRAME_CELLS == 0 for count in cells)
    # Neither port has more to report: what came to one has left, and the other has received nothing.
    assert set(counts(sent["in"][0], CC_UPDATE)) == {0} == set(counts(sent["out"][0], CF_UPDATE))


@pytest.mark.parametrize("change", [{"opcode": 0xFFFD}, {"identifier": 0x025753}, {"message": 6}, {"classes": 1 << 4}])
def test_without_the_documented_octets_nothing_passes(tmp_path, change):
    other = bytes(Ether(src="02:00:00:00:02:00", dst=MAC_CONTROL, type=0x8808) / Raw(bytes(CreditUpdate(**change))))
    sent, drops = run(tmp_path, [other])
    assert drops == {"shutdown": FRAMES}
    assert sent["out"][1] == 0 and set(counts(sent["out"][0], CC_UPDATE)) == {0}
    assert max(counts(sent["in"][0], CF_UPDATE)) == 0
