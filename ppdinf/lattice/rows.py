"""Rows of numbers about the counts of cells, each stored once for all cells that share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.values import Array, Integers
from ppdinf.errors import ModelError

LISTED = 2**25  # maximum number of weights, cells by counts: 256 MB


class Rows[T: np.generic](NamedTuple):
    """Distinct rows, shape (k, width), and the row of each cell, shape (d,)."""

    values: NDArray[T]
    of: Integers

    @classmethod
    def each(cls, values: NDArray[T]) -> Rows[T]:
        """Give each cell its own row."""
        return cls(values, np.arange(len(values)))

    @property
    def whole(self) -> NDArray[T]:
        """The rows of all cells, shape (d, width)."""
        cells, (kinds, width) = self.of.size, self.values.shape
        if kinds < cells and cells * width > LISTED:
            raise ModelError(
                f"{cells:,} cells with windows of {width:,} counts have more than {LISTED:,} weights, the largest "
                "number that can be listed by cell. Equal cells share their weights only if the table is marginalized "
                "and not drawn, and its public sums do not cross. The distribution must be pm.Poisson, pm.Binomial of "
                "known n, pm.NegativeBinomial with one alpha or known ones, or pm.BetaBinomial of known n with one "
                "alpha and beta: change the distribution, or split the table"
            )
        return self.values if len(self.values) == self.of.size else self.values[self.of]


def kinds(columns: Sequence[Array]) -> tuple[Integers, Integers]:
    """Return the first cell of each kind, and the kind of each cell; cells of a kind agree in all columns, (d,)."""
    of = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        _, own = np.unique(column, return_inverse=True)
        _, first, of = np.unique(of * (own.max(initial=0) + 1) + own, return_index=True, return_inverse=True)
    return (first, of) if first.size < of.size else (np.arange(of.size), np.arange(of.size))
