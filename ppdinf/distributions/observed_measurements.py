"""Measurements of one table as observations of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
import xarray as xr
from scipy.sparse.linalg import lsmr

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.values import Array, Flags, Integers, Symbolic
from ppdinf.distributions.noise_scales import Forms, at_wide_scales, log_ratios
from ppdinf.distributions.observed import Observed, ObservedRelease, Reals
from ppdinf.distributions.ops import of_table
from ppdinf.distributions.published_ranges import (
    groups_of_rows,
    intersection,
    joint_reach,
    possible_sums,
    without_information,
)
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.fiber.nested_sums.join_tree import Forest, forest_of
from ppdinf.fiber.nested_sums.nested_sums import LogTable, NestedSums, OutOfReachError
from ppdinf.invariants import System
from ppdinf.invariants.statement import Chosen, Joined
from ppdinf.lattice.move_families import Placed, Transfers
from ppdinf.lattice.moves import Moves
from ppdinf.lattice.support_moves import SupportMoves
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.laws.unknown_scale import NoiseScales
from ppdinf.measurements import Measurements
from ppdinf.measurements.entries import Entries

FAR = 2**60  # absolute value that no sum reaches


def forest_of_sums(system: System, of_sums: Entries, further: sp.csr_array | None = None) -> Forest | None:
    """Arrange exact sums, bounds of sums, noisy sums and further sums as a forest, in this order."""
    if not of_sums.are_independent:
        return None
    rows = [_rows(system, of_sums), *(() if further is None else (further,))]
    return forest_of(sp.csr_array(sp.vstack(rows, format="csr")))


def _rows(system: System, of_sums: Entries) -> sp.csr_array:
    """Return exact sums, bounds of sums and noisy sums, with bounds from above as sums."""
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    bounds = system.B[linked]
    sign = np.array([bounds.data[start] for start in bounds.indptr[:-1]], dtype=np.int64)
    bounds = sp.csr_array(sp.diags_array(np.sign(sign), dtype=np.int64) @ bounds) if linked.size else bounds
    return sp.csr_array(sp.vstack([system.A, bounds, of_sums.matrix], format="csr"))


def _names(system: System, of_sums: Entries) -> Joined:
    """Return the names of the same rows."""
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    return Joined([system.names, [system.bound_names[int(row)] for row in linked], of_sums.names])


def why_no_forest(system: System, of_sums: Entries) -> str:
    """Return the reason why the sums are not a forest, with the names of two sums that overlap."""
    if not of_sums.are_independent:
        return "l2 noise of several numbers is not independent"
    rows, names = _rows(system, of_sums), _names(system, of_sums)
    weighted = np.flatnonzero(abs(rows - (rows != 0).astype(np.int64)).sum(axis=1))
    if weighted.size:
        return f"the sum {names[int(weighted[0])]!r} has weights other than 1"
    size = np.diff(rows.indptr)
    shared = sp.coo_array(rows @ rows.T)
    crossing = np.flatnonzero(shared.data < np.minimum(size[shared.row], size[shared.col]))
    a, b = sorted((int(shared.row[crossing[0]]), int(shared.col[crossing[0]])))
    return f"the sums {names[a]!r} and {names[b]!r} overlap, and neither contains the other"


def nested_sums(
    forest: Forest, system: System, of_sums: Entries, lower: Integers, width: int | Integers,
    tolerance: float = 1e-10, possible: tuple[Integers, Integers] | None = None,
    place: tuple[Integers, Integers] | None = None,
) -> NestedSums:  # fmt: skip
    """Build the forest for cells with windows; with `place`, noisy numbers measure offset + sign * sum."""
    offset, sign = (np.zeros(of_sums.y.size, np.int64), np.ones(of_sums.y.size, np.int64)) if place is None else place
    m, k = forest.parent.size, system.A.shape[0]
    least, most = np.full(m, -FAR), np.full(m, FAR)
    exact = forest.of_row[:k]
    np.maximum.at(least, exact, system.values)
    np.minimum.at(most, exact, system.values)
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    for row, node in zip(linked, forest.of_row[k : k + linked.size], strict=True):
        if system.B.data[system.B.indptr[row]] > 0:
            least[node] = max(least[node], system.limits[row])
        else:
            most[node] = min(most[node], -system.limits[row])
    of_row = forest.of_row[k + linked.size :][: of_sums.y.size]
    low, high = np.sort([sign * (end - offset) for end in of_sums.support_bounds(0.0)], axis=0)
    np.maximum.at(least, of_row, np.ceil(np.maximum(low, -FAR)).astype(np.int64))
    np.minimum.at(most, of_row, np.floor(np.minimum(high, FAR)).astype(np.int64))
    laws: list[LogTable] = []
    sums, shifts, numbers = [], [], []
    for form, rows in of_sums.forms:
        for column in form.columns(of_sums.of(form, rows)):
            entries, last = rows[column.entries], np.size(column.log_weights) - 1
            begins = column.begins - offset[entries]
            for way in np.unique(sign[entries]).tolist():
                own = sign[entries] == way
                sums.append(of_row[entries[own]])
                shifts.append(begins[own] if way > 0 else -begins[own] - last)
                numbers.append(np.full(own.sum(), len(laws)))
                left, right = (column.left, column.right)[::way]
                laws.append(LogTable(column.log_weights[::way], left=left, right=right))
    none = np.zeros(0, dtype=np.int64)
    measured = tuple(np.concatenate(part).astype(np.int64) if part else none for part in (sums, shifts, numbers))
    d = lower.size
    try:
        return NestedSums(
            low=lower, width=np.broadcast_to(width, d), node=forest.node, parent=forest.parent, least=least, most=most,
            measured=measured, laws=laws, tolerance=tolerance, possible=possible,  # type: ignore[arg-type]
        )  # fmt: skip
    except OutOfReachError as error:
        raise contradiction_error(error, forest, system, of_sums) from error


def contradiction_error(error: OutOfReachError, forest: Forest, system: System, of_sums: Entries) -> InvariantError:
    """Return an error that names the sums, or the cell, for which the published numbers leave no possible value."""
    names = _names(system, of_sums)
    faulty = [names[int(row)] for row in np.flatnonzero(forest.of_row[: len(names)] == error.node)[:2]]
    known, parts = " and ".join(map(repr, faulty)), "the published numbers of its parts, or their bounds"
    known = known or "the total"
    if error.cell is not None:
        cell = f"the cell at {system.frame.cell(error.cell)}"
        known, parts = (known, f"the published numbers of {cell}") if faulty else (cell, "its bounds")
    return InvariantError(
        f"the information on {known} contradicts {parts} within the support of the noise. Correct a value, or the "
        "scale of a law"
    )


SUMS = 4000  # maximum number of noisy sums that are preserved jointly by lattice moves


def measured_moves(plan: SupportMoves, data: Measurements) -> Moves:
    """Add to the moves that connect a fiber transfers within sums of a part, and moves that preserve all sums."""
    connected, d, A = plan.moves, data.frame.size, data.public.A
    families = list(connected.families)
    base = sum(weight for _, weight, _ in families) or 1.0
    held, reasons = [A] if A.shape[0] else [], [connected.reason]
    for part, stated in zip(data.parts, data.stated, strict=True):
        matrix = part.matrix
        if (np.diff(matrix.indptr) <= 1).all():
            continue
        held.append(matrix)
        # transfers between the cells of each sum, if the sums of a part are disjoint
        parts_cells = matrix.nnz == np.unique(matrix.indices).size and (matrix.data == 1).all()
        if parts_cells and not A.shape[0]:
            owner = np.full(d, matrix.shape[0])
            owner[matrix.indices] = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
            inside = np.flatnonzero(owner < matrix.shape[0])
            members = inside[np.argsort(owner[inside], kind="stable")]
            sizes = np.bincount(owner[inside], minlength=matrix.shape[0])
            sizes = sizes[sizes > 0]
            if (sizes > 1).any():
                transfers = Transfers(np.arange(members.size), sizes)
                families.append((Placed(transfers, members, d), base, False))
                name = "; ".join(map(str, stated.statement))
                reasons.append(f"transfers between cells of one sum preserve {name}, whose noise may be narrow.")
    # moves that preserve all sums
    together = sp.csr_array(sp.vstack(held, format="csr")) if held else None
    if together is not None and together.shape[0] <= SUMS:
        moves = plan.with_sums(together, data.shape)
        if moves.families:
            families.append((Placed(moves, np.arange(d), d), base, False))
            reasons.append(f"moves that preserve all {together.shape[0]:,} noisy and exact sums of several cells.")
    return replace(connected, families=families, reason=" As often: ".join(reasons))


TAIL = 1e-12  # probability that any noise exceeds its support radius
TABLE_TAIL = 1e-100  # the same probability for a tabulated entry
TABULATED = 2**24  # maximum number of log weights of tabulated sums: 128 MB


class _ByCell:
    """Weights of the counts of each cell by all measurements of the single cell."""

    def __init__(self, entries: Entries, d: int, unknown: Forms = ()) -> None:
        self.entries, self.d, self.cells, self.unknown = entries, d, entries.matrix.indices, unknown

    def log_weight(self, y: object, x: Any, *scales: TensorVariable) -> Symbolic:
        """Return log weights of counts, shape (d, n); given scales of the noise, their difference to these."""
        if scales:
            return log_ratios(self.entries, self.unknown, x, *scales)
        counts = np.broadcast_to(x, (self.d, np.shape(x)[1]))
        log_weights = np.zeros(counts.shape)
        np.add.at(log_weights, self.cells, self.entries.log_weights(counts[self.cells]))
        return log_weights


class ObservedMeasurements(Observed):
    """Observation of everything published about a table."""

    published: Measurements

    def __init__(self, measurements: Measurements, *, learns_scales: bool = False) -> None:
        entries, unknown = at_wide_scales(measurements.entries, learns_scales)
        self.entries, self.unknown = entries, unknown
        self.published, self.frame, self.system = measurements, measurements.frame, measurements.public
        others = abs(entries.matrix - (entries.matrix == 1).astype(np.int64)).sum(axis=1)  # entries other than 1
        alone = (np.diff(entries.matrix.indptr) == 1) & (np.asarray(others).ravel() == 0)
        for form, rows in entries.forms:
            alone[rows] &= form.is_independent
        for form, _, rows in unknown:
            for row in rows[~alone[rows]][:1]:
                raise ModelError(
                    f"the scale of the {form.kind.name} noise of {entries.names[int(row)]!r}, a sum of several cells, "
                    "must be a number: only scales of noise of single cells are learned"
                )
        self.of_cells, self.of_sums = entries.only(np.flatnonzero(alone)), entries.only(np.flatnonzero(~alone))
        self.noisy = xr.DataArray(entries.y, dims=["measurement"])
        self._stated = measurements.entries.only(np.flatnonzero(alone))
        place = np.cumsum(alone) - 1
        of_cells = [(form, wide, place[rows]) for form, wide, rows in unknown]
        scales = NoiseScales(tuple(form.scale for form, _, _ in unknown)) if unknown else None
        self._by_cell = _ByCell(self.of_cells, self.frame.size, of_cells)
        self.likelihood = Likelihood(self._by_cell, 0, scales)  # type: ignore[arg-type]

    @cached_property
    def forest(self) -> Forest | None:
        """Forest of all sums with exact values, bounds or noise, if they nest."""
        return forest_of_sums(self.system, self.of_sums)

    def nested(self, lower: Integers, width: int) -> NestedSums | None:
        """Return the forest of exact, bounded and noisy sums, if they nest and groups are not sufficient."""
        return self.in_forest(lower, width) if self.of_sums.y.size or self.crossing() else None

    def in_forest(self, lower: Integers, width: int) -> NestedSums | None:
        """Return the forest of all sums; None if they cross."""
        if self.forest is None:
            return None
        return nested_sums(self.forest, self.system, self.of_sums, lower, width)

    def contradiction(self, error: OutOfReachError) -> InvariantError:
        """Return an error that names the contradictory published numbers."""
        assert self.forest is not None, "only nested sums are evaluated"
        return contradiction_error(error, self.forest, self.system, self.of_sums)

    @property
    def _tail_probability(self) -> float:
        return TAIL / max(self.published.entries.y.size, 1)

    def without_information(self, nonnegative: Flags) -> Flags:
        """Return cells on which no measurement, no exact sum and no bound depends."""
        return without_information(self.system, self.published.entries.matrix.indices, nonnegative)

    def truncation(self, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """Return the range of counts by the noise of all measurements of a cell, jointly with the public bounds."""
        entries, cells = self.of_cells, self.of_cells.matrix.indices
        lower, upper = joint_reach(entries, cells, self._tail_probability, low, high)
        # a window that ends where a law excludes all further counts contains one of these counts
        first, last = intersection(cells, *entries.support_bounds(0.0), self.frame.size)
        lower, upper = np.where(lower == first, first - 1, lower), np.where(upper == last, last + 1, upper)
        return np.maximum(lower, low - 1), np.minimum(upper, high + 1)

    def tail_inequalities(self, low: Reals, high: Reals) -> tuple[sp.csr_array, Integers]:
        """Bound sums by the support radius of the noise of all their measurements."""
        if not self.of_sums.y.size:
            return super().tail_inequalities(low, high)
        return self._within(*self._reach_of_sums(self._tail_probability, low, high))

    @cached_property
    def hard_inequalities(self) -> tuple[sp.csr_array, Integers]:
        """Bound sums by the support of their laws."""
        return self._within(*self.of_sums.support_bounds(0.0))

    @property
    def hard_names(self) -> Sequence[str]:
        """Names of the sums, first of those with a smallest value, then of those with a largest value."""
        ends = [np.flatnonzero(np.isfinite(end)) for end in self.of_sums.support_bounds(0.0)]
        return Joined([Chosen(self.of_sums.names, rows) for rows in ends])

    @cached_property
    def _groups(self) -> Integers:
        """Index of the sum that each entry of several cells measures."""
        return groups_of_rows(self.of_sums.matrix)

    def _reach_of_sums(self, tail_probability: float, low: Reals, high: Reals) -> tuple[Reals, Reals]:
        """Return the range of the sum of each entry of several cells, given the possible counts of all cells."""
        groups = self._groups
        one = np.unique(groups, return_index=True)[1]
        ends = possible_sums(self.system, low, high, self.of_sums.matrix[one])
        lower, upper = joint_reach(self.of_sums, groups, tail_probability, *ends)
        return lower[groups], upper[groups]

    def _within(self, low: Reals, high: Reals) -> tuple[sp.csr_array, Integers]:
        Q = self.of_sums.matrix
        below, above = np.flatnonzero(np.isfinite(low)), np.flatnonzero(np.isfinite(high))
        B = sp.csr_array(sp.vstack([Q[below], -Q[above]], format="csr"))
        return B, np.concatenate([np.floor(low[below]), -np.ceil(high[above])]).astype(np.int64)

    def coupling(self, lower: Integers, width: int) -> NoiseNorm | MeasuredSums | None:
        """Return the measurements of several cells."""
        entries, y = self.of_sums, self.of_sums.y.astype(np.float64)
        k = y.size
        if not k:
            return None
        precision, rate = np.zeros(k), np.zeros(k)
        first, size = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
        tabulated, mixtures = [], []
        for form, rows in entries.forms:
            if form.mixture_rate is not None:
                mixtures.append((rows, form.mixture_rate))
                precision[rows] = form.mixture_rate**2 / rows.size
            elif form.log_quadratic is None or all(form.log_quadratic):
                tabulated.append(rows)
            else:
                rate[rows], precision[rows] = form.log_quadratic
        # tabulate the log weights of sums with other than Gaussian noise
        if tabulated:
            rows = np.sort(np.concatenate(tabulated))
            first[rows], size[rows] = self._values(rows, lower, width)
        ends = np.concatenate([[0], np.cumsum(size)])
        if ends[-1] > TABULATED:
            raise ModelError(
                f"noisy sums have {ends[-1]:,} possible values, above the limit of {TABULATED:,}: make bounds of the "
                "cells public if they hold, or use a prior that restricts the size of the counts"
            )
        log_weights = np.empty(int(ends[-1]))
        for row in np.flatnonzero(size):
            values = first[row] + np.arange(size[row])
            log_weights[ends[row] : ends[row + 1]] = entries.only(np.array([row])).log_weights(values[None])[0]
        return MeasuredSums(sp.csc_array(entries.matrix), y, precision, rate, ends, first, log_weights, tuple(mixtures))

    def _values(self, rows: Integers, lower: Integers, width: int) -> tuple[Integers, Integers]:
        """Return first value and number of values of sums, within the noise radius and the windows of cells."""
        Q, last = self.of_sums.matrix[rows], lower + width - 1
        low, high = self._reach_of_sums(TABLE_TAIL, lower.astype(np.float64), last.astype(np.float64))
        up, down = Q.maximum(0), Q.minimum(0)
        smallest, largest = up @ lower + down @ last, up @ last + down @ lower
        first = np.maximum(low[rows], smallest).astype(np.int64)
        return first, np.maximum(np.minimum(high[rows], largest).astype(np.int64) - first + 1, 1)

    def gaussian_cells(self) -> Reals:
        """Return the precision of every cell by Gaussian noise of the single cell, shape (d,); 0 without any."""
        precisions, entries = np.zeros(self.frame.size), self.of_cells
        for form, rows in entries.forms:
            if form.log_quadratic is not None:
                np.add.at(precisions, entries.matrix.indices[rows], form.log_quadratic[1])
        return precisions

    def moves(self, plan: SupportMoves, coupling: NoiseNorm | MeasuredSums | None) -> Moves:
        """Add moves that preserve noisy sums, for each combination of sums that moves can preserve."""
        return measured_moves(plan, self.published) if isinstance(coupling, MeasuredSums) else plan.moves

    def nearest_reals(self, lowest: Integers, highest: Integers) -> Reals:
        """Return weighted least squares of all published numbers, weighted by the radius of their noise."""
        entries = self.entries
        low, high = entries.support_bounds()
        bounded = np.isfinite(low) & np.isfinite(high)
        weight = 1 / (1 + high[bounded] - low[bounded])
        middle = (lowest + highest) / 2
        slight = 1e-3 / (1.0 + highest - lowest)  # regularization to the middle for cells without information
        rows = sp.vstack([sp.diags_array(weight) @ entries.matrix[bounded], sp.diags_array(slight)], format="csr")
        goal = np.concatenate([weight * (low[bounded] + high[bounded]) / 2, slight * middle])
        return np.clip(lsmr(rows, goal)[0], lowest, highest)

    def log_density(self, y: TensorVariable, x: TensorVariable, *auxiliary: TensorVariable) -> TensorVariable:
        """Return the log weight of published numbers given a table; ``-inf`` if it violates an exact statement."""
        system, entries = self.system, self.entries

        def log_weight(cells: Integers) -> float:
            if (system.A @ cells != system.values).any():
                return -np.inf
            return float(entries.log_weights(entries.matrix @ cells).sum())

        log_density = of_table(log_weight, x)
        if auxiliary:
            log_density += self.log_counts(x[:, None], *auxiliary).sum()
        return pt.switch(pt.all(pt.eq(y, self.y)), log_density, -np.inf)

    @cached_property
    def log_constant(self) -> float | None:
        """The constants of all laws, or of all releases, whose noise keeps public sums."""
        if self.published.releases:
            constants = [release.likelihood.constant() for release in self.published.releases]
            return None if None in constants else sum(constants)  # type: ignore[arg-type]
        return sum(form.log_total(rows.size) for form, rows in self.published.entries.forms)

    def log_constants(self) -> Reals:
        """Return the shares by all releases, or by all measurements of single cells."""
        shares = np.zeros(self.frame.size)
        if self.published.releases:
            return shares + sum(ObservedRelease(one, self.frame).log_constants() for one in self.published.releases)
        for form, rows in self._stated.forms:
            np.add.at(shares, self._stated.matrix.indices[rows], form.log_total(1))
        return shares

    def draw(self, cells: Integers, rng: np.random.Generator, scales: Reals | None = None) -> Array:
        """Measure tables again; releases preserve the sums that their mechanisms preserve."""
        entries, releases = self.entries, self.published.releases
        if scales is not None:
            sums = (cells @ entries.matrix.T)[:, None]
            return np.concatenate([self._at(one).publish(s, rng) for s, one in zip(sums, scales, strict=True)])
        if releases:
            again = [ObservedRelease(release, self.frame).draw(cells, rng) for release in releases]
            return np.concatenate([noisy.reshape(len(cells), -1) for noisy in again], axis=1)
        return entries.publish(cells @ entries.matrix.T, rng)

    def _at(self, scales: Reals) -> Entries:
        """Return the entries with stated scales."""
        laws = {id(wide): form.at(float(s)) for (form, wide, _), s in zip(self.unknown, scales, strict=True)}
        forms = tuple((laws.get(id(form), form), rows) for form, rows in self.entries.forms)
        return replace(self.entries, forms=forms)

    def with_numbers(self, values: Array) -> ObservedMeasurements:
        """Return the observation of other numbers with the same laws; exact statements do not change."""
        published, ends = self.published, np.cumsum([part.y.size for part in self.published.parts])[:-1]
        by_part: list[Any] = np.split(values, ends)
        if published.releases:
            again = [
                ObservedRelease(release, self.frame).with_numbers(y.reshape(release.shape)).published
                for release, y in zip(published.releases, by_part, strict=True)
            ]
            return ObservedMeasurements(Measurements.of_releases(again))
        other = copy(published)
        other.parts = [replace(one, y=y.astype(one.y.dtype)) for one, y in zip(published.parts, by_part, strict=True)]
        other.__dict__.pop("entries", None)
        return ObservedMeasurements(other, learns_scales=True)
