"""Marginalization changes no number: all that is computed from a posterior is equal for both forms of a model.

Eight models of at most four cells. Parameters are fixed at one value, and the sampled form has exact draws of its
table, so that every result has an enumerated expectation. Means are compared within five standard errors; for about
600 comparisons of normal means one false alarm is expected in 3,000 suites with other seeds.
"""

import copy
import itertools
import pickle
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from known_parameters import QUIET
from scipy import stats
from scipy.optimize import minimize

import ppdinf as ppd
from ppdinf.diagnostics.calibration import position, uniformity
from ppdinf.diagnostics.problems import fiber_problems
from ppdinf.distributions.marginalization import why_sampled
from ppdinf.distributions.tables import tables_of
from ppdinf.errors import DiagnosisWarning, LabelError, ModelError
from ppdinf.models import posterior_tables
from ppdinf.models.rates import draw_rates

inv = ppd.invariants
NOTHING = inv.Public()

DRAWS = 1500
R, T = 0.9, -0.3  # log mean of a count; logit or log rate of the dependents
P = 1 / (1 + np.exp(-T))
FORMS = {"marginalized": True, "sampled": False}
UNCOMPILED = {"compile_kwargs": {"mode": "FAST_COMPILE"}, "progressbar": False, "random_seed": 1}

LABELS = {"area": list("ABC")}
SQUARE = {"area": list("AB"), "sex": ["f", "m"]}


@dataclass(frozen=True)
class Case:
    """A model and its enumeration: data model, published numbers, sums that are exact, dependents and their data."""

    coords: dict[str, list[str]]
    data_model: str
    released: list[tuple[Any, list[float]]]  # queries and noisy answers; the scale of the noise is 1
    public: Any = NOTHING
    dependents: dict[str, list[int]] = field(default_factory=dict)
    is_release: bool = True


CASES = {
    "poisson, total, one dependent": Case(LABELS, "poisson", [(None, [2, 4, 3])], inv.total(), {"d": [1, 2, 2]}),
    "negative binomial, one dependent": Case(LABELS, "negative binomial", [(None, [1, 6, 2])],
                                             dependents={"d": [0, 5, 2]}),
    "negative binomial, measurements": Case(LABELS, "negative binomial", [(inv.margin("area"), [1, 6, 2])],
                                            dependents={"d": [0, 5, 2]}, is_release=False),
    "binomial, margin, two dependents": Case(SQUARE, "binomial", [(None, [1, 4, 3, 2])], inv.margin("area"),
                                             {"d": [1, 3, 1, 1], "e": [2, 4, 3, 1]}),
    "multinomial, margin": Case(SQUARE, "multinomial", [(None, [1, 4, 3, 2])], inv.margin("area"), {"e": [2, 4, 3, 1]}),
    "poisson, no release of a dependent": Case(LABELS, "poisson", [(None, [0, 5, 2])], inv.total()),
    "binomial, none public, two dependents": Case(
        LABELS, "binomial", [(None, [2, 5, 3])], dependents={"d": [1, 3, 2], "e": [1, 4, 4]}),
    "poisson, nested sums": Case(LABELS, "poisson", [(inv.margin("area"), [2, 4, 4]), (inv.total(), [8])],
                                 dependents={"d": [1, 2, 2]}, is_release=False),
}  # fmt: skip


def shape_of(case):
    return tuple(len(labels) for labels in case.coords.values())


def build(case, marginalize):
    """Write a case as a PyMC model."""
    shape, dims = shape_of(case), tuple(case.coords)
    if case.is_release:
        noisy = xr.DataArray(np.reshape(case.released[0][1], shape), coords=case.coords)
        data = ppd.Release(noisy, ppd.GeneralizedLaplace(case.public, epsilon=1))
    else:
        answers = [ppd.measured(query, noisy, ppd.laws.DoubleGeometric(1)) for query, noisy in case.released]
        data = ppd.Measurements(case.coords, *answers)
    with pm.Model(coords=case.coords) as model:
        r, t = pm.Normal("r", 1, 1), pm.Normal("t", 0, 1)
        mean = pm.math.exp(r)
        dist = {
            "poisson": lambda: pm.Poisson.dist(mean),
            "negative binomial": lambda: pm.NegativeBinomial.dist(mu=mean, alpha=1.5),
            "binomial": lambda: pm.Binomial.dist(7, pm.math.sigmoid(r - 1)),
            "multinomial": lambda: pm.Multinomial.dist(
                np.array([5, 5]), pm.math.stack([pm.math.sigmoid(r - 1), 1 - pm.math.sigmoid(r - 1)])
            ),
        }[case.data_model]()
        x = ppd.PartiallyPrivate("x", dist, data, marginalize=marginalize)
        for name, seen in case.dependents.items():
            seen = np.reshape(seen, shape)
            if name == "d":
                pm.Binomial("d", n=x, logit_p=t, observed=seen, dims=dims)
            else:
                pm.Poisson("e", mu=pm.math.exp(t) * (x + 1), observed=seen, dims=dims)
    return model


class Enumerated:
    """All tables of a case with their log densities; every count is below a bound of negligible tail."""

    def __init__(self, case):
        self.case = case
        square = len(case.coords) == 2
        x = np.array(
            list(
                itertools.product(
                    range(8 if square or case.data_model == "binomial" else 25), repeat=4 if square else 3
                )
            )
        )
        if case.public.statements:
            y = np.array(case.released[0][1])
            sums = lambda z: np.add.reduceat(z, [0, 2] if square else [0], axis=-1)  # noqa: E731
            x = x[(sums(x) == sums(y)).all(axis=1)]
        logit = R - 1
        self.x = x
        self.data_model = {
            "poisson": lambda: stats.poisson.logpmf(x, np.exp(R)),
            "negative binomial": lambda: stats.nbinom.logpmf(x, 1.5, 1.5 / (1.5 + np.exp(R))),
            "binomial": lambda: stats.binom.logpmf(x, 7, 1 / (1 + np.exp(-logit))),
            "multinomial": lambda: stats.binom.logpmf(x, 5, 1 / (1 + np.exp([-logit, logit] * 2))) / 2,
        }[case.data_model]()
        self.noise = sum(
            -abs(z - noisy).sum(axis=1)
            for query, noisy in case.released
            for z in [x if query is None or len(noisy) > 1 else x.sum(axis=1, keepdims=True)]
        )
        of = {
            "d": lambda seen: stats.binom.logpmf(seen, x, P),
            "e": lambda seen: stats.poisson.logpmf(seen, np.exp(T) * (x + 1)),
        }
        self.dependents = {name: of[name](seen) for name, seen in case.dependents.items()}
        log_p = self.data_model.sum(axis=1) + self.noise + sum(part.sum(axis=1) for part in self.dependents.values())
        self.p = np.exp(log_p - np.logaddexp.reduce(log_p))

    def moments(self, name):
        """Return mean and variance of each element of a predictive draw."""
        mean, variance = {
            "x": (self.x, 0 * self.x),
            "d": (self.x * P, self.x * P * (1 - P)),
            "e": (np.exp(T) * (self.x + 1), np.exp(T) * (self.x + 1)),
        }[name]
        first = self.p @ mean
        return first, self.p @ (variance + mean**2) - first**2

    def posterior(self, marginalize, draws=DRAWS):
        """Return draws with fixed parameters; the sampled form also has exact draws of the table."""
        fixed = {name: (("chain", "draw"), np.full((1, draws), value)) for name, value in (("r", R), ("t", T))}
        if not marginalize:
            drawn = self.x[np.random.default_rng(2).choice(len(self.x), draws, p=self.p)]
            fixed["x"] = (("chain", "draw", *self.case.coords), drawn.reshape(1, draws, *shape_of(self.case)))
        coords = {"chain": [0], "draw": range(draws), **self.case.coords}
        return xr.DataTree.from_dict({"posterior": xr.Dataset(fixed, coords=coords)})


def assert_moments(drawn, mean, variance):
    """Means within five standard errors, also where all draws are equal."""
    drawn = drawn.values.reshape(-1, mean.size)
    assert (abs(drawn.mean(axis=0) - mean) <= 5 * np.sqrt(variance / len(drawn)) + 1e-9).all()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_predictive_draws(name, form):
    """Dependents, tables and releases; stored tables are used, and other draws are unchanged."""
    case, law = CASES[name], Enumerated(CASES[name])
    model, idata = build(case, FORMS[form]), law.posterior(FORMS[form])
    drawn = pm.sample_posterior_predictive(idata, model, **UNCOMPILED).posterior_predictive
    assert set(drawn.data_vars) == {"x_release", *case.dependents}
    for of in case.dependents:
        assert_moments(drawn[of], *law.moments(of))
        wrong = np.exp(law.data_model.sum(axis=1) + law.noise)  # without the data of dependents
        assert abs(wrong / wrong.sum() - law.p).sum() > 0.1
    mean, variance = law.moments("x")
    if case.is_release:
        assert_moments(drawn["x_release"], mean, variance + 3)  # variance of double geometric noise: 1.84
    assert ("x" in idata.posterior) == (form == "sampled")
    tables = ppd.sample_confidential(idata, model, random_seed=1, progressbar=False)
    assert_moments(tables, mean, variance)
    again = pm.sample_posterior_predictive(idata, model, var_names=["x"], **UNCOMPILED).posterior_predictive
    assert again["x"].values.tolist() == tables.values.tolist()
    if case.is_release:
        assert_moments(ppd.sample_release(idata, model, random_seed=1), mean, variance + 3)


NB = "negative binomial, one dependent"


TRACES = {
    "dataset": (lambda idata: idata.posterior.to_dataset(), {}, ("chain", "draw")),
    "posterior group": (lambda idata: idata.posterior, {}, ("chain", "draw")),
    "points": (lambda idata: [{"r": np.array(R), "t": np.array(T)}] * DRAWS, {}, ("chain", "draw")),
    "extracted": (lambda idata: idata.posterior.to_dataset().stack(sample=("chain", "draw")),
                  {"sample_dims": ["sample"]}, ("sample",)),
    "further dimension": (lambda idata: idata.posterior.to_dataset().isel(draw=slice(DRAWS // 2)).expand_dims(again=2),
                          {"sample_dims": ["chain", "draw", "again"]}, ("chain", "draw", "again")),
}  # fmt: skip


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", TRACES)
def test_every_form_of_draws_that_pymc_accepts(kind):
    case, law = CASES[NB], Enumerated(CASES[NB])
    convert, options, dims = TRACES[kind]
    drawn = pm.sample_posterior_predictive(convert(law.posterior(True)), build(case, True), **options, **UNCOMPILED)
    assert drawn.posterior_predictive.d.dims == (*dims, "area")
    assert_moments(drawn.posterior_predictive.d, *law.moments("d"))


SELECTED = {
    "one chain": (lambda idata: idata.sel(chain=0), ("draw", "area")),
    "dataset": (lambda idata: idata.posterior.to_dataset(), ("chain", "draw", "area")),
    "posterior group": (lambda idata: idata.posterior, ("chain", "draw", "area")),
    "read-only view": (lambda idata: idata.posterior.dataset, ("chain", "draw", "area")),
    "extracted": (lambda idata: idata.posterior.to_dataset().stack(sample=("chain", "draw")), ("sample", "area")),
    "one draw of each chain": (lambda idata: idata.isel(draw=3), ("chain", "area")),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", SELECTED)
def test_tables_of_selected_draws(kind, form):
    """The table has the dimensions of the draws and is stored with them; likelihoods and releases have them, too."""
    select, dims = SELECTED[kind]
    law, model = Enumerated(CASES[NB]), build(CASES[NB], FORMS[form])
    draws = select(law.posterior(FORMS[form]))
    table = ppd.sample_confidential(draws, model, random_seed=1, progressbar=False)
    assert table.dims == dims
    if table.size > 100:
        assert_moments(table, *law.moments("x"))
    assert ppd.log_likelihood(draws, model, of="d").dims == ppd.sample_release(draws, model).dims == dims
    stored = draws.get("posterior", draws)
    if kind != "read-only view":
        assert set(stored["x"].dims) == set(dims)


def test_draws_without_names_are_refused():
    model, draws = build(CASES[NB], True), Enumerated(CASES[NB]).posterior(True)
    for given in (draws.posterior.r.values, xr.DataTree(), {"r": R}):
        with pytest.raises(ModelError, match=r"pass the result of pm.sample, its group idata.posterior"):
            ppd.sample_confidential(given, model)
    with pytest.raises(ModelError, match=r"no dimension chain, draw or sample: select draws by a list, draw=\[0\]"):
        ppd.sample_confidential(draws.isel(chain=0, draw=0), model)


def test_results_are_added_to_the_given_draws():
    model, idata = build(CASES[NB], True), Enumerated(CASES[NB]).posterior(True, draws=5)
    returned = pm.sample_posterior_predictive(idata, model, extend_inferencedata=True, **UNCOMPILED)
    assert returned is idata
    assert set(idata.posterior_predictive.data_vars) == {"x_release", "d"}
    assert "x" not in idata.posterior


def test_tables_follow_the_data_of_their_draws():
    """Data were changed after sampling. Wrong variant: tables given the new data, with means near 30."""
    release = ppd.Release(xr.DataArray([2, 4, 3], coords=LABELS), ppd.GeneralizedLaplace(inv.Public(), epsilon=1))
    with pm.Model(coords=LABELS) as model:
        exposure, seen = pm.Data("exposure", np.ones(3), dims="area"), pm.Data("seen", [1, 2, 2], dims="area")
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(exposure * pm.math.exp(pm.Normal("r", 1, 1))), release)
        pm.Binomial("d", n=x, logit_p=pm.Normal("t", 0, 1), observed=seen, dims="area")
        pm.set_data({"exposure": np.full(3, 10.0), "seen": [9, 9, 9]})
    case = Case(LABELS, "poisson", [(None, [2, 4, 3])], dependents={"d": [1, 2, 2]})
    law = Enumerated(case)
    idata = law.posterior(True)
    old = {"exposure": ("area", np.ones(3)), "seen": ("area", [1, 2, 2])}
    idata["constant_data"] = xr.DataTree(xr.Dataset(old, coords=LABELS))
    with pytest.warns(pm.exceptions.ImplicitFreezeWarning, match=r"'x' \(upstream Data/coords changed \(exposure\)"):
        drawn = pm.sample_posterior_predictive(idata, model, **UNCOMPILED).posterior_predictive
    assert_moments(drawn["d"], *law.moments("d"))
    assert model["exposure"].get_value().tolist() == [10, 10, 10]
    assert model["seen"].get_value().tolist() == [9, 9, 9]


def test_tables_that_are_sampled_again_follow_the_data_model():
    law, model = Enumerated(CASES[NB]), build(CASES[NB], True)
    idata = law.posterior(True)
    x = pm.sample_posterior_predictive(idata, model, sample_vars=["x"], **UNCOMPILED).posterior_predictive["x"]
    mean = np.exp(R)
    assert_moments(x, np.full(3, mean), np.full(3, mean + mean**2 / 1.5))


OF_DEPENDENTS = [(name, of) for name, case in CASES.items() for of in case.dependents]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "of"), OF_DEPENDENTS)
def test_likelihood_of_each_observation_of_a_dependent(name, of, form):
    """The density of all data over that of the others, by enumeration; wrong: the mean density in posterior tables."""
    case, law = CASES[name], Enumerated(CASES[name])
    model, idata = build(case, FORMS[form]), law.posterior(FORMS[form], draws=2)
    values = ppd.log_likelihood(idata, model, of=of)
    assert values.dims == ("chain", "draw", *case.coords)
    given = law.dependents[of]
    log_p = law.data_model.sum(axis=1) + law.noise + sum(part.sum(axis=1) for part in law.dependents.values())
    rest = law.data_model.sum(axis=1) + law.noise
    rest = rest + sum(part.sum(axis=1) for other, part in law.dependents.items() if other != of)
    expected = []
    for k in range(law.x.shape[1]):
        without = rest + np.delete(given, k, axis=1).sum(axis=1)
        expected.append(np.logaddexp.reduce(log_p) - np.logaddexp.reduce(without))
    np.testing.assert_allclose(values.values[0, 0].ravel(), expected, rtol=1e-6)
    optimistic = np.log(law.p @ np.exp(given))
    assert (abs(optimistic - expected) > 1e-3).any()
    by_pymc = pm.compute_log_likelihood(idata, model=model, progressbar=False).log_likelihood
    np.testing.assert_allclose(by_pymc[of].values, values.values, rtol=1e-12)
    assert set(by_pymc.data_vars) == {"x_release", *case.dependents}
    # the density of the release alone: both together would count the dependents twice
    alone = np.logaddexp.reduce(law.data_model.sum(axis=1) + law.noise)
    constant = model["x_release"].owner.op.observed.log_constant
    np.testing.assert_allclose(by_pymc["x_release"].values, alone - constant, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:there are only:ppdinf.errors.DiagnosisWarning")
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("of", ["groups", "cells"])
def test_likelihoods_of_released_numbers_in_both_forms(of):
    case = Case(SQUARE, "binomial", [(None, [1, 4, 3, 2])], inv.margin("area"))
    idata = Enumerated(case).posterior(False, draws=2)
    one, other = (ppd.log_likelihood(idata, build(case, way), of=of).values for way in FORMS.values())
    np.testing.assert_allclose(one, other, rtol=1e-9)
    assert len(set(one[0, 0].round(6).tolist())) > 1


def mode_of(model):
    """Return roughly the parameters of the largest density."""
    point, density = model.initial_point(), model.compile_logp()
    ends = np.cumsum([np.size(value) for value in point.values()])[:-1]

    def split(flat):
        parts = np.split(flat, ends)
        return {name: part.reshape(np.shape(point[name])) for name, part in zip(point, parts, strict=True)}

    start = np.concatenate([np.ravel(value) for value in point.values()]).astype(float)
    return split(minimize(lambda flat: -float(density(split(flat))), start, method="Nelder-Mead").x)


OBSERVED = ["poisson, total, one dependent", "negative binomial, measurements", "poisson, nested sums"]


@pytest.mark.filterwarnings("ignore:The posterior of 'x' exceeds the truncation:ppdinf.errors.DiagnosisWarning")
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("form", [*FORMS][::-1])
@pytest.mark.parametrize("name", OBSERVED)
def test_another_release_in_the_same_model(name, form):
    """Density, start and tables are those of a model written for the other numbers; the first model does not change.

    Numbers far from the first ones are outside its windows. Wrong variant: the density of the first numbers.
    """
    case = CASES[name]
    model = build(case, FORMS[form])
    first = [number for _, numbers in case.released for number in numbers]
    for factor in (1, 20):
        given = [(query, [factor * number for number in numbers[::-1]]) for query, numbers in case.released]
        written = build(replace(case, released=given), FORMS[form])
        other = pm.observe(model, {"x_release": np.concatenate([numbers for _, numbers in given])})
        point = written.initial_point()
        if form == "marginalized":  # windows cover the counts of the posterior, not of all parameters
            point = mode_of(written)
        values = [one.compile_logp()(point) for one in (written, other)]
        assert values[1] == pytest.approx(values[0], rel=1e-9)
        assert other.compile_logp()(other.initial_point()) > -np.inf
        assert float(model.compile_logp()(model.initial_point())) != pytest.approx(values[0], abs=1e-3)
        assert model["x_release"].owner.op.observed.noisy.values.ravel().tolist() == first
    if form == "marginalized":
        drawn = ppd.sample_confidential(Enumerated(case).posterior(True, draws=50), other, random_seed=1)
        assert drawn.sum() > 3 * 50 * sum(case.released[0][1])


@pytest.mark.deep
def test_ranks_among_posteriors_of_simulated_releases():
    """Simulation-based calibration, 40 releases, a false alarm in 50,000 runs; wrong: the first release is kept."""
    release = ppd.Release([9, 12, 14, 16, 20], ppd.GeneralizedLaplace(inv.total(), epsilon="1/2"))
    with pm.Model(coords=release.coords) as model:
        level, slope = pm.Normal("r", 2.5, 0.5), pm.Normal("t", 0, 0.5)
        rate = pm.math.exp(level + slope * np.array([-1, -0.3, 0.2, 0.6, 0.9]))
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release)
        simulated = pm.sample_prior_predictive(40, random_seed=1)
        fits = [short_sample(0)]
    for numbers in simulated.prior_predictive["x_release"].values[0]:
        with pm.observe(model, {"x_release": numbers}):
            fits.append(short_sample(len(fits)))
    for name in ("r", "t"):
        truth, rng = simulated.prior[name].values[0], np.random.default_rng(1)
        draws = [fit.posterior[name].values[0, ::6] for fit in fits]
        assert uniformity([position(*one, rng) for one in zip(truth, draws[1:], strict=True)]) > 1e-5
        assert uniformity([position(one, draws[0], rng) for one in truth]) < 1e-5


def short_sample(seed):
    return pm.sample(300, tune=300, chains=1, random_seed=seed, **QUIET)


def test_releases_in_data_are_followed():
    """The observed numbers are `pm.Data`, which `pm.set_data` replaces."""
    table, mechanism = np.array([2, 1, 3]), ppd.GeneralizedLaplace(NOTHING, epsilon=1)
    with pm.Model(coords=LABELS) as model:
        numbers = pm.Data("numbers", [1, 6, 2], dims="area")
        x = pm.Poisson("x", 2, dims="area")
        released = ppd.models.Released("y", mechanism, x, observed=numbers)
        with pytest.raises(ModelError, match=r"numbers of pm.Data are observed by ppdinf.models.Released"):
            ppd.PartiallyPrivate("z", pm.Poisson.dist(2), numbers)
        log_p = model.compile_logp(released)
        for other in ([1, 6, 2], [40, 1, 7]):
            pm.set_data({"numbers": other})
            expected = -abs(other - table).sum() + 3 * np.log(np.tanh(0.5))
            assert float(log_p({"x": table})) == pytest.approx(expected)


def test_numbers_that_do_not_determine_the_noise_are_refused():
    release = ppd.counts.TwoStage(1, n=9, constructor="ranked").release([3, 1, 4])
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release)
    with pytest.raises(ModelError, match="write the model again with PartiallyPrivate for the other release"):
        pm.observe(model, {"x_release": release.table.values + 7}).logp()


RATIO = "it divides by a function of cells that no exact sum determines. Divide by a known number"


@pytest.mark.parametrize(
    ("dependent", "public"),
    [
        (lambda x: pm.Normal("d", (x - x.mean()) / x.std(), 0.1, observed=[0.2, 0.4, 0.4]), inv.total()),
        (lambda x: pm.Potential("d", -((x / pm.math.sum(x)) ** 2)), inv.Public()),
    ],
)
def test_the_reason_why_a_table_is_sampled_is_named(dependent, public):
    release = ppd.Release(xr.DataArray([2, 4, 3], coords=LABELS), ppd.GeneralizedLaplace(public, epsilon=1))
    with pm.Model(coords=LABELS) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(3.0), release)
        with pytest.warns(DiagnosisWarning, match=f"'x' is sampled instead of marginalized, because of 'd': {RATIO}"):
            dependent(x)
    assert why_sampled(x, model) == "because of 'd'"
    with pm.Model(coords=LABELS):
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(3.0), release, marginalize=True)
        with pytest.raises(ModelError, match=f"cannot be marginalized: {RATIO}, or use PartiallyPrivate"):
            dependent(x)


@pytest.mark.parametrize("form", FORMS)
def test_likelihood_of_observations_that_exclude_counts(form):
    """Removal sampling: the second binomial has no density at counts below the first; several rows read one cell."""
    release = ppd.Release(xr.DataArray([4, 7], coords={"area": list("AB")}), ppd.GeneralizedLaplace(NOTHING, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        t = pm.Normal("t", 0, 1)
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(5.0), release, marginalize=FORMS[form])
        pm.Binomial("first", n=x, logit_p=t, observed=[2, 3])
        pm.Binomial("second", n=(x - [2, 3])[np.array([0, 1, 1])], logit_p=t, observed=[1, 2, 0])
    counts = np.arange(40)
    log_p = stats.poisson.logpmf(counts, 5) - abs(counts - np.array([[4], [7]]))
    first = stats.binom.logpmf([[2], [3]], counts, P)
    second = np.full((3, 40), -np.inf)
    for row, (seen, taken) in enumerate(((1, 2), (2, 3), (0, 3))):
        second[row, taken:] = stats.binom.logpmf(seen, counts[taken:] - taken, P)
    cells = [log_p[0] + first[0] + second[0], log_p[1] + first[1] + second[1] + second[2]]
    without = [log_p[0] + first[0], log_p[1] + first[1] + second[2], log_p[1] + first[1] + second[1]]
    expected = [np.logaddexp.reduce(cells[min(k, 1)]) - np.logaddexp.reduce(rest) for k, rest in enumerate(without)]
    fixed = {"t": (("chain", "draw"), [[T]])}
    if form == "sampled":
        fixed["x"] = (("chain", "draw", "area"), [[[5, 7]]])
    values = ppd.log_likelihood(xr.DataTree.from_dict({"posterior": xr.Dataset(fixed)}), model, of="second")
    np.testing.assert_allclose(values.values[0, 0], expected, rtol=1e-6)


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


COORDS = {"area": ["A", "B", "C", "D"], "sex": [1, 0]}
COUNTS = np.array([[500, 480], [30, 35], [4, 9], [120, 90]])
RELEASE = ppd.Release(
    xr.DataArray(COUNTS, coords=COORDS), ppd.GeneralizedLaplace(ppd.invariants.margin("sex"), epsilon="1/100")
)
ORDERS = {
    "labels": lambda posterior: posterior.sel(area=list("DBCA")),
    "labels of both": lambda posterior: posterior.sortby("area", ascending=False).sortby("sex"),
    "dimensions": lambda posterior: posterior.transpose("draw", "sex", "area", "chain"),
}


def posed(marginalize):
    with pm.Model(coords=RELEASE.coords) as model:
        rate = pm.Gamma("rate", 2, 0.02, dims=("area", "sex"))
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), RELEASE, marginalize=marginalize)
    return model


def posterior(**more):
    rng = np.random.default_rng(1)
    draws = {"rate": COUNTS * rng.uniform(0.95, 1.05, (1, 5, 4, 2)), **more}
    data = xr.Dataset({name: (("chain", "draw", *COORDS), values) for name, values in draws.items()}, COORDS)
    return xr.DataTree.from_dict({"posterior": data.assign_coords(chain=[0], draw=range(5))})


def reordered(idata, change):
    return xr.DataTree.from_dict({"posterior": change(idata.posterior.to_dataset())})


@pytest.mark.parametrize("change", ORDERS.values(), ids=ORDERS)
def test_marginalized_tables(change):
    model, idata = posed(True), posterior()
    again = reordered(idata, change)
    drawn, same = (ppd.sample_confidential(one, model, random_seed=1) for one in (idata, again))
    xr.testing.assert_equal(*xr.align(drawn, same.transpose(*drawn.dims), join="left"))
    assert (abs(drawn.mean(("chain", "draw")) - COUNTS) < 60).all()
    free = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1)
    with pm.Model(coords=RELEASE.coords) as model:
        rate = pm.Gamma("rate", 2, 0.02, dims=("area", "sex"))
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), ppd.Release(RELEASE.table, free))
    with pytest.warns(ppd.errors.DiagnosisWarning, match="public groups"):
        left, right = (ppd.log_likelihood(one, model) for one in (posterior(), reordered(posterior(), change)))
    np.testing.assert_array_equal(left.values, right.transpose(*left.dims).values)


@pytest.mark.parametrize("change", ORDERS.values(), ids=ORDERS)
def test_sampled_tables(change):
    model = posed(False)
    again = reordered(posterior(cases=np.tile(COUNTS, (1, 5, 1, 1))), change)
    assert fiber_problems(again, model) == []
    ppd.sample_confidential(again, model)  # warns of windows if cells are exchanged


def test_other_labels_are_refused():
    model, idata = posed(True), posterior()
    for change in (
        lambda data: data.sel(area=["A", "B", "C"]),
        lambda data: data.sel(area=["A", "B", "C", "C"]),
        lambda data: data.assign_coords(area=list("ABCE")),
    ):
        with pytest.raises(ModelError, match="the draws of 'rate' have other labels of 'area' than the model"):
            ppd.sample_confidential(reordered(idata, change), model)


def test_rates_need_the_draws_of_all_labels():
    ones = {"spread": (("chain", "draw"), np.ones((1, 5))), "mean_rate": (("chain", "draw"), np.ones((1, 5)))}
    data = xr.Dataset({**ones, "count": (("chain", "draw", *COORDS), np.tile(COUNTS, (1, 5, 1, 1)))}, COORDS)
    whole = xr.DataTree.from_dict({"posterior": data})
    assert draw_rates(whole, RELEASE, rng=1).shape == (1, 5, 4, 2)
    with pytest.raises(LabelError, match="other labels of 'area' than the release"):
        draw_rates(reordered(whole, lambda one: one.sel(area=["A", "B"])), RELEASE)


@pytest.mark.quick_cases(0)
def test_draws_and_models_are_saved_and_read_back(tmp_path):
    pytest.importorskip("h5netcdf")
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
        idata = pm.sample(20, tune=20, chains=2, cores=1, random_seed=1, **QUIET)
    drawn = ppd.sample_confidential(idata, model, random_seed=1)
    idata.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    again = xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf")
    assert again.posterior["x"].values.tolist() == drawn.values.tolist()
    assert again.posterior["x"].dtype == np.int64
    again.close()

    copied = cloudpickle.loads(cloudpickle.dumps(model))  # plain pickle does not support PyMC models
    point = model.initial_point()
    assert copied.compile_logp()(point) == pytest.approx(float(model.compile_logp()(point)), abs=1e-12)


def test_releases_and_measurements_are_pickled_and_copied():
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    noise = ppd.laws.DoubleGeometric("1/4")
    measurements = ppd.Measurements({"a": [1, 2]}, ppd.measured(ppd.invariants.margin("a"), {1: 3, 2: -1}, noise))
    for copied in (lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy):
        assert copied(release).table.equals(release.table)
        assert copied(release).mechanism == release.mechanism
        assert repr(copied(measurements)) == repr(measurements)


@pytest.mark.deep
@pytest.mark.interpreted
def test_a_model_with_dependents_is_read_by_a_process_that_has_not_imported_the_package(tmp_path):
    """Without the rules that join a table with its dependents, PyMC finds random variables in the density."""
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release=release)
        pm.Binomial("deaths", x, 0.5, observed=[1, 0, 1])
    file = tmp_path / "model.pickle"
    file.write_bytes(cloudpickle.dumps(model))
    program = "import pickle, sys; model = pickle.load(open(sys.argv[1], 'rb')); " + (
        "print(float(model.compile_logp(mode='FAST_COMPILE')(model.initial_point())))"
    )
    run = subprocess.run([sys.executable, "-c", program, file], capture_output=True, text=True, check=True)
    assert float(run.stdout) == pytest.approx(float(model.compile_logp()(model.initial_point())), abs=1e-10)
