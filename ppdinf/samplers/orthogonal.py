r"""Orthogonal parts of a lattice basis, classes of cells in closed form.

The cells of a class with equal columns and the lattice of class sums are taken apart. Within a class of n
cells the partial sums of z are the coordinates: the i-th has squared length g_i = (i+1)/i and depends on
the next alone, by mu_i,i+1 = -i/(i+1) (a Gaussian bridge), whatever n is. Class sums have the inner product
sum_c S_c S'_c / n_c and are orthogonalised by one dense QR for each independent component.

Squared lengths are shortened by a factor 1 - `slack` that outweighs rounding: of QR (backward error of order
rows x columns x unit, times the condition number) and of the sums that make the centers.

References
----------
N. Higham, Accuracy and Stability of Numerical Algorithms (SIAM, 2002), chapters 3 and 19.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.kernel import Lattice, support_components
from ppdinf.samplers.klein import UNIT, Klein

__all__ = ["klein"]

LARGEST_LOSS = 0.01  # of acceptance, to rounding


def klein(lattice: Lattice) -> Klein:
    """Orthogonalise a basis of a lattice, classes of cells in closed form.

    Parameters
    ----------
    lattice : Lattice

    Returns
    -------
    Klein

    Raises
    ------
    InvariantError
        If the basis is so ill-conditioned that rounding would cost more than one percent of acceptance.

    Notes
    -----
    O(d) for classes, one QR of a dense matrix per component of class sums (0.2 s for 30 x 30 margins).

    Examples
    --------
    >>> from ppdinf.lattice import kernel
    >>> klein(kernel([[1, 1, 1]])).squares.round(3)
    array([2. , 1.5])
    """
    d, n_classes = lattice.classes.size, lattice.representatives.size
    sizes = np.bincount(lattice.classes, minlength=n_classes)
    order = np.lexsort((-np.arange(d), lattice.classes))  # class by class, its representative last
    place = np.arange(d) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    inner = np.flatnonzero(place < np.repeat(sizes, sizes))  # partial sums; the last one is the class sum
    chain, t = inner.size, place[inner]
    sums = lattice.class_basis
    cells = np.concatenate([order[inner], order[inner + 1], lattice.representatives[sums.indices]])
    owners = np.concatenate(
        [np.arange(chain)] * 2 + [chain + np.repeat(np.arange(sums.shape[1]), np.diff(sums.indptr))]
    )
    values = np.concatenate([np.ones(chain, np.int64), -np.ones(chain, np.int64), sums.data])
    basis = sparse.csr_array((values, (cells, owners)), shape=(d, chain + sums.shape[1]))

    across, condition = _orthogonalised(sums, sizes)
    by_class = sparse.csr_array(sums)
    end = t + 1 == sizes[lattice.classes[order[inner]]]  # its center depends on the class sum
    neighbour = sparse.csr_array(
        (-t[~end] / (t[~end] + 1), (np.flatnonzero(~end), np.flatnonzero(~end) + 1)), shape=(chain, chain)
    )
    last = sparse.csr_array(
        (-t[end] / (t[end] + 1), (np.flatnonzero(end), lattice.classes[order[inner[end]]])), shape=(chain, n_classes)
    )
    lengths = across.diagonal()
    above = sparse.diags_array(1 / lengths) @ sparse.triu(across, k=1) if lengths.size else across
    mu = sparse.csr_array(sparse.block_array([[neighbour, last @ by_class], [None, above]]))
    rounding = 16 * UNIT * (int(sizes.max(initial=1)) + condition)
    if rounding * mu.shape[0] > LARGEST_LOSS:
        raise InvariantError("The basis of this system is too ill-conditioned for the sequential sampler.")
    squares = np.concatenate([(t + 1) / t, lengths**2]) * (1 - rounding)
    return Klein(basis, squares, mu.indptr.astype(np.int64), mu.indices.astype(np.int64), mu.data, rounding)


def _orthogonalised(sums: sparse.csc_array, sizes: NDArray[np.integer]) -> tuple[sparse.csr_array, float]:
    """Triangular factor of the class sums' basis in the inner product of class means, and how rounding grows."""
    weighted = sparse.csc_array(sparse.diags_array(1 / np.sqrt(sizes)) @ sums)
    component = support_components(sums)[sums.indices[sums.indptr[:-1]]]
    members = np.argsort(component, kind="stable")
    rows, columns, entries, condition = [], [], [], 1.0
    for group in np.split(members, np.flatnonzero(np.diff(component[members])) + 1):
        part = sparse.csr_array(weighted[:, group])
        dense = part[np.flatnonzero(np.diff(part.indptr))].toarray()
        triangle = np.linalg.qr(dense, mode="r")
        triangle *= np.sign(np.diag(triangle))[:, np.newaxis]
        inverse = np.linalg.inv(triangle)
        condition = max(condition, dense.size * np.linalg.norm(triangle) * np.linalg.norm(inverse))
        i, j = np.triu_indices(group.size)
        rows.append(group[i])
        columns.append(group[j])
        entries.append(triangle[i, j])
    r = sums.shape[1]
    if not r:
        return sparse.csr_array((0, 0)), 1.0
    found = sparse.csr_array((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=(r, r))
    return found, condition
