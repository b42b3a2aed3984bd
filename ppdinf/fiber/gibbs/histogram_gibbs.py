"""Walk a table of which noisy sums of its histogram of counts are known besides, by exact full conditionals.

Along a line cells pass from count to count, each step changing a few of the sums (`ppdinf.laws.histogram_noise`): the
absolute noise that is left is followed from one end of the line to the other, and enters the law of the line as further
log weights. Where noise is known but for a common shift, the shift is a variable of its own, drawn from its law given
the table before every sweep.
"""

from __future__ import annotations

import numpy as np

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.line_gibbs import Floats, Ints, _add_log_weights, _drawn, _move, _range

__all__ = ["walk_histogram"]

NEGLIGIBLE = 40.0  # log weights so far below the largest are left out


@jit
def _shift(left: Ints, rate: float, uniform: float) -> int:
    """Draw a whole number c by weights ``exp(-rate |left + c|_1)``, with one uniform number."""
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
            norm += k - 2 * below  # entries of left + c below 0
            while below > 0 and ordered[below - 1] + c + 1 >= 0:
                below -= 1
    return last


@jit
def _go(left: Ints, count: int, to: int, first: Ints, rows: Ints, values: Ints) -> int:
    """Take one cell from a count to another; return by how much ``|left|_1`` grows."""
    grown, sign = 0, 1 if to > count else -1
    for a in range(count, to) if to > count else range(count - 1, to - 1, -1):
        for j in range(first[a], first[a + 1]):
            before = left[rows[j]]
            left[rows[j]] = before - sign * values[j]
            grown += abs(left[rows[j]]) - abs(before)
    return grown


@jit
def _ends(line: Floats) -> tuple[int, int]:
    """First and last point of a line that its weights allow."""
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
    """Move the table in place as `line_gibbs.walk` does, with ``-rate |left|_1`` added to the log weights.

    Parameters
    ----------
    x, starts, cells, steps, lower, log_weights, rng
        As for `ppdinf.fiber.gibbs.line_gibbs.walk`; only counts from 0 to n - 1 have weight.
    changes : tuple of arrays
        ``indptr, indices, data`` of the sums' steps, shape (k, n - 1), by columns.
    rate : float
    shifted : bool
        Whether `left` is known but for a number that is added to all of it.
    left : array of int64, shape (k,)
        Noise that x leaves; kept true of x, up to the shift.

    Notes
    -----
    Beside `walk`, a direction costs one pass over the line for every entry of a column of `changes`.
    """
    first, rows, values = changes
    buffer = np.empty(log_weights.shape[1])
    for r in range(starts.size - 1):
        if shifted and r % lower.size == 0:
            left += _shift(left, rate, rng.random())
        v, uniform = slice(starts[r], starts[r + 1]), rng.random()
        least, most = _range(x, cells[v], steps[v], lower, log_weights.shape[1])
        if least == most:
            continue
        line = buffer[: most - least + 1]
        line[:] = 0.0
        _add_log_weights(line, x, cells[v], steps[v], least, lower, log_weights)
        begin, end = _ends(line)
        line, least = line[begin : end + 1], least + begin
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
        last = least + line.size - 1
        t = least + _drawn(line, uniform)
        for cell, step in zip(cells[v], steps[v]):  # noqa: B905  (numba)
            if cell < lower.size:
                _go(left, x[cell] + last * step, x[cell] + t * step, first, rows, values)
        _move(x, cells[v], steps[v], t)
