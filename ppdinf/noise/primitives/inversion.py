"""Exact inversion sampling of log-concave laws on the integers.

The stream supplies a uniform real number u on [0, 1) in words of 64 bits. The draw is the k with F(k-1) <= u < F(k).
Ball arithmetic (Arb) encloses 2^64 F(k) between integers for every k in a window. A word between the upper bound of
F(k-1) and the lower bound of F(k) determines the draw by integer comparisons. An undecided word (about window words in
2^64) is extended by the stream's next word, with bounds of more bits over a wider window, until it is decided. Floating
point is not used and no tail is truncated: the law is exact.

A wide law is inverted in blocks of m consecutive integers. Block j has weight m times its largest probability. An
integer of the block is drawn uniformly and accepted with probability p(k) / max p, which is again a comparison of an
extended word with enclosures. Tables therefore stay short at any scale.

References
----------
L. Devroye, Non-Uniform Random Variate Generation (Springer, 1986), chapters II.2 (inversion) and X.2
(rejection for log-concave integer laws). F. Johansson, "Arb: efficient arbitrary-precision midpoint-
radius interval arithmetic", IEEE Transactions on Computers 66(8), 2017.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.types import Array
from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.enclosed_comparison import compare_enclosures, integer_bounds, is_below, precision, scaled
from ppdinf.noise.primitives.stream import BitStream

HALF_TABLE = 2**12  # blocks on each side of the mode, with all but 2^-64 of the mass
LARGEST = 2**61  # bound on draws, so that sums of draws fit 64-bit integers


def bernoulli(probability: Callable[[], arb], size: int, stream: BitStream, *, width: int = 64) -> NDArray[np.bool_]:
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

    def find(self, words: Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the block of every u with the first digits of each word, and whether the word decides it."""
        rows = np.searchsorted(self.lower, words, side="right")
        inside = rows < len(self.lower)
        settled = inside & (self.upper[np.where(inside, rows, 0)] <= words)
        return self.first + rows, settled

    def kept_below(self, blocks: NDArray[np.int64]) -> Array:
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
        self.block = self._block_length()
        self._table = lru_cache(maxsize=4)(self._tabulate)
        self._table(width)

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
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

    def _draw_blocks(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        words = stream(size)
        blocks, settled = self._table(self.width).find(words)
        for i in np.flatnonzero(~settled):
            blocks[i] = compare_enclosures(words[i], self.width, stream, self._find)
        return blocks

    def _find(self, word: int, bits: int) -> int | None:
        blocks, settled = self._table(bits).find(np.array([word], dtype=object))
        return int(blocks[0]) if settled[0] else None

    def _propose(self, size: int, stream: BitStream) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
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
        return compare_enclosures(
            word,
            self.width,
            stream,
            lambda w, bits: is_below(w, lambda: self.weight(value) / self.weight(nearest), bits),
        )

    def _block_length(self) -> int:
        """Return the smallest power of two for which the table covers about all but 2^-width of the mass."""
        block = 1
        with precision(self.width):
            negligible = self.weight(self.mode) / 2**self.width
            while not all(self._weight(self.mode + block * side) < negligible for side in (-HALF_TABLE, HALF_TABLE)):
                block *= 2
                if abs(self.mode) + block * HALF_TABLE > LARGEST:
                    raise PrivacyError(
                        "draws of this noise may exceed 64-bit integers; choose a larger epsilon or a smaller sigma"
                    )
        return block

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
