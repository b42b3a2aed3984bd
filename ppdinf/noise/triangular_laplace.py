r"""Exact Laplace noise in orthogonal coordinates of a lattice: mass proportional to exp(-rate |R x|_1).

x are the coordinates of a lattice vector z = B x, and R is an upper triangular integer matrix. The coordinates are
drawn in turn, x_m first. Given all later coordinates, v_i = R_ii x_i + t_i has mass exp(-rate |v_i|) on the integers
that are congruent to t_i modulo R_ii: a geometric variable on either side of 0. The vector is accepted with a
probability that corrects the total masses. All numbers are integers or rationals, and Bernoulli draws are exact.

Proofs and references: docs/mathematics/lattice_gaussian.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from flint import arb
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Flags, Integers, Reals, members
from ppdinf.errors import InvariantError
from ppdinf.lattice.systems import MatrixLike
from ppdinf.noise.primitives.enclosures import draw_accepted, draw_bernoulli

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream

NEGLIGIBLE = 700  # minus the log probability of digits that are omitted
ERROR = 2.0**-45  # bound on the absolute error of each log probability below
BITS = 30  # upper bound on the entries of R


@dataclass(frozen=True, eq=False)
class TriangularLaplace:
    """The law of coordinates x with mass proportional to ``exp(-rate |R x|_1)``."""

    triangle: sparse.csr_array
    rate: Fraction

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Draw coordinates, int64 of shape (size, m)."""
        m = self.triangle.shape[0]

        def attempt(rows: int) -> tuple[Integers, Flags]:
            proposed, rests = self._propose(rows, stream)
            return proposed, draw_bernoulli(*self._log_keep(rests), partial(self._enclose_keep, rests), stream)

        return draw_accepted((size, m), m, attempt)

    def _propose(self, size: int, stream: BitStream) -> tuple[Integers, Integers]:
        """Draw vectors one coordinate after the other; also return the remainders f."""
        lengths = self.triangle.diagonal()
        steps = self._geometric(size, lengths, stream)
        x, rests = np.zeros((lengths.size, size), dtype=np.int64), np.empty((lengths.size, size), dtype=np.int64)
        start, columns, entries = self.triangle.indptr, self.triangle.indices, self.triangle.data
        for i in reversed(range(lengths.size)):
            beyond = slice(start[i] + 1, start[i + 1])  # sorted: the diagonal is first
            t = entries[beyond] @ x[columns[beyond]] if start[i] + 1 < start[i + 1] else np.zeros(size, dtype=np.int64)
            rests[i] = t % lengths[i]
            up = self._sides(int(lengths[i]), rests[i], stream)
            v = np.where(up, rests[i] + lengths[i] * steps[i], rests[i] - lengths[i] * (1 + steps[i]))
            x[i] = (v - t) // lengths[i]
        return x.T, rests.T

    def _geometric(self, size: int, lengths: Integers, stream: BitStream) -> Integers:
        """Draw geometric variables k, int64 of shape (m, size), with mass proportional to exp(-rate length k)."""
        each = np.repeat(lengths, size)
        rates: Reals = np.multiply(float(self.rate), each, dtype=np.float64)
        found = np.zeros(each.size, dtype=np.int64)
        for j in range(max(1, math.ceil(math.log2(NEGLIGIBLE / rates.min())) + 1)):
            high = rates * 2.0**j

            def enclose(i: int, j: int = j) -> arb:
                return 1 / (1 + ball(self.rate * int(each[i]) * 2**j).exp())

            log_p = -high - np.log1p(np.exp(-high))
            found += draw_bernoulli(log_p, ERROR * (1 + high), enclose, stream).astype(np.int64) << j
        return found.reshape(lengths.size, size)

    def _sides(self, length: int, rests: Integers, stream: BitStream) -> Flags:
        """Draw whether values are at least 0 or below 0."""

        def enclose(i: int) -> arb:
            return 1 / (1 + ball(self.rate * (2 * int(rests[i]) - length)).exp())

        log_odds: Reals = np.multiply(float(self.rate), length - 2 * rests, dtype=np.float64)
        log_p = np.asarray(-np.logaddexp(0.0, -log_odds), dtype=np.float64)
        return draw_bernoulli(log_p, ERROR * (1 + float(np.abs(log_odds).max())), enclose, stream)

    def _log_keep(self, rests: Integers) -> tuple[Reals, Reals]:
        """Return the log of prod M(f) / M(0) for each vector, and a bound on its rounding error."""
        half = float(self.rate) * self.triangle.diagonal() / 2
        terms = _log_cosh(half - float(self.rate) * rests) - _log_cosh(half)
        return terms.sum(axis=1), np.full(len(rests), ERROR * float(1 + half.sum()) * (1 + rests.shape[1]))

    def _enclose_keep(self, rests: Integers, draw: int) -> arb:
        found = arb(1)
        for length, rest in zip(self.triangle.diagonal().tolist(), rests[draw].tolist(), strict=True):
            half = self.rate * length / 2
            found *= ball(half - self.rate * rest).cosh() / ball(half).cosh()
        return found


def triangular_laplace(triangle: MatrixLike, scale: float, grid: Fraction) -> tuple[TriangularLaplace, float]:
    """Round a real triangular matrix such that the noise is at least as wide as a scale in every direction."""
    exact = sparse.csr_array(sparse.triu(triangle))
    long, tall, wide, count = _sizes(exact)
    farthest = NEGLIGIBLE * scale / float(grid) * max(1.0, long) * (1 + wide)
    bits = min(BITS, 62 - math.ceil(math.log2(farthest)))
    whole = sparse.csr_array(exact * 2.0**bits)
    whole.data = np.rint(whole.data)
    whole = whole.astype(np.int64)
    whole.sort_indices()
    off = count * 2.0 ** -(bits + 1) * tall  # entries have errors of half a unit; the errors of Q' B are much smaller
    if bits < 1 or off > 1e-3 or np.any(whole.diagonal() < 1):
        raise InvariantError("the basis of this system is too long in some directions for integer noise")
    widening = (1 + off) * (1 + 1e-9)
    rate = grid / (Fraction(scale * widening) * 2**bits)
    return TriangularLaplace(whole, rate), widening


def _sizes(triangle: sparse.csr_array) -> tuple[float, float, float, int]:
    """Return the largest row and column sums of |R^-1|, row sum of |R|, and number of entries in a column."""
    long = tall = 0.0
    component = connected_components(triangle, directed=False)[1] if triangle.shape[0] else np.zeros(0, dtype=int)
    for part in members(component):
        inverse = np.abs(np.linalg.inv(triangle[part][:, part].toarray()))
        long = max(long, inverse.sum(axis=1).max())
        tall = max(tall, inverse.sum(axis=0).max())
    wide = abs(triangle).sum(axis=1).max(initial=0.0)
    return long, tall, float(wide), int(np.bincount(triangle.indices).max(initial=0))


def _log_cosh(x: Reals) -> Reals:
    size = np.abs(x)
    return size + np.log1p(np.expm1(-2 * size) / 2)
