"""Exact draws of integers: inversion of log-concave laws, Bernoulli draws, discrete Laplace and Gaussian noise.

A draw is the k with F(k-1) <= u < F(k) for a uniform real number u. Integers enclose 2^64 F(k), and an undecided word
is extended by further words. Wide laws are inverted in blocks, whose integers are accepted with probability p(k) / max.

References
----------
L. Devroye, Non-Uniform Random Variate Generation (Springer, 1986), chapters II.2 and X.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from numbers import Rational

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Array, Flags, Integers
from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.enclosures import compare_enclosures, integer_bounds, is_below, precision, scaled
from ppdinf.noise.primitives.stream import BitStream, Words, bounded, fill_entries

HALF_TABLE = 2**12  # blocks on each side of the mode, with all but 2^-64 of the mass
LARGEST = 2**61  # bound on draws, so that sums of draws fit 64-bit integers


def bernoulli(probability: Callable[[], arb], size: int, stream: BitStream, *, width: int = 64) -> Flags:
    """Draw ``size`` independent Bernoulli variables with one probability exactly."""
    words = stream(size)
    low, high = scaled(probability, width)
    happens = words < low
    for i in np.flatnonzero(~happens & (words < high)):
        happens[i] = compare_enclosures(words[i], width, stream, lambda word, bits: is_below(word, probability, bits))
    return happens


@dataclass(frozen=True)
class _InversionTable:
    """Integer bounds on 2^bits F over blocks ``first``, ``first + 1``, ..."""

    first: int
    lower: Array
    upper: Array
    kept: Array

    def find(self, words: Array) -> tuple[Integers, Flags]:
        """Return the block of every u with the first digits of each word, and whether the word decides it."""
        rows = np.searchsorted(self.lower, words, side="right")
        inside = rows < len(self.lower)
        settled = inside & (self.upper[np.where(inside, rows, 0)] <= words)
        return self.first + rows, settled

    def kept_below(self, blocks: Integers) -> Array:
        """Return the bound below which words accept an integer of the block with certainty; 0 outside the table."""
        rows = blocks - self.first
        inside = (rows >= 0) & (rows < len(self.kept))
        return np.where(inside, self.kept[np.where(inside, rows, 0)], np.uint64(0))


class Inversion:
    """Exact sampler of a log-concave law on the integers."""

    def __init__(self, weight: Callable[[int], arb], mode: int, first: int | None = None, *, width: int = 64) -> None:
        self.weight = weight
        self.mode = mode
        self.first = first
        self.width = width
        block = 1  # the smallest power of two for which the table covers about all but 2^-width of the mass
        with precision(self.width):
            negligible = self.weight(self.mode) / 2**self.width
            while not all(self._weight(self.mode + block * side) < negligible for side in (-HALF_TABLE, HALF_TABLE)):
                block *= 2
                if abs(self.mode) + block * HALF_TABLE > LARGEST:
                    raise PrivacyError(
                        "draws of this noise may exceed 64-bit integers; choose a larger epsilon or a smaller sigma"
                    )
        self.block = block
        self._table = lru_cache(maxsize=4)(self._tabulate)
        self._table(width)

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return ``size`` independent draws."""
        if self.block == 1:
            return self.mode + self._draw_blocks(size, stream)
        draws = np.empty(size, dtype=np.int64)
        waiting = np.arange(size)
        while waiting.size:
            values, kept = self._propose(waiting.size, stream)
            draws[waiting[kept]] = values[kept]
            waiting = waiting[~kept]
        return draws

    def _draw_blocks(self, size: int, stream: BitStream) -> Integers:
        words = stream(size)
        blocks, settled = self._table(self.width).find(words)
        for i in np.flatnonzero(~settled):
            blocks[i] = compare_enclosures(words[i], self.width, stream, self._find)
        return blocks

    def _find(self, word: int, bits: int) -> int | None:
        blocks, settled = self._table(bits).find(np.array([word], dtype=object))
        return int(blocks[0]) if settled[0] else None

    def _propose(self, size: int, stream: BitStream) -> tuple[Integers, Flags]:
        """Draw blocks, an integer in each block, and the acceptance of each integer."""
        blocks = self._draw_blocks(size, stream)
        above = blocks >= 0
        nearest = self.mode + np.where(above, self.block * blocks, self.block * (blocks + 1) - 1)
        offsets = (stream(size) >> np.uint64(self.width + 1 - self.block.bit_length())).astype(np.int64)
        values = nearest + np.where(above, offsets, -offsets)
        words = stream(size)
        kept = words < self._table(self.width).kept_below(blocks)
        for i in np.flatnonzero(~kept):
            kept[i] = self._keeps(int(values[i]), int(nearest[i]), words[i], stream)
        return values, kept

    def _keeps(self, value: int, nearest: int, word: np.uint64, stream: BitStream) -> bool:
        if value == nearest or (self.first is not None and value < self.first):
            return value == nearest

        def share() -> arb:
            return self.weight(value) / self.weight(nearest)

        return compare_enclosures(word, self.width, stream, lambda w, bits: is_below(w, share, bits))

    def _weight(self, k: int) -> arb:
        return arb(0) if self.first is not None and k < self.first else self.weight(k)

    def _tabulate(self, bits: int) -> _InversionTable:
        with precision(bits):
            negligible = self.weight(self.mode) / 2 ** (bits + 2)
            above, upper_tail = self._side(self.mode, self.block, negligible)
            below, lower_tail = self._side(self.mode - 1, -self.block, negligible)
            weights = below[::-1] + above
            scale = 2**bits / (lower_tail + sum(weights, start=arb(0)) + upper_tail)
            cumulative, bounds = lower_tail, [integer_bounds(lower_tail * scale)]
            for weight in weights:
                cumulative += weight
                bounds.append(integer_bounds(cumulative * scale))
            # The weight of the next block is a lower bound on the smallest probability of a block.
            falls = [integer_bounds(fall * 2**bits) for fall in _ratios(below)[::-1] + _ratios(above)]
        largest = 2**bits - 1
        return _InversionTable(
            first=-len(below),
            lower=_words([low for low, _ in bounds[1:]], bits),
            # All words of the largest value are undecided, so clipping does not affect decisions.
            upper=_words([min(high, largest) for _, high in bounds[:-1]], bits),
            kept=_words([min(low, largest) for low, _ in falls], bits),
        )

    def _side(self, k: int, step: int, negligible: arb) -> tuple[list[arb], arb]:
        """Return the weights of k, k + step, ... and an enclosure of the sum of the remaining weights."""
        weights, before = [], self.weight(self.mode)
        while self.first is None or k >= self.first:
            weight = self.weight(k)
            ratio = weight / before  # later ratios are not larger
            weights.append(weight)
            if ratio < 1 and (tail := weight * ratio / (1 - ratio)) < negligible:
                return weights, arb(0).union(tail.upper())
            k, before = k + step, weight
        return weights, arb(0)


def _words(integers: list[int], bits: int) -> Array:
    return np.array(integers, dtype=np.uint64 if bits <= 64 else object)


def _ratios(weights: list[arb]) -> list[arb]:
    return [after / before for before, after in pairwise([*weights, arb(0)])]


def draw_discrete_laplace(epsilon: Fraction, size: int, stream: BitStream) -> Integers:
    """Draw from P(k) proportional to exp(-epsilon |k|) on the integers (the double geometric law)."""
    return _laplace(positive_fraction("epsilon", epsilon)).draw(size, stream)


def draw_discrete_gaussian(sigma_squared: Fraction, size: int, stream: BitStream) -> Integers:
    """Draw from P(k) proportional to exp(-k^2 / (2 sigma^2)) on the integers."""
    return _gaussian(positive_fraction("sigma_squared", sigma_squared)).draw(size, stream)


def uniform_integers(limits: NDArray[np.integer], stream: BitStream) -> Integers:
    """Draw one integer from {0, ..., n - 1} for every n of an array."""
    values = np.empty(len(limits), dtype=np.int64)
    fill_entries(_bounded_each, stream, len(limits), np.asarray(limits, dtype=np.uint64), values)
    return values


@jit
def _bounded_each(words: Words, position: int, limits: Words, values: Integers) -> int:
    for word in words:
        value, accepted = bounded(word, limits[position])
        if accepted:
            values[position] = value
            position += 1
    return position


def positive_fraction(name: str, value: Fraction) -> Fraction:
    """Return a positive rational as a Fraction, or raise PrivacyError."""
    if not isinstance(value, Rational) or isinstance(value, bool) or value <= 0:
        raise PrivacyError(f"{name} must be a positive int or fractions.Fraction, found {value!r}")
    return Fraction(value)


@lru_cache(maxsize=256)
def _laplace(epsilon: Fraction) -> Inversion:
    return Inversion(lambda k: (-abs(k) * ball(epsilon)).exp(), mode=0)


@lru_cache(maxsize=256)
def _gaussian(sigma_squared: Fraction) -> Inversion:
    return Inversion(lambda k: (-(k**2) / ball(2 * sigma_squared)).exp(), mode=0)
