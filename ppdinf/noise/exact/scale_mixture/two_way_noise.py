r"""Noise on a two-way table given its scales: row by row by Klein's sampler, in the metric of the scales.

Rows are drawn one after the other, each given what the rows after it have to bring the column sums to. With one cell
of the row, its *tie*, left to the row sum, x the others, b what the column sums lack (without one column, the
*ground*), and b' W b the least that the rows after it can do, the quadratic form of what is still to be drawn is

    z' T^-1 z + (b - z)' W (b - z),      z the row of x,

a form in (x, b). Its triangular factors, x first, draw x by Klein's sampler and leave b' W b of the row before. The
last rows, the *spine*, are drawn together, on the fundamental cycles of a tree of wide cells: the root's wide cells,
and for each column that the root lacks a wide cell of another row of the spine, itself tied to the root. So the
integers drawn are the cells outside a spanning tree of wide cells, and 1 / t plus the sum of 1 / t along the tree's
path between its ends is a lower bound on the variance of each, inverted (the variance given the others is no larger
than the one drawn from).

*Rounding.* Take W as the exact product of its triangular factors in floating point. Then the form of the factors of
one row is at most 1 + eta times the true one (`ppdinf.noise.exact.scale_mixture.klein_given_scales.triangle`), and by
induction over rows, from the last, the proposal's form is at most prod (1 + eta) times that of the table. W's entries
are sums of c - 1 products, those of the form in x of four entries of W, each at most (sqrt W_jj + sqrt W_tie)^2 in
size.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.noise.exact.scale_mixture.klein_given_scales import SLACK, Block, Drawn, Rows, triangle, under_control
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["draw_given_scales"]


def draw_given_scales(t: NDArray[np.float64], wide: NDArray[np.bool_], root: int, stream: BitStream) -> Drawn:
    """Draw noise on a backed table.

    Parameters
    ----------
    t : ndarray of float64, shape (r, c)
        Scales.
    wide : ndarray of bool, shape (r, c)
        Which of them the tree may use.
    root : int
        From `ppdinf.noise.exact.scale_mixture.spanning_tree.root_of`.
    stream : BitStream

    Returns
    -------
    Drawn

    Raises
    ------
    PrivacyError
        The noise leaves the integers that floating point knows.
    """
    r, c = t.shape
    spine = _spine(t, wide, root)
    rows = [root, *spine]
    apart = np.ones(r, dtype=np.bool_)
    apart[rows] = False
    others = np.flatnonzero(apart)
    others = others[np.argsort(wide[others].sum(axis=1), kind="stable")]  # those with all cells wide come last
    ties = np.argmax(np.where(wide[root] & wide[others], t[others], -1.0), axis=1)
    ground = int(np.argmax(np.where(wide[root], t[root], -1.0)))  # wide cells of the root keep W small
    block = Block(_basis(t.shape, wide, root, spine, ground), t[rows].ravel())
    try:
        squares, mu, pulls, rounding = _factor_rows(t, others, block.lower[1 - c :, 1 - c :].copy(), ties, ground)
    except np.linalg.LinAlgError:
        rounding = np.inf
    under_control(block.rounding + rounding)
    own = Rows(squares, mu)
    lacking = np.zeros(c, dtype=np.int64)
    own.draw(pulls, ties, ground, lacking, stream)
    x = own.x[:, 0, :-1]
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
        np.concatenate([own.centers[:, 0, :-1].ravel(), last.centers]),
        np.concatenate([squares[:, :-1].ravel(), last.squares]),
    )


def _spine(t: NDArray[np.float64], wide: NDArray[np.bool_], root: int) -> dict[int, tuple[int, list[int]]]:
    """Rows that bring the root the columns it lacks: for each its tie to the root and its columns."""
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
    """Fundamental cycles on the spine, the root's row first, and for each column but the ground a path between both."""
    _, c = shape
    rows = [root, *spine]
    owner = {j: (n + 1, tie) for n, (tie, columns) in enumerate(spine.values()) for j in columns}

    def to_root(j: int, sign: int, vector: NDArray[np.int64]) -> None:
        """Add the tree's path from a column to the root."""
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
    """Factor the form of each row and of what is lacking: squares, U, what lacking sums pull, and the rounding.

    `after` is the triangle of W of the rows that come last.
    """
    n, c = others.size, t.shape[1]
    squares, mu, pulls = np.ones((n, c)), np.zeros((n, c * (c - 1) // 2)), np.empty((n, c - 1, c - 1))
    form, rounding = np.empty((2 * c - 2, 2 * c - 2)), 0.0
    full = np.zeros((c, c))  # W with the ground
    for place in range(n - 1, -1, -1):
        row, tie = others[place], ties[place]
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
        lower, off = triangle(form, (c + 6.0) * largest)
        rounding += off
        entry = 0
        for i in range(c - 1):
            squares[place, i] = lower[i, i] ** 2 * (1.0 - SLACK)
            for j in range(i + 1, c - 1):
                mu[place, entry] = lower[j, i] / lower[i, i]
                entry += 1
            entry += 1  # of the shift
            for j in range(c - 1):
                pulls[place, i, j] = lower[c - 1 + j, i] / lower[i, i]
        after = lower[c - 1 :, c - 1 :].copy()
    return squares, mu, pulls, rounding
