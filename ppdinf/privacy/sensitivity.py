r"""The changes of the answers to a linear query by one person: the largest, all of them, and an ellipsoid.

Adding or removing one record changes the answers W x by a column of W, replacing one record by the difference of two.
Components of W are searched separately, and columns by decreasing length, which ends the search early.

With weights u on the points a_j, M = sum_j u_j a_j a_j' and g_j = a_j' M^-1 a_j, the ellipsoid {z : z' M^-1 z <= max g}
contains all points, and its volume exceeds the smallest by a factor of at most (max g / m)^(m/2): the certificate.

M. J. Todd, E. A. Yildirim, "On Khachiyan's algorithm for the computation of minimum-volume enclosing ellipsoids",
Discrete Applied Mathematics 155(13), 2007.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ppdinf._internal.values import Reals, members, numbers, require_choice
from ppdinf.errors import PrivacyError
from ppdinf.lattice.systems import MatrixLike
from ppdinf.privacy.unit_loss import ADDED, REPLACED, SWAPPED

type Neighbours = Literal["replaced", "added", "swapped"]

NEIGHBOURS = {"replaced": REPLACED, "added": ADDED, "swapped": SWAPPED}

LARGEST_POLYTOPE = 2**27
"""Largest number of entries in a list of changes: 1 GB."""


def sensitivity(query: MatrixLike, *, p: int, neighbours: Neighbours = "replaced") -> float:
    """Return the largest l_p distance between the answers on two neighbouring tables.

    Linear in the entries of W for added records; at worst quadratic in the columns of each component for replaced
    records.

    Parameters
    ----------
    query : array_like or scipy sparse, shape (q, d)
        One row per answer, one column per cell.
    p : {1, 2}
    neighbours : {"replaced", "added"}
        One record replaced by another (the size of the table is known), or one added or removed.

    Returns
    -------
    float
        Exact up to rounding.

    Raises
    ------
    PrivacyError
        The query is not a finite matrix with columns; another p; unknown neighbours.

    See Also
    --------
    ppdinf.privacy.sensitivity_polytope, ppdinf.invariants.unit

    References
    ----------
    C. Dwork, F. McSherry, K. Nissim, A. Smith, "Calibrating noise to sensitivity in private data analysis",
    TCC 2006.

    Examples
    --------
    >>> from ppdinf.privacy import sensitivity
    >>> sensitivity([[1, 1, 0], [0, 1, 1]], p=1, neighbours="added")
    2.0
    >>> sensitivity([[1, 1, 0], [0, 1, 1]], p=2)
    1.4142135623730951
    """
    if p not in (1, 2) or isinstance(p, bool):
        raise PrivacyError(f"p must be 1 or 2, found {p!r}")
    columns = _columns(query, neighbours)
    powers = np.asarray((abs(columns) ** p).sum(axis=0), dtype=float)
    if neighbours == "added":
        return float(powers.max() ** (1 / p))
    graph = sparse.block_array([[None, columns], [columns.T, None]])
    component = connected_components(graph, directed=False)[1][columns.shape[0] :]
    order = np.lexsort((-powers, component))
    starts = np.flatnonzero(np.diff(component[order], prepend=-1))
    longest = np.sort(powers[order[starts]])[-2:]
    best = float(longest.sum()) if longest.size == 2 else 0.0
    for start, stop in zip(starts, np.append(starts[1:], order.size), strict=True):
        part = order[start:stop]
        if part.size > 1 and (powers[part[:2]] ** (1 / p)).sum() ** p > best:
            within = sparse.csr_array(columns[:, part])
            best = _farthest(within[np.flatnonzero(np.diff(within.indptr))], powers[part], p, best)
    return float(best ** (1 / p))


def _farthest(columns: sparse.csr_array, powers: Reals, p: int, best: float) -> float:
    """Return the largest p-th power of a distance between two columns, or `best`; columns are sorted by length."""
    by_column = sparse.csc_array(columns)
    sizes = sparse.csc_array(abs(columns) ** p)
    lengths = powers ** (1 / p)
    for i in range(powers.size - 1):
        if (lengths[i] + lengths[i + 1]) ** p <= best:  # an upper bound for all later pairs
            break
        rows = by_column.indices[by_column.indptr[i] : by_column.indptr[i + 1]]
        column = by_column.data[by_column.indptr[i] : by_column.indptr[i + 1], np.newaxis]
        elsewhere = np.ones(columns.shape[0])
        elsewhere[rows] = 0  # sums of powers instead of differences of sums: no cancellation
        distances = (np.abs(columns[rows].toarray() - column) ** p).sum(axis=0) + elsewhere @ sizes
        best = max(best, float(distances[i + 1 :].max()))
    return best


def sensitivity_polytope(query: MatrixLike, *, neighbours: Neighbours = "replaced") -> Reals:
    """Return the changes of the answers whose convex hull, with their negatives, contains all changes by one person.

    Parameters
    ----------
    query, neighbours
        As for `sensitivity`.

    Returns
    -------
    ndarray of float64, shape (q, n)
        The distinct columns of W other than zero, up to sign, or the differences of its columns.

    Raises
    ------
    PrivacyError
        As for `sensitivity`; or the list exceeds the memory limit.

    See Also
    --------
    ppdinf.privacy.sensitivity, ppdinf.KNorm

    Examples
    --------
    >>> from ppdinf.privacy import sensitivity_polytope
    >>> sensitivity_polytope([[1, 1, 0], [0, 0, 1]])
    array([[ 1.],
           [-1.]])
    """
    columns = np.unique(_columns(query, neighbours).toarray(), axis=1)
    if neighbours == "replaced":
        d = columns.shape[1]
        if columns.shape[0] * d * (d - 1) // 2 > LARGEST_POLYTOPE:
            raise PrivacyError(
                f"{d} distinct columns give {d * (d - 1) // 2:,} differences, too many to enumerate: use "
                "SubspaceGaussian or SubspaceLaplace, or neighbours='added'"
            )
        first, second = np.triu_indices(d, k=1)
        columns = columns[:, first] - columns[:, second]
    return _distinct(columns)


def swaps(sums: sparse.csc_array) -> Reals:
    """Return the changes of cells by two replaced records that together keep given sums, distinct up to sign."""
    first, second = np.triu_indices(sums.shape[1])
    group = np.unique((sums[:, first] + sums[:, second]).toarray(), axis=1, return_inverse=True)[1].ravel()
    sizes = np.bincount(group)
    if sums.shape[1] * (number := int((sizes * (sizes - 1)).sum()) // 2) > LARGEST_POLYTOPE:
        raise PrivacyError(f"{number:,} swaps of two records keep the public sums, too many to enumerate")
    before, after = np.hstack([part[np.stack(np.triu_indices(part.size, k=1))] for part in members(group)])
    unit = np.eye(sums.shape[1])
    return _distinct(unit[:, first[before]] + unit[:, second[before]] - unit[:, first[after]] - unit[:, second[after]])


def _distinct(columns: Reals) -> Reals:
    """Return the distinct columns other than zero, up to sign."""
    columns = columns[:, np.any(columns != 0, axis=0)]
    leading = np.take_along_axis(columns, np.argmax(columns != 0, axis=0)[np.newaxis], axis=0)
    return np.unique(columns * np.sign(leading), axis=1)


def _columns(query: MatrixLike, neighbours: str) -> sparse.csc_array:
    require_choice("neighbours", neighbours, ("replaced", "added"))
    columns = sparse.csc_array(query) if sparse.issparse(query) else numbers(query, "a query")
    if columns.ndim != 2 or 0 in columns.shape:
        raise PrivacyError(f"a query must have one row per answer and one column per cell, found shape {columns.shape}")
    columns = sparse.csc_array(columns, dtype=float)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    if not np.isfinite(columns.data).all():
        raise PrivacyError("the query must have finite entries only")
    return columns


REFRESH = 100  # steps between new inverses, which limit rounding errors
STEPS = 10**6


def enclosing_ellipsoid(points: Reals, *, tolerance: float = 1e-3) -> Reals:
    """Return an ellipsoid around points and their negatives whose volume is near the minimum."""
    m, n = points.shape
    if m == 1:
        return np.array([[float((points**2).max())]])
    left, extent, white = np.linalg.svd(points, full_matrices=False)
    if n < m or extent[-1] <= 1e-12 * extent[0]:
        raise _flat()
    root = left * extent
    return root @ _around(white, tolerance) @ root.T


def _around(points: Reals, tolerance: float) -> Reals:
    """Return the ellipsoid around points whose moment matrix is a multiple of the identity."""
    m, n = points.shape
    weights = np.full(n, 1 / n)
    for step in range(STEPS):
        if step % REFRESH == 0:
            moment = (points * weights) @ points.T
            inverse = np.linalg.inv(moment)
            g = np.einsum("ij,ij->j", points, inverse @ points)
        far, near = int(np.argmax(g)), int(np.argmin(np.where(weights > 0, g, np.inf)))
        if g[far] <= m * (1 + tolerance):
            # the certificate uses a newly computed inverse
            moment = (points * weights) @ points.T
            g = np.einsum("ij,ij->j", points, np.linalg.solve(moment, points))
            if m <= g.max() * (1 + 1e-9) and g.max() <= m * (1 + 2 * tolerance):
                return moment * g.max()
            break
        j = far if g[far] - m >= m - g[near] else near
        shift = (g[j] - m) / (m * (g[j] - 1)) if g[j] > 1 else -np.inf
        shift = max(shift, -weights[j] / (1 - weights[j]))
        weights *= 1 - shift
        weights[j] = max(0.0, weights[j] + shift)
        direction = inverse @ points[:, j]
        factor = shift / (1 - shift + shift * g[j])
        inverse = (inverse - factor * np.outer(direction, direction)) / (1 - shift)
        g = (g - factor * (direction @ points) ** 2) / (1 - shift)
    raise _flat()


def _flat() -> PrivacyError:
    return PrivacyError("the points nearly lie in fewer dimensions: no ellipsoid around them could be certified")
