"""One published array of noisy sums, and the law of its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.types import Array
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.invariants import Public
from ppdinf.invariants.names import Joined
from ppdinf.laws import IntegerLaw, JointL2, L2Laplace, LawArray, Thresholded, TransitionMatrix
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.observation_model import ObservationModel
from ppdinf.laws.thresholded import ABSENT
from ppdinf.measurements.entries import Entries
from ppdinf.measurements.measured_rows import onto_rows
from ppdinf.tables.frame import Frame
from ppdinf.tables.labels import LARGEST

__all__ = ["Measured", "as_observation_model", "measured"]


type Forms = tuple[tuple[ObservationModel, NDArray[np.int64]], ...]
type Rows = tuple[sp.csr_array, Sequence[str], NDArray[np.int64], NDArray[np.bool_], Forms]


@dataclass(frozen=True, eq=False, repr=False)
class Measured:
    """Noisy values of the sums that a statement names; see `measured`."""

    statement: Public
    values: object
    law: object

    def __repr__(self) -> str:
        return f"<Measured: {'; '.join(map(str, self.statement))}>"

    def on(self, frame: Frame) -> Entries:
        """Bind to the cells of a table; entries where nothing was measured are left out.

        Raises
        ------
        LabelError, CountError, InvariantError, PrivacyError
            As `measured` says.
        """
        matrix, names, y, there, forms = self.rows(frame)
        return Entries(matrix, names, y, forms).only(np.flatnonzero(there))

    def rows(self, frame: Frame) -> Rows:
        """Bind every sum of the statement: those without a value too, which are not `there`."""
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
        if isinstance(forms[0][0], JointL2) and not there.all():
            raise PrivacyError(
                f"{what} have l2 noise, which is of all numbers together: that of {names[int(np.argmin(there))]!r} is "
                "missing"
            )
        _require_possible(forms, y, there, names, what)
        return matrix, names, y, there, forms

    def _forms(self, names: Sequence[str], frame: Frame, there: NDArray[np.bool_]) -> Forms:
        """Laws, each with the rows that have it."""
        if not isinstance(self.law, LawArray):
            return ((as_observation_model(self.law), np.arange(len(names))),)
        what = "the scales of the noise"
        number = pd.to_numeric(pd.Series(onto_rows(self.law.number, names, frame, what))).to_numpy(np.int64)
        for row in np.flatnonzero(there & (number < 0))[:1]:
            raise PrivacyError(f"{names[row]!r} was measured, but the scale of its noise is missing")
        rows = [np.flatnonzero(number == k) for k in range(len(self.law.laws))]
        return tuple((as_observation_model(law), own) for law, own in zip(self.law.laws, rows, strict=True) if own.size)


def measured(statement: Public, values: object, law: object) -> Measured:
    """State noisy values of sums of a table, and the law of their noise.

    Parameters
    ----------
    statement : Public
        Which sums, in the vocabulary of `ppdinf.invariants`: ``margin("county")``, ``total()``, ``groups("state")``,
        ``cells(...)``, ``linear(...)``; a margin over all dimensions names every cell.
    values : number, array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame of whole numbers
        One per sum: by label where there are labels, in any order; else in the order of the sums. nan, None or a mask
        where nothing was measured.
    law : IntegerLaw, LawArray, L2Laplace, TransitionMatrix, RandomRounding, Thresholded, or a mechanism of counts
        Of ``value - sum``, independent between entries but for l2 noise, which is of all of them: `ppdinf.laws`. One
        whose parameter is an array has a scale for each entry, labelled or ordered as `values`.

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
        as_observation_model(law)
    return Measured(statement, values, law)


def as_observation_model(law: object) -> ObservationModel:
    """How a law weighs counts, given what was published."""
    if isinstance(law, ObservationModel):
        return law
    if isinstance(law, IntegerLaw):
        return AdditiveLaw(law)
    if isinstance(law, L2Laplace):
        return JointL2(law)
    probabilities = getattr(law, "probabilities", None)
    if isinstance(probabilities, np.ndarray):
        return TransitionMatrix(probabilities)
    raise PrivacyError(
        "the law of the noise is one of ppdinf.laws (DiscreteGaussian, DoubleGeometric, L2Laplace, Staircase, "
        f"RandomRounding, TransitionMatrix, Thresholded) or a mechanism of single counts, found {type(law).__name__}"
    )


def _whole(given: Array, names: Sequence[str], what: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
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
    forms: tuple[tuple[ObservationModel, NDArray[np.int64]], ...],
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
