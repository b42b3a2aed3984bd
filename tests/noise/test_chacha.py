"""The ChaCha20 generator: the block of the standard, and its words in NumPy and in compiled code."""

import numba
import numpy as np
import pytest
from scipy import stats

from ppdinf.noise.primitives.chacha import SIZE, ChaCha20, block
from ppdinf.noise.primitives.stream import seeded_stream

KEY = np.arange(32, dtype=np.uint8).view("<u8")
NONCE = bytes.fromhex("000000090000004a00000000")
# RFC 8439, section 2.3.2, block 1
PUBLISHED = bytes.fromhex(
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)


@pytest.mark.quick_cases(0)
def test_the_block_of_the_standard():
    generator = ChaCha20(KEY)
    state = generator._words.copy()
    state[12] = 1
    state[13:16] = np.frombuffer(NONCE, dtype="<u4")
    block(state)
    assert state[16:32].astype("<u4").tobytes() == PUBLISHED
    assert state[12] == 2


def reference(key, stream, blocks):
    """Return the words of a stream, computed with Python integers."""

    def rotate(x, n):
        return (x << n | x >> (32 - n)) & 0xFFFFFFFF

    def quarter(s, a, b, c, d):
        for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & 0xFFFFFFFF
            s[z] = rotate(s[z] ^ s[x], n)

    words = []
    for counter in range(blocks):
        given = list(np.frombuffer(b"expand 32-byte k", "<u4")) + list(key.view("<u4"))
        given = [int(x) for x in given] + [counter, 0, stream, 0]
        s = list(given)
        for _ in range(10):
            for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
                quarter(s, a, b, c, d)
            for a, b, c, d in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
                quarter(s, a, b, c, d)
        words += [(x + y) & 0xFFFFFFFF for x, y in zip(s, given, strict=True)]
    return np.array(words, dtype="<u4").view("<u8").astype(np.uint64)


@numba.njit
def compiled(rng, n):
    out = np.empty(n)
    for i in range(n):
        out[i] = rng.random()
    return out


def test_numpy_and_compiled_code_read_the_same_words():
    words = reference(KEY, 7, 4)
    assert (ChaCha20(KEY, 7).random_raw(32) == words).all()
    doubles = (words >> np.uint64(11)) * 2.0**-53
    assert (np.random.Generator(ChaCha20(KEY, 7)).random(32) == doubles).all()
    generator = np.random.Generator(ChaCha20(KEY, 7))
    assert (compiled(generator, 9) == doubles[:9]).all()
    assert (generator.random(23) == doubles[9:]).all()  # in place
    halves = np.random.Generator(ChaCha20(KEY, 7)).integers(0, 2**32, size=32, dtype=np.uint32)
    assert (halves == words >> np.uint64(32)).all()


def test_counter_carries_into_its_upper_half():
    state = ChaCha20(KEY)._words.copy()
    state[12] = 2**32 - 1
    block(state)
    assert state[12:14].tolist() == [0, 1]
    assert state.size == SIZE


def test_streams_and_keys_give_different_words():
    stream = seeded_stream(1)
    first = np.random.Generator(ChaCha20(stream(4)))
    generators = first.spawn(2) + first.spawn(1)
    words = np.concatenate([g.bit_generator.random_raw(1000) for g in generators])
    assert np.unique(words).size == 3000
    ones = np.unpackbits(words.view(np.uint8)).sum()
    assert stats.binomtest(int(ones), 3000 * 64).pvalue > 1e-4
    with pytest.raises(ValueError, match="cannot spawn further"):
        generators[0].spawn(1)
    other = KEY.copy()
    other[3] ^= np.uint64(1) << np.uint64(63)
    assert np.unique(np.concatenate([ChaCha20(KEY).random_raw(8), ChaCha20(other).random_raw(8)])).size == 16
