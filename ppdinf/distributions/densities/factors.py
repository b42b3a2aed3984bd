"""Densities of dependents of a confidential table, split by cell.

Binomial deaths among a county's cases, an outcome whose exposure is a count, or a potential multiplies the posterior of
the table by a factor f(x). If every element of log f depends on a single cell
(`ppdinf.distributions.densities.constant_indices`), the sums of the elements by cell are further log weights of its
counts. The table can then be marginalized or sampled by exact full conditionals. Otherwise f is a function of the
complete table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import (
    Add,
    All,
    CheckParameterValue,
    DimShuffle,
    Elemwise,
    Join,
    MakeVector,
    Mul,
    Neg,
    ScalarFromTensor,
    Sub,
    Sum,
    TensorVariable,
    TrueDiv,
    ancestors,
    graph_replace,
    toposort,
    vectorize_graph,
)
from ppdinf.distributions.densities.constant_indices import NONE, cell_indices


class CellFactor(NamedTuple):
    """A log density whose elements each depend on a single cell of the table."""

    density: TensorVariable
    table: TensorVariable
    size: int
    cells: NDArray[np.int64]
    excludes: bool

    def by_cell(self, counts: TensorVariable) -> TensorVariable | float:
        """Return the log density of every count of every cell, symbolic, shape (d, width)."""
        width, cells = counts.shape[0], self.cells.ravel()
        read = np.flatnonzero(cells != NONE)
        if not read.size:
            return 0.0
        every = _added_up(vectorize_graph(self.density, {self.table: counts}), self.cells.shape)
        every = every.reshape((width, cells.size)).T
        if np.array_equal(cells, np.arange(self.size)):
            return every
        return pt.zeros((self.size, width))[cells[read]].inc(every[read])

    def constant_part(self, start: NDArray[np.int64]) -> TensorVariable | float:
        """Return the log density of elements that depend on no cell, symbolic; any counts can be substituted."""
        none = np.flatnonzero(self.cells.ravel() == NONE)
        if not none.size:
            return 0.0
        (density,) = graph_replace([self.density], {self.table: pt.constant(start)}, strict=False)
        return _added_up(density, self.cells.shape).ravel()[none].sum()


def read_cells(by_cell: Sequence[CellFactor], of_all: Sequence[TensorVariable], size: int) -> NDArray[np.bool_]:
    """Return a mask of cells on which densities depend, shape (size,); all cells if a density depends on several."""
    mask = np.full(size, len(of_all) > 0)
    for factor in by_cell:
        mask[factor.cells[factor.cells != NONE]] = True
    return mask


def _added_up(density: TensorVariable, shape: tuple[int, ...]) -> TensorVariable:
    """Sum elements over the last dimensions in which a shape has length 1."""
    lead = density.ndim - len(shape)
    repeated = [lead + k for k, n in enumerate(shape) if n == 1 and density.type.shape[lead + k] != 1]
    return density.sum(axis=repeated, keepdims=True) if repeated else density


def factors_in(density: TensorVariable, table: TensorVariable, shape: tuple[int, ...]) -> list[CellFactor] | None:
    """Split a log density by cell; None if an element depends on several cells or may do so."""
    size, factors = math.prod(shape), []
    by_count = elementwise_checks(density, table)
    for term in _terms(by_count, table):
        cells = cell_indices(term, table, shape)
        if cells is None:
            return None
        excludes = by_count is not density
        term = pt.switch(pt.isnan(term), -np.inf, term) if excludes else term
        factors.append(CellFactor(term, table, size, cells, excludes))
    return factors


def elementwise_checks(density: TensorVariable, table: TensorVariable) -> TensorVariable:
    """Return a log density that is nan in the elements with impossible parameters, if these depend on the table."""
    for node in toposort([density], blockers=[table]):
        if not isinstance(node.op, CheckParameterValue) or not node.op.can_be_replaced_by_ninf:
            continue
        element, *checks = node.inputs
        conditions = [condition for check in checks for condition in _conditions(check)]
        own = [x for x in conditions if table in ancestors([x])]
        if own:
            common = [x for x in conditions if x not in own]
            possible = node.op(element, pt.all([pt.all(x) for x in common])) if common else element
            within = [tuple(range(element.ndim, x.ndim)) for x in own]  # dimensions of one variate or of its weights
            own = [x.all(axis=axes) if axes else x for x, axes in zip(own, within, strict=True)]
            by_element = pt.switch(math.prod(own[1:], start=own[0]), possible, np.nan)
            (density,) = graph_replace([density], {node.outputs[0]: by_element}, strict=False)
            return elementwise_checks(density, table)
    return density


def _conditions(check: TensorVariable) -> list[TensorVariable]:
    """Return the elementwise conditions that a check requires together."""
    if check.owner is not None and isinstance(check.owner.op, All | MakeVector | Join | ScalarFromTensor):
        return [condition for x in check.owner.inputs for condition in _conditions(x)]
    return [check]


def _terms(x: TensorVariable, table: TensorVariable) -> list[TensorVariable]:
    """Return graphs whose elements sum to the sum of all elements of the given graph."""
    if x.owner is None:
        return [x]
    op, inputs = x.owner.op, x.owner.inputs
    if isinstance(op, Sum) or (isinstance(op, DimShuffle) and x.ndim == 0):
        return _terms(inputs[0], table)
    if x.ndim or not isinstance(op, Elemwise):
        return [x]
    if isinstance(op.scalar_op, Add):
        return [term for part in inputs for term in _terms(part, table)]
    if isinstance(op.scalar_op, Sub):
        return [*_terms(inputs[0], table), *(-term for term in _terms(inputs[1], table))]
    if isinstance(op.scalar_op, Neg):
        return [-term for term in _terms(inputs[0], table)]
    looking = [k for k, part in enumerate(inputs) if table in ancestors([part])]
    if looking == [0] and isinstance(op.scalar_op, TrueDiv):
        return [term / inputs[1] for term in _terms(inputs[0], table)]
    if len(looking) == 1 and isinstance(op.scalar_op, Mul):
        others = math.prod(part for k, part in enumerate(inputs) if k not in looking)
        return [term * others for term in _terms(inputs[looking[0]], table)]
    return [x]
