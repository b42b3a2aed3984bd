"""Conditional distributions of tables at posterior draws: each draw has its own, in any evaluation order."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import ModelError
from ppdinf.models import posterior_tables


def model_of_two():
    release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        level, slope = pm.Normal("level"), pm.Normal("slope", shape=2)
        rate = pm.math.exp(level + slope[0] * np.array([-1, 0, 1]) + slope[1] * np.array([1, -2, 1]))
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    return model


def differ(model, chain):
    """Return whether a draw has another distribution when all draws are evaluated in turn."""
    (table,) = tables_of(model)
    posterior = xr.Dataset(
        {"level": (("chain", "draw"), [[row[0] for row in chain]]),
         "slope": (("chain", "draw", "k"), [[row[1:] for row in chain]])}
    )  # fmt: skip
    in_turn = posterior_tables.law_of_draws(table, posterior, model)[1]
    together = np.array([in_turn((0, k)) for k in range(len(chain))])
    alone = np.array(
        [posterior_tables.law_of_draws(table, posterior.isel(draw=[k]), model)[1]((0, 0)) for k in range(len(chain))]
    )
    return (together != alone).any()


STAYS = [
    (0.1, 0.2, 0.3), (0.1, 0.2, 0.3), (0.1, 0.2, 0.4), (0.1, 0.5, 0.4), (0.7, 0.5, 0.4), (0.1, 0.2, 0.3)
]  # fmt: skip


def test_repeated_draws_reuse_the_distribution_and_others_do_not(monkeypatch):
    """A chain that repeats draws and moves one number at a time; comparing only the first parameter is detected."""
    model = model_of_two()
    assert not differ(model, STAYS)
    monkeypatch.setattr(posterior_tables, "map", lambda f, one, two: [f(one[0], two[0])], raising=False)
    assert differ(model, STAYS)


def test_missing_draws_are_named():
    release = ppd.Release(np.array([3, 1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 1, shape=3)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate * pm.HalfNormal("scale", 1)), release=release)
    draws = xr.Dataset({"scale": (("chain", "draw"), np.random.default_rng(1).gamma(2, size=(4, 500)))})
    idata = xr.DataTree.from_dict({"posterior": draws})
    with pytest.raises(ModelError, match="no draws of 'rate', on which the law of the table depends: keep them"):
        ppd.sample_confidential(idata, model, random_seed=1)
    with pytest.warns(
        ppd.errors.DiagnosisWarning, match="windows of 'x' cannot be checked against the posterior: the posterior"
    ):
        ppd.diagnose(idata, model)
