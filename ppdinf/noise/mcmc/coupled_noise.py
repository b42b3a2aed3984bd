"""l1 Laplace noise by Markov chains with a measured distance from its law, where no exact sampler serves.

Independent chains, one per draw, run three times as long as the slowest of R coupled pairs took to meet. That
bounds the total variation between what they draw and the law (`ppdinf.noise.mcmc.tv_bound`); the bound is an
estimate, so its upper confidence limit is what counts. Pairs and chains are those of annealed
independence, or of lattice Gibbs where solving some cells from others would leave the integers.

Why three times: no R pairs show a probability below about 3 / R, and the limit for rarer events takes meeting
times to have geometric tails. Those of independence chains are heavier, since a state of large weight is left
late. With weights as spread as those here (log w has a standard deviation near 0.9) the 95 % limit
covers the truth in 87 % of simulations at the slowest meeting, and in all of 300 at three times that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.laws import Law
from ppdinf.noise.mcmc.annealed import annealed, annealing
from ppdinf.noise.mcmc.coupling import annealed_meeting, gibbs_meeting
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, noise_gibbs
from ppdinf.noise.mcmc.tv_bound import TVBound, tv_bound
from ppdinf.noise.primitives.chacha import ChaCha20
from ppdinf.noise.primitives.stream import BitStream

__all__ = ["ChainNoise", "chain_noise"]

PAIRS = 200
LONGER = 3  # how many times the slowest meeting a chain is run
VISITS = 30  # tries of each direction of lattice Gibbs by which one chain of a pair is ahead
LIMIT = 10_000  # steps, after the lag, in which two chains must meet


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
        """Upper 95 % confidence limit of the total variation between a draw and the law, two digits, rounded up.

        Of the chain in exact arithmetic: uniform numbers of 53 bits add less than 1e-15 a move.
        """
        limit = float(self.bound.upper(self.steps))
        digit = 10.0 ** (math.floor(math.log10(limit)) - 1)
        return min(1.0, float(f"{math.ceil(limit / digit) * digit:.2g}"))

    def draw(self, size: int, stream: BitStream) -> NDArray[np.int64]:
        """Return the ends of `size` independent chains, int64 of shape (size, d).

        Four words of the stream are the key of a cipher, whose streams the chains read: for a release nobody foretells
        one word from others.
        """
        return self.run(size, np.random.Generator(ChaCha20(stream(4))))


@lru_cache(maxsize=4)
def chain_noise(structure: Structure, law: Law) -> ChainNoise:
    """Choose a chain and measure how long it takes.

    Parameters
    ----------
    structure : Structure
    law : Law
        Double geometric.

    Returns
    -------
    ChainNoise

    Raises
    ------
    InvariantError
        Some pairs of chains did not meet: there is no bound.

    Notes
    -----
    Costs 200 pairs of some twenty steps each, half a minute for 10 x 10 margins and more than an hour for 30 x 30; a
    draw costs one more run, three times as long. The last four results are remembered. Pairs are
    seeded: they tell of the law alone, and anybody can repeat them.

    Examples
    --------
    >>> from ppdinf.lattice import structure
    >>> from ppdinf.laws import DoubleGeometric
    >>> from ppdinf.noise.primitives.stream import seeded_stream
    >>> chain = chain_noise(structure([[1, 1, 0], [0, 1, 1]]), DoubleGeometric(1))
    >>> chain.sampler, chain.distance < 0.05, chain.draw(2, seeded_stream(1)).shape
    ('annealed independence', True, (2, 3))
    """
    try:
        system = annealing(structure, law)
        name, meeting, lag = "annealed independence", annealed_meeting(system), None
    except InvariantError:
        moves = gibbs_moves(structure, law)
        # All chains start from zero: with a short lag, pairs that never left it would count as met.
        lag = math.ceil(VISITS * (moves.starts.size - 1) / moves.sweep)
        name, meeting = "lattice Gibbs", gibbs_meeting(moves)
    bound = tv_bound(meeting, pairs=PAIRS, lag=lag, limit=LIMIT + (lag or 0), rng=0)
    if bound.unmet:
        raise InvariantError(f"no chain serves this system either: {bound}. Choose l2 or Gaussian noise")
    steps = LONGER * (int(bound.meetings.max()) - bound.lag)

    def run(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        if name == "lattice Gibbs":
            noise = noise_gibbs(moves, 1, burn=steps, chains=size, rng=rng)
        else:
            noise, _ = annealed(system, 1, burn=steps, chains=size, rng=rng)
        return noise[:, 0]

    return ChainNoise(name, steps, bound, run)
