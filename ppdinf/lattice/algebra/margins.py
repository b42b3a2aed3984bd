"""Kernels of margins of any order, in closed form.

Fix one level r_n of each dimension n of size I_n, say the last. The vectors e_i - e_r
(i != r) and e_r are a unimodular basis of Z^(I_n), so their tensor products are a
unimodular basis of the tables Z^(I_1 ... I_N). Write t(S, i) for the product that takes
e_(i_s) - e_(r_s) for the dimensions s in S and e_(r_s) for the others.

Summing a dimension out sends e_i - e_r to 0 and e_r to 1. The margin over a generator G
therefore sends t(S, i) to 0 if S is not within G, and otherwise to the element of the
same kind of the basis of Z^G: distinct elements to distinct elements. So a table
z = sum c(S, i) t(S, i) has zero margins over all generators exactly when c(S, i) = 0
whenever S lies within some generator, and the kernel is spanned by

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

__all__ = ["margin_kernel", "margin_matrix", "maximal_generators"]


def margin_kernel(shape: Sequence[int], generators: Iterable[Iterable[int]]) -> Lattice:
    """Give a saturated kernel basis of margins of an n-way table in closed form.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions that each margin keeps: ``[(0, 1), (1, 2)]`` for two two-way margins,
        ``[()]`` for the grand total.

    Returns
    -------
    Lattice
        Entries 0, 1 and -1; a vector for dimensions S has 2^len(S) of them.

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    Notes
    -----
    The derivation is in the docstring of the module; the model family is that of
    hierarchical log-linear models (Lauritzen 1996, chapter 4). No elimination: the cost
    is that of writing the basis down.

    Examples
    --------
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
    """Write margins of an n-way table as a 0/1 system.

    Parameters
    ----------
    shape : sequence of int
        Size of each dimension; cells are in C order.
    generators : iterable of iterables of int
        Dimensions that each margin keeps; margins that follow from others are left out.

    Returns
    -------
    scipy.sparse.csc_array of int64, shape (k, d)

    Raises
    ------
    InvariantError
        If a generator names a dimension that does not exist, or a size is not positive.

    Examples
    --------
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
    """Drop generators that lie within others, and check the rest against the shape.

    Examples
    --------
    >>> [sorted(generator) for generator in maximal_generators((2, 3, 4), [(0,), (1, 0), (2,)])]
    [[0, 1], [2]]
    """
    if any(n < 1 for n in shape):
        raise InvariantError(f"A table of shape {tuple(shape)} has no cells; every size must be positive.")
    sets = list(dict.fromkeys(frozenset(generator) for generator in generators))
    for generator in sets:
        unknown = sorted(generator.difference(range(len(shape))))
        if unknown:
            raise InvariantError(
                f"Generator {sorted(generator)} names dimension {unknown[0]}, "
                f"but the table has {len(shape)} dimensions (0 to {len(shape) - 1})."
            )
    return [generator for generator in sets if not any(generator < other for other in sets)]


def _kron(left: sparse.csc_array, right: sparse.csc_array) -> sparse.csc_array:
    return sparse.kron(left, right, format="csc")  # without a format, zeros may be stored


def _factor(n: int, within: bool) -> sparse.csc_array:
    """Columns e_i - e_last, or the column e_last."""
    last = np.zeros((n, 1), dtype=np.int64)
    last[-1] = 1
    if not within:
        return sparse.csc_array(last)
    return sparse.csc_array(_identity(n)[:, : n - 1] - sparse.csc_array(last @ np.ones((1, n - 1), np.int64)))


def _identity(n: int) -> sparse.csc_array:
    return sparse.eye_array(n, dtype=np.int64, format="csc")


def _ones(n: int) -> sparse.csc_array:
    return sparse.csc_array(np.ones((1, n), dtype=np.int64))
