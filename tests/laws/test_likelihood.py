"""Likelihoods of mechanisms: equal evaluations, integration over auxiliary variables, constants, and refusals."""

import itertools
import pickle

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from grids import box
from scipy import integrate, stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.invariants import Public, nonnegative, total
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace, Laplace, Staircase
from ppdinf.laws.likelihood import Likelihood, MixingScale, RemovedShift
from ppdinf.mechanisms import random_rounding
from ppdinf.noise.log_total import log_total

inv = ppd.invariants
X = np.array([3, 0, 2, 1])
TABLES = np.array([[3, 0, 2, 1], [2, 1, 2, 1], [0, 0, 6, 0], [1, 1, 1, 3]])
QUERY = [[1, 1, 0, 0], [0, 1, 1, 1]]
BOUNDED = total() & nonnegative()
MECHANISMS = {
    "l1": ppd.GeneralizedLaplace(total(), "1/2"),
    "l2": ppd.GeneralizedLaplace(total(), "1/2", norm="l2"),
    "gaussian": ppd.GeneralizedGaussian(total(), sigma=2),
    "exact gaussian": ppd.GeneralizedGaussian(total(), 1, "1e-4", calibration="exact"),
    "conditioned": ppd.Conditioned(total(), noise=DiscreteGaussian(2)),
    "staircase": ppd.Conditioned(BOUNDED, noise=Staircase(1)),
    "bounded": ppd.Conditioned(BOUNDED, noise=DoubleGeometric("1/2")),
    "wasserstein, l2": ppd.WassersteinExponential(BOUNDED, 1, 2, "x", loss="l2"),
    "rounding": random_rounding(3, upper=12),
    "two stages": ppd.counts.TwoStage(1, n=8, measured=[4, 1, 3, 3, 4, 4, 4, 4]),
    "nothing": ppd.Suppression(BOUNDED),
    "subspace gaussian": ppd.SubspaceGaussian(total(), 1, "1e-4"),
    "subspace laplace": ppd.SubspaceLaplace(total(), 1),
    "extended": ppd.SubspaceLaplace(total(), 1, "extended"),
    "correlated": ppd.CorrelatedGaussian(total(), 1, "1e-4"),
    "k-norm": ppd.KNorm(total(), 1),
    "answers": ppd.SubspaceGaussian(Public(), 1, "1e-4", query=QUERY),
    "projected answers": ppd.SubspaceLaplace(total(), 1, query=QUERY),
}

POSSIBLE = {"rounding": [3, 3, 0, 0], "two stages": [3, 1, 0, 1]}  # releases that matrices allow


def stated(name):
    """Return the bound mechanism, the system of its answers, its likelihood, and a release of `X`."""
    mechanism = MECHANISMS[name]
    answers = X if mechanism.queries is None else np.array(mechanism.queries) @ X
    system = mechanism.public.on(answers)
    settled = mechanism.on(system)
    likelihood = settled.likelihood(system)
    y = np.array(POSSIBLE.get(name, answers + np.resize([-1, 1], answers.size)))
    return settled, system, likelihood, y


def auxiliary(likelihood):
    variable = likelihood.auxiliary
    if variable is None:
        return ()
    return (np.float64(variable.typical),) if variable.is_scalar else (np.full(variable.directions.shape[1], 0.3),)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", MECHANISMS)
def test_numpy_and_pytensor_agree(name):
    _, _, likelihood, y = stated(name)
    assert isinstance(likelihood, Likelihood)
    given = auxiliary(likelihood)
    symbolic = [pt.as_tensor(value) for value in given]
    answers = TABLES if likelihood.query is None else TABLES @ likelihood.query.T
    for own in answers:
        expected = likelihood.log_table(y, own, *given)
        found = likelihood.log_table(pt.as_tensor(y), pt.as_tensor(own), *symbolic).eval()
        assert found == pytest.approx(float(expected), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in ("answers", "projected answers")])
def test_weights_of_cells_sum_to_the_weight_of_the_table(name):
    """The sum of the weights of single cells equals the weight of the table; norms do not have such weights."""
    _, _, likelihood, y = stated(name)
    if likelihood.norm is not None:
        assert name in ("extended", "correlated", "k-norm")
        return
    given, counts = auxiliary(likelihood), np.tile(np.arange(13), (4, 1))
    weights = likelihood.log_counts(y, counts, *given)
    assert weights.shape == counts.shape
    for x in TABLES:
        added = weights[np.arange(4), x].sum() - likelihood.log_prior_in_weights(*given)
        assert added == pytest.approx(likelihood.log_table(y, x, *given), abs=1e-12, nan_ok=True)
    if likelihood.is_fixed_by_cell:
        np.testing.assert_array_equal(likelihood.form.log_weight(y[:, None], counts), weights)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in ("projected answers", "nothing")])
def test_densities_agree_up_to_a_constant(name):
    """The likelihood equals the mechanism's density up to one constant.

    The factor of the whole table is included, and the auxiliary variable is integrated out. For l2 noise the normaliser
    of the table is not part of the likelihood, because the exchange step of the sampler accounts for it.
    """
    settled, system, likelihood, y = stated(name)
    tables = TABLES if likelihood.query is None else TABLES @ likelihood.query.T
    found = []
    for x in tables:
        if likelihood.auxiliary is None:
            one = likelihood.log_table(y, x)
        elif isinstance(likelihood.auxiliary, MixingScale):
            one = np.log(
                integrate.quad(lambda v, x=x: np.exp(likelihood.log_table(y, x, v) - v * v / 2), 0, 60, limit=200)[0]
            )
        else:
            kinks = sorted(x - y)
            one = np.log(
                integrate.quad(
                    lambda t, x=x: np.exp(likelihood.log_table(y, x, np.array([t])) - abs(t)),
                    -60,
                    60,
                    limit=500,
                    points=[0.0, *kinks],
                )[0]
            )
        found.append(one + likelihood.log_of_table(x))
    density = settled.log_unnormalised if isinstance(likelihood.auxiliary, MixingScale) else settled.log_weight
    expected = np.array([density(system, y, x) for x in tables])
    possible = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), possible)
    off = np.array(found)[possible] - expected[possible]
    np.testing.assert_allclose(off, off[0], atol=1e-7)


@pytest.mark.parametrize("name", MECHANISMS)
def test_likelihoods_can_be_pickled(name):
    _, _, likelihood, y = stated(name)
    again, given = pickle.loads(pickle.dumps(likelihood)), auxiliary(likelihood)
    answers = X if likelihood.query is None else likelihood.query @ X
    assert again.log_table(y, answers, *given) == likelihood.log_table(y, answers, *given)
    assert again.support_radius == likelihood.support_radius


def test_auxiliary_variables_and_normalisers():
    likelihoods = {name: stated(name)[2] for name in MECHANISMS}
    for kind, having in {
        MixingScale: {"l2", "wasserstein, l2"},
        RemovedShift: {"subspace laplace", "projected answers"},
    }.items():
        assert {name for name, likelihood in likelihoods.items() if isinstance(likelihood.auxiliary, kind)} == having
    normalisers = {name: likelihood.normaliser for name, likelihood in likelihoods.items() if likelihood.normaliser}
    assert set(normalisers) == {"staircase", "bounded", "wasserstein, l2"}
    assert [name for name, normaliser in normalisers.items() if normaliser.log is None] == ["wasserstein, l2"]


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


UNBOUNDED = {
    "laplace": ppd.GeneralizedLaplace(inv.total(), 1),
    "gaussian": ppd.GeneralizedGaussian(inv.groups("state"), sigma=1),
    "l2": ppd.GeneralizedLaplace(inv.total(), 1, norm="l2"),
    "conditioned": ppd.Conditioned(inv.total(), Staircase(1, 2, 1)),
}


def labelled(counts):
    return xr.DataArray(counts, dims="area", coords={"area": list("abc"), "state": ("area", ["x", "x", "y"])})


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", UNBOUNDED)
def test_densities_of_mechanisms_sum_to_one(name):
    mechanism, x = UNBOUNDED[name], np.array([3, 0, 2])
    outputs = box(-24, 28, 2)
    outputs = np.column_stack([outputs, x.sum() - outputs.sum(axis=1)])
    if name == "gaussian":
        outputs = outputs[outputs[:, :2].sum(axis=1) == 3]
    system = mechanism.public.on(labelled(x))
    settled = mechanism.on(system)
    found = np.array([settled.log_weight(system, y, x) for y in outputs]) - settled.log_constant(system)
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


Z = np.arange(-900, 901)
RATES = np.array([2.0, 1.0, 3.0])
COUNTS = box(0, 24, 3)


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
    log_p = stats.poisson.logpmf(COUNTS, 1.3 * RATES).sum(axis=1) + log_noise(y - COUNTS).sum(axis=1)
    possible = COUNTS.sum(axis=1) == 5 if total else np.ones(len(COUNTS), dtype=bool)
    assert density_of_model(seen) == pytest.approx(logsumexp(log_p[possible]), abs=1e-6)
    x = np.array([1, 0, 4])
    assert density_of_model(seen, marginalize=False)(x) == pytest.approx(log_noise(y - x).sum())


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", ["laplace", "gaussian", "conditioned", "two releases"])
def test_models_of_releases_compare_laws(name):
    """The same for releases, whose noise keeps public sums; and for two releases of one table."""
    y, other = np.array([3, -1, 4]), np.array([2, 2, 2])
    mechanism = UNBOUNDED["laplace" if name == "two releases" else name]
    release = ppd.Release(labelled(y), mechanism)
    system = mechanism.public.on(labelled(y))
    settled = mechanism.on(system)
    tables = COUNTS[(system.values == COUNTS @ system.A.T).all(axis=1)]
    log_q = np.array([settled.log_weight(system, y, x) for x in tables]) - settled.log_constant(system)
    if name == "two releases":
        noise = DoubleGeometric(2)
        release = [release, ppd.Release(labelled(other), ppd.GeneralizedLaplace(inv.Public(), 2))]
        log_q += noise.log_weight(other - tables).sum(axis=1) - 3 * logsumexp(noise.log_weight(Z))
    expected = logsumexp(stats.poisson.logpmf(tables, 1.3 * RATES).sum(axis=1) + log_q)
    assert density_of_model(release) == pytest.approx(expected, abs=1e-6)
    assert density_of_model(release, marginalize=False)(tables[0]) == pytest.approx(log_q[0], abs=1e-6)
