r"""Exact l2 Laplace noise on any lattice, P(z) proportional to exp(-epsilon |z|_2).

The law is a mixture of Gaussians over the nodes v_j = (j + 1/2) / 32. With x = epsilon |z|:

1. draw a node j with probability proportional to exp(-v_j^2 / 2) prod_i rho_{v_j^2 / (epsilon^2 g_i)}(Z),
2. draw z at variance (v_j / epsilon)^2 by Klein's sampler and accept it with the sampler's probability,
3. accept it with probability RATIO_BOUND / R(x), where exp(-x) R(x) is the sum of the mixture at x.

All three decisions and therefore the law of z are exact. Proofs and references: docs/mathematics/lattice_gaussian.md.
"""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache, partial
from operator import itemgetter

import numpy as np
from flint import arb, ctx

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import L2Laplace, Law
from ppdinf.noise.exact.klein import UNIT, Klein, Proposals
from ppdinf.noise.exact.klein import klein as klein_of
from ppdinf.noise.exact.lattice_gaussian import too_narrow, widened
from ppdinf.noise.exact.sampler_offer import Answer, Declined, Offer
from ppdinf.noise.exact.theta import GaussianMasses
from ppdinf.noise.primitives.enclosures import (
    BATCH,
    compare_enclosures,
    draw_accepted,
    draw_bernoulli,
    integer_bounds,
    precision,
)
from ppdinf.noise.primitives.integers import positive_fraction
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

PER_UNIT = 32  # nodes per unit of v
RATIO_BOUND = Fraction(998, 1000)
PILOT = 2**8  # proposals of the pilot run that estimates the acceptance rate
HOPELESS = 1e-5  # acceptance rate below which a system is declined


def offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw all cells (their blocks are not independent) if the acceptance rate is high enough."""
    if not isinstance(law, L2Laplace) or cells.size < structure.blocks.size:
        return None
    try:
        basis = klein_of(structure.lattice, structure.tables)
    except InvariantError as error:
        return Declined(partial(str, error))
    mixture = L2Mixture(basis, law.epsilon)
    acceptance = mixture_acceptance(mixture)
    if acceptance < HOPELESS:

        def narrow() -> str:
            def near(scale: float) -> float:
                return mixture_acceptance(L2Mixture(basis, 1 / Fraction(scale))) / HOPELESS

            return too_narrow(acceptance, f"epsilon = {1 / widened(1 / float(law.epsilon), near):.2g}")

        return Declined(narrow, acceptance / HOPELESS)
    return Offer("mixture", cells, lambda: mixture.draw, acceptance)


class L2Mixture:
    """Exact sampler of the l2 Laplace law on a lattice."""

    def __init__(self, klein: Klein, epsilon: Fraction) -> None:
        self.klein = klein
        self.epsilon = positive_fraction("epsilon", epsilon)
        self._masses = GaussianMasses(klein.squares)
        self._counted, self._cumulative, self._margin = self._tabulate()
        self._enclosures = lru_cache(maxsize=2)(self._enclosed)

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return `size` independent draws, int64 of shape (size, d)."""
        d, m = self.klein.basis.shape

        def attempt(rows: int) -> tuple[Integers, Flags]:
            proposals = self.propose(rows, stream)
            enclose = partial(self.enclose_keep, proposals)
            return proposals.z, draw_bernoulli(*self.log_keep(proposals), enclose, stream)

        return draw_accepted((size, d), m, attempt)

    def propose(self, size: int, stream: BitStream) -> Proposals:
        """Draw nodes, and a vector at the variance of each node."""
        return self.klein.propose([self._variance(j) for j in self._draw_nodes(size, stream).tolist()], stream)

    def log_keep(self, proposals: Proposals) -> tuple[Reals, Reals]:
        """Return the log acceptance probability of each vector, and a bound on its rounding error."""
        logs, error = proposals.log_keep()
        x = float(self.epsilon) * np.sqrt(np.square(proposals.z.astype(np.float64)).sum(axis=1))
        return logs + math.log(RATIO_BOUND) - log_sum(x, PER_UNIT), error + 2.0**-46 * (1.0 + np.sqrt(x))

    def enclose_keep(self, proposals: Proposals, draw: int) -> arb:
        """Enclose the acceptance probability of one vector at Arb's working precision."""
        x = ball(self.epsilon) * arb(sum(value * value for value in proposals.z[draw].tolist())).sqrt()
        return proposals.enclose_keep(draw) * ball(RATIO_BOUND) / enclose_sum(x, PER_UNIT)

    def _variance(self, node: int) -> Fraction:
        return (Fraction(2 * node + 1, 2 * PER_UNIT) / self.epsilon) ** 2

    def _nodes(self, bits: int) -> int:
        """Return a number of nodes with about all but 2^-bits of the mass."""
        return math.ceil(PER_UNIT * (math.sqrt(self.klein.squares.size) + math.sqrt(1.4 * bits) + 3))

    def _draw_nodes(self, size: int, stream: BitStream) -> Integers:
        words = stream(size)
        u = words * 2.0**-64
        nodes = np.searchsorted(self._cumulative, u, side="right")
        ends = np.concatenate([[-1.0 if self._counted[0] == 0 else 0.0], self._cumulative, [2.0]])
        near = np.minimum(np.abs(ends[nodes] - u), np.abs(ends[nodes + 1] - u)) <= self._margin
        near |= nodes == self._cumulative.size
        nodes = self._counted[nodes]
        for i in np.flatnonzero(near):
            nodes[i] = compare_enclosures(words[i], 64, stream, self._find)
        return nodes

    def _relevant_nodes(self, bits: int) -> tuple[Integers, float]:
        """Return the relevant nodes in order, and a bound on the share of the other nodes, at most 2^-bits."""
        n = self._nodes(bits) + 1
        v = (np.arange(n) + 0.5) / PER_UNIT
        variances = (v / float(self.epsilon)) ** 2
        most = self._masses.bounds(variances) - v * v / 2
        top = int(np.argmax(most))
        share = np.exp(np.minimum(most - self._masses.log(variances[top])[0] + v[top] ** 2 / 2, 700.0))
        counted = share > 2.0 ** -(bits + 4) / n
        counted[-2:] = True  # the last weights bound the tail
        return np.flatnonzero(counted), 2.0 * float(share[~counted].sum())

    def _tabulate(self) -> tuple[Integers, Reals, float]:
        """Return the relevant nodes, their distribution function, and a bound on its error."""
        n, dimension = self._nodes(64), self.klein.squares.size
        nodes, others = self._relevant_nodes(64)
        v = (nodes + 0.5) / PER_UNIT
        found = [self._masses.log(variance) for variance in (v / float(self.epsilon)) ** 2]
        logs = np.array([log for log, _ in found]) - v * v / 2
        error = UNIT * (64.0 * dimension + 16.0 * max(size for _, size in found) + 16.0 * v[-1] ** 2)
        weights = np.exp(logs - logs.max())
        ratio = math.exp(-(v[-1] ** 2 - v[-2] ** 2) / 2 + dimension * math.log(v[-1] / v[-2]))
        cumulative = np.cumsum(weights[:-1])
        tail = 2.0 * weights[-1] / (1.0 - ratio)
        margin = 4.0 * error + 8.0 * n * UNIT + tail / cumulative[-1] + others + 2.0**-52
        return nodes, cumulative / cumulative[-1], margin

    def _find(self, word: int, bits: int) -> int | None:
        """Return the node of every u with these first bits; None if it is undecided."""
        nodes, bounds = self._enclosures(bits)
        k = bisect_right(bounds, word, 1, len(bounds) - 1, key=itemgetter(0))
        return int(nodes[k - 1]) if bounds[k - 1][1] <= word < bounds[k][0] else None

    def _enclosed(self, bits: int) -> tuple[Integers, list[tuple[int, int]]]:
        """Return the relevant nodes, and integer enclosures of 2^bits times the distribution function around each."""
        n, dimension = self._nodes(bits), self.klein.squares.size
        nodes, others = self._relevant_nodes(bits)
        with precision(bits):
            enclose, variances = self._masses.encloser(), map(self._variance, nodes.tolist())
            logs = [enclose(variance) - ball(variance * self.epsilon**2) / 2 for variance in variances]
            largest = max(logs, key=lambda log: float(log.mid()))
            weights = [(log - largest).exp() for log in logs]
            last = weights.pop()
            ratio = (-arb(4 * n) / (4 * PER_UNIT**2)).exp() * (arb(2 * n + 1) / (2 * n - 1)) ** dimension
            doubt = arb(0).union(arb(others)) if others else arb(0)
            total = sum(weights, start=doubt)
            total = total.union(total + last / (1 - ratio))  # a Gaussian mass grows more slowly than its sigma
            bounds, cumulative = [(0, integer_bounds(doubt / total * 2**bits)[1] if nodes[0] else 0)], doubt
            for weight in weights:
                cumulative += weight
                bounds.append(integer_bounds(cumulative / total * 2**bits))
            return nodes[:-1], bounds


def mixture_acceptance(mixture: L2Mixture) -> float:
    """Estimate the acceptance rate of a mixture from a few hundred seeded proposals."""
    size = max(8, min(PILOT, BATCH // max(mixture.klein.squares.size, 1)))
    return float(np.exp(mixture.log_keep(mixture.propose(size, seeded_stream(0)))[0]).mean())


@jit
def log_sum(x: Reals, per_unit: int) -> Reals:
    """Return log R(x) of nodes (j + 1/2) / per_unit; nodes further than 9 from sqrt(x) contribute less than 1e-17."""
    out = np.empty(x.size)
    for i in range(x.size):
        root, total = math.sqrt(x[i]), 0.0
        first = max(0, int((root - 9.0) * per_unit))
        for j in range(first, int((root + 9.0) * per_unit) + 1):
            v = (j + 0.5) / per_unit
            total += math.exp(-0.5 * (x[i] / v - v) ** 2)
        out[i] = math.log(total * math.sqrt(2.0 / math.pi) / per_unit)
    return out


def enclose_sum(x: arb, per_unit: int) -> arb:
    """Enclose R(x) at Arb's working precision."""
    reach = math.sqrt(1.4 * ctx.prec) + 2.0
    root = float(x.sqrt().mid())
    total = arb(0)
    for j in range(max(0, int((root - reach) * per_unit)), int((root + reach) * per_unit) + 1):
        v = arb(2 * j + 1) / (2 * per_unit)
        total += (-((x / v - v) ** 2) / 2).exp()
    # |x/v - v| >= |v - sqrt(x)|, so the omitted part is below a Gaussian tail on either side
    left_out = 4 * per_unit * (-(arb(reach - 1) ** 2) / 2).exp()
    return (total + arb(0, left_out.upper())) * (arb(2) / arb.pi()).sqrt() / per_unit
