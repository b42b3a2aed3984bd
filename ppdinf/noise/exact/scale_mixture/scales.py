"""Scales of the cells of one public sum, and the law of one scale near zero."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from flint import arb

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Array, Flags, Integers, Reals
from ppdinf.noise.exact.theta import enclose_mass, log_gaussian_mass
from ppdinf.noise.primitives.enclosures import decide_bernoulli, draw_bernoulli
from ppdinf.noise.primitives.integers import bernoulli
from ppdinf.noise.primitives.lazy_reals import LazyReals, betas, enclose_gamma, gammas
from ppdinf.noise.primitives.stream import BitStream

LOG_ERROR = 2.0**-30  # bound on the error of the logarithm of any scale
END = Fraction(3)  # above this, theta3 is 1 to 25 digits
SLIGHT = 2.0**-20  # an excess below this is left to ball arithmetic
GRID = 1024  # number of intervals on which the excess is bounded
RATES = np.geomspace(0.5, 16.0, 12)  # relative margin of the bound on the excess


class Excess:
    """Excess of the law of a cell's scale."""

    def __init__(self, epsilon: Fraction, end: Fraction, resistance: Fraction, gamma: float) -> None:
        self.rate, self.end, self.resistance, self.gamma = epsilon**2 / 2, end, resistance, gamma
        self.log_flat = float(log_theta(np.array([1 / (1 / float(end) + float(resistance))]))[0])  # log (1 + kappa)

    def log(self, t: Reals) -> Reals:
        """Return log(1 + excess) of each scale."""
        log_excess = log_theta(1 / (1 / t + float(self.resistance))) - self.log_flat
        return np.where(t < float(self.end), log_excess, 0.0)

    def enclose_log(self, t: arb) -> arb:
        """Enclose log(1 + excess) of a scale."""
        if t > ball(self.end):
            return arb(0)
        log_excess = enclose_log_theta(1 / (1 / t + ball(self.resistance))) - self.enclose_flat()
        return log_excess if t < ball(self.end) else log_excess.union(arb(0))

    def enclose_flat(self) -> arb:
        """Enclose log(1 + kappa)."""
        return enclose_log_theta(1 / (1 / ball(self.end) + ball(self.resistance)))

    def kept(self, t: Reals, cell: Callable[[int], arb], stream: BitStream) -> Flags:
        """Accept cells drawn from the bound of their excess with the ratio of excess and bound."""
        excess = np.expm1(self.log(t))
        log_rest = 0.5 * np.log(t) + (self.bounded[0] - float(self.rate)) * t - math.log(self.bounded[1])
        clear = excess > SLIGHT
        # log theta3 changes by at most half of the change of log t
        error = LOG_ERROR * (1.0 + self.bounded[0] * t[clear] + 1.0 / excess[clear])
        places = np.flatnonzero(clear)
        kept = np.zeros(t.size, dtype=np.bool_)
        kept[clear] = draw_bernoulli(
            log_rest[clear] + np.log(excess[clear]), error, lambda k: self._enclose_share(cell(int(places[k]))), stream
        )

        def share(k: int) -> arb:
            return self._enclose_share(cell(k))

        slight = np.flatnonzero(~clear & (t < float(self.end) * (1.0 + 2.0**-20)))
        words = stream(slight.size)
        below = words * 2.0**-64 <= 2.0 * SLIGHT * np.exp(log_rest[slight])
        for word, k in zip(words[below], slight[below].tolist(), strict=True):
            kept[k] = decide_bernoulli(word, partial(share, k), stream)
        return kept

    def _enclose_share(self, t: arb) -> arb:
        share = (self.enclose_log(t).exp() - 1) * t.sqrt() / ball(Fraction(self.bounded[1]))
        return share * (t * (ball(Fraction(self.bounded[0])) - ball(self.rate))).exp()

    @cached_property
    def bounded(self) -> tuple[float, float]:
        """Return a rate w and a bound on sqrt(t) excess(t) exp((w - eps^2/2) t)."""
        end, rho = float(self.end), float(self.resistance)
        ends = np.append(0.0, np.geomspace(1e-6, 1.0, GRID)) * end
        left, right = ends[:-1], ends[1:]
        # excess decreases and sqrt(t) increases; near 0, sqrt(s) theta3(s) increases with s = 1 / (1/t + rho)
        s = 1 / (1 / right + rho)
        rising = np.sqrt(s) * np.exp(log_theta(s)) * np.sqrt(1 + rho * right) - np.sqrt(left) * (left > 0)
        excess = np.append(math.inf, np.expm1(log_theta(1 / (1 / left[1:] + rho)) - self.log_flat) + 2.0**-44)
        top = np.minimum(np.sqrt(right) * excess, rising)
        rates = RATES + float(self.rate)
        bounds = (top * np.exp(RATES[:, np.newaxis] * right)).max(axis=1)
        best = int(np.argmin(bounds * rates ** (self.gamma - 0.5)))
        return float(rates[best]), float(bounds[best]) * (1 + 1e-9)

    def loss(self, gamma: float) -> float:
        """Return the approximate share of draws rejected because a cell's excess differs from theta3."""
        shape, rate = 1 - gamma, float(self.rate)
        t = np.geomspace(1e-6, 3.0, GRID)
        above = np.exp(self.log(t)) - np.exp(log_theta(t))
        density = t**shape * np.exp(-rate * t) * rate**shape / math.gamma(shape)
        return float(np.trapezoid(above * density, np.log(t)))


def log_theta(t: Reals) -> Reals:
    """Return the log of theta3(t) = sum over k of exp(-2 pi^2 k^2 t)."""
    wide = np.maximum(t, 1e-300)
    return log_gaussian_mass(wide.ravel()).reshape(wide.shape) - 0.5 * np.log(2 * np.pi * wide)


def enclose_log_theta(t: arb) -> arb:
    """Enclose log theta3(t)."""
    return enclose_mass(arb(0), t).log() - (2 * arb.pi() * t).log() / 2


@dataclass(frozen=True, eq=False)
class Part:
    """Scales of the cells of sums of one kind, shape (size, cells), and the real numbers that they approximate."""

    values: Reals
    near: Flags
    cells: Integers
    sums: Integers

    @classmethod
    def empty(cls, size: int, cells: int) -> "Part":
        """Return empty arrays for `size` sums."""
        shape = size, cells
        return cls(np.empty(shape), np.empty(shape, np.bool_), np.empty(shape, np.int64), np.zeros(size, np.int64))

    def fill(self, where: Integers, part: "Part", kept: Flags) -> None:
        """Copy the accepted entries of another part to the given indices."""
        self.values[where], self.near[where] = part.values[kept], part.near[kept]
        self.cells[where], self.sums[where] = part.cells[kept], part.sums[kept]


class SumScales:
    """The law of the scales of the cells of one sum."""

    def __init__(self, gammas: tuple[Fraction, ...], squares: tuple[int, ...], beta: Fraction, excess: Excess) -> None:
        self.gammas, self.squares, self.beta, self.excess = gammas, squares, beta, excess
        self.classes = [(g, _places([e for e, own in enumerate(gammas) if own == g])) for g in sorted(set(gammas))]
        self.numbers = [gammas.count(gamma) for gamma, _ in self.classes]
        self.shape = sum((1 - g for g in gammas), Fraction(0))
        self.lift = self._lift() if beta else 1.0

    def draw(self, size: int, reals: LazyReals, stream: BitStream) -> Part:
        """Draw the scales of `size` sums."""
        found, waiting = Part.empty(size, len(self.gammas)), np.arange(size)
        while waiting.size:
            part = self._propose(waiting.size, reals, stream)
            kept = self._kept(part, reals, stream)
            found.fill(waiting[kept], part, kept)
            waiting = waiting[~kept]
        return found

    def enclose(self, part: Part, i: int, reals: LazyReals) -> list[arb]:
        """Enclose the scales of one sum."""
        near = part.near[i].tolist()
        shrink = arb(1)
        if self.beta:
            shape = ball(sum((1 - g for g, is_near in zip(self.gammas, near, strict=True) if not is_near), -self.beta))
            shrink = (-enclose_gamma(self.beta, reals.enclose(int(part.sums[i]))) / shape).exp()
        found = []
        for gamma, is_near, place in zip(self.gammas, near, part.cells[i].tolist(), strict=True):
            y = reals.enclose(place)
            if is_near:
                found.append(enclose_gamma(Fraction(1, 2) - gamma, y) / ball(Fraction(self.excess.bounded[0])))
            else:
                found.append(enclose_gamma(1 - gamma, y) * shrink / ball(self.excess.rate))
        return found

    @property
    def loss(self) -> float:
        """Approximate decrease of the log acceptance rate by the excesses."""
        return sum(n * self.excess.loss(float(gamma)) for n, (gamma, _) in zip(self.numbers, self.classes, strict=True))

    def _propose(self, size: int, reals: LazyReals, stream: BitStream) -> Part:
        """Propose sums, before rejection."""
        part = Part.empty(size, len(self.gammas))
        part.near[:] = self._draw_near(size, stream)
        for gamma, members in self.classes:
            near = part.near[:, members]
            values, places, n = np.empty(near.shape), np.empty(near.shape, dtype=np.int64), int(near.sum())
            values[~near], places[~near] = gammas(1 - gamma, near.size - n, reals, stream)
            values[near], places[near] = gammas(Fraction(1, 2) - gamma, n, reals, stream)
            values *= np.where(near, 1 / self.excess.bounded[0], 1 / float(self.excess.rate))
            part.values[:, members], part.cells[:, members] = values, places
        if self.beta:
            shapes, which = self._shapes(part.near)
            lowered = [shape - self.beta for shape in shapes]
            a = np.array([float(shape) for shape in lowered])[which]
            x, part.sums[:] = betas(a, [lowered[n] for n in which.tolist()], self.beta, reals, stream)
            part.values[:] *= np.where(part.near, 1.0, np.exp(-x / a)[:, np.newaxis])
        return part

    def _kept(self, part: Part, reals: LazyReals, stream: BitStream) -> Flags:
        """Return which sums are accepted, given their excesses and the remaining factor of R^-beta."""
        values, near = part.values, part.near
        kept = np.ones(len(values), dtype=np.bool_)
        rows, columns = np.nonzero(near)
        if rows.size:
            good = self.excess.kept(
                values[rows, columns], lambda k: self.enclose(part, int(rows[k]), reals)[int(columns[k])], stream
            )
            kept[rows[~good]] = False
        if not self.beta:
            return kept
        least = min(self.squares)
        left = kept & near.any(axis=1) if max(self.squares) == least else kept
        mixed = np.flatnonzero(left)
        own = np.where(near[mixed], 0.0, values[mixed]).sum(axis=1)
        log_ratio = np.log(least * own / (values[mixed] @ np.array(self.squares, dtype=np.float64)))

        def enclose(k: int) -> arb:
            t = self.enclose(part, int(mixed[k]), reals)
            is_near = near[mixed[k]].tolist()
            others = sum((x for x, n in zip(t, is_near, strict=True) if not n), start=arb(0))
            return ((least * others / self.enclose_sum(t)).log() * ball(self.beta)).exp()

        kept[mixed] = draw_bernoulli(float(self.beta) * log_ratio, 4 * LOG_ERROR, enclose, stream)
        return kept

    def enclose_sum(self, t: list[arb]) -> arb:
        """Enclose R."""
        return sum((a * x for a, x in zip(self.squares, t, strict=True)), start=arb(0))

    # -- the cells that are drawn from their excess --------------------------------------------------------------

    def _draw_near(self, size: int, stream: BitStream) -> Flags:
        drawn, waiting = np.empty((size, len(self.gammas)), dtype=np.bool_), np.arange(size)
        while waiting.size:
            near = np.empty((waiting.size, len(self.gammas)), dtype=np.bool_)
            for n, (gamma, members) in zip(self.numbers, self.classes, strict=True):
                odds = partial(self._enclose_odds, gamma)
                near[:, members] = bernoulli(odds, waiting.size * n, _quarters(stream), width=16).reshape(-1, n)
            if not self.beta:
                return near
            kept = ~near.all(axis=1)
            near, into = near[kept], waiting[kept]
            shapes, which = self._shapes(near)
            numbers = near.sum(axis=1)
            logs = np.array([self._log_falling(shape) for shape in shapes])[which] - self._log_falling(self.shape)

            def enclose(i: int, shapes=shapes, which=which, numbers=numbers) -> arb:  # type: ignore[no-untyped-def]
                lifted = int(numbers[i]) * ball(Fraction(self.lift)).log()
                own = self._enclose_log_falling(shapes[which[i]])
                return (own - self._enclose_log_falling(self.shape) - lifted).exp()

            good = draw_bernoulli(logs - numbers * math.log(self.lift), 2.0**-36, enclose, stream)
            drawn[into[good]] = near[good]
            waiting = np.concatenate([waiting[~kept], into[~good]])
        return drawn

    def _shapes(self, near: Flags) -> tuple[list[Fraction], Integers]:
        """Return the distinct shapes of the sum of the cells not near zero, and the index of each row's shape."""
        if len(self.classes) == 1:
            which = near.sum(axis=1)
            keys = np.arange(int(which.max(initial=0)) + 1)[:, np.newaxis]
        else:
            counts = np.stack([near[:, members].sum(axis=1) for _, members in self.classes], axis=1)
            keys, which = np.unique(counts, axis=0, return_inverse=True)
        lost = [
            sum((n * (1 - g) for n, (g, _) in zip(key, self.classes, strict=True)), Fraction(0))
            for key in keys.tolist()
        ]
        return [self.shape - own for own in lost], which

    def _lift(self) -> float:
        """Return the largest ratio of Gamma(s - beta) / Gamma(s) to its value for the empty set, per cell near zero."""
        sizes = sorted((1 - g for g in self.gammas), reverse=True)
        shape, highest = self.shape, 0.0
        for n, own in enumerate(sizes[:-1], start=1):
            shape -= own
            highest = max(highest, (self._log_falling(shape) - self._log_falling(self.shape)) / n)
        return math.exp(highest) * (1 + 1e-9)

    def _log_falling(self, shape: Fraction) -> float:
        return math.lgamma(shape - self.beta) - math.lgamma(shape)

    def _enclose_log_falling(self, shape: Fraction) -> arb:
        return ball(shape - self.beta).lgamma() - ball(shape).lgamma()

    def _enclose_odds(self, gamma: Fraction) -> arb:
        """Enclose the probability that a cell is drawn from the bound of its excess."""
        rate, bound = map(ball, map(Fraction, self.excess.bounded))
        near, far = ball(Fraction(1, 2) - gamma), ball(1 - gamma)
        close = ball(Fraction(self.lift)) * bound * near.gamma() * (-near * rate.log()).exp()
        return close / (close + far.gamma() * (-far * ball(self.excess.rate).log()).exp())


def _places(members: list[int]) -> Integers | slice:
    """Return the indices of cells in a row, as a slice if possible."""
    one = members == list(range(members[0], members[-1] + 1))
    return slice(members[0], members[-1] + 1) if one else np.array(members)


def _quarters(stream: BitStream) -> BitStream:
    """Return a stream of 16-bit words, which are sufficient for most Bernoulli draws."""

    def words(n: int) -> Array:
        return stream(-(-n // 4)).view(np.uint16)[:n]

    return words
