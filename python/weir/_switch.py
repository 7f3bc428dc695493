"""A running switch, asked and changed by its control socket (docs/OPERATING.md, The protocol)."""

import json
import os
import pathlib
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from ._units import Alpha, BitRate, Bytes, Span
from ._weir import Error

#: Version of the protocol.
_VERSION = 1
#: Seconds for an answer: longer than the switch's own timeouts.
_WITHIN = 45.0
_CLASSES = 8
#: Views by their commands of `weir show`.
_VIEWS = {
    "interfaces": "interfaces",
    "pfc counters": "pfc_counters",
    "pfc watchdog": "pfc_watchdog",
    "pfc delays": "pause_delays",
    "priority-group": "priority_groups",
    "queue": "queues",
    "buffer pool": "buffer_pools",
    "buffer configuration": "buffer_configuration",
    "mac": "mac",
    "policy": "policy",
    "flow-control": "flow_control",
    "lldp": "lldp",
    "lcores": "lcores",
    "losses": "losses",
    "events": "events",
    "metrics": "metrics",
}
#: Columns of views that may have no row.
_COLUMNS = {
    "pfc_watchdog": ["port", "queue", "in_storm", "detected", "restored"],
    "mac": ["mac", "port", "is_static"],
    "losses": ["port", "place", "class", "reason", "frames"],
    "events": ["unix_ms", "switch", "port", "class", "event", "detail"],
}


class Switch:
    """A switch that ``weir run`` runs on this machine.

    ``of`` is its control socket, or the file that it was started with, whose socket is looked for at the usual places. It may be left out where
    one process runs. ``switch`` is a name, needed if the process has several switches. Each request has a connection of its own, so that the
    object outlives a restart.

    Raises Error, with the switch's text, where it refuses a request or does not answer.
    """

    def __init__(self, of: str | os.PathLike[str] | None = None, *, switch: str | None = None) -> None:
        path = None if of is None else pathlib.Path(of)
        if path is not None and path.is_dir():
            raise Error(f"{path} is a folder; name a switch's control socket, or the file that it was started with")
        if path is not None and not path.exists():
            raise Error(f"there is no file or socket {path}: no switch runs with it")
        if path is not None and (_is_socket(path) or not path.is_file()):
            self.socket, name = path, switch
        else:
            self.socket, name = _found(path, switch)
        names = _ask(self.socket, "hello")["hello"]["switches"]
        if name is None and len(names) > 1:
            raise Error(f"{self.socket}: several switches run there; choose one with switch=: {', '.join(names)}")
        if name is not None and name not in names:
            raise Error(f"{self.socket}: no switch is named {name!r}; there is {', '.join(names)}")
        #: Name of the switch.
        self.name = str(name or names[0])

    def __repr__(self) -> str:
        return f"weir.Switch({str(self.socket)!r}, switch={self.name!r})"

    def show(self, what: str, ports: str | Iterable[str] = ()) -> Any:
        """Shows a view as a DataFrame, in which names and units are those of ``weir show --json``; ``metrics`` is a text.

        ``what`` is a command of ``weir show``: ``"pfc counters"``, ``"queue"``, ``"buffer pool"``. Views of classes have a row for each port and
        class, which repeats values of the port. Values of the whole switch are in ``attrs``.
        """
        view = _view(what)
        ports = [ports] if isinstance(ports, str) else list(ports)
        reply = _ask(self.socket, {"show": {"what": view, "switch": self.name, "ports": ports}})
        if view == "metrics":
            return reply["metrics"]
        if view in reply:  # of the process
            return _frame(view, reply[view], {})
        (shown,) = reply["switches"]
        return _frame(view, shown.pop(view), shown)

    def watch(
        self, what: str, ports: str | Iterable[str] = (), *, every: float = 1.0, times: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yields the rows of a view, read anew ``every`` so many seconds; ``time`` is the instant of their reading.

        ``times`` is the number of readings, by default without end. ``pandas.DataFrame(switch.watch("queue", "h0", times=10))`` is a table.
        """
        if _view(what) == "metrics":
            raise Error("metrics have no rows; read them with show")
        ports = [ports] if isinstance(ports, str) else list(ports)
        due, readings = time.monotonic(), 0
        while times is None or readings < times:
            time.sleep(max(0.0, due - time.monotonic()))
            now = pd.Timestamp.now("UTC")
            for row in self.show(what, ports).to_dict("records"):
                yield {"time": now, **row}
            readings += 1
            due = max(due + every, time.monotonic())

    def set(self, keys: str | Mapping[str, Any], value: Any = ..., *, seconds: float | None = None) -> pd.DataFrame:
        """Sets a key of the switch's file, or a dict of keys: all, or none. The value None is the key's default.

        ``seconds`` is the time after which the old values return. Returns a row for each key with its old and new value; remarks of the switch, such as
        on queues above a new threshold, are in ``attrs["notes"]``.
        """
        pairs = keys if isinstance(keys, Mapping) else {keys: value}
        if ... in pairs.values():
            raise Error(f"{keys} has no value; write one, or None for the default")
        changes = [{"key": key, "value": None if new is None else _text(new)} for key, new in pairs.items()]
        request: dict[str, Any] = {"switch": self.name, "changes": changes}
        if seconds is not None:
            request["for_ms"] = round(seconds * 1e3)
        (report,) = _ask(self.socket, {"set": request})["changed"]
        refused = [f"{of['key']}: {of['why']}" for of in report["changes"] if of["outcome"] not in ("applied", "unchanged")]
        if refused:
            raise Error("; ".join(refused))
        frame = pd.DataFrame(report["changes"]).drop(columns="why")
        frame.attrs["notes"] = report["notes"]
        return frame

    def clear(self, what: str) -> None:
        """Clears ``counters``, ``watermarks``, ``persistent_watermarks`` or ``mac``, for all clients."""
        _ask(self.socket, {"clear": {"what": what, "switch": self.name}})

    @property
    def configuration(self) -> str:
        """Running configuration, as a file for ``weir run``."""
        (configuration,) = _ask(self.socket, {"configuration": {"switch": self.name}})["configurations"]
        return str(configuration["text"])


def _view(what: str) -> str:
    words = what.split()
    for command, view in _VIEWS.items():
        if words[: len(command.split())] == command.split():
            return view
    raise Error(f"there is no view {what!r}; write one of {', '.join(_VIEWS)}")


def _ask(path: pathlib.Path, request: Any) -> dict[str, Any]:
    """Sends a request, and returns the reply."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_WITHIN)
            connection.connect(os.fspath(path))
            connection.sendall(json.dumps({"weir": _VERSION, "request": request}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
    except FileNotFoundError:
        raise Error(f"{path}: there is no such socket: no switch runs with it") from None
    except ConnectionRefusedError:
        raise Error(f"{path}: no switch listens there: the one that did has ended") from None
    except PermissionError:
        raise Error(
            f"{path}: this user may not connect: ask as the switch's user, or give the socket a group ([control] in its file)"
        ) from None
    except OSError as error:
        raise Error(f"{path}: the switch does not answer: {error}") from None
    try:
        answer = json.loads(line)
        version = answer["weir"]
    except (ValueError, KeyError, TypeError):
        raise Error(f"{path}: no answer of a switch; is it the socket of one?") from None
    if "error" in answer:
        raise Error(answer["error"]["message"])
    if version != _VERSION:
        raise Error(f"{path}: the switch speaks version {version} of the control protocol, and this package version {_VERSION}")
    reply = answer["reply"]
    assert isinstance(reply, dict)
    return reply


def _found(file: pathlib.Path | None, switch: str | None) -> tuple[pathlib.Path, str | None]:
    """The socket of the only process that runs this file, or a switch of this name, with the switch's name if it is known."""
    found: list[tuple[pathlib.Path, str | None]] = []
    for path in _sockets():
        try:
            running = _ask(path, {"configuration": {}})["configurations"]
        except Error:  # of a process that has ended, or of another user's
            continue
        named = [of for of in running if switch in (None, of["switch"])]
        if file is not None:
            found += [(path, of["switch"]) for of in named if os.path.realpath(of["file"]) == os.path.realpath(file)]
        elif named:
            found.append((path, switch))
    if len(found) == 1:
        return found[0]
    meant = f"by {file}" if file is not None else f"named {switch!r}" if switch is not None else "that this user may ask"
    if not found:
        raise Error(f"no switch runs {meant}: start it with `weir run`, or name its control socket, which weir run logs")
    raise Error(f"several switches run {meant}; name one's control socket: {', '.join(str(path) for path, _ in found)}")


def _sockets() -> list[pathlib.Path]:
    """Control sockets at the usual places."""
    places = [pathlib.Path("/run/weir")]
    if os.geteuid() != 0:
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        places.insert(0, pathlib.Path(runtime, "weir") if os.path.isabs(runtime) else pathlib.Path(f"/tmp/weir-{os.geteuid()}"))
    return [path for place in places for path in sorted(place.glob("*.control")) if _is_socket(path)]


def _is_socket(path: pathlib.Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _frame(view: str, state: Any, switch: Mapping[str, Any]) -> pd.DataFrame:
    """Table of a view's state; ``switch`` has the other members of the reply."""
    attrs = dict(switch)
    if view in ("buffer_configuration", "policy"):
        attrs.update({key: value for key, value in state.items() if key != "queues"})
        rows = state["queues"]
    elif view == "pause_delays":
        rows = [{"delay": delay, **values} for delay, values in state.items()]
    elif view in ("pfc_counters", "priority_groups", "queues"):
        rows = [row for port in state for row in _by_class(port)]
    elif view == "flow_control":
        rows = [
            {**{key: value for key, value in port.items() if key != "classes"}, **of} for port in state for of in port["classes"] or [{}]
        ]
    else:
        rows = state
    frame = pd.json_normalize(rows) if rows else pd.DataFrame(columns=_COLUMNS.get(view))
    # All numbers are integers, also where some are missing.
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("float"), "Int64"))
    names = [name for name in ("switch", "port", "class", "queue", "pool", "delay") if name in frame.columns]
    frame = frame[[*names, *frame.columns.drop(names)]]
    frame.attrs.update(attrs)
    return frame


def _by_class(port: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for number in range(_CLASSES):
        row: dict[str, Any] = {"port": port["port"], "class": number}
        for key, value in port.items():
            row[key] = value[number] if isinstance(value, list) else value
        if "rx_last_pause" in row:
            pause = row.pop("rx_last_pause") or {}
            row.update({f"rx_last_pause.{key}": pause.get(key) for key in ("unix_ms", "us")})
        yield row


def _text(value: Any) -> str:
    """A value as in a file; quotes of a text may be left out there."""
    if isinstance(value, str):
        return value
    if isinstance(value, Alpha | BitRate | Bytes | Span):
        return str(value)
    if isinstance(value, bool | int | float | list | tuple):
        return json.dumps(value)
    raise Error(f"{value!r} is no value of a key; write a text, a number, a bool or a list")
