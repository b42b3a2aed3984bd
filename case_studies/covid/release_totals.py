r"""Total weights C(x) of the l1 releases of a table of pairs, and posterior draws given a congenial release.

A release of the tables with the total of the cases and no more deaths than cases has

    P(y | x) = exp(-rate |y - x|) nu(y) / C(x),    C(x) = sum over releases y of exp(-rate |y - x|) nu(y),

with nu = 1 (congenial) or the Dirichlet-multinomial weights of cases (prior-congenial). For every tilt theta,

    C(x) = prod_j nu_j(c_j) F_j(c_j, d_j) P(sum of independent releases of counties = total),

where F_j sums over the releases of county j, relative to nu_j(c_j) and tilted by exp(theta (y - c_j)). Deaths have
geometric sums, and sums over cases are recursions in c, so that F_j of every pair follows from five tables.

Posterior: importance sampling (Algorithm 2 of the paper). Proposals with the product of counties for C(x) are exact and
independent (`noisy_pairs.draw`). Weights are 1 / P(total), by the inverse Fourier transform of the product of F_j. They
vary little, because the sum of 67 releases is nearly normal with about the same mean and variance for all x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from ppdinf._internal.numba_jit import jit

REACH = 26.0  # decay beyond the largest count at which sums over releases end
RARE = 1e-17  # prior probability of larger counts, which are omitted
PERIOD = 12.0  # of the inverse Fourier transform, in standard deviations of the total
SMALL = 1e-8  # relative characteristic function at which it ends
STEPS, CLOSE = 8, 0.1  # Newton steps to the tilt, and standard deviations from it at which they end


@jit
def log_reach(logs: NDArray, rate: float) -> NDArray:
    """Return the log of the sum of r^(|m-c|) exp(logs[m]) over all m, for each number of cases c; r = exp(-rate)."""
    out, above = logs.copy(), -np.inf
    for k in range(1, logs.size):
        out[k] = np.logaddexp(logs[k], out[k - 1] - rate)
    for k in range(logs.size - 2, -1, -1):
        above = np.logaddexp(logs[k + 1], above) - rate
        out[k] = np.logaddexp(out[k], above)
    return out


@jit
def sum_tables(logs: NDArray, reach: NDArray, rate: float, turn: complex) -> NDArray:
    """Tabulate five sums of exp(logs[m]) over released cases m for each number of cases c, relative to exp(reach[c]).

    Rows: m <= c with decay r^(c-m), with no decay, with decay r^(2(c-m)); m > c with decay r^(m-c) and r^(2(m-c)).
    Terms are multiplied by turn^(m-c).
    """
    r, back = np.exp(-rate), 1 / turn
    own, step = np.exp(logs - reach), np.exp(np.diff(reach))
    out = np.full((5, logs.size), 0 * turn)
    out[:3, 0] = own[0]
    for k in range(1, logs.size):
        move = back / step[k - 1]
        out[0, k] = own[k] + r * move * out[0, k - 1]
        out[1, k] = own[k] + move * out[1, k - 1]
        out[2, k] = own[k] + r * r * move * out[2, k - 1]
    for k in range(logs.size - 2, -1, -1):
        move = turn * step[k]
        out[3, k] = r * move * (own[k + 1] + out[3, k + 1])
        out[4, k] = r * r * move * (own[k + 1] + out[4, k + 1])
    return out


@jit
def pair_sum(c: int, d: int, reach: NDArray, sums: NDArray, rate: float, turn: complex) -> complex:
    """Sum turn^(m-c) r^(|m-c| + |e-d|) exp(logs[m] - reach[c]) over all releases (m, e) of a pair, m >= e >= 0."""
    r, at_d, apart = np.exp(-rate), np.exp(-rate * d), np.exp(-rate * (c - d))
    inner, both = r / (1 - r), (1 + r) / (1 - r)
    # deaths 0 <= e <= m:  both - inner (r^d + r^(m-d))  for m >= d,   inner (r^(d-m-1) - r^d)  for m < d
    total = (both - inner * at_d) * (sums[0, c] + sums[3, c])
    if apart < 1e-30:
        return total
    total -= inner * apart * (sums[1, c] + sums[4, c])
    if d > 0:
        below = apart * np.exp(reach[d - 1] - reach[c]) * turn ** (d - 1 - c)  # moves the sums of d - 1 to c
        total += below * (inner * (sums[1, d - 1] + r * sums[2, d - 1]) - both * r * sums[0, d - 1])
    return total


@jit
def _add_logs(c: NDArray, d: NDArray, reach: NDArray, sums: NDArray, rate: float, turn: complex, out: NDArray) -> None:
    for n in range(c.size):
        out[n] += np.log(pair_sum(c[n], d[n], reach, sums, rate, turn))


class ReleaseTotals(NamedTuple):
    """The factors of C(x) for all counties of a month: logs of tilted weights nu_j, of their sums, and tables."""

    rate: float
    logs: list[NDArray[np.float64]]
    reach: list[NDArray[np.float64]]
    sums: list[NDArray[np.float64]]

    @classmethod
    def of(cls, alpha: ArrayLike, rate: float, reference: NDArray[np.int64], last: ArrayLike) -> ReleaseTotals:
        """Tabulate C(x) of counties with up to `last` cases, tilted so that `reference` keeps its total on average.

        alpha are parameters of the Dirichlet-multinomial weights; they are 1 for the counting measure.
        """
        a, ends = np.asarray(alpha, dtype=np.float64), np.asarray(last, dtype=np.int64)
        weights = [gammaln(m + own) - gammaln(m + 1.0) for own, m in zip(a, map(np.arange, ends + 1), strict=True)]
        theta = -np.log1p((a - 1).clip(0).sum() / reference[:, 0].sum())
        for _ in range(STEPS):
            logs = [own + theta * np.arange(own.size) for own in weights]
            reach = [log_reach(own, rate) for own in logs]
            found = cls(rate, logs, reach, [sum_tables(*own, rate, 1.0) for own in zip(logs, reach, strict=True)])
            mean, variance = found.moments(reference)
            if abs(mean) < CLOSE * np.sqrt(variance):
                break
            theta -= mean / variance
        return found

    def log_hit(self, tables: ArrayLike) -> NDArray[np.float64]:
        """Return log P(total) of tables (n, counties, 2): C(x) over the product of the factors of counties."""
        x = np.ascontiguousarray(np.moveaxis(np.asarray(tables, dtype=np.int64), 0, -1))
        at_0 = self._log_products(x, 1.0)
        deviation = np.sqrt(self.moments(x[..., 0])[1])
        period = 2 * int(PERIOD * (deviation / 2 + 1)) + 1
        hit = np.ones(x.shape[-1])
        for k in range(1, period // 2 + 1):
            share = np.exp(self._log_products(x, np.exp(2j * np.pi * k / period)) - at_0)
            hit += 2 * share.real
            if np.abs(share).max() < SMALL:
                break
        return np.asarray(np.log(hit / period))

    def _log_products(self, x: NDArray[np.int64], turn: complex) -> NDArray[np.complex128]:
        """Return the log of the product of the sums of counties, for tables (counties, 2, n)."""
        product = np.zeros(x.shape[-1], dtype=type(turn))
        for j, (c, d) in enumerate(x):
            sums = self.sums[j] if turn == 1 else sum_tables(self.logs[j], self.reach[j], self.rate, turn)
            _add_logs(c, d, self.reach[j], sums, self.rate, turn, product)
        return product

    def moments(self, table: NDArray[np.int64]) -> tuple[float, float]:
        """Return mean and variance of the change of the total of a table, by differences."""
        omega = 1e-3 * self.rate
        x = table[..., np.newaxis].astype(np.int64)
        (ratio,) = self._log_products(x, np.exp(1j * omega)) - self._log_products(x, 1.0)
        return float(ratio.imag / omega), float(-2 * ratio.real / omega**2)
