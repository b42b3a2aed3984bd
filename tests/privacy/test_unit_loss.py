"""Steps of neighbour relations, restated and composed guarantees, sessions, and the rounding of losses of one unit.

The stated losses of mechanisms are compared with all outputs of small tables in `test_one_person.py`.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.counts import truncated_geometric
from ppdinf.invariants import margin, total
from ppdinf.privacy import Guarantee, compose, compose_partition, to_approximate, to_zcdp
from ppdinf.privacy.unit_loss import ADDED, PRESENT, REPLACED

TABLE = np.array([9, 4, 5])


@pytest.mark.parametrize(
    ("neighbours", "given", "steps"),
    [
        (REPLACED, None, 1),
        (ADDED, None, 2),
        (PRESENT, None, 2),
        (f"{ADDED}, or moved from one part to another", None, 2),
        ("anything else", None, 2),
        ("anything else", 3, 3),
    ],
)
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
    one = ppd.GeneralizedGaussian(total(), 1, "1e-3", calibration="exact").release(TABLE).guarantee
    two = compose(one, one)
    assert two.concentrated.rho == 2 * one.concentrated.rho
    assert two.loss_of_unit == 2


@pytest.mark.parametrize(
    "mechanism",
    [
        ppd.Transition(truncated_geometric(4, 1).matrix),
        ppd.GeneralizedLaplace(total(), 1),
        ppd.SubspaceGaussian(total(), 2, "1e-6"),
    ],
)
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
    alone.release(ppd.GeneralizedLaplace(total() & unit, "1/2"), TABLE)
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
