"""The effect of conditioning noise on public information, on the loss and on protected tables.

Conditioning multiplies the ratio of two densities by C(x') / C(x), where C(x) is the probability that noise around x
satisfies the public statements. If only sums are public, C is constant, and conditioning does not change the loss.

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

from ppdinf._internal.arrays import numbers
from ppdinf.errors import PrivacyError
from ppdinf.invariants import System
from ppdinf.lattice.moves.moves import connected_moves
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.lattice.points.fiber_tables import fiber_tables
from ppdinf.lattice.points.shortest import shortest_distance
from ppdinf.privacy.conditioning_blocks import SAME, BlockCost, cost_by_blocks

MOST = 1000  # tables up to which all probabilities are computed
SEARCH = 60  # tables that are searched otherwise


@dataclass(frozen=True)
class ConditioningCost:
    """The additional privacy loss by conditioning: the loss is at most ``(1 + gamma) epsilon`` per unit of distance.

    Attributes
    ----------
    gamma : float
        Holds for all tables: exact to 1e-9 if `exact`, otherwise a bound (`ppdinf.privacy.conditioning_blocks`).
    lower : float
        Largest ``log(C(x') / C(x)) / (epsilon |x - x'|)`` among the visited tables; a lower bound on the exact gamma.
    effective : float or None
        Largest privacy loss per unit of distance divided by epsilon, minus 1, if all releases are enumerated: gamma
        including the reduction of the loss by conditioning. It can be negative.
    exact : bool
    tables : int
        Number of visited tables.

    See Also
    --------
    ppdinf.privacy.conditioning_cost

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> noise = ppd.Conditioned(public, noise=ppd.mechanisms.DoubleGeometric(1))
    >>> cost = ppd.privacy.conditioning_cost(noise, public.on([2, 1, 0]))
    >>> cost.tables, cost.lower <= cost.gamma
    (10, True)
    """

    gamma: float
    lower: float
    effective: float | None
    exact: bool
    tables: int


@dataclass(frozen=True)
class Erosion:
    """How public sums reduce the set of tables that the guarantee protects.

    Attributes
    ----------
    nearest : int or None
        l1 distance of the nearest table with the same public sums; 1 if neighbours remain, None
        if no other table exists.
    fixed : int
        Cells that the public sums and bounds determine.

    See Also
    --------
    ppdinf.privacy.erosion

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.margin("county") & ppd.invariants.margin("sex")
    >>> ppd.privacy.erosion(public.on(ppd.as_table([[3, 0], [1, 2]], dims=("county", "sex"))))
    Erosion(nearest=4, fixed=0)
    """

    nearest: int | None
    fixed: int

    def __str__(self) -> str:
        if self.nearest is None:
            return "no other table has these public sums: every guarantee of privacy holds, but protects nothing"
        if self.nearest == 1:
            return "tables that differ by one person share these public sums: the guarantee covers neighbours"
        return (
            f"no two tables with these public sums differ by one person only: the nearest are {self.nearest} apart, so "
            f"the loss between alternatives is at least {self.nearest} times epsilon; {self.fixed} cells are fixed"
        )


def conditioning_cost(
    mechanism: Any, system: System, *, search: int = SEARCH, rng: int | np.random.Generator = 0
) -> ConditioningCost:
    """Compute gamma for all public statements of a system: by enumeration, by blocks, or as a bound.

    Parameters
    ----------
    mechanism : Conditioned
        Its noise has an epsilon per unit of l1 distance.
    system : System
        Public information with its values. No confidential data enter.
    search : int
        Number of tables in the search for a lower bound, if gamma is only bounded from above.
    rng : int or numpy.random.Generator
        Generator of the search.

    Returns
    -------
    ConditioningCost

    See Also
    --------
    ppdinf.privacy.ConditioningCost, ppdinf.Conditioned

    Notes
    -----
    Up to 1,000 tables are enumerated together with their releases, in about 1 s. For more tables, gamma is exact if the
    blocks have one public sum each and are small (25 persons, or 100 in 4 cells) or have many persons. It is below 1 in
    two-way tables. It is 1 if bounds concern several cells or sums cross in other ways. A search takes one elimination
    for each table.

    Examples
    --------
    >>> from ppdinf.privacy import conditioning_cost
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
        if known.upper - known.lower <= SAME:
            return ConditioningCost(min(1.0, known.upper), known.lower, None, True, known.tables)
        return _searched(mechanism, system, epsilon, known, search, np.random.default_rng(rng))
    distance = np.array([np.abs(tables - x).sum(axis=1) for x in tables])
    distinct = distance > 0
    if not distinct.any():
        return ConditioningCost(0.0, 0.0, -1.0, True, len(tables))
    steps = epsilon * distance[distinct]
    noise = np.array([mechanism.law.log_weight(tables - x).sum(axis=1) for x in tables])
    log_c = np.logaddexp.reduce(noise, axis=1)
    gamma = float(np.max((log_c - log_c[:, np.newaxis])[distinct] / steps))
    log_p = noise - log_c[:, np.newaxis]  # [x, y]: the releases are the same tables
    loss = np.array([np.max(log_p[i] - log_p, axis=1) for i in range(len(tables))])
    effective = float(np.max(loss[distinct] / steps)) - 1
    return ConditioningCost(min(1.0, gamma), gamma, effective, True, len(tables))


def _searched(
    mechanism: Any, system: System, epsilon: float, known: BlockCost, search: int, rng: np.random.Generator
) -> ConditioningCost:
    """Search by hill climbing along moves of the fiber for tables that rarely satisfy their bounds."""
    gamma = min(1.0, known.upper)
    if not search:
        return ConditioningCost(gamma, known.lower, None, False, known.tables)
    moves, none = connected_moves(system.structure, bounds="any"), np.zeros(system.frame.size, dtype=np.int64)
    x = nearest_feasible(system.A, system.values, system.B, system.limits, near=none, row_names=system.names)
    log_c, best = mechanism.log_normaliser(system, x), known.lower
    for v in moves.draw(search, rng=rng).toarray().T:
        if not v.any():
            continue
        left, used = system.B @ x - system.limits, -(system.B @ v)
        if not (used > 0).any():
            continue  # the line has no end
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
    """Return whether tables that differ by one person share the public sums.

    Parameters
    ----------
    system : System

    Returns
    -------
    Erosion

    See Also
    --------
    ppdinf.privacy.Erosion, ppdinf.privacy.posterior_range

    Examples
    --------
    >>> from ppdinf.privacy import erosion
    >>> import ppdinf as ppd
    >>> erosion(ppd.invariants.total().on([3, 0, 2])).nearest
    2
    """
    distance = None if system.fixed.all() else shortest_distance(system.free)
    return Erosion(None if distance is None else int(distance), int(system.fixed.sum()))


def posterior_range(prior: ArrayLike, loss: SupportsFloat) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bound the posterior probability of a statement about one person after a release.

    Parameters
    ----------
    prior : float or array of float
        Probability of a statement about one person, given all public information.
    loss : float or Fraction
        Privacy loss between the tables for which the statement is true and false.

    Returns
    -------
    lower, upper : ndarray of float64
        Odds change by a factor of at most ``exp(loss)``; these bounds are at least as tight as the factor ``exp(loss)``
        on the probability in their Theorem 1.3.

    Raises
    ------
    PrivacyError
        A prior is not a number in [0, 1], or the loss is not a number from 0 to infinity.

    See Also
    --------
    ppdinf.privacy.erosion

    Examples
    --------
    >>> from ppdinf.privacy import posterior_range
    >>> lower, upper = posterior_range(0.1, 1)
    >>> round(float(lower), 3), round(float(upper), 3)
    (0.039, 0.232)
    """
    try:
        p, size = numbers(prior, "prior"), float(loss)
    except (TypeError, ValueError):
        raise PrivacyError(f"prior and loss must be numbers, found {prior!r:.60} and {loss!r:.60}") from None
    if not np.all((p >= 0) & (p <= 1)) or not size >= 0:
        raise PrivacyError("prior must be in [0, 1] and loss must not be negative")
    factor = math.exp(-size)
    certain = p == 1  # no release changes what is certain; without this, an infinite loss would give 0 / 0
    lower = p * factor / np.where(certain, 1, 1 - p + p * factor)
    upper = p / np.where(p == 0, 1, p + (1 - p) * factor)
    return np.where(certain, 1.0, lower), upper
