from collections.abc import Callable, Sequence
from os import PathLike

class Error(Exception): ...

def run_sweep(
    *,
    path: str | PathLike[str] | None,
    sweep: str,
    scenario: str | None,
    output: str | PathLike[str],
    jobs: int | None,
    program: Sequence[str],
    code: str | PathLike[str],
    progress: Callable[[float, int], object] | None,
) -> None: ...
def run_point(arguments: Sequence[str]) -> int: ...
def reproduce(
    *,
    id: str,
    quick: bool,
    set: Sequence[str],
    seeds: int | None,
    papers: Sequence[str | PathLike[str]],
    output: str | PathLike[str],
    jobs: int | None,
    program: Sequence[str],
    code: str | PathLike[str],
    progress: Callable[[float, int], object] | None,
) -> str: ...
def compare(paths: Sequence[str | PathLike[str]], within: float, pauses_within: float) -> str: ...
def warm_up_us(run: str | PathLike[str]) -> float: ...
def pooled_percentile(
    runs: Sequence[Sequence[float]], percent: float
) -> tuple[float, float | None, float | None] | None: ...
