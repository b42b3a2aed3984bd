"""What conditioning noise on public information costs, or saves, and whom it leaves without protection.

Conditioning multiplies the ratio of two densities by C(x') / C(x), C being the probability that noise around a table
obeys what is public. Where only sums are public it is the same for all tables, and conditioning costs nothing.

References
----------
R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, Theorems 1.3 and 2.1,
section 5.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import PrivacyError
from ppdinf.invariants import System
from ppdinf.lattice.moves.moves import connected_moves
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.lattice.points.fiber_tables import fiber_tables
from ppdinf.lattice.points.shortest import shortest_distance
from ppdinf.privacy.conditioning_blocks import SAME, BlockCost, cost_by_blocks

__all__ = ["ConditioningCost", "Erosion", "conditioning_cost", "erosion", "posterior_range"]

MOST = 1000  # tables whose probabilities are all worked out
SEARCH = 60  # tables looked at otherwise


@dataclass(frozen=True)
class ConditioningCost:
    """What conditioning adds to the privacy loss: ``(1 + gamma) epsilon`` per unit of distance is enough.

    Attributes
    ----------
    gamma : float
        Holds for all tables: the exact one where `exact`, to 1e-9, else a bound (`ppdinf.privacy.conditioning_blocks`).
    found : float
        Largest ``log(C(x') / C(x)) / (epsilon |x - x'|)`` that was seen; a lower bound on the exact one.
    effective : float or None
        Largest privacy loss per unit of distance over epsilon, minus 1, where all releases are known: what gamma would
        be if it counted what conditioning saves as well. Can be negative.
    exact : bool
    tables : int
        Number of tables looked at.
    """

    gamma: float
    found: float
    effective: float | None
    exact: bool
    tables: int


@dataclass(frozen=True)
class Erosion:
    """How public sums thin out the tables among which privacy protects.

    Attributes
    ----------
    nearest : int or None
        l1 distance of the nearest table with the same public sums; 1 where neighbours are left, None
        where there is no other table.
    fixed : int
        Cells that follow from what is public, bounds included.
    """

    nearest: int | None
    fixed: int

    def __str__(self) -> str:
        if self.nearest is None:
            return "no other table has these public sums: any promise of privacy holds, and protects nothing"
        if self.nearest == 1:
            return "tables that differ by one person share these public sums: neighbours are left as they were"
        return (
            f"no two tables with these public sums differ by one person only: the nearest are {self.nearest} apart, so "
            f"that the loss between alternatives starts at {self.nearest} times epsilon; {self.fixed} cells are fixed"
        )


def conditioning_cost(
    mechanism: Any, system: System, *, search: int = SEARCH, rng: int | np.random.Generator = 0
) -> ConditioningCost:
    """Work out gamma for everything public of a system: over all tables, block by block, or as a bound.

    Parameters
    ----------
    mechanism : Conditioned
        Its noise has an epsilon per unit of l1 distance.
    system : System
        Public information with its values. Nothing confidential enters.
    search : int
        Tables that a search for a lower bound looks at, where gamma itself is only bounded from above.
    rng : int or numpy.random.Generator
        Of the search.

    Returns
    -------
    ConditioningCost

    Notes
    -----
    Up to 1,000 tables are also all the releases that there are: their probabilities take a second. Beyond, gamma is
    exact where blocks of one public sum each are small (25 persons, or 100 in 4 cells) or hold many persons, below
    1 in two-way tables, and 1 where bounds link cells or sums cross in other ways. A search costs one elimination for
    each table.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> mechanism = ppd.Conditioned(public, noise=ppd.mechanisms.DoubleGeometric(1))
    >>> cost = conditioning_cost(mechanism, public.on([2, 1, 0]))
    >>> cost.exact, cost.tables, 0 < cost.gamma < 1
    (True, 10, True)
    """
    epsilon = float(mechanism.law.epsilon_per_unit)
    tables = fiber_tables(system.A, system.values, system.B, system.limits, most=MOST)
    if tables is None:
        known = cost_by_blocks(mechanism.law, system)
        if known.most - known.least <= SAME:
            return ConditioningCost(min(1.0, known.most), known.least, None, True, known.tables)
        return _searched(mechanism, system, epsilon, known, search, np.random.default_rng(rng))
    distance = np.array([np.abs(tables - x).sum(axis=1) for x in tables])
    apart = distance > 0
    if not apart.any():
        return ConditioningCost(0.0, 0.0, -1.0, True, len(tables))
    steps = epsilon * distance[apart]
    noise = np.array([mechanism.law.log_weight(tables - x).sum(axis=1) for x in tables])
    log_c = np.logaddexp.reduce(noise, axis=1)
    gamma = float(np.max((log_c - log_c[:, np.newaxis])[apart] / steps))
    log_p = noise - log_c[:, np.newaxis]  # [x, y]: the releases are these very tables
    loss = np.array([np.max(log_p[i] - log_p, axis=1) for i in range(len(tables))])
    effective = float(np.max(loss[apart] / steps)) - 1
    return ConditioningCost(min(1.0, gamma), gamma, effective, True, len(tables))


def _searched(
    mechanism: Any, system: System, epsilon: float, known: BlockCost, search: int, rng: np.random.Generator
) -> ConditioningCost:
    """Climb along moves of the fiber towards tables that rarely meet their bounds."""
    gamma = min(1.0, known.most)
    if not search:
        return ConditioningCost(gamma, known.least, None, False, known.tables)
    moves, none = connected_moves(system.structure, bounds="any"), np.zeros(system.frame.size, dtype=np.int64)
    x = nearest_feasible(system.A, system.values, system.B, system.limits, near=none, row_names=system.names)
    log_c, best = mechanism.log_normaliser(system, x), known.least
    for v in moves.draw(search, rng=rng).toarray().T:
        if not v.any():
            continue
        left, used = system.B @ x - system.limits, -(system.B @ v)
        if not (used > 0).any():
            continue  # nothing ends this line
        steps = int((left[used > 0] // used[used > 0]).min())
        if not steps:
            continue
        other = x + v * steps
        log_other = mechanism.log_normaliser(system, other)
        best = max(best, abs(log_other - log_c) / (epsilon * float(np.abs(other - x).sum())))
        if log_other < log_c:
            x, log_c = other, log_other
    return ConditioningCost(gamma, best, None, False, known.tables + search + 1)


def erosion(system: System) -> Erosion:
    """Say whether any tables that differ by one person still share the public sums.

    Parameters
    ----------
    system : System

    Returns
    -------
    Erosion

    Examples
    --------
    >>> import ppdinf as ppd
    >>> erosion(ppd.invariants.total().on([3, 0, 2])).nearest
    2
    """
    found = None if system.fixed.all() else shortest_distance(system.free)
    return Erosion(None if found is None else int(found), int(system.fixed.sum()))


def posterior_range(prior: ArrayLike, loss: SupportsFloat) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bound what a release can make of a prior probability.

    Parameters
    ----------
    prior : float or array of float
        Probability of something about one person, given everything public.
    loss : float or Fraction
        Privacy loss between the tables where it is so and where it is not.

    Returns
    -------
    least, most : ndarray of float64
        Odds change by a factor of at most ``exp(loss)``; that is never more than the factor ``exp(loss)`` on the
        probability that their Theorem 1.3 gives.

    Raises
    ------
    PrivacyError
        A prior outside [0, 1] or a negative loss.

    Examples
    --------
    >>> least, most = posterior_range(0.1, 1)
    >>> round(float(least), 3), round(float(most), 3)
    (0.039, 0.232)
    """
    p, size = np.asarray(prior, dtype=np.float64), float(loss)
    if not np.all((p >= 0) & (p <= 1)) or not size >= 0:
        raise PrivacyError("prior must lie in [0, 1] and loss must not be negative")
    factor = math.exp(-size)
    return p * factor / (1 - p + p * factor), p / (p + (1 - p) * factor)
