"""Annealed independence: Metropolis with proposals that annealing moves towards the law, for large lattices.

The cells of an index set are drawn independently, and A z = 0 is solved for the others. Annealing increases the rate of
the solved cells from 0 to epsilon in levels, each with one sweep of lattice Gibbs.

References
----------
R. M. Neal, "Annealed importance sampling", Statistics and Computing 11, 2001. L. Middleton, G. Deligiannidis,
A. Doucet, P. E. Jacob, "Unbiased smoothing using particle independent Metropolis-Hastings", AISTATS 2019.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.systems import MatrixLike
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.noise.mcmc.independence_metropolis import IndependenceMetropolis, IndependenceProposal, draw_candidate
from ppdinf.noise.mcmc.lattice_gibbs_noise import GibbsMoves, Ints, Room, gibbs_moves, move_space, step, word
from ppdinf.noise.mcmc.tv_bound import chains_in_threads

LEVELS = 5  # number of levels per dimension of the lattice


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
    start = IndependenceMetropolis(system.class_system[:, system.classes], law, law.epsilon).system
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
