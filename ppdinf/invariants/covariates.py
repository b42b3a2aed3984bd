"""Coordinates of a table that are public and published with its release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Rows, Statement, as_text, no_rows
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class Covariates(Statement):
    """Coordinates that are published exactly."""

    kind: ClassVar[str] = "covariates"
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names:
            raise LabelError("covariates() needs the name of at least one coordinate")
        for name in self.names:
            as_text(name, "the name of a coordinate")

    def equalities(self, frame: Frame) -> Rows:
        """Return no rows, because counts are not constrained; the coordinates must exist."""
        for name in self.names:
            frame.coordinate(name)
        return no_rows(frame), []

    def is_local(self, by: str) -> bool:
        """Return True: the statement has no rows."""
        return True

    def restricted(self, whole: Frame, part: Frame, cells: NDArray[np.int64]) -> tuple[Statement, ...]:
        """Return the coordinates of the part."""
        names = tuple(name for name in self.names if name in part.coords)
        return (Covariates(names),) if names else ()

    def coordinates(self) -> frozenset[str]:
        """Return all declared coordinates."""
        return frozenset(self.names)

    def __str__(self) -> str:
        return f"the coordinate{'s' * (len(self.names) > 1)} {', '.join(self.names)}"


def covariates(*names: str) -> Public:
    """Declare coordinates of the table (population, last month's counts) to be public.

    They are published with the release, without noise. An undeclared coordinate is never published: `release` refuses
    a table with such a coordinate.

    Parameters
    ----------
    *names : str
        Coordinates of the table, of strings, integers or decimals.

    Returns
    -------
    Public

    Raises
    ------
    LabelError
        No name is given, or a name is not a string.

    See Also
    --------
    ppdinf.invariants.labels

    Examples
    --------
    >>> from ppdinf.invariants import covariates
    >>> from ppdinf.invariants import total
    >>> print(total() & covariates("population"))
    Published exactly: the total; the coordinate population.
    """
    return Public((Covariates(names),))
