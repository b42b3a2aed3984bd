"""Whom a guarantee protects, and how many records one of them may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Statement, as_text, as_whole

__all__ = ["Unit", "unit"]


@dataclass(frozen=True)
class Unit(Statement):
    """What one protected unit is, and how many records it has at most."""

    kind: ClassVar[str] = "unit"
    known: ClassVar[bool] = True
    unit: str
    contributions: int

    def __post_init__(self) -> None:
        if not as_text(self.unit, "the unit").strip():
            raise LabelError("the unit has no name: say whom the guarantee protects, such as 'household'")
        contributions = as_whole(self.contributions, "contributions")
        if contributions < 1:
            raise InvariantError(f"contributions must be at least 1 record, found {contributions}")
        object.__setattr__(self, "contributions", contributions)

    def __str__(self) -> str:
        return f"one {self.unit} has at most {self.contributions} record{'s' * (self.contributions != 1)}"


def unit(unit: str, *, contributions: int = 1) -> Public:
    """State whom the guarantee of a release protects, and how many records one of them may have in the table.

    Unless stated, the unit is a person with one record. The loss per unit of distance stays what it is; guarantees
    say besides what all records of one unit lose together (group privacy).

    Parameters
    ----------
    unit : str
        In the singular: "person", "household", "visit".
    contributions : int
        Records of one unit at most. Nothing checks that, since a table does not show whose records it counts: drop the
        records beyond it, or count them, before the table is made.

    Returns
    -------
    Public

    Raises
    ------
    LabelError, InvariantError
        No name, or contributions below 1; two units in one `Public`.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & unit("household", contributions=4)
    >>> promise = ppd.GeneralizedLaplace(public, epsilon="1/8").guarantee
    >>> promise.unit, promise.loss(2), promise.loss_of_unit
    ('household', Fraction(1, 4), Fraction(1, 1))
    """
    return Public((Unit(unit, contributions),))
