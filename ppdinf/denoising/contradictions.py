"""Published numbers that the posterior contradicts, with a proved false-alarm rate.

A law states which counts are improbable given a published number: those outside `support_bounds` of a tail probability
p. Given the true count, the number is so far away with a probability of at most ``outside p``. A posterior draw and the
truth have the same joint distribution with the published number. The expected share of such draws is therefore at most
``outside p``, and by Markov's inequality half of the draws or more have this property with a probability of at most
``2 outside p``. The sum over all numbers is `RATE`. The draws may be dependent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ppdinf.measurements.entries import Entries

RATE = 1e-4  # largest probability of a false alarm per table, if the table is drawn from the prior
DRAWS = 128  # largest number of draws that are compared with the published numbers
SHOWN = 3  # numbers that a message names


def contradictions(entries: Entries, draws: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
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
