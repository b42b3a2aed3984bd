"""Kernels of margins of any order in closed form.

Fix one level r_n of each dimension n of size I_n, for example the last. The vectors e_i - e_r (i != r) and e_r are a
unimodular basis of Z^(I_n). Their tensor products are therefore a unimodular basis of the tables Z^(I_1 ... I_N). Write
t(S, i) for the product of e_(i_s) - e_(r_s) for the dimensions s in S and of e_(r_s) for the other dimensions.

Summing over a dimension maps e_i - e_r to 0 and e_r to 1. The margin over a generator G therefore maps t(S, i) to 0 if
S is not contained in G, and otherwise to an element of the same kind of the basis of Z^G. Distinct elements have
distinct images. A table z = sum c(S, i) t(S, i) therefore has zero margins over all generators exactly if c(S, i) = 0
for all S contained in some generator, and the kernel is spanned by

    t(S, i)  with S contained in no generator.

It is part of a unimodular basis, hence saturated. All entries are 0, 1 or -1.
"""

import itertools
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.kernel import Lattice


def margin_kernel(shape: Sequence[int], generators: Iterable[Iterable[int]]) -> Lattice:
    """Return a saturated kernel basis of margins of an n-way table in closed form.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions of each margin: ``[(0, 1), (1, 2)]`` for two two-way margins,
        ``[()]`` for the grand total.

    Returns
    -------
    Lattice
        A lattice with entries 0, 1 and -1; a vector for dimensions S has 2^len(S) nonzero entries.

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    See Also
    --------
    ppdinf.lattice.kernel, ppdinf.lattice.margin_matrix

    Notes
    -----
    The derivation is in the docstring of the module. The model family is that of hierarchical log-linear models
    (Lauritzen 1996, chapter 4). No elimination is necessary: the cost is the number of entries of the basis.

    Examples
    --------
    >>> from ppdinf.lattice import margin_kernel
    >>> lattice = margin_kernel((2, 3), [(0,), (1,)])
    >>> lattice.basis.T.toarray()
    array([[ 1,  0, -1, -1,  0,  1],
           [ 0,  1, -1,  0, -1,  1]])
    >>> margin_kernel((30, 30), [(0,), (1,)]).rank
    841
    """
    kept = maximal_generators(shape, generators)
    parts = []
    for size in range(len(shape) + 1):
        for S in itertools.combinations(range(len(shape)), size):
            if not any(set(S) <= generator for generator in kept):
                parts.append(reduce(_kron, [_factor(n, s in S) for s, n in enumerate(shape)]))
    d = int(np.prod(shape, dtype=np.int64))
    empty = sparse.csc_array((d, 0), dtype=np.int64)
    cells = np.arange(d)
    basis = sparse.csc_array(sparse.hstack([empty, *parts], format="csc", dtype=np.int64))
    return Lattice(cells, cells, basis, "A B = 0; part of a unimodular tensor basis (closed form for margins)")


def margin_matrix(shape: Sequence[int], generators: Iterable[Iterable[int]]) -> sparse.csc_array:
    """Return margins of an n-way table as a 0/1 system.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions of each margin; margins that follow from others are omitted.

    Returns
    -------
    scipy.sparse.csc_array of int64, shape (k, d)

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    See Also
    --------
    ppdinf.lattice.margin_kernel, ppdinf.lattice.margin_moves

    Examples
    --------
    >>> from ppdinf.lattice import margin_matrix
    >>> margin_matrix((2, 2), [(0,), (1,), ()]).toarray()
    array([[1, 1, 0, 0],
           [0, 0, 1, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1]])
    """
    kept = maximal_generators(shape, generators)
    blocks = [reduce(_kron, [_identity(n) if s in G else _ones(n) for s, n in enumerate(shape)]) for G in kept]
    d = int(np.prod(shape, dtype=np.int64))
    return sparse.csc_array(sparse.vstack([sparse.csc_array((0, d), dtype=np.int64), *blocks], dtype=np.int64))


def maximal_generators(shape: Sequence[int], generators: Iterable[Iterable[int]]) -> list[frozenset[int]]:
    """Remove generators that are contained in others, and validate the remaining ones."""
    if any(n < 1 for n in shape):
        raise InvariantError(f"Every size of a table must be positive, found shape {tuple(shape)}.")
    sets = list(dict.fromkeys(frozenset(generator) for generator in generators))
    for generator in sets:
        unknown = sorted(generator.difference(range(len(shape))))
        if unknown:
            raise InvariantError(
                f"Generator {sorted(generator)} must contain dimensions from 0 to {len(shape) - 1}, found {unknown[0]}."
            )
    return [generator for generator in sets if not any(generator < other for other in sets)]


def _kron(left: sparse.csc_array, right: sparse.csc_array) -> sparse.csc_array:
    return sparse.kron(left, right, format="csc")  # without a format, explicit zeros may be stored


def _factor(n: int, within: bool) -> sparse.csc_array:
    """Return the columns e_i - e_last, or the column e_last."""
    last = np.zeros((n, 1), dtype=np.int64)
    last[-1] = 1
    if not within:
        return sparse.csc_array(last)
    return sparse.csc_array(_identity(n)[:, : n - 1] - sparse.csc_array(last @ np.ones((1, n - 1), np.int64)))


def _identity(n: int) -> sparse.csc_array:
    return sparse.eye_array(n, dtype=np.int64, format="csc")


def _ones(n: int) -> sparse.csc_array:
    return sparse.csc_array(np.ones((1, n), dtype=np.int64))
