"""Budgets, and releases of disjoint parts: the stated loss, against enumeration of all data of two persons."""

import json
import math
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest

import ppdinf as ppd
from ppdinf.errors import BudgetError, LabelError, PrivacyError, SessionError
from ppdinf.invariants import Public, margin, total, unit
from ppdinf.privacy import Guarantee, Ledger, compose, compose_partition, to_zcdp, zcdp_delta
from ppdinf.privacy.budget import Budget
from ppdinf.sessions.journal import journal_line  # the forger knows the chain


def test_epsilon_and_delta_add_up():
    promise = Guarantee("approximate", Fraction(1, 2), Fraction(1, 10**6), neighbours="one record")
    budget = Budget(epsilon=2, delta="2e-6")
    assert budget.spent([]) == {"epsilon": 0, "delta": 0}
    budget.require([promise], promise)
    with pytest.raises(BudgetError, match=r"delta to 3e-06, above the budget of 2e-06 .0 remaining"):
        budget.require([promise] * 2, promise)
    with pytest.raises(BudgetError, match=r"epsilon to 2\.5, above the budget of 2 .0 remaining"):
        Budget(epsilon=2, delta="1e-3").require([promise] * 4, promise)
    with pytest.raises(PrivacyError, match="budget of rho"):
        Budget(epsilon=2).require([], promise)
    for wrong in ({}, {"epsilon": 1, "rho": 1}, {"delta": "1e-6"}, {"rho": 1, "delta": "1e-6"}, {"epsilon": -1}):
        with pytest.raises(PrivacyError):
            Budget(**wrong)


@pytest.mark.parametrize("calibration", ["exact", "theorem14"])
def test_lattice_gaussians_count_with_the_rho_of_their_sigma(calibration):
    table = np.array([[30, 4], [12, 7]])
    mechanism = ppd.GeneralizedGaussian(margin("dim_0"), "1/4", "1e-6", calibration=calibration)
    release = mechanism.release(table)
    rho = 1 / (2 * release.mechanism.sigma**2)
    found = to_zcdp(release.guarantee)
    assert (found.rho, found.metric, found.variant) == (rho, "l2", "zcdp")
    assert found.unprotected == release.guarantee.unprotected
    ledger = Ledger(rho=3 * rho)
    for _ in range(3):
        ledger.add(mechanism.release(table))
    assert ledger.remaining == 0
    with pytest.raises(BudgetError):
        ledger.add(release)


@pytest.mark.parametrize("kind", [ppd.SubspaceGaussian, ppd.CorrelatedGaussian])
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-9), (3, 1e-4)])
def test_real_gaussians_count_with_the_rho_of_their_width(kind, epsilon, delta):
    """By the width of the drawn noise; zCDP, a weaker guarantee, never gives a smaller delta."""
    found = to_zcdp(kind(total(), epsilon, delta).guarantee)
    assert found.neighbours == kind(total(), epsilon, delta).guarantee.neighbours
    assert zcdp_delta(found.rho, epsilon) >= delta
    if kind is ppd.SubspaceGaussian:
        sigma = kind(total(), epsilon, delta).sigma(total().on(np.arange(4)))
        assert math.isclose(found.rho, 2 / (2 * sigma**2), rel_tol=1e-3)  # a record replaced moves sqrt(2)
        assert found.rho >= Fraction(1) / Fraction(sigma) ** 2


CELLS = list(product(("north", "south"), (0, 1)))
DATA = [np.array(data) for data in product(range(4), repeat=2)]  # which cell each of two persons is in
# all counts are from 0 to 2: losses of both norms are largest at an output on the line through two tables
OUTPUTS = np.array(list(product(range(-1, 4), repeat=2)))


def tables(data, parts):
    """The table of each part, and of everybody, over two cells."""
    found = {}
    for part in parts:
        own = [CELLS[k][1] for k in data if part in (None, CELLS[k][0])]
        found[part] = np.bincount(own, minlength=2)
    return found


@cache
def log_law(mechanism, *table):
    """Log probability of each output; up to a constant that is the same for all tables."""
    return np.array([mechanism.logp(y, np.array(table)) for y in OUTPUTS])


def worst(mechanisms, parts):
    """Largest change of the log odds of all releases together, for each pair of data, and their distances."""
    found = []
    for one, two in combinations(range(len(DATA)), 2):
        loss, by_part = 0.0, {}
        for mechanism, part in zip(mechanisms.values(), parts, strict=True):
            a, b = (tables(DATA[k], [part])[part] for k in (one, two))
            if mechanism.public == total() and a.sum() != b.sum():
                break  # the guarantee does not cover these pairs
            with np.errstate(invalid="ignore"):
                ratio = log_law(mechanism, *a) - log_law(mechanism, *b)
            loss += np.nanmax(np.abs(ratio))
            by_part[part] = np.array(a - b)
        else:
            found.append((loss, by_part))
    return found


def distance(by_part, metric):
    def of(difference):
        return np.abs(difference).sum() if metric == "l1" else np.sqrt((difference**2).sum())

    cut = [difference for part, difference in by_part.items() if part is not None]
    everybody = of(by_part[None]) if None in by_part else 0.0
    return max(everybody, of(np.concatenate(cut)) if cut else 0.0)


@cache
def laplace(epsilon, public=None, norm="l1"):
    return ppd.GeneralizedLaplace(Public() if public is None else public, epsilon=epsilon, norm=norm)


@pytest.mark.parametrize(
    ("mechanisms", "parts"),
    [
        ({"a": laplace("1/2"), "b": laplace("1/3")}, ["north", "south"]),
        ({"a": laplace("1/2"), "b": laplace("1/3"), "c": laplace("1/4")}, ["north", "south", "south"]),
        ({"a": laplace("1/2"), "b": laplace("1/3"), "c": laplace("1/4")}, ["north", "south", None]),
        ({"a": laplace("1/2", total()), "b": laplace("1/3", total())}, ["north", "south"]),
        ({"a": laplace("1/2", norm="l2"), "b": laplace("1/2", norm="l2")}, ["north", "south"]),
    ],
)
def test_the_stated_loss_covers_all_pairs_of_data(mechanisms, parts):
    """The loss is attained, except for l2, where the parts' distances in l1 exceed the necessary distance."""
    together = compose_partition([m.guarantee for m in mechanisms.values()], parts)
    found = worst(mechanisms, parts)
    slack = [float(together.loss(distance(by_part, together.metric))) - loss for loss, by_part in found]
    assert min(slack) > -1e-9
    assert min(slack) < 1e-9 or mechanisms["a"].norm == "l2"
    assert together.loss() < compose(*(m.guarantee for m in mechanisms.values())).loss()


def test_the_largest_loss_is_wrong_for_overlapping_parts_and_l2():
    one, two = laplace("1/2"), laplace("1/3")
    stated = compose_partition([one.guarantee, two.guarantee], ["north", "south"])
    overlapping = worst({"a": one, "b": two}, [None, None])  # both count everybody
    assert any(loss > float(stated.loss(distance(by_part, "l1"))) + 0.1 for loss, by_part in overlapping)
    euclidean = laplace("1/2", norm="l2")
    found = worst({"a": euclidean, "b": euclidean}, ["north", "south"])
    assert any(loss > 0.5 * distance(by_part, "l2") + 0.05 for loss, by_part in found)


def test_zcdp_adds_up_in_squares():
    """Between Gaussians the divergence is known: rho times the squared distance, summed over the parts."""
    rhos = {"north": Fraction(1, 8), "south": Fraction(1, 32)}
    gaussians = [ppd.GeneralizedGaussian(Public(), rho=rho).guarantee for rho in rhos.values()]
    together = compose_partition(gaussians, list(rhos))
    assert (together.rho, together.metric) == (Fraction(1, 8), "l2")
    for one, two in combinations(DATA, 2):
        own = {part: tables(one, [part])[part] - tables(two, [part])[part] for part in rhos}
        loss = sum(float(rhos[part]) * float((difference**2).sum()) for part, difference in own.items())
        assert loss <= float(together.loss(distance(own, "l2"))) + 1e-12


def test_a_session_counts_the_part_that_lost_most(tmp_path):
    file = tmp_path / "cases.budget"
    session = ppd.Session.open(file, epsilon=1, partition={"region": ["north", "south"]})
    for part, epsilon in [("north", "1/2"), ("south", "1/4"), ("south", "1/4"), ("south", "1/8")]:
        session.release(laplace(epsilon, total()), [3, 1, 2], name="x", part=part)
    assert session.spent == {"epsilon": Fraction(5, 8)}
    session.release(laplace("1/4", total()), [3, 1, 2])
    session = ppd.Session.open(file)
    assert (session.left, session.partition) == ({"epsilon": Fraction(1, 8)}, ("region", ("north", "south")))
    with pytest.raises(PrivacyError, match=r"0\.125 remaining"):
        session.release(laplace("1/4", total()), [3, 1, 2], part="south")
    session.release(laplace("1/8", total()), [3, 1, 2], part="north")
    assert session.left == {"epsilon": Fraction(1, 8)}
    assert session.table()["part"].tolist() == ["north", "south", "south", "south", "everybody", "north"]
    assert session.guarantee.loss_of_unit == Fraction(7, 4)
    assert session.guarantee.assumed == ("that no record is of two parts by region (north, south)",)
    for rho in (1, 2):  # a later version of the same, in zCDP
        other = ppd.Session.open(tmp_path / f"{rho}", rho=rho, partition={"region": ["north", "south"]})
        other.release(laplace("1/4", total()), [3, 1], part="north")
        other.release(ppd.GeneralizedGaussian(total(), rho="1/32"), [3, 1], part="south")
        assert other.spent == {"rho": Fraction(1, 32)}


def test_parts_are_stated_and_checked(tmp_path):
    """Parts are those of the session, and a table with labels of a part agrees; other lines are refused."""
    file = tmp_path / "cases.budget"
    session = ppd.Session.open(file, epsilon=10, partition={"region": ["north", "south"]}, contributions=2)
    table = ppd.as_table(np.array([[3, 1], [2, 5]]), dims=("region", "sex")).assign_coords(region=["north", "south"])
    own = laplace("1/4", total() & unit("person", contributions=2))
    with pytest.raises(LabelError, match="count region = north only, but has cells of south"):
        session.release(own, table, part="north")
    for wrong in (["north", "south", "west"], ["north", "east"]):
        with pytest.raises(PrivacyError, match="another partition"):
            ppd.Session.open(file, partition={"region": wrong})
    session.release(own, table.sel(region=["north"]), part="north")
    with pytest.raises(PrivacyError, match="has no part 'west': its parts are north, south"):
        session.release(own, table, part="west")
    with pytest.raises(PrivacyError, match="enter it without a part"):
        session.release(ppd.KNorm(total() & unit("person", contributions=2), epsilon=1), [3, 1], part="north")
    plain = ppd.Session.open(tmp_path / "plain.budget", epsilon=1)
    with pytest.raises(PrivacyError, match="it has no partition"):
        plain.release(laplace("1/4"), [3, 1], part="north")
    for wrong in ({}, {"region": "north"}, {"region": ["north"]}, {"region": ["a", "a"]}, {"a": ["x", "y"], "b": ["x"]},
                  {"region": ["a", ""]}, {"": ["a", "b"]}, ["north", "south"], {"region": ["a", 1]}):  # fmt: skip
        with pytest.raises(PrivacyError):
            ppd.Session.open(tmp_path / "new.budget", epsilon=1, partition=wrong)
    assert not (tmp_path / "new.budget").exists()
    records = [json.loads(line) for line in file.read_bytes().splitlines()]
    records[1]["part"] = "west"
    previous, written = "", b""
    for record in records:
        line = journal_line(previous, {name: value for name, value in record.items() if name != "digest"})
        previous, written = json.loads(line)["digest"], written + line
    file.write_bytes(written)
    with pytest.raises(SessionError, match="complete but not valid"):
        ppd.Session.open(file)
