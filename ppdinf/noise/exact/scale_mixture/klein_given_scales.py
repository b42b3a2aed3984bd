r"""Noise on a lattice given its scales, by Klein's sampler in the metric of the scales, and its density.

For noise B x the law has density proportional to exp(-x' G x / 2), G = B' T^-1 B. The integers x are drawn one after
the other, the last one first, with the triangular factors of G.

Rounding affects only the proposal; the law of accepted noise is exact. Variances are increased by a factor 1 + `SLACK`,
so that the quadratic form of the proposal stays below the true form for every x. `triangle` bounds the rounding of each
matrix that it factors (docs/crossing.md).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import arb
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import PrivacyError
from ppdinf.noise.exact.klein import KEPT, OPEN, UNIT, WIDE, Klein, _draw_coordinates
from ppdinf.noise.exact.scale_mixture.scales import LOG_ERROR
from ppdinf.noise.exact.theta import enclose_mass, log_gaussian_mass, log_ratio
from ppdinf.noise.primitives.stream import ROW, BitStream, Words

SLACK = 2.0**-20
NOWHERE = sparse.csr_array((0, 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Noise and the terms of its acceptance probability."""

    z: Integers
    x: Integers
    centers: Reals
    squares: Reals

    def square(self, t: Reals) -> float:
        """Return the sum of z^2 / t."""
        return float((self.z.astype(np.float64) ** 2 / t).sum())

    def log_ratio(self, t: Reals) -> float:
        """Return the log ratio of exp(-sum z^2 / 2t) to the proposal, both with their Gaussian normalisers."""
        return _log_weight(self.x + self.centers, self.squares) - 0.5 * self.square(t)

    def enclose_ratio(self, t: list[list[arb]], log_determinant: arb) -> arb:
        """Enclose the log ratio; `log_determinant` belongs to the exact precision matrix."""
        log_square = log_determinant
        for x, center, square in zip(self.x.tolist(), self.centers.tolist(), self.squares.tolist(), strict=True):
            y, g = x + Fraction(center), Fraction(square)
            mass = enclose_mass(ball(y - round(y)), ball(1 / g))
            log_square += 2 * mass.log() - (2 * arb.pi()).log() + ball(y * y * g)
        for row, scales in zip(self.z.tolist(), t, strict=True):
            log_square -= sum((value * value / x for value, x in zip(row, scales, strict=True) if value), start=arb(0))
        return log_square / 2


class Block:
    """Triangular factors of B' T^-1 B. The coordinates of the last columns of B may be given; the others are drawn."""

    def __init__(self, basis: Integers, t: Reals) -> None:
        self._basis = basis
        self.lower, self.rounding = _factored((basis / t[:, np.newaxis]).T @ basis, float(t.size + 6))

    def draw(self, given: Integers, stream: BitStream) -> Drawn:
        """Draw noise B x around 0 given the last coordinates."""
        m = len(self.lower) - given.size
        lengths = np.diag(self.lower)
        factor = self.lower / lengths
        squares = lengths[:m] ** 2 * (1 - SLACK)
        x, centers = _draw_block(squares, factor[:m, :m].T, given @ factor[m:, :m], stream)
        return Drawn(self._basis @ np.concatenate([x, given]), x, centers, squares)


def draw_on(basis: Integers, t: Reals, stream: BitStream) -> Drawn:
    """Draw noise around 0 in the integer span of a basis given the scales of cells, the last coordinate first."""
    block = Block(basis, t)
    under_control(block.rounding)
    return block.draw(np.empty(0, dtype=np.int64), stream)


def under_control(rounding: float) -> None:
    """Check that the quadratic form of the proposal, with this relative error, is below the true form."""
    if not rounding + LOG_ERROR < SLACK:
        raise PrivacyError(
            "the drawn scales differ so much that rounding errors exceed their bound; no noise was drawn"
        )


def _draw_block(squares: Reals, factors: Reals, shifts: Reals, stream: BitStream) -> tuple[Integers, Reals]:
    """Draw integers x_i around -(shift_i + sum_(j > i) factor_ij x_j), the last first, and minus the centers."""
    m = squares.size
    if not m:
        return np.empty(0, np.int64), np.empty(0)
    rows = RowCoordinates.of(np.append(squares, 1.0)[np.newaxis], np.zeros((1, m * (m + 1) // 2)))
    rows.shifts[0] = shifts
    for i in range(m):
        rows.mu[0, rows.starts[i] : rows.starts[i + 1] - 1] = factors[i, i + 1 :]
    nothing = np.zeros((1, m, m))
    rows.draw(nothing, np.array([m]), m, np.zeros(m + 1, dtype=np.int64), stream)
    return rows.x[0, 0, :m], rows.centers[0, 0, :m]


class RowCoordinates(NamedTuple):
    """Coordinates of rows in the form of the module `klein`; the last coordinate, fixed at 1, holds the shifts."""

    squares: Reals
    starts: Integers
    columns: Integers
    mu: Reals
    shifts: Reals
    x: Integers
    centers: Reals

    @classmethod
    def of(cls, squares: Reals, mu: Reals) -> "RowCoordinates":
        """Return coordinates that are all 0, with shifts 0."""
        n, c = squares.shape
        starts = np.append(0, np.cumsum(np.arange(c - 1, 0, -1)))
        columns = np.concatenate([np.arange(i + 1, c) for i in range(c)])
        x = np.zeros((n, 1, c), dtype=np.int64)
        x[:, 0, -1] = 1
        return cls(squares, starts, columns, mu, np.zeros((n, c - 1)), x, np.zeros((n, 1, c)))

    def draw(self, pulls: Reals, ties: Integers, ground: int, lacking: Integers, stream: BitStream) -> None:
        """Draw row by row and update `lacking`, the remaining column sums; `pulls` are coefficients."""
        n, _, c = self.x.shape
        place, position, state = 0, 1, (self, pulls, ties, ground, lacking)
        while place < n:
            pairs = stream(2 * min(3 * ((n - place) * (c - 1) + 1 - position), ROW)).reshape(-1, 2)
            used = 0
            while used < len(pairs) and place < n:
                place, position, used, status = _draw_rows(pairs, used, place, position, *state)
                if status == WIDE:
                    raise PrivacyError("the noise exceeds 2**40; choose a larger epsilon")
                if status == OPEN:
                    i, law = c - 1 - position, Klein(NOWHERE, self.squares[place], *self[1:4], 0.0)
                    k = law._settled(pairs[used], Fraction(1), 1.0, i, float(self.centers[place, 0, i]), stream)
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
    rows: RowCoordinates,
    pulls: Reals,
    ties: Integers,
    ground: int,
    lacking: Integers,
) -> tuple[int, int, int, int]:
    """Draw coordinates until the words are used up or a comparison is undecided."""
    squares, starts, columns, mu, shifts, x, centers = rows
    n, _, c = x.shape
    one = np.ones(1)
    while place < n:
        tie = ties[place]
        if position == 1:
            for i in range(c - 1):
                shift = shifts[place, i]
                for j in range(c - 1):
                    shift += pulls[place, i, j] * lacking[j if j < ground else j + 1]
                mu[place, starts[i + 1] - 1] = shift
        while position < c:
            if used == len(pairs):
                return place, position, used, KEPT
            few = pairs[used : used + c - position]
            position, more, status = _draw_coordinates(
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


def _factored(precision: Reals, units: float) -> tuple[Reals, float]:
    try:
        return triangle(precision, units)
    except np.linalg.LinAlgError:
        return np.eye(len(precision)), np.inf


@jit
def triangle(precision: Reals, units: float) -> tuple[Reals, float]:
    """Return the lower triangle L with precision = L L' up to rounding, and a bound on the rounding error."""
    lower, m = np.linalg.cholesky(precision), len(precision)
    unit_diagonal = lower.copy()
    for i in range(m):
        unit_diagonal[i] /= np.sqrt(precision[i, i])
    trace = 1.1 * (np.linalg.inv(unit_diagonal) ** 2).sum() if m else 0.0
    return lower, UNIT * (m * (m + units + 2.0) * trace + 3.0 * (m + 1.0) * np.sqrt(m * trace))


@jit
def _log_weight(offsets: Reals, squares: Reals) -> float:
    total = 0.0
    for i in range(offsets.size):
        y, v = offsets[i], 1.0 / squares[i]
        total += 0.5 * y * y * squares[i]
        if v < 4.0:
            total += log_ratio(y - np.rint(y), v) + log_gaussian_mass(np.array([v]))[0] - 0.5 * np.log(2.0 * np.pi * v)
    return total
