"""Exact comparisons, Bernoulli draws and categorical draws from enclosures of real numbers.

Floating point with a proved error bound decides all but about one word in 2^40. The other words are compared in ball
arithmetic and extended by further words as needed, so that rounding costs time but cannot change a draw.

References
----------
F. Johansson, "Arb: efficient arbitrary-precision midpoint-radius interval arithmetic", IEEE Transactions on Computers
66(8), 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from threading import Lock

import numpy as np
from flint import arb, ctx

from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.noise.primitives.stream import BitStream

_one_precision = Lock()  # python-flint has one working precision for all threads
ROUNDING = 2.0**-48
"""Bound on the relative error of NumPy's exp (a few units in the last place) and of the following operations."""
BATCH = 2**21  # coordinates of the proposals in one batch
MARGIN = 2.0**-38
"""Bound on the error of a sum of up to 2^15 probabilities and of a word as a float."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set a working precision that decides almost every word of `bits` bits."""
    with _one_precision, ctx.workprec(bits + 128):
        yield


def compare_enclosures[T](word: np.uint64, width: int, stream: BitStream, verdict: Callable[[int, int], T | None]) -> T:
    """Extend a word from the stream until ``verdict(word, bits)`` is not None, and return the verdict."""
    longer, bits = int(word), width
    while (answer := verdict(longer, bits)) is None:
        longer, bits = longer << width | int(stream(1)[0]), bits + width
    return answer


def integer_bounds(ball: arb) -> tuple[int, int]:
    """Return integers ``low <= x <= high`` for every x in the ball."""
    man, exp = (int(part) for part in ball.lower().man_exp())
    low = man << exp if exp >= 0 else man >> -exp
    man, exp = (int(part) for part in ball.upper().man_exp())
    return low, man << exp if exp >= 0 else -(-man >> -exp)


def scaled(probability: Callable[[], arb], bits: int) -> tuple[int, int]:
    """Return integers that enclose 2^bits times a probability."""
    with precision(bits):
        return integer_bounds(probability() * 2**bits)


def is_below(word: int, probability: Callable[[], arb], bits: int) -> bool | None:
    """Return whether u < probability for every u with these first bits; None if it is undecided."""
    low, high = scaled(probability, bits)
    return True if word < low else False if word >= high else None


def draw_bernoulli(
    log_probability: Reals, error: Reals | float, enclose: Callable[[int], arb], stream: BitStream
) -> Flags:
    """Draw independent Bernoulli variables exactly."""
    words = stream(len(log_probability))
    u = words * 2.0**-64
    p = np.exp(np.minimum(log_probability, 0.0))
    margin = (p + u) * (2.0 * np.asarray(error) + ROUNDING) + 2.0**-60
    events: Flags = u < p - margin
    for i in np.flatnonzero(~events & (u <= p + margin)).tolist():
        events[i] = decide_bernoulli(words[i], partial(enclose, i), stream)
    return events


def draw_accepted(
    shape: tuple[int, int], coordinates: int, propose: Callable[[int], tuple[Integers, Flags]]
) -> Integers:
    """Return draws of this shape, zero without coordinates: each row is proposed until it is accepted."""
    noise = np.zeros(shape, dtype=np.int64)
    waiting, rows = np.arange(shape[0] if coordinates else 0), max(1, BATCH // max(coordinates, 1))
    while waiting.size:
        now = waiting[:rows]
        proposed, kept = propose(now.size)
        noise[now[kept]] = proposed[kept]
        waiting = np.concatenate([now[~kept], waiting[rows:]])
    return noise


def decide_bernoulli(word: np.uint64, probability: Callable[[], arb], stream: BitStream) -> bool:
    """Return, by ball arithmetic, whether a uniform u with the first digits `word` is below a probability."""
    return compare_enclosures(word, 64, stream, lambda longer, bits: is_below(longer, probability, bits))


type Row = Callable[[int], list[arb]]


def draw_rows(matrix: Reals, rows: Integers, enclose: Row, stream: BitStream) -> Integers:
    """Draw a column for every requested row exactly."""
    words = stream(rows.size)
    drawn = np.empty(rows.size, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    present, starts = np.unique(rows[order], return_index=True)
    for i, places in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        levels = np.cumsum(matrix[i])
        levels /= levels[-1]
        u = words[places] * 2.0**-64
        outcomes = np.searchsorted(levels, u, side="right")
        near = (np.searchsorted(levels[:-1], u - MARGIN) != np.searchsorted(levels[:-1], u + MARGIN)).nonzero()[0]
        for k in near.tolist():
            outcomes[k] = compare_enclosures(words[places[k]], 64, stream, partial(_find, i=i, enclose=enclose))
        drawn[places] = outcomes
    return drawn


def _find(word: int, bits: int, *, i: int, enclose: Row) -> int | None:
    """Return the column of every u with these first bits, or None if it is not unique."""
    with precision(bits):
        assert ctx.prec >= bits
        sums = list(accumulate(enclose(i)))
        for j, level in enumerate(sums[:-1]):
            low, high = integer_bounds(level / sums[-1] * 2**bits)
            if word < low:
                return j
            if word < high:
                return None
    return len(sums) - 1
