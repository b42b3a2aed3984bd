"""Projection onto non-negative numbers with public sums over disjoint groups, by sorting.

Minimizes ``sum_i (x_i - y_i)^2`` subject to x >= 0 and one sum s per group. The solution shifts all cells of a group by
the same amount t and clips: x_i = max(y_i - t, 0). With the cells in decreasing order, the first k remain positive,
where k is the largest number with ``y_(k) > (y_(1) + ... + y_(k) - s) / k``, and t is this ratio.

References
----------
M. Held, P. Wolfe, H. Crowder, "Validation of subgradient optimization", Mathematical Programming 6, 1974.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import InvariantError


def onto_simplices(y: ArrayLike, groups: ArrayLike, sums: ArrayLike) -> NDArray[np.float64]:
    """Project onto {x >= 0 : the cells of each group have a given sum}."""
    y, groups, sums = np.asarray(y, dtype=np.float64), np.asarray(groups), np.asarray(sums, dtype=np.float64)
    sizes = np.bincount(groups[groups >= 0], minlength=sums.size)
    for group in np.flatnonzero((sums < 0) | ((sums > 0) & (sizes == 0)))[:1]:
        raise InvariantError(f"group {group} of {sizes[group]} non-negative cells cannot have its sum")
    order = np.lexsort((-y, groups))[np.count_nonzero(groups < 0) :]
    group = groups[order]
    start = np.cumsum(sizes) - sizes
    place = np.arange(order.size) - start[group]
    centred = y[order] - y[order][start[group]]
    below = np.concatenate([[0.0], np.cumsum(centred)])
    ratio = (below[1:] - below[start[group]] - sums[group]) / (place + 1)
    ratio += y[order][start[group]]
    positive = order[(y[order] > ratio) & (sums[group] > 0)]
    # Compute t again from the positive cells only: differences of long cumulative sums lose digits.
    kept = np.bincount(groups[positive], minlength=sums.size)
    t = (np.bincount(groups[positive], y[positive], sums.size) - sums) / np.maximum(kept, 1)
    projected = np.where(groups < 0, np.maximum(y, 0.0), 0.0)
    projected[positive] = y[positive] - t[groups[positive]]
    return projected
