"""Real-valued draws by inversion: laws, extent of the tails, symmetry; words from a key."""

import numpy as np
import pytest
from scipy import stats

from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.continuous import exponentials, laplaces, normals
from ppdinf.noise.primitives.stream import BLOCK, keyed_stream, seeded_stream

LAWS = [(normals, stats.norm), (laplaces, stats.laplace), (exponentials, stats.expon)]
KEY = bytes(range(32))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("sampler", "law"), LAWS)
def test_draws_follow_their_law(sampler, law):
    draws = sampler(seeded_stream(5), 200_000)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-6
    assert stats.kstest(1.05 * draws, law.cdf).pvalue < 1e-6


def words(*values):
    return lambda n: np.array(values, dtype=np.uint64)[:n]


def test_extreme_words_reach_the_last_bit_of_the_tails():
    ends = words(0, 2**63 - 1, 2**63, 2**64 - 1)
    for sampler, law, tail in ((normals, stats.norm, 2.0**-65), (laplaces, stats.laplace, 2.0**-65)):
        low, middle, high, other = sampler(ends, 4)
        assert law.sf(abs(low)) == pytest.approx(tail, rel=1e-9)
        assert low == -high
        assert abs(middle) + abs(other) < 1e-15
    assert exponentials(ends, 4)[0] == pytest.approx(65 * np.log(2), rel=1e-12)


def test_every_draw_reads_one_word():
    stream = seeded_stream(1)
    whole = normals(seeded_stream(1), 6)
    assert np.array_equal(np.concatenate([normals(stream, 2), normals(stream, 4)]), whole)


def test_keyed_words_depend_on_key_occasion_and_position():
    n = 2 * BLOCK + 5
    whole = keyed_stream(KEY, "May")(n)
    stream = keyed_stream(KEY, "May")
    assert np.array_equal(np.concatenate([stream(0), stream(3), stream(BLOCK), stream(n - BLOCK - 3)]), whole)
    for other in (keyed_stream(KEY, "June"), keyed_stream(KEY[::-1], "May"), keyed_stream(KEY + b"M", "ay")):
        assert not np.any(other(n) == whole)
    bits = np.unpackbits(whole.view(np.uint8))
    assert stats.binomtest(int(bits.sum()), bits.size).pvalue > 1e-6


@pytest.mark.parametrize(
    ("key", "occasion", "message"),
    [
        (b"short", "May", "at least 32 secret bytes"),
        ("x" * 32, "May", "at least 32 secret bytes"),
        (KEY, "", "names this release uniquely"),
        (KEY, 5, "names this release uniquely"),
    ],
)
def test_invalid_keys_and_occasions_raise(key, occasion, message):
    with pytest.raises(PrivacyError, match=message):
        keyed_stream(key, occasion)
