"""Noise with a scale that the model learns: densities by enumeration of tables, with the normalizer of each scale."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from grids import box
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.errors import ModelError, PrivacyError

inv, laws = ppd.invariants, ppd.laws
COORDS = {"area": list("ABC")}
Y = np.array([4, 0, 7])
MEAN = np.array([3.0, 1.0, 5.0])
TABLES = box(0, 24, 3)
FAR = np.arange(-3000, 3001)
LOG_WEIGHTS = {
    laws.DoubleGeometric: lambda z, scale: -scale * abs(z),
    laws.DiscreteGaussian: lambda z, scale: -(z**2) / (2 * scale**2),
    laws.Gaussian: lambda z, scale: -(z**2) / (2 * scale**2),
    laws.Laplace: lambda z, scale: -abs(z) / scale,
}
INTEGER = laws.DoubleGeometric, laws.DiscreteGaussian


def log_noise(kind, z, scale):
    """Return the log density of noise; the sum of all weights, or the integral in closed form."""
    if kind in INTEGER:
        return LOG_WEIGHTS[kind](z, scale) - logsumexp(LOG_WEIGHTS[kind](FAR, scale))
    return (stats.norm if kind is laws.Gaussian else stats.laplace).logpdf(z, scale=scale)


def built(kind, *, y=Y, total=None, known=None, dependent=False, marginalize="auto", prior=None):
    """Return a model of Poisson cells with one unknown scale, and with further noise of a stated scale."""
    with pm.Model(coords=COORDS) as model:
        scale = (prior or (lambda: pm.LogNormal("scale", 0, 1)))()
        parts = [ppd.measured(inv.margin("area"), y, kind(scale))]
        if known is not None:
            parts.append(ppd.measured(inv.margin("area"), known, laws.DoubleGeometric("1/2")))
        seen = ppd.Measurements(COORDS, *parts, public=None if total is None else {inv.total(): total})
        mean = MEAN * pm.math.exp(pm.Normal("level", 0, 1))
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(mean), seen, marginalize)
        if dependent:
            pm.Binomial("d", n=x, p=0.3, observed=[1, 0, 2])
    return model


def log_likelihood(kind, scale, *, y=Y, total=None, known=None, dependent=False, tables=TABLES):
    """Return the log density of everything observed, by enumeration."""
    x = tables if total is None else tables[tables.sum(axis=1) == total]
    log_p = (stats.poisson.logpmf(x, MEAN) + log_noise(kind, y - x, scale)).sum(axis=1)
    if known is not None:
        log_p += log_noise(laws.DoubleGeometric, known - x, 0.5).sum(axis=1)
    if dependent:
        log_p += stats.binom.logpmf([1, 0, 2], x, 0.3).sum(axis=1)
    return logsumexp(log_p)


CASES = [
    {}, {"total": 9}, {"known": np.array([3, 1, 9])}, {"dependent": True},
    {"total": 10, "known": np.array([5, 1, 6]), "dependent": True},
]  # fmt: skip


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "+".join(case) or "alone")
@pytest.mark.parametrize("kind", LOG_WEIGHTS, ids=lambda kind: kind.__name__)
def test_density_at_every_scale(kind, case):
    """Wrong variant: weights without normalizer, which favour large noise; scales on both sides of variance 1."""
    y = Y if kind in INTEGER else Y + np.array([0.3, -0.4, 0.1])
    model = built(kind, y=y, **case)
    observed = [model["x_release"], *([model["d"]] if case.get("dependent") else [])]
    log_p = model.compile_logp(vars=observed, jacobian=False)
    scales = (0.3, 0.9, 1.1, 3.0)
    found = [float(log_p({"scale_log__": np.log(scale), "level": 0.0})) for scale in scales]
    expected = [log_likelihood(kind, scale, y=y, **case) for scale in scales]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    without = np.array(found) - [3 * float(log_noise(kind, 0, scale)) for scale in scales]
    assert np.ptp(without - expected) > 1


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", LOG_WEIGHTS, ids=lambda kind: kind.__name__)
def test_both_forms_and_gradients(kind):
    """The density of a sampled table, summed over tables, is that of the marginalized one; gradients by differences."""
    model, sampled = built(kind, total=9), built(kind, total=9, marginalize=False)
    tables = box(0, 9, 3)
    tables = tables[tables.sum(axis=1) == 9]
    log_p, joint = (one.compile_logp() for one in (model, sampled))
    point = {"scale_log__": np.array(0.4), "level": np.array(0.2)}
    every = [float(joint({**point, "x": table})) for table in tables]
    assert float(log_p(point)) == pytest.approx(logsumexp(every), abs=1e-7)
    gradient = model.compile_dlogp()(point)
    for k, name in enumerate(point):
        ends = [float(log_p({**point, name: point[name] + h})) for h in (1e-5, -1e-5)]
        assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


def test_windows_grow_to_the_scales_of_the_posterior():
    """The prior expects a scale near 1, the numbers have another; counts up to 400 are enumerated cell by cell."""
    y, x, scale, kind = np.array([200, -150, 90]), np.arange(400), 150.0, laws.DiscreteGaussian
    model = built(kind, y=y)
    assert model["x_release"].owner.inputs[2].owner.op.fiber.lower[0] > 50
    log_p = model.compile_logp(vars=[model["x_release"]], jacobian=False)
    cells = stats.poisson.logpmf(x[:, None], MEAN) + log_noise(kind, y - x[:, None], scale)
    found = float(log_p({"scale_log__": np.log(scale), "level": 0.0}))
    assert found == pytest.approx(logsumexp(cells, axis=0).sum(), abs=1e-4)


@pytest.mark.deep
def test_releases_are_drawn_with_the_scale_of_each_draw():
    """Variance of released minus table 4 or 100; within five standard errors of a variance of 600 numbers."""
    model, scale = built(laws.DiscreteGaussian), np.repeat([2.0, 10.0], 200)[None]
    draws = xr.Dataset({"scale": (("chain", "draw"), scale), "level": (("chain", "draw"), 0 * scale)})
    idata = xr.DataTree.from_dict({"posterior": draws})
    own = ppd.sample_release(idata, model, random_seed=1)
    tables = idata.posterior["x"]
    by_pymc = pm.sample_posterior_predictive(idata, model, random_seed=2, progressbar=False).posterior_predictive
    for again in (own, by_pymc["x_release"]):
        noise = again.values[0] - tables.values[0]
        for part, sd in ((noise[:200], 2.0), (noise[200:], 10.0)):
            assert part.var() == pytest.approx(sd**2, rel=5 * np.sqrt(2 / part.size))


REFUSED = {
    "vector": (lambda s: laws.Gaussian(pm.math.stack([s, s])), "must be one number, found a variable with 1 dim"),
    "staircase": (laws.Staircase, "the parameter of staircase noise must be a number"),
}


@pytest.mark.parametrize(("law", "words"), REFUSED.values(), ids=REFUSED)
def test_refused_laws(law, words):
    with pm.Model(), pytest.raises(PrivacyError, match=words):
        ppd.measured(inv.margin("area"), Y, law(pm.HalfNormal("scale", 1)))


def test_refused_uses():
    with pm.Model(coords=COORDS):
        scale, flat = pm.HalfNormal("scale", 1), pm.Flat("flat")
        of_cells = ppd.measured(inv.margin("area"), Y, laws.Gaussian(scale))
        seen = ppd.Measurements(COORDS, of_cells)
        with pytest.raises(PrivacyError, match="is a variable of a PyMC model: pass the measurements to ppd"):
            ppd.denoise(seen, draws=10, rng=1)
        of_sum = ppd.Measurements(COORDS, ppd.measured(inv.total(), 9, laws.Gaussian(scale)), bounds=inv.nonnegative())
        with pytest.raises(ModelError, match="of 'total', a sum of several cells, must be a number"):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), of_sum)
        improper = ppd.Measurements(COORDS, ppd.measured(inv.margin("area"), Y, laws.Gaussian(flat)))
        with pytest.raises(ModelError, match="must be positive and have a proper prior"):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), improper)
