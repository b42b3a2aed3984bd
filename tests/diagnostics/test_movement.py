"""Coupled tables bound the distance to their posterior: against enumeration, and with moves that do not connect."""

import itertools
import sys

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from known_parameters import QUIET
from scipy import special

import ppdinf as ppd
from ppdinf.diagnostics import coupling_bound
from ppdinf.errors import InvariantError, ModelError

module = sys.modules[coupling_bound.__module__]  # the function has the name of its file
Y, RATES = np.array([3, -1, 2, 1, 0]), np.array([0.5, 2.0, 1.0, 1.0, 3.0])


def model_of(public=None, **kwargs):
    release = ppd.Release(Y, ppd.GeneralizedLaplace(public or ppd.invariants.total(), epsilon="1/2"))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATES), release=release, marginalize=False, **kwargs)
    return model


def draws_of(tables):
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw", "dim_0"), np.array(tables)[None])})})


def fiber():
    return np.array([x for x in itertools.product(range(6), repeat=5) if sum(x) == 5])


def one_draw(tables, log_weights, directions):
    """Return the transition matrix of a draw: lines between two random cells, by their full conditionals."""
    at = {tuple(x): k for k, x in enumerate(tables)}
    line = np.zeros((len(tables), len(tables)))
    pairs = list(itertools.combinations(range(5), 2))
    for k, x in enumerate(tables):
        for i, j in pairs:
            points = []
            for t in range(-x[i], x[j] + 1):
                z = x.copy()
                z[i], z[j] = z[i] + t, z[j] - t
                points.append(at[tuple(z)])
            line[k, points] += special.softmax(log_weights[points]) / len(pairs)
    return np.linalg.matrix_power(line, directions)


@pytest.mark.deep
def test_the_bound_holds_and_is_not_trivial(monkeypatch):
    """From one corner of the fiber, one sweep per draw, against the exact distance after each number of draws."""
    monkeypatch.setattr(module, "SWEEPS", 1)
    tables = fiber()
    log_weights = (tables * np.log(RATES) - special.gammaln(tables + 1) - 0.5 * np.abs(Y - tables)).sum(axis=1)
    law, kernel = special.softmax(log_weights), one_draw(tables, log_weights, 5)
    row = (tables == [5, 0, 0, 0, 0]).all(axis=1).astype(float)
    bound = coupling_bound(draws_of([[5, 0, 0, 0, 0]] * 2), model_of(), pairs=2000, rng=1)
    for t in range(8):
        distance = 0.5 * np.abs(row - law).sum()
        assert bound.upper(t) >= distance
        row = row @ kernel
    assert 3 <= bound.steps(0.05) <= 12  # the chain takes 3


@pytest.mark.quick_cases(0)
def test_moves_that_do_not_connect_do_not_meet(monkeypatch):
    """Moves between the first two cells only: tables that differ in other cells stay different."""
    whole = module.directions

    def crippled(*args):
        starts, cells, steps = whole(*args)
        cells[::2], cells[1::2] = 0, 1
        steps[::2], steps[1::2] = 1, -1
        return starts, cells, steps

    draws = draws_of(np.random.default_rng(2).permutation(fiber())[:50])
    assert coupling_bound(draws, model_of(), pairs=50, limit=50, rng=1).unmet == 0
    monkeypatch.setattr(module, "directions", crippled)
    assert coupling_bound(draws, model_of(), pairs=50, limit=50, rng=1).unmet > 40


@pytest.mark.quick_cases(0)
def test_noise_that_couples_cells_and_seeds():
    public = ppd.invariants.total()
    release = ppd.Release(Y.astype(float), ppd.KNorm(public, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATES), release=release)
    draws = draws_of(fiber()[::7])
    first, again = (coupling_bound(draws, model, pairs=30, rng=4) for _ in range(2))
    assert first.unmet == 0
    np.testing.assert_array_equal(first.meetings, again.meetings)


def test_refusals():
    with pytest.raises(InvariantError, match="public"):
        coupling_bound(draws_of([[1, 1, 1, 1, 2]] * 3), model_of())
    release = ppd.Release(Y, ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATES), release=release)
    with pytest.raises(ModelError, match="one sampled confidential table, found 0"):
        coupling_bound(draws_of(fiber()), model)


@pytest.mark.quick_cases(0)
def test_diagnose_reports_the_bound():
    model = model_of()
    with model:
        idata = pm.sample(300, tune=50, chains=4, cores=1, random_seed=1, **QUIET)
    diagnosis = ppd.diagnose(idata, model)
    assert diagnosis.coupling.unmet == 0
    assert "pairs of coupled tables became equal" in str(diagnosis)
    starts = idata.warmup_posterior if "warmup_posterior" in idata else idata.posterior
    assert len(np.unique(starts["x"].values[:, 0], axis=0)) > 1


@pytest.mark.quick_cases(0)
def test_diagnose_with_a_variable_of_several_cells():
    """Chains whose proposals can be rejected are not coupled; all other diagnostics are reported."""
    release = ppd.Release(Y, ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon=1))
    with pm.Model(coords=release.coords) as model:
        counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(RATES), release=release)
        pm.Poisson("visits", counts.sum() + 1, observed=9)
        idata = pm.sample(400, tune=100, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    with pytest.raises(ModelError, match="rejected for a variable of several cells"):
        coupling_bound(idata, model)
    found = ppd.diagnose(idata, model)
    assert found.coupling is None
    assert len(found.cells) == 5
