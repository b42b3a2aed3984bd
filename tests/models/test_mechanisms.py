"""Inference from every family of integer mechanisms, against enumeration of tables and releases."""

import math

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from enumeration import total_variation
from known_parameters import known
from scipy import special

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.invariants import groups, margin, nonnegative, total
from ppdinf.lattice.points.fiber_tables import fiber_tables
from ppdinf.mechanisms import DirichletMultinomial, DoubleGeometric

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
RATES = np.array([0.5, 2.0, 1.0, 1.5])

THREE = xr.DataArray([2, 0, 3], dims="county")
SQUARE = xr.DataArray([[1, 2], [0, 2]], dims=("sex", "age"))
SUM = total() & nonnegative()
MARGINS = margin("sex") & margin("age") & nonnegative()
CASES = {
    "gaussian, total": (lambda p: ppd.GeneralizedGaussian(p, sigma="3/2"), SUM, THREE),
    "gaussian, margins": (lambda p: ppd.GeneralizedGaussian(p, sigma="3/2"), MARGINS, SQUARE),
    "l2, total": (lambda p: ppd.GeneralizedLaplace(p, 1, norm="l2"), SUM, THREE),
    "l2, margins": (lambda p: ppd.GeneralizedLaplace(p, 1, norm="l2"), MARGINS, SQUARE),
    "conditioned": (lambda p: ppd.Conditioned(p, noise=DoubleGeometric("1/2")), SUM, THREE),
    "conditioned, margins": (lambda p: ppd.Conditioned(p, noise=DoubleGeometric("1/2")), MARGINS, SQUARE),
    "wasserstein, l2": (lambda p: ppd.WassersteinExponential(p, 4, 2, "x", loss="l2"), SUM, THREE),
    "real, total": (lambda p: ppd.SubspaceGaussian(p, 1, 0.2), SUM, THREE + np.array([0.3, 0.3, -0.6])),
    "real, margins": (
        lambda p: ppd.SubspaceGaussian(p, 1, 0.2),
        MARGINS,
        SQUARE + np.array([[0.25, -0.25], [-0.25, 0.25]]),
    ),
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


HEAVY = {"conditioned", "dirichlet", "wasserstein, l2", "l2, total"}  # six to ten seconds each

MARKS = dict.fromkeys(HEAVY, pytest.mark.deep) | {"l2, margins": pytest.mark.compiled}  # noise with an auxiliary scale


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


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["gaussian, total", "l2, total", "real, total"])
def test_marginal_density_equals_enumeration(name):
    """Up to a constant, over values of a rate; the scale of l2 noise is integrated out numerically."""
    make, public, y = CASES[name]
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
        if name.startswith("l2"):
            v = (np.arange(600) + 0.5) / 60
            points = [{"rate": np.array(value), "x_noise_scale_log__": np.log(s)} for s in v]
            found.append(special.logsumexp([float(logp(point)) for point in points]))
        else:
            found.append(float(logp({"rate": np.array(value)})))
    # 1e-6: the trapezoid rule on the scale and its end
    assert np.diff(found) == pytest.approx(np.diff(expected), abs=1e-6)


def test_tables_are_not_marginalized_if_the_normalizer_depends_on_them():
    make, public, y = CASES["conditioned"]
    release = ppd.Release(y, make(public))
    with pm.Model(coords=release.coords), pytest.raises(ModelError, match="normalizing constant"):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(1.0), release=release, marginalize=True)


@pytest.mark.parametrize("name", ["l2, total", "conditioned", "gaussian, margins", "real, margins"])
@pytest.mark.deep
@pytest.mark.interpreted
def test_forward_draws_preserve_everything_public(name):
    make, public, y = CASES[name]
    release = ppd.Release(y, make(public))
    with pm.Model(coords=release.coords):
        rates = RATES[: y.size].reshape(y.shape)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rates), release=release, marginalize=False)
        prior = pm.sample_prior_predictive(20, random_seed=1)
    noise = (prior.prior_predictive["x_release"] - prior.prior["x"]).values.reshape(20, -1)
    assert np.allclose(release.kept.A @ noise.T, 0)
    assert noise.any()


def test_groups_under_gaussian_noise():
    y = xr.DataArray([2, -1, 3, 1], dims="county", coords={"state": ("county", list("AABB"))})
    release = ppd.Release(y, ppd.GeneralizedGaussian(groups("state"), sigma=2))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATES), release=release)
    draws = ppd.sample_confidential(known(50), model, random_seed=2)
    assert (draws.values @ [1, 1, 0, 0] == 1).all()


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
