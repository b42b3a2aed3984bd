"""The fiber of a release: all tables that agree with the public sums, within reach of the noise.

A count further from the released one than the noise can carry it, but with probability 1e-12 for the
whole table, is left out; windows of counts are then finite and fixed, whatever the data model says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import InvariantError

__all__ = ["Fiber", "group_members"]


@dataclass(frozen=True, eq=False)
class Fiber:
    """Windows of counts, noise weights and groups of exchangeable cells.

    Attributes
    ----------
    A, values, names
        Public sums: ``A x = values`` with a name for each row.
    lower : array of int64, shape (d,)
        Smallest count in the window of each cell.
    log_noise : array of float64, shape (d, width)
        Log weight of the released count given each count of the window.
    groups, starts : arrays of int64
        Cells of group g are ``groups[starts[g]:starts[g + 1]]``: they lie under the same public sums.
    free : array of int64
        Cells under no public sum.
    """

    A: sp.csr_array
    values: NDArray[np.int64]
    names: list[str]
    lower: NDArray[np.int64]
    log_noise: NDArray[np.float64]
    groups: NDArray[np.int64]
    starts: NDArray[np.int64]
    free: NDArray[np.int64]

    @property
    def width(self) -> int:
        """Number of counts in each window."""
        return self.log_noise.shape[1]

    def require(self, x: NDArray[np.int64]) -> None:
        """Refuse a table off the fiber or outside the windows.

        Raises
        ------
        InvariantError
            Naming the violated public sum, or the number of cells out of reach.
        """
        wrong = np.flatnonzero(self.A @ x != self.values)
        if wrong.size:
            raise InvariantError(
                f"the starting table breaks {len(wrong)} public sums, the first is {self.names[wrong[0]]!r}: leave "
                "its start to ppdinf, or pass a table that keeps every public sum"
            )
        outside = np.count_nonzero((x < self.lower) | (x >= self.lower + self.width))
        if outside:
            raise InvariantError(
                f"the starting table has {outside} cells further from the release than noise can reach"
            )

    def at_edge(self, x: NDArray[np.int64]) -> int:
        """Count cells at the end of their window; any says that release and model contradict each other."""
        return int(np.count_nonzero((x == self.lower) | (x == self.lower + self.width - 1)))


def group_members(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Collect the members of every group of two or more.

    Parameters
    ----------
    labels : array of int64, shape (d,)
        Group of each cell; negative for none.

    Returns
    -------
    members, starts : arrays of int64
        Group g is ``members[starts[g]:starts[g + 1]]``.

    Examples
    --------
    >>> group_members(np.array([0, 1, 0, 2, 2, -1]))
    (array([0, 2, 3, 4]), array([0, 2, 4]))
    """
    kept = np.flatnonzero(labels >= 0)
    order = kept[np.argsort(labels[kept], kind="stable")]
    _, sizes = np.unique(labels[order], return_counts=True)
    members = order[np.repeat(sizes > 1, sizes)]
    return members, np.concatenate([[0], np.cumsum(sizes[sizes > 1])])
