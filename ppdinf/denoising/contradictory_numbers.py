"""Published numbers that no table of counts has, and published numbers that the posterior contradicts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.measurements import Measurements
from ppdinf.measurements.entries import Entries


def require_possible_numbers(data: Measurements) -> None:
    """Refuse an exact sum, a bound or a published number that no table of counts satisfies by itself."""
    system, entries = data.public, data.entries
    exact = system.values.astype(np.float64)
    limits = system.limits.astype(np.float64)
    for row in _impossible(system.A, exact, exact):
        raise _error(f"{system.names[row]!r} is published as {system.values[row]}")
    for row in _impossible(system.B, limits, np.full(limits.size, np.inf)):
        raise _error(f"the public bound {system.bound_names[row]!r} is stated")
    for row in _impossible(entries.matrix, *entries.support_bounds(0.0)):
        value = entries.only(np.array([row])).published[0]
        raise _error(f"{entries.names[row]!r} is published as {value}")


def _error(number: str) -> InvariantError:
    return InvariantError(
        f"{number}, which is possible for no table of counts: counts are not negative. Correct the value, or state "
        "the law of its noise"
    )


def _impossible(matrix: sp.csr_array, low: Reals, high: Reals) -> list[int]:
    """Return the first row whose sum of counts cannot be between its two ends, or no row."""
    row = np.repeat(np.arange(low.size), np.diff(matrix.indptr))
    falls, rises = (np.bincount(row[sign], minlength=low.size) > 0 for sign in (matrix.data < 0, matrix.data > 0))
    return np.flatnonzero((~rises & (low > 0)) | (~falls & (high < 0)))[:1].tolist()


RATE = 1e-4  # largest probability of a false alarm per table, if the table is drawn from the prior
DRAWS = 128  # largest number of draws that are compared with the published numbers
SHOWN = 3  # numbers that a message names


def contradictions(entries: Entries, draws: NDArray[np.integer]) -> tuple[Integers, Reals]:
    """Return the published numbers that half of the draws contradict, worst first, and the mean draws of their sums."""
    k, draws = entries.y.size, draws.reshape(-1, draws.shape[-1])
    low, high = np.empty(k), np.empty(k)
    for form, rows in entries.forms:
        low[rows], high[rows] = form.support_bounds(entries.of(form, rows), RATE / (2 * k * form.outside))
    chosen = draws[np.unique(np.linspace(0, len(draws) - 1, DRAWS).astype(np.int64))]
    outside, total = np.zeros(k), np.zeros(k)
    for cells in chosen:
        sums = entries.matrix @ cells
        outside += (sums < low) | (sums > high)
        total += sums
    rows, means = np.flatnonzero(2 * outside >= len(chosen)), total / len(chosen)
    gap = np.maximum(low - means, means - high)[rows]
    width = np.where(np.isfinite(high - low), high - low, 0.0)[rows]
    worst = np.argsort(-gap / (1 + width), kind="stable")
    return rows[worst], means[rows[worst]]


def contradiction_problem(entries: Entries, draws: NDArray[np.integer]) -> str:
    """Name the published numbers that the draws, shape (chains, draws, d), contradict, or return an empty string."""
    if not entries.y.size:
        return ""
    rows, means = contradictions(entries, draws)
    if not rows.size:
        return ""
    values = entries.only(rows[:SHOWN]).published
    named = ", ".join(
        f"{entries.names[int(row)]} ({value} is published, the mean of the draws is {mean:,.1f})"
        for row, value, mean in zip(rows[:SHOWN], values, means[:SHOWN], strict=True)
    )
    more = f", and {rows.size - SHOWN} more" if rows.size > SHOWN else ""
    return (
        f"the draws contradict {rows.size} of {entries.y.size} published numbers by more than the noise of their laws "
        f"(false-alarm rate {RATE:g}): {named}{more}; compare these numbers with the other numbers and exact "
        "statements about the same cells, and correct a value or the scale of a law"
    )
