"""Do policies and congestion controls that are Python classes run like those in Rust, and do their errors come back?

    python -m unittest discover --start-directory python/tests
"""

import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time
import unittest
import warnings
from typing import Any, ClassVar, Literal

from test_weir import INCAST, LONG, OWN, InFolder

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

import dt  # noqa: E402
import spfc  # noqa: E402
import timely  # noqa: E402

import weir  # noqa: E402

WEB = {"name": "web", "kind": "poisson", "class": 3, "sizes": "web-search", "load": 0.6}


def with_policy(scenario: dict[str, Any], policy: str, **keys: Any) -> dict[str, Any]:
    buffer = {"size": "400KB", "policy": policy, policy: keys}
    return {**scenario, "switch": {**scenario["switch"], "buffer": buffer}}


def files(results: weir.Results, name: str) -> dict[str, bytes]:
    """Each result file, with the kind's name as that of all."""
    found = {}
    for directory in results.runs["directory"]:
        for path in pathlib.Path(directory).rglob("*"):
            # A switch's file has the name of its policy, and of its table.
            if path.is_file() and path.name not in OWN and path.suffix != ".toml":
                found[str(path.relative_to(results.directory))] = path.read_bytes().replace(f'"{name}"'.encode(), b'"NAME"')
    return found


class SameResults(InFolder):
    """Classes that repeat a kind in Rust."""

    def assert_same(self, rust: weir.Results, python: weir.Results, names: tuple[str, str]) -> None:
        ours, theirs = files(python, names[1]), files(rust, names[0])
        self.assertEqual(set(ours), set(theirs))
        self.assertEqual([name for name in theirs if ours[name] != theirs[name]], [])
        self.assertTrue({"runs/1/summary.json", "runs/1/fct.csv", "runs/1/series.csv", "runs/1/events.csv"} <= set(ours), set(ours))

    def test_dt(self) -> None:
        # Frames of lossy classes too.
        mixed = {**INCAST, "scenario": {"name": "mixed", "end": "2ms"}, "workloads": [WEB, {**WEB, "name": "lossy", "class": 0}]}
        rust = weir.run(with_policy(mixed, "dt", alpha="1/4"))
        python = weir.run(with_policy(mixed, "mine", alpha="1/4"), policies={"mine": dt.Dt})
        self.assert_same(rust, python, ("dt", "mine"))
        self.assertGreater(len(rust.pauses), 10)

    def test_spfc(self) -> None:
        # Of two lossless classes, so that a PAUSE of one ends the port's state for the other.
        others = [{**WEB, "name": "others", "class": 4}, *INCAST["workloads"]]
        switch = {**INCAST["switch"], "classes": {"preset": "roce", "lossless": [3, 4], "dscp": {"40": 4}}}
        scenario = {**INCAST, "scenario": {"name": "web", "end": "3ms"}, "switch": switch, "workloads": [WEB, *others]}
        keys: dict[str, Any] = {"alpha": "1/8", "k_spfc": 8, "tc": "40us"}
        rust = weir.run(with_policy(scenario, "spfc", **keys))
        python = weir.run(with_policy(scenario, "mine", **keys), policies={"mine": spfc.Spfc})
        self.assert_same(rust, python, ("spfc", "mine"))
        self.assertGreater(len(rust.pauses), 10)
        states = rust.series.filter(regex=r"\.victim$")
        self.assertTrue((states == 1).any(axis=None) and (states == 0).any(axis=None))

    def test_timely(self) -> None:
        flows = [{"name": f"F{n}", "from": f"H{n}", "to": "H0", "class": 3} for n in (1, 2, 3)]
        base = {**INCAST, "scenario": {"name": "flows", "end": "2ms", "flow_gauges": True}, "workloads": [], "flows": flows}
        del base["workloads"]
        rust = weir.run({**base, "nic": {"congestion_control": "timely", "timely": {"t_low": "8us", "t_high": "40us"}}})
        nic = {"congestion_control": "mine", "mine": {"t_low": "8us", "t_high": "40us"}}
        python = weir.run({**base, "nic": nic}, congestion_controls={"mine": timely.Timely})
        self.assert_same(rust, python, ("timely", "mine"))
        rates = rust.series.filter(regex="rate_bps$")
        self.assertTrue((rates < 25e9).any(axis=None), "TIMELY had nothing to do")


class Half(weir.BufferPolicy):
    """Half of the free bytes, or none."""

    def __init__(
        self,
        context: weir.BuildContext,
        *,
        shift: int = 1,
        floor: weir.Bytes = weir.Bytes("1KB"),
        every: weir.Span = weir.Span("1us"),
        least: weir.BitRate = weir.BitRate("1Gbps"),
        factor: float = 1.5,
        is_on: bool = True,
        mode: Literal["one", "other"] = "one",
    ) -> None:
        given = (shift, floor, every, least, factor, is_on, mode)
        print("given", *map(int, given[:4]), factor, is_on, mode, len(context.rates), context.rates[0])
        self.shift, self.floor = shift, floor

    def threshold(self, queue: weir.QueueView) -> int:
        return max(queue.shared_pool.free >> self.shift, self.floor)


class Crashes(weir.BufferPolicy):
    def threshold(self, queue: weir.QueueView) -> int:
        if queue.length > 10_000:
            raise LookupError("lost my way")
        return 100_000


class Runs(InFolder):
    """Processes with classes."""

    def test_keys_reach_the_constructor(self) -> None:
        keys = {"shift": 2, "floor": "2KiB", "every": "3us", "least": "10Gbps", "factor": 0.5, "is_on": False, "mode": "other"}
        script = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\nimport test_kinds, weir\n"
        for given, expected in [
            (keys, "given 2 2048 3000000 10000000000 0.5 False other 5 25Gbps"),
            ({}, "given 1 1000 1000000 1000000000 1.5 True one 5 25Gbps"),
        ]:
            scenario = with_policy(INCAST, "half", **given)
            run = f"weir.run({scenario!r}, policies={{'half': test_kinds.Half}})"
            done = subprocess.run([sys.executable, "-c", script + run], capture_output=True, text=True, check=True, cwd=self.folder)
            self.assertIn(expected, done.stdout)

    def test_wrong_keys_have_their_place_and_a_fix(self) -> None:
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"shfit": 2}, ["unknown key `shfit` in [buffer.half]", "write `shift`"]),
            ({"shift": "two"}, ["`shift`", "must be a whole number"]),
            ({"shift": -1}, ["`shift`", "out of range"]),
            ({"floor": 5}, ["`floor`", "unit"]),
            ({"mode": "third"}, ["`mode`", '"one"']),
            ({"factor": "much"}, ["`factor`", "a number"]),
        ]
        for keys, parts in cases:
            with self.subTest(keys=keys), self.assertRaises(weir.Error) as caught:
                weir.run(with_policy(INCAST, "half", **keys), policies={"half": Half}, output=self.folder / "out")
            for part in parts:
                self.assertIn(part, str(caught.exception))
            self.assertFalse((self.folder / "out").exists())

    def test_classes_that_can_be_no_policy_are_refused(self) -> None:
        class NoThreshold(weir.BufferPolicy):
            pass

        class NoType(dt.Dt):
            def __init__(self, *, name: str = "x") -> None:
                pass

        class AnyKey(dt.Dt):
            def __init__(self, **keys: int) -> None:
                pass

        class Needs(dt.Dt):
            def __init__(self, *, alpha: weir.Alpha) -> None:
                pass

        class WrongGauge(dt.Dt):
            gauges = (weir.Gauge("Share"),)

            def gauge_values(self, queue: weir.QueueView) -> tuple[int]:
                return (0,)

        class NoValues(dt.Dt):
            gauges = (weir.Gauge("share"),)

        class Shift(dt.Dt):
            def __init__(self, *, shift: int = -1) -> None:
                pass

        class Misspelt(dt.Dt):
            def on_relase(self, ingress: weir.QueueId, bytes: int, queue: weir.QueueView) -> None:
                pass

        class NoSize(dt.Dt):
            def __init__(self, *, alpha: weir.Alpha = weir.Alpha("1"), floor: weir.Bytes = "20") -> None:  # type: ignore[assignment]
                pass

        for name, cls, part in [
            ("mine", Misspelt, "Misspelt has on_relase, which Weir does not call; write on_release"),
            ("mine", NoSize, "NoSize.__init__: `floor` has the default '20': "),
            ("mine", NoThreshold, "lacks the method threshold"),
            ("mine", NoType, "`name` has the type <class 'str'>; annotate it as Alpha"),
            ("mine", AnyKey, "`keys` is no keyword argument"),
            ("mine", Needs, "`alpha`: it has no default, and is not given"),
            ("mine", NoValues, "NoValues has gauges, and lacks the method gauge_values"),
            ("mine", Shift, "`shift` has the default -1; give it one of"),
            ("mine", WrongGauge, 'gauge "Share" of "mine" can\'t name a column'),
            ("dt", dt.Dt, 'there are two kinds of buffer policy named "dt"'),
            ("my policy", dt.Dt, "can't name a buffer policy"),
            ("mine", dt.Dt(), "is no class"),
        ]:
            with self.subTest(part=part), self.assertRaises(weir.Error) as caught:
                weir.run(with_policy(INCAST, name), policies={name: cls})  # type: ignore[dict-item]
            self.assertIn(part, str(caught.exception))

    def test_congestion_controls_that_can_be_none_are_refused(self) -> None:
        class Fraction(timely.Timely):
            def __init__(self, *, least: weir.BitRate = "line/100") -> None:  # type: ignore[assignment]
                pass

        with self.assertRaises(weir.Error) as caught:
            weir.run(INCAST, congestion_controls={"mine": Fraction})
        for part in ["Fraction.__init__: `least` has the default 'line/100'", "a fraction of the line's rate is for files alone"]:
            self.assertIn(part, str(caught.exception))
        with self.assertRaises(weir.Error) as caught:
            weir.run(INCAST, congestion_controls=[timely.Timely])  # type: ignore[arg-type]
        self.assertIn('write congestion_controls={"timely": Timely}', str(caught.exception))

    def test_a_class_that_no_run_selects_is_not_silent(self) -> None:
        policy = 'policies has "mine", which no run selects; write switch.buffer.policy = "mine"'
        control = 'congestion_controls has "own", which no run selects; write nic.congestion_control = "own"'
        with self.assertRaises(weir.Error) as caught:
            weir.run(INCAST, policies={"mine": dt.Dt}, congestion_controls={"own": timely.Timely})
        self.assertEqual(str(caught.exception), f"{policy}; {control}")
        # The names are there, and the runs show that nothing selects them.
        named = {**INCAST, "scenario": {"name": "mine-own", "end": "1ms"}}
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always")
            weir.run(named, policies={"mine": dt.Dt}, congestion_controls={"own": timely.Timely})
        self.assertEqual([str(of.message) for of in caught_warnings], [policy, control])
        runs = [{"name": "DT"}, {"name": "mine", "switch": {"buffer": {"policy": "mine"}}}]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weir.run({**INCAST, "runs": runs}, policies={"mine": dt.Dt}, output=self.folder / "out")
            # Of finished points nothing is known.
            weir.run({**INCAST, "runs": runs}, policies={"mine": dt.Dt}, output=self.folder / "out")
            nic = {"congestion_control": "own", "own": {}}
            weir.run({**INCAST, "nic": nic}, congestion_controls={"own": timely.Timely})

    def test_an_exception_ends_the_run_with_its_traceback(self) -> None:
        with warnings.catch_warnings(), self.assertRaises(weir.Error) as caught:
            warnings.simplefilter("error")
            weir.run(with_policy(INCAST, "mine"), policies={"mine": Crashes}, output=self.folder / "out")
        self.assertEqual(str(caught.exception).count("Traceback"), 1)
        out = str(self.folder / "out")
        for part in ["1 of 1 runs crashed, first incast", "test_kinds.py", 'raise LookupError("lost my way")', "LookupError: lost my way\n", out]:
            self.assertIn(part, str(caught.exception))

    def test_a_sweep_varies_a_classes_keys_and_reports_exceptions(self) -> None:
        sweep = {"scenario": with_policy(INCAST, "half"), "parameters": {"switch.buffer.half.shift": [1, 3]}}
        results = weir.sweep(sweep, policies={"half": Half}, jobs=2)
        self.assertEqual(list(results.points["switch.buffer.half.shift"]), [1, 3])
        pauses = list(results.points["pauses_sent"])
        self.assertLess(pauses[0], pauses[1])
        with self.assertWarns(RuntimeWarning):
            failed = weir.sweep({"scenario": with_policy(INCAST, "mine"), "seeds": 2}, policies={"mine": Crashes})
        self.assertEqual(list(failed.failures["outcome"]), ["crashed"] * 2)
        self.assertIn("LookupError: lost my way", failed.failures["reason"][0])
        # No run has results, and tables have their columns.
        self.assertEqual((len(failed.messages), list(failed.messages.columns)), (0, list(results.messages.columns[:2]) + ["seed"] + list(results.messages.columns[2:])))
        self.assertEqual([len(failed.events), len(failed.series), len(failed.pauses), len(failed.summary)], [0] * 4)

    def test_a_script_has_classes_of_its_own_and_sees_what_they_print(self) -> None:
        script = self.folder / "mine.py"
        text = f"""
            import weir

            TENTH = 10

            class Tenth(weir.BufferPolicy):
                def threshold(self, queue):
                    if queue.length == 0 and queue.shared_pool.used == 0:
                        print("empty")
                    return queue.shared_pool.free // TENTH

            results = weir.run({with_policy(INCAST, "tenth")!r}, policies={{"tenth": Tenth}}, output="out")
            print(len(results.messages), "messages")
            """
        script.write_text(textwrap.dedent(text))

        def run() -> "subprocess.CompletedProcess[str]":
            return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=self.folder)

        first, again = run(), run()
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("empty\n", first.stdout)
        self.assertEqual((first.stdout.splitlines()[-1], again.stdout), ("4 messages", "4 messages\n"), again.stderr)
        # Results of another class do not stand for those of this one.
        script.write_text(script.read_text().replace("// TENTH", "// TENTH + 1"))
        changed = run()
        self.assertIn("holds results that do not belong to this sweep", changed.stderr)
        script.write_text(script.read_text().replace("// TENTH + 1", "// TENTH").replace("TENTH = 10", "TENTH = 20"))
        self.assertIn("holds results that do not belong to this sweep", run().stderr)
        # A traceback has the script's lines, although its class comes by value.
        script.write_text(script.read_text().replace("// TENTH", ".none").replace('output="out"', 'output="other"'))
        self.assertIn(f'File "{script}", line 10, in threshold\n    return queue.shared_pool.free .none\n', run().stderr)

    def test_results_are_of_all_that_a_class_names(self) -> None:
        (self.folder / "helper.py").write_text("import deeper\n\nFACTOR = 1\n\ndef half(free):\n    return deeper.halved(free) * FACTOR\n")
        (self.folder / "deeper.py").write_text("import helper\n\ndef halved(free):\n    return free // 2\n")
        script = self.folder / "mine.py"
        text = """
            import re, sys, helper, weir
            from weir._identity import identity

            DIVISOR = 4
            SETTINGS = {"names": {"a", "b", "c"}, "size": weir.Bytes("1KB")}

            def own(free):
                return free // DIVISOR if "x" not in {"p", "q", "r"} else SETTINGS["size"]

            PATTERN = re.compile("x")

            def cycle():
                return helper.deeper.helper.FACTOR, PATTERN

            def closed(base):
                class Mine(weir.BufferPolicy):
                    share = 3

                    def threshold(self, queue):
                        return own(helper.half(queue.shared_pool.free)) + base + self.share + len(cycle())
                return Mine

            Mine = closed(7)
            # further
            print(identity(Mine))
            """
        script.write_text(textwrap.dedent(text))

        def of(path: pathlib.Path, old: str, new: str) -> str:
            before = path.read_text()
            path.write_text(before.replace(old, new))
            done = subprocess.run([sys.executable, "-B", str(script)], capture_output=True, text=True, cwd=self.folder)
            path.write_text(before)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        first = of(script, "", "")
        same = [of(script, "", ""), of(script, "# further", "print(end='')"), of(script, "import sys", "# Lines move.\nimport sys")]
        self.assertEqual(same, [first] * 3)
        others = [
            of(script, "DIVISOR = 4", "DIVISOR = 5"),
            of(script, "free // DIVISOR", "free // DIVISOR + 1"),
            of(script, '"c"}', '"d"}'),
            of(script, "1KB", "2KB"),
            of(script, 'compile("x")', 'compile("y")'),
            of(script, "closed(7)", "closed(8)"),
            of(script, "share = 3", "share = 4"),
            of(script, "# further", "Mine.share = 4"),
            of(script, "# further", "helper.FACTOR = 3"),
            of(self.folder / "helper.py", "FACTOR = 1", "FACTOR = 2"),
            of(self.folder / "deeper.py", "// 2", "// 3"),
        ]
        # An attribute is the same wherever it is set.
        self.assertEqual(others[6], others[7])
        self.assertEqual(len({first, *others}), len(others), others)

    def test_ctrl_c_ends_a_run_and_leaves_nothing_unfinished(self) -> None:
        output = self.folder / "out"
        scenario = with_policy(LONG, "mine")
        program = (
            f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\nimport dt, weir\n"
            f"try:\n    weir.run({scenario!r}, policies={{'mine': dt.Dt}}, output={str(output)!r})\n"
            "except KeyboardInterrupt:\n    sys.exit(7)"
        )
        process = subprocess.Popen([sys.executable, "-c", program])
        while not (output / "runs/.1.part").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 7)
        self.assertEqual(list((output / "runs").iterdir()), [])

    def test_an_error_of_progress_stops(self) -> None:
        def progress(finished: float, points: int) -> None:
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            weir.run(with_policy(LONG, "mine"), policies={"mine": dt.Dt}, progress=progress)


class Base(weir.BufferPolicy):
    def threshold(self, queue: weir.QueueView) -> Any:
        return queue.shared_pool.free


class Grows(Base):
    def threshold(self, queue: weir.QueueView) -> Any:
        return 2 * queue.length + 1_000


class Negative(Base):
    def threshold(self, queue: weir.QueueView) -> Any:
        return queue.shared_pool.free - 50_000


class Fraction(Base):
    def threshold(self, queue: weir.QueueView) -> Any:
        return queue.shared_pool.free / 2


class NotANumber(Base):
    def threshold(self, queue: weir.QueueView) -> Any:
        return float("nan")


class Rises(Base):
    def threshold(self, queue: weir.QueueView) -> Any:
        return queue.shared_pool.used // 2

    def has_non_increasing_thresholds(self) -> bool:
        return True


class Draws(Base):
    def threshold(self, queue: weir.QueueView) -> Any:
        return random.randrange(100_000)


class CutsHeadroom(Base):
    def headroom(self, queue: weir.QueueId) -> int:
        return 4_000


class LetsLossyGrow(Base):
    def lossy_threshold(self, queue: weir.QueueView, alpha: weir.Alpha) -> int:
        return 1 << 40


class TooManyGauges(Base):
    gauges: ClassVar[Any] = (weir.Gauge("share"),)

    def gauge_values(self, queue: weir.QueueView) -> tuple[int, int]:
        return (1, 2)


class Raises(Base):
    def on_release(self, ingress: weir.QueueId, bytes: int, queue: weir.QueueView) -> None:
        raise LookupError("lost my way")


class RaisesValueError(Base):
    def on_admit(self, queue: weir.QueueView) -> None:
        raise ValueError("of its own")


class Checks(unittest.TestCase):
    """The oracle of policies."""

    def test_policies_pass(self) -> None:
        for cls, keys in [(dt.Dt, {"alpha": "1/4"}), (spfc.Spfc, {"tc": weir.Span("20us")}), (Half, {"shift": 3}), (Base, {})]:
            with self.subTest(cls=cls):
                passed = weir.check_policy(cls, seeds=1, **keys)  # type: ignore[arg-type]
                self.assertGreater(passed.pauses, 100)

    def test_broken_policies_are_found(self) -> None:
        for cls, exception, part in [
            (Grows, weir.Error, "fills the shared segment of 220000 B and is not paused: Xoff is 441000 B, 123"),
            (Negative, weir.Error, "Negative: threshold returned -"),
            (Fraction, weir.Error, "threshold returned 110000.0; return a whole number"),
            (NotANumber, weir.Error, "threshold returned nan"),
            (Rises, weir.Error, "although has_non_increasing_thresholds is true"),
            (Draws, weir.Error, "a second run of the same load differs"),
            (CutsHeadroom, weir.Error, "lossless frames of the ingress queue of port 1 class 3 were dropped"),
            (LetsLossyGrow, weir.Error, "and may grow on"),
            (TooManyGauges, weir.Error, "gauge_values returned 2 values; return one for each of the 1 gauges"),
            (Raises, LookupError, "lost my way"),
            (RaisesValueError, ValueError, "of its own"),
            (Crashes, LookupError, "lost my way"),
        ]:
            with self.subTest(cls=cls), self.assertRaises(exception) as caught:
                weir.check_policy(cls)
            self.assertIn(part, str(caught.exception))

    def test_wrong_keys_are_found(self) -> None:
        with self.assertRaises(weir.Error) as caught:
            weir.check_policy(dt.Dt, alhpa="1")
        self.assertIn("unknown key `alhpa` in [buffer.policy]", str(caught.exception))

    def test_a_check_without_loads_is_refused(self) -> None:
        for seeds in (0, -1, True):
            with self.subTest(seeds=seeds), self.assertRaises(weir.Error) as caught:
                weir.check_policy(dt.Dt, seeds=seeds)
            self.assertIn(f"seeds={seeds}: write a whole number of 1 or more", str(caught.exception))


class Quantities(unittest.TestCase):
    """Quantities, rounded as in Rust."""

    def test_texts_and_products(self) -> None:
        self.assertEqual([weir.Bytes("20KiB"), weir.Span("80us"), weir.BitRate("2.5Gbps")], [20_480, 80_000_000, 2_500_000_000])
        self.assertEqual((str(weir.Span(1_500_000)), str(weir.BitRate(10**10))), ("1.5us", "10Gbps"))
        self.assertEqual(weir.BitRate("10Gbps").bytes_in(weir.Span("80us")), 100_000)
        self.assertEqual(weir.BitRate("3bps").time_for(1), 2_666_666_666_667)
        self.assertEqual(weir.Alpha("1/3").scale(3_000_000), 21_845 * 3_000_000 >> 16)
        self.assertEqual(weir.Alpha(0.5), weir.Alpha("1/2"))
        with self.assertRaises(ValueError):
            weir.Bytes("20")

    def test_they_are_values_of_files(self) -> None:
        scenario = {**INCAST, "scenario": {"name": "incast", "end": weir.Span("200us")}}
        keys = {"switch.buffer.size": weir.Bytes("300KB"), "switch.buffer.dt.alpha": weir.Alpha("1/4")}
        self.assertEqual(len(weir.run(scenario, set=keys).points), 1)


if __name__ == "__main__":
    unittest.main()
