"""Cases and deaths given noisy ones, and optionally the total of cases, against the enumeration of all tables."""

import itertools

import numpy as np
import pytest
from chi_square import p_value_of_tables
from scipy.special import gammaln, logsumexp
from scipy.stats import betabinom, nbinom

from case_studies.covid import l2_release_totals, noisy_pairs, posteriors, release_totals
from case_studies.covid.noisy_pairs import log_sums, smooth_sums
from ppdinf.errors import CountError, ModelError

DRAWS = 40_000
ALARM = 1e-6  # false alarm rate of a chi-square test; there are about 20 tests


def with_total(total, groups=3):
    """Return all (c, d) with sum(c) = total and c >= d >= 0, shape (n, groups, 2)."""
    larger = [c for c in itertools.product(range(total + 1), repeat=groups) if sum(c) == total]
    return np.array(
        [np.stack([c, d], axis=1) for c in larger for d in itertools.product(*(range(k + 1) for k in c))],
        dtype=np.int64,
    )


NOISY_CASES, NOISY_DEATHS = np.array([4, -1, 2]), np.array([-2, 1, 3])
PRIOR = {"mean": np.array([3.0, 1.0, 2.0]), "shape": 1.5, "share": np.array([0.2, 0.1, 0.3]), "strength": 3.0}
RATE, TOTAL = 0.7, 6


def unscaled(tables, y, z, rate, **change):
    mean, shape, share, strength = (PRIOR | change).values()
    c, d = tables[..., 0], tables[..., 1]
    logs = nbinom.logpmf(c, shape, shape / (shape + mean)) - rate * (np.abs(c - y) + np.abs(d - z))
    logs = logs + betabinom.logpmf(d, c, strength * share, strength * (1 - share))
    return logs.sum(axis=1)


def posterior(tables, y, z, rate, **change):
    weights = np.exp(unscaled(tables, y, z, rate, **change))
    return weights / weights.sum()


def scenarios(tables, means, weighed=True):
    """Enumerate the posterior under equally probable scenarios, with or without their posterior weights."""
    prior = PRIOR | {"shape": np.array([1.5, 6.0, 3.0])}
    logs = np.stack([unscaled(tables, NOISY_CASES, NOISY_DEATHS, RATE, **(prior | {"mean": mean})) for mean in means])
    parts = np.exp(logs - logs.max())
    if not weighed:
        parts = parts / parts.sum(axis=1, keepdims=True)
    return parts.sum(axis=0) / parts.sum()


@pytest.mark.deep
def test_draws_given_the_total_have_the_enumerated_posterior():
    tables = with_total(TOTAL)
    drawn = noisy_pairs.draw(NOISY_CASES, NOISY_DEATHS, rate=RATE, **PRIOR, total=TOTAL, draws=DRAWS, rng=1)
    assert p_value_of_tables(drawn, tables, posterior(tables, NOISY_CASES, NOISY_DEATHS, RATE), least=10) > ALARM
    for wrong in [
        posterior(tables, NOISY_CASES, NOISY_DEATHS, RATE, strength=4.0),
        posterior(tables, NOISY_CASES, NOISY_DEATHS, RATE, shape=3.0),
        posterior(tables, NOISY_CASES, NOISY_DEATHS, 0.77),
        posterior(tables, NOISY_CASES, np.zeros(3), RATE),  # noisy deaths ignored
        posterior(tables, np.full(3, -50), NOISY_DEATHS, RATE),  # noisy cases ignored, too
    ]:
        assert p_value_of_tables(drawn, tables, wrong, least=10) < ALARM


def test_draws_without_the_total_have_the_enumerated_posterior():
    pairs = np.array([[[c, d]] for c in range(60) for d in range(c + 1)], dtype=np.int64)
    drawn = noisy_pairs.draw(NOISY_CASES, NOISY_DEATHS, rate=RATE, **PRIOR, draws=DRAWS, rng=2)
    for j in range(3):
        own = {"mean": PRIOR["mean"][j], "share": PRIOR["share"][j]}
        listed = posterior(pairs, NOISY_CASES[j], NOISY_DEATHS[j], RATE, **own)
        assert p_value_of_tables(drawn[:, [j]], pairs, listed, least=10) > ALARM


@pytest.mark.deep
def test_scenarios_have_posterior_weights():
    tables, means = with_total(TOTAL), np.array([[3.0, 1.0, 2.0], [1.0, 5.0, 0.5], [8.0, 9.0, 1.0]])
    prior = PRIOR | {"shape": np.array([1.5, 6.0, 3.0]), "mean": means}
    drawn = noisy_pairs.draw(NOISY_CASES, NOISY_DEATHS, rate=RATE, **prior, total=TOTAL, draws=DRAWS, rng=4)
    assert p_value_of_tables(drawn, tables, scenarios(tables, means), least=10) > ALARM
    for wrong in (scenarios(tables, means, weighed=False), scenarios(tables, means[:1]), scenarios(tables, means[1:])):
        assert p_value_of_tables(drawn, tables, wrong, least=10) < ALARM


def test_scenarios_have_posterior_weights_without_the_total():
    pairs = np.array([[[c, d]] for c in range(250) for d in range(c + 1)], dtype=np.int64)
    own = PRIOR | {"share": np.array([0.2])}
    drawn = noisy_pairs.draw([4], [-2], rate=RATE, **(own | {"mean": [[1.0], [30.0]]}), draws=DRAWS, rng=5)
    logs = [unscaled(pairs, 4, -2, RATE, **(own | {"mean": mean})) for mean in (1.0, 30.0)]
    assert p_value_of_tables(drawn, pairs, np.exp(logs).sum(axis=0) / np.exp(logs).sum(), least=10) > ALARM
    apart = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    assert p_value_of_tables(drawn, pairs, apart.mean(axis=0), least=10) < ALARM


def test_uninformative_noise_gives_the_prior():
    prior = {"mean": np.array([300.0, 40.0]), "shape": 2.0, "share": np.array([0.02, 0.05]), "strength": 40.0}
    drawn = noisy_pairs.draw([-5, 9], [0, -3], rate=1e-6, **prior, draws=20_000, rng=3)
    c, d = drawn[..., 0], drawn[..., 1]
    sd = np.sqrt(prior["mean"] + prior["mean"] ** 2 / 2)
    assert (np.abs(c.mean(axis=0) - prior["mean"]) < 4.9 * sd / np.sqrt(len(c))).all()
    z = (d - prior["share"] * c).mean(axis=0) / (d - prior["share"] * c).std(axis=0) * np.sqrt(len(c))
    assert (np.abs(z) < 4.9).all()


@pytest.mark.parametrize(
    ("low", "size", "noisy", "rate"),
    [(0, 3000, -200, 0.0025), (0, 3000, 700, 0.0025), (0, 400, 60, 0.25), (20_000, 30_000, 300, 0.0025)],
)
def test_sums_over_the_smaller_count_are_smooth_enough_to_interpolate(low, size, noisy, rate):
    counts = np.arange(low, low + size, 7)
    assert (
        np.abs(smooth_sums(low, size, noisy, rate, 0.9, 59.0)[::7] - log_sums(counts, noisy, rate, 0.9, 59.0)).max()
        < 1e-4
    )


def test_sums_agree_with_the_definition():
    for c, noisy, rate in [(0, 3, 0.25), (40, -7, 0.25), (2000, 300, 0.0025), (60_000, 900, 0.25), (9, 400, 0.25)]:
        d = np.arange(c + 1)
        terms = betabinom.logpmf(d, c, 0.9, 59.0) - rate * np.abs(d - noisy)
        listed = terms.max() + np.log(np.exp(terms - terms.max()).sum())
        assert log_sums(np.array([c]), noisy, rate, 0.9, 59.0)[0] == pytest.approx(listed, abs=1e-8)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"larger": [1.0, 2.0, 3.0]}, CountError, "must be integers"),
        ({"smaller": [1, 2]}, CountError, "one pair for each group"),
        ({"mean": [0, 1, 1]}, ModelError, "means must be positive"),
        ({"share": [0.2, 1, 0.2]}, ModelError, "shares between 0 and 1"),
        ({"strength": 0}, ModelError, "positive numbers"),
    ],
)
def test_invalid_noisy_arguments_raise(change, error, words):
    with pytest.raises(error, match=words):
        noisy_pairs.draw(**({"larger": NOISY_CASES, "smaller": NOISY_DEATHS, "rate": RATE} | PRIOR | change))


@pytest.mark.parametrize(("rate", "alpha"), [(0.25, 1.0), (0.25, 0.3), (0.7, 5.0)])
@pytest.mark.parametrize("turn", [1.0, np.exp(0.3j)])
def test_total_weights_of_the_releases_of_a_pair(rate, alpha, turn):
    m = np.arange(200)
    logs = gammaln(m + alpha) - gammaln(m + 1.0) - 0.05 * m
    reach = release_totals.log_reach(logs, rate)
    sums = release_totals.sum_tables(logs, reach, rate, turn)
    for c, d in [(0, 0), (5, 0), (5, 2), (5, 5), (30, 7), (1, 1), (40, 39)]:
        of_deaths = np.array([np.exp(-rate * np.abs(np.arange(k + 1) - d)).sum() for k in m])
        listed = (turn ** (m - c) * np.exp(logs - reach[c] - rate * np.abs(m - c)) * of_deaths).sum()
        assert release_totals.pair_sum(c, d, reach, sums, rate, turn) == pytest.approx(listed, rel=1e-9)


@pytest.mark.parametrize("alpha", [np.ones(3), np.array([0.4, 2.0, 1.1])], ids=["congenial", "prior-congenial"])
def test_weighted_draws_have_the_posterior_given_a_congenial_release(alpha):
    """Against the enumeration of all tables and of all their releases, whose total weights the normalizer equals."""
    tables, y, z = with_total(TOTAL), np.array([3, 0, 3]), np.array([1, 0, 2])
    found = release_totals.ReleaseTotals.of(alpha, RATE, np.array([[3, 0], [1, 0], [2, 1]]), [TOTAL] * 3)
    away = np.abs(tables[:, np.newaxis] - tables).sum(axis=(2, 3))
    base = (gammaln(tables[..., 0] + alpha) - gammaln(tables[..., 0] + 1.0)).sum(axis=1)
    log_c = np.log(np.exp(base - RATE * away).sum(axis=1))
    of_counties = np.zeros(len(tables))
    for j, (reach, sums) in enumerate(zip(found.reach, found.sums, strict=True)):
        own = [reach[c] + np.log(release_totals.pair_sum(c, d, reach, sums, RATE, 1.0)) for c, d in tables[:, j]]
        of_counties += own
    assert np.ptp(of_counties + found.log_hit(tables) - log_c) < 1e-9
    assert np.ptp(of_counties - log_c) > 0.1  # the total matters, and the test would see it
    drawn = noisy_pairs.draw(y, z, rate=RATE, **PRIOR, total=TOTAL, releases=found, draws=DRAWS, rng=1)
    weights = np.exp(-found.log_hit(drawn))
    kept = drawn[np.random.default_rng(2).random(DRAWS) < weights / weights.max()]
    exact = np.exp(unscaled(tables, y, z, RATE) - log_c)
    assert p_value_of_tables(kept, tables, exact / exact.sum(), least=10) > ALARM
    assert p_value_of_tables(kept, tables, posterior(tables, y, z, RATE), least=10) < ALARM  # without C(x)


@pytest.mark.deep
@pytest.mark.parametrize("alpha", [np.ones(3), np.array([0.4, 2.0, 1.1])], ids=["congenial", "prior-congenial"])
def test_weighted_draws_have_the_posterior_given_a_congenial_l2_release(alpha, monkeypatch):
    """Against the enumeration of all tables and of all their releases; the study's widths are further apart."""
    monkeypatch.setattr(l2_release_totals, "STEP", 1 / 4)
    tables, y, near = with_total(TOTAL), np.array([[3, 1], [0, 0], [3, 2]]), np.array([[3, 0], [1, 0], [2, 1]])
    found = l2_release_totals.L2Totals.of(alpha, RATE, near, 30)
    away = np.sqrt(((tables[:, np.newaxis] - tables) ** 2).sum(axis=(2, 3)))
    base = (gammaln(tables[..., 0] + alpha) - gammaln(tables[..., 0] + 1.0)).sum(axis=1)
    log_c = logsumexp(base - RATE * away, axis=1)
    assert np.ptp(found.log_total(tables) - log_c) < 1e-3
    assert np.ptp(log_c) > 1
    drawn, log_w, _ = posteriors.l2_draws(y, found, near, PRIOR | {"total": TOTAL}, DRAWS // 2, 1, 2.0)
    kept = drawn[np.random.default_rng(2).random(len(drawn)) < np.exp(log_w - log_w.max())]
    exact = unscaled(tables, *y.T, 0.0) - RATE * np.sqrt(((tables - y) ** 2).sum(axis=(1, 2)))
    for log_p, agrees in ((exact - log_c, True), (exact, False)):  # False: without C(x)
        p = np.exp(log_p - logsumexp(log_p))
        assert (p_value_of_tables(kept, tables, p, least=10) > ALARM) == agrees


def test_total_weights_of_l2_releases_where_the_base_measure_is_steep():
    """Counts far from the pair, of large base weight, decide its sum: those within nine deviations alone have less."""
    m, rate = np.arange(12_000), 1 / 500
    for alpha, theta in [(60.0, -0.05), (0.4, -0.09)]:
        base, found = (
            gammaln(m + alpha) - gammaln(m + 1.0) + theta * m,
            [np.array([alpha]), 2000, theta, 1, np.empty(0)],
        )
        for c, d in [(0, 0), (30, 7), (700, 3), (6000, 20)]:
            of_deaths = np.cumsum(np.exp(-((m - d) ** 2) * rate**2 / 2))
            listed = base + np.log(of_deaths) - (m - c) ** 2 * rate**2 / 2
            summed = l2_release_totals.L2Totals(rate, *found).log_products(np.array([[[c, d]]]), 1.0)[0, 0].real
            assert summed == pytest.approx(logsumexp(listed), abs=1e-3)
    near = np.abs(m - 6000) < 9 / rate
    assert logsumexp(listed[near]) < logsumexp(listed) - 100
