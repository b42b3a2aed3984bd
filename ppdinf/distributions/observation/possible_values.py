"""Possible counts and sums: ranges that public statements and, except with a small probability, noisy sums permit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.fiber.identified_sums import Rows, bounds_of_sums
from ppdinf.invariants import System
from ppdinf.lattice.points.fiber_tables import cell_intervals

type Reals = NDArray[np.float64]
type Flags = NDArray[np.bool_]
type TailInequalities = Callable[[Reals, Reals], tuple[sp.csr_array, NDArray[np.int64]]]


def possible_counts(system: System, nonnegative: Flags, noisy: TailInequalities | None = None) -> tuple[Reals, Reals]:
    """Return the smallest and largest count of every cell, by public statements and the sign of the data model."""
    low, high = _propagated(system, nonnegative)
    if np.any(low > high):
        return np.full(nonnegative.size, -np.inf), np.full(nonnegative.size, np.inf)
    if noisy is not None and (rows := noisy(low, high))[1].size:
        narrow = _propagated(system, nonnegative, rows)
        if np.all(narrow[0] <= narrow[1]):
            return narrow
    return low, high


def is_contradictory(system: System, nonnegative: Flags, noisy: TailInequalities) -> bool:
    """Return whether `possible_counts` ignores inequalities of noisy sums, since no table can satisfy them."""
    low, high = _propagated(system, nonnegative, noisy(*possible_counts(system, nonnegative)))
    return bool(np.any(low > high))


def _propagated(
    system: System, nonnegative: Flags, *further: tuple[sp.csr_array, NDArray[np.int64]]
) -> tuple[Reals, Reals]:
    """Return ranges of counts by propagation of public and further inequalities; low > high if they contradict."""
    cells = np.flatnonzero(nonnegative)
    units = sp.csr_array(sp.eye_array(nonnegative.size, dtype=np.int64, format="csr")[cells])
    B = sp.vstack([system.B, units, *(matrix for matrix, _ in further)], format="csr")
    limits = np.concatenate([system.limits, np.zeros(cells.size, np.int64), *(b for _, b in further)])
    return cell_intervals(system.A, system.values, B, limits)


def possible_sums(system: System, low: Reals, high: Reals, sums: sp.csr_array) -> tuple[Reals, Reals]:
    """Return the smallest and largest value of sums, by public statements and bounds on the counts."""
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    B, limits = system.B[linked], system.limits[linked].astype(np.float64)
    from_above = B.data[B.indptr[:-1]] < 0  # stated as the sum with the opposite sign
    signs = sp.diags_array(np.where(from_above, -1, 1), dtype=np.int64)
    rows = Rows(
        sp.csr_array(sp.vstack([system.A, signs @ B], format="csr")),
        np.concatenate([system.values, np.where(from_above, -np.inf, limits)]),
        np.concatenate([system.values, np.where(from_above, -limits, np.inf)]),
    )
    try:
        return bounds_of_sums(rows, (low, high), sums)
    except InvariantError:
        return np.full(sums.shape[0], -np.inf), np.full(sums.shape[0], np.inf)
