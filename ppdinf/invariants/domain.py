"""Labels and their order that a table has independently of its counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import LabelError
from ppdinf.invariants.public import Public
from ppdinf.invariants.statement import Rows, Statement, as_label, as_text, no_rows
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class Labels(Statement):
    """All labels of a dimension, in order."""

    kind: ClassVar[str] = "labels"
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

    def is_local(self, by: str) -> bool:
        """Return True: the statement has no rows."""
        return True

    def restricted(self, whole: Frame, part: Frame, cells: NDArray[np.int64]) -> tuple[Statement, ...]:
        """Return the labels of the part."""
        return (Labels(self.dim, tuple(part.coords[self.dim][1].tolist())),) if self.dim in part.dims else ()

    def coordinates(self) -> frozenset[str]:
        """Return the dimension."""
        return frozenset({self.dim})

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
