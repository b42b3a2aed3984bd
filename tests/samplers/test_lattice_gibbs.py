"""The transfer kernel against enumeration, and two wrong kernels that the test must detect."""

import numpy as np
import pymc as pm
import pytest
import scipy.sparse as sp
from chi_square import p_value_of_tables
from enumeration import fiber_points, total_variation
from known_parameters import gibbs_draws
from pymc.sampling.mcmc import assign_step_methods
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.gibbs.line_gibbs import NO_SUMS, cell_weights, walk
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.lattice.moves import connected_moves
from ppdinf.samplers.lattice_gibbs import LatticeGibbs, dense_steps

DRAWS = 200_000


def problem(seed):
    """Draw random groups, rates from sparse to dense, noise from narrow to wide, and possibly negative releases."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 5))
    labels = np.sort(rng.integers(0, 2, size=d)) if seed % 2 else np.zeros(d, dtype=np.int64)
    if seed % 5 == 4:
        labels[-1] = -1  # one cell in no public sum
    confidential = rng.integers(0, 3, size=d)
    noise = rng.integers(-3, 4, size=d)
    for label in np.unique(labels[labels >= 0]):  # noise preserves every public sum
        members = np.flatnonzero(labels == label)
        noise[members[0]] -= noise[members].sum()
    y = confidential + noise
    epsilon, rates = rng.choice([0.1, 0.5, 1.0, 2.0]), rng.uniform(0.2, 3, size=d)
    return labels, confidential, y, epsilon, rates


def log_weights(y, epsilon, rates, width):
    counts = np.arange(width)
    return stats.poisson.logpmf(counts, rates[:, None]) - epsilon * np.abs(counts - y[:, None])


def chain(start, labels, weights, seed, draws=DRAWS):
    A = sp.csr_array(np.array([labels == label for label in np.unique(labels[labels >= 0])], dtype=np.int64))
    directions = connected_moves(A).draw(3 * start.size * draws, rng=seed)
    parts = (directions.indptr, directions.indices, directions.data)
    return run(start.copy(), *parts, weights, draws, np.random.default_rng(seed))


def run(x, starts, cells, steps, weights, draws, rng):
    out = np.empty((draws, x.size), dtype=np.int64)
    each, of_cells = (starts.size - 1) // draws, cell_weights(np.zeros_like(x), weights)
    for k in range(draws):
        walk(x, starts[k * each : (k + 1) * each + 1], cells, steps, of_cells, *NO_SUMS, rng)
        out[k] = x
    return out


def exact_law(labels, confidential, weights):
    rows = [labels == label for label in np.unique(labels[labels >= 0])]
    A = sp.csr_array(np.array(rows, dtype=np.int64))
    points = fiber_points(A, A @ confidential, weights.shape[1] - 1)
    logs = weights[np.arange(len(confidential)), points].sum(axis=1)
    p = np.exp(logs - logs.max())
    return points, p / p.sum()


# one total, groups, and a cell in no public sum
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("seed", [0, 1, 4, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (2, 3, 5, 6, 7))])
def test_stationary_distribution_equals_enumeration(seed):
    labels, confidential, y, epsilon, rates = problem(seed)
    weights = log_weights(y, epsilon, rates, int(confidential.sum()) + 1)
    points, p = exact_law(labels, confidential, weights)
    assert total_variation(chain(confidential, labels, weights, seed), points, p) < 0.01


@pytest.mark.quick_cases(0)
def test_the_comparison_detects_a_scale_5_percent_off_and_an_omitted_data_model():
    labels, confidential, y = np.zeros(3, dtype=np.int64), np.array([2, 1, 3]), np.array([5, -3, 4])
    epsilon, rates = 1.0, np.array([0.5, 1.0, 2.0])
    width = int(confidential.sum()) + 1
    points, p = exact_law(labels, confidential, log_weights(y, epsilon, rates, width))
    assert (
        total_variation(chain(confidential, labels, log_weights(y, 1.05 * epsilon, rates, width), 2), points, p) > 0.01
    )
    flat = -epsilon * np.abs(np.arange(width) - y[:, None])
    assert total_variation(chain(confidential, labels, flat, 2), points, p) > 0.01
    right = log_weights(y, epsilon, rates, width)
    assert total_variation(chain(confidential, labels, right, 2), points, p) < 0.005


def test_counts_far_in_both_tails_have_their_distribution():
    """Linear weights underflow here (exp(-800)); the conditional is then computed in logarithms."""
    labels, start = np.zeros(2, dtype=np.int64), np.array([900, 900])
    counts = np.arange(1801)
    weights = np.vstack([-1.0 * counts, -1.0 * counts]) + np.where(counts < 895, -40.0, 0.0)
    draws = chain(start, labels, weights, 3, draws=4000)[:, 0]
    expected = np.isin(counts, range(895, 906)) / 11
    observed = np.bincount(draws, minlength=1801) / draws.size
    assert 0.5 * np.abs(observed - expected).sum() < 0.05


def test_totals_are_preserved_and_every_cell_of_a_group_moves():
    labels = np.array([0, 0, 0, 1, 1, -1])
    weights = np.tile(stats.poisson.logpmf(np.arange(40), 5.0), (6, 1))
    draws = chain(np.array([5, 5, 5, 9, 1, 0]), labels, weights, 1, draws=500)
    assert (draws[:, :3].sum(axis=1) == 15).all()
    assert (draws[:, 3:5].sum(axis=1) == 10).all()
    assert (np.ptp(draws, axis=0) > 0).all()


def test_dense_steps_are_refused_without_a_table():
    with pm.Model():
        pm.Normal("mu")
        with pytest.raises(ModelError, match="found 0 and 1"):
            dense_steps()


@pytest.mark.quick_cases(0)
@pytest.mark.filterwarnings("ignore:.*released exactly")
def test_where_everything_is_public_the_table_is_constant():
    release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.margin("dim_0"), epsilon=1))
    with pm.Model(coords=release.coords):
        rate = pm.Gamma("rate", 2, 1)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=False)
        idata = pm.sample(20, tune=20, chains=1, **QUIET)
    assert (idata.posterior["x"].values == [3, 1, 2]).all()


RARE = 1e-5


def assigned(model):
    with model:
        _, chosen = assign_step_methods(model)
    return {step.__name__: [value.name for value in values] for step, values in chosen.items()}


def p_value(draws, tables, log_weight):
    return p_value_of_tables(draws, tables, np.exp(log_weight - logsumexp(log_weight)))


@pytest.mark.quick_cases(0)
def test_multinomial_with_observed_children():
    """Wrong variant: the children are ignored."""
    p, q, seen = np.array([0.3, 0.5, 0.2]), np.array([0.2, 0.6, 0.5]), np.array([1, 2, 3])
    with pm.Model() as model:
        x = pm.Multinomial("x", 9, p)
        pm.Binomial("seen", x, q, observed=seen)
    tables = fiber_tables(np.ones((1, 3), int), np.array([9]), np.eye(3, dtype=int), seen)
    prior = (tables * np.log(p) - gammaln(tables + 1)).sum(axis=1)
    likelihood = stats.binom.logpmf(seen, tables, q).sum(axis=1)
    draws = gibbs_draws(model, 4000)
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
    draws = gibbs_draws(model, 3000)
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
    margins = np.vstack(
        [
            np.eye(truth.size, dtype=int).reshape(*shape, -1).sum(axis=k).reshape(-1, truth.size)
            for k in range(len(shape))
        ]
    )
    tables = fiber_tables(margins, margins @ truth.ravel(), np.eye(truth.size, dtype=int), np.zeros(truth.size, int))
    log_weight = (tables * np.log(rates.ravel()) - gammaln(tables + 1)).sum(axis=1)
    draws = gibbs_draws(model, 3000)
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
    assert set(gibbs_draws(model, 20).sum(axis=1).tolist()) == {7}


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


QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1, "random_seed": 1}


def multinomial():
    n, seen = pm.Data("n", 7), pm.Data("seen", [3, 1, 0])
    p = pm.Dirichlet("p", np.ones(3))
    x = pm.Multinomial("x", n, p)
    pm.Binomial("d", x, 0.5, observed=seen)


def sums():
    n, seen = pm.Data("n", 7), pm.Data("seen", [3, 1, 0])
    x = pm.Poisson("x", pm.Gamma("rate", 2, 1), shape=3)
    pm.DiracDelta("total", x.sum(), observed=n)
    pm.Binomial("d", x, 0.5, observed=seen)


def released():
    n, seen = pm.Data("n", 7), pm.Data("seen", [3, 1, 0])
    x = pm.Poisson("x", pm.Gamma("rate", 2, 1), shape=3)
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=0.5)
    pm.modelcontext(None).register_rv(mechanism.dist(x), "y", observed=n * np.array([1.0, 1.0, -1.0]))
    pm.Binomial("d", x, 0.5, observed=seen)


@pytest.mark.quick_cases(0)
@pytest.mark.parametrize("tell", [multinomial, sums, released])
def test_plain_tables_start_at_the_present_data(tell):
    with pm.Model() as model:
        tell()
        for n, seen in ((7, [3, 1, 0]), (12, [0, 2, 9])):
            pm.set_data({"n": n, "seen": seen})
            draws = pm.sample(5, tune=5, chains=2, **QUIET).posterior["x"].values
            assert set(draws.sum(axis=-1).ravel().tolist()) == {n}
            assert (draws >= seen).all()
            assert not any(start is not None for start in model.rvs_to_initial_values.values())
    copy = model.copy()
    with copy:
        draws = pm.sample(5, tune=5, chains=1, **QUIET).posterior["x"].values
    assert set(draws.sum(axis=-1).ravel().tolist()) == {12}


def test_an_explicit_step_starts_on_the_fiber():
    with pm.Model():
        sums()
        draws = pm.sample(5, tune=5, chains=1, step=[LatticeGibbs([pm.modelcontext(None)["x"]])], **QUIET)
    assert set(draws.posterior["x"].sum("x_dim_0").values.ravel().tolist()) == {7}


@pytest.mark.quick_cases(0)
def test_sampled_tables_start_at_the_present_data():
    release = ppd.Release(np.array([6, -3, 3]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=0.5))
    with pm.Model(coords=release.coords) as model:
        seen = pm.Data("seen", [0, 2, 1])
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release, marginalize=False)
        pm.Binomial("d", n=x, p=0.5, observed=seen)
        for counts in ([0, 2, 1], [0, 0, 6]):
            pm.set_data({"seen": counts})
            draws = pm.sample(5, tune=5, chains=1, **QUIET).posterior["x"].values
            assert (draws >= counts).all()
        pm.set_data({"seen": [3, 2, 2]})
        with pytest.raises(ppd.errors.InvariantError):
            pm.sample(5, tune=5, chains=1, **QUIET)
    with model:
        pm.set_data({"seen": [0, 3, 0]})
    with model.copy():
        assert (pm.sample(5, tune=5, chains=1, **QUIET).posterior["x"].values >= [0, 3, 0]).all()
