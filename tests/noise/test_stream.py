"""Random words: bounded integers, secure, seeded and keyed streams, and the ChaCha20 generator."""

import subprocess
import sys

import numba
import numpy as np
import pytest
from numba import njit
from scipy import stats

from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives import stream as stream
from ppdinf.noise.primitives.chacha import SIZE, ChaCha20, block
from ppdinf.noise.primitives.stream import (
    BLOCK,
    bounded,
    fill_entries,
    keyed_stream,
    multiply_words,
    secure_stream,
    seeded_stream,
)

WORDS = 2**64

RANGES = [1, 2, 3, 5, 6, 7, 10, 363, 2**32 - 1, 2**32, 2**32 + 1, 10**15 + 37, 2**63, 2**63 + 1, 3 * 2**62, WORDS - 1]


@njit
def place(words, position, n, out):
    """Write bounded integers: the simplest kernel for `fill`."""
    for word in words:
        value, accepted = bounded(word, n)
        if accepted:
            out[position] = value
            position += 1
    return position


def decide(word, n):
    value, accepted = bounded(np.uint64(word), np.uint64(n))
    return int(value), bool(accepted)


def test_multiply_is_the_128_bit_product():
    rng = np.random.default_rng(1)
    numbers = [0, 1, 2**32 - 1, 2**32, WORDS - 1, *(int(x) for x in rng.integers(0, WORDS, 40, dtype=np.uint64))]
    for a in numbers:
        for b in numbers:
            high, low = multiply_words(np.uint64(a), np.uint64(b))
            assert (int(high) << 64) + int(low) == a * b


@pytest.mark.parametrize("n", RANGES)
def test_every_value_has_the_same_number_of_words(n):
    # The value grows with the word, so the words of v are those from first to last. Of the words of v, only
    # the first can be rejected: the fraction increases by n with each word.
    values = {0, 1, 2, n // 3, n // 2, n - 2, n - 1} & set(range(n)) if n < 10 else {0, 1, n // 3, n // 2, n - 1}
    for v in values:
        first, last = -(-v * WORDS // n), -(-(v + 1) * WORDS // n) - 1
        value, accepted = decide(first, n)
        assert value == v
        assert last - first + accepted == WORDS // n
        for word in {min(first + 1, last), (first + last + 1) // 2, last} - {first}:
            assert decide(word, n) == (v, True)


@pytest.mark.parametrize("n", [3, 363, 3 * 2**62])
def test_counting_words_detects_a_missing_rejection(n):
    counts = {-(-(v + 1) * WORDS // n) - -(-v * WORDS // n) for v in (0, 1, n // 2, n - 1)}
    assert counts != {WORDS // n}


def test_bounded_integers_are_uniform_and_remainders_are_not():
    n, size = 3 * 2**62, 30_000
    out = np.empty(size, dtype=np.uint64)
    fill_entries(place, seeded_stream(5), size, np.uint64(n), out)
    third = np.uint64(2**62)
    assert stats.chisquare(np.bincount((out // third).astype(int), minlength=3)).pvalue > 1e-6
    wrong = seeded_stream(5)(size) % np.uint64(n)
    assert stats.chisquare(np.bincount((wrong // third).astype(int), minlength=3)).pvalue < 1e-6


@pytest.mark.parametrize("row", [1, 7, 1000])
def test_results_do_not_depend_on_the_size_of_reads(monkeypatch, row):
    def outcome():
        out = np.empty(500, dtype=np.uint64)
        fill_entries(place, seeded_stream(2), len(out), np.uint64(3 * 2**62), out)
        return out

    whole = outcome()
    monkeypatch.setattr(stream, "ROW", row)
    np.testing.assert_array_equal(outcome(), whole)


def test_fill_reads_every_word_once():
    read = []
    words = seeded_stream(3)

    def counting(n):
        read.append(n)
        return words(n)

    out = np.empty(1000, dtype=np.uint64)
    fill_entries(place, counting, len(out), np.uint64(3 * 2**62), out)
    assert sum(read) == np.flatnonzero(seeded_stream(3)(2000) * np.uint64(3 * 2**62) >= 2**62)[999] + 1


def test_seeded_streams_are_reproducible_and_advance_the_generator():
    rng = np.random.default_rng(4)
    first = seeded_stream(rng)(10)
    np.testing.assert_array_equal(first, seeded_stream(4)(10))
    assert not np.array_equal(first, seeded_stream(rng)(10))
    assert first.dtype == np.uint64


def test_secure_streams_return_new_writable_words():
    words = secure_stream()(2000)
    assert words.dtype == np.uint64
    assert words.flags.writeable
    assert len(np.unique(words)) == 2000
    ones = np.unpackbits(words.view(np.uint8)).sum()
    assert stats.binomtest(int(ones), 128_000).pvalue > 1e-9


@pytest.mark.quick_cases(0)
def test_a_forked_process_reads_different_words():
    code = """
import os
from ppdinf.noise.primitives.stream import secure_stream
take = secure_stream()
take(3)
if os.fork():
    os.wait()  # one process writes at a time
print(*take(2), flush=True)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert len(set(out.split())) == 4


# -- words from a key ------------------------------------------------------------------------------------


KEY = bytes(range(32))


def test_keyed_words_depend_on_key_occasion_and_position():
    n = 2 * BLOCK + 5
    whole = keyed_stream(KEY, "May")(n)
    stream = keyed_stream(KEY, "May")
    assert np.array_equal(np.concatenate([stream(0), stream(3), stream(BLOCK), stream(n - BLOCK - 3)]), whole)
    for other in (keyed_stream(KEY, "June"), keyed_stream(KEY[::-1], "May"), keyed_stream(KEY + b"M", "ay")):
        assert not np.any(other(n) == whole)
    bits = np.unpackbits(whole.view(np.uint8))
    assert stats.binomtest(int(bits.sum()), bits.size).pvalue > 1e-6


@pytest.mark.parametrize(("key", "occasion", "message"), [
    (b"short", "May", "at least 32 secret bytes"),
    ("x" * 32, "May", "at least 32 secret bytes"),
    (KEY, "", "names this release uniquely"), (KEY, 5, "names this release uniquely"),
])  # fmt: skip
def test_invalid_keys_and_occasions_raise(key, occasion, message):
    with pytest.raises(PrivacyError, match=message):
        keyed_stream(key, occasion)


# -- ChaCha20 --------------------------------------------------------------------------------------------


CIPHER_KEY = np.frombuffer(KEY, dtype="<u8")
NONCE = bytes.fromhex("000000090000004a00000000")


# RFC 8439, section 2.3.2, block 1
PUBLISHED = bytes.fromhex(
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)


@pytest.mark.quick_cases(0)
def test_the_block_of_the_standard():
    generator = ChaCha20(CIPHER_KEY)
    state = generator._words.copy()
    state[12] = 1
    state[13:16] = np.frombuffer(NONCE, dtype="<u4")
    block(state)
    assert state[16:32].astype("<u4").tobytes() == PUBLISHED
    assert state[12] == 2


def reference(key, stream, blocks):
    """Return the words of a stream, computed with Python integers."""

    def quarter(s, a, b, c, d):
        for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & 0xFFFFFFFF
            mixed = s[z] ^ s[x]
            s[z] = (mixed << n | mixed >> (32 - n)) & 0xFFFFFFFF

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
    words = reference(CIPHER_KEY, 7, 4)
    assert (ChaCha20(CIPHER_KEY, 7).random_raw(32) == words).all()
    doubles = (words >> np.uint64(11)) * 2.0**-53
    assert (np.random.Generator(ChaCha20(CIPHER_KEY, 7)).random(32) == doubles).all()
    generator = np.random.Generator(ChaCha20(CIPHER_KEY, 7))
    assert (compiled(generator, 9) == doubles[:9]).all()
    assert (generator.random(23) == doubles[9:]).all()  # in place
    halves = np.random.Generator(ChaCha20(CIPHER_KEY, 7)).integers(0, 2**32, size=32, dtype=np.uint32)
    assert (halves == words >> np.uint64(32)).all()


def test_counter_carries_into_its_upper_half():
    state = ChaCha20(CIPHER_KEY)._words.copy()
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
    other = CIPHER_KEY.copy()
    other[3] ^= np.uint64(1) << np.uint64(63)
    assert np.unique(np.concatenate([ChaCha20(CIPHER_KEY).random_raw(8), ChaCha20(other).random_raw(8)])).size == 16
