"""Sums of independent windowed integers, given their totals: log coefficients, marginals and exact draws."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.sums_given_totals.cell_windows import (
    Weights,
    WindowRows,
    exp_of,
    probabilities,
    relevant_cut,
    row_of,
    rows_within,
    slack_for,
    tilted,
    upper_envelope,
    vectorised,
    windows_of,
)
from ppdinf.fiber.sums_given_totals.cumulants import MANY as MANY
from ppdinf.fiber.sums_given_totals.fourier import by_convolution
from ppdinf.fiber.sums_given_totals.frequency_grids import FEW as FEW
from ppdinf.fiber.sums_given_totals.frequency_grids import FEWEST as FEWEST
from ppdinf.fiber.sums_given_totals.frequency_grids import NO_GRIDS
from ppdinf.fiber.sums_given_totals.frequency_grids import Grids as Grids
from ppdinf.fiber.sums_given_totals.frequency_grids import grids_of as grids_of
from ppdinf.fiber.sums_given_totals.frequency_polynomials import WIDEST as WIDEST
from ppdinf.fiber.sums_given_totals.gauss_nodes import NO_NODES
from ppdinf.fiber.sums_given_totals.gauss_nodes import NodePieces as NodePieces
from ppdinf.fiber.sums_given_totals.gauss_nodes import node_pieces as node_pieces
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import NO_PIECES
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import Pieces as Pieces
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import pieces_of as pieces_of
from ppdinf.fiber.sums_given_totals.value_and_gradient import evaluate, grouped, log_weight_of_zero


@vectorised
def _invert(cdf: NDArray, u: float) -> int:
    """Return the first entry above a share u of the last entry; no branch depends on the entries."""
    low, size = 0, cdf.size
    u *= cdf[size - 1]
    while size > 1:
        half = size // 2
        low += half * (cdf[low + half - 1] <= u)
        size -= half
    return low


@vectorised
def _cumulate(row: NDArray) -> None:
    for k in range(1, row.size):
        row[k] += row[k - 1]


@vectorised
def _untilted(
    w: Weights, cells: NDArray, target: int, first: NDArray, last: NDArray
) -> tuple[WindowRows, NDArray, float, bool]:
    """Return weights within windows, variances, log_z, and whether the mean sum is within two sd of the target."""
    rows, var = rows_within(w, cells, 0.0, first[cells], last[cells]), np.empty(cells.size)
    log_z = spread = 0.0
    room = slack_for(rows, target)
    gap = 1.0 * room
    for i in range(cells.size):
        row = row_of(rows, i)
        if not row.size:
            return rows, var, -np.inf, False
        top = row[0]
        for k in range(row.size):
            top = row[k] if row[k] > top else top
        for k in range(row.size):
            row[k] -= top
        log_z += top
    for k in range(rows.p.size):  # all cells in one loop, which is vectorized
        rows.p[k] = exp_of(rows.p[k])
    for i in range(cells.size):
        mass = mean = square = at = 0.0
        for p in row_of(rows, i):
            mass += p
            mean += at * p
            square += at * at * p
            at += 1.0
        mean /= mass
        var[i] = max(square / mass - mean * mean, 0.0)
        log_z += np.log(mass)
        gap -= mean
        spread += var[i]
    inside = 0 < room < rows.p.size - cells.size
    return rows, var, log_z, inside and log_z > -np.inf and abs(gap) <= 2.0 * np.sqrt(spread)


@vectorised
def _draw_block(
    w: Weights, cells: NDArray, target: int, first: NDArray, last: NDArray, rng: np.random.Generator, out: NDArray
) -> bool:
    """Write offsets of the cells of a block into ``out[:, cells]``; return False if no table has this total."""
    d, tilt = cells.size, 0.0
    rows, var, log_z, near = _untilted(w, cells, target, first, last)
    if not near:
        rows, _, var, tilt, log_z = tilted(w, cells, target)
    if not log_z > -np.inf:
        return False
    room, widest, top = slack_for(rows, target), 0, 0.0
    for i in range(d):
        widest = i if var[i] > var[widest] else widest
    own = row_of(rows, widest).copy() if d else rows.p
    for k in range(own.size):
        top = max(top, own[k])
    for i in range(d):
        _cumulate(row_of(rows, i))
    n, attempts = 0, 1000 + 10 * d
    while n < out.shape[0] and attempts > 0:
        rest = room
        for i in range(d):
            if i != widest:
                k = _invert(row_of(rows, i), rng.random())
                out[n, cells[i]] = rows.first[i] + k
                rest -= k
        attempts -= 1
        if 0 <= rest < own.size and rng.random() * top < own[rest]:
            out[n, cells[widest]] = rows.first[widest] + rest
            n, attempts = n + 1, 1000 + 10 * d
    if n == out.shape[0]:
        return True
    value, rows, partial = by_convolution(w, cells, target, tilt, log_z)
    while n < out.shape[0] and value > -np.inf:
        rest = slack_for(rows, target)
        for i in range(d - 1, -1, -1):
            row, u, chosen = row_of(rows, i), rng.random(), 0
            for k in range(min(row.size, rest + 1)):
                share = np.exp(partial[i, rest - k] + row[k] - partial[i + 1, rest])
                if share > 0.0 and u >= 0.0:
                    chosen = k
                u -= share
            out[n, cells[i]] = rows.first[i] + chosen
            rest -= chosen
        n += 1
    return value > -np.inf


@vectorised
def draw_tables(
    logw: NDArray,
    eta: NDArray,
    lid: NDArray,
    lo: NDArray,
    block: NDArray,
    total: NDArray,
    rng: np.random.Generator,
    out: NDArray,
) -> int:
    """Write a table into ``out[n]`` for row n of ``eta``; return -1, or the first block with an impossible total."""
    n, d = eta.shape
    # cells whose natural parameter is -inf are 0; windows of the others, from the smallest and largest parameter
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for k in range(n):
        for i in range(d):
            if eta[k, i] > -np.inf:
                low[i], high[i] = min(low[i], eta[k, i]), max(high[i], eta[k, i])
            else:
                out[k, :, i] = -lo[i]
                if not log_weight_of_zero(logw[i], lo[i]) > -np.inf:
                    return block[i] if block[i] >= 0 else total.size
    for i in range(d):
        if not low[i] < np.inf:
            low[i] = high[i] = 0.0
    row, cut = np.arange(d), relevant_cut(d, logw.shape[1])
    first, _ = windows_of(Weights(logw, lid, row, low), row, 0.0, cut)
    _, last = windows_of(Weights(logw, lid, row, high), row, 0.0, cut)
    # all draws of a block before the next block, whose weights then remain in the cache of the processor
    order, bounds = grouped(block, total.size, np.zeros(d))
    for b in range(total.size):
        members = order[bounds[b] : bounds[b + 1]]
        for k in range(n):
            cells = members[eta[k][members] > -np.inf]
            target = total[b]
            for i in cells:
                target -= lo[i]
            if not _draw_block(Weights(logw, lid, row, eta[k]), cells, target, first, last, rng, out[k]):
                return b
    for at in range(bounds[total.size], d):
        i = order[at]
        for k in range(n):
            if eta[k, i] > -np.inf:
                rows, log_z = probabilities(Weights(logw, lid, row, eta[k]), order[at : at + 1], 0.0)
                if not log_z > -np.inf:
                    return total.size
                _cumulate(rows.p)
                for j in range(out.shape[1]):
                    out[k, j, i] = rows.first[0] + _invert(rows.p, rng.random())
    for k in range(n):
        for j in range(out.shape[1]):
            for i in range(d):
                out[k, j, i] += lo[i]
    return -1


BATCH = 64  # sets of weights whose tables are drawn in one thread with one stream of random numbers


def _integers(values: ArrayLike, name: str, size: int | None = None) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InvariantError(f"{name} must be integers, found {array.dtype}; convert it without rounding")
    if array.dtype.kind == "u" and array.size and array.max() > 2**62:
        raise InvariantError(f"{name} must be integers of at most 2**62 in absolute value")
    array = np.atleast_1d(array)
    if size is not None and array.size == 1:
        array = np.repeat(array.ravel(), size)
    if array.ndim != 1 or size not in (None, array.size):
        raise InvariantError(f"{name} must have one entry per {'cell' if size else 'total'}, found shape {array.shape}")
    return np.array(array, dtype=np.int64, order="C")  # a copy: kernels would be compiled again for read-only totals


def _checked(
    logw: ArrayLike, lo: ArrayLike, total: ArrayLike, block: ArrayLike, eta: ArrayLike | None
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Return the validated table (..., d, W), natural parameters (..., d), lower ends, blocks and totals."""
    table = np.ascontiguousarray(logw, dtype=np.float64)
    if table.ndim < 2 or table.shape[-1] == 0:
        raise ModelError(f"logw must have shape (cells, window width), found {table.shape}")
    d = table.shape[-2]
    slope = np.ascontiguousarray(np.zeros(d) if eta is None else eta, dtype=np.float64)
    if slope.shape[-1:] != (d,):
        raise ModelError(f"eta must have one entry per cell ({d}) in its last axis, found shape {slope.shape}")
    ends, blocks, totals = _integers(lo, "lo", d), _integers(block, "block", d), _integers(total, "total")
    if blocks.size and not -1 <= blocks.min() <= blocks.max() < totals.size:
        raise InvariantError(f"block must be a total from 0 to {totals.size - 1}, or -1 for a free cell")
    for name, bad in (("log weights", ~(table < np.inf).all(-1)), ("eta", ~(slope < np.inf))):
        if bad.any():
            raise ModelError(f"{name} of cell {np.argwhere(bad)[0][-1]} must not be nan or +inf")
    return table, slope, ends, blocks, totals


def _evaluated(
    table: NDArray, slope: NDArray, ends: NDArray, blocks: NDArray, goal: NDArray, as_means: bool
) -> tuple[NDArray, NDArray]:
    if table.ndim != 2 or slope.ndim != 1:
        raise ModelError(f"logw and eta must be a single table, found shapes {table.shape} and {slope.shape}")
    value, out = np.zeros(goal.size + 1), np.zeros((ends.size, 1 if as_means else table.shape[1]))
    own, none = np.arange(ends.size), np.empty((0, 0))
    evaluate(table, slope, none, own, ends, blocks, goal, NO_PIECES, NO_GRIDS, NO_NODES, as_means, value, out)
    return value, out


def log_coefficient(
    logw: ArrayLike, *, lo: ArrayLike, total: ArrayLike, block: ArrayLike = 0, eta: ArrayLike | None = None
) -> NDArray[np.float64]:
    r"""Return the log of the total weight of all tables with the given totals."""
    return _evaluated(*_checked(logw, lo, total, block, eta), as_means=True)[0]


def marginals(
    logw: ArrayLike, *, lo: ArrayLike, total: ArrayLike, block: ArrayLike = 0, eta: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the posterior probabilities of every cell given the totals, P(x_i = lo[i] + k | totals)."""
    return _evaluated(*_checked(logw, lo, total, block, eta), as_means=False)[1]


def draw(
    logw: ArrayLike,
    *,
    lo: ArrayLike,
    total: ArrayLike,
    block: ArrayLike = 0,
    eta: ArrayLike | None = None,
    draws: int = 1,
    rng: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """Draw the cells independently and exactly given their totals."""
    table, slope, ends, blocks, goal = _checked(logw, lo, total, block, eta)
    generator = np.random.default_rng(rng)
    lead = np.broadcast_shapes(table.shape[:-2], slope.shape[:-1])
    if len(lead) > 1:
        raise ModelError(
            f"logw and eta must have at most one leading axis, found shapes {table.shape} and {slope.shape}"
        )
    out = np.empty((*lead, draws, ends.size), np.int64)
    each = out.reshape(-1, draws, ends.size)
    slopes = np.ascontiguousarray(np.broadcast_to(slope, (*lead, ends.size))).reshape(-1, ends.size)
    lid = upper_envelope(table) if table.ndim == 2 else None

    def draw_part(start: int, rng: np.random.Generator) -> int:
        part = slice(start, start + BATCH)
        if lid is not None:
            return draw_tables(table, slopes[part], lid, ends, blocks, goal, rng, each[part])
        for n in range(len(each))[part]:
            rows = table[n % len(table)]
            missed = draw_tables(
                rows, slopes[n : n + 1], upper_envelope(rows), ends, blocks, goal, rng, each[n : n + 1]
            )
            if missed >= 0:
                return missed
        return -1

    starts = range(0, len(each), BATCH)
    if len(starts) <= 1:
        missed = max((draw_part(start, generator) for start in starts), default=-1)
    else:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            missed = max(pool.map(draw_part, starts, generator.spawn(len(starts))))
    if missed == goal.size:
        raise ModelError(
            "a cell has no count with positive weight within its window: its published number, the prior and the "
            "variables that depend on it contradict each other"
        )
    if missed >= 0:
        raise InvariantError(
            f"no table has the total of block {missed}: widen the windows of its cells or check the total"
        )
    return out
