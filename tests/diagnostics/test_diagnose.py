"""Diagnostics must fail where PyMC and ArviZ report nothing."""

import importlib
import warnings

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from arviz_base import rcParams
from arviz_stats.base import array_stats
from posteriors_by_quadrature import POSTERIORS, draws_of, exact, model_of

import ppdinf as ppd
from ppdinf._internal.pymc_compat import Apply, Op
from ppdinf.diagnostics import acceptance_by_cell
from ppdinf.diagnostics.convergence import convergence, format_rhat, limit
from ppdinf.diagnostics.diagnose import Diagnosis
from ppdinf.diagnostics.problems import ESS, _by_chance
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.plots import plot_chains
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1, "random_seed": 2}


class FrozenGibbs(LatticeGibbs):
    """A step that never moves, like a sampler without feasible proposals."""

    name = "frozen_gibbs"

    def step(self, point):
        return point, [{"moved": 0, "at_edge": 0}]


def model_and_draws(step=None, chains=4, draws=600, y=(3, 1, 2, 5), **kwargs):
    release = ppd.Release(np.array(y), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 1)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=False)
        steps = [step([x])] if step else None
        return model, pm.sample(draws, tune=300, chains=chains, step=steps, **QUIET, **kwargs)


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_a_healthy_posterior_has_no_problems():
    model, idata = model_and_draws()
    diagnosis = ppd.diagnose(idata, model)
    assert diagnosis.ok
    assert "No problem found." in str(diagnosis)
    assert len(diagnosis.cells) == 4


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_a_frozen_table_is_reported_though_rhat_of_the_rate_is_acceptable():
    model, idata = model_and_draws(FrozenGibbs)
    with pytest.warns(DiagnosisWarning, match="'x' never moved"):
        diagnosis = ppd.diagnose(idata, model)
    assert not diagnosis.ok
    assert diagnosis.parameters["r_hat"].max() < 1.01


@pytest.mark.quick_cases(0)
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_constant_cells_are_reported_if_the_posterior_moves_them():
    """Counts of cells with a rate of 1e-9 are 0 in every draw of a chain that mixes: more draws would not help."""
    release = ppd.Release(np.array([1, 0, 3, 5]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rates = pm.math.stack([1e-9, 1.0, 1.0, 1.0]) * pm.Gamma("rate", 2, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rates), release=release, marginalize=False)
        idata = pm.sample(100, tune=20, chains=2, **QUIET)
    x = idata.posterior["x"]
    assert x[..., 0].max() == 0
    found = ppd.diagnose(idata, model)
    assert not found.cells["fixed"].any()
    assert not [problem for problem in found.problems if "constant" in problem]
    x[..., 3] += x[..., 1]
    x[..., 1] = 0
    assert "1 free cells of 'x' are constant (x[1])" in " ".join(ppd.diagnose(idata, model).problems)


def test_cells_that_are_constant_in_one_chain():
    """4 excursions may all be in other chains; 100 may not, and values that differ between chains are a fault."""
    changes = pd.Series([8, 200, 0])
    assert _by_chance(changes, 4).tolist() == [True, False, False]


@pytest.mark.quick_cases(0)
def test_a_hard_constraint_frozen_under_metropolis_is_reported():
    with pm.Model() as model:
        x = pm.Poisson("x", 2.0, shape=3, initval=[3, 1, 2])
        pm.Potential("total", pm.math.switch(pm.math.eq(x.sum(), 6), 0.0, -np.inf))
        idata = pm.sample(300, tune=100, chains=2, **QUIET)
    with pytest.warns(DiagnosisWarning, match="'x' never moved"):
        assert not ppd.diagnose(idata, model).ok


@pytest.mark.quick_cases(0)
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_one_chain_short_runs_and_foreign_draws_are_reported():
    model, idata = model_and_draws(chains=1, draws=50)
    problems = " ".join(ppd.diagnose(idata, model).problems)
    assert "one chain" in problems
    assert "sampled instead" not in problems
    with model:
        pm.Deterministic("share", model["x"] / model["x"].sum())
    reason = "before using intervals. 'x' is sampled instead of marginalized, because of 'share'."
    assert reason in " ".join(ppd.diagnose(idata, model).problems)
    idata.posterior["x"][:] = idata.posterior["x"] + 1
    assert "violate a public sum" in " ".join(ppd.diagnose(idata, model).problems)


@pytest.mark.parametrize(("diverged", "said"), [(0, False), (1, False), (4, False), (5, True)])
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_one_divergent_transition_in_a_thousand_draws_is_no_problem_but_is_shown(diverged, said):
    with pm.Model() as model:
        pm.Normal("a", 0, 1, shape=6)
    draws = np.random.default_rng(3).normal(size=(4, 1000, 6))
    flags = np.arange(4000).reshape(4, 1000) < diverged
    posterior = xr.Dataset({"a": (("chain", "draw", "a_dim_0"), draws)})
    idata = xr.DataTree.from_dict(
        {"posterior": posterior, "sample_stats": xr.Dataset({"diverging": (("chain", "draw"), flags)})}
    )
    diagnosis = ppd.diagnose(idata, model)
    assert diagnosis.problems == [problem for problem in diagnosis.problems if "5 transitions diverged" in problem]
    assert diagnosis.ok != said
    assert (f"Divergent transitions: {diverged}." in str(diagnosis)) == (diverged > 0)


@pytest.mark.quick_cases(0)
@pytest.mark.filterwarnings("ignore::ppdinf.errors.DiagnosisWarning")
def test_a_model_that_contradicts_the_release_reaches_the_edge_of_its_windows():
    release = ppd.Release(np.array([5000, 5000]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=2))
    with pm.Model(coords=release.coords) as model:
        log_level = pm.Flat("log_level")  # without prior draws for the windows
        pm.Normal("known", log_level, 0.01, observed=0.0)
        expected = [20_000.0, 1.0] * pm.math.exp(log_level)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(expected), release=release, marginalize=False)
        idata = pm.sample(200, tune=10, chains=2, **QUIET)
    assert "exceeds the truncation windows" in " ".join(ppd.diagnose(idata, model).problems)


@pytest.mark.quick_cases(0)
def test_idata_of_another_model_is_refused():
    _, idata = model_and_draws(chains=1, draws=10)
    with pm.Model() as other:
        pm.Normal("something_else")
    with pytest.raises(ModelError, match="none of the model's variables"):
        ppd.diagnose(idata, other)


def test_movement_counts_changes_and_values():
    values = np.array([[[1, 5], [2, 5], [2, 5]], [[1, 6], [1, 6], [3, 6]]])
    found = acceptance_by_cell(xr.DataArray(values, dims=("chain", "draw", "county")))
    index = pd.Index([0, 1], name="county")
    expected = pd.DataFrame({"moved": [0.5, 0.0], "changes": [2, 0], "distinct": [3, 2]}, index=index)
    pd.testing.assert_frame_equal(found, expected)


def test_rows_are_named_after_their_own_cells_where_a_rate_has_a_dimension_of_the_table():
    rng = np.random.default_rng(3)
    table = rng.integers(0, 5, size=(4, 200, 2, 3))
    table[..., 1] = 7
    apart = table.astype(float) + np.arange(4)[:, None, None, None] * (np.arange(6).reshape(2, 3) == 3)
    posterior = xr.Dataset(
        {"x": (("chain", "draw", "sex", "age"), apart), "rate": (("chain", "draw", "age"), table[:, :, 0])}
    )
    found = convergence(posterior["x"])
    assert found.index[found["r_hat"].isna()].tolist() == ["x[0, 1]", "x[1, 1]"]
    assert found["r_hat"].idxmax() == "x[1, 0]"


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("length", [4, 5, 6, 50, 101])
def test_statistics_are_those_of_arviz(chains, length, monkeypatch):
    """Numbers of every dependence, whole numbers, two values and constants. Wrong: chains that are not split."""
    draws = np.random.default_rng(length).normal(size=(chains, length, 24))
    for t in range(1, length):
        draws[:, t] += np.linspace(-0.95, 0.99, 24) * draws[:, t - 1]
    draws[..., ::3] = np.rint(draws[..., ::3])
    draws[..., 1::6] = draws[..., 1::6] > 1
    upper = rcParams["stats.ci_prob"]
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = [
            [array_stats.ess(own, method="bulk"), array_stats.ess(own, method="tail", prob=(1 - upper, upper)),
             array_stats.rhat(own) if chains > 1 else np.nan]
            for own in np.moveaxis(draws, 2, 0)
        ]  # fmt: skip
    labelled = xr.DataArray(draws, dims=("chain", "draw", "k"), name="v")
    np.testing.assert_allclose(convergence(labelled), expected, rtol=1e-9)
    module = importlib.import_module("ppdinf.diagnostics.convergence")
    monkeypatch.setattr(module, "TOGETHER", 5 * chains * length)
    np.testing.assert_allclose(convergence(labelled), expected, rtol=1e-9)
    monkeypatch.setattr(module, "_halves", lambda values: np.concatenate([values, values], axis=1).astype(float))
    assert not np.allclose(convergence(labelled), expected, rtol=1e-3, equal_nan=True)


@pytest.mark.parametrize("length", [3, 4])
def test_elements_without_statistics(length):
    """nan for a draw that is not finite, for fewer than four draws, and for the R-hat of one chain or of a constant."""
    draws = np.random.default_rng(1).normal(size=(2, length, 3))
    draws[0, 0, 1], draws[..., 2] = np.nan, 7
    both = convergence(xr.DataArray(draws, dims=("chain", "draw", "k"), name="v"))
    one = convergence(xr.DataArray(draws[:1], dims=("chain", "draw", "k"), name="v"))
    known = [length > 3, False, length > 3]
    assert both["ess_bulk"].notna().tolist() == both["ess_tail"].notna().tolist() == known
    assert both["r_hat"].notna().tolist() == [length > 3, False, False]
    assert one["r_hat"].isna().all()
    assert one["ess_bulk"].notna().tolist() == known


@pytest.mark.deep
def test_a_table_with_an_empty_column_and_a_rate_for_each_column_has_no_problems():
    margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    release = ppd.Release(np.array([[8, 3, 0], [5, 9, 0], [2, 7, 0]]), ppd.GeneralizedLaplace(margins, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 0.5, dims="dim_1")
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
        idata = pm.sample(600, tune=300, chains=4, **QUIET)
    diagnosis = ppd.diagnose(idata, model)
    assert diagnosis.ok
    assert diagnosis.cells.index[diagnosis.cells["fixed"]].tolist() == ["x[0, 2]", "x[1, 2]", "x[2, 2]"]
    assert (diagnosis.cells["r_hat"].isna() == diagnosis.cells["fixed"]).all()


def tail_probability(share, length, rng, cells=20):
    """Return chains of cells that are 1 in a share of their draws, in runs of a mean length, and otherwise 0."""
    values = np.zeros((4, 1000, cells))
    values[:, 0] = rng.random((4, cells)) < share
    for t in range(1, 1000):
        stays = rng.random((4, cells)) >= 1 / length
        begins = rng.random((4, cells)) < share / (1 - share) / length
        values[:, t] = np.where(values[:, t - 1] == 1, stays, begins)
    return convergence(xr.DataArray(values, dims=("chain", "draw", "cell"), name="x"))


def test_cells_that_are_nearly_always_0_pass_with_short_runs_and_fail_with_long_runs():
    rng = np.random.default_rng(7)
    quick, slow = tail_probability(0.01, 1.5, rng), tail_probability(0.05, 60, rng)
    assert (quick["ess_bulk"] > 400).all()
    assert (quick["r_hat"] < limit(20)).all()
    assert ((slow["ess_bulk"] < 400) | (slow["r_hat"] > limit(20))).mean() > 0.8


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
    title = plot_chains(idata, ["mu", "tau"]).get_suptitle()
    assert title == "The chains do not agree (largest R-hat above 100)"


def test_counts_under_a_public_sum_of_0_are_not_stuck():
    public = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    noisy = np.array([[2, -1, 3], [1, 1, 2]])  # the second column sums to 0
    release = ppd.Release(noisy, ppd.GeneralizedLaplace(public, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0, shape=(2, 3)), release=release, marginalize=False)
        idata = pm.sample(400, tune=50, chains=4, **QUIET | {"random_seed": 1})
    assert ppd.diagnose(idata, model).cells["fixed"].tolist() == [False, True, False] * 2


WRONG = 0.03  # difference of a probability that must be reported


def chains(r):
    return az.from_dict({"posterior": {"r": np.asarray(r).reshape(4, -1)}})


@pytest.mark.quick_cases(0)
def test_chains_in_one_of_two_modes_are_reported_and_right_ones_are_not():
    name = "two modes of one height"
    model, r = model_of(name), draws_of(name, 4000, 1)
    assert ppd.diagnose(chains(r), model).ok
    with pytest.warns(DiagnosisWarning, match=r"P\(r <= .* importance sampling .* missed a mode"):
        assert not ppd.diagnose(chains(np.random.default_rng(2).choice(r[r > 1], 4000)), model).ok


def area_draws(shift=0.0):
    """Return a posterior of two areas with means 0 and 4, and independent draws of it."""
    with pm.Model(coords={"area": ["u", "v"], "sex": ["f"]}) as model:
        prior = pm.Normal("level", [[0.0], [5.0]], [[1.0], [2.0]], dims=("area", "sex"))
        pm.Normal("seen", prior, 1, observed=[[0.0], [3.75]])
    mean, sd = np.array([0.0, 4.0 + shift]), np.sqrt([0.5, 0.8])
    level = np.random.default_rng(5).normal(mean, sd, (4, 1000, 2))[..., None]
    dims, coords = {"level": ["area", "sex"]}, {"area": ["u", "v"], "sex": ["f"]}
    return model, az.from_dict({"posterior": {"level": level}}, dims=dims, coords=coords).posterior.to_dataset()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("change", [
    lambda draws: draws, lambda draws: draws.isel(area=[1, 0]),
    lambda draws: draws.transpose("sex", "draw", "area", "chain"),
    lambda draws: draws.isel(area=[1]),  # not compared
    lambda draws: draws.assign_coords(area=["u", "w"]),  # not compared
])  # fmt: skip
def test_elements_are_compared_by_their_labels(change):
    model, draws = area_draws()
    assert ppd.diagnose(xr.DataTree.from_dict({"posterior": change(draws)}), model).ok


def test_the_element_that_differs_is_named_by_its_label():
    model, draws = area_draws(shift=1.0)
    with pytest.warns(DiagnosisWarning, match=r"P\(level\[v, f\] <= "):
        ppd.diagnose(xr.DataTree.from_dict({"posterior": draws.isel(area=[1, 0])}), model)


class Density(Op):
    """A density without gradient."""

    def make_node(self, x):
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.array(-((inputs[0] - 1.0) ** 2) / 2)


def test_a_density_without_gradient_is_not_compared():
    with pm.Model() as model:
        pm.Potential("seen", Density()(pm.Normal("r", 0, 1)))
    assert ppd.diagnose(chains(np.random.default_rng(6).normal(0.5, np.sqrt(0.5), 4000)), model).ok


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
