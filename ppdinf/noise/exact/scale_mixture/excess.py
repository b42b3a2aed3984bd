r"""The law of a cell's scale near zero relative to a Gaussian integral, and its dominating bound.

The noise of a cell with scale t near zero is the integer 0. The Gaussian integral of the cell has to be multiplied by
theta3(t) = sum over k of exp(-2 pi^2 k^2 t). With other cells, the factor is bounded by theta3 at the variance
1 / (1/t + resistance), and

    1 + excess(t) = theta3(1 / (1/t + resistance)) / (1 + kappa) below `end`, and 1 above,
    1 + kappa = theta3(1 / (1/end + resistance)).

The part of a law t^-gamma (1 + excess(t)) exp(-eps^2 t / 2) that belongs to the excess is drawn as a Gamma variable of
shape 1/2 - gamma. It is accepted with the ratio of its density to ``bound t^(-1/2 - gamma) exp(-rate t)``.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, partial

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.rationals import ball
from ppdinf.noise.exact.gaussian.theta import enclose_mass, log_gaussian_mass
from ppdinf.noise.primitives.bernoulli import decide_bernoulli, draw_bernoulli
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

    def log(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log(1 + excess) of each scale."""
        own = log_theta(1 / (1 / t + float(self.resistance))) - self.log_flat
        return np.where(t < float(self.end), own, 0.0)

    def enclose_log(self, t: arb) -> arb:
        """Enclose log(1 + excess) of a scale."""
        if t > ball(self.end):
            return arb(0)
        own = enclose_log_theta(1 / (1 / t + ball(self.resistance))) - self.enclose_flat()
        return own if t < ball(self.end) else own.union(arb(0))

    def enclose_flat(self) -> arb:
        """Enclose log(1 + kappa)."""
        return enclose_log_theta(1 / (1 / ball(self.end) + ball(self.resistance)))

    def kept(self, t: NDArray[np.float64], cell: Callable[[int], arb], stream: BitStream) -> NDArray[np.bool_]:
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


def log_theta(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log of theta3(t) = sum over k of exp(-2 pi^2 k^2 t)."""
    wide = np.maximum(t, 1e-300)
    return log_gaussian_mass(wide.ravel()).reshape(wide.shape) - 0.5 * np.log(2 * np.pi * wide)


def enclose_log_theta(t: arb) -> arb:
    """Enclose log theta3(t)."""
    return enclose_mass(arb(0), t).log() - (2 * arb.pi() * t).log() / 2
