"""Gibbs updates of a table along lines of its fiber, with exact full conditionals.

State: an integer table x with ``A x = a`` and ``B x >= b``. Kernel: take a direction v with ``A v = 0`` and draw t from
its exact law along the line ``x + t v`` (a heat bath: no tuning, no rejection). The law is a product of cell weights
``w_i(x_i)``: `walk`. Noise that couples the cells adds minus a norm of ``G (y - W x)``, a `NoiseNorm`,
which changes by ``-t G W v`` along the line: `walk_coupled`.

A direction uses one uniform number for every table. Two tables that read the same numbers are coupled by common
quantiles, and tables on the same line move to the same point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

type Ints = NDArray[np.int64]
type Floats = NDArray[np.float64]

SAFE = 1e-20  # a line whose linear weights sum to less than this is summed in logarithms


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
def _add_log_weights(
    line: Floats, x: Ints, cells: Ints, steps: Ints, least: int, lower: Ints, log_weights: Floats
) -> None:
    """Add the log weights of the cells at every point of the line."""
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < lower.size:
            at = x[cell] - lower[cell] + least * step
            for k in range(line.size):
                line[k] += log_weights[cell, at + k * step]


@jit
def _chosen(line: Floats, mass: float, uniform: float) -> int:
    """Return the point of the line at a quantile of its law."""
    u, k = uniform * mass, 0
    while k < line.size - 1 and u >= line[k]:
        u -= line[k]
        k += 1
    return k


@jit
def _drawn(line: Floats, uniform: float) -> int:
    """Return the point of the line at a quantile of its law, given in logarithms; the line is overwritten."""
    line[:] = np.exp(line - line.max())
    return _chosen(line, line.sum(), uniform)


@jit
def _move(x: Ints, cells: Ints, steps: Ints, t: int) -> None:
    """Move t steps along a direction."""
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        x[cell] += t * step


@jit
def _changed(
    cells: Ints,
    steps: Ints,
    d: int,
    image: tuple[Ints, Ints, Floats | Ints],
    c: Floats | Ints,
    seen: NDArray[np.bool_],
    touched: Ints,
) -> int:
    """Add the changes of d cells' sums by a direction to c, list changed sums in ``touched``, return the number."""
    first, rows, values = image
    n = 0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < d:
            for j in range(first[cell], first[cell + 1]):
                if not seen[rows[j]]:
                    seen[rows[j]], touched[n] = True, rows[j]
                    n += 1
                c[rows[j]] += step * values[j]
    return n


@jit
def _step(
    x: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    weights: Floats,
    log_weights: Floats,
    buffer: Floats,
    rng: np.random.Generator,
) -> None:
    """Move the table along one direction by t drawn from its exact full conditional, with exactly one uniform."""
    uniform = rng.random()
    least, most = _range(x, cells, steps, lower, weights.shape[1])
    if least == most:
        return
    line = buffer[: most - least + 1]
    line[:] = 1.0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < lower.size:
            at = x[cell] - lower[cell] + least * step
            for k in range(line.size):
                line[k] *= weights[cell, at + k * step]
    mass = line.sum()
    if mass > SAFE:
        t = least + _chosen(line, mass, uniform)
    else:  # far in the tails products of small numbers are inaccurate or underflow
        line[:] = 0.0
        _add_log_weights(line, x, cells, steps, least, lower, log_weights)
        t = least + _drawn(line, uniform)
    _move(x, cells, steps, t)


@jit
def _linear(log_weights: Floats) -> Floats:
    """Return the weights of all counts, relative to the largest weight of each cell."""
    weights = np.empty_like(log_weights)
    for i in range(weights.shape[0]):
        most = log_weights[i].max()
        weights[i] = np.exp(log_weights[i] - (most if most > -np.inf else 0.0))
    return weights


@jit
def _walk(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    weights: Floats,
    log_weights: Floats,
    rng: np.random.Generator,
) -> None:
    """Update along directions with given linear weights of the counts."""
    buffer = np.empty(weights.shape[1])
    for r in range(starts.size - 1):
        v = slice(starts[r], starts[r + 1])
        _step(x, cells[v], steps[v], lower, weights, log_weights, buffer, rng)


@jit
def walk(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    log_weights: Floats,
    rng: np.random.Generator,
) -> None:
    """Update the table in place along each direction in turn."""
    _walk(x, starts, cells, steps, lower, _linear(log_weights), log_weights, rng)


@jit
def _subtract_norm(line: Floats, least: int, order: float, w: Floats, c: Floats, moved: Ints) -> None:
    """Add minus the norm of ``w - t c`` at every point t of the line, up to a common constant."""
    if order == 2:
        slope, curve = 0.0, 0.0
        for i in moved:
            slope += w[i] * c[i]
            curve += c[i] * c[i]
        for k in range(line.size):
            t = least + k
            line[k] += t * (slope - 0.5 * t * curve)
    elif order == 1:
        for i in moved:
            for k in range(line.size):
                line[k] -= abs(w[i] - (least + k) * c[i])
    else:
        rest = 0.0
        for i in range(w.size):
            if c[i] == 0.0:
                rest = max(rest, abs(w[i]))
        largest = np.full(line.size, rest)
        for i in moved:
            for k in range(line.size):
                largest[k] = max(largest[k], abs(w[i] - (least + k) * c[i]))
        line -= largest


@jit
def walk_coupled(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    log_weights: Floats,
    order: float,
    image: tuple[Ints, Ints, Floats],
    w: Floats,
    rng: np.random.Generator,
) -> None:
    """Update the table in place like `walk`, with minus a norm of ``w`` added to the log weights."""
    c, seen, touched = np.zeros(w.size), np.zeros(w.size, dtype=np.bool_), np.empty(w.size, dtype=np.int64)
    buffer = np.empty(log_weights.shape[1])
    for r in range(starts.size - 1):
        v, uniform = slice(starts[r], starts[r + 1]), rng.random()
        least, most = _range(x, cells[v], steps[v], lower, log_weights.shape[1])
        if least == most:
            continue
        line = buffer[: most - least + 1]
        line[:] = 0.0
        _add_log_weights(line, x, cells[v], steps[v], least, lower, log_weights)
        n = _changed(cells[v], steps[v], lower.size, image, c, seen, touched)
        _subtract_norm(line, least, order, w, c, touched[:n])
        t = least + _drawn(line, uniform)
        _move(x, cells[v], steps[v], t)
        for i in touched[:n]:
            w[i] -= t * c[i]
            c[i], seen[i] = 0.0, False
