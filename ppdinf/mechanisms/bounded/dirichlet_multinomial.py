"""Base measures that know an earlier table: Dirichlet-multinomial weights of the released counts.

J. Seeman, M. Reimherr, A. Slavković, "Formal privacy for partially private data", section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd
import xarray as xr
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.frozen import assign
from ppdinf._internal.rationals import as_fraction, ball
from ppdinf._internal.types import Json
from ppdinf.errors import CountError, LabelError, PrivacyError
from ppdinf.mechanisms.bounded.base_measure import BaseMeasure

__all__ = ["DirichletMultinomial"]


@dataclass(frozen=True)
class DirichletMultinomial:
    r"""Weights of a table that resembles an earlier one: ``prod_j Gamma(y_j + alpha_j) / (Gamma(alpha_j) y_j!)``.

    Up to a constant the Dirichlet-multinomial law of a table with a given total, with ``alpha_j`` the `concentration`
    times the earlier count plus `pseudo_count`. (The paper prints ``Gamma(y_j)`` for ``y_j!``, ``Gamma(alpha_j + 1)``
    for ``Gamma(alpha_j)``, and no pseudo-count.)

    Parameters
    ----------
    previous : sequence of int
        The earlier counts, in the order of the cells, last dimension fastest; public.
    concentration : int, float, str or Fraction
        How much an earlier person weighs.
    pseudo_count : int, float, str or Fraction
        Added to every earlier count: a cell with none would otherwise be forced to stay empty.

    Raises
    ------
    CountError
        The earlier counts are not whole numbers from 0 on.
    LabelError
        They have labels, which would be ignored.

    Examples
    --------
    >>> earlier = DirichletMultinomial([3, 0], concentration="1/2")
    >>> earlier.alpha
    (Fraction(7, 4), Fraction(1, 4))
    """

    previous: tuple[int, ...]
    concentration: Fraction
    pseudo_count: Fraction

    def __init__(
        self,
        previous: object,
        concentration: int | float | str | Fraction = 1,
        pseudo_count: int | float | str | Fraction = "1/2",
    ) -> None:
        if isinstance(previous, xr.DataArray | pd.Series | pd.DataFrame):
            raise LabelError(
                "previous is stored without labels: bring the earlier table into the order of the released table, and "
                "give its cells, such as earlier.transpose(*table.dims).reindex_like(table).values"
            )
        counts = np.asarray(previous).ravel()
        if counts.dtype.kind not in "iu" or not counts.size or (counts < 0).any():
            raise CountError("previous must hold whole numbers from 0 on, one for each cell")
        assign(
            self,
            previous=tuple(int(count) for count in counts),
            concentration=as_fraction(concentration, "concentration"),
            pseudo_count=as_fraction(pseudo_count, "pseudo_count"),
        )

    @property
    def alpha(self) -> tuple[Fraction, ...]:
        """Parameters of the Dirichlet law."""
        return tuple(self.concentration * (count + self.pseudo_count) for count in self.previous)

    def weight(self, cell: int, count: int) -> arb:
        """Enclose the weight of a count in a cell."""
        alpha = ball(self.concentration * (self.previous[cell] + self.pseudo_count))
        return ((alpha + count).lgamma() - alpha.lgamma() - (arb(count) + 1).lgamma()).exp()

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight of counts from `low` to `high`: at an end, since the weights rise or fall."""
        if low < 0:
            raise PrivacyError("Dirichlet-multinomial weights need counts from 0 on: declare nonnegative() public")
        if self.concentration * (self.previous[cell] + self.pseudo_count) <= 1:
            return self.weight(cell, int(low))
        if math.isinf(high):
            raise PrivacyError(
                "Dirichlet-multinomial weights have no end where no public sum limits a cell: declare between(0, most)"
            )
        return self.weight(cell, int(high))

    def around(self, center: Sequence[int], groups: NDArray[np.int64]) -> BaseMeasure:
        """Take the growth out of the weights, for tables whose groups of cells have the sums of `center`.

        Every weight is divided by ``ratio ** (y_j - center_j)`` with the ratio ``1 + alpha_0 / n`` of its group, n
        being the sum of the group and alpha_0 that of its alpha: it then peaks where the Dirichlet-multinomial law
        does.
        Cells with the label -1 stay as they are.
        """
        alpha, counts, ratios = np.array(self.alpha), np.array(center), [Fraction(1)] * len(center)
        for group in np.unique(groups[groups >= 0]):
            cells = np.flatnonzero(groups == group)
            ratio = 1 + Fraction(alpha[cells].sum()) / max(1, int(counts[cells].sum()))
            for cell in cells:
                ratios[cell] = ratio
        return _Around(self, tuple(center), tuple(ratios))

    def to_dict(self) -> Json:
        """Parameters, rationals as text."""
        return {
            "previous": list(self.previous),
            "concentration": str(self.concentration),
            "pseudo_count": str(self.pseudo_count),
        }


@dataclass(frozen=True)
class _Around:
    """Dirichlet-multinomial weights over ``ratios ** (y - center)``."""

    measure: DirichletMultinomial
    center: tuple[int, ...]
    ratios: tuple[Fraction, ...]

    def weight(self, cell: int, count: int) -> arb:
        return self.measure.weight(cell, count) * ball(self.ratios[cell]) ** (self.center[cell] - count)

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight: the next one is larger up to ``(alpha - ratio) / (ratio - 1)``."""
        ratio = self.ratios[cell]
        if ratio == 1 or low < 0:
            return self.measure.largest(cell, low, high)
        turn = 1 + (self.measure.alpha[cell] - ratio) // (ratio - 1)
        return self.weight(cell, int(min(max(low, turn), high)))
