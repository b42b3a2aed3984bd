"""One published array of noisy sums, and the distribution of its noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ppdinf._internal.values import Array, Flags, Integers
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.invariants import Public
from ppdinf.invariants.statement import Chosen, Joined
from ppdinf.laws import LawArray
from ppdinf.laws.interval import Interval
from ppdinf.laws.observation_model import ObservationModel, as_observation_model
from ppdinf.measurements.entries import Entries
from ppdinf.measurements.labelled_numbers import onto_rows
from ppdinf.tables.count_ranges import are_ranges, missing_values
from ppdinf.tables.frame import Frame

type Forms = tuple[tuple[ObservationModel, Integers], ...]
type Rows = tuple[sp.csr_array, Sequence[str], Array, Flags, Forms]


@dataclass(frozen=True, eq=False, repr=False)
class Measured:
    """Noisy values of the sums that a statement names, returned by `ppdinf.measured`.

    Attributes
    ----------
    statement : Public
        The sums.
    values, law : object
        As passed to `ppdinf.measured`.

    See Also
    --------
    ppdinf.measured

    Examples
    --------
    >>> import ppdinf as ppd
    >>> ppd.measured(ppd.invariants.margin("sex"), [3, 9], ppd.laws.DoubleGeometric("1/4")).law
    DoubleGeometric(epsilon=Fraction(1, 4))
    """

    statement: Public
    values: object
    law: object

    def __repr__(self) -> str:
        return f"<Measured: {'; '.join(map(str, self.statement))}>"

    def on(self, frame: Frame) -> Entries:
        """Bind to the cells of a table; entries without a measured value are omitted.

        Raises
        ------
        LabelError, CountError, InvariantError, PrivacyError
            As for `measured`.
        """
        matrix, names, y, there, forms = self.rows(frame)
        return Entries(matrix, names, y, forms).only(np.flatnonzero(there))

    def rows(self, frame: Frame) -> Rows:
        """Bind every sum of the statement, including sums without a value, which are not `there`."""
        rows = [statement.equalities(frame) for statement in self.statement]
        stacked = [part for part, _ in rows if part.shape[0]]
        names: Sequence[str] = rows[0][1] if len(rows) == 1 else Joined([part for _, part in rows])
        if not stacked:
            raise InvariantError(f"{self.statement} names no sum that can be measured")
        matrix = sp.csr_array(sp.vstack(stacked, format="csr"))
        description = f"the values of {'; '.join(map(str, self.statement))}"
        laws = self.law.laws if isinstance(self.law, LawArray) else (self.law,)
        partial = all(as_observation_model(law).is_partial for law in laws)
        values = onto_rows(self.values, names, frame, description, partial=partial).copy()
        there = ~missing_values(values)
        y: Array = np.zeros(values.size, np.int64)
        forms: list[tuple[ObservationModel, Integers]] = []
        for law, entries in _with_ranges(self._forms(names, frame, there), values, there, names, description):
            valued = entries[there[entries]]
            form, numbers = applied(law.read, values[valued], Chosen(names, valued), description)
            y = y.astype(np.result_type(y, numbers))
            y[valued] = numbers
            if form.absent is not None:
                y[entries[~there[entries]]], there[entries] = form.absent, True
            forms.append((form, entries))
        if not forms[0][0].is_independent and not there.all():
            raise PrivacyError(
                f"{description} have {forms[0][0].name} noise, whose density is joint over all numbers: the value of "
                f"{names[int(np.argmin(there))]!r} is missing"
            )
        for form, entries in forms:  # numbers that have probability 0 under their law for every count
            stated = entries[there[entries]]
            for row in stated[~form.is_possible(y[stated].astype(form.dtype))][:1]:
                raise CountError(f"{description}: that of {names[row]!r} is impossible for every count, {form.gives}")
        return matrix, names, y, there, tuple(forms)

    def _forms(self, names: Sequence[str], frame: Frame, there: Flags) -> Forms:
        """Return the laws, each with the rows of its entries."""
        if not isinstance(self.law, LawArray):
            return ((as_observation_model(self.law), np.arange(len(names))),)
        description = "the scales of the noise"
        number = pd.to_numeric(pd.Series(onto_rows(self.law.number, names, frame, description))).to_numpy(np.int64)
        for row in np.flatnonzero(there & (number < 0))[:1]:
            raise PrivacyError(f"{names[row]!r} has a value, but the scale of its noise is missing")
        rows = [np.flatnonzero(number == k) for k in range(len(self.law.laws))]
        return tuple(
            (as_observation_model(law), entries)
            for law, entries in zip(self.law.laws, rows, strict=True)
            if entries.size
        )


def measured(statement: Public, values: object, law: object) -> Measured:
    """State noisy values of sums of a table, and the distribution of their noise.

    Parameters
    ----------
    statement : Public
        The sums, in the vocabulary of `ppdinf.invariants`: ``margin("county")``, ``total()``, ``groups("state")``,
        ``cells(...)``, ``linear(...)``. A margin over all dimensions names every cell.
    values : number, array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame
        One value per sum: matched by label in any order if there are labels, otherwise in the order of the sums. Use
        nan, None, an empty text or a mask for sums without a measured value. Values are numbers, or texts of numbers.
        Texts of ranges such as ``"1-9"`` are ranges under every law of independent numbers.
    law : a law of `ppdinf.laws`, LawArray, or a mechanism of counts
        Law of the value given the sum. Entries are independent, except for l2 noise, which is joint. A law with an
        array as parameter has one scale or base per entry, labelled or ordered like `values`.

    Returns
    -------
    Measured
        An argument of `Measurements`.

    Raises
    ------
    LabelError
        At binding: labels are missing, unknown or repeated, or the number of values differs from the number of sums.
    CountError
        At binding: values are not integers or are outside the support of their law.
    PrivacyError
        `law` is not a supported law. At binding: an entry has no scale.

    See Also
    --------
    ppdinf.Measurements, ppdinf.measurements.Measured, ppdinf.read_published

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
            f"the statement must be of ppdinf.invariants, such as margin('county'), found {type(statement).__name__}"
        )
    if not isinstance(law, LawArray):
        as_observation_model(law)
    return Measured(statement, values, law)


def applied[T](function: Callable[[Array], T], values: Array, names: Sequence[str], description: str) -> T:
    """Return a function of all values; an error names the first value that the function refuses."""
    try:
        return function(values)
    except CountError:
        for k in range(values.size):
            try:
                function(values[k : k + 1])
            except CountError as error:
                raise CountError(f"{description}: that of {names[k]!r}: {error}") from None
        raise


def _with_ranges(
    forms: Forms, values: Array, there: Flags, names: Sequence[str], description: str
) -> Iterator[tuple[ObservationModel, Integers]]:
    """Replace marks in `values` by ranges, and yield each law with its numbers, then all ranges with their law."""
    is_range = np.zeros(values.size, dtype=bool)
    for law, entries in forms:
        values[entries] = applied(law.shown, values[entries], Chosen(names, entries), description)
        there[entries] = ~missing_values(values[entries])
        if law.is_independent and not isinstance(law, Interval):
            is_range[entries] = there[entries] & are_ranges(values[entries])
        if not is_range[entries].all():
            yield law, entries[~is_range[entries]]
    if is_range.any():
        yield Interval(), np.flatnonzero(is_range)
