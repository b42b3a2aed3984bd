"""A mechanism's release as a distribution, and integers with given sums and no noise: against enumeration."""

import pickle

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
import xarray as xr
from chi_square import p_value, p_value_of_tables
from grids import box
from known_parameters import QUIET, gibbs_draws
from pymc.sampling.mcmc import assign_step_methods
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.errors import InvariantError, LabelError, ModelError
from ppdinf.invariants import margin, total

inv = ppd.invariants
RARE = 1e-5
RATES = np.array([1.0, 3.0, 2.0])
Y = np.array([4, 1, 2])
MECHANISM = ppd.GeneralizedLaplace(inv.total(), epsilon=1)


def law_of_distance(log_weight, far=24):
    """Return the probability of every l1 distance, divided by two, of noise of four cells without a sum; enumerated."""
    free = box(-far, far, 3)
    z = np.column_stack([free, -free.sum(axis=1)])
    weights = np.exp(log_weight(z))
    found = np.bincount(np.abs(z).sum(axis=1) // 2, weights=weights)
    return found / found.sum()


FORWARD = {
    "l1": (lambda c: ppd.GeneralizedLaplace(inv.total(), epsilon=c), lambda z: -np.abs(z).sum(axis=1)),
    "l2": (lambda c: ppd.GeneralizedLaplace(inv.total(), epsilon=c, norm="l2"), lambda z: -np.sqrt((z**2).sum(axis=1))),
    "gaussian": (
        lambda c: ppd.GeneralizedGaussian(inv.total(), sigma=f"{1 / float(c):.10f}"),
        lambda z: -(z**2).sum(axis=1) / 2,
    ),
}


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    ("kind", "wrong", "number"),
    [("l2", "1.2", 3000), *(pytest.param(kind, "1.05", 12_000, marks=pytest.mark.deep) for kind in FORWARD)],
)
def test_prior_predictive_releases_have_the_distribution_of_the_mechanism(kind, wrong, number):
    """The l1 distance, by chi-square at 1e-5 and its mean within 5 sd; by the mean, epsilon 5 % (20 %) larger fails."""
    mechanism, log_weight = FORWARD[kind]
    law = law_of_distance(log_weight)
    distances = np.arange(law.size)
    mean = law @ distances
    sd = np.sqrt(law @ (distances - mean) ** 2 / number)
    for scale, right in ((1, True), (wrong, False)):
        tables = pm.Poisson.dist([2.0, 5.0, 1.0, 0.5])
        x, y = pm.draw([tables, mechanism(scale).dist(tables)], draws=number, random_seed=3)
        assert (x.sum(axis=1) == y.sum(axis=1)).all()
        found = np.abs(y - x).sum(axis=1) // 2
        assert (abs(found.mean() - mean) < 5 * sd) == right
        assert not right or p_value(found, law) > RARE


def test_density_is_that_of_the_mechanism():
    table = pm.Poisson.dist([1.0, 1.0, 1.0])
    rng = np.random.default_rng(1)
    bounded = inv.total() & inv.nonnegative()
    for mechanism in (
        MECHANISM,
        ppd.GeneralizedLaplace(inv.total(), epsilon="1/3", norm="l2"),
        ppd.GeneralizedGaussian(inv.total(), sigma=2),
        ppd.Conditioned(bounded, noise=ppd.laws.DoubleGeometric(1)),
        ppd.Transition(np.full((12, 12), 1 / 24) + 0.5 * np.eye(12)),
    ):
        law = mechanism.dist(table).owner.op.law
        for _ in range(5):
            x = rng.integers(0, 4, size=3)
            y = rng.permutation(x)
            assert law.log_density(y, x) == pytest.approx(mechanism.logp(y, x))
        if mechanism.public.exact:
            assert law.log_density(x + np.array([1, 0, 0]), x) == -np.inf


def generative(observed=Y, **kwargs):
    with pm.Model(coords={"area": list("abc")}) as model:
        x = pm.Poisson("x", RATES, dims="area", **kwargs)
        ppd.models.Released("y", MECHANISM, x, observed, dims="area")
    return model


def listed():
    """Return tables with the released total, and their posterior probability."""
    tables = np.array([(i, j, 7 - i - j) for i in range(8) for j in range(8 - i)])
    log_weight = (tables * np.log(RATES) - gammaln(tables + 1)).sum(axis=1) - np.abs(tables - Y).sum(axis=1)
    return tables, np.exp(log_weight - logsumexp(log_weight))


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_posterior_is_that_of_all_tables():
    """False alarms 1e-5; power: rates of one cell a fifth larger."""
    tables, law = listed()
    draws = gibbs_draws(generative(), 6000)
    assert p_value_of_tables(draws, tables, law) > RARE
    wrong = law * 1.2 ** tables[:, 1]
    assert p_value_of_tables(draws, tables, wrong / wrong.sum()) < RARE


def test_observe_and_do():
    """Observing afterwards gives the density of observing at once; a table that is set is released."""
    at_once, free = generative(), generative(observed=None)
    later = pm.observe(free, {"y": Y})
    point = {"x": np.array([2, 3, 2])}
    assert later.compile_logp()(point) == pytest.approx(at_once.compile_logp()(point))
    with later:
        _, chosen = assign_step_methods(later)
    assert [step.__name__ for step in chosen] == ["LatticeGibbs"]
    with pm.do(free, {"x": np.array([5, 0, 1])}):
        releases = pm.sample_prior_predictive(200, random_seed=1).prior["y"].values[0]
    assert set(releases.sum(axis=1).tolist()) == {6}
    assert np.abs(releases - [5, 0, 1]).sum() > 0


def test_pymc_alone_samples_and_starts_where_the_sums_hold():
    with generative():
        idata = pm.sample(50, tune=0, chains=2, cores=1, random_seed=1, **QUIET)
    assert set(idata.posterior["x"].sum("area").values.ravel().tolist()) == {7}
    assert len(np.unique(idata.posterior["x"].values.reshape(-1, 3), axis=0)) > 10


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_several_releases_and_a_multinomial_table():
    """A total that only the model states, and two releases that do not preserve it."""
    free = ppd.GeneralizedLaplace(inv.nonnegative(), epsilon=1)
    p = np.array([0.2, 0.5, 0.3])
    with pm.Model() as model:
        x = pm.Multinomial("x", 6, p)
        ppd.models.Released("one", free, x, [3, 1, 4])
        ppd.models.Released("two", MECHANISM, x, [2, 2, 2])
    tables = np.array([(i, j, 6 - i - j) for i in range(7) for j in range(7 - i)])
    log_weight = (tables * np.log(p) - gammaln(tables + 1)).sum(axis=1)
    log_weight -= np.abs(tables - [3, 1, 4]).sum(axis=1) + np.abs(tables - [2, 2, 2]).sum(axis=1)
    law = np.exp(log_weight - logsumexp(log_weight))
    draws = gibbs_draws(model, 5000)
    assert p_value_of_tables(draws, tables, law) > RARE
    alone = np.exp(log_weight + np.abs(tables - [2, 2, 2]).sum(axis=1))
    assert p_value_of_tables(draws, tables, alone / alone.sum()) < RARE


def test_ops_can_be_pickled_and_copied():
    law = MECHANISM.dist(pm.Poisson.dist([1.0, 2.0])).owner.op.law
    law.draw(np.array([[1, 2]]), np.random.default_rng(1))
    again = pickle.loads(pickle.dumps(law))
    assert again.log_density(np.array([2, 1]), np.array([1, 2])) == pytest.approx(-2 + np.log(np.tanh(1)))


LABELS = {"sex": ["f", "m"], "age": [0, 18, 65]}
CELLS = pd.Series(0, index=pd.MultiIndex.from_product(LABELS.values(), names=list(LABELS)))


@pytest.mark.parametrize("labels", [LABELS, CELLS, CELLS.to_xarray(), CELLS.unstack("age")])
def test_labels_are_those_of_any_table(labels):
    law = MECHANISM.dist(pm.Poisson.dist(np.ones((2, 3))), labels).owner.op.law
    assert law.frame.dims == ("sex", "age")
    assert {dim: list(law.frame.coords[dim][1]) for dim in LABELS} == LABELS


def test_interpreted_releases_have_the_requested_size():
    release = MECHANISM.release(np.array([3, 1, 2]))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATES), release=release)
    (noisy,) = model.observed_RVs
    op, (x, *rest) = noisy.owner.op, noisy.owner.op.dist_params(noisy.owner)
    _, drawn = op(x, *rest, size=[5], rng=pytensor.shared(np.random.default_rng(1)), return_next_rng=True)
    found = pytensor.function([], drawn, mode="FAST_COMPILE")
    assert found().shape == (5, 3)


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: ppd.GeneralizedLaplace(inv.margin("sex"), epsilon=1).dist(pm.Poisson.dist([1, 2])), LabelError, "sex"),
    (lambda: MECHANISM.dist(pm.Poisson.dist([1, 2]), {"a": [1, 2, 3]}), LabelError, "shape"),
    (lambda: MECHANISM.dist(pm.Normal.dist([1, 2])), ModelError, "integer type"),
    (lambda: MECHANISM.dist(pm.Poisson.dist([1, 2]), {"a": ["x", "total"]}), LabelError, "total"),
    (lambda: generative(observed=[1, 2]), LabelError, "shape"),
    (lambda: generative(observed=xr.DataArray(Y, coords={"area": list("cba")}, dims="area")), LabelError,
     "'c' at position 0"),
    (lambda: pm.draw(ppd.GeneralizedLaplace(inv.nonnegative(), epsilon=1).dist(pm.DiracDelta.dist([-1, 2]))),
     InvariantError, "dim_0=0"),
])  # fmt: skip
def test_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_noise_that_needs_an_auxiliary_variable_names_the_remedy():
    public = ppd.invariants.total() & ppd.invariants.nonnegative()
    mechanism = ppd.WassersteinExponential(public, epsilon=4, sensitivity=2, secrets="any two", loss="l2")
    with pm.Model():
        x = pm.Poisson("x", 2.0, shape=3)
        ppd.models.Released("y", mechanism, x, observed=[4, 1, 2])
        with pytest.raises(ppd.errors.ModelError, match=r"given 'y': .*PartiallyPrivate\('x'"):
            pm.sample(5, tune=5, chains=1, progressbar=False)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("odds", [1.0, 4.0])
def test_two_by_two_is_noncentral_hypergeometric(odds):
    blank = ppd.as_table(np.zeros((2, 2), dtype=int), dims=("a", "b"))
    public = (margin("a") & margin("b")).on(blank, values=[7, 9, 6, 10])
    with pm.Model(coords={"a": [0, 1], "b": [0, 1]}) as model:
        ppd.models.ConstrainedCounts("x", pm.Poisson.dist(np.array([[odds, 1.0], [1.0, 1.0]])), public, False)
    corner = gibbs_draws(model, 3000)[:, 0]
    law = stats.nchypergeom_fisher.pmf(np.arange(17), 16, 7, 6, odds)
    assert p_value(corner, law) > RARE
    assert p_value(corner, stats.nchypergeom_fisher.pmf(np.arange(17), 16, 7, 6, odds * 1.5)) < RARE


def test_refused_systems():
    with pm.Model():
        with pytest.raises(ModelError, match="bound"):
            ppd.models.ConstrainedCounts("x", pm.Poisson.dist(1.0), total())
        impossible = total().on(np.zeros(3, dtype=int), values=[-2])
        with pytest.raises((InvariantError, ModelError)):
            ppd.models.ConstrainedCounts("x", pm.Poisson.dist(np.ones(3)), impossible)


def test_reports_of_three_answers_have_the_multinomial_density():
    """Randomized response: the sums by report of persons by answer and report are Multinomial(n, shares @ design)."""
    design, reports = np.full((3, 3), 0.15) + 0.55 * np.eye(3), np.array([11, 7, 7])
    labels = ppd.as_table(np.zeros((3, 3), dtype=int), dims=("answer", "report"))
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(3), default_transform=None)
        persons = pm.Poisson.dist(25 * shares[:, None] * design)
        ppd.models.ConstrainedCounts("persons", persons, margin("report").on(labels, values=reports.tolist()))
    density = model.compile_logp()
    points = np.random.default_rng(1).dirichlet([1, 1, 1], 5)
    found = [density({"shares": p}).item() for p in points]
    for kept, same in [(design, True), (design.T[::-1], False)]:
        wanted = [stats.multinomial.logpmf(reports, 25, p @ kept) for p in points]
        assert np.allclose(np.diff(found), np.diff(wanted), atol=1e-9) == same
