"""The loss of one unit: steps between neighbours, restatements, rounding, and sums that tie the records of others."""

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from enumeration import changes, normal_delta
from scipy.optimize import linprog

import ppdinf as ppd
from ppdinf.counts import truncated_geometric
from ppdinf.errors import PrivacyWarning
from ppdinf.invariants import Public, linear, margin, nonnegative, total
from ppdinf.privacy import Guarantee, Ledger, compose, compose_partition, to_approximate, to_zcdp
from ppdinf.privacy.unit_loss import ADDED, PRESENT, REPLACED

COUNTS = np.array([9, 4, 5])


@pytest.mark.parametrize(("neighbours", "given", "steps"), [
    (REPLACED, None, 1), (ADDED, None, 2), (PRESENT, None, 2),
    (f"{ADDED}, or moved from one part to another", None, 2),
    ("anything else", None, 2), ("anything else", 3, 3),
])  # fmt: skip
def test_steps_of_relations(neighbours, given, steps):
    """The number of chained neighbours that replace one record: losses of groups in each variant."""
    for k in (1, 2):
        how = {"neighbours": neighbours, "steps": given, "contributions": k}
        pure = Guarantee("pure", Fraction(1), **how)
        assert (pure.loss_of_unit, pure.delta_of_unit) == (steps * k, 0)
        zcdp = Guarantee("zcdp", rho=Fraction(1, 2), **how)
        assert zcdp.loss_of_unit == Fraction((steps * k) ** 2, 2)
        approximate = Guarantee("approximate", Fraction(1), Fraction(1, 10**4), **how)
        assert approximate.delta_of_unit == pytest.approx(1e-4 * sum(math.e**i for i in range(steps * k)))


@pytest.mark.parametrize(
    ("promise", "distance", "loss"),
    [
        (Guarantee("pure", Fraction(1), metric="l1"), 2, 2),
        (Guarantee("pure", Fraction(1), metric="l1"), 1, 2),  # one record removed, one added
        (Guarantee("pure", Fraction(1), metric="l1"), 0.5, math.inf),  # no two tables are so near
        (Guarantee("pure", Fraction(1), metric="l1", unprotected=("the total",)), 1, math.inf),
        (Guarantee("pure", Fraction(1), metric="l1", unprotected=("the margins",), tied=4), 2, math.inf),
        (Guarantee("pure", Fraction(1), metric="l1", unprotected=("the margins",), tied=4), 4, 4),
        (Guarantee("pure", Fraction(1), metric="l2"), math.sqrt(2), math.sqrt(2)),
        (Guarantee("pure", Fraction(1), neighbours=ADDED), 2, 2),
        (Guarantee("pure", Fraction(1), neighbours=ADDED), 3, 3),
        (Guarantee("pure", Fraction(1), neighbours=REPLACED, tied=2), 1, 2),
        (Guarantee("pure", Fraction(1), neighbours=REPLACED, contributions=2), 1, 2),
    ],
)
def test_restated_at_one_distance(promise, distance, loss):
    """Between tables at one distance, a record is counted elsewhere in one or more steps, or an unknown number."""
    found = to_approximate(promise, "1e-6", distance=distance)
    assert found.loss_of_unit == pytest.approx(loss)
    assert (loss == math.inf) == found.describe().startswith("No guarantee: no limit on the loss of one person")


@pytest.mark.parametrize("records", range(1, 60))
def test_losses_are_rounded_up(records):
    """The exact loss is the square root of ``2 k**2 epsilon**2``; deltas of groups as sums of exact powers."""
    epsilon = Fraction(1, 7)
    found = Guarantee("pure", epsilon, metric="l2", contributions=records)
    assert 0 <= Fraction(found.loss_of_unit) ** 2 - 2 * records**2 * epsilon**2 < Fraction(1, 10**12)
    gamma = 1 / 3
    congenial = Guarantee("congenial", epsilon, metric="l1", gamma=gamma, contributions=records)
    assert Fraction(congenial.loss_of_unit) >= epsilon * 2 * records * (1 + Fraction(gamma))
    group = Guarantee("approximate", epsilon, Fraction(1, 10**9), neighbours=REPLACED, contributions=records)
    with localcontext(prec=60):
        e = (Decimal(1) / 7).exp()
        assert Decimal(float(group.delta_of_unit)) >= sum(e**i for i in range(records)) * Decimal(10) ** -9


def test_zcdp_of_gaussian_noise_adds_up():
    one = ppd.GeneralizedGaussian(total(), 1, "1e-3", calibration="exact").release(COUNTS).guarantee
    two = compose(one, one)
    assert two.concentrated.rho == 2 * one.concentrated.rho
    assert two.loss_of_unit == 2


@pytest.mark.parametrize("mechanism", [
    ppd.Transition(truncated_geometric(4, 1).matrix),
    ppd.GeneralizedLaplace(total(), 1), ppd.SubspaceGaussian(total(), 2, "1e-6"),
])  # fmt: skip
def test_the_first_number_is_the_loss_of_one_person(mechanism):
    text = mechanism.guarantee.describe()
    assert text.startswith("One person can lose at most epsilon = 2")
    assert "delta = " in text.splitlines()[0]


def test_zcdp_states_epsilon_and_delta():
    first = ppd.GeneralizedGaussian(total(), rho="1/50").guarantee.describe().splitlines()[0]
    assert first.startswith("One person can lose at most rho = 0.04 in zCDP, which implies epsilon = ")
    assert "with delta = 1e-06." in first


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("budget", [{"epsilon": 3}, {"epsilon": 3, "delta": "1e-5"}, {"rho": 9}])
@pytest.mark.parametrize("records", [1, 2])
def test_a_session_loses_what_its_releases_lose(records, budget, tmp_path):
    """Four cells of a 2 x 2 table change together if both margins are public: 4 epsilon, and 16 rho by l1 noise."""
    unit = ppd.invariants.unit("visit", contributions=records)
    mechanism = ppd.GeneralizedLaplace(margin("dim_0") & margin("dim_1") & unit, "1/2")
    session = ppd.Session.open(tmp_path / "a.budget", **budget, unit="visit", contributions=records)
    for _ in range(2):
        release = session.release(mechanism, np.array([[9, 4], [3, 8]]))
        assert release.guarantee.loss_of_unit == 2
    expected = 4 * Fraction(1, 8) * 2 * 4 if "rho" in budget else 4
    assert session.guarantee.loss_of_unit == ppd.Session.open(session.path).guarantee.loss_of_unit == expected
    alone = ppd.Session.open(tmp_path / "b.budget", **budget, unit="visit", contributions=records)
    alone.release(ppd.GeneralizedLaplace(total() & unit, "1/2"), COUNTS)
    assert alone.guarantee.loss_of_unit == (Fraction(4 * records**2, 8) if "rho" in budget else records)


def test_tied_tables_in_parts_and_in_two_norms():
    """A nearest table at l2 distance 2 has an l1 distance of at most 4; of several parts the farthest counts."""
    far = Guarantee("integer-subspace", Fraction(1), metric="l2", unprotected=("the margins",), tied=2)
    near = Guarantee("integer-subspace", Fraction(1, 2), metric="l1", unprotected=("the total",))
    assert far.loss_of_unit == 2
    assert compose(far, near).loss_of_unit == Fraction(3, 2) * 4
    assert compose_partition([far, far, near], ["north", "south", None]).loss_of_unit == Fraction(3, 2) * 4
    assert to_zcdp(far).loss_of_unit == 2
    steps = Guarantee("pure", Fraction(1), neighbours=REPLACED, tied=3)
    assert (steps.loss_of_unit, compose(steps, steps).loss_of_unit) == (3, 6)


ROWS, COLUMNS = np.kron(np.eye(2, dtype=int), [1, 1]), np.tile(np.eye(2, dtype=int), 2)
PUBLIC = {
    "rows": (margin("dim_0"), ROWS),
    "columns": (margin("dim_1"), COLUMNS),
    "both": (margin("dim_0") & margin("dim_1"), np.vstack([ROWS, COLUMNS])),
    "total": (total(), np.ones((1, 4), dtype=int)),
    "nothing": (Public(), np.zeros((1, 4), dtype=int)),
    "weighted": (linear([[1, 1, 2, 2]]), np.array([[1, 1, 2, 2]])),
}
RELEASES = [("rows",), ("both",), ("total",), ("rows", "columns"), ("rows", "rows"), ("nothing", "both")]
RELEASES += [("total", "columns"), ("weighted",), ("weighted", "columns")]
TABLE = np.array([[9, 4], [5, 8]])


def alone_and_together(sums, *, same_number, size=None):
    """Changes of one person, or the nearest ones if there are none, and those of one person more."""
    least = next((r for r in range(1, 5) if len(changes(sums, r, same_number=same_number))), None)
    first = changes(sums, least, same_number=same_number)
    if least > 1 and size is not None:  # of these, the nearest
        sizes = [size(z) for z in first]
        first = first[np.isclose(sizes, min(sizes))]
    return first, changes(sums, least + 1, same_number=same_number)


def stated(text):
    """All pairs of epsilon and delta in a text."""
    found = re.findall(r"epsilon = ([\d.e+-]+)[^,]*, delta = ([\d.e-]+\d|0)", text)
    return [(float(epsilon), float(delta)) for epsilon, delta in found]


@lru_cache
def k_norm(sums, z, neighbours):
    """Length of the projected change in the hull of the projected changes of one record."""
    sums = np.reshape(sums, (-1, len(z)))
    away = np.eye(len(z)) - np.linalg.pinv(sums) @ sums
    one = np.eye(len(z))
    moves = one if neighbours == "added" else np.array([a - b for a in one for b in one if (a != b).any()])
    body = away @ np.vstack([moves, -moves]).T
    return linprog(np.ones(body.shape[1]), A_eq=body, b_eq=away @ z, bounds=(0, None)).fun


def lattice_delta(sums, sigma, h, epsilon):
    """Delta of the Gaussian on the integer vectors that keep the sums, and of itself shifted by h."""
    z = np.array(list(product(range(-18, 19), repeat=3)))
    z = np.column_stack([z, -z.sum(axis=1)])  # every set of sums keeps the total
    z = z[~(z @ np.transpose(sums)).any(axis=1)]
    mass = np.exp(-(z**2).sum(axis=1) / (2 * sigma**2))
    there = np.exp(-((z - h) ** 2).sum(axis=1) / (2 * sigma**2))
    return np.maximum(0, mass - math.exp(epsilon) * there).sum() / mass.sum()


def of_ledger(mechanisms):
    ledger = Ledger(epsilon=100)
    for mechanism in mechanisms:
        ledger.add(mechanism.release(TABLE))
    return ledger.guarantee


@pytest.mark.quick_cases(9)
@pytest.mark.parametrize("neighbours", ["replaced", "added"])
@pytest.mark.parametrize("names", RELEASES)
def test_k_norm_noise(names, neighbours):
    """Log ratios of independent releases add up; the text states both numbers, and the first one is attained."""
    mechanisms = [ppd.KNorm(PUBLIC[name][0], "1/2", neighbours=neighbours) for name in names]
    sums = np.vstack([PUBLIC[name][1] for name in names])

    def loss(z):
        return sum(k_norm(tuple(PUBLIC[name][1].ravel()), tuple(z), neighbours) / 2 for name in names)

    alone, together = alone_and_together(sums, same_number=neighbours == "replaced", size=lambda z: np.abs(z).sum())
    text = of_ledger(mechanisms).describe_unit()
    losses = [epsilon for epsilon, _ in stated(text)]
    assert losses[0] == pytest.approx(max(map(loss, alone)), rel=1e-5)
    assert losses[1] >= max(map(loss, together)) * (1 - 1e-6)
    joined = compose(*(mechanism.release(TABLE).guarantee for mechanism in mechanisms))
    assert joined.describe_unit() == text
    unbound = [epsilon for epsilon, _ in stated(compose(*(m.guarantee for m in mechanisms)).describe_unit())]
    if sums.any():  # the number of records that must change follows from a table's labels
        assert len(unbound) == 2
        assert unbound[1] >= max(map(loss, alone)) * (1 - 1e-6)


GAUSSIAN = {
    "exact": lambda public: ppd.GeneralizedGaussian(public, 1, "1e-3", calibration="exact"),
    "zcdp": lambda public: ppd.GeneralizedGaussian(public, 1, "1e-3"),
    "projected": lambda public: ppd.SubspaceGaussian(public, 1, "1e-3"),
    "extended": lambda public: ppd.SubspaceGaussian(public, 1, "1e-3", method="extended"),
}


@pytest.mark.quick_cases(10)
@pytest.mark.parametrize("names", [("rows",), ("both",), ("total",), ("rows", "columns"), ("total", "columns")])
@pytest.mark.parametrize("kind", GAUSSIAN)
def test_gaussian_noise(kind, names):
    """Independent Gaussian noise is one Gaussian, with distances in standard deviations; on a lattice nearly so."""
    mechanisms = [GAUSSIAN[kind](PUBLIC[name][0]) for name in names]
    releases = [mechanism.release(TABLE) for mechanism in mechanisms]
    sums = np.vstack([PUBLIC[name][1] for name in names])
    widths = [
        float(r.mechanism.sigma) if kind in ("exact", "zcdp") else ppd_sigma(r.mechanism, r.kept) for r in releases
    ]

    def apart(z):
        return math.sqrt(sum((z @ z) / width**2 for width in widths))

    found = compose(*(release.guarantee for release in releases))
    pairs = alone_and_together(sums, same_number=kind not in ("exact", "zcdp"), size=apart)
    for guarantee in (found, *([releases[0].guarantee] if len(names) == 1 else [])):
        text = guarantee.describe_unit()
        if found.rho is not None:
            losses = [float(rho) for rho in re.findall(r"rho = ([\d.]+)", text)]
            for rho, moved in zip(losses, pairs, strict=False):
                assert rho >= max(apart(z) for z in moved) ** 2 / 2 * (1 - 1e-9)
        else:
            losses = stated(text)
            for (epsilon, delta), moved in zip(losses, pairs, strict=False):
                if kind == "exact" and len(names) == 1:
                    worst = max(lattice_delta(sums, widths[0], z, epsilon) for z in {z @ z: z for z in moved}.values())
                else:
                    worst = normal_delta(max(map(apart, moved)), epsilon)
                assert worst <= delta * (1 + 1e-6)
        free = names == ("total",) and guarantee is not found
        assert len(losses) == (1 if free else 2)


def ppd_sigma(mechanism, kept):
    """Standard deviation of spherical noise from its density at a change that keeps the sums."""
    z = changes(kept.A.toarray(), 2, same_number=True)[0].astype(float)
    log_density = mechanism.law(kept).log_density
    return math.sqrt((z @ z) / (2 * (log_density(0 * z) - log_density(z))))


@pytest.mark.parametrize("mechanism", [
    ppd.SubspaceGaussian(margin("a") & margin("b"), 1, "1e-6"),
    ppd.CorrelatedGaussian(margin("a") & margin("b"), 1, "1e-6"),
    ppd.SubspaceLaplace(margin("a") & margin("b"), 1),
    ppd.KNorm(margin("a") & margin("b"), 1), ppd.GeneralizedLaplace(margin("a"), "1/2"),
])  # fmt: skip
def test_guarantees_without_a_table_state_the_loss_together_with_others(mechanism):
    alone, together = stated(mechanism.guarantee.describe_unit())
    assert (alone[0], together[0]) == (1, 2)
    assert "together with one other is at most epsilon = 2" in mechanism.guarantee.describe()


def test_joint_sums_that_fix_every_cell_leave_no_guarantee():
    sums = [margin("dim_0"), linear([[1, 0, 2, 0]]), linear([[0, 3, 0, 1]])]
    releases = [ppd.KNorm(public, 1).release(TABLE).guarantee for public in sums]
    joined = compose(*releases)
    assert joined.loss_of_unit == math.inf
    assert joined.describe().startswith("No guarantee: ")


def test_bounds_of_one_release_and_sums_of_another_fix_cells():
    """Row 0 has the public sum 0 in one release, and cells at least 0 in the other: the rest moves in row 1 only."""
    table, ledger = np.array([[0, 0, 0], [5, 8, 2]]), Ledger(epsilon=9)
    ledger.add(ppd.Conditioned(margin("dim_1"), noise=ppd.mechanisms.DoubleGeometric(1)).release(table))
    assert ledger.guarantee.loss_of_unit == 2
    ledger.add(ppd.Conditioned(margin("dim_0"), noise=ppd.mechanisms.DoubleGeometric(1)).release(table))
    assert ledger.guarantee.loss_of_unit == 8
    with pytest.warns(PrivacyWarning, match="fixes 6 cells"):
        ledger.add(ppd.Conditioned(nonnegative(), noise=ppd.mechanisms.DoubleGeometric(1)).release(table))
    assert ledger.guarantee.loss_of_unit == math.inf


def test_three_way_tables_need_three_others():
    """Each release leaves changes of one person; all three margins together leave changes of eight cells."""
    table = np.arange(8).reshape(2, 2, 2)
    pairs = [("dim_0", "dim_1"), ("dim_1", "dim_2"), ("dim_0", "dim_2")]
    releases = [ppd.GeneralizedLaplace(margin(*pair), "1/4").release(table) for pair in pairs]
    assert [release.guarantee.loss_of_unit for release in releases] == [0.5] * 3
    joined = compose(*(release.guarantee for release in releases))
    assert joined.loss_of_unit == 3 * 8 / 4
    assert "of 3 others at least" in joined.describe_unit()


def test_queries_change_only_with_records_that_keep_the_public_answers():
    """Records of three kinds have the answers (1, 0, 1), (1, 1, 0), (0, 1, 1); a public answer ties those it counts."""
    query = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    for public, sums in ((Public(), [[0, 0, 0]]), (linear([[1, 1, 0]]), [[1, 2, 1]]), (total(), [[2, 2, 2]]),
                         (linear([[1, 2, 3]]), [[4, 3, 5]])):  # fmt: skip
        for neighbours in ("replaced", "added"):
            found = ppd.KNorm(public, 1, query=query, neighbours=neighbours).release([9, 4, 5]).guarantee
            moved = changes(sums, 4, same_number=neighbours == "replaced")
            assert found.nearest == min(np.abs(moved).sum(axis=1)) // (2 if neighbours == "replaced" else 1)
            assert found.is_free == (np.ptp(sums) == 0)
