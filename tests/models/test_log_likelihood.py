"""Pointwise likelihoods sum to the model's, equal those of each group alone, and are refused if they do not exist."""

from functools import partial

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.distributions.marginalization import _refuse_particles
from ppdinf.errors import DiagnosisWarning, ModelError

AREAS, STATES = list("abcdef"), list("xxyyyz")
NOISY = np.array([3, -1, 4, 2, 0, 7])
RATES = np.array([2.0, 1.0, 5.0, 0.5, 1.0, 6.0])
few_groups = pytest.mark.filterwarnings("ignore:there are only:ppdinf.errors.DiagnosisWarning")


def released(chosen=slice(None), public=None, mechanism=ppd.GeneralizedLaplace, **loss):
    coords = {"area": AREAS[chosen], "state": ("area", STATES[chosen])}
    table = xr.DataArray(NOISY[chosen], dims="area", coords=coords)
    public = ppd.invariants.groups("state") if public is None else public
    return ppd.Release(table, mechanism(public, **(loss or {"epsilon": 1})))


def built(release, rates=RATES, dist=pm.Poisson.dist, **kwargs):
    with pm.Model(coords=release.coords) as model:
        scale = pm.Gamma("scale", 2, 2)
        ppd.PartiallyPrivate("x", dist(scale * rates), release=release, **kwargs)
    return model


def draws(*values):
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"scale": (("chain", "draw"), np.array([values]))})})


@pytest.mark.quick_cases(1)
@few_groups
@pytest.mark.parametrize("dist", [pm.Poisson.dist, lambda mu: pm.NegativeBinomial.dist(mu=mu, alpha=3.0)])
@pytest.mark.parametrize("free", [False, True])
def test_groups_sum_to_the_model_and_equal_single_groups(dist, free):
    release = released(public=ppd.invariants.Public() if free else ppd.invariants.groups("state"))
    model, idata = built(release, dist=dist), draws(0.5, 1.0, 2.0)
    found = ppd.log_likelihood(idata, model)
    names = [f"area={area}" for area in AREAS] if free else ["state=x", "state=y", "state=z"]
    assert found.public_group.values.tolist() == names
    logp = model.compile_logp(vars=[model["x_release"]], jacobian=False)
    whole = [logp({"scale_log__": np.log(scale)}) for scale in (0.5, 1.0, 2.0)]
    np.testing.assert_allclose(found.sum("public_group")[0], whole, rtol=1e-7)

    part = slice(2, 5)  # the state y, or its three areas
    alone = released(part, public=release.mechanism.public)
    model = built(alone, RATES[part], dist)
    logp = model.compile_logp(vars=[model["x_release"]], jacobian=False)
    expected = [logp({"scale_log__": np.log(scale)}) for scale in (0.5, 1.0, 2.0)]
    inside = found[0, :, 2:5].sum("public_group") if free else found[0, :, 1]
    np.testing.assert_allclose(inside, expected, rtol=1e-7)
    assert not np.allclose(found[0, :, 0], expected)


def test_arviz_leaves_out_groups():
    model, idata = built(released()), draws(*np.random.default_rng(1).gamma(500, 1 / 500, size=400))
    with pytest.warns(DiagnosisWarning, match="only 3 public groups"):
        ppd.log_likelihood(idata, model)
    assert az.loo(idata).n_data_points == 3


@few_groups
@pytest.mark.deep
def test_leaving_out_a_group_is_sampling_without_it():
    """Within 4.5 Monte Carlo errors of quadrature in three groups: a false alarm in 50,000 runs."""
    model = built(released())
    found = ppd.models.leave_one_out(
        model, draws=1000, tune=300, chains=2, random_seed=1, progressbar=False, compute_convergence_checks=False
    )
    grid = np.linspace(1e-3, 8, 4000)
    of_groups = ppd.log_likelihood(draws(*grid), model).values[0]
    log_prior = stats.gamma.logpdf(grid, 2, scale=1 / 2)[:, None]
    without = log_prior + of_groups.sum(axis=1, keepdims=True) - of_groups
    exact = logsumexp(without + of_groups, axis=0) - logsumexp(without, axis=0)
    assert (abs(found.elpd - exact) < 4.5 * found.monte_carlo_error).all()
    with_all = without + of_groups
    optimistic = logsumexp(with_all + of_groups, axis=0) - logsumexp(with_all, axis=0)
    assert (abs(found.elpd - optimistic) > 4.5 * found.monte_carlo_error).any()


@pytest.mark.deep
def test_evidence_of_noise_with_an_unknown_scale():
    """Poisson cells with known means and Gaussian noise: within 0.15 of summation and quadrature, as below."""
    noisy, x = np.array([3.4, 9.1, 4.7]), np.arange(60)
    with pm.Model() as model:
        law = ppd.laws.Gaussian(pm.LogNormal("s", 0, 1))
        data = ppd.Measurements({"a": [1, 2, 3]}, ppd.measured(ppd.invariants.margin("a"), noisy, law))
        ppd.PartiallyPrivate("x", pm.Poisson.dist([3.0, 5.0, 4.0]), data)
    log_s = np.linspace(-5, 5, 2001)[:, None, None]
    log_p = stats.poisson.logpmf(x[:, None], [3.0, 5.0, 4.0]) + stats.norm.logpdf(noisy, x[:, None], np.exp(log_s))
    log_p = stats.norm.logpdf(log_s.ravel()) + logsumexp(log_p, axis=1).sum(axis=1)
    assert evidence_by_smc(model) == pytest.approx(logsumexp(log_p) + np.log(0.005), abs=0.15)


def evidence_by_smc(model):
    with model:
        idata = pm.sample_smc(500, chains=4, cores=1, random_seed=1, progressbar=False)
    return np.mean([chain[-1] for chain in idata.sample_stats["log_marginal_likelihood"].values])


PAIRS = np.repeat(np.arange(10), 2)
PERSONS = np.array([12, 3, 9, 17, -1, 6, 22, 8, 4, 11, 2, 15, 7, 10, 28, 5, 1, 13, 9, 6])  # noisy
OTHERS = np.array([8, 11, 6, 14, 3, 9, 12, 10, 7, 5, 9, 8, 13, 6, 15, 11, 4, 9, 7, 12])  # noisy, of another table
DEATHS = np.array([4, 1, 3, 6, 0, 2, 9, 3, 1, 4, 1, 5, 3, 3, 10, 2, 0, 4, 4, 2])
GRID, STEP, X = np.linspace(-4, 4, 801), 0.01, np.arange(120)
LAPLACE, GAUSSIAN = (ppd.GeneralizedLaplace, {"epsilon": 1}), (ppd.GeneralizedGaussian, {"rho": "1/8"})
LOG_NOISE = {ppd.GeneralizedLaplace: lambda z: -abs(z), ppd.GeneralizedGaussian: lambda z: -(z**2) / 8}


def log_units(noisy, sums, law, weights):
    """Log density of each pair with an exact sum, or of each cell, from log weights of all its counts."""
    z, log_f = np.arange(-300, 301), LOG_NOISE[law]
    weights = weights + log_f(noisy[:, None] - X)
    if not sums:
        return logsumexp(weights, axis=-1) - logsumexp(log_f(z))
    pairs = []
    for i in range(0, noisy.size, 2):
        s = noisy[i : i + 2].sum()
        pairs.append(logsumexp(weights[..., i, : s + 1] + weights[..., i + 1, s::-1], axis=-1))
    return np.stack(pairs, axis=-1) - logsumexp(2 * log_f(z))


def a_table(name, noisy, sums, noise, dist):
    coords = {"area": range(20), "state": ("area", PAIRS)}
    public = ppd.invariants.groups("state") if sums else ppd.invariants.Public()
    release = ppd.Release(xr.DataArray(noisy, dims="area", coords=coords), noise[0](public, **noise[1]))
    return ppd.PartiallyPrivate(name, dist, release)


def of_rates(noise, dist, log_pmf, sums):
    """Counts with a common log mean; return their log densities at the grid, and those of what can be left out."""
    with pm.Model() as model:
        a_table("x", PERSONS, sums, noise, dist(pm.math.exp(2 + pm.Normal("t", 0, 1))))
    units = log_units(PERSONS, sums, noise[0], log_pmf(np.exp(2 + GRID[:, None, None])))
    return model, "groups", units.sum(axis=1), units


def of_deaths(denominator, sums):
    """Two noisy tables with known means; the deaths are binomial given the first one or the second one."""
    with pm.Model() as model:
        tables = [a_table(n, y, sums, LAPLACE, pm.Poisson.dist(9)) for n, y in {"x": PERSONS, "o": OTHERS}.items()]
        pm.Binomial("d", n=tables[denominator], logit_p=pm.Normal("t", 0, 1), observed=DEATHS)
    noisy, other = (OTHERS, PERSONS) if denominator else (PERSONS, OTHERS)
    prior = np.broadcast_to(stats.poisson.logpmf(X, 9), (GRID.size, 20, X.size))
    given = stats.binom.logpmf(DEATHS[:, None], X, 1 / (1 + np.exp(-GRID[:, None, None])))
    every = (np.arange(21)[:, None] != np.arange(20))[..., None]  # all deaths but one, or all
    of_rest = [log_units(noisy, sums, LAPLACE[0], prior + np.where(kept, given, 0)).sum(axis=1) for kept in every]
    whole = of_rest.pop()
    alone = log_units(other, sums, LAPLACE[0], prior[0]).sum()
    return model, "d", whole + alone, whole[:, None] - np.stack(of_rest, axis=1)


def poisson(noise):
    return partial(of_rates, noise, pm.Poisson.dist, lambda mean: stats.poisson.logpmf(X, mean))


def negative_binomial(mean):
    return pm.NegativeBinomial.dist(mu=mean, alpha=2)


OVERDISPERSED = partial(of_rates, LAPLACE, negative_binomial, lambda mean: stats.nbinom.logpmf(X, 2, 2 / (2 + mean)))
COMPARED = {
    "Laplace or Gaussian noise": (poisson(LAPLACE), poisson(GAUSSIAN)),
    "negative binomial or Poisson counts": (OVERDISPERSED, poisson(LAPLACE)),
    "deaths among the first or the second table": (partial(of_deaths, 0), partial(of_deaths, 1)),
}


def compared(posed, sums):
    """Evidence by quadrature of the density and by sequential Monte Carlo, elpd by `az.loo` of exact draws; as exact.

    The exact numbers are sums over all tables; those of the elpd refit the model without each part. The last number is
    the predictive density of data that are in the sample.
    """
    model, of, whole, units = posed(sums)
    log_p = (stats.norm.logpdf(GRID) + whole)[:, None]
    exact = logsumexp(log_p) - logsumexp(log_p - units, axis=0)
    in_sample = logsumexp(log_p + units, axis=0) - logsumexp(log_p)
    share = np.cumsum(np.exp(log_p - logsumexp(log_p)))
    t = np.random.default_rng(1).permutation(np.interp((np.arange(1000) + 0.5) / 1000, share, GRID + STEP / 2))
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset({"t": (("chain", "draw"), t[None])})})
    ppd.log_likelihood(idata, model, of)
    density = model.compile_logp()
    by_quadrature = logsumexp([density({"t": at}) for at in GRID]) + np.log(STEP)
    found = by_quadrature, evidence_by_smc(model), az.loo(idata).elpd
    return found, (logsumexp(log_p) + np.log(STEP), exact.sum()), in_sample.sum()


@pytest.mark.deep
@pytest.mark.parametrize("sums", [False, True], ids=["no sums", "sums of pairs"])
@pytest.mark.parametrize("name", COMPARED)
def test_comparisons_against_exact_leave_one_out_and_evidence(name, sums):
    """Sequential Monte Carlo within 0.15, five times the spread of four chains; the elpd of 1,000 draws within 0.05."""
    for posed in COMPARED[name]:
        (density, monte_carlo, elpd), (evidence, exact), in_sample = compared(posed, sums)
        assert density == pytest.approx(evidence, abs=1e-6)
        assert monte_carlo == pytest.approx(evidence, abs=0.15)
        assert elpd == pytest.approx(exact, abs=0.05)
        assert in_sample > exact + 0.1  # the wrong variant


def test_particles_without_the_public_sums_are_refused():
    """No prior draw has the sums of all rows and columns, so PyMC's marginal likelihood would be nan."""
    margins = ppd.invariants.margin("row") & ppd.invariants.margin("column")
    cells = xr.DataArray([[30, 50, 9], [40, 10, 20], [20, 60, 5]], dims=["row", "column"])
    crossing, free = (
        ppd.Release(cells, ppd.GeneralizedLaplace(public, epsilon=1)) for public in (margins, ppd.invariants.Public())
    )
    model = built(crossing, np.array([30.0, 40.0, 11.0]))
    drawn = pm.draw(model["x"], 100, random_seed=1)
    assert not (
        (drawn.sum(axis=1) == [90, 120, 34]).all(axis=1) & (drawn.sum(axis=2) == [89, 70, 85]).all(axis=1)
    ).any()
    with model, pytest.raises(ModelError, match="'x' does not have its public sums"):
        pm.sample_smc(100, progressbar=False)
    with built(free, np.array([30.0, 40.0, 11.0]), marginalize=False):
        assert _refuse_particles(lambda **_: "sampled") == "sampled"


NOISES = {
    "laplace": (ppd.GeneralizedLaplace, {"epsilon": 1}, lambda z: -abs(z)),
    "gaussian": (ppd.GeneralizedGaussian, {"rho": 1}, lambda z: -(z**2)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("noise", NOISES)
def test_cells_given_the_others_against_enumeration(noise):
    """Two groups, one with an area whose released count is negative; all releases of a cell are enumerated."""
    mechanism, loss, log_f = NOISES[noise]
    part = slice(0, 5)
    release = released(part, mechanism=mechanism, **loss)
    model, idata = built(release, RATES[part]), draws(0.5, 2.0)
    of_law = release.likelihood.log_counts(np.zeros(1), np.arange(3)[None])[0]
    np.testing.assert_allclose(of_law - of_law[0], log_f(np.arange(3)))
    found = ppd.log_likelihood(idata, model, of="cells").values[0]
    for scale, row in zip((0.5, 2.0), found, strict=True):
        expected, flat = [], []
        for k in range(5):
            own = [0, 1] if k < 2 else [2, 3, 4]
            y, at, log_p = NOISY[own], own.index(k), []
            values = np.arange(-25, 40)
            for value in values:
                y[at] = value
                log_p.append(log_of_release(y, scale * RATES[own], log_f))
            log_p = np.array(log_p)
            expected.append(log_p[values == NOISY[k]].item() - logsumexp(log_p))
            flat.append(log_p[values == NOISY[k]].item())
        np.testing.assert_allclose(row, expected, atol=1e-6)
        assert not np.allclose(np.diff(row), np.diff(flat), atol=1e-2)


def log_of_release(y, rates, log_f):
    """Log weight of a release of two or three cells: all tables with its sum, Poisson counts, noise of the lattice."""
    total = y.sum()
    tables = np.array([x for x in np.ndindex(*[max(total, 0) + 1] * (y.size - 1)) if sum(x) <= total])
    if total < 0 or not tables.size:
        return -np.inf
    tables = np.column_stack([tables, total - tables.sum(axis=1)])
    return logsumexp((stats.poisson.logpmf(tables, rates) + log_f(y - tables)).sum(axis=1))


@pytest.mark.quick_cases(3)
@few_groups
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("deviations", [0, 1, 5, 20, 80])
def test_cells_far_from_the_model(deviations, total, noise):
    """A cell at several standard deviations of its noise: all tables of the cells are summed, with certain constants.

    Posterior counts are then far from the released ones, and under a public total those of the other cells are, too.
    """
    mechanism, loss, log_f = NOISES[noise]
    rate, x = 12.0, np.arange(400)
    sd = {"laplace": 1.36, "gaussian": 0.71}[noise]
    y = np.array([12 + round(deviations * sd), 11, 13])
    release = ppd.Release(y, mechanism(ppd.invariants.total() if total else ppd.invariants.Public(), **loss))
    found = ppd.log_likelihood(draws(1.0), built(release, np.full(3, rate)), of="cells").values[0, 0]
    log_p, z = stats.poisson.logpmf(x, rate), np.arange(-2000, 2001)
    if not total:
        expected = [logsumexp(log_p + log_f(value - x)) - logsumexp(log_f(z)) for value in y]
        if deviations < 80:  # windows of the model are computed before the draws are known
            one = ppd.log_likelihood(draws(1.0), built(release, np.full(3, rate))).values[0, 0]
            np.testing.assert_allclose(one, expected, atol=1e-6)
    else:
        expected = []
        for i in range(3):
            first, second = (log_p + log_f(value - x) for value in np.delete(y, i))
            pairs = [logsumexp(first[: s + 1] + second[s::-1]) for s in x]
            with_i = log_p + log_f(y[i] - x)
            s = x[x <= y.sum()]
            joint = logsumexp(np.array(pairs)[s] + with_i[y.sum() - s])
            expected.append(joint - logsumexp(np.array(pairs) + log_f(y[i] - (y.sum() - x))))
    np.testing.assert_allclose(found, expected, atol=1e-8)


BY_STATE = ppd.invariants.groups("state")
CROSSING = BY_STATE & ppd.invariants.linear(np.eye(6)[:1] + np.eye(6)[2])


@pytest.mark.parametrize(
    ("changes", "of", "words"),
    [
        ({"public": BY_STATE & ppd.invariants.total()}, "cells", "at most one public sum"),
        ({"epsilon": 1, "norm": "l2"}, "cells", "shared by all cells"),
        ({"public": ppd.invariants.total() & ppd.invariants.between(-9, 9)}, "cells", "public bounds"),
        ({}, "areas", "'groups' or 'cells'"),
        ({"public": CROSSING}, "groups", "'x' cannot be marginalized"),
        ({"public": ppd.invariants.total()}, "groups", "one public sum contains all cells"),
        ({"epsilon": 1, "norm": "l2"}, "groups", "shared by all cells"),
    ],
)
def test_missing_pointwise_likelihoods_are_refused(changes, of, words):
    with pytest.raises(ModelError, match=words):
        ppd.log_likelihood(draws(1.0), built(released(**changes)), of=of)


@pytest.mark.quick_cases(0)
def test_releases_drawn_again_preserve_the_public_sums_in_both_models():
    """They agree in mean: 2,000 draws each; a z of 4.5 in one of six cells on either side has probability 1e-4."""
    release, means = released(), []
    for marginalize in (True, False):
        model = built(release, marginalize=marginalize)
        idata = draws(*np.ones(2000))
        if not marginalize:
            exact = ppd.sample_confidential(draws(*np.ones(2000)), built(release), random_seed=7)
            idata["posterior"] = idata.posterior.to_dataset().assign(x=exact)
        again = ppd.sample_release(idata, model, random_seed=3)
        assert again.dims == ("chain", "draw", "area")
        sums = again.assign_coords(state=("area", STATES)).groupby("state").sum().values.reshape(-1, 3)
        assert set(map(tuple, sums.tolist())) == {(2, 6, 7)}
        assert again.std("draw").values[0, :5].min() > 0.5
        means.append((again.mean("draw").values[0], again.std("draw").values[0] / 2000**0.5))
    (first, error), (second, other) = means
    assert np.all(np.abs(first - second) <= 4.5 * np.hypot(error, other) + 1e-12)


def test_several_releases_drawn_again_preserve_their_own_sums():
    first, second = released(), released(public=ppd.invariants.Public())
    with pm.Model(coords=first.coords) as model:
        scale = pm.Gamma("scale", 2, 2)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(scale * RATES), release=[first, second])
    again = ppd.sample_release(draws(*np.ones(200)), model, random_seed=4).values[0]
    kept, free = again[:, :6], again[:, 6:]
    states = np.stack([kept[:, :2].sum(1), kept[:, 2:5].sum(1), kept[:, 5]], axis=1)
    assert (states == [2, 6, 7]).all()
    assert kept[:, :5].std(axis=0).min() > 0.5
    assert free.sum(axis=1).std() > 1


@few_groups
def test_one_of_several_tables():
    release, other = released(), released(slice(0, 5))
    with pm.Model(coords=release.coords) as model:
        scale = pm.Gamma("scale", 2, 2)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(scale * RATES), release=release)
        table = xr.DataArray(NOISY[:5], dims="place", coords={"place": AREAS[:5], "state": ("place", STATES[:5])})
        second = ppd.Release(table, other.mechanism)
        ppd.PartiallyPrivate("y", pm.Poisson.dist(scale * RATES[:5]), release=second)
    idata = draws(0.5, 1.0)
    for name, alone in (("x", release), ("y", second)):
        found = ppd.log_likelihood(idata, model, name=name)
        rates = RATES if name == "x" else RATES[:5]
        np.testing.assert_allclose(found, ppd.log_likelihood(draws(0.5, 1.0), built(alone, rates)))
        drawn = ppd.sample_release(idata, model, name=name, random_seed=1)
        assert drawn.dims == ("chain", "draw", *alone.dims)
    with pytest.raises(ModelError, match=r"pass name=, one of \['x', 'y'\]"):
        ppd.sample_release(idata, model)
    sampling = {"draws": 5, "tune": 5, "chains": 1, "random_seed": 1, "progressbar": False, "quiet": True}
    left_out = ppd.models.leave_one_out(model, name="y", **sampling, compute_convergence_checks=False)
    assert left_out.index.tolist() == ["state=x", "state=y"]


@pytest.mark.parametrize("known", [False, True])
def test_log_likelihoods_without_the_constant_of_the_noise_are_reported(known, recwarn):
    """The weights of an l2 loss within bounds have a constant that depends on the table."""
    public = ppd.invariants.total() if known else ppd.invariants.total() & ppd.invariants.nonnegative()
    mechanism = ppd.WassersteinExponential(public, 4, 2, "any two", loss="l2")
    with pm.Model() as model:
        scale = pm.Gamma("scale", 2, 2)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(scale * np.ones(3)), ppd.Release(np.array([3, 1, 2]), mechanism))
    point = {
        name: (("chain", "draw", *"abc"[: np.ndim(value)]), np.array(value)[None, None])
        for name, value in {"scale": 1.0, "x_noise_scale": 1.0, "x": [3, 1, 2]}.items()
    }
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(point)})
    pm.compute_log_likelihood(idata, model=model, progressbar=False)
    said = [
        str(one.message)
        for one in recwarn
        if "normalizing constant of the noise, which is not known" in str(one.message)
    ]
    assert len(said) == (not known)
    assert all("'x_release'" in message for message in said)
