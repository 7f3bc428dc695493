"""Figures of results on a matplotlib Axes: distributions of messages, percentiles by size, and queues over time.

Messages are those of ``weir plot``: of workloads, released after the warm-up, of all seeds together, and an unfinished one takes longer than all others. So a
percentile that falls on an unfinished message has no value, and a distribution ends below 1.

Drawing needs matplotlib: ``pip install 'weir[plot]'``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from . import _weir
from ._results import Results
from ._weir import Error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cdf", "percentiles", "queue", "slowdown_by_size"]

#: Labels of the columns.
_LABELS = {"slowdown": "slowdown", "fct": "FCT (us)"}
#: More lines would repeat colours.
_LINES_MAX = 10
#: Width of axes, in inches, up to which a legend inside would cover lines.
_HALF_PAGE = 3.6
#: Colours of the pages of ``weir report``: the switch has its peer paused.
_PAUSED = "#D55E00"


def cdf(
    results: Results,
    column: str = "slowdown",
    *,
    by: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    ax: "Axes | None" = None,
    **style: Any,
) -> "Axes":
    """Draws the distribution of messages' ``"slowdown"`` or ``"fct"``, a line for each run, parameter's value and workload.

    ``by`` names what the lines differ in, by default all that varies but the seed. ``where`` keeps values: ``{"load": 0.5, "flow": "incast"}``. A
    unique part of a name suffices. A line ends at the share of messages that finished, which is dotted; its label says how many did not. ``ax`` is by
    default that of a new figure.
    """
    groups = _groups(results, column, by, where)
    ax = _axes(ax)
    for group in groups:
        values = np.sort(np.concatenate(group.values))
        finished = values[np.isfinite(values)]
        unfinished = len(values) - len(finished)
        if len(finished) == 0:
            shares = np.zeros(0)
        else:
            shares = np.arange(len(finished) + 1) / len(values)
            finished = np.concatenate([finished[:1], finished])
        count = f"{unfinished:,} of {len(values):,} unfinished" if unfinished else f"{len(values):,} messages"
        label = f"{group.label} ({count}{group.failed_runs(', ')})"
        (line,) = ax.step(finished, shares, where="post", **{"label": label, **style})
        if unfinished and len(finished):
            ax.axhline(shares[-1], color=line.get_color(), linestyle=":", linewidth=1)
    ax.set(xscale="log", xlabel=_LABELS[column], ylabel="share of messages", ylim=(0, 1.02))
    _plain_ticks(ax)
    _legend(ax)
    return ax


def slowdown_by_size(
    results: Results,
    percentile: float = 99,
    *,
    column: str = "slowdown",
    by: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    versus: str | None = None,
    ax: "Axes | None" = None,
    **style: Any,
) -> "Axes":
    """Draws a percentile of the slowdown in each size bin, of the messages of all seeds together, with 95 % intervals (jackknife); arguments are those
    of ``cdf``.

    A triangle at the upper edge stands for a percentile that falls on an unfinished message. A hollow mark is the maximum of too few messages.
    ``versus`` is the label of a line: the differences of the others to it are drawn instead, with their intervals, paired by seed.
    """
    table = percentiles(results, percentile, column=column, by=by, where=where, versus=versus)
    if versus is not None:
        table = _differences(table)
    ax = _axes(ax)
    sizes = list(dict.fromkeys(table.sort_values("from_bytes")["sizes"]))
    labels = list(dict.fromkeys(table["label"]))
    has_beyond = False
    for n, label in enumerate(labels):
        rows = table[table["label"] == label].set_index("sizes")
        # Side by side, so that intervals do not cover each other.
        shift = (n - (len(labels) - 1) / 2) * min(0.12, 0.8 / len(labels))
        at = np.array([sizes.index(size) + shift for size in rows.index])
        values = rows["value"].to_numpy()
        failed, runs = rows["failed"].iloc[0], rows["runs"].iloc[0]
        name = f"{label} ({failed} of {runs} runs failed)" if failed else label
        (line,) = ax.plot(at, values, **{"label": name, **style})
        colour = line.get_color()
        has_interval = rows["low"].notna().to_numpy()
        if has_interval.any():
            low, high = (abs(values - rows[side].to_numpy())[has_interval] for side in ("low", "high"))
            ax.errorbar(at[has_interval], values[has_interval], yerr=(low, high), fmt="none", ecolor=colour, capsize=2)
        for is_maximum, fill in ((False, colour), (True, "white")):
            chosen = rows["is_maximum"].to_numpy() == is_maximum
            ax.plot(at[chosen], values[chosen], marker="o", color=colour, markerfacecolor=fill, linestyle="none")
        beyond = at[(rows["value"].isna() & (rows["unfinished"] > 0)).to_numpy()]
        if len(beyond):
            has_beyond = True
            ax.plot(beyond, np.ones(len(beyond)), "^", color=colour, transform=ax.get_xaxis_transform(), clip_on=False)
    if table["is_maximum"].any():
        ax.plot([], [], "o", color="grey", markerfacecolor="white", label="maximum: too few messages")
    if has_beyond:
        ax.plot([], [], "^", color="grey", label="falls on an unfinished message")
    ax.set_xticks(range(len(sizes)), sizes)
    what = f"{_ordinal(percentile)} percentile of {_LABELS[column]}"
    ax.set(xlabel="message size", ylabel=what if versus is None else f"{what},\nless that of {versus}", xlim=(-0.5, len(sizes) - 0.5))
    if versus is None:
        _from_zero(ax, table[["value", "high"]].max().max())
    else:
        ax.axhline(0, color="grey", linestyle="--", linewidth=1)
    # Labels as wide as their characters, of 0.6 of their size each, and one between.
    size = max(float(label.get_fontsize()) for label in ax.get_xticklabels())
    if sum(len(name) + 1 for name in sizes) * 0.6 * size / 72 > _width(ax):
        ax.tick_params("x", rotation=30)
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    _legend(ax)
    return ax


def percentiles(
    results: Results,
    percentile: float = 99,
    *,
    column: str = "slowdown",
    by: str | Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
    versus: str | None = None,
) -> pd.DataFrame:
    """Percentile of the messages of all seeds together, in each size bin of the runs' summaries: a row for each line of ``cdf`` and bin. The means of
    ``weir testbed run --seeds`` are of each seed's percentile.

    ``value`` is missing where its rank is that of an unfinished message, also without one of the seeds, where one seed has all messages, or where a
    run failed; ``low`` and ``high`` bound the 95 % interval, over two seeds and more that differ. ``messages`` includes ``unfinished`` ones.
    ``is_maximum`` says that there are too few messages for the percentile.

    ``difference`` is that to the line ``against``, by default the first, else ``versus``; ``difference_low`` and ``difference_high`` bound its interval,
    by the jackknife without one seed of both lines. It is missing if the lines have other seeds, or one.
    """
    if 0 < percentile < 1:
        raise Error(f"percentile={percentile!r}: write {percentile * 100:g}")
    if not 1 <= percentile <= 100:
        raise Error(f"percentile={percentile!r}: write a number from 1 to 100")
    groups = _groups(results, column, by, where)
    bins = _bins(results)
    labels = [group.label for group in groups]
    if versus is not None and versus not in labels:
        raise Error(f"versus={versus!r}: no line is called so; write one of {', '.join(map(repr, labels))}")
    base = groups[0 if versus is None else labels.index(versus)]
    rows: list[dict[str, Any]] = []
    for group in groups:
        for sizes, bounds in bins.items():
            runs = group.of_size(bounds)
            messages = sum(map(len, runs))
            if messages == 0:
                continue
            # No message is faster than in an empty network.
            estimate = _weir.pooled_percentile(runs, percentile, float(column == "slowdown")) if group.failed == 0 else None
            value, low, high = estimate or (None, None, None)
            is_pair = group is not base and group.seeds == base.seeds and None not in group.seeds and group.failed + base.failed == 0
            pair = _weir.paired_difference(runs, base.of_size(bounds), percentile) if is_pair else None
            difference, difference_low, difference_high = pair or (None, None, None)
            rows.append(
                {
                    **group.keys,
                    "label": group.label,
                    "sizes": sizes,
                    "from_bytes": bounds[0],
                    "messages": messages,
                    "unfinished": sum(value == np.inf for run in runs for value in run),
                    "value": value,
                    "low": low,
                    "high": high,
                    "is_maximum": messages * (100_000 - round(percentile * 1e3)) < 100_000,
                    "runs": len(runs),
                    "failed": group.failed,
                    "against": base.label if pair else None,
                    "difference": difference,
                    "difference_low": difference_low,
                    "difference_high": difference_high,
                }
            )
    numbers = ("value", "low", "high", "difference", "difference_low", "difference_high")
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))


def _differences(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with a difference, which stands in place of the value."""
    table = table[table["difference"].notna()]
    if len(table) == 0:
        raise Error("no line has the seeds of the other, two or more; give seeds=")
    return table.assign(value=table["difference"], low=table["difference_low"], high=table["difference_high"])


def queue(
    results: Results,
    port: str,
    traffic_class: int | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    ax: "Axes | None" = None,
    **style: Any,
) -> "Axes":
    """Draws an ingress queue over time, with its threshold T(t), and shades the time in which the switch has the peer paused.

    ``port`` is named as in series.csv: ``"H0"``, of several switches ``"S1.H0"``; ``traffic_class`` may be left out if the port has one. ``where``
    chooses one run: ``{"run": "DT", "seed": 1}``. ``ax`` is by default that of a new figure.
    """
    runs = _kept(results.runs, where)
    if len(runs) != 1:
        varying = [key for key in runs.columns if key not in ("point", "directory") and runs[key].astype(str).nunique() > 1]
        raise Error(f"a queue is of one run, and there are {len(runs)}; choose one with where=, by {', '.join(varying or ['point'])}")
    run = runs.iloc[0]
    series, events = (frame[frame["point"] == run["point"]] for frame in (results.series, results.pauses))
    suffix = ".ingress_bytes"
    names = [name.removesuffix(suffix) for name in series.columns if name.endswith(suffix)]
    found = [name for name in names if name == f"{port}.{traffic_class}" or traffic_class is None and name.rpartition(".")[0] == port]
    if len(found) != 1:
        wanted = port if traffic_class is None else f"{port}, class {traffic_class}"
        raise Error(f"series.csv has {len(found)} queues of {wanted}; name one of {', '.join(names)}")
    (name,) = found
    ax = _axes(ax)
    unit, microseconds = ("ms", 1e3) if series["t_us"].max() >= 1e4 else ("us", 1.0)
    at = series["t_us"] / microseconds
    ax.plot(at, series[name + suffix] / 1e3, **{"label": f"ingress queue {name}", **style})
    threshold = series[f"{name}.threshold_bytes"]
    if threshold.notna().any():
        ax.plot(at, threshold / 1e3, color="black", linestyle="--", linewidth=1, label="threshold T(t)")
    pauses = events[(events["port"] == name.rpartition(".")[0]) & (events["class"] == int(name.rpartition(".")[2]))]
    if len(pauses):
        start = pauses["start_us"].to_numpy() / microseconds
        # One without a RESUME lasts to the end.
        end = pauses["end_us"].fillna(series["t_us"].max()).to_numpy() / microseconds
        spans = list(zip(start, end - start, strict=True))
        label = f"peer paused ({len(pauses):,} times)"
        ax.broken_barh(spans, (0, 1), transform=ax.get_xaxis_transform(), color=_PAUSED, alpha=0.25, linewidth=0, label=label)
    ax.set(xlabel=f"time ({unit})", ylabel="queue (KB)", xlim=(0, float(at.max())))
    longest, highest = (series[name + of].max() / 1e3 for of in (suffix, ".threshold_bytes"))
    # A threshold far above the queue leaves the picture.
    _from_zero(ax, max(longest, min(highest, 2 * longest)) if highest == highest else longest)
    _legend(ax)
    return ax


class _Group:
    """Messages of the runs that differ in their seeds only."""

    def __init__(self, keys: dict[str, Any], label: str, others: tuple[str, ...]) -> None:
        self.keys = keys
        self.label = label
        #: Values of other keys that vary.
        self.others = others
        #: Of each run: values, infinite for unfinished messages, and sizes.
        self.values: list[Any] = []
        self.bytes: list[Any] = []
        #: Seeds of the runs; None of runs without one.
        self.seeds: list[Any] = []
        #: Number of runs that failed.
        self.failed = 0

    def of_size(self, bounds: tuple[int, float]) -> list[list[float]]:
        """Values of each run's messages of a bin."""
        first, below = bounds
        return [values[(of >= first) & (of < below)].tolist() for values, of in zip(self.values, self.bytes, strict=True)]

    def add(self, messages: pd.DataFrame, column: str, seed: Any, is_failed: bool) -> None:
        """Adds a run."""
        self.seeds.append(seed)
        values = messages["fct_us"].to_numpy()
        if column == "slowdown":
            ideal = messages["ideal_us"].to_numpy()
            if np.isnan(ideal[~np.isnan(values)]).any():
                raise Error(f"messages of {self.label} have no ideal FCT, and so no slowdown; draw column='fct'")
            values = values / ideal
        self.values.append(np.where(np.isnan(values), np.inf, values))
        self.bytes.append(messages["bytes"].to_numpy())
        self.failed += is_failed

    def failed_runs(self, before: str) -> str:
        return f"{before}{self.failed} of {len(self.values)} runs failed" if self.failed else ""


def _groups(results: Results, column: str, by: str | Sequence[str] | None, where: Mapping[str, Any] | None) -> list[_Group]:
    if column not in _LABELS:
        raise Error(f"there is no column {column!r} of messages; write {' or '.join(map(repr, _LABELS))}")
    where = dict(where or {})
    flow = where.pop("flow", None)
    runs = _kept(results.runs, where)
    messages = _measured(results, runs, flow)
    flows = list(dict.fromkeys(messages["flow"]))
    varying = [key for key in runs.columns if key not in ("point", "seed", "directory") and runs[key].astype(str).nunique() > 1]
    varying += ["flow"] if len(flows) > 1 else []
    chosen = varying if by is None else [_key(name, [*runs.columns, "flow"]) for name in ([by] if isinstance(by, str) else by)]
    rest = [key for key in varying if key not in chosen]
    failed, incomplete = set(results.failures["point"]), _incomplete_flows(results)
    parts = dict(iter(messages.groupby(["point", "flow"], observed=True)))
    groups: dict[tuple[str, ...], _Group] = {}
    for _, run in runs.iterrows():
        for name in flows:
            if (run["point"], name) in incomplete:
                raise Error(
                    f"messages of {name}, one of [[flows]], did not finish, and fct.csv has the finished ones alone; send them by [[workloads]]"
                )
            of = {**run.to_dict(), "flow": name}
            place, others = (tuple(str(of[key]) for key in keys) for keys in (chosen, rest))
            group = groups.setdefault(place, _Group({key: of[key] for key in chosen}, _label(chosen, of, runs), others))
            # Parameters that vary together are determined by each of them.
            if group.others != others:
                raise Error(
                    f"{', '.join(rest)} varies too, and a line would be over more than seeds; name it in by=, or keep one value with where="
                )
            # A run may have no message of a flow.
            group.add(parts.get((run["point"], name), messages[:0]), column, run.get("seed"), run["point"] in failed)
    groups = {place: group for place, group in groups.items() if any(map(len, group.values))}
    if len(groups) > _LINES_MAX:
        raise Error(f"{len(groups)} lines are too many to tell apart; keep some with where=, by {', '.join(chosen)}")
    return list(groups.values())


def _measured(results: Results, runs: pd.DataFrame, flow: str | None) -> pd.DataFrame:
    """Messages of these runs after the warm-up: of a flow, else of all workloads, else of all flows."""
    messages = results.messages
    messages = messages[messages["point"].isin(runs["point"])]
    warm_up = {run["point"]: _weir.warm_up_us(run["directory"]) for _, run in runs.iterrows()}
    messages = messages[messages["released_us"] >= messages["point"].map(warm_up)]
    names = sorted(set(messages["flow"]))
    workloads = {traffic["name"] for traffic in _traffic(results)}
    kept = [flow] if flow is not None else [name for name in names if name in workloads] or names
    messages = messages[messages["flow"].isin(kept)]
    if len(messages) == 0:
        of_flow = "" if flow is None else f" of flow {flow!r}"
        raise Error(f"no message{of_flow} is left after the warm-up; there are those of {', '.join(names) or 'none'}")
    return messages


def _incomplete_flows(results: Results) -> set[tuple[int, str]]:
    """Points and flows with messages that did not finish. Those of workloads are in fct.csv."""
    return {
        (run["point"], flow["name"])
        for _, run in results.summary.iterrows()
        for flow in run["flows"]
        if flow["messages_done"] != flow["messages_sent"] or run["failures"] or isinstance(run.get("deadlock.cycle"), str)
    }


def _traffic(results: Results) -> list[dict[str, Any]]:
    """Summaries of all runs' workloads. Runs without any lack the column."""
    summary = results.summary
    return [traffic for of in (summary["traffic"] if "traffic" in summary else ()) if isinstance(of, list) for traffic in of]


def _bins(results: Results) -> dict[str, tuple[int, float]]:
    """Bounds of the size bins of the runs' summaries, the smallest first."""
    bins: dict[str, tuple[int, float]] = {}
    for of in (of for traffic in _traffic(results) for of in traffic["bins"] if of["sizes"] != "all"):
        bins[of["sizes"]] = (of["from_bytes"], np.inf if of["below_bytes"] is None else of["below_bytes"])
    if not bins:
        raise Error("no run has size bins: they are of messages of [[workloads]]; draw cdf")
    return dict(sorted(bins.items(), key=lambda item: item[1]))


def _kept(runs: pd.DataFrame, where: Mapping[str, Any] | None) -> pd.DataFrame:
    """Runs with these values."""
    for name, value in (where or {}).items():
        key = _key(name, runs.columns)
        kept = runs[runs[key].astype(str) == str(value)]
        if len(kept) == 0:
            raise Error(f"no run has {key} = {value}; its values are {', '.join(dict.fromkeys(runs[key].astype(str)))}")
        runs = kept
    return runs


def _key(name: str, keys: Iterable[str]) -> str:
    """The key that has this name, or alone has it as a part."""
    keys = [key for key in keys if key not in ("point", "directory")] if name != "point" else list(keys)
    found = [key for key in keys if key == name] or [key for key in keys if name in key]
    if len(found) != 1:
        raise Error(f"{name!r} names {len(found)} of {', '.join(keys)}; write a unique part of one")
    return found[0]


def _label(chosen: list[str], of: Mapping[str, Any], runs: pd.DataFrame) -> str:
    """Values of a line's keys: ``DT, load 0.5``."""
    last = [key.rpartition(".")[2] for key in runs.columns]

    def name(key: str) -> str:
        short = key.rpartition(".")[2]
        return short if last.count(short) == 1 else key

    return ", ".join(str(of[key]) if key in ("run", "flow") else f"{name(key)} {of[key]}" for key in chosen) or str(of["flow"])


def _ordinal(number: float) -> str:
    """``99th``, ``99.9th``, ``1st``."""
    text = f"{number:g}"
    ending = {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th")
    return text + ("th" if "." in text or text in ("11", "12", "13") else ending)


def _from_zero(ax: "Axes", top: float) -> None:
    """Sets the vertical limits; axes that share them keep the highest."""
    top = max(1.05 * top, 0.0 if ax.get_autoscaley_on() else ax.get_ylim()[1])
    if top > 0:
        ax.set_ylim(0, top)


def _plain_ticks(ax: "Axes") -> None:
    """Numbers at 1, 2 and 5 of each decade of a logarithmic axis, or at its powers of ten where it is short."""
    from matplotlib.ticker import LogLocator, NullFormatter

    first, last = ax.get_xlim()
    # A label of up to six characters has half an inch.
    has_room = 3 * np.log10(last / first) * 0.5 <= _width(ax)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if has_room else (1,)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _width(ax: "Axes") -> float:
    """Width of the axes in inches."""
    return float(ax.get_position().width * ax.get_figure().bbox.width / ax.get_figure().dpi)  # type: ignore[union-attr]


def _legend(ax: "Axes") -> None:
    """Legend where it covers nothing: above axes as narrow as half a page, whose figure is laid out for it."""
    if _width(ax) > _HALF_PAGE:
        ax.legend()
        return
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, frameon=False, fontsize="small")
    from matplotlib.figure import Figure

    figure = ax.get_figure()
    # Part of a figure has no layout of its own.
    if isinstance(figure, Figure) and figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("weir.plot draws with matplotlib: pip install 'weir[plot]'") from None
    return pyplot.subplots()[1]
