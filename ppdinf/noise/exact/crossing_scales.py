r"""Scales of l1 noise on a two-way table: a product law over rows that dominates their law given both margins.

With `exp(-eps |z|)` as a mixture of Gaussians over their variance t, the scales of r x c cells whose rows and columns
sum to zero have weight

    prod_e exp(-eps^2 t_e / 2)  det(A T A')^(-1/2)  Y(T),      Y(T) <= (1 + kappa)^m prod_e (1 + excess(t_e))

(`ppdinf.noise.exact.crossing`). The rows are integrated out, det(A T A') = prod_i R_i det(sum_i R_i M(p_i)) with row
sums R_i, shares p_i and M(p) = diag p - p p' without a row and column, det M(p) = prod_j p_j. log det is concave, so

    det(A T A') >= r^(c-1) prod_i R_i^(1 - 1/r) prod_e t_e^(1/r),

and what is drawn is the product of the rows' laws ``R^-beta prod_j t_j^-gamma (1 + excess(t_j)) exp(-eps^2 t_j / 2)``,
gamma = 1/(2r), beta = (r-1)/(2r): n cells take part by their excess, each near zero; the sum of the others is Gamma
with its shape lowered by beta, a beta variable times a Gamma sum; (R_others / R)^beta is kept. The ratio of both
sides of the inequality is the probability to keep all scales, `log_keep`.
"""

import math
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.noise.bits.coins import toss
from ppdinf.noise.bits.integers import uniform_integers
from ppdinf.noise.bits.lazy import LazyReals
from ppdinf.noise.bits.settle import integer_bounds, precision, settle
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.crossing_excess import LOG_ERROR, Excess
from ppdinf.noise.exact.crossing_mixture import Scales
from ppdinf.noise.exact.gamma import betas, enclose_beta, enclose_gamma, gammas
from ppdinf.rationals import ball

__all__ = ["RowScales", "enclose_column_determinant"]


class RowScales:
    """The law of the scales of an r x c table.

    Parameters
    ----------
    shape : tuple of int
        r and c, both at least 2.
    epsilon : Fraction
    end, resistance : Fraction
        The excess at t is ``theta3(1 / (1/t + resistance)) / theta3(1 / (1/end + resistance)) - 1`` below `end`,
        and 0 beyond.
    """

    def __init__(self, shape: tuple[int, int], epsilon: Fraction, end: Fraction, resistance: Fraction) -> None:
        self.shape = shape
        r, _ = shape
        self.rate = epsilon**2 / 2
        self.gamma, self.beta = Fraction(1, 2 * r), Fraction(r - 1, 2 * r)
        self.excess = Excess(epsilon, end, resistance, float(self.gamma))
        self._tables = lru_cache(maxsize=2)(self._enclosed_counts)

    def draw(self, size: int, tape: Tape) -> Scales:
        """Draw scales of so many tables from the product law."""
        r, c = self.shape
        reals = LazyReals(tape)
        values, near = np.empty((size * r, c)), np.empty((size * r, c), dtype=np.bool_)
        cells, rows = np.empty((size * r, c), dtype=np.int64), np.empty(size * r, dtype=np.int64)
        waiting = np.arange(size * r)
        while waiting.size:
            found = self._propose(waiting.size, reals, tape)
            kept = self._kept(found, tape)
            into = waiting[kept]
            values[into], near[into] = found.values[0][kept], found.near[0][kept]
            cells[into], rows[into] = found.cells[0][kept], found.rows[0][kept]
            waiting = waiting[~kept]
        full = (size, r, c)
        return Scales(self, values.reshape(full), near.reshape(full), cells.reshape(full), reals, rows.reshape(size, r))

    def log_keep(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log probability to keep each set of scales, to 2^-20."""
        return _log_keep(values)

    def enclose_keep(self, t: list[list[arb]]) -> arb:
        """Enclose the probability to keep one set of scales."""
        r, c = self.shape
        sums = [sum(row, start=arb(0)) for row in t]
        logs = sum((x.log() for row in t for x in row), start=arb(0))
        log_sums = sum((x.log() for x in sums), start=arb(0))
        free = (c - 1) * arb(r).log() + (logs - log_sums) / r
        return ((free - enclose_column_determinant(t).log()) / 2).exp()

    @property
    def loss(self) -> float:
        """Log of the share of attempts, about, that excesses cost."""
        return math.prod(self.shape) * self.excess.loss(float(self.gamma))

    def enclose_row(self, scales: Scales, i: int, row: int) -> list[arb]:
        """Enclose the scales of a row."""
        near = scales.near[i, row]
        shrink = (-enclose_beta(self.beta, scales.reals.enclose(int(scales.rows[i, row]))) / self._lowered(near)).exp()
        found = []
        for is_near, place in zip(near.tolist(), scales.cells[i, row].tolist(), strict=True):
            y = scales.reals.enclose(place)
            if is_near:
                found.append(enclose_gamma(Fraction(1, 2) - self.gamma, y) / ball(Fraction(self.excess.bounded[0])))
            else:
                found.append(enclose_gamma(1 - self.gamma, y) * shrink / ball(self.rate))
        return found

    def _lowered(self, near: NDArray[np.bool_]) -> arb:
        return ball(int((~near).sum()) * (1 - self.gamma) - self.beta)

    def _propose(self, size: int, reals: LazyReals, tape: Tape) -> Scales:
        """Draw rows, some of which are to be dropped."""
        _, c = self.shape
        counts = self._draw_counts(size, tape)
        near = self._choose(counts, tape)
        values, cells = np.empty((size, c)), np.empty((size, c), dtype=np.int64)
        number = int(counts.sum())
        values[~near], cells[~near] = gammas(1 - self.gamma, size * c - number, reals, tape)
        values[near], cells[near] = gammas(Fraction(1, 2) - self.gamma, number, reals, tape)
        exact = [n * (1 - self.gamma) - self.beta for n in range(c + 1)]
        others = c - counts
        a = np.array([float(x) for x in exact])[others]
        x, rows = betas(a, [exact[n] for n in others.tolist()], self.beta, reals, tape)
        values *= np.where(near, 1 / self.excess.bounded[0], (np.exp(-x / a) / float(self.rate))[:, np.newaxis])
        return Scales(self, values[np.newaxis], near[np.newaxis], cells[np.newaxis], reals, rows[np.newaxis])

    def _kept(self, found: Scales, tape: Tape) -> NDArray[np.bool_]:
        """Keep rows whose excess is as it should be, with (R_others / R)^beta."""
        values, near = found.values[0], found.near[0]
        kept = np.ones(len(values), dtype=np.bool_)
        rows, columns = np.nonzero(near)
        if not rows.size:
            return kept
        good = self.excess.kept(
            values[rows, columns], lambda k: self.enclose_row(found, 0, int(rows[k]))[int(columns[k])], tape
        )
        kept[rows[~good]] = False
        mixed = np.flatnonzero(near.any(axis=1) & kept)
        log_ratio = np.log(np.where(near[mixed], 0.0, values[mixed]).sum(axis=1) / values[mixed].sum(axis=1))

        def enclose(k: int) -> arb:
            t = self.enclose_row(found, 0, int(mixed[k]))
            own = sum((x for x, is_near in zip(t, near[mixed[k]].tolist(), strict=True) if not is_near), start=arb(0))
            return ((own / sum(t, start=arb(0))).log() * ball(self.beta)).exp()

        kept[mixed] = toss(float(self.beta) * log_ratio, 4 * LOG_ERROR, enclose, tape)
        return kept

    # -- how many cells of a row are drawn by their excess ------------------------------------------------

    def _draw_counts(self, size: int, tape: Tape) -> NDArray[np.int64]:
        words = tape(size)
        u = words * 2.0**-64
        counts = np.searchsorted(self.cumulative, u, side="right")
        near = np.abs(self.cumulative[np.minimum(counts, self.cumulative.size - 1)] - u) <= 2.0**-40
        near |= (counts > 0) & (np.abs(self.cumulative[np.maximum(counts - 1, 0)] - u) <= 2.0**-40)
        for i in np.flatnonzero(near | (counts == self.cumulative.size)).tolist():
            counts[i] = settle(words[i], 64, tape, self._find_count)
        return counts

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Weights of 0, 1, ... cells drawn by the bound of their excess, beside that of none."""
        with precision(64):
            weights = self._enclosed_weights()
            return np.array([float(w / weights[0]) for w in weights])

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """Distribution function of that number."""
        sums = np.cumsum(self.weights)
        return sums / sums[-1]

    def _enclosed_weights(self) -> list[arb]:
        _, c = self.shape
        a = 1 - self.gamma
        near = ball(Fraction(1, 2) - self.gamma)
        each = (
            ball(Fraction(self.excess.bounded[1]))
            * near.gamma()
            * (-near * ball(Fraction(self.excess.bounded[0])).log()).exp()
        )
        found = []
        for n in range(c):
            shape = ball((c - n) * a)
            rest = shape - ball(self.beta)
            log = rest.lgamma() - shape.lgamma() + (c - n) * ball(a).lgamma() - rest * ball(self.rate).log()
            found.append(math.comb(c, n) * each**n * log.exp())
        return found

    def _enclosed_counts(self, bits: int) -> list[tuple[int, int]]:
        with precision(bits):
            weights = self._enclosed_weights()
            total, sums, found = sum(weights, start=arb(0)), arb(0), [(0, 0)]
            for weight in weights[:-1]:
                sums += weight
                found.append(integer_bounds(sums / total * 2**bits))
            return [*found, (2**bits, 2**bits)]

    def _find_count(self, word: int, bits: int) -> int | None:
        bounds = self._tables(bits)
        for n in range(len(bounds) - 1):
            if bounds[n][1] <= word < bounds[n + 1][0]:
                return n
        return None

    def _choose(self, counts: NDArray[np.int64], tape: Tape) -> NDArray[np.bool_]:
        """Choose so many cells of each row."""
        _, c = self.shape
        chosen = np.zeros((counts.size, c), dtype=np.bool_)
        for step in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > step)
            rank = uniform_integers(np.full(rows.size, c - step), tape)
            free = np.cumsum(~chosen[rows], axis=1) - 1
            chosen[rows, np.argmax((free == rank[:, np.newaxis]) & ~chosen[rows], axis=1)] = True
        return chosen


def enclose_column_determinant(t: list[list[arb]]) -> arb:
    """Enclose det(sum_i R_i M(p_i)), the last column left out."""
    c = len(t[0])
    rows = arb_mat(t)
    sums = [sum(row, start=arb(0)) for row in t]
    scaled = arb_mat([[x / own for x in row] for row, own in zip(t, sums, strict=True)])
    outer = rows.transpose() * scaled
    columns = [sum((row[j] for row in t), start=arb(0)) for j in range(c)]
    return arb_mat(
        [[(columns[j] if j == k else arb(0)) - outer[j, k] for k in range(c - 1)] for j in range(c - 1)]
    ).det()


@jit
def _log_keep(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the log of r^(c-1) prod_i R_i^(-1/r) prod_e t_e^(1/r) / det, by star-mesh steps: nothing cancels."""
    size, r, c = values.shape
    out = np.empty(size)
    mesh, logs = np.empty((c, c)), 0.0
    for n in range(size):
        mesh[:] = 0.0
        logs = 0.0
        for i in range(r):
            total, product = 0.0, 1.0
            for j in range(c):
                total += values[n, i, j]
                product *= values[n, i, j]
                if product < 1e-200 or product > 1e200:
                    logs += math.log(product)
                    product = 1.0
            logs += math.log(product) - math.log(total)
            for j in range(c):
                share = values[n, i, j] / total
                for k in range(j):
                    mesh[j, k] += share * values[n, i, k]
        log_det = 0.0
        for j in range(c - 1, 0, -1):
            pivot = 0.0
            for k in range(j):
                pivot += mesh[j, k]
            log_det += math.log(pivot)
            for k in range(j):
                share = mesh[j, k] / pivot
                for other in range(k):
                    mesh[k, other] += share * mesh[j, other]
        out[n] = 0.5 * ((c - 1) * math.log(r) + logs / r - log_det)
    return out
