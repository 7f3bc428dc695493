"""/metrics, the alert rules and the dashboard, as Prometheus' own tool and server see them. Needs promtool (Debian's package prometheus), and no root."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from weirlab.switch import QUIET, REPOSITORY, Switch

MONITORING = REPOSITORY / "packaging" / "monitoring"
PATIENCE_S = 60

# What the dashboard does not draw, and why.
LEFT_OUT = {
    "weir_info": "the version, for joins",
    "weir_received_frames_total": "the sum of the ports' frames, for frame conservation",
    "weir_copied_frames_total": "for frame conservation",
    "weir_sent_frames_total": "for frame conservation",
    "weir_dropped_frames_total": "for frame conservation; drops are drawn by reason",
    "weir_held_frames": "for frame conservation; the buffer is drawn in bytes",
    "weir_frames_conserved": "an alert tells",
    "weir_port_rx_frames_total": "drawn in bits",
    "weir_port_tx_frames_total": "drawn in bits",
    "weir_port_speed_bytes": "does not change by itself",
    "weir_pfc_rx_pauses_total": "drawn as time and as frames",
    "weir_pfc_tx_pauses_total": "drawn as time and as frames",
    "weir_pfc_rx_lossy_frames_total": "ignored, so that nothing waits for it",
    "weir_pfc_storms_restored_total": "each was detected before",
    "weir_priority_group_persistent_watermark_bytes": "one number since the start",
    "weir_queue_watermark_bytes": "one number between clears",
    "weir_queue_persistent_watermark_bytes": "one number since the start",
    "weir_buffer_pool_watermark_bytes": "one number between clears",
    "weir_buffer_pool_persistent_watermark_bytes": "one number since the start",
    "weir_lcore_poll_gap_max_seconds": "one number since the start; percentiles are drawn",
    "weir_pause_message_delay_max_seconds": "one number since the start; percentiles are drawn",
    "weir_pause_reaction_max_seconds": "one number since the start; percentiles are drawn",
    "weir_lldp_rx_frames_total": "neighbours are shown by weir show lldp",
    "weir_lldp_tx_frames_total": "neighbours are shown by weir show lldp",
    "weir_lldp_pfc_mismatches": "an alert tells",
    "weir_port_stations": "shown by weir show interfaces stations",
    "weir_port_station_moves_total": "an alert tells",
    "weir_port_stations_refused_frames_total": "an event tells",
    "weir_lcore_cpu_preempted_total": "the time that others had is drawn",
}

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool is installed here (Debian: apt-get install prometheus)")
needs_prometheus = pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus is installed here (Debian: apt-get install prometheus)")


def promtool(*arguments, text=None):
    finished = subprocess.run(["promtool", *map(str, arguments)], input=text, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout + finished.stderr


@pytest.fixture
def switch(tmp_path):
    """One switch whose two ports are joined; its address."""
    file = tmp_path / "lab.toml"
    file.write_text(QUIET.format(name="lab").replace('"two"', '"one"'))
    with Switch(file, arguments=["--http", "0", "--control", "none", "--quiet"]) as running:
        yield re.search(r"http://([0-9.:]+)/: the switches", "".join(running._lines["stderr"])).group(1)


def fetched(url, accept="*/*"):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics(switch):
    kind, text = fetched(f"http://{switch}/metrics", "text/plain")
    assert kind.startswith("text/plain; version=0.0.4")
    assert promtool("check", "metrics", text=text).strip() == ""
    kind, text = fetched(f"http://{switch}/metrics")
    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")


@needs_promtool
def test_promtool_accepts_the_rules_and_they_fire_when_they_should(tmp_path):
    assert "10 rules found" in promtool("check", "rules", MONITORING / "weir-alerts.yml")
    assert "SUCCESS" in promtool("test", "rules", MONITORING / "weir-alerts.test.yml")
    shutil.copy(MONITORING / "weir-alerts.yml", tmp_path)
    shutil.copy(MONITORING / "prometheus.yml", tmp_path)
    promtool("check", "config", tmp_path / "prometheus.yml")


def expressions():
    board = json.loads((MONITORING / "weir-dashboard.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def described(switch):
    """Names of all that is exported, whether it has values now or not."""
    return set(re.findall(r"^# TYPE (\S+) ", fetched(f"http://{switch}/metrics", "text/plain")[1], re.MULTILINE))


def test_what_is_exported_stands_in_the_dashboard_or_is_left_out_on_purpose(switch):
    drawn = {name.removesuffix("_bucket") for name in re.findall(r"\bweir_\w+", " ".join(expressions()))}
    exported = described(switch)
    assert exported - drawn == LEFT_OUT.keys(), sorted((exported - drawn) ^ LEFT_OUT.keys())


def test_dashboard_and_rules_ask_for_what_there_is(switch):
    rules = re.sub("(?m)#.*$", "", (MONITORING / "weir-alerts.yml").read_text())
    asked = set(re.findall(r"\bweir_\w+", " ".join([*expressions(), rules])))
    assert {name.removesuffix("_bucket") for name in asked} <= described(switch), sorted(asked - described(switch))


@needs_prometheus
def test_prometheus_scrapes_a_switch_and_answers_the_dashboard(switch, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (tmp_path / "prometheus.yml").write_text(
        f"scrape_configs: [{{ job_name: weir, scrape_interval: 200ms, scrape_timeout: 200ms, static_configs: [{{ targets: ['{switch}'] }}] }}]\n"
        f"rule_files: ['{MONITORING / 'weir-alerts.yml'}']\n"
    )
    server = subprocess.Popen(
        ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address={address}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "GOMAXPROCS": "1"},
    )

    def query(expression):
        try:
            answer = json.loads(fetched(f"http://{address}/api/v1/query?query={urllib.parse.quote(expression)}")[1])
        except urllib.error.HTTPError as error:
            # It is up, and does not understand the expression.
            assert error.code == 503, error.read()
            return []
        except OSError:
            return []
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    try:
        end = time.monotonic() + PATIENCE_S
        while not (found := query("weir_lcore_poll_gap_seconds_count")):
            assert time.monotonic() < end and server.poll() is None
            time.sleep(0.1)
        assert int(found[0]["value"][1]) > 0
        assert query('weir_port_link_up{switch="lab",port="up"}')[0]["value"][1] == "1"
        for expression in expressions():
            query(expression.replace("$__rate_interval", "1m").replace("$switch", ".*").replace("$port", ".*"))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
