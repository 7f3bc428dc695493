"""The page of a running switch and of runs that are played, in a browser: does it show what the switch does, and can time be moved by
keyboard, mouse and finger? Needs Chromium, and no root."""

import json
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from weirlab import chromium
from weirlab.chromium import Page
from weirlab.switch import QUIET, REPOSITORY, Switch, weir_binary

RING = REPOSITORY / "scenarios" / "gfc-ring.toml"

needs_chromium = pytest.mark.skipif(
    not chromium.chromium(), reason="no Chromium is installed here (Debian: apt-get install chromium), and no CHROMIUM names one"
)


def weir(*arguments, code=0):
    finished = subprocess.run([weir_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == code, finished.stderr
    return finished.stdout + finished.stderr


class Playing:
    """`weir play` as a child process, at a port that is free."""

    def __init__(self, *arguments):
        command = [weir_binary(), "play", *map(str, arguments), "--http", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.said = ""
        while "http://" not in self.said:
            line = self.process.stdout.readline()
            assert line, f"{command} has ended: {self.said}"
            self.said += line
        self.url = re.search(r"http://\S+", self.said).group()

    def end(self):
        """By Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """The ring under PFC, which deadlocks, and under GFC, run in virtual time and played."""
    folder = tmp_path_factory.mktemp("play") / "ring"
    chosen = [argument for run in ("PFC, arrival", "GFC by stages, arrival") for argument in ("--run", run)]
    playing = Playing(RING, *chosen, "-o", folder)
    assert (folder / "pfc-arrival" / "series.csv").exists()
    yield playing
    assert playing.end() == 0


@pytest.fixture
def opened(tmp_path):
    pages = []

    def open_page(url, **options):
        page = Page(tmp_path / f"profile{len(pages)}", **options)
        pages.append(page)
        page.open(url)
        page.until("window.weir !== undefined && weir.model !== undefined")
        return page

    yield open_page
    for page in pages:
        page.__exit__()


#: Lanes of links that a receiver has paused, as the drawing names them.
PAUSED = "[...document.querySelectorAll('#topology .link title')].map((of) => of.textContent).filter((of) => of.includes('paused'))"
NOW = "weir.player.at"


@needs_chromium
@pytest.mark.parametrize("options", [{}, {"scheme": "dark"}, {"width": 390, "height": 844}], ids=["wide", "dark", "phone"])
def test_the_page_loads_alone_and_draws_everything(opened, ring, options):
    page = opened(ring.url, **options)
    page.evaluate("weir.player.go(5.5)")
    assert page.errors == []
    # Legends have the moment's values without a pointer over a plot, and the player stands in two rows where it is narrow.
    values = page.evaluate("[...document.querySelectorAll('#plots .u-legend .u-series:first-child .u-value')].map((of) => of.textContent)")
    assert len(values) == 4 and set(values) == {"5.5"}, values
    assert page.evaluate("document.getElementById('player').offsetHeight") < 100
    assert all(url.startswith(ring.url) or url.startswith("data:") for url in page.requests), page.requests
    assert page.evaluate("document.documentElement.scrollWidth") <= options.get("width", 1280), "nothing is to be scrolled sideways"
    assert page.evaluate("document.querySelectorAll('#topology .switch').length") == 3
    assert page.evaluate("document.querySelectorAll('#buffers .queue').length") == 9
    # Every canvas has more than one colour, and the moment's line besides.
    colors = """[...document.querySelectorAll('canvas')].map((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return new Set(new Uint32Array(data.buffer)).size;
    })"""
    drawn = page.evaluate(colors)
    assert len(drawn) == 5 and min(drawn) > 3, drawn


@needs_chromium
def test_a_deadlock_forms_link_by_link(opened, ring):
    page = opened(ring.url)
    assert page.evaluate(PAUSED) == []
    # To each event in turn, by the keyboard, until the alarm. Each is a moment at which something was told.
    paused, moments = [], []
    while not page.evaluate("document.getElementById('alarm').textContent"):
        page.press("ArrowRight", shift=True)
        moments.append(page.evaluate(NOW))
        paused.append(page.evaluate(PAUSED))
        assert len(moments) < 200
    assert moments == sorted(set(moments))[: len(moments)] and moments[0] == pytest.approx(1.38476)
    assert [len(lanes) for lanes in paused[:2]] == [1, 2]
    assert re.match(r"S1\.next to S2\.prev: paused: class 3", paused[0][0]), paused[0]
    page.evaluate("weir.player.go(10)")
    between = [lane for lane in page.evaluate(PAUSED) if "part of the deadlock" in lane]
    assert len(between) == 3, between
    assert "S1.next → S2.next → S3.next → S1.next" in page.evaluate("document.getElementById('alarm').textContent")
    chips = page.evaluate("[...document.querySelectorAll('#buffers .chip')].map((of) => of.textContent)")
    assert chips.count("pauses its peer") == 6 and chips.count("paused by its peer") == 3, chips
    page.press("Home")
    assert page.evaluate(NOW) == 0 and page.evaluate(PAUSED) == []
    assert page.evaluate("getComputedStyle(document.getElementById('alarm')).visibility") == "hidden"


@needs_chromium
def test_time_is_moved_by_keys_buttons_and_the_slider(opened, ring):
    page = opened(ring.url)
    page.press("ArrowRight")
    first = page.evaluate(NOW)
    page.press("ArrowRight")
    page.press("ArrowLeft")
    assert page.evaluate(NOW) == first == 0.05
    page.press(" ")
    page.until(f"{NOW} > 0.06")
    page.press(" ")
    assert page.evaluate("weir.player.isPlaying") is False
    speed = page.evaluate("weir.player.speed")
    page.press("+")
    assert page.evaluate("weir.player.speed") > speed
    page.press("End")
    assert page.evaluate(NOW) == 30
    x, y, width = page.evaluate("""(() => {
      const { left, top, width, height } = document.getElementById('time').getBoundingClientRect();
      return [left, top + height / 2, width];
    })()""")
    page.drag((x + width - 4, y), (x + width / 2, y))
    assert page.evaluate(NOW) == pytest.approx(15, abs=1)
    # A click into a plot goes to that moment too.
    page.evaluate("document.querySelector('#pauses canvas').scrollIntoView({ block: 'center' })")
    x, y, width = page.evaluate("""(() => {
      const { left, top, width } = document.querySelector('#pauses canvas').getBoundingClientRect();
      return [left, top + 5, width];
    })()""")
    for kind in ("mousePressed", "mouseReleased"):
        page.mouse(kind, x + width / 4, y, button="left", clickCount=1)
    assert page.evaluate(NOW) == pytest.approx(7.5, abs=0.2)
    page.press("?")
    assert page.evaluate("document.getElementById('help').hidden") is False
    page.press("n")
    assert page.evaluate("document.getElementById('queue').value === weir.queue.id && document.querySelector('.queue.chosen button').textContent")
    assert page.errors == []


@needs_chromium
def test_another_run_is_chosen(opened, ring):
    page = opened(ring.url)
    page.evaluate("const list = document.getElementById('run'); list.value = '1'; list.dispatchEvent(new Event('change'))")
    page.until("weir.model.deadlock === null")
    page.evaluate("weir.player.go(20)")
    chips = page.evaluate("[...document.querySelectorAll('#buffers .chip')].map((of) => of.textContent)")
    assert any(re.fullmatch(r"▽ lets its peer send at [\d.]+[MG]b/s", chip) for chip in chips), chips
    assert page.evaluate("document.querySelectorAll('#topology .link.slowed').length") > 0


STATES = "[...document.querySelectorAll('.pane-state')].map((of) => of.textContent)"
#: Heights of the letters of all texts that are seen, in pixels, and whether a text is wider than its place.
LETTERS = """[...document.querySelectorAll('body *')].filter((of) => [...of.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) && of.getClientRects().length > 0 && !of.closest('.hidden, title, option')).map((of) => {
  const svg = of.closest('svg');
  const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  return [parseFloat(getComputedStyle(of).fontSize) * scale, of.textContent.trim()];
})"""


@needs_chromium
def test_two_runs_are_compared_at_a_moment_of_the_url(opened, ring):
    page = opened(ring.url + "#run=1&beside=0&t=10")
    page.until(f"{STATES}.length === 2")
    assert page.evaluate(NOW) == 10 and page.evaluate(STATES)[1].startswith("✖ DEADLOCK since ")
    assert page.evaluate(STATES)[0].startswith("✓")
    page.press("Home")
    assert page.evaluate(STATES)[1].startswith("✓") and page.evaluate("location.hash") == "#run=1&beside=0&t=0"
    page.evaluate("document.querySelector('#marks .deadlock').click()")
    assert page.evaluate(NOW) == page.evaluate("weir.panes[1].model.deadlock.since_ms") and "DEADLOCK" in page.evaluate(STATES)[1]
    page.evaluate("const list = document.getElementById('beside'); list.value = ''; list.dispatchEvent(new Event('change'))")
    page.until("document.querySelectorAll('.pane').length === 0")
    assert page.errors == []


@needs_chromium
def test_a_class_sees_pfc_deadlock_beside_gfc(opened, tmp_path):
    playing = Playing("-o", tmp_path / "runs", "--speed", "10ms")
    try:
        page = opened(playing.url, height=720)
        assert page.evaluate("document.querySelectorAll('#cards button').length") == 5
        page.evaluate("document.querySelectorAll('#cards button')[1].click()")
        page.until(f"{STATES}.some((state) => state.includes('DEADLOCK'))")
        assert page.evaluate(STATES)[1].startswith("✓ no deadlock")
        # From the last row: letters of 13 pixels at least, and all of it on the screen but for legends.
        small = [words for height, words in page.evaluate(LETTERS) if height < 13]
        assert small == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        bottom = page.evaluate("Math.max(...[...document.querySelectorAll('.pane canvas')].map((of) => of.getBoundingClientRect().bottom))")
        assert bottom < 720 - page.evaluate("document.getElementById('player').offsetHeight")
        # A wrong value gets a message, and the present one is shown again; a good one of a key that is fixed starts the runs again.
        set_ = "((value) => {{ const field = document.querySelectorAll('.slider input[type=text]')[{0}]; field.value = value; field.dispatchEvent(new Event('change')); }})"
        page.evaluate(f"{set_.format(1)}('2MB')")
        page.until("document.getElementById('refused').textContent.includes('b_1')")
        assert not page.evaluate("document.getElementById('refused').textContent.includes('.toml')")
        page.until("document.querySelectorAll('.slider input[type=text]')[1].value === weir.menu.sliders.get('b_1').value")
        page.evaluate(f"{set_.format(1)}('500KB')")
        page.until("weir.menu.session === 2 && weir.player.model")
        page.evaluate(f"{set_.format(0)}('400KB')")
        page.until("document.querySelectorAll('#marks .change').length === 1")
        page.press(" ")
        page.until("!weir.player.isPlaying")
        at = page.evaluate("weir.player.model.end")
        page.press("Home")
        assert page.evaluate(NOW) == 0
        page.press(" ")
        page.until(f"weir.player.model.end > {at} && {NOW} > {at}")
        # The browser notes the answer to the wrong value.
        assert len(page.errors) == 1 and "400 (Bad Request)" in page.errors[0], page.errors
        assert (tmp_path / "runs" / "ring-2" / "pfc" / "scenario.toml").read_text().count("[[changes]]") == 1
    finally:
        assert playing.end() == 0


@needs_chromium
def test_spfc_is_seen_to_protect_a_victim(opened, tmp_path):
    weir("demo", "--backend", "sim", "--policy", "spfc", "-o", tmp_path / "demo")
    playing = Playing(tmp_path / "demo", "--speed", "100us")
    try:
        page = opened(playing.url)
        assert page.evaluate("weir.player.speed") == 0.1
        page.evaluate("weir.player.go(weir.model.end / 2)")
        chips = page.evaluate("""[...document.querySelectorAll('#buffers .queue')].map((of) =>
          [of.querySelector('button').textContent, [...of.querySelectorAll('.chip')].map((chip) => chip.textContent)])""")
        assert dict(chips)["p0 · 3"] == ["◆ victim"], chips
    finally:
        assert playing.end() == 0


@needs_chromium
def test_a_running_switch_is_followed(opened, tmp_path):
    files = []
    for name in ("left", "right"):
        files.append(tmp_path / f"{name}.toml")
        files[-1].write_text(QUIET.format(name=name))
    control = tmp_path / "c.sock"
    with Switch(*files, arguments=["--http", "0", "--control", control, "--quiet"]) as switch:
        url = re.search(r"(http://[0-9.:]+/): the switches", "".join(switch._lines["stderr"])).group(1)
        page = opened(url, width=390, height=844)
        page.until("document.getElementById('connection').textContent.includes('live')")
        assert page.evaluate("weir.model.links.length") == 2
        set_ = ["set", "--socket", control, "--switch", "right"]
        weir(*set_, "ports.up.pause=3")
        page.until(f"{PAUSED}.length === 1")
        assert page.evaluate(PAUSED)[0].startswith("left.up to right.up: paused: class 3")
        page.until("document.querySelectorAll('#pauses .name').length === 2")
        assert "key set ports.up.pause" in page.evaluate("document.getElementById('events').textContent")
        # The page stops, the switch goes on; then the newest again.
        page.press(" ")
        at = page.evaluate(NOW)
        weir(*set_, "ports.up.pause=none")
        page.until(f"weir.model.end > {at} + 1000")
        assert page.evaluate(NOW) == at and len(page.evaluate(PAUSED)) == 1
        page.press("End")
        page.until(f"{PAUSED}.length === 0")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.errors == []
        assert switch.stop().code == 0
        page.until("document.getElementById('connection').textContent.includes('does not answer')")


@needs_chromium
@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["wide", "phone"])
def test_ports_and_losses_are_seen_at_once(opened, tmp_path, size):
    width, height = size
    names = [f"Ethernet{4 * number}" for number in range(32)]
    file, control = tmp_path / "leaf.toml", tmp_path / "c.sock"
    ports = [f'[[ports]]\nname = "{name}"\nring = "{number // 2}"\nrate = "10Gbps"\nheadroom = "60KB"\n' for number, name in enumerate(names)]
    file.write_text('[switch]\nname = "leaf"\n[buffer]\nsize = "32MB"\n' + "".join(ports))
    with Switch(file, arguments=["--http", "0", "--control", control, "--quiet"]) as switch:
        url = re.search(r"(http://[0-9.:]+/): the switches", "".join(switch._lines["stderr"])).group(1)
        page = opened(url, width=width, height=height)
        weir("set", "--socket", control, "ports.Ethernet8.pause=3", "ports.Ethernet124.state=down")
        page.until("document.querySelectorAll('.matrix .told').length === 1 && document.querySelectorAll('.matrix .down').length === 1")
        words = page.evaluate("[...document.querySelectorAll('.matrix button')].map((of) => of.getAttribute('aria-label'))")
        assert [of.split(":")[0] for of in words] == names
        assert words[2] == "Ethernet8: link up; pauses its peer: class 3" and words[31] == "Ethernet124: no link", words
        # A loss of a lossless class is an alarm, and a lossy one's for a minute.
        lose = """((cls, isLossless, at) => {
          weir.model.losses = [{ port: "Ethernet4", class: cls, frames: 31, reason: "headroom_violation", isLossless, at }];
          weir.show(weir.player.at);
          return [document.getElementById("alarm").textContent, document.querySelectorAll(".port.lost").length];
        })"""
        assert page.evaluate(f"{lose}(0, false, weir.model.end - 61_000)") == ["", 0]
        assert page.evaluate(f"{lose}(0, false, weir.model.end - 1_000)")[0].startswith("Frames lost: Ethernet4 class 0: 31")
        assert page.evaluate(f"{lose}(3, true, -Infinity)") == ["Lossless frames lost: Ethernet4 class 3: 31 (headroom violation).", 1]
        bottom = page.evaluate("Math.max(...[...document.querySelectorAll('.port')].map((of) => of.getBoundingClientRect().bottom))")
        assert bottom < height - page.evaluate("document.getElementById('player').offsetHeight"), "ports are below the screen"
        cut = "[...document.querySelectorAll('.port button, .queue button')].filter((of) => of.scrollWidth > of.clientWidth).length"
        assert page.evaluate(cut) == 0 and page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.errors == []
        assert switch.stop().code == 0


def test_malformed_requests_do_not_stop_a_switch(tmp_path):
    file = tmp_path / "lab.toml"
    file.write_text(QUIET.format(name="lab").replace('"two"', '"one"'))
    with Switch(file, arguments=["--http", "0", "--control", "none", "--quiet"]) as switch:
        url = re.search(r"(http://[0-9.:]+/): the switches", "".join(switch._lines["stderr"])).group(1)
        port = int(url.rsplit(":", 1)[1].strip("/"))
        for sent in [b"", b"\0" * 70_000, b"GET / HTTP/1.1\r\n", b"GET /" + b"a" * 100_000, b"\x16\x03\x01\x02", b"POST /api/state HTTP/1.1\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"GET /%00/../.. HTTP/1.1\r\nHost: localhost\r\n\r\n"]:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                try:
                    client.sendall(sent)
                    client.shutdown(socket.SHUT_WR)
                    client.recv(1 << 16)
                except OSError:
                    pass
        with urllib.request.urlopen(f"{url}api/state", timeout=60) as answer:
            assert json.load(answer)["switches"][0]["switch"] == "lab"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}nosuch", timeout=60)
        finished = switch.stop()
        finished.check_sound()


def test_wrong_input_of_play_is_told(tmp_path):
    assert "no such directory" in weir("play", tmp_path / "none", code=2)
    assert "no run's directory" in weir("play", tmp_path, code=2)
    assert "write an IP address and a port" in weir("play", tmp_path, "--http", "here", code=2)
    (tmp_path / "notes.txt").write_text("")
    assert "is no scenario" in weir("play", tmp_path / "notes.txt", code=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "another program listens there" in weir("play", tmp_path, "--http", taken.getsockname()[1], code=2)
