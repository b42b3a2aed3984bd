r"""Integers in small trees of bounds, given a few public sums: trees are drawn independently, and pivots complete sums.

    P(y) ~ prod_i f_i(y_i)    on {y : A y = a, B y >= b},    f_i(y) = noise(y - x_i) nu_i(y) exp(theta' A_i (y - x_i))

1. Draw all cells except one pivot for each sum; without the pivots, they form independent trees (`bound_trees`).
2. Solve the pivots from the sums. Accept with probability ``prod f_p(y_p) / max f_p`` if they satisfy their bounds.

All theta give the same law; theta is chosen so that step 1 has the right sums on average. l2 noise is a mixture of
Gaussian noise over the nodes v = 1/2, 3/2, ...: a node is drawn with probability proportional to ``exp(-v^2 / 2)``
times its total weight in step 1, and ``RATIO_BOUND / R`` enters step 2 (docs/mathematics/lattice_gaussian.md). Nodes of
negligible weight are drawn with an upper bound on their total, whose excess also enters step 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
from flint import arb, ctx
from scipy.linalg import qr
from scipy.optimize import root
from scipy.special import erf, gammaln, logsumexp

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Flags, Integers, Reals, logarithms
from ppdinf.errors import InvariantError
from ppdinf.invariants import System
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.laws import DiscreteGaussian, IntegerLaw, L2Laplace
from ppdinf.mechanisms.base_measure import DirichletMultinomial
from ppdinf.mechanisms.bound_trees import BITS, Forest, Trees, Weights, Window, reach_of
from ppdinf.noise.exact.l2_laplace_mixture import enclose_sum, log_sum
from ppdinf.noise.primitives.enclosures import draw_bernoulli, draw_rows
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

POINTS = 128  # counts on each side of a cell from which the tilt is computed
PILOT = 256  # tables from which the tilt is corrected
RATIO_BOUND = Fraction(17, 20)  # lower bound on R with one node per unit of v, whose minimum is 0.859
FAR = -45.0  # log share of nodes that are represented by a bound
DEEP = 40  # nodes above the largest possible root of the distance: the share of all further nodes is 2^-1000
BATCH = 2**20  # cells per batch
NEWTON = 100  # largest number of steps to a tilt
HOPELESS = 1e-5  # acceptance rate at which a draw is refused

type CellLaw = IntegerLaw | L2Laplace


@dataclass(frozen=True, eq=False)
class _Proposals:
    """Proposals of one kind of noise, and the probability of accepting them."""

    forest: Forest
    weights: Weights
    pivots: list[int]
    trees: Trees
    windows: list[Window]
    log_ceilings: list[float]  # upper bounds on the log weights of the pivots

    @staticmethod
    def of(forest: Forest, weights: Weights, pivots: list[int]) -> _Proposals:
        """Tabulate the trees of all other cells, and the pivots."""
        others = [i for i in forest.order if i not in pivots]
        trees = Trees(forest.without(pivots), weights, others)
        windows = [weights.window(i, BITS) for i in pivots]
        ceilings = [float(window.logs.max()) + 2 * window.error + 2.0**-40 for window in windows]
        return _Proposals(forest, weights, pivots, trees, windows, ceilings)

    @property
    def log_total(self) -> float:
        """Log of the total weight of all proposals, times the bounds on the weights of the pivots."""
        return self.trees.log_total + sum(self.log_ceilings)

    def propose(self, size: int, stream: BitStream) -> tuple[Integers, Flags]:
        """Draw tables with the public sums, and whether they are integers within the bounds."""
        sums = self.forest.sums
        y = np.zeros((size, self.weights.x.size), dtype=np.int64)
        self.trees.draw(y, stream)
        of_pivots = sums[:, self.pivots]
        det = round(float(np.linalg.det(of_pivots)))
        adjugate = np.rint(np.linalg.inv(of_pivots) * det).astype(np.int64)
        scaled = (sums @ self.weights.x - y @ sums.T) @ adjugate.T
        y[:, self.pivots] = scaled // det
        low, high = (ends[self.pivots] for ends in (self.weights.low, self.weights.high))
        possible = ((scaled % det == 0) & (y[:, self.pivots] >= low) & (y[:, self.pivots] <= high)).all(axis=1)
        for i, (own, parents, limit) in self.forest.edges.items():
            if i in self.pivots or self.forest.parent[i] in self.pivots:
                possible &= own * y[:, i] + parents * y[:, self.forest.parent[i]] >= limit
        return y, possible

    def log_acceptance(self, y: Integers) -> tuple[Reals, float]:
        """Return log acceptance probabilities of possible tables, and a bound on their errors."""
        log_p, error = np.zeros(len(y)), 2.0**-46
        for i, window, ceiling in zip(self.pivots, self.windows, self.log_ceilings, strict=True):
            at = y[:, i] - window.first
            inside = (at >= 0) & (at < window.logs.size)
            log_p += np.where(inside, window.logs[np.where(inside, at, 0)] - ceiling, -np.inf)
            error += window.error
        return log_p, error

    def enclose(self, y: Integers) -> arb:
        """Enclose the acceptance probability of a table."""
        p = arb(1)
        for i, ceiling in zip(self.pivots, self.log_ceilings, strict=True):
            p *= self.weights.enclose(i, int(y[i])) * (-arb(ceiling)).exp()
        return p


def _node_at(node: int) -> Fraction:
    """Return the nodes v = 1/2, 3/2, ... of l2 noise."""
    return Fraction(2 * node + 1, 2)


class TreesGivenSums:
    """Exact sampler of the releases of one table, and their total weight."""

    def __init__(
        self, system: System, forest: Forest, x: Integers, law: CellLaw, base: DirichletMultinomial | None
    ) -> None:
        self.forest = forest
        self.law = law
        self._x = x
        self._low, self._high = cell_intervals(system.A, system.A @ x, system.B, system.limits)
        self._alpha = (None,) * x.size if base is None else base.alpha
        if base is not None:
            for i in range(x.size):
                base.largest(i, self._low[i], self._high[i])  # refuses cells without the necessary bounds

    @cached_property
    def pivots(self) -> list[int]:
        """One cell for each sum: wide ones, which complete many sums, and fixed cells only for sums of fixed cells."""
        v = _node_at(math.isqrt(self._x.size))
        _, spreads = self._moments(self._noise(v), self._first_tilt())
        spreads = np.maximum(spreads, 1e-9 * max(1.0, spreads.max()))
        order = qr(self.forest.sums * spreads, mode="r", pivoting=True)[1] if len(self.forest.sums) else np.empty(0)
        return [int(i) for i in order[: len(self.forest.sums)]]

    def _noise(self, v: Fraction) -> IntegerLaw:
        """Return the noise, for l2 noise that of a node."""
        return DiscreteGaussian(variance=(v / self.law.epsilon) ** 2) if isinstance(self.law, L2Laplace) else self.law

    def _weights(self, v: Fraction, theta: Reals) -> Weights:
        exact = [Fraction(float(np.float32(t))) for t in theta]
        columns = self.forest.sums.T.tolist()
        tilt = tuple(sum((a * t for a, t in zip(column, exact, strict=True)), Fraction(0)) for column in columns)
        return Weights(self._x, self._low, self._high, self._noise(v), self._alpha, tilt)

    @lru_cache(maxsize=4)  # noqa: B019
    def _proposals(self, v: Fraction) -> _Proposals:
        anchor = Fraction(max(1, 3 * round(v / 3)))  # similar nodes have the same tilt
        return _Proposals.of(self.forest, self._weights(v, self._tilt(anchor)), self.pivots)

    # -- the tilt -----------------------------------------------------------------------------------------------------

    @lru_cache(maxsize=16)  # noqa: B019
    def _tilt(self, v: Fraction) -> Reals:
        """Return theta for which the sums have about their public values on average."""
        if not len(self.forest.sums):
            return np.empty(0)
        noise = self._noise(v)
        theta = self._first_tilt()
        width = np.sqrt(self.forest.sums**2 @ self._moments(noise, theta)[1] ** 2) + 1e-9

        def excess(t: Reals) -> Reals:
            return np.divide(self._moments(noise, theta + t / width)[0], width)

        found: Reals = theta + root(excess, np.zeros(len(width)), tol=1e-3).x / width  # without the bounds of two cells
        for _ in range(2 if self.forest.edges else 0):
            y = np.empty((PILOT, self._x.size), np.int64)
            Trees(self.forest, self._weights(v, found), self.forest.order).draw(y, seeded_stream(0))
            sums = (y - self._x) @ self.forest.sums.T
            found = found - np.linalg.lstsq(np.cov(sums.T).reshape(len(found), -1), sums.mean(axis=0))[0]
        return found

    def _first_tilt(self) -> Reals:
        """Return the tilt that removes the growth of Dirichlet-multinomial weights."""
        alpha = np.array([0.0 if a is None else float(a) for a in self._alpha])
        sums = np.maximum(self.forest.sums, 0)
        return np.asarray(-np.log1p(sums @ alpha / np.maximum(1.0, sums @ self._x)))

    def _moments(self, noise: IntegerLaw, theta: Reals) -> tuple[Reals, Reals]:
        """Approximate the mean of ``A (y - x)`` and standard deviations of cells, without bounds of two cells."""
        offsets = 2 * reach_of(noise, BITS) * np.linspace(-1, 1, 2 * POINTS + 1) ** 3
        grid = np.clip(self._x[:, np.newaxis] + offsets, self._low[:, np.newaxis], self._high[:, np.newaxis])
        z = grid - self._x[:, np.newaxis]
        alpha = np.array([1.0 if a is None else float(a) for a in self._alpha])[:, np.newaxis]
        counts = np.maximum(grid, 0.0)
        logs = np.asarray(noise.log_weight(z)) + (theta @ self.forest.sums)[:, np.newaxis] * z
        logs = logs + gammaln(counts + alpha) - gammaln(counts + 1.0)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True)) * (np.gradient(grid, axis=1) + 1e-9)
        weights /= weights.sum(axis=1, keepdims=True)
        mean = (weights * z).sum(axis=1)
        return self.forest.sums @ mean, np.sqrt(np.maximum((weights * z**2).sum(axis=1) - mean**2, 0.0))

    # -- draws --------------------------------------------------------------------------------------------------------

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return independent draws, int64 of shape (size, d)."""
        d = self._x.size
        kept = [np.empty((0, d), dtype=np.int64)]
        found, tried, likely = 0, 0, 0.0
        while found < size:
            batch = min(BATCH // d + 1, int(1.2 * (size - found) * (tried + 16) / (found + 1)) + 16)
            nodes = self._draw_nodes(batch, stream)
            y = np.empty((batch, d), dtype=np.int64)
            accepted = np.zeros(batch, dtype=bool)
            for node in np.unique(nodes).tolist():
                rows = np.flatnonzero(nodes == node)
                proposals = self._proposals(_node_at(node))
                y[rows], possible = proposals.propose(rows.size, stream)
                rows = rows[possible]
                log_p, error = self._log_acceptance(node, proposals, y[rows])
                accepted[rows] = draw_bernoulli(log_p, error, partial(self._enclose, node, proposals, y[rows]), stream)
                likely += float(np.exp(log_p).sum())
            kept.append(y[accepted])
            found += int(accepted.sum())
            tried += batch
            if tried > 1 / HOPELESS and likely < HOPELESS * tried:
                raise InvariantError(
                    f"fewer than one in {1 / HOPELESS:,.0f} proposals has all public sums and bounds: publish fewer"
                )
        return np.concatenate(kept)[:size]

    def _log_acceptance(self, node: int, proposals: _Proposals, y: Integers) -> tuple[Reals, float]:
        """Return log acceptance probabilities of possible proposals, and a bound on their errors."""
        log_p, error = proposals.log_acceptance(y)
        if isinstance(self.law, L2Laplace):
            away = float(self.law.epsilon) * np.sqrt(((y - self._x).astype(np.float64) ** 2).sum(axis=1))
            log_share = math.log(self._nodes[1][node]) + self._nodes[0]
            excess = proposals.log_total - float(_node_at(node)) ** 2 / 2 - log_share - self._slack(proposals)
            log_p = log_p + (math.log(RATIO_BOUND) + excess) - log_sum(away, 1)
            error += 2.0**-46 * (1.0 + math.sqrt(away.max(initial=0.0))) + 2 * self._slack(proposals)
        return log_p, error

    def _enclose(self, node: int, proposals: _Proposals, y: Integers, row: int) -> arb:
        """Enclose the acceptance probability of a proposal."""
        p = proposals.enclose(y[row])
        if isinstance(self.law, L2Laplace):
            squares = sum(int(z) ** 2 for z in y[row] - self._x)
            p *= ball(RATIO_BOUND) / enclose_sum(ball(self.law.epsilon) * arb(squares).sqrt(), 1)
            scale, shares = self._nodes
            own = proposals.trees.enclose_total(ctx.prec) * sum(map(arb, proposals.log_ceilings), start=arb(0)).exp()
            own *= (-ball(_node_at(node) ** 2 / 2) - arb(scale) - arb(self._slack(proposals))).exp()
            p *= own / arb(float(shares[node]))
        return p

    # -- nodes of l2 noise --------------------------------------------------------------------------------------------

    def _draw_nodes(self, size: int, stream: BitStream) -> Integers:
        """Draw nodes of l2 noise by their shares, which are floating-point numbers; 0 for other noise."""
        none = np.zeros(size, dtype=np.int64)
        if not isinstance(self.law, L2Laplace):
            return none
        shares = self._nodes[1]
        return draw_rows(shares[np.newaxis], none, lambda _: [arb(share) for share in shares.tolist()], stream)

    @cached_property
    def _nodes(self) -> tuple[float, Reals]:
        """Largest log weight of a node, and weights of all nodes, or bounds on them, relative to it."""
        farthest = np.maximum(self._x - self._low, self._high - self._x)
        distance = float(self.law.epsilon) * math.sqrt(float((farthest**2).sum()))  # type: ignore[union-attr]
        v: Reals = np.arange(0.5, int(math.sqrt(distance)) + DEEP)
        logs = np.full(v.size, -np.inf)
        for node in range(v.size):
            proposals = self._proposals(_node_at(node))
            logs[node] = proposals.log_total - v[node] ** 2 / 2
            bounds = self._log_bounds(v[node + 1 :], proposals.weights.tilt)
            if node >= math.isqrt(self._x.size) and np.logaddexp.reduce(bounds, initial=-np.inf) < logs.max() + FAR:
                logs[node + 1 :] = bounds
                break
        return float(logs.max()), np.exp(logs - logs.max())

    def _slack(self, proposals: _Proposals) -> float:
        """Return a bound on the error of a log total weight."""
        return float(proposals.trees.error) + 2.0**-42 * (1.0 + abs(proposals.log_total))

    def _log_bounds(self, v: Reals, tilt: tuple[Fraction, ...]) -> Reals:
        """Bound the log weights of later nodes by sums over cells without bounds of two cells."""
        x = self._x
        most = 0.0  # log of the largest product of base measure and tilt
        for i, alpha in enumerate(self._alpha):
            t, a = float(tilt[i]), 1.0 if alpha is None else float(alpha)
            top = (a * math.exp(t) - 1) / -math.expm1(t) if t else 0.0  # of log-concave weights
            y = np.clip([self._low[i], self._high[i], math.floor(top), math.ceil(top)], self._low[i], self._high[i])
            growth = 0.0 if alpha is None else gammaln(y + a) - gammaln(y + 1) - gammaln(x[i] + a) + gammaln(x[i] + 1.0)
            most += float((t * (y - x[i]) + growth).max()) + 1e-6
        sigma = v[:, np.newaxis] / float(self.law.epsilon)  # type: ignore[union-attr]
        sides = sum(erf(np.abs(end - x) / (sigma * math.sqrt(2))) for end in (self._low, self._high))
        return np.asarray(np.log1p(sigma * math.sqrt(math.pi / 2) * sides).sum(axis=1) + most - v**2 / 2 + 0.01)

    # -- the normalizer -----------------------------------------------------------------------------------------------

    def log_total(self) -> float | None:
        """Return the log of the total weight of all releases; None if a sum has several cells of one tree."""
        if not self.forest.has_total:
            return None
        if not isinstance(self.law, L2Laplace):
            return self._log_coefficient(Fraction(0))
        # midpoint rule over v with steps of 1/2: relative error 1e-3 for few cells, 1e-8 for 30 and more
        logs: list[float] = []
        while len(logs) ** 2 < 4 * self._x.size or logs[-1] > max(logs) - 40:
            v = Fraction(2 * len(logs) + 1, 4)
            logs.append(self._log_coefficient(v) - float(v) ** 2 / 2)
        return float(np.logaddexp.reduce(logs)) + math.log(math.sqrt(2 / math.pi) / 2)

    def _log_coefficient(self, v: Fraction) -> float:
        """Return the log weight of all tables with the public sums, one integer for each tree."""
        trees = Trees(self.forest, self._weights(v, self._first_tilt()), self.forest.order)
        found = trees.log_total
        x = self._x
        for row in self.forest.sums:
            tops = [trees.nodes[i] for i in trees.roots if row[i]]
            found += log_coefficient([node.weights for node in tops], int(row @ x) - sum(node.start for node in tops))
        return found


def log_coefficient(rows: list[Reals], target: int) -> float:
    """Return the log of the total weight of one entry k of each row with the sum `target`, by Fourier transform."""
    logs = [logarithms(row) for row in rows]
    peaks = [int(row.argmax()) for row in rows]
    offsets = [np.arange(row.size) - float(peak) for row, peak in zip(rows, peaks, strict=True)]
    goal, tilt = target - sum(peaks), 0.0
    for _ in range(NEWTON):  # tilt until the mean sum is within a standard deviation of the target
        log_z = mean = variance = 0.0
        tilted = []
        for log_row, at in zip(logs, offsets, strict=True):
            log_mass = float(logsumexp(log_row + tilt * at))
            p = np.exp(log_row + tilt * at - log_mass)
            own = float(p @ at)
            log_z += log_mass
            mean += own
            variance += float(p @ at**2) - own**2
            tilted.append(p)
        deviations = (goal - mean) / math.sqrt(max(variance, 1.0))
        if abs(deviations) <= 1:
            break
        tilt += min(max(deviations, -2.0), 2.0) / math.sqrt(max(variance, 1.0))
    size = 2 ** math.ceil(math.log2(40 * math.sqrt(max(variance, 1.0)) + 64))  # the sum is on a circle
    product = np.exp(2j * np.pi * (goal % size) * np.arange(size // 2 + 1) / size)
    for p, at in zip(tilted, offsets, strict=True):
        product *= np.fft.rfft(np.bincount(at.astype(np.int64) % size, p, size))
    share = float(np.fft.irfft(product, size)[0])
    if share <= 0:
        return -math.inf
    return math.log(share) + log_z - tilt * goal
