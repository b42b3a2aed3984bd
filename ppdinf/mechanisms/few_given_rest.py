r"""Double geometric noise under lower bounds and disjoint public sums of many cells: a few cells given all others.

Split a group of cells with the total t into a few cells K and the rest R; P(s) is the weight of all K with the sum s.

1. Draw the cells of R independently.
2. Accept them with probability P(t - sum of R) / max P; otherwise repeat 1.
3. Draw the cells of K given that their sum is t - sum of R, by elimination.

All decisions are exact. The proof is in docs/mathematics/conditioning.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import scipy.sparse as sp
from flint import arb, arb_poly, ctx

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals
from ppdinf.invariants import System
from ppdinf.lattice.integer_rows import row_algebra
from ppdinf.laws import DoubleGeometric
from ppdinf.mechanisms.table_sums import FASTEST, approximate_moments, potential_of, sides
from ppdinf.noise.exact.potentials import Potential
from ppdinf.noise.exact.variable_elimination import Elimination
from ppdinf.noise.primitives.enclosures import draw_bernoulli, precision
from ppdinf.noise.primitives.integers import Inversion
from ppdinf.noise.primitives.stream import BitStream

FEW = 64  # number of cells of K, at most
ENTRIES = 2**16  # number of sums of K, at most
BITS = 112  # bits of the first enclosures of P: 2^-61 of its largest value is far above the omitted mass
ERROR = 2.0**-47  # rounding of log probabilities; those below 2^-60 need none (`draw_bernoulli`)
NEAR = 0.75  # share of the cells of a group from which K is taken
BATCH = 2**20  # cells drawn at a time
LONGEST = 2**21  # counts above a bound that the tilt considers


@lru_cache(maxsize=2**14)
def _inversion(distance: int | None, epsilon: Fraction, theta: Fraction) -> Inversion:
    """Return the sampler of the noise of a cell whose count exceeds its bound by a distance."""
    first = None if distance is None else -distance
    mode = first if first is not None and theta < -epsilon else 0
    return Inversion(lambda z: (ball(theta) * z - ball(epsilon) * abs(z)).exp(), mode, first)


class _Sums:
    """The total weight of all values of a few cells with a given sum, relative to a bound on the largest weight."""

    def __init__(self, potentials: list[Potential]) -> None:
        self._potentials = potentials
        self._table = lru_cache(maxsize=2)(self._tabulate)

    def _tabulate(self, bits: int) -> tuple[int, list[arb], arb]:
        """Return the first sum, the weights of consecutive sums, and an enclosure of all omitted weights."""
        first, product, mass, complete = 0, arb_poly([1]), arb(1), arb(1)
        for potential in self._potentials:
            begin, weights, tail = potential(bits)
            first += begin
            product *= arb_poly(weights)
            own = sum(weights, start=arb(0))
            mass, complete = mass * own, complete * (own + tail)
        return first, product.coeffs(), arb(0).union((complete - mass).upper())

    @cached_property
    def rough(self) -> tuple[int, Reals, arb]:
        """The first sum, the logarithms of weights relative to a bound on the largest weight, and this bound."""
        with precision(BITS):
            first, weights, omitted = self._table(BITS)
            largest = max(((weight + omitted).upper() for weight in weights), key=float)
            logs = [float((weight / largest).log()) if weight > 0 else -math.inf for weight in weights]
        return first, np.array(logs), largest

    def log_probability(self, sums: Integers) -> Reals:
        """Return logarithms of weights relative to the bound; -inf for sums outside the table."""
        first, logs, _ = self.rough
        at = sums - first
        inside = (at >= 0) & (at < logs.size)
        return np.where(inside, logs[np.where(inside, at, 0)], -np.inf)

    def enclose(self, s: int) -> arb:
        """Enclose the weight of a sum relative to the bound at the present working precision."""
        first, weights, omitted = self._table(ctx.prec)
        at = s - first
        weight = weights[at] if 0 <= at < len(weights) else arb(0)
        return (weight + omitted) / self.rough[2]


class FewGivenRest:
    """Exact sampler of releases of one table."""

    def __init__(self, x: Integers, low: list[int | None], groups: Integers, epsilon: Fraction, few: int = FEW) -> None:
        self._x, self._epsilon, self._law = x, epsilon, DoubleGeometric(epsilon)
        self._above = np.array([np.inf if end is None else int(v) - end for v, end in zip(x, low, strict=True)])
        self._free = np.flatnonzero(groups < 0)
        few = max(1, min(few, int(ENTRIES / _width(epsilon))))
        order = np.lexsort((self._above, groups))[self._free.size :]  # by the distance from the bound in each group
        self._groups = []
        for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            # K: cells near their bounds, because the noise of the others can be tilted over a wide range
            if members.size:
                number = min(few, members.size)
                places = np.linspace(0, max(number - 1, NEAR * (members.size - 1)), number).astype(np.int64)
                self._groups.append((members, members[places]))

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return independent draws, int64 of shape (size, d)."""
        y = np.empty((size, self._x.size), np.int64)
        y[:, self._free] = self._independent(self._free, Fraction(0), size, stream)
        for members, few in self._groups:
            theta = self._tilt(members)
            rest, total = np.setdiff1d(members, few), int(self._x[members].sum())
            potentials = [self._potential(i, theta) for i in few.tolist()]
            kept, left = self._accepted(rest, theta, total, _Sums(potentials), size, stream)
            y[:, rest], ones = kept, np.ones((1, few.size), dtype=np.int64)
            for s in np.unique(left).tolist():
                rows = np.flatnonzero(left == s)
                drawn = Elimination(ones, [s], potentials, largest=math.inf).draw(rows.size, stream)
                y[rows[:, np.newaxis], few] = drawn
        return y

    def _independent(self, cells: Integers, theta: Fraction, size: int, stream: BitStream) -> Integers:
        """Draw cells without a sum."""
        z, above = np.empty((size, cells.size), dtype=np.int64), self._above[cells]
        # far bounds: noise without a bound, drawn again where it violates the bound
        far = above * float(self._epsilon + theta) >= 1
        law = _inversion(None, self._epsilon, theta) if far.any() else None
        again = np.nonzero(np.broadcast_to(far, z.shape))
        while law is not None and again[0].size:
            z[again] = law.draw(again[0].size, stream)
            below = z[again] < -above[again[1]]
            again = again[0][below], again[1][below]
        for distance in np.unique(above[~far]).tolist():
            alike = np.flatnonzero(above == distance)
            drawn = _inversion(int(distance), self._epsilon, theta).draw(size * alike.size, stream)
            z[:, alike] = drawn.reshape(size, -1)
        return z + self._x[cells]

    def _accepted(
        self, rest: Integers, theta: Fraction, total: int, few: _Sums, size: int, stream: BitStream
    ) -> tuple[Integers, Integers]:
        """Draw the rest until it is accepted; return its values, shape (size, rest), and the sum left for the few."""
        if not rest.size:
            return np.empty((size, 0), dtype=np.int64), np.full(size, total)
        kept, left, found, attempts = [], [], 0, size
        while found < size:
            y = self._independent(rest, theta, min(attempts, max(1, BATCH // rest.size)), stream)
            sums = total - y.sum(axis=1)

            def enclose(n: int, sums: Integers = sums) -> arb:
                return few.enclose(int(sums[n]))

            events = draw_bernoulli(few.log_probability(sums), ERROR, enclose, stream)
            kept.append(y[events])
            left.append(sums[events])
            found += int(events.sum())
            attempts *= 2
        return np.concatenate(kept)[:size], np.concatenate(left)[:size]

    def _potential(self, cell: int, theta: Fraction) -> Potential:
        """Return the weights of a cell as the input of an elimination."""
        x, above = int(self._x[cell]), float(self._above[cell])
        return potential_of(sides(self._law, theta, above, math.inf), x, (x - above, math.inf))

    def _tilt(self, members: Integers) -> Fraction:
        """Return a theta for which the sum of the noise of some cells has about the mean 0."""
        above, epsilon = self._above[members], float(self._epsilon)
        if np.isinf(above).all():
            return Fraction(0)
        law = approximate_moments(self._law, LONGEST)
        kinds, counts = np.unique(law.within(above), return_counts=True)
        least = -epsilon * (1 - 1e-6) if np.isinf(above).any() else -epsilon - FASTEST
        return Fraction(law.balanced(np.column_stack([kinds, np.full(kinds.size, LONGEST)]), counts, least))


def _width(epsilon: Fraction) -> float:
    """Return the number of releases of a cell with all but 2^-BITS of the weight."""
    return 2 * BITS * math.log(2) / float(epsilon)


def lower_bounds_and_groups(system: System, epsilon: Fraction) -> tuple[list[int | None], Integers] | None:
    """Return the smallest release of each cell and the group of each cell, as `FewGivenRest` needs them."""
    largest = max(int(np.abs(values).max(initial=0)) for values in (system.values, system.limits))
    if _width(epsilon) > ENTRIES or largest * system.frame.size > 2**53:
        return None
    matrix = sp.csr_array(system.A)
    sums = sp.csc_array(matrix[row_algebra(sp.csc_array(matrix)).independent])
    in_sums, of_bounds = np.diff(sums.indptr), np.diff(system.B.indptr)
    if (in_sums > 1).any() or (sums.data != 1).any() or (of_bounds != 1).any() or (system.B.data < 0).any():
        return None
    groups = np.full(system.frame.size, -1)
    groups[in_sums == 1] = sums.indices
    low: list[int | None] = [None] * system.frame.size
    for cell, weight, limit in zip(
        system.B.indices.tolist(), system.B.data.tolist(), system.limits.tolist(), strict=True
    ):
        end, known = -(-limit // weight), low[cell]
        low[cell] = end if known is None else max(known, end)
    return low, groups
