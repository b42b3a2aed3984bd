"""Gibbs updates of a table given noisy sums of its histogram of counts, with exact full conditionals.

Along a line cells pass from count to count, and each step changes a few of the sums (`ppdinf.laws.likelihood`).
The residual absolute noise is updated from one end of the line to the other and enters the law of the line as further
log weights. If the noise is known only up to a common shift, the shift is a separate variable, drawn from its full
conditional before every sweep.
"""

from __future__ import annotations

import numpy as np

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.line_gibbs import Floats, Ints, _add_log_weights, _drawn, _move, _range

NEGLIGIBLE = 40.0  # log weights this far below the largest are omitted


@jit
def draw_shift(left: Ints, rate: float, uniform: float) -> int:
    """Draw an integer c with weights ``exp(-rate |left + c|_1)`` from one uniform number."""
    k = left.size
    ordered = np.sort(left)
    tail = int(NEGLIGIBLE / (rate * k)) + 1
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
def _ends(line: Floats) -> tuple[int, int]:
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
    lower: Ints,
    log_weights: Floats,
    changes: tuple[Ints, Ints, Ints],
    rate: float,
    shifted: bool,
    left: Ints,
    rng: np.random.Generator,
) -> None:
    """Update the table in place like `line_gibbs.walk`, with ``-rate |left|_1`` added to the log weights."""
    first, rows, values = changes
    buffer = np.empty(log_weights.shape[1])
    for r in range(starts.size - 1):
        if shifted and r % lower.size == 0:
            left += draw_shift(left, rate, rng.random())
        v, uniform = slice(starts[r], starts[r + 1]), rng.random()
        # the points of the line with relevant weights
        least, most = _range(x, cells[v], steps[v], lower, log_weights.shape[1])
        if least == most:
            continue
        line = buffer[: most - least + 1]
        line[:] = 0.0
        _add_log_weights(line, x, cells[v], steps[v], least, lower, log_weights)
        begin, end = _ends(line)
        line, least = line[begin : end + 1], least + begin
        # residual noise along the line, from its first to its last point
        for cell, step in zip(cells[v], steps[v]):  # noqa: B905  (numba)
            if cell < lower.size:
                _go(left, x[cell], x[cell] + least * step, first, rows, values)
        grown = 0
        for k in range(1, line.size):
            for cell, step in zip(cells[v], steps[v]):  # noqa: B905  (numba)
                if cell < lower.size:
                    at = x[cell] + (least + k - 1) * step
                    grown += _go(left, at, at + step, first, rows, values)
            line[k] -= rate * grown
        # draw a point, and set the residual noise there
        last = least + line.size - 1
        t = least + _drawn(line, uniform)
        for cell, step in zip(cells[v], steps[v]):  # noqa: B905  (numba)
            if cell < lower.size:
                _go(left, x[cell] + last * step, x[cell] + t * step, first, rows, values)
        _move(x, cells[v], steps[v], t)
