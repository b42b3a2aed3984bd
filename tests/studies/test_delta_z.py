"""Delta_z of tables of cases and deaths, and the study of log-linear models on small tables."""

import itertools
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from integer_programmes import distance_by_programme

import ppdinf as ppd
from case_studies.covid import joint_sensitivity as joint
from case_studies.covid.delta_z_figure import delta_z_surface, plot_delta_z
from case_studies.isdp.noise_chains_figure import plot_noise_boxes, plot_tv_bound
from case_studies.loglinear import run as loglinear
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.noise.mcmc.tv_bound import TVBound
from ppdinf.privacy import delta_z_counts


def laws_by_person(first, others, total, fatality):
    """Laws of the table given the status of person 0, by enumeration of the status of every person."""
    found = {status: {} for status in ("no case", "survived", "died")}
    weight = {"no case": 1.0, "survived": 1 - fatality, "died": fatality}  # a common probability of cases cancels
    for states in itertools.product(found, repeat=1 + first + others):
        if sum(state != "no case" for state in states) != total:
            continue
        here, away = states[: first + 1], states[first + 1 :]
        cells = tuple(
            sum(s in kinds for s in part) for part in (here, away) for kinds in (("survived", "died"), ("died",))
        )
        law = found[states[0]]
        law[cells] = law.get(cells, 0.0) + np.prod([weight[state] for state in states[1:]])
    return {status: {cells: p / sum(law.values()) for cells, p in law.items()} for status, law in found.items()}


@pytest.mark.parametrize("fatality", [Fraction(1, 50), Fraction(9, 10)])
def test_delta_of_cases_and_deaths_is_four_in_l1_and_two_in_l2(fatality):
    state = (1, 2, 2)
    ours, theirs = joint.laws(*state, fatality), laws_by_person(*state, float(fatality))
    for status, law in theirs.items():
        assert {cells: float(p) for cells, p in ours[status].items()} == pytest.approx(law)
    for order, norm, delta in ((1, "l1", 4), (2, "l2", 2)):
        assert distance_by_programme(theirs["died"], theirs["no case"], order) == pytest.approx(delta)
        assert joint.DELTA_Z[norm] == delta
    table = joint.sensitivities()
    assert table.loc["died / no case"].tolist() == pytest.approx([2, 4] * 3)
    assert table.loc["case / no case"].tolist() == pytest.approx([3**0.5, 3, 3**0.5, 3, 2, 4])
    assert table.max().tolist() == table.loc["died / no case"].tolist()


def test_l1_noise_of_rate_one_fourth_loses_more_than_one():
    """The loss of one state by sums over all tables; stated with Delta = 2, the guarantee would be 1."""
    law = joint.laws(1, 5, 3, Fraction(1, 2))
    tables = [np.array([c, a, 3 - c, b]) for c in range(4) for a in range(c + 1) for b in range(4 - c)]
    for order, norm in ((2, "l2"), (1, "l1")):
        given = dict.fromkeys(law, 0.0)
        for status, own in law.items():
            for x, p in own.items():
                weights = np.array([np.exp(-np.linalg.norm(y - np.array(x), ord=order) / 4) for y in tables])
                given[status] = given[status] + float(p) * weights / weights.sum()
        expected = max(np.abs(np.log(given[s] / given[t])).max() for s, t in joint.SECRETS)
        assert joint.loss(law, 3, 1, norm) == pytest.approx(expected)
    lost = joint.losses()["enumerated loss"]
    assert lost.xs("l1", level="loss").between(1.15, 2).all()
    assert (lost.xs("l2", level="loss") < 1).all()


def test_the_mechanism_refuses_a_sensitivity_below_the_distance_of_its_models():
    law = joint.laws(1, 2, 2, Fraction(1, 50))
    pairs = [(law["died"], law["no case"])]
    public = ppd.invariants.linear([[1, 0, 1, 0]]) & ppd.invariants.nonnegative()
    about = {"secrets": "whether one person died", "models": pairs}
    with pytest.raises(PrivacyError, match="at least 4, the l1 distance between the laws"):
        ppd.WassersteinExponential(public, 1, 2, **about)
    bounded = public & ppd.invariants.inequality([[1, -1, 0, 0], [0, 0, 1, -1]], [0, 0])  # deaths are cases
    for delta, norm, within in ((4, "l1", public), (2, "l2", bounded)):
        mechanism = ppd.WassersteinExponential(within, 1, delta, loss=norm, **about)
        assert mechanism.release(np.array([1, 0, 1, 1])).table.values[[0, 2]].sum() == 2
        assert mechanism == ppd.WassersteinExponential(within, 1, delta, "whether one person died", loss=norm)
    with pytest.raises(InvariantError, match="l2 noise needs bounds on every cell"):
        ppd.WassersteinExponential(public, 1, 2, loss="l2", **about).draft(np.array([1, 0, 1, 1]))
    with pytest.raises(PrivacyError, match="at least 2, the l2 distance"):
        ppd.WassersteinExponential(public, 1, "1.99", loss="l2", **about)
    with pytest.raises(PrivacyError, match="pairs is empty"):
        ppd.WassersteinExponential(public, 1, 2, "x", models=[])
    mechanism = ppd.WassersteinExponential(public, 1, 4, **about)
    with pytest.raises(PrivacyError, match=r"a value of `models` is impossible: .*violates the public statement"):
        mechanism.release(np.array([2, 0, 1, 1]))  # three cases, but the models have two
    of_cases = [({(1, 1): 1}, {(0, 2): 1})]
    with pytest.raises(PrivacyError, match=r"tuples of the 4 counts of the table, found \(1, 1\): state"):
        ppd.WassersteinExponential(public, 1, 2, "case", models=of_cases).release(np.array([1, 0, 1, 1]))


def test_the_surface_is_a_triangle_of_integers():
    surface = delta_z_surface(12, steps=4)
    assert np.isnan(surface[np.tril_indices(5, -1)]).all()
    assert surface[1, 3] == delta_z_counts(12, "1/4", "3/4")
    assert (np.diag(surface) == 1).all()


def test_figure(tmp_path):
    figure = plot_delta_z((5, 12), steps=4)
    figure.savefig(tmp_path / "delta_z.png")
    meshes = [axes.collections[0].get_array() for axes in figure.axes[:2]]
    np.testing.assert_allclose(meshes[1].filled(np.nan), delta_z_surface(12, 4).T / 12)
    assert [text.get_text() for axes in figure.axes[:2] for text in axes.texts if "persons" in text.get_text()] == [
        "5 persons",
        "12 persons",
    ]


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
    boxes = plot_noise_boxes({"l1": noise, "l2": 2 * noise}, labels=list("abcd"), draws=100)
    boxes.savefig(tmp_path / "boxes.png")
    assert [tick.get_text() for tick in boxes.axes[1].get_xticklabels()] == list("abcd")
    first, second = (axes.lines[-2].get_ydata() for axes in boxes.axes)  # the marked draw
    assert (second == 2 * first).all()
