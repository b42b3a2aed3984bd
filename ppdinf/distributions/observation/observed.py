"""`Observed`: the base class of observations of a confidential table.

The system is always that of the confidential cells. Separate files define observed releases and `Measurements`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
from ppdinf.laws.real_valued.noise_norm import NoiseNorm
from ppdinf.measurements import Measurements
from ppdinf.releases import Release
from ppdinf.tables.frame import Frame

type Reals = NDArray[np.float64]


class Observed(ABC):
    """Published numbers as observations of the confidential cells."""

    published: Release | Measurements
    frame: Frame
    system: System
    likelihood: Likelihood
    noisy: xr.DataArray

    @cached_property
    def y(self) -> Array:
        """Published numbers as a vector."""
        return self.noisy.values.ravel()

    @property
    def is_integer(self) -> bool:
        """True if the published numbers are integers."""
        return self.noisy.dtype.kind == "i"

    @property
    @abstractmethod
    def why_not_marginalizable(self) -> str:
        """Reason why the table cannot be marginalized; empty if it can."""

    def crossing(self) -> str:
        """Return the public sums or bounds that link groups of cells, or an empty string."""
        structure, system = self.system.structure, self.system
        if np.any(~structure.partition & (np.bincount(structure.blocks) > 1)):
            return "public sums cross each other"
        linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
        return f"the bound {system.bound_names[linked[0]]!r} links cells" if linked.size else ""

    @abstractmethod
    def log_counts(self, counts: NDArray[np.int64] | TensorVariable, *auxiliary: TensorVariable) -> Symbolic:
        """Return log weights of counts of each cell, shape (d, n), by its own observations; 0 without observations."""

    @abstractmethod
    def truncation(self, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """Return the range of counts of each cell that the noise leaves, plus one count if `low` and `high` permit."""

    def without_information(self, nonnegative: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return cells on which nothing published depends, shape (d,); `nonnegative` refers to the data model."""
        return np.zeros(nonnegative.size, dtype=bool)

    def tail_inequalities(self, low: Reals, high: Reals) -> tuple[sp.csr_array, NDArray[np.int64]]:
        """Return inequalities ``B x >= limits`` that hold except with the tail probability of the noise."""
        return sp.csr_array((0, self.frame.size), dtype=np.int64), np.zeros(0, dtype=np.int64)

    def hard_inequalities(self) -> tuple[sp.csr_array, NDArray[np.int64]]:
        """Return the subset of the tail inequalities that every table of positive weight satisfies."""
        return sp.csr_array((0, self.frame.size), dtype=np.int64), np.zeros(0, dtype=np.int64)

    @property
    def hard_names(self) -> Sequence[str]:
        """Names of the rows of `hard_inequalities`."""
        return []

    @abstractmethod
    def coupling(self, lower: NDArray[np.int64], width: int) -> NoiseNorm | MeasuredSums | None:
        """Return the observations of several cells, for tables in the given windows."""

    def nested(self, lower: NDArray[np.int64], width: int) -> NestedSums | None:
        """Return the forest of all sums if it must be marginalized jointly; None if groups are sufficient."""
        return None

    def moves(self, plan: SupportMoves, coupling: NoiseNorm | MeasuredSums | None) -> Moves:
        """Return moves that connect the fiber, and moves that improve mixing where cells are coupled."""
        return plan.moves

    @abstractmethod
    def nearest_reals(self, lowest: NDArray[np.int64], highest: NDArray[np.int64]) -> Reals:
        """Return real cells near the observations, shape (d,)."""

    @abstractmethod
    def log_density(self, y: TensorVariable, x: TensorVariable, *auxiliary: TensorVariable) -> TensorVariable:
        """Return the log density of published numbers given a table, symbolic, up to `log_constant`."""

    @property
    @abstractmethod
    def log_constant(self) -> float | None:
        """Log of the total weight of all that could be published given a table; None if it is not known."""

    @abstractmethod
    def log_constants(self) -> Reals:
        """Return the share of each cell in `log_constant`, shape (d,), if sums of groups of cells are public."""

    @abstractmethod
    def draw(self, cells: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Publish tables of shape (n, d) again; numbers of shape ``(n, *noisy.shape)``."""


def sums_of_cells(matrix: sp.csr_array, cells: TensorVariable) -> TensorVariable:
    """Return symbolic sums ``matrix @ cells``."""
    rows, columns = matrix.nonzero()
    return pt.zeros(matrix.shape[0], dtype=cells.dtype)[rows].inc(matrix.data * cells[columns])
