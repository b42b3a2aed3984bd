r"""Releases drawn among the tables that share everything public, each with a weight that factors over the cells.

    P(y | x) = prod_i w(y_i - x_i) nu_i(y_i) / C(x)    on {y : A y = A x, B y >= b}

with noise weights w and, perhaps, base measures nu_i. Conditioned noise and the Wasserstein exponential mechanism are
of this kind. The normaliser C(x) depends on x through the bounds and base measures: summing over y by elimination
gives it, and exact draws (`ppdinf.noise.exact.elimination`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from flint import arb, ctx
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.invariants import Public, System
from ppdinf.invariants.statement import Statement
from ppdinf.lattice.columns import equal_columns
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.lattice.ordering import elimination_order
from ppdinf.lattice.rows import row_algebra
from ppdinf.laws import IntegerLaw, L2Laplace
from ppdinf.laws.likelihood import Differences, Likelihood, MixingScale, Normaliser
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.mechanisms.tilting import Sides, sides, tilts
from ppdinf.noise.bits.coins import toss
from ppdinf.noise.bits.tape import Tape
from ppdinf.noise.exact.elimination import LARGEST_WORK, Elimination
from ppdinf.noise.exact.potentials import Potential, Window
from ppdinf.noise.plan import Plan, plan
from ppdinf.rationals import ball

__all__ = ["BaseMeasure", "Weighted", "is_bounded", "log_base_measure", "summed_out"]

BATCH = 2**12  # proposals at a time, at most
HOPELESS = 1e-5
SLACK = 16  # by which tables may be more work than planned before a draw is given up
LEFT_OUT = -56.0  # logarithm of what windows leave out at first
DEVIATIONS = 11.0  # of a sum, beyond which it is trimmed
NEAR = 2**9
RARE = 1e-15  # probability with which any cell leaves its window, before conditioning makes more of it


@runtime_checkable
class BaseMeasure(Hashable, Protocol):
    """Weights of the released counts, whatever the confidential ones. Anything hashable with these methods will do.

    A method ``around(center, groups)``, where there is one, returns the same weights times one for each cell that
    cancel in every table whose groups have the sums of `center`, so that weights grow less with the counts.
    """

    def weight(self, cell: int, count: int) -> arb:
        """Enclose the weight of a count in a cell, counted along the table."""

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight of counts from `low` to `high`."""


class Weighted(TableMechanism):
    """Integer tables with all public sums and bounds, weighted by independent noise and a base measure."""

    keeps_bounds: ClassVar[bool] = True

    @property
    @abstractmethod
    def law(self) -> IntegerLaw | L2Laplace:
        """The law of the noise before anything is imposed on the release."""

    def base_measure(self, system: System) -> BaseMeasure | None:
        """Weights of the released counts; None where all count alike."""
        return None

    def likelihood(self, system: System) -> Likelihood | None:
        """State the weights of the noise ``y - x``; what the release is weighted with besides is free of x.

        Bounds can carry a release far: where most counts are 0 and must not fall, the others fall to keep the total.
        """
        law, cells, normaliser = self.law, system.frame.size, None
        bound = law.widest_half_width if is_bounded(self.public) else law.half_width
        if not self._is_free(system):
            normaliser = Normaliser(None if law.is_mixture else partial(self.log_normaliser, system))
        return Likelihood(
            Differences(law),
            bound(cells, RARE),
            MixingScale(cells) if law.is_mixture else None,
            normaliser,
            follows_bounds=self.base_measure(system) is not None,
        )

    def _is_free(self, system: System) -> bool:
        """Whether nothing but public sums is imposed, so that the noise does not depend on the table."""
        return not system.limits.size and self.base_measure(system) is None

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose a sampler: that of the lattice where nothing else is imposed, elimination elsewhere.

        Raises
        ------
        InvariantError
            No exact sampler suits the public sums.
        """
        if self._is_free(system) and self.law.is_of_norm:
            return plan(system, self.law, allow_mcmc=allow_mcmc)
        work = _work(system, _of_cells(self.law, system.frame.size))
        if work > LARGEST_WORK:
            raise InvariantError(
                f"noise this wide under {len(system.names)} public sums over {system.frame.size:,} cells takes tables "
                f"of partial sums of about {work:.0e} steps, whatever the counts are: the sums are too wide or cross "
                "too much for elimination; choose a larger epsilon, or publish fewer crossing sums or bounds"
            )
        bounds = f"{system.limits.size} bounds" if system.limits.size else "no bounds"
        reason = f"weights of single cells under {len(system.names)} public sums and {bounds} on the release"
        if isinstance(self.law, L2Laplace):
            return Plan("elimination and rejection", True, f"{reason}, thinned from l1 to l2 distances")
        return Plan("elimination", True, reason)

    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, tape: Tape, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Draw releases of a table, or of one table each; int64 of shape (draws, d)."""
        if self._is_free(system) and self.law.is_of_norm:
            plan = plan or self.plan_on(system)
            return cells + plan.noise_on(system.structure, self.law).draw(draws, tape)
        tables, which = np.unique(np.atleast_2d(cells), axis=0, return_inverse=True)
        which = np.broadcast_to(which, draws)
        released = np.empty((draws, system.frame.size), dtype=np.int64)
        for k, table in enumerate(tables):
            rows = np.flatnonzero(which == k)
            if isinstance(self.law, L2Laplace):
                released[rows] = self._draw_l2(system, table, self.law, rows.size, tape)
            else:
                released[rows] = self._summed_out(system, table).draw(rows.size, tape)[:, : system.frame.size]
        return released

    def _draw_l2(
        self, system: System, x: NDArray[np.int64], law: L2Laplace, size: int, tape: Tape
    ) -> NDArray[np.int64]:
        """Thin l1 proposals."""
        d, wider = x.size, law.wider(x.size)
        epsilon, rate = law.epsilon, wider.epsilon
        proposals = summed_out(system, tuple(x.tolist()), wider, self.base_measure(system))
        kept, tried = [np.empty((0, d), dtype=np.int64)], 0
        while sum(map(len, kept)) < size:
            batch = min(BATCH, 64 + 4 * (size - sum(map(len, kept))))
            y = proposals.draw(batch, tape)[:, :d]
            absolute, squares = np.abs(y - x).sum(axis=1), ((y - x) ** 2).sum(axis=1)
            log_p = float(rate) * absolute - float(epsilon) * np.sqrt(squares)

            def enclose(i: int, a: NDArray[np.int64] = absolute, s: NDArray[np.int64] = squares) -> arb:
                return (ball(rate) * int(a[i]) - ball(epsilon) * arb(int(s[i])).sqrt()).exp()

            kept.append(y[toss(log_p, 1e-15 * (1 + float(epsilon) * (absolute + np.sqrt(squares))), enclose, tape)])
            tried += batch
            if tried * HOPELESS > 1 + sum(map(len, kept)):
                raise InvariantError(
                    f"l2 distances over {d} cells keep less than one in {1 / HOPELESS:,.0f} attempts: use l1"
                )
        return np.concatenate(kept)[:size]

    def log_normaliser(self, system: System, cells: NDArray[np.int64]) -> float:
        """Logarithm of C(x), for noise of independent cells."""
        return float(self._summed_out(system, cells).log_normaliser)

    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Log density of releasing y when the table is x; with its normaliser where that depends on x, but for l2.

        ``-inf`` where either breaks a public bound.
        """
        if np.any(system.B @ y < system.limits) or np.any(system.B @ x < system.limits):
            return -np.inf
        log_base = log_base_measure(self.base_measure(system), y)
        summed = not (self.law.is_mixture or self._is_free(system))
        return self.law.log_mass(y - x) + log_base - (self.log_normaliser(system, x) if summed else 0.0)

    def _summed_out(self, system: System, cells: NDArray[np.int64]) -> Elimination:
        base = self.base_measure(system)
        try:
            return summed_out(system, tuple(cells.tolist()), _of_cells(self.law, cells.size), base)
        except InvariantError as error:
            if base is None:
                raise
            raise InvariantError(
                f"releases with this base measure cannot be summed: {error}; where it draws releases too far from the "
                "table, lower its concentration"
            ) from error


def log_base_measure(base: BaseMeasure | None, cells: NDArray[np.int64]) -> float:
    """Log weight of a release, whatever the table; 0 without a base measure."""
    weights = [] if base is None else [base.weight(i, count) for i, count in enumerate(cells.tolist())]
    return sum((float(weight.log()) if weight > 0 else -math.inf for weight in weights), start=0.0)


def is_bounded(public: Public) -> bool:
    """Whether any statement is a bound, of whatever kind."""
    return any(type(statement).inequalities is not Statement.inequalities for statement in public)


def _of_cells(law: IntegerLaw | L2Laplace, cells: int) -> IntegerLaw:
    """Noise of independent cells whose weights are nowhere below those of a law."""
    return law.wider(cells) if isinstance(law, L2Laplace) else law


@lru_cache(maxsize=4)
def summed_out(
    system: System, center: tuple[int, ...], noise: IntegerLaw, base: BaseMeasure | None = None
) -> Elimination:
    """Sum the weights of all releases of a table; the result draws them and knows their total.

    A bound that links cells becomes a sum with one more variable, its slack.

    Parameters
    ----------
    system : System
        Public sums, whose values are those of the table, and bounds that every release obeys.
    center : tuple of int
        The confidential cells.
    noise : IntegerLaw
    base : BaseMeasure, optional

    Returns
    -------
    Elimination
        Over the cells, followed by one slack for every bound that links cells.

    Raises
    ------
    InvariantError
        The public sums and bounds cross too much for elimination.
    """
    values = system.A @ np.array(center, dtype=np.int64)
    around = getattr(base, "around", None)
    base = around(center, _groups(system)) if around is not None else base
    low, high = cell_intervals(system.A, values, system.B, system.limits)
    farthest = float(np.max(high - low, initial=0.0))  # the same for all cells and tables, so that weights are shared
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    if base is None and system.limits.size and not linked.size:
        tabulated = _tilted(noise, np.array(center) - low, high - np.array(center), _groups(system), farthest)
    else:
        tabulated = [sides(noise, Fraction(0), farthest, farthest)] * len(center)
    potentials = [_potential(tabulated[i], x, (low[i], high[i]), i, base) for i, x in enumerate(center)]
    if not linked.size:
        return Elimination(system.A, values.tolist(), potentials, largest=SLACK * LARGEST_WORK)
    B = system.B[linked]
    slacks = [_slack(B[[k]], int(system.limits[row]), center, noise, (low, high)) for k, row in enumerate(linked)]
    rows = sp.block_array([[system.A, None], [B, -sp.eye_array(linked.size, dtype=np.int64)]], format="csr")
    values = np.concatenate([values, system.limits[linked]])
    return Elimination(rows, values.tolist(), [*potentials, *slacks], largest=SLACK * LARGEST_WORK)


def _work(system: System, noise: IntegerLaw) -> float:
    """Estimate the multiplications of an elimination from what is public alone, the widest over all tables.

    A cell cut off by its bounds spreads no more than a free one, nor than its interval.
    """
    low, high = cell_intervals(system.A, system.values, system.B, system.limits)
    reach = float(noise.tail_start(LEFT_OUT))
    sizes = np.arange(-NEAR, NEAR + 1) * max(1.0, reach / NEAR)
    weights = np.exp([float(noise.log_weight(int(size))) for size in sizes])
    spread = math.sqrt(float(weights @ sizes**2 / weights.sum()))
    half = np.clip((high - low) / 2, 0.0, reach)
    spreads = np.minimum(spread, half)
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    rows = sp.csr_array(sp.vstack([system.A, system.B[linked]]))  # a bound that links cells is a sum with a slack
    A = sp.csc_array(rows[row_algebra(sp.csc_array(rows)).independent])
    size = abs(A)
    width = 1 + 2 * np.minimum(
        size @ half, float(size.data.max(initial=0)) * reach + DEVIATIONS * np.sqrt(size**2 @ spreads**2)
    )
    alike, _ = equal_columns(A)
    order, work = elimination_order(A), 0.0
    for row, near, cells in zip(order.rows, order.open_rows, order.variables, strict=True):
        groups = np.unique(alike[cells], return_counts=True)[1]
        widest = 1 + 2 * float(half[cells].max(initial=0.0))
        for n in groups.tolist():
            while n > 1:  # two by two
                work += n / 2 * widest**2
                n, widest = (
                    n / 2,
                    min(2 * widest, 1 + 2 * reach + 2 * DEVIATIONS * spread * math.sqrt(groups.max() / n * 2)),
                )
            work += widest * float(np.prod(width[[row, *near]]))
    return work


def _groups(system: System) -> NDArray[np.int64]:
    """Label cells whose sum is public: those of a class, and all others together; -1 where it is not."""
    structure = system.structure
    labels = np.where(structure.determined[structure.classes], structure.classes, structure.class_sizes.size)
    others = labels == structure.class_sizes.size
    if np.any(np.asarray(structure.lattice.basis[np.flatnonzero(others)].sum(axis=0))):
        labels[others] = -1
    return labels


def _tilted(
    noise: IntegerLaw,
    below: NDArray[np.float64],
    above: NDArray[np.float64],
    groups: NDArray[np.int64],
    farthest: float,
) -> list[Sides]:
    """Tabulate the noise of every cell, tilted where that puts a public sum into the middle of its law."""
    usual = sides(noise, Fraction(0), farthest, farthest)
    found = {}
    for group, tilt in tilts(noise, below, above, groups).items():
        cells = groups == group
        found[group] = sides(noise, tilt, float(below[cells].max()), float(above[cells].max()))
    return [found.get(group, usual) for group in groups.tolist()]


def _potential(tabulated: Sides, x: int, ends: tuple[float, float], cell: int, base: BaseMeasure | None) -> Potential:
    low, high = ends

    def tabulate(bits: int) -> Window:
        largest, further = arb(1) if base is None else base.largest(cell, low, high), 0
        while True:
            up, down, tail = tabulated(bits + further)
            first, last = int(max(x - len(down) + 1, low)), int(min(x + len(up) - 1, high))
            if first > last:
                raise InvariantError("a confidential count lies further from its public bounds than noise reaches")
            found = [*down[max(1, x - last) : x - first + 1][::-1], *up[max(0, first - x) : last - x + 1]]
            if base is not None:
                found = [weight * base.weight(cell, first + k) for k, weight in enumerate(found)]
            excess = tail * largest * arb(2) ** bits / sum(found, start=arb(0))
            if base is None or not excess > 1:
                return first, found, tail * largest
            further += math.ceil(float(excess.log().upper()) / math.log(2)) + 1

    return tabulate


def _slack(
    row: Any, limit: int, center: tuple[int, ...], noise: IntegerLaw, ends: tuple[Any, Any]
) -> Callable[[int], Window]:
    """All values that the slack takes while the cells are within their windows and bounds count alike."""
    x, (low, high) = np.array(center)[row.indices], (end[row.indices] for end in ends)
    most = float(np.sum(row.data * np.where(row.data > 0, high, low))) - limit
    farthest = float(np.max(np.maximum(x - low, high - x)))

    def tabulate(bits: int) -> Window:
        reach = int(row.data @ x) - limit + int(abs(row.data).sum()) * len(noise.window(bits, ctx.prec, farthest)[0])
        return 0, [arb(1)] * (int(min(reach, most)) + 1), arb(0)

    return tabulate
