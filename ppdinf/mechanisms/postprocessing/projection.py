"""Projection and rounding onto public sums and bounds.

Least-squares projection is by sorting for disjoint groups, otherwise by an interior-point method. Rounding gives
integers that have the public sums, or sums that are rounded too.
"""

from __future__ import annotations

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse import linalg

from ppdinf._internal.values import Flags, Integers, Reals, numbers
from ppdinf.errors import CountError, InvariantError
from ppdinf.lattice.programme import Programme
from ppdinf.lattice.systems import MatrixLike, exact_product
from ppdinf.laws.preimage import rounding_order


def onto_simplices(y: ArrayLike, groups: ArrayLike, sums: ArrayLike) -> Reals:
    """Project onto {x >= 0 : the cells of each group have a given sum}."""
    y, groups, sums = np.asarray(y, dtype=np.float64), np.asarray(groups), np.asarray(sums, dtype=np.float64)
    sizes = np.bincount(groups[groups >= 0], minlength=sums.size)
    for group in np.flatnonzero((sums < 0) | ((sums > 0) & (sizes == 0)))[:1]:
        raise InvariantError(f"group {group} of {sizes[group]} non-negative cells cannot have its sum")
    order = np.lexsort((-y, groups))[np.count_nonzero(groups < 0) :]
    group = groups[order]
    start = np.cumsum(sizes) - sizes
    place = np.arange(order.size) - start[group]
    centred = y[order] - y[order][start[group]]
    below = np.concatenate([[0.0], np.cumsum(centred)])
    ratio = (below[1:] - below[start[group]] - sums[group]) / (place + 1)
    ratio += y[order][start[group]]
    positive = order[(y[order] > ratio) & (sums[group] > 0)]
    # Compute t again from the positive cells only: differences of long cumulative sums lose digits.
    kept = np.bincount(groups[positive], minlength=sums.size)
    t = (np.bincount(groups[positive], y[positive], sums.size) - sums) / np.maximum(kept, 1)
    projected = np.where(groups < 0, np.maximum(y, 0.0), 0.0)
    projected[positive] = y[positive] - t[groups[positive]]
    return projected


RIDGE, ROUNDS = 1e-9, 20
TOLERANCES = (1e-10, 1e-8, 1e-6)  # of the interior-point method; looser where it stalls
CLEAN = 1e-9  # residual that is attributed to rounding, relative to the largest number


def onto_sums(y: ArrayLike, A: MatrixLike, a: ArrayLike, weights: ArrayLike | None = None) -> Reals:
    """Project orthogonally onto {x : A x = a}."""
    start, E, e, w = _prepare(y, A, a, weights)
    x, e = start.T, e.reshape(-1, *[1] * (start.ndim - 1))
    if E.shape[0]:
        spread = sp.csc_array(sp.diags_array(1 / w) @ E.T)
        normal = E @ spread
        ridge = RIDGE * max(1.0, normal.diagonal().max()) * sp.eye_array(E.shape[0])
        solve = linalg.splu(sp.csc_array(normal + ridge)).solve
        for _ in range(ROUNDS):
            x = x + spread @ solve(e - E @ x)
            if _worst(E @ x - e) <= 1e-14 * _size(x, e):
                break
    if _worst(E @ x - e) > CLEAN * _size(x, e):
        raise InvariantError("the public sums contradict each other: no table satisfies all of them")
    return x.T


def onto_bounds(
    y: ArrayLike, A: MatrixLike, a: ArrayLike, B: MatrixLike, b: ArrayLike, weights: ArrayLike | None = None
) -> Reals:
    """Return the nearest point of {x : A x = a, B x >= b}."""
    start, E, e, w = _prepare(y, A, a, weights)
    G = sp.csr_array(B, dtype=np.float64)
    g = np.asarray(b, dtype=np.float64)
    step, active = _interior_point(w, E, e - E @ start, G, g - G @ start)
    solution = start + step
    if not (w > 0).all():
        return solution
    for _ in range(ROUNDS):
        try:
            exact = onto_sums(start, sp.vstack([E, G[active]]), np.concatenate([e, g[active]]), w)
        except InvariantError:
            return solution
        exact[np.abs(exact) < CLEAN] = 0.0
        broken = G @ exact - g < -CLEAN * _size(exact, e)
        if not broken.any():
            break
        active |= broken
    gap = w @ (exact - start) ** 2 / (w @ step**2 + CLEAN) - 1
    return solution if broken.any() or gap > 1e-6 else exact


def _interior_point(w: Reals, A: sp.csr_array, a: Reals, B: sp.csr_array, b: Reals) -> tuple[Reals, Flags]:
    """Minimize ``sum_i w_i t_i^2 / 2`` subject to A t = a, B t >= b; also return the mask of active bounds."""
    size = _size(a, b)
    cones = [clarabel.ZeroConeT(a.size), clarabel.NonnegativeConeT(b.size)]
    rows = sp.csc_matrix(sp.vstack([A, -B]))
    target = np.concatenate([a, -b]) / size
    for tolerance in TOLERANCES:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        objective = sp.csc_matrix(sp.diags_array(w))
        answer = clarabel.DefaultSolver(objective, np.zeros(w.size), rows, target, cones, settings).solve()
        if answer.status == clarabel.SolverStatus.Solved:
            return size * np.array(answer.x), np.array(answer.z)[a.size :] > np.array(answer.s)[a.size :]
    raise InvariantError(f"no table satisfies all public sums and bounds (clarabel: {answer.status})")


def _prepare(
    y: ArrayLike, A: MatrixLike, a: ArrayLike, weights: ArrayLike | None
) -> tuple[Reals, sp.csr_array, Reals, Reals]:
    x = numbers(y, "the noisy table", CountError)
    w = np.ones(x.shape[-1]) if weights is None else numbers(weights, "weights", InvariantError)
    if w.shape != x.shape[-1:] or (w < 0).any():
        raise InvariantError(f"weights must be {x.shape[-1]} non-negative numbers")
    return x, sp.csr_array(A, dtype=np.float64), np.asarray(a, dtype=np.float64), w


def _worst(residual: Reals) -> float:
    return float(np.abs(residual).max(initial=0.0))


def _size(*vectors: Reals) -> float:
    return max(1.0, *(_worst(vector) for vector in vectors))


WHOLE = 1e-6  # distance within which a solver's number counts as an integer


def round_to_sums(
    real: ArrayLike, A: sp.sparray, a: ArrayLike, B: sp.sparray, b: ArrayLike, *, groups: sp.sparray | None = None
) -> Integers:
    """Round every number down or up by at most one so that sums and bounds hold exactly."""
    G = sp.csc_array(sp.eye_array(A.shape[1], dtype=np.int64)) if groups is None else sp.csc_array(groups)
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
        programme, eye = Programme(), sp.eye_array(floor.size)
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
    rows = sp.csc_array(A, dtype=np.int64)
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
