"""Published numbers as observations of the confidential cells: the base class, and releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
import xarray as xr
from flint import fmpz_mat
from scipy.optimize import linprog, lsq_linear

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.values import Array, Flags, Integers, Reals, Symbolic
from ppdinf.distributions.ops import of_table
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.fiber.nested_sums.nested_sums import NestedSums
from ppdinf.invariants import System
from ppdinf.lattice.move_families import Listed
from ppdinf.lattice.moves import Moves
from ppdinf.lattice.support_moves import SupportMoves
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.measurements import Measurements
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.releases import Release
from ppdinf.tables.frame import Frame


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

    def crossing(self) -> str:
        """Return the public sums or bounds that link groups of cells, or an empty string."""
        structure, system = self.system.structure, self.system
        if np.any(~structure.partition & (np.bincount(structure.blocks) > 1)):
            return "public sums cross each other"
        linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
        return f"the bound {system.bound_names[linked[0]]!r} links cells" if linked.size else ""

    def log_counts(self, counts: Integers | TensorVariable, *auxiliary: TensorVariable) -> Symbolic:
        """Return log weights of counts of each cell, shape (d, n), by its own observations; 0 without observations."""
        return self.likelihood.log_counts(self.y, counts, *auxiliary)

    def noise_columns(self) -> list[Array] | None:
        """Return numbers of each cell that determine its noise weights; None if none are known to do so."""
        return None

    @abstractmethod
    def truncation(self, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """Return the range of counts of each cell that the noise leaves, plus one count if `low` and `high` permit."""

    def without_information(self, nonnegative: Flags) -> Flags:
        """Return cells on which nothing published depends, shape (d,); `nonnegative` refers to the data model."""
        return np.zeros(nonnegative.size, dtype=bool)

    def tail_inequalities(self, low: Reals, high: Reals) -> tuple[sp.csr_array, Integers]:
        """Return inequalities ``B x >= limits`` that hold except with the tail probability of the noise."""
        return sp.csr_array((0, self.frame.size), dtype=np.int64), np.zeros(0, dtype=np.int64)

    @cached_property
    def hard_inequalities(self) -> tuple[sp.csr_array, Integers]:
        """Return the subset of the tail inequalities that every table of positive weight satisfies."""
        return sp.csr_array((0, self.frame.size), dtype=np.int64), np.zeros(0, dtype=np.int64)

    @property
    def hard_names(self) -> Sequence[str]:
        """Names of the rows of `hard_inequalities`."""
        return []

    @abstractmethod
    def coupling(self, lower: Integers, width: int) -> NoiseNorm | MeasuredSums | None:
        """Return the observations of several cells, for tables in the given windows."""

    def nested(self, lower: Integers, width: int) -> NestedSums | None:
        """Return the forest of all sums if it must be marginalized jointly; None if groups are sufficient."""
        return None

    def moves(self, plan: SupportMoves, coupling: NoiseNorm | MeasuredSums | None) -> Moves:
        """Return moves that connect the fiber, and moves that improve mixing where cells are coupled."""
        return plan.moves

    @abstractmethod
    def nearest_reals(self, lowest: Integers, highest: Integers) -> Reals:
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
    def draw(self, cells: Integers, rng: np.random.Generator, scales: Reals | None = None) -> Array:
        """Publish tables of shape (n, d) again, given scales, (n, k); numbers of shape ``(n, *noisy.shape)``."""

    @abstractmethod
    def with_numbers(self, values: Array) -> Observed:
        """Return the observation of other numbers of the shape of `noisy`, published in the same way."""


def sums_of_cells(matrix: sp.csr_array, cells: TensorVariable) -> TensorVariable:
    """Return symbolic sums ``matrix @ cells``."""
    rows, columns = matrix.nonzero()
    return pt.zeros(matrix.shape[0], dtype=cells.dtype)[rows].inc(matrix.data * cells[columns])


SHORT = 200  # maximum number of cells for lattice reduction


def cell_windows(observed: Observed, nonnegative: Flags) -> tuple[Integers, Integers]:
    """Return the smallest and largest count of every cell that agrees with all answers within the noise radius."""
    system, likelihood, y = observed.system, observed.likelihood, observed.y
    query, radius = sp.csr_array(likelihood.query), likelihood.support_radius
    rows = {
        "A_ub": sp.vstack([query, -query, -system.B]),
        "b_ub": np.concatenate([y + radius, radius - y, -system.limits]),
        "A_eq": system.A if system.values.size else None,
        "b_eq": system.values if system.values.size else None,
        "bounds": [(0 if below else None, None) for below in nonnegative],
    }
    ends = np.empty((2, nonnegative.size))
    for cell in range(nonnegative.size):
        for end, sign in enumerate((1, -1)):
            goal = np.zeros(nonnegative.size)
            goal[cell] = sign
            solution = linprog(goal, **rows)
            if solution.status == 2:
                raise ModelError("no table agrees with both the answers and the public statements: check the mechanism")
            if not solution.success:
                side, advice = (
                    ("smallest", "use a non-negative distribution")
                    if sign > 0
                    else ("largest", "inference requires an answer, or a public sum of answers, that includes the cell")
                )
                raise ModelError(f"the answers leave the count at {system.frame.cell(cell)} no {side} value: {advice}")
            ends[end, cell] = sign * solution.fun
    # one more count on either side, for rounding errors of the programs
    return np.floor(ends[0]).astype(np.int64) - 1, np.ceil(ends[1]).astype(np.int64) + 1


def short_moves(moves: Moves, system: System, norm: NoiseNorm) -> Moves:
    """Add moves with the least change of the answers (a basis reduced in the noise's norm) to connecting moves."""
    basis = system.lattice.basis
    if not 0 < basis.shape[1] <= SHORT:
        return moves
    image = norm.matrix @ basis
    scaled = np.rint(image.toarray().T * (1000 / max(abs(image).max(), 1e-300))).astype(np.int64)
    rows = np.hstack([scaled, basis.toarray().T])
    reduced = np.array(fmpz_mat(rows.tolist()).lll().tolist(), dtype=object)[:, scaled.shape[1] :].astype(np.int64)
    short = Listed(sp.csc_array(reduced.T))
    return replace(moves, families=[*moves.families, (short, basis.shape[1], False)])


def mechanism_of(release: Release) -> TableMechanism:
    """Return the mechanism of a release that has a likelihood."""
    assert isinstance(release.mechanism, TableMechanism), "mechanisms for records have no likelihood of cells"
    return release.mechanism


class ObservedRelease(Observed):
    """Observation of one release by a mechanism."""

    published: Release

    def __init__(self, release: Release, frame: Frame) -> None:
        self.published, self.frame, self.likelihood = release, frame, release.likelihood
        cells = mechanism_of(release).before_postprocessing(release.table.values)
        self.noisy: xr.DataArray = release.table.copy(data=cells)
        self.system = self._system()

    def _system(self) -> System:
        system, query = self.published.public, self.likelihood.query
        if query is not None:
            matrices = {"A": sp.csr_array(system.A @ query), "B": sp.csr_array(system.B @ query)}
            system = replace(system, frame=self.frame, empty=np.zeros(self.frame.size, dtype=bool), **matrices)
        records = None if self.likelihood.records is None else self.likelihood.records(self.y)
        if records is not None:
            system = replace(
                system,
                A=sp.vstack([system.A, np.ones((1, self.frame.size), dtype=np.int64)], format="csr"),
                values=np.append(system.values, records),
                names=[*system.names, "number of records (as released)"],
            )
        return system

    @property
    def is_integer(self) -> bool:
        """True if the noise is integer-valued."""
        return self.published.mechanism.is_integer

    def noise_columns(self) -> list[Array] | None:
        """Return the release if its noise is added to each cell with one law."""
        is_known = isinstance(self.likelihood.form, AdditiveLaw) and self.likelihood.auxiliary is None
        return [self.y] if is_known and self.likelihood.query is None else None

    def truncation(self, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """Return the range of counts within the noise radius of the released counts, or of the nearest allowed ones."""
        radius, center = self.likelihood.support_radius, np.clip(self.y, low, high)  # the noise is most probable there
        lower, upper = np.maximum(np.floor(center) - radius, low - 1), np.minimum(np.ceil(center) + radius, high + 1)
        if self.likelihood.normaliser is not None and self.likelihood.follows_bounds:
            # the noise moves releases far, but within the public statements
            return np.where(np.isfinite(low), low - 1, lower), np.where(np.isfinite(high), high + 1, upper)
        return lower, upper

    def coupling(self, lower: Integers, width: int) -> NoiseNorm | MeasuredSums | None:
        """Return the norm of the noise as a norm of the cells, if cells are not independent."""
        norm, query = self.likelihood.norm, self.likelihood.query
        if norm is None or query is None:
            return norm
        return NoiseNorm(sp.csc_array(norm.matrix @ query), norm.order)

    def moves(self, plan: SupportMoves, coupling: NoiseNorm | MeasuredSums | None) -> Moves:
        """Add moves with the least change of the answers to queries."""
        if self.likelihood.query is None or not isinstance(coupling, NoiseNorm):
            return plan.moves
        return short_moves(plan.moves, self.system, coupling)

    def nearest_reals(self, lowest: Integers, highest: Integers) -> Reals:
        """Return the release, or cells whose answers are nearest to it in least squares."""
        y, query = self.y.astype(np.float64), self.likelihood.query
        return y if query is None else lsq_linear(query.toarray(), y, (lowest - 0.5, highest + 0.5)).x

    def log_density(self, y: TensorVariable, x: TensorVariable, *auxiliary: TensorVariable) -> TensorVariable:
        """Return the log density of a release given a table; ``-inf`` if they differ in a sum that noise preserves."""
        likelihood, kept = self.likelihood, self.published.kept
        queries = x if likelihood.query is None else pt.as_tensor(likelihood.query.toarray()) @ x
        # integer noise sums to zero; real noise sums to zero up to rounding, and its sums are read from the release
        moved, goal = (y - queries, 0) if self.is_integer else (queries, kept.values)
        log_weight = likelihood.log_table(y, queries, *auxiliary)
        if likelihood.looks_at_table:
            log_weight += of_table(self._log_of_table, x)
        is_possible = pt.all(pt.eq(sums_of_cells(kept.A, moved), goal))
        if likelihood.is_of_release:
            is_possible = pt.and_(is_possible, pt.all(pt.eq(y, self.y)))
        return pt.switch(is_possible, log_weight, -np.inf)

    def _log_of_table(self, cells: Integers) -> float:
        """Log weight that depends on the table as a whole; -inf out of public bounds, where it is not defined."""
        systems = self.system, self.published.kept
        within = all((system.B @ cells >= system.limits).all() for system in systems if system.limits.size)
        return self.likelihood.log_of_table(cells) if within else -np.inf

    @cached_property
    def log_constant(self) -> float | None:
        """The constant of the likelihood of the release."""
        return self.likelihood.constant()

    def log_constants(self) -> Reals:
        """Return the constant of the noise of each group, divided by its size, and that of single cells."""
        form, kept = self.likelihood.form, self.published.kept if self.likelihood.records is None else self.system
        if not isinstance(form, AdditiveLaw):
            return np.zeros(self.frame.size)
        sizes = kept.structure.class_sizes[kept.structure.classes]
        sizes[~kept.structure.partition[kept.structure.blocks]] = 0
        shares = np.full(sizes.size, form.law.log_total)
        for size in np.unique(sizes[sizes > 0]).tolist():
            total = form.law.log_total_of_sum(size)
            if total is None:
                raise ModelError("the noise is too wide: the constant of its density cannot be summed")
            shares[sizes == size] = total / size
        return shares

    def draw(self, cells: Integers, rng: np.random.Generator, scales: Reals | None = None) -> Array:
        """Release tables again by the mechanism's sampler."""
        release, query = self.published, self.likelihood.query
        queries = cells if query is None else cells @ query.T
        drawn = mechanism_of(release).draw(release.kept, queries, len(cells), seeded_stream(rng), release.plan)
        return drawn.reshape(len(cells), *release.shape)

    def with_numbers(self, values: Array) -> ObservedRelease:
        """Return the observation of another release by the same mechanism, with the sums that its noise keeps."""
        release = self.published
        if not np.array_equal(mechanism_of(release).before_postprocessing(values), values):
            raise ModelError(
                f"a release by {type(release.mechanism).__name__} cannot be replaced by other numbers, because they "
                "do not determine its noise: write the model again with PartiallyPrivate for the other release"
            )
        further = None if release.public is release.kept else release.public
        table = release.table.copy(data=values.astype(release.table.dtype))
        return ObservedRelease(Release(table, release.mechanism, further), self.frame)
