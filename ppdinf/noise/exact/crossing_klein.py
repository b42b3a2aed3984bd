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

Rounding. Factors shape the proposal only; the law of what is kept is exact. Variances are drawn wider by a factor
1 + `SLACK`, so that the proposal's quadratic form stays below the true one for every z: if centres are off by e_i and
variances v_i by far less than the slack, that holds once sum e_i^2 / v_i is below SLACK^2 / 9 of the form, and by the
backward error of Cholesky factors (N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 10) it is
of order (condition x rows x unit)^2 of it.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy import linalg, sparse

from ppdinf._compiled import jit
from ppdinf.errors import PrivacyError
from ppdinf.noise.bits.tape import ROW, Tape, Words
from ppdinf.noise.exact.klein import KEPT, OPEN, WIDE, Klein, _walk
from ppdinf.noise.exact.theta import enclose_mass, log_mass, log_ratio
from ppdinf.rationals import ball

__all__ = ["SLACK", "Drawn", "draw_given_scales", "draw_on"]

SLACK = 2.0**-20
NOWHERE = sparse.csr_array((0, 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Noise and what its probability is made of.

    Attributes
    ----------
    z : ndarray of int64, shape (r, c)
    x : ndarray of int64, shape (m,)
        Integers drawn.
    centers : ndarray of float64, shape (m,)
        Minus the centre of each.
    squares : ndarray of float64, shape (m,)
        One over its variance.
    """

    z: NDArray[np.int64]
    x: NDArray[np.int64]
    centers: NDArray[np.float64]
    squares: NDArray[np.float64]

    def log_ratio(self, t: NDArray[np.float64]) -> float:
        """Log of the weight exp(-sum z^2 / 2t) over the proposal's, both with their Gaussian normalisers."""
        return _log_weight(self.x + self.centers, self.squares) - 0.5 * float((self.z**2 / t).sum())

    def enclose_ratio(self, t: list[list[arb]], log_determinant: arb) -> arb:
        """Enclose the logarithm of the same; `log_determinant` is that of the exact precision."""
        found = log_determinant
        for x, center, square in zip(self.x.tolist(), self.centers.tolist(), self.squares.tolist(), strict=True):
            y, g = x + Fraction(center), Fraction(square)
            mass = enclose_mass(ball(y - round(y)), ball(1 / g))
            found += 2 * mass.log() - (2 * arb.pi()).log() + ball(y * y * g)
        for row, scales in zip(self.z.tolist(), t, strict=True):
            found -= sum((value * value / x for value, x in zip(row, scales, strict=True) if value), start=arb(0))
        return found / 2


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
    own = _Rows(squares, mu)
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


def draw_on(basis: NDArray[np.int64], start: NDArray[np.int64], t: NDArray[np.float64], tape: Tape) -> Drawn:
    """Draw noise around 0 on start + basis x, x whole, given the scales of cells: the last coordinate first."""
    precision = (basis / t[:, np.newaxis]).T @ basis
    lengths, factor = _triangle(precision)
    shift = linalg.solve_triangular(factor, basis.T @ (start / t), lower=True, unit_diagonal=True) / lengths
    squares = lengths * (1 - SLACK)
    x, centers = _draw_block(squares, factor.T, shift, tape)
    return Drawn(start + basis @ x, x, centers, squares)


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


def _draw_block(
    squares: NDArray[np.float64], factors: NDArray[np.float64], shifts: NDArray[np.float64], tape: Tape
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw integers x_i around -(shift_i + sum_(j > i) factor_ij x_j), the last first; also what is in parentheses."""
    m = squares.size
    rows = _Rows(np.append(squares, 1.0)[np.newaxis], np.zeros((1, m * (m + 1) // 2)))
    rows.shifts[0] = shifts
    for i in range(m):
        rows.mu[0, rows.starts[i] : rows.starts[i + 1] - 1] = factors[i, i + 1 :]
    nothing = np.zeros((1, m, m))
    rows.draw(nothing, np.array([m]), np.zeros(m + 1, dtype=np.int64), tape)
    return rows.x[0, 0, :m], rows.centers[0, 0, :m]


class _Rows:
    """Coordinates of rows to be drawn, in the form of `ppdinf.noise.exact.klein`: a last one, 1, carries the shifts."""

    def __init__(self, squares: NDArray[np.float64], mu: NDArray[np.float64]) -> None:
        n, c = squares.shape
        self.squares, self.mu, self.shifts = squares, mu, np.zeros((n, c - 1))
        self.starts = np.append(0, np.cumsum(np.arange(c - 1, 0, -1)))
        self.columns = np.concatenate([np.arange(i + 1, c) for i in range(c)])
        self.x, self.centers = np.zeros((n, 1, c), dtype=np.int64), np.zeros((n, 1, c))
        self.x[:, 0, -1] = 1

    def draw(self, pulls: NDArray[np.float64], ties: NDArray[np.int64], lacking: NDArray[np.int64], tape: Tape) -> None:
        """Draw row by row; `lacking` becomes what the column sums then lack."""
        n, _, c = self.x.shape
        place, position = 0, 1
        state = (
            self.x,
            self.centers,
            self.squares,
            self.starts,
            self.columns,
            self.mu,
            self.shifts,
            pulls,
            ties,
            lacking,
        )
        while place < n:
            pairs = tape(2 * min(3 * ((n - place) * (c - 1) + 1 - position), ROW)).reshape(-1, 2)
            used = 0
            while used < len(pairs) and place < n:
                place, position, used, status = _draw_rows(pairs, used, place, position, *state)
                if status == WIDE:
                    raise PrivacyError("the noise is wider than 2^40; choose a larger epsilon")
                if status == OPEN:
                    i, law = c - 1 - position, Klein(NOWHERE, self.squares[place], *state[3:6], 0.0)
                    k = law._settled(pairs[used], Fraction(1), 1.0, i, float(self.centers[place, 0, i]), tape)
                    used += 1
                    if k is not None:
                        self.x[place, 0, i] = k - round(float(np.rint(self.centers[place, 0, i])))
                        position += 1


@jit
def _draw_rows(
    pairs: Words,
    used: int,
    place: int,
    position: int,
    x: NDArray[np.int64],
    centers: NDArray[np.float64],
    squares: NDArray[np.float64],
    starts: NDArray[np.int64],
    columns: NDArray[np.int64],
    mu: NDArray[np.float64],
    shifts: NDArray[np.float64],
    pulls: NDArray[np.float64],
    ties: NDArray[np.int64],
    lacking: NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Draw coordinates until the words are used up or one of them stays open."""
    n, _, c = x.shape
    one = np.ones(1)
    while place < n:
        tie = ties[place]
        if position == 1:
            for i in range(c - 1):
                shift = shifts[place, i]
                for j in range(c - 1):
                    shift -= pulls[place, i, j] * lacking[j if j < tie else j + 1]
                mu[place, starts[i + 1] - 1] = shift
        while position < c:
            if used == len(pairs):
                return place, position, used, KEPT
            few = pairs[used : used + c - position]
            position, more, status = _walk(
                few, 0, position, one, x[place], centers[place], squares[place], starts, columns, mu[place]
            )
            used += more
            if status != KEPT:
                return place, position, used, status
        for j in range(c - 1):
            lacking[j if j < tie else j + 1] -= x[place, 0, j]
            lacking[tie] += x[place, 0, j]
        place, position = place + 1, 1
    return place, position, used, KEPT


def _triangle(precision: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return g and the unit lower triangular U' with precision = U' diag(g) U."""
    lower = np.linalg.cholesky(precision)
    lengths = np.diag(lower)
    return lengths**2, lower / lengths


@jit
def _log_weight(offsets: NDArray[np.float64], squares: NDArray[np.float64]) -> float:
    total = 0.0
    for i in range(offsets.size):
        y, v = offsets[i], 1.0 / squares[i]
        total += 0.5 * y * y * squares[i]
        if v < 4.0:
            total += log_ratio(y - np.rint(y), v) + log_mass(np.array([v]))[0] - 0.5 * np.log(2.0 * np.pi * v)
    return total


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
