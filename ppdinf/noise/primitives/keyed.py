"""Words that everybody who holds a key can draw again: noise shared by agents who never meet.

The stream is SHAKE-256 in counter mode: block b is the output on (key, occasion, b), so that word i is a function
of key, occasion and i alone, in whatever portions words are taken. Without the key the words cannot be told from
random ones, as far as is known of SHAKE-256 (FIPS 202).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from ppdinf.errors import PrivacyError

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream, Words

__all__ = ["keyed_tape"]

BLOCK = 2**12  # words in the output of one call
SHORTEST_KEY = 32  # bytes


def keyed_tape(key: bytes, occasion: str) -> BitStream:
    """Words from a secret key and the name of an occasion.

    Parameters
    ----------
    key : bytes
        At least 32 bytes from a secure source, such as ``secrets.token_bytes(32)``. Whoever learns it can take
        the noise off.
    occasion : str
        What the words are used for. Two tables published with the same key and occasion carry the same noise,
        and their difference none: name every release anew.

    Returns
    -------
    BitStream
        20 ns a word.

    Raises
    ------
    PrivacyError
        A key that is no bytes or too short; an occasion without a name.

    Examples
    --------
    >>> key = bytes(range(32))
    >>> first, second = keyed_tape(key, "2024-Q1"), keyed_tape(key, "2024-Q1")
    >>> bool((np.append(first(2), first(3)) == second(5)).all())
    True
    """
    if not isinstance(key, bytes) or len(key) < SHORTEST_KEY:
        raise PrivacyError("the key must be at least 32 secret bytes, as secrets.token_bytes(32) gives")
    if not isinstance(occasion, str) or not occasion:
        raise PrivacyError("the occasion must be a text that names this release and no other")
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
