r"""Total weights C(x) of the l2 releases of a table of pairs, and factors of C(x) for posterior draws.

l2 noise is a mixture of Gaussian noise over widths v (docs/mathematics/lattice_gaussian.md), so that, for every tilt,

    C(x) = sum over v of exp(-v^2 / 2) prod_j F_j(c_j, d_j; v) P(sum of independent releases of counties = total),
    F_j(c, d; v) = sum over m of nu_j(m) g(m - c) [G(m - d) - G(-1 - d)],   g(z) = exp(-z^2 rate^2 / (2 v^2)),

where m are released cases and G are cumulative sums of g, over the released deaths 0, ..., m. Sums over m are exact
below `FIRST`, and for polynomials of degree `NODES - 1` in each block above it. Widths `STEP` apart have a relative
error of about 1e-5 for 67 pairs. Factors of C(x) by county are nearly products of one of cases and one of deaths.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline
from scipy.special import gammaln, logsumexp

from ppdinf._internal.numba_jit import jit

STEP, NEGLIGIBLE = 2 / 3, 1e-9  # between widths, and the share of a width that is omitted
FIRST, NODES = 64, 8  # first count of the blocks, and nodes of a block
REACH = 9.0  # standard deviations of a Gaussian
PERIOD, SMALL = 12.0, 6.3  # of the Fourier transform and its last frequency, in standard deviations of the total
COUNTS = 96  # counts at which factors are computed; they are interpolated between them
FLOOR = -30.0  # log of the smallest factor of deaths


@jit
def add_logs(c: NDArray, d: NDArray, m: NDArray, logs: NDArray, sums: NDArray, p: float, omega: float, out: NDArray):
    """Add the logs of sum over m of exp(logs - p (m-c)^2 / 2 + i k omega (m-c)) [G(m-d) - G(-1-d)] to out[n, k]."""
    zero = sums.size // 2  # place of G(0)
    for n in range(c.size):
        total, size = np.zeros(out.shape[1], dtype=np.complex128), logs - 0.5 * p * (m - c[n]) ** 2
        near = size.max()
        for i in np.flatnonzero(size > near - REACH**2 / 2):
            of_deaths = sums[min(zero + m[i] - d[n], sums.size - 1)] - sums[max(zero - 1 - d[n], 0)]
            term = np.exp(size[i] - near) * of_deaths + 0j
            turn = np.exp(1j * omega * (m[i] - c[n]))
            for k in range(total.size):
                total[k] += term
                term *= turn
        out[n] += np.log(total) + near


@lru_cache(maxsize=64)
def nodes_of(last: int, sigma: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return counts up to about `last` and the weights of sums over all counts."""
    nodes, weights, first = [np.arange(FIRST)], [np.ones(FIRST)], FIRST
    while first <= last:
        size = max(NODES, int(min(first / 2, sigma)))
        at = np.unique(np.rint((size - 1) * (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2).astype(int))
        every = legvander(2 * np.arange(size) / (size - 1) - 1, at.size - 1)
        nodes.append(first + at)
        weights.append(np.linalg.solve(every[at].T, every.sum(axis=0)))
        first += size
    return np.concatenate(nodes), np.concatenate(weights)


class L2Factors(NamedTuple):
    """Factors of C(x) by county, for cases and for deaths, in the form of `release_totals.ReleaseTotals`."""

    reach: list[NDArray[np.float64]]
    sums: list[NDArray[np.float64]]


class L2Totals(NamedTuple):
    """C(x) of a month at its widths, tilted so that the total of a reference table is kept on average."""

    rate: float
    alpha: NDArray[np.float64]
    last: int
    theta: float
    period: int
    widths: NDArray[np.float64]

    @classmethod
    def of(cls, alpha: ArrayLike, rate: float, reference: NDArray[np.int64], last: int) -> L2Totals:
        """Choose tilt, period and widths at a table (counties, 2), for releases of up to `last` cases."""
        a = np.asarray(alpha, dtype=np.float64)
        found = cls(rate, a, last, -np.log1p((a - 1).clip(0).sum() / reference[:, 0].sum()), 1, np.empty(0))
        every, x = np.arange(STEP / 2, 2 * np.sqrt(reference.size) + 3, STEP), reference[np.newaxis]
        for _ in range(6):
            logs = np.array([found.log_products(x, v)[0, 0].real for v in every]) - every**2 / 2
            top = every[logs.argmax()]
            omega = 1e-3 * rate / top
            ratio = np.diff(found.log_products(x, top, omega, 2)[0])[0]
            mean, deviation = ratio.imag / omega, np.sqrt(-2 * ratio.real) / omega
            if abs(mean) < 0.1 * deviation:
                break
            found = found._replace(theta=found.theta - mean / deviation**2)
        return found._replace(
            widths=every[logs > logs.max() + np.log(NEGLIGIBLE)], period=2 * int(PERIOD * deviation / 2 + 1) + 1
        )

    def log_products(self, x: NDArray[np.int64], v: float, omega: float = 0.0, size: int = 1) -> NDArray[np.complex128]:
        """Return logs of the product of all counties at `size` multiples of a frequency: (tables, size)."""
        out = np.zeros((len(x), size), dtype=np.complex128)
        for j in range(x.shape[1]):
            self.add(j, x[:, j, 0], x[:, j, 1], v, omega, out)
        return out

    def add(self, j: int, c: NDArray, d: NDArray, v: float, omega: float, out: NDArray[np.complex128]) -> None:
        """Add the log factors of a county."""
        p = (self.rate / v) ** 2
        m, weights = nodes_of(int(self.last + REACH / np.sqrt(p)), 1 / np.sqrt(p))
        with np.errstate(divide="ignore"):
            logs = np.log(weights) + gammaln(m + self.alpha[j]) - gammaln(m + 1.0) + self.theta * m
        far = np.arange(-int(REACH / np.sqrt(p)) - 1, int(REACH / np.sqrt(p)) + 2)
        sums = np.cumsum(np.exp(-p * far**2 / 2))
        add_logs(np.ascontiguousarray(c), np.ascontiguousarray(d), m, logs, sums, p, omega, out)

    def log_total(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return log C(x) of tables (n, counties, 2), up to a constant."""
        parts = []
        for v in self.widths:
            needed = SMALL * PERIOD / (2 * np.pi) * self.widths.max() / v  # the total varies in proportion to v
            logs = self.log_products(x, v, 2 * np.pi / self.period, min(int(needed) + 2, (self.period + 1) // 2))
            hit = 1 + 2 * np.exp(logs[:, 1:] - logs[:, :1]).real.sum(axis=1)
            parts.append(logs[:, 0].real + np.log(hit) - v**2 / 2)
        return np.asarray(logsumexp(parts, axis=0))

    def factors(self, table: NDArray[np.int64], v: float) -> L2Factors:
        """Return logs of F(., d), and inverses of F(c, .) / F(c, d), at a table: F is nearly their product."""
        at = np.unique(np.rint(np.expm1(np.linspace(0, np.log(self.last + 1), COUNTS))).astype(np.int64))
        reach, sums, every = [], [], np.log(np.arange(self.last + 1) + 8.0)
        for j, (c, d) in enumerate(table):
            curves = []
            for pair in ((at, np.full_like(at, d)), (np.full_like(at, c), at)):
                out = np.zeros((at.size, 1), dtype=np.complex128)
                self.add(j, *pair, v, 0.0, out)
                possible = np.isfinite(out[:, 0])  # others have far more deaths than cases
                logs = np.interp(at, at[possible], out[possible, 0].real)
                curves.append(CubicSpline(np.log(at + 8.0), logs)(every))
            reach.append(curves[0])
            sums.append(np.exp(-np.maximum(curves[1] - curves[1][d], FLOOR))[np.newaxis])
        return L2Factors(reach, sums)
