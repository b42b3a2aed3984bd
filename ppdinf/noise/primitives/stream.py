"""Random streams: functions that return uniform 64-bit words, from the system, a seed or a secret key.

Real-valued draws are by inversion, one word per draw: a sign and 63 bits u in (0, 1), read relative to 0. They extend
to the quantile with tail mass 2^-64: 9.2 standard deviations of a normal law, 44 scales of a Laplace law. Their law
agrees with that of real numbers up to a total variation distance near 2^-52, but the last bits of a floating-point sum
can reveal which of two tables was used [1]_. Integer mechanisms are exact and avoid this risk.

.. [1] I. Mironov, "On significance of the least significant bits for differential privacy", CCS 2012.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Reals
from ppdinf.errors import PrivacyError

ROW = 2**20  # words per read: 8 MB
RAW = np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64  # bit generators with 64-bit words
BLOCK = 2**12  # words per call
SHORTEST_KEY = 32  # minimum length of a key in bytes

type Words = NDArray[np.uint64]
type BitStream = Callable[[int], Words]


def secure_stream() -> BitStream:
    """Return a stream of words from the operating system's secure source, for releases."""
    # bytearray: a writable array like that of the seeded stream, so that kernels are compiled once
    return lambda n: np.frombuffer(bytearray(os.urandom(8 * n)), dtype=np.uint64)


def seeded_stream(rng: int | np.random.Generator) -> BitStream:
    """Return a stream of reproducible words from a NumPy generator, for simulation only, never for a release."""
    rng = np.random.default_rng(rng)
    if isinstance(rng.bit_generator, RAW):  # the same words in a tenth of the time
        return rng.bit_generator.random_raw
    return lambda n: rng.integers(0, 2**64, size=n, dtype=np.uint64)


def fill_entries(kernel: Callable[..., int], stream: BitStream, entries: int, *state: object) -> None:
    """Run a compiled kernel until it has determined all its entries."""
    position = 0
    while position < entries:
        position = kernel(stream(min(entries - position, ROW)), position, *state)


@jit
def multiply_words(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the high and low 64 bits of the 128-bit product ``a * b``."""
    half = np.uint64(32)
    mask = np.uint64(0xFFFFFFFF)
    a_high, a_low = a >> half, a & mask
    b_high, b_low = b >> half, b & mask
    cross = a_high * b_low + ((a_low * b_low) >> half)
    carry = a_low * b_high + (cross & mask)
    return a_high * b_high + (cross >> half) + (carry >> half), a * b


@jit
def bounded(word: np.uint64, n: np.uint64) -> tuple[np.uint64, bool | np.bool_]:
    """Map a word to {0, ..., n-1} for n >= 1, or reject it; accepted values are exactly uniform."""
    value, fraction = multiply_words(word, n)
    if fraction < n:  # otherwise at or above the threshold: avoids the division
        return value, fraction >= (~n + np.uint64(1)) % n  # 2**64 mod n
    return value, True


def keyed_stream(key: bytes, occasion: str) -> BitStream:
    """Return a stream of words determined by a secret key and the name of an occasion."""
    if not isinstance(key, bytes) or len(key) < SHORTEST_KEY:
        raise PrivacyError("the key must be at least 32 secret bytes, for example secrets.token_bytes(32)")
    if not isinstance(occasion, str) or not occasion:
        raise PrivacyError("the occasion must be a non-empty text that names this release uniquely")
    name = occasion.encode()
    parts = (b"ppdinf", len(key).to_bytes(8, "little"), key, len(name).to_bytes(8, "little"), name)
    stream = hashlib.shake_256(b"".join(parts))
    position = 0

    def block(b: int) -> Words:
        copy = stream.copy()
        copy.update(b.to_bytes(8, "little"))
        return np.frombuffer(bytearray(copy.digest(8 * BLOCK)), dtype="<u8").astype(np.uint64)

    def take(n: int) -> Words:
        nonlocal position
        start, position = position, position + n
        first = start // BLOCK
        if not n:
            return np.zeros(0, dtype=np.uint64)
        words = np.concatenate([block(b) for b in range(first, (position - 1) // BLOCK + 1)])
        return words[start - first * BLOCK :][:n]

    return take


def normals(stream: BitStream, *shape: int) -> Reals:
    """Draw standard normal variables."""
    sign, u = _signed(stream, *shape)
    return sign * ndtri(u / 2)


def laplaces(stream: BitStream, *shape: int) -> Reals:
    """Draw Laplace variables with scale 1."""
    sign, u = _signed(stream, *shape)
    return sign * np.log(u)


def exponentials(stream: BitStream, *shape: int) -> Reals:
    """Draw exponential variables with mean 1."""
    return -np.log((stream(prod(shape)).reshape(shape).astype(float) + 0.5) * 2.0**-64)


def _signed(stream: BitStream, *shape: int) -> tuple[Reals, Reals]:
    words = stream(prod(shape)).reshape(shape)
    magnitude = (words & np.uint64(2**63 - 1)).astype(float)
    return np.where(words >> np.uint64(63), 1.0, -1.0), (magnitude + 0.5) * 2.0**-63
