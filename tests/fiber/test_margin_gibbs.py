"""Gibbs updates of tables with all two-way margins public: they mix and have the correct law."""

import itertools

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import ppdinf as ppd
from ppdinf._internal.pymc_compat import compile_pymc
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.table_update import advance, directions
from ppdinf.invariants import margin, nonnegative
from ppdinf.lattice import connected_moves, margin_matrix
from ppdinf.lattice.points.fiber_tables import fiber_tables

SWEEPS, CHAINS, DRAWS = 4, 2, 1000
LEAST = 500  # required effective draws


def two_way_margins(dims):
    public = nonnegative()
    for pair in itertools.combinations(range(dims), 2):
        public = public & margin(*(f"dim_{k}" for k in pair))
    return public


def updated(table, rate, moves=None, epsilon="1/2"):
    """Return the fiber, log weights given known rates, and draws of shape (chains, draws, cells)."""
    release = ppd.Release(table, ppd.GeneralizedLaplace(two_way_margins(table.ndim), epsilon=epsilon))
    with pm.Model() as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release)
    op = model["x"].owner.op
    fiber = op.fiber if moves is None else Fiber(op.fiber.system, op.fiber.lower, op.fiber.log_noise, moves)
    (law,) = (np.array(part) for part in compile_pymc([], op.conditional(model["x"]), mode="FAST_COMPILE")())
    draws = np.empty((CHAINS, DRAWS, table.size), dtype=np.int64)
    for chain, rng in enumerate(np.random.default_rng(1).spawn(CHAINS)):
        x = table.ravel().astype(np.int64)
        for draw in range(DRAWS):
            x = advance(fiber, x, [law], directions(fiber, SWEEPS * x.size, rng), rng)
            draws[chain, draw] = x
    return fiber, law, draws


def distance(fiber, law, draws):
    """Return the total variation distance of draws from the enumerated law, and the number of tables."""
    points = fiber_tables(fiber.system.A, fiber.system.values, fiber.system.B, fiber.system.limits)
    log = law[np.arange(points.shape[1]), points - fiber.lower].sum(axis=1)
    exact = np.exp(log - log.max())
    place = {tuple(point): k for k, point in enumerate(points.tolist())}
    seen = np.bincount([place[tuple(x)] for x in draws.reshape(-1, points.shape[1]).tolist()], minlength=len(points))
    return 0.5 * abs(seen / seen.sum() - exact / exact.sum()).sum(), len(points)


def twelve():
    """Return a 3-cycle in one layer against another: two tables that no cube connects."""
    cycle = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])
    move = np.stack([cycle, -cycle, np.zeros((3, 3), dtype=int)])
    return np.maximum(move, 0)


@pytest.mark.deep
def test_two_modes_without_a_connecting_cube_are_both_visited():
    table = twelve()
    fiber, law, draws = updated(table, 0.6, epsilon="1/100")
    tv, number = distance(fiber, law, draws)
    assert number == 2
    # E TV <= sqrt(K / n) / 2, and a draw changes TV by 1 / n: 4 sd, false alarm rate 1 in 15,000
    assert tv < 0.5 * np.sqrt(number / LEAST) + 4 * 0.5 / np.sqrt(LEAST)
    assert (np.ptp(draws, axis=1).max(axis=1) > 0).all()


@pytest.mark.quick_cases(0)
def test_combinations_of_the_basis_alone_do_not_leave_a_mode():
    table = twelve()
    moves = connected_moves(margin_matrix((3, 3, 3), itertools.combinations(range(3), 2)), seconds=0)
    fiber, law, draws = updated(table, 0.6, moves, epsilon="1/100")
    assert distance(fiber, law, draws)[0] > 0.1


@pytest.mark.deep
def test_a_sparse_cube_has_the_law_of_enumeration():
    table = np.random.default_rng(3).poisson(0.7, (3, 3, 3))
    fiber, law, draws = updated(table, 0.7)
    tv, number = distance(fiber, law, draws)
    assert number > 5
    assert tv < 0.5 * np.sqrt(number / LEAST) + 4 * 0.5 / np.sqrt(LEAST)


@pytest.mark.parametrize(("shape", "rate"), [((3, 3, 3), 2.0), ((2,) * 6, 3.0)])
@pytest.mark.deep
def test_chains_mix(shape, rate):
    table = np.random.default_rng(3).poisson(rate, shape)
    fiber, _, draws = updated(table, rate)
    cells = xr.DataArray(draws[..., ~fiber.system.structure.fixed], dims=("chain", "draw", "cell"))
    assert float(az.rhat(cells).max()) < 1.02
    assert float(az.ess(cells).min()) > LEAST
