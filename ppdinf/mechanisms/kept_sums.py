"""Checks that drawn tables satisfy the public sums and bounds of their mechanism before they are returned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Array
from ppdinf.errors import InternalError
from ppdinf.invariants import System
from ppdinf.lattice.algebra.systems import exact_product

ROUNDING = 1e-9
"""Relative error of a sum of real numbers above which the sum counts as violated."""
BATCH = 2**20
"""Cells that are checked in one batch."""


def require_kept(system: System, drawn: Array, cells: NDArray[np.int64], *, bounds: bool) -> None:
    """Check that drawn tables have the public sums of the tables that they were drawn for."""
    rows = max(1, BATCH // max(1, system.frame.size))
    for start in range(0, len(drawn), rows):
        y = drawn[start : start + rows]
        z = y - (cells if cells.ndim == 1 else cells[start : start + rows])
        broken = _moved(system, y, z).any(axis=1)
        names = [system.names[row] for row in np.flatnonzero(broken)[:1]]
        if bounds:
            below = (exact_product(system.B, y.T) < system.limits[:, np.newaxis]).any(axis=1)
            names += [system.bound_names[row] for row in np.flatnonzero(below)[:1]]
        if names:
            raise InternalError(
                f"internal error of ppdinf: the noise violates {names[0]!r}, which is public. The table is not the "
                "cause. Nothing was published. Report the version of ppdinf, the mechanism, and the shape of the table"
            )


def _moved(system: System, y: Array, z: Array) -> NDArray[np.bool_]:
    """Whether a public sum differs between a drawn table and its confidential table; shape (sums, draws)."""
    if z.dtype == np.int64:
        return np.asarray(exact_product(system.A, z.T) != 0)
    return np.asarray(np.abs(system.A @ z.T) > ROUNDING * (1 + abs(system.A) @ np.abs(y.T)))
