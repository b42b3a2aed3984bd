r"""Noise on a two-way table given its scales: row by row by Klein's sampler, in the metric of the scales.

Rows are drawn one after the other, each given what the rows after it can still bring the column sums to: with b what
the column sums lack, the covariance H of what the later rows bring, and one cell of the row, its *tie*, left to the
row sum, the other cells x of the row have density

    exp(-x' L x / 2 + x' H^-1 b),      L = diag(1/t) + 1 1' / t_tie + H^-1      (without the tie's column),

and are drawn by Klein's sampler with the triangular factors of L. The last rows, the *spine*, are drawn together, on
the fundamental cycles of a tree of wide cells: the root's wide cells, and for each column that the root lacks a wide
cell of another row of the spine, itself tied to the root. So the integers drawn are the cells outside a spanning tree
of wide cells, and 1 / t plus the sum of 1 / t along the tree's path between its ends, at most `PATH` cells, is a lower
bound on the variance of each, inverted (the variance given the others is no larger than the one drawn from).

Rounding shapes the proposal only (`ppdinf.noise.exact.crossing_klein`); rows are off by the orders that it bounds for
one basis. That their ratio is within its bound is checked for every draw: one beyond it would stop the sampler, and
never be kept.
"""

import numpy as np
from numpy.typing import NDArray

from ppdinf._compiled import jit
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.crossing_klein import SLACK, Drawn, Rows, draw_on

__all__ = ["draw_given_scales"]


def draw_given_scales(t: NDArray[np.float64], wide: NDArray[np.bool_], root: int, tape: Tape) -> Drawn:
    """Draw noise on a backed table.

    Parameters
    ----------
    t : ndarray of float64, shape (r, c)
        Scales.
    wide : ndarray of bool, shape (r, c)
        Which of them the tree may use.
    root : int
        From `ppdinf.noise.exact.crossing_backbone.root_of`.
    tape : Tape

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
    squares, mu, pulls = _factor_rows(t, others, np.array(rows), ties)
    own = Rows(squares, mu)
    lacking = np.zeros(c, dtype=np.int64)
    own.draw(pulls, ties, lacking, tape)
    x = own.x[:, 0, :-1]
    free = np.arange(c) != ties[:, np.newaxis]
    z = np.zeros((r, c), dtype=np.int64)
    part = np.zeros((len(others), c), dtype=np.int64)
    part[free] = x.ravel()
    part[~free] = -x.sum(axis=1)
    z[others] = part
    drawn, centers, used = [x.ravel()], [own.centers[:, 0, :-1].ravel()], [squares[:, :-1].ravel()]
    cycles, start = _cycles(t.shape, wide, root, spine, lacking)
    if cycles.shape[1]:
        block = draw_on(cycles, start, t[rows].ravel(), tape)
        start = block.z
        drawn.append(block.x)
        centers.append(block.centers)
        used.append(block.squares)
    z[rows] = start.reshape(len(rows), c)
    return Drawn(z, np.concatenate(drawn), np.concatenate(centers), np.concatenate(used))


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


def _cycles(
    shape: tuple[int, int],
    wide: NDArray[np.bool_],
    root: int,
    spine: dict[int, tuple[int, list[int]]],
    lacking: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Fundamental cycles on the spine, the root's row first, and an integer point with the column sums lacking."""
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
    start = np.zeros((len(rows), c), dtype=np.int64)
    for j in np.flatnonzero(lacking).tolist():
        to_root(j, int(lacking[j]), start)
    return np.array(found, dtype=np.int64).reshape(-1, start.size).T, start.ravel()


@jit
def _factor_rows(
    t: NDArray[np.float64], others: NDArray[np.int64], last: NDArray[np.int64], ties: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Factor the precision of each row given the rows after it: squares, U, and what the lacking sums pull."""
    n, c = others.size, t.shape[1]
    squares, mu, pulls = np.ones((n, c)), np.zeros((n, c * (c - 1) // 2)), np.empty((n, c - 1, c - 1))
    later = np.zeros((c, c))
    for row in last:
        _add_row(later, t[row])
    for place in range(n - 1, -1, -1):
        row, tie = others[place], ties[place]
        free = np.array([j for j in range(c) if j != tie])
        grounded = np.empty((c - 1, c - 1))
        for i in range(c - 1):
            for j in range(c - 1):
                grounded[i, j] = later[free[i], free[j]]
        inverse = np.linalg.inv(grounded)
        precision = 0.5 * (inverse + inverse.T) + 1.0 / t[row, tie]
        for i in range(c - 1):
            precision[i, i] += 1.0 / t[row, free[i]]
        lower = np.linalg.cholesky(precision)
        pull = np.linalg.solve(lower, inverse)
        entry = 0
        for i in range(c - 1):
            squares[place, i] = lower[i, i] ** 2 * (1.0 - SLACK)
            pulls[place, i] = pull[i] / lower[i, i]
            for j in range(i + 1, c - 1):
                mu[place, entry] = lower[j, i] / lower[i, i]
                entry += 1
            entry += 1  # of the shift
        _add_row(later, t[row])
    return squares, mu, pulls


@jit
def _add_row(covariance: NDArray[np.float64], t: NDArray[np.float64]) -> None:
    """Add R M(p), the covariance of a row whose sum is zero; its diagonal without cancellation."""
    c = t.size
    total = t.sum()
    for i in range(c):
        for j in range(i):
            share = t[i] * t[j] / total
            covariance[i, j] -= share
            covariance[j, i] -= share
            covariance[i, i] += share
            covariance[j, j] += share
