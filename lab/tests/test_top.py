"""`weir top` in a terminal that is not ours (tmux): does it draw a running switch, obey keys and a new size, and give the terminal back?"""

import os
import re
import shutil
import subprocess
import time

import pytest

from weirlab.switch import QUIET, Switch, weir_binary

PATIENCE_S = 60

needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux is installed here (Debian: apt-get install tmux)")


class Terminal:
    """A shell in tmux, of a server of its own, 80 by 24."""

    def __init__(self, directory):
        self._socket = directory / "tmux.sock"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env PS1='$ ' sh")

    def _tmux(self, *arguments):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        command = ["tmux", "-S", str(self._socket), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=60).stdout

    def send(self, *keys):
        self._tmux("send-keys", *keys)

    def lines(self, *more):
        return self._tmux("capture-pane", "-p", *more).splitlines()

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def until(self, is_there):
        """Waits for a screen like this, and returns it."""
        end = time.monotonic() + PATIENCE_S
        while not is_there(lines := self.lines()):
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.05)
        return lines

    def end(self):
        self._tmux("kill-server")


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(tmp_path)
    yield opened
    opened.end()


@pytest.fixture
def two_switches(tmp_path):
    files = []
    for name in ("left", "right"):
        files.append(tmp_path / f"{name}.toml")
        files[-1].write_text(QUIET.format(name=name))
    control = tmp_path / "c.sock"
    with Switch(*files, arguments=["--control", control, "--quiet"]) as switch:
        yield switch, control


def set_(control, *arguments):
    subprocess.run([weir_binary(), "set", "--socket", control, *arguments], check=True, capture_output=True, timeout=60)


@needs_tmux
def test_a_running_switch_is_drawn(terminal, two_switches):
    switch, control = two_switches
    terminal.send(f"{weir_binary()} top --socket {control} -i 200ms", "Enter")
    lines = terminal.until(lambda lines: any(line.startswith("down") for line in lines))
    assert lines[0].startswith(" left  policy") and "switch 1 of 2" in lines[0], lines
    assert lines[1].startswith("shared ") and "most 0" in lines[1], lines
    assert lines[2].split() == ["Port", "C", "L", "Rx", "Tx", "Ingress", "queue", "In", "Xoff", "Out", "Tell%", "Told%", "State"]
    assert [line.split()[:3] for line in lines[3:5]] == [["up", "3", "U"], ["down", "3", "U"]]
    assert "q quit" in lines[23] and all(len(line) <= 80 for line in lines)
    # The peer of `up` is the other switch's port, which pauses it.
    set_(control, "--switch", "right", "ports.up.pause=3")
    terminal.until(lambda lines: lines[3].split()[-1:] == ["100"])
    terminal.send("Tab")
    # Parts of the time between two looks, of which the first may end late.
    told = ["100", "0", "forced"]
    terminal.until(lambda lines: lines[0].startswith(" right ") and lines[3].split()[-3:] == told)
    terminal.send("3")
    lines = terminal.until(lambda lines: any("key set ports.up.pause" in line for line in lines))
    assert "3 EVENTS" in lines[23]
    terminal.send("1")
    terminal.resize(120, 10)
    lines = terminal.until(lambda lines: len(lines) == 10 and "1 QUEUES" in lines[9])
    assert "Ingress queue" in lines[2] and len(lines[0]) > 110, lines
    terminal.resize(30, 5)
    terminal.until(lambda lines: len(lines) == 5 and lines[0].startswith(" right"))
    terminal.resize(80, 24)
    assert switch.stop().code == 0
    terminal.until(lambda lines: "NO ANSWER" in lines[0] and lines[23].endswith("no switch runs with it"))
    terminal.send("q")
    # The screen from before is back.
    terminal.until(lambda lines: lines[0].startswith("$ ") and [line for line in lines if line.strip()][-1].strip() == "$")


@needs_tmux
def test_colours_are_optional(terminal, two_switches):
    _, control = two_switches
    set_(control, "--switch", "left", "ports.up.state=down")
    for prefix, is_colored in [("", True), ("NO_COLOR=1 ", False)]:
        terminal.send(f"{prefix}{weir_binary()} top --socket {control} -i 200ms", "Enter")
        terminal.until(lambda lines: any(line.startswith("up ") and " X " in line for line in lines))
        screen = "\n".join(terminal.lines("-e"))
        # The port that is taken down is red; without colours it is bold alone.
        assert bool(re.search(r"\x1b\[(38;5;|3[1-7]m)", screen)) == is_colored, repr(screen)
        assert "\x1b[1m" in screen
        terminal.send("C-c")
        terminal.until(lambda lines: lines[0].startswith("$ ") and "QUEUES" not in lines[-1])


def test_without_a_terminal_it_says_so():
    finished = subprocess.run([weir_binary(), "top"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert finished.returncode == 2 and "needs a terminal" in finished.stderr
