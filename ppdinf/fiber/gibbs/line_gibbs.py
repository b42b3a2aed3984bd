"""Gibbs updates of a table along lines of its fiber.

State: an integer table x with ``A x = a`` and ``B x >= b``. Kernel: take a direction v with ``A v = 0`` and move to
``x + t v``. The weight of a table is a product of weights of its counts and of its noisy sums.

- `walk` draws t from its exact law along the line (a heat bath: no tuning, no rejection);
- `walk_by_slices` draws t by slice sampling; the cost is almost independent of the number of counts on the line;
- `walk_histogram` draws t from its exact law given noisy sums of the table's histogram of counts.

The first and the third use one uniform number for every direction and table. Two tables that read the same numbers are
coupled by common quantiles, and tables on the same line move to the same point.

R. M. Neal, "Slice sampling", Annals of Statistics 31 (2003), 705-767, section 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Reals
from ppdinf.fiber.gibbs.cell_quantiles import log_prior
from ppdinf.fiber.gibbs.measured_sums import Measured, add_sums, changed, move_sums, no_sums, parabola, subtract_largest

type Ints = NDArray[np.int64]
type Lines = tuple[Ints, Ints, Ints]
type NoSums = tuple[Measured, Ints, bool]

SAFE = 1e-20  # a line whose products of weights sum to less than this is summed in logarithms
NEGLIGIBLE = 60.0  # log weight below which ends of a line are omitted: 1e-26 relative to the table
IRRELEVANT = 40.0  # log weights of shifts this far below the largest are omitted
TIMES = 3  # number of slices along each direction

NO_SUMS = no_sums(0).arrays, np.zeros(0, dtype=np.int64), False
"""Arguments of `walk` for a table without noisy sums."""


class CellWeights(NamedTuple):
    """Log weights of counts from `lower` on, shape (d, width), with maximum 0 in each row, and their exponentials."""

    # with noisy sums, the exponentials are not used and empty; all counts of a flat cell weigh the same

    lower: Ints
    logs: Reals
    linear: Reals
    flat: NDArray[np.bool_]


def cell_weights(lower: Ints, log_weights: Reals, *, with_sums: bool = False) -> CellWeights:
    """Return the weights of counts for `walk`; ``-inf`` outside of the support."""
    logs, flat = np.empty(log_weights.shape), np.empty(len(log_weights), dtype=np.bool_)
    _relative(log_weights, logs, flat)
    return CellWeights(lower, logs, np.empty((0, 0)) if with_sums else np.exp(logs), flat)


@jit
def _relative(log_weights: Reals, out: Reals, flat: NDArray[np.bool_]) -> None:
    """Write log weights relative to the largest of their rows, and whether all weights of a row are equal."""
    for i in range(flat.size):
        top, least = -np.finfo(np.float64).max, np.inf
        for weight in log_weights[i]:
            top, least = max(top, weight), min(least, weight)
        for k in range(out.shape[1]):
            out[i, k] = log_weights[i, k] - top
        flat[i] = least == top


@jit
def _range(x: Ints, cells: Ints, steps: Ints, lower: Ints, width: int) -> tuple[int, int]:
    """Return the smallest and largest t for which ``x + t v`` is within all windows and bounds; they include 0."""
    if cells.size == 0:  # no moves: the public information determines the table
        return 0, 0
    least, most = -(2**62), 2**62
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        bounded = cell < lower.size  # the remaining entries are slacks without upper bounds
        down = x[cell] - lower[cell] if bounded else x[cell]
        up = lower[cell] + width - 1 - x[cell] if bounded else 2**62
        if step > 0:
            least, most = max(least, -(down // step)), min(most, up // step)
        else:
            least, most = max(least, -(up // -step)), min(most, down // -step)
    return least, most


@jit
def _within(
    least: int, most: int, slope: float, curve: float, x: Ints, cells: Ints, lower: Ints, logs: Reals
) -> tuple[int, int]:
    """Omit the ends of a line where Gaussian noise alone makes the weight negligible relative to the table."""
    # cells weigh at most 1 together at every point, and exp(-ahead) at the table
    ahead = NEGLIGIBLE
    for cell in cells:
        if cell < lower.size:
            ahead -= logs[cell, x[cell] - lower[cell]]
    center = slope / curve
    reach = np.sqrt(center * center + 2.0 * ahead / curve)
    return max(least, int(np.floor(center - reach))), min(most, int(np.ceil(center + reach)))


@jit
def _add_log_weights(line: Reals, x: Ints, cells: Ints, steps: Ints, least: int, lower: Ints, logs: Reals) -> None:
    """Add the log weights of the cells at every point of the line."""
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < lower.size:
            at = x[cell] - lower[cell] + least * step
            for k in range(line.size):
                line[k] += logs[cell, at + k * step]


@jit
def _chosen(line: Reals, mass: float, uniform: float) -> int:
    """Return the point of the line at a quantile of its law."""
    u, k = uniform * mass, 0
    while k < line.size - 1 and u >= line[k]:
        u -= line[k]
        k += 1
    return k


@jit
def _drawn(line: Reals, uniform: float) -> int:
    """Return the point of the line at a quantile of its law, given in logarithms; the line is overwritten."""
    line[:] = np.exp(line - line.max())
    return _chosen(line, line.sum(), uniform)


@jit
def _drawn_by_cells(
    line: Reals, x: Ints, cells: Ints, steps: Ints, least: int, weights: CellWeights, uniform: float
) -> int:
    """Return the point of the line at a quantile of the product of the weights of the cells."""
    lower, logs, linear, flat = weights
    line[:] = 1.0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < lower.size and not flat[cell]:
            at = x[cell] - lower[cell] + least * step
            for k in range(line.size):
                line[k] *= linear[cell, at + k * step]
    mass = line.sum()
    if mass > SAFE:
        return _chosen(line, mass, uniform)
    line[:] = 0.0  # far in the tails products of small numbers are inaccurate or underflow
    _add_log_weights(line, x, cells, steps, least, lower, logs)
    return _drawn(line, uniform)


@jit
def _move(x: Ints, cells: Ints, steps: Ints, t: int) -> None:
    """Move t steps along a direction."""
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        x[cell] += t * step


@jit
def walk(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    weights: CellWeights,
    measured: Measured,
    sums: Ints | Reals,
    largest: bool,
    rng: np.random.Generator,
) -> None:
    """Update a table, followed by its slacks ``B x - b``, and its sums in place along each direction in turn."""
    # direction r adds steps[k] to entry cells[k] of x for k in starts[r]:starts[r + 1]; with `largest`, the log weight
    # of the sums is minus their largest absolute difference from the published values
    (lower, logs, _, flat), precision = weights, measured[4]
    c, seen = np.zeros_like(sums), np.zeros(sums.size, dtype=np.bool_)
    touched, buffer = np.empty(sums.size, dtype=np.int64), np.empty(logs.shape[1])
    for r in range(starts.size - 1):
        v, uniform = slice(starts[r], starts[r + 1]), rng.random()
        least, most = _range(x, cells[v], steps[v], lower, logs.shape[1])
        if least == most:
            continue
        if sums.size == 0:
            t, is_flat = least, True
            for cell in cells[v]:
                is_flat &= cell >= lower.size or flat[cell]
            if is_flat:
                t += int(uniform * (most - least + 1))
            else:
                t += _drawn_by_cells(buffer[: most - least + 1], x, cells[v], steps[v], least, weights, uniform)
            _move(x, cells[v], steps[v], t)
            continue
        # changed sums, and their Gaussian log weight as a parabola in t
        moved = changed(cells[v], steps[v], lower.size, measured, c, seen, touched)
        (slope, curve), gaussian = parabola(moved, c, sums, measured), moved.size > 0
        for i in moved:
            gaussian &= precision[i] > 0.0
        if gaussian:
            least, most = _within(least, most, slope, curve, x, cells[v], lower, logs)
        # the law along the line: parabola, cells, other sums
        line = buffer[: most - least + 1]
        for k in range(line.size):
            line[k] = (least + k) * (slope - 0.5 * (least + k) * curve)
        _add_log_weights(line, x, cells[v], steps[v], least, lower, logs)
        if largest:
            subtract_largest(line, least, c, sums, measured[3])
        else:
            add_sums(line, least, moved, c, sums, measured)
        t = least + _drawn(line, uniform)
        _move(x, cells[v], steps[v], t)
        move_sums(sums, moved, c, t)


@jit
def walk_tables(
    x: Ints, lines: int, along: Lines, weights: CellWeights, no_sums: NoSums, tables: Ints, rng: np.random.Generator
) -> None:
    """Write tables without noisy sums, shape (draws, d), each after the given number of lines."""
    for n in range(tables.shape[0]):
        walk(x, along[0][n * lines : (n + 1) * lines + 1], along[1], along[2], weights, *no_sums, rng)
        tables[n] = x[: tables.shape[1]]


@jit
def _log_weight(
    t: int, x: Ints, cells: Ints, steps: Ints, lower: Ints, log_noise: Reals, log_h: Reals, slope: Reals
) -> float:
    """Return the log weight of the cells of a direction after t steps along it."""
    found = 0.0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < lower.size:
            count = x[cell] + t * step
            own = log_noise[cell, count - lower[cell]]
            if own == -np.inf:
                return -np.inf
            found += own + log_prior(count, log_h) + slope[cell] * count
    return found


@jit
def _level(here: float, rng: np.random.Generator) -> float:
    """Draw the level of a slice."""
    return here + np.log(1.0 - rng.random())


@jit
def walk_by_slices(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    log_noise: Reals,
    prior: tuple[Reals, Reals],
    measured: Measured,
    sums: Ints,
    rng: np.random.Generator,
) -> None:
    """Update a table in place along each direction in turn."""
    log_h, slope = prior
    c, seen = np.zeros(sums.size, dtype=np.int64), np.zeros(sums.size, dtype=np.bool_)
    touched, value = np.empty(sums.size, dtype=np.int64), np.empty(1)
    for r in range(starts.size - 1):
        v = slice(starts[r], starts[r + 1])
        least, most = _range(x, cells[v], steps[v], lower, log_noise.shape[1])
        if least == most:
            continue
        moved = changed(cells[v], steps[v], lower.size, measured, c, seen, touched)
        slope_of_sums, curve = parabola(moved, c, sums, measured)
        t, here = 0, _log_weight(0, x, cells[v], steps[v], lower, log_noise, log_h, slope)
        value[0] = 0.0
        add_sums(value, 0, moved, c, sums, measured)
        here += value[0]
        for _ in range(TIMES):
            low, high, level = least, most, _level(here, rng)
            while True:
                s = low + int(rng.random() * (high - low + 1))
                value[0] = s * (slope_of_sums - 0.5 * s * curve)
                add_sums(value, s, moved, c, sums, measured)
                there = value[0] + _log_weight(s, x, cells[v], steps[v], lower, log_noise, log_h, slope)
                if there >= level or s == t:
                    break
                if s < t:
                    low = s + 1
                else:
                    high = s - 1
            t, here = s, there
        _move(x, cells[v], steps[v], t)
        move_sums(sums, moved, c, t)


@jit
def draw_shift(left: Ints, rate: float, uniform: float) -> int:
    """Draw an integer c with weights ``exp(-rate |left + c|_1)`` from one uniform number."""
    k = left.size
    ordered = np.sort(left)
    tail = int(IRRELEVANT / (rate * k)) + 1
    first, last = -ordered[-1] - tail, -ordered[0] + tail
    best = np.abs(left - ordered[k // 2]).sum()
    for choosing in range(2):
        norm, below = np.abs(left + first).sum(), k
        if choosing == 0:
            mass = 0.0
        else:
            target, mass = uniform * mass, 0.0
        for c in range(first, last + 1):
            mass += np.exp(-rate * (norm - best))
            if choosing == 1 and mass > target:
                return c
            norm += k - 2 * below  # number of entries of left + c below 0
            while below > 0 and ordered[below - 1] + c + 1 >= 0:
                below -= 1
    return last


@jit
def _go(left: Ints, count: int, to: int, first: Ints, rows: Ints, values: Ints) -> int:
    """Move one cell from a count to another; return the increase of ``|left|_1``."""
    grown, sign = 0, 1 if to > count else -1
    for a in range(count, to) if to > count else range(count - 1, to - 1, -1):
        for j in range(first[a], first[a + 1]):
            before = left[rows[j]]
            left[rows[j]] = before - sign * values[j]
            grown += abs(left[rows[j]]) - abs(before)
    return grown


@jit
def _go_along(left: Ints, x: Ints, cells: Ints, steps: Ints, d: int, t: int, to: int, changes: Lines) -> int:
    """Move all cells of a direction from t to another number of steps along it; return the increase of ``|left|_1``."""
    grown = 0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < d:
            grown += _go(left, x[cell] + t * step, x[cell] + to * step, *changes)
    return grown


@jit
def _ends(line: Reals) -> tuple[int, int]:
    """Return the first and the last point of a line with relevant weights."""
    first, last = 0, line.size - 1
    while first < last and line[first] == -np.inf:
        first += 1
    while first < last and line[last] == -np.inf:
        last -= 1
    return first, last


@jit
def walk_histogram(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    weights: CellWeights,
    changes: Lines,
    rate: float,
    shifted: bool,
    left: Ints,
    rng: np.random.Generator,
) -> None:
    """Update the table in place like `walk`, with ``-rate |left|_1`` added to the log weights."""
    lower, logs, _, _ = weights
    buffer = np.empty(logs.shape[1])
    for r in range(starts.size - 1):
        if shifted and r % lower.size == 0:
            left += draw_shift(left, rate, rng.random())
        v, uniform = slice(starts[r], starts[r + 1]), rng.random()
        # the points of the line with relevant weights
        least, most = _range(x, cells[v], steps[v], lower, logs.shape[1])
        if least == most:
            continue
        line = buffer[: most - least + 1]
        line[:] = 0.0
        _add_log_weights(line, x, cells[v], steps[v], least, lower, logs)
        begin, end = _ends(line)
        line, least = line[begin : end + 1], least + begin
        # residual noise along the line, from its first to its last point
        _go_along(left, x, cells[v], steps[v], lower.size, 0, least, changes)
        grown = 0
        for k in range(1, line.size):
            grown += _go_along(left, x, cells[v], steps[v], lower.size, least + k - 1, least + k, changes)
            line[k] -= rate * grown
        # draw a point, and set the residual noise there
        last = least + line.size - 1
        t = least + _drawn(line, uniform)
        _go_along(left, x, cells[v], steps[v], lower.size, last, t, changes)
        _move(x, cells[v], steps[v], t)
