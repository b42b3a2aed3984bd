"""Correlated Gaussian noise: its covariance, its guarantee in closed form, and its gain."""

import math

import numpy as np
import pytest
import xarray as xr
from dense_moves import bound, dense_moves
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, cells, linear, margin, total
from ppdinf.lattice.null_space import null_space
from ppdinf.mechanisms import CorrelatedGaussian, Mechanism, SubspaceGaussian
from ppdinf.mechanisms.counting_queries import sensitivity_directions
from ppdinf.mechanisms.real.correlated_gaussian import base_decomposition
from ppdinf.noise.primitives.stream import keyed_stream, seeded_stream
from ppdinf.privacy import gaussian_delta
from ppdinf.privacy.sensitivity import enclosing_ellipsoid

CUMULATIVE = np.tril(np.ones((16, 16), dtype=int))
WHOLE = cells({"answer": 15})
CASES = {
    "cumulative": (WHOLE, np.arange(16), CUMULATIVE),
    "total": (total(), np.array([5, 2, 0, 7, 1]), None),
    "margins": (margin("dim_0") & margin("dim_1"), np.arange(12).reshape(3, 4), None),
    "nothing": (Public(), np.array([1, 2, 3]), None),
    "weights": (linear([[2, 3, 5]]), np.array([1, 2, 3]), None),
}


@pytest.mark.parametrize(("public", "table", "query"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("neighbours", ["replaced", "added"])
def test_the_guarantee_holds_in_closed_form_and_is_tight(public, table, query, neighbours):
    mechanism = CorrelatedGaussian(public, "1/2", "1e-5", query=query, neighbours=neighbours)
    system = bound(public, table, query)
    F = mechanism.factor(system)
    moves = dense_moves(system, query, neighbours)
    white = np.linalg.pinv(F) @ moves
    assert np.allclose(F @ white, moves, atol=1e-9)  # no move leaves the noise
    far = np.linalg.norm(white, axis=0).max()
    assert gaussian_delta("1/2", 1.0, sensitivity=far) == pytest.approx(1e-5, rel=1e-6)
    assert gaussian_delta("1/2", 0.99, sensitivity=far) > 1e-5
    assert np.abs(system.A @ F).max(initial=0) < 1e-9


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("public", "table", "query"), CASES.values(), ids=CASES)
def test_draws_have_the_stated_covariance_and_density(public, table, query):
    mechanism = CorrelatedGaussian(public, 1, "1e-3", query=query)
    system = bound(public, table, query)
    F = mechanism.factor(system)
    draws = mechanism.draw_noise(system, 20_000, seeded_stream(1))
    white = draws @ np.linalg.pinv(F).T
    k = F.shape[1]
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-6
    assert np.abs(white.T @ white / 20_000 - np.eye(k)).max() < 0.06
    squared = (draws**2).sum(axis=1)
    assert squared.mean() == pytest.approx((F**2).sum(), abs=5 * squared.std() / math.sqrt(20_000))
    answers = np.ravel(table) if query is None else query @ table
    for row in range(3):
        y = system.frame.table(answers + draws[row])
        assert mechanism.logp(y, table) == pytest.approx(-0.5 * (white[row] ** 2).sum(), rel=1e-6)


@pytest.mark.quick_cases(0)
def test_overlapping_queries_gain():
    """The error of 128 cumulative counts is 1/15 of the error of spherical noise: one person moves every count."""
    query = np.tril(np.ones((128, 128), dtype=int))
    system = Public().on(xr.DataArray(np.zeros(128, dtype=int), dims="answer"))
    F = CorrelatedGaussian(Public(), 1, "1e-6", query=query, neighbours="added").factor(system)
    sigma = SubspaceGaussian(Public(), 1, "1e-6", query=query, neighbours="added").sigma(system)
    assert 128 * sigma**2 / (F**2).sum() > 14


def test_short_axes_come_first():
    """If the long axes come first, the error is larger, and larger than the error of spherical noise."""
    directions, moves = sensitivity_directions(_space(Public(), 32), np.tril(np.ones((32, 32), dtype=int)), "added")

    def error(shape):
        return np.linalg.norm(np.linalg.solve(shape, moves), axis=0).max() ** 2 * (shape**2).sum()

    left, axes = np.eye(32), []
    while left.shape[1]:
        _, vectors = np.linalg.eigh(enclosing_ellipsoid(left.T @ moves))
        half = max(1, left.shape[1] // 2)
        part = left @ vectors[:, ::-1][:, :half]
        axes.append(part * np.linalg.norm(part.T @ moves, axis=0).max())
        left = left @ vectors[:, ::-1][:, half:]
    spherical = 32 * np.linalg.norm(moves, axis=0).max() ** 2
    assert error(base_decomposition(moves)) < spherical / 4
    assert error(np.hstack(axes)) > spherical
    assert directions.shape == (32, 32)


def _space(public, d):
    return null_space(public.on(np.zeros(d, dtype=int)).structure)


def test_joint_calibration_is_never_wider_than_separate_calibration():
    for seed in range(5):
        moves = np.random.default_rng(seed).normal(size=(10, 40)) * np.logspace(0, 1, 10)[:, None]
        shape = base_decomposition(moves)
        parts = np.unique(np.linalg.norm(shape, axis=0).round(9)).size
        longest = np.linalg.norm(np.linalg.solve(shape, moves), axis=0).max()
        assert 1 <= longest <= math.sqrt(parts) + 1e-9
        assert np.allclose(shape.T @ shape, np.diag(np.diag(shape.T @ shape)), atol=1e-8)


def test_constant_answers_get_no_noise():
    """The first answer is the number of records, which replacing a record does not change."""
    mechanism = CorrelatedGaussian(Public(), 1, "1e-6", query=[[1, 1, 1], [1, 0, 0], [0, 1, 0]])
    drawn = mechanism.simulate([3, 4, 5], draws=4, rng=1)
    assert np.allclose(drawn[:, 0], 12)
    assert np.ptp(drawn[:, 1].values) > 0.1
    assert mechanism.logp(drawn[0], [3, 4, 5]) > -math.inf
    assert mechanism.logp(drawn[0] + [1, 0, 0], [3, 4, 5]) == -math.inf
    nobody = CorrelatedGaussian(total(), 1, "1e-6")
    assert np.array_equal(nobody.simulate([7], draws=2, rng=1), [[7], [7]])


def test_small_moves_are_not_lost_to_rounding():
    """A record moves the second answer by 1 and the first by up to 1,000,000."""
    for weight in (2**18, 10**6):
        mechanism = CorrelatedGaussian(Public(), 1, "1e-6", query=[[weight, 0, 1], [1, 1, 0]])
        if weight == 2**18:
            assert np.ptp(mechanism.simulate([3, 4, 5], draws=4, rng=1)[:, 1].values) > 0.1
        else:
            with pytest.raises(PrivacyError, match="smaller weights"):
                mechanism.simulate([3, 4, 5], draws=4, rng=1)


def test_agents_draw_it_together():
    whole = ppd.as_table(np.arange(6), dims=["county"])
    mechanism = CorrelatedGaussian(total(), 1, "1e-6")
    shared = {"key": bytes(range(32)), "occasion": "May"}
    parts = [mechanism.distributed(part, 0 * whole, **shared) for part in (whole[:2], whole[2:])]
    stream = keyed_stream(**shared)
    assert np.array_equal(np.concatenate(parts), whole + mechanism.draw_noise(total().on(whole), 1, stream)[0])


def test_it_survives_its_description():
    mechanism = CorrelatedGaussian(WHOLE, 1, "1e-6", query=CUMULATIVE, neighbours="added")
    assert Mechanism.from_dict(mechanism.to_dict(), WHOLE) == mechanism


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        (("total", 1, "1e-6"), {}),
        ((total(), 0, "1e-6"), {}),
        ((total(), 1, 1), {}),
        ((total(), 1, "1e-6"), {"neighbours": None}),
        ((total(), 1, "1e-6"), {"query": "answers"}),
    ],
)
def test_refuses_malformed_parameters(arguments, keywords):
    with pytest.raises((InvariantError, PrivacyError)):
        CorrelatedGaussian(*arguments, **keywords)


def test_tables_with_too_many_moves_are_refused():
    with pytest.raises(PrivacyError, match="too many to enumerate"):
        CorrelatedGaussian(total(), 1, "1e-6").simulate(np.ones(800, dtype=int), draws=1)
