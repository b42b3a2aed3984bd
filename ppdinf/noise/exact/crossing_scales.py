r"""Scales of l1 noise on a two-way table: a product law over rows that dominates their law given both margins.

With `exp(-eps |z|)` as a mixture of Gaussians over their variance t, the scales of r x c cells whose rows and columns
sum to zero have weight

    prod_e exp(-eps^2 t_e / 2)  det(A T A')^(-1/2)  Y(T),      Y(T) <= (1 + kappa)^m prod_e (1 + excess(t_e))

(`ppdinf.noise.exact.crossing`). The rows are integrated out, det(A T A') = prod_i R_i det(sum_i R_i M(p_i)) with row
sums R_i, shares p_i and M(p) = diag p - p p' without a row and column, det M(p) = prod_j p_j. log det is concave, so

    det(A T A') >= r^(c-1) prod_i R_i^(1 - 1/r) prod_e t_e^(1/r),

and what is drawn is the product of the rows' laws ``R^-beta prod_j t_j^-gamma (1 + excess(t_j)) exp(-eps^2 t_j / 2)``,
gamma = 1/(2r), beta = (r-1)/(2r) (`ppdinf.noise.exact.crossing_sums`). The ratio of both sides of the inequality is the
probability to keep all scales, `log_keep`.
"""

import math
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.noise.bits.lazy import LazyReals
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.crossing_excess import Excess
from ppdinf.noise.exact.crossing_mixture import Scales
from ppdinf.noise.exact.crossing_sums import Part, SumScales

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
        r, c = shape
        gamma = Fraction(1, 2 * r)
        self.excess = Excess(epsilon, end, resistance, float(gamma))
        self.row = SumScales((gamma,) * c, (1,) * c, Fraction(r - 1, 2 * r), self.excess)

    def draw(self, size: int, tape: Tape) -> Scales:
        """Draw scales of so many tables from the product law."""
        r, c = self.shape
        reals, full = LazyReals(tape), (size, r, c)
        part = self.row.draw(size * r, reals, tape)
        values, near, cells = part.values.reshape(full), part.near.reshape(full), part.cells.reshape(full)
        return Scales(self, values, near, cells, reals, part.sums.reshape(size, r))

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
        return self.shape[0] * self.row.loss

    def enclose_row(self, scales: Scales, i: int, row: int) -> list[arb]:
        """Enclose the scales of a row."""
        part = Part(scales.values[i], scales.near[i], scales.cells[i], scales.sums[i])
        return self.row.enclose(part, row, scales.reals)


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
