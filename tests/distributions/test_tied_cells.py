"""Tables in which exact sums tie cells to each other: density, gradient and draws against all tables."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from known_parameters import known
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf import laws
from ppdinf.distributions.tables import tables_of
from ppdinf.lattice.fiber_tables import fiber_tables

inv = ppd.invariants
E = np.exp
RARE = 1e-4  # false-alarm probability of each test of draws


@dataclass
class Case:
    """A table, its exact sums, and what is published with noise: the log density of it given tables, (n, d)."""

    truth: np.ndarray
    public: object
    noise: object = None
    parts: tuple = ()
    law: str = "poisson"
    seen: np.ndarray | None = None
    release: bool = False


def geometric(x, y, epsilon):
    """Return log densities of y = x + double geometric noise."""
    return np.log((1 - E(-epsilon)) / (1 + E(-epsilon))) - epsilon * abs(np.asarray(y) - x)


SQUARES = np.array([[[3, 2], [1, 4]], [[0, 2], [5, 1]]])  # precinct, group, vote
BY_GROUP, BY_VOTE = inv.margin("a", "b"), inv.margin("a", "c")
STARS = np.array([[2, 5], [0, 3], [4, 1]])  # county; died, alive
VOTES = np.array([[6, 9], [4, 1]])  # noisy


def votes(x):
    return geometric(x.reshape(-1, 2, 2, 2).sum(axis=2), VOTES, 0.5).sum(axis=(1, 2))


def square_release(x):
    moved = np.array([[3, 2], [1, 4]]).ravel() - x  # t (1, -1, -1, 1), so that the norm is 4 |t|
    return -abs(moved).sum(axis=1) - np.log((1 + E(-4.0)) / (1 - E(-4.0)))


CASES = {
    "two groups, two votes": Case(SQUARES, BY_GROUP & BY_VOTE),
    "two groups, three votes": Case(np.array([[3, 2, 0], [1, 4, 2]]), inv.margin("a") & inv.margin("b")),
    "died and alive, persons and deaths public": Case(STARS, inv.margin("a") & inv.margin("b")),
    "one free cell a row": Case(
        np.array([[2, 3, 1], [0, 4, 2]]),
        inv.linear(np.kron(np.eye(2, dtype=int), [[1, 1, 1], [0, 1, 2]]), ["r", "s", "t", "u"]),
    ),
    "negative binomial": Case(SQUARES, BY_GROUP & BY_VOTE, law="negative binomial"),
    "multinomial rows": Case(SQUARES, BY_GROUP & BY_VOTE, law="multinomial"),
    "dependent": Case(SQUARES, BY_GROUP & BY_VOTE, seen=np.array([[[1, 2], [0, 2]], [[0, 1], [2, 1]]])),
    "noisy votes": Case(
        SQUARES, BY_GROUP, votes, ((BY_VOTE, VOTES, laws.DoubleGeometric("1/2")),)
    ),
    "noisy cells": Case(np.array([[3, 2], [1, 4]]), inv.margin("a") & inv.margin("b"), square_release, release=True),
}  # fmt: skip


def means(d, r):
    """Return means whose odds ratios depend on r."""
    return np.array([2.0, 1.0, 3.0, 0.5, 1.5, 2.5, 1.0, 2.0])[:d] * r ** np.array([0, 1, 4, 4, 1, 0, 1, 4])[:d]


def model_of(case):
    labels = ppd.as_table(case.truth, dims=list("abc")[: case.truth.ndim])
    if case.release:
        released = ppd.Release(labels, ppd.GeneralizedLaplace(case.public, epsilon=1))
    else:
        parts = [ppd.measured(statement, values, law) for statement, values, law in case.parts]
        blank = {dim: range(n) for dim, n in labels.sizes.items()}
        released = ppd.Measurements(blank, *parts, public=case.public.on(labels))
    with pm.Model(coords=released.coords) as model:
        r = pm.Gamma("r", 2, 1, default_transform=None)
        mu = means(case.truth.size, r).reshape(case.truth.shape)
        dist = {
            "poisson": lambda: pm.Poisson.dist(mu),
            "negative binomial": lambda: pm.NegativeBinomial.dist(mu=mu, alpha=1 + r),
            "multinomial": lambda: pm.Multinomial.dist(case.truth.sum(axis=-1), mu / mu.sum(axis=-1, keepdims=True)),
        }[case.law]()
        x = ppd.PartiallyPrivate("x", dist, released, marginalize=True)
        if case.seen is not None:
            pm.Binomial("seen", n=x, p=r / (1 + r), observed=case.seen)
    return model


def all_tables(case):
    """Return all tables with the exact sums, and their log weights at a value of r."""
    system = case.public.on(ppd.as_table(case.truth, dims=list("abc")[: case.truth.ndim]))
    d = case.truth.size
    tables = fiber_tables(system.A, system.values, np.eye(d, dtype=int), np.zeros(d, dtype=int))

    def log_weights(r):
        mu = means(d, r)
        if case.law == "multinomial":  # given their sums, independent Poisson counts are multinomial
            shape = len(tables), -1, case.truth.shape[-1]
            log_w = stats.poisson.logpmf(tables, mu).sum(axis=1)
            sums = tables.reshape(shape).sum(axis=2), np.broadcast_to(mu, tables.shape).reshape(shape).sum(axis=2)
            log_w -= stats.poisson.logpmf(*sums).sum(axis=1)
        elif case.law == "poisson":
            log_w = stats.poisson.logpmf(tables, mu).sum(axis=1)
        else:
            log_w = stats.nbinom.logpmf(tables, 1 + r, (1 + r) / (1 + r + mu)).sum(axis=1)
        if case.noise is not None:
            log_w = log_w + case.noise(tables)
        if case.seen is not None:
            log_w = log_w + stats.binom.logpmf(case.seen.ravel(), tables, r / (1 + r)).sum(axis=1)
        return log_w

    return tables, log_weights


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", CASES)
def test_density_and_gradient_equal_sums_over_all_tables(name):
    case = CASES[name]
    tables, log_weights = all_tables(case)
    model = model_of(case)
    assert len(tables) > 2
    assert [rv.name for rv in model.free_RVs] == ["r"]

    def oracle(r):
        return logsumexp(log_weights(r)) + stats.gamma.logpdf(r, 2)

    log_p, slope = model.compile_fn(model.logp()), model.compile_fn(model.dlogp())
    for r in (0.7, 1.4):
        assert float(log_p({"r": np.array(r)})) == pytest.approx(oracle(r), abs=1e-9)
        assert slope({"r": np.array(r)})[0] == pytest.approx((oracle(r + 1e-5) - oracle(r - 1e-5)) / 2e-5, rel=1e-5)
    other = model_of(case)
    lines = tables_of(other)[0].law.lines
    lines._column = np.roll(lines._column, 1, axis=0)  # the weights of other cells
    assert abs(float(other.compile_fn(other.logp())({"r": np.array(0.7)})) - oracle(0.7)) > 1e-3


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", CASES)
def test_draws_are_those_of_all_tables(name):
    case = CASES[name]
    tables, log_weights = all_tables(case)
    model = model_of(case)
    drawn = ppd.sample_confidential(known(4_000, r=0.7), model, random_seed=1, progressbar=False)
    law = np.exp(log_weights(0.7) - logsumexp(log_weights(0.7)))
    drawn = drawn.values.reshape(-1, case.truth.size)
    assert p_value_of_tables(drawn, tables, law) > RARE
    wrong = np.exp(log_weights(1.2) - logsumexp(log_weights(1.2)))
    assert p_value_of_tables(drawn, tables, wrong) < RARE
