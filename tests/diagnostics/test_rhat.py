"""The largest of many R-hats: frequency at which good chains exceed its limit, and that bad chains exceed it."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats.base import array_stats

import ppdinf as ppd
from ppdinf.diagnostics.convergence import format_rhat, limit
from ppdinf.diagnostics.diagnose import Diagnosis
from ppdinf.diagnostics.problems import ESS
from ppdinf.errors import DiagnosisWarning

CHAINS, DRAWS, QUANTITIES = 4, 200, 300
# independent draws, for which R-hat of one quantity exceeds 1.01 in about one posterior of fifty


def largest(rng, shift=0.0):
    draws = rng.normal(size=(CHAINS, DRAWS, QUANTITIES))
    draws[0, :, 0] += shift
    return array_stats.rhat(draws, chain_axis=0, draw_axis=1).max()


@pytest.mark.deep
def test_the_limit_holds_for_the_largest_of_many_where_the_limit_of_one_does_not():
    """R-hat is the larger of two (ranks, folded ranks), so that at most one posterior in ten exceeds the limit."""
    rng = np.random.default_rng(4)
    found = np.array([largest(rng) for _ in range(30)])
    assert np.sum(found > limit(QUANTITIES, CHAINS)) <= 11  # Binomial(30, 1/10) exceeds it with probability 1e-5
    assert np.mean(found > limit(1, CHAINS)) > 0.8  # the limit of one rejects nearly all


def test_one_shifted_chain_in_one_quantity_of_many_is_detected():
    rng = np.random.default_rng(5)
    assert all(largest(rng, shift=1.0) > limit(QUANTITIES, CHAINS) for _ in range(3))


def test_posteriors_that_pass_the_limit_of_a_thousand_have_too_few_effective_draws():
    """One chain shifted by half a standard deviation: of forty, some pass the limit, none passes both checks."""
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
def test_an_exceeded_limit_is_displayed_as_exceeded(value):
    said, _, most = format_rhat(value, 1.01).partition(" (above ")
    assert float(said) > float(most.rstrip(")"))


def frame(r_hat, names="abc"):
    return pd.DataFrame({"r_hat": r_hat, "ess_bulk": 900.0}, index=list(names)[: len(r_hat)])


def test_chance_variation_is_reported_as_within_the_limit():
    said = str(Diagnosis(pd.DataFrame(), frame([1.011, 1.0, 1.0]), []))
    assert "Largest R-hat 1.011 (of 3; limit 1.012)" in said
    assert "(" not in str(Diagnosis(pd.DataFrame(), frame([1.003, 1.0, 1.0]), [])).splitlines()[0]


def constant_chains():
    """Return four constant chains with different values, as from a step that never moves."""
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


def test_messages_on_constant_chains_contain_no_meaningless_numbers():
    model, idata = constant_chains()
    with pytest.warns(DiagnosisWarning):
        said = str(ppd.diagnose(idata, model))
    assert "do not overlap for mu: each chain stays near its start" in said
    assert "Longer chains do not help" in said
    assert "Largest R-hat above 100" in said
    assert not any(len(word) > 12 and word.strip(".").replace(".", "").isdigit() for word in said.split())


def test_the_figure_of_constant_chains_does_not_state_agreement():
    model, idata = constant_chains()
    from ppdinf.plots import plot_chains

    title = plot_chains(idata, ["mu", "tau"]).get_suptitle()
    assert title == "The chains do not agree (largest R-hat above 100)"
    del model
