"""Results as tables, read from the files of the runs (docs/RUN_DIRECTORY.md)."""

import json
import os
import pathlib
import tempfile
import warnings
import weakref
from collections.abc import Callable
from csv import reader
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as csv

from ._weir import Error

_TEXT = pa.dictionary(pa.int32(), pa.string())
_MESSAGES = {
    "flow": _TEXT,
    "released_us": pa.float64(),
    "bytes": pa.int64(),
    "fct_us": pa.float64(),
    "from": _TEXT,
    "to": _TEXT,
    "ideal_us": pa.float64(),
}
_EVENTS = {"t_us": pa.float64(), "port": _TEXT, "class": pa.int8(), "event": _TEXT, "detail": pa.string()}


class Results:
    """Results of a sweep's or a scenario's runs, also of an earlier call: ``weir.Results("out")``.

    Frames have a row's run in the columns ``point`` and ``run``, and ``seed`` if seeds were given. Columns are named with their units, as in the
    files. Files are read at each use; ``table`` reads them as Arrow.
    """

    def __init__(self, directory: str | os.PathLike[str], folder: "tempfile.TemporaryDirectory[str] | None" = None) -> None:
        #: Directory of the results.
        self.directory = pathlib.Path(directory).absolute()
        if not (self.directory / "sweep.json").exists():
            raise FileNotFoundError(f"{directory}: no sweep.json stands there; name an output of weir.run, weir.sweep or weir sweep")
        if folder is not None:
            weakref.finalize(self, folder.cleanup)

    def __repr__(self) -> str:
        return f"<weir.Results of {len(self.runs)} points in {self.directory}>"

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Each point: its number, run, seed, parameters, and the directory of its files."""
        rows: list[dict[str, Any]] = []
        for file in self.directory.glob("runs/*/point.json"):
            point = json.loads(file.read_text())["point"]
            seed = {} if point["seed"] is None else {"seed": point["seed"]}
            row = {"point": point["number"], "run": point["run_name"], **seed, **dict(point["parameters"])}
            rows.append({**row, "directory": str(file.parent)})
        rows.sort(key=lambda row: int(row["point"]))
        return pd.DataFrame(rows)

    @property
    def points(self) -> pd.DataFrame:
        """Each point that ended as expected: its parameters, and the columns of the sweep."""
        return self._points("results.csv")

    @property
    def failures(self) -> pd.DataFrame:
        """Each other point: its parameters, ``outcome``, and ``reason``."""
        return self._points("failures.csv")

    @property
    def messages(self) -> pd.DataFrame:
        """Messages; ``fct_us`` is missing of an unfinished one."""
        return _frame(self.table("messages"))

    @property
    def series(self) -> pd.DataFrame:
        """Samples of queues, rates and gauges."""
        return _frame(self.table("series"))

    @property
    def events(self) -> pd.DataFrame:
        """Events of ports."""
        return _frame(self.table("events"))

    @property
    def pauses(self) -> pd.DataFrame:
        """Pauses by switches' ports: ``start_us``, and ``end_us``, which is missing if the switch sent no RESUME."""
        events = self.events
        keys = [name for name in events.columns if name not in ("t_us", "event", "detail")]
        sent = events[events["event"].isin(["pause_sent", "resume_sent"])]
        following = sent.groupby(keys, observed=True, sort=False, dropna=False)[["t_us", "event"]].shift(-1)
        sent = sent.assign(end_us=following["t_us"].where(following["event"] == "resume_sent"))
        pauses = sent[sent["event"] == "pause_sent"].rename(columns={"t_us": "start_us"})
        return pauses[[*keys, "start_us", "end_us"]].reset_index(drop=True)

    @property
    def summary(self) -> pd.DataFrame:
        """A row for each run with the values of summary.json, named by their paths; lists stay lists.

        A file that can't be read is named in a warning, and its run left out.
        """
        runs = self._finished()
        summaries = [_summary(pathlib.Path(directory, "summary.json")) for directory in runs["directory"]]
        # With a type: a list without entries would choose no columns.
        runs = runs[pd.Series([summary is not None for summary in summaries], index=runs.index, dtype=bool)]
        values = pd.json_normalize([summary for summary in summaries if summary is not None])
        return pd.concat([runs.drop(columns="directory").reset_index(drop=True), values], axis="columns")

    def table(self, name: str) -> pa.Table:
        """``messages``, ``series`` or ``events`` as an Arrow table; without rows if no run has results."""
        if name not in _FILES:
            raise Error(f"there is no table {name!r}; write {', '.join(map(repr, _FILES))}")
        file, types = _FILES[name]
        runs = self._finished()
        tables = [_read(pathlib.Path(run["directory"], file), types, run, runs) for _, run in runs.iterrows()]
        if not tables:
            first = {"point": pa.int32(), "run": _TEXT, **({"seed": pa.uint32()} if "seed" in self.runs.columns else {})}
            return pa.schema({**first, **types(["t_us"])}.items()).empty_table()
        return pa.concat_tables(tables, promote_options="default").unify_dictionaries()

    def _finished(self) -> pd.DataFrame:
        has_results = [pathlib.Path(directory, "summary.json").exists() for directory in self.runs["directory"]]
        return self.runs[has_results]

    def _points(self, file: str) -> pd.DataFrame:
        table = pd.read_csv(self.directory / file, keep_default_na=False, na_values=[""], low_memory=False)
        # A parameter has the kind of value that was given.
        given = self.runs.drop(columns="directory").set_index("point").loc[table["point"]]
        return table.assign(**{name: given[name].array for name in given.columns})


def _summary(path: pathlib.Path) -> dict[str, Any] | None:
    try:
        summary = json.loads(path.read_text())
        if isinstance(summary, dict):
            return summary
        reason = "it has no object"
    except (OSError, ValueError) as error:
        reason = str(error)
    warnings.warn(f"{path} can't be read, and its run is left out: {reason}", stacklevel=4)
    return None


def _read(path: pathlib.Path, types: Callable[[list[str]], dict[str, Any]], run: "pd.Series[Any]", runs: pd.DataFrame) -> pa.Table:
    with path.open(newline="") as file:
        columns = next(reader(file))
    options = csv.ConvertOptions(column_types=types(columns), strings_can_be_null=False, null_values=[""])
    table = csv.read_csv(path, convert_options=options)
    rows = table.num_rows
    name = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([run["run"]]))
    first = [("point", pa.repeat(pa.scalar(run["point"], pa.int32()), rows)), ("run", name)]
    if "seed" in runs.columns:
        first.append(("seed", pa.repeat(pa.scalar(run["seed"], pa.uint32()), rows)))
    for place, (column, values) in enumerate(first):
        table = table.add_column(place, column, values)
    return table


def _frame(table: pa.Table) -> pd.DataFrame:
    # Column by column, so that there is no second copy of the whole.
    frame: pd.DataFrame = table.to_pandas(types_mapper=_pandas_type, split_blocks=True, self_destruct=True)
    return frame


def _pandas_type(of: pa.DataType) -> pd.Int8Dtype | None:
    return pd.Int8Dtype() if of == pa.int8() else None


_FILES: dict[str, tuple[str, Callable[[list[str]], dict[str, Any]]]] = {
    "messages": ("fct.csv", lambda _: _MESSAGES),
    "series": ("series.csv", lambda columns: dict.fromkeys(columns, pa.float64())),
    "events": ("events.csv", lambda _: _EVENTS),
}
