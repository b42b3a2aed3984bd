r"""Orthogonal parts of a lattice basis, in closed form for classes of cells and for tables with margins.

*Chains.* Give the levels 1, ..., n of a dimension weights w, with partial sums W_k. The vectors b_k = e_k - e_(k+1) for
k < n and b_n = e_n are a basis of Z^n. In the inner product sum_k S_k S'_k / w_k the parts orthogonal to all former
vectors have squared lengths g_k = 1/W_k + 1/w_(k+1), g_n = 1/W_n. The vector b_k depends on the next vector only, by
mu_k,k+1 = -W_k / W_(k+1). The coordinates of z are its partial sums, and a Gaussian sequence of them is Markov.

*Classes.* The cells of a class with equal columns and the lattice of class sums are treated separately. Cells within a
class are a chain with weights 1. Class sums have the inner product sum_c S_c S'_c / n_c.

*Tables.* If class sums form a complete table with margins (`ppdinf.lattice.structure.tables_in_rows`), tensor products
of chain vectors are a basis of all tables. A tensor product is in the kernel if its set of dimensions with k < n is not
contained in any generator (`ppdinf.lattice.algebra.margins`). A tensor product of orthogonalised bases is
orthogonalised: g is a product over dimensions, and I + mu is a Kronecker product of matrices with two diagonals each,
with 2^N - 1 entries per row for N dimensions. Vectors of the kernel can be ordered first, because mu links a position
only to positions with larger k in every dimension. These positions have fewer dimensions with k < n. All matrices are
therefore sparse.

*Other class sums* are orthogonalised by one dense QR for each independent component.

Squared lengths are shortened by a factor 1 - `slack` that exceeds rounding. In QR the rounding is the backward error,
of order rows x columns x unit, times the condition number. In the closed forms it comes from the sums that give the
centers. These sums have 2^N terms c. The size of c relative to z is bounded by the norms of the inverse bases: for a
chain, the norm of partial sums, at most sqrt(sum_k W_k) with its weights.

References
----------
N. Higham, Accuracy and Stability of Numerical Algorithms (SIAM, 2002), chapters 3 and 19.
"""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.kernel import Lattice, support_components
from ppdinf.lattice.algebra.systems import IntVector
from ppdinf.lattice.structure.tables_in_rows import HierarchicalTable
from ppdinf.noise.exact.gaussian.klein import UNIT, Klein

LARGEST_LOSS = 0.1  # largest loss of acceptance by rounding

type Orthogonalised = tuple[sparse.csc_array, NDArray[np.float64], sparse.csr_array, float]
"""Basis (n_classes, r), squared lengths (r,), mu (r, r) strictly upper triangular, and growth of rounding."""


def klein(lattice: Lattice, tables: Sequence[HierarchicalTable] = ()) -> Klein:
    """Orthogonalise a basis of a lattice, with classes of cells and tables with margins in closed form."""
    d, n_classes = lattice.classes.size, lattice.representatives.size
    sizes = np.bincount(lattice.classes, minlength=n_classes)
    order = np.lexsort((-np.arange(d), lattice.classes))  # by classes; the representative of each class is last
    place = np.arange(d) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    inner = np.flatnonzero(place < np.repeat(sizes, sizes))  # partial sums; the last one is the class sum
    chain, t = inner.size, place[inner]
    parts = [_table(table, n_classes) for table in tables]
    parts += _others(lattice.class_basis, sizes, tables)
    sums = _columns([part[0] for part in parts], n_classes)
    cells = np.concatenate([order[inner], order[inner + 1], lattice.representatives[sums.indices]])
    owners = np.concatenate(
        [np.arange(chain)] * 2 + [chain + np.repeat(np.arange(sums.shape[1]), np.diff(sums.indptr))]
    )
    values = np.concatenate([np.ones(chain, np.int64), -np.ones(chain, np.int64), sums.data])
    basis = sparse.csr_array((values, (cells, owners)), shape=(d, chain + sums.shape[1]))

    end = t + 1 == sizes[lattice.classes[order[inner]]]  # the center depends on the class sum
    neighbour = sparse.csr_array(
        (-t[~end] / (t[~end] + 1), (np.flatnonzero(~end), np.flatnonzero(~end) + 1)), shape=(chain, chain)
    )
    last = sparse.csr_array(
        (-t[end] / (t[end] + 1), (np.flatnonzero(end), lattice.classes[order[inner[end]]])), shape=(chain, n_classes)
    )
    above = sparse.block_diag([sparse.csr_array((0, 0)), *(part[2] for part in parts)], format="csr")
    mu = sparse.csr_array(sparse.block_array([[neighbour, last @ sparse.csr_array(sums)], [None, above]]))
    rounding = 16 * UNIT * (int(sizes.max(initial=1)) + max((part[3] for part in parts), default=1.0))
    _require_accurate(rounding * mu.shape[0], lattice.class_basis.shape[1])
    squares = np.concatenate([(t + 1) / t, *(part[1] for part in parts)]) * (1 - rounding)
    return Klein(basis, squares, mu.indptr.astype(np.int64), mu.indices.astype(np.int64), mu.data, rounding)


def _table(table: HierarchicalTable, n_classes: int) -> Orthogonalised:
    """Return the tensor products of chains in the kernel."""
    kept = np.flatnonzero(table.moving)
    chains = [_chain(weight) for weight in table.weights]
    vectors = sparse.csc_array(reduce(sparse.kron, [vectors for vectors, _, _ in chains]))[:, kept]
    squares = reduce(np.multiply.outer, [g for _, g, _ in chains]).ravel()[kept]
    triangle = sparse.csr_array(reduce(sparse.kron, [triangle for _, _, triangle in chains]))[kept][:, kept]
    mu = sparse.csr_array(sparse.triu(triangle, k=1))
    basis = sparse.csc_array(
        (vectors.data, table.classes[vectors.indices], vectors.indptr), shape=(n_classes, kept.size)
    )
    scale = float(table.cells) ** (len(chains) - 1)
    inverse = math.prod(math.sqrt(float(np.cumsum(weight).sum())) for weight in table.weights) / math.sqrt(scale)
    longest = math.sqrt(scale * math.prod(float(g.max()) for _, g, _ in chains))
    return basis, squares * scale, mu, 4.0 ** len(chains) * inverse * (1 + longest)


def _chain(weight: IntVector) -> tuple[sparse.csc_array, NDArray[np.float64], sparse.csr_array]:
    """Return the vectors of a chain by columns, their squared lengths, and I + mu."""
    n, below = weight.size, np.cumsum(weight)
    vectors = sparse.eye_array(n, dtype=np.int64) - sparse.eye_array(n, k=-1, dtype=np.int64)
    squares = np.append(1 / below[:-1] + 1 / weight[1:], 1 / below[-1])
    triangle = sparse.diags_array([np.ones(n), -below[:-1] / below[1:]], offsets=[0, 1], shape=(n, n))
    return sparse.csc_array(vectors), squares, sparse.csr_array(triangle)


def _others(sums: sparse.csc_array, sizes: IntVector, tables: Sequence[HierarchicalTable]) -> list[Orthogonalised]:
    """Orthogonalise the components of class sums that are not tables, by QR in the inner product of class means."""
    done = np.zeros(sums.shape[0], dtype=bool)
    for table in tables:
        done[table.classes] = True
    left = sums[:, np.flatnonzero(~done[sums.indices[sums.indptr[:-1]]])]
    weighted = sparse.csc_array(sparse.diags_array(1 / np.sqrt(sizes)) @ left)
    component = support_components(left)[left.indices[left.indptr[:-1]]]
    members = np.argsort(component, kind="stable")
    found: list[Orthogonalised] = []
    for group in np.split(members, np.flatnonzero(np.diff(component[members])) + 1) if members.size else []:
        part = sparse.csr_array(weighted[:, group])
        part = part[np.flatnonzero(np.diff(part.indptr))]
        size = float(part.shape[0]) * part.shape[1]
        _require_accurate(16 * UNIT * size * group.size**2, group.size)  # a condition number is at least the rank
        triangle = np.linalg.qr(part.toarray(), mode="r")
        triangle *= np.sign(np.diag(triangle))[:, np.newaxis]
        lengths = np.diag(triangle).copy()
        condition = size * np.linalg.norm(triangle) * np.linalg.norm(np.linalg.inv(triangle))
        mu = sparse.csr_array(np.triu(triangle * (1 / lengths)[:, np.newaxis], k=1))
        found.append((left[:, group], lengths**2, mu, max(1.0, float(condition))))
    return found


def _columns(parts: Sequence[sparse.csc_array], n_classes: int) -> sparse.csc_array:
    return sparse.csc_array(sparse.hstack([sparse.csc_array((n_classes, 0), dtype=np.int64), *parts], dtype=np.int64))


def _require_accurate(loss: float, rank: int) -> None:
    if loss > LARGEST_LOSS:
        raise InvariantError(
            f"the crossing public sums leave sums of rank {rank:,}, too ill-conditioned for the sequential "
            "sampler: the limits are a million cells for complete tables with margins and a rank "
            "of about 2,500 for other crossing sums; publish fewer crossing sums"
        )
