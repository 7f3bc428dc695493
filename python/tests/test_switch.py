"""Does `weir.Switch` ask and change a running switch as the command does? Needs no root: frames come from a capture, again and again.

    WEIR_BIN=target/debug/weir python -m unittest discover --start-directory python/tests
"""

import itertools
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any

import pandas as pd

import weir
from weir import _switch

# Much, for machines that do much else.
PATIENCE_S = 60
HOST, OTHER = bytes.fromhex("02000000000a"), bytes.fromhex("020000000001")
FRAME_BYTES = 1_000
# Slow enough at `out` that the switch pauses the sender at `in`, a replay.
LAB = """
[switch]
name = "lab"
idle = "sleep"
[lcores]
layout = "single"
[buffer]
size = "1MB"
policy = "dt"
headroom = "400KB"
[buffer.dt]
alpha = "1/16"
[classes]
lossless = [3]
[classes.dscp]
26 = 3
[[ports]]
name = "in"
replay = {{ file = "{frames}", loops = 0 }}
rate = "1Gbps"
[[ports]]
name = "out"
pcap = {{ tx = "{sent}" }}
rate = "10Mbps"
[[static_macs]]
mac = "02:00:00:00:00:01"
port = "out"
"""
#: A command of each view that has none of its own name.
COMMANDS = {"priority-group": "priority-group drop", "queue": "queue watermark", "lldp": "lldp table"}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([os.environ["WEIR_BIN"], *arguments], capture_output=True, text=True, check=False)


def capture(path: pathlib.Path, frames: int) -> None:
    """Lossless UDP frames, back to back at 1 Gb/s."""
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 26 << 2, FRAME_BYTES - 14, 0, 0, 64, 17, 0, bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2)))
    frame = (OTHER + HOST + b"\x08\x00" + ip + struct.pack(">HHHH", 7, 9, FRAME_BYTES - 34, 0)).ljust(FRAME_BYTES, b"r")
    records = (struct.pack("<IIII", 1, 8 * number, FRAME_BYTES, FRAME_BYTES) + frame for number in range(frames))
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1) + b"".join(records))


class Running(unittest.TestCase):
    """A running switch."""

    folder: pathlib.Path
    file: pathlib.Path
    socket: pathlib.Path
    process: "subprocess.Popen[str]"
    switch: weir.Switch

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        capture(cls.folder / "frames.pcap", 100)
        cls.file = cls.folder / "lab.toml"
        cls.file.write_text(LAB.format(frames=cls.folder / "frames.pcap", sent=cls.folder / "sent.pcap"))
        cls.socket = cls.folder / "lab.sock"
        arguments = [os.environ["WEIR_BIN"], "run", str(cls.file), "--quiet", "--control", str(cls.socket)]
        cls.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end)
        assert cls.process.stderr is not None
        for line in cls.process.stderr:
            if "forwarding" in line:
                break
        else:
            raise RuntimeError("the switch does not forward")
        cls.switch = weir.Switch(cls.socket)

    @classmethod
    def end(cls) -> None:
        cls.process.terminate()
        cls.process.communicate()

    def until(self, ask: Any, is_enough: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not is_enough(answer := ask()):
            self.assertLess(time.monotonic(), deadline, answer)
            time.sleep(0.05)
        return answer

    def told(self, what: str) -> Any:
        """A view as the command has it."""
        shown = command("show", *what.split(), "--json", "--socket", str(self.socket))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return json.loads(shown.stdout)

    def test_each_view_is_that_of_the_command(self) -> None:
        for name, view in _switch._VIEWS.items():
            what = COMMANDS.get(name, name)
            with self.subTest(what=what):
                if name in ("lldp", "flow-control"):
                    # None here: the command says so.
                    self.assertEqual(len(self.switch.show(what)), 0)
                elif view in ("lcores", "events", "metrics"):
                    self.assertIn(view, self.told(what))
                    self.assertGreater(len(self.switch.show(what)), 0)
                else:
                    self.assertIn(view, self.told(what)["switches"][0])
                    self.assertIsInstance(self.switch.show(what), pd.DataFrame)

    def test_values_are_those_of_the_command(self) -> None:
        (theirs,) = self.told("buffer configuration")["switches"]
        buffer = theirs["buffer_configuration"]
        frame = self.switch.show("buffer configuration")
        # T(t) moves with the traffic.
        rows = [{key: value for key, value in row.items() if key != "threshold_bytes"} for row in buffer["queues"]]
        self.assertEqual(frame.drop(columns="threshold_bytes").to_dict("records"), rows)
        self.assertEqual((frame.attrs["policy"], frame.attrs["size_bytes"]), (buffer["policy"], buffer["size_bytes"]))
        self.assertEqual(self.switch.show("mac").to_dict("records"), self.told("mac")["switches"][0]["mac"])
        # Counters only grow, so that an answer between two of the command's is between their values.
        (before,) = self.told("interfaces")["switches"]
        ours = self.switch.show("interfaces", "in")
        (after,) = self.told("interfaces")["switches"]
        (low, high) = (next(of for of in all["interfaces"] if of["port"] == "in")["rx"]["frames"] for all in (before, after))
        self.assertEqual(list(ours["port"]), ["in"])
        self.assertTrue(low <= ours["rx.frames"].iloc[0] <= high, (low, ours["rx.frames"], high))

    def test_pauses_are_counted_by_port_and_class(self) -> None:
        def pauses() -> pd.DataFrame:
            frame = self.switch.show("pfc counters", "in")
            assert isinstance(frame, pd.DataFrame)
            return frame

        frame = self.until(pauses, lambda frame: frame["tx_pauses"].sum() > 1)
        self.assertEqual(list(frame["class"]), list(range(8)))
        self.assertEqual(frame.loc[frame["tx_pauses"] > 0, "class"].tolist(), [3])
        self.assertGreater(frame["tx_paused_us"][3], 0)
        # The port was never paused, and its columns are there.
        self.assertTrue(frame["rx_last_pause.us"].isna().all())
        self.assertIn('weir_pfc_tx_frames_total{switch="lab",port="in",priority="3"}', self.switch.show("metrics"))
        self.switch.clear("counters")
        self.assertIn("counters_cleared_unix_ms", pauses().attrs)

    def test_a_threshold_is_set_for_a_time(self) -> None:
        def alpha() -> str:
            return next(line for line in self.switch.configuration.splitlines() if line.startswith("alpha"))

        changed = self.switch.set("buffer.dt.alpha", "1/4")
        self.assertEqual(changed[["key", "outcome"]].values.tolist(), [["buffer.dt.alpha", "applied"]])
        self.assertEqual(alpha(), 'alpha = "1/4"')
        self.assertEqual(self.switch.set({"buffer.dt.alpha": "1/8"}, seconds=0.2)["was"].tolist(), ["1/4"])
        changes = self.until(lambda: list(self.switch.show("events").query("event == 'key_set'")["detail"]), lambda changes: len(changes) == 3)
        self.assertEqual(changes[1:], ["buffer.dt.alpha: 1/4 -> 1/8", "buffer.dt.alpha: 1/8 -> 1/4"])
        self.switch.set({"ports.out.pause": "none", "switch.stats_interval": weir.Span("2s")})
        self.assertEqual(self.switch.set("switch.stats_interval", None)[["was", "is"]].values.tolist(), [["2s", None]])

    def test_queues_are_watched(self) -> None:
        rows = list(self.switch.watch("priority-group", "in", every=0.01, times=3))
        self.assertEqual(len(rows), 3 * 8)
        frame = pd.DataFrame(rows)
        self.assertEqual(frame.groupby("time").size().tolist(), [8, 8, 8])
        self.assertTrue(frame[frame["class"] == 3]["frames"].is_monotonic_increasing)
        # Without a number it goes on.
        self.assertEqual(len(list(itertools.islice(self.switch.watch("mac", every=0.0), 5))), 5)

    def test_errors_have_the_switchs_text(self) -> None:
        asked: list[tuple[Callable[[], object], list[str]]] = [
            (lambda: self.switch.show("queue", "nine"), ["show", "queue", "watermark", "-p", "nine"]),
            (lambda: self.switch.set("buffer.dt.alph", 1), ["set", "buffer.dt.alph=1"]),
            (lambda: self.switch.set("buffer.dt.alpha", "much"), ["set", "buffer.dt.alpha=much"]),
            (lambda: self.switch.set("buffer.size", "2MB"), ["set", "buffer.size=2MB"]),
            (lambda: self.switch.set({"buffer.dt.alpha": "1/2", "nosuch": 1}), ["set", "buffer.dt.alpha=1/2", "nosuch=1"]),
        ]
        for ask, arguments in asked:
            theirs = command(*arguments, "--socket", str(self.socket))
            with self.subTest(arguments=arguments), self.assertRaises(weir.Error) as caught:
                ask()
            self.assertEqual(theirs.returncode, 2)
            self.assertIn(str(caught.exception), theirs.stderr)
        wrong: list[tuple[str, Callable[[], object]]] = [
            ("there is no view 'weather'", lambda: self.switch.show("weather")),
            ("buffer.dt.alpha has no value", lambda: self.switch.set("buffer.dt.alpha")),
            ("is no value of a key", lambda: self.switch.set("buffer.dt.alpha", object())),
            ("metrics have no rows", lambda: next(self.switch.watch("metrics"))),
            ("no switch is named 'left'; there is lab", lambda: weir.Switch(self.socket, switch="left")),
            ("there is no file or socket none.toml", lambda: weir.Switch("none.toml")),
            (f"{self.folder} is a folder", lambda: weir.Switch(self.folder)),
            ("no switch runs by", lambda: weir.Switch(self.folder / "frames.pcap")),
        ]
        for message, ask in wrong:
            with self.subTest(message=message), self.assertRaises(weir.Error) as caught:
                ask()
            self.assertIn(message, str(caught.exception))


class Found(unittest.TestCase):
    """Switches found by their files."""

    def test_a_switch_is_found_by_its_file_or_name(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            files = [folder / f"{side}-{os.getpid()}.toml" for side in ("left", "right")]
            for file in files:
                ports = "".join(f'[[ports]]\nname = "p{n}"\nring = "{file.stem}"\nrate = "1Gbps"\n' for n in range(2))
                file.write_text(f'[switch]\nname = "{file.stem}"\nidle = "sleep"\n[lcores]\nlayout = "single"\n{ports}')
            arguments = [os.environ["WEIR_BIN"], "run", "--quiet", *map(str, files)]
            process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                assert process.stderr is not None
                self.assertTrue(any("forwarding" in line for line in process.stderr))
                right = weir.Switch(files[1])
                self.assertEqual(right.name, files[1].stem)
                self.assertEqual(list(right.show("interfaces")["port"]), ["p0", "p1"])
                self.assertEqual(weir.Switch(switch=files[0].stem).name, files[0].stem)
                with self.assertRaisesRegex(weir.Error, "several switches run there"):
                    weir.Switch(right.socket)
            finally:
                process.terminate()
                process.communicate()
            with self.assertRaises(weir.Error):
                right.show("interfaces")


if __name__ == "__main__":
    unittest.main()
