"""Comparison of words of a stream with enclosures of real numbers, with as many bits as needed.

The first bits of a uniform real number u on [0, 1) are a word. Ball arithmetic (Arb) encloses a threshold between
integers. If a word lies between them, the comparison is undecided. The word is then extended by the stream's next word,
and the enclosure is computed with more bits, until the comparison is decided. Floating point is not used.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np
from flint import arb, ctx

from ppdinf.noise.primitives.stream import BitStream

_one_precision = Lock()  # python-flint has one working precision for all threads


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
