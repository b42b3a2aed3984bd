r"""Scales of l1 noise on a two-way table: a dominating product law over rows, given both margins.

With `exp(-eps |z|)` as a mixture of Gaussians over their variance t, the scales of r x c cells whose rows and columns
sum to zero have weight

    prod_e exp(-eps^2 t_e / 2)  det(A T A')^(-1/2)  Y(T),      Y(T) <= (1 + kappa)^m prod_e (1 + excess(t_e))

(`ppdinf.noise.exact.scale_mixture.two_way_laplace`). The rows are integrated out: det(A T A') = prod_i R_i det(sum_i
R_i M(p_i)) with row sums R_i, shares p_i and M(p) = diag p - p p' without a row and column, det M(p) = prod_j p_j.
Because log det is concave,

    det(A T A') >= r^(c-1) prod_i R_i^(1 - 1/r) prod_e t_e^(1/r).

The proposal is the product of the rows' laws ``R^-beta prod_j t_j^-gamma (1 + excess(t_j)) exp(-eps^2 t_j / 2)``,
gamma = 1/(2r), beta = (r-1)/(2r) (`ppdinf.noise.exact.scale_mixture.sum_scales`). The square root of the ratio of the
two sides is the acceptance probability of all scales, `log_keep`.

*In stages.* Let f(K), for a set K of rows, be |K| times the loss by concavity among these rows alone,

    f(K) = |K| [log det(sum over K of R_i M(p_i) / |K|) - the mean over K of log det(R_i M(p_i))].

All scales are accepted with probability exp(-f(all) / 2r), and concavity gives f(K + L) >= f(K) + f(L). Rows are
therefore drawn in stages. With K drawn and L added, the table continues with probability exp(-(f(K + L) - f(K)) / 2r).
The product of the probabilities is the target, and most tables are rejected after few rows.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.noise.exact.scale_mixture.excess import Excess
from ppdinf.noise.exact.scale_mixture.mixture import MixtureScales
from ppdinf.noise.exact.scale_mixture.sum_scales import Part, SumScales
from ppdinf.noise.primitives.bernoulli import draw_bernoulli
from ppdinf.noise.primitives.lazy_reals import LazyReals
from ppdinf.noise.primitives.stream import BitStream

LOST_BY_COLUMN = 0.27  # approximate log loss by concavity per column
STAGE = 0.8  # log loss before the next rows of a table are drawn


class RowScales:
    """The law of the scales of an r x c table."""

    def __init__(self, shape: tuple[int, int], epsilon: Fraction, end: Fraction, resistance: Fraction) -> None:
        self.shape = shape
        r, c = shape
        gamma = Fraction(1, 2 * r)
        self.excess = Excess(epsilon, end, resistance, float(gamma))
        self.row = SumScales((gamma,) * c, (1,) * c, Fraction(r - 1, 2 * r), self.excess)
        number = min(r // 2, max(1, round(c * LOST_BY_COLUMN / STAGE)))
        self.stages = np.diff(np.linspace(0, r, number + 1).round().astype(int)).tolist()  # number of rows per stage
        self.first = self.stages[0] * c

    def draw(self, size: int, stream: BitStream) -> MixtureScales:
        """Draw scales of `size` tables from the product law."""
        return self._rows(self.shape[0], size, LazyReals(stream), stream)

    def kept(self, size: int, stream: BitStream) -> MixtureScales:
        """Draw scales of `size` tables in stages of rows, and return the accepted ones."""
        reals = LazyReals(stream)
        scales, log_kept = self._rows(0, size, reals, stream), np.zeros(size)
        for rows in self.stages:
            longer = scales.concatenate_rows(self._rows(rows, log_kept.size, reals, stream))
            log_keep = longer.log_keep()
            share = partial(_enclose_share, longer, scales)
            on = draw_bernoulli(log_keep - log_kept, 2.0**-19, share, stream)
            scales, log_kept = longer[on], log_keep[on]
        return scales

    def _rows(self, rows: int, size: int, reals: LazyReals, stream: BitStream) -> MixtureScales:
        full = size, rows, self.shape[1]
        part = self.row.draw(size * rows, reals, stream)
        values, near, cells = part.values.reshape(full), part.near.reshape(full), part.cells.reshape(full)
        return MixtureScales(self, values, near, cells, reals, part.sums.reshape(size, rows))

    def log_keep(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log acceptance probability of each set of scales, or of its first rows, within 2^-20."""
        return _log_keep(values, self.shape[0])

    def enclose_keep(self, t: list[list[arb]]) -> arb:
        """Enclose the acceptance probability of one set of scales, or of its first rows."""
        rows, c = len(t), self.shape[1]
        if not rows:
            return arb(1)
        sums = [sum(row, start=arb(0)) for row in t]
        logs = sum((x.log() for row in t for x in row), start=arb(0))
        log_sums = sum((x.log() for x in sums), start=arb(0))
        free = (c - 1) * arb(rows).log() + (logs - log_sums) / rows
        return ((free - enclose_column_determinant(t).log()) * rows / (2 * self.shape[0])).exp()

    @property
    def loss(self) -> float:
        """Approximate decrease of the log acceptance rate by the excesses and by concavity."""
        return self.shape[0] * self.row.loss + self.shape[1] * LOST_BY_COLUMN

    def enclose_row(self, scales: MixtureScales, i: int, row: int) -> list[arb]:
        """Enclose the scales of a row."""
        part = Part(scales.values[i], scales.near[i], scales.cells[i], scales.sums[i])
        return self.row.enclose(part, row, scales.reals)


def _enclose_share(longer: MixtureScales, scales: MixtureScales, i: int) -> arb:
    """Enclose the probability to continue with further rows."""
    return longer.enclose_keep(i) / scales.enclose_keep(i)


def enclose_column_determinant(t: list[list[arb]]) -> arb:
    """Enclose det(sum_i R_i M(p_i)) without the last column."""
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
def _log_keep(values: NDArray[np.float64], of: int) -> NDArray[np.float64]:
    """Return log (r^(c-1) prod_i R_i^(-1/r) prod_e t_e^(1/r) / det)^(r / 2 of), by star-mesh steps."""
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
        out[n] = 0.5 * r / of * ((c - 1) * math.log(r) + logs / r - log_det)
    return out
