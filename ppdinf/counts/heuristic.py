"""Mechanisms with a given fixed point, column by column (Algorithm 1), with accurate sums.

Columns are filled in turn with multiples of scales. The remainder ``r`` of the row sums must stay indistinguishable
from row to row (all steps within exp(epsilon)). A step of r that reaches the bound stays there, because every later
scale moves with r. Therefore r decomposes into *runs* of rows with one rigid shape each, and within a run

    r_i = amplitude * exp(-epsilon depth_i),

where the depths are integers and the amplitude is the largest entry of the run. The printed form ``r = r - q s``, row
by row, computes values such as exp(-epsilon n / 2) by subtraction from 1 and loses all digits. Here only the amplitudes
are subtracted. Their rounding errors are about 2^-53 of the largest entries, and small entries follow from the shape.
If rounding leaves a step beyond the bound, the step is set to the bound. This joins two runs and changes r by a similar
amount. A run that is too low joins the neighbour that keeps it highest, so that it violates no bound on its other side.
The last column takes the remainder of r instead of its capacity, so that the row sums are exact and the fixed point has
the rounding errors, weighted by the fixed point.

A mechanism of n counts has at most 2 n - 1 scales. Each costs one pass over the runs and one over the rows: O(n^2).

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Algorithm 1,
Proposition 2, Theorems 5 and 6.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import Parameter
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution
from ppdinf.counts.runs import heights, raise_run, repair_steps, runs_of, subtract, weight_of
from ppdinf.counts.scales import as_epsilon, falls, times
from ppdinf.errors import PrivacyError, RoundingError

type Selector = Literal["max", "min", "sandwich", "best"]

SELECTORS = ("max", "min", "sandwich")
WORST_ROW = 1e-9  # largest accepted error of a row sum
NEGLIGIBLE = 1e-250  # probabilities whose products would underflow
NONE, ALL = -1, -2  # codes instead of the run whose step ends a scale


def heuristic(z: ArrayLike, epsilon: Parameter, selector: Selector = "sandwich") -> CountMechanism:
    """Construct a mechanism that preserves a distribution of counts, by Algorithm 1.

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

    Notes
    -----
    The time is 0.2 s for 2,000 counts and 4 s for 8,000. The number of steps is of order n^2. Above about 2,000 counts
    the tables of runs exceed the cache of a core, and the time is multiplied by 5 when n is doubled.

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
        found = [heuristic(z, exact, one) for one in SELECTORS]  # type: ignore[arg-type]
        return min(found, key=lambda mechanism: mechanism.count_error(z))
    kept = np.where(z < NEGLIGIBLE, 0.0, z)
    return _built(kept, exact, columns(kept, selector), selector)


def columns(z: NDArray[np.float64], selector: str) -> NDArray[np.int64]:
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


def _built(z: NDArray[np.float64], epsilon: Fraction, order: NDArray[np.int64], selector: str) -> CountMechanism:
    table = falls(epsilon)
    upper = order.size + z.size  # each scale fills a column or brings a step to its bound, except one
    column = np.empty(upper, dtype=np.int64)
    peak = np.empty(upper)
    rising = np.empty((upper, z.size - 1), dtype=np.bool_)
    size = _fill(z, order, table, column, peak, rising)
    kept = np.flatnonzero(peak[:size] > 0)
    found = CountMechanism.of_scales(
        column[kept], peak[kept], rising[kept], epsilon, name=f"heuristic ({selector})", z=z
    )
    error = found.row_error
    if not error <= WORST_ROW:
        raise RoundingError(f"the rows of the mechanism sum to 1 only within {error:.1e}")
    return found


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
