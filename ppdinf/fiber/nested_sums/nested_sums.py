r"""Sums of windowed integers of which any two are nested or disjoint, and which are exact, bounded or noisy.

Cells in blocks, blocks in tracts, tracts in counties form a forest of sums. Cell ``i`` is an integer ``x_i`` with
weight ``w_i(x_i)``. Sum ``v``, of all cells below it, has the weight ``g_v(s_v)``, the product of its factors. In time
linear in the number of cells, this package computes the total weight of all tables :math:`\sum_x \prod_i w_i(x_i)
\prod_v g_v(s_v(x))`, its gradient (the posterior of every cell), and exact draws. The parts are:

1. :mod:`~ppdinf.fiber.nested_sums.sum_factors`: factors of single sums;
2. :mod:`~ppdinf.fiber.nested_sums.join_tree`: sums as joins of two parts, computed once;
3. :mod:`~ppdinf.fiber.nested_sums.upward_pass`: weights from the cells up, trimmed with an error bound, stored in rows
   (:mod:`~ppdinf.fiber.nested_sums.weight_rows`);
4. :mod:`~ppdinf.fiber.nested_sums.tilts`: cells are tilted if a sum is far from its prior;
5. :mod:`~ppdinf.fiber.nested_sums.downward_pass`: posteriors from the roots down;
6. :mod:`~ppdinf.fiber.nested_sums.joint_draws`: exact joint draws;
7. :mod:`~ppdinf.fiber.nested_sums.evaluation`: all steps together, tree by tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.nested_sums.evaluation import Evaluated, Posteriors, TotalWeights
from ppdinf.fiber.nested_sums.join_tree import NONE, OutOfReachError, tree_of
from ppdinf.fiber.nested_sums.sum_factors import LogTable, factors_of
from ppdinf.fiber.nested_sums.tilts import Tilts, set_tilts
from ppdinf.fiber.nested_sums.weight_rows import CellWeights

__all__ = ["Evaluated", "LogTable", "NestedSums", "OutOfReachError", "Posteriors", "Tilts", "TotalWeights"]


class NestedSums:
    r"""Cells and sums of cells, any two nested or disjoint, with the factors and bounds of the sums."""

    def __init__(
        self,
        *,
        low: ArrayLike,
        width: ArrayLike,
        node: ArrayLike,
        parent: ArrayLike,
        start: ArrayLike | None = None,
        least: ArrayLike | None = None,
        most: ArrayLike | None = None,
        measured: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        laws: Sequence[LogTable] = (),
        possible: tuple[ArrayLike, ArrayLike] | None = None,
        tolerance: float = 1e-10,
    ) -> None:
        low = _integers(low, "low")
        d = low.size
        width, node, parent = _integers(width, "width", d), _integers(node, "node", d), _integers(parent, "parent")
        m = parent.size
        start = np.cumsum(width) - width if start is None else _integers(start, "start", d)
        if d == 0 or width.min() < 1 or start.min() < 0:
            raise InvariantError(
                "there must be at least one cell, and width must be at least 1 and start at least 0 for every cell"
            )
        for name, numbers in (("node", node), ("parent", parent)):
            bad = np.flatnonzero((numbers < -1) | (numbers >= m))
            if bad.size:
                raise InvariantError(f"{name}[{bad[0]}] must be a sum from 0 to {m - 1} or -1, found {numbers[bad[0]]}")
        least = np.full(m, NONE) if least is None else _integers(least, "least", m)
        most = np.full(m, -NONE) if most is None else _integers(most, "most", m)
        sums, shift, law = (_integers(a, "measured") for a in (measured or ((), (), ())))
        if not sums.size == shift.size == law.size:
            raise InvariantError("measured must have three arrays of the same length: sums, shifts and laws")
        if sums.size and not (0 <= sums.min() <= sums.max() < m and 0 <= law.min() <= law.max() < len(laws)):
            raise InvariantError(f"measured must contain sums from 0 to {m - 1} and laws from 0 to {len(laws) - 1}")
        if not 0 < tolerance < 1:
            raise ModelError(f"tolerance must be between 0 and 1, found {tolerance}")
        self.cells, self.sums, self.weights = d, m, int((start + width).max())
        self.tolerance = tolerance
        self.roots = np.flatnonzero(parent < 0)
        ends = None if possible is None else [_integers(end, "possible", d) for end in possible]
        self._omits = ends is not None
        self._factors = factors_of(m, sums, shift, law, laws)
        self._tree = tree_of(low, width, start, node, parent, least, most, self._factors, ends)
        joins = np.diff(self._tree.root, prepend=-1)
        self._share = tolerance / 1e5 / joins.max()
        self._tilts = Tilts(np.zeros(m), np.zeros(d, np.int64), np.zeros(m, np.int64))

    def evaluate(
        self, log_weight: ArrayLike, slope: ArrayLike | None = None, log_missing: ArrayLike | None = None
    ) -> Evaluated:
        """Compute the total weight of all tables."""
        tilts = Tilts(*(a.copy() for a in self._tilts))
        return Evaluated(self, self._cell_weights(log_weight, slope, log_missing, tilts))

    @property
    def range_of_root(self) -> tuple[int, int]:
        """Smallest and largest value of the first root."""
        _, least, most = self._tree.sums[self.roots[0]].tolist()
        return least, most

    def tilts(self, log_weight: ArrayLike) -> Tilts:
        """Compute the tilts that move all sums to their posterior, for the log weights of `evaluate`."""
        tilts = Tilts(*(a.copy() for a in self._tilts))
        weights = self._cell_weights(log_weight, None, None, tilts)
        set_tilts(self._tree, weights, self._factors, 0, len(self._tree.joins))
        return tilts

    def at_tilts(self, tilts: Tilts) -> NestedSums:
        """Return the same sums with these tilts."""
        sums = copy(self)
        sums._tilts = tilts
        return sums

    def _cell_weights(
        self, log_weight: ArrayLike, slope: ArrayLike | None, log_missing: ArrayLike | None, tilts: Tilts
    ) -> CellWeights:
        """Validate weights."""
        weights = np.ascontiguousarray(log_weight, dtype=np.float64).view()
        weights.flags.writeable = False  # read-only like constants of a model, so that kernels are compiled once
        slopes = np.ascontiguousarray(np.zeros(self.cells) if slope is None else slope, dtype=np.float64)
        missing = np.ascontiguousarray(() if log_missing is None else log_missing, dtype=np.float64)
        if log_missing is not None and not (missing.shape == (self.cells,) and (missing < np.inf).all()):
            raise ModelError(f"log_missing must be below inf, with shape ({self.cells},)")
        if log_missing is not None and not self._omits:
            raise ModelError("log_missing requires sums with possible values outside of windows")
        for name, array, size in (("log weights", weights, self.weights), ("slopes", slopes, self.cells)):
            if array.ndim != 1 or array.size < size:
                raise ModelError(f"{name} must have shape ({size},), found {array.shape}")
            if not (array < np.inf).all():
                raise ModelError(f"{name} must not be nan or +inf, found at {np.flatnonzero(~(array < np.inf))[0]}")
        return CellWeights(weights, slopes, *tilts, missing)


def _integers(values: ArrayLike, name: str, size: int | None = None) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvariantError(f"{name} must be integers, found {array.dtype}; convert it without rounding")
    if array.ndim != 1 or size not in (None, array.size):
        raise InvariantError(f"{name} has shape {array.shape}; ({'any' if size is None else size},) is needed")
    return np.ascontiguousarray(array, dtype=np.int64)
