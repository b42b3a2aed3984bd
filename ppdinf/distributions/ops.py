"""PyTensor Ops of densities of tables: values and gradients in compiled code."""

from __future__ import annotations

import hashlib
import pickle
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numba
import numpy as np
import pytensor
import pytensor.tensor as pt
from numba import types
from pytensor.tensor import as_tensor, dscalar

from ppdinf._internal.kernel_op import CallbackOp
from ppdinf._internal.numba_jit import External, pointers
from ppdinf._internal.pymc_compat import (
    Apply,
    DisconnectedType,
    Op,
    TensorVariable,
    Variable,
    disconnected_type,
    numba_njit,
    register_funcify_and_cache_key,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.distributions.weight_forms import GammaForm
from ppdinf.errors import ModelError
from ppdinf.fiber.gamma_ratios import PARAMETERS
from ppdinf.fiber.gamma_sums import SIZES as GAMMA_SIZES
from ppdinf.fiber.gamma_sums import pack as pack_ratios
from ppdinf.fiber.gamma_sums import ratios_through_pointers
from ppdinf.fiber.nested_sums.nested_sums import NestedSums
from ppdinf.fiber.node_plans import no_nodes, plan_nodes
from ppdinf.fiber.sums_given_totals.value_and_gradient import SIZES, TOTALS, through_pointers

# cached by their inputs while a graph exists: PyMC requests the density of a model several times
_in_graphs: WeakValueDictionary[bytes, TensorVariable] = WeakValueDictionary()
_recent: deque[TensorVariable] = deque(maxlen=2)  # also cached without a graph, up to `MOST_RECENT` bytes each
MOST_RECENT = 2**23


def shared_constants(inputs: object, compute: Callable[[], Integers]) -> TensorVariable:
    """Put constants in a graph, which are computed once from their inputs while a graph contains them."""
    key = hashlib.sha256(pickle.dumps(inputs)).digest()
    shared = _in_graphs.get(key)
    if shared is None:
        constants = compute()
        shared = _in_graphs[key] = pytensor.shared(constants, name="fixed", borrow=True)
        if constants.nbytes <= MOST_RECENT:
            _recent.append(shared)
    return shared


class StopGradient(CallbackOp):
    """Identity without a gradient."""

    __props__ = ()
    view_map: ClassVar[dict[int, list[int]]] = {0: [0]}

    def make_node(self, x: TensorVariable) -> Apply:
        """Apply to one variable; the output has the same type."""
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[Array | None]]) -> None:
        """Return the input."""
        outputs[0][0] = inputs[0]

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Return the shape of the input."""
        return shapes

    def perform_jax(self, x: Any) -> Any:
        """Return the input, without a gradient, in JAX."""
        from jax.lax import stop_gradient

        return stop_gradient(x)

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Return that the output is not connected to the input."""
        return [[False]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return a disconnected gradient."""
        return [disconnected_type()]


stop_gradient = StopGradient()


@register_funcify_default_op_cache_key(StopGradient)
def _stop_gradient_numba(op: StopGradient, node: Apply, **kwargs: object) -> tuple[Callable[[Array], Array], int]:
    @numba_njit
    def identity(x):  # type: ignore[no-untyped-def]
        return x

    return identity, 1


# a function of cells that are integers or real numbers, as stored in the table
type OfCells = Callable[[Integers], float] | Callable[[Reals], float]


class _OfTable(Op):
    """Map one table to one number, without a gradient because tables are integers."""

    __props__ = ("function",)

    def __init__(self, function: OfCells) -> None:
        self.function = function

    def make_node(self, x: TensorVariable) -> Apply:
        """Apply to one table; the output is a scalar."""
        return Apply(self, [as_tensor(x)], [dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[Reals | None]]) -> None:
        """Compute the number."""
        outputs[0][0] = np.asarray(self.function(inputs[0].ravel()))


def of_table(function: OfCells, x: TensorVariable) -> TensorVariable:
    """Apply a function of cells, shape (d,), to a symbolic table."""
    return _OfTable(function)(x)


@register_funcify_and_cache_key(_OfTable)
def _of_table_numba(op: _OfTable, node: Apply, **kwargs: object) -> tuple[Callable[[Array], Reals], None]:
    def number(x: Array) -> float:
        return float(op.function(x.ravel()))

    @numba_njit
    def evaluate(x):  # type: ignore[no-untyped-def]
        with numba.objmode(value="float64"):
            value = number(x)
        return np.asarray(value)

    return evaluate, None  # excluded from PyTensor's disk cache: the published numbers are part of the function


MISFIT = "weights and natural parameters must have the same number of cells, and each cell a total and a row of weights"

# maps the Op's inputs to its outputs
type Kernel = Callable[..., tuple[Reals, Reals]]


STEP = 1e-5  # of differences of posteriors, in units of log weights and their parameters


def along(op: Op, inputs: Sequence[Variable], varying: int, direction: TensorVariable) -> TensorVariable:
    """Return the derivative in a direction of an Op's second output, a gradient, by central differences."""
    largest = abs(direction).max()
    step = STEP / pt.switch(largest > 0, largest, 1.0)
    ahead, behind = (
        op(*inputs[:varying], inputs[varying] + sign * step * direction, *inputs[varying + 1 :])[1] for sign in (1, -1)
    )
    return (ahead - behind) / (2 * step)


class CellSums(CallbackOp):
    """Log weights of all tables with given totals, and for each cell the posterior that is their gradient."""

    # the first input varies; the second has all constants, from `blocks` on the total of each cell

    blocks: ClassVar[int]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Only the first input is differentiable."""
        return [[True, True], *([False, False] for _ in node.inputs[1:])]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return the posterior of each cell times the gradient of its total, and derivatives of posteriors."""
        varying, packed, *_ = inputs
        gradient = pt.zeros_like(outputs[1])
        if not isinstance(cotangents[0].type, DisconnectedType):
            block = packed[self.blocks : self.blocks + varying.shape[0]]
            gradient = cotangents[0][block][:, None] * outputs[1]  # block -1 is the last entry, that of the free cells
        gradient = gradient[:, 0] if varying.ndim == 1 else gradient
        if not isinstance(cotangents[1].type, DisconnectedType):
            direction = cotangents[1][:, 0] if varying.ndim == 1 else cotangents[1]
            second = along(self, inputs, 0, direction)
            gradient += second[:, 0] if varying.ndim == 1 else second
        return [gradient, *(disconnected_type() for _ in inputs[1:])]


class SumsGivenTotals(CellSums):
    """Log coefficients, with the posterior means (``as_means``) or marginals of the cells."""

    __props__ = ("as_means",)
    blocks = SIZES

    def __init__(self, as_means: bool) -> None:
        self.as_means = as_means

    def make_node(self, varying: pt.TensorLike, packed: pt.TensorLike, *totals: pt.TensorLike) -> Apply:
        """Apply to a vector or matrix of float64, and one or two vectors of int64."""
        inputs = [pt.as_tensor(varying).astype("float64"), *(pt.as_tensor(x, dtype="int64") for x in (packed, *totals))]
        for x, ndim in zip(inputs, (1 if self.as_means else 2, 1, 1), strict=False):
            if x.type.ndim != ndim:
                raise ModelError(f"{x} must have {ndim} dimensions, found {x.type.ndim}")
        shape = (inputs[0].type.shape[0], 1) if self.as_means else inputs[0].type.shape
        return Apply(self, inputs, [pt.dvector(), pt.tensor(dtype="float64", shape=shape)])

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: list[list[Reals | None]]) -> None:
        """Evaluate in compiled code."""
        varying, packed, *totals = (np.ascontiguousarray(x) for x in inputs)
        rows, width = varying.shape[0], 1 if self.as_means else varying.shape[1]
        value, out = np.zeros(packed[TOTALS] + 1), np.zeros((rows, width))
        goal = totals[0] if totals else packed[SIZES + 3 * rows :]
        fits = goal.size >= packed[TOTALS] and _SUMS_KERNEL.provide().ctypes(
            *pointers(varying, packed, goal), rows, width, packed.size, self.as_means, *pointers(value, out)
        )
        if not fits:
            raise ModelError(MISFIT)
        output_storage[0][0], output_storage[1][0] = value, out

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable | int, ...]]:
        """Return shapes from the numbers of totals and of cells."""
        return [(node.inputs[1][TOTALS] + 1,), (shapes[0][0], 1 if self.as_means else shapes[0][1])]


# -- numba ----------------------------------------------------------------------------------------------

_REALS, _INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
_SUMS_SIGNATURE = types.int64(_REALS, _INTEGERS, _INTEGERS, *[types.int64] * 3, types.boolean, _REALS, _REALS)
_SUMS_KERNEL = External("ppdinf_sums_given_totals", _SUMS_SIGNATURE, through_pointers)
_sums_given_totals = _SUMS_KERNEL.call


@register_funcify_default_op_cache_key(SumsGivenTotals)
def _compiled_sums(op: SumsGivenTotals, node: Apply, **kwargs: object) -> tuple[Kernel, int]:
    _SUMS_KERNEL.provide()
    as_means = op.as_means

    @numba_njit
    def with_totals(varying, packed, totals):  # type: ignore[no-untyped-def]
        width, number = 1 if as_means else varying.shape[1], packed[TOTALS]
        value, out = np.zeros(number + 1), np.zeros((varying.shape[0], width))
        arrays = np.ascontiguousarray(varying), np.ascontiguousarray(packed), np.ascontiguousarray(totals)
        fits = totals.size >= number and _sums_given_totals(
            arrays[0].ctypes, arrays[1].ctypes, arrays[2].ctypes, varying.shape[0], width, packed.size, as_means,
            value.ctypes, out.ctypes,
        )  # fmt: skip
        if not fits:
            raise ModelError(MISFIT)
        return value, out

    if len(node.inputs) == 3:
        return with_totals, 10

    @numba_njit
    def sums_given_totals(varying, packed):  # type: ignore[no-untyped-def]
        return with_totals(varying, packed, packed[SIZES + 3 * varying.shape[0] :])

    return sums_given_totals, 10


class GammaSums(CellSums):
    """Log coefficients and posterior means of the derivatives of log weights."""

    __props__ = ()
    blocks = GAMMA_SIZES

    def make_node(self, parameters: pt.TensorLike, packed: pt.TensorLike) -> Apply:
        """Apply to a matrix of float64 and a vector of int64."""
        inputs = [pt.as_tensor(parameters).astype("float64"), pt.as_tensor(packed, dtype="int64")]
        return Apply(self, inputs, [pt.dvector(), pt.tensor(dtype="float64", shape=inputs[0].type.shape)])

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: list[list[Reals | None]]) -> None:
        """Evaluate in compiled code."""
        parameters, packed = (np.ascontiguousarray(x) for x in inputs)
        value, out = np.zeros(packed[TOTALS] + 1), np.zeros(parameters.shape)
        arrays, kernel = (pointers(parameters, packed), pointers(value, out)), _GAMMA_KERNEL.provide().ctypes
        sizes = parameters.shape[0], packed.size
        if parameters.shape[1] != PARAMETERS or not kernel(*arrays[0], *sizes, *arrays[1]):
            raise ModelError(MISFIT)
        output_storage[0][0], output_storage[1][0] = value, out

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable | int, ...]]:
        """Return shapes from the numbers of totals and of cells."""
        return [(node.inputs[1][TOTALS] + 1,), shapes[0]]


_GAMMA_SIGNATURE = types.int64(_REALS, _INTEGERS, *[types.int64] * 2, _REALS, _REALS)
_GAMMA_KERNEL = External("ppdinf_gamma_sums", _GAMMA_SIGNATURE, ratios_through_pointers)
_gamma_sums = _GAMMA_KERNEL.call


@register_funcify_default_op_cache_key(GammaSums)
def _compiled_gamma_sums(op: GammaSums, node: Apply, **kwargs: object) -> tuple[Kernel, int]:
    _GAMMA_KERNEL.provide()
    columns = PARAMETERS

    @numba_njit
    def gamma_sums(parameters, packed):  # type: ignore[no-untyped-def]
        value, out = np.zeros(packed[TOTALS] + 1), np.zeros((parameters.shape[0], columns))
        arrays = np.ascontiguousarray(parameters), np.ascontiguousarray(packed)
        fits = parameters.shape[1] == columns and _gamma_sums(
            arrays[0].ctypes, arrays[1].ctypes, parameters.shape[0], packed.size, value.ctypes, out.ctypes
        )
        if not fits:
            raise ModelError(MISFIT)
        return value, out

    return gamma_sums, 4


def logp_gamma(form: GammaForm, total: Integers, block: Integers) -> TensorVariable:
    """Return the log weight of all tables with given totals of blocks of cells, -1 for cells without a total."""
    cells = form.has, form.span, form.segment

    def constants() -> Integers:
        nodes = no_nodes(block.size, total.size)
        if form.ends is not None:
            nodes = plan_nodes(*cells, *form.ends, block, total.size)
        return pack_ratios(form.has, form.segment, form.span, total, block, nodes)

    packed = shared_constants((*cells, form.ends, total, block), constants)
    return GammaSums()(form.parameters, packed)[0].sum() + form.constant


class NestedWeight(CallbackOp):
    """Log total weight of all tables, with posterior means (``as_means``) or marginals of the cells."""

    __props__ = ("plan", "as_means")

    def __init__(self, plan: NestedSums, as_means: bool) -> None:
        self.plan, self.as_means = plan, as_means

    def make_node(self, log_weights: pt.TensorLike, eta: pt.TensorLike) -> Apply:
        """Apply to a matrix and a vector of float64."""
        inputs = [pt.as_tensor(log_weights).astype("float64"), pt.as_tensor(eta).astype("float64")]
        out = inputs[1] if self.as_means else inputs[0]
        return Apply(self, inputs, [pt.dscalar(), pt.tensor(dtype="float64", shape=out.type.shape)])

    def values(self, log_weights: Reals, eta: Reals) -> tuple[float, Reals]:
        """Evaluate; posteriors are 0 if every table has weight 0."""
        sums = self.plan.evaluate(log_weights.ravel(), eta if self.as_means else None)
        value = float(sums.value.sum())
        if not np.isfinite(value):
            return value, np.zeros(eta.shape if self.as_means else log_weights.shape)
        posteriors = sums.posteriors()
        return value, posteriors.cell_mean if self.as_means else posteriors.log_weight.reshape(log_weights.shape)

    def perform(self, node: Apply, inputs: Sequence[Reals], output_storage: list[list[Reals | None]]) -> None:
        """Evaluate in compiled code."""
        value, out = self.values(*(np.ascontiguousarray(x) for x in inputs))
        output_storage[0][0], output_storage[1][0] = np.asarray(value), out

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Return shapes from those of the inputs."""
        return [(), shapes[1] if self.as_means else shapes[0]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Natural parameters (means) or log weights (marginals) are differentiable."""
        return [[not self.as_means] * 2, [self.as_means] * 2]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return posterior marginals for the log weights, posterior means for the natural parameters."""
        gradients = [disconnected_type() for _ in inputs]
        varying = 1 if self.as_means else 0
        gradients[varying] = pt.zeros_like(outputs[1])
        if not isinstance(cotangents[0].type, DisconnectedType):
            gradients[varying] = cotangents[0] * outputs[1]
        if not isinstance(cotangents[1].type, DisconnectedType):
            gradients[varying] += along(self, inputs, varying, cotangents[1])
        return gradients


@register_funcify_and_cache_key(NestedWeight)
def _compiled_nested(
    op: NestedWeight, node: Apply, **kwargs: object
) -> tuple[Callable[[Reals, Reals], tuple[Reals, Reals]], None]:
    out_type = numba.types.Array(numba.types.float64, 1 if op.as_means else 2, "C")

    def values(log_weights: Reals, eta: Reals) -> tuple[float, Reals]:
        value, out = op.values(np.ascontiguousarray(log_weights), np.ascontiguousarray(eta))
        return value, np.ascontiguousarray(out)

    @numba_njit
    def nested_weight(log_weights, eta):  # type: ignore[no-untyped-def]
        with numba.objmode(value="float64", out=out_type):
            value, out = values(log_weights, eta)
        return np.asarray(value), out

    return nested_weight, None  # excluded from PyTensor's disk cache: the sums are part of the function


def logp_nested_table(plan: NestedSums, log_weights: pt.TensorLike) -> TensorVariable:
    """Return the log weight of all tables, differentiable in log weights of every cell and value, shape (d, W)."""
    table = pt.as_tensor(log_weights)
    return NestedWeight(plan, as_means=False)(table, pt.zeros(table.shape[0]))[0]


def logp_nested_natural(plan: NestedSums, eta: pt.TensorLike, log_h: pt.TensorLike) -> TensorVariable:
    """Return the log weight of all tables for weights ``exp(log_h[i, k] + eta[i] x)``; differentiable in eta, (d,)."""
    return NestedWeight(plan, as_means=True)(log_h, eta)[0]
