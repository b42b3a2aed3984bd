"""Cases and deaths given the total of cases, against the enumeration of all tables."""

import itertools

import numpy as np
import pytest
from chi_square import p_value_of_tables
from scipy.special import gammaln

from case_studies.covid import pairs
from case_studies.covid.pairs import RATIO_BOUND, STEP, mixed
from ppdinf.errors import CountError, PrivacyError

X, Z = np.array([4, 0, 2]), np.array([1, 0, 2])
ALPHA = np.array([0.5, 1.5, 3.0])
DRAWS = 40_000
ALARM = 1e-6  # false alarm rate of a chi-square test; there are about 12 tests


def every_table(x):
    """Return all (c, d) with the total of x and c >= d >= 0, shape (n, J, 2)."""
    larger = [c for c in itertools.product(range(x.sum() + 1), repeat=x.size) if sum(c) == x.sum()]
    return np.array(
        [np.stack([c, d], axis=1) for c in larger for d in itertools.product(*(range(k + 1) for k in c))],
        dtype=np.int64,
    )


def law(tables, rate, norm, alpha, misprint=False):
    away = tables - np.stack([X, Z], axis=1)
    distance = np.abs(away).sum(axis=(1, 2)) if norm == "l1" else np.sqrt((away**2).sum(axis=(1, 2)))
    logs = -rate * distance
    if alpha is not None:
        c = tables[..., 0]
        logs = logs + (gammaln(c + alpha) - (gammaln(np.maximum(c, 1)) if misprint else gammaln(c + 1.0))).sum(axis=1)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("alpha", [None, ALPHA])
@pytest.mark.parametrize("rate", [0.05, 0.8])
def test_draws_have_the_enumerated_law(norm, alpha, rate):
    tables = every_table(X)
    drawn = pairs.draw(X, Z, rate=rate, norm=norm, alpha=alpha, draws=DRAWS, rng=5)
    assert p_value_of_tables(drawn, tables, law(tables, rate, norm, alpha), least=10) > ALARM


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("alpha", [None, ALPHA])
@pytest.mark.parametrize("rate", [0.05, 0.8])
def test_draws_with_both_totals_have_the_enumerated_law(norm, alpha, rate):
    tables = every_table(X)
    tables = tables[tables[..., 1].sum(axis=1) == Z.sum()]
    drawn = pairs.draw(X, Z, rate=rate, norm=norm, alpha=alpha, smaller_total=True, draws=DRAWS, rng=8)
    assert p_value_of_tables(drawn, tables, law(tables, rate, norm, alpha), least=10) > ALARM
    assert p_value_of_tables(drawn, tables, law(tables, 1.3 * rate + 0.1, norm, alpha), least=10) < ALARM


@pytest.mark.parametrize(("x", "z"), [([4, 0, 2], [0, 0, 0]), ([4, 0, 2], [4, 0, 2]), ([7], [3])])
def test_totals_of_smaller_counts_at_their_ends(x, z):
    drawn = pairs.draw(x, z, rate=0.3, smaller_total=True, draws=20, rng=1)
    assert (drawn[..., 1].sum(axis=1) == sum(z)).all()
    assert (drawn[..., 0].sum(axis=1) == sum(x)).all()
    assert (drawn[..., 1] <= drawn[..., 0]).all()


def test_wrong_laws_are_rejected():
    tables = every_table(X)
    l1 = pairs.draw(X, Z, rate=0.8, draws=DRAWS, rng=6)
    l2 = pairs.draw(X, Z, rate=0.8, norm="l2", draws=DRAWS, rng=6)
    prior = pairs.draw(X, Z, rate=0.8, alpha=ALPHA, draws=DRAWS, rng=6)
    gaussian = np.exp(-0.5 * 0.8 * ((tables - np.stack([X, Z], axis=1)) ** 2).sum(axis=(1, 2)))
    for drawn, wrong in [
        (l1, law(tables, 0.84, "l1", None)),  # rate error of 5 %; in l2, which is less sensitive, 10 %
        (l2, law(tables, 0.88, "l2", None)),
        (l2, gaussian / gaussian.sum()),  # one scale instead of a mixture
        (prior, law(tables, 0.8, "l1", ALPHA, misprint=True)),  # Gamma(c) instead of Gamma(c + 1), as printed
        (prior, law(tables, 0.8, "l1", None)),
    ]:
        assert p_value_of_tables(drawn, tables, wrong, least=10) < ALARM


def test_deaths_that_are_not_marginalized_are_rejected():
    """Drawing cases without regard to deaths, then deaths given cases, is a wrong shortcut and is rejected."""
    tables = every_table(X)
    shortcut = np.zeros(len(tables))
    for c in np.unique(tables[..., 0], axis=0):
        own = (tables[..., 0] == c).all(axis=1)
        given = np.exp(-0.8 * np.abs(tables[own][..., 1] - Z).sum(axis=1))
        shortcut[own] = np.exp(-0.8 * np.abs(c - X).sum()) * given / given.sum()
    assert (
        p_value_of_tables(pairs.draw(X, Z, rate=0.8, draws=DRAWS, rng=7), tables, shortcut / shortcut.sum(), least=10)
        < ALARM
    )


def test_the_sum_over_nodes_satisfies_its_bound():
    x = np.append(0.0, np.geomspace(1e-6, 1e4, 3000))
    assert mixed(x).min() > RATIO_BOUND
    assert STEP == 0.5
    assert abs(mixed(np.array([60.0, 300.0])) - 1).max() < 1e-7


def test_mass_outside_windows_is_negligible_for_wide_noise():
    rng = np.random.default_rng(3)
    x = np.append(rng.integers(0, 3000, 12), 90_000)
    z = rng.binomial(x, 0.02)
    for norm in ("l1", "l2"):
        for alpha in (None, x[::-1] + 0.5):
            assert pairs.edge_mass(x, z, rate=0.01, norm=norm, alpha=alpha) < 1e-12


def test_the_same_seed_gives_the_same_draws_and_exact_totals():
    drawn = pairs.draw(X, Z, rate=0.2, norm="l2", draws=9, rng=1)
    assert np.array_equal(drawn, pairs.draw(X, Z, rate=0.2, norm="l2", draws=9, rng=1))
    assert (drawn[..., 0].sum(axis=1) == X.sum()).all()
    assert ((drawn[..., 1] >= 0) & (drawn[..., 1] <= drawn[..., 0])).all()


def test_an_empty_table_stays_empty():
    assert not pairs.draw([0, 0], [0, 0], rate=0.2, draws=3, rng=1).any()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"smaller": [0, 1, 2]}, CountError, "of pair 1 must be between 0 and the larger count"),
        ({"smaller": [0, 0]}, CountError, "must have the same length"),
        ({"larger": [4.0, 0.0, 2.0]}, CountError, "arrays of integers"),
        ({"rate": 0}, PrivacyError, "rate must be a positive number"),
        ({"norm": "linf"}, PrivacyError, "'l1' or 'l2'"),
        ({"alpha": [1, 0, 1]}, PrivacyError, "one positive number for each pair"),
    ],
)
def test_invalid_arguments_raise(arguments, error, words):
    with pytest.raises(error, match=words):
        pairs.draw(**({"larger": X, "smaller": Z, "rate": 0.5} | arguments))
