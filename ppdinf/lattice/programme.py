"""Linear and integer programmes: variables, rows and ends, solved by HiGHS (Huangfu and Hall 2018) through SciPy.

Integers are rounded. HiGHS computes in doubles with tolerances, so callers verify solutions in integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from ppdinf._internal.values import Reals

INFEASIBLE = 2  # status of SciPy's programmes


class Variables(NamedTuple):
    """A vector of variables; a signed one is the difference of two non-negative vectors."""

    first: int
    size: int
    signed: bool


class Solution(NamedTuple):
    """Values of each vector, or None, and a proved lower bound on the cost, which can be nan."""

    values: dict[Variables, Reals] | None
    bound: float
    infeasible: bool
    message: str


class Programme:
    """Minimise the cost of vectors between their ends, subject to rows ``low <= M @ x + ... <= high``."""

    def __init__(self) -> None:
        self._vectors: list[Variables] = []
        self._columns = [np.empty((4, 0))]  # cost, ends, whether the variable is an integer
        self._rows: list[tuple[ArrayLike, ArrayLike, tuple[tuple[sparse.sparray, Variables], ...]]] = []

    def variables(
        self, size: int, cost: ArrayLike = 0.0, low: ArrayLike = 0.0, high: ArrayLike = np.inf, *, integer: bool = True
    ) -> Variables:
        """Add a vector."""
        first = sum(part.shape[1] for part in self._columns)
        self._columns.append(np.stack([np.broadcast_to(row, size) for row in (cost, low, high, float(integer))]))
        self._vectors.append(Variables(first, size, signed=False))
        return self._vectors[-1]

    def signed(
        self, size: int, cost: ArrayLike, low: ArrayLike = -np.inf, high: ArrayLike = np.inf, *, integer: bool = True
    ) -> Variables:
        """Add a vector with costs of its absolute values."""
        up = self.variables(size, cost, np.maximum(low, 0), np.maximum(high, 0), integer=integer)
        self.variables(size, cost, np.maximum(np.negative(high), 0), np.maximum(np.negative(low), 0), integer=integer)
        self._vectors[-2:] = [up._replace(signed=True)]
        return self._vectors[-1]

    def rows(self, low: ArrayLike, high: ArrayLike, *parts: tuple[sparse.sparray, Variables]) -> None:
        """Add rows: the sum of products of matrices with vectors is between two ends."""
        if parts[0][0].shape[0]:
            self._rows.append((low, high, parts))

    def solve(self, *, largest_cost: float = np.inf, **options: float) -> Solution:
        """Return a solution of limited cost; options are those of `scipy.optimize.milp`."""
        cost, low, high, integral = np.concatenate(self._columns, axis=1)
        units = {
            x: sparse.eye_array(x.size, cost.size, k=x.first)
            - x.signed * sparse.eye_array(x.size, cost.size, k=x.first + x.size)
            for x in self._vectors
        }
        constraints = [
            LinearConstraint(
                sparse.csc_array(sum(M @ units[x] for M, x in parts)),
                np.asarray(least, dtype=np.float64),
                np.asarray(most, dtype=np.float64),
            )
            for least, most, parts in self._rows
        ]
        constraints += [LinearConstraint(cost[np.newaxis], -np.inf, largest_cost)] * (largest_cost < np.inf)
        result = milp(cost, integrality=integral, bounds=Bounds(low, high), constraints=constraints, options=options)
        values = None
        if result.x is not None:
            x = np.where(integral > 0, np.rint(result.x), result.x)
            values = {vector: unit @ x for vector, unit in units.items()}
        bound = np.nan if result.mip_dual_bound is None else float(result.mip_dual_bound)
        return Solution(values, bound, result.status == INFEASIBLE, result.message)
