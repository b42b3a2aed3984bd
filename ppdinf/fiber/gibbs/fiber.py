"""The fiber of a release: all tables that agree with the public information, within windows of counts.

Counts whose noise would be improbable (probability 1e-12 for the whole table) are excluded. Windows of counts are
therefore finite and fixed for every data model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.fiber.gibbs.table_diagram import TableDiagram, table_diagram
from ppdinf.invariants import System
from ppdinf.lattice.moves.moves import Moves
from ppdinf.lattice.points.decision_diagram import EDGES
from ppdinf.lattice.points.fixed_cells import fixed_cells
from ppdinf.lattice.points.presolve import Support
from ppdinf.lattice.points.tables_with_holes import random_vertex
from ppdinf.laws.histogram_noise import HistogramNoise
from ppdinf.laws.real_valued.noise_norm import NoiseNorm

FEWER = 8  # factor for the number of edges if only lower bounds restrict the tables: moves then usually mix
LIKELY = 10.0  # smallest log weight relative to the maximum of a cell at the start of chains


@dataclass(frozen=True, eq=False)
class Fiber:
    """Public sums and bounds, windows of counts with their noise weights, and moves that connect the tables."""

    system: System
    lower: NDArray[np.int64]
    log_noise: NDArray[np.float64]
    moves: Moves
    coupling: NoiseNorm | MeasuredSums | None = None
    nonnegative: NDArray[np.bool_] | None = None
    histogram: HistogramNoise | None = None
    support: Support | None = None
    proved: bool = True
    restricted: bool = False
    without_window: NDArray[np.bool_] | None = None
    is_typical: bool = False

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

    def vertex(self, rng: np.random.Generator) -> NDArray[np.int64] | None:
        """Return a table that maximises a random objective, within likely counts if possible."""
        system = self.system
        if self.support is None:
            return None
        most = self.log_noise.max(axis=1, keepdims=True)
        for likely in (self.log_noise > most - LIKELY, np.ones(self.log_noise.shape, dtype=bool)):
            support = Support(self.lower, self.support.possible & likely)
            found = random_vertex(system.A, system.values, system.B, system.limits, support, rng)
            if found is not None and self.is_possible(found):
                return found
        return None

    def is_possible(self, x: NDArray[np.int64]) -> bool:
        """Return whether the published sums have positive probability given a table."""
        return not isinstance(self.coupling, MeasuredSums) or self.coupling.log_density(x) > -np.inf

    @property
    def width(self) -> int:
        """Number of counts in each window."""
        return self.log_noise.shape[1]

    @cached_property
    def uninformed(self) -> NDArray[np.bool_]:
        """Cells without a window, shape (d,)."""
        return np.zeros(self.lower.size, dtype=bool) if self.without_window is None else self.without_window

    @cached_property
    def fixed(self) -> NDArray[np.bool_]:
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

    def slack(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``B x - limits``."""
        return self.system.B @ x - self.system.limits

    def require(self, x: NDArray[np.int64]) -> None:
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

    def holds(self, x: NDArray[np.int64]) -> bool:
        """Return whether a table is on the fiber and within the windows."""
        try:
            self.require(x)
        except InvariantError:
            return False
        return True

    def at_edge(self, x: NDArray[np.int64]) -> int:
        """Count cells at the end of their window; a positive number means that release and model are inconsistent."""
        at_end = (x == self.lower) | (x == self.lower + self.width - 1)
        return int(np.count_nonzero(at_end & ~self.uninformed))
