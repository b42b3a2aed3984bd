"""L-lag couplings of the noise chains: meeting times of two chains.

Two chains of the same kernel, the first L steps ahead, are moved together until they agree; from then on they always
agree. The meeting time bounds the distance of the chain from its target (`ppdinf.noise.mcmc.tv_bound`). Each chain
alone must follow its kernel exactly:

- *Published chain*: each coordinate proposes from a maximal coupling of the two jump laws around the two states, and
one
  uniform variable decides both acceptances. A coordinate with equal states makes equal moves, so chains that have met
  stay together.
- *Lattice Gibbs*: both chains read the same random words. On a line this couples common quantiles, and two states on
the
  same line move to the same point. For pairs of rows, the columns are coupled by common quantiles attempt by attempt.
- *Annealed independence*: both chains receive the same proposals, and one uniform variable decides both acceptances.
They
  meet at the first proposal that both accept.

References
----------
N. Biswas, P. E. Jacob, P. Vanetti, "Estimating convergence of Markov chains with L-lag couplings",
NeurIPS 2019. P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI
2023, Algorithms 2 and 3; in line 11 of Algorithm 2 the lagged chain is updated in both branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from ppdinf._internal.numba_jit import jit
from ppdinf.laws.integer_noise.chain_kernels import double_geometric
from ppdinf.noise.mcmc.annealed import Annealing, anneal, own_rates
from ppdinf.noise.mcmc.isdp import Jumps, jump, metropolis, move
from ppdinf.noise.mcmc.lattice_gibbs_noise import GibbsMoves, move_space, step, word
from ppdinf.noise.mcmc.line_conditionals import Ints

type Meeting = Callable[[int, int, np.random.Generator], int]
"""``meeting(lag, limit, rng)`` returns the meeting time, at most `limit`, or -1 if the chains have not met."""


def isdp_meeting(system: Jumps) -> Meeting:
    """Return a function for meeting times of the published chain, in iterations."""
    return partial(_isdp_meeting, system)


def gibbs_meeting(moves: GibbsMoves) -> Meeting:
    """Return a function for meeting times of lattice Gibbs, in sweeps."""
    return partial(_gibbs_meeting, moves)


def annealed_meeting(system: Annealing) -> Meeting:
    """Return a function for meeting times of annealed independence, in steps."""
    return lambda lag, limit, rng: _annealed_meeting(own_rates(system), lag, limit, rng)


@jit
def _isdp_meeting(system: Jumps, lag: int, limit: int, rng: np.random.Generator) -> int:
    m = system.starts.size - 1
    v, w, e, f = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    z, y = np.zeros(system.d, np.int64), np.zeros(system.d, np.int64)
    jump(v, system.rate, rng)
    jump(w, system.rate, rng)
    move(z, v, 1, system)
    move(y, w, 1, system)
    for _ in range(lag):
        jump(e, system.rate, rng)
        if metropolis(z, e, system, rng.random()):
            v += e
    for time in range(lag + 1, limit + 1):
        isdp_pair_step(z, y, v, w, e, f, system, rng)
        if (v == w).all():
            return time
    return -1


@jit
def isdp_pair_step(
    z: Ints, y: Ints, v: Ints, w: Ints, e: Ints, f: Ints, system: Jumps, rng: np.random.Generator
) -> None:
    """Move two chains together: z = B v and y = B w, in place; e and f receive the proposed jumps."""
    for j in range(v.size):
        e[j] = double_geometric(system.rate, rng)
        f[j] = coupled_jump(v[j], w[j], e[j], system.rate, rng)
    u = rng.random()
    if metropolis(z, e, system, u):
        v += e
    if metropolis(y, f, system, u):
        w += f


@jit
def coupled_jump(v: int, w: int, e: int, rate: float, rng: np.random.Generator) -> int:
    """Draw a jump f from w such that v + e and w + f agree with the largest possible probability."""
    f = v + e - w
    if rng.random() <= math.exp(-rate * (abs(f) - abs(e))):
        return f
    while True:
        f = double_geometric(rate, rng)
        if rng.random() > math.exp(-rate * (abs(w + f - v) - abs(f))):
            return f


@jit
def _gibbs_meeting(moves: GibbsMoves, lag: int, limit: int, rng: np.random.Generator) -> int:
    z, y = np.zeros(moves.d, np.int64), np.zeros(moves.d, np.int64)
    room = move_space(moves)
    for _ in range(lag * moves.sweep):
        step(z, moves, word(rng), room)
    for time in range(lag + 1, limit + 1):
        for _ in range(moves.sweep):
            seed = word(rng)
            step(z, moves, seed, room)
            step(y, moves, seed, room)
        if (z == y).all():
            return time
    return -1


@jit
def _annealed_meeting(system: Annealing, lag: int, limit: int, rng: np.random.Generator) -> int:
    z, room = np.zeros(system.moves.d, np.int64), move_space(system.moves)
    ahead = anneal(z, system, room, rng)
    for _ in range(lag):
        offered = anneal(z, system, room, rng)
        if rng.random() <= math.exp(min(0.0, offered - ahead)):
            ahead = offered
    behind = anneal(z, system, room, rng)
    for time in range(lag + 1, limit + 1):
        offered, u = anneal(z, system, room, rng), rng.random()
        first, second = u <= math.exp(min(0.0, offered - ahead)), u <= math.exp(min(0.0, offered - behind))
        if first and second:
            return time
        if first:
            ahead = offered
        if second:
            behind = offered
    return -1
