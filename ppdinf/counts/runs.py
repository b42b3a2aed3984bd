"""The remaining row sums of a mechanism as runs of rows with one rigid shape each (see `ppdinf.counts.heuristic`).

The remainder of row i of a run is ``amplitude exp(-epsilon depth_i)``, with integer depths; the amplitude is the
largest entry of the run. Heights are minus depths. Runs are linked, and a run is identified by its first row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.counts.scales import times


class Runs(NamedTuple):
    """Linked runs: values of a run are stored at its first row; `tight` has a value for every row."""

    after: NDArray[np.int64]
    before: NDArray[np.int64]
    last: NDArray[np.int64]
    amplitude: NDArray[np.float64]
    top: NDArray[np.int64]  # height of the largest entry above the first row
    net: NDArray[np.int64]  # height of the last row above the first row
    mass: NDArray[np.float64]  # z times the shape of the run, which is 1 at its highest row with positive z
    held: NDArray[np.int64]  # height of this row above the first row
    tight: NDArray[np.int8]  # for every row: +1 or -1 if the step to the next row is at its bound


@jit
def runs_of(z):  # type: ignore[no-untyped-def]
    """Return one unfilled run for every row."""
    n = z.size
    return Runs(
        np.arange(1, n + 1), np.arange(-1, n - 1), np.arange(n), np.ones(n), np.zeros(n, np.int64),
        np.zeros(n, np.int64), z.copy(), np.zeros(n, np.int64), np.zeros(n, np.int8),
    )  # fmt: skip


@jit
def heights(j, runs, first):  # type: ignore[no-untyped-def]
    """Write the heights of the runs' first rows into ``first``, for the scale with peak j that moves with r."""
    n = runs.last.size
    height, highest, reference = 0, -n - 1, -n - 1
    s = 0
    while s < n:
        first[s] = height
        highest = max(highest, height + runs.top[s])
        if runs.mass[s] > 0:
            reference = max(reference, height + runs.held[s])
        height += runs.net[s] + (1 if runs.last[s] < j else -1)
        s = runs.after[s]
    return highest, reference


@jit
def weight_of(first, reference, runs, table):  # type: ignore[no-untyped-def]
    """Return the inner product of the scale and z, at the reference height."""
    weight = 0.0
    s = 0
    while s < runs.last.size:
        if runs.mass[s] > 0:
            weight += times(runs.mass[s], first[s] + runs.held[s] - reference, table)
        s = runs.after[s]
    return weight


@jit
def subtract(multiple, at, first, runs, table):  # type: ignore[no-untyped-def]
    """Subtract a multiple of the scale from r, by the amplitudes of its runs."""
    s = 0
    while s < runs.last.size:
        left = runs.amplitude[s] - times(multiple, first[s] + runs.top[s] - at, table)
        runs.amplitude[s] = max(left, 0.0)
        s = runs.after[s]


@jit
def repair_steps(runs, table):  # type: ignore[no-untyped-def]
    """Join runs whose step is beyond its bound by rounding; return whether r is positive anywhere."""
    after, amplitude, top, up = runs.after, runs.amplitude, runs.top, 1 / table[1]
    s = 0
    while after[s] < runs.last.size:
        follows = after[s]
        step = top[s] - runs.net[s] - top[follows]
        here, there = amplitude[s], times(amplitude[follows], step, table)
        if (here == 0 and there == 0) or (up * here > there and there * up > here):
            s = follows  # two runs that are 0 by rounding take their steps from the adjacent runs
            continue
        low = s if here < there else follows
        s = raise_run(low, runs, table)
        if runs.before[s] >= 0:
            s = runs.before[s]
    return amplitude[0] > 0


@jit
def raise_run(low, runs, table):  # type: ignore[no-untyped-def]
    """Join a run with the neighbour that keeps it highest, so that it violates no bound on its other side."""
    left, right = -1.0, -1.0  # largest entry of this run if the step from a neighbour down to it were at its bound
    if runs.before[low] >= 0:
        s = runs.before[low]
        left = times(runs.amplitude[s], runs.net[s] - runs.top[s] - 1 + runs.top[low], table)
    if runs.after[low] < runs.last.size:
        s = runs.after[low]
        right = times(runs.amplitude[s], -runs.top[s] - 1 - (runs.net[low] - runs.top[low]), table)
    if left >= right:
        low = runs.before[low]
        _join(low, -1, runs, table)
    else:
        _join(low, 1, runs, table)
    return low


@jit
def _join(s, step, runs, table):  # type: ignore[no-untyped-def]
    """Join a run with the next one, `step` up or down; the higher run keeps its amplitude."""
    after, before, last, amplitude, top, net, mass, held, tight = runs
    follows = after[s]
    tight[last[s]] = step
    lift = net[s] + step  # height of the next run's first row above this run's first row
    other = lift + top[follows]
    if other > top[s]:
        amplitude[s] = amplitude[follows]
        top[s] = other
    if mass[s] == 0 or mass[follows] == 0:
        if mass[s] == 0:
            mass[s], held[s] = mass[follows], lift + held[follows]
    elif lift + held[follows] > held[s]:
        mass[s] = times(mass[s], held[s] - lift - held[follows], table) + mass[follows]
        held[s] = lift + held[follows]
    else:
        mass[s] += times(mass[follows], lift + held[follows] - held[s], table)
    net[s] = lift + net[follows]
    last[s] = last[follows]
    after[s] = after[follows]
    if after[s] < last.size:
        before[after[s]] = s
