import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from scipy import stats

from ppdinf.noise.primitives import stream as stream
from ppdinf.noise.primitives.stream import bounded, fill_entries, multiply_words, secure_stream, seeded_stream

WORDS = 2**64
RANGES = [
    1,
    2,
    3,
    5,
    6,
    7,
    10,
    363,
    2**32 - 1,
    2**32,
    2**32 + 1,
    10**15 + 37,
    2**63,
    2**63 + 1,
    3 * 2**62,
    WORDS - 1,
]


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
    numbers = [
        0,
        1,
        2**32 - 1,
        2**32,
        WORDS - 1,
        *(int(x) for x in rng.integers(0, WORDS, 40, dtype=np.uint64)),
    ]
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
