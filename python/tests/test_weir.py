"""Does `import weir` give the command's results, as typed frames, and Python's errors?

    WEIR_BIN=target/debug/weir python -m unittest discover --start-directory python/tests
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from typing import Any
from unittest import mock

import weir

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
# Files with the time of day, this machine's speed, or the point's place in its sweep; pictures that the command may draw.
OWN = {"provenance.json", "speed.json", "point.json", "scenario.toml", "timings.csv", "sweep.json", "figure.svg", "results.parquet", ".lock"}
INCAST: dict[str, Any] = {
    "scenario": {"name": "incast", "end": "1ms"},
    "topology": {"kind": "single", "hosts": 5, "rate": "25Gbps", "delay": "1us"},
    "switch": {
        "buffer": {"size": "400KB", "policy": "dt", "dt": {"alpha": "1/8"}},
        "classes": {"preset": "roce"},
        "pfc": {"reaction": "0s"},
    },
    "workloads": [{"name": "incast", "kind": "incast", "class": 3, "sizes": "200KB", "receivers": ["H0"]}],
}
# So long that only an interruption ends it.
LONG = {
    **INCAST,
    "scenario": {"name": "long", "end": "10s"},
    "workloads": [{"name": "web", "kind": "poisson", "class": 3, "sizes": "web-search", "load": 0.5}],
}


def command(*arguments: str, cwd: pathlib.Path) -> None:
    subprocess.run([os.path.abspath(os.environ["WEIR_BIN"]), *arguments], cwd=cwd, check=True, capture_output=True)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in OWN]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Files(InFolder):
    """Files beside those of the command."""

    def test_a_run_has_the_bytes_of_testbed_run(self) -> None:
        scenario = REPOSITORY / "scenarios/incast-dcqcn.toml"
        command("testbed", "run", str(scenario), "--backend", "sim", "--output", "command", cwd=self.folder)
        results = weir.run(scenario, output=self.folder / "python")
        theirs = [contents(path.parent) for path in sorted(self.folder.glob("command/*/summary.json"))]
        ours = [contents(pathlib.Path(path)) for path in results.runs["directory"]]
        self.assertGreater(len(theirs), 0)
        for files in theirs:
            self.assertIn("fct.csv", files)
            self.assertIn(files, ours)
        self.assertEqual(len(theirs), len(ours))

    def test_a_sweep_has_the_bytes_of_weir_sweep(self) -> None:
        tables = {"seeds": 2, "parameters": {"switch.buffer.dt.alpha": ["1/8", "1/4"]}}
        text = pathlib.Path(weir.run(INCAST, output=self.folder / "first").runs["directory"][0], "scenario.toml").read_text()
        (self.folder / "scenario.toml").write_text(text)
        sweep = self.folder / "sweep.toml"
        sweep.write_text('scenario = "scenario.toml"\nseeds = 2\n[parameters]\n"switch.buffer.dt.alpha" = ["1/8", "1/4"]\n')
        command("sweep", str(sweep), "--output", "command", cwd=self.folder)
        results = weir.sweep(sweep, output=self.folder / "file", jobs=1)
        theirs = contents(self.folder / "command")
        self.assertEqual(contents(self.folder / "file"), theirs)
        # Switches' files name the scenario that they are made from.
        weir.sweep({**tables, "scenario": INCAST}, output=self.folder / "dict")
        of_dict = contents(self.folder / "dict")
        self.assertEqual([name for name in theirs if of_dict[name] != theirs[name] and not name.endswith(".toml")], [])
        self.assertEqual(list(results.points["switch.buffer.dt.alpha"]), ["1/8", "1/8", "1/4", "1/4"])
        self.assertEqual(list(results.points["seed"]), [1, 2, 1, 2])
        self.assertEqual(len(weir.Results(self.folder / "command").messages), 16)
        with self.assertRaises(FileNotFoundError):
            weir.Results(self.folder)


class Frames(InFolder):
    """Results as frames."""

    def test_frames_have_every_run_and_types(self) -> None:
        results = weir.run(INCAST, set={"switch.buffer.dt.alpha": "1/4"}, seeds=range(2))
        messages = results.messages
        self.assertEqual(list(messages.groupby("seed").size()), [4, 4])
        self.assertEqual(set(messages["from"]), {"H1", "H2", "H3", "H4"})
        self.assertTrue((messages["bytes"] == 200_000).all() and (messages["fct_us"] >= messages["ideal_us"]).all())
        self.assertEqual([str(messages[name].dtype) for name in ("bytes", "fct_us", "to")], ["int64", "float64", "category"])
        self.assertEqual(results.table("messages").num_rows, 8)
        # The pauses of the events are those that the switch added up.
        paused = results.pauses.assign(us=lambda of: of["end_us"] - of["start_us"]).groupby("seed")["us"].sum()
        self.assertGreater(len(results.pauses), 0)
        self.assertEqual([round(us * 1e3) for us in paused], list(results.summary["flow_control.paused_ns"]))
        self.assertEqual(list(results.summary["switch.buffer.dt.alpha"]), ["1/4", "1/4"])
        self.assertEqual(set(results.series["point"]), {1, 2})
        self.assertTrue(all(dtype == "float64" for dtype in results.series.drop(columns=["point", "run", "seed"]).dtypes))

    def test_a_summary_that_cannot_be_read_leaves_its_run_out(self) -> None:
        results = weir.run(INCAST, seeds=range(3), output=self.folder / "cut")
        first = pathlib.Path(results.runs["directory"].iloc[0], "summary.json")
        whole = first.read_text()
        for text in (whole[: len(whole) // 2], "", "[1]", "no JSON"):
            first.write_text(text)
            with self.assertWarnsRegex(UserWarning, "summary.json can't be read, and its run is left out: ") as warned:
                summary = results.summary
            self.assertEqual(([2, 3], __file__), (list(summary["point"]), warned.filename))
            self.assertEqual(len(results.messages), 12)

    def test_an_unfinished_message_is_there_without_a_time(self) -> None:
        # A run that has sent more since its end than before it ends.
        scenario = {**INCAST, "workloads": [{**INCAST["workloads"][0], "sizes": "200MB"}]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            messages = weir.run(scenario).messages
        self.assertEqual(len(messages), 4)
        self.assertTrue(messages["fct_us"].isna().all())

    def test_results_and_the_package_say_what_they_are(self) -> None:
        results = weir.run(INCAST, seeds=2)
        self.assertEqual(repr(results), f"<weir.Results of 2 points in {results.directory}>")
        with self.assertRaises(weir.Error) as caught:
            results.table("message")
        self.assertIn("there is no table 'message'; write 'messages', 'series', 'events'", str(caught.exception))
        self.assertEqual((dir(weir), weir.Error.__module__), (sorted(weir.__all__), "weir"))

    def test_results_without_an_output_end_with_their_object(self) -> None:
        results = weir.run(INCAST)
        directory = results.directory
        self.assertTrue(directory.exists())
        del results
        self.assertFalse(directory.exists())


class Errors(InFolder):
    """Errors as exceptions, which leave nothing."""

    def test_wrong_input_has_its_place_and_a_fix(self) -> None:
        output = self.folder / "out"
        (self.folder / "wrong.toml").write_text("[scenario]\nend = '1ms'\n[topology]\nkind = 'single'\n")
        for scenario, options, parts in [
            (self.folder / "none.toml", {}, ["there is no file"]),
            (self.folder / "wrong.toml", {}, ["wrong.toml:3", "a topology needs `rate`", 'write rate = "100Gbps"']),
            (INCAST, {"set": {"switch.buffer.dt.alph": 1}}, ["switch.buffer.dt.alph = 1: ", "unknown key `alph` in [buffer.dt]", "write `alpha`"]),
            (INCAST, {"set": {"workloads.9.sizes": "1KB"}}, ["workloads.9.sizes: the scenario's `workloads` have no `9`; write a place"]),
            (INCAST, {"set": {"switch..mtu": 1}}, ['"switch..mtu" is no parameter; write the keys']),
            (INCAST, {"set": {"switch.mtu": None}}, ["a value that TOML does not have"]),
            (INCAST, {"set": {"switch.mtu": object()}}, ["is no value of a file"]),
            (INCAST, {"seeds": [1, 1]}, ["seed 1 is listed twice"]),
            (INCAST, {"runs": ["DSH"]}, ['has no run "DSH"']),
            (INCAST, {"jobs": 0}, ["jobs: write 1 or more"]),
        ]:
            with self.subTest(parts=parts), self.assertRaises(weir.Error) as caught:
                weir.run(scenario, output=output, **options)  # type: ignore[arg-type]
            for part in parts:
                self.assertIn(part, str(caught.exception))
            # Of the text that tables are read as, the caller knows nothing.
            self.assertNotIn("sweep:", str(caught.exception))
            self.assertFalse(output.exists())

    def test_a_run_that_crashes_is_an_exception(self) -> None:
        program = ["/bin/sh", "-c", "echo out of luck >&2; kill -9 $$"]
        with mock.patch("weir._program", return_value=program), warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(weir.Error) as caught:
                weir.run(INCAST, seeds=2)
            self.assertIn("2 of 2 runs crashed, first incast with seed 1: killed (signal 9)", str(caught.exception))
            self.assertIn("kept with output= alone", str(caught.exception))
            with self.assertRaises(weir.Error) as caught:
                weir.run(INCAST, output=self.folder / "out")
        self.assertIn(f"Finished points are in {self.folder / 'out'}", str(caught.exception))
        with mock.patch("weir._program", return_value=program), self.assertWarns(RuntimeWarning):
            self.assertEqual(list(weir.sweep({"scenario": INCAST}).failures["outcome"]), ["crashed"])

    def test_a_run_that_ends_unlike_expected_has_results_and_a_warning(self) -> None:
        with self.assertWarns(RuntimeWarning):
            results = weir.run({**INCAST, "runs": [{"name": "one", "expect": "deadlock"}]})
        self.assertEqual(list(results.failures["outcome"]), ["failed"])
        self.assertEqual(len(results.messages), 4)

    def test_an_error_of_progress_stops(self) -> None:
        output = self.folder / "out"
        calls = []

        def progress(finished: float, points: int) -> None:
            calls.append((finished, points))
            if finished > 0:
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            weir.run(LONG, output=output, progress=progress)
        self.assertEqual(calls[0], (0.0, 1))
        self.assertTrue(0 < calls[-1][0] < 1)
        self.assertEqual(list((output / "runs").iterdir()), [])

    def test_ctrl_c_ends_a_run_and_leaves_nothing_unfinished(self) -> None:
        output = self.folder / "out"
        program = f"import sys, weir\ntry:\n    weir.run({LONG!r}, output={str(output)!r})\nexcept KeyboardInterrupt:\n    sys.exit(7)"
        process = subprocess.Popen([sys.executable, "-c", program])
        while not (output / "runs/.1.part").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 7)
        self.assertEqual(list((output / "runs").iterdir()), [])


class Papers(InFolder):
    """Papers' figures, and other simulators."""

    def test_a_figure_has_its_verdict(self) -> None:
        # Away from the repository's papers, so that the package's are found.
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        reproduction = weir.reproduce("spfc.11", quick=True)
        self.assertEqual(reproduction.conclusions, "reproduced")
        self.assertIn("judgement", reproduction.claims.columns)
        self.assertGreater(len(reproduction.numbers), 0)
        self.assertEqual(len(reproduction.results.points), reproduction.outcome["points"])
        with self.assertRaises(weir.Error) as caught:
            weir.reproduce("spfc")
        self.assertIn("name one of: ", str(caught.exception))

    def test_a_comparison_has_a_row_for_each_figure(self) -> None:
        results = weir.run(INCAST)
        fct = self.folder / "fct.txt"
        with fct.open("w") as file:
            for _, one in results.messages.iterrows():
                times = f"{one['fct_us'] * 1e3:.0f} {one['ideal_us'] * 1e3:.0f}"
                file.write(f"{one['from'][1:]} {one['to'][1:]} 1 100 {one['bytes']} 0 {times}\n")
        frame = weir.compare(fct, results)
        self.assertEqual(set(frame["verdict"]), {"agrees"})
        with self.assertRaises(weir.Error):
            weir.compare(fct, results, within=-5.0)
        self.assertIn("one run on a side has no spread", "".join(frame.attrs["notes"]))


if __name__ == "__main__":
    unittest.main()
