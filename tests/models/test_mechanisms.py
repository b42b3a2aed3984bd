"""Inference from single releases and from several, against enumeration of tables; the combinations have other laws."""

import math

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from chi_square import p_value_of_tables
from enumeration import fiber_points, total_variation
from known_parameters import QUIET, gibbs_draws, known
from scipy import special, stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning, ModelError, PrivacyError
from ppdinf.invariants import Public, margin, nonnegative, total
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.laws.l2_laplace import JointL2, mixing_precision
from ppdinf.mechanisms import DirichletMultinomial, DoubleGeometric

RATES = np.array([0.5, 2.0, 1.0, 1.5])

THREE = xr.DataArray([2, 0, 3], dims="county")
SQUARE = xr.DataArray([[1, 2], [0, 2]], dims=("sex", "age"))
SUM = total() & nonnegative()
MARGINS = margin("sex") & margin("age") & nonnegative()
CASES = {
    "real, total": (lambda p: ppd.SubspaceGaussian(p, 1, 0.2), SUM, THREE + np.array([0.3, 0.3, -0.6])),
    "l2, margins": (lambda p: ppd.GeneralizedLaplace(p, 1, norm="l2"), MARGINS, SQUARE),
    "conditioned": (lambda p: ppd.Conditioned(p, noise=DoubleGeometric("1/2")), SUM, THREE),
    "dirichlet": (
        lambda p: ppd.WassersteinExponential(p, 2, 2, "x", base_measure=DirichletMultinomial([4, 0, 1])),
        SUM,
        THREE,
    ),
}


def posterior(mechanism, system, y, rates):
    """Return the posterior of the confidential table from `logp` of every table, which other tests verify."""
    tables = fiber_tables(system.A, system.values, system.B, system.limits)
    log_c = np.zeros(len(tables))
    if isinstance(mechanism, ppd.WassersteinExponential) and mechanism.law.is_mixture:  # its weights omit C(x)
        log_c = special.logsumexp(
            [[mechanism.log_weight(system, other, x) for other in tables] for x in tables], axis=1
        )
    log_data = (tables * np.log(rates) - rates - special.gammaln(tables + 1)).sum(axis=1)
    log_noise = np.array([mechanism.log_weight(system, y, x) for x in tables])
    return tables, special.softmax(log_data + log_noise - log_c)


MARKS = dict.fromkeys(["conditioned", "dirichlet"], pytest.mark.deep) | {"l2, margins": pytest.mark.compiled}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in CASES])
def test_posterior_of_the_table_equals_enumeration(name):
    make, public, y = CASES[name]
    release = ppd.Release(y, make(public))
    mechanism, system = release.mechanism, release.public
    rates = RATES[: y.size]
    tables, p = posterior(mechanism, system, y.values.ravel(), rates)
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rates.reshape(y.shape)), release=release, marginalize="auto")
        walked = {"tune": 300, "chains": 2, "cores": 1, "random_seed": 1, **QUIET}
        idata = pm.sample(2500, **walked) if model.free_RVs else known(5000)
    draws = ppd.sample_confidential(idata, model, random_seed=2).values.reshape(5000, -1)
    distance = total_variation(draws, tables, p)
    noise = 0.5 * np.sqrt(2 * p / np.pi / 5000).sum()  # expected distance for as many independent draws
    assert distance < 3 * noise
    flat = special.softmax(np.log(p) - [mechanism.log_weight(system, y.values.ravel(), x) for x in tables])
    assert total_variation(draws, tables, flat) > 3 * noise  # ignoring the release is detected


def test_ignoring_the_normalizer_is_detected():
    make, public, y = CASES["conditioned"]
    mechanism, system = make(public), public.on(y)
    tables, p = posterior(mechanism, system, y.values, RATES[:3])
    log_c = np.array([mechanism.log_normaliser(system, x) for x in tables])
    without = special.softmax(np.log(p) + log_c)
    assert 0.5 * np.abs(p - without).sum() > 0.03  # more than the tolerance of the test above


def test_marginal_density_of_real_noise_equals_enumeration():
    """Up to a constant, over values of a rate."""
    make, public, y = CASES["real, total"]
    release = ppd.Release(y, make(public))
    mechanism, system = release.mechanism, release.public
    with pm.Model(coords=release.coords) as model:
        rate = pm.Uniform("rate", 0.1, 9, default_transform=None)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate * np.array([1, 2, 3])), release=release, marginalize=True)
    logp = model.compile_fn(model.logp(sum=True, jacobian=False), inputs=model.value_vars, mode="FAST_COMPILE")
    tables = fiber_tables(system.A, system.values, system.B, system.limits)
    log_noise = np.array([mechanism.log_weight(system, y.values, x) for x in tables])
    found, expected = [], []
    for value in (0.4, 1.5, 4.0):
        mu = value * np.array([1, 2, 3])
        log_data = (tables * np.log(mu) - mu - special.gammaln(tables + 1)).sum(axis=1)
        expected.append(special.logsumexp(log_data + log_noise))
        found.append(float(logp({"rate": np.array(value)})))
    assert np.diff(found) == pytest.approx(np.diff(expected), abs=1e-6)


def test_tables_are_not_marginalized_if_the_normalizer_depends_on_them():
    make, public, y = CASES["conditioned"]
    release = ppd.Release(y, make(public))
    with pm.Model(coords=release.coords), pytest.raises(ModelError, match="normalizing constant"):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(1.0), release=release, marginalize=True)


@pytest.mark.quick_cases(0)
def test_windows_extend_as_far_as_bounds_move_a_release():
    """Zeros can only increase, so the one large count decreases far more than its own noise would move it."""
    table = np.zeros(200, dtype=int)
    table[0] = 3000
    mechanism = ppd.Conditioned(total() & nonnegative(), noise=DoubleGeometric("1/5"))
    released = mechanism.simulate(table, draws=1, rng=1).values[0]
    assert 3000 - released[0] > DoubleGeometric("1/5").tail_start(math.log(1e-15 / 200))
    release = ppd.Release(released, mechanism)
    with pm.Model(coords=release.coords):
        counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(15.0), release=release)
    fiber = counts.owner.op.fiber
    assert np.all((fiber.lower <= table) & (table < fiber.lower + fiber.width))
    assert fiber.at_edge(table) == 0


def test_windows_extend_as_far_as_a_base_measure_moves_a_release():
    table = np.array([60, 140])
    base = ppd.mechanisms.DirichletMultinomial([750, 250])
    mechanism = ppd.WassersteinExponential(total() & nonnegative(), 8, 2, "x", base_measure=base)
    released = mechanism.simulate(table, draws=1, rng=1).values[0]
    release = ppd.Release(released, mechanism)
    with pm.Model(coords=release.coords):
        counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(100.0), release=release)
    fiber = counts.owner.op.fiber
    assert (fiber.lower.tolist(), fiber.width) == ([-1, -1], 203)


inv, laws = ppd.invariants, ppd.laws
RARE = 1e-5
MEANS = np.array([1.0, 3.0, 2.0])
ONE, TWO = np.array([6, 0, 1]), np.array([2, 2, 3])
TABLES = np.array([(i, j, 7 - i - j) for i in range(8) for j in range(8 - i)])


def l2_releases():
    first = ppd.Release(ONE, ppd.GeneralizedLaplace(inv.total(), epsilon=2, norm="l2"))
    return [first, ppd.Release(TWO, ppd.GeneralizedLaplace(inv.total(), epsilon="1/2", norm="l2"))]


def log_posterior(norm=2):
    found = (TABLES * np.log(MEANS) - gammaln(TABLES + 1)).sum(axis=1)
    return found - 2 * np.linalg.norm(TABLES - ONE, norm, axis=1) - 0.5 * np.linalg.norm(TABLES - TWO, norm, axis=1)


def p_value(draws, log_law):
    return p_value_of_tables(draws, TABLES, np.exp(log_law - logsumexp(log_law)))


@pytest.mark.quick_cases(0)
def test_two_releases_in_a_model():
    """Scales are drawn in the step; wrong variants: l1 noise, and without the second release."""
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(MEANS), release=l2_releases())
    assert [v.name for v in model.free_RVs] == ["x"]
    draws = gibbs_draws(model, 8000, every=1, sweeps=8)
    assert p_value(draws, log_posterior()) > RARE
    assert p_value(draws, log_posterior(norm=1)) < RARE
    without = log_posterior() + 0.5 * np.linalg.norm(TABLES - TWO, axis=1)
    assert p_value(draws, without) < RARE
    density = model.compile_logp()
    found = [density({"x": table}) for table in TABLES]
    log_law = log_posterior()
    assert np.allclose(np.array(found) - found[0], log_law - log_law[0])


@pytest.mark.quick_cases(0)
def test_without_a_model_and_in_a_file(tmp_path):
    seen = ppd.Measurements.of_releases(l2_releases())
    seen.save(tmp_path / "two.ppd")
    again = ppd.read_measurements(tmp_path / "two.ppd")
    assert again.equals(seen)
    posterior = ppd.denoise(again, draws=2000, tune=50, prior="flat", rng=1, progressbar=False)
    draws = posterior.draws.values.reshape(-1, 3)
    flat = log_posterior() - (TABLES * np.log(MEANS) - gammaln(TABLES + 1)).sum(axis=1)
    assert p_value(draws[::2], flat) > RARE
    assert p_value(draws[::2], 1.5 * flat) < RARE


@pytest.mark.quick_cases(0)
def test_scales_given_errors():
    """Moments of v squared given b: generalized inverse Gaussian, mean sqrt(b) + 1."""
    rng = np.random.default_rng(1)
    for squares in (0.0, 9.0):
        v2 = 0.25 / np.array([mixing_precision(0.5, squares, rng) for _ in range(40_000)])
        b = 0.25 * squares
        error = v2.std() / 200
        assert abs(v2.mean() - (np.sqrt(b) + 1)) < 4.5 * error


@pytest.mark.quick_cases(0)
def test_forward_draws():
    """Three numbers: chi-square of the squared error against its distribution, at 1e-5; epsilon +10 % fails."""
    law, rng = JointL2(laws.L2Laplace(1)), np.random.default_rng(2)
    z = law.publish(np.zeros((6000, 3), dtype=np.int64), rng)
    far = np.arange(-25, 26)
    squares = (np.array(np.meshgrid(far, far, far)) ** 2).sum(axis=0).ravel()

    def p(epsilon):
        expected = np.bincount(squares, weights=np.exp(-epsilon * np.sqrt(squares)))
        expected *= len(z) / expected.sum()
        seen = np.bincount((z**2).sum(axis=1), minlength=expected.size)[: expected.size]
        bins = np.minimum((np.cumsum(expected) / len(z) * 20).astype(int), 19)
        e, o = np.bincount(bins, weights=expected), np.bincount(bins, weights=seen)
        return stats.chisquare(o[e > 5], e[e > 5] * o[e > 5].sum() / e[e > 5].sum()).pvalue

    assert p(1.0) > RARE
    assert p(1.1) < RARE


def test_a_subset_of_the_numbers_is_refused():
    part = ppd.measured(inv.margin("a"), [3, None], laws.L2Laplace(1))
    with pytest.raises(PrivacyError, match="'a=y' is missing"):
        ppd.Measurements({"a": ["x", "y"]}, part)


@pytest.mark.quick_cases(1)
@pytest.mark.compiled
@pytest.mark.parametrize("marginalize", [True, False])
def test_public_total_known_separately_from_an_unconstrained_release(marginalize, tmp_path):
    y = np.array([4, -1, 2])  # sums to 5, the public total is 6
    public = total().on(y, values=[6])
    release = ppd.Release(y, ppd.GeneralizedLaplace(Public(()), epsilon="1/2"), public=public)
    release.save(tmp_path / "measured.ppd")
    release = ppd.read_release(tmp_path / "measured.ppd")
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=marginalize)
        idata = known(20_000) if marginalize else pm.sample(10_000, tune=200, chains=2, cores=1, random_seed=2, **QUIET)
    draws = ppd.sample_confidential(idata, model, random_seed=2).values.reshape(-1, 3)
    points = fiber_points(release.public.A, release.public.values, 6)
    logs = stats.poisson.logpmf(points, 2.0).sum(axis=1) - 0.5 * np.abs(points - y).sum(axis=1)
    p = np.exp(logs - np.logaddexp.reduce(logs))
    assert total_variation(draws, points, p) < 0.03  # 28 tables, 20,000 draws
    wrong = np.exp(stats.poisson.logpmf(points, 2.0).sum(axis=1))
    assert total_variation(draws, points, wrong / wrong.sum()) > 0.1


def test_sums_preserved_by_the_noise_are_added_to_the_public_statements():
    y = np.array([4, -1, 3])
    apart = ppd.invariants.cells({"dim_0": 0}).on(y, values=[5])
    release = ppd.Release(y, ppd.GeneralizedLaplace(total(), epsilon=1), public=apart)
    assert release.public.values.tolist() == [5, 6]
    assert release.kept.values.tolist() == [6]


def use(way, releases):
    if way != "in a model":
        return ppd.Measurements.of_releases(releases)
    with pm.Model(coords=releases[0].coords):
        return ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0, shape=3), release=releases)


@pytest.mark.parametrize("way", ["the same file twice", "all labels selected", "in a model"])
def test_equal_noise_is_reported(way, tmp_path):
    """Two releases with equal noisy counts are probably one release, whose noise would be counted twice."""
    table = ppd.as_table(np.array([3, 4, 2]), dims=["area"]).assign_coords(area=["v", "u", "w"])
    release = ppd.GeneralizedLaplace(total(), epsilon=1).release(table)
    release.save(tmp_path / "one.ppd")
    again = ppd.read_release(tmp_path / "one.ppd")
    if way == "all labels selected":
        again = release.sel(area=["v", "u", "w"])
    with pytest.warns(DiagnosisWarning, match="releases 1 and 2 have the same mechanism"):
        use(way, [release, again])


def test_different_noise_is_not_reported():
    y = ppd.as_table(np.array([3, 4, 2]), dims=["area"])
    mechanism = ppd.GeneralizedLaplace(total(), epsilon=1)
    ppd.Measurements.of_releases([ppd.Release(y, mechanism), ppd.Release(y + np.array([1, -1, 0]), mechanism)])
    ppd.Measurements.of_releases([ppd.Release(y, ppd.Suppression(total())), ppd.Release(y, mechanism)])
