"""The set of non-negative tables that satisfy all public statements, with projection and rounding onto it.

Where public sums split the cells into groups and the only bounds are x >= 0, both steps have closed forms by sorting.
Otherwise clarabel projects and HiGHS rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf._internal.types import Array
from ppdinf.invariants import System
from ppdinf.lattice.algebra.solution import integer_solution
from ppdinf.lattice.structure.blocks import structure
from ppdinf.mechanisms.postprocessing.projection import onto_bounds
from ppdinf.mechanisms.postprocessing.rounding import largest_fractions, round_to_sums
from ppdinf.mechanisms.postprocessing.simplex import onto_simplices


@dataclass(frozen=True, eq=False)
class FeasibleTables:
    """The set {x >= 0 : A x = a, B x >= b}."""

    A: sparse.csr_array
    a: NDArray[np.int64]
    B: sparse.csr_array
    b: NDArray[np.int64]

    @classmethod
    def of(cls, system: System) -> FeasibleTables:
        """Return the set given by all public statements about a table and x >= 0."""
        B = sparse.csr_array(system.B)
        implied = (np.diff(B.indptr) == 1) & (np.asarray(B.min(axis=1).todense()).ravel() >= 0) & (system.limits <= 0)
        return cls(sparse.csr_array(system.A), system.values, B[~implied], system.limits[~implied])

    @property
    def bounds(self) -> tuple[sparse.csr_array, NDArray[np.int64]]:
        """Return all bounds, x >= 0 first."""
        d = self.A.shape[1]
        eye = sparse.eye_array(d, dtype=np.int64)
        return sparse.csr_array(sparse.vstack([eye, self.B])), np.concatenate([np.zeros(d, dtype=np.int64), self.b])

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the group of each cell (-1 for none) and the sum of each group, or None if the sums cross."""
        sum_structure = structure(self.A)
        summed = np.diff(sparse.csc_array(self.A).indptr) > 0
        if self.b.size or (summed & ~sum_structure.determined[sum_structure.classes]).any():
            return None
        solution = integer_solution(sum_structure.class_system, self.a)
        sums = np.array([solution.get(k, 0) for k in range(sum_structure.class_sizes.size)], dtype=np.int64)
        return np.where(summed, sum_structure.classes, -1), np.where(sum_structure.determined, sums, 0)

    def project(self, y: Array) -> NDArray[np.float64]:
        """Return the nearest real table in least squares."""
        if self.groups is None:
            return onto_bounds(y, self.A, self.a, *self.bounds)
        return onto_simplices(y, *self.groups)

    def round(self, real: NDArray[np.float64]) -> NDArray[np.int64]:
        """Round a real table of the set to integers, by at most one in each cell."""
        if self.groups is None:
            return round_to_sums(real, self.A, self.a, *self.bounds)
        return largest_fractions(real, *self.groups)
