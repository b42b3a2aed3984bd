"""Guarantees in numbers and in words."""

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import PrivacyError, PrivacyWarning
from ppdinf.invariants import (
    Public,
    at_least,
    between,
    cells,
    covariates,
    groups,
    hierarchy,
    margin,
    nonnegative,
    total,
    zeros,
)
from ppdinf.privacy import Guarantee, zcdp_epsilon
from ppdinf.privacy.release_guarantee import ReleaseGuarantee

TABLE = xr.DataArray(
    [40, 0, 12, 7],
    dims="county",
    coords={
        "county": ["w", "x", "y", "z"],
        "state": ("county", list("AABB")),
        "persons": ("county", [900, 80, 300, 90]),
    },
)


def guarantee(public, table=TABLE, epsilon="1/4"):
    released = table.drop_vars([name for name in ("state", "persons") if name not in public.coordinates()])
    return ppd.GeneralizedLaplace(public, epsilon=epsilon).release(released).guarantee


@pytest.mark.parametrize(("public", "nearest"), [
    (Public(), 1), (covariates("persons"), 1), (nonnegative(), 1), (total(), 2), (groups("state"), 2),
    (total() & groups("state"), 2), (total() & zeros({"county": "x"}), 2), (zeros({"county": "x"}), 1),
])  # fmt: skip
def test_nearest_alternative(public, nearest):
    found = guarantee(public)
    assert found.nearest == nearest
    assert found.loss_at_nearest == Fraction(nearest, 4)
    assert f"The distance of two such tables is at least {nearest} (" in found.describe()


def test_losses_and_deltas_grow_with_the_distance():
    """Deltas of the steps of a group add up, each multiplied by the factors of the following steps."""
    promise = Guarantee("approximate", Fraction(1, 2), Fraction(1, 100), metric="l1")
    assert promise.delta_at(1) == pytest.approx(0.01)
    assert promise.delta_at(2) == pytest.approx(0.01 * (1 + math.exp(0.5)))
    assert promise.delta_at(3) == pytest.approx(0.01 * (1 + math.exp(0.5) + math.exp(1)))
    assert Guarantee("zcdp", rho=Fraction(0), metric="l2").loss(3) == 0
    assert Guarantee("zcdp", rho=Fraction(1, 8), metric="l2").loss(3) == Fraction(9, 8)


def test_guarantees_without_distances_do_not_mention_them():
    near = Guarantee("pure", Fraction(1), neighbours="one record")
    assert "at a distance of 20" not in near.describe()
    assert "at a distance of 20 the factor can reach e^" not in Guarantee("pure", Fraction(0), metric="l1").describe()
    assert "at a distance of 20" in Guarantee("pure", Fraction(1), metric="l1").describe()
    assert "the loss reaches rho = 50" in Guarantee("zcdp", rho=Fraction(1, 8), metric="l2").describe()


@pytest.mark.parametrize("public", [hierarchy("state", "county"), margin("county"), cells({"county": list("wxyz")})])
def test_no_alternative(public):
    with pytest.warns(PrivacyWarning, match="fix 4 of 4 cells, the first at county=w"):
        found = guarantee(public)
    assert found.nearest is None
    assert found.loss_at_nearest is None
    assert "Protected: nothing." in found.describe()


OTHERS = "together with changes of the records of others"


@pytest.mark.parametrize(("public", "occupied", "alone"), [
    (Public(), [0, 1, 2], True), (total(), [0, 1, 2], True), (total() & nonnegative(), [0, 1, 2], True),
    (total() & zeros({"a": 0}), [1, 2], True), (margin("a"), [0, 1, 2], False),
    (margin("a") & margin("b"), [0, 1, 2], False),  # a change of c alone keeps both
    (margin("a") & zeros({"a": [0, 1]}), [2], True),
    (total() & between(0, 30), [0, 1, 2], False),
    (total() & at_least(2, 1, dim="a"), [0, 1, 2], False),
])  # fmt: skip
def test_the_loss_of_one_person_is_qualified_unless_each_change_keeps_the_sums(public, occupied, alone):
    """Oracle: all changes of one person of a table whose cells are at bounds or can reach them."""
    counts = np.zeros((3, 2, 2), dtype=np.int64)
    counts[occupied] = [[30, 30], [30, 20]]
    table = ppd.as_table(counts, dims=("a", "b", "c"))
    system, people = public.on(table), np.flatnonzero(counts)

    def keeps(old, new):
        moved = counts.ravel().copy()
        moved[[old, new]] += -1, 1
        return system.check(table.copy(data=moved.reshape(counts.shape)))["agrees"].all()

    assert alone == all(keeps(old, new) for old in people for new in people if old != new)
    found = ppd.GeneralizedLaplace(public, epsilon="1/4").release(table).guarantee
    assert (OTHERS not in found.describe_unit()) == alone


def test_the_description_lists_unprotected_and_protected_information():
    with pytest.warns(PrivacyWarning, match="fix 1 of 4 cells, the first at county=w"):
        found = guarantee(groups("state") & cells({"county": "w"}) & covariates("persons") & zeros({"county": "x"}))
    assert found.describe() == (
        "One person can lose at most epsilon = 0.5 (a factor of 1.65 in the odds), delta = 0.\n"
        "Not protected, because it is published exactly: the sum for every state; every count with county = w; the "
        "coordinate persons.\n"
        "Not protected, because it is assumed to be known of every table: no one can have county = x.\n"
        "Labels of the table, their order, and everything that follows from this information are not protected.\n"
        "2 of the 4 cells follow from this information: their exact counts are published.\n"
        "\n"
        "Protected: the confidential table among all tables that agree with this information. For every prior "
        "knowledge, the release changes the odds between two such tables at distance k by a factor of at most "
        "exp(epsilon k), with epsilon = 0.25. The distance between two tables is the sum over all cells of the "
        "absolute differences of their counts; counting one person in another cell is a distance of 2. The distance "
        "of two such tables is at least 2 (one person counted in another cell); at this distance the factor is at "
        "most exp(0.5) = 1.65. Tables at a larger distance are easier to distinguish: at a distance of 20 the factor "
        "can reach 149. The guarantee does not cover tables that differ in the public information. "
        f"Noise: {found.sampler}."
    )


def test_a_mechanism_states_its_guarantee_without_a_table():
    mechanism = ppd.GeneralizedLaplace(total() & nonnegative(), epsilon="1/3")
    found = mechanism.guarantee
    assert (found.epsilon, found.metric) == (Fraction(1, 3), "l1")
    assert found.unprotected == ("the total",)
    assert found.known == ("no count is negative",)
    assert "epsilon = 1/3 (about 0.333333)" in found.describe()
    assert isinstance(mechanism.release([3, 1, 2]).guarantee, Guarantee)


def test_large_losses_are_readable():
    assert "exp(2000) = e^2e+03" in guarantee(total(), epsilon=1000).describe()


def test_plain_data():
    found = guarantee(total() & nonnegative())
    data = json.loads(json.dumps(found.to_dict()))
    assert data == {
        "dp_flavor": {"name": "Integer subspace DP", "input_metric": "l1",
                      "output_measure": "approximate max divergence",
                      "unprotected_quantities": ["the total", "no count is negative"]},
        "privacy_loss": {"privacy_unit": "person", "privacy_unit_description": "per unit of l1 distance",
                         "privacy_parameters": {"epsilon": "1/4"}},
        "nearest": 2.0, "fixed": 0, "cells": 4, "sampler_distance": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("promise", "loss", "words"),
    [
        (Guarantee("pure", Fraction(1), neighbours="one record"), 3, "tables that differ in one record"),
        (Guarantee("approximate", Fraction(1), Fraction(1, 100), neighbours="one record"), 3, "delta = 0.01"),
        (Guarantee("subspace", Fraction(1), neighbours="one record replaced"), 3, "one record replaced"),
        (Guarantee("zcdp", rho=Fraction(1, 8), metric="l2"), Fraction(9, 8), "rho k^2 allows, with rho = 0.125"),
        (Guarantee("congenial", Fraction(1), metric="l1", gamma=-0.5), 1.5, "gamma = -0.5"),
        (Guarantee("pufferfish", Fraction(1), neighbours="whether somebody is ill"), 1, "Protected: whether somebody"),
    ],
)
def test_every_variant_has_a_description(promise, loss, words):
    assert promise.loss(1 if promise.variant == "pufferfish" else 3) == loss
    assert promise.loss() == promise.loss(1)
    assert words in promise.describe()
    assert len(promise.describe().split("\n\n")) == 2
    json.dumps(promise.to_dict())


def test_delta_grows_with_the_distance_as_definition_2_has_it():
    promise = Guarantee("integer-subspace", Fraction(1, 2), Fraction(1, 1000), metric="l2")
    assert promise.delta_at(2) == pytest.approx(math.expm1(1) / math.expm1(0.5) / 1000)
    assert promise.delta_at(100) == 1.0


def test_nearest_equals_enumeration():
    """Smallest l1 norm of a lattice vector with entries from -1 to 1, for random groups."""
    rng = np.random.default_rng(1)
    box = np.stack(np.meshgrid(*[[-1, 0, 1]] * 5), axis=-1).reshape(-1, 5)
    for _ in range(20):
        table = xr.DataArray(rng.integers(9, size=5), dims="c", coords={"g": ("c", rng.integers(4, size=5))})
        weights = rng.integers(0, 2, size=5)  # cells of weight zero are in no sum
        public = total(weights="w") if rng.random() < 0.5 else groups("g")
        table = table.assign_coords(w=("c", weights))
        mechanism = ppd.GeneralizedLaplace(public, epsilon=1)
        system = public.on(table)
        kernel = box[np.all(system.A @ box.T == 0, axis=0)]
        norms = np.abs(kernel).sum(axis=1)
        expected = int(norms[norms > 0].min()) if np.any(norms) else None
        assert mechanism.guarantee_on(system, mechanism.plan_on(system)).nearest == expected


def test_distances_are_not_mentioned_without_another_table():
    alone = ReleaseGuarantee("zcdp", rho=Fraction(1), metric="l2", nearest=None, fixed=2, cells=2, sampler="exact")
    assert alone.describe().endswith("fixes every cell of the table. Noise: exact.")
    narrow = ReleaseGuarantee("zcdp", rho=Fraction(10**8), metric="l2", nearest=1, fixed=0, cells=2, sampler="exact")
    assert "the factor exceeds" in narrow.describe()


def test_the_stated_factor_is_exceeded_with_the_stated_probability():
    """Losses N(rho, 2 rho) of Gaussian noise exceed the epsilon of (epsilon, delta) with more than delta."""
    loss = stats.norm(0.5, 1)
    said = ReleaseGuarantee("zcdp", rho=Fraction(1, 2), metric="l2", nearest=1, fixed=0, cells=2, sampler="exact")
    epsilon = float(re.search(r"the factor exceeds exp\(([0-9.]+)\)", said.describe()).group(1))
    assert loss.sf(epsilon) <= 1e-6 < loss.sf(zcdp_epsilon("1/2", "1e-6"))


def test_a_total_of_zero_leaves_nothing_to_protect():
    with pytest.warns(PrivacyWarning, match="fix 4 of 4 cells"):
        found = guarantee(total() & nonnegative(), table=0 * TABLE)
    assert found.nearest is None
    assert "Protected: nothing." in found.describe()


SQUARE = ppd.as_table([[30, 4], [12, 5]], dims=("state", "sex"))
EVERYTHING = margin("state") & margin("sex") & cells({"state": 0, "sex": 0})
LAWS = {
    "laplace": lambda public: ppd.GeneralizedLaplace(public, epsilon=1),
    "l2": lambda public: ppd.GeneralizedLaplace(public, epsilon=1, norm="l2"),
    "gaussian": lambda public: ppd.GeneralizedGaussian(public, rho=1),
    "exact gaussian": lambda public: ppd.GeneralizedGaussian(public, 1, "1e-6", calibration="exact"),
    "conditioned": lambda public: ppd.Conditioned(public, noise=ppd.mechanisms.DoubleGeometric(1)),
    "wasserstein": lambda public: ppd.WassersteinExponential(public, 1, 4, "one person's cell"),
    "suppression": ppd.Suppression,
    "real": lambda public: ppd.SubspaceGaussian(public, epsilon=1, delta="1e-6"),
    "k-norm": lambda public: ppd.KNorm(public, epsilon=1),
}


@pytest.mark.parametrize("law", LAWS)
def test_guarantees_use_all_public_statements(law):
    """The noise keeps the total, and more is public: then the nearest tables are further away, or do not exist."""
    noisy = (
        LAWS[law](total()).release(SQUARE) if law != "suppression" else ppd.Release(SQUARE, ppd.Suppression(total()))
    )
    alone = noisy.guarantee
    margins = (margin("state") & margin("sex")).on(SQUARE)
    crossed = ppd.Release(noisy.table, noisy.mechanism, public=margins, plan=noisy.plan).guarantee
    assert (alone.fixed, crossed.fixed) == (0, 0)
    assert crossed.nearest == {"l1": 4, "l2": 2, None: 1 if law == "wasserstein" else 2}[crossed.metric]
    if law != "wasserstein":
        assert crossed.nearest > alone.nearest
    none = ppd.Release(noisy.table, noisy.mechanism, public=EVERYTHING.on(SQUARE), plan=noisy.plan).guarantee
    assert (none.nearest, none.fixed) == (None, 4)
    assert "Protected: nothing." in none.describe()


def test_post_processed_tables_use_all_public_statements():
    with pytest.warns(PrivacyWarning, match="fix 4 of 4"):
        release = ppd.PostProcessed(EVERYTHING, epsilon=1).release(SQUARE)
    for found in (release.guarantee, release.noisy.guarantee):
        assert (found.nearest, found.fixed) == (None, 4)


def test_a_calibration_between_nearest_tables_covers_only_them():
    """Two tables with both margins are further apart than the tables of the calibration: zCDP holds for them."""
    mechanism = ppd.GeneralizedGaussian(total(), 1, "1e-6", calibration="exact")
    release = mechanism.release(SQUARE)
    assert release.guarantee.variant == "subspace"
    margins = (margin("state") & margin("sex")).on(SQUARE)
    found = ppd.Release(release.table, mechanism, public=margins).guarantee
    assert (found.variant, found.nearest) == ("zcdp", 2)
    assert found.rho == 1 / (2 * release.mechanism.sigma**2)


@pytest.mark.parametrize("sensitivity", ["1/1000", "1", "1.99"])
def test_a_sensitivity_below_every_distance_is_refused(sensitivity):
    """With a public total every secret moves the table by at least 2: such small noise would publish it exactly."""
    public = total() & nonnegative()
    mechanism = ppd.WassersteinExponential(public, 1, sensitivity, "one person's cell")
    for refused in (lambda: mechanism.release([3, 0, 2]), lambda: ppd.Release([3, 0, 2], mechanism).guarantee):
        with pytest.raises(PrivacyError, match="sensitivity must be at least 2, the smallest l1 distance"):
            refused()
    with pytest.raises(PrivacyError, match=r"at least 1\.414, the smallest l2 distance"):
        ppd.WassersteinExponential(public, 1, "7/5", "x", loss="l2").release([3, 0, 2])
    ppd.WassersteinExponential(public, 1, "3/2", "x", loss="l2").release([3, 0, 2])
    apart = ppd.Release([3, 0, 2], ppd.WassersteinExponential(Public(), 1, 1, "x"), public=public.on([3, 0, 2]))
    with pytest.raises(PrivacyError, match="at least 2, the smallest"):
        _ = apart.guarantee


def test_pufferfish_names_its_models():
    found = ppd.WassersteinExponential(total() & nonnegative(), 1, 2, "whether one person is a case").guarantee
    assert "in which the secret moves the table by an infinity-Wasserstein distance of at most Delta = 2 in l1" in (
        found.describe()
    )
    assert "The guarantee covers no other models." in found.describe()
    records = ppd.KNormGradient(ppd.mechanisms.Mean(bound=1), epsilon=1, delta_z=3).guarantee
    assert "moves at most Delta = 3 records" in records.describe()


def test_units_and_their_records():
    public = total() & ppd.invariants.unit("household", contributions=4)
    found = guarantee(public, epsilon="1/8")
    assert (found.unit, found.contributions, found.loss_of_unit) == ("household", 4, 1)
    text = found.describe()
    assert "counting one record in another cell is a distance of 2." in text
    assert text.startswith("One household with up to 4 records can lose at most epsilon = 1 (a factor of 2.72")
    assert "one household has at most 4 records" in found.known
    data = found.to_dict()["privacy_loss"]
    assert (data["privacy_unit"], "up to 4 records" in data["privacy_unit_description"]) == ("household", True)
    assert "counting one household in another cell" in guarantee(total() & ppd.invariants.unit("household")).describe()


@pytest.mark.parametrize("law", [*LAWS, "post-processed"])
def test_every_mechanism_names_the_protected_unit(law, tmp_path):
    public = total() & nonnegative() & ppd.invariants.unit("visit", contributions=3)
    made = ppd.PostProcessed(public, epsilon=1) if law == "post-processed" else LAWS[law](public)
    release = made.release(SQUARE)
    release = release.noisy if law == "post-processed" else release
    release.save(tmp_path / "r.ppd")
    for found in (made.guarantee, release.guarantee, ppd.read_release(tmp_path / "r.ppd").guarantee):
        assert (found.unit, found.contributions) == ("visit", 3)


@pytest.mark.parametrize(
    ("promise", "loss"),
    [
        (Guarantee("integer-subspace", Fraction(1, 2), metric="l1", contributions=3), 3),
        (Guarantee("integer-subspace", Fraction(1, 2), metric="l2", contributions=3), 1.5 * math.sqrt(2)),
        (Guarantee("zcdp", rho=Fraction(1, 2), metric="l2", contributions=3), 9),
        (Guarantee("zcdp", rho=Fraction(1, 2), neighbours="one record", contributions=3), 18),
        (Guarantee("subspace", Fraction(1, 2), Fraction(1, 100), neighbours="one record", contributions=3), 3),
        (Guarantee("pufferfish", Fraction(1), neighbours="whether somebody is ill", contributions=3), 1),
    ],
)
def test_all_records_of_a_unit(promise, loss):
    """The worst table for a group: k records of one cell in another cell, at distance 2 k in l1 and k sqrt(2) in l2.

    Between neighbours of an unknown kind, a record is removed and then added elsewhere: 2 k steps.
    """
    assert promise.loss_of_unit == pytest.approx(loss)
    who = "a secret" if promise.variant == "pufferfish" else "with up to 3 records"
    assert f"{who} can lose at most" in promise.describe().splitlines()[0]


@pytest.mark.parametrize("loss", ["1/500", "1/3", "1", "700", "800", "1e5"])
def test_bounds_in_words_are_rounded_up(loss):
    """The text "at most exp(0.002) = 1" would be false, and so would truncated gamma, delta or factors."""
    epsilon = Fraction(loss)
    delta = Fraction(10004, 10**8)
    found = ReleaseGuarantee(
        "integer-subspace", epsilon, delta, metric="l1", nearest=1, fixed=0, cells=2, sampler="x", sampler_distance=0.0
    )
    text = found.describe()
    factor = re.search(r"at most exp\([^)]*\)* = (e\^)?([0-9.e+]+)", text.split("at this distance")[1])
    bound = float(factor.group(2).rstrip("."))
    assert bound >= (float(epsilon) if factor.group(1) else math.exp(epsilon))
    assert bound <= 1.02 * (float(epsilon) if factor.group(1) else math.exp(epsilon))
    assert "delta = 0.000101" in text


def test_the_nearest_change_is_described_exactly():
    """If the difference of two cells is public, both must increase: nobody is counted in another cell."""
    grown = ppd.GeneralizedLaplace(ppd.invariants.linear([[1, -1]], ["excess"]), epsilon=1).release([3, 1]).guarantee
    assert "one person more, or one less, in each of two cells" in grown.describe()
    assert "one person counted in another cell" in guarantee(total()).describe()
    assert (
        "several cells must change together"
        in ppd.GeneralizedLaplace(margin("state") & margin("sex"), epsilon=1).release(SQUARE).guarantee.describe()
    )


def test_names_state_exact_sums():
    """Pure differential privacy has no exact sums: with exact sums, it holds among tables that share them."""
    exact, free = ppd.PostProcessed(total(), epsilon=1).guarantee, ppd.PostProcessed(Public(), epsilon=1).guarantee
    assert (exact.variant, free.variant) == ("integer-subspace", "pure")
    stated = Guarantee("zcdp", rho=Fraction(1), metric="l2", unprotected=("the total",))
    assert stated.to_dict()["dp_flavor"]["name"] == "Zero-concentrated DP among tables with the same public information"


def test_contributions_of_all_integer_types_print_the_same():
    stated = [ppd.invariants.unit("visit", contributions=n) for n in (3, np.uint64(3), np.int8(3))]
    assert len({str(public) for public in stated}) == 1
