"""Orthogonal parts of the sublattice orthogonal to a lattice vector.

The component of a lattice Gaussian orthogonal to a step h of the lattice lives on L' = {z in L : <z, h> = 0}. Take a
set D of basis vectors that contains all b with <b, h> not 0, all vectors of the representation of h, and with each
vector the vectors that its orthogonal part depends on. The vectors of D can be ordered first, so the orthogonal parts
of the other vectors do not change. The other vectors are in L'. They form a basis of L' together with a basis of the
combinations of D orthogonal to h. Only this basis is reduced and orthogonalised again. If h is at the start of the
chains of a table (`ppdinf.noise.exact.gaussian.gram_schmidt`), D has 4 vectors for every size of the table.
"""

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import spsolve_triangular

from ppdinf.lattice.algebra.kernel import kernel
from ppdinf.lattice.structure.blocks import Structure, structure
from ppdinf.noise.exact.gaussian.gram_schmidt import klein
from ppdinf.noise.exact.gaussian.klein import Klein

LARGEST = 200  # largest number of vectors that are orthogonalised again


def squares_across(found: Structure, step: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the squared lengths of the orthogonal parts of a basis of ``{z : A z = 0, <z, h> = 0}``."""
    if found.tables:
        whole = klein(found.lattice, found.tables)
        anew = _dependencies(whole, step)
        if anew.size <= LARGEST:
            across = kernel((whole.basis.T @ step)[anew][np.newaxis]).basis
            vectors = sparse.csr_array((sparse.csc_array(whole.basis)[:, anew] @ across).T)
            cells = np.unique(vectors.indices)
            if not cells.size:
                return np.delete(whole.squares, anew)
            short = fmpz_mat(vectors[:, cells].toarray().tolist()).lll().tolist()
            lengths = np.diag(np.linalg.qr(np.array(short, dtype=np.float64).T, mode="r"))
            return np.concatenate([lengths**2, np.delete(whole.squares, anew)])
    rows = sparse.csc_array(found.class_system)[:, found.classes]
    further = structure(sparse.vstack([rows, sparse.csr_array(step[np.newaxis])]))
    return np.asarray(klein(further.lattice, further.tables).squares)


def _dependencies(whole: Klein, step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the set D, in order."""
    m = whole.squares.size
    mu = sparse.csr_array((whole.factors, whole.columns, whole.starts), shape=(m, m))
    triangle = sparse.csr_array(mu + sparse.eye_array(m))
    weights = whole.basis.T @ step
    along = spsolve_triangular(sparse.csr_array(triangle.T), weights.astype(np.float64), lower=True)
    found = np.rint(spsolve_triangular(triangle, along / whole.squares, lower=False)).astype(np.int64)
    assert not np.any(whole.basis @ found - step), "the step is not a vector of the lattice, or too long"
    start = np.isin(np.arange(m), np.flatnonzero((weights != 0) | (found != 0))).astype(np.int8)
    # graph: an extra node points to the first vectors of D, each vector points to the vectors it depends on
    graph = sparse.vstack([sparse.csr_array(mu.T != 0), sparse.csr_array(start[np.newaxis])], format="csr")
    graph.resize((m + 1, m + 1))
    return np.sort(breadth_first_order(graph, m, return_predecessors=False)[1:])
