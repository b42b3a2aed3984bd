"""One published array of noisy sums, and the law of its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.frame import Frame
from ppdinf.invariants import Public
from ppdinf.invariants.names import Joined
from ppdinf.labels import LARGEST
from ppdinf.laws import IntegerLaw, LawArray, RandomRounding, Thresholded, TransitionMatrix
from ppdinf.laws.likelihood import Differences
from ppdinf.laws.thresholded import ABSENT
from ppdinf.measurements.rows import onto_rows

__all__ = ["Entries", "Form", "Measured", "measured"]

Form = Differences | TransitionMatrix | RandomRounding | Thresholded
"""How a published number weighs counts: ``log_weight(y, x)``, and from where to where, ``reach(y, rare)``."""

RARE = 1e-12
"""Probability of noise that goes further than its reach."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Published numbers, each of a sum of cells with a law of its own.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array of int64, shape (k, d)
        The sums: one row per published number.
    names : sequence of str
    y : array of int64, shape (k,)
        What was published; `ppdinf.laws.thresholded.ABSENT` for what stayed below its threshold.
    forms : tuple of (Form, array of int64)
        Laws, each with the entries that have it.
    """

    matrix: sp.csr_array
    names: Sequence[str]
    y: NDArray[np.int64]
    forms: tuple[tuple[Form, NDArray[np.int64]], ...]

    def log_weights(self, sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log weight of every entry given possible values of its sum, shape (k, ...)."""
        found = np.empty(sums.shape)
        for form, rows in self.forms:
            y = self.y[rows].reshape(-1, *[1] * (sums.ndim - 1))
            found[rows] = form.log_weight(y, sums[rows])
        return found

    def reach(self, rare: float = RARE) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest value of each sum that its entry comes from, but with probability `rare`."""
        low, high = np.empty(self.y.size), np.empty(self.y.size)
        for form, rows in self.forms:
            low[rows], high[rows] = form.reach(self.y[rows], rare)
        return low, high

    def only(self, rows: NDArray[np.int64]) -> Entries:
        """Some of the entries, in the order given."""
        place = np.full(self.y.size, -1)
        place[rows] = np.arange(rows.size)
        forms = [(form, place[own][place[own] >= 0]) for form, own in self.forms]
        names = _Chosen(self.names, rows)
        return Entries(self.matrix[rows], names, self.y[rows], tuple((f, own) for f, own in forms if own.size))


class _Chosen(Joined):
    """Some of a sequence of names, spelled out when asked for."""

    def __init__(self, names: Sequence[str], rows: NDArray[np.int64]) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        return int(self._rows.size)

    def name(self, row: int) -> str:
        """Name of one row."""
        return self._names[int(self._rows[row])]


@dataclass(frozen=True, eq=False, repr=False)
class Measured:
    """Noisy values of the sums that a statement names; see `measured`."""

    statement: Public
    values: Any
    law: Any

    def __repr__(self) -> str:
        return f"<Measured: {'; '.join(map(str, self.statement))}>"

    def on(self, frame: Frame) -> Entries:
        """Bind to the cells of a table; entries where nothing was measured are left out.

        Raises
        ------
        LabelError, CountError, InvariantError, PrivacyError
            As `measured` says.
        """
        rows = [statement.equalities(frame) for statement in self.statement]
        stacked = [part for part, _ in rows if part.shape[0]]
        names: Sequence[str] = rows[0][1] if len(rows) == 1 else Joined([part for _, part in rows])
        if not stacked:
            raise InvariantError(f"{self.statement} names no sum that can be measured")
        matrix = sp.csr_array(sp.vstack(stacked, format="csr"))
        what = f"the values of {'; '.join(map(str, self.statement))}"
        given = onto_rows(self.values, names, frame, what, partial=isinstance(self.law, Thresholded))
        y, there = _whole(given, names, what)
        forms = self._forms(names, frame, there)
        if isinstance(self.law, Thresholded):
            y[~there], there = ABSENT, np.ones_like(there)
        _require_possible(forms, y, there, names, what)
        return Entries(matrix, names, y, forms).only(np.flatnonzero(there))

    def _forms(
        self, names: Sequence[str], frame: Frame, there: NDArray[np.bool_]
    ) -> tuple[tuple[Form, NDArray[np.int64]], ...]:
        """Laws, each with the rows that have it."""
        if not isinstance(self.law, LawArray):
            return ((as_form(self.law), np.arange(len(names))),)
        what = "the scales of the noise"
        number = pd.to_numeric(pd.Series(onto_rows(self.law.number, names, frame, what))).to_numpy(np.int64)
        for row in np.flatnonzero(there & (number < 0))[:1]:
            raise PrivacyError(f"{names[row]!r} was measured, but the scale of its noise is missing")
        rows = [np.flatnonzero(number == k) for k in range(len(self.law.laws))]
        return tuple((Differences(law), own) for law, own in zip(self.law.laws, rows, strict=True) if own.size)


def measured(statement: Public, values: Any, law: Any) -> Measured:
    """State noisy values of sums of a table, and the law of their noise.

    Parameters
    ----------
    statement : Public
        Which sums, in the vocabulary of `ppdinf.invariants`: ``margin("county")``, ``total()``, ``groups("state")``,
        ``cells(...)``, ``linear(...)``; a margin over all dimensions names every cell.
    values : number, array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame of whole numbers
        One per sum: by label where there are labels, in any order; else in the order of the sums. nan, None or a mask
        where nothing was measured.
    law : IntegerLaw, LawArray, TransitionMatrix, RandomRounding, Thresholded, or a mechanism with `probabilities`
        Of ``value - sum``, independent between entries: `ppdinf.laws`. One whose parameter is an array has a scale for
        each entry, labelled or ordered as `values`.

    Returns
    -------
    Measured
        To be put into `Measurements`.

    Raises
    ------
    LabelError
        When bound: labels that are absent, unknown or there twice; another number of values than there are sums.
    CountError
        When bound: values that are not whole, or that their law cannot give.
    PrivacyError
        No such law; when bound: an entry without a scale.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> by_sex = ppd.measured(inv.margin("sex"), {"m": 31, "f": 44}, ppd.laws.DoubleGeometric("1/10"))
    >>> by_sex
    <Measured: the sum for every sex>
    """
    if not isinstance(statement, Public):
        raise InvariantError(
            f"say what was measured by ppdinf.invariants, such as margin('county'), found {type(statement).__name__}"
        )
    if not isinstance(law, LawArray):
        as_form(law)
    return Measured(statement, values, law)


def as_form(law: Any) -> Form:
    """How a law weighs counts, given what was published."""
    if isinstance(law, TransitionMatrix | RandomRounding | Thresholded):
        return law
    if isinstance(law, IntegerLaw):
        return Differences(law)
    probabilities = getattr(law, "probabilities", None)
    if isinstance(probabilities, np.ndarray):
        return TransitionMatrix(probabilities)
    raise PrivacyError(
        "the law of the noise is one of ppdinf.laws (DiscreteGaussian, DoubleGeometric, Staircase, RandomRounding, "
        f"TransitionMatrix, Thresholded) or a mechanism of single counts, found {type(law).__name__}"
    )


def _whole(given: NDArray[Any], names: Sequence[str], what: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Whole numbers, 0 where nothing was measured, and where something was."""
    there = ~pd.isna(given)
    numbers = pd.to_numeric(pd.Series(given[there]), errors="coerce").to_numpy(np.float64)
    wrong = np.flatnonzero(~(numbers == np.rint(numbers)) | (np.abs(numbers) > LARGEST))
    if wrong.size:
        raise CountError(
            f"{what} must be whole numbers up to 2**53, as noise of whole numbers leaves them: "
            f"that of {names[np.flatnonzero(there)[wrong[0]]]!r} is not"
        )
    y = np.zeros(given.size, dtype=np.int64)
    y[there] = numbers.astype(np.int64)
    return y, there


def _require_possible(
    forms: tuple[tuple[Form, NDArray[np.int64]], ...],
    y: NDArray[np.int64],
    there: NDArray[np.bool_],
    names: Sequence[str],
    what: str,
) -> None:
    """Refuse numbers that their law does not give, whatever the count."""
    for form, rows in forms:
        own = rows[there[rows]]
        for row in own[~form.is_possible(y[own])][:1]:
            raise CountError(f"{what}: no count gives that of {names[row]!r}, {form.gives}")
