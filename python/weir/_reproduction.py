"""Outcome of a paper's figure."""

import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ._results import Results


class Reproduction:
    """Outcome of a paper's figure: the verdict, the paper's numbers beside Weir's, and the runs."""

    def __init__(
        self,
        outcome: Mapping[str, Any],
        directory: pathlib.Path,
        folder: "tempfile.TemporaryDirectory[str] | None" = None,
    ) -> None:
        #: Outcome as in verdict.json.
        self.outcome = outcome
        #: Directory with the figure and the page.
        self.directory = directory
        #: Results of the runs.
        self.results = Results(directory / "sweep", folder)

    @property
    def conclusions(self) -> str:
        """Verdict on the paper's conclusions: ``reproduced``, ``partly``, ``not`` and others."""
        return str(self.outcome["conclusions"])

    @property
    def numbers(self) -> pd.DataFrame:
        """Measured numbers, with the paper's where it states them."""
        return pd.DataFrame(self.outcome["numbers"])

    @property
    def claims(self) -> pd.DataFrame:
        """The paper's claims, each with its judgement and reason."""
        return pd.DataFrame(self.outcome["claims"])
