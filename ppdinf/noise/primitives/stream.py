"""Random streams: functions that return uniform 64-bit words, from the system, a seed or a secret key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
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
