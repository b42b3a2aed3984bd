r"""Noise on a two-way table given its scales: row by row by Klein's sampler in the metric of the scales.

Rows are drawn one after the other, each given the sums that the later rows have to contribute to the columns. The row
sum determines one cell of the row, its *tie*; x are the other cells. Let b be the remaining column sums (without one
column, the *ground*), and let b' W b be the smallest contribution of the later rows to the quadratic form. The
quadratic form of the rows that are not yet drawn is

    z' T^-1 z + (b - z)' W (b - z),      z the row of x.

It is a form in (x, b). Its triangular factors, x first, give x by Klein's sampler and b' W b for the row before. The
last rows, the *spine*, are drawn together on the fundamental cycles of a tree of wide cells. The tree contains the
root's wide cells and, for each column that the root does not cover, a wide cell of another row of the spine, which is
tied to the root. The drawn integers are therefore the cells outside a spanning tree of wide cells. The reciprocal of
1 / t plus the sum of 1 / t along the tree's path is a lower bound on the variance of each, because the variance given
the other cells is at most the variance of the draw.

*Rounding.* Let W be the exact product of its triangular factors in floating point. Then the form of the factors of one
row is at most 1 + eta times the true form (`ppdinf.noise.exact.scale_mixture.klein_given_scales.triangle`). By
induction over rows, from the last, the form of the proposal is at most prod (1 + eta) times the form of the table. The
entries of W are sums of c - 1 products. The entries of the form in x are sums of four entries of W, each at most (sqrt
W_jj + sqrt W_tie)^2 in size.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.noise.exact.scale_mixture.klein_given_scales import (
    SLACK,
    Block,
    Drawn,
    RowCoordinates,
    triangle,
    under_control,
)
from ppdinf.noise.primitives.stream import BitStream


def draw_given_scales(t: NDArray[np.float64], wide: NDArray[np.bool_], root: int, stream: BitStream) -> Drawn:
    """Draw noise on a supported table."""
    r, c = t.shape
    # the spine: the root and the rows that cover its missing columns
    spine = spine_rows(t, wide, root)
    rows = [root, *spine]
    outside_spine = np.ones(r, dtype=np.bool_)
    outside_spine[rows] = False
    others = np.flatnonzero(outside_spine)
    others = others[np.argsort(wide[others].sum(axis=1), kind="stable")]  # rows with only wide cells are last
    # one tie per row to a wide column of the root
    ties = np.argmax(np.where(wide[root] & wide[others], t[others], -1.0), axis=1)
    ground = int(np.argmax(np.where(wide[root], t[root], -1.0)))  # a wide cell of the root keeps W small
    block = Block(_basis(t.shape, wide, root, spine, ground), t[rows].ravel())
    try:
        squares, mu, pulls, rounding = _factor_rows(t, others, block.lower[1 - c :, 1 - c :].copy(), ties, ground)
    except np.linalg.LinAlgError:
        rounding = np.inf
    under_control(block.rounding + rounding)
    row_coordinates = RowCoordinates(squares, mu)
    # draw the rows outside of the spine, then the spine given the remaining column sums
    lacking = np.zeros(c, dtype=np.int64)
    row_coordinates.draw(pulls, ties, ground, lacking, stream)
    x = row_coordinates.x[:, 0, :-1]
    free = np.arange(c) != ties[:, np.newaxis]
    z = np.zeros((r, c), dtype=np.int64)
    part = np.zeros((len(others), c), dtype=np.int64)
    part[free] = x.ravel()
    part[~free] = -x.sum(axis=1)
    z[others] = part
    last = block.draw(np.delete(lacking, ground), stream)
    z[rows] = last.z.reshape(len(rows), c)
    return Drawn(
        z,
        np.concatenate([x.ravel(), last.x]),
        np.concatenate([row_coordinates.centers[:, 0, :-1].ravel(), last.centers]),
        np.concatenate([squares[:, :-1].ravel(), last.squares]),
    )


def spine_rows(t: NDArray[np.float64], wide: NDArray[np.bool_], root: int) -> dict[int, tuple[int, list[int]]]:
    """Return the rows for the columns that the root does not cover: their ties to the root and their columns."""
    lacking = ~wide[root]
    spine: dict[int, tuple[int, list[int]]] = {}
    while lacking.any():
        gains = (wide & lacking).sum(axis=1)
        row = int(np.argmax(gains))
        tie = int(np.argmax(np.where(wide[root] & wide[row], t[row], -1.0)))
        spine[row] = tie, np.flatnonzero(wide[row] & lacking).tolist()
        lacking &= ~wide[row]
    return spine


def _basis(
    shape: tuple[int, int],
    wide: NDArray[np.bool_],
    root: int,
    spine: dict[int, tuple[int, list[int]]],
    ground: int,
) -> NDArray[np.int64]:
    """Return the fundamental cycles of the spine, the root's row first, and a path from each column to the ground."""
    _, c = shape
    rows = [root, *spine]
    owner = {j: (n + 1, tie) for n, (tie, columns) in enumerate(spine.values()) for j in columns}

    def to_root(j: int, sign: int, vector: NDArray[np.int64]) -> None:
        """Add the path of the tree from a column to the root."""
        if j not in owner:
            vector[0, j] += sign
            return
        n, tie = owner[j]
        vector[n, j] += sign
        vector[n, tie] -= sign
        vector[0, tie] += sign

    found = []
    for n in range(len(rows)):
        tie = None if n == 0 else spine[rows[n]][0]
        for j in range(c):
            if (n == 0 and wide[root, j]) or (n > 0 and (j == tie or owner.get(j, (0, 0))[0] == n)):
                continue
            vector = np.zeros((len(rows), c), dtype=np.int64)
            vector[n, j] += 1
            to_root(j, -1, vector)
            if tie is not None:
                vector[n, tie] -= 1
                to_root(tie, 1, vector)
            found.append(vector.ravel())
    for j in range(c):
        if j != ground:
            vector = np.zeros((len(rows), c), dtype=np.int64)
            to_root(j, 1, vector)
            to_root(ground, -1, vector)
            found.append(vector.ravel())
    return np.array(found).T


@jit
def _factor_rows(
    t: NDArray[np.float64], others: NDArray[np.int64], after: NDArray[np.float64], ties: NDArray[np.int64], ground: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Factor the form of each row: return squares, U, coefficients of the remaining column sums, and the rounding."""
    n, c = others.size, t.shape[1]
    squares, mu, pulls = np.ones((n, c)), np.zeros((n, c * (c - 1) // 2)), np.empty((n, c - 1, c - 1))
    form, rounding = np.empty((2 * c - 2, 2 * c - 2)), 0.0
    full = np.zeros((c, c))  # W with the ground column
    for place in range(n - 1, -1, -1):
        row, tie = others[place], ties[place]
        # the form in (x, b): the row's own precision plus the form of the later rows
        W = after @ after.T
        for i in range(c - 1):
            for j in range(c - 1):
                full[i + (i >= ground), j + (j >= ground)] = W[i, j]
        largest = 1.0
        for i in range(c - 1):
            a = i + (i >= tie)
            for j in range(c - 1):
                b, lacking = j + (j >= tie), j + (j >= ground)
                form[i, j] = (full[a, b] - full[tie, b]) - (full[a, tie] - full[tie, tie]) + 1.0 / t[row, tie]
                form[i, c - 1 + j] = form[c - 1 + j, i] = full[tie, lacking] - full[a, lacking]
                form[c - 1 + i, c - 1 + j] = W[i, j]
            form[i, i] += 1.0 / t[row, a]
            size = (math.sqrt(full[a, a]) + math.sqrt(full[tie, tie])) ** 2
            largest = max(largest, size / form[i, i])
        # its triangular factors: mu of x, coefficients of b, and W for the row before
        lower, off = triangle(form, (c + 6.0) * largest)
        rounding += off
        entry = 0
        for i in range(c - 1):
            squares[place, i] = lower[i, i] ** 2 * (1.0 - SLACK)
            for j in range(i + 1, c - 1):
                mu[place, entry] = lower[j, i] / lower[i, i]
                entry += 1
            entry += 1  # entry of the shift
            for j in range(c - 1):
                pulls[place, i, j] = lower[c - 1 + j, i] / lower[i, i]
        after = lower[c - 1 :, c - 1 :].copy()
    return squares, mu, pulls, rounding
