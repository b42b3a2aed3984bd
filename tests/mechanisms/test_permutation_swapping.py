"""Data swapping: law, loss and posterior against enumeration of all selections and permutations of records."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from scipy import stats
from scipy.special import logsumexp

import ppdinf as ppd
from ppdinf.invariants import margin
from ppdinf.mechanisms import PermutationSwapping

DIMS = ("held", "area")
TABLES = {"2 x 2": [[2, 1], [0, 3]], "2 x 3": [[1, 1, 0], [2, 0, 2]], "3 x 2": [[1, 0], [1, 2], [0, 2]]}


def law_of_records(x, rate, uniform=False):
    """Swapped tables and their probabilities, record by record; `uniform` permutes without excluding fixed points."""
    held, area = np.divmod(np.repeat(np.arange(x.size), x.ravel()), x.shape[1])
    law = defaultdict(float)
    for selected in itertools.product([False, True], repeat=held.size):
        chosen = np.flatnonzero(selected)
        if chosen.size == 1 and not uniform:
            continue
        orders = [
            o for o in itertools.permutations(range(chosen.size)) if uniform or all(i != k for i, k in enumerate(o))
        ]
        for order in orders:
            swapped = area.copy()
            swapped[chosen] = area[chosen[list(order)]]
            cells = np.bincount(held * x.shape[1] + swapped, minlength=x.size)
            p = rate**chosen.size * (1 - rate) ** (held.size - chosen.size)
            law[tuple(cells.tolist())] += p / len(orders)
    return {cells: p / sum(law.values()) for cells, p in law.items()}


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("cells", TABLES.values(), ids=TABLES)
def test_density_and_draws_are_those_of_records(cells, rate):
    """Density to 1e-12; draws by chi-square, false alarms 1e-6, and without derangements they are noticed."""
    table = ppd.as_table(cells, dims=DIMS)
    mechanism = PermutationSwapping("area", "held", rate)
    law = law_of_records(table.values, rate)
    found = {y: math.exp(mechanism.logp(table.copy(data=np.reshape(y, table.shape)), table)) for y in law}
    assert found == pytest.approx(law, abs=1e-12)
    draws = mechanism.simulate(table, draws=3000, rng=1)
    assert (draws.sum("area") == table.sum("area")).all()
    assert (draws.sum("held") == table.sum("held")).all()
    tables = list(law)
    assert p_value_of_tables(draws.values, tables, list(law.values())) > 1e-6
    if rate > 0.1:
        without = law_of_records(table.values, rate, uniform=True)
        assert p_value_of_tables(draws.values, tables, [without[y] for y in tables]) < 1e-6


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.7, 0.9])
def test_published_loss_bounds_every_pair_of_tables(size, rate):
    """One record in each row and column: all pairs of tables and releases. Uniform permutations exceed the bound."""
    tables = [np.eye(size, dtype=int)[list(order)] for order in itertools.permutations(range(size))]
    first = ppd.as_table(tables[0], dims=DIMS)
    mechanism = PermutationSwapping("area", "held", rate)
    guarantee = mechanism.guarantee_on(mechanism.public.on(first), None)
    odds = rate / (1 - rate)
    assert 2 * guarantee.epsilon == pytest.approx(max(math.log((size + 1) / odds), math.log(odds)), abs=1e-8)
    system, largest = mechanism.public.on(first), []
    log_p = [[mechanism.log_weight(system, y.ravel(), x.ravel()) for y in tables] for x in tables]
    for (x, p), (other, q) in itertools.permutations(zip(tables, np.array(log_p), strict=True), 2):
        largest.append((p - q).max() / np.abs(x - other).sum())
    assert max(largest) <= guarantee.epsilon
    if rate == 0.9:
        assert max(largest) == pytest.approx(float(guarantee.epsilon), abs=1e-8)  # the bound is sharp
    if rate == 0.7 and size == 4:
        law = law_of_records(tables[0], rate, uniform=True)  # by symmetry, releases given other tables are relabelled
        swap = {y: law[tuple(np.reshape(y, (size, size))[[1, 0, 2, 3]].ravel().tolist())] for y in law}
        assert max(math.log(law[y] / swap[y]) / 4 for y in law) > guarantee.epsilon


STRATA = ppd.as_table([[[3, 1], [0, 2]], [[1, 1], [2, 2]]], dims=("size", "held", "area"))


def strata_model():
    """A model of two strata, all its tables, and their exact probabilities given the release and the odds ratio 1."""
    mechanism = PermutationSwapping("area", "held", "1/3", "size")
    released = STRATA.copy(data=[[[2, 2], [1, 1]], [[2, 0], [1, 3]]])
    release = ppd.Release(released, mechanism)
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(np.full((2, 2, 2), 2.0)), release=release)
    moves = itertools.product(range(-3, 4), repeat=2)
    tables = [released.values + np.array([[1, -1], [-1, 1]]) * np.array(step)[:, None, None] for step in moves]
    tables = np.array([x for x in tables if (x >= 0).all()])
    log_p = [mechanism.logp(released, released.copy(data=x)) + stats.poisson.logpmf(x, 2).sum() for x in tables]
    return model, tables, np.array(log_p)


def test_density_of_a_model_is_the_law_of_all_strata():
    model, tables, log_p = strata_model()
    found = model.compile_logp()
    density = np.array([found({"x": x}) for x in tables])
    assert density - density[0] == pytest.approx(log_p - log_p[0], abs=1e-9)
    for x, released in zip(STRATA.values, ([[2, 2], [1, 1]], [[2, 0], [1, 3]]), strict=True):
        law = law_of_records(x, 1 / 3)
        alone = PermutationSwapping("area", "held", "1/3")
        y, x = ppd.as_table(released, dims=DIMS), ppd.as_table(x, dims=DIMS)
        assert math.exp(alone.logp(y, x)) == pytest.approx(law[tuple(np.ravel(released).tolist())])


@pytest.mark.deep
def test_posterior_of_the_tables():
    """Two chains of 3,000 draws; means by enumeration. The prior alone is noticed."""
    model, tables, log_p = strata_model()
    p = np.exp(log_p - logsumexp(log_p))
    with model:
        idata = pm.sample(3000, tune=200, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True)
    found = idata.posterior["x"].mean(("chain", "draw")).values
    exact, prior = np.tensordot(p, tables, 1), np.exp(stats.poisson.logpmf(tables, 2).sum(axis=(1, 2, 3)))
    assert found == pytest.approx(exact, abs=0.06)
    assert np.abs(np.tensordot(prior / prior.sum(), tables, 1) - exact).max() > 0.15


def test_files_and_statements():
    mechanism = PermutationSwapping("area", ["held"], "1/3", "size", public=ppd.invariants.unit("household"))
    assert ppd.mechanisms.Mechanism.from_dict(mechanism.to_dict(), mechanism.public) == mechanism
    release = mechanism.release(STRATA.transpose("area", "size", "held"))
    assert release.check()["agrees"].all()
    assert release.guarantee.unit == "household"
    assert release.guarantee.nearest == 4
    assert float(release.guarantee.epsilon) == pytest.approx(math.log(7 * 2) / 2, abs=1e-8)


def test_margins_of_the_statement():
    public = PermutationSwapping("area", "held", "1/2", "size").public
    assert public.statements == (margin("size", "area") & margin("size", "held")).statements
