"""Capture files that are replayed without end: many frames, long ones, and files that can't be. Needs no root."""

import subprocess

import pytest
from scapy.utils import RawPcapReader, RawPcapWriter

from weirlab.switch import Switch, weir_binary

SENDER, RECEIVER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def frames(count, length):
    """Numbered frames of these bytes."""
    return [RECEIVER + SENDER + b"\x88\xb5" + number.to_bytes(4, "big") + bytes(length - 18) for number in range(count)]


def write(path, all_frames):
    with RawPcapWriter(str(path), linktype=1, sync=False) as capture:
        capture.write_header(None)
        for number, frame in enumerate(all_frames):
            capture.write_packet(frame, sec=0, usec=number % 1_000_000)


def configuration(folder, mtu, rate):
    """A switch that replays in.pcap without end, and writes what comes of it to out.pcap."""
    file = folder / "replay.toml"
    file.write_text(
        f'[switch]\nname = "replay"\nmtu = {mtu}\n[buffer]\nsize = "1MB"\nheadroom = "100KB"\n[classes]\nlossless = []\n'
        f'[[ports]]\nname = "in"\npcap = {{ rx = "{folder / "in.pcap"}", infinite = true }}\nrate = "1Gbps"\n'
        f'[[ports]]\nname = "out"\npcap = {{ tx = "{folder / "out.pcap"}" }}\nrate = "{rate}"\n'
        '[[static_macs]]\nmac = "02:00:00:00:00:02"\nport = "out"\n'
    )
    return file


# The buffer has mbufs for 15,626 of the smallest frames.
@pytest.mark.parametrize(("count", "length", "mtu", "rate"), [(40_000, 60, 1_500, "100Mbps"), (3_000, 9_014, 9_000, "1Gbps")])
def test_a_file_of_many_frames_is_repeated_as_it_is(tmp_path, count, length, mtu, rate):
    sent = frames(count, length)
    write(tmp_path / "in.pcap", sent)
    with Switch(configuration(tmp_path, mtu, rate), arguments=["--quiet", "--duration", "3"]) as switch:
        finished = switch.wait()
    finished.check_sound()
    with RawPcapReader(str(tmp_path / "out.pcap")) as capture:
        came = [frame for frame, _ in capture]
    assert finished.switch["frame_conservation"]["received"] > 2 * count, "the file was repeated"
    assert set(finished.switch["drops"]) <= {"egress_threshold", "shutdown"}
    assert len(came) > 1_000 and set(came) <= set(sent), "frames come out as they are in the file"
    # The first come before the queue is full.
    numbers = [int.from_bytes(frame[14:18], "big") for frame in came]
    assert numbers[:20] == list(range(20))


def test_frames_that_fit_no_buffer_are_refused_with_what_to_write(tmp_path):
    write(tmp_path / "in.pcap", [*frames(10, 60), *frames(1, 9_014)])
    for command in (["check"], ["run", "--duration", "1"]):
        file = configuration(tmp_path, 1_500, "1Gbps")
        done = subprocess.run([weir_binary(), command[0], str(file), *command[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 3, done.stderr
        told = " ".join(done.stderr.split())
        assert "in.pcap has a frame of 9014 B" in told.replace("| ", "") and "write mtu = 9000 in [switch]" in told, done.stderr
        assert "replay.toml:11" in told, done.stderr
