"""Matrices of probabilities as sums of scales, and their largest ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.counts.scales import depths


@dataclass(frozen=True, eq=False)
class Scales:
    """Columns as sums of scales."""

    column: NDArray[np.int64]
    peak: NDArray[np.float64]
    rising: NDArray[np.bool_]


@jit
def add_scales(column, peak, rising, table, found):  # type: ignore[no-untyped-def]
    """Add scales to a matrix: ``peak * table[depth]``."""
    n = found.shape[0]
    depth = np.empty(n, np.int64)
    for k in range(column.size):
        depth[0] = 0
        lowest = 0
        for i in range(n - 1):
            depth[i + 1] = depth[i] + (-1 if rising[k, i] else 1)
            lowest = min(lowest, depth[i + 1])
        for i in range(n):
            found[i, column[k]] += peak[k] * table[depth[i] - lowest]


def scales_ratio(scales: Scales, epsilon: float) -> float:
    """Return the largest log ratio of neighbouring entries: exactly epsilon if all scales of a column agree."""
    order = np.argsort(scales.column, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(scales.column[order])) + 1)
    worst = 0.0
    for group in groups:
        rising = scales.rising[group]
        if (rising.all(axis=0) | ~rising.any(axis=0)).any():
            return epsilon
        log_entry = np.log(scales.peak[group])[:, np.newaxis] - epsilon * depths(rising)[:, :-1]
        share = np.exp(log_entry - log_entry.max(axis=0))
        up = (share * rising).sum(axis=0) / share.sum(axis=0)
        ratios = math.exp(-epsilon) + up * (math.exp(epsilon) - math.exp(-epsilon))
        worst = max(worst, float(np.abs(np.log(ratios)).max(initial=0.0)))
    return min(worst, epsilon)
