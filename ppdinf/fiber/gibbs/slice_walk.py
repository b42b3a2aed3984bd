"""Slice sampling of a table along lines: the cost is almost independent of the number of counts on a line.

Count x of cell i has the log weight ``log_noise[i, x - lower[i]] + log_h(x) + slope[i] x``, which is computed only
where it is needed; noisy sums add their log weights (`ppdinf.fiber.gibbs.measured_sums`). Let f(t) be the log weight of
the table ``x + t v`` for a direction v, and let t range over all tables within windows and bounds:

1. Draw the level ``f(0) + log U``, with U uniform on (0, 1).
2. Draw t uniformly from the range. If f(t) is below the level, cut the range at t, on the side of t away from the
   table, and draw again.

This leaves the law of the table invariant for every f, because the range in step 2 does not depend on the table. A
range of L counts with S counts above the level takes about ``2 log(L / S)`` evaluations of f.

R. M. Neal, "Slice sampling", Annals of Statistics 31 (2003), 705-767, section 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.cell_quantiles import log_prior
from ppdinf.fiber.gibbs.line_gibbs import _changed, _move, _range
from ppdinf.fiber.gibbs.measured_sums import Measured, _add_sums, _changed_sums, _parabola

TIMES = 3  # number of moves along each direction

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]


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
        n = _changed(cells[v], steps[v], lower.size, measured[:3], c, seen, touched)
        moved = touched[: _changed_sums(touched[:n], c, seen)]
        slope_of_sums, curve = _parabola(moved, c, sums, measured)
        t, here = 0, _log_weight(0, x, cells[v], steps[v], lower, log_noise, log_h, slope)
        value[0] = 0.0
        _add_sums(value, 0, moved, c, sums, measured)
        here += value[0]
        for _ in range(TIMES):
            low, high, level = least, most, _level(here, rng)
            while True:
                s = low + int(rng.random() * (high - low + 1))
                value[0] = s * (slope_of_sums - 0.5 * s * curve)
                _add_sums(value, s, moved, c, sums, measured)
                there = value[0] + _log_weight(s, x, cells[v], steps[v], lower, log_noise, log_h, slope)
                if there >= level or s == t:
                    break
                if s < t:
                    low = s + 1
                else:
                    high = s - 1
            t, here = s, there
        _move(x, cells[v], steps[v], t)
        for i in moved:
            sums[i] += t * c[i]
            c[i] = 0
