"""Algorithm 1: sums, fixed points and privacy at every size, and failures of its printed form."""

import math

import numpy as np
import pytest
from distributions import NAMES, distribution
from flint import arb, ctx

import ppdinf as ppd
from ppdinf.counts.heuristic import SELECTORS, columns
from ppdinf.counts.scales import depths, falling, falls


def printed(z, epsilon, order):
    """Return Algorithm 1 as printed, row by row in floating point; `None` if it does not end."""
    n, up = z.size, math.exp(epsilon)
    A, r, c = np.zeros((n, n)), np.ones(n), z.copy()
    for j in order:
        for _ in range(3 * n):
            if c[j] <= 0:
                break
            with np.errstate(all="ignore"):
                p = np.where(np.arange(n - 1) < j, 1, -1)
                p[np.isclose(r[1:], r[:-1] * up, rtol=1e-12)] = 1
                p[np.isclose(r[1:], r[:-1] / up, rtol=1e-12)] = -1
                h = np.concatenate([[0], np.cumsum(p)])
                s = np.exp(epsilon * (h - h.max()))
                s /= s.sum()
                rise, fall = (
                    (up * r[1:] - r[:-1]) / (up * s[1:] - s[:-1]),
                    (r[:-1] - r[1:] / up) / (s[:-1] - s[1:] / up),
                )
                q = np.where(p > 0, rise, fall)
                q = np.nanmin(np.append(q[q > 0], c[j] / (z @ s)))
            A[:, j] += q * s
            r = r - q * s
            c[j] -= q * (z @ s)
    return A


def in_balls(z, epsilon, order, bits):
    """Return Algorithm 1 in ball arithmetic with enough bits to decide all comparisons; z and epsilon are rational."""
    n = len(z)
    with ctx.workprec(bits):
        up = arb(epsilon.numerator) / epsilon.denominator
        up, tiny = up.exp(), arb(2) ** (-bits // 2)
        z = [arb(float(p)) for p in z]
        total = sum(z, start=arb(0))
        z = [p / total for p in z]
        r, A, tight = [arb(1)] * n, [[arb(0)] * n for _ in range(n)], [0] * (n - 1)
        for turn, j in enumerate(order):
            c = z[j]
            while True:
                p = [t or (1 if i < j else -1) for i, t in enumerate(tight)]
                s = [arb(1)]
                for step in p:
                    s.append(s[-1] * up if step > 0 else s[-1] / up)
                zs = sum((a * b for a, b in zip(z, s, strict=True)), start=arb(0))
                options = [(c / zs).mid()] if turn < len(order) - 1 else []
                for i, step in enumerate(p):
                    if not tight[i]:
                        top = up * r[i + 1] - r[i] if step > 0 else r[i] - r[i + 1] / up
                        bottom = up * s[i + 1] - s[i] if step > 0 else s[i] - s[i + 1] / up
                        options.append((top / bottom).mid())
                q = min(options) if options else (r[0] / s[0]).mid()
                for i in range(n):
                    A[i][j] += q * s[i]
                r = [a - q * b for a, b in zip(r, s, strict=True)]
                c -= q * zs
                for i in range(n - 1):
                    if not tight[i] and abs(up * r[i] - r[i + 1]) < tiny * r[i + 1]:
                        tight[i] = 1
                    elif not tight[i] and abs(up * r[i + 1] - r[i]) < tiny * r[i]:
                        tight[i] = -1
                if c < tiny or not r[0] > tiny**2:
                    break
        return np.array([[float(entry.mid()) for entry in row] for row in A])


LARGE = [pytest.param(n, marks=pytest.mark.deep) for n in (1000, 2000)]


@pytest.mark.quick_cases(16)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [21, 81, 200, 500, *LARGE])
def test_sums_fixed_point_and_privacy(name, n):
    z = distribution(name, n)
    for epsilon in ("0.1", "0.3", "0.5", "1", "3"):
        for selector in SELECTORS:
            audit = ppd.counts.heuristic(z, epsilon, selector).audit()
            assert audit.row_error < (1e-12 if n < 1000 else 1e-9)
            assert audit.fixed_point_error < (1e-13 if n < 1000 else 1e-12)
            assert audit.epsilon <= float(epsilon)
            assert audit.scales <= audit.most_scales or n >= 1000


def test_probabilities_near_the_smallest_double():
    """A binomial law instead of a sample: tails of 1e-600 are treated as 0, tails of 1e-200 are not."""
    from scipy import stats

    z = stats.binom.pmf(np.arange(2000), 1999, 0.5)
    for selector in SELECTORS:
        audit = ppd.counts.heuristic(z / z.sum(), 3, selector).audit()
        assert audit.row_error < 1e-12
        assert audit.fixed_point_error < 1e-14


@pytest.mark.parametrize("epsilon", ["1/1000000", "20", "100"])
@pytest.mark.parametrize("n", [2, 3, 10, 60])
def test_extreme_losses(epsilon, n):
    """If steps exceed 2^53, some rows are 0 by rounding and follow the adjacent rows."""
    z = np.random.default_rng(n).dirichlet(np.full(n, 0.5))
    for selector in SELECTORS:
        audit = ppd.counts.heuristic(z, epsilon, selector).audit()
        assert audit.row_error < 1e-13
        assert audit.fixed_point_error < 1e-13
    assert ppd.counts.optimal(z, epsilon).row_error < 1e-9


def test_the_printed_form_fails_for_many_counts():
    z = distribution("binomial", 200)
    rows = printed(z, 0.5, columns(z, "sandwich")).sum(axis=1)
    assert np.abs(rows - 1).max() > 1  # the error that runs of rows avoid
    assert ppd.counts.heuristic(z, "1/2").row_error < 1e-14


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("seed", range(3))
def test_the_printed_form_for_small_problems(selector, seed):
    """For small problems without ties, both forms give the same matrix."""
    z = np.random.default_rng(seed).dirichlet(np.ones(9))
    assert np.abs(printed(z, 0.7, columns(z, selector)) - ppd.counts.heuristic(z, 0.7, selector).matrix).max() < 1e-9


@pytest.mark.parametrize("selector", SELECTORS)
def test_against_ball_arithmetic(selector):
    """60 counts at epsilon 1: small entries of the remainder are about e^-30, which requires the rigid shapes."""
    from fractions import Fraction

    z = np.random.default_rng(4).dirichlet(np.full(60, 0.5))
    z /= z.sum()
    exact = in_balls(z, Fraction(1), columns(z, selector).tolist(), 600)
    assert np.abs(exact.sum(axis=1) - 1).max() < 1e-14  # the oracle
    assert np.abs(exact - ppd.counts.heuristic(z, 1, selector).matrix).max() < 1e-10


def test_best_is_the_best_of_three():
    z = distribution("homicides", 51)
    errors = [ppd.counts.heuristic(z, "0.4", selector).count_error() for selector in SELECTORS]
    assert ppd.counts.heuristic(z, "0.4", "best").count_error() == min(errors)
    assert len(set(errors)) == 3


def test_scales_sum_to_the_matrix():
    mechanism = ppd.counts.heuristic(distribution("geometric", 30), 1, "max")
    added = np.zeros((30, 30))
    for column, peak, rising in zip(*vars(mechanism.scales).values(), strict=True):
        added[:, column] += peak * falling(depths(rising), mechanism.epsilon)
    assert np.abs(added - mechanism.matrix).max() < 1e-15


def test_tables_of_powers_are_exact_to_the_last_digit():
    from fractions import Fraction

    table = falls(Fraction(1, 10))
    steps = np.abs(np.diff(np.log(table)) + 0.1)
    with ctx.workprec(200):
        assert all(float((-arb(k) / 10).exp()) == table[k] for k in (1, 999, 6000))
    naive = np.exp(-0.1 * np.arange(6000))
    assert (
        np.abs(naive[1:] / naive[:-1] / table[1] - 1).max() > 10 * np.abs(table[1:] / table[:-1] / table[1] - 1).max()
    )
    assert steps.max() < 1e-12
