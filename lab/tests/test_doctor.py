"""`weir doctor`: is what a machine and its hosts lack told with what mends it, and does a PFC frame arrive as it left?"""

import json
import os
import subprocess

from weirlab.switch import weir_binary

PATIENCE_S = 60
# A program in ssh's place: it runs what it is given on this machine, where `dcb` and `ethtool` are a host's.
SSH = """#!/bin/sh
test "$5" = root@host || { echo "ssh: connect to host $5: No route" >&2; exit 255; }
shift 5
PATH=FOLDER:$PATH exec "$@"
"""
DCB = """#!/bin/sh
case "$1" in
pfc) echo 'pfc-cap 8 macsec-bypass off delay 0 prio-pfc 0:off 1:off 2:off 3:{state} 4:off 5:off 6:off 7:off' ;;
app) echo 'dscp-prio 26:3 48:6' ;;
esac
"""
PAIR = """
[classes]
preset = "roce"
[[ports]]
name = "a"
{one}
rate = "1Gbps"
[[ports]]
name = "b"
{other}
rate = "1Gbps"
"""


def program(folder, name, text):
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)


def doctor(*arguments, folder=None):
    path = f"{folder}:{os.environ['PATH']}" if folder else os.environ["PATH"]
    command = [weir_binary(), "doctor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "PATH": path})


def findings(done):
    assert "panicked" not in done.stderr, done.stderr
    return json.loads(done.stdout)


def test_a_pfc_frame_arrives_as_it_left(tmp_path):
    file = tmp_path / "pair.toml"
    file.write_text(PAIR.format(one='ring = "l"', other='ring = "l"'))
    for arguments in [(), (file,), (file, "--loop")]:
        done = doctor(*arguments, "--json")
        loop = [found for found in findings(done) if found["subject"].startswith("loop ")]
        assert [found["state"] for found in loop] == ["good"] * 4, (done.stdout, done.stderr)
        assert sum("PFC frame arrived as it left" in found["message"] for found in loop) == 2
        pair = [(found["subject"], found["state"]) for found in findings(done) if found["subject"].startswith("veth pair")]
        ways = [f"veth pair doctor-{way}" for way in ("a to doctor-b", "b to doctor-a") for _ in range(2)]
        assert pair == ([] if "--loop" in arguments else [(way, "good") for way in ways]), (done.stdout, done.stderr)
        assert done.returncode == 0, done.stdout
    assert not [name for name in os.listdir("/sys/class/net") if name.startswith("doctor-")]


def test_an_error_has_a_fix(tmp_path):
    file = tmp_path / "pair.toml"
    file.write_text(PAIR.format(one='af_packet = "no-such-0"', other='pcap = { rx = "/nowhere/x.pcap" }'))
    done = doctor(file)
    assert done.returncode == 1, done.stderr
    # Both, where `weir check` would do with one exit.
    lines = done.stdout.splitlines()
    for said, mend in [("there is no network interface no-such-0", "ip link add no-such-0"), ("/nowhere/x.pcap can't be read", "name a readable")]:
        (at,) = [n for n, line in enumerate(lines) if said in line]
        assert lines[at].startswith("ERROR    devices, ") and "pair.toml:" in lines[at]
        assert lines[at + 1].strip().startswith("-> ") and mend in lines[at + 1]
    wrong = doctor(tmp_path / "none.toml")
    assert wrong.returncode == 2 and "none.toml" in wrong.stderr


def test_a_host_is_asked(tmp_path):
    file = tmp_path / "pair.toml"
    file.write_text(PAIR.format(one='ring = "l"', other='ring = "l"'))
    program(tmp_path, "ssh", SSH.replace("FOLDER", str(tmp_path)))
    program(tmp_path, "ethtool", "#!/bin/sh\nprintf 'Pause parameters:\\nRX:\\t\\toff\\nTX:\\t\\toff\\n'\n")
    for state, lacking in [("off", 1), ("on", 0)]:
        program(tmp_path, "dcb", DCB.format(state=state))
        done = doctor(file, "--host", "root@host:lo", "--json", folder=tmp_path)
        host = [found for found in findings(done) if found["subject"].startswith("host root@host, lo")]
        pfc = [found for found in host if "PFC of class 3" in found["message"]]
        assert [found["state"] for found in pfc] == [["good", "error"][lacking]], host
        assert lacking == 0 or pfc[0]["fix"] == "ssh root@host dcb pfc set dev lo prio-pfc all:off 3:on"
        assert any(found["message"] == "DSCP 26 is trusted for class 3" for found in host)
        # The loopback's MTU is more than the switch's.
        (mtu,) = [found for found in host if "MTU" in found["message"]]
        assert mtu["state"] == "error" and mtu["fix"] == "ssh root@host ip link set lo mtu 1500"
        assert done.returncode == 1
    done = doctor("--host", "root@other", "--json", folder=tmp_path)
    (found,) = [found for found in findings(done) if found["subject"] == "host root@other"]
    assert found["state"] == "error" and "No route" in found["message"] and "ssh-copy-id" in found["fix"]
