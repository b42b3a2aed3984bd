"""Orthogonal parts of a lattice basis, and of the sublattice orthogonal to a vector."""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from flint import fmpz_mat
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import spsolve_triangular

from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.kernel import Lattice, kernel, support_components
from ppdinf.lattice.margins import HierarchicalTable
from ppdinf.noise.exact.klein import UNIT, Klein

LARGEST_LOSS = 0.1  # largest loss of acceptance by rounding
LARGEST = 200  # largest number of vectors that are orthogonalised again

type Orthogonalised = tuple[sparse.csc_array, Reals, sparse.csr_array, float]
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


def _chain(weight: Integers) -> tuple[sparse.csc_array, Reals, sparse.csr_array]:
    """Return the vectors of a chain by columns, their squared lengths, and I + mu."""
    n, below = weight.size, np.cumsum(weight)
    vectors = sparse.eye_array(n, dtype=np.int64) - sparse.eye_array(n, k=-1, dtype=np.int64)
    squares = np.append(1 / below[:-1] + 1 / weight[1:], 1 / below[-1])
    triangle = sparse.diags_array([np.ones(n), -below[:-1] / below[1:]], offsets=[0, 1], shape=(n, n))
    return sparse.csc_array(vectors), squares, sparse.csr_array(triangle)


def _others(sums: sparse.csc_array, sizes: Integers, tables: Sequence[HierarchicalTable]) -> list[Orthogonalised]:
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


def squares_across(x: Structure, step: Integers) -> Reals:
    """Return the squared lengths of the orthogonal parts of a basis of ``{z : A z = 0, <z, h> = 0}``."""
    if x.tables:
        whole = klein(x.lattice, x.tables)
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
    rows = sparse.csc_array(x.class_system)[:, x.classes]
    further = structure(sparse.vstack([rows, sparse.csr_array(step[np.newaxis])]))
    return np.asarray(klein(further.lattice, further.tables).squares)


def _dependencies(whole: Klein, step: Integers) -> Integers:
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
