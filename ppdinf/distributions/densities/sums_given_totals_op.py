"""PyTensor Op of sums given their totals: value and gradient in compiled code.

Gradients are posterior marginals and posterior means of the counts (Fisher's identity). The same pass computes them and
the value, so the Op returns both, and the pullback uses its second output.

References
----------
R. A. Fisher (1925), "Theory of statistical estimation", Proc. Camb. Phil. Soc. 22, for the identity
``d log p(y | theta) = E[d log p(x, y | theta) | y]``.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor.tensor as pt
from numba import types
from numpy.typing import NDArray

from ppdinf._internal.jax_callback import CallbackOp
from ppdinf._internal.numba_jit import External, pointers
from ppdinf._internal.pymc_compat import (
    Apply,
    DisconnectedType,
    Op,
    Variable,
    disconnected_type,
    grad_not_implemented,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.types import Array
from ppdinf.errors import ModelError
from ppdinf.fiber.sums_given_totals.packed_sums import SIZES, TOTALS, through_pointers

MISFIT = "weights and natural parameters must have the same number of cells, and each cell a total and a row of weights"

# maps the Op's inputs to its outputs
type Kernel = Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]]


def no_second_derivative(op: Op, position: int, x: Variable) -> Variable:
    """Return the gradient of a gradient of a marginal likelihood, which raises an error that names the way out."""
    why = (
        "Second derivatives of the likelihood of a marginalized table, which DADVI and the Laplace approximation "
        "require, are not available: use pm.sample or pm.fit"
    )
    missing: Variable = grad_not_implemented(op, position, x, why)
    return missing


class SumsGivenTotals(CallbackOp):
    """Log coefficients, with the posterior means (``as_means``) or marginals of the cells."""

    __props__ = ("as_means",)

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

    def perform(
        self, node: Apply, inputs: Sequence[Array], output_storage: list[list[NDArray[np.float64] | None]]
    ) -> None:
        """Evaluate in compiled code."""
        varying, packed, *totals = (np.ascontiguousarray(x) for x in inputs)
        rows, width = varying.shape[0], 1 if self.as_means else varying.shape[1]
        value, out = np.zeros(packed[TOTALS] + 1), np.zeros((rows, width))
        goal = totals[0] if totals else packed[SIZES + 3 * rows :]
        fits = goal.size >= packed[TOTALS] and _EXTERNAL.provide().ctypes(
            *pointers(varying, packed, goal), rows, width, packed.size, self.as_means, *pointers(value, out)
        )
        if not fits:
            raise ModelError(MISFIT)
        output_storage[0][0], output_storage[1][0] = value, out

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable | int, ...]]:
        """Return shapes from the numbers of totals and of cells."""
        return [(node.inputs[1][TOTALS] + 1,), (shapes[0][0], 1 if self.as_means else shapes[0][1])]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Natural parameters (means) or log weights (marginals) are differentiable, other inputs are constant."""
        return [[True, True], *([False, False] for _ in node.inputs[1:])]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return posterior marginals for the log weights, posterior means for the natural parameters."""
        varying, packed, *totals = inputs
        fixed = [disconnected_type() for _ in (packed, *totals)]
        if not isinstance(cotangents[1].type, DisconnectedType):
            return [no_second_derivative(self, 0, varying), *fixed]
        block = packed[SIZES : SIZES + varying.shape[0]]
        by_cell = cotangents[0][block]  # block -1 is the last entry, that of the free cells
        return [by_cell * outputs[1][:, 0] if self.as_means else by_cell[:, None] * outputs[1], *fixed]


# -- numba ----------------------------------------------------------------------------------------------

_REALS, _INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
_SIGNATURE = types.int64(_REALS, _INTEGERS, _INTEGERS, *[types.int64] * 3, types.boolean, _REALS, _REALS)
_EXTERNAL = External("ppdinf_sums_given_totals", _SIGNATURE, through_pointers)
_sums_given_totals = _EXTERNAL.call


@register_funcify_default_op_cache_key(SumsGivenTotals)
def _compiled(op: SumsGivenTotals, node: Apply, **kwargs: object) -> tuple[Kernel, int]:
    _EXTERNAL.provide()
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
        return with_totals, 9

    @numba_njit
    def sums_given_totals(varying, packed):  # type: ignore[no-untyped-def]
        return with_totals(varying, packed, packed[SIZES + 3 * varying.shape[0] :])

    return sums_given_totals, 9
