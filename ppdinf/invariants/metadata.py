"""Public metadata of a table: covariates, labels of its dimensions, and the protected unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ppdinf._internal.values import Integers, assign, is_visible
from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Rows, Statement, as_integer, as_label, as_text, no_rows
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class Covariates(Statement):
    """Coordinates that are published exactly."""

    kind: ClassVar[str] = "covariates"
    is_local: ClassVar[bool] = True
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

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
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


@dataclass(frozen=True)
class Labels(Statement):
    """All labels of a dimension, in order."""

    kind: ClassVar[str] = "labels"
    is_local: ClassVar[bool] = True
    known: ClassVar[bool] = True
    dim: str
    labels: tuple[str | int, ...]

    def __post_init__(self) -> None:
        as_text(self.dim, "the dimension of labels()")
        if not self.labels:
            raise LabelError(f"labels() needs the labels of {self.dim!r}, in their order")
        for label in self.labels:
            as_label(label, f"a label of {self.dim!r}")

    def equalities(self, frame: Frame) -> Rows:
        """Return no rows, because counts are not constrained; the table must have these labels in this order."""
        if self.dim not in frame.dims:
            raise LabelError(f"labels are declared for {self.dim!r}, but the table has dimensions {frame.dims}")
        labels = frame.coords[self.dim][1].tolist()
        if tuple(labels) != self.labels:
            unmatched = [label for label in (*labels, *self.labels) if (label in labels) != (label in self.labels)]
            difference = f"{unmatched[0]!r} is on one side only" if unmatched else "their order differs"
            raise LabelError(
                f"the labels of {self.dim!r} differ from the declared labels: {difference}; correct the table "
                "with ppdinf.as_table(table, labels=...), which counts 0 for absent labels"
            )
        return no_rows(frame), []

    def restricted(self, whole: Frame, part: Frame, cells: Integers) -> tuple[Statement, ...]:
        """Return the labels of the part."""
        return (Labels(self.dim, tuple(part.coords[self.dim][1].tolist())),) if self.dim in part.dims else ()

    def __str__(self) -> str:
        return f"the labels of {self.dim} and their order"


def labels(dim: str, labels: Iterable[str | int]) -> Public:
    """Declare the labels of a dimension and their order, independently of the counts.

    Labels are published with a release. If they come from the records, a label without records is absent, and tables
    made by counting may be in the order of their counts; both reveal information about confidential records.

    Parameters
    ----------
    dim : str
    labels : iterable of str or int
        From a code list or last year's table, not from the records.

    Returns
    -------
    Public
        Binding to a table with other labels, or in another order, raises LabelError.

    Raises
    ------
    LabelError
        No labels, or labels that are neither strings nor integers.

    See Also
    --------
    ppdinf.invariants.covariates

    Examples
    --------
    >>> from ppdinf.invariants import labels
    >>> import pandas as pd, ppdinf as ppd
    >>> ages = {"age": ["under 20", "20 to 64", "over 64"]}
    >>> counted = pd.Series([9, 4], pd.Index(["20 to 64", "under 20"], name="age"))  # nobody is over 64
    >>> table = ppd.as_table(counted, labels=ages)
    >>> table.values, labels("age", ages["age"]).on(table).values.size
    (array([4, 9, 0]), 0)
    """
    if isinstance(labels, str | Mapping):
        raise LabelError(f"labels of {dim!r} must be a list, in their order")
    return Public((Labels(dim, tuple(as_label(label, f"a label of {dim!r}") for label in labels)),))


@dataclass(frozen=True)
class Unit(Statement):
    """The protected unit and its largest number of records."""

    kind: ClassVar[str] = "unit"
    is_local: ClassVar[bool] = True
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
        assign(self, contributions=contributions)

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
