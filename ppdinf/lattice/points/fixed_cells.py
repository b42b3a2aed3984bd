"""Cells that are determined by public sums and bounds together.

Sums alone fix the cells that no vector of the lattice moves. Bounds can fix further cells: all cells of a total of
zero, or a cell whose two crossing margins leave one value. Interval propagation over single rows finds some of them. It
misses cells that only several rows together fix. If few cells are undecided, each is decided by integer programmes.
Given a feasible table x, they search for z with ``A z = 0``, ``B (x + z) >= b`` and ``z_i >= 1`` or ``z_i <= -1``.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.systems import IntVector, exact_product
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.lattice.points.fiber_tables import cell_intervals
from ppdinf.lattice.structure.blocks import Structure, structure

SMALL = 100
"""Largest number of undecided cells for which the result is exact."""

SECONDS = 1.0  # time limit in seconds per integer programme; a cell that is then undecided is not marked as fixed

INFEASIBLE = 2  # status of SciPy's programmes

type Mask = NDArray[np.bool_]


def fixed_cells(
    found: Structure, A: sparse.csr_array, values: IntVector, B: sparse.csr_array, limits: IntVector
) -> Mask:
    """Return which cells have one value in all integer x with ``A x = values, B x >= limits``."""
    if not B.nnz:
        return found.fixed.copy()
    low, high = cell_intervals(A, values, B, limits)
    if np.any(low > high):
        return found.fixed.copy()
    fixed: NDArray[np.bool_] = found.fixed | (low == high)
    if fixed.any() and not fixed.all():  # these cells may determine further cells
        fixed = structure(sparse.vstack([A, sparse.eye_array(fixed.size, dtype=np.int64, format="csr")[fixed]])).fixed
    if 0 < np.sum(~fixed) <= SMALL:
        fixed = _decided(found, A, values, B, limits, fixed)
    return fixed


def _decided(
    found: Structure, A: sparse.csr_array, values: IntVector, B: sparse.csr_array, limits: IntVector, fixed: Mask
) -> Mask:
    """Decide every remaining cell by a search for tables that differ from a given table in this cell."""
    try:
        x = nearest_feasible(A, values, B, limits, structure=found)
    except InvariantError:
        return fixed
    left = (exact_product(B, x) - limits).astype(np.int64)  # slack of every bound
    free = np.zeros(fixed.size, dtype=bool)
    for step in sparse.csc_array(found.lattice.basis).T.toarray():
        for z in (step, -step):
            if np.all(B @ z >= -left):
                free |= z != 0
    fixed = fixed.copy()
    for cell in np.flatnonzero(~fixed & ~free):
        certain = True
        for sign in (1, -1):
            if free[cell]:
                break
            found_step, proved = _step_through(A, B, left, int(cell), sign)
            certain &= proved
            if found_step is not None:
                free |= found_step != 0
        fixed[cell] = certain and not free[cell]
    return fixed


def _step_through(
    A: sparse.csr_array, B: sparse.csr_array, left: IntVector, cell: int, sign: int
) -> tuple[IntVector | None, bool]:
    """Return z with ``A z = 0``, ``B z >= -left`` and one unit or more up or down in a cell, or that none exists."""
    d = A.shape[1]
    lowest = np.zeros(2 * d)
    lowest[cell if sign > 0 else d + cell] = 1
    highest = np.full(2 * d, np.inf)
    highest[d + cell if sign > 0 else cell] = 0  # otherwise the unit could be cancelled
    found = milp(
        np.ones(2 * d),
        integrality=np.ones(2 * d),
        bounds=Bounds(lowest, highest),
        constraints=[
            LinearConstraint(sparse.hstack([A, -A]), 0, 0),
            LinearConstraint(sparse.hstack([B, -B]), -left.astype(float), np.inf),
        ],
        options={"mip_rel_gap": 1e9, "time_limit": SECONDS},
    )
    if found.x is None:
        return None, found.status == INFEASIBLE
    parts = np.rint(found.x).astype(np.int64)
    z = parts[:d] - parts[d:]
    agrees = not np.any(exact_product(A, z)) and np.all(exact_product(B, z) >= -left)
    return (z, True) if agrees and z[cell] * sign >= 1 else (None, False)
