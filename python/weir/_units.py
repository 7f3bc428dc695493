"""Quantities as in files, and as whole numbers in base units."""

from typing import Any, TypeVar

from . import _weir

_Quantity = TypeVar("_Quantity", bound="_Whole")


class _Whole(int):
    _kind: str

    def __new__(cls: type[_Quantity], value: int | str) -> _Quantity:
        return super().__new__(cls, _weir.quantity(cls._kind, value) if isinstance(value, str) else value)

    def __str__(self) -> str:
        return _weir.quantity_text(self._kind, int(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Bytes(_Whole):
    """Size in bytes, also from a text: ``Bytes("20KiB")``."""

    _kind = "size"


class Span(_Whole):
    """Time in picoseconds, also from a text: ``Span("80us")``."""

    _kind = "time"


class BitRate(_Whole):
    """Rate in bits a second, also from a text: ``BitRate("10Gbps")``."""

    _kind = "rate"

    def bytes_in(self, span: int) -> int:
        """Bytes transmitted in a time of ``span`` picoseconds, rounded down."""
        return self * span // 8_000_000_000_000

    def time_for(self, size: int) -> int:
        """Picoseconds in which ``size`` bytes are transmitted, rounded up."""
        return -(-size * 8_000_000_000_000 // self)


class Alpha:
    """Factor α of a threshold, in units of 2^-16, from a number or a text: ``Alpha("1/16")``."""

    __slots__ = ("_text", "bits")

    def __init__(self, value: str | int | float) -> None:
        self._text = str(value)
        #: α in units of 2^-16.
        self.bits = _weir.quantity("alpha", self._text)

    @classmethod
    def from_bits(cls, bits: int) -> "Alpha":
        """α from its value in units of 2^-16."""
        return cls(f"{bits}/65536")

    def scale(self, size: int) -> int:
        """Multiplies a size by α, rounded down."""
        return size * self.bits >> 16

    def __float__(self) -> float:
        return self.bits / 65_536

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Alpha) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Alpha({self._text!r})"
