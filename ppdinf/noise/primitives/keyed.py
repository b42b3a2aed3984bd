"""Reproducible words from a secret key, for noise shared by several agents.

The stream is SHAKE-256 in counter mode: block b is the output for (key, occasion, b). Word i is therefore a function of
key, occasion and i alone, independent of the portions in which words are read. Without the key, the words are
computationally indistinguishable from random words, as far as is known of SHAKE-256 (FIPS 202).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from ppdinf.errors import PrivacyError

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream, Words

BLOCK = 2**12  # words per call
SHORTEST_KEY = 32  # minimum length of a key in bytes


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
