"""How near two different tables with the same public sums can be: the shortest vector of the lattice in l1.

Distance 1 takes a cell in no constraint, distance 2 (up to sign) two proportional columns of weight one, as
within a class. Beyond that a short basis vector bounds it from above and parity from below (when the
total is public, l1 norms are even); where the two differ, integer programmes over each class sum decide.
"""

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from ppdinf.lattice.structure import Structure

__all__ = ["shortest_distance"]


def shortest_distance(found: Structure) -> int | None:
    """Smallest l1 norm of a non-zero integer vector z with ``A z = 0``.

    Parameters
    ----------
    found : Structure

    Returns
    -------
    int or None
        None when the lattice is {0}: the public sums fix every cell.

    Notes
    -----
    Immediate for groups and two-way tables; otherwise up to one small integer programme per class.

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> two_way = np.vstack([np.kron(np.eye(3, dtype=int), [1] * 4), np.tile(np.eye(4, dtype=int), 3)])
    >>> [shortest_distance(structure(A)) for A in ([[1, 1]], two_way, [[2, 3, 5]], np.eye(2, dtype=int))]
    [2, 4, 3, None]
    """
    basis = found.lattice.class_basis  # lifted to one cell per class: distances do not change
    norms = np.asarray(abs(basis).sum(axis=0)).ravel()
    best = min([*norms.tolist(), *([2] if found.class_sizes.max(initial=0) > 1 else [])], default=None)
    if best is None or best <= 2:
        return best
    even = not np.any(np.asarray(basis.sum(axis=0)).ravel() % 2)
    floor = 4 if even else 3 if not _opposite_columns(found) else 2
    for cell in range(basis.shape[0]):
        if best <= floor:
            break
        best = min(best, _through(found.class_system, cell, best))
    return best


def _opposite_columns(found: Structure) -> bool:
    """Whether two columns are opposite, which weights of both signs allow (equal ones share a class)."""
    columns = {tuple(zip(c.indices.tolist(), c.data.tolist(), strict=True)) for c in _columns(found.class_system)}
    return any(tuple((row, -weight) for row, weight in column) in columns for column in columns)


def _columns(system: sparse.csc_array) -> list[sparse.csc_array]:
    return [sparse.csc_array(system[:, [k]]) for k in range(system.shape[1])]


def _through(system: sparse.csc_array, cell: int, best: int) -> int:
    """Smallest norm below `best` of a vector with at least one unit in `cell`; `best` if there is none."""
    n = system.shape[1]
    lower = np.zeros(2 * n)
    lower[cell] = 1
    found = milp(
        np.ones(2 * n),
        integrality=np.ones(2 * n),
        bounds=Bounds(lower, best),
        constraints=[
            LinearConstraint(sparse.hstack([system, -system]), 0, 0),
            LinearConstraint(np.ones((1, 2 * n)), -np.inf, best - 1),
            LinearConstraint(np.eye(1, 2 * n, n + cell), 0, 0),  # or the unit could be taken back
        ],
    )
    return best if found.x is None else round(found.fun)
