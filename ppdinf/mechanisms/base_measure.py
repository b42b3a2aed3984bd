"""Weights of released counts that do not depend on the confidential table, such as Dirichlet-multinomial weights."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import xarray as xr
from flint import arb

from ppdinf._internal.rationals import Parameter, as_fraction, ball
from ppdinf._internal.values import Integers, Json, as_plain, assign, numbers
from ppdinf.errors import CountError, LabelError, PrivacyError


@runtime_checkable
class BaseMeasure(Hashable, Protocol):
    """Weights of released counts, independent of the confidential counts: any hashable object with these methods."""

    def weight(self, cell: int, count: int) -> arb:
        """Enclose the weight of a count in a cell; cells are numbered in the order of the table."""

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight of the counts from `low` to `high`."""


def log_base_measure(base: BaseMeasure | None, cells: Integers) -> float:
    """Return the log weight of a release, for every table; 0 without a base measure."""
    weights = [] if base is None else [base.weight(i, count) for i, count in enumerate(cells.tolist())]
    return sum((float(weight.log()) if weight > 0 else -math.inf for weight in weights), start=0.0)


@dataclass(frozen=True)
class DirichletMultinomial:
    r"""Weights of a table that resembles an earlier table: ``prod_j Gamma(y_j + alpha_j) / (Gamma(alpha_j) y_j!)``.

    Up to a constant, this is the Dirichlet-multinomial distribution of a table with a given total, where ``alpha_j`` is
    ``concentration * (previous_j + pseudo_count)``. (The paper prints ``Gamma(y_j)`` for ``y_j!``,
    ``Gamma(alpha_j + 1)`` for ``Gamma(alpha_j)``, and no pseudo-count.)

    Parameters
    ----------
    previous : sequence of int or None
        The earlier counts in the order of the cells, last dimension fastest; public. Cells with None have weight 1:
        deaths, if only cases resemble earlier cases.
    concentration : int, float, str or Fraction
        Weight of one person in the earlier table.
    pseudo_count : int, float, str or Fraction
        Added to every earlier count; without it, a cell with the earlier count 0 would always be 0.

    Raises
    ------
    CountError
        The earlier counts are not non-negative integers.
    LabelError
        The earlier counts have labels, which would be ignored.

    See Also
    --------
    ppdinf.WassersteinExponential, ppdinf.Conditioned

    Examples
    --------
    >>> from ppdinf.mechanisms import DirichletMultinomial
    >>> earlier = DirichletMultinomial([3, 0], concentration="1/2")
    >>> earlier.alpha
    (Fraction(7, 4), Fraction(1, 4))
    """

    previous: tuple[int | None, ...]
    concentration: Fraction
    pseudo_count: Fraction

    def __init__(self, previous: object, concentration: Parameter = 1, pseudo_count: Parameter = "1/2") -> None:
        if isinstance(previous, xr.DataArray | pd.Series | pd.DataFrame):
            raise LabelError(
                "previous must not have labels, which are not stored: arrange the earlier table in the order of the "
                "released table and give its cells, such as earlier.transpose(*table.dims).reindex_like(table).values"
            )
        entries = np.ma.asarray(previous, dtype=object) if np.ma.isMA(previous) else np.asarray(previous, dtype=object)
        weightless = np.equal(entries, None)  # type: ignore[call-overload]
        stated = np.where(weightless, 0, entries).tolist() if weightless.any() else previous
        counts = numbers(stated, "previous", CountError, integer=True).ravel()
        if not counts.size or (counts < 0).any() or weightless.all():
            raise CountError("previous must contain non-negative integers, one for each cell (None: no weight)")
        without = np.broadcast_to(weightless.ravel(), counts.shape)
        assign(
            self,
            previous=tuple(None if none else int(count) for count, none in zip(counts, without, strict=True)),
            concentration=as_fraction(concentration, "concentration"),
            pseudo_count=as_fraction(pseudo_count, "pseudo_count"),
        )

    @property
    def alpha(self) -> tuple[Fraction | None, ...]:
        """Parameters of the Dirichlet distribution; None for cells without weights."""
        return tuple(map(self._alpha, range(len(self.previous))))

    def _alpha(self, cell: int) -> Fraction | None:
        count = self.previous[cell]
        return None if count is None else self.concentration * (count + self.pseudo_count)

    def weight(self, cell: int, count: int) -> arb:
        """Enclose the weight of a count in a cell."""
        if (exact := self._alpha(cell)) is None:
            return arb(1)
        alpha = ball(exact)
        return ((alpha + count).lgamma() - alpha.lgamma() - (arb(count) + 1).lgamma()).exp()

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight of counts from `low` to `high`, at one end: the weights are monotone."""
        if (alpha := self._alpha(cell)) is None:
            return arb(1)
        if low < 0:
            raise PrivacyError("Dirichlet-multinomial weights require counts >= 0: declare nonnegative() public")
        if alpha > 1 and math.isinf(high):
            raise PrivacyError(
                "Dirichlet-multinomial weights require bounded cells: declare a public sum, or between(0, upper)"
            )
        return self.weight(cell, int(low if alpha <= 1 else high))

    def around(self, center: Sequence[int], groups: Integers) -> BaseMeasure:
        """Remove the growth of the weights, for tables whose groups of cells have the sums of `center`.

        Every weight is divided by ``ratio ** (y_j - center_j)`` with ``ratio = 1 + alpha_0 / n`` for each group, where
        n is the sum of the group and alpha_0 the sum of its alpha. The weights then peak at the mode of the
        Dirichlet-multinomial distribution.
        Cells with the label -1 do not change.
        """
        alpha, counts, ratios = [a or Fraction(0) for a in self.alpha], np.array(center), [Fraction(1)] * len(center)
        for group in np.unique(groups[groups >= 0]):
            cells = np.flatnonzero(groups == group)
            ratio = 1 + sum((alpha[cell] for cell in cells), Fraction(0)) / max(1, int(counts[cells].sum()))
            for cell in cells:
                ratios[cell] = ratio
        return _Around(self, tuple(center), tuple(ratios))

    def to_dict(self) -> Json:
        """Return the parameters, with rational numbers as text."""
        return as_plain(self)


@dataclass(frozen=True)
class _Around:
    """Dirichlet-multinomial weights divided by ``ratios ** (y - center)``."""

    measure: DirichletMultinomial
    center: tuple[int, ...]
    ratios: tuple[Fraction, ...]

    def weight(self, cell: int, count: int) -> arb:
        return self.measure.weight(cell, count) * ball(self.ratios[cell]) ** (self.center[cell] - count)

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight: the weights increase up to the count ``(alpha - ratio) / (ratio - 1)``."""
        ratio, alpha = self.ratios[cell], self.measure.alpha[cell]
        if ratio == 1 or (low < 0 and alpha is not None):
            return self.measure.largest(cell, low, high)
        turn = low if alpha is None else 1 + (alpha - ratio) // (ratio - 1)
        return self.weight(cell, int(min(max(low, turn), high)))
