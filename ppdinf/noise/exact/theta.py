"""Gaussian mass of the shifted integers, rho(Z + f), its ratio to rho(Z), and products of such masses."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, ctx

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Reals

MEET = 0.16  # about 1/(2 pi), where both series converge equally fast
FLAT = 4.0  # above this, the shift changes the mass by less than one part in 2^110
BINS = 64  # number of bins of lengths for bounds on masses


@jit
def _direct(f: float, v: float) -> float:
    """Return the log mass for v <= MEET and abs(f) <= 1/2."""
    total = 1.0
    for k in range(1, 6):
        total += math.exp(-k * (k + 2.0 * f) / (2.0 * v)) + math.exp(-k * (k - 2.0 * f) / (2.0 * v))
    return math.log(total) - f * f / (2.0 * v)


@jit
def _dual(f: float, v: float) -> float:
    """Return the log mass minus log sqrt(2 pi v), for v >= MEET."""
    q, total = math.exp(-2.0 * math.pi * math.pi * v), 1.0
    for j in range(1, 5):
        total += 2.0 * q ** (j * j) * math.cos(2.0 * math.pi * j * f)
    return math.log(total)


@jit
def log_ratio(f: float, v: float) -> float:
    """Return log(rho(Z + f) / rho(Z)) for abs(f) <= 1/2: at most 0, accurate to about 2^-48 times 1 plus its size."""
    if v >= FLAT:
        return 0.0
    if v >= MEET:
        return _dual(f, v) - _dual(0.0, v)
    return _direct(f, v) - _direct(0.0, v)


@jit
def log_gaussian_mass(v: Reals) -> Reals:
    """Return log rho(Z) for each variance."""
    out = np.empty(v.size)
    for i in range(v.size):
        out[i] = _direct(0.0, v[i]) if v[i] < MEET else _dual(0.0, v[i]) + 0.5 * math.log(2.0 * math.pi * v[i])
    return out


def enclose_mass(f: arb, v: arb) -> arb:
    """Enclose rho(Z + f) for abs(f) <= 1/2 at Arb's working precision."""
    if v > MEET:
        scale = (2 * arb.pi() * v).sqrt()

        def bound(k: int) -> arb:
            return 2 * (-2 * (arb.pi() * k) ** 2 * v).exp()

        def term(k: int) -> arb:
            return bound(k) * (2 * arb.pi() * k * f).cos()
    else:
        scale = (-f * f / (2 * v)).exp()

        def bound(k: int) -> arb:
            return 2 * (-k * (k - 2 * abs(f)) / (2 * v)).exp()

        def term(k: int) -> arb:
            return (-k * (k + 2 * f) / (2 * v)).exp() + (-k * (k - 2 * f) / (2 * v)).exp()

    total, k = 1 + term(1), 2
    while not bound(k) < arb(2) ** -ctx.prec:
        total += term(k)
        k += 1
    return scale * (total + arb(0, (2 * bound(k)).upper()))  # from k = 2 on, each bound is below half of the last one


class GaussianMasses:
    """Products of Gaussian masses rho_{v / g}(Z) over many squared lengths g."""

    def __init__(self, squares: Reals) -> None:
        self._lengths, self._counts = np.unique(squares, return_counts=True)  # large v / g first
        self._products = lru_cache(maxsize=4)(self._product)

    def log(self, variance: float) -> tuple[float, float]:
        """Return the logarithm of the product, and the sum of the absolute values of its terms."""
        wide = int(np.searchsorted(self._lengths, variance / FLAT, side="right"))
        number, log_lengths = self._products(wide)
        narrow = log_gaussian_mass(variance / self._lengths[wide:]) * self._counts[wide:]
        even = number * math.log(2 * math.pi * variance)
        total = math.fsum(narrow.tolist()) + 0.5 * (even - log_lengths)
        return total, float(np.abs(narrow).sum()) + 0.5 * (abs(even) + abs(log_lengths)) + number

    def bounds(self, variances: Reals) -> Reals:
        """Bound the logarithm of the product from above, with lengths in bins."""
        bins = [part for part in np.array_split(np.arange(self._lengths.size), BINS) if part.size]
        out = np.zeros(variances.size)
        for part in bins:
            lengths, counts = self._lengths[part], self._counts[part]
            number = counts.sum()
            by_shortest = number * log_gaussian_mass(variances / lengths[0])
            by_ratio = number * (log_gaussian_mass(variances / lengths[-1]) + 0.5 * np.log(lengths[-1]))
            out += np.minimum(by_shortest, by_ratio - 0.5 * float(counts @ np.log(lengths)))
        return out

    def encloser(self) -> Callable[[Fraction], arb]:
        """Return a function that encloses the logarithm of the product at the current working precision."""
        wide = FLAT + (ctx.prec + math.log2(1 + self._counts.sum())) / 28  # 2 pi^2 / ln 2 > 28
        powers = [arb(0)]
        for length, count in zip(self._lengths.tolist(), self._counts.tolist(), strict=True):
            powers.append(powers[-1] + count * ball(Fraction(length)).log())
        numbers = np.append(0, np.cumsum(self._counts)).tolist()

        def enclose(variance: Fraction) -> arb:
            flat = int(np.searchsorted(self._lengths, float(variance) / wide, side="right"))
            doubt = arb(2) ** -ctx.prec  # total error of the flat masses
            total = (numbers[flat] * (2 * arb.pi() * ball(variance)).log() - powers[flat]) / 2 + arb(0).union(doubt)
            for length, count in zip(self._lengths[flat:].tolist(), self._counts[flat:].tolist(), strict=True):
                total += count * enclose_mass(arb(0), ball(variance / Fraction(length))).log()
            return total

        return enclose

    def _product(self, first: int) -> tuple[int, float]:
        """Return the number of the first lengths and the logarithm of their product."""
        logs = np.log(self._lengths[:first]) * self._counts[:first]
        return int(self._counts[:first].sum()), math.fsum(logs.tolist())
