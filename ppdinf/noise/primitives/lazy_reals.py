"""Uniform real numbers whose binary digits are drawn as they are needed.

A real number on (0, 1) is known to 64 digits from its first word on; whoever has to know more asks for more words.
So a decision that hangs on the number is made about the number itself, not about its rounded value.

References
----------
D. Knuth, A. Yao, "The complexity of nonuniform random number generation", in Algorithms and Complexity (Academic
Press, 1976).
"""

import numpy as np
from flint import arb, ctx

from ppdinf.noise.primitives.stream import BitStream, Words

__all__ = ["LazyReals"]


class LazyReals:
    """A row of independent uniform real numbers, read off a stream.

    Parameters
    ----------
    stream : BitStream

    Examples
    --------
    >>> from ppdinf.noise.primitives.stream import seeded_stream
    >>> reals = LazyReals(seeded_stream(1))
    >>> words = reals.take(3)
    >>> bool(abs(float(reals.enclose(2)) - words[2] / 2.0**64) < 1e-15)
    True
    """

    def __init__(self, stream: BitStream) -> None:
        self._tape = stream
        self._taken: list[Words] = []
        self._starts: list[int] = []
        self._longer: dict[int, tuple[int, int]] = {}
        self.size = 0

    def take(self, n: int) -> Words:
        """Begin n further numbers; return their first 64 digits."""
        words = self._tape(n)
        self._taken.append(words)
        self._starts.append(self.size)
        self.size += n
        return words

    def enclose(self, place: int) -> arb:
        """Enclose a number and its distance from 1 to the relative precision that Arb works at."""
        digits, bits = self._longer.get(place) or (self._first(place), 64)
        # to so many digits beyond the leading zeros or ones
        while min(digits, 2**bits - 1 - digits).bit_length() < ctx.prec:
            digits, bits = digits << 64 | int(self._tape(1)[0]), bits + 64
        self._longer[place] = digits, bits
        # at the precision of the digits, whatever is asked for
        with ctx.workprec(bits + 64):
            unit = arb(2) ** -bits
            return (digits * unit).union((digits + 1) * unit)

    def _first(self, place: int) -> int:
        part = int(np.searchsorted(self._starts, place, side="right")) - 1
        return int(self._taken[part][place - self._starts[part]])
