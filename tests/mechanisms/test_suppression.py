"""Suppression: only the public statements are published."""

import math

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from known_parameters import known
from scipy import special, stats

import ppdinf as ppd
from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import Public, between, margin, nonnegative, total
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.privacy import Ledger, audit, compose

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
THREE = xr.DataArray([4, 0, 2], dims="county")
SQUARE = xr.DataArray([[1, 2], [0, 3]], dims=("sex", "age"))
SUM = total() & nonnegative()
MARGINS = margin("sex") & margin("age") & nonnegative()


def test_tables_with_the_same_public_sums_have_the_same_release():
    mechanism = ppd.Suppression(SUM)
    released = {tuple(mechanism.release(table).table.values) for table in ([4, 0, 2], [0, 6, 0], [1, 2, 3])}
    assert released == {(2, 2, 2)}
    assert mechanism.simulate(THREE, draws=3, rng=1).values.tolist() == [[2, 2, 2]] * 3
    assert ppd.Suppression(SUM).release([4, 0, 3]).table.values.tolist() != [2, 2, 2]


@pytest.mark.quick_cases(0)
def test_the_loss_is_zero_and_stated():
    system = SUM.on(THREE)
    assert np.all(audit(ppd.Suppression(SUM), system, reach=0).loss == 0)
    assert not np.all(audit(ppd.GeneralizedLaplace(SUM, epsilon="1/2"), system, reach=2).loss == 0)
    guarantee = ppd.Suppression(SUM).release(THREE).guarantee
    assert (guarantee.epsilon, guarantee.loss_at_nearest, guarantee.unprotected) == (0, 0, ("the total",))
    words = guarantee.describe()
    assert "a factor of 1, that is, not at all" in words
    assert "easier to distinguish" not in words
    assert "The guarantee does not cover tables that differ in the public information" in words


def test_it_costs_nothing_in_a_ledger_but_opens_its_sums():
    ledger = Ledger(epsilon="1/2")
    ledger.add(ppd.GeneralizedLaplace(SUM, epsilon="1/2").release(SQUARE))
    ledger.add(ppd.Suppression(margin("sex") & nonnegative()).release(SQUARE))
    assert ledger.remaining == 0
    assert ledger.guarantee.unprotected == ("the total", "the sum for every sex")
    both = compose(ppd.Suppression(SUM).guarantee, ppd.Suppression(MARGINS).guarantee)
    assert both.loss(20) == 0


def test_likelihood_is_that_of_the_public_total():
    """A sum of Poisson counts is Poisson: the density of the release, constants included."""
    release = ppd.Suppression(SUM).release(THREE)
    weights = np.array([1.0, 2.0, 3.0])
    densities = {}
    for name, of in {
        "suppressed": release,
        "noisy": ppd.Release(release.table, ppd.GeneralizedLaplace(SUM, 1)),
    }.items():
        with pm.Model(coords=of.coords) as model:
            rate = pm.Uniform("rate", 0.1, 9, default_transform=None)
            ppd.PartiallyPrivate("x", pm.Poisson.dist(rate * weights), release=of, marginalize=True)
        logp = model.compile_fn(model.logp(sum=True, jacobian=False), inputs=model.value_vars, mode="FAST_COMPILE")
        prior = -math.log(8.9)
        densities[name] = [float(logp({"rate": np.array(value)})) - prior for value in (0.3, 1.0, 4.0)]
    expected = stats.poisson.logpmf(6, 6 * np.array([0.3, 1.0, 4.0]))
    assert densities["suppressed"] == pytest.approx(expected, abs=1e-9)
    assert densities["noisy"] != pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(("public", "table"), [(SUM, THREE), (MARGINS, SQUARE), (total() & between(0, 3), THREE - 1)])
@pytest.mark.deep
def test_posterior_of_the_table_equals_enumeration(public, table):
    """Given the public sums alone: multinomial or hypergeometric tables, for every placeholder."""
    table = np.abs(table)
    release = ppd.Suppression(public).release(table)
    system, rates = release.public, np.array([0.5, 2.0, 1.0, 1.5])[: table.size]
    tables = fiber_tables(system.A, system.values, system.B, system.limits)
    p = special.softmax((tables * np.log(rates) - special.gammaln(tables + 1)).sum(axis=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rates.reshape(table.shape)), release=release)
        walked = {"tune": 300, "chains": 2, "cores": 1, "random_seed": 1, **QUIET}
        idata = pm.sample(2500, **walked) if model.free_RVs else known(5000)
    draws = ppd.sample_confidential(idata, model, random_seed=2).values.reshape(5000, -1)
    frequencies = (draws[:, None] == tables).all(axis=2).mean(axis=0)
    noise = 0.5 * np.sqrt(2 * p / np.pi / 5000).sum()
    assert frequencies.sum() == pytest.approx(1)
    assert 0.5 * np.abs(frequencies - p).sum() < 3 * noise
    near = special.softmax(np.log(p) - 0.5 * np.abs(tables - release.table.values.ravel()).sum(axis=1))
    assert 0.5 * np.abs(frequencies - near).sum() > 3 * noise  # reading the stand-in as a noisy table is caught


def test_density():
    mechanism = ppd.Suppression(SUM)
    assert mechanism.logp(THREE.copy(data=[2, 2, 2]), THREE) == 0
    for y, x in ([[1, 2, 3], THREE], [[2, 2, 2], THREE + 1], [[2, 2, 2], THREE.copy(data=[-1, 4, 3])]):
        assert mechanism.logp(THREE.copy(data=y), x) == -np.inf


def test_refuses_unbounded_cells():
    with pytest.raises(InvariantError, match="must be public statements"):
        ppd.Suppression(None)
    for public, table, message in [
        (Public(), THREE, "do not bound every cell"),
        (total(), THREE, "do not bound every cell"),
        (SUM, THREE + 10**9, "too many"),
    ]:
        release = ppd.Suppression(public).release(table)
        with pm.Model(coords=release.coords), pytest.raises(ModelError, match=message):
            ppd.PartiallyPrivate("x", pm.Poisson.dist(1.0), release=release)


def test_suppression_together_with_a_noisy_release():
    """The placeholder adds nothing: the density is that of the noisy release within the bounds, given the total."""
    noisy = ppd.Release(np.array([1, 0, 2]), ppd.GeneralizedLaplace(total(), epsilon=1))
    hidden = ppd.Release(np.array([1, 1, 1]), ppd.Suppression(total() & nonnegative()))
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist([1.0, 2.0, 0.5]), release=[noisy, hidden], marginalize=False)
    log_density = model.compile_logp()
    tables = np.array([(a, b, 3 - a - b) for a in range(4) for b in range(4 - a)])
    found = np.array([float(log_density({"x": table})) for table in tables])
    wanted = stats.poisson.logpmf(tables, [1.0, 2.0, 0.5]).sum(axis=1) - abs(tables - [1, 0, 2]).sum(axis=1)
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=1e-9)
    assert float(log_density({"x": np.array([4, -1, 0])})) == -np.inf
