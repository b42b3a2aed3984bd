"""Enumerated audits of all integer mechanisms: each guarantee holds, and half of its loss would be too small."""

import numpy as np
import pytest
import xarray as xr
from enumeration import laws_of_one_person
from scipy import special

import ppdinf as ppd
from ppdinf.errors import InvariantError
from ppdinf.invariants import at_least, between, covariates, groups, margin, nonnegative, total
from ppdinf.lattice.shortest import shortest_step
from ppdinf.mechanisms import DirichletMultinomial, DiscreteGaussian, DoubleGeometric, Staircase
from ppdinf.privacy import audit
from ppdinf.privacy.lattice_gaussian import lattice_delta, theorem14_sigma

THREE = xr.DataArray([2, 0, 1], dims="county")
STATES = xr.DataArray([1, 1, 0, 2], dims="county", coords={"state": ("county", list("AABB"))})
SQUARE = xr.DataArray([[1, 1], [0, 2]], dims=("sex", "age"))
CASES = xr.DataArray([[2, 1], [1, 0]], dims=("kind", "county"), coords={"kind": ["cases", "deaths"]})
TABLES = {
    "total": (total() & nonnegative(), THREE),
    "groups": (groups("state") & nonnegative(), STATES),
    "margins": (margin("sex") & margin("age") & nonnegative(), SQUARE),
    "linked": (margin("kind") & nonnegative() & at_least("cases", "deaths", dim="kind"), CASES),
}
LOSSES = {
    "l1": lambda p: ppd.GeneralizedLaplace(p, epsilon="3/4"),
    "l2": lambda p: ppd.GeneralizedLaplace(p, epsilon="3/4", norm="l2"),
    "double geometric": lambda p: ppd.Conditioned(p, noise=DoubleGeometric("3/4")),
    "staircase": lambda p: ppd.Conditioned(p, noise=Staircase("3/4", 2, 1)),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("where", TABLES)
@pytest.mark.parametrize("name", LOSSES)
def test_the_guarantee_holds_and_half_of_it_is_too_small(name, where):
    public, table = TABLES[where]
    system, mechanism = public.on(table), LOSSES[name](public)
    found, promise = audit(mechanism, system), mechanism.guarantee_on(system, None)
    allowed = float(promise.loss(1)) * found.distances(promise.metric)
    assert np.all(found.loss <= allowed + 1e-6)
    assert not np.all(found.loss <= allowed / 2 + 1e-6)


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("where", ["total", "groups", "margins"])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: ppd.GeneralizedGaussian(p, sigma=2),
        lambda p: ppd.Conditioned(ppd.invariants.Public(p.statements[:-1]), noise=DiscreteGaussian(2)),
    ],
)
def test_renyi_losses_of_gaussian_noise(make, where):
    """zCDP at several orders, for all pairs; with half of rho some pair exceeds it."""
    public, table = TABLES[where]
    system, mechanism = public.on(table), make(public)
    rho = float(mechanism.guarantee.rho)
    found = audit(mechanism, system)
    squares = found.distances("l2") ** 2
    for order in (1.5, 2.0, 4.0):
        divergence = found.renyi(order)
        assert np.all(divergence <= order * rho * squares + 1e-6)
        assert not np.all(divergence <= order * rho / 2 * squares + 1e-6)


def test_exact_gaussian_calibration_meets_its_delta_between_nearest_tables():
    public, table = TABLES["total"]
    system = public.on(table)
    mechanism = ppd.GeneralizedGaussian(public, 1, 0.01, calibration="exact")
    found = audit(mechanism, system)
    step = shortest_step(system.structure, "l2")
    nearest = np.isclose(found.distances("l2"), np.linalg.norm(step))
    assert found.delta(1.0)[nearest].max() == pytest.approx(0.01, rel=1e-3)
    assert found.delta(0.5)[nearest].max() > 0.01


def test_theorem_14_is_generous():
    """Its delta between nearest tables, enumerated over the law of the step, is far below the required delta."""
    public, table = TABLES["total"]
    structure = public.on(table).structure
    step, sigma = shortest_step(structure, "l2"), theorem14_sigma(structure, "1/4", 0.1)
    assert lattice_delta(structure, step, sigma, 0.25 * np.linalg.norm(step)) < 1e-6


@pytest.mark.parametrize("base", [None, DirichletMultinomial([3, 0, 1])])
def test_wasserstein_mechanism_between_laws_of_the_table(base):
    """Laws that differ by one person couple at l1 distance 2 = Delta_z; losses of the mixtures are within epsilon."""
    public, table = TABLES["total"]
    system = public.on(table)
    mechanism = ppd.WassersteinExponential(
        public, epsilon=2, sensitivity=2, secrets="one person's cell", base_measure=base
    )
    found = audit(mechanism, system)
    laws = laws_of_one_person(found.tables, [0.2, 0.5, 0.3])
    assert sum(laws[0]) == pytest.approx(1)
    releases = [law @ np.exp(found.log_p) for law in laws]
    losses = [np.max(np.log(a / b)) for a in releases for b in releases]
    assert max(losses) <= 2
    narrower = audit(ppd.WassersteinExponential(public, 8, sensitivity=2, secrets="x", base_measure=base), system)
    releases = [law @ np.exp(narrower.log_p) for law in laws]
    assert max(np.max(np.log(a / b)) for a in releases for b in releases) > 2  # four times the loss is detected


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_a_base_measure_is_part_of_the_law(loss):
    """Losses from the formula differ considerably with and without the earlier table's weights."""
    public, table = TABLES["total"]
    base = DirichletMultinomial([9, 0, 1])
    mechanism = ppd.WassersteinExponential(public, 2, 2, "one person's cell", base_measure=base, loss=loss)
    found = audit(mechanism, public.on(table))
    y, alpha = found.tables, np.array([float(a) for a in base.alpha])
    log_w = -0.5 * found.distances(loss)
    log_nu = (special.gammaln(y + alpha) - special.gammaln(alpha) - special.gammaln(y + 1)).sum(axis=1)
    right, without = (special.log_softmax(w, axis=1) for w in (log_w + log_nu, log_w))
    np.testing.assert_allclose(found.log_p, right, atol=1e-9)
    largest = [np.max(p[:, None] - p, axis=2) for p in (right, without)]
    np.testing.assert_allclose(found.loss, largest[0], atol=1e-9)
    assert np.max(largest[0] - largest[1]) > 0.5


def test_further_public_statements_do_not_enter_the_law():
    """Noise under a total alone has no bounds, although the tables have bounds."""
    public, table = TABLES["total"]
    system, noise = public.on(table), DoubleGeometric("3/4")
    free, bounded = (audit(ppd.Conditioned(p, noise=noise), system) for p in (total(), public))
    assert free.loss == pytest.approx(0.75 * free.distances("l1"))
    assert bounded.loss.max() > free.loss.max() + 0.1
    wider = audit(ppd.Conditioned(public, noise=noise), (public & between(0, 1)).on([1, 1, 0]))
    assert (len(wider.tables), wider.log_p.shape[1]) == (3, 6)  # of two persons in three cells
    with pytest.raises(InvariantError, match="violates the public statement"):
        audit(ppd.Conditioned(margin("sex") & nonnegative(), noise=noise), public.on(SQUARE))


def test_suppression_is_audited_without_a_reach():
    public, table = TABLES["total"]
    assert np.all(audit(ppd.Suppression(public), public.on(table)).loss == 0)


def test_dropping_the_normalizer_is_detected():
    """With C(x) the losses differ from those without: the audit uses the density of inference."""
    public, table = TABLES["total"]
    mechanism, system = ppd.Conditioned(public, noise=DoubleGeometric("3/4")), public.on(table)
    found = audit(mechanism, system)
    without = np.max(np.abs(mechanism.law.log_weight(found.tables[:, None] - found.tables).sum(axis=2)), axis=0)
    assert not np.allclose(found.loss.max(axis=0), without, atol=0.05)


def test_refuses_large_audits():
    public = total() & nonnegative()
    mechanism = ppd.GeneralizedLaplace(public, epsilon=1)
    with pytest.raises(InvariantError, match="200 tables"):
        audit(mechanism, public.on([50, 1, 2]))
    with pytest.raises(InvariantError, match="200,000 releases"):
        audit(mechanism, public.on([1, 0, 1, 0]), reach=200)
    assert audit(mechanism, (total() & between(0, 1)).on([1, 0, 1])).tables.shape == (3, 3)


COUNTS = xr.DataArray([2, 0, 1], dims="county")
ONES = xr.DataArray([[1, 1], [1, 1]], dims=("sex", "age"))
ONE_PERSON = xr.DataArray([1, 0, 0], dims="county", coords={"state": ("county", list("AAB"))})
SUM = total() & nonnegative()
MARGINS = margin("sex") & margin("age") & nonnegative()
FREE = between(0, 1)
POSTPROCESSED = {
    "rounded, total": (lambda p: ppd.PostProcessed(p, "3/4"), SUM, COUNTS),
    "rounded, margins": (lambda p: ppd.PostProcessed(p, 2), MARGINS, ONES),
    "nonnegative, total": (lambda p: ppd.PostProcessed(p, "3/4", "nonnegative"), SUM, COUNTS),
    "projected, total": (lambda p: ppd.PostProcessed(p, "3/4", "l2"), SUM, COUNTS),
    "nearest, total": (lambda p: ppd.PostProcessed(p, "3/4", "l1"), SUM, COUNTS),
    "truncated": (lambda p: ppd.PostProcessed(p, "3/4", "truncated"), FREE, COUNTS.clip(0, 1)),
    "top-down": (lambda p: ppd.TopDown(p, 4, groups("state"), ["3/4", "1/4"]), SUM & covariates("state"), ONE_PERSON),
    "top-down, uneven": (
        lambda p: ppd.TopDown(p, 4, total(), ["1/4", "3/4"]),
        groups("state") & nonnegative(),
        ONE_PERSON + np.array([0, 1, 1]),
    ),
}


def scaled(mechanism, public, factor):
    """The same post-processing after noise that is wider by a factor."""
    if isinstance(mechanism, ppd.TopDown):
        return ppd.TopDown(public, mechanism.epsilon / factor, levels=mechanism.levels, shares=mechanism.shares)
    return ppd.PostProcessed(public, mechanism.epsilon / factor, mechanism.method)


LONG = {"top-down", "top-down, uneven", "rounded, margins"}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.deep) if name in LONG else name for name in POSTPROCESSED]
)
def test_the_guarantee_of_post_processed_noise_holds_and_half_of_it_is_too_small(name):
    make, public, table = POSTPROCESSED[name]
    mechanism, system = make(public), public.on(table)
    reach = 1 if name in ("rounded, margins", "top-down", "top-down, uneven") else 2  # those take milliseconds each
    found = audit(mechanism, system, reach=reach)
    allowed = float(mechanism.guarantee.epsilon) * found.distances("l1")
    assert np.all(found.loss <= allowed + 1e-9)
    assert not np.all(found.loss <= allowed / 2 + 1e-9)
    assert np.all(np.exp(found.log_p).sum(axis=1) <= 1 + 1e-12)
    # noise drawn at twice the stated rate would be detected
    careless = audit(scaled(mechanism, public, 0.5), system, reach=reach)
    assert not np.all(careless.loss <= allowed + 1e-9)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize(
    ("mechanism", "reach", "draws"),
    [
        (ppd.PostProcessed(SUM, "3/4"), 9, 20_000),
        pytest.param(ppd.TopDown(nonnegative(), 3, levels=total()), 4, 1000, marks=pytest.mark.deep),
    ],
)
def test_the_enumerated_law_is_that_of_the_draws(mechanism, reach, draws):
    table = np.array([2, 0])
    system = mechanism.public.on(table)
    p = np.exp(mechanism.push(system, table.reshape(1, -1), reach)[0])
    drawn = mechanism.simulate(table, draws=draws, rng=1).values
    shares = np.sort(np.unique(drawn, axis=0, return_counts=True)[1] / draws)[::-1][:5]
    assert p.sum() == pytest.approx(1, abs=0.01)
    assert np.sort(p)[::-1][:5] == pytest.approx(shares, abs=6 * 0.5 / np.sqrt(draws))
    narrower = np.exp(mechanism.push(system, table.reshape(1, -1), 1)[0])
    assert narrower.sum() < p.sum() - 0.01


def test_refuses_large_audits_of_post_processed_noise():
    with pytest.raises(InvariantError, match="more than 200,000 measurements"):
        audit(ppd.PostProcessed(SUM, 1), SUM.on(COUNTS), reach=40)
