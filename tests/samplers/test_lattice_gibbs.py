"""The transfer kernel against enumeration, and two wrong kernels that the test must detect."""

import numpy as np
import pymc as pm
import pytest
import scipy.sparse as sp
from enumeration import fiber_points, total_variation
from numba import njit
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.line_gibbs import walk
from ppdinf.lattice.moves import connected_moves
from ppdinf.samplers.lattice_gibbs import dense_steps

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


@njit
def run(x, starts, cells, steps, weights, draws, rng):
    out = np.empty((draws, x.size), dtype=np.int64)
    each = (starts.size - 1) // draws
    for k in range(draws):
        walk(x, starts[k * each : (k + 1) * each + 1], cells, steps, np.zeros_like(x), weights, rng)
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
        idata = pm.sample(
            20, tune=20, chains=1, random_seed=1, progressbar=False, quiet=True, compute_convergence_checks=False
        )
    assert (idata.posterior["x"].values == [3, 1, 2]).all()
