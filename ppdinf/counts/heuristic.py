"""Mechanisms with a given fixed point, column by column (Algorithm 1), with accurate sums."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Integers, Reals
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution
from ppdinf.counts.scales import as_epsilon, falls, times
from ppdinf.errors import PrivacyError, RoundingError


class Runs(NamedTuple):
    """Linked runs: values of a run are stored at its first row; `tight` has a value for every row."""

    after: Integers
    before: Integers
    last: Integers
    amplitude: Reals
    top: Integers  # height of the largest entry above the first row
    net: Integers  # height of the last row above the first row
    mass: Reals  # z times the shape of the run, which is 1 at its highest row with positive z
    held: Integers  # height of this row above the first row
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


type Selector = Literal["max", "min", "sandwich", "best"]

SELECTORS = ("max", "min", "sandwich")
WORST_ROW = 1e-9  # largest accepted error of a row sum
NEGLIGIBLE = 1e-250  # probabilities whose products would underflow
NONE, ALL = -1, -2  # codes instead of the run whose step ends a scale


def heuristic(z: ArrayLike, epsilon: Parameter, selector: Selector = "sandwich") -> CountMechanism:
    """Construct a mechanism that preserves a distribution of counts, by Algorithm 1.

    The number of steps is of order n^2: 0.2 s for 2,000 counts (docs/speed.md).

    Parameters
    ----------
    z : array_like of float, shape (n,)
        Distribution of counts 0 to n - 1 that is preserved: public, or privatized before. Probabilities below 1e-250
        are treated as 0, and counts with probability 0 are never released.
    epsilon : int, float, str or Fraction
        Privacy loss between a count and the next one.
    selector : {"sandwich", "max", "min", "best"}
        Order in which columns are filled: from both ends in turn, from the most probable count, or from the least
        probable count. "best" returns the one of the three with the smallest expected absolute deviation; this has no
        privacy cost, because it depends only on z.

    Returns
    -------
    CountMechanism
        A mechanism with ``z @ matrix == z``, an extreme point of all such mechanisms.

    Raises
    ------
    PrivacyError
        z is not a distribution, the selector is unknown, or epsilon is out of range.

    See Also
    --------
    ppdinf.counts.optimal, ppdinf.counts.scale

    Examples
    --------
    >>> from ppdinf.counts import heuristic
    >>> mechanism = heuristic([0.5, 0.3, 0.2], epsilon=1)
    >>> mechanism.matrix.round(3)
    array([[0.753, 0.175, 0.072],
           [0.33 , 0.475, 0.195],
           [0.121, 0.35 , 0.529]])
    """
    z = as_distribution(z)
    exact = as_epsilon(epsilon)
    if selector == "best":
        mechanisms = [heuristic(z, exact, one) for one in SELECTORS]  # type: ignore[arg-type]
        return min(mechanisms, key=lambda mechanism: mechanism.count_error(z))
    kept = np.where(z < NEGLIGIBLE, 0.0, z)
    return _built(kept, exact, columns(kept, selector), selector)


def columns(z: Reals, selector: str) -> Integers:
    """Return the order in which a selector fills the columns with positive z."""
    if selector == "max":
        order = np.argsort(-z, kind="stable")
    elif selector == "min":
        order = np.argsort(z, kind="stable")
    elif selector == "sandwich":
        order = np.empty(z.size, dtype=np.int64)
        order[::2] = np.arange((z.size + 1) // 2)
        order[1::2] = z.size - 1 - np.arange(z.size // 2)
    else:
        raise PrivacyError(f"selector must be one of {[*SELECTORS, 'best']}, found {selector!r}")
    return order[z[order] > 0]


def _built(z: Reals, epsilon: Fraction, order: Integers, selector: str) -> CountMechanism:
    table = falls(epsilon)
    upper = order.size + z.size  # each scale fills a column or brings a step to its bound, except one
    column = np.empty(upper, dtype=np.int64)
    peak = np.empty(upper)
    rising = np.empty((upper, z.size - 1), dtype=np.bool_)
    size = _fill(z, order, table, column, peak, rising)
    kept = np.flatnonzero(peak[:size] > 0)
    mechanism = CountMechanism.of_scales(
        column[kept], peak[kept], rising[kept], epsilon, name=f"heuristic ({selector})", z=z
    )
    error = mechanism.row_error
    if not error <= WORST_ROW:
        raise RoundingError(f"the rows of the mechanism sum to 1 only within {error:.1e}")
    return mechanism


@jit
def _fill(z, order, table, column, peak, rising):  # type: ignore[no-untyped-def]
    """Fill the columns in order; write column, largest entry and pattern of each scale, and return their number."""
    n = z.size
    runs = runs_of(z)
    first = np.zeros(n, dtype=np.int64)  # height of a run's first row in the current scale
    size = 0
    for turn in range(order.size):
        j = order[turn]
        capacity = z[j]
        is_last = turn == order.size - 1
        while capacity > 0 or is_last:
            # the scale with peak j that moves with the remainder r within its runs
            highest, reference = heights(j, runs, first)
            weight = weight_of(first, reference, runs, table)
            upper = np.inf if is_last else capacity / weight
            multiple, at, joined = _multiple(j, upper, reference, first, runs, table)
            # record the scale with the largest feasible multiple
            column[size] = j
            peak[size] = times(multiple, highest - at, table)
            for i in range(n - 1):
                rising[size, i] = runs.tight[i] > 0 if runs.tight[i] != 0 else i < j
            size += 1
            if joined == ALL:
                return size
            # subtract it from r, and join the runs whose step has reached its bound
            subtract(multiple, at, first, runs, table)
            if joined == NONE:
                capacity = 0.0
            else:
                capacity -= times(multiple, reference - at, table) * weight
                if capacity <= 2.0**-50 * z[j]:
                    capacity = 0.0
                low = runs.after[joined] if runs.last[joined] < j else joined  # r moves against the scale
                raise_run(low, runs, table)
            if not repair_steps(runs, table):
                return size
    return size


@jit
def _multiple(j, upper, reference, first, runs, table):  # type: ignore[no-untyped-def]
    """Return the largest feasible multiple of the scale: `upper` at the reference height, or less, and its height."""
    n, up, down = runs.last.size, 1 / table[1], table[1]
    after, amplitude, top, net = runs.after, runs.amplitude, runs.top, runs.net
    multiple, at, joined = upper, reference, NONE
    if after[0] >= n and (np.isinf(upper) or amplitude[0] <= times(multiple, first[0] + top[0] - at, table)):
        multiple, at, joined = amplitude[0], first[0] + top[0], ALL
    s = 0
    while after[s] < n:
        follows = after[s]
        ratio = times(amplitude[follows] / amplitude[s], top[s] - net[s] - top[follows], table)
        # net[s] - top[s]: height of the run's last row below its largest entry
        if runs.last[s] < j:
            slack = amplitude[s] * (up * ratio - 1) / (up * up - 1)
        else:
            slack = amplitude[s] * (up - ratio) / (up - down)
        slack = max(slack, 0.0)
        if np.isinf(multiple) or slack < times(multiple, first[s] + top[s] - at, table):
            multiple, at, joined = slack, first[s] + top[s], s
        s = follows
    return multiple, at, joined
