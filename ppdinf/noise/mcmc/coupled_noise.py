"""l1 Laplace noise by Markov chains with a distance from its law that L-lag couplings of the chains measure.

Each chain of a pair follows its kernel exactly, and chains that have met stay together. A draw is the end of a chain
that runs 3 times as long as the slowest of 200 pairs took to meet, because independence chains have heavy tails.

References
----------
N. Biswas, P. E. Jacob, P. Vanetti, "Estimating convergence of Markov chains with L-lag couplings", NeurIPS 2019.
P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, Algorithms 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Integers
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure
from ppdinf.laws import Law
from ppdinf.noise.mcmc.independence_metropolis import annealed, annealed_meeting, annealing
from ppdinf.noise.mcmc.lattice_gibbs_noise import GibbsMoves, gibbs_moves, move_space, noise_gibbs, step, word
from ppdinf.noise.mcmc.tv_bound import Meeting, TVBound, tv_bound
from ppdinf.noise.primitives.chacha import ChaCha20
from ppdinf.noise.primitives.stream import BitStream

PAIRS = 200
LONGER = 3  # length of a chain as a multiple of the slowest meeting time
VISITS = 30  # lag of lattice Gibbs, in updates of each direction
LIMIT = 10_000  # steps after the lag within which two chains must meet


def gibbs_meeting(moves: GibbsMoves) -> Meeting:
    """Return a function for meeting times of lattice Gibbs, in sweeps."""
    return partial(_gibbs_meeting, moves)


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


@dataclass(frozen=True, eq=False)
class ChainNoise:
    """A chain for one system and law, with a bound on its distance from the law."""

    sampler: str
    steps: int
    bound: TVBound
    run: Callable[[int, np.random.Generator], Integers]

    @property
    def distance(self) -> float:
        """Upper 95 % confidence limit of the total variation distance from the law, rounded up to two digits."""
        return min(1.0, two_digits_up(float(self.bound.upper(self.steps))))

    def draw(self, size: int, stream: BitStream) -> Integers:
        """Return the final states of `size` independent chains, int64 of shape (size, d)."""
        return self.run(size, np.random.Generator(ChaCha20(stream(4))))


def two_digits_up(limit: float) -> float:
    """Round a positive upper limit up to two digits."""
    near = float(f"{limit:.2g}")
    return near if near >= limit else float(f"{near + 10.0 ** (math.floor(math.log10(near)) - 1):.2g}")


@lru_cache(maxsize=4)
def chain_noise(structure: Structure, law: Law) -> ChainNoise:
    """Choose a chain and measure the number of steps that it needs."""
    try:
        system = annealing(structure, law)
        name, meeting, lag = "annealed independence", annealed_meeting(system), None
    except InvariantError:
        moves = gibbs_moves(structure, law)
        # All chains start from zero: with a short lag, pairs that never left zero would count as met.
        lag = math.ceil(VISITS * (moves.starts.size - 1) / moves.sweep)
        name, meeting = "lattice Gibbs", gibbs_meeting(moves)
    bound = tv_bound(meeting, pairs=PAIRS, lag=lag, limit=LIMIT + (lag or 0), rng=0)
    if bound.unmet:
        raise InvariantError(f"no Markov chain is available for this system: {bound}; choose l2 or Gaussian noise")
    steps = LONGER * (int(bound.meetings.max()) - bound.lag)

    def run(size: int, rng: np.random.Generator) -> Integers:
        if name == "lattice Gibbs":
            noise = noise_gibbs(moves, 1, burn=steps, chains=size, rng=rng)
        else:
            noise, _ = annealed(system, 1, burn=steps, chains=size, rng=rng)
        return noise[:, 0]

    return ChainNoise(name, steps, bound, run)
