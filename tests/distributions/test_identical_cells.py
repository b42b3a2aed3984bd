"""Cells with identical distributions: their detection, and weights and slopes equal to those of single cells."""

import numpy as np
import pymc as pm
import pytensor
import pytest

import ppdinf as ppd
from ppdinf.distributions import confidential_rv as confidential
from ppdinf.distributions.confidential_rv import identical_cells

UNITS = np.array([[4, 7, 4], [4, 9, 7]])
KEY = np.zeros(6, dtype=np.int64)
MEAN, SPREAD = pm.Beta.dist(3, 1), pm.Gamma.dist(2, 1)


@pytest.mark.parametrize(
    ("dist", "kinds"),
    [
        (lambda: pm.BetaBinomial.dist(MEAN * SPREAD, (1 - MEAN) * SPREAD, UNITS), [0, 1, 0, 0, 2, 1]),
        (lambda: pm.BetaBinomial.dist(SPREAD, [1.0, 2.0, 1.0], UNITS), [0, 1, 0, 0, 2, 3]),
        (lambda: pm.NegativeBinomial.dist(mu=MEAN, alpha=SPREAD, shape=(2, 3)), [0] * 6),
        (lambda: pm.NegativeBinomial.dist(mu=pm.Gamma.dist(1, 1, shape=3), alpha=SPREAD, shape=(2, 3)), None),
        (lambda: pm.ZeroInflatedPoisson.dist(psi=MEAN, mu=SPREAD, shape=(2, 3)), None),
        (lambda: pm.Poisson.dist(np.arange(6.0).reshape(2, 3)), None),
    ],
    ids=["units", "a parameter by column", "one law", "a rate for each column", "a mixture", "all differ"],
)
def test_kinds(dist, kinds):
    """Cells are identical if constants are equal; a parameter that varies and is not constant distinguishes them."""
    found = identical_cells(dist(), (2, 3), KEY)
    if kinds is None:
        assert found is None
        return
    of_kinds, first, kind = found
    agree = np.equal.outer(kind, kind)
    np.testing.assert_array_equal(agree, np.equal.outer(kinds, kinds))
    np.testing.assert_array_equal(kind[first], np.arange(first.size))
    assert of_kinds.eval().shape == first.shape


def test_windows_distinguish_cells():
    kind = identical_cells(
        pm.NegativeBinomial.dist(mu=MEAN, alpha=SPREAD, shape=(2, 3)), (2, 3), np.array([0, 0, 0, 1, 1, 0])
    )[2]
    assert (kind == [0, 0, 0, 1, 1, 0]).all() or (kind == [1, 1, 1, 0, 0, 1]).all()


def density(model):
    names, logp = [x.name for x in model.value_vars], model.logp()
    both = model.compile_fn([logp, *pytensor.gradient.grad(logp, model.value_vars)])
    return lambda at: np.array([float(x) for x in both(dict(zip(names, at, strict=True)))])


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("public", ["groups", "nested"])
def test_weights_are_those_of_each_single_cell(public, monkeypatch):
    """Density and slopes with one evaluation per group, and with one per cell; a wrong group is detected."""
    rng = np.random.default_rng(1)
    units = np.array([3, 8, 3, 8, 12, 3, 12, 8])
    noisy = rng.binomial(units, 0.7) + rng.integers(-2, 3, 8)
    inv, law = ppd.invariants, ppd.laws.DoubleGeometric("1/2")
    coords = {"area": range(8)}
    if public == "groups":
        seen = ppd.Measurements(coords, ppd.measured(inv.margin("area"), noisy, law), public={inv.total(): 38})
    else:
        total = ppd.measured(inv.total(), 40, law)
        seen = ppd.Measurements(coords, ppd.measured(inv.margin("area"), noisy, law), total)

    def built():
        with pm.Model(coords=seen.coords) as model:
            mean, size = pm.Beta("mean", 3, 1), pm.Gamma("size", 2, 0.1)
            data = pm.BetaBinomial.dist(alpha=mean * size, beta=(1 - mean) * size, n=units)
            ppd.PartiallyPrivate("x", data, release=seen, marginalize=True)
        return density(model)

    at = np.array([0.4, 1.3])
    together = built()(at)
    monkeypatch.setattr(confidential, "identical_cells", lambda *_: None)
    np.testing.assert_allclose(together, built()(at), rtol=1e-10)

    def wrong(dist, shape, key):
        of_kinds, first, kind = identical_cells(dist, shape, key)
        return of_kinds, first, kind[::-1]

    monkeypatch.setattr(confidential, "identical_cells", wrong)
    assert abs(built()(at) - together).max() > 1e-3
