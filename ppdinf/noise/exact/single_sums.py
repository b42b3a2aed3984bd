"""l1 Laplace noise of cells in at most one public sum: double geometric integers, given the sum if there is one.

Given the sum s, the noise is U - V with independent uniform compositions of t + s and of t into n parts, where t has

    P(t)  proportional to  C(t+s+n-1, n-1) C(t+n-1, n-1) exp(-2 epsilon t),    t >= max(0, -s).

t is drawn by exact inversion, and the compositions by Polya's urn. Proofs: docs/mathematics/class_sampler.md.
"""

from bisect import bisect_left
from fractions import Fraction
from functools import lru_cache
from operator import index

import numpy as np
from flint import arb, fmpq

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Array, Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.exact.sampler_offer import Answer, Offer
from ppdinf.noise.primitives.integers import LARGEST, Inversion, draw_discrete_laplace, positive_fraction
from ppdinf.noise.primitives.stream import BitStream, Words, bounded, fill_entries

BATCH = 2**17  # cells per batch: the working arrays fit in the cache


def offer(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw the cells in classes with a public sum."""
    if not isinstance(law, DoubleGeometric):
        return None
    grouped = cells[structure.partition[structure.blocks[cells]]]
    of_class = structure.classes[grouped]
    # classes here, numbered from 0, without sorting cells
    labels = (np.cumsum(np.bincount(of_class) > 0) - 1)[of_class]

    def draw(size: int, stream: BitStream) -> Integers:
        return draw_partition(labels, int(labels.max()) + 1, law.epsilon, stream, size)

    return Offer("class", grouped, lambda: draw) if grouped.size else None


def offer_free(structure: Structure, law: Law, cells: Integers) -> Answer:
    """Offer to draw the cells that form single-cell blocks and may have any value."""
    if not isinstance(law, DoubleGeometric):
        return None
    sizes = np.bincount(structure.blocks, minlength=structure.sum_ranks.size)
    free = cells[((sizes == 1) & (structure.sum_ranks == 1))[structure.blocks[cells]]]

    def draw(size: int, stream: BitStream) -> Integers:
        return draw_discrete_laplace(law.epsilon, size * free.size, stream).reshape(size, -1)

    return Offer("free", free, lambda: draw) if free.size else None


def draw_class(n: int, total: int, epsilon: Fraction, stream: BitStream, *, size: int = 1) -> Integers:
    """Draw the noise of n cells given its sum exactly."""
    n, total, epsilon = _whole("n", n), _whole("total", total), positive_fraction("epsilon", epsilon)
    if n < 1:
        raise InvariantError(f"n must be at least 1, found {n}")
    if abs(total) > LARGEST:
        raise InvariantError("the absolute value of total must be below 2**62")
    noise = np.empty((size, n), dtype=np.int64)
    if n == 1:
        noise[:] = total
        return noise
    negative = negative_part(n, total, epsilon).draw(size, stream)
    rows = max(1, BATCH // n)
    for start in range(0, size, rows):
        t = negative[start : start + rows]
        bars = compositions(t + total, n, stream)
        bars -= compositions(t, n, stream)
        noise[start : start + rows] = np.diff(bars, axis=1)
    return noise


def draw_partition(labels: Array, n_classes: int, epsilon: Fraction, stream: BitStream, draws: int) -> Integers:
    """Draw the noise of a table whose cells are split into classes, with the sum 0 in every class."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InvariantError(f"labels must be one-dimensional integers, found {labels.dtype} of shape {labels.shape}")
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        cell = int(np.argmax((labels < 0) | (labels >= n_classes)))
        raise InvariantError(f"cell {cell} has class {labels[cell]}; classes run from 0 to {n_classes - 1}")
    labels = labels.astype(np.int64)
    sizes = np.bincount(labels, minlength=n_classes)
    cells_by_class = np.argsort(labels, kind="stable")
    starts = np.cumsum(sizes) - sizes
    noise = np.empty((draws, labels.size), dtype=np.int64)
    for n in np.unique(sizes[sizes > 0]):
        cells = cells_by_class[starts[sizes == n, np.newaxis] + np.arange(n)]
        alike = draw_class(int(n), 0, epsilon, stream, size=draws * len(cells))
        noise[:, cells] = alike.reshape(draws, *cells.shape)
    return noise


def _whole(name: str, value: int) -> int:
    try:
        return index(value)
    except TypeError:
        raise InvariantError(f"{name} must be an integer, found {value!r}") from None


@lru_cache(maxsize=1024)
def negative_part(n: int, total: int, epsilon: Fraction) -> Inversion:
    """Return the law of t, the sum of the V_i, for n >= 2."""
    first = max(0, -total)

    def log_compositions(k: int) -> arb:
        """Return the log of the number of compositions of k into n parts, up to a constant."""
        return arb(k + n).lgamma() - arb(k + 1).lgamma()

    def weight(t: int) -> arb:
        ways_v = log_compositions(t)
        ways_u = log_compositions(t + total) if total else ways_v
        return (ways_u + ways_v - 2 * t * ball(epsilon)).exp()

    def rises(t: int) -> bool:
        """Return whether P(t+1) > P(t)."""
        ratio = arb(fmpq((t + total + n) * (t + n), (t + total + 1) * (t + 1)))
        return bool(ratio > (2 * ball(epsilon)).exp())

    top = 1
    while rises(first + top):
        top *= 2
    mode = bisect_left(range(first + top), True, first, key=lambda t: not rises(t))  # the smallest, P(t+1) <= P(t)
    return Inversion(weight, mode, first)


def compositions(totals: Integers, n: int, stream: BitStream) -> Integers:
    """Draw uniform compositions of each total into n >= 2 parts, as partial sums 0 <= ... <= total."""
    bars = np.empty((len(totals), n + 1), dtype=np.int64)
    bars[:, 0] = 0
    bars[:, n] = totals
    fill_entries(polya_urn, stream, len(totals) * (n - 1), bars)
    bars[:, 1:n].sort(axis=1)
    return bars


@jit
def polya_urn(words: Words, position: int, bars: Integers) -> int:
    """Place n - 1 bars among the total + 1 gaps of each row, uniformly over multisets of gaps."""
    n: int = bars.shape[1] - 1
    row, placed = divmod(position, n - 1)
    for word in words:
        gaps = bars[row, n] + 1
        ball, accepted = bounded(word, np.uint64(gaps + placed))
        if accepted:
            bar = np.int64(ball)
            placed += 1
            bars[row, placed] = bar if bar < gaps else bars[row, bar - gaps + 1]
            if placed == n - 1:
                row, placed = row + 1, 0
    return row * (n - 1) + placed
