"""What was observed of a confidential table: made once, and asked by everything that comes after.

The system is always that of the confidential cells. A release and `Measurements` are observed in files of their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.types import Array, Symbolic
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.fiber.nested_sums.nested_sums import NestedSums
from ppdinf.invariants import System
from ppdinf.lattice.moves.moves import Moves
from ppdinf.lattice.moves.support_moves import SupportMoves
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.measurements import Measurements
from ppdinf.releases import Release
from ppdinf.tables.frame import Frame

__all__ = ["Observed", "sums_of_cells"]

type Reals = NDArray[np.float64]


class Observed(ABC):
    """What was published, as it speaks of the confidential cells.

    Attributes
    ----------
    published : Release or Measurements
    frame : Frame
        Labels of the cells.
    system : System
        Everything exact of the cells.
    likelihood : Likelihood
        Everything noisy of single cells, and of the table as a whole.
    noisy : xarray.DataArray
        Published numbers.
    """

    published: Release | Measurements
    frame: Frame
    system: System
    likelihood: Likelihood
    noisy: xr.DataArray

    @cached_property
    def y(self) -> Array:
        """Published numbers, one after the other."""
        return self.noisy.values.ravel()

    @property
    def is_integer(self) -> bool:
        """Whether they are whole."""
        return self.noisy.dtype.kind == "i"

    @property
    @abstractmethod
    def why_not_marginalizable(self) -> str:
        """What links cells, so that the table cannot be summed out; empty if nothing does."""

    def crossing(self) -> str:
        """Say what public sums or bounds link groups of cells; empty if none do."""
        structure, system = self.system.structure, self.system
        if np.any(~structure.partition & (np.bincount(structure.blocks) > 1)):
            return "public sums cross each other"
        linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
        return f"the bound {system.bound_names[linked[0]]!r} links cells" if linked.size else ""

    @abstractmethod
    def log_counts(self, counts: NDArray[np.int64] | TensorVariable, *auxiliary: TensorVariable) -> Symbolic:
        """Log weights of counts of each cell, shape (d, n), by what was observed of it alone; 0 where nothing was."""

    @abstractmethod
    def truncation(self, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """Find counts of each cell between which noise leaves it, one further where `low` and `high` permit.

        `low` and `high`, shape (d,), are the ends of what public statements allow; infinite where nothing tells.
        """

    def without_information(self, nonnegative: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell cells that nothing published depends on, shape (d,); `nonnegative` by the data model."""
        return np.zeros(nonnegative.size, dtype=bool)

    def tail_inequalities(self) -> tuple[sp.csr_array, NDArray[np.int64]]:
        """Inequalities ``B x >= limits`` that hold but with the probability of noise beyond its reach."""
        return sp.csr_array((0, self.frame.size), dtype=np.int64), np.zeros(0, dtype=np.int64)

    def hard_inequalities(self) -> tuple[sp.csr_array, NDArray[np.int64]]:
        """Those of them without which a table has no weight at all."""
        return sp.csr_array((0, self.frame.size), dtype=np.int64), np.zeros(0, dtype=np.int64)

    @abstractmethod
    def coupling(self, lower: NDArray[np.int64], width: int) -> NoiseNorm | MeasuredSums | None:
        """State what was observed of several cells at once, for tables in these windows."""

    def nested(self, lower: NDArray[np.int64], width: int) -> NestedSums | None:
        """Forest of everything known of sums, where that has to be summed out as one; None where groups are enough."""
        return None

    def moves(self, plan: SupportMoves, coupling: NoiseNorm | MeasuredSums | None) -> Moves:
        """Return moves that connect the fiber, and moves that help where cells are coupled."""
        return plan.moves

    @abstractmethod
    def nearest_reals(self, lowest: NDArray[np.int64], highest: NDArray[np.int64]) -> Reals:
        """Real cells near to what was observed, shape (d,)."""

    @abstractmethod
    def log_density(self, y: TensorVariable, x: TensorVariable, *auxiliary: TensorVariable) -> TensorVariable:
        """Log density of published numbers given a table, symbolic, up to a constant."""

    @abstractmethod
    def draw(self, cells: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Publish tables again, of shape (n, d); numbers of shape ``(n, *noisy.shape)``."""


def sums_of_cells(matrix: sp.csr_array, cells: TensorVariable) -> TensorVariable:
    """Return symbolic sums ``matrix @ cells``."""
    rows, columns = matrix.nonzero()
    return pt.zeros(matrix.shape[0], dtype=cells.dtype)[rows].inc(matrix.data * cells[columns])
