"""The fiber of a release: all tables within windows that agree with what is public, and their decision diagram."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.fiber.gibbs.measured_sums import Measured, MeasuredSums, log_weights_of
from ppdinf.invariants import System
from ppdinf.lattice.decision_diagram import EDGES, DecisionDiagram, decision_diagram
from ppdinf.lattice.fiber_tables import fixed_cells
from ppdinf.lattice.moves import Moves
from ppdinf.lattice.rows import Rows
from ppdinf.lattice.supports import Support, random_vertex
from ppdinf.laws.likelihood import HistogramNoise
from ppdinf.laws.noise_norm import NoiseNorm

SUMS = 100  # largest number of noisy sums of a diagram


@dataclass(frozen=True, eq=False)
class TableDiagram:
    """All tables of a support, with the noisy sums that are part of the diagram."""

    diagram: DecisionDiagram
    free: Integers
    known: Integers
    at: Integers
    sums: Integers
    sum_of: Integers
    sum_values: Integers
    padding: int

    def is_whole(self, coupling: NoiseNorm | MeasuredSums | None) -> bool:
        """Return whether the diagram contains the weights of all published numbers."""
        return coupling is None or (isinstance(coupling, MeasuredSums) and coupling.y.size == self.sums.size)

    def draw(self, log_weights: Reals, measured: Measured | None, rng: np.random.Generator) -> Integers | None:
        """Draw a table by the weights of cells and of the sums in the diagram; None if all weights are 0."""
        of_sums = np.zeros(0) if measured is None else log_weights_of(self.sum_of, self.sum_values, measured)
        weights = np.concatenate([log_weights.ravel()[self.at], of_sums, np.zeros(self.padding)])
        return self._table(self.diagram.draw(weights, rng))

    def nearest(self, near: Integers, lower: Integers, allowed: Flags) -> Integers | None:
        """Return the allowed table that is nearest to a given one in the sum of absolute differences."""
        distance = np.abs(lower[:, None] + np.arange(allowed.shape[1]) - near[:, None]).astype(np.float64)
        cost = np.where(allowed, distance, np.inf).ravel()[self.at]
        return self._table(self.diagram.nearest(np.append(cost, np.zeros(self.sum_of.size + self.padding))))

    def varies(self, width: int) -> Flags:
        """Return which cells have several counts in windows of the given width."""
        cells = self.at[self.diagram.used[: self.at.size]] // width
        return np.bincount(cells, minlength=self.known.size) > 1

    def _table(self, solution: Integers | None) -> Integers | None:
        if solution is None:
            return None
        table = self.known.copy()
        table[self.free] = solution[: self.free.size]
        return table


def table_diagram(system: System, support: Support, coupling: MeasuredSums | None, largest: int) -> TableDiagram | None:
    """Return the diagram of all tables of a support, or None if it has more edges than `largest`."""
    if support.is_empty:
        return None
    every = np.arange(0 if coupling is None else coupling.y.size)
    tabulated = every if coupling is None else np.flatnonzero(np.diff(coupling.ends))
    for sums in (every, tabulated)[: 1 if tabulated.size == every.size else 2]:
        found = _with_sums(system, support, coupling, sums, largest) if sums.size <= SUMS else None
        if found is not None:
            return found
    return None


def _with_sums(
    system: System, support: Support, coupling: MeasuredSums | None, sums: Integers, largest: int
) -> TableDiagram | None:
    """Return the diagram of all tables with some noisy sums as further variables."""
    d, (low, high), fixed = support.low.size, (support.low, support.high), support.fixed
    free, known = np.flatnonzero(~fixed), np.where(fixed, low, 0)
    none = sp.csr_array((0, d), dtype=np.int64)
    Q = none if coupling is None else sp.csr_array(coupling.matrix)[sums]
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    B, limits = sp.csr_array(system.B[linked]), system.limits[linked]
    least, most = _ends(B, low, high)
    B, limits, most = (part[np.flatnonzero(least < limits)] for part in (B, limits, most))
    of_bounds = [np.arange(a, b + 1) for a, b in zip(limits, most, strict=True)]
    of_sums = []
    for k, a, b in zip(sums, *_ends(Q, low, high), strict=True):
        assert coupling is not None
        size = coupling.ends[k + 1] - coupling.ends[k]
        if size:
            a, b = max(a, coupling.first[k]), min(b, coupling.first[k] + size - 1)
        if b - a > largest:
            return None
        possible = np.arange(a, b + 1)
        if size:
            possible = possible[np.isfinite(coupling.log_weights[coupling.ends[k] + possible - coupling.first[k]])]
        of_sums.append(possible)
    cells = [support.counts(cell) for cell in free.tolist()]
    supports = [*cells, *of_sums, *of_bounds]
    if any(own.size == 0 for own in supports) or sum(own.size for own in supports) > largest:
        return None
    C = sp.vstack([Q, B], format="csr")
    slacks = -sp.eye_array(C.shape[0], dtype=np.int64, format="csr")
    A = sp.csr_array(system.A)
    upper = sp.hstack([A[:, free], sp.csr_array((A.shape[0], C.shape[0]), dtype=np.int64)])
    M = sp.vstack([upper, sp.hstack([C[:, free], slacks])], format="csc")
    c = np.concatenate([system.values - A @ known, -(C @ known)])
    diagram = decision_diagram(sp.csc_array(M), c, supports, largest=largest)
    if diagram is None:
        return None
    width = support.rows.values.shape[1]
    at = [cell * width + own - support.lower[cell] for cell, own in zip(free, cells, strict=True)]
    return TableDiagram(
        diagram, free, known, _joined(at), sums,
        np.repeat(sums, [own.size for own in of_sums]), _joined(of_sums), sum(own.size for own in of_bounds),
    )  # fmt: skip


def _ends(matrix: sp.csr_array, low: Integers, high: Integers) -> tuple[Integers, Integers]:
    """Return the smallest and largest value of sums."""
    up, down = matrix.maximum(0), matrix.minimum(0)
    return up @ low + down @ high, up @ high + down @ low


def _joined(parts: list[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)


FEWER = 8  # factor for the number of edges if only lower bounds restrict the tables: moves then usually mix
LIKELY = 10.0  # smallest log weight relative to the maximum of a cell at the start of chains


@dataclass(frozen=True, eq=False)
class Fiber:
    """Public sums and bounds, windows of counts with their noise weights, and moves that connect the tables."""

    system: System
    lower: Integers
    noise: Rows[np.float64]
    moves: Moves
    coupling: NoiseNorm | MeasuredSums | None = None
    nonnegative: Flags | None = None
    histogram: HistogramNoise | None = None
    support: Support | None = None
    proved: bool = True
    restricted: bool = False
    without_window: Flags | None = None
    is_typical: bool = False
    likely: Integers | None = None

    @cached_property
    def diagram(self) -> TableDiagram | None:
        """The decision diagram of all tables for exact draws; None if moves are proved or tables are too many."""
        if self.support is None or self.proved or self.histogram is not None:
            return None
        coupling = self.coupling if isinstance(self.coupling, MeasuredSums) else None
        if not self.restricted and isinstance(self.coupling, NoiseNorm):
            return None
        return table_diagram(self.system, self.support, coupling, EDGES if self.restricted else EDGES // FEWER)

    @property
    def may_be_cut(self) -> bool:
        """Whether moves may fail to connect the tables, and tables are too many for exact draws."""
        return self.restricted and not self.proved and self.diagram is None

    def vertex(self, rng: np.random.Generator) -> Integers | None:
        """Return a table that maximises a random objective, within likely counts if possible."""
        system = self.system
        if self.support is None:
            return None
        most = self.log_noise.max(axis=1, keepdims=True)
        for likely in (self.log_noise > most - LIKELY, np.ones(self.log_noise.shape, dtype=bool)):
            support = Support(self.lower, Rows.each(self.support.possible & likely))
            found = random_vertex(system.A, system.values, system.B, system.limits, support, rng)
            if found is not None and self.is_possible(found):
                return found
        return None

    def is_possible(self, x: Integers) -> bool:
        """Return whether the published sums have positive probability given a table."""
        return not isinstance(self.coupling, MeasuredSums) or self.coupling.log_density(x) > -np.inf

    @property
    def width(self) -> int:
        """Number of counts in each window."""
        return self.noise.values.shape[1]

    @cached_property
    def log_noise(self) -> Reals:
        """Log weights of noise of all cells, shape (d, width)."""
        return self.noise.whole

    @cached_property
    def uninformed(self) -> Flags:
        """Cells without a window, shape (d,)."""
        return np.zeros(self.lower.size, dtype=bool) if self.without_window is None else self.without_window

    @cached_property
    def fixed(self) -> Flags:
        """Cells with one value in all tables that public statements, supports of laws and the data model allow."""
        system, B, limits = self.system, self.system.B, self.system.limits
        if self.diagram is not None:
            return ~self.diagram.varies(self.width)
        if self.support is not None:
            units = sp.eye_array(self.lower.size, dtype=np.int64, format="csr")
            B = sp.csr_array(sp.vstack([B, units, -units], format="csr"))
            return fixed_cells(
                system.structure, system.A, system.values, B,
                np.concatenate([limits, self.support.low, -self.support.high]),
            )  # fmt: skip
        if self.nonnegative is not None:
            signs = sp.eye_array(self.lower.size, dtype=np.int64, format="csr")[np.flatnonzero(self.nonnegative)]
            B = sp.csr_array(sp.vstack([B, signs], format="csr"))
            limits = np.append(limits, np.zeros(B.shape[0] - limits.size, dtype=np.int64))
        return fixed_cells(system.structure, system.A, system.values, B, limits)

    def slack(self, x: Integers) -> Integers:
        """Return ``B x - limits``."""
        return self.system.B @ x - self.system.limits

    def require(self, x: Integers) -> None:
        """Raise an error if a table is not on the fiber or outside of the windows."""
        system = self.system
        for names, wrong in ((system.names, system.A @ x != system.values), (system.bound_names, self.slack(x) < 0)):
            for row in np.flatnonzero(wrong)[:1]:
                raise InvariantError(
                    f"the starting table violates the public statement {names[row]!r}: omit the start, or pass a table "
                    "that satisfies all public statements"
                )
        outside = np.count_nonzero(((x < self.lower) | (x >= self.lower + self.width)) & ~self.uninformed)
        if outside:
            raise InvariantError(
                f"the starting table has {outside} cells outside of their windows, where the noise would be too "
                "improbable"
            )

    def holds(self, x: Integers) -> bool:
        """Return whether a table is on the fiber and within the windows."""
        try:
            self.require(x)
        except InvariantError:
            return False
        return True

    def at_edge(self, x: Integers) -> int:
        """Count cells at the end of their window; a positive number means that release and model are inconsistent."""
        at_end = (x == self.lower) | (x == self.lower + self.width - 1)
        return int(np.count_nonzero(at_end & ~self.uninformed))
