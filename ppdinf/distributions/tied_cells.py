"""Cells that exact sums tie to each other: one integer for each group of tied cells, and sums of the integers.

If exact sums cross, a table may still have few free integers: in a 2 x 2 table with known margins all cells move
together. Let ``z_i = g_i s_k`` for all cells i of a group k and all integer z with ``A z = 0``
(`ppdinf.lattice.Structure`). The tables with the exact sums are ``x = x0 + G s`` with ``A G s = 0``. The log
weights of the cells of a group add up to weights of its integer, and sums over s replace sums over x. The sums
``A G s`` must be nested or disjoint.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.values import Integers, Reals
from ppdinf.distributions.observed import Observed
from ppdinf.distributions.observed_measurements import ObservedMeasurements, forest_of_sums, nested_sums
from ppdinf.fiber.nested_sums.join_tree import Forest
from ppdinf.fiber.nested_sums.nested_sums import NestedSums
from ppdinf.invariants import System
from ppdinf.lattice import Structure
from ppdinf.lattice.rows import Rows
from ppdinf.measurements.entries import Entries

INFINITE = 2000.0  # replaces infinite natural parameters: a positive count at rate 0 has probability exp(-2000)


@dataclass(frozen=True, eq=False)
class TiedCells:
    """The group of each cell, its step per unit of the group's integer, and exact and noisy sums of integers."""

    group: Integers
    step: Integers
    measured: sp.csr_array
    system: System
    noisy: Entries
    sign: Integers
    forest: Forest

    @classmethod
    def of(cls, observed: Observed) -> TiedCells | None:
        """Return the ties of a table if other sums cross, and no sums of the integers of its groups do."""
        system, d = observed.system, observed.frame.size
        if isinstance(observed, ObservedMeasurements):
            noisy = observed.of_sums
            if observed.forest is not None:
                return None
        else:
            noisy = Entries(sp.csr_array((0, d), dtype=np.int64), [], np.zeros(0), ())
            if not observed.crossing():
                return None
        group, step = _groups(system.structure)
        r = int(group.max()) + 1
        if r == d and step.all():
            return None
        G = sp.csr_array((step, (np.arange(d), group)), shape=(d, r))
        bounds = _nonzero(system.B[np.diff(system.B.indptr) > 1] @ G)
        exact = _nonzero(system.A @ G)
        exact = _scaled(exact[np.diff(exact.indptr) > 0])
        measured = _scaled(_nonzero(noisy.matrix @ G))
        if bounds.nnz or exact is None or measured is None:
            return None
        ones, sign = measured
        if (np.abs(sign) != 1).any():
            return None
        zeros = np.zeros(exact[0].shape[0], dtype=np.int64)
        names = [f"sum {k}" for k in range(zeros.size)]
        no_bounds = {"B": bounds[:0], "limits": zeros[:0], "bound_names": []}
        reduced = replace(system, A=exact[0], values=zeros, names=names, **no_bounds)
        entries = replace(noisy, matrix=ones)
        forest = forest_of_sums(reduced, entries)
        if forest is None:
            return None
        return cls(group, step, noisy.matrix, reduced, entries, sign, forest)


def _groups(structure: Structure) -> tuple[Integers, Integers]:
    """Return the group of each cell, and the step of each cell; the step of a determined cell is 0."""
    _, group = np.unique(structure.tied_to, return_inverse=True)
    numerator, denominator = structure.tied_ratio.T
    unit = np.ones(group.max() + 1, dtype=np.int64)
    np.lcm.at(unit, group, denominator)
    return group, np.where(structure.fixed, 0, unit[group] // denominator * numerator)


def _nonzero(rows: sp.csr_array) -> sp.csr_array:
    rows = sp.csr_array(rows)
    rows.eliminate_zeros()
    return rows


def _scaled(rows: sp.csr_array) -> tuple[sp.csr_array, Integers] | None:
    """Return rows of ones and their factors; None if the entries of a row differ, or a row is empty."""
    sizes = np.diff(rows.indptr)
    if not sizes.all():
        return None
    factor = rows.data[rows.indptr[:-1]].astype(np.int64)
    if (rows.data != np.repeat(factor, sizes)).any():
        return None
    return sp.csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape), factor


class Lines:
    """The integers of the groups of tied cells within the windows of the cells, from a table with the exact sums."""

    def __init__(self, ties: TiedCells, origin: Integers, lower: Integers, width: int) -> None:
        self.ties, self.origin, self._width = ties, origin, width
        moving = np.flatnonzero(ties.step)
        group, step = ties.group[moving], ties.step[moving]
        below, above = (lower - origin)[moving], (lower + width - 1 - origin)[moving]
        up = step > 0
        least = -(np.where(up, -below, -above) // step)
        most = np.where(up, above, below) // step
        r = int(ties.group.max()) + 1
        far = np.iinfo(np.int64).max
        self.lower, upper = np.full(r, -far), np.full(r, far)
        np.maximum.at(self.lower, group, least)
        np.minimum.at(upper, group, most)
        alone = upper == far  # determined cells
        self.lower[alone] = upper[alone] = 0
        self.width = int((upper - self.lower).max()) + 1
        integers = self.lower[:, None] + np.arange(self.width)
        self._inside = integers <= upper[:, None]
        moved = ties.step[:, None] * integers[ties.group]
        column = (origin - lower)[:, None] + moved
        self._column = np.where(self._inside[ties.group], column, 0)

    @property
    def groups(self) -> tuple[Integers, Integers]:
        """Return the sum that contains each integer, -1 for none, and the value 0 of each sum."""
        return self.ties.forest.node, np.zeros(self.ties.forest.parent.size, dtype=np.int64)

    @cached_property
    def nested(self) -> NestedSums | None:
        """Forest of exact and noisy sums of the integers, unless these are disjoint exact sums."""
        ties = self.ties
        if not ties.noisy.y.size and (ties.forest.parent < 0).all():
            return None
        place = ties.measured @ self.origin, ties.sign
        return nested_sums(ties.forest, ties.system, ties.noisy, self.lower, self.width, place=place)

    def weights(self, of_cells: TensorVariable) -> TensorVariable:
        """Add the log weights of the counts of the cells of each group, shape (d, width), symbolic."""
        gathered = pt.as_tensor(of_cells)[np.arange(self._column.shape[0])[:, None], self._column]
        added = pt.zeros(self._inside.shape)[self.ties.group].inc(gathered)
        return pt.switch(self._inside, added, -np.inf)

    def natural(
        self, eta: TensorVariable, log_normaliser: TensorVariable, log_h: Rows[np.float64]
    ) -> tuple[TensorVariable, TensorVariable, Rows[np.float64]]:
        """Return an exponential family of the cells as one of the integers of the groups."""
        eta = pt.switch(pt.isinf(eta), pt.sign(eta) * INFINITE, eta)
        of_groups = pt.zeros(self.lower.size)[self.ties.group].inc(self.ties.step * eta)
        return of_groups, log_normaliser - self.origin * eta, Rows.each(self.added(log_h.whole))

    def added(self, of_cells: Reals) -> Reals:
        """Add numbers as `weights` does."""
        result = np.zeros(self._inside.shape)
        np.add.at(result, self.ties.group, np.take_along_axis(of_cells, self._column, axis=1))
        return np.where(self._inside, result, -np.inf)

    def of_cells(self, of_integers: Reals) -> Reals:
        """Return probabilities of the counts of the cells, shape (d, width), from those of the integers."""
        inside, result = self._inside[self.ties.group], np.zeros((self.origin.size, self._width))
        rows = np.broadcast_to(np.arange(self.origin.size)[:, None], inside.shape)
        np.add.at(result, (rows, self._column), np.where(inside, of_integers[self.ties.group], 0.0))
        return result

    def tables(self, integers: Integers) -> Integers:
        """Return tables of shape (n, d) from the integers of the groups."""
        return np.asarray(self.origin + self.ties.step * integers[:, self.ties.group])
