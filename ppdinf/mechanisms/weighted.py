r"""Tables with the same public sums and bounds, each with a weight that factors over the cells.

    P(y | x) = prod_i w(y_i - x_i) nu_i(y_i) / C(x)    on {y : A y = A x, B y >= b}

with noise weights w and optional base measures nu_i. Conditioned noise and the Wasserstein exponential mechanism have
this form. The normalizer C(x) depends on x through the bounds and base measures. Elimination sums over y and gives C(x)
and exact draws (`ppdinf.noise.exact.variable_elimination`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import numpy as np

from ppdinf._internal.values import Array, Integers
from ppdinf.errors import InvariantError
from ppdinf.invariants import Public, System
from ppdinf.invariants.statement import Statement
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, IntegerLaw, L2Laplace
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.l2_laplace import log_l2_total
from ppdinf.laws.likelihood import Likelihood, MixingScale, Normaliser, unknown_constant
from ppdinf.mechanisms.base_measure import BaseMeasure, DirichletMultinomial, log_base_measure
from ppdinf.mechanisms.bound_trees import Forest, forest_of
from ppdinf.mechanisms.few_given_rest import FewGivenRest, lower_bounds_and_groups
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.mechanisms.table_sums import eliminated_releases, work_of
from ppdinf.mechanisms.trees_given_sums import CellLaw, TreesGivenSums
from ppdinf.noise.exact.variable_elimination import LARGEST_WORK, Elimination
from ppdinf.noise.log_total import log_total
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan, plan_sampler
from ppdinf.tables.table import TableLike

LARGEST = 2**28  # counts in the tables of all cells: 24 bytes each, 6 GB
RARE = 1e-15  # probability that any cell is outside the truncated support, before conditioning increases it


class _Sampler(NamedTuple):
    """An exact sampler of the releases of a table: its name and reason for the plan, and draws given the table."""

    name: str
    reason: str
    draw: Callable[[Integers, int, BitStream], Integers]


class Weighted(TableMechanism):
    """Integer tables with all public sums and bounds, weighted by independent noise and a base measure."""

    keeps_bounds: ClassVar[bool] = True

    @property
    @abstractmethod
    def law(self) -> CellLaw:
        """Return the law of the noise before conditioning on the public statements."""

    def measure_on(self, system: System) -> BaseMeasure | None:
        """Return the weights of the released counts; None where all have weight 1."""
        return None

    def likelihood(self, system: System) -> Likelihood | None:
        """Return the weights of the noise ``y - x``; the base measure of the release does not depend on x.

        Bounds can move a release far: where most counts are 0 and must not decrease, others decrease to keep the total.
        """
        law, cells, normaliser = self.law, system.frame.size, None
        constant: Callable[[], float | None] = partial(log_total, system.structure, law)
        bound = law.widest_half_width if is_bounded(self.public) else law.support_radius
        if not self._is_free(system):
            is_unknown = not self._has_normaliser(system)
            normaliser = Normaliser(None if is_unknown else partial(self.log_normaliser, system))
            constant = unknown_constant if is_unknown else float
        return Likelihood(
            AdditiveLaw(law),
            bound(cells, RARE),
            MixingScale(cells) if law.is_mixture else None,
            normaliser,
            follows_bounds=self.measure_on(system) is not None,
            constant=constant,
        )

    def _is_free(self, system: System) -> bool:
        """Return whether only public sums constrain the release, so that the noise does not depend on the table."""
        return not system.limits.size and self.measure_on(system) is None

    def has_public_noise_law(self, table: TableLike) -> bool:
        """Whether neither bounds nor a base measure make the law of the noise depend on the table."""
        return self._is_free(self.public.on(table))

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose the lattice sampler where only sums are public, and elimination or `FewGivenRest` otherwise.

        Raises
        ------
        InvariantError
            No exact sampler applies to the public sums.
        """
        if self._is_free(system):
            return plan_sampler(system, self.law, allow_mcmc=allow_mcmc)
        sampler = self._sampler_on(system)
        return Plan(sampler.name, True, sampler.reason)

    def _forest(self, system: System) -> Forest | str:
        """Return the trees of bounds, or the reason why cells cannot be drawn in independent trees."""
        law, measure = self.law, self.measure_on(system)
        if measure is not None and not isinstance(measure, DirichletMultinomial):
            return "the base measure has no bounds on the ratios of its weights"
        if isinstance(law, IntegerLaw) and law.period > 1:
            return f"the weights of {law.name} noise decrease in steps of {law.period}"
        low, high = cell_intervals(system.A, system.values, system.B, system.limits)
        if law.is_mixture and not np.isfinite(high - low).all():
            return "l2 noise needs bounds on every cell: declare nonnegative() and a sum public"
        widths = np.minimum(high - low, 2.0 * law.support_radius(low.size, RARE))
        if (counts := widths.sum() * (5 if law.is_mixture else 1)) > LARGEST:  # five nodes of l2 noise at a time
            return f"tables of its weights would have {counts:,.0f} counts, more than {LARGEST:,}"
        return forest_of(system)

    def _has_normaliser(self, system: System) -> bool:
        """Return whether Markov chains can afford the normalizer."""
        if not self._is_slow(system):
            return not self.law.is_mixture
        return isinstance(forest := self._forest(system), Forest) and forest.has_total

    def _is_slow(self, system: System) -> bool:
        """Return whether elimination would take too long."""
        return work_of(system, _of_cells(self.law, system.frame.size)) > LARGEST_WORK

    def _sampler_on(self, system: System) -> _Sampler:
        """Choose elimination, and `FewGivenRest` or `TreesGivenSums` for l2 noise or where elimination is slow."""
        law, d, sums, is_slow = self.law, system.frame.size, len(system.names), self._is_slow(system)
        if is_slow and isinstance(law, DoubleGeometric) and self.measure_on(system) is None:
            few, epsilon = lower_bounds_and_groups(system, law.epsilon), law.epsilon
            if few is not None:
                return _Sampler(
                    "independent cells and rejection",
                    f"{sums} disjoint public sums over {d:,} cells, with lower bounds",
                    lambda x, size, stream: FewGivenRest(x, *few, epsilon).draw(size, stream),
                )
        if is_slow or law.is_mixture:
            if isinstance(forest := self._forest(system), str):
                raise InvariantError(
                    f"noise this wide under {sums} public sums over {d:,} cells cannot be drawn exactly: {forest}, and "
                    f"elimination {'does not apply to l2 noise' if law.is_mixture else 'needs too many steps'}; choose "
                    "l1 noise with a larger epsilon, or publish fewer crossing sums or bounds"
                )
            return _Sampler(
                "trees and pivots",
                f"{len(forest.sums)} public sums, and {len(forest.edges)} bounds of two cells that form trees",
                lambda x, size, stream: _trees(self, system, tuple(x.tolist())).draw(size, stream),
            )
        reason = f"weights of single cells under {sums} public sums and {system.limits.size} bounds on the release"
        return _Sampler(
            "elimination", reason, lambda x, size, stream: self._eliminated(system, x).draw(size, stream)[:, :d]
        )

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw releases of one table, or of one table each; int64 of shape (draws, d)."""
        if self._is_free(system):
            plan = plan or self.plan_on(system)
            return cells + plan.noise_on(system.structure, self.law).draw(draws, stream)
        tables, which = np.unique(np.atleast_2d(cells), axis=0, return_inverse=True)
        which = np.broadcast_to(which, draws)
        released, sampler = np.empty((draws, system.frame.size), dtype=np.int64), self._sampler_on(system)
        for k, table in enumerate(tables):
            rows = np.flatnonzero(which == k)
            released[rows] = sampler.draw(table, rows.size, stream)
        return released

    def log_normaliser(self, system: System, cells: Integers) -> float:
        """Return the logarithm of C(x); for l2 noise by quadrature, with relative error 1e-12 of C(x).

        Raises
        ------
        InvariantError
            Elimination is too slow, and a public sum has several cells that bounds link.
        """
        return _log_normaliser(self, system, tuple(cells.tolist()))

    def log_weight(self, system: System, y: Integers, x: Integers) -> float:
        """Return the log density of releasing y given the table x, normalized where the normalizer depends on x.

        ``-inf`` where x or y violates a public bound.
        """
        log_mass = self.log_unnormalised(system, y, x)
        return log_mass if self._is_free(system) or log_mass == -np.inf else log_mass - self.log_normaliser(system, x)

    def log_constant(self, system: System) -> float | None:
        """Return the constant if only public sums constrain the release; otherwise `log_weight` is normalized."""
        return super().log_constant(system) if self._is_free(system) else 0.0

    def log_unnormalised(self, system: System, y: Integers, x: Integers) -> float:
        """Return the log weight of releasing y given the table x, before division by C(x)."""
        if np.any(system.B @ y < system.limits) or np.any(system.B @ x < system.limits):
            return -np.inf
        return self.law.log_mass(y - x) + log_base_measure(self.measure_on(system), y)

    def _eliminated(self, system: System, cells: Integers, noise: IntegerLaw | None = None) -> Elimination:
        """Sum the weights of all releases of a table, by its own noise or by other noise of independent cells."""
        base = self.measure_on(system)
        try:
            return eliminated_releases(system, tuple(cells.tolist()), noise or _of_cells(self.law, cells.size), base)
        except InvariantError as error:
            if base is None:
                raise
            raise InvariantError(
                f"releases with this base measure cannot be summed: {error}; if it moves releases too far from the "
                "table, lower its concentration"
            ) from error


@lru_cache(maxsize=1024)
def _log_normaliser(mechanism: Weighted, system: System, cells: tuple[int, ...]) -> float:
    x = np.array(cells, dtype=np.int64)
    if mechanism._is_slow(system) and isinstance(mechanism._forest(system), Forest):
        log_total = _trees(mechanism, system, cells).log_total()
        if log_total is None:
            raise InvariantError(
                "the normalizer under public sums of cells that bounds link would take too long: use "
                "ppdinf.PartiallyPrivate, which does not need it, or make one sum public"
            )
        return log_total + log_base_measure(mechanism.measure_on(system), x)
    if not isinstance(mechanism.law, L2Laplace):
        return float(mechanism._eliminated(system, x).log_normaliser)

    def log_gaussian_total(variance: Fraction) -> float:
        return float(mechanism._eliminated(system, x, DiscreteGaussian(variance=variance)).log_normaliser)

    log_identity = log_base_measure(mechanism.measure_on(system), x)
    return log_l2_total(log_gaussian_total, mechanism.law.epsilon, log_identity, system.lattice.rank)


@lru_cache(maxsize=2)
def _trees(mechanism: Weighted, system: System, cells: tuple[int, ...]) -> TreesGivenSums:
    measure, forest = mechanism.measure_on(system), forest_of(system)
    assert measure is None or isinstance(measure, DirichletMultinomial)
    assert isinstance(forest, Forest)
    return TreesGivenSums(system, forest, np.array(cells, dtype=np.int64), mechanism.law, measure)


def is_bounded(public: Public) -> bool:
    """Return whether any statement is a bound of any kind."""
    return any(type(statement).inequalities is not Statement.inequalities for statement in public)


def _of_cells(law: CellLaw, cells: int) -> IntegerLaw:
    """Return independent noise whose weights are at least those of a law."""
    return law.dominating_law(cells) if isinstance(law, L2Laplace) else law
