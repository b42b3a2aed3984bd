r"""Sums of windowed integers of which any two are nested or disjoint, each known exactly, within bounds, or with noise.

Cells in blocks, blocks in tracts, tracts in counties: a forest of sums. Cell ``i`` holds an integer ``x_i`` with
weight ``w_i(x_i)``; sum ``v``, of all cells below it, has weight ``g_v(s_v)``, the product of what is known of it. Here
are, in time linear in the number of cells, the total weight of all tables
:math:`\sum_x \prod_i w_i(x_i) \prod_v g_v(s_v(x))`, its gradient (the posterior of every cell), and exact draws:

1. :mod:`~ppdinf.fiber.nested_sums.sum_factors`: what is known of single sums;
2. :mod:`~ppdinf.fiber.nested_sums.join_tree`: sums as joins of two, planned once;
3. :mod:`~ppdinf.fiber.nested_sums.upward_pass`: weights from the cells up, trimmed, with a bound on what that costs,
kept in
   rows (:mod:`~ppdinf.fiber.nested_sums.weight_rows`);
4. :mod:`~ppdinf.fiber.nested_sums.tilts`: where a sum is known to be far from what its cells say, cells are tilted;
5. :mod:`~ppdinf.fiber.nested_sums.downward_pass`: posteriors from the roots down;
6. :mod:`~ppdinf.fiber.nested_sums.joint_draws`: exact joint draws;
7. :mod:`~ppdinf.fiber.nested_sums.evaluation`: all of them together, tree by tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.nested_sums.evaluation import Evaluated, Posteriors
from ppdinf.fiber.nested_sums.join_tree import NONE, OutOfReachError, tree_of
from ppdinf.fiber.nested_sums.sum_factors import LogTable, factors_of
from ppdinf.fiber.nested_sums.weight_rows import CellWeights

__all__ = ["Evaluated", "LogTable", "NestedSums", "OutOfReachError", "Posteriors"]


class NestedSums:
    r"""Cells and sums of them, any two nested or disjoint, and what is known of the sums.

    Parameters
    ----------
    low, width : array_like of int, shape (d,)
        Cell i takes the values ``low[i], ..., low[i] + width[i] - 1``.
    node : array_like of int, shape (d,)
        The least sum that holds the cell, or -1 for none (a free cell).
    parent : array_like of int, shape (m,)
        The least sum that holds another sum, in any order, or -1 for a root.
    start : array_like of int, shape (d,), optional
        Where in the log weights those of the cell begin; cells may share weights, in whole or in part. Default: one
        cell after the other.
    least, most : array_like of int, shape (m,), optional
        Bounds of the sums; the same for a sum that is known exactly.
    measured : tuple of three array_like of int, shape (f,), optional
        ``(sum, shift, law)``: log weight ``laws[law].log_weights[s - shift]`` for a value s of the sum. A sum may have
        any number of them.
    laws : sequence of LogTable
        Tables of log weights with tails. Noise of a law symmetric around 0, tabulated from -R to R, seen as y, has
        the shift y - R.
    tolerance : float
        Largest relative error of a tree's total weight.

    Raises
    ------
    InvariantError
        Arrays that do not fit together; sums above themselves, or without cells. `OutOfReachError`, with the sum as
        its attribute ``node``, where what is known contradicts itself whatever the weights are.
    ModelError
        Laws that are no log weights; a tolerance that is none.

    Notes
    -----
    The joins of sums are planned here, so that the same sums can be evaluated again and again. Cost: half a microsecond
    for a cell, then some 2.5 for an evaluation, and 700 bytes, where cells have 60 values and sums of ten parts are
    measured about as well; without measurements in between it grows with the logarithm of the number of cells. It
    grows with the square of the width of cells: where that is hundreds, one exact sum for each group is
    better left to :mod:`ppdinf.fiber.sums_given_totals.totals`.

    Examples
    --------
    Two dice and a third one; the first two have a sum of 6 to 8, all three of 10.

    >>> import numpy as np
    >>> from ppdinf.fiber.nested_sums.nested_sums import NestedSums
    >>> dice = NestedSums(low=[1, 1, 1], width=[6, 6, 6], node=[0, 0, 1], parent=[1, -1], least=[6, 10], most=[8, 10])
    >>> evaluated = dice.evaluate(np.full(18, -np.log(6)))
    >>> round(float(216 * np.exp(evaluated.value[0])), 9)
    16.0
    >>> evaluated.posteriors().mean.round(4)
    array([ 7., 10.])
    >>> x = evaluated.draw(1000, rng=1)
    >>> x.shape, sorted(set((x[:, 0] + x[:, 1]).tolist()))
    ((1000, 3), [6, 7, 8])
    """

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
        tolerance: float = 1e-10,
    ) -> None:
        low = _integers(low, "low")
        d = low.size
        width, node, parent = _integers(width, "width", d), _integers(node, "node", d), _integers(parent, "parent")
        m = parent.size
        start = np.cumsum(width) - width if start is None else _integers(start, "start", d)
        if d == 0 or width.min() < 1 or start.min() < 0:
            raise InvariantError("there must be cells, each with at least one value, whose weights start at 0 or later")
        for name, numbers in (("node", node), ("parent", parent)):
            bad = np.flatnonzero((numbers < -1) | (numbers >= m))
            if bad.size:
                raise InvariantError(
                    f"{name}[{bad[0]}] is {numbers[bad[0]]}; it must be one of {m} sums, from 0, or -1"
                )
        least = np.full(m, NONE) if least is None else _integers(least, "least", m)
        most = np.full(m, -NONE) if most is None else _integers(most, "most", m)
        sums, shift, law = (_integers(a, "measured") for a in (measured or ((), (), ())))
        if not sums.size == shift.size == law.size:
            raise InvariantError("measured holds three arrays of the same length: sums, shifts and laws")
        if sums.size and not (0 <= sums.min() <= sums.max() < m and 0 <= law.min() <= law.max() < len(laws)):
            raise InvariantError(f"measured must name sums from 0 to {m - 1} and laws from 0 to {len(laws) - 1}")
        if not 0 < tolerance < 1:
            raise ModelError(f"tolerance is {tolerance}; a relative error between 0 and 1 is needed")
        self.cells, self.sums, self.weights = d, m, int((start + width).max())
        self.tolerance = tolerance
        self.roots = np.flatnonzero(parent < 0)
        self._factors = factors_of(m, sums, shift, law, laws)
        self._tree = tree_of(low, width, start, node, parent, least, most, self._factors)
        joins = np.diff(self._tree.root, prepend=-1)
        self._share = tolerance / 1e5 / joins.max()
        self._tilts = np.zeros(m), np.zeros(d, np.int64), np.zeros(m, np.int64)

    def evaluate(self, log_weight: ArrayLike, slope: ArrayLike | None = None) -> Evaluated:
        """Total weight of all tables.

        Parameters
        ----------
        log_weight : array_like, shape (weights,)
            Log weights of the values of all cells, -inf where one is impossible.
        slope : array_like, shape (d,), optional
            Natural parameters: ``slope[i] x`` is added to the log weight of x in cell i. -inf leaves 0 alone.

        Raises
        ------
        ModelError
            Weights or slopes of the wrong shape, nan or +inf; sums known to be so far from what their cells say that
            they would take too long.
        """
        weights = np.ascontiguousarray(log_weight, dtype=np.float64).view()
        weights.flags.writeable = False  # as constants of a model are: kernels are compiled once
        slopes = np.ascontiguousarray(np.zeros(self.cells) if slope is None else slope, dtype=np.float64)
        for name, array, size in (("log weights", weights, self.weights), ("slopes", slopes, self.cells)):
            if array.ndim != 1 or array.size < size:
                raise ModelError(f"{name} have shape {array.shape}; ({size},) is needed")
            if not (array < np.inf).all():
                raise ModelError(f"{name} hold nan or +inf at {np.flatnonzero(~(array < np.inf))[0]}")
        return Evaluated(self, CellWeights(weights, slopes, *(a.copy() for a in self._tilts)))


def _integers(values: ArrayLike, name: str, size: int | None = None) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvariantError(f"{name} must hold integers, not {array.dtype}; convert it without rounding")
    if array.ndim != 1 or size not in (None, array.size):
        raise InvariantError(f"{name} has shape {array.shape}; ({'any' if size is None else size},) is needed")
    return np.ascontiguousarray(array, dtype=np.int64)
