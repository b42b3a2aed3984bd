r"""Sums of windowed integers of which any two are nested or disjoint, each known exactly, within bounds, or with noise.

Cells in blocks, blocks in tracts, tracts in counties: a forest of sums. Cell ``i`` holds an integer ``x_i`` with
weight ``w_i(x_i)``; sum ``v``, of all cells below it, has weight ``g_v(s_v)``, the product of what is known of it. Here
are, in time linear in the number of cells, the total weight of all tables
:math:`\sum_x \prod_i w_i(x_i) \prod_v g_v(s_v(x))`, its gradient (the posterior of every cell), and exact draws:

1. :mod:`~ppdinf.fiber.sum_factors`: what is known of single sums;
2. :mod:`~ppdinf.fiber.nested_tree`: sums as joins of two, planned once;
3. :mod:`~ppdinf.fiber.nested_upward`: weights from the cells up, trimmed, with a bound on what that costs, kept in
   rows (:mod:`~ppdinf.fiber.nested_rows`);
4. :mod:`~ppdinf.fiber.nested_tilts`: where a sum is known to be far from what its cells say, cells are tilted;
5. :mod:`~ppdinf.fiber.nested_downward`: posteriors from the roots down;
6. :mod:`~ppdinf.fiber.nested_draws`: exact joint draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.nested_downward import downward
from ppdinf.fiber.nested_draws import split_draws
from ppdinf.fiber.nested_rows import LOST, MASS, SCALE, SIZE, CellWeights, Rows
from ppdinf.fiber.nested_tilts import set_tilts
from ppdinf.fiber.nested_tree import NODE, NONE, WIDTH, OutOfReachError, tree_of
from ppdinf.fiber.nested_upward import DEAREST, upward
from ppdinf.fiber.sum_factors import LogTable, factors_of

__all__ = ["Evaluated", "LogTable", "NestedSums", "OutOfReachError", "Posteriors"]

LEAST_SHARE = 1e-250


class Posteriors(NamedTuple):
    """Posterior of every cell and sum: the gradient of the log total weight, and moments."""

    log_weight: NDArray  # (weights,): gradient in the log weights: probabilities, added up over cells that share them
    cell_mean: NDArray  # (d,): gradient in the slopes
    cell_variance: NDArray  # (d,)
    mean: NDArray  # (m,), of sums
    variance: NDArray


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
        Laws that are no log weights.

    Notes
    -----
    The joins of sums are planned here, so that the same sums can be evaluated again and again. Cost: a microsecond for
    a cell.

    Examples
    --------
    Two dice and a third one; the first two have a sum of 6 to 8, all three of 10.

    >>> import numpy as np
    >>> from ppdinf.fiber.nested_sums import NestedSums
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
        weights = np.ascontiguousarray(log_weight, dtype=np.float64)
        slopes = np.ascontiguousarray(np.zeros(self.cells) if slope is None else slope, dtype=np.float64)
        for name, array, size in (("log weights", weights, self.weights), ("slopes", slopes, self.cells)):
            if array.ndim != 1 or array.size < size:
                raise ModelError(f"{name} have shape {array.shape}; ({size},) is needed")
            if not (array < np.inf).all():
                raise ModelError(f"{name} hold nan or +inf at {np.flatnonzero(~(array < np.inf))[0]}")
        return Evaluated(self, CellWeights(weights, slopes, *(a.copy() for a in self._tilts)))


class Evaluated:
    """Weights of all sums, from which totals, posteriors and draws follow.

    Attributes
    ----------
    value : ndarray, shape (roots + 1,)
        Log total weight of every tree, roots by their number, then of all free cells; -inf where there is none.
    bound : ndarray, shape (roots + 1,)
        Proved bound on the relative error of each total weight by what was trimmed: that weight is at least
        ``exp(value)``, at most ``exp(value) (1 + bound)``, up to rounding. It also bounds the total
        variation between posterior, or draws, and the exact law.
    """

    def __init__(self, sums: NestedSums, weights: CellWeights) -> None:
        tree = self._tree = sums._tree
        self._factors, self._weights, self._sums = sums._factors, weights, sums
        joins = len(tree.joins)
        place, amount = np.zeros((joins, 3), np.int64), np.zeros((joins, 3))
        self._rows = Rows(place, amount, np.zeros(joins, np.bool_), np.empty(tree.room))
        self._used = 0
        self._share = np.full(tree.root.size, sums._share)
        self._fill(0, joins, sums._share, largest=sums.tolerance)
        last, error = tree.root, self._errors(tree.root)
        for n in np.flatnonzero(~(error <= sums.tolerance)).tolist():
            error[n] = self._again(n)
        with np.errstate(divide="ignore"):
            value = amount[last, SCALE] + np.where(place[last, SIZE] > 0, np.log(amount[last, MASS]), -np.inf)
        roots = sums.roots.size
        self.value = np.append(value[:roots], value[roots:].sum())
        self.bound = np.append(error[:roots], np.expm1(np.log1p(error[roots:]).sum()))

    @property
    def settled(self) -> NestedSums:
        """The same sums, to be evaluated with the tilts that were needed here: faster near such weights."""
        sums = copy(self._sums)
        sums._tilts = self._weights.tilt, self._weights.cell_center, self._weights.center
        return sums

    def _fill(self, at: int, stop: int, share: float, logs: bool = False, largest: float = 1.0) -> bool:
        """Fill the rows of some joins; False where that takes too many products."""
        products = 0.0
        while at < stop:
            at, self._used, products = upward(
                self._tree,
                self._weights,
                self._factors,
                share,
                logs,
                largest,
                at,
                stop,
                self._rows,
                self._used,
                products,
            )
            if products > DEAREST:
                return False
            if at < stop:
                size = self._rows.entries.size
                self._rows.entries.resize(int(1.3 * size) + self._longest(at), refcheck=False)
        return True

    def _longest(self, join: int) -> int:
        """Return how many entries a join can have at most."""
        tree, place = self._tree, self._rows.place
        return sum(
            int(place[part, SIZE] if part >= 0 else 1 if part == NONE else tree.cells[~part, WIDTH])
            for part in tree.joins[join, :NODE]
        )

    def _errors(self, last: NDArray) -> NDArray:
        """Bounds on the relative errors of the weights of trees, given their last joins."""
        lost, mass = self._rows.amount[last, LOST], self._rows.amount[last, MASS]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(lost == 0.0, 0.0, lost / mass)

    def _again(self, n: int) -> float:
        """Do tree n over with tilts, then with ever longer rows, at last in logarithms; the error that is left."""
        tree, tolerance, share = self._tree, self._sums.tolerance, self._share[n]
        at, stop, error = tree.root[n - 1] + 1 if n else 0, tree.root[n] + 1, np.inf
        set_tilts(tree, self._weights, self._factors, at, stop)
        used = self._used
        for _ in range(3):
            self._share[n], self._used = share, used
            self._fill(at, stop, share)
            error = self._errors(tree.root[n : n + 1])[0]
            if error <= tolerance:
                return error
            share = max(share * max(1e-2 * tolerance / error, 1e-100), LEAST_SHARE)
        self._used = used
        if not self._fill(at, stop, share, logs=True):
            raise ModelError(
                f"what is known of the sums under {self._named(n)} is too far from what their cells say, and there are "
                "too many of them to do without approximation; check values and scales of the noise"
            )
        return 0.0

    def _named(self, n: int) -> str:
        return f"sum {self._sums.roots[n]}" if n < self._sums.roots.size else "a cell outside every sum"

    def posteriors(self) -> Posteriors:
        """Posterior of every cell and sum given all that is known; 0 in trees without any table.

        Its cost is twice that of `NestedSums.evaluate`.
        """
        gradient = np.zeros(self._weights.log_weight.size)
        cells, sums = np.zeros((self._sums.cells, 2)), np.zeros((self._sums.sums, 2))
        downward(self._tree, self._weights, self._factors, self._share, self._rows, gradient, cells, sums)
        return Posteriors(gradient, cells[:, 0], cells[:, 1], sums[:, 0], sums[:, 1])

    def draw(self, draws: int = 1, rng: int | np.random.Generator | None = None) -> NDArray[np.int64]:
        """Exact independent draws of all cells given all that is known.

        Parameters
        ----------
        draws : int
        rng : int or numpy.random.Generator, optional
            Research randomness (SPEC 7), not for releases.

        Returns
        -------
        ndarray of int64, shape (draws, d)

        Raises
        ------
        OutOfReachError
            No table has what is known of the sums.
        """
        self._refuse_if_out_of_reach()
        out = np.empty((draws, self._sums.cells), np.int64)
        split_draws(self._tree, self._weights, self._share, self._rows, np.random.default_rng(rng), out)
        return out

    def _refuse_if_out_of_reach(self) -> None:
        """Name the first sum whose row is empty where those of its parts are not."""
        tree, empty = self._tree, self._rows.place[:, SIZE] == 0
        if not empty[tree.root].any():
            return
        join = int(empty.argmax())
        for i in [~part for part in tree.joins[join, :NODE] if NONE < part < 0]:
            above, low, width, start = tree.cells[i]
            possible = self._weights.log_weight[start : start + width] > -np.inf
            if self._weights.slope[i] == -np.inf:
                possible = possible[low + np.arange(width) == 0]
            if not possible.any():
                raise OutOfReachError(
                    int(above),
                    f"no value that the sums leave cell {i} has a positive weight; check its weights",
                )
        above = tree.joins[join:, NODE]
        node = int(above[above >= 0][0])
        raise OutOfReachError(
            node,
            f"no table has what is known of sum {node} and of what is below it: widen the windows of its cells, or "
            "check exact values and bounds",
        )


def _integers(values: ArrayLike, name: str, size: int | None = None) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvariantError(f"{name} must hold integers, not {array.dtype}; convert it without rounding")
    if array.ndim != 1 or size not in (None, array.size):
        raise InvariantError(f"{name} has shape {array.shape}; ({'any' if size is None else size},) is needed")
    return np.ascontiguousarray(array, dtype=np.int64)
