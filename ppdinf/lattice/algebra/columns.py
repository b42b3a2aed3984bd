"""Equal columns of a sparse integer matrix.

Columns are grouped by a random linear hash (one sparse product modulo 2^64). Then every column is compared entry by
entry with the first column of its group, so the result is exact: a collision requires another round.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.lattice.algebra.systems import IntVector


def equal_columns(A: sparse.csc_array) -> tuple[IntVector, IntVector]:
    """Group equal columns."""
    rng = np.random.default_rng(0)  # any generator is valid, because the comparison below is exact
    lengths = np.diff(A.indptr)
    keys = lengths.astype(np.uint64)
    while True:
        weights = rng.integers(2**64, size=A.shape[0], dtype=np.uint64)
        keys = keys * np.uint64(0x9E3779B97F4A7C15) + _column_hash(A, weights)
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        if _all_equal_to(A, lengths, first[group]):
            break
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[group].astype(np.int64), first[order].astype(np.int64)


def _column_hash(A: sparse.csc_array, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    terms = A.data.astype(np.uint64) * weights[A.indices]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])  # wraps modulo 2^64
    found: NDArray[np.uint64] = sums[A.indptr[1:]] - sums[A.indptr[:-1]]
    return found


def _all_equal_to(A: sparse.csc_array, lengths: NDArray[np.integer], representative: NDArray[np.integer]) -> bool:
    """Return whether every column equals its representative, entry by entry."""
    if (lengths != lengths[representative]).any():
        return False
    offsets = np.repeat(A.indptr[representative] - A.indptr[:-1], lengths)
    partner = np.arange(A.nnz) + offsets
    return bool((A.indices == A.indices[partner]).all() and (A.data == A.data[partner]).all())


def distinct_rows(system: sparse.csc_array) -> sparse.csc_array:
    """Drop empty and repeated rows."""
    rows = sparse.csc_array(system.T)
    _, first = equal_columns(rows)
    kept = first[np.diff(rows.indptr)[first] > 0]
    return sparse.csc_array(rows[:, kept].T)
