"""Oracles by definition: enumeration, minors and rational algebra, for small systems only."""

import itertools
import math

import numpy as np
import sympy
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components


def groups(labels, n):
    labels = np.asarray(labels)
    return sparse.csc_array((np.ones(labels.size, int), (labels, np.arange(labels.size))), shape=(n, labels.size))


@st.composite
def systems(draw, max_rows=4, max_cells=6, largest=9):
    """Random integer systems, of any rank, with factors, equal and zero columns."""
    k, d = draw(st.integers(1, max_rows)), draw(st.integers(1, max_cells))
    entry = st.one_of(st.integers(-1, 1), st.integers(-largest, largest))
    A = np.array(draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=k, max_size=k)))
    for row in range(k):  # scaled and dependent rows
        change = draw(st.sampled_from(["keep", "scale", "sum", "zero"]))
        A[row] = {"keep": A[row], "scale": draw(st.integers(2, 6)) * A[row], "sum": A[:row].sum(0), "zero": 0}[change]
    copies = draw(st.lists(st.integers(0, d - 1), max_size=2))
    return np.concatenate([A, A[:, copies]], axis=1)


def rational_kernel(A):
    """Columns that span the rational kernel: each scaled to whole numbers, not saturated."""
    A = np.asarray(A)
    columns = []
    for vector in sympy.Matrix(A.tolist()).nullspace():
        scaled = vector * math.lcm(*(int(v.q) for v in vector))
        columns.append([int(v) for v in scaled / math.gcd(*(int(v) for v in scaled))])
    return np.array(columns, dtype=object).reshape(len(columns), A.shape[1]).T


def rational_rank(A):
    return sympy.Matrix(np.asarray(A).tolist()).rank()


def gcd_of_largest_minors(B):
    """1 exactly for a saturated set of columns, 0 for dependent ones."""
    d, m = B.shape
    return math.gcd(*(int(sympy.Matrix(B[list(rows)].tolist()).det()) for rows in itertools.combinations(range(d), m)))


def pieces(points, moves):
    """Number of connected pieces of a fiber under single steps along the moves."""
    index = {tuple(point): i for i, point in enumerate(points.tolist())}
    edges = [
        (i, index[target])
        for move in moves
        for i, target in enumerate(map(tuple, (points + move).tolist()))
        if target in index
    ]
    pairs = np.array(edges, dtype=int).reshape(-1, 2)
    graph = sparse.coo_array((np.ones(len(pairs)), pairs.T), shape=(len(points), len(points)))
    return connected_components(graph, directed=False)[0]


def distinct(drawn):
    return np.unique(drawn.toarray().T, axis=0)
