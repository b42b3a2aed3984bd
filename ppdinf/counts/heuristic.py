"""Mechanisms with a given fixed point, one column at a time (Algorithm 1), with sums that keep their digits.

Columns are filled in turn with multiples of scales; ``r``, what the rows still lack, must stay indistinguishable from
row to row (all steps within exp(epsilon)). Where a step of r reaches the bound it stays there ever after, since every
later scale is made to move with r. So r falls into *runs* of rows with one rigid shape each, and within a run

    r_i = amplitude * exp(-epsilon depth_i),

where the depths are integers and the amplitude is the run's largest entry. Printed as ``r = r - q s``, row by row, the
algorithm has to reach values such as exp(-epsilon n / 2) by subtraction from 1 and loses all digits; here only the
amplitudes are subtracted, whose rounding errors are about 2^-53 of the largest entries, and small entries follow by
the shape. A step that rounding leaves beyond the bound is at the bound, which joins two runs and changes r by as
little: a run that is too low joins the neighbour that keeps it highest, so that it breaks no bound on its other side.
Nor do column capacities decide the last column: it takes what is left of r, so that rows have their sums and the fixed
point has the rounding errors, weighted by the fixed point.

A mechanism of n counts has at most 2 n - 1 scales, each of which costs one walk over the runs and one over the rows:
O(n^2).

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
from ppdinf.counts.runs import heights, raise_run, runs_of, settle, subtract, weight_of
from ppdinf.counts.scales import as_epsilon, falls, times
from ppdinf.errors import PrivacyError, RoundingError

__all__ = ["SELECTORS", "Selector", "heuristic"]

type Selector = Literal["max", "min", "sandwich", "best"]

SELECTORS = ("max", "min", "sandwich")
WORST_ROW = 1e-9  # error of a row sum that is refused
NEGLIGIBLE = 1e-250  # probabilities whose products would leave the range of doubles
NONE, ALL = -1, -2  # in the place of the run whose step ends a scale


def heuristic(z: ArrayLike, epsilon: Parameter, selector: Selector = "sandwich") -> CountMechanism:
    """Build a mechanism that leaves a distribution of counts as it is, by Algorithm 1.

    Parameters
    ----------
    z : array_like of float, shape (n,)
        Distribution of counts 0 to n - 1 that must survive: public, or privatized before. Probabilities below 1e-250
        count as 0, and counts of probability 0 are never released.
    epsilon : int, float, str or Fraction
        Privacy loss between a count and the next.
    selector : {"sandwich", "max", "min", "best"}
        Order in which columns are filled: from both ends in turn, from the most probable count, from the least
        probable one; "best" tries all three and keeps the one with the smallest expected absolute deviation, which
        costs no privacy, since it looks at nothing but z.

    Returns
    -------
    CountMechanism
        With ``z @ matrix == z``, an extreme point of the mechanisms that have this property.

    Raises
    ------
    PrivacyError
        z is no distribution; an unknown selector; epsilon out of range.

    Notes
    -----
    0.2 s for 2,000 counts. Steps grow as n^2, by a factor of 1.25 to 1.35; beyond some 2,000 counts the tables of runs
    leave a core's cache, and time grows by 5 where counts double: 4 s for 8,000.

    Examples
    --------
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
    """Order in which a selector fills the columns with positive z."""
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
    most = order.size + z.size  # one scale fills a column or brings a step to its bound; one may be left over
    column = np.empty(most, dtype=np.int64)
    peak = np.empty(most)
    rising = np.empty((most, z.size - 1), dtype=np.bool_)
    size = _fill(z, order, table, column, peak, rising)
    kept = np.flatnonzero(peak[:size] > 0)
    found = CountMechanism.of_scales(
        column[kept], peak[kept], rising[kept], epsilon, name=f"heuristic ({selector})", z=z
    )
    error = found.row_error
    if not error <= WORST_ROW:
        raise RoundingError(f"rows of the mechanism sum to 1 only within {error:.1e}")
    return found


@jit
def _fill(z, order, table, column, peak, rising):  # type: ignore[no-untyped-def]
    """Fill the columns in order; write each scale's column, largest entry and pattern, and return their number."""
    n = z.size
    runs = runs_of(z)
    first = np.zeros(n, dtype=np.int64)  # height of a run's first row in the current scale
    size = 0
    for turn in range(order.size):
        j = order[turn]
        capacity = z[j]
        is_last = turn == order.size - 1
        while capacity > 0 or is_last:
            highest, reference = heights(j, runs, first)
            weight = weight_of(first, reference, runs, table)
            most = np.inf if is_last else capacity / weight
            multiple, at, joined = _multiple(j, most, reference, first, runs, table)
            column[size] = j
            peak[size] = times(multiple, highest - at, table)
            for i in range(n - 1):
                rising[size, i] = runs.tight[i] > 0 if runs.tight[i] != 0 else i < j
            size += 1
            if joined == ALL:
                return size
            subtract(multiple, at, first, runs, table)
            if joined == NONE:
                capacity = 0.0
            else:
                capacity -= times(multiple, reference - at, table) * weight
                if capacity <= 2.0**-50 * z[j]:
                    capacity = 0.0
                low = runs.after[joined] if runs.last[joined] < j else joined  # r moves against the scale
                raise_run(low, runs, table)
            if not settle(runs, table):
                return size
    return size


@jit
def _multiple(j, most, reference, first, runs, table):  # type: ignore[no-untyped-def]
    """Find how much of the scale r allows: `most` at the reference height, or less; the multiple at a height.

    Also what ends it: `NONE` of the steps but the column's capacity, `ALL` of r being used up, or the run whose step
    to the next comes to its bound.
    """
    n, up, down = runs.last.size, 1 / table[1], table[1]
    after, amplitude, top, net = runs.after, runs.amplitude, runs.top, runs.net
    multiple, at, joined = most, reference, NONE
    if after[0] >= n and (np.isinf(most) or amplitude[0] <= times(multiple, first[0] + top[0] - at, table)):
        multiple, at, joined = amplitude[0], first[0] + top[0], ALL
    s = 0
    while after[s] < n:
        follows = after[s]
        ratio = times(amplitude[follows] / amplitude[s], top[s] - net[s] - top[follows], table)
        # net[s] - top[s]: height of the run's last row under its largest entry, -top[follows]: of the next run's first
        if runs.last[s] < j:
            room = amplitude[s] * (up * ratio - 1) / (up * up - 1)
        else:
            room = amplitude[s] * (up - ratio) / (up - down)
        room = max(room, 0.0)
        if np.isinf(multiple) or room < times(multiple, first[s] + top[s] - at, table):
            multiple, at, joined = room, first[s] + top[s], s
        s = follows
    return multiple, at, joined
