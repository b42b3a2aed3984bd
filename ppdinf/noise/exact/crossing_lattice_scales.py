r"""Scales of l1 noise on any lattice {A z = 0}: independent scales, by the leverages of the cells.

By Cauchy and Binet, det(A T A') = sum over bases B of det(A_B)^2 prod_{e in B} t_e, a mean of monomials, so that by the
inequality of arithmetic and geometric means

    det(A T A') >= det(A A') prod_e t_e^(p_e),      p_e = a_e' (A A')^-1 a_e,

with equality where all scales are equal. So scales are drawn from the product of the cells' laws
``t^(-p_e / 2) (1 + excess(t)) exp(-eps^2 t / 2)`` (`ppdinf.noise.exact.crossing_excess`), and the square root of the
ratio of both sides is the probability to keep them. A cell with p_e = 1 is zero on the whole lattice; none such here.
"""

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, fmpq_mat, fmpz_mat
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.noise.bits.inversion import bernoulli
from ppdinf.noise.bits.lazy import LazyReals
from ppdinf.noise.bits.settle import precision
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.crossing_excess import Excess
from ppdinf.noise.exact.crossing_mixture import Scales
from ppdinf.noise.exact.gamma import enclose_gamma, gammas
from ppdinf.rationals import ball

__all__ = ["LeverageScales", "Leverages"]

ACCURATE = 2.0**-21  # error of a log determinant that floating point is left with; beyond, it is enclosed


class Leverages:
    """A system of full row rank, and the leverage of each cell.

    Parameters
    ----------
    A : ndarray of int64, shape (n, d)

    Attributes
    ----------
    exact : list of Fraction, length d

    Examples
    --------
    >>> Leverages(np.array([[1, 1, 1, 0], [0, 0, 1, 1]])).exact
    [Fraction(2, 5), Fraction(2, 5), Fraction(3, 5), Fraction(3, 5)]
    """

    def __init__(self, A: NDArray[np.int64]) -> None:
        self.A = A
        matrix = fmpz_mat(A.tolist())
        gram = matrix * matrix.transpose()
        self.determinant = int(gram.det())
        spread = fmpq_mat(gram).inv() * fmpq_mat(matrix)
        self.exact = [
            sum((a * Fraction(int(spread[i, e].p), int(spread[i, e].q)) for i, a in enumerate(column)), Fraction(0))
            for e, column in enumerate(A.T.tolist())
        ]
        cells, rows = np.nonzero(A.T)
        self.starts = np.searchsorted(cells, np.arange(A.shape[1] + 1))
        self.rows, self.entries = rows, A[rows, cells].astype(np.float64)

    def enclose_log_determinant(self, t: list[arb]) -> arb:
        """Enclose log det(A T A')."""
        rows = [[(e, a) for e, a in enumerate(row) if a] for row in self.A.tolist()]
        dense = self.A.tolist()
        gram = [[sum((a * b[e] * t[e] for e, a in row), arb(0)) for b in dense] for row in rows]
        return arb_mat(gram).det().log()


class LeverageScales:
    """The law of the scales.

    Parameters
    ----------
    leverages : Leverages
    epsilon : Fraction
    end, resistance : Fraction
        Of the excess.
    """

    def __init__(self, leverages: Leverages, epsilon: Fraction, end: Fraction, resistance: Fraction) -> None:
        self.leverages = leverages
        self.rate = epsilon**2 / 2
        self.gammas = [p / 2 for p in leverages.exact]
        self.excess = Excess(epsilon, end, resistance, float(sum(self.gammas)) / len(self.gammas))
        self.groups = {
            gamma: np.array([e for e, own in enumerate(self.gammas) if own == gamma]) for gamma in set(self.gammas)
        }

    def draw(self, size: int, tape: Tape) -> Scales:
        """Draw so many sets of scales from the product law."""
        d = len(self.gammas)
        reals = LazyReals(tape)
        values, near = np.empty((size, 1, d)), np.empty((size, 1, d), dtype=np.bool_)
        cells = np.empty((size, 1, d), dtype=np.int64)
        for gamma in sorted(self.groups):
            members, n = self.groups[gamma], size * self.groups[gamma].size
            t, by_excess, places = np.empty(n), np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
            waiting = np.arange(n)
            while waiting.size:
                short = bernoulli(lambda gamma=gamma: self._enclose_odds(gamma), waiting.size, tape)  # type: ignore[misc]
                by_excess[waiting] = short
                far, close = waiting[~short], waiting[short]
                t[far], places[far] = gammas(1 - gamma, far.size, reals, tape)
                t[far] /= float(self.rate)
                t[close], places[close] = gammas(Fraction(1, 2) - gamma, close.size, reals, tape)
                t[close] /= self.excess.bounded[0]

                def enclose(k: int, own: Fraction = gamma, close: NDArray[np.int64] = close) -> arb:
                    return self._enclose_cell(own, True, reals.enclose(int(places[close[k]])))  # noqa: B023

                waiting = close[~self.excess.kept(t[close], enclose, tape)]
            for full, own in ((values, t), (near, by_excess), (cells, places)):
                full[:, 0, members] = own.reshape(size, -1)
        return Scales(self, values, near, cells, reals, np.empty((size, 0), dtype=np.int64))

    def log_keep(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log probability to keep each set of scales, to 2^-20."""
        system = self.leverages
        t = values[:, 0]
        log_det, error = _log_determinants(t, system.A.shape[0], system.starts, system.rows, system.entries)
        for i in np.flatnonzero(~(error < ACCURATE)).tolist():
            with precision(512):
                log_det[i] = float(system.enclose_log_determinant([arb(x) for x in t[i].tolist()]))
        shares = np.array([float(2 * gamma) for gamma in self.gammas])
        return 0.5 * (math.log(system.determinant) + np.log(t) @ shares - log_det)

    def enclose_keep(self, t: list[list[arb]]) -> arb:
        """Enclose the probability to keep a set of scales."""
        found = ball(Fraction(self.leverages.determinant)).log() - self.leverages.enclose_log_determinant(t[0])
        for x, gamma in zip(t[0], self.gammas, strict=True):
            found += x.log() * ball(2 * gamma)
        return (found / 2).exp()

    def enclose_row(self, scales: Scales, i: int, row: int) -> list[arb]:
        """Enclose a set of scales."""
        drawn = zip(self.gammas, scales.near[i, row].tolist(), scales.cells[i, row].tolist(), strict=True)
        return [self._enclose_cell(gamma, near, scales.reals.enclose(place)) for gamma, near, place in drawn]

    @cached_property
    def loss(self) -> float:
        """Log of the share of attempts, about, that excesses cost."""
        return sum(cells.size * self.excess.loss(float(gamma)) for gamma, cells in self.groups.items())

    def _enclose_cell(self, gamma: Fraction, near: bool, y: arb) -> arb:
        if near:
            return enclose_gamma(Fraction(1, 2) - gamma, y) / ball(Fraction(self.excess.bounded[0]))
        return enclose_gamma(1 - gamma, y) / ball(self.rate)

    def _enclose_odds(self, gamma: Fraction) -> arb:
        """Enclose the probability that a cell is drawn by the bound of its excess."""
        rate, bound = map(ball, map(Fraction, self.excess.bounded))
        near, far = ball(Fraction(1, 2) - gamma), ball(1 - gamma)
        close = bound * near.gamma() * (-near * rate.log()).exp()
        return close / (close + far.gamma() * (-far * ball(self.rate).log()).exp())


@jit
def _log_determinants(
    t: NDArray[np.float64],
    n: int,
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    entries: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log det(A T A'), and a bound on its error.

    With unit diagonal, factors L L' are off by at most (n + d + 4) units an entry (N. Higham, Accuracy and Stability of
    Numerical Algorithms, 2002, theorem 10.3, and sums of d terms), hence the log determinant by that times
    n trace((L L')^-1) to first order, doubled here.
    """
    size, d = t.shape
    found, error = np.empty(size), np.empty(size)
    gram, inverse, scale = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    for draw in range(size):
        gram[:] = 0.0
        for e in range(d):
            for i in range(starts[e], starts[e + 1]):
                weighted = entries[i] * t[draw, e]
                for j in range(starts[e], i + 1):
                    gram[rows[i], rows[j]] += weighted * entries[j]
        log_det = 0.0
        for i in range(n):
            log_det += math.log(gram[i, i])
            scale[i] = 1.0 / math.sqrt(gram[i, i])
        trace = 0.0
        for i in range(n):
            for j in range(i + 1):
                total = gram[i, j] * scale[i] * scale[j] if j < i else 1.0
                for k in range(j):
                    total -= gram[i, k] * gram[j, k]
                if j < i:
                    gram[i, j] = total / gram[j, j]
                elif total > 0.0:
                    gram[i, i] = math.sqrt(total)
                else:
                    gram[i, i] = math.nan
            log_det += 2.0 * math.log(gram[i, i])
            inverse[i, i] = 1.0 / gram[i, i]
            trace += inverse[i, i] ** 2
            for j in range(i):
                total = 0.0
                for k in range(j, i):
                    total -= gram[i, k] * inverse[k, j]
                inverse[i, j] = total * inverse[i, i]
                trace += inverse[i, j] ** 2
        found[draw] = log_det
        error[draw] = 2.0**-52 * (n + d + 4.0) * n * trace + 2.0**-50 * n * abs(log_det)
    return found, error
