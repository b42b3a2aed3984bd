"""Enumeration by definition: tables of a fiber, minors and rational algebra of small systems."""

import itertools
import math

import numpy as np
import sympy
from grids import tables
from hypothesis import strategies as st
from scipy import sparse, stats
from scipy.sparse.csgraph import connected_components


def fiber_points(A, values, high):
    """All non-negative integer tables with A x = values and cells up to `high`."""
    return tables([0] * A.shape[1], [high] * A.shape[1], A.toarray(), values)


def posterior(points, y, epsilon, rates, prior):
    """Posterior p[table, multiplier] of Poisson(rate * multiplier) cells under l1 noise, with unconditional masses."""
    log_data = np.stack([stats.poisson.logpmf(points, rates * m).sum(axis=1) for m, _ in prior], axis=1)
    log_noise = -epsilon * np.abs(points - y).sum(axis=1)
    log_joint = log_data + log_noise[:, None] + np.log([p for _, p in prior])
    joint = np.exp(log_joint - log_joint.max())
    return joint / joint.sum()


def total_variation(draws, points, probabilities):
    """Distance between drawn tables and an exact law over `points`; draws elsewhere count in full."""
    place = {tuple(point): k for k, point in enumerate(points.tolist())}
    counts = np.zeros(len(points) + 1)
    for draw in draws.tolist():
        counts[place.get(tuple(draw), -1)] += 1
    frequencies = counts / counts.sum()
    return 0.5 * (np.abs(frequencies[:-1] - probabilities).sum() + frequencies[-1])


def contrast(draws, points, right, wrong):
    """z of the mean log ratio of two laws over independent draws, if the first holds and if the second does.

    The sharpest question to ask where two laws are near each other; a point that neither reaches tells nothing. Draws
    that are none of the points are left out: `total_variation` looks at these.
    """
    score = np.log(np.maximum(right, 1e-300)) - np.log(np.maximum(wrong, 1e-300))
    index = {tuple(point): k for k, point in enumerate(points.tolist())}
    known = [index[tuple(draw)] for draw in draws.tolist() if tuple(draw) in index]
    found, seen = [], score[known].mean()
    for law in right, wrong:
        mean = law @ score
        found.append((seen - mean) / np.sqrt(law @ (score - mean) ** 2 / len(known)))
    return tuple(found)


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


def laws_of_one_person(tables, shares):
    """Return the laws of a table whose first person is in each cell, and the others by their shares."""
    laws = []
    for cell in np.eye(len(shares), dtype=int):
        rest = tables - cell
        mass = stats.multinomial.pmf(np.maximum(rest, 0), tables[0].sum() - 1, shares)
        laws.append(np.where((rest >= 0).all(axis=1), mass, 0.0))
    return laws


def changes(sums, records, *, same_number=False):
    """All z that keep the sums, add at most `records` records, and remove at most as many."""
    z = np.array(list(itertools.product(range(-records, records + 1), repeat=np.shape(sums)[1])))
    fits = (np.maximum(z, 0).sum(axis=1) <= records) & (np.maximum(-z, 0).sum(axis=1) <= records) & z.any(axis=1)
    return z[fits & ~(z @ np.transpose(sums)).any(axis=1) & ~(same_number & (z.sum(axis=1) != 0))]


def normal_delta(apart, epsilon):
    """Delta of two normal laws whose means differ by `apart` standard deviations."""
    near, far = stats.norm.cdf([apart / 2 - epsilon / apart, -apart / 2 - epsilon / apart])
    return near - math.exp(epsilon) * far
