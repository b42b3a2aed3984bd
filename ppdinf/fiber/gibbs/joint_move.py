"""Joint updates of a table and the parameters of its prior, with blocks of nearly Gaussian cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cholesky

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Reals
from ppdinf.fiber.gibbs.cell_quantiles import coarse_step, coarse_total, log_prior, log_total, quantile, shares
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.measured_sums import Measured, MeasuredSums, log_weight_of_all
from ppdinf.lattice.blocks import structure

type Ints = NDArray[np.int64]

AWAY = 4.0
"""Smallest distance of a cell from impossible counts, in standard deviations of its noise."""

FEWEST, MOST, WITH_PRIOR = 8, 1500, 100
"""Smallest and largest number of cells of a block (smaller blocks use lines, larger ones a too large matrix), and the
largest number if the prior changes, too: a sweep has hundreds of such moves."""

SMOOTH = 3.0
"""Variance from which the mass of a discrete Gaussian does not depend on its centre, within 1e-25."""

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
    for i in range(z.size):  # solves R' z = g by rows of R; slices, since only loops from 0 use vector instructions
        z[i] /= R[i, i]
        here, row, later = z[i], R[i, i + 1 :], z[i + 1 :]
        for j in range(later.size):
            later[j] -= row[j] * here
    return z


@jit(fastmath={"reassoc", "contract"})
def _dot(a: Reals, b: Reals) -> float:
    """Return the sum of products, added in any order."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@jit
def propose(R: Reals, g: Reals, step: float, rng: np.random.Generator, u: Reals, of_later: Reals) -> float:
    """Draw integers u by Klein's algorithm, write ``sum_{j > i} R_ij u_j``, and return the log probability of u."""
    z, found = _along(R, g, step), 0.0
    for i in range(z.size - 1, -1, -1):
        of_later[i] = _dot(R[i, i + 1 :], u[i + 1 :])
        center, precision = (z[i] - of_later[i]) / R[i, i], (R[i, i] / step) ** 2
        u[i] = _discrete_gaussian(center, precision, rng)
        found -= 0.5 * precision * (u[i] - center) ** 2 + _log_mass(center, precision)
    return found


@jit
def log_probability_back(R: Reals, g: Reals, step: float, u: Reals, of_later: Reals) -> float:
    """Return the log of the probability that `propose` draws -u; `of_later` is what it wrote for u."""
    z, found = _along(R, g, step), 0.0
    for i in range(z.size):
        center, precision = (z[i] + of_later[i]) / R[i, i], (R[i, i] / step) ** 2
        found -= 0.5 * precision * (u[i] + center) ** 2 + _log_mass(center, precision)
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


def gaussian_block(fiber: Fiber, precision: Reals, away: Reals, alone: bool) -> GaussianBlock:
    """Return the cells that can be updated together; none if noise of sums is not Gaussian or the cells are too few."""
    measured = fiber.coupling
    if not isinstance(measured, MeasuredSums) or measured.mixtures or (measured.precision == 0).any():
        return NOBODY
    far = np.multiply(away, np.sqrt(precision), out=np.zeros(precision.size), where=precision > 0)
    cells = np.sort(np.argsort(-far, kind="stable")[: min(MOST if alone else WITH_PRIOR, (far > AWAY).sum())])
    if cells.size < FEWEST:
        return NOBODY
    exact = sp.csr_array(fiber.system.A)[:, cells]
    basis = structure(exact).lattice.basis if exact.shape[0] else sp.eye_array(cells.size, dtype=np.int64)
    Q = sp.csr_array(measured.matrix)[:, cells]
    H = (Q.T @ sp.diags_array(measured.precision) @ Q).toarray() + np.diag(precision[cells])
    root = cholesky(basis.T @ (H @ basis.toarray())) if basis.shape[1] else np.zeros((0, 0))
    return GaussianBlock(cells, sp.csc_array(basis), np.ascontiguousarray(root))


FREE, HELD = -1, -2
"""Codes for no partner: a cell without exact sums is free; a cell with exact sums but without a partner is held."""

type Bounds = tuple[Ints, Ints, Ints]
type Noise = tuple[Reals, Reals, Ints, Ints, Ints, Reals]
type Prior = tuple[Reals, Reals, Reals, Reals]


@jit(inline="always")
def _add(x: Ints, sums: Ints, slack: Ints, cell: int, change: int, measured: Measured, bounds: Bounds) -> None:
    """Change one cell, and the sums and slacks that contain it."""
    x[cell] += change
    for j in range(measured[0][cell], measured[0][cell + 1]):
        sums[measured[1][j]] += change * measured[2][j]
    for j in range(bounds[0][cell], bounds[0][cell + 1]):
        slack[bounds[1][j]] += change * bounds[2][j]


@jit
def _slopes(
    x: Ints, sums: Ints, log_noise: Reals, lower: Ints, log_h: Reals, slope: Reals, measured: Measured, block: Block
) -> Reals:
    """Return the slope of the log weight along the basis of a block, by central differences, 0 at an end."""
    cells, first, rows, steps, root = block
    own, found = np.zeros(cells.size), np.zeros(root.shape[0])
    for k in range(cells.size):
        i = cells[k]
        at = x[i] - lower[i]
        if 1 <= at < log_noise.shape[1] - 1 and x[i] >= 1:
            rise = log_noise[i, at + 1] - log_noise[i, at - 1]
            rise += log_prior(x[i] + 1, log_h) - log_prior(x[i] - 1, log_h)
            if abs(rise) < np.inf:
                own[k] = 0.5 * rise + slope[i]
        for j in range(measured[0][i], measured[0][i + 1]):
            r = measured[1][j]
            own[k] += measured[2][j] * measured[4][r] * (measured[3][r] - sums[r])
    for c in range(root.shape[0]):
        for j in range(first[c], first[c + 1]):
            found[c] += steps[j] * own[rows[j]]
    return found


@jit
def _inside(x: Ints, cells: Ints, lower: Ints, log_noise: Reals) -> bool:
    """Return whether the given cells are within their windows."""
    for i in cells:
        if not 0 <= x[i] - lower[i] < log_noise.shape[1] or log_noise[i, x[i] - lower[i]] == -np.inf:
            return False
    return True


@jit
def _shift(
    x: Ints, sums: Ints, slack: Ints, u: Reals, sign: int, measured: Measured, bounds: Bounds, block: Block
) -> None:
    """Add ``sign B u`` to the cells of a block."""
    cells, first, rows, steps, root = block
    for c in range(root.shape[0]):
        if u[c] != 0:
            for j in range(first[c], first[c + 1]):
                _add(x, sums, slack, cells[rows[j]], sign * int(u[c]) * steps[j], measured, bounds)


@jit
def _change(
    x: Ints,
    sums: Ints,
    slack: Ints,
    cells: Ints,
    partner: Ints,
    changes: Ints,
    sign: int,
    measured: Measured,
    bounds: Bounds,
) -> None:
    """Add changes of single cells, times the sign, and subtract them from their partners."""
    for k in range(cells.size):
        if changes[k] != 0:
            _add(x, sums, slack, cells[k], sign * changes[k], measured, bounds)
            if partner[cells[k]] >= 0:
                _add(x, sums, slack, partner[cells[k]], -sign * changes[k], measured, bounds)


@jit
def joint_move(
    x: Ints,
    sums: Ints,
    slack: Ints,
    cells: Ints,
    partner: Ints,
    before: Prior,
    after: Prior,
    log_totals: Reals,
    noise: Noise,
    measured: Measured,
    bounds: Bounds,
    block: Block,
    step: float,
    log_ratio: float,
    anew: bool,
    rng: np.random.Generator,
) -> bool:
    """Propose new parameters and a table, and update x, sums and slack in place if they are accepted."""
    log_noise, linear, lower, falls, knots, _ = noise
    log_h, h, at_knots, slope = before
    log_h_new, h_new, at_knots_new, slope_new = after
    own, stayed = block[0], x[block[0]]
    changes, totals_new = np.zeros(cells.size, dtype=np.int64), np.full(cells.size, np.nan)
    shares_of_knots = np.empty(knots.shape[1])
    ratio, still = log_ratio, cells.size > 0
    # 1. single cells follow the parameters by their quantiles
    for k in range(cells.size):
        i = cells[k]
        if partner[i] == HELD:
            still = False
            ratio += log_prior(x[i], log_h_new) - log_prior(x[i], log_h) + (slope_new[i] - slope[i]) * x[i]
            continue
        if knots.shape[1] > 0:
            if np.isnan(log_totals[i]):
                log_totals[i] = coarse_total(at_knots[i], slope[i], lower[i], knots[i], shares_of_knots)
            count, more, totals_new[k] = coarse_step(
                log_noise[i], lower[i], knots[i], x[i], (log_h, at_knots[i], slope[i]),
                (log_h_new, at_knots_new[i], slope_new[i]), log_totals[i], shares_of_knots, rng.random(), anew,
            )  # fmt: skip
            changes[k], ratio = count - x[i], ratio + more
            still &= changes[k] == 0
            continue
        row, log_row = linear[i], log_noise[i]
        if np.isnan(log_totals[i]):
            log_totals[i] = log_total(row, log_row, lower[i], falls[i], log_h, h, slope[i])
        q = rng.random()
        if not anew:
            below, at = shares(row, log_row, lower[i], x[i], log_h, h, slope[i], log_totals[i])
            q = below + q * at
        totals_new[k] = log_total(row, log_row, lower[i], falls[i], log_h_new, h_new, slope_new[i])
        ratio += totals_new[k] - log_totals[i]
        changes[k] = quantile(row, log_row, lower[i], q, log_h_new, h_new, slope_new[i], totals_new[k]) - x[i]
        still &= changes[k] == 0
    if still:  # no cell changes, so the block does not change
        accepted = np.log(rng.random()) < ratio
        for k in range(cells.size if accepted else 0):
            log_totals[cells[k]] = totals_new[k]
        return accepted
    # 2. partners preserve exact sums
    ratio -= log_weight_of_all(sums, measured)
    _change(x, sums, slack, cells, partner, changes, 1, measured, bounds)
    if not _inside(x, own, lower, log_noise):  # partners may be outside of their windows
        _change(x, sums, slack, cells, partner, changes, -1, measured, bounds)
        return False
    # 3. the block, drawn given all other cells
    u, of_later = np.empty(block[4].shape[0]), np.empty(block[4].shape[0])
    slopes = _slopes(x, sums, log_noise, lower, log_h_new, slope_new, measured, block)
    forward = propose(block[4], slopes, step, rng, u, of_later)
    _shift(x, sums, slack, u, 1, measured, bounds, block)
    accepted = not (slack < 0).any() and _inside(x, own, lower, log_noise)
    if accepted:
        for k in range(own.size):
            i = own[k]
            ratio += log_noise[i, x[i] - lower[i]] - log_noise[i, stayed[k] - lower[i]]
            ratio += log_prior(x[i], log_h_new) + slope_new[i] * x[i]
            # the ratio of the parameters alone, as for held cells
            ratio -= log_prior(stayed[k], log_h_new) + slope_new[i] * stayed[k]
        ratio += log_weight_of_all(sums, measured)
    _change(x, sums, slack, cells, partner, changes, -1, measured, bounds)  # start of the reverse move
    accepted = accepted and _inside(x, own, lower, log_noise)
    if accepted:
        slopes = _slopes(x, sums, log_noise, lower, log_h, slope, measured, block)
        ratio += log_probability_back(block[4], slopes, step, u, of_later) - forward
        accepted = np.log(rng.random()) < ratio
    if accepted:
        _change(x, sums, slack, cells, partner, changes, 1, measured, bounds)
        for k in range(cells.size):
            log_totals[cells[k]] = totals_new[k]
    else:
        _shift(x, sums, slack, u, -1, measured, bounds, block)
    return accepted


@jit
def joint_moves(
    x: Ints,
    sums: Ints,
    slack: Ints,
    groups: tuple[Ints, Ints],
    which: Ints,
    partner: Ints,
    before: Prior,
    after: Prior,
    log_totals: Reals,
    noise: Noise,
    measured: Measured,
    bounds: Bounds,
    block: Block,
    step: float,
    log_ratios: Reals,
    anew: NDArray[np.bool_],
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """Update one group of cells after the other, and return which updates were accepted."""
    log_h, h, at_knots, slope = before
    log_h_new, h_new, at_knots_new, slope_new = after
    here, there, accepted = slope.copy(), slope.copy(), np.zeros(which.size, dtype=np.bool_)
    for n in range(which.size):
        cells = groups[1][groups[0][which[n]] : groups[0][which[n] + 1]]
        for i in cells:
            there[i] = slope_new[i]
        accepted[n] = joint_move(
            x, sums, slack, cells, partner, (log_h, h, at_knots, here), (log_h_new, h_new, at_knots_new, there),
            log_totals, noise, measured, bounds, block, step, log_ratios[n], anew[n], rng,
        )  # fmt: skip
        for i in cells:
            if accepted[n]:
                here[i] = there[i]
            else:
                there[i] = here[i]
    return accepted
