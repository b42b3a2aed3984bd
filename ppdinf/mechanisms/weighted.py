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
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.rationals import ball
from ppdinf.errors import InvariantError
from ppdinf.invariants import Public, System
from ppdinf.invariants.statement import Statement
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, IntegerLaw, L2Laplace
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.l2_laplace import log_l2_total
from ppdinf.laws.likelihood import Likelihood, MixingScale, Normaliser, unknown_constant
from ppdinf.mechanisms.base_measure import BaseMeasure, log_base_measure
from ppdinf.mechanisms.few_given_rest import FewGivenRest, lower_bounds_and_groups
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.mechanisms.table_sums import eliminated_releases, work_of
from ppdinf.noise.exact.variable_elimination import LARGEST_WORK, Elimination, steps
from ppdinf.noise.log_total import log_total
from ppdinf.noise.primitives.enclosures import draw_bernoulli
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan, exact_noise, plan_sampler
from ppdinf.tables.table import TableLike

BATCH = 2**12  # largest number of proposals at a time
RARELY = 0.01  # share of accepted proposals without bounds below which bounds count as tight
HOPELESS = 1e-5
RARE = 1e-15  # probability that any cell is outside the truncated support, before conditioning increases it


class _Sampler(NamedTuple):
    """An exact sampler of the releases of a table: its name and reason for the plan, and draws given the table."""

    name: str
    reason: str
    draw: Callable[[NDArray[np.int64], int, BitStream], NDArray[np.int64]]


class Weighted(TableMechanism):
    """Integer tables with all public sums and bounds, weighted by independent noise and a base measure."""

    keeps_bounds: ClassVar[bool] = True

    @property
    @abstractmethod
    def law(self) -> IntegerLaw | L2Laplace:
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
            normaliser = Normaliser(None if law.is_mixture else partial(self.log_normaliser, system))
            constant = unknown_constant if law.is_mixture else float
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

    def _sampler_on(self, system: System) -> _Sampler:
        """Choose elimination, or `FewGivenRest` where elimination would take too long."""
        law, d, sums = self.law, system.frame.size, len(system.names)
        work = work_of(system, _of_cells(law, d))
        if work > LARGEST_WORK:
            if isinstance(law, DoubleGeometric) and self.measure_on(system) is None:
                few, epsilon = lower_bounds_and_groups(system, law.epsilon), law.epsilon
                if few is not None:
                    return _Sampler(
                        "independent cells and rejection",
                        f"{sums} disjoint public sums over {d:,} cells, with lower bounds",
                        lambda x, size, stream: FewGivenRest(x, *few, epsilon).draw(size, stream),
                    )
            raise InvariantError(
                f"noise this wide under {sums} public sums over {d:,} cells needs tables of partial sums with "
                f"{steps(work)} for all counts: the sums are too wide or cross too much for elimination; choose a "
                "larger epsilon, or publish fewer crossing sums or bounds"
            )
        bounds = f"{system.limits.size} bounds" if system.limits.size else "no bounds"
        reason = f"weights of single cells under {sums} public sums and {bounds} on the release"
        if isinstance(law, L2Laplace):
            reason = f"{reason}, thinned from noise without bounds or l1 noise"
            return _Sampler("elimination and rejection", reason, partial(self._draw_l2, system, law))
        return _Sampler(
            "elimination", reason, lambda x, size, stream: self._eliminated(system, x).draw(size, stream)[:, :d]
        )

    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, stream: BitStream, plan: Plan | None = None
    ) -> NDArray[np.int64]:
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

    def _draw_l2(
        self, system: System, law: L2Laplace, x: NDArray[np.int64], size: int, stream: BitStream
    ) -> NDArray[np.int64]:
        """Draw l2 noise by rejection from l2 noise without bounds, and where bounds are tight from l1 proposals."""
        d, wider = x.size, law.dominating_law(x.size)
        epsilon, rate = law.epsilon, wider.epsilon
        kept, tried = [np.empty((0, d), dtype=np.int64)], 0
        if self.measure_on(system) is None:
            lattice = exact_noise(system.structure, law)
            while sum(map(len, kept)) < size and tried * RARELY <= 8 + sum(map(len, kept)):
                y = x + lattice.draw(BATCH // 16, stream)
                kept.append(y[np.all(system.limits[:, np.newaxis] <= system.B @ y.T, axis=0)])
                tried += len(y)
        if sum(map(len, kept)) >= size:
            return np.concatenate(kept)[:size]
        proposals = eliminated_releases(system, tuple(x.tolist()), wider, self.measure_on(system))
        tried, likely = 0, 0.0
        while sum(map(len, kept)) < size:
            batch = min(BATCH, 64 + 4 * (size - sum(map(len, kept))))
            y = proposals.draw(batch, stream)[:, :d]
            absolute, squares = np.abs(y - x).sum(axis=1), ((y - x) ** 2).sum(axis=1)
            log_p = float(rate) * absolute - float(epsilon) * np.sqrt(squares)

            def enclose(i: int, a: NDArray[np.int64] = absolute, s: NDArray[np.int64] = squares) -> arb:
                return (ball(rate) * int(a[i]) - ball(epsilon) * arb(int(s[i])).sqrt()).exp()

            kept.append(
                y[draw_bernoulli(log_p, 1e-15 * (1 + float(epsilon) * (absolute + np.sqrt(squares))), enclose, stream)]
            )
            tried, likely = tried + batch, likely + float(np.exp(log_p).sum())
            if tried >= BATCH and likely < HOPELESS * tried:
                raise InvariantError(
                    f"l2 distances over {d} cells accept fewer than one in {1 / HOPELESS:,.0f} proposals: use l1"
                )
        return np.concatenate(kept)[:size]

    def log_normaliser(self, system: System, cells: NDArray[np.int64]) -> float:
        """Return the logarithm of C(x); for l2 noise by quadrature, with relative error 1e-12 of C(x)."""
        return _log_normaliser(self, system, tuple(cells.tolist()))

    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Return the log density of releasing y given the table x, normalized where the normalizer depends on x.

        ``-inf`` where x or y violates a public bound.
        """
        log_mass = self.log_unnormalised(system, y, x)
        return log_mass if self._is_free(system) or log_mass == -np.inf else log_mass - self.log_normaliser(system, x)

    def log_constant(self, system: System) -> float | None:
        """Return the constant if only public sums constrain the release; otherwise `log_weight` is normalized."""
        return super().log_constant(system) if self._is_free(system) else 0.0

    def log_unnormalised(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Return the log weight of releasing y given the table x, before division by C(x)."""
        if np.any(system.B @ y < system.limits) or np.any(system.B @ x < system.limits):
            return -np.inf
        return self.law.log_mass(y - x) + log_base_measure(self.measure_on(system), y)

    def _eliminated(self, system: System, cells: NDArray[np.int64], noise: IntegerLaw | None = None) -> Elimination:
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
    if not isinstance(mechanism.law, L2Laplace):
        return float(mechanism._eliminated(system, x).log_normaliser)

    def log_gaussian_total(variance: Fraction) -> float:
        return float(mechanism._eliminated(system, x, DiscreteGaussian(variance=variance)).log_normaliser)

    log_identity = log_base_measure(mechanism.measure_on(system), x)
    return log_l2_total(log_gaussian_total, mechanism.law.epsilon, log_identity, system.lattice.rank)


def is_bounded(public: Public) -> bool:
    """Return whether any statement is a bound of any kind."""
    return any(type(statement).inequalities is not Statement.inequalities for statement in public)


def _of_cells(law: IntegerLaw | L2Laplace, cells: int) -> IntegerLaw:
    """Return independent noise whose weights are at least those of a law."""
    return law.dominating_law(cells) if isinstance(law, L2Laplace) else law
