"""l2 noise in several releases of one table: against enumeration of all tables, with and without a model."""

import numpy as np
import pymc as pm
import pytest
from chi_square import p_value_of_tables
from scipy import stats
from scipy.special import gammaln, logsumexp

import ppdinf as ppd
from ppdinf.errors import PrivacyError
from ppdinf.laws.l2_laplace import JointL2, mixing_precision
from ppdinf.samplers.lattice_gibbs import LatticeGibbs

inv, laws = ppd.invariants, ppd.laws
RARE = 1e-5
RATES = np.array([1.0, 3.0, 2.0])
ONE, TWO = np.array([6, 0, 1]), np.array([2, 2, 3])
TABLES = np.array([(i, j, 7 - i - j) for i in range(8) for j in range(8 - i)])


def releases():
    first = ppd.Release(ONE, ppd.GeneralizedLaplace(inv.total(), epsilon=2, norm="l2"))
    return [first, ppd.Release(TWO, ppd.GeneralizedLaplace(inv.total(), epsilon="1/2", norm="l2"))]


def log_posterior(norm=2):
    found = (TABLES * np.log(RATES) - gammaln(TABLES + 1)).sum(axis=1)
    return found - 2 * np.linalg.norm(TABLES - ONE, norm, axis=1) - 0.5 * np.linalg.norm(TABLES - TWO, norm, axis=1)


def p_value(draws, log_law):
    return p_value_of_tables(draws, TABLES, np.exp(log_law - logsumexp(log_law)))


@pytest.mark.quick_cases(0)
def test_two_releases_in_a_model():
    """Scales are drawn in the step; wrong variants: l1 noise, and without the second release."""
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(RATES), release=releases())
    assert [v.name for v in model.free_RVs] == ["x"]
    step = LatticeGibbs([model["x"]], model=model, sweeps=8)
    step.setup_chain(np.random.default_rng(1), 0, 1)
    point, draws = model.initial_point(), []
    for _ in range(8000):
        point, _ = step.step(point)
        draws.append(point["x"])
    assert p_value(np.array(draws), log_posterior()) > RARE
    assert p_value(np.array(draws), log_posterior(norm=1)) < RARE
    without = log_posterior() + 0.5 * np.linalg.norm(TABLES - TWO, axis=1)
    assert p_value(np.array(draws), without) < RARE
    density = model.compile_logp()
    found = [density({"x": table}) for table in TABLES]
    log_law = log_posterior()
    assert np.allclose(np.array(found) - found[0], log_law - log_law[0])


@pytest.mark.quick_cases(0)
def test_without_a_model_and_in_a_file(tmp_path):
    seen = ppd.Measurements.of_releases(releases())
    seen.save(tmp_path / "two.ppd")
    again = ppd.read_measurements(tmp_path / "two.ppd")
    assert again.equals(seen)
    posterior = ppd.denoise(again, draws=2000, tune=50, prior="flat", rng=1, progressbar=False)
    draws = posterior.draws.values.reshape(-1, 3)
    flat = log_posterior() - (TABLES * np.log(RATES) - gammaln(TABLES + 1)).sum(axis=1)
    assert p_value(draws[::2], flat) > RARE
    assert p_value(draws[::2], 1.5 * flat) < RARE


@pytest.mark.quick_cases(0)
def test_scales_given_errors():
    """Moments of v squared given b: generalized inverse Gaussian, mean sqrt(b) + 1."""
    rng = np.random.default_rng(1)
    for squares in (0.0, 9.0):
        v2 = 0.25 / np.array([mixing_precision(0.5, squares, rng) for _ in range(40_000)])
        b = 0.25 * squares
        error = v2.std() / 200
        assert abs(v2.mean() - (np.sqrt(b) + 1)) < 4.5 * error


@pytest.mark.quick_cases(0)
def test_forward_draws():
    """Three numbers: chi-square of the squared error against its distribution, at 1e-5; epsilon +10 % fails."""
    law, rng = JointL2(laws.L2Laplace(1)), np.random.default_rng(2)
    z = law.publish(np.zeros((6000, 3), dtype=np.int64), rng)
    far = np.arange(-25, 26)
    squares = (np.array(np.meshgrid(far, far, far)) ** 2).sum(axis=0).ravel()

    def p(epsilon):
        expected = np.bincount(squares, weights=np.exp(-epsilon * np.sqrt(squares)))
        expected *= len(z) / expected.sum()
        seen = np.bincount((z**2).sum(axis=1), minlength=expected.size)[: expected.size]
        bins = np.minimum((np.cumsum(expected) / len(z) * 20).astype(int), 19)
        e, o = np.bincount(bins, weights=expected), np.bincount(bins, weights=seen)
        return stats.chisquare(o[e > 5], e[e > 5] * o[e > 5].sum() / e[e > 5].sum()).pvalue

    assert p(1.0) > RARE
    assert p(1.1) < RARE


def test_a_subset_of_the_numbers_is_refused():
    part = ppd.measured(inv.margin("a"), [3, None], laws.L2Laplace(1))
    with pytest.raises(PrivacyError, match="'a=y' is missing"):
        ppd.Measurements({"a": ["x", "y"]}, part)
