"""What one person can change in the answers, as seen from the null space of the public sums."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ppdinf._internal.types import Array
from ppdinf.errors import PrivacyError
from ppdinf.lattice.algebra.kernel import kernel
from ppdinf.lattice.null_space import NullSpace
from ppdinf.lattice.structure.blocks import Structure, structure
from ppdinf.mechanisms.counting_queries import Query
from ppdinf.privacy.sensitivity import Neighbours, sensitivity_polytope

__all__ = ["inside", "moved_structure", "sensitivity_directions"]

SMALLEST = 1e-6  # extent of the moves along any of their directions, relative to the longest


def sensitivity_directions(space: NullSpace, query: Query | None, neighbours: Neighbours) -> tuple[Array, Array]:
    """List the moves of Q'W by one person in coordinates of the directions that they span.

    Returns
    -------
    directions : ndarray of float64, shape (d, k)
        Orthonormal, within the null space. Answers never differ along any other of its directions.
    moves : ndarray of float64, shape (k, n)
        Up to sign; they span R^k.

    Raises
    ------
    PrivacyError
        There are too many moves to list, or their extent differs too much between directions.

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> from ppdinf.lattice.null_space import null_space
    >>> directions, moves = sensitivity_directions(null_space(structure([[1, 1, 1]])), None, "replaced")
    >>> np.linalg.norm(moves, axis=0).round(9)
    array([1.41421356, 1.41421356, 1.41421356])
    """
    d = space.fixed.shape[0]
    answers = sparse.eye_array(d, dtype=np.int64) if query is None else np.array(query)
    k = _seen(space, sparse.csc_array(answers), neighbours)[0]
    if not k:
        return np.zeros((d, 0)), np.zeros((0, 0))
    moves = sensitivity_polytope(space.basis.T @ answers, neighbours=neighbours)
    left, extent, _ = np.linalg.svd(moves, full_matrices=False)
    if extent[k - 1] < SMALLEST * extent[0]:
        raise PrivacyError(
            "the answers differ in scale by more than a million, too much for double precision: use smaller weights, "
            "or SubspaceGaussian"
        )
    return space.basis @ left[:, :k], left[:, :k].T @ moves


def moved_structure(space: NullSpace, query: Query | None, neighbours: Neighbours) -> Structure:
    """Structure of the whole vectors that moves span in the null space: of the public sums, and of what nobody moves.

    Examples
    --------
    >>> from ppdinf.lattice.null_space import null_space
    >>> free = null_space(structure([[0, 0, 0]]))
    >>> moved_structure(free, None, "replaced").lattice.rank  # the number of records stays as it is
    2
    """
    d = space.fixed.shape[0]
    answers = sparse.eye_array(d, dtype=np.int64) if query is None else sparse.csc_array(np.array(query))
    k, both = _seen(space, sparse.csc_array(answers), neighbours)
    if k == space.dimension:
        return space.structure
    system = space.structure.class_system[:, space.structure.classes]
    return structure(sparse.vstack([system, kernel(both.T).basis.T], format="csr", dtype=np.int64))


def _seen(space: NullSpace, answers: sparse.csc_array, neighbours: Neighbours) -> tuple[int, sparse.csc_array]:
    """Dimension of what moves span in the null space, in integers: a move lost to rounding would get no noise.

    Also moves and public sums, one per column.
    """
    if neighbours == "replaced":
        d = answers.shape[1]
        first = sparse.coo_array((np.ones(d - 1, np.int64), (np.zeros(d - 1, int), np.arange(d - 1))), shape=(d, d - 1))
        answers = answers @ (sparse.eye_array(d, dtype=np.int64, format="csc")[:, 1:] - first)
    found = space.structure
    both = sparse.hstack([answers, found.class_system[:, found.classes].T], format="csc", dtype=np.int64)
    return both.shape[1] - kernel(both).rank - space.fixed.shape[1], both


def inside(directions: Array, z: Array) -> bool:
    """Whether z lies in the span of orthonormal directions, but for the rounding of large counts."""
    away = z - directions @ (directions.T @ z)
    return bool(np.linalg.norm(away) <= 1e-6 * max(1.0, float(np.linalg.norm(z))))
