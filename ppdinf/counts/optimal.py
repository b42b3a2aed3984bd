"""The mechanism of smallest error with a given fixed point: in closed form, or by an interior-point method.

For the absolute error the mechanism is known (docs/counts.md): truncated geometric noise, then the monotone coupling of
the noisy count with a count of distribution z. Other costs require the linear program.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Reals, logarithms
from ppdinf.counts.clipped_noise import truncated_geometric
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution, costs
from ppdinf.counts.scales import as_epsilon
from ppdinf.errors import RoundingError

REFINEMENTS = 10
SMALL = 1e-15  # largest error of a sum

type Columns = Reals  # shape (m, n), one row for each column of the mechanism, or (m, n - 1) for steps


def slacks(t: Columns, E: float) -> tuple[Columns, Columns]:
    """Return the distances ``E t_(i+1) - t_i`` and ``E t_i - t_(i+1)`` of all steps from their bounds."""
    return E * t[:, 1:] - t[:, :-1], E * t[:, :-1] - t[:, 1:]


def adjoint(u: Columns, v: Columns, E: float) -> Columns:
    """Apply the transpose of `slacks`: sum the multipliers of the steps in each row."""
    multipliers = np.zeros((u.shape[0], u.shape[1] + 1))
    multipliers[:, :-1] = E * v - u
    multipliers[:, 1:] += E * u - v
    return multipliers


class ColumnSystems:
    """The systems of all columns, and the dense system that couples them."""

    def __init__(self, u: Columns, v: Columns, z: Reals, E: float) -> None:
        m, n = u.shape[0], z.size
        self.z = z
        self.middle = np.empty(m, dtype=np.int64)
        self.pivot, self.factor = np.empty((m, n)), np.empty((m, n))
        self.h, self.theta, dense = np.empty((m, n)), np.empty(m), np.zeros((n, n))
        _factored(u, v, z, E, self.middle, self.pivot, self.factor, self.h, self.theta)
        _add_inverses(self.middle, self.pivot, self.factor, dense)
        dense += np.triu(dense, 1).T
        self.p = _blocks(self.middle, self.pivot, self.factor, np.tile(z, (m, 1)))
        self.pi, self.zeta = self.p @ z, self.h @ z
        self.kappa = self.pi + self.theta * self.zeta**2
        cross = (self.h * (self.theta * self.zeta / self.kappa)[:, np.newaxis]).T @ self.p
        dense -= cross + cross.T
        dense += (self.h * (self.theta * self.pi / self.kappa)[:, np.newaxis]).T @ self.h
        dense -= (self.p / self.kappa[:, np.newaxis]).T @ self.p
        self.size = np.sqrt(np.maximum(np.diag(dense), np.diag(dense).max() * 1e-200))
        dense /= self.size[:, np.newaxis] * self.size
        if not np.isfinite(dense).all():
            raise LinAlgError("the multipliers differ too much for double precision")
        null = self.size * z  # adding a multiple of z to lambda and subtracting it in mu changes nothing
        null /= np.linalg.norm(null)
        dense += np.outer(null, null)
        bump = 1e-15
        while True:
            try:
                self.dense = cho_factor(dense + bump * np.eye(n), lower=True)
                return
            except LinAlgError:
                bump *= 100

    def solve(self, rhs: Columns, rows: Reals, fixed: Reals) -> tuple[Columns, Reals, Reals]:
        """Solve for the step of the matrix and of both multipliers, with iterative refinement of the sums."""
        dt, dlam, dmu = self._solved(rhs, rows, fixed)
        off = np.inf
        for _ in range(REFINEMENTS):
            left, left_fixed = rows - dt.sum(axis=0), fixed - dt @ self.z
            before, off = off, max(float(np.abs(left).max()), float(np.abs(left_fixed).max()))
            if off < SMALL or off > before / 2:
                break
            more = self._solved(np.zeros_like(rhs), left, left_fixed)
            dt, dlam, dmu = dt + more[0], dlam + more[1], dmu + more[2]
        return dt, dlam, dmu

    def _solved(self, rhs: Columns, rows: Reals, fixed: Reals) -> tuple[Columns, Reals, Reals]:
        missing = rows - self._columns(rhs, fixed)[0].sum(axis=0)
        dlam = cho_solve(self.dense, missing / self.size) / self.size
        return *self._columns(rhs + dlam, fixed)[:1], dlam, self._columns(rhs + dlam, fixed)[1]

    def _columns(self, rhs: Columns, fixed: Reals) -> tuple[Columns, Reals]:
        """Solve ``H dt = rhs + z dmu``, ``z' dt = fixed`` for every column."""
        shape = np.einsum("ji,ji->j", self.p, rhs)
        level = np.einsum("ji,ji->j", self.h, rhs)
        dmu = (fixed - shape - self.zeta * self.theta * level) / self.kappa
        height = (fixed - shape - self.pi * dmu) / self.zeta
        dt = _blocks(self.middle, self.pivot, self.factor, rhs + np.outer(dmu, self.z))
        return dt + height[:, np.newaxis] * self.h, dmu


@jit
def _factored(u, v, z, E, middle, pivot, factor, h, theta):  # type: ignore[no-untyped-def]
    """Eliminate every column from both ends; return the meeting rows, the pivots, h and theta."""
    m, n = u.shape[0], z.size
    square = (E * E - 1) ** 2
    down, up = np.empty(n), np.empty(n)  # pivots of each row from above and from below
    for j in range(m):
        down[0] = 0.0
        for i in range(n - 1):
            x, y, c = u[j, i], v[j, i], down[i]
            d = c + x + E * E * y
            down[i + 1] = (E * E * x + y) * (c / d) + x * (y / d) * square
        up[n - 1] = 0.0
        for i in range(n - 2, -1, -1):
            x, y, c = u[j, i], v[j, i], up[i + 1]
            d = c + E * E * x + y
            up[i] = (x + E * E * y) * (c / d) + x * (y / d) * square
        k, largest = 0, -1.0
        for i in range(n):
            term = z[i] * z[i] / (down[i] + up[i])
            if term > largest:
                k, largest = i, term
        middle[j] = k
        theta[j] = 1 / (down[k] + up[k])
        pivot[j, k], factor[j, k] = 1.0, 0.0
        for i in range(k):
            pivot[j, i] = down[i] + u[j, i] + E * E * v[j, i]
            factor[j, i] = E * (u[j, i] + v[j, i]) / pivot[j, i]
        for i in range(k + 1, n):
            pivot[j, i] = up[i] + E * E * u[j, i - 1] + v[j, i - 1]
            factor[j, i] = E * (u[j, i - 1] + v[j, i - 1]) / pivot[j, i]
        h[j, k] = 1.0
        for i in range(k - 1, -1, -1):
            h[j, i] = factor[j, i] * h[j, i + 1]
        for i in range(k + 1, n):
            h[j, i] = factor[j, i] * h[j, i - 1]


@jit
def _blocks(middle, pivot, factor, rhs):  # type: ignore[no-untyped-def]
    """Multiply every column by G, the inverse without the middle row."""
    x = rhs.copy()
    m, n = rhs.shape
    for j in range(m):
        k = middle[j]
        column, d, f = x[j], pivot[j], factor[j]
        for i in range(1, k):
            column[i] += f[i - 1] * column[i - 1]
        column[k] = 0.0
        for i in range(k - 1, -1, -1):
            column[i] = column[i] / d[i] + f[i] * column[i + 1]
        for i in range(n - 2, k, -1):
            column[i] += f[i + 1] * column[i + 1]
        for i in range(k + 1, n):
            column[i] = column[i] / d[i] + f[i] * column[i - 1]
    return x


@jit(fastmath=True)
def _add_inverses(middle, pivot, factor, dense):  # type: ignore[no-untyped-def]
    """Add the upper triangles of all G; each row is a multiple of the next row."""
    m, n = pivot.shape
    row = np.zeros(n)
    for j in range(m):
        k, d, f = middle[j], pivot[j], factor[j]
        for i in range(k - 1, -1, -1):
            if i < k - 1:
                for c in range(i + 1, k):
                    row[c] *= f[i]
                row[i] = 1 / d[i] + f[i] * row[i + 1]
            else:
                row[i] = 1 / d[i]
            for c in range(i, k):
                dense[i, c] += row[c]
        for i in range(k + 1, n):  # columns of the upper triangle are rows of the lower one
            if i > k + 1:
                for c in range(k + 1, i):
                    row[c] *= f[i]
                row[i] = 1 / d[i] + f[i] * row[i - 1]
            else:
                row[i] = 1 / d[i]
            for c in range(k + 1, i + 1):
                dense[c, i] += row[c]


GAP = 1e-8  # relative gap between the error and its lower bound at which the search ends
ENOUGH = 1e-6  # largest accepted gap if rounding ends the search
WORST_ROW = 1e-9  # largest accepted error of a row sum
STEPS = 150
START = 1.0  # smallest reduced cost at the start, in units of the error of the matrix 1 z
ROUNDING = 2.0**-50  # relative distance of ratios from their bounds


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
        Without `weights` exact, in O(n^2), and also of smallest expected value of every other convex function of
        ``j - i``. Otherwise every ratio is within its bound, with a relative excess error of at most 1e-6.

    Raises
    ------
    PrivacyError
        z is not a distribution, or `weights` is not a finite matrix of its size.
    RoundingError
        Rounding ended the search for other weights before this accuracy.

    See Also
    --------
    ppdinf.counts.heuristic, ppdinf.counts.CountMechanism

    Examples
    --------
    >>> from ppdinf.counts import optimal
    >>> best = optimal([0.1, 0.2, 0.4, 0.2, 0.1], epsilon=1)
    >>> round(best.count_error(), 4), best.audit().epsilon <= 1
    (0.641, True)
    """
    z = as_distribution(z)
    exact = as_epsilon(epsilon)
    if weights is None:
        return _coupled(z, exact)
    n, cost = z.size, costs(z, weights)
    filled = np.flatnonzero(z)
    found = _search(np.ascontiguousarray(cost[:, filled].T), z, z[filled], math.exp(exact))
    log_matrix = np.full((n, n), -np.inf)
    log_matrix[:, filled] = logarithms(found).T
    return CountMechanism.of_logarithms(log_matrix, exact, name="optimal", z=z)


def _coupled(z: Reals, epsilon: Fraction) -> CountMechanism:
    """Return truncated geometric noise, followed by its monotone coupling with the distribution z."""
    noise, filled = truncated_geometric(z.size, epsilon), np.flatnonzero(z)
    assert noise.scales is not None
    noisy = z @ noise.matrix
    ends = np.cumsum(noisy / noisy.sum()), np.cumsum(z[filled])
    for cumulative in ends:
        cumulative[-1] = 1
    # Between two cuts of [0, 1], one noisy count k becomes one released count j.
    cuts = np.union1d(*ends)
    cuts = cuts[cuts > 0]
    mass = np.diff(cuts, prepend=0)
    k, j = (np.searchsorted(cumulative, cuts - mass / 2) for cumulative in ends)
    total = np.bincount(k, mass, minlength=z.size)
    # Noisy counts whose probability is lost by rounding become the released count at their place.
    lost = np.flatnonzero(total == 0)
    share = np.append(mass / total[k], np.ones(lost.size))
    k, j = np.append(k, lost), np.append(j, np.searchsorted(ends[1], ends[0][lost]))
    peak, rising = noise.scales.peak[k] * share, noise.scales.rising[k]
    return CountMechanism.of_scales(filled[j], peak, rising, epsilon, name="optimal", z=z)


@np.errstate(all="ignore")  # values that rounding makes infinite end the search
def _search(cost: Columns, z: Reals, share: Reals, E: float) -> Columns:
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


def _repaired(t: Columns, share: Reals, E: float) -> Columns:
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
