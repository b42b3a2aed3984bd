"""Composition, parallel composition, restatements and the ledger."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import xarray as xr
from grids import box

import ppdinf as ppd
from ppdinf.errors import LabelError, PrivacyError, PrivacyWarning
from ppdinf.invariants import margin, nonnegative, total
from ppdinf.privacy import Guarantee, Ledger, audit, compose, compose_parallel, to_approximate, to_event, to_zcdp
from ppdinf.privacy.release_guarantee import ReleaseGuarantee

SQUARE = xr.DataArray([[2, 1], [1, 1]], dims=("sex", "age"))


def smooth(epsilon, delta=0, metric="l1", **given):
    return Guarantee("integer-subspace", Fraction(epsilon), Fraction(delta), metric=metric, **given)


def test_losses_and_open_information_add_up():
    both = compose(smooth("1/2", unprotected=("a", "b")), smooth("1/4", "1/10", unprotected=("b", "c"), known=("d",)))
    assert (both.epsilon, both.delta, both.metric) == (Fraction(3, 4), Fraction(1, 10), "l1")
    assert (both.unprotected, both.known) == (("a", "b", "c"), ("d",))


def test_l2_meets_l1_in_l1():
    assert compose(smooth(1, metric="l2"), smooth(1, metric="l1")).metric == "l1"
    assert compose(smooth(1, metric="l2"), smooth(1, metric="l2")).metric == "l2"


def test_gammas_compose_through_the_losses():
    a = Guarantee("congenial", Fraction(1), metric="l1", gamma=0.5)
    b = Guarantee("congenial", Fraction(3), metric="l1", gamma=0.0)
    assert compose(a, b).loss() == pytest.approx(a.loss() + b.loss())


def test_parallel_parts_count_once():
    a = Guarantee("approximate", Fraction(1), Fraction(1, 100), neighbours="one record")
    b = Guarantee("approximate", Fraction(2), Fraction(1, 1000), neighbours="one record")
    both = compose_parallel(a, b, disjoint=True, within=True)
    assert (both.epsilon, both.delta) == (2, Fraction(1, 100))
    rho = Guarantee("zcdp", rho=Fraction(1, 2), neighbours="one record")
    assert compose_parallel(rho, rho, disjoint=True, within=True).rho == Fraction(1, 2)


def test_a_record_that_moves_changes_two_parts():
    a = Guarantee("approximate", Fraction(1), Fraction(1, 100), neighbours="one record added or removed")
    parts = [a, replace(a, epsilon=Fraction(2), delta=Fraction(0)), replace(a, epsilon=Fraction(4))]
    moved = compose_parallel(*parts, disjoint=True, within=False)
    assert (moved.epsilon, moved.delta) == (6, Fraction(1, 50))
    assert moved.neighbours == "one record added or removed, or moved from one part to another"
    assert compose_parallel(a, disjoint=True, within=False).epsilon == 1
    rho = Guarantee("zcdp", rho=Fraction(1, 2), neighbours="one record added or removed")
    assert compose_parallel(rho, rho, rho, disjoint=True, within=False).rho == 1


def test_parts_under_models_of_the_data_must_be_independent():
    """See tests/test_papers.py for dependent parts; for independent parts, the part without the secret cancels."""
    a = Guarantee("pufferfish", Fraction(1), neighbours="whether one person is a case")
    assert compose(a, a, independent=True).epsilon == 2
    assert compose_parallel(a, replace(a, epsilon=Fraction(2)), disjoint=True, independent=True).epsilon == 2
    y, mechanism = np.arange(-30, 40), ppd.WassersteinExponential(ppd.invariants.Public(), 1, 1, "one person")
    p = [np.exp(mechanism.law.log_weight(y - x)) for x in range(4)]
    laws, other = (p[0] + p[1], p[1] + p[2]), p[0] + 2 * p[3]
    alone = np.abs(np.log(laws[0] / laws[1])).max()
    both = np.abs(np.log(np.outer(laws[0], other) / np.outer(laws[1], other))).max()
    assert both == pytest.approx(alone)


def test_a_ledger_adds_up_sensitivities_in_one_norm():
    public = total() & nonnegative()
    ledger = Ledger(epsilon=3)
    ledger.add(ppd.WassersteinExponential(public, 1, 2, "x").release([3, 1]))
    ledger.add(ppd.WassersteinExponential(public, "1/2", 2, "x", loss=lambda y, x: abs(y - x).max()).release([3, 1]))
    assert ledger.remaining == Fraction(3, 2)
    with pytest.raises(PrivacyError, match="state all of them in one norm"):
        ledger.add(ppd.WassersteinExponential(public, 1, 2, "x", loss="l2").release([3, 1]))
    assert ledger.remaining == Fraction(3, 2)


def test_a_record_that_moves_changes_two_noisy_counts():
    """Enumerated: two counts, each with a loss when a record is added or removed, and one record that moves."""
    k, rates = np.arange(-40, 41), (1.0, 0.5)
    losses = [np.max(rate * (np.abs(k - 1) - np.abs(k))) for rate in rates]
    a, b = (Guarantee("pure", Fraction(rate), neighbours="one record added or removed") for rate in rates)
    assert sum(losses) == float(compose_parallel(a, b, disjoint=True, within=False).epsilon)
    assert sum(losses) > float(compose_parallel(a, b, disjoint=True, within=True).epsilon)


def test_pure_losses_in_zcdp():
    assert to_zcdp(smooth("1/2")).rho == Fraction(1, 8)
    assert to_zcdp(smooth("1/2")).loss(3) == Fraction(9, 8)
    assert to_zcdp(to_zcdp(smooth(1))) == to_zcdp(smooth(1))


def test_restated_between_tables_at_a_distance():
    gaussian = Guarantee("zcdp", rho=Fraction(1, 50), metric="l2")
    near, far = (to_approximate(gaussian, "1e-6", distance=k) for k in (1, 2))
    assert near.epsilon < far.epsilon
    assert "an l2 distance of 2" in far.describe()
    assert to_approximate(smooth(1, "1/10"), "1/10").epsilon == 1


def test_events_dominate():
    """Randomized response loses as much as any pure mechanism with the same epsilon."""
    accounting = pytest.importorskip("dp_accounting")
    event = to_event(smooth(1), distance=2)
    p = event.noise_parameter
    assert math.log((1 - p / 2) / (p / 2)) == pytest.approx(2)
    accountant = accounting.rdp.RdpAccountant(neighboring_relation=accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(event)
    assert accountant.get_epsilon(1e-9) <= 2.05  # its conversion from Renyi losses gives some away
    assert to_event(smooth(600)).noise_parameter > 0
    for promise, message in (
        (smooth(800), "protects nothing"),
        (smooth(1, "1/10"), "with a delta"),
        (chained(), "with a delta"),
        (Guarantee("pufferfish", Fraction(1), neighbours="x", unprotected=("the total",)), "models of the data"),
    ):
        with pytest.raises(PrivacyError, match=message):
            to_event(promise)


def test_events_name_missing_requirements(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(PrivacyError, match="pip install"):
        to_event(smooth(1))


@pytest.mark.deep
def test_composed_losses_cover_the_joint_release():
    """Two releases with different invariants, audited together over the tables that share both (ISDP Proposition 6)."""
    first = ppd.GeneralizedLaplace(margin("sex") & nonnegative(), epsilon="1/2")
    second = ppd.GeneralizedLaplace(total() & nonnegative(), epsilon=2)
    joined = (margin("sex") & total() & nonnegative()).on(SQUARE)
    one, two = audit(first, joined), audit(second, joined)
    together = compose(first.guarantee, second.guarantee)
    k = one.distances("l1")
    joint = one.loss + two.loss  # the worst pair of releases attains the sum: noises are independent
    assert np.all(joint <= float(together.epsilon) * k + 1e-6)
    assert not np.all(joint <= 0.9 * float(together.epsilon) * k)


def test_ledger_spends_and_refuses():
    ledger = Ledger(epsilon=1)
    mechanism = ppd.GeneralizedLaplace(total(), epsilon="2/5")
    ledger.add(mechanism.release(SQUARE))
    ledger.add(mechanism.release(SQUARE))
    assert ledger.remaining == Fraction(1, 5)
    with pytest.raises(PrivacyError, match=r"epsilon to 1.2, above the budget of 1 .0.2 remaining"):
        ledger.add(mechanism.release(SQUARE))
    assert len(ledger.releases) == 2
    assert ledger.guarantee.epsilon == Fraction(4, 5)
    assert "2 releases have spent epsilon = 0.8 of 1." in ledger.describe()
    assert "0 releases" in Ledger(rho=1).describe()


def test_ledger_in_rho_takes_both_laws():
    ledger = Ledger(rho=1)
    ledger.add(ppd.GeneralizedLaplace(total(), epsilon="1/2", norm="l2").release(SQUARE))
    ledger.add(ppd.GeneralizedGaussian(total(), rho="1/4").release(SQUARE))
    assert ledger.remaining == 1 - Fraction(1, 8) - Fraction(1, 4)
    assert ledger.guarantee.variant == "zcdp"
    pytest.importorskip("dp_accounting")
    # randomised response is less than the zCDP of its epsilon
    assert 0 < ledger.epsilon("1e-6") <= float(to_approximate(ledger.guarantee, "1e-6").epsilon) * 1.02


def test_ledger_warns_when_joined_sums_fix_cells():
    table = xr.DataArray([[2, 1, 4], [1, 1, 3]], dims=("sex", "age"))
    pair = ppd.invariants.linear([[1, 1, 0, 0, 0, 0]], ["two cells"])
    one = ppd.GeneralizedLaplace(pair, epsilon="1/4").release(table)
    other = ppd.GeneralizedLaplace(ppd.invariants.linear([[1, 1, 1, 0, 0, 0]], ["row"]), epsilon="1/4").release(table)
    ledger = Ledger(epsilon=1)
    ledger.add(one)
    with pytest.warns(PrivacyWarning, match="fixes 1 cells that no single release fixes, the first at sex=0, age=2"):
        ledger.add(other)


def test_ledger_is_of_one_table_and_one_kind():
    ledger = Ledger(epsilon=1)
    with pytest.raises(PrivacyError, match="budget of rho"):
        ledger.add(ppd.GeneralizedGaussian(total(), rho="1/4").release(SQUARE))
    ledger.add(ppd.GeneralizedLaplace(total(), epsilon="1/4").release(SQUARE))
    with pytest.raises(LabelError):
        ledger.add(ppd.GeneralizedLaplace(total(), epsilon="1/4").release([1, 2, 3]))


def chained(distance=0.001, nearest=2, epsilon=1):
    return ReleaseGuarantee(
        "integer-subspace", Fraction(epsilon), metric="l1", nearest=nearest, fixed=0, cells=4, sampler="a chain",
        sampler_distance=distance,
    )  # fmt: skip


@pytest.mark.parametrize(("nearest", "epsilon"), [(2, 1), (4, "1/4"), (1, 3), (2, 1000)])
def test_composed_delta_covers_markov_chains(nearest, epsilon):
    chain = chained(nearest=nearest, epsilon=epsilon)
    together = compose(chain, smooth("1/2", "1/1000")) if epsilon != 1000 else None
    if together is None:
        with pytest.raises(PrivacyError, match="sum of the deltas must be below 1"):
            compose(chain, chain)
        return
    for k in (nearest, nearest + 1, 3 * nearest):
        added = (1 + math.exp(float(Fraction(epsilon)) * k)) * 0.001
        assert chain.delta_at(k) == pytest.approx(min(1, added))
        assert together.delta_at(k) >= min(1, added + smooth("1/2", "1/1000").delta_at(k)) - 1e-12


def test_chains_are_not_forgotten_elsewhere():
    with pytest.raises(PrivacyError, match="no zCDP form"):
        to_zcdp(chained())
    with pytest.raises(PrivacyError, match="delta must be at least"):
        to_approximate(chained(), "1e-3", distance=2)
    assert to_approximate(chained(), "0.01", distance=2).epsilon == 2


def test_a_ledger_without_delta_takes_no_chains():
    release = ppd.GeneralizedLaplace(total(), epsilon="1/4").release(SQUARE)
    release.__dict__["guarantee"] = chained()
    for ledger in (Ledger(epsilon=2), Ledger(rho=2)):
        with pytest.raises(PrivacyError, match=r"with a delta|no zCDP form"):
            ledger.add(release)


def test_restated_releases_are_between_tables_at_the_distance():
    release = ppd.GeneralizedLaplace(total(), epsilon="1/4").release(SQUARE)
    stated = to_approximate(release.guarantee, "1e-6", distance=2)
    assert type(stated) is Guarantee
    assert (stated.epsilon, stated.loss(), stated.neighbours) == (Fraction(1, 2), Fraction(1, 2), "an l1 distance of 2")


def test_delta_at_large_losses():
    wide = Guarantee("approximate", Fraction(1000), Fraction(1, 10**9), neighbours="x")
    assert wide.delta_at(2) == 1.0
    assert wide.delta_at(1) == 1e-9
    assert smooth(1, "1/1000").delta_at(2) == pytest.approx((math.e**2 - 1) / (math.e - 1) / 1000)
    assert smooth(1, "1/1000").delta_at(0) == 0
    assert Guarantee("approximate", Fraction(0), Fraction(1, 10), neighbours="x").delta_at(3) == pytest.approx(0.3)


@pytest.mark.parametrize("neighbours", ["replaced", "added"])
def test_guarantees_that_assume_sizes_do_not_protect_them(neighbours):
    """A record that moves from one part to the other changes both public totals, and nothing bounds this loss.

    If records are added or removed, the totals are noised like all counts, unless they are public.
    """
    public = total() if neighbours == "replaced" else ppd.invariants.Public()
    parts = [ppd.SubspaceLaplace(public, epsilon=1, neighbours=neighbours) for _ in range(2)]
    promises = [part.guarantee for part in parts]
    assert compose_parallel(*promises, disjoint=True, within=True).epsilon == 1
    if neighbours == "added":
        assert compose_parallel(*promises, disjoint=True, within=False).epsilon == 2
        return
    with pytest.raises(PrivacyError, match="sizes of the parts would be published"):
        compose_parallel(*promises, disjoint=True, within=False)
    unsaid = Guarantee("pure", Fraction(1), neighbours="one record")
    with pytest.raises(PrivacyError, match="sizes of the parts would be published"):
        compose_parallel(unsaid, unsaid, disjoint=True, within=False)


TWO_LEVELS = ppd.as_table([[30, 4], [12, 5]], dims=("state", "sex"))


def top_down():
    return ppd.TopDown(total(), "1/2", levels=margin("state"), shares=["9/10", "1/10"]).release(TWO_LEVELS)


def test_a_ledger_counts_all_noise_of_a_post_processed_table(tmp_path):
    """The noisy cells use a tenth of epsilon, and the levels above them the rest."""
    release = top_down()
    release.noisy.save(tmp_path / "noisy.ppd")
    for entered in (release, release.noisy, ppd.read_release(tmp_path / "noisy.ppd")):
        ledger = Ledger(epsilon=1)
        ledger.add(entered)
        assert ledger.remaining == Fraction(1, 2)
        assert ledger.guarantee.unprotected[0] == "the total"
    ledger = Ledger(epsilon=5)
    ledger.add(release)
    for again in (release, release.noisy):
        with pytest.raises(PrivacyError, match="entered already"):
            ledger.add(again)
    with pytest.raises(PrivacyError, match=r"0\.5, above the budget of 0\.4"):
        Ledger(epsilon="0.4").add(release)


def test_a_ledger_in_rho_counts_all_that_was_drawn():
    ledger = Ledger(rho=1)
    ledger.add(top_down().noisy)
    assert ledger.remaining == 1 - Fraction(1, 8)


def test_units_of_one_kind_add_up():
    household = smooth(1, unit="household", contributions=3)
    assert compose(household, household).contributions == 3
    assert to_approximate(household, "1/10", distance=2).unit == "record"


def test_assumptions_remain_after_composition():
    """The bound on a chain has 95 % confidence: a sum of losses does not make it certain."""
    trusted = replace(chained(), assumed=("that the chain is near",))
    assert compose(trusted, smooth(1), smooth(1)).assumed == ("that the chain is near",)
    assert "Assumed without proof: that the chain is near." in compose(trusted).describe()
    assert to_approximate(trusted, "0.01", distance=2).assumed == trusted.assumed


def test_a_ledger_warns_about_cells_fixed_by_several_releases():
    """Rows alone and columns alone leave cells open; together, the row of zeros fixes all cells."""
    table = xr.DataArray([[0, 0], [3, 4]], dims=("sex", "age"))
    ledger = Ledger(epsilon=1)
    with pytest.warns(PrivacyWarning, match="fix 2 of 4 cells"):
        ledger.add(ppd.GeneralizedLaplace(margin("sex") & nonnegative(), epsilon="1/4").release(table))
    with pytest.warns(PrivacyWarning, match="fixes 2 cells that no single release fixes, the first at sex=1, age=0"):
        ledger.add(ppd.GeneralizedLaplace(margin("age"), epsilon="1/4").release(table))


def test_noise_with_and_without_bounds_adds_up():
    """Between tables within the bounds both losses hold, so their sum holds; not for other variants."""
    subspace = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4").guarantee
    bounded = ppd.invariants.total() & ppd.invariants.nonnegative()
    congenial = ppd.Conditioned(bounded, noise=ppd.laws.DoubleGeometric("1/2")).guarantee
    for order in ((subspace, congenial), (congenial, subspace)):
        both = compose(*order)
        assert both.variant == "congenial"
        assert both.epsilon == Fraction(3, 4)
        assert float(both.loss(2)) == pytest.approx(float(subspace.loss(2)) + float(congenial.loss(2)))
        assert set(congenial.unprotected) <= set(both.unprotected)
    assert compose(subspace, subspace).variant == "integer-subspace"
    with pytest.raises(PrivacyError, match="do not add up"):
        compose(subspace, congenial, replace(subspace, variant="pure"))


@pytest.mark.parametrize("seed", range(4))
def test_composed_losses_are_rounded_up(seed):
    """Wrong variant: rounding to nearest states half of the sums below the exact ones."""
    rng = np.random.default_rng(seed)
    for _ in range(150):
        sizes = 10.0 ** rng.integers(-12, 2, size=rng.integers(1, 6))
        guarantees = [
            Guarantee("congenial", Fraction(*rng.integers(1, 50, size=2).tolist()), gamma=float(g), metric="l1")
            for g in sizes * rng.random(sizes.size)
        ]
        exact = [max(g.epsilon * (1 + Fraction(g.gamma)), Fraction(g.loss())) for g in guarantees]
        together = compose(*guarantees)
        assert 0 <= Fraction(together.loss()) - sum(exact) < sum(exact) / 10**15
        assert together.epsilon * (1 + Fraction(together.gamma)) >= sum(exact)
        assert Fraction(compose(together, *guarantees).loss()) >= 2 * sum(exact)


def largest_loss(z, mass, h, onto):
    """Return the largest log ratio of the probabilities of projected noise z, and of z + h, except far out."""
    points = np.rint(1e6 * np.vstack([z @ onto, (z + h) @ onto])).astype(np.int64)
    _, place = np.unique(points, axis=0, return_inverse=True)
    p, q = (np.bincount(part, weights=mass, minlength=place.max() + 1) for part in np.split(place.ravel(), 2))
    likely = np.maximum(p, q) > 1e-3 * mass.sum()
    with np.errstate(divide="ignore"):
        return np.abs(np.log(p[likely] / q[likely])).max()


@pytest.mark.parametrize("C", [[[1, 1, 1]], [[1, 0, 1]], [[1, 1, 1], [1, 0, 1]]], ids=str)
def test_private_noise_is_private_on_every_subspace(C):
    """SDP, Corollary 2.8: double geometric noise projected onto a null space; the reverse inclusion is wrong."""
    z, rate = box(-14, 14, 3), 0.6
    mass, onto = np.exp(-rate * np.abs(z).sum(axis=1)), np.eye(3) - np.linalg.pinv(C) @ C
    losses = [largest_loss(z, mass, np.array(h), onto) for h in ([1, -1, 0], [0, 1, -1], [1, 0, -1])]
    assert 0.5 * rate < max(losses) <= 2 * rate + 0.01
    kept = (z @ np.transpose(C) == 0).all(axis=1)  # noise on the null space is private there, and not elsewhere
    assert largest_loss(z[kept], mass[kept], np.array([1, 0, 0]), np.eye(3)) == np.inf


@pytest.mark.parametrize("mechanism", [ppd.SubspaceLaplace, partial(ppd.SubspaceGaussian, delta="1/1000")])
def test_more_public_sums_restrict_a_guarantee(mechanism):
    """SDP, Proposition 2.7: noise that keeps a total, and then public margins, as noise that keeps the margins."""
    table, margins = np.array([[3, 4], [5, 6]]), ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    first = mechanism(ppd.invariants.total(), 1).release(table).guarantee
    public = ppd.Suppression(margins).release(table).guarantee
    for pair in ((first, public), (public, first)):
        both = compose(*pair)
        assert (both.variant, both.loss(), both.delta) == ("subspace", 1, first.delta)
        assert both.loss_of_unit == mechanism(margins, 1).release(table).guarantee.loss_of_unit == 2
        assert set(both.unprotected) == {"the total", *public.unprotected}
    with pytest.raises(PrivacyError, match="do not add up as stated"):
        compose(first, replace(public, epsilon=Fraction(1)))
    with pytest.raises(PrivacyError, match="different public information"):
        compose(Guarantee("pufferfish", Fraction(1), neighbours="a secret"), public, independent=True)
