"""Runs with classes of the caller, in processes of their own.

A process has its kinds before it reads a file, and keeps them. So the call of ``run`` or ``sweep`` has a process that plans and starts points, and
points are processes that load the classes too. Classes come by ``cloudpickle``: those of modules by name, those of a script or a notebook by
value.
"""

import _thread
import io
import json
import linecache
import marshal
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _kinds, _weir
from ._weir import Error

_CHILD = "import pickle, sys; sys.path[:] = pickle.load(open(sys.argv[1] + '/path', 'rb')); from weir import _process; _process.main()"


@dataclass(frozen=True)
class Ended:
    """What points told beside their files."""

    #: Tracebacks of points that a class's exception ended.
    tracebacks: list[str]
    #: Number of points that ran in this call.
    points: int
    #: Names of the classes that had an instance there.
    created: set[str]


def run_sweep(kinds: _kinds.Kinds, *, progress: Callable[[float, int], object] | None, **request: Any) -> Ended:
    """Calls ``_weir.run_sweep`` in a process that has these kinds."""
    with tempfile.TemporaryDirectory(prefix="weir-kinds-") as name:
        folder = pathlib.Path(name)
        (folder / "path").write_bytes(pickle.dumps([os.path.abspath(path) for path in sys.path]))
        pickled, sources = _by_value(kinds)
        (folder / "kinds").write_bytes(pickled)
        (folder / "sources").write_text(json.dumps(sources))
        request = {key: os.fspath(of) if isinstance(of, os.PathLike) else of for key, of in request.items()}
        (folder / "request").write_text(json.dumps({**request, "plugin_identity": kinds.identity()}))
        printed, prints = os.pipe()
        with open(printed, errors="replace") as lines, (folder / "stderr").open("w+") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, name, str(prints), "call"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=[prints],
                start_new_session=True,
                text=True,
            )
            os.close(prints)
            copier = threading.Thread(target=_copy, args=(lines,), daemon=True)
            copier.start()
            assert process.stdin is not None and process.stdout is not None
            try:
                end = _follow(process.stdout, progress)
            finally:
                # The process stops its points, removes what is unfinished, and ends.
                process.stdin.close()
                process.stdout.close()
                process.wait()
                copier.join()
            if end is None:
                errors.seek(0)
                raise Error(errors.read().strip() or f"the process of the run ended by {process.returncode}")
        if end["error"] is not None:
            raise Error(end["error"])
        tracebacks = [file.read_text() for file in sorted(folder.glob("failed-*"))]
        created = {file.name.partition("-")[2] for file in folder.glob("created-*")}
        return Ended(tracebacks, len(list(folder.glob("point-*"))), created)


def _by_value(kinds: _kinds.Kinds) -> tuple[bytes, dict[str, list[str]]]:
    """Pickled classes, and the lines of the files of those that come by value, for tracebacks: a script, a notebook's cell, an interactive input."""
    import cloudpickle  # Processes of points do without.

    files: set[str] = set()

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, of: Any) -> Any:
            if not isinstance(of, types.CodeType):
                return super().reducer_override(of)
            files.add(of.co_filename)
            # cloudpickle leaves the file's name out. The other process runs the same Python.
            return marshal.loads, (marshal.dumps(of),)

    pickled = io.BytesIO()
    Pickler(pickled).dump(kinds)
    return pickled.getvalue(), {file: linecache.getlines(file) for file in files}


def _follow(output: Any, progress: Callable[[float, int], object] | None) -> dict[str, Any] | None:
    for line in output:
        message: dict[str, Any] = json.loads(line)
        if "end" in message:
            return message
        if progress is not None:
            progress(*message["progress"])
    return None


def _copy(lines: Any) -> None:
    for line in lines:
        sys.stdout.write(line)


def main() -> None:
    """Runs a process that the package started: a call of ``run`` or ``sweep``, or a point."""
    folder, prints, command = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    messages = sys.stdout
    # What a class prints goes to the caller.
    sys.stdout = open(int(prints), "w", buffering=1, closefd=False)
    is_call = command == "call"

    def on_error(name: str, error: BaseException) -> None:
        text = _kinds.report(name, error)
        sys.stderr.write(text)
        (folder / f"failed-{os.getpid()}").write_text(text)
        sys.stderr.flush()
        sys.stdout.flush()

    created: set[str] = set()

    def on_create(name: str) -> None:
        if not is_call and name not in created:
            created.add(name)
            (folder / f"created-{name}").touch()

    def send(**message: Any) -> None:
        messages.write(json.dumps(message) + "\n")
        messages.flush()

    try:
        kinds: _kinds.Kinds = pickle.loads((folder / "kinds").read_bytes())
        for file, lines in json.loads((folder / "sources").read_text()).items():
            linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
        kinds.add(on_error, on_create)
        if not is_call:
            (folder / f"point-{os.getpid()}").touch()
            code = _weir.run_point(_on_one_thread(sys.argv[3:]))
        else:
            # Also where the caller ignores it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            threading.Thread(target=_stop_with_the_caller, daemon=True).start()
            request = json.loads((folder / "request").read_text())
            # Points inherit the descriptor.
            program = [sys.executable, "-c", _CHILD, os.fspath(folder), prints]
            _weir.run_sweep(**request, program=program, progress=lambda *of: send(progress=of))
            code = 0
            send(end=True, error=None)
    except Error as error:
        code = 2
        if is_call:
            send(end=True, error=str(error))
        else:
            sys.stderr.write(f"weir: {error}\n")
    except KeyboardInterrupt:
        code = 1
    sys.stderr.flush()
    sys.stdout.flush()
    # Without the end of the interpreter, which would wait for threads.
    os._exit(code)


def _on_one_thread(arguments: list[str]) -> list[str]:
    """Arguments of a point, whose threads would only wait for each other's Python code."""
    place = arguments.index("--threads") + 1
    return [*arguments[:place], "1", *arguments[place + 1 :]]


def _stop_with_the_caller() -> None:
    os.read(0, 1)
    _thread.interrupt_main()
