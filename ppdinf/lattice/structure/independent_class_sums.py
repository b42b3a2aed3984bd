"""Entangled class sums: proportional ones merged, under independent constraints.

On the lattice of class sums, rows of a basis that are multiples of each other move together: S_c = h_c w with one
integer variable w per group. It takes every integer value because its row is primitive.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.columns import equal_columns
from ppdinf.lattice.algebra.integer_rows import row_algebra
from ppdinf.lattice.algebra.systems import IntVector
from ppdinf.lattice.structure.elimination_order import EliminationOrder, elimination_order


@dataclass(frozen=True, eq=False)
class CoreSums:
    """Class sums with two or more dimensions, as variables under independent constraints."""

    variables: IntVector
    heights: IntVector
    system: sparse.csc_array
    order: EliminationOrder

    def __str__(self) -> str:
        constraints, n = self.system.shape
        return f"variables {n:,}, independent constraints {constraints:,}, elimination width {self.order.width}"


def core_sums(class_system: sparse.csc_array, class_basis: sparse.csc_array, in_core: NDArray[np.bool_]) -> CoreSums:
    """Merge proportional class sums of the core and order their constraints."""
    group, height = proportional_rows(sparse.csr_array(class_basis))
    members = np.flatnonzero(in_core & (height != 0))
    _, variable = np.unique(group[members], return_inverse=True)
    n = int(variable.max(initial=-1)) + 1
    merge = sparse.csc_array((height[members], (members, variable)), shape=(in_core.size, n))
    if members.size and int(abs(class_system).max()) * int(np.abs(height).max()) * members.size >= 2**63:
        raise InvariantError("The weights of this system are too large to merge its proportional sums.")
    system = sparse.csr_array(class_system @ merge)
    system.eliminate_zeros()
    system = sparse.csc_array(system[row_algebra(system).independent])
    variables, heights = np.full(in_core.size, -1), np.zeros(in_core.size, dtype=np.int64)
    variables[members], heights[members] = variable, height[members]
    return CoreSums(variables, heights, system, elimination_order(system))


def proportional_rows(K: sparse.csr_array) -> tuple[IntVector, IntVector]:
    """Group rows that are multiples of each other."""
    filled = np.flatnonzero(np.diff(K.indptr))
    heights = np.zeros(K.shape[0], dtype=np.int64)
    starts = K.indptr[filled]
    if filled.size:
        heights[filled] = np.gcd.reduceat(np.abs(K.data), starts) * np.sign(K.data[starts])
    primitive = K.data // np.repeat(heights, np.diff(K.indptr))
    groups, _ = equal_columns(sparse.csc_array((primitive, K.indices, K.indptr), shape=K.shape[::-1]))
    return groups, heights
