r"""The linear systems of an interior-point step for `ppdinf.counts.optimal`, without cancellation.

Given multipliers, column j solves ``H dt = dlambda + z dmu + rhs``, ``z' dt = fixed``, with a tridiagonal

    H = sum_i  u_i (-1, E)(-1, E)' + v_i (E, -1)(E, -1)'      on rows (i, i + 1),  u, v > 0,

and ``sum_j dt_j = rows`` gives a dense system for dlambda. Near the optimum u and v differ by many orders of magnitude,
and H is nearly singular along the column itself. Two methods preserve the accuracy.

*Elimination.* Let c be the pivot of the recursion, p and r the diagonal of a block and q its off-diagonal entry. Then
``d_i = c_i + p_i`` and ``c_(i+1) = (r_i c_i + u_i v_i (E^2 - 1)^2) / d_i``, and all terms are positive. The elimination
from both ends meets at a row k. Let theta be the entry (k, k) of H^-1, G the inverse without row and column k (two
blocks), and h the solution of ``H h = e_k / theta``. All of them are non-negative, and

    H^-1 = G + theta h h'.

*Projection.* theta is large, but ``z' dt = fixed`` excludes exactly this direction. With ``p = G z``, ``pi = z' p``,
``zeta = h' z`` and ``kappa = pi + theta zeta^2``, the contribution of a column to the dense system is

    H^-1 - H^-1 z z' H^-1 / (z' H^-1 z)  =  G + (theta pi h h' - theta zeta (p h' + h p') - p p') / kappa,

in which no terms of order theta cancel. The row k is the row where z' H^-1 z has its largest term.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ppdinf._internal.numba_jit import jit

REFINEMENTS = 10
SMALL = 1e-15  # largest error of a sum

type Columns = NDArray[np.float64]  # shape (m, n), or (m, n - 1) for steps


def slacks(t: Columns, E: float) -> tuple[Columns, Columns]:
    """Return the distances ``E t_(i+1) - t_i`` and ``E t_i - t_(i+1)`` of all steps from their bounds."""
    return E * t[:, 1:] - t[:, :-1], E * t[:, :-1] - t[:, 1:]


def adjoint(u: Columns, v: Columns, E: float) -> Columns:
    """Apply the transpose of `slacks`: sum the multipliers of the steps in each row."""
    found = np.zeros((u.shape[0], u.shape[1] + 1))
    found[:, :-1] = E * v - u
    found[:, 1:] += E * u - v
    return found


class ColumnSystems:
    """The systems of all columns, and the dense system that couples them."""

    def __init__(self, u: Columns, v: Columns, z: NDArray[np.float64], E: float) -> None:
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

    def solve(
        self, rhs: Columns, rows: NDArray[np.float64], fixed: NDArray[np.float64]
    ) -> tuple[Columns, NDArray[np.float64], NDArray[np.float64]]:
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

    def _solved(
        self, rhs: Columns, rows: NDArray[np.float64], fixed: NDArray[np.float64]
    ) -> tuple[Columns, NDArray[np.float64], NDArray[np.float64]]:
        missing = rows - self._columns(rhs, fixed)[0].sum(axis=0)
        dlam = cho_solve(self.dense, missing / self.size) / self.size
        return *self._columns(rhs + dlam, fixed)[:1], dlam, self._columns(rhs + dlam, fixed)[1]

    def _columns(self, rhs: Columns, fixed: NDArray[np.float64]) -> tuple[Columns, NDArray[np.float64]]:
        """Solve ``H dt = rhs + z dmu``, ``z' dt = fixed`` for every column."""
        shape, level = np.einsum("ji,ji->j", self.p, rhs), np.einsum("ji,ji->j", self.h, rhs)
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
        k, most = 0, -1.0
        for i in range(n):
            term = z[i] * z[i] / (down[i] + up[i])
            if term > most:
                k, most = i, term
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
        own, d, f = x[j], pivot[j], factor[j]
        for i in range(1, k):
            own[i] += f[i - 1] * own[i - 1]
        own[k] = 0.0
        for i in range(k - 1, -1, -1):
            own[i] = own[i] / d[i] + f[i] * own[i + 1]
        for i in range(n - 2, k, -1):
            own[i] += f[i + 1] * own[i + 1]
        for i in range(k + 1, n):
            own[i] = own[i] / d[i] + f[i] * own[i - 1]
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
