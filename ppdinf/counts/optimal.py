r"""The mechanism of smallest error with a given fixed point, by linear programming.

Minimise ``sum_ij w_ij t_ij`` over matrices with

    E t_(i+1)j - t_ij >= 0,   E t_ij - t_(i+1)j >= 0      (E = exp(epsilon): neighbouring rows)
    sum_j t_ij = 1,           sum_i z_i t_ij = z_j        (multipliers lambda_i and mu_j).

The matrix ``1 z`` is an interior point. A primal-dual interior-point method (Mehrotra's predictor and corrector) starts
there, and every ratio stays strictly within its bound. Columns are coupled only by the n row sums, for which each step
solves one dense system of order n (`ppdinf.counts.column_systems`). A step costs O(n^3), and 20 to 50 steps are
necessary. General solvers factor a matrix of order n^2.

S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on Optimization 2, 1992.
N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Section 5.1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError

from ppdinf._internal.arrays import numbers
from ppdinf._internal.rationals import Parameter
from ppdinf.counts.column_systems import ColumnSystems, adjoint, slacks
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution
from ppdinf.counts.scales import as_epsilon
from ppdinf.errors import PrivacyError, RoundingError

GAP = 1e-8  # relative gap between the error and its lower bound at which the search ends
ENOUGH = 1e-6  # largest accepted gap if rounding ends the search
WORST_ROW = 1e-9  # largest accepted error of a row sum
STEPS = 150
START = 1.0  # smallest reduced cost at the start, in units of the error of the matrix 1 z
ROUNDING = 2.0**-50  # relative distance of ratios from their bounds

type Columns = NDArray[np.float64]  # shape (m, n): one row for each column of the mechanism


def optimal(z: ArrayLike, epsilon: Parameter, *, weights: ArrayLike | None = None) -> CountMechanism:
    """Construct the mechanism of smallest error that preserves a distribution of counts.

    Parameters
    ----------
    z : array_like of float, shape (n,)
        Distribution of counts that is preserved. Counts with probability 0 are never released.
    epsilon : int, float, str or Fraction
        Privacy loss between a count and the next one.
    weights : array_like of float, shape (n, n), optional
        Cost of releasing j when the count is i; by default ``z_i |i - j|``, the expected absolute deviation.

    Returns
    -------
    CountMechanism
        A mechanism with every ratio within its bound and a relative excess error of at most 1e-6 (usually 1e-8).

    Raises
    ------
    PrivacyError
        z is not a distribution, or `weights` is not a finite matrix of its size.
    RoundingError
        Rounding ended the search before this accuracy.

    See Also
    --------
    ppdinf.counts.heuristic, ppdinf.counts.CountMechanism

    Notes
    -----
    A step costs O(n^3): 300 counts take seconds, 1,000 counts about a minute. `ppdinf.counts.heuristic` is faster.

    Examples
    --------
    >>> from ppdinf.counts import optimal
    >>> best = optimal([0.1, 0.2, 0.4, 0.2, 0.1], epsilon=1)
    >>> round(best.count_error(), 4), best.audit().epsilon <= 1
    (0.641, True)
    """
    z = as_distribution(z)
    exact = as_epsilon(epsilon)
    n = z.size
    if weights is None:
        cost = z[:, np.newaxis] * np.abs(np.arange(n)[:, np.newaxis] - np.arange(n))
    else:
        cost = numbers(weights, "weights")
        if cost.shape != (n, n):
            raise PrivacyError(f"weights must be a matrix of shape {(n, n)}, found {cost.shape}")
    filled = np.flatnonzero(z)
    with np.errstate(divide="ignore"):
        log_matrix = np.full((n, n), -np.inf)
        log_matrix[:, filled] = np.log(
            _search(np.ascontiguousarray(cost[:, filled].T), z, z[filled], math.exp(exact))
        ).T
    return CountMechanism.of_logarithms(log_matrix, exact, name="optimal", z=z)


@np.errstate(all="ignore")  # values that rounding makes infinite end the search
def _search(cost: Columns, z: NDArray[np.float64], share: NDArray[np.float64], E: float) -> Columns:
    m, n = cost.shape
    t = np.tile(share[:, np.newaxis], (1, n))
    cost = cost - cost.min()
    cost = cost / (float((cost * t).sum()) or 1.0)
    a, b = slacks(t, E)
    lam, mu = np.full(n, -START), np.zeros(m)
    u, v = _shared(cost - lam, E)  # multipliers of the slacks a and b
    kept, reached = t, np.inf
    for _ in range(STEPS):
        dual = cost - lam - np.outer(mu, z) - adjoint(u, v, E)
        rows, fixed = 1 - t.sum(axis=0), share - t @ z
        complement = float((u * a).sum() + (v * b).sum())
        bounded = complement + float((dual * t).sum() + np.abs(dual).max(axis=0).sum())
        gap = bounded / max(float((cost * t).sum()), 1e-3)
        if np.abs(rows).max() < WORST_ROW and gap < reached:
            kept, reached = t, gap
        if (
            not np.isfinite(gap)
            or gap <= GAP
            or (reached <= ENOUGH and gap > 2 * reached)
            or np.abs(rows).max() > 1e3 * WORST_ROW
        ):
            break
        try:
            systems = ColumnSystems(u / a, v / b, z, E)
        except LinAlgError:
            break
        off_a, off_b = (slack - own for slack, own in zip(slacks(t, E), (a, b), strict=True))  # rounding
        # Predictor, then corrector.
        ru, rv = -u - u * off_a / a, -v - v * off_b / b
        dt, _, _ = systems.solve(adjoint(ru, rv, E) - dual, rows, fixed)
        da, db = slacks(dt, E)
        du, dv = ru - u * da / a, rv - v * db / b
        da, db = da + off_a, db + off_b
        primal, back = _longest(a, da, b, db), _longest(u, du, v, dv)
        ahead = float(((a + primal * da) * (u + back * du)).sum() + ((b + primal * db) * (v + back * dv)).sum())
        target = complement / (2 * a.size) * (ahead / complement) ** 3
        ru, rv = ru + (target - da * du) / a, rv + (target - db * dv) / b
        dt, dlam, dmu = systems.solve(adjoint(ru, rv, E) - dual, rows, fixed)
        da, db = slacks(dt, E)
        du, dv = ru - u * da / a, rv - v * db / b
        da, db = da + off_a, db + off_b
        primal, back = (min(1.0, 0.995 * step) for step in (_longest(a, da, b, db), _longest(u, du, v, dv)))
        t, a, b = t + primal * dt, a + primal * da, b + primal * db
        u, v = u + back * du, v + back * dv
        lam, mu = lam + back * dlam, mu + back * dmu
    if reached > ENOUGH:
        raise RoundingError(f"rounding ended the search for the optimal mechanism {reached:.1e} above the optimum")
    return _repaired(kept, share, E)


def _shared(cost: Columns, E: float) -> tuple[Columns, Columns]:
    """Return multipliers u, v > 0 with ``adjoint(u, v) == cost``: each step gets half of the costs of its two rows."""
    below, above = cost[:, :-1] / 2, cost[:, 1:] / 2
    below[:, 0], above[:, -1] = cost[:, 0], cost[:, -1]
    return (below + E * above) / (E * E - 1), (E * below + above) / (E * E - 1)


def _repaired(t: Columns, share: NDArray[np.float64], E: float) -> Columns:
    """Mix with the matrix ``1 z`` until every ratio is within its bound; all sums are preserved."""
    centre = np.tile(share[:, np.newaxis], (1, t.shape[1]))
    slack, room = np.stack(slacks(t, E)), np.stack(slacks(centre, E))
    beyond = np.maximum(0, ROUNDING * (t[:, 1:] + t[:, :-1]) - slack)
    mixed = float((beyond / (beyond + room)).max())
    if mixed > ENOUGH:
        raise RoundingError(f"the optimal mechanism violates its privacy bounds by {mixed:.1e}")
    return (1 - mixed) * t + mixed * centre


def _longest(a: Columns, da: Columns, b: Columns, db: Columns) -> float:
    """Return the largest step up to 1 that keeps all numbers non-negative."""
    return float(1 / max(1.0, (-da / a).max(), (-db / b).max()))
