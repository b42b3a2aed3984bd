"""Densities of what depends on a confidential table, taken apart by cell.

Deaths that are binomial in a county's cases, an outcome whose exposure is a count, a potential: each multiplies the law
of the table by a factor f(x). Where every element of log f looks at one cell
(`ppdinf.distributions.densities.constant_indices`), the sums of the elements by cell are further log weights of its
counts, and the table can be summed out with them, or walked by exact full conditionals. Otherwise f is a function of
the whole table.
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
    DimShuffle,
    Elemwise,
    Mul,
    Neg,
    Sub,
    Sum,
    TensorVariable,
    TrueDiv,
    ancestors,
    graph_replace,
    vectorize_graph,
)
from ppdinf.distributions.densities.constant_indices import NONE, cells_of

__all__ = ["Factor", "factors_in", "read_cells"]


class Factor(NamedTuple):
    """A log density whose elements look at one cell of the table each.

    Attributes
    ----------
    density : TensorVariable
        A function of `table`, of any shape.
    table : TensorVariable
        Stands for the counts, d of them.
    size : int
        Number of cells d.
    cells : array of int64, dimensions of the density
        Number of the cell that each element looks at; -1 for none. Of length 1 where all along a dimension look at the
        same.
    """

    density: TensorVariable
    table: TensorVariable
    size: int
    cells: NDArray[np.int64]

    def by_cell(self, counts: TensorVariable) -> TensorVariable | float:
        """Log density of every count of every cell, symbolic, shape (d, width).

        Parameters
        ----------
        counts : TensorVariable, shape (width, *table shape)
        """
        width, cells = counts.shape[0], self.cells.ravel()
        seen = np.flatnonzero(cells != NONE)
        if not seen.size:
            return 0.0
        every = _added_up(vectorize_graph(self.density, {self.table: counts}), self.cells.shape)
        every = every.reshape((width, cells.size)).T
        if np.array_equal(cells, np.arange(self.size)):
            return every
        return pt.zeros((self.size, width))[cells[seen]].inc(every[seen])

    def apart(self, start: NDArray[np.int64]) -> TensorVariable | float:
        """Log density of the elements that look at no cell, symbolic; the table is one of any counts."""
        none = np.flatnonzero(self.cells.ravel() == NONE)
        if not none.size:
            return 0.0
        (density,) = graph_replace([self.density], {self.table: pt.constant(start)}, strict=False)
        return _added_up(density, self.cells.shape).ravel()[none].sum()


def read_cells(by_cell: Sequence[Factor], of_all: Sequence[TensorVariable], size: int) -> NDArray[np.bool_]:
    """Tell which cells of a table densities depend on, shape (size,); all where one depends on several at once."""
    found = np.full(size, len(of_all) > 0)
    for factor in by_cell:
        found[factor.cells[factor.cells != NONE]] = True
    return found


def _added_up(density: TensorVariable, shape: tuple[int, ...]) -> TensorVariable:
    """Add elements up along the last dimensions, those where a shape has length 1."""
    lead = density.ndim - len(shape)
    alike = [lead + k for k, n in enumerate(shape) if n == 1 and density.type.shape[lead + k] != 1]
    return density.sum(axis=alike, keepdims=True) if alike else density


def factors_in(density: TensorVariable, table: TensorVariable, shape: tuple[int, ...]) -> list[Factor] | None:
    """Take a log density apart by cell; None where an element looks at several cells, or may.

    Parameters
    ----------
    density : TensorVariable
        Its elements are added up, and a sum is taken for its terms.
    table : TensorVariable
    shape : tuple of int
        Of the table.

    Examples
    --------
    >>> x = pt.lvector("x")
    >>> [factor.cells.tolist() for factor in factors_in(3 - 0.5 * (x**2).sum() - x[0], x, (2,))]
    [-1, [0, 1], 0]
    """
    terms = _terms(density, table)
    cells = [cells_of(term, table, shape) for term in terms]
    size = math.prod(shape)
    found = [Factor(x, table, size, known) for x, known in zip(terms, cells, strict=True) if known is not None]
    return found if len(found) == len(terms) else None


def _terms(x: TensorVariable, table: TensorVariable) -> list[TensorVariable]:
    """Graphs whose elements add up to the sum of all elements of another."""
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
