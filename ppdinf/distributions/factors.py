"""Densities of what depends on a confidential table, taken apart by cell.

Deaths that are binomial in a county's cases, an outcome whose exposure is a count, a potential: each multiplies the law
of the table by a factor f(x). Where every element of log f looks at one cell, the sums of the elements by cell are
further log weights of its counts, and the table can be summed out with them, or walked by exact full conditionals. To
see which cell an element looks at, the numbers of the cells are sent through the graph of log f in place of the counts
(`cells_of`): operations on elements, broadcasting, indexing and reshaping keep them apart; others mix cells, and then f
is a function of the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._pymc_internals import (
    Add,
    AdvancedSubtensor,
    Alloc,
    Apply,
    CAReduce,
    CheckParameterValue,
    DimShuffle,
    Elemwise,
    Join,
    JoinDims,
    LogSumExp,
    MakeVector,
    Mul,
    Neg,
    Reshape,
    Shape,
    Shape_i,
    SpecifyShape,
    SplitDims,
    Sub,
    Subtensor,
    Sum,
    TensorVariable,
    TrueDiv,
    Variable,
    ViewOp,
    ancestors,
    graph_inputs,
    graph_replace,
    toposort,
    vectorize_graph,
)

__all__ = ["Factor", "cells_of", "elements"]

NONE = -1  # of an element that looks at no cell
ONCE = pytensor.Mode(linker="py", optimizer=None)  # whole numbers, evaluated once: nothing is gained by rewriting first

# what takes elements of its first input, or puts them elsewhere, as the rest of its inputs say
_MOVES = (
    DimShuffle, Subtensor, AdvancedSubtensor, Reshape, SpecifyShape, Alloc, JoinDims, SplitDims,
)  # fmt: skip


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
    cells : array of int64, shape of the density
        Number of the cell that each element looks at; -1 for none.
    """

    density: TensorVariable
    table: TensorVariable
    size: int
    cells: NDArray[np.int64]

    def by_cell(self, counts: TensorVariable) -> TensorVariable:
        """Log density of every count of every cell, symbolic, shape (d, width).

        Parameters
        ----------
        counts : TensorVariable, shape (width, *table shape)
        """
        width, d = counts.shape[0], self.size
        every = vectorize_graph(self.density, {self.table: counts}).reshape((width, self.cells.size)).T
        seen = np.flatnonzero(self.cells.ravel() != NONE)
        if np.array_equal(self.cells.ravel(), np.arange(d)):
            return every
        return pt.zeros((d, width))[self.cells.ravel()[seen]].inc(every[seen])

    def apart(self, start: NDArray[np.int64]) -> TensorVariable | float:
        """Log density of the elements that look at no cell, symbolic; the table is one of any counts."""
        none = np.flatnonzero(self.cells.ravel() == NONE)
        if not none.size:
            return 0.0
        (density,) = graph_replace([self.density], {self.table: pt.constant(start)}, strict=False)
        return density.ravel()[none].sum()


def elements(density: TensorVariable, table: TensorVariable) -> TensorVariable:
    """Return numbers that add up to a log density, as far as its being a sum tells how a table enters it.

    Examples
    --------
    >>> x = pt.lvector("x")
    >>> elements(3 - 0.5 * (x**2).sum() - x[0], x).eval({x: [1, 4]})
    array([ 3. , -0.5, -8. , -1. ])
    """
    terms = _terms(density, table)
    return terms[0] if len(terms) == 1 else pt.concatenate([term.reshape((-1,)) for term in terms])


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


def cells_of(
    density: TensorVariable,
    table: TensorVariable,
    shape: tuple[int, ...],
    given: Callable[[], Mapping[Variable, Variable]] | None = None,
) -> NDArray[np.int64] | None:
    """Tell which cell of a table each element of a graph looks at.

    Parameters
    ----------
    density : TensorVariable
    table : TensorVariable
    shape : tuple of int
        Of the table.
    given : callable, optional
        Returns values of all inputs of the graph, of which the shapes are read. Asked where these are not known.

    Returns
    -------
    array of int64, shape of `density`, or None
        Numbers of cells, -1 where an element looks at none. None if an element looks at several, or may.

    Examples
    --------
    >>> x = pt.lvector("x")
    >>> cells_of(pt.log(x)[[2, 0]] + 1, x, (3,)), cells_of(x.cumsum(), x, (3,)) is None
    (array([2, 0]), True)
    """
    known = {table: pt.constant(np.arange(math.prod(shape)).reshape(shape))}
    mixed: list[TensorVariable] = []
    relevant = _valued(density)
    for node in toposort([density], blockers=[table]):
        which = [known.get(x) for x in node.inputs]
        if node not in relevant or all(x is None for x in which):
            continue
        numbers = _through(node, which, mixed)
        if numbers is None:
            return None
        known[node.outputs[0]] = numbers
    if density not in known:
        return None
    found = [known[density], pt.stack([*mixed, pt.constant(False)]).any()]
    if given and set(given()) & set(graph_inputs(found)):
        found = graph_replace(found, given(), strict=False)
    cells, conflict = pytensor.function([], found, mode=ONCE)()
    return None if conflict else np.asarray(cells, dtype=np.int64)


def _valued(density: TensorVariable) -> set[Apply]:
    """Find the operations whose values a graph depends on: not those that only give shapes, or raise errors."""
    found, ahead = set(), [density.owner]
    while ahead:
        node = ahead.pop()
        if node is None or node in found or isinstance(node.op, Shape | Shape_i):
            continue
        found.add(node)
        inputs = node.inputs[:1] if isinstance(node.op, CheckParameterValue) else node.inputs
        ahead.extend(x.owner for x in inputs)
    return found


def _none_like(x: TensorVariable) -> TensorVariable:
    return pt.full_like(x, NONE, dtype="int64")


def _through(node: Apply, which: list[TensorVariable | None], mixed: list[TensorVariable]) -> TensorVariable | None:
    """Send numbers of cells through one operation; None if it may mix cells. Adds conditions under which it does."""
    op, (first, *rest) = node.op, which
    if isinstance(op, Elemwise) and len(node.outputs) == 1:
        numbers = pt.constant(np.int64(NONE))
        for cells, x in zip(which, node.inputs, strict=True):
            cells = _none_like(x) if cells is None else cells
            mixed.append(pt.any(pt.neq(numbers, cells) & pt.neq(numbers, NONE) & pt.neq(cells, NONE)))
            numbers = pt.maximum(numbers, cells)
        return numbers
    if isinstance(op, ViewOp | CheckParameterValue):
        return first
    if isinstance(op, CAReduce | LogSumExp):
        keep = node.outputs[0].ndim == node.inputs[0].ndim
        most = pt.max(first, axis=op.axis, keepdims=keep)
        other = pt.switch(pt.eq(first, NONE), np.iinfo(np.int64).max, first)
        mixed.append(pt.any(pt.neq(most, NONE) & pt.neq(most, pt.min(other, axis=op.axis, keepdims=keep))))
        return most
    if isinstance(op, _MOVES) and all(cells is None for cells in rest):
        return op(first, *node.inputs[1:])
    if isinstance(op, Join | MakeVector):
        filled = [_none_like(x) if cells is None else cells for cells, x in zip(which, node.inputs, strict=True)]
        return op(*filled) if isinstance(op, Join) else pt.stack(filled)
    return None
