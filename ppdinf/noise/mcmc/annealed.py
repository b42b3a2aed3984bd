"""Metropolised independence: the published sampler of conditioned noise, and annealed proposals for large lattices.

The published sampler draws the cells of an index set independently and solves A z = 0 for the others. Annealing
increases the rate of the solved cells from 0 to epsilon in levels, each with one sweep of lattice Gibbs.

References
----------
R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Algorithm 1. R. M. Neal,
"Annealed importance sampling", Statistics and Computing 11, 2001. L. Middleton, G. Deligiannidis, A. Doucet,
P. E. Jacob, "Unbiased smoothing using particle independent Metropolis-Hastings", AISTATS 2019.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import fmpz_mat
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import as_fraction
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.systems import MatrixLike, integer_matrix
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.laws.additive_law import double_geometric, log_mass
from ppdinf.noise.mcmc.lattice_gibbs_noise import GibbsMoves, Ints, Room, gibbs_moves, move_space, step, word
from ppdinf.noise.mcmc.tv_bound import chains_in_threads

LEVELS = 5  # number of levels per dimension of the lattice


class IndependenceProposal(NamedTuple):
    """Input of the compiled chain."""

    kind: int
    scale: float
    rate: float
    free: Ints
    solved: Ints
    factors: Ints
    divisor: int
    starts: Ints
    cells: Ints
    steps: Ints
    limits: Ints


def proposal(
    A: MatrixLike,
    law: Law,
    rate: int | float | str | Fraction,
    *,
    free: ArrayLike | None = None,
    B: MatrixLike | None = None,
    limits: ArrayLike | None = None,
) -> IndependenceProposal:
    """Prepare the sampler."""
    matrix = integer_matrix(A)
    d = matrix.shape[1]
    inequalities = sparse.csr_array(integer_matrix(np.empty((0, d), dtype=np.int64) if B is None else B))
    bounds = np.asarray([] if limits is None else limits, dtype=np.int64)
    if inequalities.shape != (bounds.size, d):
        raise InvariantError(
            "B must have one row per limit and one column per cell, "
            f"found shape {inequalities.shape} for {bounds.size} limits and {d} cells"
        )
    if (bounds > 0).any():
        raise InvariantError(
            "limits must be at most 0, because chains start from zero noise; "
            f" limits[{int(np.argmax(bounds > 0))}] is positive"
        )
    cells, solved, factors, divisor = _solve(matrix, free)
    kind, scale = law.kernel_id
    return IndependenceProposal(
        kind=kind,
        scale=scale,
        rate=float(as_fraction(rate, "rate")),
        free=cells,
        solved=solved,
        factors=factors,
        divisor=divisor,
        starts=inequalities.indptr.astype(np.int64),
        cells=inequalities.indices.astype(np.int64),
        steps=inequalities.data.astype(np.int64),
        limits=bounds,
    )


def independence(
    prepared: IndependenceProposal,
    draws: int,
    *,
    thin: int = 1,
    burn: int = 0,
    chains: int = 1,
    rng: int | np.random.Generator,
    threads: int | None = None,
) -> tuple[Ints, NDArray[np.float64]]:
    """Run Algorithm 1 from zero noise, which always satisfies the constraints."""
    return chains_in_threads(
        lambda g: _run_independence(prepared, draws, thin, burn, g), chains, rng=rng, threads=threads
    )


@jit
def _run_independence(
    prepared: IndependenceProposal, draws: int, thin: int, burn: int, rng: np.random.Generator
) -> tuple[Ints, float]:
    d = prepared.free.size + prepared.solved.size
    out, z, candidate, accepted = np.empty((draws, d), np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64), 0
    log_weight = log_importance(z, prepared)
    for iteration in range(burn + draws * thin):
        if draw_candidate(candidate, prepared, rng):
            log_candidate = log_importance(candidate, prepared)
            if rng.random() <= math.exp(min(0.0, log_candidate - log_weight)):
                z[:] = candidate
                log_weight = log_candidate
                accepted += 1
        if iteration >= burn and (iteration - burn) % thin == thin - 1:
            out[(iteration - burn) // thin] = z
    return out, accepted / (burn + draws * thin)


@jit
def log_importance(z: Ints, prepared: IndependenceProposal) -> float:
    """Return the log of p(z) / q(z_I), up to a constant."""
    absolute, squares, proposed = 0, 0, 0
    for i in range(z.size):
        absolute += abs(z[i])
        squares += z[i] * z[i]
    for i in prepared.free:
        proposed += abs(z[i])
    return log_mass(prepared.kind, prepared.scale, absolute, squares) + prepared.rate * proposed


@jit
def draw_candidate(z: Ints, prepared: IndependenceProposal, rng: np.random.Generator) -> bool:
    """Draw a proposal into z; return whether it is an integer vector that satisfies the inequalities."""
    for i in prepared.free:
        z[i] = double_geometric(prepared.rate, rng)
    for k in range(prepared.solved.size):
        total = 0
        for j in range(prepared.free.size):
            total += prepared.factors[k, j] * z[prepared.free[j]]
        if total % prepared.divisor:
            return False
        z[prepared.solved[k]] = total // prepared.divisor
    for row in range(prepared.limits.size):
        total = -prepared.limits[row]
        for k in range(prepared.starts[row], prepared.starts[row + 1]):
            total += prepared.steps[k] * z[prepared.cells[k]]
        if total < 0:
            return False
    return True


def _solve(matrix: sparse.csc_array, free: ArrayLike | None) -> tuple[Ints, Ints, Ints, int]:
    """Return the index set, the other cells, and an integer matrix and divisor that give the other cells."""
    d = matrix.shape[1]
    order = np.arange(d)
    if free is not None:  # cells outside I first, so that elimination solves for them
        chosen = np.unique(np.asarray(free, dtype=np.int64))
        if chosen.size and not (chosen[0] >= 0 and chosen[-1] < d):
            raise InvariantError(f"free must contain cells from 0 to {d - 1}, found {chosen[-1]}")
        order = np.concatenate([np.setdiff1d(order, chosen), chosen])
    echelon, divisor, rank = fmpz_mat(matrix.toarray()[:, order].tolist()).rref()
    rows = np.array(echelon.tolist(), dtype=object).reshape(-1, d)[:rank]
    pivots = np.array([int(np.flatnonzero(row)[0]) for row in rows], dtype=np.int64)
    others = np.setdiff1d(np.arange(d), pivots)
    if free is not None and not np.array_equal(np.sort(order[others]), chosen):
        raise InvariantError(
            f"free has {chosen.size} cells that do not determine the other cells; choose {d - rank} cells "
            "such that the columns of A outside of them are independent"
        )
    factors = -rows[:, others]
    common = math.gcd(int(divisor), *(int(v) for v in factors.ravel()))
    sign = 1 if divisor > 0 else -1
    whole = np.array([int(v) // common * sign for v in factors.ravel()], dtype=np.int64).reshape(factors.shape)
    return order[others], order[pivots], whole, int(divisor) // common * sign


class Annealing(NamedTuple):
    """Input of the compiled chain."""

    start: IndependenceProposal
    moves: GibbsMoves
    levels: int


def annealing(A: MatrixLike | Structure, law: Law, *, levels: int | None = None) -> Annealing:
    """Prepare the sampler."""
    system = A if isinstance(A, Structure) else structure(A)
    if not isinstance(law, DoubleGeometric):
        raise PrivacyError(f"annealing requires an l1 law, found {law.name}; the other laws have exact samplers")
    if levels is not None and levels < 1:
        raise PrivacyError(f"levels must be at least 1, found {levels}")
    start = proposal(system.class_system[:, system.classes], law, law.epsilon)
    if start.divisor != 1:
        raise InvariantError(
            f"the solved cells are multiples of 1/{start.divisor}, not integers; "
            "use ppdinf.noise.mcmc.lattice_gibbs_noise"
        )
    none = np.empty((0, 0), dtype=np.int64)
    lines = gibbs_moves(system, law)._replace(rows=none, columns=none, sweep=system.lattice.rank)
    return Annealing(start, lines, levels or max(1, LEVELS * system.lattice.rank))


def annealed(
    system: Annealing,
    draws: int,
    *,
    burn: int = 0,
    chains: int = 1,
    rng: int | np.random.Generator,
    threads: int | None = None,
) -> tuple[Ints, NDArray[np.float64]]:
    """Run chains that start from the law of the proposals."""
    return chains_in_threads(lambda g: _run(own_rates(system), draws, burn, g), chains, rng=rng, threads=threads)


def own_rates(system: Annealing) -> Annealing:
    """Copy the rates, which annealing overwrites, so that each thread has a copy."""
    return system._replace(moves=system.moves._replace(rates=system.moves.rates.copy()))


@jit
def _run(system: Annealing, draws: int, burn: int, rng: np.random.Generator) -> tuple[Ints, float]:
    out, accepted = np.empty((draws, system.moves.d), np.int64), 0
    z, candidate, room = (
        np.zeros(system.moves.d, np.int64),
        np.zeros(system.moves.d, np.int64),
        move_space(system.moves),
    )
    log_weight = anneal(z, system, room, rng)
    for draw in range(-burn, draws):
        log_candidate = anneal(candidate, system, room, rng)
        if rng.random() <= math.exp(min(0.0, log_candidate - log_weight)):
            z[:] = candidate
            log_weight = log_candidate
            accepted += 1
        if draw >= 0:
            out[draw] = z
    return out, accepted / (burn + draws)


@jit
def anneal(z: Ints, system: Annealing, room: Room, rng: np.random.Generator) -> float:
    """Draw a proposal into z and return the logarithm of its weight; overwrites the rates of solved cells."""
    moves, log_weight, before = system.moves, 0.0, 0.0
    draw_candidate(z, system.start, rng)
    for k in range(system.levels):
        level = ((k + 1) / system.levels) ** 2
        size = 0
        for i in system.start.solved:
            size += abs(z[i])
            moves.rates[i] = level * system.start.rate
        log_weight -= (level - before) * system.start.rate * size
        before = level
        for _ in range(moves.sweep):
            step(z, moves, word(rng), room)
    return log_weight
