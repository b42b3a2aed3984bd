"""Ranges of counts that published numbers permit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.fiber.identified_sums import Rows, bounds_of_sums
from ppdinf.invariants import System
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.measurements.entries import Entries


def possible_counts(system: System, nonnegative: Flags) -> tuple[Reals, Reals]:
    """Return the smallest and largest count of every cell, by public statements and the sign of the data model."""
    low, high = propagated(system, nonnegative)
    if np.any(low > high):
        return np.full(nonnegative.size, -np.inf), np.full(nonnegative.size, np.inf)
    return low, high


def propagated(system: System, nonnegative: Flags, *further: tuple[sp.csr_array, Integers]) -> tuple[Reals, Reals]:
    """Return ranges of counts by propagation of public and further inequalities; low > high if they contradict."""
    cells = np.flatnonzero(nonnegative)
    units = sp.csr_array(sp.eye_array(nonnegative.size, dtype=np.int64, format="csr")[cells])
    B = sp.vstack([system.B, units, *(matrix for matrix, _ in further)], format="csr")
    limits = np.concatenate([system.limits, np.zeros(cells.size, np.int64), *(b for _, b in further)])
    return cell_intervals(system.A, system.values, B, limits)


def possible_sums(system: System, low: Reals, high: Reals, sums: sp.csr_array) -> tuple[Reals, Reals]:
    """Return the smallest and largest value of sums, by public statements and bounds on the counts."""
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    B, limits = system.B[linked], system.limits[linked].astype(np.float64)
    from_above = B.data[B.indptr[:-1]] < 0  # stated as the sum with the opposite sign
    signs = sp.diags_array(np.where(from_above, -1, 1), dtype=np.int64)
    rows = Rows(
        sp.csr_array(sp.vstack([system.A, signs @ B], format="csr")),
        np.concatenate([system.values, np.where(from_above, -np.inf, limits)]),
        np.concatenate([system.values, np.where(from_above, -limits, np.inf)]),
    )
    try:
        return bounds_of_sums(rows, (low, high), sums)
    except InvariantError:
        return np.full(sums.shape[0], -np.inf), np.full(sums.shape[0], np.inf)


CANDIDATES = 33  # counts from which the one most compatible with several measurements is chosen
RAREST = 280  # decimal digits of the smallest supported tail probability


def without_information(system: System, measured: Integers, nonnegative: Flags) -> Flags:
    """Return cells on which no measurement, no exact sum and no bound depends."""
    alone = np.flatnonzero(np.diff(system.B.indptr) == 1)
    place = system.B.indptr[alone]
    holds = nonnegative[system.B.indices[place]] & (system.B.data[place] > 0) & (system.limits[alone] <= 0)
    binding = np.ones(system.limits.size, bool)
    binding[alone[holds]] = False
    result = np.ones(nonnegative.size, dtype=bool)
    for cells in (measured, system.A.indices, system.B[np.flatnonzero(binding)].indices):
        result[cells] = False
    return result


def groups_of_rows(matrix: sp.csr_array) -> Integers:
    """Return an index for every row of a matrix, the same index for equal rows."""
    matrix = sp.csr_array(matrix, copy=True)
    matrix.sort_indices()
    ends = matrix.indptr.tolist()
    numbers: dict[tuple[bytes, bytes], int] = {}
    result = [
        numbers.setdefault((matrix.indices[a:b].tobytes(), matrix.data[a:b].tobytes()), len(numbers))
        for a, b in pairwise(ends)
    ]
    return np.array(result, dtype=np.int64)


def joint_reach(
    entries: Entries, groups: Integers, tail_probability: float, low: Reals, high: Reals
) -> tuple[Reals, Reals]:
    r"""Return the range of each sum given all its measurements."""
    lower, upper = intersection(
        groups, *_reaches(entries, groups, tail_probability, low[groups], high[groups]), low.size
    )
    below, above = np.flatnonzero(upper < low), np.flatnonzero(lower > high)
    width = upper[below] - lower[below], upper[above] - lower[above]
    lower[below], upper[below] = low[below], low[below] + width[0]
    lower[above], upper[above] = high[above] - width[1], high[above]
    return lower, upper


def _reaches(
    entries: Entries, groups: Integers, tail_probability: float, low: Reals, high: Reals
) -> tuple[Reals, Reals]:
    """Return the range of the sum of each measurement, given the other measurements of the same sum."""
    digits = np.ceil(-_log_agreement(entries, groups, low, high) / np.log(10)).clip(0, RAREST).astype(np.int64)
    ends = np.empty((2, entries.y.size))
    for form, rows in entries.forms:
        for digit in np.unique(digits[rows]).tolist():
            measured = digits[rows] == digit
            result = form.support_bounds(entries.of(form, rows), max(tail_probability * 10.0**-digit, 1e-300))
            for end in (0, 1):
                ends[end, rows[measured]] = np.broadcast_to(result[end], rows.shape)[measured]
    return ends[0], ends[1]


def _log_agreement(entries: Entries, groups: Integers, low: Reals, high: Reals) -> Reals:
    """Return the log weight of the count most compatible with all measurements of a sum, (k,), 0 for a single one."""
    result = np.zeros(entries.y.size)
    if not result.size:
        return result
    smallest, largest = (np.asarray(end, dtype=np.float64) for end in entries.support_bounds(0.5))
    smallest, largest = (
        np.where(np.isfinite(smallest), smallest, largest),
        np.where(np.isfinite(largest), largest, smallest),
    )
    middle = np.clip(np.nan_to_num((smallest + largest) / 2), low, high)
    doubtful = (np.bincount(groups)[groups] > 1) | (middle < smallest) | (middle > largest)
    rows = np.flatnonzero(doubtful)
    if not rows.size:
        return result
    _, group = np.unique(groups[rows], return_inverse=True)
    first, last = np.full(group.max() + 1, np.inf), np.full(group.max() + 1, -np.inf)
    np.minimum.at(first, group, middle[rows])
    np.maximum.at(last, group, middle[rows])
    candidates = np.linspace(first, last, CANDIDATES, axis=1)
    order = np.argsort(group, kind="stable")
    place = np.arange(rows.size) - np.searchsorted(group[order], group[order])
    measured = np.full((first.size, place.max() + 1), np.nan)  # each measured value is a candidate
    measured[group[order], place] = middle[rows[order]]
    candidates = np.rint(np.hstack([candidates, np.where(np.isnan(measured), first[:, None], measured)])).astype(
        np.int64
    )
    together = np.zeros(candidates.shape)
    sums, subset = candidates[group], entries.only(rows)
    log_weights = np.empty(sums.shape)
    for form, of_form in subset.forms:
        alone = [of_form] if form.is_independent else of_form[:, None]
        for part in alone:
            log_weights[part] = form.log_weight(subset.of(form, part)[:, None], sums[part])
    np.add.at(together, group, log_weights)
    result[rows] = together.max(axis=1)[group]
    return result


def intersection(groups: Integers, low: Reals, high: Reals, size: int) -> tuple[Reals, Reals]:
    """Intersect the ranges of the measurements of each sum, shape (size,); infinite for a sum without measurements."""
    inside, outside = (np.full((2, size), np.inf) for _ in range(2))
    inside[0], outside[1] = -np.inf, -np.inf
    np.maximum.at(inside[0], groups, low)
    np.minimum.at(inside[1], groups, high)
    np.minimum.at(outside[0], groups, low)
    np.maximum.at(outside[1], groups, high)
    result = np.where(inside[0] > inside[1], outside, inside)
    return result[0], result[1]
