"""Orthogonal parts of the sublattice across a step: what a lattice Gaussian does beside its component along the step.

For a step h in the lattice, L' = {z in L : <z, h> = 0}. Take a set D of basis vectors that holds all b with <b, h> not
0, all that make up h, and with each vector those that its orthogonal part leans on. D may come first, so the orthogonal
parts of the other vectors stay as they are; they lie in L', and a basis of it is theirs together with one of the
combinations of D across h. Only the latter is reduced and orthogonalised anew. Where h lies at the start of the chains
of a table (`ppdinf.noise.exact.gaussian.gram_schmidt`), D has four vectors however large the table is.
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

__all__ = ["squares_across"]

LARGEST = 200  # vectors that are orthogonalised anew


def squares_across(found: Structure, step: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared lengths of the orthogonal parts of a basis of ``{z : A z = 0, <z, h> = 0}``.

    Parameters
    ----------
    found : Structure
    step : ndarray of int64, shape (d,)
        A vector h of the lattice, not 0.

    Returns
    -------
    ndarray of float64, shape (m - 1,)

    Raises
    ------
    InvariantError
        The public sums cross too much for the sequential sampler.

    Examples
    --------
    >>> squares_across(structure([[1, 1, 1]]), np.array([1, -1, 0])).round(3)
    array([6.])
    """
    if found.tables:
        whole = klein(found.lattice, found.tables)
        anew = _leaning(whole, step)
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


def _leaning(whole: Klein, step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the set D, in order."""
    m = whole.squares.size
    mu = sparse.csr_array((whole.factors, whole.columns, whole.starts), shape=(m, m))
    triangle = sparse.csr_array(mu + sparse.eye_array(m))
    weights = whole.basis.T @ step
    along = spsolve_triangular(sparse.csr_array(triangle.T), weights.astype(np.float64), lower=True)
    found = np.rint(spsolve_triangular(triangle, along / whole.squares, lower=False)).astype(np.int64)
    assert not np.any(whole.basis @ found - step), "the step is no vector of the lattice, or too long"
    start = np.isin(np.arange(m), np.flatnonzero((weights != 0) | (found != 0))).astype(np.int8)
    # an extra node leads to where D starts, each vector to those that it leans on
    graph = sparse.vstack([sparse.csr_array(mu.T != 0), sparse.csr_array(start[np.newaxis])], format="csr")
    graph.resize((m + 1, m + 1))
    return np.sort(breadth_first_order(graph, m, return_predecessors=False)[1:])
