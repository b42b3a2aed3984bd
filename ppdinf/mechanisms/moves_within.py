"""What one person can change in the answers, as seen from the null space of the public sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.lattice.null_space import NullSpace
from ppdinf.mechanisms.counting_queries import Query
from ppdinf.privacy.sensitivity import sensitivity_polytope

__all__ = ["inside", "moves_within"]

NEGLIGIBLE = 1e-9  # relative to the longest move


def moves_within(space: NullSpace, query: Query | None, neighbours: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """List the moves of Q'W by one person in coordinates of the directions that they span.

    Returns
    -------
    directions : ndarray of float64, shape (d, k)
        Orthonormal, within the null space. Answers never differ along any other of its directions.
    moves : ndarray of float64, shape (k, n)
        Up to sign; they span R^k.

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> from ppdinf.lattice.null_space import null_space
    >>> directions, moves = moves_within(null_space(structure([[1, 1, 1]])), None, "replaced")
    >>> np.linalg.norm(moves, axis=0).round(9)
    array([1.41421356, 1.41421356, 1.41421356])
    """
    d = space.fixed.shape[0]
    if not space.dimension:
        return np.zeros((d, 0)), np.zeros((0, 0))
    seen = space.basis.T @ (sparse.eye_array(d) if query is None else np.array(query, dtype=float))
    moves = sensitivity_polytope(seen, neighbours=neighbours)
    left, lengths, _ = np.linalg.svd(moves, full_matrices=False)
    spanned = left[:, lengths > NEGLIGIBLE * lengths.max(initial=0)]
    return space.basis @ spanned, spanned.T @ moves


def inside(directions: NDArray[Any], z: NDArray[Any]) -> bool:
    """Whether z lies in the span of orthonormal directions, but for the rounding of large counts."""
    away = z - directions @ (directions.T @ z)
    return bool(np.linalg.norm(away) <= 1e-6 * max(1.0, float(np.linalg.norm(z))))
