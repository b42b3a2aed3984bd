"""R-hat and effective sample sizes of many numbers equal those of ArviZ, one number at a time."""

import warnings

import arviz as az
import numpy as np
import pytest

from ppdinf.diagnostics import convergence as module
from ppdinf.diagnostics.convergence import chain_statistics

TAIL = (0.11, 0.89)


def numbers(rng, chains, length):
    """Independent, slow, alternating, tied, binary, constant, shifted and unequally spread chains."""
    noise = rng.standard_normal((chains, length))
    slow, alternating = noise.copy(), noise.copy()
    for t in range(1, length):
        slow[:, t] += 0.95 * slow[:, t - 1]
        alternating[:, t] -= 0.8 * alternating[:, t - 1]
    shift = np.arange(chains)[:, None]
    one_chain_constant = np.where(shift == 0, 3.0, noise)
    with_nan = noise.copy()
    with_nan[0, -1] = np.nan
    return np.stack([
        noise, slow, alternating, rng.poisson(0.7, noise.shape), rng.random(noise.shape) < 0.02, np.full_like(noise, 7),
        noise + shift, noise * (1 + shift), one_chain_constant, np.sort(noise, axis=1), with_nan,
    ], axis=2)  # fmt: skip


def by_arviz(draws):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        rows = [(az.ess(x, method="bulk"), az.ess(x, method="tail", prob=TAIL), az.rhat(x) if len(x) > 1 else np.nan)
                for x in np.moveaxis(draws, 2, 0)]  # fmt: skip
    return np.array(rows, float).T


@pytest.mark.parametrize(("chains", "length"), [(1, 4), (1, 9), (2, 5), (2, 6), (3, 7), (2, 51), (4, 100), (2, 1001)])
def test_statistics_are_those_of_arviz(chains, length, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 4 * chains * length)  # blocks of four numbers
    draws = numbers(np.random.default_rng(length), chains, length)
    found, expected = chain_statistics(draws, TAIL), by_arviz(draws)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    shifted = found.copy()
    shifted[0] *= 1 + 1e-6
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(shifted, expected, rtol=1e-10)


def test_too_few_draws():
    assert np.isnan(chain_statistics(np.zeros((2, 3, 4)), TAIL)).all()


def test_no_number_is_finite():
    draws = np.random.default_rng(1).standard_normal((2, 10, 3))
    draws[0, 0] = np.nan
    assert np.isnan(chain_statistics(draws, TAIL)).all()


def test_integers_of_a_table():
    draws = np.random.default_rng(1).poisson(3, (2, 200, 5))
    np.testing.assert_allclose(chain_statistics(draws, TAIL), by_arviz(draws.astype(float)), rtol=1e-10)
