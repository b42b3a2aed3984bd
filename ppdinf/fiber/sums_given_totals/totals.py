r"""Sums of independent windowed integers, given their totals.

Cell ``i`` is an integer ``x_i`` with weight ``w_i(x_i)`` on a finite window. A block is a set of cells whose sum ``s``
is public. For every block, this module computes the coefficient ``log sum_{x: sum x = s} prod_i w_i(x_i)``, its
gradient (the posterior marginals of the cells, by Fisher's identity) and exact draws of ``x``. Steps:

1. :mod:`~ppdinf.fiber.sums_given_totals.cell_windows`: the relevant values of each cell and their probabilities.
2. :mod:`~ppdinf.fiber.sums_given_totals.saddlepoint`: cells are tilted by the same ``exp(t x)`` until the mean of their
   sum is within two sd of ``s``. For any ``t``, ``log coefficient = sum_i log Z_i(t) - t s + log P_t(S = s)``, without
   cancellation.
3. :mod:`~ppdinf.fiber.sums_given_totals.fourier`: ``P_t(S = s)`` is the mean of the characteristic function over a few
   frequencies, with moments for cells with a small share (:mod:`~ppdinf.fiber.sums_given_totals.taylor`). For
   exponential families there are faster methods. Large blocks use cumulants
   (:mod:`~ppdinf.fiber.sums_given_totals.cumulants`) from piecewise polynomials
   (:mod:`~ppdinf.fiber.sums_given_totals.piecewise_polynomials`). Small blocks use polynomial characteristic functions
   at fixed frequencies (:mod:`~ppdinf.fiber.sums_given_totals.fixed_frequencies`). For wide noise, cells are replaced
   by a few Gauss nodes (:mod:`~ppdinf.fiber.sums_given_totals.node_sums`).
4. :mod:`~ppdinf.fiber.sums_given_totals.convolution`: if the probability is too small for its error bound, the sum is
   computed in logarithms.
5. :mod:`~ppdinf.fiber.sums_given_totals.value_and_gradient`: all steps, block by block.
6. :mod:`~ppdinf.fiber.sums_given_totals.conditional_draws`: exact draws from the tilted cells.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.sums_given_totals.cell_windows import upper_envelope
from ppdinf.fiber.sums_given_totals.conditional_draws import draw_tables
from ppdinf.fiber.sums_given_totals.cumulants import MANY
from ppdinf.fiber.sums_given_totals.frequency_grids import FEW, FEWEST, NO_GRIDS, Grids, grids_of
from ppdinf.fiber.sums_given_totals.frequency_polynomials import WIDEST
from ppdinf.fiber.sums_given_totals.node_pieces import NO_NODES, NodePieces, node_pieces
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import NO_PIECES, Pieces, pieces_of
from ppdinf.fiber.sums_given_totals.value_and_gradient import evaluate

__all__ = [
    "FEW",
    "FEWEST",
    "MANY",
    "NO_GRIDS",
    "NO_NODES",
    "NO_PIECES",
    "WIDEST",
    "Grids",
    "NodePieces",
    "Pieces",
    "draw",
    "evaluate",
    "grids_of",
    "log_coefficient",
    "marginals",
    "node_pieces",
    "pieces_of",
    "upper_envelope",
]  # fmt: skip


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
