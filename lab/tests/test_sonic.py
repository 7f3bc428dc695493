"""SONiC's tables as a switch file that runs, and its counters under SAI's names: do they say what scapy sent?"""

import json
import subprocess
import time

import pytest
from pfc import Stream, pfc

from weirlab.switch import REPOSITORY, Switch, weir_binary

PATIENCE_S = 60
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
LENGTH, FCS = 500, 4
TABLES = REPOSITORY / "weir" / "tests" / "sonic"


def weir(*arguments):
    return subprocess.run([weir_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S)


def counters(*arguments):
    done = weir("export", "sonic-counters", *arguments)
    assert done.returncode == 0, done.stderr
    database = json.loads(done.stdout)
    maps = {"port": "PORT", "queue": "QUEUE", "group": "PG", "pool": "BUFFER_POOL"}
    named = {kind: database[f"COUNTERS_{name}_NAME_MAP"] for kind, name in maps.items()}
    numbers = [number for of in named.values() for number in of.values()]
    assert len(set(numbers)) == len(numbers) and all(number.startswith("oid:0x") for number in numbers)

    def of(kind, name, table="COUNTERS"):
        return {field: int(value) if value.isdigit() else value for field, value in database[f"{table}:{named[kind][name]}"].items()}

    return of


@pytest.mark.root
def test_a_switch_of_sonics_tables_runs_and_counts_under_sais_names(cables, place):
    here, wires = cables("sonic", ["a", "b"])
    file = place / "td2.toml"
    ports = ("--port", "Ethernet0=af_packet:sw-a", "--port", "Ethernet4=af_packet:sw-b")
    done = weir("import", "sonic", TABLES / "td2", *ports, "-o", file)
    assert done.returncode == 0, done.stderr
    assert "buffer.sonic.alpha" in done.stdout and "approximated" in done.stdout
    again = weir("import", "sonic", TABLES / "td2", *ports, "-o", file)
    assert again.returncode == 2 and "is there already" in again.stderr
    checked = subprocess.run(here.command(weir_binary(), "check", str(file)), capture_output=True, text=True, timeout=PATIENCE_S)
    assert checked.returncode == 0, checked.stderr
    assert "one pool" in checked.stdout and "α● = 1/2" in checked.stdout

    lossless, lossy = Stream(A, B, 3, length=LENGTH), Stream(A, B, 46, length=LENGTH)
    socket = place / "c.sock"
    with Switch(file, namespace=here, arguments=("--quiet", "--control", str(socket))) as switch:
        wires["b"].send(Stream(B, A, 0).next())
        for _ in range(30):
            wires["a"].send(lossless.next())
            wires["a"].send(lossy.next())
        for _ in range(4):
            wires["b"].send(pfc({3: 0}))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            of = counters("--socket", socket)
            if of("port", "Ethernet4")["SAI_PORT_STAT_IF_OUT_UCAST_PKTS"] == 60 and of("port", "Ethernet4")["SAI_PORT_STAT_PFC_3_RX_PKTS"] == 4:
                break
            assert time.monotonic() < deadline, of("port", "Ethernet4")
            time.sleep(0.05)
        finished = switch.stop()
        summary = place / "summary.json"
        summary.write_text(json.dumps(finished.summary))
    finished.check_sound()
    for of in (of, counters(summary)):
        a, b = of("port", "Ethernet0"), of("port", "Ethernet4")
        assert a["SAI_PORT_STAT_IF_IN_OCTETS"] == 60 * (LENGTH + FCS) and a["SAI_PORT_STAT_IF_IN_DISCARDS"] == 0
        assert b["SAI_PORT_STAT_IF_OUT_OCTETS"] == 60 * (LENGTH + FCS) + 0
        # The tables give traffic class 5 queue 5 and priority group 0.
        for queue, number in ((3, 3), (5, 0)):
            assert of("queue", f"Ethernet4:{queue}")["SAI_QUEUE_STAT_PACKETS"] == 30
            group = of("group", f"Ethernet0:{number}")
            assert group["SAI_INGRESS_PRIORITY_GROUP_STAT_PACKETS"] == 30
            assert group["SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS"] == 0
        # More than a group's own 1,248 B may never have waited.
        assert of("group", "Ethernet0:3")["SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES"] >= 0
        assert of("pool", "ingress_lossless_pool")["SAI_BUFFER_POOL_STAT_CURR_OCCUPANCY_BYTES"] == 0
        assert of("pool", "egress_lossy_pool")["SAI_BUFFER_POOL_STAT_WATERMARK_BYTES"] >= 0
        assert of("queue", "Ethernet4:3")["PFC_WD_STATUS"] == "operational"


def test_what_is_no_run_has_no_counters(place):
    (place / "x.json").write_text("{}")
    for arguments, said in [
        ((place / "x.json",), "this is no summary of a run"),
        ((place / "none.json",), "No such file"),
        (("--socket", place / "none.sock"), "no switch runs with it"),
    ]:
        done = weir("export", "sonic-counters", *arguments)
        assert done.returncode == 2 and said in done.stderr, done.stderr


@pytest.mark.parametrize("platform", ["th", "th2", "sn2700"])
def test_tables_of_other_platforms_make_switches(place, platform):
    file = place / f"{platform}.toml"
    null = [argument for port in ("Ethernet0", "Ethernet4") for argument in ("--port", f"{port}=ring:r")]
    done = weir("import", "sonic", TABLES / platform, *null, "-o", file, "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)["values"]
    assert {value["outcome"] for value in values} == {"taken", "approximated", "refused"}
    checked = weir("check", file)
    assert checked.returncode == 0, checked.stderr
    with Switch(file, arguments=("--quiet", "--control", str(place / "c.sock"))) as switch:
        switch.stop().check_sound()
