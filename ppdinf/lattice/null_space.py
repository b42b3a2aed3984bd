"""The real null space N of public sums: projection onto it, and an orthonormal basis.

The projection subtracts the part of z that the public sums determine: for a partition, the mean of every class. The
basis of N is a Haar basis within each class and the Gram-Schmidt basis of the lattice of class sums. It is sparse,
determined by the lattice, and also the Gram-Schmidt basis of a lattice basis. Derivation:
docs/mathematics/real_noise.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Integers, Reals, members
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure

NEARLY_DEPENDENT = 1e-7  # smallest relative singular value of the rows
LARGEST_BASIS = 2**27
"""Largest number of entries of the basis of one block: 1 GB."""


@dataclass(frozen=True, eq=False)
class NullSpace:
    """Real vectors z with ``A z = 0``."""

    structure: Structure
    fixed: sparse.csr_array
    sums: sparse.csr_array
    weights: sparse.csr_array

    @property
    def dimension(self) -> int:
        """Dimension m of N, ``d - rank A``."""
        return self.structure.lattice.rank

    def project(self, z: Reals) -> Reals:
        """Project vectors, shape (..., d), orthogonally onto N."""
        rows = np.atleast_2d(z)
        return (rows - (rows @ self.fixed) @ self.fixed.T).reshape(np.shape(z))

    @cached_property
    def basis(self) -> sparse.csc_array:
        """Orthonormal basis Q of N, shape (d, m), computed at first use."""
        lattice, sizes = self.structure.lattice, self.structure.class_sizes
        order = np.argsort(lattice.classes, kind="stable")
        within = [part[np.argsort(order)] for part in reversed(_haar(np.cumsum(sizes) - sizes, np.cumsum(sizes)))]
        across = [sparse.csr_array((sizes.size, 0))]
        sums = sparse.csr_array(lattice.class_basis)
        for classes in _blocks(self.structure):
            own = sums[classes]
            vectors = np.unique(own.indices)
            if classes.size * vectors.size > LARGEST_BASIS:
                raise InvariantError(
                    f"{classes.size} cells lie in one block of crossing public sums, too many for a basis: "
                    "use method='projected'"
                )
            q, r = np.linalg.qr(own[:, vectors].toarray() / np.sqrt(sizes[classes])[:, np.newaxis])
            across.append(_embedded(q * np.sign(np.diag(r)), classes, sizes.size))
        units = _units(self.structure)
        return sparse.csc_array(sparse.hstack([*within, *(units @ part for part in across)], format="csc"))

    @cached_property
    def lattice_basis(self) -> sparse.csc_array:
        """Basis B of the integer vectors of N, int64, shape (d, m); ``basis.T @ B`` is upper triangular."""
        lattice, Q = self.structure.lattice, self.basis
        inner = lattice.classes.size - lattice.representatives.size
        Q.sort_indices()
        column = np.repeat(np.arange(inner), np.diff(Q.indptr[: inner + 1]))
        cells, positive = Q.indices[: column.size], Q.data[: column.size] > 0
        pairs = [cells[side][np.unique(column[side], return_index=True)[1]] for side in (positive, ~positive)]
        ends = np.array(pairs, np.int64).T.ravel()
        signs = np.tile(np.array([1, -1], dtype=np.int64), inner)
        within = sparse.csc_array((signs, ends, np.arange(inner + 1) * 2), shape=(Q.shape[0], inner))
        sums = sparse.csr_array(lattice.class_basis)
        vectors = [np.unique(sums[classes].indices) for classes in _blocks(self.structure)]
        across = lattice.basis[:, inner:][:, np.concatenate([*vectors, np.zeros(0, dtype=np.int64)]).astype(np.int64)]
        return sparse.hstack([within, across], format="csc", dtype=np.int64)


def null_space(structure: Structure) -> NullSpace:
    """Compute the null space of a system from its structure."""
    sizes = structure.class_sizes
    determined = np.flatnonzero(structure.determined)
    eye = sparse.eye_array(sizes.size, format="csc", dtype=np.int64)
    parts, sums = [sparse.csr_array(eye[:, determined], dtype=float)], [eye[determined]]
    weights = [sparse.diags_array(1 / np.sqrt(sizes[determined]))]
    system = sparse.csc_array(structure.class_system)
    for classes in _blocks(structure):
        rows = system[:, classes].tocsr()
        meeting = np.flatnonzero(np.diff(rows.indptr))
        rows = rows[meeting].toarray() * np.sqrt(sizes[classes])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= lengths
        block = structure.blocks[structure.lattice.representatives[classes[0]]]
        rank = classes.size - structure.sum_ranks[block]
        if not rank:  # a cell in no sum
            continue
        directions, extent, combined = np.linalg.svd(rows.T, full_matrices=False)
        if extent[rank - 1] < NEARLY_DEPENDENT * extent[0]:
            raise InvariantError(
                "some public sums are too close to combinations of other sums for noise in double precision: use "
                "smaller weights, or an integer mechanism"
            )
        directions = directions[:, :rank]
        parts.append(_embedded(directions, classes, sizes.size))
        inside = np.isin(np.arange(sizes.size), classes).astype(np.int64)
        sums.append(sparse.csc_array(system.tocsr()[meeting] @ sparse.diags_array(inside, dtype=np.int64)))
        weights.append(sparse.csr_array(combined[:rank] / extent[:rank, np.newaxis] / lengths.T))
    fixed = sparse.csr_array(_units(structure) @ sparse.hstack(parts, format="csr"))
    of_cells = sparse.vstack(sums, format="csc", dtype=np.int64)[:, structure.classes]
    return NullSpace(structure, fixed, sparse.csr_array(of_cells), sparse.block_diag(weights, format="csr"))


def _blocks(structure: Structure) -> list[Integers]:
    """Return the classes of each block whose sums are not all fixed."""
    block = structure.blocks[structure.lattice.representatives]
    open_classes = np.flatnonzero(~structure.determined)
    return [open_classes[group] for group in members(block[open_classes])]


def _units(structure: Structure) -> sparse.csr_array:
    """Return the unit vectors along the classes, shape (d, classes)."""
    classes, d = structure.classes, structure.classes.size
    weights = 1 / np.sqrt(structure.class_sizes[classes])
    return sparse.csr_array((weights, classes, np.arange(d + 1)), shape=(d, structure.class_sizes.size))


def _embedded(directions: Reals, classes: Integers, n_classes: int) -> sparse.csr_array:
    rows, columns = np.broadcast_arrays(classes[:, np.newaxis], np.arange(directions.shape[1]))
    shape = (n_classes, directions.shape[1])
    return sparse.csr_array((directions.ravel(), (rows.ravel(), columns.ravel())), shape=shape)


def _haar(low: Integers, high: Integers) -> list[sparse.csr_array]:
    """Return the Haar vectors of intervals [low, high) of positions, one matrix per level: first half minus second."""
    d, levels = int(high.max(initial=0)), []
    while (long := high - low > 1).any():
        low, high = low[long], high[long]
        n, left = high - low, (high - low + 1) // 2
        vector = np.repeat(np.arange(low.size), n)
        position = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        first = position < left[vector]
        scale = np.sqrt(left * (n - left) / n)
        values = scale[vector] * np.where(first, 1 / left[vector], -1 / (n - left)[vector])
        levels.append(sparse.csr_array((values, (low[vector] + position, vector)), shape=(d, low.size)))
        low, high = np.concatenate([low, low + left]), np.concatenate([low + left, high])
    return levels
