"""The protected unit, and the number of records that one unit may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ppdinf._internal.visible_text import is_visible
from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Statement, as_integer, as_text


@dataclass(frozen=True)
class Unit(Statement):
    """The protected unit and its largest number of records."""

    kind: ClassVar[str] = "unit"
    known: ClassVar[bool] = True
    unit: str
    contributions: int

    def __post_init__(self) -> None:
        if not as_text(self.unit, "the unit").strip():
            raise LabelError("the unit must not be empty: name whom the guarantee protects, such as 'household'")
        if not is_visible(self.unit):
            raise LabelError(f"the unit must be one line of text without control characters, found {self.unit!a}")
        contributions = as_integer(self.contributions, "contributions")
        if contributions < 1:
            raise InvariantError(f"contributions must be at least 1 record, found {contributions}")
        object.__setattr__(self, "contributions", contributions)

    def is_local(self, by: str) -> bool:
        """Return True: the statement has no rows."""
        return True

    def __str__(self) -> str:
        return f"one {self.unit} has at most {self.contributions} record{'s' * (self.contributions != 1)}"


def unit(unit: str, *, contributions: int = 1) -> Public:
    """State the protected unit of a release, and the number of records that one unit may have in the table.

    By default the unit is a person with one record. The loss per unit of distance does not depend on the unit.
    Guarantees also state the loss of all records of one unit together (group privacy).

    Parameters
    ----------
    unit : str
        In the singular: "person", "household", "visit".
        Largest number of records of one unit. A table does not show whose records it counts, so this is not checked:
        drop additional records before the table is made.

    Returns
    -------
    Public

    Raises
    ------
    LabelError, InvariantError
        The name is empty, contributions are below 1, or a `Public` has two units.

    See Also
    --------
    ppdinf.invariants.covariates, ppdinf.privacy.sensitivity

    Examples
    --------
    >>> from ppdinf.invariants import unit
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & unit("household", contributions=4)
    >>> guarantee = ppd.GeneralizedLaplace(public, epsilon="1/8").guarantee
    >>> guarantee.unit, guarantee.loss(2), guarantee.loss_of_unit
    ('household', Fraction(1, 4), Fraction(1, 1))
    """
    return Public((Unit(unit, contributions),))
