"""The study of log-linear models on small tables, and the figures of noise chains."""

import numpy as np
import pymc as pm
import pytest

import ppdinf as ppd
from case_studies.isdp.noise_chains_figure import plot_noise_boxes, plot_tv_bound
from case_studies.loglinear import run as loglinear
from ppdinf.noise.mcmc.tv_bound import TVBound


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", loglinear.PROBLEMS)
def test_models_depend_on_public_sums_only(name):
    problem = loglinear.PROBLEMS[name]
    table = loglinear.read(problem, None)
    assert table.shape == tuple(problem.sizes.values())
    noisy = problem.mechanism.simulate(table, draws=1, rng=1)[0]
    assert not np.array_equal(noisy, table)
    values = []
    for given in (table, noisy):
        with pm.Model() as model:
            model.register_rv(problem.model(given), "counts", observed=table.values)
        values.append(model.compile_logp()(model.initial_point()))
        assert model["beta"].eval().shape == (len(problem.names(table)),)
    assert values[0] == values[1]


def test_coefficients_are_log_odds_ratios():
    """Of a log-linear model, in the order of the names, at a point where all but one are 0."""
    problem = loglinear.PROBLEMS["autoworkers"]
    table = loglinear.read(problem, None)
    names = problem.names(table)
    for k in (0, 7, 14):
        with pm.Model() as model:
            law = problem.model(table)
        beta = np.eye(15)[k]
        (mean,) = model.replace_rvs_by_values([law.owner.inputs[-1]])
        point = model.initial_point() | {"main": np.zeros(6), "beta": beta}
        means = mean.eval({v: point[v.name] for v in model.value_vars})
        one, other = names[k].split(" and ")
        kept = means.sum(axis=tuple(a for a, dim in enumerate(table.dims) if dim not in (one, other)))
        assert np.log(kept[0, 0] * kept[1, 1] / (kept[0, 1] * kept[1, 0])) == pytest.approx(1)


def test_coverage_of_another_posterior():
    rng = np.random.default_rng(1)
    exact = rng.normal(0, 1, (2, 5000, 2))
    mean, low, high, held, rhat = loglinear.summary(exact + np.array([0, 10]), exact)
    assert mean == pytest.approx([0, 10], abs=0.1)
    assert (high - low) == pytest.approx([3.29, 3.29], abs=0.15)
    assert held == pytest.approx([0.9, 0], abs=0.02)
    assert (rhat < 1.01).all()


def test_counts_taken_as_true_are_possible():
    problem = loglinear.PROBLEMS["admissions"]
    table = loglinear.read(problem, None)
    seen = {}
    noise = ppd.GeneralizedLaplace(ppd.invariants.margin("gender", "dept"), epsilon="1/1000")
    wide = loglinear.Problem(**(vars(problem) | {"mechanism": noise}))
    loglinear.replicate.__globals__["fit"] = lambda problem, data, draws, seed: (
        seen.setdefault(type(data).__name__, data) is None
    )
    loglinear.replicate.__globals__["summary"] = lambda beta, confidential: None
    loglinear.replicate(wide, table, None, 1, np.random.default_rng(1))
    released, counts = seen["Release"].table, seen["DataArray"]
    assert (released < 0).any()
    assert (counts >= 0).all()
    assert counts.sum("admit").equals(table.sum("admit"))


@pytest.fixture
def noise():
    return np.random.default_rng(1).integers(-9, 10, (2, 300, 4))


def test_tv_curves_start_at_one_and_name_pairs_that_did_not_meet(tmp_path):
    met = TVBound(2, 2 + np.random.default_rng(2).geometric(0.1, 200), 1000)
    bounds = {"met": met, "apart": TVBound(2, np.array([5, -1]), 1000)}
    figure = plot_tv_bound(bounds, unit="sweeps")
    figure.savefig(tmp_path / "tv.png")
    axes = figure.axes[0]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["met", "apart, 1 of 2 pairs not met"]
    x, y = axes.lines[0].get_data()
    assert np.array_equal(y, met.estimate(x))


def test_boxes_are_drawn_for_every_cell(noise, tmp_path):
    boxes = plot_noise_boxes(noise, labels=list("abcd"), draws=100)
    boxes.savefig(tmp_path / "boxes.png")
    assert [tick.get_text() for tick in boxes.axes[0].get_xticklabels()] == list("abcd")
