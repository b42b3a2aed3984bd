"""Measurements of one table, as they speak of its cells.

What was measured of a cell alone is a weight of its counts, as the noise of a release is. What was measured of several
cells couples them: they are weighed along the lines of a walk (`ppdinf.fiber.gibbs.measured_sums`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray
from scipy.sparse.linalg import lsmr

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.types import Array
from ppdinf.distributions.observation.measured_moves import measured_moves
from ppdinf.distributions.observation.nested_plan import contradiction, forest_of_sums, nested_sums
from ppdinf.distributions.observation.observed import Observed, Reals
from ppdinf.distributions.observation.observed_release import ObservedRelease
from ppdinf.distributions.observation.table_function import of_table
from ppdinf.distributions.observation.truncation_bounds import groups_of_rows, joint_reach, reaches, without_information
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.fiber.nested_sums.laminar import Forest
from ppdinf.fiber.nested_sums.nested_sums import NestedSums, OutOfReachError
from ppdinf.lattice.moves.moves import Moves
from ppdinf.lattice.moves.support_moves import SupportMoves
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.joint_l2 import JointL2
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.laws.observation_model import IndependentLaw
from ppdinf.measurements import Measurements
from ppdinf.measurements.entries import Entries

__all__ = ["ObservedMeasurements"]

WHOLE = 1e-12  # probability that noise goes further than its reach anywhere
FAR = 1e-100  # that of a tabulated entry
TABULATED = 2**24  # log weights of tabulated sums: 128 MB


class _ByCell:
    """Weights of the counts of each cell by everything that was measured of it alone."""

    def __init__(self, entries: Entries, d: int) -> None:
        self.entries, self.d, self.cells = entries, d, entries.matrix.indices

    def log_weight(self, y: object, x: NDArray[np.int64]) -> Reals:
        """Log weights of counts, shape (d, n)."""
        counts = np.broadcast_to(x, (self.d, np.shape(x)[1]))
        found = np.zeros(counts.shape)
        np.add.at(found, self.cells, self.entries.log_weights(counts[self.cells]))
        return found


class ObservedMeasurements(Observed):
    """Everything published about a table.

    Parameters
    ----------
    measurements : Measurements
    """

    published: Measurements

    def __init__(self, measurements: Measurements) -> None:
        entries = measurements.entries
        self.published, self.frame, self.system = measurements, measurements.frame, measurements.public
        alone = (np.diff(entries.matrix.indptr) == 1) & _ones(entries.matrix)
        for form, rows in entries.forms:
            alone[rows] &= isinstance(form, IndependentLaw)
        self.of_cells, self.of_sums = entries.only(np.flatnonzero(alone)), entries.only(np.flatnonzero(~alone))
        self.noisy = xr.DataArray(entries.y, dims=["measurement"])
        self._by_cell = _ByCell(self.of_cells, self.frame.size)
        self.likelihood = Likelihood(self._by_cell, 0)  # type: ignore[arg-type]

    @cached_property
    def why_not_marginalizable(self) -> str:
        """What links cells, so that the table cannot be summed out; empty if nothing does."""
        if self.forest is not None:
            return ""
        if not self.of_sums.are_independent:
            return "l2 noise of several numbers is not independent"
        return "noisy and exact sums cross each other" if self.of_sums.y.size else self.crossing()

    @cached_property
    def forest(self) -> Forest | None:
        """All sums that something is known of, exactly, within bounds or with noise, where they nest."""
        return forest_of_sums(self.system, self.of_sums)

    def nested(self, lower: NDArray[np.int64], width: int) -> NestedSums | None:
        """Forest of exact sums, bounds of sums and noisy sums, where they nest and groups are not enough."""
        return self.in_forest(lower, width) if self.of_sums.y.size or self.crossing() else None

    def in_forest(self, lower: NDArray[np.int64], width: int) -> NestedSums | None:
        """Forest of all that is known of sums; None where they cross."""
        if self.forest is None:
            return None
        return nested_sums(self.forest, self.system, self.of_sums, lower, width)

    def contradiction(self, error: OutOfReachError) -> InvariantError:
        """Name what was published that no table agrees with."""
        assert self.forest is not None, "only sums that nest are evaluated"
        return contradiction(error, self.forest, self.system, self.of_sums)

    @property
    def _rare(self) -> float:
        return WHOLE / max(self.published.entries.y.size, 1)

    def log_counts(self, counts: NDArray[np.int64] | TensorVariable, *auxiliary: TensorVariable) -> Reals:
        """Log weights of counts of each cell, by what was measured of it alone."""
        return self._by_cell.log_weight(None, counts)

    def without_information(self, nonnegative: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell cells that no measurement, no exact sum and no bound depends on."""
        return without_information(self.system, self.published.entries.matrix.indices, nonnegative)

    def truncation(self, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """Find counts that the noise of all readings of a cell reaches, given each other and what is public."""
        entries, cells = self.of_cells, self.of_cells.matrix.indices
        ends = reaches(entries, cells, self._rare, low[cells], high[cells])
        lower, upper = joint_reach(cells, *ends, self.frame.size)
        # noise that reaches nothing possible weighs most at the nearest possible count, and falls from there
        below, above = np.flatnonzero(upper < low), np.flatnonzero(lower > high)
        width = upper[below] - lower[below], upper[above] - lower[above]
        lower[below], upper[below] = low[below], low[below] + width[0]
        lower[above], upper[above] = high[above] - width[1], high[above]
        return np.maximum(lower, low - 1), np.minimum(upper, high + 1)

    def tail_inequalities(self) -> tuple[sp.csr_array, NDArray[np.int64]]:
        """Bound sums to where the noise of all their readings reaches."""
        groups = self._groups
        low, high = joint_reach(groups, *self._reaches_of_sums(self._rare), int(groups.max(initial=-1)) + 1)
        return self._within(low[groups], high[groups])

    def hard_inequalities(self) -> tuple[sp.csr_array, NDArray[np.int64]]:
        """Bound sums to where their law has any weight."""
        return self._within(*self.of_sums.support_bounds(0.0))

    @cached_property
    def _groups(self) -> NDArray[np.int64]:
        """Number of the sum that each entry of several cells is a reading of."""
        return groups_of_rows(self.of_sums.matrix)

    def _reaches_of_sums(self, tail_probability: float) -> tuple[Reals, Reals]:
        anywhere = np.full(self.of_sums.y.size, np.inf)
        return reaches(self.of_sums, self._groups, tail_probability, -anywhere, anywhere)

    def _within(self, low: Reals, high: Reals) -> tuple[sp.csr_array, NDArray[np.int64]]:
        Q = self.of_sums.matrix
        below, above = np.flatnonzero(np.isfinite(low)), np.flatnonzero(np.isfinite(high))
        B = sp.csr_array(sp.vstack([Q[below], -Q[above]], format="csr"))
        return B, np.concatenate([np.floor(low[below]), -np.ceil(high[above])]).astype(np.int64)

    def coupling(self, lower: NDArray[np.int64], width: int) -> NoiseNorm | MeasuredSums | None:
        """Return what was measured of several cells."""
        entries = self.of_sums
        k = entries.y.size
        if not k:
            return None
        precision, rate = np.zeros(k), np.zeros(k)
        first, size = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
        tabulated, mixtures = [], []
        for form, rows in entries.forms:
            if isinstance(form, JointL2):
                epsilon = float(form.law.epsilon)
                mixtures.append((rows, epsilon))
                precision[rows] = epsilon**2 / rows.size
                continue
            fall = form.law.log_quadratic if isinstance(form, AdditiveLaw) else None
            if fall is None or all(fall):
                tabulated.append(rows)
            else:
                rate[rows], precision[rows] = fall
        if tabulated:
            rows = np.sort(np.concatenate(tabulated))
            first[rows], size[rows] = self._values(rows, lower, width)
        ends = np.concatenate([[0], np.cumsum(size)])
        if ends[-1] > TABULATED:
            raise ModelError(
                f"noisy sums have {ends[-1]:,} possible values, of which {TABULATED:,} fit: make bounds of the cells "
                "public where they hold, or give the data model a prior that knows the size of the counts"
            )
        log_weights = np.empty(int(ends[-1]))
        for row in np.flatnonzero(size):
            values = first[row] + np.arange(size[row])
            log_weights[ends[row] : ends[row + 1]] = entries.only(np.array([row])).log_weights(values[None])[0]
        return MeasuredSums(
            sp.csc_array(entries.matrix), entries.y, precision, rate, ends, first, log_weights, tuple(mixtures)
        )

    def _values(
        self, rows: NDArray[np.int64], lower: NDArray[np.int64], width: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First value, and how many, of each of some sums: within reach of the noise and of the windows of cells."""
        Q, (low, high) = self.of_sums.matrix[rows], self._reaches_of_sums(FAR)
        up, down = Q.maximum(0), Q.minimum(0)
        least, most = up @ lower + down @ (lower + width - 1), up @ (lower + width - 1) + down @ lower
        first = np.maximum(low[rows], least).astype(np.int64)
        return first, np.maximum(np.minimum(high[rows], most).astype(np.int64) - first + 1, 1)

    def gaussian_cells(self) -> Reals:
        """Precision of every cell by Gaussian noise of it alone, shape (d,); 0 without any."""
        found, entries = np.zeros(self.frame.size), self.of_cells
        for form, rows in entries.forms:
            fall = form.law.log_quadratic if isinstance(form, AdditiveLaw) else None
            if fall is not None:
                np.add.at(found, entries.matrix.indices[rows], fall[1])
        return found

    def moves(self, plan: SupportMoves, coupling: NoiseNorm | MeasuredSums | None) -> Moves:
        """Add moves that leave noisy sums as they are, in all ways in which some of them can be left."""
        return measured_moves(plan, self.published) if isinstance(coupling, MeasuredSums) else plan.moves

    def nearest_reals(self, lowest: NDArray[np.int64], highest: NDArray[np.int64]) -> Reals:
        """Weighted least squares of everything published, each entry by how far its noise reaches."""
        entries = self.published.entries
        low, high = entries.support_bounds()
        told = np.isfinite(low) & np.isfinite(high)
        weight = 1 / (1 + high[told] - low[told])
        middle = (lowest + highest) / 2
        slight = 1e-3 / (1.0 + highest - lowest)  # what nothing tells of stays in the middle
        rows = sp.vstack([sp.diags_array(weight) @ entries.matrix[told], sp.diags_array(slight)], format="csr")
        goal = np.concatenate([weight * (low[told] + high[told]) / 2, slight * middle])
        return np.clip(lsmr(rows, goal)[0], lowest, highest)

    def log_density(self, y: TensorVariable, x: TensorVariable, *auxiliary: TensorVariable) -> TensorVariable:
        """Log weight of what was published given a table; ``-inf`` unless the table has everything exact."""
        system, entries = self.system, self.published.entries

        def log_weight(cells: NDArray[np.int64]) -> float:
            if (system.A @ cells != system.values).any():
                return -np.inf
            return float(entries.log_weights(entries.matrix @ cells).sum())

        return pt.switch(pt.all(pt.eq(y, self.y)), of_table(log_weight, x), -np.inf)

    def draw(self, cells: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Measure tables again; releases of theirs each keep what their mechanism keeps."""
        entries, releases = self.published.entries, self.published.releases
        if releases:
            again = [ObservedRelease(release, self.frame).draw(cells, rng) for release in releases]
            return np.concatenate([noisy.reshape(len(cells), -1) for noisy in again], axis=1)
        return entries.publish(cells @ entries.matrix.T, rng)


def _ones(matrix: sp.csr_array) -> NDArray[np.bool_]:
    """Rows whose entries are all 1."""
    return np.asarray(abs(matrix - (matrix == 1).astype(np.int64)).sum(axis=1) == 0).ravel()
