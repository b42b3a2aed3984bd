"""Truncation of counts: which cells have a window of counts, how wide it is, and the probability outside it.

The same rules hold for `ppdinf.PartiallyPrivate`, `ppdinf.denoise` and `ppdinf.sample_confidential`:

1. A cell without measurement, exact sum, bound and dependent has no window. Its factor in the marginal likelihood is
   the sum of its data model over all counts, which is 1, and it is drawn afterwards from its data model
   (`without_information`).
2. The window of any other cell is the intersection of the reaches of its readings. Readings that disagree reach
   further: the tail of one reading is compared with the weight of the count that suits all of them best
   (`reaches`, `joint_reach`).
3. Beyond its window the posterior of a cell is bounded from the posterior itself, after sampling
   (`beyond_marginals`, `beyond_draws`). Above `LARGEST_SHARE` the window is enlarged, or the cell is named.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.invariants import System
from ppdinf.lattice.points.fiber_tables import cell_intervals
from ppdinf.laws.observation_model import IndependentLaw
from ppdinf.measurements.entries import Entries

__all__ = [
    "LARGEST_SHARE",
    "beyond_draws",
    "beyond_marginals",
    "groups_of_rows",
    "joint_reach",
    "possible_counts",
    "reaches",
    "without_information",
]

LARGEST_SHARE = 1e-6
"""Posterior probability outside the window of a cell above which the window is too small."""

type Reals = NDArray[np.float64]
type Flags = NDArray[np.bool_]

CANDIDATES = 33  # counts among which the one that suits several readings best is sought
RAREST = 280  # decimal digits of the smallest probability that a reach is asked for
TAIL = 20  # largest draws from which the scale of a tail is estimated
CELLS = 2**12  # whose draws are sorted at once


def without_information(system: System, measured: NDArray[np.int64], nonnegative: NDArray[np.bool_]) -> Flags:
    """Tell cells that no measurement, no exact sum and no bound depends on.

    Parameters
    ----------
    system : System
    measured : array of int64
        Cells of all measured sums.
    nonnegative : array of bool, shape (d,)
        Cells whose counts are 0 or more under the data model: a lower bound of 0 or less then holds in any case.

    Returns
    -------
    array of bool, shape (d,)
    """
    alone = np.flatnonzero(np.diff(system.B.indptr) == 1)
    place = system.B.indptr[alone]
    holds = nonnegative[system.B.indices[place]] & (system.B.data[place] > 0) & (system.limits[alone] <= 0)
    binding = np.ones(system.limits.size, dtype=bool)
    binding[alone[holds]] = False
    found = np.ones(nonnegative.size, dtype=bool)
    for cells in (measured, system.A.indices, system.B[np.flatnonzero(binding)].indices):
        found[cells] = False
    return found


def possible_counts(
    system: System, nonnegative: Flags, noisy: tuple[sp.csr_array, NDArray[np.int64]] | None = None
) -> tuple[Reals, Reals]:
    """Find the smallest and largest count of every cell, by what is public and the sign of the data model.

    Parameters
    ----------
    system : System
    nonnegative : array of bool, shape (d,)
    noisy : tuple of matrix and limits, optional
        Inequalities that noisy sums obey but with a small probability. Ignored where they contradict the rest.

    Returns
    -------
    low, high : array of float64, shape (d,)
        Infinite where there is no end. All are, where public statements contradict each other: the search for a table
        to start from names the statements.
    """
    kept = np.flatnonzero(nonnegative)
    units = sp.csr_array(sp.eye_array(nonnegative.size, dtype=np.int64, format="csr")[kept])
    B, limits = [system.B, units], [system.limits, np.zeros(kept.size, np.int64)]
    for further in ([noisy], []) if noisy is not None and noisy[1].size else ([],):
        rows = sp.vstack([*B, *(more for more, _ in further)], format="csr")
        low, high = cell_intervals(system.A, system.values, rows, np.concatenate([*limits, *(b for _, b in further)]))
        if not np.any(low > high):
            return low, high
    return np.full(nonnegative.size, -np.inf), np.full(nonnegative.size, np.inf)


def groups_of_rows(matrix: sp.csr_array) -> NDArray[np.int64]:
    """Give every row of a matrix a number, the same one for rows that are equal."""
    matrix = sp.csr_array(matrix, copy=True)
    matrix.sort_indices()
    ends = matrix.indptr.tolist()
    numbers: dict[tuple[bytes, bytes], int] = {}
    found = [
        numbers.setdefault((matrix.indices[a:b].tobytes(), matrix.data[a:b].tobytes()), len(numbers))
        for a, b in pairwise(ends)
    ]
    return np.array(found, dtype=np.int64)


def reaches(
    entries: Entries, groups: NDArray[np.int64], tail_probability: float, low: Reals, high: Reals
) -> tuple[Reals, Reals]:
    r"""Find the range of the sum that each reading comes from, given the other readings of the same sum.

    Parameters
    ----------
    entries : Entries
    groups : array of int64, shape (k,)
        The sum that each entry is a reading of.
    rare : float
        Largest posterior probability, under a flat prior of the sum, of a value beyond either end.
    low, high : array of float64, shape (k,)
        Possible values of the sums.

    Returns
    -------
    array of float64, shape (k,), twice

    Notes
    -----
    Let :math:`w_k(s) \le 1` be the weight of reading k. The posterior of the sum is proportional to the product of the
    weights. The total of the product is at least its value at any possible c, and its part beyond the reach of reading
    k is at most the tail of :math:`w_k`. So the probability `rare` of the tail of one reading is multiplied by
    :math:`\prod_j w_j(c)`, which is near 1 where the readings agree.
    """
    digits = np.ceil(-_log_agreement(entries, groups, low, high) / np.log(10)).clip(0, RAREST).astype(np.int64)
    ends = np.empty((2, entries.y.size))
    for form, rows in entries.forms:
        for digit in np.unique(digits[rows]).tolist():
            own = digits[rows] == digit
            found = form.support_bounds(entries.y[rows], max(tail_probability * 10.0**-digit, 1e-300))
            for end in (0, 1):
                ends[end, rows[own]] = np.broadcast_to(found[end], rows.shape)[own]
    return ends[0], ends[1]


def _log_agreement(entries: Entries, groups: NDArray[np.int64], low: Reals, high: Reals) -> Reals:
    """Log weight of the count that suits all readings of a sum best, shape (k,), 0 where one reading is possible.

    The best of some candidates is taken. Its weight is a lower bound, with which windows are wide enough.
    """
    found = np.zeros(entries.y.size)
    if not found.size:
        return found
    least, most = (np.asarray(end, dtype=np.float64) for end in entries.support_bounds(0.5))
    least, most = np.where(np.isfinite(least), least, most), np.where(np.isfinite(most), most, least)
    middle = np.clip(np.nan_to_num((least + most) / 2), low, high)
    doubtful = (np.bincount(groups)[groups] > 1) | (middle < least) | (middle > most)
    rows = np.flatnonzero(doubtful)
    if not rows.size:
        return found
    _, group = np.unique(groups[rows], return_inverse=True)
    first, last = np.full(group.max() + 1, np.inf), np.full(group.max() + 1, -np.inf)
    np.minimum.at(first, group, middle[rows])
    np.maximum.at(last, group, middle[rows])
    candidates = np.linspace(first, last, CANDIDATES, axis=1)
    order = np.argsort(group, kind="stable")
    place = np.arange(rows.size) - np.searchsorted(group[order], group[order])
    own = np.full((first.size, place.max() + 1), np.nan)  # each reading itself is a candidate
    own[group[order], place] = middle[rows[order]]
    candidates = np.rint(np.hstack([candidates, np.where(np.isnan(own), first[:, None], own)])).astype(np.int64)
    together = np.zeros(candidates.shape)
    np.add.at(together, group, _log_weights(entries, rows, candidates[group]))
    found[rows] = together.max(axis=1)[group]
    return found


def _log_weights(entries: Entries, rows: NDArray[np.int64], sums: NDArray[np.int64]) -> Reals:
    """Log weights of some entries at several values of their sums, shape (n, values), each entry alone."""
    found, some = np.empty(sums.shape), entries.only(rows)
    for form, own in some.forms:
        alone = [own] if isinstance(form, IndependentLaw) else own[:, None]
        for part in alone:
            found[part] = form.log_weight(some.y[part][:, None], sums[part])
    return found


def joint_reach(groups: NDArray[np.int64], low: Reals, high: Reals, size: int) -> tuple[Reals, Reals]:
    """Intersect the reaches of the readings of each sum, shape (size,); infinite for a sum without readings.

    Where no value is in reach of all readings, the result is the range of all reaches.
    """
    inside, outside = (np.full((2, size), np.inf) for _ in range(2))
    inside[0], outside[1] = -np.inf, -np.inf
    np.maximum.at(inside[0], groups, low)
    np.minimum.at(inside[1], groups, high)
    np.minimum.at(outside[0], groups, low)
    np.maximum.at(outside[1], groups, high)
    found = np.where(inside[0] > inside[1], outside, inside)
    return found[0], found[1]


def beyond_marginals(law: Reals) -> Reals:
    """Bound the posterior probability of every cell outside its window, from its probabilities within.

    Parameters
    ----------
    law : array, shape (d, width)
        Posterior probabilities of the counts of each window.

    Returns
    -------
    array of float64, shape (d,)
        Beyond each end weights fall at least as fast as from the last count but one to the last, as under log-concave
        laws: the bound is a geometric series.
    """
    if law.shape[1] < 2:
        return np.zeros(len(law))
    found = np.zeros(len(law))
    for last, before in ((law[:, 0], law[:, 1]), (law[:, -1], law[:, -2])):
        ratio = np.divide(last, before, out=np.ones_like(last), where=before > 0)
        falls = np.where(ratio < 1, ratio / np.maximum(1 - ratio, 1e-3), 1e3)
        found += np.minimum(last * falls, 1.0)
    return found


def beyond_draws(draws: NDArray[np.int64], first: Reals, last: Reals, low: Reals, high: Reals) -> NDArray[np.float64]:
    """Estimate the posterior probability of every cell beyond both ends of its window, from draws within.

    Parameters
    ----------
    draws : array of int64, shape (n, d)
    first, last : array, shape (d,)
        Smallest and largest count of each window.
    low, high : array of float64, shape (d,)
        Possible counts. There is nothing beyond a window that ends outside of them.

    Returns
    -------
    array of float64, shape (2, d)

    Notes
    -----
    The tail is taken to be exponential. Its scale is estimated from the largest draws (or the smallest), as Weissman's
    estimator does for power laws (J. Am. Stat. Assoc. 73, 1978).
    """
    n, d = draws.shape
    k = max(min(TAIL, n // 10), 1)
    found = np.zeros((2, d))
    for begin in range(0, d, CELLS):
        cells = slice(begin, begin + CELLS)
        part = np.partition(draws[:, cells], sorted({0, k, n - 1 - k, n - 1} & set(range(n))), axis=0)
        for side, (extreme, inner, end, is_hard) in enumerate((
            (part[0], part[min(k, n - 1)], first[cells], first[cells] < low[cells]),
            (-part[-1], -part[max(n - 1 - k, 0)], -last[cells], last[cells] > high[cells]),
        )):  # fmt: skip
            scale = (inner - extreme) / np.log(k + 1)
            gap = np.maximum(extreme - end, 0)
            falls = np.exp(-np.divide(gap, scale, out=np.where(gap > 0, np.inf, 0.0), where=scale > 0))
            found[side, cells] = np.where(is_hard, 0.0, falls / n)
    return found
