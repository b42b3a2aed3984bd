"""Random streams: every exact sampler is a function of an endless row of uniform 64-bit words.

A *stream* is any function ``take(n)`` that returns its next ``n`` words. Three kinds serve the same
integer code: the operating system's words for releases, a seeded generator's for research, and an
enumerated stream for proofs. A sampler whose law holds for one uniform stream holds for all of them.

References
----------
D. Lemire, "Fast random integer generation in an interval", ACM Transactions on Modeling and Computer
Simulation 29(1), 2019: Algorithm 5, `bounded` below.
"""

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

__all__ = ["BitStream", "Words", "bounded", "fill", "secure_stream", "seeded_stream"]

ROW = 2**20  # words read at a time: 8 MB
RAW = np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64  # whose own words are of 64 bits

type Words = NDArray[np.uint64]
type BitStream = Callable[[int], Words]


def secure_stream() -> BitStream:
    """Words from the operating system's secure source, for releases.

    The source is the kernel's, so nothing is seeded, stored or shared: a forked process reads words
    of its own. About 18 ns a word.

    Examples
    --------
    >>> secure_stream()(3).shape
    (3,)
    """
    # bytearray: a writable array, as the seeded stream gives, so that kernels are compiled once
    return lambda n: np.frombuffer(bytearray(os.urandom(8 * n)), dtype=np.uint64)


def seeded_stream(rng: int | np.random.Generator) -> BitStream:
    """Words from a NumPy generator, for simulation: reproducible, and never for a release.

    A passed generator is read in place: it moves on with the stream.

    Examples
    --------
    >>> first, second = seeded_stream(1), seeded_stream(1)
    >>> bool((np.append(first(2), first(3)) == second(5)).all())
    True
    """
    rng = np.random.default_rng(rng)
    if isinstance(rng.bit_generator, RAW):  # the same words, by a tenth of the calls' time
        return rng.bit_generator.random_raw
    return lambda n: rng.integers(0, 2**64, size=n, dtype=np.uint64)


def fill(kernel: Callable[..., int], stream: BitStream, entries: int, *state: object) -> None:
    """Run a compiled kernel until it has decided all its entries.

    ``kernel(words, position, *state)`` reads its words in order, each of which decides the entry at
    ``position`` or, if rejected, nothing; it writes into ``state`` and returns the next undecided
    position. So no word is ever read twice or left over, and the outcome is a function of the stream
    alone, however the stream is cut into rows.
    """
    position = 0
    while position < entries:
        position = kernel(stream(min(entries - position, ROW)), position, *state)


@jit
def multiply(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """High and low 64 bits of the 128-bit product ``a * b``."""
    half = np.uint64(32)
    mask = np.uint64(0xFFFFFFFF)
    a_high, a_low = a >> half, a & mask
    b_high, b_low = b >> half, b & mask
    cross = a_high * b_low + ((a_low * b_low) >> half)
    carry = a_low * b_high + (cross & mask)
    return a_high * b_high + (cross >> half) + (carry >> half), a * b


@jit
def bounded(word: np.uint64, n: np.uint64) -> tuple[np.uint64, bool | np.bool_]:
    """Map a word to {0, ..., n-1} for n >= 1, or reject it, so that accepted values are exactly uniform.

    Returns ``(value, accepted)``. Each value is hit by exactly ``2**64 // n`` accepted words; at most
    one word in ``2**64 / n`` is rejected.
    """
    value, fraction = multiply(word, n)
    if fraction < n:  # else certainly at or above the threshold: spares the division
        return value, fraction >= (~n + np.uint64(1)) % n  # 2**64 mod n
    return value, True
