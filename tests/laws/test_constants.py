"""Densities of published numbers and of releases are normalized: their totals over all outcomes, by enumeration.

Comparisons between laws of noise need the constants. A constant of other noise is detected.
"""

import itertools

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from grids import box
from scipy import integrate, stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.laws import (
    AdditiveNoise,
    Clipped,
    DiscreteGaussian,
    DoubleGeometric,
    Gaussian,
    L2Laplace,
    Laplace,
    RandomizedResponse,
    RandomRounding,
    Rounded,
    Sampled,
    Staircase,
    Thresholded,
    TransitionMatrix,
)
from ppdinf.laws.observation_model import as_observation_model
from ppdinf.noise.log_total import log_total

inv = ppd.invariants
Z = np.arange(-900, 901)
COUNTS = np.array([0, 1, 4, 7])
LAWS = {
    "geometric": (DoubleGeometric("1/3"), Z),
    "gaussian": (DiscreteGaussian("1/3"), Z),
    "wide gaussian": (DiscreteGaussian(20), Z),
    "staircase": (Staircase("1/2", 3, 2), Z),
    "table": (AdditiveNoise({-1: 0.25, 0: 0.5, 3: 0.25}), Z),
    "rounding": (RandomRounding(3), Z),
    "rounded": (Rounded(5), Z[Z % 5 == 0]),
    "clipped": (Clipped(DoubleGeometric("1/3"), 2), Z[Z >= 2]),
    "thresholded": (Thresholded(DiscreteGaussian(3), 5), Z[Z >= 4]),
    "clipped rounding": (Clipped(RandomRounding(3)), Z[Z >= 0]),
    "responses": (RandomizedResponse(9, 0.8, 0.3), Z),
    "sampled": (Sampled(3), 3 * np.arange(8)),
    "matrix": (TransitionMatrix(ppd.counts.truncated_geometric(8, 1).matrix), np.arange(8)),
}


@pytest.mark.parametrize("name", LAWS)
def test_integer_laws_of_published_numbers_sum_to_one(name):
    law, numbers = as_observation_model(LAWS[name][0]), LAWS[name][1]
    if name == "thresholded":
        numbers = np.append(law.mark, numbers[numbers >= 5])
    total = logsumexp(law.log_weight(numbers[:, None], COUNTS[None]), axis=0) - law.log_total(1)
    np.testing.assert_allclose(total, 0, atol=1e-9)


@pytest.mark.parametrize("law", [Gaussian(1.7), Laplace(2.3)], ids=str)
def test_real_laws_integrate_to_one(law):
    density = lambda y: np.exp(law.log_weight(y, 3) - law.log_total(1))  # noqa: E731
    assert integrate.quad(density, -80, 3)[0] + integrate.quad(density, 3, 80)[0] == pytest.approx(1, abs=1e-8)
    below = np.exp(Clipped(law, 2).log_weight(np.array([2.0]), np.array([3])))[0]
    assert below + integrate.quad(lambda y: np.exp(Clipped(law, 2).log_weight(y, 3)), 2, 60, points=[3])[0] == (
        pytest.approx(1, abs=1e-8)
    )


@pytest.mark.parametrize("epsilon", ["1/2", "2"])
def test_joint_l2_noise_sums_to_one(epsilon):
    law, z = as_observation_model(L2Laplace(epsilon)), box(-80, 80, 2).T
    assert logsumexp(law.log_weight(z, 0).sum(axis=0)) == pytest.approx(law.log_total(2), abs=1e-9)


SYSTEMS = {
    "one total": [[1, 1, 1]],
    "two totals": [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]],
    "crossing": [[1, 1, 1, 0], [0, 0, 1, 1]],
    "weights": [[1, 1, 2]],
}
NOISES = {
    "geometric": DoubleGeometric(1),
    "staircase": Staircase(2, 3, 2),
    "gaussian": DiscreteGaussian("3/4"),
    "wide gaussian": DiscreteGaussian(3),
    "l2": L2Laplace(2),
}


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize(("system", "noise"), list(itertools.product(SYSTEMS, NOISES)))
def test_noise_that_keeps_sums(system, noise):
    structure, law = ppd.lattice.structure(SYSTEMS[system]), NOISES[noise]
    basis, reach = structure.lattice.basis.toarray(), {2: 50, 3: 17}[structure.lattice.rank]
    z = box(-reach, reach, basis.shape[1]) @ basis.T
    log_mass = [law.log_mass(row) for row in z] if noise == "l2" else law.log_weight(z).sum(axis=1)
    assert log_total(structure, law) == pytest.approx(logsumexp(log_mass), abs=1e-4)
    independent = z.shape[1] * law.log_total if noise != "l2" else 0.0
    assert abs(log_total(structure, law) - independent) > 1e-3


def test_large_systems():
    """One total over 10,000 cells; both margins of a table, where Gaussian noise is known and l1 noise is not."""
    normal = stats.norm.logpdf(0, scale=10 * 100)  # the sum of noise, to a relative error of about 1e-4
    one = ppd.lattice.structure(np.ones((1, 10_000), dtype=np.int64))
    for law in (DiscreteGaussian(10), DoubleGeometric("0.1413")):
        assert log_total(one, law) - 10_000 * law.log_total == pytest.approx(normal, abs=2e-3)
    margins = np.vstack([np.kron(np.eye(9), np.ones(9)), np.kron(np.ones(9), np.eye(9))]).astype(np.int64)
    crossing = ppd.lattice.structure(margins)
    assert log_total(crossing, DoubleGeometric("1/10")) is None
    # 64 dimensions; the determinant of the lattice is 9^8, as (I + J) x (I + J) of order 8
    assert log_total(crossing, DiscreteGaussian(5)) == pytest.approx(32 * np.log(50 * np.pi) - 8 * np.log(9))


MECHANISMS = {
    "laplace": ppd.GeneralizedLaplace(inv.total(), 1),
    "gaussian": ppd.GeneralizedGaussian(inv.groups("state"), sigma=1),
    "l2": ppd.GeneralizedLaplace(inv.total(), 1, norm="l2"),
    "conditioned": ppd.Conditioned(inv.total(), Staircase(1, 2, 1)),
    "bounded": ppd.Conditioned(inv.total() & inv.nonnegative(), DoubleGeometric(1)),
    "wasserstein": ppd.WassersteinExponential(inv.total() & inv.nonnegative(), 5, 4, "x"),
    "transition": ppd.Transition(ppd.counts.truncated_geometric(8, 1).matrix),
}


def labelled(counts):
    return xr.DataArray(counts, dims="area", coords={"area": list("abc"), "state": ("area", ["x", "x", "y"])})


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", MECHANISMS)
def test_densities_of_mechanisms_sum_to_one(name):
    mechanism, x = MECHANISMS[name], np.array([3, 0, 2])
    outputs = box(-24, 28, 2) if name != "transition" else box(0, 7, 3)
    outputs = np.column_stack([outputs, x.sum() - outputs.sum(axis=1)]) if name != "transition" else outputs
    if name == "gaussian":
        outputs = outputs[outputs[:, :2].sum(axis=1) == 3]
    system = mechanism.public.on(labelled(x))
    settled = mechanism.on(system)
    found = [settled.log_weight(system, y, x) - settled.log_constant(system) for y in outputs]
    assert logsumexp(found) == pytest.approx(0, abs=2e-6)
    y = outputs[np.argsort(found)[-3]]
    assert mechanism.logp(labelled(y), labelled(x)) == pytest.approx(sorted(found)[-3])


REAL = {
    "gaussian": ppd.SubspaceGaussian(inv.total(), 1, "1e-3"),
    "gaussian, no grid": ppd.SubspaceGaussian(inv.Public(), 1, "1e-3", grid=None),
    "correlated": ppd.CorrelatedGaussian(inv.total(), 1, "1e-3"),
    "projected": ppd.SubspaceLaplace(inv.total(), "1/2"),
    "extended": ppd.SubspaceLaplace(inv.total(), "1/2", method="extended"),
    "independent": ppd.SubspaceLaplace(inv.Public(), "1/2", neighbours="added"),
}


@pytest.mark.parametrize("name", REAL)
def test_densities_of_real_releases_integrate_to_one(name):
    """Two cells: an integral over the released difference (or both cells), and over the removed component."""
    mechanism, x = REAL[name], np.array([3, 2])
    system = mechanism.public.on(x)
    likelihood = mechanism.on(system).likelihood(system)
    difference = system.A.shape[0] > 0 or likelihood.records is not None
    axes = np.array([[1.0, -1.0]]) / np.sqrt(2) if difference else np.eye(2)
    w, t = np.arange(-60, 60, 0.5), np.arange(-40, 40, 0.25)
    points = [x + np.array(at) @ axes for at in itertools.product(w, repeat=len(axes))]
    if likelihood.auxiliary is None:
        total = logsumexp([likelihood.log_table(y, x) for y in points])
    else:
        log_prior = stats.laplace.logpdf(t) + np.log(0.25)
        total = logsumexp([likelihood.log_table(y, x, np.array([u])) + p for u, p in zip(t, log_prior, strict=True)
                           for y in points])  # fmt: skip
    total += len(axes) * np.log(0.5)
    assert total == pytest.approx(likelihood.constant(), abs=0.03)


RATES = np.array([2.0, 1.0, 3.0])
TABLES = box(0, 24, 3)


def density_of_model(release, marginalize=True):
    """Return the log density of a model of Poisson counts at a fixed rate, and of its value at a table."""
    with pm.Model() as model:
        scale = pm.Gamma("scale", 2, 2)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(scale * RATES), release=release, marginalize=marginalize)
    at = {"scale_log__": np.log(1.3)}
    logp = model.compile_logp(vars=[model["x_release"]], jacobian=False)
    return (lambda x: float(logp({**at, "x": x}))) if not marginalize else float(logp(at))


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    "law", [DoubleGeometric("1/2"), DoubleGeometric(2), DiscreteGaussian(1), Laplace(1.5)], ids=str
)
@pytest.mark.parametrize("total", [False, True])
def test_models_of_measurements_compare_laws(law, total):
    """The evidence of one law against another: enumeration of tables with the probabilities of the noise."""
    y = np.array([3, -1, 4])
    public = {inv.total(): 5} if total else None
    seen = ppd.Measurements({"area": list("abc")}, ppd.measured(inv.margin("area"), y, law), public=public)
    if isinstance(law, Laplace):
        log_noise = lambda z: stats.laplace.logpdf(z, scale=law.scale)  # noqa: E731
    else:
        log_noise = lambda z: law.log_weight(z) - logsumexp(law.log_weight(Z))  # noqa: E731
    log_p = stats.poisson.logpmf(TABLES, 1.3 * RATES).sum(axis=1) + log_noise(y - TABLES).sum(axis=1)
    possible = TABLES.sum(axis=1) == 5 if total else np.ones(len(TABLES), dtype=bool)
    assert density_of_model(seen) == pytest.approx(logsumexp(log_p[possible]), abs=1e-6)
    x = np.array([1, 0, 4])
    assert density_of_model(seen, marginalize=False)(x) == pytest.approx(log_noise(y - x).sum())


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", ["laplace", "gaussian", "conditioned", "two releases"])
def test_models_of_releases_compare_laws(name):
    """The same for releases, whose noise keeps public sums; and for two releases of one table."""
    y, other = np.array([3, -1, 4]), np.array([2, 2, 2])
    mechanism = MECHANISMS["laplace" if name == "two releases" else name]
    release = ppd.Release(labelled(y), mechanism)
    system = mechanism.public.on(labelled(y))
    settled = mechanism.on(system)
    tables = TABLES[(system.values == TABLES @ system.A.T).all(axis=1)]
    log_q = np.array([settled.log_weight(system, y, x) for x in tables]) - settled.log_constant(system)
    if name == "two releases":
        noise = DoubleGeometric(2)
        release = [release, ppd.Release(labelled(other), ppd.GeneralizedLaplace(inv.Public(), 2))]
        log_q += noise.log_weight(other - tables).sum(axis=1) - 3 * logsumexp(noise.log_weight(Z))
    expected = logsumexp(stats.poisson.logpmf(tables, 1.3 * RATES).sum(axis=1) + log_q)
    assert density_of_model(release) == pytest.approx(expected, abs=1e-6)
    assert density_of_model(release, marginalize=False)(tables[0]) == pytest.approx(log_q[0], abs=1e-6)
