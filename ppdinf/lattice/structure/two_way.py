"""Two-way tables with both margins public, detected from the rows of a system.

Every cell is in two sums, its row and its column, and no two cells are in the same two sums. The system is therefore
the incidence matrix of a complete bipartite graph whose edges are the cells.
"""

import numpy as np
from scipy import sparse

from ppdinf.lattice.algebra.systems import IntVector


def two_way_table(system: sparse.csc_array) -> IntVector | None:
    """Return columns as the cells of a complete two-way table, if the rows are its two margins."""
    by_row = sparse.csr_array(system)
    whole = (np.diff(by_row.indptr) == system.shape[1]) & (by_row.max(axis=1).toarray() == by_row.min(axis=1).toarray())
    margins = sparse.csc_array(by_row[~whole])
    if (margins.data != 1).any() or (np.diff(margins.indptr) != 2).any():
        return None
    ends = margins.indices.reshape(-1, 2)
    side = np.zeros(margins.shape[0], dtype=bool)
    side[ends[(ends == ends[0, 0]).any(axis=1)].ravel()] = True
    side[ends[0, 0]] = False
    rows, columns = np.flatnonzero(~side), np.flatnonzero(side)
    crossing = side[ends[:, 0]] != side[ends[:, 1]]
    if not crossing.all() or rows.size * columns.size != ends.shape[0]:
        return None
    place = np.empty(margins.shape[0], dtype=np.int64)
    place[rows], place[columns] = np.arange(rows.size), np.arange(columns.size)
    swapped = side[ends[:, 0]]
    row, column = np.where(swapped, ends[:, 1], ends[:, 0]), np.where(swapped, ends[:, 0], ends[:, 1])
    table = np.empty((rows.size, columns.size), dtype=np.int64)
    table[place[row], place[column]] = np.arange(ends.shape[0])
    return table
