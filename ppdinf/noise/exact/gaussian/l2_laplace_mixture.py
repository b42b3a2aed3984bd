r"""l2 Laplace noise on any lattice, P(z) proportional to exp(-epsilon |z|_2): exact and independent draws.

The law is a mixture of Gaussians of random variance. With x = epsilon |z| and v > 0,

    exp(-x) = sqrt(2/pi) integral of exp(-x^2 / 2v^2 - v^2 / 2) dv,

and the sum over the nodes v_j = (j + 1/2) h, j = 0, 1, ..., h = 1/32, in place of the integral is
exp(-x) R(x) with R(x) = h sqrt(2/pi) sum_j exp(-(x/v_j - v_j)^2 / 2), which lies within half a percent of 1
for all x >= 0. So

1. draw a node j with probability proportional to exp(-v_j^2 / 2) prod_i rho_{v_j^2 / (epsilon^2 g_i)}(Z),
2. draw z at variance (v_j / epsilon)^2 by Klein's sampler and keep it with its probability there, which
   leaves the joint weight exp(-v_j^2 / 2 - x^2 / 2v_j^2),
3. keep it with probability FLOOR / R(x), FLOOR = 0.998 < min R.

Nodes and variances are rational, all three decisions are exact, and so is the law of z.

That R exceeds FLOOR is checked by ball arithmetic up to x = 1/2 (in the tests). Beyond, R(x) - 1 is by
Poisson summation twice an alternating sum over w = 2 pi k / h of the Fourier transform of the summand;
rotating its path of integration by an angle t <= pi/6 bounds that by the integral over r > 0 of
exp(x - cos(2t) (x^2 / r^2 + r^2) / 2 - w r sin(t)), below 1e-4 for t = pi/6 up to x = 1000 and for
t = w / (4 sqrt(x)) beyond.

References
----------
D. Andrews, C. Mallows, "Scale mixtures of normal distributions", Journal of the Royal Statistical
Society B 36(1), 1974. L. Trefethen, J. Weideman, "The exponentially convergent trapezoidal rule", SIAM
Review 56(3), 2014.
"""

import math
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf.errors import InvariantError
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import L2Laplace, Law
from ppdinf.noise.exact.gaussian.gaussian_masses import GaussianMasses
from ppdinf.noise.exact.gaussian.gram_schmidt import klein as klein_of
from ppdinf.noise.exact.gaussian.klein import UNIT, Klein, Proposals
from ppdinf.noise.exact.gaussian.lattice_gaussian import too_narrow, widened
from ppdinf.noise.primitives.bernoulli import draw_bernoulli
from ppdinf.noise.primitives.enclosed_comparison import integer_bounds, precision, settle
from ppdinf.noise.primitives.integers import positive
from ppdinf.noise.primitives.sampler_offer import Answer, Declined, Offer
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

__all__ = ["Mixture", "mixture_acceptance", "offer"]

PER_UNIT = 32  # nodes per unit of v
FLOOR = Fraction(998, 1000)
BATCH = 2**21  # coordinates at a time
PILOT = 2**8  # proposals that estimate the acceptance
HOPELESS = 1e-5  # acceptance below which a system is declined


def offer(structure: Structure, law: Law, cells: NDArray[np.int64]) -> Answer:
    """Offer to draw all cells, whose blocks are not independent, where enough attempts are kept."""
    if not isinstance(law, L2Laplace) or cells.size < structure.blocks.size:
        return None
    try:
        basis = klein_of(structure.lattice, structure.tables)
    except InvariantError as error:
        return Declined(partial(str, error))
    mixture = Mixture(basis, law.epsilon)
    acceptance = mixture_acceptance(mixture)
    if acceptance < HOPELESS:

        def narrow() -> str:
            def near(scale: float) -> float:
                return mixture_acceptance(Mixture(basis, 1 / Fraction(scale))) / HOPELESS

            return too_narrow(acceptance, f"epsilon = {1 / widened(1 / float(law.epsilon), near):.2g}")

        return Declined(narrow, acceptance / HOPELESS)
    return Offer("mixture", cells, lambda: mixture.draw, acceptance)


class Mixture:
    """The l2 Laplace law on a lattice.

    Parameters
    ----------
    klein : Klein
        The lattice, from `ppdinf.noise.exact.gaussian.gram_schmidt.klein`.
    epsilon : Fraction or int
        Positive; the law is proportional to exp(-epsilon |z|_2).

    Raises
    ------
    PrivacyError
        If epsilon is not a positive rational.

    Notes
    -----
    Set-up bounds the weights of ``32 (sqrt(m) + 13)`` nodes and tabulates those that count, some 500 where m is large:
    a Gaussian mass per distinct length, unless the noise is wide there (0.2 s for a table of 3,143 x 51).

    Examples
    --------
    >>> from ppdinf.lattice import kernel
    >>> from ppdinf.noise.exact.gaussian.gram_schmidt import klein
    >>> from ppdinf.noise.primitives.stream import seeded_stream
    >>> Mixture(klein(kernel([[1, 1, 1]])), Fraction(1, 2)).draw(2, seeded_stream(1)).sum(axis=1)
    array([0, 0])
    """

    def __init__(self, klein: Klein, epsilon: Fraction) -> None:
        self.klein = klein
        self.epsilon = positive("epsilon", epsilon)
        self._masses = GaussianMasses(klein.squares)
        self._counted, self._cumulative, self._margin = self._tabulate()
        self._enclosures = lru_cache(maxsize=2)(self._enclosed)

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Return `size` independent draws, int64 of shape (size, d).

        Raises
        ------
        PrivacyError
            If the noise is wider than 2^40.
        """
        d, m = self.klein.basis.shape
        noise = np.zeros((size, d), dtype=np.int64)
        waiting, rows = np.arange(size if m else 0), max(1, BATCH // max(m, 1))
        while waiting.size:
            now = waiting[:rows]
            proposals = self.propose(now.size, stream)
            kept = draw_bernoulli(*self.log_keep(proposals), partial(self.enclose_keep, proposals), stream)
            noise[now[kept]] = proposals.z[kept]
            waiting = np.concatenate([now[~kept], waiting[rows:]])
        return noise

    def propose(self, size: int, stream: BitStream) -> Proposals:
        """Draw nodes, and a vector at the variance of each."""
        return self.klein.propose([self._variance(j) for j in self._draw_nodes(size, stream).tolist()], stream)

    def log_keep(self, proposals: Proposals) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Log probability to keep each vector, and a bound on its rounding error."""
        found, error = proposals.log_keep()
        x = float(self.epsilon) * np.sqrt(np.square(proposals.z.astype(np.float64)).sum(axis=1))
        return found + math.log(FLOOR) - _log_sum(x), error + 2.0**-46 * (1.0 + np.sqrt(x))

    def enclose_keep(self, proposals: Proposals, draw: int) -> arb:
        """Enclose the probability to keep one vector, at Arb's working precision."""
        x = ball(self.epsilon) * arb(sum(value * value for value in proposals.z[draw].tolist())).sqrt()
        return proposals.enclose_keep(draw) * ball(FLOOR) / enclose_sum(x)

    def _variance(self, node: int) -> Fraction:
        return (Fraction(2 * node + 1, 2 * PER_UNIT) / self.epsilon) ** 2

    def _nodes(self, bits: int) -> int:
        """Count the nodes that hold all but 2^-bits of the mass, or so."""
        return math.ceil(PER_UNIT * (math.sqrt(self.klein.squares.size) + math.sqrt(1.4 * bits) + 3))

    def _draw_nodes(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        words = stream(size)
        u = words * 2.0**-64
        nodes = np.searchsorted(self._cumulative, u, side="right")
        ends = np.concatenate([[-1.0 if self._counted[0] == 0 else 0.0], self._cumulative, [2.0]])
        near = np.minimum(np.abs(ends[nodes] - u), np.abs(ends[nodes + 1] - u)) <= self._margin
        near |= nodes == self._cumulative.size
        nodes = self._counted[nodes]
        for i in np.flatnonzero(near):
            nodes[i] = settle(words[i], 64, stream, self._find)
        return nodes

    def _counting(self, bits: int) -> tuple[NDArray[np.int64], float]:
        """Return the nodes that may count, in order, and a bound on the share of all others, at most 2^-bits."""
        n = self._nodes(bits) + 1
        v = (np.arange(n) + 0.5) / PER_UNIT
        variances = (v / float(self.epsilon)) ** 2
        most = self._masses.bounds(variances) - v * v / 2
        top = int(np.argmax(most))
        share = np.exp(np.minimum(most - self._masses.log(variances[top])[0] + v[top] ** 2 / 2, 700.0))
        counted = share > 2.0 ** -(bits + 4) / n
        counted[-2:] = True  # they bound the tail
        return np.flatnonzero(counted), 2.0 * float(share[~counted].sum())

    def _tabulate(self) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
        """Nodes that count, their distribution function, and a bound on its error."""
        n, dimension = self._nodes(64), self.klein.squares.size
        nodes, others = self._counting(64)
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
        """Return the node of every u that begins with these bits; None if they leave it open."""
        nodes, bounds = self._enclosures(bits)
        low, high = 1, len(bounds) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if bounds[middle][0] <= word else (low, middle)
        return int(nodes[low - 1]) if bounds[low - 1][1] <= word < bounds[low][0] else None

    def _enclosed(self, bits: int) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        """Nodes that count, and integers that enclose 2^bits times the distribution function before and at each."""
        n, dimension = self._nodes(bits), self.klein.squares.size
        nodes, others = self._counting(bits)
        with precision(bits):
            enclose, logs = self._masses.encloser(), []
            for variance in map(self._variance, nodes.tolist()):
                logs.append(enclose(variance) - ball(variance * self.epsilon**2) / 2)
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


def mixture_acceptance(mixture: Mixture) -> float:
    """Estimate the share of proposals that a mixture keeps, from a few hundred seeded ones.

    Examples
    --------
    >>> from ppdinf.lattice import kernel
    >>> from ppdinf.noise.exact.gaussian.gram_schmidt import klein
    >>> round(mixture_acceptance(Mixture(klein(kernel([[1, 1, 1]])), Fraction(1, 4))), 2)
    1.0
    """
    size = max(8, min(PILOT, BATCH // max(mixture.klein.squares.size, 1)))
    return float(np.exp(mixture.log_keep(mixture.propose(size, seeded_stream(0)))[0]).mean())


@jit
def _log_sum(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log R(x); nodes further than 9 from sqrt(x) add less than 1e-17."""
    out = np.empty(x.size)
    for i in range(x.size):
        root, total = math.sqrt(x[i]), 0.0
        first = max(0, int((root - 9.0) * PER_UNIT))
        for j in range(first, int((root + 9.0) * PER_UNIT) + 1):
            v = (j + 0.5) / PER_UNIT
            total += math.exp(-0.5 * (x[i] / v - v) ** 2)
        out[i] = math.log(total * math.sqrt(2.0 / math.pi) / PER_UNIT)
    return out


def enclose_sum(x: arb) -> arb:
    """Enclose R(x) at Arb's working precision.

    Examples
    --------
    >>> round(float(enclose_sum(arb(3))), 12)
    1.0
    """
    reach = math.sqrt(1.4 * ctx.prec) + 2.0
    root = float(x.sqrt().mid())
    total = arb(0)
    for j in range(max(0, int((root - reach) * PER_UNIT)), int((root + reach) * PER_UNIT) + 1):
        v = arb(2 * j + 1) / (2 * PER_UNIT)
        total += (-((x / v - v) ** 2) / 2).exp()
    # |x/v - v| is at least |v - sqrt(x)|, so what is left out is below a Gaussian tail on either side
    left_out = 4 * PER_UNIT * (-(arb(reach - 1) ** 2) / 2).exp()
    return (total + arb(0, left_out.upper())) * (arb(2) / arb.pi()).sqrt() / PER_UNIT
