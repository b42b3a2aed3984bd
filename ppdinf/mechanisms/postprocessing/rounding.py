"""Rounding of a real table to integers that have the public sums, or sums that are rounded too."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ppdinf._internal.values import Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.programme import Programme
from ppdinf.lattice.systems import MatrixLike, exact_product
from ppdinf.laws.preimage import rounding_order

WHOLE = 1e-6  # distance within which a solver's number counts as an integer


def round_to_sums(
    real: ArrayLike,
    A: sparse.sparray,
    a: ArrayLike,
    B: sparse.sparray,
    b: ArrayLike,
    *,
    groups: sparse.sparray | None = None,
) -> Integers:
    """Round every number down or up by at most one so that sums and bounds hold exactly."""
    G = sparse.csc_array(sparse.eye_array(A.shape[1], dtype=np.int64)) if groups is None else sparse.csc_array(groups)
    # Variables are differences from the floor, which keeps the numbers in HiGHS small.
    start = integer_floor(real) if groups is None else np.zeros(A.shape[1], dtype=np.int64)
    floor = integer_floor(real) - exact_product(G, start)
    fraction = np.asarray(real) - integer_floor(real)
    programme = Programme()
    step = programme.variables(start.size, G.T @ (1 - 2 * fraction), -np.inf)
    stated = [(a - exact_product(A, start), 0.0, A), (b - exact_product(B, start), np.inf, B)]
    for least, slack, M in stated:
        programme.rows(least, least + slack, (M, step))
    programme.rows(floor, floor + 1, (G, step))
    solution = programme.solve()
    if solution.values is None:
        # No 0/1 table exists: minimize the distances e of the sums, with e >= |G x - real|.
        programme, eye = Programme(), sparse.eye_array(floor.size)
        step = programme.variables(start.size, 0.0, -np.inf)
        distance = programme.variables(floor.size, 1.0, -np.inf, integer=False)
        for least, slack, M in stated:
            programme.rows(least, least + slack, (M, step))
        programme.rows(floor + fraction, np.inf, (G, step), (eye, distance))
        programme.rows(-np.inf, floor + fraction, (G, step), (-eye, distance))
        solution = programme.solve()
    if solution.values is None:
        raise InvariantError("no integer table near the real table satisfies all public sums and bounds")
    rounded: Integers = start + solution.values[step].astype(np.int64)
    if (exact_product(A, rounded) != a).any() or (exact_product(B, rounded) < b).any():
        raise InvariantError("a public sum is too large for HiGHS: its last digit is lost")
    return rounded


def largest_fractions(real: ArrayLike, groups: ArrayLike, sums: ArrayLike) -> Integers:
    """Round down, then up where fractions are largest, so that groups have their sums; ties in `rounding_order`."""
    real, groups, sums = np.asarray(real, dtype=np.float64), np.asarray(groups), np.asarray(sums, dtype=np.int64)
    rounded = np.where(groups < 0, np.rint(real), integer_floor(real)).astype(np.int64)
    # fractions that differ by rounding errors have the same rank
    smaller = np.sort(real - rounded)
    ranks = np.append(0, np.cumsum(np.diff(smaller) > WHOLE))[np.searchsorted(smaller, real - rounded)]
    order = np.lexsort((rounding_order(real.size), -ranks, groups))[np.count_nonzero(groups < 0) :]
    group = groups[order]
    sizes = np.bincount(group, minlength=sums.size)
    left = sums.copy()
    np.subtract.at(left, group, rounded[order])
    place = np.arange(order.size) - (np.cumsum(sizes) - sizes)[group]
    rounded[order] += place < left[group]
    if ((left < 0) | (left > sizes)).any():
        raise InvariantError("the real table does not have the sums that the rounded table must have")
    return rounded


def integer_floor(real: ArrayLike) -> Integers:
    """Round down, except for numbers just below an integer, such as 2.9999999, which is rounded to 3."""
    near = np.rint(real)
    return np.where(np.abs(real - near) < WHOLE, near, np.floor(real)).astype(np.int64)


def controlled_rounding(real: ArrayLike, A: MatrixLike) -> Integers:
    """Round a table and its sums together, each to a neighbouring integer."""
    r = np.asarray(real, dtype=np.float64)
    rows = sparse.csc_array(A, dtype=np.int64)
    floor = integer_floor(r)
    fraction = np.maximum(r - floor, 0.0)
    fraction[fraction < WHOLE] = 0.0
    left = rows @ fraction
    low = integer_floor(left)
    high = low + (left - low > WHOLE)
    programme = Programme()
    upward = programme.variables(r.size, 1 - 2 * fraction, 0.0, np.ceil(fraction))
    programme.rows(low, high, (rows, upward))
    solution = programme.solve()
    if solution.values is None:
        raise InvariantError(f"no rounding changes every cell and every sum by less than 1 ({solution.message})")
    up = solution.values[upward].astype(np.int64)
    sums = exact_product(rows, up)
    if (sums < low).any() or (sums > high).any():
        raise InvariantError("a sum is too large for HiGHS: its last digit is lost")
    return floor + up
