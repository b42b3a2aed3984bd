"""Sums of windowed integers of which any two are nested or disjoint, and which are exact, bounded or noisy."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.nested_sums.downward_pass import downward, split_draws
from ppdinf.fiber.nested_sums.join_tree import NODE, NONE, WIDTH, LogTable, OutOfReachError, factors_of, tree_of
from ppdinf.fiber.nested_sums.upward_pass import DEAREST, Tilts, set_tilts, upward
from ppdinf.fiber.nested_sums.weight_rows import LOST, MASS, SCALE, SIZE, CellWeights, Rows

LEAST_SHARE = 1e-250


class Posteriors(NamedTuple):
    """Posteriors of every cell and sum: the gradient of the log total weight, and moments."""

    log_weight: NDArray  # (weights,): gradient in the log weights: probabilities, summed over cells that share weights
    cell_mean: NDArray  # (d,): gradient in the slopes
    cell_variance: NDArray  # (d,)
    mean: NDArray  # (m,): moments of sums
    variance: NDArray


class TotalWeights(NamedTuple):
    """Weights of the values of a root: the total weight of all tables below it for each value of its sum."""

    first: int
    log_weight: NDArray  # of first, first + 1, ...
    missing: float


class Evaluated:
    """Weights of all sums, which determine totals, posteriors and draws."""

    def __init__(self, sums: NestedSums, weights: CellWeights) -> None:
        tree = self._tree = sums._tree
        self._factors, self._weights, self._sums = sums._factors, weights, sums
        joins = len(tree.joins)
        place, amount = np.zeros((joins, 3), np.int64), np.zeros((joins, 3))
        self._rows = Rows(place, amount, np.zeros(joins, np.bool_), np.empty(tree.room))
        self._used = 0
        self._share = np.full(tree.root.size, sums._share)
        omits = weights.log_missing.size > 0  # the missing masses are known at these tilts only
        self._fill(0, joins, sums._share, largest=np.inf if omits else sums.tolerance)
        last, error = tree.root, self._errors(tree.root)
        if not omits:
            for n in np.flatnonzero(~(error <= sums.tolerance)).tolist():
                error[n] = self._again(n)
        with np.errstate(divide="ignore"):
            value = amount[last, SCALE] + np.where(place[last, SIZE] > 0, np.log(amount[last, MASS]), -np.inf)
        roots = sums.roots.size
        self.value = np.append(value[:roots], value[roots:].sum())
        self.bound = np.append(error[:roots], np.expm1(np.log1p(error[roots:]).sum()))

    @property
    def settled(self) -> NestedSums:
        """Return the same sums with the tilts of this evaluation, which makes evaluations at similar weights faster."""
        return self._sums.at_tilts(Tilts(self._weights.tilt, self._weights.cell_center, self._weights.center))

    @property
    def total(self) -> TotalWeights:
        """Return the weights of the values of the first root."""
        last = self._tree.root[0]
        (first, begin, size), scale = self._rows.place[last], self._rows.amount[last, SCALE]
        row = self._rows.entries[begin : begin + size]
        with np.errstate(divide="ignore"):
            log_weight = scale + (row if self._rows.logs[last] else np.log(row))
        return TotalWeights(int(first), log_weight, float(self.bound[0]))

    def _fill(self, at: int, stop: int, share: float, logs: bool = False, largest: float = 1.0) -> bool:
        """Fill the rows of joins; return False if this requires too many products."""
        products, given = 0.0, (self._tree, self._weights, self._factors, share, logs, largest)
        while at < stop:
            at, self._used, products = upward(*given, at, stop, self._rows, self._used, products)
            if products > DEAREST:
                return False
            if at < stop:
                size = self._rows.entries.size
                self._rows.entries.resize(int(1.3 * size) + self._longest(at), refcheck=False)
        return True

    def _longest(self, join: int) -> int:
        """Return the largest possible number of entries of a join."""
        tree, place = self._tree, self._rows.place
        return sum(
            int(place[part, SIZE] if part >= 0 else 1 if part == NONE else tree.cells[~part, WIDTH])
            for part in tree.joins[join, :NODE]
        )

    def _errors(self, last: NDArray) -> NDArray:
        """Return bounds on the relative errors of the weights of trees, given their last joins."""
        lost, mass = self._rows.amount[last, LOST], self._rows.amount[last, MASS]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(lost == 0.0, 0.0, lost / mass)

    def _again(self, n: int) -> float:
        """Evaluate tree n again with tilts, longer rows, finally in logarithms; return the remaining error."""
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
                f"the observed sums under {self._named(n)} are too improbable given their cells for an exact "
                "evaluation of this size; check the values and the scales of the noise"
            )
        return 0.0

    def _named(self, n: int) -> str:
        return f"sum {self._sums.roots[n]}" if n < self._sums.roots.size else "a cell outside every sum"

    def posteriors(self) -> Posteriors:
        """Return the posterior of every cell and sum; 0 in trees with total weight 0."""
        gradient = np.zeros(self._weights.log_weight.size)
        cells, sums = np.zeros((self._sums.cells, 2)), np.zeros((self._sums.sums, 2))
        downward(self._tree, self._weights, self._factors, self._share, self._rows, gradient, cells, sums)
        return Posteriors(gradient, cells[:, 0], cells[:, 1], sums[:, 0], sums[:, 1])

    def draw(
        self, draws: int = 1, rng: int | np.random.Generator | None = None, totals: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Draw all cells independently and exactly from their posterior."""
        self.require_table()
        if totals is None:
            totals = np.empty(0, np.int64)
        else:
            if self._tree.root.size > 1 or totals.shape != (draws,):
                raise ModelError(f"totals must have shape ({draws},), and all cells must be below one root")
            first, log_weight, _ = self.total
            place = totals - first
            inside = (place >= 0) & (place < log_weight.size)
            inside[inside] = log_weight[place[inside]] > -np.inf
            if not inside.all():
                raise ModelError(f"the total {totals[np.argmin(inside)]} has the weight 0")
        out = np.empty((draws, self._sums.cells), np.int64)
        split_draws(self._tree, self._weights, self._share, self._rows, totals, np.random.default_rng(rng), out)
        return out

    def require_table(self) -> None:
        """Raise an error for the first sum whose row is empty although the rows of its parts are not."""
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
                    f"cell {i} must have a value with positive weight within the range that the sums allow; check its "
                    "weights",
                    int(i),
                )
        above = tree.joins[join:, NODE]
        node = int(above[above >= 0][0])
        raise OutOfReachError(
            node,
            f"no table satisfies sum {node} and the sums below it: widen the windows of its cells, or check exact "
            "values and bounds",
        )


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
