"""One evaluation of nested sums: total weights with error bounds, posteriors, draws.

A tree whose error bound is too large is evaluated again: with tilts, then with longer rows, finally in logarithms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import ModelError
from ppdinf.fiber.nested_sums.downward_pass import downward
from ppdinf.fiber.nested_sums.join_tree import NODE, NONE, WIDTH, OutOfReachError
from ppdinf.fiber.nested_sums.joint_draws import split_draws
from ppdinf.fiber.nested_sums.tilts import Tilts, set_tilts
from ppdinf.fiber.nested_sums.upward_pass import DEAREST, upward
from ppdinf.fiber.nested_sums.weight_rows import LOST, MASS, SCALE, SIZE, CellWeights, Rows

if TYPE_CHECKING:
    from ppdinf.fiber.nested_sums.nested_sums import NestedSums

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
            self._require_totals(totals, draws)
        out = np.empty((draws, self._sums.cells), np.int64)
        split_draws(self._tree, self._weights, self._share, self._rows, totals, np.random.default_rng(rng), out)
        return out

    def _require_totals(self, totals: NDArray[np.int64], draws: int) -> None:
        """Refuse totals that are not one possible value of the only root per draw."""
        if self._tree.root.size > 1 or totals.shape != (draws,):
            raise ModelError(f"totals must have shape ({draws},), and all cells must be below one root")
        first, log_weight, _ = self.total
        place = totals - first
        inside = (place >= 0) & (place < log_weight.size)
        inside[inside] = log_weight[place[inside]] > -np.inf
        if not inside.all():
            raise ModelError(f"the total {totals[np.argmin(inside)]} has the weight 0")

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
