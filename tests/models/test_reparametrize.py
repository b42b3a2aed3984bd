"""An intercept parametrized by the expected total: the same density, and the prior is recovered."""

import numpy as np
import pymc as pm
import pytest

from ppdinf.errors import ModelError
from ppdinf.models.reparametrize import intercept_given_total

LOG_SIZE = np.log([2.0, 5.0, 30.0])
COUNTS = np.array([3, 4, 40])


def plain():
    with pm.Model() as model:
        mu, effect = pm.Normal("mu", -1, 2), pm.Normal("effect", 0, 0.7, shape=3)
        pm.Poisson("x", pm.math.exp(mu + effect + LOG_SIZE), observed=COUNTS)
    return model


def by_level():
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 0.7, shape=3)
        mu = intercept_given_total("mu", pm.Normal.dist(-1, 2), effect + LOG_SIZE, total=COUNTS.sum())
        pm.Poisson("x", pm.math.exp(mu + effect + LOG_SIZE), observed=COUNTS)
    return model


def test_density_is_that_of_the_plain_model():
    one, other, rng = plain().compile_logp(), by_level().compile_logp(), np.random.default_rng(1)
    for _ in range(5):
        mu, effect = rng.normal(0, 1), rng.normal(0, 1, 3)
        level = (mu + np.log(np.exp(effect + LOG_SIZE).sum()) - np.log(47)) * np.sqrt(47)
        expected = one({"mu": mu, "effect": effect})
        assert other({"mu_level": level, "effect": effect}) == pytest.approx(expected, abs=1e-10)
        assert abs(other({"mu_level": mu, "effect": effect}) - expected) > 1e-3  # the level used as the intercept


def test_a_total_of_zero_is_refused():
    with pm.Model(), pytest.raises(ModelError, match="the total of 'mu' must be positive"):
        intercept_given_total("mu", pm.Normal.dist(), np.zeros(2), total=0)
