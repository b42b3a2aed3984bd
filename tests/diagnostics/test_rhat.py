"""The largest of many R-hats: how often good chains pass its limit, and that bad ones do."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.base import array_stats

import ppdinf as ppd
from ppdinf.diagnostics.diagnose import Diagnosis
from ppdinf.diagnostics.problems import ESS
from ppdinf.diagnostics.rhat import limit, shown
from ppdinf.errors import DiagnosisWarning

CHAINS, DRAWS, QUANTITIES = 4, 200, 300
# independent draws, as many as leave R-hat of one quantity above 1.01 in about one posterior of fifty


def largest(rng, shift=0.0):
    draws = rng.normal(size=(CHAINS, DRAWS, QUANTITIES))
    draws[0, :, 0] += shift
    return array_stats.rhat(draws, chain_axis=0, draw_axis=1).max()


@pytest.mark.deep
def test_the_limit_holds_for_the_largest_of_many_where_that_of_one_does_not():
    """R-hat is the larger of two (ranks, folded ranks), so that at most one posterior in ten passes the limit."""
    rng = np.random.default_rng(4)
    found = np.array([largest(rng) for _ in range(30)])
    assert np.sum(found > limit(QUANTITIES, CHAINS)) <= 11  # Binomial(30, 1/10) exceeds it with probability 1e-5
    assert np.mean(found > limit(1, CHAINS)) > 0.8  # the limit of one fails nearly all


def test_one_chain_apart_in_one_quantity_of_many_is_seen():
    rng = np.random.default_rng(5)
    assert all(largest(rng, shift=1.0) > limit(QUANTITIES, CHAINS) for _ in range(10))


def test_what_the_limit_of_a_thousand_lets_pass_has_too_few_effective_draws():
    """One chain off by half a standard deviation: of forty, some pass the limit, none the two checks together."""
    rng = np.random.default_rng(6)
    draws = rng.normal(size=(4, 1000, 40))
    draws[0] += 0.5
    passes = array_stats.rhat(draws, chain_axis=0, draw_axis=1) <= limit(1000)
    enough = np.array([array_stats.ess(draws[..., k], method="bulk") >= ESS for k in range(40)])
    assert passes.any()
    assert (passes & enough).sum() <= 3  # expected 0.4 of 40: four or more have probability 1e-3


def test_one_quantity_has_the_usual_limit():
    assert limit(1, 2) == limit(1, 8) == pytest.approx(1.01)
    assert limit(0) == pytest.approx(1.01)


@pytest.mark.parametrize("value", [1.0100001, 1.01049, 1.2, 3.0])
def test_what_is_over_a_limit_reads_as_over_it(value):
    said, _, most = shown(value, 1.01).partition(" (over ")
    assert float(said) > float(most.rstrip(")"))


def frame(r_hat, names="abc"):
    return pd.DataFrame({"r_hat": r_hat, "ess_bulk": 900.0}, index=list(names)[: len(r_hat)])


def test_what_is_chance_is_called_so():
    said = str(Diagnosis(pd.DataFrame(), frame([1.011, 1.0, 1.0]), []))
    assert "Largest R-hat 1.011 (of 3; up to 1.012 is chance)" in said
    assert "(" not in str(Diagnosis(pd.DataFrame(), frame([1.003, 1.0, 1.0]), [])).splitlines()[0]


def constant_chains():
    """Four chains, each stuck on a value of its own, as a step that never moves leaves them."""
    import pymc as pm

    with pm.Model() as model:
        pm.Normal("mu")
        pm.Normal("tau")
    rng = np.random.default_rng(1)
    draws = {
        "mu": (("chain", "draw"), np.arange(4.0)[:, None] + np.zeros((4, 500))),
        "tau": (("chain", "draw"), rng.normal(size=(4, 500))),
    }
    return model, xr.DataTree.from_dict({"posterior": xr.Dataset(draws)})


def test_constant_chains_are_worded_without_numbers_that_mean_nothing():
    model, idata = constant_chains()
    with pytest.warns(DiagnosisWarning):
        said = str(ppd.diagnose(idata, model))
    assert "do not overlap at all for mu: each stays where it started" in said
    assert "Longer chains will not mend that" in said
    assert "Largest R-hat over 100" in said
    assert not any(len(word) > 12 and word.strip(".").replace(".", "").isdigit() for word in said.split())


def test_the_figure_of_constant_chains_does_not_say_that_they_agree():
    model, idata = constant_chains()
    from ppdinf.plots import plot_chains

    title = plot_chains(idata, ["mu", "tau"]).get_suptitle()
    assert title == "The chains do not agree (largest R-hat over 100)"
    del model
