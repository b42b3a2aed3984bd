"""Sums of cells of which any two are nested or disjoint, as a forest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit


@dataclass(frozen=True, eq=False)
class Forest:
    """Different sums, each below the smallest sum that contains it."""

    node: NDArray[np.int64]
    parent: NDArray[np.int64]
    of_row: NDArray[np.int64]


def forest_of(rows: sp.csr_array) -> Forest | None:
    """Return rows of ones as a forest, or None if entries are not ones or two rows overlap."""
    rows = sp.csr_array(rows)
    if (rows.data != 1).any() or (np.diff(rows.indptr) == 0).any():
        return None
    order = np.argsort(np.diff(rows.indptr), kind="stable")
    node, parent, of_row = (np.full(n, -1, dtype=np.int64) for n in (rows.shape[1], rows.shape[0], rows.shape[0]))
    m = _nest(order, rows.indptr.astype(np.int64), rows.indices.astype(np.int64), node, parent, of_row)
    return Forest(node, parent[:m], of_row) if m >= 0 else None


@jit
def _nest(order: NDArray[np.int64], first: NDArray[np.int64], cells: NDArray[np.int64], node: NDArray[np.int64],
          parent: NDArray[np.int64], of_row: NDArray[np.int64]) -> int:  # fmt: skip
    """Insert rows from small to large; each must contain every sum that it meets. Return the number of sums, or -1."""
    m = 0
    top = np.full(node.size, -1, dtype=np.int64)  # the largest sum so far that contains each cell
    size, met = np.zeros(order.size, dtype=np.int64), np.zeros(order.size, dtype=np.int64)
    for row in order:
        own = cells[first[row] : first[row + 1]]
        for cell in own:
            if top[cell] >= 0:
                met[top[cell]] += 1
        same = -1
        for cell in own:
            t = top[cell]
            if t >= 0 and met[t] > 0:
                if met[t] != size[t]:
                    return -1
                if size[t] == own.size:
                    same = t
                met[t] = 0
        if same >= 0:
            of_row[row] = same
            continue
        for cell in own:
            if top[cell] < 0:
                node[cell] = m
            else:
                parent[top[cell]] = m
            top[cell] = m
        size[m] = own.size
        of_row[row] = m
        m += 1
    return m
