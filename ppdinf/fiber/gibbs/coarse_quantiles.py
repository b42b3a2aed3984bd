"""Counts of one cell with a wide window that follow the parameters of their prior; no sum over all counts.

The weights ``w(x) = exp(noise(x) + log_h(x) + slope x)`` are replaced by weights g(x) that are equal at a few dozen
counts, the knots, and geometric between two knots. Sums and quantiles of g have closed forms. A uniform number within
the step of x in the distribution function of g gives x' as its quantile under new parameters, and the ratio

    w'(x') / (g'(x') / G')  over  w(x) / (g(x) / G),    with G the sum of g,

corrects the approximation exactly (Metropolis and Hastings; `ppdinf.fiber.gibbs.joint_move`). With g = w that is the
ratio of the sums of the weights.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.cell_quantiles import log_prior

__all__ = ["coarse_step", "knots_of"]

NEAR, UNIFORM = 24, 32
"""Knots at geometric distances from the ends and from the largest weight of a window; at equal distances."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


def knots_of(log_noise: Reals) -> Ints:
    """Choose knots of windows, columns of `log_noise` from the first to the last finite one, shape (d, m).

    Rows end with copies of their last knot. Finite entries of a row have no gaps.

    Examples
    --------
    >>> knots_of(np.array([[-np.inf, 0.0, -1.0, -2.0, -np.inf]]))
    array([[1, 2, 3]])
    """
    rows = []
    for row in log_noise:
        possible = np.flatnonzero(np.isfinite(row))
        first, last, peak = int(possible[0]), int(possible[-1]), int(row.argmax())
        near = np.rint(np.geomspace(1, max(last - first, 1), NEAR))
        uniform, ends = np.linspace(first, last, UNIFORM), np.array([first, peak, last])
        knots = np.rint(np.concatenate([uniform, ends, first + near, peak - near, peak + near]))
        rows.append(np.unique(np.clip(knots, first, last).astype(np.int64)))
    most = max(map(len, rows))
    return np.array([np.pad(own, (0, most - own.size), mode="edge") for own in rows])


@jit
def _log_geometric(s: float, n: int) -> float:
    """Return the log of the sum of ``exp(s t)`` over t from 0 to n - 1."""
    if n <= 0:
        return -np.inf
    if s == 0.0:
        return math.log(n)
    return max(s, 0.0) * (n - 1) + math.log(math.expm1(-n * abs(s)) / math.expm1(-abs(s)))


@jit
def _evaluate(
    log_row: Reals, lower: int, knots: Ints, log_h: Reals, slope: float, at: Reals, rise: Reals, mass: Reals
) -> float:
    """Write log weights at the knots, their rise per count, and log sums up to the next knot; return the log sum."""
    for j in range(knots.size):
        if j > 0 and knots[j] == knots[j - 1]:
            at[j] = at[j - 1]
        else:
            count = lower + knots[j]
            at[j] = log_row[knots[j]] + log_prior(count, log_h) + slope * count
    top = -np.inf
    for j in range(knots.size):
        n = knots[j + 1] - knots[j] if j + 1 < knots.size else 1
        rise[j] = (at[j + 1] - at[j]) / n if j + 1 < knots.size and n > 0 else 0.0
        mass[j] = at[j] + _log_geometric(rise[j], n)
        top = max(top, mass[j])
    return top + math.log(np.exp(mass - top).sum())


@jit
def _quantile(knots: Ints, rise: Reals, mass: Reals, log_all: float, u: float) -> int:
    """Return the smallest column at which the distribution function exceeds u."""
    for j in range(knots.size):
        share = math.exp(mass[j] - log_all)
        if u < share:
            n = knots[j + 1] - knots[j] if j + 1 < knots.size else 1
            v, s = u / share, rise[j]
            if s == 0.0:
                t = int(v * n)
            elif s < 0.0:
                t = int(math.log1p(v * math.expm1(n * s)) / s)
            else:
                t = n - 1 - int(math.log1p((1.0 - v) * math.expm1(-n * s)) / -s)
            return int(knots[j] + min(max(t, 0), n - 1))
        u -= share
    return int(knots[-1])


@jit
def coarse_step(
    log_row: Reals,
    lower: int,
    knots: Ints,
    x: int,
    before: tuple[Reals, float],
    after: tuple[Reals, float],
    uniform: float,
    anew: bool,
) -> tuple[int, float]:
    """Return the count x' for the new parameters and the log of the ratio above.

    Parameters
    ----------
    log_row : array, shape (width,)
        Noise log weights, from the count `lower` on.
    lower : int
    knots : array of int64, shape (m,)
        Columns, from `knots_of`.
    x : int
    before, after : tuple of array and float
        ``log_h`` (`ppdinf.fiber.gibbs.cell_quantiles.log_prior`) and slope of the old and the new parameters.
    uniform : float
        Uniform random number.
    anew : bool
        Whether x' does not depend on x.
    """
    at, rise, mass = np.empty(knots.size), np.empty(knots.size), np.empty(knots.size)
    log_all, column = _evaluate(log_row, lower, knots, before[0], before[1], at, rise, mass), x - lower
    j, below = 0, 0.0
    while j + 1 < knots.size and knots[j + 1] <= column:
        below += math.exp(mass[j] - log_all)
        j += 1
    along = at[j] + rise[j] * (column - knots[j])
    log_ratio = along - log_all - (log_row[column] + log_prior(x, before[0]) + before[1] * x)
    if not anew:
        below += math.exp(at[j] + _log_geometric(rise[j], column - knots[j]) - log_all)
        uniform = below + uniform * math.exp(along - log_all)
    log_all = _evaluate(log_row, lower, knots, after[0], after[1], at, rise, mass)
    column = _quantile(knots, rise, mass, log_all, uniform)
    j = 0
    while j + 1 < knots.size and knots[j + 1] <= column:
        j += 1
    count = lower + column
    log_ratio -= at[j] + rise[j] * (column - knots[j]) - log_all
    return count, log_ratio + log_row[column] + log_prior(count, after[0]) + after[1] * count
