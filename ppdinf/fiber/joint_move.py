"""Move a table and the parameters of its prior together, by Metropolis and Hastings.

Where little is known of cells, parameters given the cells move a little and cells given the parameters go along: what
both could do together takes hundreds of such turns. Here new parameters are proposed with a table to go with them:

1. *Single cells* keep their quantile. By prior and by what was measured of it alone, cell i has the weights
   ``w_i(x) = exp(noise_i(x) + log_h(x) + slope_i x)`` of total Z_i; a uniform number u within the step of x in their
   distribution function gives x' as its quantile under the new parameters. In terms of u the density of parameters is
   that times prod Z_i, with all that was measured of sums (an ancillary augmentation; Yu and Meng, JCGS 2011). Or u is
   drawn anew, and cells with it.
2. *Exact sums* are kept by a partner of the cell, which has the same ones: it gives what the cell gains.
3. *A block* of cells (`ppdinf.fiber.gaussian_block`) follows, drawn by Klein's algorithm given all others.

Without new parameters and cells that is a move of the block alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.fiber.gaussian_block import log_probability, propose

__all__ = ["FREE", "HELD", "joint_move"]

FREE, HELD = -1, -2
"""In place of a partner: a cell without exact sums needs none; one that has none to be had stays."""

LEAST, MOST = 1e-250, 1e250
"""Weights outside of these are summed in logarithms."""

NEGLIGIBLE = 1e-20
"""Share of the weights below which what only falls from there on is left out, count by count."""

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


@jit
def _split(
    row: Reals, log_row: Reals, lower: int, falls: int, x: int, log_h: Reals, h: Reals, slope: float
) -> tuple[float, float, float]:
    """Weights of the counts below x and of x, as shares of all, and the log of their sum.

    The row falls from a count on, and so does the prior once it does: (x + a) / (x + 1) goes to 1 from one side.
    """
    start = max(lower, 0)
    ratio, power, below, at, total = np.exp(slope), 1.0, 0.0, 0.0, 0.0
    for c in range(start, lower + row.size):
        weight = row[c - lower] * h[c] * power
        power *= ratio
        total += weight
        if c < x:
            below += weight
        elif c == x:
            at = weight
        elif c >= falls and weight < NEGLIGIBLE * total and h[c] * ratio < h[c - 1]:
            break
    if at > LEAST and total < MOST:
        return below / total, at / total, np.log(total) + slope * start
    top, below, at, total = -np.inf, 0.0, 0.0, 0.0
    for c in range(start, lower + row.size):
        top = max(top, log_row[c - lower] + log_h[c] + slope * c)
    for c in range(start, lower + row.size):
        weight = np.exp(log_row[c - lower] + log_h[c] + slope * c - top)
        total += weight
        if c < x:
            below += weight
        elif c == x:
            at = weight
    return below / total, at / total, np.log(total) + top


@jit
def _quantile(row: Reals, log_row: Reals, lower: int, u: float, log_h: Reals, slope: float, log_total: float) -> int:
    """Smallest count whose share of the weights, with those below, exceeds u."""
    last = -1
    for c in range(max(lower, 0), lower + row.size):
        if log_row[c - lower] > -np.inf:
            last = c
            u -= np.exp(log_row[c - lower] + log_h[c] + slope * c - log_total)
            if u < 0.0:
                return c
    return last


@jit
def _log_sums(sums: Ints, measured: Any) -> float:
    """Log weight of everything measured of sums."""
    _, _, _, y, precision, rate, ends, first, log_weights = measured
    found = 0.0
    for i in range(sums.size):
        away = float(y[i] - sums[i])
        found -= 0.5 * precision[i] * away * away + rate[i] * abs(away)
        size = ends[i + 1] - ends[i]
        if size > 0 and precision[i] == 0.0 and rate[i] == 0.0:
            at = sums[i] - first[i]
            if not 0 <= at < size:
                return -np.inf
            found += log_weights[ends[i] + at]
    return found


@jit
def _add(x: Ints, sums: Ints, slack: Ints, cell: int, change: int, measured: Any, bounds: Any) -> None:
    """Change one cell, and the sums and slacks that hold it."""
    x[cell] += change
    for j in range(measured[0][cell], measured[0][cell + 1]):
        sums[measured[1][j]] += change * measured[2][j]
    for j in range(bounds[0][cell], bounds[0][cell + 1]):
        slack[bounds[1][j]] += change * bounds[2][j]


@jit
def _slopes(
    x: Ints, sums: Ints, log_noise: Reals, lower: Ints, log_h: Reals, slope: Reals, measured: Any, block: Any
) -> Reals:
    """Slope of the log weight along the basis of a block; that of a cell by central differences, 0 at an end."""
    cells, first, rows, steps, root = block
    own, found = np.zeros(cells.size), np.zeros(root.shape[0])
    for k in range(cells.size):
        i = cells[k]
        at = x[i] - lower[i]
        if 1 <= at < log_noise.shape[1] - 1 and x[i] >= 1:
            rise = log_noise[i, at + 1] - log_noise[i, at - 1] + log_h[x[i] + 1] - log_h[x[i] - 1]
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
    """Whether some cells are within their windows."""
    for i in cells:
        if not 0 <= x[i] - lower[i] < log_noise.shape[1] or log_noise[i, x[i] - lower[i]] == -np.inf:
            return False
    return True


@jit
def _shift(x: Ints, sums: Ints, slack: Ints, u: Ints, sign: int, measured: Any, bounds: Any, block: Any) -> None:
    """Add ``sign B u`` to the cells of a block."""
    cells, first, rows, steps, root = block
    for c in range(root.shape[0]):
        if u[c] != 0:
            for j in range(first[c], first[c + 1]):
                _add(x, sums, slack, cells[rows[j]], sign * u[c] * steps[j], measured, bounds)


@jit
def joint_move(
    x: Ints,
    sums: Ints,
    slack: Ints,
    cells: Ints,
    partner: Ints,
    before: Any,
    after: Any,
    noise: Any,
    measured: Any,
    bounds: Any,
    block: Any,
    step: float,
    log_ratio: float,
    anew: bool,
    rng: Any,
) -> bool:
    """Propose new parameters and a table, and move x, sums and slack in place where that is accepted.

    Parameters
    ----------
    x : array of int64, shape (d,)
    sums, slack : arrays of int64
        ``Q x`` and ``B x - b``.
    cells : array of int64
        Those whose weights the parameters change, apart from cells that cannot vary.
    partner : array of int64, shape (d,)
        Cell of the block with the same exact sums, or `FREE`, or `HELD`; cells of the block are held.
    before, after : tuple of three arrays
        ``log_h``, ``exp(log_h)`` and ``slope``, shape (d,), of the old and the new parameters.
    noise : tuple of four arrays
        Log weights of what was measured of every cell, shape (d, width), the largest of each 0; their exponentials; the
        least counts, and those from which on weights fall.
    measured : tuple of arrays
        `MeasuredSums.arrays`, scales of l2 noise given.
    bounds : tuple of three arrays
        ``indptr, indices, data`` of B by columns.
    block : tuple of arrays
        `GaussianBlock.arrays`.
    step : float
        Of the block.
    log_ratio : float
        Of the new parameters' density over the old ones', factors of the weights that do not depend on counts included.
    anew : bool
        Whether single cells are drawn anew, in place of keeping their quantiles.
    rng : numpy.random.Generator
    """
    log_noise, linear, lower, falls = noise
    log_h, h, slope = before
    log_h_new, h_new, slope_new = after
    there, its_sums, its_slack = x.copy(), sums.copy(), slack.copy()
    ratio = log_ratio + 0.0
    for i in cells:
        if partner[i] == HELD:
            ratio += log_h_new[x[i]] - log_h[x[i]] + (slope_new[i] - slope[i]) * x[i]
            continue
        row, log_row = linear[i], log_noise[i]
        below, at, log_total = _split(row, log_row, lower[i], falls[i], x[i], log_h, h, slope[i])
        u = rng.random() if anew else below + rng.random() * at
        _, _, log_total_new = _split(row, log_row, lower[i], falls[i], x[i], log_h_new, h_new, slope_new[i])
        ratio += log_total_new - log_total
        change = _quantile(row, log_row, lower[i], u, log_h_new, slope_new[i], log_total_new) - x[i]
        if change != 0:
            _add(there, its_sums, its_slack, i, change, measured, bounds)
            if partner[i] >= 0:
                _add(there, its_sums, its_slack, partner[i], -change, measured, bounds)
    u = np.zeros(block[4].shape[0], dtype=np.int64)
    if not _inside(there, block[0], lower, log_noise):  # partners may have gone where their windows end
        return False
    forward = propose(
        block[4], _slopes(there, its_sums, log_noise, lower, log_h_new, slope_new, measured, block), step, rng, u
    )
    _shift(there, its_sums, its_slack, u, 1, measured, bounds, block)
    for i in its_slack:
        if i < 0:
            return False
    if not _inside(there, block[0], lower, log_noise):
        return False
    for i in block[0]:
        ratio += log_noise[i, there[i] - lower[i]] - log_noise[i, x[i] - lower[i]]
        ratio += log_h_new[there[i]] + slope_new[i] * there[i]
        ratio -= log_h_new[x[i]] + slope_new[i] * x[i]  # as for cells that are held, the parameters alone come above
    ratio += _log_sums(its_sums, measured) - _log_sums(sums, measured)
    if not ratio > -np.inf:
        return False
    back, back_sums, back_slack = x.copy(), sums.copy(), slack.copy()
    _shift(back, back_sums, back_slack, u, 1, measured, bounds, block)
    if not _inside(back, block[0], lower, log_noise):
        return False
    slopes = _slopes(back, back_sums, log_noise, lower, log_h, slope, measured, block)
    ratio += log_probability(block[4], slopes, step, -u) - forward
    if not np.log(rng.random()) < ratio:
        return False
    x[:], sums[:], slack[:] = there, its_sums, its_slack
    return True
