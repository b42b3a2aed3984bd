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

__all__ = ["CoreSums", "core_sums", "proportional_rows"]


@dataclass(frozen=True, eq=False)
class CoreSums:
    """Class sums with two or more dimensions, as variables under independent constraints.

    Attributes
    ----------
    variables : ndarray of int64, shape (n_classes,)
        Variable of the sum of each class; -1 outside of the core.
    heights : ndarray of int64, shape (n_classes,)
        Factor h_c of S_c = h_c w; 0 outside of the core.
    system : scipy.sparse.csc_array of int64, shape (r, n_variables)
        Independent constraints on the variables.
    order : EliminationOrder
        Order of the rows of `system`.
    """

    variables: IntVector
    heights: IntVector
    system: sparse.csc_array
    order: EliminationOrder

    def __str__(self) -> str:
        constraints, n = self.system.shape
        return f"variables {n:,}, independent constraints {constraints:,}, elimination width {self.order.width}"


def core_sums(class_system: sparse.csc_array, class_basis: sparse.csc_array, in_core: NDArray[np.bool_]) -> CoreSums:
    """Merge proportional class sums of the core and order their constraints.

    Parameters
    ----------
    class_system : scipy.sparse.csc_array of int64, shape (k, n_classes)
    class_basis : scipy.sparse.csc_array of int64, shape (n_classes, r)
        Saturated kernel basis of `class_system`.
    in_core : ndarray of bool, shape (n_classes,)

    Returns
    -------
    CoreSums

    Raises
    ------
    InvariantError
        If the merged weights exceed int64.

    Notes
    -----
    Each variable takes every integer value, because its row of the kernel basis is primitive.

    Examples
    --------
    Margins of a table of two rows and three columns: the second row is minus the first, and the sum of a row is one
    constraint on three variables.

    >>> from ppdinf.lattice.algebra.kernel import kernel
    >>> from ppdinf.lattice.algebra.systems import integer_matrix
    >>> rows, columns = np.eye(2, dtype=int), np.eye(3, dtype=int)
    >>> A = integer_matrix(np.vstack([np.kron(rows, [1, 1, 1]), np.kron([1, 1], columns)]))
    >>> core = core_sums(A, kernel(A).class_basis, np.ones(6, dtype=bool))
    >>> print(core)
    variables 3, independent constraints 1, elimination width 0
    >>> core.variables, core.heights
    (array([0, 1, 2, 0, 1, 2]), array([ 1, -1, -1, -1,  1,  1]))
    """
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
    """Group rows that are multiples of each other.

    Parameters
    ----------
    K : scipy.sparse.csr_array of int64, shape (n, r)

    Returns
    -------
    groups : ndarray of int64, shape (n,)
    heights : ndarray of int64, shape (n,)
        Row i is ``heights[i]`` times the primitive row of its group, whose first entry is positive.

    Examples
    --------
    >>> proportional_rows(sparse.csr_array(np.array([[2, -4], [-1, 2], [0, 3]])))
    (array([0, 0, 1]), array([ 2, -1,  3]))
    """
    filled = np.flatnonzero(np.diff(K.indptr))
    heights = np.zeros(K.shape[0], dtype=np.int64)
    starts = K.indptr[filled]
    if filled.size:
        heights[filled] = np.gcd.reduceat(np.abs(K.data), starts) * np.sign(K.data[starts])
    primitive = K.data // np.repeat(heights, np.diff(K.indptr))
    groups, _ = equal_columns(sparse.csc_array((primitive, K.indices, K.indptr), shape=K.shape[::-1]))
    return groups, heights
