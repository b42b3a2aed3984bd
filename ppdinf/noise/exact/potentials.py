"""Weights of single integers, enclosed to any precision: the input of elimination.

A potential is a positive weight for each integer. It is tabulated on a window that excludes at most 2^-bits of its
mass, as balls that contain the exact values, with a bound on the excluded mass.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import index

import numpy as np
from flint import arb, arb_poly, ctx
from numpy.typing import ArrayLike

from ppdinf._internal.rationals import ball
from ppdinf.errors import ModelError
from ppdinf.laws import IntegerLaw
from ppdinf.noise.primitives.integers import positive_fraction

type Window = tuple[int, list[arb], arb]
"""First integer, weights of consecutive integers, and a bound on the sum of all other weights."""

type Potential = Callable[[int], Window]
"""``potential(bits)`` tabulates at Arb's working precision at the time of the call."""


def table(first: int, log_weights: ArrayLike) -> Potential:
    """Return a potential with given log weights (floating-point numbers, treated as exact) and 0 elsewhere."""
    logs = np.asarray(log_weights, np.float64)
    if logs.ndim != 1 or not (logs < np.inf).all() or not (logs > -np.inf).any():
        raise ModelError("log_weights must be one-dimensional, finite or -inf, with at least one finite entry")
    begin = index(first)
    return lambda bits: (begin, [arb(0) if x == -np.inf else arb(x).exp() for x in logs.tolist()], arb(0))


def log_concave(weight: Callable[[int], arb], mode: int, *, first: int | None = None) -> Potential:
    """Return a potential with log-concave weights on all integers, or from `first`, or up to `last`."""

    def tabulate(bits: int) -> Window:
        top = weight(mode)
        negligible = top / 2 ** (bits + 1)

        def side(step: int, end: int | None) -> tuple[list[arb], arb]:
            found, before, k = [], top, mode
            while k != end:
                k += step
                now = weight(k)
                ratio = now / before  # later ratios are not larger
                found.append(now)
                if ratio < 1 and (tail := now * ratio / (1 - ratio)) < negligible:
                    return found, tail.upper()
                before = now
            return found, arb(0)

        (below, low), (above, high) = side(-1, first), side(1, None)
        return mode - len(below), [*below[::-1], top, *above], low + high

    return tabulate


def symmetric(law: IntegerLaw) -> Potential:
    """Return the weights of a law of independent integers."""

    def tabulate(bits: int) -> Window:
        weights, left_out = law.window(bits, ctx.prec)
        return 1 - len(weights), [*weights[:0:-1], *weights], left_out

    return tabulate


def class_sum(n: int, epsilon: Fraction) -> Potential:
    """Return the law of the sum of n independent double geometric integers, P(k) ~ exp(-epsilon |k|) each."""
    rate, size = positive_fraction("epsilon", epsilon), index(n)
    if size == 1:
        at_zero = lambda: (ball(rate) / 2).tanh()  # noqa: E731
        return log_concave(lambda k: at_zero() * (-abs(k) * ball(rate)).exp(), 0)  # type: ignore[no-untyped-call]
    return lambda bits: _convolved(size, rate, bits, ctx.prec)


def product(factors: Sequence[tuple[Potential, int]]) -> Potential:
    """Return the product over factors of ``potential(height * k)``, each with sum at most 1 and nonzero height."""

    def tabulate(bits: int) -> Window:
        windows = [(potential(bits), height) for potential, height in factors]
        ends = []
        for (first, weights, _), height in windows:
            a, b = sorted((Fraction(first, height), Fraction(first + len(weights) - 1, height)))
            ends.append((-(-a.numerator // a.denominator), b.numerator // b.denominator))
        low, high = max(a for a, _ in ends), min(b for _, b in ends)
        masses = [arb(1)] * max(0, high - low + 1)
        for (first, weights, _), height in windows:
            masses = [value * weights[height * (low + i) - first] for i, value in enumerate(masses)]
        # outside of the window, one factor is in its tail and the other factors are at most 1
        return low, masses, sum((tail for (_, _, tail), _ in windows), start=arb(0))

    return tabulate


@lru_cache(maxsize=64)
def _convolved(n: int, epsilon: Fraction, bits: int, _precision: int) -> Window:
    a = (-ball(epsilon)).exp()
    parts, t = [(1 - a) ** n], 0
    left_out = arb(2) ** -(bits + 64)
    while True:
        ratio = a * (t + n) / (t + 1)  # decreasing in t
        if ratio < 1 and (tail := parts[-1] * ratio / (1 - ratio)) < left_out:
            break
        parts.append(parts[-1] * ratio)
        t += 1
    doubt = arb(0).union(2 * tail.upper())
    sums = (arb_poly(parts) * arb_poly(parts[::-1])).coeffs()[t:]
    beyond, k = doubt, len(sums)
    while k > 1 and beyond + 2 * sums[k - 1] < arb(2) ** -bits:
        beyond += 2 * sums[k - 1]
        k -= 1
    half = [value + doubt for value in sums[:k]]
    return 1 - k, [*half[:0:-1], *half], beyond.upper()
