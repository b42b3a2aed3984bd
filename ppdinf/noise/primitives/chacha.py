"""The cryptographic generator ChaCha20 for compiled Markov chains of releases.

Compiled chains read uniform numbers from a NumPy `Generator`. NumPy's own generators are made for simulation: an
observer of some words can compute the other words. The words of ChaCha20 with a secret key of 256 bits are
computationally indistinguishable from independent words, as far as is known. Key and stream number determine the words.
The same code therefore supports releases (a key from the operating system) and research (a key from a seeded
generator).

References
----------
D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008, with its 64-bit counter and 64-bit stream number; Y. Nir,
A. Langley, RFC 8439 (2018), section 2.3, for the block function and its test vectors.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import callback, jit
from ppdinf.noise.primitives.stream import Words

SIZE = 33  # 32-bit words of the state: 16 of input for the next block, 16 of the last block, and the number used
USED = 32
CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)


@jit
def _rotate(x: np.uint32, bits: int) -> np.uint32:
    return np.uint32((x << np.uint32(bits)) | (x >> np.uint32(32 - bits)))


@jit
def _quarter(s: NDArray[np.uint32], a: int, b: int, c: int, d: int) -> None:
    s[a] = np.uint32(s[a] + s[b])
    s[d] = _rotate(np.uint32(s[d] ^ s[a]), 16)
    s[c] = np.uint32(s[c] + s[d])
    s[b] = _rotate(np.uint32(s[b] ^ s[c]), 12)
    s[a] = np.uint32(s[a] + s[b])
    s[d] = _rotate(np.uint32(s[d] ^ s[a]), 8)
    s[c] = np.uint32(s[c] + s[d])
    s[b] = _rotate(np.uint32(s[b] ^ s[c]), 7)


@jit
def block(state: NDArray[np.uint32]) -> None:
    """Compute the block of entries 0 to 15 into entries 16 to 31 (ten double rounds) and increase the counter."""
    out = state[16:32]
    out[:] = state[:16]
    for _ in range(10):
        for column in range(4):
            _quarter(out, column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            _quarter(out, column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    for i in range(16):
        out[i] = np.uint32(out[i] + state[i])
    state[12] = np.uint32(state[12] + np.uint32(1))
    if state[12] == 0:
        state[13] = np.uint32(state[13] + np.uint32(1))


@jit
def _next(state: NDArray[np.uint32]) -> np.uint64:
    if state[USED] == 16:
        block(state)
        state[USED] = 0
    at = 16 + state[USED]
    state[USED] += np.uint32(2)
    return np.uint64(state[at]) | (np.uint64(state[at + 1]) << np.uint64(32))


# -- interface of NumPy and numba --------------------------------------------------------------------------


def _word(state: Any) -> np.uint64:
    return _next(carray(state, SIZE))


def _half(state: Any) -> np.uint32:
    return np.uint32(_next(carray(state, SIZE)) >> np.uint64(32))


def _double(state: Any) -> np.float64:
    return np.float64(_next(carray(state, SIZE)) >> np.uint64(11)) * 1.1102230246251565e-16


class _Interface(ctypes.Structure):
    """The struct of a bit generator in NumPy's header bitgen.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("state", "next_uint64", "next_uint32", "next_double", "next_raw")]


@cache
def _functions() -> dict[str, Any]:
    """Return the compiled functions of the interface, which are cached for the life of the process."""
    state = types.CPointer(types.uint32)
    word = callback(types.uint64(state), _word)
    return {
        "next_uint64": word,
        "next_uint32": callback(types.uint32(state), _half),
        "next_double": callback(types.float64(state), _double),
        "next_raw": word,
    }


class ChaCha20(np.random.BitGenerator):
    """Bit generator for `numpy.random.Generator`, in Python and in compiled code."""

    def __init__(self, key: Words, stream: int = 0) -> None:
        super().__init__(0)  # no word of the block is used yet
        self._key, self._stream, self._spawned = np.array(key, dtype=np.uint64), stream, 0
        counter_and_stream = np.array([0, stream], dtype=np.uint64)
        self._words = np.zeros(SIZE, dtype=np.uint32)
        self._words[:16] = np.concatenate([CONSTANTS, _halves(self._key), _halves(counter_and_stream)])
        self._words[USED] = 16
        where = ctypes.pythonapi.PyCapsule_GetPointer
        where.restype, where.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        interface = _Interface.from_address(where(self.capsule, b"BitGenerator"))
        interface.state = self._words.ctypes.data
        for name, function in _functions().items():
            setattr(interface, name, function.address)

    def spawn(self, n_children: int) -> list[ChaCha20]:
        """Return generators of further streams, independent of this stream and of each other."""
        if self._stream:
            raise ValueError("a spawned ChaCha20 generator cannot spawn further generators: spawn from the first one")
        self._spawned += n_children
        return [ChaCha20(self._key, self._spawned - k) for k in reversed(range(n_children))]


def _halves(words: Words) -> NDArray[np.uint32]:
    return words.astype("<u8").view("<u4").astype(np.uint32)
