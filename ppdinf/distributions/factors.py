"""Densities of dependents of a confidential table, split by the cell on which each element depends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp

from ppdinf._internal.pymc_compat import (
    Add,
    AdvancedSubtensor,
    All,
    Alloc,
    Apply,
    CAReduce,
    Cast,
    CheckAndRaise,
    CheckParameterValue,
    Constant,
    DimShuffle,
    Elemwise,
    Join,
    JoinDims,
    LogAddExp,
    LogSumExp,
    MakeVector,
    Mul,
    Neg,
    RandomType,
    Reshape,
    ScalarFromTensor,
    Shape,
    Shape_i,
    SharedVariable,
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
    indices_from_subtensor,
    toposort,
    vectorize_graph,
)
from ppdinf._internal.values import Array, Flags, Integers
from ppdinf.distributions.data_models import constant
from ppdinf.distributions.marginal_logp import fixed
from ppdinf.errors import ModelError
from ppdinf.lattice.kernel import Lattice

CHANGED = (
    "data of the distribution or of an index of the confidential table have changed since this function was compiled. "
    "Its windows of counts were computed from the earlier data: compile it again, as pm.sample and compile_logp do"
)
NONE = -1  # index of an element that depends on no cell


def cell_indices(density: TensorVariable, table: TensorVariable, shape: tuple[int, ...]) -> Integers | None:
    """Return the cell of a table on which each element of a graph depends."""
    known: dict[Variable, Integers] = {table: np.arange(math.prod(shape)).reshape(shape)}
    relevant = _valued(density)
    # the length 1 of a table with unknown lengths would be taken for a dimension in which indices are constant
    sized: dict[Variable, Variable] = {table: table.type.clone(shape=shape)()}
    for node in toposort([density], blockers=[table]):
        which, with_lengths = [known.get(x) for x in node.inputs], node
        if any(x in sized for x in node.inputs):
            with_lengths = node.clone_with_new_inputs([sized.get(x, x) for x in node.inputs], strict=False)
            sized.update(zip(node.outputs, with_lengths.outputs, strict=True))
        if node not in relevant or all(x is None for x in which):
            continue
        numbers = _through(with_lengths, which)
        if numbers is None:
            return None
        known[node.outputs[0]] = numbers
    return known.get(density, np.full((1,) * density.ndim, NONE))


def _valued(density: TensorVariable) -> set[Apply]:
    """Return the operations whose values a graph depends on, without those that only give shapes or raise errors."""
    nodes, ahead = set(), [density.owner]
    while ahead:
        node = ahead.pop()
        if node is None or node in nodes or isinstance(node.op, Shape | Shape_i):
            continue
        nodes.add(node)
        inputs = node.inputs[:1] if isinstance(node.op, CheckParameterValue) else node.inputs
        ahead.extend(x.owner for x in inputs)
    return nodes


def _through(node: Apply, which: list[Integers | None]) -> Integers | None:
    """Propagate indices of cells through one operation; None if it may mix cells."""
    op, (first, *remaining), out = node.op, which, node.outputs[0]
    if len(node.outputs) > 1:
        return None
    if isinstance(op, Elemwise | LogAddExp):
        return _together([x for x in which if x is not None])
    if isinstance(op, Join | MakeVector):
        axis, joined = (op.axis, which) if isinstance(op, Join) else (0, [x if x is None else x[None] for x in which])
        lengths = [x.type.shape[axis] if isinstance(op, Join) else 1 for x in node.inputs]
        return _joined(joined, lengths, axis, out.ndim)
    if first is None or any(x is not None for x in remaining):
        return None
    if isinstance(op, ViewOp | CheckParameterValue | SpecifyShape):
        return first
    if isinstance(op, CAReduce | LogSumExp):
        return _reduced(first, op.axis, keepdims=out.ndim == first.ndim)
    if isinstance(op, DimShuffle):
        retained = [axis for axis in op.new_order if axis != "x"]
        lengths = [1 if axis == "x" else first.shape[axis] for axis in op.new_order]
        return first.transpose([*retained, *(axis for axis in range(first.ndim) if axis not in retained)]).reshape(
            lengths
        )
    if isinstance(op, Alloc):
        return first.reshape((1,) * (out.ndim - first.ndim) + first.shape)
    if isinstance(op, Subtensor | AdvancedSubtensor):
        return _taken(first, indices_from_subtensor(node.inputs[1:], op.idx_list))
    if isinstance(op, Reshape | JoinDims | SplitDims):
        return _reshaped(first, node)
    return None


def _together(parts: Sequence[Integers]) -> Integers | None:
    """Return broadcast indices of elements computed from several inputs; None if two indices meet."""
    numbers = parts[0]
    for other in parts[1:]:
        if ((numbers != other) & (numbers != NONE) & (other != NONE)).any():
            return None
        numbers = np.maximum(numbers, other)
    return numbers


def _reduced(numbers: Integers, axis: int | Sequence[int] | None, keepdims: bool) -> Integers | None:
    """Return indices of sums along axes; None if two indices meet."""
    axes = tuple(range(numbers.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    end = np.iinfo(np.int64).max
    upper = np.asarray(np.max(numbers, axis=axes, keepdims=True, initial=NONE))
    lower = np.min(np.where(numbers == NONE, end, numbers), axis=axes, keepdims=True, initial=end)
    if ((upper != NONE) & (upper != lower)).any():
        return None
    return upper if keepdims else upper.squeeze(axes)


def _joined(parts: Sequence[Integers | None], lengths: Sequence[int | None], axis: int, ndim: int) -> Integers | None:
    """Return indices of joined parts; None if a required length is unknown."""
    spread = []
    for part, length in zip(parts, lengths, strict=True):
        numbers = np.full((1,) * ndim, NONE) if part is None else part
        if numbers.shape[axis] == 1:
            if length is None:
                return None
            numbers = np.repeat(numbers, length, axis=axis)
        spread.append(numbers)
    remaining = np.broadcast_shapes(*(np.delete(numbers.shape, axis) for numbers in spread))
    shapes = [(*remaining[:axis], numbers.shape[axis], *remaining[axis:]) for numbers in spread]
    return np.concatenate([np.broadcast_to(x, shape) for x, shape in zip(spread, shapes, strict=True)], axis=axis)


def _taken(numbers: Integers, entries: Sequence[slice | Variable]) -> Integers | None:
    """Return indices of an indexed array; None if an index along which they vary is not constant."""
    index: list[slice | int | Array] = []
    axis = 0
    for entry in entries:
        over = entry.ndim if not isinstance(entry, slice) and entry.dtype == "bool" else 1
        lengths = numbers.shape[axis : axis + over]
        axis += over
        if set(lengths) <= {1}:  # the cell is the same for every index
            index += [slice(None)] if isinstance(entry, slice) else [_first_of(entry)] * over
        elif isinstance(entry, slice):
            ends = [None if x is None else _settled(_at_present(x)) for x in (entry.start, entry.stop, entry.step)]
            given = [x is not None for x in (entry.start, entry.stop, entry.step)]
            if any(requested and end is None for requested, end in zip(given, ends, strict=True)):
                return None
            index.append(slice(*(None if end is None else int(end) for end in ends)))
        else:
            values = _settled(_at_present(entry))
            if values is None:
                return None
            if values.dtype != bool:
                index.append(int(values) if values.ndim == 0 else values)
            elif all(n in (1, m) for n, m in zip(lengths, values.shape, strict=True)):
                index += [taken if n > 1 else 0 * taken for n, taken in zip(lengths, np.nonzero(values), strict=True)]
            else:
                return None
    return np.asarray(numbers[tuple(index)])


def _first_of(entry: Variable) -> int | Array:
    """Return the first index, with the dimensions of another index."""
    ndim = 1 if entry.dtype == "bool" else getattr(entry, "ndim", 0)
    return np.zeros((1,) * ndim, dtype=np.int64) if ndim else 0


def _reshaped(numbers: Integers, node: Apply) -> Integers | None:
    """Return indices in another shape; None if shapes are unknown and indices vary."""
    before, out, op = node.inputs[0], node.outputs[0], node.op
    lengths = [known if length == 1 else length for length, known in zip(numbers.shape, before.type.shape, strict=True)]
    if isinstance(op, JoinDims):
        requested: Array | None = np.array([-1 if n is None else n for n in out.type.shape])
    else:
        requested = _settled(node.inputs[1])
    if isinstance(op, SplitDims) and requested is not None and None not in lengths:
        requested = np.array([*lengths[: op.axis], *requested, *lengths[op.axis + 1 :]])
    if requested is not None and None not in lengths and (requested == -1).sum() <= 1:
        return np.broadcast_to(numbers, lengths).reshape(requested)
    return (
        np.full((1,) * out.ndim, numbers.ravel()[0]) if numbers.size and (numbers == numbers.ravel()[0]).all() else None
    )


def data_of(expressions: Sequence[Variable]) -> list[SharedVariable]:
    """Return the data that expressions contain."""
    leaves = dict.fromkeys(graph_inputs(expressions))
    return [x for x in leaves if isinstance(x, SharedVariable) and not isinstance(x.type, RandomType)]


def _at_present(index: Variable) -> Variable:
    """Return an index given the present values of data."""
    present = {x: pt.constant(x.get_value()) for x in data_of([index])}
    return graph_replace([index], present, strict=False)[0] if present else index


def equals(data: SharedVariable, values: Array) -> TensorVariable:
    """Return the condition that data have the given values, for every shape of the data."""
    same_shape = pt.all(pt.eq(data.shape, np.array(values.shape, dtype=np.int64)))
    known = fixed(values.ravel(), "data_of_windows")
    given = pt.concatenate([data.ravel(), pt.zeros(values.size, dtype=data.dtype)])[: values.size]
    same = pt.eq(given, known)
    if values.dtype.kind == "f":
        same = pt.or_(same, pt.and_(pt.isnan(given), pt.isnan(known)))
    return pt.and_(same_shape, pt.all(same))


def _settled(x: Variable) -> Array | None:
    """Return the value of a constant index or shape, or None."""
    if isinstance(x, Constant):
        return np.asarray(x.data)
    sizes = {
        node.outputs[0]: pt.constant(np.array(node.inputs[0].type.shape))
        for node in toposort([x])
        if isinstance(node.op, Shape) and None not in node.inputs[0].type.shape
    }
    value = constant(graph_replace([x], sizes, strict=False)[0] if sizes else x)
    return None if value is None else np.asarray(value)


class CellFactor(NamedTuple):
    """A log density whose elements each depend on a single cell of the table."""

    density: TensorVariable
    table: TensorVariable
    size: int
    cells: Integers
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

    def constant_part(self, start: Integers) -> TensorVariable | float:
        """Return the log density of elements that depend on no cell, symbolic; any counts can be substituted."""
        none = np.flatnonzero(self.cells.ravel() == NONE)
        if not none.size:
            return 0.0
        (density,) = graph_replace([self.density], {self.table: pt.constant(start)}, strict=False)
        return _added_up(density, self.cells.shape).ravel()[none].sum()


def read_cells(by_cell: Sequence[CellFactor], of_all: Sequence[TensorVariable], size: int) -> Flags:
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
        indexed = [x for x in toposort([term], blockers=[table]) if isinstance(x.op, Subtensor | AdvancedSubtensor)]
        data = data_of([x for node in indexed if table in ancestors(node.inputs[:1]) for x in node.inputs[1:]])
        if data:  # by which the density selects cells
            unchanged = pt.all([equals(x, np.asarray(x.get_value())) for x in data])
            term = CheckAndRaise(ModelError, CHANGED)(term, unchanged)
        term = pt.switch(pt.isnan(term), -np.inf, term) if excludes else term
        factors.append(CellFactor(term, table, size, cells, excludes))
    return factors


def with_exact_sums(
    density: TensorVariable, table: TensorVariable, start: Integers, lattice: Lattice
) -> TensorVariable:
    """Replace sums of cells that are equal for all tables of the fiber of `start` by their values."""
    sums = [x for x in toposort([density], blockers=[table]) if isinstance(x.op, Sum)]
    exact = [x.outputs[0] for x in sums if _is_exact(x, table, start.shape, lattice)]
    of_start = graph_replace(exact, {table: pt.constant(start)}, strict=False)
    known = {x: constant(y) for x, y in zip(exact, of_start, strict=True)}  # None if an index is a variable
    values = {x: pt.constant(value, dtype=x.dtype) for x, value in known.items() if value is not None}
    return graph_replace([density], values, strict=False)[0]


def _is_exact(node: Apply, table: TensorVariable, shape: tuple[int, ...], lattice: Lattice) -> bool:
    """Return whether sums of cells are 0 for every difference of two tables of a fiber."""
    (x,), axis = node.inputs, node.op.axis
    cells = cell_indices(x, table, shape) if _are_cells(x, table) else None
    if cells is None:
        return False
    outer = [1 if axis is None or k in axis else n for k, n in enumerate(cells.shape)]
    rows = np.broadcast_to(np.arange(math.prod(outer)).reshape(outer), cells.shape).ravel()
    sums = sp.csr_array((np.ones(cells.size), (rows, cells.ravel())), shape=(math.prod(outer), math.prod(shape)))
    return not (sums @ lattice.basis).count_nonzero()


def _are_cells(x: Variable, table: TensorVariable) -> bool:
    """Return whether the elements of a graph are cells of a table."""
    if x is table or x.owner is None:
        return x is table
    is_cast = isinstance(x.owner.op, Elemwise) and isinstance(x.owner.op.scalar_op, Cast)
    moves = isinstance(x.owner.op, DimShuffle | Reshape | Subtensor | AdvancedSubtensor)
    return (moves or (is_cast and x.dtype in ("int64", "float64"))) and _are_cells(x.owner.inputs[0], table)


def elementwise_checks(density: TensorVariable, table: TensorVariable) -> TensorVariable:
    """Return a log density that is nan in the elements with impossible parameters, if these depend on the table."""
    for node in toposort([density], blockers=[table]):
        if not isinstance(node.op, CheckParameterValue) or not node.op.can_be_replaced_by_ninf:
            continue
        element, *checks = node.inputs
        conditions = [condition for check in checks for condition in _conditions(check)]
        of_table = [x for x in conditions if table in ancestors([x])]
        if of_table:
            common = [x for x in conditions if x not in of_table]
            possible = node.op(element, pt.all([pt.all(x) for x in common])) if common else element
            within = [tuple(range(element.ndim, x.ndim)) for x in of_table]  # dimensions of one variate or its weights
            of_table = [x.all(axis=axes) if axes else x for x, axes in zip(of_table, within, strict=True)]
            by_element = pt.switch(math.prod(of_table[1:], start=of_table[0]), possible, np.nan)
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
