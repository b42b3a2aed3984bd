"""Uniform real numbers whose binary digits are drawn when they are needed.

The first word of a real number on (0, 1) gives 64 digits; further words extend them. A decision that depends on the
number therefore uses the number itself and not a rounded value.

References
----------
D. Knuth, A. Yao, "The complexity of nonuniform random number generation", in Algorithms and Complexity (Academic
Press, 1976).
"""

import numpy as np
from flint import arb, ctx

from ppdinf.noise.primitives.stream import BitStream, Words


class LazyReals:
    """A sequence of independent uniform real numbers from a stream."""

    def __init__(self, stream: BitStream) -> None:
        self._stream = stream
        self._taken: list[Words] = []
        self._starts: list[int] = []
        self._longer: dict[int, tuple[int, int]] = {}
        self.size = 0

    def take(self, n: int) -> Words:
        """Start n further numbers and return their first 64 digits."""
        words = self._stream(n)
        self._taken.append(words)
        self._starts.append(self.size)
        self.size += n
        return words

    def enclose(self, index: int) -> arb:
        """Enclose a number and its distance from 1 to Arb's working precision, in relative terms."""
        digits, bits = self._longer.get(index) or (self._first(index), 64)
        # number of digits after the leading zeros or ones
        while min(digits, 2**bits - 1 - digits).bit_length() < ctx.prec:
            digits, bits = digits << 64 | int(self._stream(1)[0]), bits + 64
        self._longer[index] = digits, bits
        # at the precision of the digits
        with ctx.workprec(bits + 64):
            unit = arb(2) ** -bits
            return (digits * unit).union((digits + 1) * unit)

    def _first(self, index: int) -> int:
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        return int(self._taken[part][index - self._starts[part]])
