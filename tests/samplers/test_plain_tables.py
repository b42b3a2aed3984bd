"""Latent integers of plain models with given sums: PyMC's automatic assignment, against enumeration of all tables."""

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from pymc.sampling.mcmc import assign_step_methods
from scipy import stats
from scipy.special import gammaln, logsumexp

from ppdinf.errors import InvariantError, ModelError
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

RARE = 1e-5


def assigned(model):
    with model:
        _, chosen = assign_step_methods(model)
    return {step.__name__: [value.name for value in values] for step, values in chosen.items()}


def walked(model, draws, every=2):
    assert "x" in assigned(model).get("LatticeGibbs", [])
    step = LatticeGibbs([model["x"]], model=model)
    step.setup_chain(np.random.default_rng(1), 0, draws)
    point, found = model.initial_point(), []
    for _ in range(every * draws):
        point, _ = step.step(point)
        found.append(point["x"])
    return np.array(found[every - 1 :: every]).reshape(draws, -1)


def p_value(draws, tables, log_weight):
    return p_value_of_tables(draws, tables, np.exp(log_weight - logsumexp(log_weight)))


def compositions(n, k):
    """Yield all assignments of n persons to k cells."""
    if k == 1:
        return [(n,)]
    return [(i, *rest) for i in range(n + 1) for rest in compositions(n - i, k - 1)]


def with_margins(truth):
    """Return all tables with the margins of `truth` over all dimensions except one."""
    shape, found = truth.shape, []
    goals = [truth.sum(axis=k) for k in range(truth.ndim)]
    most = np.minimum.reduce([np.broadcast_to(np.expand_dims(g, k), shape) for k, g in enumerate(goals)]).ravel()

    def extend(prefix):
        if len(prefix) == truth.size:
            table = np.array(prefix).reshape(shape)
            if all((table.sum(axis=k) == g).all() for k, g in enumerate(goals)):
                found.append(prefix)
            return
        table = np.array([*prefix, *[0] * (truth.size - len(prefix))]).reshape(shape)
        if any((table.sum(axis=k) > g).any() for k, g in enumerate(goals)):
            return
        for count in range(most[len(prefix)] + 1):
            extend([*prefix, count])

    extend([])
    return np.array(found)


@pytest.mark.quick_cases(0)
def test_multinomial_with_observed_children():
    """Wrong variant: the children are ignored."""
    p, q, seen = np.array([0.3, 0.5, 0.2]), np.array([0.2, 0.6, 0.5]), np.array([1, 2, 3])
    with pm.Model() as model:
        x = pm.Multinomial("x", 9, p)
        pm.Binomial("seen", x, q, observed=seen)
    tables = np.array([t for t in compositions(9, 3) if (np.array(t) >= seen).all()])
    prior = (tables * np.log(p) - gammaln(tables + 1)).sum(axis=1)
    likelihood = stats.binom.logpmf(seen, tables, q).sum(axis=1)
    draws = walked(model, 4000)
    assert p_value(draws, tables, prior + likelihood) > RARE
    assert p_value(draws, tables, prior) < RARE


@pytest.mark.quick_cases(0)
@pytest.mark.compiled
def test_rows_of_a_dirichlet_multinomial_with_a_child_of_all_cells():
    """Two rows with different totals; observed column sums give an acceptance ratio."""
    a = np.array([0.7, 2.0])
    with pm.Model() as model:
        x = pm.DirichletMultinomial("x", n=np.array([4, 3]), a=a)
        pm.Normal("seen", x[:, 0].sum(), 1.5, observed=5.0)
    tables = np.array([(i, 4 - i, j, 3 - j) for i in range(5) for j in range(4)])
    per = gammaln(tables + np.tile(a, 2)) - gammaln(tables + 1)
    log_weight = per.sum(axis=1) - (tables[:, 0] + tables[:, 2] - 5.0) ** 2 / 4.5
    draws = walked(model, 3000)
    assert p_value(draws, tables, log_weight) > RARE
    assert p_value(draws, tables, per.sum(axis=1)) < RARE


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 4)])
def test_observed_margins_of_poisson_counts(shape):
    """Wrong variant: odds of one cell increased by half."""
    rng = np.random.default_rng(2)
    truth, rates = rng.integers(*((1, 5) if len(shape) == 3 else (0, 3)), shape), rng.uniform(0.5, 2, shape)
    with pm.Model() as model:
        x = pm.Poisson("x", rates, shape=shape)
        for axis in range(len(shape)):
            pm.DiracDelta(f"without {axis}", x.sum(axis=axis), observed=truth.sum(axis=axis))
    tables = with_margins(truth)
    log_weight = (tables * np.log(rates.ravel()) - gammaln(tables + 1)).sum(axis=1)
    draws = walked(model, 3000)
    assert p_value(draws, tables, log_weight) > RARE
    assert p_value(draws, tables, log_weight + tables[:, 0] * np.log(1.7)) < RARE


def test_other_integers_are_unaffected():
    with pm.Model() as model:
        n = pm.Poisson("n", 5)
        pm.Multinomial("of n", n, [0.5, 0.5])
        pm.Poisson("free", 2.0, shape=3)
        x = pm.Poisson("x", 2.0, shape=3)
        pm.DiracDelta("square", (x**2).sum(), observed=9)
        pm.Normal("mean", x.mean(), 1, observed=1.0)
    assert "LatticeGibbs" not in assigned(model)


def test_the_number_of_trials_can_be_data():
    with pm.Model() as model:
        n = pm.Data("n", 7)
        pm.Multinomial("x", n, [0.5, 0.3, 0.2])
    assert set(walked(model, 20).sum(axis=1).tolist()) == {7}


def test_a_user_set_start_is_kept():
    with pm.Model() as model:
        pm.Multinomial("x", 5, [0.5, 0.5], initval=[0, 5])
    assert assigned(model) == {"LatticeGibbs": ["x"]}
    assert model.initial_point()["x"].tolist() == [0, 5]


def test_refused():
    with pm.Model() as model:
        x = pm.Poisson("x", 2.0, shape=2)
        pm.DiracDelta("total", x.sum(), observed=3)
        pm.DiracDelta("one", x[0], observed=4)
    with pytest.raises(InvariantError, match="total"):
        assigned(model)
    with pm.Model() as model:
        x = pm.Poisson("x", 2.0, shape=2)
    with pytest.raises(ModelError, match="determines sums of 'x' exactly"):
        LatticeGibbs([x], model=model)


@pytest.mark.quick_cases(0)
def test_pm_sample_assigns_the_step():
    with pm.Model():
        p = pm.Dirichlet("p", np.ones(3))
        pm.Multinomial("x", 6, p)
        idata = pm.sample(
            100, tune=100, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
    cells = idata.posterior["x"].values.reshape(-1, 3)
    assert set(cells.sum(axis=1).tolist()) == {6}
    assert len(np.unique(cells, axis=0)) > 15
