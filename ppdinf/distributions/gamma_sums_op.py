"""PyTensor Op of sums of cells whose log weights are ratios of gamma functions: value and gradient in compiled code."""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt
from numba import types
from numpy.typing import NDArray

from ppdinf._internal.kernel_op import CallbackOp
from ppdinf._internal.numba_jit import External, pointers
from ppdinf._internal.pymc_compat import (
    Apply,
    DisconnectedType,
    TensorVariable,
    Variable,
    disconnected_type,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.values import Array
from ppdinf.distributions.ops import MISFIT, no_second_derivative
from ppdinf.distributions.weight_forms import GammaForm
from ppdinf.errors import ModelError
from ppdinf.fiber.sums_of_gamma_ratios.gamma_ratios import PARAMETERS
from ppdinf.fiber.sums_of_gamma_ratios.gamma_sums import SIZES, TOTALS, pack, ratios_through_pointers

# maps the Op's inputs to its outputs
type Kernel = Callable[[NDArray[np.float64], NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.float64]]]


class GammaSums(CallbackOp):
    """Log coefficients and posterior means of the derivatives of log weights."""

    __props__ = ()

    def make_node(self, parameters: pt.TensorLike, packed: pt.TensorLike) -> Apply:
        """Apply to a matrix of float64 and a vector of int64."""
        inputs = [pt.as_tensor(parameters).astype("float64"), pt.as_tensor(packed, dtype="int64")]
        return Apply(self, inputs, [pt.dvector(), pt.tensor(dtype="float64", shape=inputs[0].type.shape)])

    def perform(
        self, node: Apply, inputs: Sequence[Array], output_storage: list[list[NDArray[np.float64] | None]]
    ) -> None:
        """Evaluate in compiled code."""
        parameters, packed = (np.ascontiguousarray(x) for x in inputs)
        value, out = np.zeros(packed[TOTALS] + 1), np.zeros(parameters.shape)
        sizes = parameters.shape[0], packed.size
        if not _EXTERNAL.provide().ctypes(*pointers(parameters, packed), *sizes, *pointers(value, out)):
            raise ModelError(MISFIT)
        output_storage[0][0], output_storage[1][0] = value, out

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable | int, ...]]:
        """Return shapes from the numbers of totals and of cells."""
        return [(node.inputs[1][TOTALS] + 1,), shapes[0]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Parameters are differentiable."""
        return [[True, True], [False, False]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return posterior means of the derivatives of log weights (Fisher's identity)."""
        parameters, packed = inputs
        if not isinstance(cotangents[1].type, DisconnectedType):
            return [no_second_derivative(self, 0, parameters), disconnected_type()]
        block = packed[SIZES : SIZES + parameters.shape[0]]  # block -1 is the last entry, that of the free cells
        return [cotangents[0][block][:, None] * outputs[1], disconnected_type()]


def logp_gamma(form: GammaForm, total: NDArray[np.int64], block: NDArray[np.int64]) -> TensorVariable:
    """Return the log weight of all tables with given totals of blocks of cells, -1 for cells without a total."""
    packed = pytensor.shared(pack(form.has, form.segment, form.first, total, block), name="fixed", borrow=True)
    return GammaSums()(form.parameters, packed)[0].sum() + form.constant


# -- numba ----------------------------------------------------------------------------------------------

_REALS, _INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
_SIGNATURE = types.int64(_REALS, _INTEGERS, *[types.int64] * 2, _REALS, _REALS)
_EXTERNAL = External("ppdinf_gamma_sums", _SIGNATURE, ratios_through_pointers)
_gamma_sums = _EXTERNAL.call


@register_funcify_default_op_cache_key(GammaSums)
def _compiled(op: GammaSums, node: Apply, **kwargs: object) -> tuple[Kernel, int]:
    _EXTERNAL.provide()
    columns = PARAMETERS

    @numba_njit
    def gamma_sums(parameters, packed):  # type: ignore[no-untyped-def]
        value, out = np.zeros(packed[TOTALS] + 1), np.zeros((parameters.shape[0], columns))
        arrays = np.ascontiguousarray(parameters), np.ascontiguousarray(packed)
        fits = _gamma_sums(
            arrays[0].ctypes, arrays[1].ctypes, parameters.shape[0], packed.size, value.ctypes, out.ctypes
        )
        if not fits:
            raise ModelError(MISFIT)
        return value, out

    return gamma_sums, 2
