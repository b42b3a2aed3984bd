"""Words of a stream compared with enclosures of real numbers, in as many bits as it takes.

A real number u, uniform on [0, 1), begins with the bits of a word. Ball arithmetic (Arb) encloses the number it is
compared with between integers; a word that lies between them leaves the comparison open, and is lengthened by the
stream's next word, with enclosures of more bits, until it does not. Floating point decides nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np
from flint import arb, ctx

from ppdinf.noise.primitives.stream import BitStream

__all__ = ["integer_bounds", "is_below", "precision", "scaled", "settle"]

_one_precision = Lock()  # python-flint has one working precision for all threads


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with enough precision to decide almost every word of so many bits."""
    with _one_precision, ctx.workprec(bits + 128):
        yield


def settle[T](word: np.uint64, width: int, stream: BitStream, verdict: Callable[[int, int], T | None]) -> T:
    """Lengthen a word from the stream until ``verdict(word, bits)`` settles it."""
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
    """Enclose 2^bits times a probability between integers."""
    with precision(bits):
        return integer_bounds(probability() * 2**bits)


def is_below(word: int, probability: Callable[[], arb], bits: int) -> bool | None:
    """Tell whether u < probability for every u that begins with these bits; None if they leave it open."""
    low, high = scaled(probability, bits)
    return True if word < low else False if word >= high else None
