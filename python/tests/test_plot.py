"""Do figures have the numbers of `weir plot`, and count messages that did not finish?

    WEIR_BIN=target/debug/weir python -m unittest discover --start-directory python/tests
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from unittest import mock

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

import weir

BINS = ["below 10KB", "10KB-100KB", "100KB-1MB", "1MB-10MB", "from 10MB"]
TWO_RUNS = [
    {"name": "DT", "switch": {"buffer": {"policy": "dt", "dt": {"alpha": "1/4"}}}},
    {"name": "SPFC", "switch": {"buffer": {"policy": "spfc", "spfc": {"alpha": "1/4"}}}},
]
SINGLE: dict[str, Any] = {
    "scenario": {"end": "1ms", "warm_up": "100us", "plot_ports": ["S0.H0"]},
    "topology": {"kind": "single", "hosts": 4, "rate": "25Gbps", "delay": "1us"},
    "switch": {"buffer": {"size": "300KB"}, "classes": {"preset": "roce"}, "pfc": {"reaction": "0s"}},
    "workloads": [
        {"name": "web", "kind": "poisson", "class": 3, "sizes": "hadoop", "load": 0.6},
        {"name": "incast", "kind": "incast", "class": 3, "sizes": "100KB", "receivers": ["H3"], "every": "200us", "seed": 2},
    ],
    "runs": TWO_RUNS,
}


class Drawn(unittest.TestCase):
    """Figures of sweeps."""

    folder: pathlib.Path
    results: weir.Results
    deadlock: weir.Results

    @classmethod
    def setUpClass(cls) -> None:
        matplotlib.use("Agg")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        columns = [
            f"traffic.{traffic}.bins.'{sizes}'.{of}"
            for traffic in ("web", "incast")
            for sizes in BINS
            for of in ("slowdown_permille.p99", "fct_ns.p50")
        ]
        sweep = {
            "scenario": SINGLE,
            "seeds": 3,
            "parameters": {"workloads.web.load": [0.4, 0.7]},
            "results": {"columns": columns},
        }
        cls.results = weir.sweep(sweep, output=cls.folder / "sweep")
        cls.deadlock = weir.sweep({"scenario": ring(), "seeds": 2}, output=cls.folder / "ring")

    def tearDown(self) -> None:
        pyplot.close("all")

    def of_command(self, column: str, load: float, names: Sequence[str] = ("value", "low", "high")) -> dict[str, list[float]]:
        """Value and interval of a column by run, or other numbers, as `weir plot` writes them."""
        out = self.folder / "figure"
        arguments = ["--x", "load", "--y", column, "--by", "run", "--output", str(out)]
        subprocess.run([os.environ["WEIR_BIN"], "plot", str(self.folder / "sweep"), *arguments], check=True, capture_output=True)
        with open(f"{out}.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if float(row["workloads.web.load"]) == load]
        return {row["run"]: [float(row[of] or "nan") for of in names] for row in rows}

    def test_percentiles_are_those_of_weir_plot(self) -> None:
        compared = 0
        for flow in ("web", "incast"):
            where = {"load": 0.7, "flow": flow}
            for column, percentile, name, scale in [("slowdown", 99, "slowdown_permille.p99", 1e3), ("fct", 50, "fct_ns.p50", 1e3)]:
                table = weir.plot.percentiles(self.results, percentile, column=column, where=where)
                for sizes, rows in table.groupby("sizes"):
                    theirs = self.of_command(f"traffic.{flow}.bins.'{sizes}'.{name}", 0.7)
                    for _, row in rows.iterrows():
                        np.testing.assert_allclose(row[["value", "low", "high"]].astype(float) * scale, theirs[row["run"]], rtol=1e-9)
                        compared += 1
        # Sizes in four bins under two runs, and the incast's in one.
        self.assertEqual(compared, 2 * (4 * 2 + 2))

    def test_differences_are_those_of_weir_plot(self) -> None:
        names = ["difference", "difference_low", "difference_high"]
        differing = 0
        for flow in ("web", "incast"):
            for column, percentile, name in [("slowdown", 99, "slowdown_permille.p99"), ("fct", 50, "fct_ns.p50")]:
                table = weir.plot.percentiles(self.results, percentile, column=column, where={"load": 0.7, "flow": flow})
                for sizes, rows in table.groupby("sizes"):
                    theirs = self.of_command(f"traffic.{flow}.bins.'{sizes}'.{name}", 0.7, names)
                    self.assertEqual(list(rows["run"]), ["DT", "SPFC"])
                    for _, row in rows.iterrows():
                        np.testing.assert_allclose(row[names].astype(float) * 1e3, theirs[row["run"]], rtol=1e-9, atol=1e-9)
                    first, second = rows.itertuples()
                    self.assertEqual((first.difference == first.difference, second.against), (False, "DT"))
                    self.assertAlmostEqual(second.difference, second.value - first.value, places=12)
                    differing += second.difference != 0
        self.assertGreater(differing, 3)

    def test_an_interval_is_of_possible_values_and_has_a_length(self) -> None:
        table = weir.plot.percentiles(self.results, where={"load": 0.4, "flow": "web"})
        bounded = table[table["low"].notna()]
        self.assertGreater(len(bounded), 0)
        self.assertTrue((bounded["low"] >= np.minimum(1, bounded["value"])).all() and (bounded["low"] < bounded["high"]).all(), bounded)
        # Two seeds of the same messages have no spread.
        same = weir.run({**SINGLE, "workloads": SINGLE["workloads"][1:]}, seeds=2)
        rows = weir.plot.percentiles(same, 50)
        self.assertTrue((rows["value"] > 1).all() and rows[["low", "high"]].isna().all(axis=None), rows)

    def test_differences_can_be_drawn(self) -> None:
        where = {"load": 0.7, "flow": "web"}
        ax = weir.plot.slowdown_by_size(self.results, where=where, versus="DT", ax=Figure().subplots())
        (line,) = [line for line in ax.lines if line.get_label() == "SPFC"]
        table = weir.plot.percentiles(self.results, where=where)
        np.testing.assert_array_equal(line.get_ydata(), table[table["run"] == "SPFC"]["difference"])
        self.assertEqual(ax.get_ylabel(), "99th percentile of slowdown,\nless that of DT")
        self.assertNotIn("DT", [line.get_label() for line in ax.lines])

    def test_a_figure_of_half_a_page_can_be_read(self) -> None:
        where = {"load": 0.7, "flow": "web"}
        for size in ((3.33, 2.6), (6.8, 3)):
            for draw in (weir.plot.slowdown_by_size, weir.plot.cdf):
                figure = pyplot.figure(figsize=size)
                ax = draw(self.results, where=where, ax=figure.subplots())
                figure.draw_without_rendering()
                with self.subTest(size=size, draw=draw.__name__):
                    ticks = [tick for tick in ax.get_xticklabels() if tick.get_text() and tick.get_visible()]
                    # Slanted labels are apart where their ends are.
                    slanted = ticks[0].get_rotation() != 0
                    boxes = sorted((tick.get_window_extent() for tick in ticks), key=lambda box: box.x1)
                    inside = [box for box in boxes if ax.bbox.x0 - 40 <= box.x1 <= ax.bbox.x1 + 40]
                    for one, other in pairwise(inside):
                        self.assertLess(one.x1 + (8 if slanted else 0), other.x1 if slanted else other.x0 + 1e-6)
                    legend = ax.get_legend()
                    assert legend is not None
                    box = legend.get_window_extent()
                    self.assertTrue(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 + 1, box)
                    if size[0] < 4:
                        self.assertGreaterEqual(box.y0, ax.bbox.y1 - 1, "the legend covers the lines")

    def test_bins_and_counts_are_those_of_the_summary(self) -> None:
        table = weir.plot.percentiles(self.results, where={"load": 0.4, "flow": "web"})
        summary = self.results.summary
        traffic = summary[(summary["run"] == "DT") & (summary["workloads.web.load"] == 0.4)]["traffic"]
        bins = [of for traffics in traffic for of in traffics[0]["bins"][1:]]
        for _, row in table[table["run"] == "DT"].iterrows():
            of_size = [of for of in bins if of["sizes"] == row["sizes"]]
            self.assertEqual(row["messages"], sum(of["count"] for of in of_size))
            self.assertEqual({of["from_bytes"] for of in of_size}, {row["from_bytes"]})
        self.assertEqual([size for size in BINS if size in set(table["sizes"])], list(dict.fromkeys(table["sizes"])))

    def test_lines_have_the_tables_numbers(self) -> None:
        ax = weir.plot.slowdown_by_size(self.results, where={"load": 0.7, "flow": "web"}, ax=Figure().subplots())
        table = weir.plot.percentiles(self.results, where={"load": 0.7, "flow": "web"})
        for run in ("DT", "SPFC"):
            (line,) = [line for line in ax.lines if line.get_label() == run]
            np.testing.assert_array_equal(line.get_ydata(), table[table["run"] == run]["value"])
        self.assertEqual([tick.get_text() for tick in ax.get_xticklabels()], list(dict.fromkeys(table["sizes"])))

    def test_a_cdf_has_all_messages_after_the_warm_up(self) -> None:
        ax = weir.plot.cdf(self.results, "fct", where={"load": 0.4, "flow": "incast"})
        self.assertIs(ax, pyplot.gca())
        messages = self.results.messages.merge(self.results.runs[["point", "workloads.web.load"]], on="point")
        chosen = messages[(messages["workloads.web.load"] == 0.4) & (messages["flow"] == "incast") & (messages["released_us"] >= 100)]
        for run, line in zip(("DT", "SPFC"), ax.lines, strict=True):
            values = np.sort(chosen[chosen["run"] == run]["fct_us"])
            np.testing.assert_array_equal(line.get_xdata(), [values[0], *values])
            self.assertEqual((line.get_ydata()[0], line.get_ydata()[-1]), (0, 1))  # type: ignore[index]
            self.assertEqual(line.get_label(), f"{run} ({len(values)} messages)")

    def test_each_figure_is_a_new_one_unless_axes_are_given(self) -> None:
        where = {"load": 0.4, "flow": "web"}
        first = weir.plot.cdf(self.results, where=where)
        others = [
            weir.plot.cdf(self.results, "fct", where=where),
            weir.plot.slowdown_by_size(self.results, where=where),
            weir.plot.queue(self.results, "H0", where={"point": 1}),
        ]
        self.assertEqual(len({first, *others}), 4)
        self.assertEqual((len(first.lines), first.get_xlabel()), (2, "slowdown"))
        self.assertIs(weir.plot.cdf(self.results, where=where, ax=first), first)
        # An error leaves no empty one.
        with self.assertRaises(weir.Error):
            weir.plot.cdf(self.results, "slow")
        self.assertEqual(len(pyplot.get_fignums()), 4)

    def test_axes_name_the_percentile(self) -> None:
        names = {99: "99th", 99.9: "99.9th", 1: "1st", 12: "12th", 52: "52nd", 93: "93rd", 100: "100th"}
        for percentile, name in names.items():
            ax = weir.plot.slowdown_by_size(self.results, percentile, where={"load": 0.4, "flow": "web"}, ax=Figure().subplots())
            self.assertEqual(ax.get_ylabel(), f"{name} percentile of slowdown")

    def test_what_did_not_finish_is_counted(self) -> None:
        ax = weir.plot.cdf(self.deadlock, "fct")
        messages = self.deadlock.messages.query("flow == 'rpc'")
        unfinished = int(messages["fct_us"].isna().sum())
        self.assertTrue(0 < unfinished < len(messages))
        (line, dotted) = ax.lines
        self.assertAlmostEqual(line.get_ydata()[-1], 1 - unfinished / len(messages))  # type: ignore[index,arg-type]
        self.assertEqual(line.get_label(), f"rpc ({unfinished:,} of {len(messages):,} unfinished)")
        self.assertEqual(dotted.get_ydata()[0], line.get_ydata()[-1])  # type: ignore[index]
        table = weir.plot.percentiles(self.deadlock, 99.9, column="fct")
        self.assertEqual(table["unfinished"].sum(), unfinished)
        self.assertTrue(table["value"].isna().all())
        # The rank of another percentile is that of a finished message.
        self.assertTrue((weir.plot.percentiles(self.deadlock, 1, column="fct")["value"] > 0).all())
        ax = weir.plot.slowdown_by_size(self.deadlock, 99.9, column="fct", ax=Figure().subplots())
        marks = [len(np.asarray(line.get_xdata())) for line in ax.lines if line.get_marker() == "^"]
        self.assertEqual(sum(marks), len(table))
        self.assertIn("falls on an unfinished message", [line.get_label() for line in ax.lines])

    def test_a_failed_run_has_no_percentile(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            failed = weir.run({**ring(), "runs": [{"name": "PFC"}]})
        table = weir.plot.percentiles(failed, 1, column="fct")
        self.assertEqual((list(table["failed"]), table["value"].isna().all()), ([1] * len(table), True))
        self.assertIn("1 of 1 runs failed", str(weir.plot.cdf(failed, "fct").lines[0].get_label()))

    def test_a_queue_has_its_threshold_and_its_pauses(self) -> None:
        where = {"run": "DT", "load": 0.7, "seed": 1}
        ax = weir.plot.queue(self.results, "H0", 3, where=where)
        point = self.results.runs.query("run == 'DT' and seed == 1 and `workloads.web.load` == 0.7")["point"].item()
        series = self.results.series[self.results.series["point"] == point]
        queue, threshold = ax.lines
        np.testing.assert_array_equal(queue.get_ydata(), series["H0.3.ingress_bytes"] / 1e3)
        np.testing.assert_array_equal(threshold.get_ydata(), series["H0.3.threshold_bytes"] / 1e3)
        pauses = self.results.pauses[(self.results.pauses["point"] == point) & (self.results.pauses["port"] == "H0")]
        self.assertGreater(len(pauses), 0)
        (shaded,) = ax.collections
        spans = [path.get_extents() for path in shaded.get_paths()]
        np.testing.assert_allclose([span.x0 for span in spans], pauses["start_us"])
        np.testing.assert_allclose([span.x1 for span in spans], pauses["end_us"])
        # In a deadlock the last pause has no end, and lasts to the run's.
        ax = weir.plot.queue(self.deadlock, "S1.to-S3", where={"seed": 1}, ax=Figure().subplots())
        ends = [path.get_extents().x1 for path in ax.collections[0].get_paths()]
        self.assertEqual(max(ends), ax.get_xlim()[1])

    def test_wrong_arguments_have_a_fix(self) -> None:
        def differences(versus: str) -> object:
            return weir.plot.slowdown_by_size(self.results, where={"load": 0.7, "flow": "web"}, versus=versus)

        wrong: list[tuple[str, Callable[[], object]]] = [
            ("versus='ABM': no line is called so; write one of 'DT', 'SPFC'", lambda: differences("ABM")),
            ("there is no column 'slow'", lambda: weir.plot.cdf(self.results, "slow")),
            ("percentile=0: write a number from 1 to 100", lambda: weir.plot.percentiles(self.results, 0)),
            ("percentile=0.99: write 99", lambda: weir.plot.slowdown_by_size(self.results, 0.99)),
            ("percentile=0.999: write 99.9", lambda: weir.plot.percentiles(self.results, 0.999)),
            ("names 0 of", lambda: weir.plot.cdf(self.results, where={"alpha": 1})),
            ("its values are 0.4, 0.7", lambda: weir.plot.cdf(self.results, where={"load": 0.5})),
            ("there are those of incast, web", lambda: weir.plot.cdf(self.results, where={"flow": "nine"})),
            ("workloads.web.load varies too", lambda: weir.plot.cdf(self.results, by=["run", "flow"])),
            ("choose one with where=, by run, seed, workloads.web.load", lambda: weir.plot.queue(self.results, "H0")),
            ("name one of H0.3", lambda: weir.plot.queue(self.results, "H9", where={"point": 1})),
        ]
        for message, draw in wrong:
            with self.subTest(message=message), self.assertRaises(weir.Error) as caught:
                draw()
            self.assertIn(message, str(caught.exception))

    def test_messages_of_a_deadlocked_flow_are_not_drawn_as_if_they_were_all(self) -> None:
        scenario = ring()
        scenario["flows"] = [{**flow, "message": "100KB"} for flow in scenario["flows"]]
        results = weir.run(scenario)
        with self.assertRaises(weir.Error) as caught:
            weir.plot.cdf(results, "fct", where={"flow": "F1"})
        self.assertIn("send them by [[workloads]]", str(caught.exception))

    def test_flows_alone_have_a_cdf_and_no_size_bins(self) -> None:
        flows = [{"name": "F", "from": "H0", "to": "H1", "class": 3, "message": "10KB", "total": "100KB"}]
        results = weir.run({**{key: SINGLE[key] for key in ("topology", "switch")}, "scenario": {"end": "1ms"}, "flows": flows})
        self.assertEqual(len(weir.plot.cdf(results, "fct").get_lines()), 1)
        with self.assertRaises(weir.Error) as caught:
            weir.plot.percentiles(results, column="fct")
        self.assertIn("no run has size bins", str(caught.exception))

    def test_without_matplotlib_numbers_are_there_and_figures_say_what_they_need(self) -> None:
        with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.pyplot": None}):
            self.assertGreater(len(weir.plot.percentiles(self.results, where={"load": 0.4})), 0)
            with self.assertRaisesRegex(ImportError, r"pip install 'weir\[plot\]'"):
                weir.plot.cdf(self.results)


def ring() -> dict[str, Any]:
    """A ring of three switches whose flows come to a deadlock under PFC, and messages on the path of one of them."""
    paths = [("H1", "H3", ["S1", "S2", "S3"]), ("H2", "H1", ["S2", "S3", "S1"]), ("H3", "H2", ["S3", "S1", "S2"])]
    return {
        "scenario": {"end": "15ms", "sample_every": "20us", "forwarding": "static", "plot_ports": ["S1.to-S3"]},
        "topology": {"kind": "ring", "switches": 3, "hosts": 1, "rate": "10Gbps", "delay": "40us"},
        "switch": {
            "mtu": 1500,
            "buffer": {"size": "4MB", "policy": "static", "headroom": "200KB", "xon_offset": "3KB", "static": {"threshold": "800KB"}},
            "classes": {"preset": "roce"},
            "pfc": {"reaction": "0s"},
        },
        "flows": [
            {"name": f"F{n}", "from": source, "to": target, "path": path, "class": 3, "start": "3ms" if n == 3 else "0s"}
            for n, (source, target, path) in enumerate(paths, start=1)
        ],
        "workloads": [
            {
                "name": "rpc",
                "kind": "poisson",
                "class": 3,
                "sizes": "google-rpc",
                "load": 0.02,
                "senders": ["H1"],
                "receivers": ["H3"],
                "until": "12ms",
            }
        ],
        "runs": [{"name": "PFC", "expect": "deadlock"}],
    }


if __name__ == "__main__":
    unittest.main()
