"""Scales of l1 noise on any lattice: a product law over disjoint sums and single cells that bounds the determinant."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat, fmpz_mat

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals
from ppdinf.noise.exact.scale_mixture.mixture import MixtureScales
from ppdinf.noise.exact.scale_mixture.scales import Excess, Part, SumScales
from ppdinf.noise.primitives.enclosures import draw_bernoulli, precision
from ppdinf.noise.primitives.lazy_reals import LazyReals
from ppdinf.noise.primitives.stream import BitStream

ORDERS = 256  # number of orders of the sums that are tried for a large disjoint family
LEAST = Fraction(1, 4)  # smallest useful power of a sum that `ppdinf.noise.primitives.lazy_reals.betas` can draw
STEPS = 2**10  # powers are integer multiples of its inverse, unless they are simple fractions
ACCURATE = 2.0**-21  # accepted error of a log determinant in floating point; above this, it is enclosed


@dataclass(frozen=True, eq=False)
class DisjointSum:
    """A sum over cells that can be integrated out."""

    cells: Integers
    entries: Integers
    power: Fraction

    @property
    def shares(self) -> list[Fraction]:
        """Squares of the entries, divided by their sum."""
        squares = [a * a for a in self.entries.tolist()]
        return [Fraction(a, sum(squares)) for a in squares]


class Leverages:
    """A system of full row rank, and the leverage of each cell."""

    def __init__(self, A: Integers) -> None:
        self.A = A
        matrix = fmpz_mat(A.tolist())
        self.determinant = int((matrix * matrix.transpose()).det())
        self.projection = _projection(matrix)
        self.exact = _diagonal(self.projection)
        cells, rows = np.nonzero(A.T)
        self.starts = np.searchsorted(cells, np.arange(A.shape[1] + 1))
        self.rows, self.entries = rows, A[rows, cells].astype(np.float64)

    def integrated(self, entries: Integers) -> DisjointSum | None:
        """Return a sum of the row space as a sum to be integrated out, or None if this gains nothing."""
        cells = np.flatnonzero(entries)
        own = entries[cells].tolist()
        restricted = fmpz_mat(self.A[:, cells].tolist())
        inner = _projection(fmpz_mat([restricted.tolist()[i] for i in independent_rows(self.A[:, cells])]))
        outer = fmpq_mat(
            cells.size, cells.size, [self.projection[i, j] for i in cells.tolist() for j in cells.tolist()]
        )
        along = fmpq_mat(fmpz_mat([[x * y for y in own] for x in own])) / sum(x * x for x in own)
        free, bound = inner - along, outer - along
        dimension = sum(_diagonal(free), Fraction(0))
        weight = sum(_diagonal(bound), Fraction(0))
        share = weight / dimension if dimension else Fraction(0)
        power = 1 - share
        if bound != free * fmpq(share.numerator, share.denominator):
            share = _smallest_eigenvalue(bound, free, int(dimension))
            power = Fraction(math.floor(STEPS * (1 - weight + share * (dimension - 1))), STEPS)
        return DisjointSum(cells, entries[cells], power) if power >= LEAST else None

    def enclose_log_determinant(self, t: list[arb]) -> arb:
        """Enclose log det(A T A')."""
        rows = [[(e, a) for e, a in enumerate(row) if a] for row in self.A.tolist()]
        dense = self.A.tolist()
        gram = [[sum((a * b[e] * t[e] for e, a in row), arb(0)) for b in dense] for row in rows]
        return arb_mat(gram).det().log()


def disjoint(sums: Sequence[DisjointSum], cells: int) -> list[DisjointSum]:
    """Choose sums without common cells and with large total power: greedily, in orders by size and at random."""
    rng, best = np.random.default_rng(0), list[DisjointSum]()
    for attempt in range(ORDERS if sums else 0):
        noise = rng.random(len(sums)) * (attempt > 0)
        taken, chosen = np.zeros(cells, dtype=np.bool_), []
        for k in np.lexsort((rng.random(len(sums)), np.array([one.cells.size for one in sums]) * (1 + noise))).tolist():
            if not taken[sums[k].cells].any():
                taken[sums[k].cells] = True
                chosen.append(sums[k])
        if sum(one.power for one in chosen) > sum(one.power for one in best):
            best = chosen
    return best


def independent_rows(A: Integers) -> list[int]:
    """Choose rows of A that span its row space."""
    echelon, rank = fmpz_mat(A.T.tolist()).rref()[::2]
    return [next(j for j in range(A.shape[0]) if echelon[i, j]) for i in range(rank)]


def _projection(matrix: fmpz_mat) -> fmpq_mat:
    """Return the projection onto the rows of a matrix of full row rank."""
    across = matrix.transpose()
    return fmpq_mat(across) * fmpq_mat(matrix * across).inv() * fmpq_mat(matrix)


def _smallest_eigenvalue(matrix: fmpq_mat, identity: fmpq_mat, dimension: int) -> Fraction:
    """Return a non-negative lower bound on the smallest eigenvalue of a matrix on the image of a projection."""
    eigenvalues = np.linalg.eigvalsh([[float(fmpq(x).p) / float(fmpq(x).q) for x in row] for row in matrix.tolist()])
    least = Fraction(max(0, math.floor(eigenvalues[-dimension] * STEPS**2) - 1), STEPS**2)
    rest = matrix - identity * fmpq(least.numerator, least.denominator)
    signs = [x * (-1) ** i for i, x in enumerate(reversed(rest.charpoly().coeffs()))]
    return least if all(x >= 0 for x in signs) else Fraction(0)  # roots are real and non-negative


def _diagonal(matrix: fmpq_mat) -> list[Fraction]:
    return [Fraction(int(matrix[e, e].p), int(matrix[e, e].q)) for e in range(matrix.nrows())]


class LeverageScales:
    """The law of the scales."""

    def __init__(
        self, leverages: Leverages, sums: Sequence[DisjointSum], epsilon: Fraction, end: Fraction, resistance: Fraction
    ) -> None:
        self.leverages, self.sums = leverages, sums
        self.gammas = [p / 2 for p in leverages.exact]
        for one in sums:
            for e, share in zip(one.cells.tolist(), one.shares, strict=True):
                self.gammas[e] -= one.power * share / 2
        self.excess = Excess(epsilon, end, resistance, float(sum(self.gammas)) / len(self.gammas))
        self.kinds: dict[SumScales, list[tuple[int, Integers]]] = {}
        known: dict[tuple[tuple[Fraction, ...], tuple[int, ...], Fraction], SumScales] = {}

        def add(place: int, cells: Integers, squares: tuple[int, ...], beta: Fraction) -> None:
            key = tuple(self.gammas[e] for e in cells.tolist()), squares, beta
            law = known.setdefault(key, SumScales(*key, self.excess))
            self.kinds.setdefault(law, []).append((place, cells))

        for place, one in enumerate(sums):
            add(place, one.cells, tuple(x * x for x in one.entries.tolist()), one.power / 2)
        within = {e for one in sums for e in one.cells.tolist()}
        for e in range(len(self.gammas)):
            if e not in within:
                add(len(sums), np.array([e]), (1,), Fraction(0))

    def draw(self, size: int, stream: BitStream) -> MixtureScales:
        """Draw `size` sets of scales from the product law."""
        d, reals = len(self.gammas), LazyReals(stream)
        values = np.empty((size, 1, d))
        near = np.empty((size, 1, d), dtype=np.bool_)
        cells, sums = np.empty((size, 1, d), dtype=np.int64), np.empty((size, len(self.sums) + 1), dtype=np.int64)
        for law, members in self.kinds.items():
            part = law.draw(size * len(members), reals, stream)
            for n, (place, own) in enumerate(members):
                rows = slice(n * size, (n + 1) * size)
                values[:, 0, own], near[:, 0, own] = part.values[rows], part.near[rows]
                cells[:, 0, own], sums[:, place] = part.cells[rows], part.sums[rows]
        return MixtureScales(self, values, near, cells, reals, sums)

    def kept(self, size: int, stream: BitStream) -> MixtureScales:
        """Draw `size` sets of scales, and return the accepted ones."""
        scales = self.draw(size, stream)
        return scales[draw_bernoulli(scales.log_keep(), 2.0**-20, scales.enclose_keep, stream)]

    @property
    def first(self) -> int:
        """Number of cells whose scales an attempt draws first."""
        return len(self.gammas)

    def log_keep(self, values: Reals) -> Reals:
        """Return the log acceptance probability of each set of scales, with error at most 2^-20."""
        system = self.leverages
        t = values[:, 0]
        log_det, error = _log_determinants(t, system.A.shape[0], system.starts, system.rows, system.entries)
        for i in np.flatnonzero(~(error < ACCURATE)).tolist():
            with precision(512):
                log_det[i] = float(system.enclose_log_determinant([arb(x) for x in t[i].tolist()]))
        powers = np.log(t) @ np.array([float(g) for g in self.gammas])
        log_keep: Reals = 0.5 * (math.log(system.determinant) - log_det) + powers
        for one in self.sums:
            squares = one.entries.astype(np.float64) ** 2
            log_keep += float(one.power) / 2 * np.log(t[:, one.cells] @ squares / squares.sum())
        return log_keep

    def enclose_keep(self, t: list[list[arb]]) -> arb:
        """Enclose the acceptance probability of a set of scales."""
        log_keep = (ball(Fraction(self.leverages.determinant)).log() - self.leverages.enclose_log_determinant(t[0])) / 2
        for x, gamma in zip(t[0], self.gammas, strict=True):
            log_keep += x.log() * ball(gamma)
        for one in self.sums:
            squares = [a * a for a in one.entries.tolist()]
            total = sum((a * t[0][e] for a, e in zip(squares, one.cells.tolist(), strict=True)), start=arb(0))
            log_keep += (total / sum(squares)).log() * ball(one.power / 2)
        return log_keep.exp()

    def enclose_row(self, scales: MixtureScales, i: int, row: int) -> list[arb]:
        """Enclose a set of scales."""
        enclosures = [arb(0)] * len(self.gammas)
        for law, members in self.kinds.items():
            for place, own in members:
                at = i, slice(None), own
                part = Part(
                    scales.values[at].T, scales.near[at].T, scales.cells[at].T, scales.sums[i, place : place + 1]
                )
                for e, x in zip(own.tolist(), law.enclose(part, 0, scales.reals), strict=True):
                    enclosures[e] = x
        return enclosures

    @cached_property
    def loss(self) -> float:
        """Approximate decrease of the log acceptance rate by the excesses."""
        return sum(len(members) * law.loss for law, members in self.kinds.items())


@jit
def _log_determinants(t: Reals, n: int, starts: Integers, rows: Integers, entries: Reals) -> tuple[Reals, Reals]:
    """Return log det(A T A') and a bound on its error."""
    size, d = t.shape
    log_determinants, error = np.empty(size), np.empty(size)
    gram, inverse, scale = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    for draw in range(size):
        # the matrix A T A'
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
        # Cholesky factor of the matrix with unit diagonal, and the trace of its inverse
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
        log_determinants[draw] = log_det
        error[draw] = 2.0**-52 * (n + d + 4.0) * n * trace + 2.0**-50 * n * abs(log_det)
    return log_determinants, error
