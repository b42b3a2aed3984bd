"""The Wasserstein exponential mechanism with a user-defined loss, against the formula and the norms."""

import math

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from enumeration import laws_of_one_person
from scipy import special, stats

import ppdinf as ppd
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.invariants import margin, nonnegative, total
from ppdinf.mechanisms import DirichletMultinomial
from ppdinf.privacy import audit, wasserstein_infinity

SUM = total() & nonnegative()
THREE = xr.DataArray([2, 0, 1], dims="county")
SQUARE = xr.DataArray([[2, 0, 1], [0, 3, 1]], dims=("sex", "age"))


def largest(y, x):
    return np.abs(y - x).max()


def weighted(y, x):
    return np.abs(y - x) @ [3, 1, 1]


def by_square(y, x):
    return ((y - x) ** 2).sum()


def l1(y, x):
    return np.abs(y - x).sum()


def mechanism(loss, public=SUM, epsilon=2, sensitivity=2, base=None):
    return ppd.WassersteinExponential(public, epsilon, sensitivity, "one person's cell", base_measure=base, loss=loss)


@pytest.mark.parametrize(("public", "table"), [(SUM, THREE), (margin("sex") & margin("age") & nonnegative(), SQUARE)])
def test_the_l1_norm_stated_as_a_loss_is_the_same_mechanism(public, table):
    system = public.on(table)
    own, stated = audit(mechanism("l1", public), system), audit(mechanism(l1, public, sensitivity=4), system)
    assert mechanism(l1, public, sensitivity=4).on(system).sigma == 4
    doubled = audit(mechanism("l1", public, epsilon=1), system)
    np.testing.assert_allclose(stated.log_p, doubled.log_p, atol=1e-9)
    assert not np.allclose(stated.log_p, own.log_p, atol=0.01)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("base", [None, DirichletMultinomial([3, 0, 1])])
@pytest.mark.parametrize(("loss", "sigma"), [(largest, 1), (weighted, 4), (by_square, 10)])
def test_the_law_is_that_of_the_theorem(loss, sigma, base):
    """Sensitivities by hand: (3, 0, 0) released, the squares are 18 for (0, 3, 0) and 8 for (1, 2, 0)."""
    stated = mechanism(loss, base=base)
    found = audit(stated, SUM.on(THREE))
    assert stated.on(SUM.on(THREE)).sigma == sigma
    log_w = np.array([[-2 * loss(y, x) / (2 * sigma) for y in found.tables] for x in found.tables])
    if base is not None:
        alpha = np.array([float(a) for a in base.alpha])
        y = found.tables
        log_w += (special.gammaln(y + alpha) - special.gammaln(alpha) - special.gammaln(y + 1)).sum(axis=1)
    np.testing.assert_allclose(found.log_p, special.log_softmax(log_w, axis=1), atol=1e-9)
    drawn = stated.simulate(THREE, draws=20_000, rng=1).values
    place = [np.flatnonzero((found.tables == y).all(axis=1))[0] for y in drawn]
    (row,) = np.flatnonzero((found.tables == THREE.values).all(axis=1))
    p = np.exp(found.log_p[row])
    assert stats.chisquare(np.bincount(place, minlength=p.size), p * 20_000).pvalue > 1e-6
    wrong = p**1.2 / (p**1.2).sum()
    assert stats.chisquare(np.bincount(place, minlength=p.size), wrong * 20_000).pvalue < 1e-6


@pytest.mark.parametrize("loss", [largest, weighted, by_square])
def test_losses_between_laws_of_the_table_stay_within_epsilon(loss):
    """Statements about one person's cell, with known probabilities for the others: Delta_z = 2 in l1."""
    found = audit(mechanism(loss), SUM.on(THREE))
    laws = laws_of_one_person(found.tables, [0.2, 0.5, 0.3])
    tables = list(map(tuple, found.tables.tolist()))
    reach = wasserstein_infinity(*({x: p for x, p in zip(tables, law, strict=True) if p} for law in laws[:2]))
    assert reach == 2
    releases = [law @ np.exp(found.log_p) for law in laws]
    worst = max(np.max(np.log(a / b)) for a in releases for b in releases)
    assert worst <= 2
    # with a sensitivity for the wrong norm, 2 for a loss that changes by more, the guarantee would be violated
    system = SUM.on(THREE)
    too_small = 2 * 2 * mechanism(loss).on(system).sigma / 0.5
    narrow = audit(mechanism(loss, epsilon=too_small), system)
    releases = [law @ np.exp(narrow.log_p) for law in laws]
    assert max(np.max(np.log(a / b)) for a in releases for b in releases) > 2


def test_a_release_and_its_density():
    release = mechanism(largest).release(THREE)
    assert release.plan.exact
    assert (release.guarantee.variant, release.guarantee.epsilon) == ("pufferfish", 2)
    found = audit(mechanism(largest), SUM.on(THREE))
    for x, log_p in zip(found.tables, found.log_p, strict=True):
        (column,) = np.flatnonzero((found.tables == release.table.values).all(axis=1))
        assert release.mechanism.logp(release.table, THREE.copy(data=x)) == pytest.approx(log_p[column])
    assert release.mechanism.logp(release.table, THREE.copy(data=[-1, 4, 0])) == -math.inf
    other = release.mechanism.on(SUM.on([1, 1, 2]))
    assert other.log_normaliser(None, np.array([1, 1, 2])) != release.mechanism.log_normaliser(None, THREE.values)


def test_the_loss_depends_on_the_shape_of_the_table():
    """The same cells under the same sums: the largest row sum differs between 2 x 3 and 3 x 2 cells."""
    by_row = mechanism(lambda y, x: np.abs(y - x).sum(axis=1).max())
    wide, tall = (SUM.on(np.array([1, 0, 0, 1, 0, 1]).reshape(shape)) for shape in ((2, 3), (3, 2)))
    y, x = np.array([3, 0, 0, 0, 0, 0]), np.array([0, 1, 1, 1, 0, 0])
    settled = by_row.on(wide)
    assert settled.on(wide) is settled
    assert settled.on(tall).log_weight(tall, y, x) == by_row.on(tall).log_weight(tall, y, x)
    assert settled.on(tall).log_weight(tall, y, x) != settled.log_weight(wide, y, x)


def test_files_and_chains_refuse_it(tmp_path):
    release = mechanism(largest).release(THREE)
    with pytest.raises(PrivacyError, match="a user-defined loss is code"):
        release.save(tmp_path / "r.ppd")
    with pm.Model(coords=release.coords), pytest.raises(ModelError, match="not a sum over the cells"):
        ppd.PartiallyPrivate("x", pm.Poisson.dist(1.0), release=release)


def test_one_table_needs_no_sensitivity():
    assert (
        mechanism(largest, margin("dim_0") & nonnegative()).simulate([2, 1], draws=2, rng=1).values.tolist()
        == [[2, 1]] * 2
    )
