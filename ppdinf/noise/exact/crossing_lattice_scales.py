r"""Scales of l1 noise on any lattice {A z = 0}: a product law over disjoint sums and, by leverages, the other cells.

By Cauchy and Binet, det(A T A') = sum over bases B of det(A_B)^2 prod_{e in B} t_e, a mean of monomials, so that by the
inequality of arithmetic and geometric means

    det(A T A') >= det(A A') prod_e t_e^(p_e),      p_e = a_e' (A A')^-1 a_e,

with equality where all scales are equal. *Sums integrated out.* For sums d_i = A' h_i with disjoint supports S_i, let
u_i = d_i / |d_i| and R_i = u_i' T u_i. In coordinates where A A' = 1 the Schur complement det(A T A') / prod_i R_i is
that of sum_i U_i' X_i U_i, X_i the covariance over S_i given the sum, sum_i U_i' U_i = 1. Logarithms of matrices are
concave, so its logarithm is at least sum_i tr(P_i log X_i), P_i = U_i U_i'. Two bounds on that: the c_i-fold of what
leverages q_e within S_i say, if P_i is c_i times the identity (c_i (Q_i - u_i u_i') in the space of the cells, Q_i
the projection onto the rows of A over S_i); and, for any P_i, concavity once more, as X_i = sum_{j<k} t_j t_k / R_i w
w', w = u_k e_j - u_j e_k, is the identity where all scales are 1: sum_{j<k} w' P_i w log(t_j t_k / R_i). With c_i
times the identity taken out of P_i first, c_i its least eigenvalue, both together come to

    det(A T A') >= det(A A') prod_i R_i^(b_i) prod_e t_e^(p_e - b_i u_ie^2),     b_i = 1 - tr P_i + c_i (tr Q_i - 2),

where cells in no sum keep t_e^(p_e). The bound is linear in b_i, and right for b_i = 0, so any smaller b_i will do.
For margins of complete tables P_i is c_i times the identity, by symmetry, and b_i = 1 - c_i; for rows of a two-way
table 1 - 1 / r. Holes (structural zeros) make b_i a little smaller.

So scales are drawn from the product of the sums' laws (`ppdinf.noise.exact.crossing_sums`), and the square root of the
ratio of both sides is the probability to keep them. A cell with p_e = 1 is zero on the whole lattice; none such here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat, fmpz_mat
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.noise.bits.coins import toss
from ppdinf.noise.bits.lazy import LazyReals
from ppdinf.noise.bits.settle import precision
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.crossing_excess import Excess
from ppdinf.noise.exact.crossing_mixture import Scales
from ppdinf.noise.exact.crossing_sums import Part, SumScales
from ppdinf.rationals import ball

__all__ = ["DisjointSum", "LeverageScales", "Leverages", "disjoint", "independent_rows"]

ORDERS = 256  # of the sums, tried for a large disjoint family
LEAST = Fraction(1, 4)  # power of a sum that is worth it, and can be drawn (`ppdinf.noise.exact.gamma.betas`)
STEPS = 2**10  # powers are whole multiples of its inverse, unless they are simple anyway
ACCURATE = 2.0**-21  # error of a log determinant that floating point is left with; beyond, it is enclosed


@dataclass(frozen=True, eq=False)
class DisjointSum:
    """A sum over cells that can be integrated out.

    Attributes
    ----------
    cells : ndarray of int64
        On which it is not 0.
    entries : ndarray of int64
    power : Fraction
        b, with which the sum of scales enters the bound.
    """

    cells: NDArray[np.int64]
    entries: NDArray[np.int64]
    power: Fraction

    @property
    def shares(self) -> list[Fraction]:
        """Squares of the entries, in shares of their sum."""
        squares = [a * a for a in self.entries.tolist()]
        return [Fraction(a, sum(squares)) for a in squares]


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
        self.projection = _projection(matrix)
        self.exact = _diagonal(self.projection)
        cells, rows = np.nonzero(A.T)
        self.starts = np.searchsorted(cells, np.arange(A.shape[1] + 1))
        self.rows, self.entries = rows, A[rows, cells].astype(np.float64)

    def integrated(self, entries: NDArray[np.int64]) -> DisjointSum | None:
        """Return a sum of the row space as one that is integrated out, if that gains anything."""
        cells = np.flatnonzero(entries)
        own = entries[cells].tolist()
        restricted = fmpz_mat(self.A[:, cells].tolist())
        inner = _projection(fmpz_mat([restricted.tolist()[i] for i in independent_rows(self.A[:, cells])]))
        outer = fmpq_mat(
            cells.size, cells.size, [self.projection[i, j] for i in cells.tolist() for j in cells.tolist()]
        )
        along = fmpq_mat(fmpz_mat([[x * y for y in own] for x in own])) / sum(x * x for x in own)
        free, bound = inner - along, outer - along
        dimension, weight = sum(_diagonal(free), Fraction(0)), sum(_diagonal(bound), Fraction(0))
        share = weight / dimension if dimension else Fraction(0)
        power = 1 - share
        if bound != free * fmpq(share.numerator, share.denominator):
            share = _least_eigenvalue(bound, free, int(dimension))
            power = Fraction(math.floor(STEPS * (1 - weight + share * (dimension - 1))), STEPS)
        return DisjointSum(cells, entries[cells], power) if power >= LEAST else None

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
    sums : sequence of DisjointSum
        With disjoint supports; they are integrated out.
    epsilon : Fraction
    end, resistance : Fraction
        Of the excess.
    """

    def __init__(
        self, leverages: Leverages, sums: Sequence[DisjointSum], epsilon: Fraction, end: Fraction, resistance: Fraction
    ) -> None:
        self.leverages, self.sums = leverages, sums
        self.gammas = [p / 2 for p in leverages.exact]
        for one in sums:
            for e, share in zip(one.cells.tolist(), one.shares, strict=True):
                self.gammas[e] -= one.power * share / 2
        self.excess = Excess(epsilon, end, resistance, float(sum(self.gammas)) / len(self.gammas))
        self.kinds: dict[SumScales, list[tuple[int, NDArray[np.int64]]]] = {}
        known: dict[Any, SumScales] = {}

        def add(place: int, cells: NDArray[np.int64], squares: tuple[int, ...], beta: Fraction) -> None:
            key = tuple(self.gammas[e] for e in cells.tolist()), squares, beta
            law = known.setdefault(key, SumScales(*key, self.excess))
            self.kinds.setdefault(law, []).append((place, cells))

        for place, one in enumerate(sums):
            add(place, one.cells, tuple(x * x for x in one.entries.tolist()), one.power / 2)
        within = {e for one in sums for e in one.cells.tolist()}
        for e in range(len(self.gammas)):
            if e not in within:
                add(len(sums), np.array([e]), (1,), Fraction(0))

    def draw(self, size: int, tape: Tape) -> Scales:
        """Draw so many sets of scales from the product law."""
        d, reals = len(self.gammas), LazyReals(tape)
        values, near = np.empty((size, 1, d)), np.empty((size, 1, d), dtype=np.bool_)
        cells, sums = np.empty((size, 1, d), dtype=np.int64), np.empty((size, len(self.sums) + 1), dtype=np.int64)
        for law, members in self.kinds.items():
            part = law.draw(size * len(members), reals, tape)
            for n, (place, own) in enumerate(members):
                rows = slice(n * size, (n + 1) * size)
                values[:, 0, own], near[:, 0, own] = part.values[rows], part.near[rows]
                cells[:, 0, own], sums[:, place] = part.cells[rows], part.sums[rows]
        return Scales(self, values, near, cells, reals, sums)

    def kept(self, size: int, tape: Tape) -> Scales:
        """Draw so many sets of scales, and return those that are kept."""
        scales = self.draw(size, tape)
        return scales[toss(scales.log_keep(), 2.0**-20, scales.enclose_keep, tape)]

    @property
    def first(self) -> int:
        """Cells whose scales an attempt begins with."""
        return len(self.gammas)

    def log_keep(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log probability to keep each set of scales, to 2^-20."""
        system = self.leverages
        t = values[:, 0]
        log_det, error = _log_determinants(t, system.A.shape[0], system.starts, system.rows, system.entries)
        for i in np.flatnonzero(~(error < ACCURATE)).tolist():
            with precision(512):
                log_det[i] = float(system.enclose_log_determinant([arb(x) for x in t[i].tolist()]))
        powers = np.log(t) @ np.array([float(g) for g in self.gammas])
        found: NDArray[np.float64] = 0.5 * (math.log(system.determinant) - log_det) + powers
        for one in self.sums:
            squares = one.entries.astype(np.float64) ** 2
            found += float(one.power) / 2 * np.log(t[:, one.cells] @ squares / squares.sum())
        return found

    def enclose_keep(self, t: list[list[arb]]) -> arb:
        """Enclose the probability to keep a set of scales."""
        found = (ball(Fraction(self.leverages.determinant)).log() - self.leverages.enclose_log_determinant(t[0])) / 2
        for x, gamma in zip(t[0], self.gammas, strict=True):
            found += x.log() * ball(gamma)
        for one in self.sums:
            squares = [a * a for a in one.entries.tolist()]
            total = sum((a * t[0][e] for a, e in zip(squares, one.cells.tolist(), strict=True)), start=arb(0))
            found += (total / sum(squares)).log() * ball(one.power / 2)
        return found.exp()

    def enclose_row(self, scales: Scales, i: int, row: int) -> list[arb]:
        """Enclose a set of scales."""
        found = [arb(0)] * len(self.gammas)
        for law, members in self.kinds.items():
            for place, own in members:
                at = i, slice(None), own
                part = Part(
                    scales.values[at].T, scales.near[at].T, scales.cells[at].T, scales.sums[i, place : place + 1]
                )
                for e, x in zip(own.tolist(), law.enclose(part, 0, scales.reals), strict=True):
                    found[e] = x
        return found

    @cached_property
    def loss(self) -> float:
        """Log of the share of attempts, about, that excesses cost."""
        return sum(len(members) * law.loss for law, members in self.kinds.items())


def disjoint(sums: Sequence[DisjointSum], cells: int) -> list[DisjointSum]:
    """Choose sums without a common cell, of much power together: greedily, in orders by size and at random."""
    rng, best = np.random.default_rng(0), list[DisjointSum]()
    for attempt in range(ORDERS if sums else 0):
        noise = rng.random(len(sums)) * (attempt > 0)
        taken, found = np.zeros(cells, dtype=np.bool_), []
        for k in np.lexsort((rng.random(len(sums)), np.array([one.cells.size for one in sums]) * (1 + noise))).tolist():
            if not taken[sums[k].cells].any():
                taken[sums[k].cells] = True
                found.append(sums[k])
        if sum(one.power for one in found) > sum(one.power for one in best):
            best = found
    return best


def independent_rows(A: NDArray[np.int64]) -> list[int]:
    """Choose rows of A that span its row space."""
    echelon, rank = fmpz_mat(A.T.tolist()).rref()[::2]
    found = []
    for i in range(rank):
        found.append(next(j for j in range(A.shape[0]) if echelon[i, j]))
    return found


def _projection(matrix: fmpz_mat) -> fmpq_mat:
    """Projection onto the rows of a matrix of full row rank."""
    across = matrix.transpose()
    return fmpq_mat(across) * fmpq_mat(matrix * across).inv() * fmpq_mat(matrix)


def _least_eigenvalue(matrix: fmpq_mat, identity: fmpq_mat, dimension: int) -> Fraction:
    """Return a lower bound on the least eigenvalue of a matrix on the image of a projection, positive or 0."""
    found = np.linalg.eigvalsh([[float(fmpq(x).p) / float(fmpq(x).q) for x in row] for row in matrix.tolist()])
    least = Fraction(max(0, math.floor(found[-dimension] * STEPS**2) - 1), STEPS**2)
    rest = matrix - identity * fmpq(least.numerator, least.denominator)
    signs = [x * (-1) ** i for i, x in enumerate(reversed(rest.charpoly().coeffs()))]
    return least if all(x >= 0 for x in signs) else Fraction(0)  # roots are real: none is negative


def _diagonal(matrix: fmpq_mat) -> list[Fraction]:
    return [Fraction(int(matrix[e, e].p), int(matrix[e, e].q)) for e in range(matrix.nrows())]


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
