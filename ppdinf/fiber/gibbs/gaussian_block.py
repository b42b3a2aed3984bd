"""Blocks of cells with a nearly Gaussian conditional law on the lattice of exact sums.

Updates along lines mix slowly if a sum of many cells is known accurately and its cells are not: an increase of one cell
must be compensated by another. Let cells be measured with Gaussian noise and be far from the ends of their supports.
Given all other cells, their law is nearly

    exp(g'u - u'Hu / 2)   on x + B u,   H = B' (Q' V^-1 Q + K) B,

with B a basis of the lattice that exact sums leave, V the variances of the sums Q x, K the precisions of the cells'
own measurements, and g the slope of the log weights at x, including the prior. Klein's algorithm draws u coordinate by
coordinate, each from a discrete Gaussian, with a probability that is known exactly. A Metropolis-Hastings step corrects
for all non-Gaussian terms and all terms that are not in H (`ppdinf.fiber.gibbs.joint_move`). With a step s < 1 the
proposal is ``u ~ N((1 - sqrt(1 - s^2)) H^-1 g, s^2 H^-1)``, which is reversible if the law is Gaussian.

P. Klein, "Finding the closest lattice vector when it's unusually close", SODA 2000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cholesky

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.lattice.structure.blocks import structure

AWAY = 4.0
"""Smallest distance of a cell from impossible counts, in standard deviations of its noise."""

FEWEST, MOST = 8, 1500
"""Smallest and largest number of cells of a block: smaller blocks use lines, larger ones a too large matrix."""

SMOOTH = 3.0
"""Variance from which the mass of a discrete Gaussian does not depend on its centre, within 1e-25."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]
type Block = tuple[Ints, Ints, Ints, Ints, Reals]
"""Cells; the basis by columns, ``indptr, indices, data``; R."""


@jit
def _log_mass(center: float, precision: float) -> float:
    """Return the log of the sum of ``exp(-precision (k - center)**2 / 2)`` over all integers k."""
    if precision * SMOOTH < 1.0:
        return 0.5 * np.log(2.0 * np.pi / precision)
    nearest, total = np.rint(center), 0.0
    for k in range(-20, 21):
        total += np.exp(-0.5 * precision * (nearest + k - center) ** 2)
    return np.log(total)


@jit
def _discrete_gaussian(center: float, precision: float, rng: np.random.Generator) -> int:
    """Draw an integer k with weight ``exp(-precision (k - center)**2 / 2)``, by rejection or from a list."""
    if precision * SMOOTH < 1.0:  # a wider normal, rounded: its real number, with known density, decides the acceptance
        sd = 1.0 / np.sqrt(precision)
        wider = sd + 0.5
        top = 0.25 / (2.0 * sd + 0.5)  # where ((|z| + 1/2) / wider)^2 - (z / sd)^2 is largest, half of it
        while True:
            real = wider * rng.standard_normal()
            k = np.rint(center + real)
            if np.log(1.0 - rng.random()) < 0.5 * (real / wider) ** 2 - 0.5 * precision * (k - center) ** 2 - top:
                return int(k)
    nearest = np.rint(center)
    left = rng.random() * np.exp(_log_mass(center, precision))
    for k in range(-20, 21):
        left -= np.exp(-0.5 * precision * (nearest + k - center) ** 2)
        if left < 0.0:
            return int(nearest) + k
    return int(nearest)


@jit
def _along(R: Reals, g: Reals, step: float) -> Reals:
    """Return ``R mean`` of a proposal, whose mean is a multiple of ``H^-1 g`` with ``H = R' R``."""
    z = (1.0 - np.sqrt(1.0 - step * step)) * g
    for i in range(z.size):  # solves R' z = g by rows of R
        z[i] /= R[i, i]
        for j in range(i + 1, z.size):
            z[j] -= R[i, j] * z[i]
    return z


@jit
def _rest(R: Reals, z: Reals, u: Ints, i: int) -> float:
    """Return the center of u_i given the later coordinates, times ``R[i, i]``."""
    rest = z[i]
    for j in range(i + 1, z.size):
        rest -= R[i, j] * u[j]
    return rest


@jit
def propose(R: Reals, g: Reals, step: float, rng: np.random.Generator, u: Ints) -> float:
    """Draw u by Klein's algorithm and return its log probability."""
    z, found = _along(R, g, step), 0.0
    for i in range(z.size - 1, -1, -1):
        center, precision = _rest(R, z, u, i) / R[i, i], (R[i, i] / step) ** 2
        u[i] = _discrete_gaussian(center, precision, rng)
        found -= 0.5 * precision * (u[i] - center) ** 2 + _log_mass(center, precision)
    return found


@jit
def log_probability(R: Reals, g: Reals, step: float, u: Ints) -> float:
    """Return the log of the probability that `propose` draws u."""
    z, found = _along(R, g, step), 0.0
    for i in range(z.size):
        center, precision = _rest(R, z, u, i) / R[i, i], (R[i, i] / step) ** 2
        found -= 0.5 * precision * (u[i] - center) ** 2 + _log_mass(center, precision)
    return found


@dataclass(frozen=True, eq=False)
class GaussianBlock:
    """Cells that are updated together."""

    cells: Ints
    basis: sp.csc_array
    root: Reals

    @property
    def arrays(self) -> Block:
        """Input of kernels: cells, the basis by columns, R."""
        b = self.basis
        return self.cells, b.indptr.astype(np.int64), b.indices.astype(np.int64), b.data.astype(np.int64), self.root


NOBODY = GaussianBlock(np.zeros(0, dtype=np.int64), sp.csc_array((0, 0), dtype=np.int64), np.zeros((0, 0)))
"""No cells."""


def gaussian_block(fiber: Fiber, precision: Reals, away: Reals) -> GaussianBlock:
    """Return the cells that can be updated together; none if noise of sums is not Gaussian or the cells are too few."""
    measured = fiber.coupling
    if not isinstance(measured, MeasuredSums) or measured.mixtures or (measured.precision == 0).any():
        return NOBODY
    far = np.multiply(away, np.sqrt(precision), out=np.zeros(precision.size), where=precision > 0)
    cells = np.sort(np.argsort(-far, kind="stable")[: min(MOST, int((far > AWAY).sum()))])
    if cells.size < FEWEST:
        return NOBODY
    exact = sp.csr_array(fiber.system.A)[:, cells]
    basis = structure(exact).lattice.basis if exact.shape[0] else sp.eye_array(cells.size, dtype=np.int64)
    Q = sp.csr_array(measured.matrix)[:, cells]
    H = (Q.T @ sp.diags_array(measured.precision) @ Q).toarray() + np.diag(precision[cells])
    root = cholesky(basis.T @ (H @ basis.toarray())) if basis.shape[1] else np.zeros((0, 0))
    return GaussianBlock(cells, sp.csc_array(basis), np.ascontiguousarray(root))
