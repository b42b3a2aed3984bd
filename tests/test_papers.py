"""The papers: examples of the page of algorithms, and printed statements against corrected ones (docs/errata.md)."""

import math
import re
from fractions import Fraction
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import ppdinf as ppd
from ppdinf.invariants import nonnegative, total
from ppdinf.lattice import kernel
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.mechanisms import DoubleGeometric, Mean
from ppdinf.noise import LatticeMetropolis
from ppdinf.noise.mcmc.tv_bound import tv_bound
from ppdinf.privacy import wasserstein_infinity

DOCS = Path(__file__).parents[1] / "docs"
PAGE, ITEMS = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("papers", "paper_items"))


def rows(page, heading):
    """Return the cells of the rows of the tables below a heading."""
    lines = [line for line in page.partition(heading)[2].splitlines() if re.match(r"\| (?!in the paper|item)", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


EXAMPLES = [cells[2] for cells in rows(PAGE, "# The papers' algorithms") if cells[2].startswith("`")]


@pytest.fixture(scope="module")
def namespace():
    names = {}
    exec(re.search(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)[1], names)
    return names


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example, namespace):
    assert eval(example.strip("`"), dict(namespace)) is not None


KEYS = [f"{paper}{k + 1}" for paper, number in zip("PISCK", (37, 22, 18, 18, 20), strict=True) for k in range(number)]


def test_every_item_of_the_papers_has_code_and_a_test_that_exist():
    """An item without code is open. Its tests contain its functions. `test_docs` checks that files exist."""
    items = rows(ITEMS, "# Items of the papers")
    assert [cells[0] for cells in items] == KEYS
    for key, _, code, test, _, status in items:
        assert re.match(r"done|half: |open(; |$)", status), key
        assert (code == "–") == (test == "–") == status.startswith("open"), key
        tests = "".join((DOCS.parent / place).read_text(encoding="utf-8") for place in re.findall(r"`(.+?)`", test))
        for name in re.findall(r"`ppd\.([\w.]+)`", code):
            assert reduce(getattr, name.split("."), ppd), key
            assert name.split(".")[-1] in tests, (key, name)
        for place in re.findall(r"`((?:case_studies|ppdinf)/[\w/]+\.py)`", code):
            assert (DOCS.parent / place).exists(), place


def densities(mechanism, counts):
    """P(y | x) for all non-negative tables with the total of `counts`, [x, y]."""
    system = (total() & nonnegative()).on(counts)
    tables = fiber_tables(system.A, system.values, system.B, system.limits, most=100)
    return np.exp([[mechanism.logp(y, x) for y in tables] for x in tables])


@pytest.mark.quick_cases(0)
def test_ppd_algorithm_1_needs_one_bound_for_all_tables():
    """Accepting with p(y | x) / sup over y' of p(y' | x), x uniform, is valid only if noise does not depend on x."""
    free, bounded = (
        ppd.GeneralizedLaplace(total(), 1),
        ppd.Conditioned(total() & nonnegative(), noise=DoubleGeometric(1)),
    )
    for mechanism, right in ((free, True), (bounded, False)):
        p = densities(mechanism, [3, 0, 1])
        posterior, printed = p / p.sum(axis=0), p / p.max(axis=1, keepdims=True)
        distance = 0.5 * np.abs(posterior - printed / printed.sum(axis=0)).sum(axis=0)
        assert (distance < 1e-12).all() == right
        assert right or distance.max() > 0.03
        accepted = p / p.max()  # one bound, over tables too
        assert np.abs(posterior - accepted / accepted.sum(axis=0)).max() < 1e-12


def quantiles(values, weights, levels):
    """Left-continuous quantiles at exact levels."""
    jumps_at = np.cumsum(weights)
    return np.array([values[next(k for k, at in enumerate(jumps_at) if at >= level)] for level in levels])


def test_ppd_equation_35_needs_the_jump_levels_of_both_laws_and_left_limits_only():
    """One law alone misses distances; right limits add none, since quantiles are constant between joint levels."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(200):
        laws = []
        for _ in range(2):
            values = np.sort(rng.choice(12, rng.integers(1, 6), replace=False))
            parts = rng.integers(1, 9, values.size)
            laws.append((values, [Fraction(int(part), int(parts.sum())) for part in parts]))
        levels = [np.cumsum(weights) for _, weights in laws]
        exact = wasserstein_infinity(*(dict(zip(v.tolist(), w, strict=True)) for v, w in laws))
        both, one = (
            np.abs(np.subtract(*(quantiles(*law, at) for law in laws))).max()
            for at in (np.concatenate(levels), levels[0])
        )
        assert both == exact
        assert one <= exact
        missed += one < exact
    assert missed > 20


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("d1", "d2"), [(12, 3), (24, 3), (24, 12)])
def test_ppd_corollary_13_bounds_a_smaller_error(d1, d2):
    """Exact in l2, c = 4 / (n epsilon): d1 (d1 + 1) c^2 free, d2 (d1 + 1) c^2 projected, d2 (d2 + 1) c^2 on Span(A).

    The exact errors leave the printed d1^2 and d1 d2 behind as d1 grows and d2 does not: by a factor d2 / d1.
    """
    n, c, A = 50, 4 / 50, np.kron(np.eye(d2), np.ones((d1 // d2, 1)))
    free = ppd.KNormGradient(Mean(1), epsilon=1).simulate(np.zeros((n, d1)), draws=20_000, rng=1)
    bound = ppd.KNormGradient(Mean(1), epsilon=1, subspace=A, known="blocks")
    answers = {
        d1 * (d1 + 1): (free, math.inf),
        d2 * (d1 + 1): (free @ A @ A.T * (d2 / d1), d1**2),
        d2 * (d2 + 1): (bound.simulate(np.zeros((n, d1)), draws=20_000, rng=2), d1 * d2),
    }
    for exact, (y, printed) in answers.items():
        squares = (y**2).sum(axis=1)
        assert squares.mean() < 0.9 * printed * c**2  # bounds, not the errors themselves
        assert abs(squares.mean() - exact * c**2) < 5 * squares.std() / math.sqrt(20_000)
    assert d2 * (d1 + 1) <= 1.1 * d1**2 * d2 / d1
    assert d2 * (d2 + 1) <= 1.4 * d1 * d2 * d2 / d1


def test_isdp_the_basis_is_columns_of_v():
    """U A V = (D 0) with unimodular U, V: the last d - k columns of V solve A z = 0; its last rows do not."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        lower, upper = (np.tril(rng.integers(-2, 3, (5, 5)), -1) + np.eye(5, dtype=int) for _ in range(2))
        V = lower @ upper.T
        inverse = np.rint(np.linalg.inv(V)).astype(int)
        assert (V @ inverse == np.eye(5)).all()
        A = np.array([[1, 0, 0, 0, 0], [0, 2, 0, 0, 0]]) @ inverse
        assert not (A @ V[:, 2:]).any()
        assert (A @ V[2:].T).any()
        basis = kernel(A).basis.toarray()
        change = np.linalg.lstsq(V[:, 2:].astype(float), basis, rcond=None)[0]
        assert np.allclose(change, np.rint(change), atol=1e-7)  # a change of basis in integers,
        assert abs(np.linalg.det(change)) == pytest.approx(1)  # and back


def test_ppd_lemma_6_needs_more_than_independence_given_the_table():
    """A bit, masked by a fair coin, and the coin: each reveals nothing, both together reveal all."""
    law = {bit: {(bit ^ coin, coin): Fraction(1, 2) for coin in (0, 1)} for bit in (0, 1)}  # of the two releases
    for part in (0, 1):
        alone = [{y[part]: p for y, p in law[bit].items()} for bit in (0, 1)]
        assert alone[0] == alone[1]  # losses of 0, of functions of the table
    assert not set(law[0]) & set(law[1])  # an infinite loss


def test_ppd_lemma_7_needs_independent_parts():
    """Counts (0, 0) or (5, 5) against (1, 6) or (6, 1): either count moves by 1, but not both at once."""
    laws = [[(0, 0), (5, 5)], [(1, 6), (6, 1)]]
    for part in (0, 1):
        assert wasserstein_infinity(*({x[part]: Fraction(1, 2) for x in law} for law in laws)) == 1
    together = wasserstein_infinity(*(dict.fromkeys(law, Fraction(1, 2)) for law in laws))
    assert together == 7

    def losses(sensitivity):
        mechanism = ppd.WassersteinExponential(ppd.invariants.Public(), 4, sensitivity, "which of the two")
        y = np.arange(-30, 40)
        p = [np.exp(mechanism.law.log_weight(y - x)) for x in range(7)]
        single = [sum(p[x[0]] for x in law) for law in laws]
        joint = [sum(np.outer(p[a], p[b]) for a, b in law) for law in laws]
        return [np.abs(np.log(one / other)).max() for one, other in (single, joint)]

    alone, both = losses(sensitivity=1)
    assert alone <= 4 < 8 < both  # more than either, and than the sum
    assert losses(together)[1] <= 4


def test_ppd_lemma_8_needs_persons_who_remain_independent():
    """Randomized response of ten persons who are known to have equal answers: one answer reveals all ten."""
    epsilon, persons = 0.3, 10
    possible = np.array([np.zeros(persons), np.ones(persons)])
    log_p = -epsilon * np.abs(possible[:, None] - possible).sum(axis=2)  # given that the output is possible
    assert np.abs(log_p[0] - log_p[1]).max() == pytest.approx(persons * epsilon)
    by_itself = np.array(
        [[0.0, 1.0], [1.0, 1.0]]
    )  # the second is known to be 1: one person remains to be distinguished
    log_p = -epsilon * np.abs(by_itself[:, None] - by_itself).sum(axis=2)
    assert np.abs(log_p[0] - log_p[1]).max() <= 2 * epsilon


def test_isdp_meeting_times_are_those_of_the_first_chain():
    """Algorithm 2 labels the second chain by l in one place: with its own time l - L, the bound is not valid."""
    law, lag = DoubleGeometric(1), 60
    bound = tv_bound(LatticeMetropolis([[1, 1, 1]], law, math.exp(-1.0)).meeting, pairs=2000, lag=lag, rng=3)
    z = np.arange(-40, 41)
    weight = np.exp(-np.abs(z)[:, None] - np.abs(z) - np.abs(z[:, None] + z))
    start = (1 - math.exp(-1)) / (1 + math.exp(-1)) * np.exp(-np.abs(z))  # of both coordinates, independent
    exact = 0.5 * np.abs(weight / weight.sum() - np.outer(start, start)).sum()
    own_time = np.maximum(0, np.ceil((bound.meetings - lag - lag) / lag))
    assert own_time.mean() < exact - 0.1 < exact < bound.estimate(0) + 0.05


@pytest.mark.quick_cases(0)
def test_isdp_thinning_at_a_hundredth_of_a_percent_keeps_one_draw_in_ten_thousand():
    """If it is read as 1 in 100, successive draws of 102 counties under one total are highly correlated."""
    chain = LatticeMetropolis(np.ones((1, 102), dtype=int), DoubleGeometric("0.192"), math.exp(-2.5))

    def autocorrelation(thin):
        noise, _ = chain.draw(150, thin=thin, burn=30_000, rng=4)
        sizes = np.abs(noise[0]).sum(axis=1)
        return np.corrcoef(sizes[:-1], sizes[1:])[0, 1]

    assert autocorrelation(100) > 0.8
    assert abs(autocorrelation(10_000)) < 5 / math.sqrt(150)


def test_cdp_negative_binomial_tables_have_counts_of_about_five():
    """NB(100, 0.05) has 0.05 for the other outcome in SciPy's notation; its Table 1 adds up to 256 over 46 cells."""
    right, other = stats.nbinom(100, 0.95), stats.nbinom(100, 0.05)
    assert right.mean() == pytest.approx(100 * 0.05 / 0.95)
    spread = math.sqrt(46 * right.var())
    assert abs(256 - 46 * right.mean()) < 3 * spread
    assert other.mean() == pytest.approx(1900)
