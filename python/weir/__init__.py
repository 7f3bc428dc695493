"""Weir in virtual time: scenarios and sweeps, with results as pandas and Arrow tables, and figures of them. And access to running switches.

Each point runs in a process of its own, on all cores and without the GIL, by the code of the command ``weir``: its files are the same bytes.
"""

import json
import os
import pathlib
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd

from . import _process, _weir, plot
from ._kinds import BufferPolicy, BuildContext, CongestionController, Gauge, Kinds, PolicyCheck, RequiredFeedback, check_policy
from ._reproduction import Reproduction
from ._results import Results
from ._switch import Switch
from ._units import Alpha, BitRate, Bytes, Span
from ._weir import AckSignal, Error, PoolLevel, QueueId, QueueView, Threshold

Error.__module__ = "weir"

__all__ = [
    "AckSignal",
    "Alpha",
    "BitRate",
    "BufferPolicy",
    "BuildContext",
    "Bytes",
    "CongestionController",
    "Error",
    "Gauge",
    "PolicyCheck",
    "PoolLevel",
    "QueueId",
    "QueueView",
    "Reproduction",
    "RequiredFeedback",
    "Results",
    "Span",
    "Switch",
    "Threshold",
    "check_policy",
    "compare",
    "plot",
    "reproduce",
    "run",
    "sweep",
]

Path = str | os.PathLike[str]


def __dir__() -> list[str]:
    return __all__


#: Called with the numbers of finished and of all points; running ones count by the share of their time that has passed.
Progress = Callable[[float, int], object]


def run(
    scenario: Path | Mapping[str, Any],
    *,
    set: Mapping[str, Any] | None = None,
    seeds: int | Iterable[int] | None = None,
    runs: Iterable[str] | None = None,
    policies: Mapping[str, type] | None = None,
    congestion_controls: Mapping[str, type] | None = None,
    output: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """Runs a scenario: a file, or a dict with the keys of one.

    ``set`` has values by path: ``{"switch.buffer.dt.alpha": "1/4"}``. ``seeds`` are values of ``scenario.seed``; 5 is 1 to 5. ``runs`` names
    some of the scenario's runs. Results stay in ``output``, where the same call finds them, and without it as long as the object. ``jobs`` is
    a number of cores, by default all. ``progress`` is by default a line on the terminal.

    ``policies`` and ``congestion_controls`` are classes by the names that the scenario selects them by: see ``BufferPolicy`` and
    ``CongestionController``. Each run has a process, where a class comes by name from its module, and by value from a script or notebook.

    Results in ``output`` are refused if such a class differs, or a function, value or module that its methods name. Not noticed are other versions of
    installed packages, files and variables of the environment that a class reads, and names that it looks up as texts.

    Raises Error if the input is wrong or a run crashes, with the traceback of a class. A run with a loss or an unexpected deadlock has results, and a warning.
    """
    tables: dict[str, Any] = {"scenario": scenario, "parameters": {path: [value] for path, value in (set or {}).items()}}
    if seeds is not None:
        tables["seeds"] = seeds if isinstance(seeds, int) else list(seeds)
    if runs is not None:
        tables["runs"] = list(runs)
    results, tracebacks = _sweep(tables, Kinds(policies or {}, congestion_controls or {}), output, jobs, progress)
    failures = results.failures
    crashed = failures[failures["outcome"] == "crashed"]
    if len(crashed) > 0:
        first = crashed.iloc[0]
        # Files have a traceback as one line.
        reason = next((text for text in tracebacks if " ".join(text.split()) in first["reason"]), first["reason"])
        seed = f" with seed {first['seed']}" if "seed" in crashed.columns else ""
        kept = f"Finished points are in {results.directory}." if output is not None else "Finished points are kept with output= alone."
        raise Error(f"{len(crashed)} of {len(results.runs)} runs crashed, first {first['run']}{seed}: {reason.strip()}\n{kept}")
    _warn_of(results)
    return results


def sweep(
    sweep: Path | Mapping[str, Any],
    *,
    policies: Mapping[str, type] | None = None,
    congestion_controls: Mapping[str, type] | None = None,
    output: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """Runs a sweep: a file, or a dict with the keys of one, whose ``scenario`` is a file or a dict.

    ``results.points`` has a row for each point that ended as expected, and ``results.failures`` one for each other. Other arguments are those of
    ``run``.
    """
    results, _ = _sweep(sweep, Kinds(policies or {}, congestion_controls or {}), output, jobs, progress)
    _warn_of(results)
    return results


def reproduce(
    id: str,
    *,
    quick: bool = False,
    set: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    papers: Path | None = None,
    output: Path | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Reproduces a paper's figure, such as ``spfc.11``, or that of a folder.

    ``quick`` runs its reduced form, ``set`` overrides values of the scenario, and ``seeds`` is a number of seeds for each point. ``papers`` is a
    folder of papers, by default scenarios/papers in the working directory, or else the package's. Other arguments are those of ``run``.
    """
    own = pathlib.Path(__file__).with_name("papers")
    is_here = pathlib.Path("scenarios/papers").is_dir()
    with _directory(output) as (directory, folder), _Line(progress) as show:
        outcome = _weir.reproduce(
            id=id,
            quick=quick,
            set=[f"{path}={_json(value)}" for path, value in (set or {}).items()],
            seeds=seeds,
            papers=[os.fspath(papers)] if papers is not None else [] if is_here else [os.fspath(own)],
            output=directory,
            jobs=jobs,
            program=_program(),
            code=_code(),
            progress=show,
        )
        return Reproduction(json.loads(outcome), directory, folder)


def compare(*inputs: Path | Results, within: float = 5.0, pauses_within: float = 10.0) -> pd.DataFrame:
    """Compares runs with an ns-3 simulator's fct.txt and pfc.txt: slowdowns by size, and PAUSEs, a row for each figure.

    Inputs are these files, and results or directories of runs. ``within`` and ``pauses_within`` are the largest differences, in percent, that the
    verdict calls agreement. Notes are in ``attrs["notes"]``.
    """
    paths = [one.directory / "runs" if isinstance(one, Results) else os.fspath(one) for one in inputs]
    comparison = json.loads(_weir.compare(paths, within, pauses_within))
    frame = pd.json_normalize(comparison["figures"])
    frame.attrs["notes"] = comparison["notes"]
    return frame


@contextmanager
def _directory(output: Path | None) -> "Iterator[tuple[pathlib.Path, tempfile.TemporaryDirectory[str] | None]]":
    """Directory of results, with the folder if it is one for as long as the results; an error removes that."""
    if output is not None:
        yield pathlib.Path(output).absolute(), None
        return
    folder = tempfile.TemporaryDirectory(prefix="weir-")
    try:
        yield pathlib.Path(folder.name), folder
    except BaseException:
        folder.cleanup()
        raise


def _sweep(
    sweep: Path | Mapping[str, Any], kinds: Kinds, output: Path | None, jobs: int | None, progress: Progress | None
) -> tuple[Results, list[str]]:
    """Results, and the tracebacks of a class whose exceptions ended points."""
    kinds.check()
    path, tables, scenario, ended = None, {}, None, None
    if isinstance(sweep, Mapping):
        tables = dict(sweep)
        if isinstance(tables.get("scenario"), Mapping):
            scenario = _json(tables.pop("scenario"))
        elif "scenario" in tables:
            tables["scenario"] = os.fspath(tables["scenario"])
    else:
        path = os.fspath(sweep)
    with _directory(output) as (directory, folder):
        request: dict[str, Any] = {"path": path, "sweep": _json(tables), "scenario": scenario}
        request.update(output=directory, jobs=jobs, code=_code())
        with _Line(progress) as show:
            if kinds.policies or kinds.congestion_controls:
                text = _whole_text(path, tables, scenario)
                if text is not None and (unselected := kinds.unselected(lambda name: name in text)):
                    raise Error("; ".join(unselected))
                ended = _process.run_sweep(kinds, progress=show, **request)
            else:
                _weir.run_sweep(**request, plugin_identity="", program=_program(), progress=show)
        results = Results(directory, folder)
    if ended is None:
        return results, []
    # Of points that an earlier call finished, nothing is known.
    if ended.points == len(results.runs) and not ended.tracebacks:
        for sentence in kinds.unselected(lambda name: name in ended.created):
            warnings.warn(sentence, RuntimeWarning, stacklevel=3)
    return results, ended.tracebacks


def _warn_of(results: Results) -> None:
    """Warns of runs that did not end as expected."""
    failures = results.failures
    if len(failures) > 0:
        warnings.warn(f"{len(failures)} of {len(results.runs)} runs failed: {failures['reason'].iloc[0]}", RuntimeWarning, stacklevel=3)


def _whole_text(path: str | None, tables: Mapping[str, Any], scenario: str | None) -> str | None:
    """All texts that can select a kind, if they are known here: those of the call and of the files that it names."""
    files = [file for file in (path, tables.get("scenario")) if file is not None]
    try:
        text = "\n".join([scenario or "", *(pathlib.Path(file).read_text() for file in files)])
    except (OSError, ValueError):
        return None
    # A file may name others.
    return None if ".toml" in text else text + _json(tables)


class _Line:
    """Progress as a line on the terminal, unless the caller shows it."""

    def __init__(self, progress: Progress | None) -> None:
        self.is_shown = progress is None and sys.stderr.isatty()
        self.progress = self._write if self.is_shown else progress

    def __enter__(self) -> Progress | None:
        return self.progress

    def __exit__(self, *_: object) -> None:
        if self.is_shown:
            sys.stderr.write("\r\x1b[K")

    def _write(self, finished: float, points: int) -> None:
        sys.stderr.write(f"\r{finished:.2f} of {points} points")
        sys.stderr.flush()


def _code() -> str:
    """The library's file."""
    file = _weir.__file__
    assert file is not None
    return file


def _program() -> list[str]:
    """A Python that runs points, with the library alone."""
    load = "import sys; sys.path.insert(0, sys.argv[1]); import _weir; sys.exit(_weir.run_point(sys.argv[2:]))"
    return [sys.executable, "-I", "-S", "-c", load, os.path.dirname(_code())]


def _json(of: Any) -> str:
    return json.dumps(_plain(of))


def _plain(of: Any) -> Any:
    """The value as JSON has it; quantities are texts, since all but α are numbers to JSON, without their units."""
    if isinstance(of, Alpha | BitRate | Bytes | Span):
        return str(of)
    if of is None or isinstance(of, str | bool | int | float):
        return of
    if isinstance(of, Mapping):
        return {key: _plain(value) for key, value in of.items()}
    if isinstance(of, os.PathLike):
        return os.fspath(of)
    if hasattr(of, "tolist"):  # numpy
        return of.tolist()
    if isinstance(of, Iterable):
        return [_plain(value) for value in of]
    raise Error(f"{of!r} is no value of a file; write a text, a number, a bool, a list or a dict")
