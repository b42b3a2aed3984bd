"""The published sampler of conditioned noise, Metropolised independence, its coupling, and annealed proposals.

The cells of an index set are drawn independently, and A z = 0 is solved for the others. On large lattices, annealing
moves these proposals towards the law: it increases the rate of the solved cells from 0 to epsilon in levels, each with
one sweep of lattice Gibbs.

References
----------
R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Algorithm 1.
R. M. Neal, "Annealed importance sampling", Statistics and Computing 11, 2001. L. Middleton, G. Deligiannidis,
A. Doucet, P. E. Jacob, "Unbiased smoothing using particle independent Metropolis-Hastings", AISTATS 2019.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import fmpz_mat
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.systems import MatrixLike, compressed, integer_matrix
from ppdinf.laws import DoubleGeometric, Law
from ppdinf.laws.additive_law import double_geometric, log_mass
from ppdinf.noise.mcmc.lattice_gibbs_noise import GibbsMoves, Room, gibbs_moves, move_space, step, word
from ppdinf.noise.mcmc.tv_bound import Meeting, NoiseChain, chains_in_threads
from ppdinf.noise.primitives.integers import positive_fraction


class IndependenceProposal(NamedTuple):
    """Input of the compiled chain."""

    kind: int
    scale: float
    rate: float
    free: Integers
    solved: Integers
    factors: Integers
    divisor: int
    starts: Integers
    cells: Integers
    steps: Integers
    limits: Integers


LEVELS = 5  # number of levels per dimension of the lattice


class Annealing(NamedTuple):
    """Input of the compiled chain; without levels, the proposals are not moved and the chain starts from zero."""

    start: IndependenceProposal
    moves: GibbsMoves
    levels: int


class IndependenceMetropolis(NoiseChain):
    """The published Markov chain of noise conditioned on public sums and bounds, and its coupling.

    A proposal draws the cells of an index set independently and solves A z = 0 for the others. The package itself draws
    this noise exactly (`ppdinf.Conditioned`). Use the chain to repeat or extend the published experiments.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
        Public sums: the noise z satisfies A z = 0.
    law : Law
        Target: `ppdinf.laws.DoubleGeometric`, `ppdinf.laws.L2Laplace` or `ppdinf.laws.DiscreteGaussian`.
    rate : int, float, str or Fraction
        Rate of the double geometric proposals, per person.
    free : array_like of int, optional
        The proposal index set, one cell per dimension of the lattice. By default the cells that elimination leaves.
    B : array_like or scipy sparse of int, shape (n, d), optional
        Inequalities B z >= limits; for non-negative counts the identity.
    limits : array_like of int, shape (n,), optional
        At most 0; for non-negative counts minus the table.

    Raises
    ------
    InvariantError
        A or B is invalid, a limit is positive, or `free` does not determine the other cells.
    PrivacyError
        `rate` is not positive, or the law is not one of the three.

    See Also
    --------
    ppdinf.diagnostics.tv_bound, ppdinf.noise.LatticeMetropolis, ppdinf.Conditioned

    References
    ----------
    R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Algorithm 1, with the
    acceptance ratio of the errata. A step costs the number of non-zero entries of the solution and of B.

    Examples
    --------
    >>> import numpy as np
    >>> import ppdinf as ppd
    >>> table, sums = np.array([3, 0, 5]), [[1, 1, 1]]
    >>> bounds = {"B": np.eye(3, dtype=int), "limits": -table}
    >>> chain = ppd.noise.IndependenceMetropolis(sums, ppd.laws.DoubleGeometric("1/2"), "0.6", **bounds)
    >>> noise, accepted = chain.draw(1000, thin=10, rng=1)
    >>> int((table + noise).min()), int(abs(noise.sum(axis=2)).max())
    (0, 0)
    """

    def __init__(
        self,
        A: MatrixLike,
        law: Law,
        rate: Parameter,
        *,
        free: ArrayLike | None = None,
        B: MatrixLike | None = None,
        limits: ArrayLike | None = None,
    ) -> None:
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
        proposed = float(positive_fraction("rate", as_fraction(rate, "rate")))
        self.system = IndependenceProposal(
            *law.kernel_id, proposed, cells, solved, factors, divisor, *compressed(inequalities), bounds
        )

    @property
    def _chain(self) -> Annealing:
        none, d = np.empty((0, 0), dtype=np.int64), self.system.free.size + self.system.solved.size
        start = np.zeros(1, dtype=np.int64)
        moves = GibbsMoves(self.system.kind, np.zeros(d), d, start, start[:0], start[:0], none, none, 0)
        return Annealing(self.system, moves, 0)

    def _run(self, draws: int, thin: int, burn: int, rng: Generator) -> tuple[Integers, float]:
        return _run(self._chain, draws, thin, burn, rng)

    def meeting(self, lag: int, limit: int, rng: Generator) -> int:
        """Return a meeting time of chains with common proposals, which meet when both accept."""
        return _meeting(self._chain, lag, limit, rng)


def annealing(A: MatrixLike | Structure, law: Law, *, levels: int | None = None) -> Annealing:
    """Prepare annealed independence."""
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
    system: Annealing, draws: int, *, burn: int = 0, chains: int = 1, rng: int | Generator, threads: int | None = None
) -> tuple[Integers, Reals]:
    """Run chains that start from the law of the proposals."""
    return chains_in_threads(lambda g: _run(own_rates(system), draws, 1, burn, g), chains, rng=rng, threads=threads)


def own_rates(system: Annealing) -> Annealing:
    """Copy the rates, which annealing overwrites, so that each thread has a copy."""
    return system._replace(moves=system.moves._replace(rates=system.moves.rates.copy()))


def annealed_meeting(system: Annealing) -> Meeting:
    """Return a function for meeting times of annealed independence, in steps."""
    return lambda lag, limit, rng: _meeting(own_rates(system), lag, limit, rng)


@jit
def _first(z: Integers, system: Annealing, room: Room, rng: Generator) -> float:
    """Start from a proposal, or from zero noise, which always satisfies the constraints; return its log weight."""
    return anneal(z, system, room, rng) if system.levels else log_importance(z, system.start)


@jit
def _run(system: Annealing, draws: int, thin: int, burn: int, rng: Generator) -> tuple[Integers, float]:
    d, room = system.moves.d, move_space(system.moves)
    out, z, candidate, accepted = np.empty((draws, d), np.int64), np.zeros(d, np.int64), np.zeros(d, np.int64), 0
    log_weight = _first(z, system, room, rng)
    for iteration in range(burn + draws * thin):
        offered = anneal(candidate, system, room, rng)
        if offered > -math.inf and rng.random() <= math.exp(min(0.0, offered - log_weight)):
            z[:] = candidate
            log_weight = offered
            accepted += 1
        if iteration >= burn and (iteration - burn) % thin == thin - 1:
            out[(iteration - burn) // thin] = z
    return out, accepted / (burn + draws * thin)


@jit
def _meeting(system: Annealing, lag: int, limit: int, rng: Generator) -> int:
    """Return the first step at which two chains accept a common proposal, or -1."""
    z, room = np.zeros(system.moves.d, np.int64), move_space(system.moves)
    ahead, behind = _first(z, system, room, rng), _first(z, system, room, rng)
    for time in range(1, limit + 1):
        offered, u = anneal(z, system, room, rng), rng.random()
        first = u <= math.exp(min(0.0, offered - ahead))
        second = time > lag and u <= math.exp(min(0.0, offered - behind))
        if first and second:
            return time
        if first:
            ahead = offered
        if second:
            behind = offered
    return -1


@jit
def anneal(z: Integers, system: Annealing, room: Room, rng: Generator) -> float:
    """Draw a proposal into z and return the logarithm of its weight; overwrites the rates of solved cells."""
    moves, log_weight, before = system.moves, 0.0, 0.0
    if not draw_candidate(z, system.start, rng):
        return -math.inf
    if not system.levels:
        return log_importance(z, system.start)
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


@jit
def log_importance(z: Integers, prepared: IndependenceProposal) -> float:
    """Return the log of p(z) / q(z_I), up to a constant."""
    absolute, squares, proposed = 0, 0, 0
    for i in range(z.size):
        absolute += abs(z[i])
        squares += z[i] * z[i]
    for i in prepared.free:
        proposed += abs(z[i])
    return log_mass(prepared.kind, prepared.scale, absolute, squares) + prepared.rate * proposed


@jit
def draw_candidate(z: Integers, prepared: IndependenceProposal, rng: Generator) -> bool:
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


def _solve(matrix: sparse.csc_array, free: ArrayLike | None) -> tuple[Integers, Integers, Integers, int]:
    """Return the index set, the other cells, and an integer matrix and divisor that give the other cells."""
    d = matrix.shape[1]
    order = np.arange(d)
    if free is not None:  # cells outside I first, so that elimination solves for them
        chosen = np.unique(np.asarray(free, np.int64))
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
