"""l1 Laplace noise by Markov chains with a measured distance from its law, where no exact sampler serves.

Independent chains, one per draw, run for as many steps as the slowest of R coupled pairs took to meet. That
bounds the total variation between what they draw and the law (`ppdinf.samplers.tv_bound`); the bound is an
estimate, so its upper confidence limit is what counts. Pairs and chains are those of annealed
independence, or of lattice Gibbs where solving some cells from others would leave the integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.lattice.structure import Structure
from ppdinf.samplers.annealed import annealed, annealing
from ppdinf.samplers.coupling import annealed_meeting, gibbs_meeting
from ppdinf.samplers.noise_gibbs import gibbs_moves, noise_gibbs
from ppdinf.samplers.noise_law import NoiseLaw
from ppdinf.samplers.tape import Tape
from ppdinf.samplers.tv_bound import TVBound, tv_bound

__all__ = ["ChainNoise", "chain_noise"]

PAIRS = 200
LIMIT = 10_000  # steps after which two chains are given up


@dataclass(frozen=True, eq=False)
class ChainNoise:
    """A chain for one system and law, and what is known of its distance from the law.

    Attributes
    ----------
    sampler : str
    steps : int
        Steps of the chain behind every draw.
    bound : TVBound
        Meeting times behind `distance`.
    """

    sampler: str
    steps: int
    bound: TVBound
    run: Callable[[int, np.random.Generator], NDArray[np.int64]]

    @property
    def distance(self) -> float:
        """Upper confidence limit of the total variation between a draw and the law."""
        return float(self.bound.upper(self.steps))

    def draw(self, size: int, tape: Tape) -> NDArray[np.int64]:
        """Return the ends of `size` independent chains, int64 of shape (size, d).

        The tape seeds a generator with 256 bits: the chains' own words are pseudorandom.
        """
        seed = np.random.SeedSequence([int(word) for word in tape(4)])
        return self.run(size, np.random.Generator(np.random.PCG64DXSM(seed)))


@lru_cache(maxsize=4)
def chain_noise(structure: Structure, law: NoiseLaw) -> ChainNoise:
    """Choose a chain and measure how long it takes.

    Parameters
    ----------
    structure : Structure
    law : NoiseLaw
        Of kind l1.

    Returns
    -------
    ChainNoise

    Raises
    ------
    InvariantError
        Some pairs of chains did not meet: there is no bound.

    Notes
    -----
    Costs 200 pairs of some ten steps each, half a minute for 10 x 10 margins and half an hour for 30 x 30; a
    draw costs one more run of the same length. The last four results are remembered. Pairs are seeded:
    they tell of the law alone, and anybody can repeat them.

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> from ppdinf.samplers.tape import seeded_tape
    >>> chain = chain_noise(structure([[1, 1, 0], [0, 1, 1]]), NoiseLaw("l1", 1))
    >>> chain.sampler, chain.distance < 0.05, chain.draw(2, seeded_tape(1)).shape
    ('annealed independence', True, (2, 3))
    """
    try:
        system = annealing(structure, law)
        name, meeting = "annealed independence", annealed_meeting(system)
    except InvariantError:
        moves = gibbs_moves(structure, law)
        name, meeting = "lattice Gibbs", gibbs_meeting(moves)
    bound = tv_bound(meeting, pairs=PAIRS, limit=LIMIT, rng=0)
    if bound.unmet:
        raise InvariantError(f"no chain serves this system either: {bound}. Choose l2 or Gaussian noise")
    steps = int(bound.meetings.max()) - bound.lag

    def run(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if name == "lattice Gibbs":
            noise = noise_gibbs(moves, 1, burn=steps, chains=size, rng=rng)
        else:
            noise, _ = annealed(system, 1, burn=steps, chains=size, rng=rng)
        return noise[:, 0]

    return ChainNoise(name, steps, bound, run)
