"""Laws of tables given the draws of a posterior: each draw has its own, whichever draw was asked before."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf.distributions.model_graph.dependents import tables_of
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
    """Whether a draw has another law when all are asked in turn than when it is asked alone."""
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


def test_draws_that_repeat_the_one_before_have_its_law_and_no_others(monkeypatch):
    """A chain that stays, and moves in one number at a time; comparing the first of two parameters alone is seen."""
    model = model_of_two()
    assert not differ(model, STAYS)
    monkeypatch.setattr(posterior_tables, "map", lambda f, one, two: [f(one[0], two[0])], raising=False)
    assert differ(model, STAYS)


def test_draws_left_out_are_named():
    release = ppd.Release(np.array([3, 1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 1, shape=3)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate * pm.HalfNormal("scale", 1)), release=release)
    draws = xr.Dataset({"scale": (("chain", "draw"), np.random.default_rng(1).gamma(2, size=(4, 500)))})
    idata = xr.DataTree.from_dict({"posterior": draws})
    with pytest.raises(ModelError, match="no draws of 'rate', on which the law of the table depends: keep them"):
        ppd.sample_confidential(idata, model, random_seed=1)
    with pytest.warns(
        ppd.errors.DiagnosisWarning, match="windows hold the posterior of 'x' is not known: the posterior"
    ):
        ppd.diagnose(idata, model)
