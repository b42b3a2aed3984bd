"""Releases with a privatized histogram: audits of both stages, files, inference, budgets, ``ppdinf counts``."""

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import arviz as az
import numpy as np
import pymc as pm
import pytest
from distributions import distribution
from scipy import stats
from typer.testing import CliRunner

import ppdinf as ppd
from ppdinf.cli import app
from ppdinf.counts.distribution import to_distribution
from ppdinf.counts.two_stage import TwoStage
from ppdinf.errors import ModelError, PrivacyError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.table_update import advance, directions
from ppdinf.invariants import Public
from ppdinf.lattice.moves import connected_moves
from ppdinf.lattice.rows import Rows
from ppdinf.noise.primitives.stream import seeded_stream

COUNTS = np.repeat(np.arange(12), (distribution("geometric", 12) * 300).astype(int))


@pytest.mark.quick_cases(0)
def test_release_and_file(tmp_path):
    release = ppd.counts.TwoStage(1, 12).release(COUNTS)
    assert release.guarantee.epsilon == 1
    assert "counted in one of them and not in the other" in release.guarantee.describe()
    release.save(tmp_path / "teachers.ppd")
    again = ppd.read_release(tmp_path / "teachers.ppd")
    assert again.table.equals(release.table)
    assert (again.mechanism.probabilities == release.mechanism.probabilities).all()
    assert np.array_equal(again.mechanism.noisy, release.mechanism.noisy)
    assert release.check().empty
    fresh = f"import ppdinf as ppd; print(ppd.read_release({str(tmp_path / 'teachers.ppd')!r}).mechanism.kind)"
    told = subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True, check=True).stdout
    assert told == "two-stage\n"  # by a reader that has not imported ppd.counts


@pytest.mark.parametrize("constructor", ["sandwich", "max", "min", "best", "optimal", "unfixed"])
def test_cells_satisfy_the_second_budget(constructor):
    """For rows divided by their sums, all ratios of neighbours are within epsilon_2."""
    release = ppd.counts.TwoStage("1/2", 12, constructor=constructor).release(COUNTS)
    first, second = release.mechanism.budgets
    assert first + second == Fraction(1, 2)
    rows = release.mechanism.probabilities / release.mechanism.probabilities.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(np.abs(np.diff(np.log(rows), axis=0)))
    assert ratios.max() <= float(second)


def law_of_cumulative(table, rate, n=3, reach=7):
    """Return the law of the noisy cumulative counts of a table, without noise beyond `reach`."""
    noise = np.arange(-reach, reach + 1)
    q = np.tanh(rate / 2) * np.exp(-rate * np.abs(noise))
    below = np.cumsum(np.bincount(table, minlength=n))[:-1]
    steps = np.array(list(product(noise, repeat=n - 1)))
    return dict(zip(map(tuple, (below + steps).tolist()), q[steps + reach].prod(axis=1), strict=True))


def test_the_loss_of_ranked_releases_by_enumeration():
    """All pairs of tables of three cells that differ by one person lose at most epsilon, and one loses epsilon.

    The loss of (noisy sums, noisy cells) is enumerated; re-ranking is post-processing. If a person also changed the
    count of a second cell, or the noise had the rate of single bins, the loss would exceed epsilon.
    """
    n, settled = 3, ppd.counts.TwoStage(1, 3, measured=[3, 1, 2])
    first = float(settled.budgets[0])
    matrix = settled.probabilities
    tables, cumulative = np.array(list(product(range(n), repeat=3))), cache(law_of_cumulative)

    def loss(one, other, rate=first):
        laws = cumulative(tuple(one), rate), cumulative(tuple(other), rate)
        sums = max(abs(math.log(laws[0][key] / laws[1][key])) for key in set(laws[0]) & set(laws[1]))
        return sums + np.abs(np.log(matrix[one] / matrix[other])).max(axis=1).sum()

    steps = np.eye(3, dtype=int)
    pairs = [(x, x + step) for x in tables for step in steps if (x + step < n).all()]
    losses = [loss(one, other) for one, other in pairs]
    assert max(losses) == pytest.approx(1, abs=1e-6)
    assert max(losses) <= 1
    assert loss(np.array([0, 1, 2]), np.array([1, 2, 2])) > 1.5
    assert max(loss(*pair, rate=2 * first) for pair in pairs) == pytest.approx(1 + first, abs=1e-6)


def ranked_law(table, n=3):
    """Return the law of a ranked release of two cells from all sums, noisy cells and ties, and that of the cells."""
    mechanism = ppd.counts.TwoStage(2, n)
    matrix, law, cells = ppd.counts.truncated_geometric(n, mechanism.budgets[1]).matrix, {}, {}
    noisy = [(y, matrix[table, y].prod()) for y in map(list, product(range(n), repeat=2))]
    for sums, p in law_of_cumulative(table, float(mechanism.budgets[0]), reach=12).items():
        z = to_distribution(np.diff(sums, prepend=0, append=2), "isotonic")
        lower, upper = np.searchsorted(np.rint(2 * np.cumsum(z))[:-1], [0, 1], side="right").tolist()
        for y, q in noisy:
            ways = {0: [(lower, upper), (upper, lower)], -1: [(lower, upper)], 1: [(upper, lower)]}[
                int(np.sign(y[0] - y[1]))
            ]
            for way in ways:
                law[way] = law.get(way, 0.0) + p * q / len(ways)
            cells[tuple(y)] = cells.get(tuple(y), 0.0) + p * q
    return law, cells


def test_ranked_releases_follow_their_law():
    """Chi-square of 4,000 releases against enumeration, p above 1e-4; the law of the noisy cells is rejected."""
    table = np.array([0, 2])
    drawn = ppd.counts.TwoStage(2, 3).simulate(table, draws=4000, rng=1).values
    p_values = []
    for law in ranked_law(table):
        expected = np.array([law.get(y, 1e-9) for y in product(range(3), repeat=2)])
        seen = np.bincount(drawn @ [3, 1], minlength=9)
        p_values.append(stats.chisquare(seen, 4000 * expected / expected.sum()).pvalue)
    assert p_values[0] > 1e-4 > p_values[1]


def test_the_chosen_number_of_counts():
    """The law of n is that of a stopping time of the noisy cumulative counts, and choosing n costs no budget.

    Chi-square of 3,000 draws, p above 1e-4; a rule that stops one cell later is rejected. Densities of the published
    sums of neighbours differ by at most the first budget, also if one of them is top-coded.
    """
    cells, mechanism, stream = np.array([0, 1, 3, 3, 6, 9]), ppd.counts.TwoStage(2), seeded_stream(4)
    rate = float(mechanism.budgets[0])
    firsts = [mechanism._first_stage(cells, stream) for _ in range(3000)]
    sizes = np.array([2, 3, 5, 9, 17, 33])
    seen = np.array([sum(first.n == n for first in firsts) for n in sizes])

    def p_value(limit):
        stops = stats.dlaplace.cdf([limit - (cells >= n - 1).sum() for n in sizes], rate)
        law = stops * np.cumprod(np.append(1, 1 - stops[:-1]))
        return stats.chisquare(seen, seen.sum() * law / law.sum()).pvalue

    assert p_value(0) > 1e-4 > p_value(-1)
    steps = np.eye(cells.size, dtype=int)
    for first in firsts[:50]:
        noise = first.histogram_noise
        below = [(cells < i).sum() for i in range(1, first.n)]
        expected = stats.dlaplace.logpmf(np.array(first.measured[1:]) - below, rate).sum()
        own = noise.log_density(first._top_coded(cells))
        assert own == pytest.approx(expected + stats.dlaplace.logpmf(0, rate))
        others = [noise.log_density(first._top_coded(cells + step)) for step in steps]
        assert np.abs(np.array(others) - own).max() <= rate + 1e-12


def test_a_release_without_an_upper_bound(tmp_path):
    counts = (2 * np.random.default_rng(3).pareto(1.1, 400)).astype(int)
    release = ppd.counts.TwoStage(1).release(counts)
    n = release.mechanism.n
    assert (counts >= n).mean() < 0.1
    assert release.table.max() < n
    release.save(tmp_path / "open.ppd")
    again = ppd.read_release(tmp_path / "open.ppd")
    assert again.mechanism.n == n
    assert np.isfinite(again.mechanism.logp(again.table, np.minimum(counts, n - 1)))
    assert ppd.counts.TwoStage(1).simulate(counts, draws=2, rng=1).shape == (2, 400)


def test_both_stages_by_enumeration():
    """Three cells of counts 0 to 2, noise up to 7, between neighbours; a rate that ignores one stage is rejected."""
    epsilon, n = 1.0, 3
    reach = np.arange(-7, 8)
    q = np.tanh(epsilon / 4) * np.exp(-epsilon / 2 * np.abs(reach))  # epsilon / 2 for each stage
    around = np.array(list(product(reach, repeat=n)))
    weight = q[around + 7].prod(axis=1)
    shift = around - np.roll(around, -1, axis=1)

    def histogram_law(table):
        law = {}
        for noisy, w in zip(map(tuple, np.bincount(table, minlength=n) + shift), weight, strict=True):
            law[noisy] = law.get(noisy, 0.0) + w
        return law

    worst, first_stage = 0.0, 0.0
    one, other = np.array([0, 1, 2]), np.array([1, 1, 2])
    laws = histogram_law(one), histogram_law(other)
    for noisy in set(laws[0]) & set(laws[1]):
        if max(np.abs(noisy)) > 4:
            continue  # histograms at the edge of the window are truncated
        stage = abs(math.log(laws[0][noisy] / laws[1][noisy]))
        first_stage = max(first_stage, stage)
        T = ppd.counts.heuristic(ppd.counts.to_distribution(noisy), "1/2").matrix
        ratio = np.log(np.where(T[0] > 0, T[0], 1) / np.where(T[0] > 0, T[1], 1))
        worst = max(worst, stage + np.abs(ratio).max())
    assert first_stage <= epsilon / 2 + 1e-3
    assert epsilon / 2 + 0.1 < worst <= epsilon + 1e-3


def test_a_release_preserves_the_histogram():
    """Errors of three mechanisms of the cells: the fixed point preserves the histogram, and re-ranking more so."""
    counts = np.minimum(np.random.default_rng(1).negative_binomial(2, 0.3, 4000), 29)
    true = ppd.counts.histogram(counts, 30) / counts.size
    away = {}
    for constructor in ("ranked", "sandwich", "unfixed"):
        drawn = ppd.counts.TwoStage("0.5", 30, constructor=constructor).simulate(counts, draws=5, rng=4).values
        away[constructor] = np.mean(
            [ppd.counts.wasserstein(ppd.counts.histogram(y, 30) / counts.size, true) for y in drawn]
        )
    assert away["sandwich"] < 0.3 * away["unfixed"]
    assert away["ranked"] < 0.7 * away["sandwich"]


NOISY, RERANKED = [0, 1, 1, 2, 2, 3], [3, 3, 0, 0, 0, 0]


def small_release(privatizer="cumulative"):
    """Return a release of six cells with counts 0 to 3, whose noisy sums are more informative than the cells.

    With cumulative counts the release also has re-ranked cells, which are not those of its likelihood.
    """
    stage = ppd.counts.TwoStage(4, 4, split="3/4", privatizer=privatizer)
    settled = stage._first_stage(np.array([0, 0, 1, 1, 2, 3]), seeded_stream(np.random.default_rng(6)))
    if privatizer == "cumulative":
        return ppd.Release(RERANKED, replace(settled, drawn=NOISY))
    return ppd.Release(NOISY, settled)


def listed_posterior(release, log_prior, p, stages=(True, True), y=NOISY):
    """Return the posterior of p of a geometric law on a grid, and of the cells' mean, by listing all 4^6 tables."""
    tables = np.array(list(product(range(4), repeat=6)))
    matrix, noise = release.mechanism.probabilities, release.mechanism.histogram_noise
    log_given = np.log(matrix[tables, y]).sum(axis=1) * stages[1]
    log_given += [noise.log_density(x) * stages[0] for x in tables]
    log_joint = stats.geom.logpmf(tables[:, None] + 1, p[:, None]).sum(axis=2) + log_given[:, None] + log_prior(p)
    weight = np.exp(log_joint - log_joint.max())
    weight /= weight.sum()
    return weight.sum(axis=0), float(weight.sum(axis=1) @ tables.mean(axis=1))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("privatizer", ["cumulative", "cyclic-laplace", "laplace", "privelet", "hierarchical"])
def test_the_density_has_both_stages(privatizer):
    """Log densities of two tables differ by the data model, the matrix and the noisy sums."""
    release = small_release(privatizer)
    with pm.Model(coords=release.coords) as model:
        counts = ppd.PartiallyPrivate("counts", pm.NegativeBinomial.dist(n=1, p=0.4), release=release)
    assert counts in model.free_RVs
    noise, matrix, y = release.mechanism.histogram_noise, release.mechanism.probabilities, NOISY
    tables = np.array([[0, 0, 1, 1, 2, 3], [0, 3, 1, 0, 2, 1], [3, 3, 3, 3, 0, 0]])
    found = [model.compile_logp()({"counts": x}) for x in tables]
    first = [noise.log_density(x) for x in tables]
    rest = [np.log(matrix[x, y]).sum() + stats.nbinom.logpmf(x, 1, 0.4).sum() for x in tables]
    assert found == pytest.approx(np.add(first, rest) + (found[0] - first[0] - rest[0]))
    assert np.ptp(first) > 1
    logp = [release.mechanism.logp(release.table.values, x) for x in tables]
    assert np.diff(logp) == pytest.approx(
        np.diff(np.add(first, rest) - stats.nbinom.logpmf(tables, 1, 0.4).sum(axis=1))
    )


@pytest.mark.deep
def test_posterior_against_all_tables():
    """Means within 4.5 standard errors (false alarms 3e-5); ignoring a stage, or re-ranked cells, is rejected."""
    release = small_release()
    with pm.Model(coords=release.coords) as model:
        p = pm.Beta("p", 2, 2)
        counts = ppd.PartiallyPrivate("counts", pm.NegativeBinomial.dist(n=1, p=p), release=release)
        with pytest.raises(ModelError, match="noisy sums of the histogram"):
            ppd.PartiallyPrivate("other", pm.Poisson.dist(1), release=small_release("laplace"), marginalize=True)
        idata = pm.sample(2500, tune=500, chains=2, cores=1, random_seed=3, progressbar=False, quiet=True)
    assert counts in model.free_RVs
    grid = (np.arange(400) + 0.5) / 400
    of_draws = {"p": idata.posterior["p"], "mean": idata.posterior["counts"].mean("dim_0")}
    found = {name: (float(x.mean()), float(az.mcse(x.values))) for name, x in of_draws.items()}

    def off(stages, y=NOISY):
        weight, mean = listed_posterior(release, stats.beta(2, 2).logpdf, grid, stages, y)
        expected = {"p": weight @ grid, "mean": mean}
        return {name: abs(found[name][0] - expected[name]) / found[name][1] for name in expected}

    assert max(off((True, True)).values()) < 4.5
    assert max(off((False, True)).values()) > 9
    assert max(off((True, False)).values()) > 9
    assert max(off((True, True), np.zeros(6, dtype=int)).values()) > 9


def ranks(draw, replicates, rng):
    """Return ranks of a Gamma(4) rate of 60 Poisson cells, top-coded at 23, in the posterior and a naive one."""
    grid = stats.gamma.ppf((np.arange(300) + 0.5) / 300, 4)
    of_grid = stats.poisson.pmf(np.arange(24), grid[:, None])
    of_grid[:, -1] = stats.poisson.sf(22, grid)
    right, naive = [], []
    for _ in range(replicates):
        rate = rng.gamma(4)
        y, matrix = draw(np.minimum(rng.poisson(rate, 60), 23))
        for found, of_cells in ((right, of_grid @ matrix), (naive, of_grid)):
            weight = np.log(np.maximum(of_cells[:, y], 1e-300)).sum(axis=1)
            weight = np.exp(weight - weight.max())
            found.append(weight[grid < rate].sum() / weight.sum())
    return stats.kstest(right, "uniform"), stats.kstest(naive, "uniform")


@pytest.mark.quick_cases(0)
def test_ranks_with_a_public_fixed_point():
    """Ranks are uniform (p above 1e-4), but not if counts are treated as exact or the matrix is transposed."""
    rng = np.random.default_rng(8)
    mechanism = ppd.counts.heuristic(distribution("geometric", 24), 1)
    right, naive = ranks(lambda x: (mechanism.draw(x, seeded_stream(rng)), mechanism.matrix), 1500, rng)
    assert right.pvalue > 1e-4 > naive.pvalue
    wrong = mechanism.matrix.T / mechanism.matrix.sum(axis=0)[:, np.newaxis]
    assert ranks(lambda x: (mechanism.draw(x, seeded_stream(rng)), wrong), 1500, rng)[0].pvalue < 1e-4


RATES = stats.gamma.ppf((np.arange(400) + 0.5) / 400, 4)
LAW = stats.poisson.pmf(np.arange(24), RATES[:, None])
LAW[:, -1] = stats.poisson.sf(22, RATES)
LOG_LAW = np.log(LAW)
LENGTH = 128  # number of chains


def ranks_in_a_chain(table, rate, fiber, noise, rng):
    """Return ranks of the truth among the draws of a chain through it, of three quantities, with random tie-breaking.

    The chain draws the table by one sweep, then the rate. The truth has a random position in the chain, which is run
    backwards and forwards from there. Ranks are uniform if the chain preserves the posterior, for any mixing rate
    (J. Besag, P. Clifford, "Generalized Monte Carlo significance tests", Biometrika 76, 1989).
    """
    starts, cells, steps = directions(fiber, table.size * LENGTH, rng)
    place, found = rng.integers(LENGTH + 1), []

    def swept(x, k, turn):
        along = starts[table.size * turn : table.size * (turn + 1) + 1], cells, steps
        return advance(fiber, x, [fiber.log_noise + LOG_LAW[k]], along, rng)

    def drawn_rate(x):
        log_p = LOG_LAW @ np.bincount(x, minlength=24)
        weight = np.exp(log_p - log_p.max()).cumsum()
        return int(np.searchsorted(weight, rng.random() * weight[-1]))

    def told(x, k):
        return k, noise.log_density(x), x.mean()

    x, k = table, rate
    for turn in range(place):
        k = drawn_rate(x)
        x = swept(x, k, turn)
        found.append(told(x, k))
    x, k = table, rate
    for turn in range(place, LENGTH):
        x = swept(x, k, turn)
        k = drawn_rate(x)
        found.append(told(x, k))
    truth, ties = told(table, rate), rng.random((LENGTH + 1, 3))
    below = (np.array(found) < truth) | ((np.array(found) == truth) & (ties[1:] < ties[0]))
    return (below.sum(axis=0) + rng.random(3)) / (LENGTH + 1)


@pytest.mark.parametrize(("epsilon", "split"), [("1", None), ("0.6", "1/2")])
@pytest.mark.deep
def test_ranks_through_a_release(epsilon, split):
    """Ranks of rate, mean of the cells, and log probability of the noisy sums in 120 posteriors are uniform.

    The p-values of six quantities are above 1e-4. Without the likelihood of the noisy sums, tables of the posterior
    make them less likely than the true table, and their ranks are off by at least 0.4.
    """
    rng = np.random.default_rng(8)
    system, lower = Public().on(np.zeros(60, dtype=np.int64)), np.zeros(60, dtype=np.int64)
    moves = connected_moves(system.structure, bounds="box", shape=(60,))
    right, wrong = [], []
    for _ in range(120):
        rate = rng.integers(RATES.size)
        x = rng.choice(24, 60, p=LAW[rate] / LAW[rate].sum())
        settled = ppd.counts.TwoStage(epsilon, 24, split=split, constructor="sandwich")._first_stage(
            x, seeded_stream(rng)
        )
        y, noise = settled.draw(None, x, 1, seeded_stream(rng))[0], settled.histogram_noise
        log_given = np.log(np.maximum(settled.probabilities[:, y].T, 1e-300))
        fiber = Fiber(system, lower, Rows.each(log_given), moves, histogram=noise)
        right.append(ranks_in_a_chain(x, rate, fiber, noise, rng))
        wrong.append(ranks_in_a_chain(x, rate, replace(fiber, histogram=None), noise, rng))
    assert all(stats.kstest(of_one, "uniform").pvalue > 1e-4 for of_one in np.array(right).T)
    assert stats.kstest(np.array(wrong)[:, 1], "uniform").pvalue < 1e-9


@pytest.mark.parametrize("privatizer", ["cumulative", "cyclic-laplace", "privelet", "hierarchical"])
def test_noisy_sums_belong_to_their_table(privatizer):
    with pytest.raises(PrivacyError, match="found 6 and 3"):
        ppd.Release([0, 1, 2], small_release(privatizer).mechanism)


def test_budgets():
    assert float(ppd.counts.budget_share(5)) == pytest.approx(0.106 + 0.533 * math.exp(-14.35), abs=1e-6)
    assert ppd.counts.TwoStage(1, 5, split="1/4").budgets == (Fraction(1, 4), Fraction(3, 4))


@pytest.mark.parametrize("constructor", ["optimal", "best", "sandwich", "unfixed"])
def test_the_truncated_geometric_mechanism_never_fails(constructor, monkeypatch, tmp_path):
    def fails(*_):
        raise FloatingPointError

    for name in ("optimal", "heuristic", "unfixed"):
        monkeypatch.setattr(f"ppdinf.counts.two_stage.{name}", fails)
    release = TwoStage(1, 9, constructor=constructor).release(np.array([3, 0, 8, 8]))
    mechanism = release.mechanism.mechanism
    assert mechanism.name == "truncated geometric"
    assert mechanism.audit().epsilon <= release.mechanism.budgets[1]
    release.save(tmp_path / "r.ppd")
    assert np.array_equal(ppd.read_release(tmp_path / "r.ppd").mechanism.probabilities, mechanism.matrix)


@pytest.fixture
def schools(tmp_path):
    counts = np.random.default_rng(1).poisson(2, 40)
    rows = "\n".join(f"s{k:02d},{count}" for k, count in enumerate(counts))
    path = tmp_path / "schools.csv"
    path.write_text(f"school,teachers\n{rows}\n")
    return path


def run_counts(schools, *more, output="out.ppd"):
    path = str(schools.parent / output)
    return CliRunner().invoke(
        app, ["counts", str(schools), "--count", "teachers", "--dims", "school", "--output", path, *more]
    )


def test_a_release_by_the_command(schools):
    result = run_counts(schools, "--epsilon", "1", "--most", "9")
    assert result.exit_code == 0, result.output
    assert "counted in one of them and not in the other" in " ".join(result.output.split())
    release = ppd.read_release(schools.parent / "out.ppd")
    assert release.table.max() <= 9
    assert release.guarantee.epsilon == 1
    assert run_counts(schools, "--epsilon", "3", output="open.ppd").exit_code == 0
    assert ppd.read_release(schools.parent / "open.ppd").mechanism.n in (3, 5, 9, 17, 33)


def test_refusals_of_the_command(schools):
    at_epsilon_1 = ("--epsilon", "1", "--most")
    assert run_counts(schools, *at_epsilon_1, "1").exit_code == 1
    assert not (schools.parent / "out.ppd").exists()
    assert run_counts(schools, *at_epsilon_1, "1", "--top-code").exit_code == 0
    assert run_counts(schools, *at_epsilon_1, "1", "--top-code").exit_code == 1  # the file exists
    assert run_counts(schools, *at_epsilon_1, "0", output="other.ppd").exit_code == 1
    assert run_counts(schools, "--epsilon", "much", "--most", "9", output="other.ppd").exit_code == 1
    assert run_counts(schools, *at_epsilon_1, "9", "--constructor", "x", output="other.ppd").exit_code == 1


def test_the_command_within_a_session(schools):
    """The second release would exceed the budget: nothing is drawn and nothing is written."""
    session = ppd.Session.open(schools.parent / "schools.budget", epsilon="3/2")
    given = ["--epsilon", "1", "--most", "9", "--session", str(session.path)]
    result = run_counts(schools, *given)
    assert result.exit_code == 0, result.output
    assert "epsilon = 0.5 is left in schools.budget" in " ".join(result.output.split())
    refused = run_counts(schools, *given, output="again.ppd")
    assert refused.exit_code == 1
    assert "0.5 remaining" in refused.output
    assert not (schools.parent / "again.ppd").exists()
    assert session.table()["mechanism"].tolist() == [ppd.counts.TwoStage.kind]
