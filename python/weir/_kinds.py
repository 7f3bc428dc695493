"""Buffer policies and congestion controls that are Python classes."""

import difflib
import inspect
import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args, get_origin, get_type_hints

from . import _weir
from ._identity import identity
from ._units import Alpha, BitRate, Bytes, Span
from ._weir import AckSignal, Error, PoolLevel, QueueId, QueueView, Threshold


#: Name, keys (name, type, words of a choice, default, help), gauges (name, labels of a state, title, help, whether of a port), description,
#: and the function that creates the methods of an instance.
Declaration: TypeAlias = tuple[
    str,
    list[tuple[str, str, list[str], str | None, str]],
    list[tuple[str, tuple[str, str] | None, str, str, bool]],
    str,
    Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]],
]


@dataclass(frozen=True)
class Gauge:
    """Value that samples record: a column of series.csv, and figures of summary.json.

    A name that ends with ``_bytes`` counts bytes. ``state`` has the labels of a value that is 1 or 0. ``of_port`` marks values that are the
    same for all queues of a port.
    """

    name: str
    title: str = ""
    help: str = ""
    state: tuple[str, str] | None = None
    of_port: bool = False


@dataclass(frozen=True)
class BuildContext:
    """Switch for which a policy is created. Sequences are in port order."""

    #: B_s: bytes of the shared segment.
    shared: int
    #: Φ of each port's lossless ingress queues, in bytes.
    headroom: Sequence[int]
    #: Line rate of each port.
    rates: Sequence[BitRate]
    #: Rate of each port's charges, in whole cells, under the frame length that fills the buffer fastest.
    fill_rates: Sequence[BitRate]
    #: Whether each port's peer is a host that the port pauses by PFC or PAUSE.
    hosts: Sequence[bool]
    #: Largest charge of a frame, in bytes.
    frame_max: int
    #: Hysteresis δ in bytes.
    xon_offset: int
    #: Longest time from an arrival to the switch's PAUSE, in picoseconds.
    reaction: int


class BufferPolicy:
    """Buffer policy, of which each switch has an instance. The methods are those of the Rust trait ``BufferPolicy``.

    Keyword arguments of the constructor are keys of ``[buffer.NAME]``: their annotations, ``Alpha``, ``Bytes``, ``Span``, ``BitRate``,
    ``int``, ``float``, ``bool`` or ``Literal`` of words, are the types, their defaults the defaults, and the text of an ``Annotated`` the help.
    An argument ``context`` gets a ``BuildContext``.

    Thresholds are whole numbers of bytes. Only methods that a class defines are called; the bodies here are the defaults.
    """

    #: Gauges of each lossless ingress queue, up to four.
    gauges: ClassVar[Sequence[Gauge]] = ()

    def threshold(self, queue: QueueView) -> "int | Threshold":
        """T(t) for the shared occupancy w_s of a lossless ingress queue."""
        raise NotImplementedError

    def lossy_threshold(self, queue: QueueView, alpha: Alpha) -> int:
        """Longest length of a lossy egress queue, including the arriving packet; ``alpha`` is that of lossy classes."""
        return alpha.scale(queue.shared_pool.free)

    def has_non_increasing_thresholds(self) -> bool:
        """Whether no threshold rises with more bytes in queue and pools, all else equal. Packets are then admitted together."""
        return False

    def depends_on_time(self) -> bool:
        """Whether a threshold or gauge changes with time alone; by default if the class observes packets."""
        return False

    def on_arrival(self, queue: QueueView, bytes: int) -> None:
        """Observes the arrival of ``bytes`` for a lossless ingress queue, whose state is that before them."""

    def on_admit(self, queue: QueueView) -> None:
        """Observes a queue after arrivals were placed: a lossless ingress queue, or a lossy egress queue."""

    def on_release(self, ingress: QueueId, bytes: int, queue: QueueView) -> None:
        """Observes the departure of ``bytes`` that had arrived at ``ingress``; ``queue`` is as in ``on_admit``."""

    def has_hysteresis(self) -> bool:
        """Whether RESUME waits until w_s is δ below Xoff."""
        return True

    def port_level_flow_control(self) -> int | None:
        """Hysteresis δ_p in bytes, if the policy also pauses whole ports."""
        return None

    def port_threshold(self, port: int, shared_pool: PoolLevel) -> int:
        """X_poff: shared bytes of a port's queues at which all its classes are paused."""
        raise NotImplementedError

    def headroom(self, queue: QueueId) -> int:
        """New Φ of a lossless ingress queue, at most the layout's. The difference goes to the shared segment."""
        raise NotImplementedError

    def set_rate(self, port: int, line: BitRate, fill: BitRate) -> bool:
        """Takes a port's new rate; false if the policy does not support it."""
        return True

    def gauge_values(self, queue: QueueView) -> Sequence[int]:
        """Value of each of ``gauges`` for a lossless ingress queue."""
        return ()


@dataclass(frozen=True)
class RequiredFeedback:
    """Feedback that a congestion control needs from receivers and switches."""

    #: Least interval between the receiver's congestion notifications; None for no notifications.
    cnp_interval: Span | None = None
    #: Whether acknowledgements echo the mark of a frame.
    echoes_ecn: bool = False
    #: ``time`` for round-trip times, ``hops`` for the telemetry of each port of the path too.
    telemetry: Literal["none", "time", "hops"] = "none"
    #: Whether the receiver acknowledges every packet.
    acks_every_packet: bool = False


class CongestionController:
    """Congestion control, of which each flow has an instance. The methods are those of the Rust trait ``CongestionController``.

    Keyword arguments of the constructor are keys of ``[nic.NAME]``, as those of a ``BufferPolicy``; in files a ``BitRate`` may also be a fraction of
    the line's, ``line/100``. Arguments ``line`` and ``base_rtt`` get the line's rate and the longest round trip without queues.

    Rate and window are read after each call; ``now`` is in picoseconds.
    """

    #: Feedback that the algorithm needs.
    feedback: ClassVar[RequiredFeedback] = RequiredFeedback()
    #: Gauges of each flow.
    gauges: ClassVar[Sequence[Gauge]] = ()

    def on_sent(self, now: int, wire: int) -> None:
        """Handles a sent frame that takes ``wire`` bytes on the link."""

    def on_cnp(self, now: int) -> None:
        """Handles a congestion notification."""

    def on_ack(self, now: int, ack: AckSignal) -> None:
        """Handles an acknowledgement."""

    def rate(self) -> int:
        """Rate on the wire in bits a second."""
        raise NotImplementedError

    def window(self) -> int | None:
        """Window in bytes: a frame may be sent while less payload is in flight."""
        return None

    def gauge_values(self) -> Sequence[float]:
        """Value of each of ``gauges``; NaN for none."""
        return ()


@dataclass(frozen=True)
class Kinds:
    """Classes by the names that files select them by."""

    policies: Mapping[str, type]
    congestion_controls: Mapping[str, type]

    def check(self) -> None:
        """Raises Error if a class can't be a kind."""
        for argument, of in (("policies", self.policies), ("congestion_controls", self.congestion_controls)):
            if not isinstance(of, Mapping):
                classes = list(of) if isinstance(of, Iterable) else [of]
                name = classes[0].__name__ if classes and isinstance(classes[0], type) else "Mine"
                raise Error(f'{argument} is no dict; write {argument}={{"{name.lower()}": {name}}}, with the name that the scenario selects')
        for name, cls in self.policies.items():
            _declare(name, cls, BufferPolicy, "threshold")
        for name, cls in self.congestion_controls.items():
            _declare(name, cls, CongestionController, "rate")

    def add(self, on_error: "Callable[[str, BaseException], object]", on_create: "Callable[[str], object]") -> None:
        """Adds the classes to those of this process, which must not have read a file. ``on_create`` is called with the name of each instance."""
        for name, cls in self.policies.items():
            _weir.add_policy(_observed(_declare_policy(name, cls), on_create), on_error)
        for name, cls in self.congestion_controls.items():
            of: RequiredFeedback = getattr(cls, "feedback", RequiredFeedback())
            feedback = (of.cnp_interval, of.echoes_ecn, of.telemetry, of.acks_every_packet)
            declaration = _declare(name, cls, CongestionController, "rate")
            _weir.add_congestion_control(_observed(declaration, on_create), feedback, on_error)

    def unselected(self, is_selected: "Callable[[str], bool]") -> list[str]:
        """A sentence for each class that no run selects."""
        keys = (("policies", "switch.buffer.policy", self.policies), ("congestion_controls", "nic.congestion_control", self.congestion_controls))
        return [
            f'{argument} has "{name}", which no run selects; write {key} = "{name}"'
            for argument, key, of in keys
            for name in of
            if not is_selected(name)
        ]

    def identity(self) -> str:
        """Text that differs if the classes do, or anything of the caller's that they name."""
        return "\n".join(f"{name}\n{identity(cls)}" for of in (self.policies, self.congestion_controls) for name, cls in sorted(of.items()))


def report(name: str, error: BaseException) -> str:
    """Text of an exception in a method of the class ``name``."""
    return f'weir: "{name}" failed:\n' + "".join(traceback.format_exception(error))


@dataclass(frozen=True)
class PolicyCheck:
    """Load that a policy passed. With few PAUSEs it proves little."""

    frames: int
    pauses: int


def check_policy(policy: type, *, seeds: int = 2, **keys: Any) -> PolicyCheck:
    """Holds a buffer policy against the invariants that Weir's own are tested with, under the drawn loads of ``seeds`` seeds.

    Peers send at line rate and obey PAUSE as late as the headroom rule allows. No lossless frame may be lost, bytes must add up, a queue that
    fills the shared segment must pause, thresholds must not rise if the class says so, all must drain, and a second run must not differ.
    ``keys`` are the policy's keys.

    Raises Error with the violation, also where a method returns no valid number, or the exception of the class.
    """
    if type(seeds) is not int or seeds < 1:
        raise Error(f"seeds={seeds!r}: write a whole number of 1 or more")
    shown = {key: value if isinstance(value, (bool, float)) or type(value) is int else str(value) for key, value in keys.items()}
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in shown.items())
    declaration = _declare_policy("policy", policy)
    try:
        return PolicyCheck(*_weir.check_policy(declaration, table, seeds))
    except (TypeError, ValueError) as error:
        # One without a frame below this is of a method's result.
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        raise Error(f"{policy.__qualname__}: {error}") from None


def _declare_policy(name: str, cls: type) -> Declaration:
    declared = _declare(name, cls, BufferPolicy, "threshold")
    if len(declared[2]) > 4:
        raise Error(f"{cls.__qualname__}: a policy has up to four gauges")
    return declared


_TYPES: dict[Any, tuple[str, Callable[[Any], Any]]] = {
    Alpha: ("alpha", Alpha.from_bits),
    Bytes: ("size", Bytes),
    Span: ("time", Span),
    BitRate: ("rate", BitRate),
    bool: ("boolean", bool),
    int: ("integer", int),
    float: ("number", float),
}
#: Constructor's arguments that are no keys, with the conversion of their values.
_AROUND: dict[type, dict[str, Callable[[Mapping[str, Any]], Any]]] = {}


def _declare(name: str, cls: type, base: type, required: str) -> Declaration:
    """Name, keys, gauges, description, and the function that creates the methods of an instance."""
    if not isinstance(cls, type):
        raise Error(f'"{name}": {cls!r} is no class; give the class, and not an instance')
    _refuse_misspelt(cls, base)
    if not _defines(cls, base, required):
        raise Error(f'"{name}": the class {cls.__qualname__} lacks the method {required}')
    if getattr(cls, "gauges", ()) and not _defines(cls, base, "gauge_values"):
        raise Error(f'"{name}": the class {cls.__qualname__} has gauges, and lacks the method gauge_values')
    keys: list[tuple[str, str, list[str], str | None, str]] = []
    types: dict[str, Callable[[Any], Any]] = {}
    wanted = []
    constructor: Any = inspect.getattr_static(cls, "__init__")
    # A class without a constructor has that of object, which is no function.
    has_arguments = inspect.isfunction(constructor)
    hints = get_type_hints(constructor, include_extras=True) if has_arguments else {}
    for argument in inspect.signature(cls).parameters.values() if has_arguments else ():
        place = f"{cls.__qualname__}.__init__: `{argument.name}`"
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD, argument.POSITIONAL_ONLY):
            raise Error(f"{place} is no keyword argument; each key needs one")
        if argument.name in _AROUND[base]:
            wanted.append(argument.name)
            continue
        hint: Any = hints.get(argument.name, None if argument.default is argument.empty else type(argument.default))
        help = ""
        if get_origin(hint) is Annotated:
            hint, *notes = get_args(hint)
            help = next((note for note in notes if isinstance(note, str)), "")
        words: list[str] = []
        if get_origin(hint) is Literal and all(isinstance(word, str) for word in get_args(hint)):
            words = list(get_args(hint))
            values, types[argument.name] = "choice", str
        elif hint in _TYPES:
            values, types[argument.name] = _TYPES[hint]
        else:
            usual = 'Alpha, Bytes, Span, BitRate, int, float, bool, or Literal["one", "other"]'
            raise Error(f"{place} has the type {hint!r}; annotate it as {usual}")
        default = None
        if argument.default is not argument.empty:
            default = str(argument.default).lower() if isinstance(argument.default, bool) else str(argument.default)
            if values in ("alpha", "size", "time", "rate") and not isinstance(argument.default, hint):
                try:
                    default = str(hint(argument.default))
                except (TypeError, ValueError) as error:
                    only = "; a fraction of the line's rate is for files alone" if values == "rate" else ""
                    raise Error(f"{place} has the default {argument.default!r}: {error}{only}") from None
        keys.append((argument.name, values, words, default, help))
    gauges = [(of.name, of.state, of.title or of.name, of.help, of.of_port) for of in getattr(cls, "gauges", ())]
    description = (inspect.getdoc(cls) or cls.__qualname__).partition("\n")[0]

    def create(values: dict[str, Any], around: dict[str, Any]) -> dict[str, Any]:
        given = {key: types[key](value) for key, value in values.items()}
        given.update({key: _AROUND[base][key](around) for key in wanted})
        return _methods(cls(**given), cls, base)

    return name, keys, gauges, description, create


def _observed(declaration: Declaration, on_create: Callable[[str], object]) -> Declaration:
    name, keys, gauges, description, create = declaration

    def observed(values: dict[str, Any], around: dict[str, Any]) -> dict[str, Any]:
        on_create(name)
        return create(values, around)

    return name, keys, gauges, description, observed


def _hooks(base: type) -> list[str]:
    return [name for name, of in vars(base).items() if callable(of) and not name.startswith("_")]


def _refuse_misspelt(cls: type, base: type) -> None:
    """Raises Error if a public method is called almost as one of Weir's."""
    hooks = _hooks(base)
    for part in cls.__mro__[:-1]:
        if part is base:
            continue
        for name, of in vars(part).items():
            if name.startswith("_") or name in hooks or isinstance(of, type) or not (callable(of) or isinstance(of, staticmethod | classmethod)):
                continue
            if near := difflib.get_close_matches(name, hooks, 1, 0.8):
                raise Error(f"{cls.__qualname__} has {name}, which Weir does not call; write {near[0]}, or begin its own name with _")


def _defines(cls: type, base: type, method: str) -> bool:
    return callable(getattr(cls, method, None)) and getattr(cls, method) is not getattr(base, method)


def _methods(instance: object, cls: type, base: type) -> dict[str, Any]:
    """Methods that the class defines, with arguments as from Rust."""
    methods = {name: getattr(instance, name) for name in _hooks(base) if _defines(cls, base, name)}
    if base is BufferPolicy:
        if lossy := methods.get("lossy_threshold"):
            alphas: dict[int, Alpha] = {}
            methods["lossy_threshold"] = lambda queue, bits: lossy(queue, alphas.get(bits) or alphas.setdefault(bits, Alpha.from_bits(bits)))
        if set_rate := methods.get("set_rate"):
            methods["set_rate"] = lambda port, line, fill: set_rate(port, BitRate(line), BitRate(fill))
    return methods


def _context(around: Mapping[str, Any]) -> BuildContext:
    rates = {name: tuple(map(BitRate, around[name])) for name in ("rates", "fill_rates")}
    return BuildContext(**{**around, **rates})


_AROUND[BufferPolicy] = {"context": _context}
_AROUND[CongestionController] = {
    "line": lambda around: BitRate(around["line"]),
    "base_rtt": lambda around: Span(around["base_rtt"]),
}
