"""Inference from every real-valued mechanism, cells and queries: table and parameter jointly against enumeration."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from enumeration import contrast, total_variation
from grids import box
from known_parameters import QUIET
from scipy import special, stats

import ppdinf as ppd
from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import Public, cells, groups, margin, total
from ppdinf.lattice.null_space import null_space

DRAWS = 6_000
FAR = 6  # z of a mean log ratio: a false-alarm probability of 2e-9 for independent draws
THREE = xr.DataArray([2, 0, 3], dims="county")
FOUR = xr.DataArray([2, 1, 0, 3], dims="county", coords={"state": ("county", list("AABB"))})
OBLONG = xr.DataArray([[2, 2, 1], [1, 2, 3]], dims=("sex", "age"))
MARGINS = margin("sex") & margin("age")
CUMULATIVE = np.tril(np.ones((3, 3), dtype=int))
OVERLAP = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1], [2, 0, 1]])
LAST = cells({"answer": 2})


def laplace(public, epsilon=2, **kwargs):
    return ppd.SubspaceLaplace(public, epsilon, **kwargs)


def correlated(public, epsilon=2, **kwargs):
    return ppd.CorrelatedGaussian(public, epsilon, "0.1", **kwargs)


def gaussian(public, epsilon=2, **kwargs):
    return ppd.SubspaceGaussian(public, epsilon, "0.1", **kwargs)


def k_norm(public, epsilon=2, **kwargs):
    return ppd.KNorm(public, epsilon, **kwargs)


CASES = {
    "projected, total": (laplace, total(), THREE, {}),
    "projected, groups": (laplace, groups("state"), FOUR, {}),
    "projected, margins": (laplace, MARGINS, OBLONG, {}),
    "projected, answers": (laplace, LAST, THREE, {"query": CUMULATIVE, "neighbours": "added"}),
    "projected, nothing public": (laplace, Public(), THREE, {}),
    "extended, total": (laplace, total(), THREE, {"method": "extended"}),
    "extended, margins": (laplace, MARGINS, OBLONG, {"method": "extended"}),
    "extended, answers": (laplace, LAST, THREE, {"method": "extended", "query": OVERLAP}),
    "gaussian, answers": (gaussian, LAST, THREE, {"query": CUMULATIVE}),
    "correlated, groups": (correlated, groups("state"), FOUR, {}),
    "correlated, answers": (correlated, LAST, THREE, {"query": OVERLAP}),
    "correlated, total kept unsaid": (correlated, Public(), THREE, {}),
    "k-norm, total": (k_norm, total(), THREE, {}),
    "k-norm, margins": (k_norm, MARGINS, OBLONG, {"epsilon": "1/2", "neighbours": "added"}),
    "k-norm, answers": (k_norm, Public(), THREE, {"query": OVERLAP}),
    "k-norm, total kept unsaid": (k_norm, Public(), THREE, {}),
}
QUICK = ["k-norm, margins"]
MULTIPLIERS, WEIGHTS = np.array([0.5, 2.0]), np.log([0.6, 0.4])


def case(name):
    make, public, table, kwargs = CASES[name]
    noisy = make(public, **kwargs).simulate(table, draws=1, rng=7)[0]
    return ppd.Release(noisy, make(public, **kwargs)), table


def log_noise(release, mechanism, x):
    """Return the log density of the release, for projected noise by other methods than inference."""
    y, system = release.table, release.kept
    query = np.eye(x.size, dtype=int) if mechanism.query is None else np.array(mechanism.query)
    if isinstance(mechanism, ppd.SubspaceLaplace) and mechanism.method == "projected":
        return projected(null_space(system.structure), y.values.ravel() - query @ x, mechanism.scale(system))
    return mechanism.logp(y, x if mechanism.query else release.frame.table(x))


def projected(space, z, s):
    """Return the log of the integral of exp(-|z + v|_1 / s) over all projected components v, up to a constant.

    This is the density of the free coordinates, sums of Laplace noise, by the inverse of their Fourier transform.
    """
    if space.dimension == z.size:
        return -np.abs(z).sum() / s
    basis, u = space.basis.toarray(), np.linspace(-40, 40, 801) / s
    grid = np.stack(np.meshgrid(*[u] * space.dimension), axis=-1)
    return np.log(np.sum(np.cos(grid @ (basis.T @ z)) / np.prod(1 + (s * grid @ basis.T) ** 2, axis=-1)))


def joint(release, mechanism, most=6):
    """Return tables that satisfy everything public, and the joint posterior of (table, multiplier of its rate)."""
    query = np.eye(release.table.size, dtype=int) if mechanism.query is None else np.array(mechanism.query)
    tables = box(0, most, query.shape[1])
    A = release.kept.A.toarray() @ query
    tables = tables[np.all(tables @ A.T == release.kept.values, axis=1)]
    noise = np.array([log_noise(release, mechanism, x) for x in tables])
    rates = np.outer(MULTIPLIERS, np.linspace(0.5, 2, query.shape[1]))
    data = stats.poisson.logpmf(tables[:, None], rates).sum(axis=2)
    return tables, special.softmax(data + WEIGHTS + noise[:, None])


@cache
def sampled(name, marginalize, number):
    """Return indices of tables and multipliers, one row per draw; cached for all tests."""
    release, table = case(name)
    with pm.Model(coords=release.coords) as model:
        which = pm.Bernoulli("which", 0.4)
        rate = np.linspace(0.5, 2, table.size).reshape(table.shape) * pm.math.switch(which, *MULTIPLIERS[::-1])
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=marginalize)
        idata = pm.sample(number // 2, tune=500, chains=2, cores=1, random_seed=1, **QUIET)
    x = ppd.sample_confidential(idata, model, random_seed=2).values.reshape(number, -1)
    return np.column_stack([x, idata.posterior["which"].values.ravel()])


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.deep) for name in CASES]
)
def test_posterior_equals_enumeration(name):
    """Distance relative to that expected of as many independent draws, and the mean log ratio; wrong: epsilon 20 % off.

    z of 6,000 independent draws against the wrong distribution is 11 to 32 by enumeration, of 4,000 quick draws 11.
    """
    make, public, _, kwargs = CASES[name]
    release, _ = case(name)
    wrong = {**kwargs, "epsilon": 1.2 * float(release.mechanism.epsilon)}
    number = 4000 if name in QUICK else DRAWS
    draws = sampled(name, "auto", number)

    tables, p = joint(release, release.mechanism)
    both, law = np.vstack([np.column_stack([tables, np.full(len(tables), k)]) for k in (0, 1)]), p.T.ravel()
    assert total_variation(draws, both, law) < np.sqrt(2 * law / np.pi / number).sum()
    z, z_wrong = contrast(draws, both, law, joint(release, make(public, **wrong).on(release.kept))[1].T.ravel())
    assert abs(z) < FAR < abs(z_wrong)


@pytest.mark.deep
def test_an_omitted_invariant_is_detected():
    """The wrong posterior weights answers whose public sum is off by the same Gaussian distribution."""
    release, _ = case("gaussian, answers")
    draws = sampled("gaussian, answers", "auto", DRAWS)[:, :-1]
    tables = box(0, 6, 3)
    z = release.table.values - tables @ CUMULATIVE.T
    log_p = -0.5 * (z**2).sum(axis=1) / release.mechanism.sigma(release.kept) ** 2
    data = stats.poisson.logpmf(tables[:, None], np.outer(MULTIPLIERS, np.linspace(0.5, 2, 3))).sum(axis=2)
    log_p += special.logsumexp(data + WEIGHTS, axis=1)
    kept = tables.sum(axis=1) == 5
    for where, agrees in ((kept, True), (kept | True, False)):
        p = special.softmax(np.where(where, log_p, -np.inf))
        assert (total_variation(draws, tables, p) < 2 * (0.5 * np.sqrt(2 * p / np.pi / DRAWS).sum())) == agrees


@pytest.mark.deep
def test_projected_noise_with_the_table_as_a_variable():
    """If the table can be marginalized: two methods for one posterior."""
    release, _ = case("projected, groups")
    draws = sampled("projected, groups", False, DRAWS)
    tables, p = joint(release, release.mechanism)
    assert total_variation(draws[:, :-1], tables, p.sum(axis=1)) < np.sqrt(2 * p.sum(axis=1) / np.pi / DRAWS).sum()


@pytest.mark.parametrize("name", ["projected, margins", "k-norm, answers", "extended, answers"])
@pytest.mark.deep
@pytest.mark.interpreted
def test_releases_come_back_from_their_files_and_draw_forward(name, tmp_path):
    release, table = case(name)
    release.save(tmp_path / "r.ppd")
    again = ppd.read_release(tmp_path / "r.ppd")
    sizes = (
        {}
        if release.dims == table.dims
        else {"county": table["county"].values if "county" in table.coords else range(3)}
    )
    dims = tuple(sizes) or None
    with pm.Model(coords={**again.coords, **sizes}) as model:
        rate = pm.Gamma("rate", 4, 2)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=again, dims=dims, marginalize=False)
        prior = pm.sample_prior_predictive(30, random_seed=3)
        idata = pm.sample(50, tune=50, chains=1, random_seed=3, **QUIET)
        predicted = pm.sample_posterior_predictive(idata, random_seed=3, progressbar=False)
    x, y = ppd.sample_confidential(idata, model), predicted.posterior_predictive["x_release"]
    assert x.dims == ("chain", "draw", *table.dims)
    assert y.dims == ("chain", "draw", *release.dims)
    query = np.eye(table.size) if release.mechanism.query is None else np.array(release.mechanism.query)
    for cells_, answers in ((x, y), (prior.prior["x"], prior.prior_predictive["x_release"])):
        noise = answers.values.reshape(-1, len(query)) - cells_.values.reshape(-1, table.size) @ query.T
        assert np.allclose(release.kept.A @ noise.T, 0)
        assert np.ptp(noise) > 0.1
    model.point_logps()  # finite at the initial point


def model_of(release, dist, **kwargs):
    with pm.Model(coords=release.coords):
        return ppd.PartiallyPrivate("x", dist, release=release, **kwargs)


def test_what_does_not_fit_is_refused():
    release, table = case("k-norm, answers")
    with pytest.raises(ModelError, match="not independent between cells"):
        model_of(release, pm.Poisson.dist(1.0), marginalize=True)
    with pytest.raises(ModelError, match="no coordinate 'county'"):
        model_of(release, pm.Poisson.dist(1.0), dims="county")
    with pytest.raises(ModelError, match="one column for each of 3 cells"):
        model_of(release, pm.Poisson.dist(1.0), dims="answer")
    with pytest.raises(ModelError, match="has the dimensions"):
        model_of(case("projected, total")[0], pm.Poisson.dist(1.0), dims="state")
    unseen = ppd.KNorm(Public(), 1, query=[[1, 1, 0]]).simulate(table, draws=1, rng=1)[0]
    with pytest.raises(ModelError, match="leave the count at cell_0=2 no largest value"):
        model_of(ppd.Release(unseen, ppd.KNorm(Public(), 1, query=[[1, 1, 0]], neighbours="added")), pm.Poisson.dist(1))
    for dims in (3, ("c", "c"), (None,)):
        with pytest.raises(ModelError, match="distinct names of dimensions"):
            model_of(release, pm.Poisson.dist(1.0), dims=dims)
    with pytest.raises(InvariantError, match="does not correspond to an integer"):
        model_of(ppd.Release([1.3, 2.3, 1.2], ppd.KNorm(Public(), 1)), pm.Poisson.dist(1.0))
    wide = xr.DataArray(np.arange(20), dims="c", coords={"g": ("c", list("AB") * 10)})
    noisy = wide + np.tile([0.5, 0.5, -0.5, -0.5], 5)
    with pytest.raises(ModelError, match=r"K-norm noise in 18 dimensions needs.*use SubspaceGaussian"):
        model_of(ppd.Release(noisy, ppd.KNorm(groups("g"), 1)), pm.Poisson.dist(1.0))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("make", [k_norm, correlated, laplace])
def test_queries_without_noise_leave_the_data_model_unchanged(make):
    """Queries that count all records equally: x given its public total is binomial."""
    mechanism = make(
        cells({"answer": 0}), query=[[2, 2], [1, 1]], **({"method": "extended"} if make is laplace else {})
    )
    release = ppd.Release(xr.DataArray([6.0, 3.0], dims="answer"), mechanism)
    with pm.Model(coords=release.coords):
        ppd.PartiallyPrivate("x", pm.Poisson.dist([1.0, 2.0]), release=release)
        idata = pm.sample(3000, tune=0, chains=1, random_seed=1, **QUIET)
    x = idata.posterior["x"].values.reshape(-1, 2)
    assert np.all(x.sum(axis=1) == 3)
    assert stats.chisquare(np.bincount(x[:, 0], minlength=4), 3000 * stats.binom.pmf(range(4), 3, 1 / 3)).pvalue > 1e-6


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("make", [k_norm, correlated, laplace])
def test_all_cells_fixed_have_density_one(make):
    mechanism = make(total() & cells({"dim_0": 0}), **({"method": "extended"} if make is laplace else {}))
    release = ppd.Release([1.0, 2.0], mechanism)
    assert mechanism.logp(release.table, [1, 2]) == 0
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(1.5), release=release, marginalize=False)
    assert model.point_logps()["x_release"] == 0


def test_rows_and_tables_behind_answers():
    """Queries are the totals of two rows and the first column: multinomial rows, windows from all answers together."""
    query = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0]])
    public = cells({"answer": [0, 1]})
    table = np.array([[2, 0, 3], [1, 1, 2]])
    release = ppd.Release(
        gaussian(public, query=query).simulate(table, draws=1, rng=1)[0], gaussian(public, query=query)
    )
    with pm.Model(coords={**release.coords, "row": ["a", "b"], "column": [0, 1, 2]}) as model:
        ppd.PartiallyPrivate("x", pm.Multinomial.dist([5, 4], np.ones(3) / 3), release=release, dims=("row", "column"))
        idata = pm.sample(200, tune=100, chains=1, random_seed=1, **QUIET)
    x = ppd.sample_confidential(idata, model)
    assert x.dims == ("chain", "draw", "row", "column")
    assert np.unique(x.sum("column").values.reshape(-1, 2), axis=0).tolist() == [[5, 4]]
    assert x.min() >= 0
    assert x.max() <= 5
