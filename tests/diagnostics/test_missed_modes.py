"""A mode that no chain visited is reported; chains that are right are not."""

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest
from posteriors_by_quadrature import POSTERIORS, draws_of, exact, model_of

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning

WRONG = 0.03  # difference of a probability that must be reported


def chains(r):
    return az.from_dict({"posterior": {"r": np.asarray(r).reshape(4, -1)}})


def test_chains_in_one_of_two_modes_are_reported_and_right_ones_are_not():
    name = "two modes of one height"
    model, r = model_of(name), draws_of(name, 4000, 1)
    assert ppd.diagnose(chains(r), model).ok
    with pytest.warns(DiagnosisWarning, match=r"P\(r <= .* importance sampling .* missed a mode"):
        assert not ppd.diagnose(chains(np.random.default_rng(2).choice(r[r > 1], 4000)), model).ok


@pytest.mark.deep
def test_wrong_shares_of_two_modes_are_noticed():
    """Chains that mix between both modes, but spend too little time in the left one."""
    name = "two modes of one height"
    model, r, rng = model_of(name), draws_of(name, 4000, 3), np.random.default_rng(4)
    left = rng.random(4000) < 1 - exact(name)[1][0] - 0.12
    wrong = np.where(left, rng.choice(r[r <= 1], 4000), rng.choice(r[r > 1], 4000))
    with pytest.warns(DiagnosisWarning, match="importance sampling"):
        ppd.diagnose(chains(wrong), model)


@pytest.mark.deep
@pytest.mark.parametrize("name", POSTERIORS)
def test_nuts_is_right_or_reported(name):
    with model_of(name) as model:
        idata = pm.sample(1000, tune=1000, chains=4, cores=2, random_seed=1, progressbar=False, quiet=True)
    r = idata.posterior["r"].values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosisWarning)
        found = ppd.diagnose(idata, model)
    wrong = max(abs(np.mean(r > t) - p) for t, p in zip(POSTERIORS[name][3], exact(name)[1], strict=True))
    assert wrong < WRONG or not found.ok


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in POSTERIORS if name != "waves"])
def test_right_draws_are_never_reported(name):
    """11 samples with 82 comparisons at 5 standard errors: a false alarm in 2,000 runs."""
    assert ppd.diagnose(chains(draws_of(name, 4000, 10)), model_of(name)).ok
