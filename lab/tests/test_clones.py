"""Ports that copy another's ingress: what three senders would send, from one capture file. Needs no root."""

from collections import Counter

from scapy.contrib.mac_control import MACControlClassBasedFlowControl, MACControlPause
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot3, LLC, STP, Ether
from scapy.packet import Raw
from scapy.utils import RawPcapReader, RawPcapWriter

from weirlab.switch import Switch

# Real ports; c0 and c1 are clones of p0, and what is not IP is in class 6 at c1.
PORTS = ["p0", "p1", "p2"]
CLONES = ["c0", "c1"]
COPIES = 1 + len(CLONES)
HOSTS = {f"02:00:00:00:00:0{n}": port for n, port in enumerate(PORTS)}
RUN_S = 2


def to(destination, number, source="02:00:00:00:00:00"):
    """A lossless frame of its own."""
    return bytes(
        Ether(src=source, dst=destination)
        / IP(src="10.0.0.1", dst="10.0.0.2", tos=3 << 2)
        / UDP(sport=49152, dport=4791)
        / Raw(number.to_bytes(4, "big") * (10 + number % 200))
    )


def run(directory, inputs):
    text = '[switch]\nname = "clones"\nidle = "sleep"\n[buffer]\nsize = "16MB"\n[classes]\nlossless = [3]\n'
    for port in PORTS:
        rx = f'rx = "{directory / port}.in.pcap", ' if port in inputs else ""
        text += f'[[ports]]\nname = "{port}"\nrate = "10Gbps"\npcap = {{ {rx}tx = "{directory / port}.out.pcap" }}\n'
    text += '[[ports]]\nname = "c0"\nclone_of = "p0"\n[[ports]]\nname = "c1"\nclone_of = "p0"\npriority = 6\n'
    for mac, port in HOSTS.items():
        text += f'[[static_macs]]\nmac = "{mac}"\nport = "{port}"\n'
    config = directory / "clones.toml"
    config.write_text(text)
    for port, frames in inputs.items():
        with RawPcapWriter(f"{directory / port}.in.pcap", linktype=1, sync=False) as capture:
            capture.write_header(None)
            for number, frame in enumerate(frames):
                capture.write_packet(frame, sec=number // 1000, usec=number % 1000)
    with Switch(config, arguments=["--duration", str(RUN_S)]) as switch:
        finished = switch.wait()
    finished.check_sound()
    outputs = {}
    for port in PORTS:
        with RawPcapReader(f"{directory / port}.out.pcap") as capture:
            outputs[port] = [frame for frame, _ in capture]
    return finished, outputs


def check_copies(sent, frames, copies=COPIES):
    """Each frame so many times. Streams in order make the first, the second and every further copies in order too."""
    seen = Counter()
    streams = [[] for _ in range(copies)]
    for frame in sent:
        assert seen[frame] < copies, f"a copy too many of {frame[:60].hex()}"
        streams[seen[frame]].append(frame)
        seen[frame] += 1
    assert all(stream == frames for stream in streams)


def test_three_copies_of_each_frame_in_order(tmp_path):
    unicast = [to("02:00:00:00:00:01", number) for number in range(2000)]
    flooded = [to("ff:ff:ff:ff:ff:ff", number) for number in range(50)]
    control = [
        bytes(Ether(src="02:00:00:00:00:00", dst="01:80:c2:00:00:01") / MACControlClassBasedFlowControl(c3_enabled=1, c3_pause_time=1)),
        bytes(Ether(src="02:00:00:00:00:00", dst="01:80:c2:00:00:01") / MACControlPause(pause_time=1)),
    ]
    other = [bytes(Ether(src="02:00:00:00:00:00", dst="02:00:00:00:00:02", type=0x88B5) / Raw(bytes([n]) * 50)) for n in range(9)]
    kept = [
        bytes(Dot3(src="02:00:00:00:00:00", dst="01:80:c2:00:00:00") / LLC(dsap=0x42, ssap=0x42, ctrl=3) / STP()),
        to("02:00:00:00:00:00", 1, source="02:00:00:00:00:77"),
        bytes(12),
    ]
    finished, outputs = run(tmp_path, {"p0": unicast[:1000] + control + flooded + unicast[1000:] + other + kept})

    assert outputs["p0"] == [], "a port is sent nothing that it received, nor its clones"
    check_copies([frame for frame in outputs["p1"] if frame not in set(flooded)], unicast)
    check_copies([frame for frame in outputs["p1"] if frame in set(flooded)], flooded)
    check_copies([frame for frame in outputs["p2"] if frame[12:14] == b"\x08\x00"], flooded)
    check_copies([frame for frame in outputs["p2"] if frame[12:14] == b"\x88\xb5"], other)

    # The summary lists the clones, which received what their port did and sent nothing.
    assert [port["name"] for port in finished.switch["ports"]] == PORTS + CLONES
    lossless = len(unicast) + len(flooded)
    for name in ["p0", *CLONES]:
        port = finished.port(name)
        assert finished.traffic_class(name, 3)["rx_frames"] == lossless + 1, f"{name}: with the one to its own port"
        own_class = 6 if name == "c1" else 0
        assert finished.traffic_class(name, own_class)["rx_frames"] == len(other) + 2, f"{name}: with STP and the runt"
        assert sum(known["tx_frames"] for known in port["classes"]) == 0, name
        assert port["link_up"] and port["pfc_tx"] == 0, name
        drops = Counter()
        for known in port["classes"]:
            drops.update(known["drops"])
        assert drops == {"link_local": 1, "same_port": 1, "malformed": 1}, name
        # Flow control is between the real port and its peer.
        assert (port["pfc_rx"], port["control_ignored"]) == ((1, 1) if name == "p0" else (0, 0)), name
    received = COPIES * (lossless + len(other) + len(kept))
    balance = finished.switch["frame_conservation"]
    assert (balance["received"], balance["copied"]) == (received, COPIES * len(flooded))
    for name in CLONES:
        assert name in finished.stdout, "the table lists it"


def test_nothing_is_forwarded_to_a_clone(tmp_path):
    # p1 floods, speaks to nobody known, and answers p0's host: the real ports get one each, whatever p0 said before.
    hello = [to("02:00:00:00:00:01", number, source="02:00:00:00:00:77") for number in range(10)]
    answers = [to("02:00:00:00:00:00", number, source="02:00:00:00:00:01") for number in range(500)]
    strangers = [to("ff:ff:ff:ff:ff:ff", 1000 + number, source="02:00:00:00:00:01") for number in range(50)]
    finished, outputs = run(tmp_path, {"p0": hello, "p1": answers + strangers})
    check_copies(outputs["p1"], hello)
    check_copies(outputs["p0"], answers + strangers, copies=1)
    check_copies(outputs["p2"], strangers, copies=1)
    for name in CLONES:
        assert sum(known["tx_frames"] for known in finished.port(name)["classes"]) == 0
    assert finished.switch["drops"] == {}
