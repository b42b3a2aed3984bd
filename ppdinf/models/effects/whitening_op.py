"""Whitening of effects given a normal likelihood, and its gradients, as PyTensor Ops compiled once per installation.

Written in PyTensor, the steps of :mod:`ppdinf.models.effects.whitening` have about 100 nodes, which take half a minute
to compile for every model.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from numba import types

from ppdinf._internal.jax_callback import CallbackOp
from ppdinf._internal.numba_jit import External, jit, pointers
from ppdinf._internal.pymc_compat import (
    Apply,
    DisconnectedType,
    TensorVariable,
    Variable,
    disconnected_type,
    grad_not_implemented,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.types import Array
from ppdinf.errors import ModelError
from ppdinf.models.effects.whitening import NormalData, transform, transform_gradient

type DataInputs = list[TensorVariable]
"""`NormalData` in a graph: one vector of reals and one of integers."""


def in_graph(data: NormalData) -> DataInputs:
    """Convert a normal likelihood to constants of a graph."""
    reals = (data.fitted, data.response, data.information, data.share, data.average, data.precision)
    return [
        pt.constant(np.concatenate(reals), dtype="float64"),
        pt.constant(np.concatenate((data.order, data.start)), dtype="int64"),
    ]


def whitening_transform(
    data: DataInputs, spread: TensorVariable, mean: TensorVariable, x: TensorVariable, *, inverse: bool = False
) -> tuple[TensorVariable, TensorVariable]:
    """Map whitened variables to variables, or the reverse, with the log determinant of the former."""
    transformed: tuple[TensorVariable, TensorVariable] = Whitening(inverse)(x, mean, spread, *data)
    return transformed


class Whitening(CallbackOp):
    """Map whitened variables to variables, or the reverse (``inverse``), with the log determinant of the former."""

    __props__ = ("inverse",)

    def __init__(self, inverse: bool) -> None:
        self.inverse = inverse

    def make_node(self, x: TensorVariable, mean: TensorVariable, spread: TensorVariable, *data: Variable) -> Apply:
        """Apply to two vectors and a scalar of float64, and the likelihood."""
        inputs = [pt.as_tensor(value).astype("float64") for value in (x, mean, spread)]
        if [value.type.ndim for value in inputs] != [1, 1, 0]:
            raise ModelError("the variables and their prior means must be vectors, the spread a scalar")
        return Apply(self, [*inputs, *data], [inputs[0].type(), pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: list[list[Array | None]]) -> None:
        """Evaluate in compiled code."""
        x, mean, spread, reals, integers = (np.ascontiguousarray(value) for value in inputs)
        _check(x, mean, reals, integers)
        out = np.empty(x.size)
        arguments = (*pointers(x, mean), spread.item(), *pointers(reals, integers), x.size, integers.size, self.inverse)
        log_det = _FORWARDS.provide().ctypes(*arguments, *pointers(out))
        output_storage[0][0], output_storage[1][0] = out, np.asarray(log_det)

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Return the shapes of the variables and of a scalar."""
        return [shapes[0], ()]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Everything except the likelihood is differentiable."""
        return [[True, False], [True, False], [True, True], [False, False], [False, False]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Return gradients by reverse-mode differentiation."""
        if self.inverse:
            why = "gradients of whitened variables"
            gradients = [grad_not_implemented(self, i, value, why) for i, value in enumerate(inputs[:3])]
        else:
            of_out, of_log_det = (
                pt.zeros_like(value) if isinstance(gradient.type, DisconnectedType) else gradient
                for value, gradient in zip(outputs, cotangents, strict=True)
            )
            gradients = list(WhiteningGradient()(*inputs, of_out, of_log_det))
            if isinstance(cotangents[0].type, DisconnectedType):  # the log determinant depends on the spread alone
                gradients[:2] = disconnected_type(), disconnected_type()
        return [*gradients, disconnected_type(), disconnected_type()]


class WhiteningGradient(CallbackOp):
    """Gradients in whitened variables, prior means and the spread, given those in variables and log determinant."""

    __props__ = ()

    def make_node(self, *inputs: Variable) -> Apply:
        """Apply to the inputs of `Whitening` and the gradients in its outputs."""
        of_out, of_log_det = (pt.as_tensor(value).astype("float64") for value in inputs[5:])
        return Apply(self, [*inputs[:5], of_out, of_log_det], [value.type() for value in inputs[:3]])

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: list[list[Array | None]]) -> None:
        """Evaluate in compiled code."""
        x, mean, spread, reals, integers, of_out, of_log_det = (np.ascontiguousarray(value) for value in inputs)
        _check(x, mean, reals, integers)
        of_x, of_mean = np.empty(x.size), np.empty(x.size)
        arguments = (*pointers(x, mean), spread.item(), *pointers(reals, integers), x.size, integers.size)
        further = (*pointers(of_out), of_log_det.item(), *pointers(of_x, of_mean))
        of_spread = _BACKWARDS.provide().ctypes(*arguments, *further)
        output_storage[0][0], output_storage[1][0], output_storage[2][0] = of_x, of_mean, np.asarray(of_spread)

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Return the shapes of the inputs."""
        return shapes[:3]


# -- numba ----------------------------------------------------------------------------------------------

_REALS, _INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
_INPUTS = (_REALS, _REALS, types.float64, _REALS, _INTEGERS, types.int64, types.int64)


@jit
def _check(x, mean, reals, integers):  # type: ignore[no-untyped-def]
    """Refuse vectors whose lengths differ from those of the likelihood."""
    if not (x.size == mean.size and reals.size == 4 * x.size + 2 * (integers.size - x.size - 1)):
        raise ModelError("effects of labels, their prior means and their likelihood must have the same length")


@jit
def _unpack(reals, integers, n, size):  # type: ignore[no-untyped-def]
    groups = size - n - 1
    real, integer = numba.carray(reals, (4 * n + 2 * groups,)), numba.carray(integers, (size,))
    part = real[: 4 * n].reshape((4, n))
    by_group = real[4 * n :].reshape((2, groups))
    return NormalData(integer[:n], integer[n:], part[0], part[1], part[2], part[3], by_group[0], by_group[1])


def _forwards(x, mean, spread, reals, integers, n, size, inverse, out):  # type: ignore[no-untyped-def]
    data, x_values, means = _unpack(reals, integers, n, size), numba.carray(x, (n,)), numba.carray(mean, (n,))
    return transform(data, spread, means, x_values, inverse, numba.carray(out, (n,)))


def _backwards(x, mean, spread, reals, integers, n, size, of_out, of_log_det, of_x, of_mean):  # type: ignore[no-untyped-def]
    data, x_values, means = _unpack(reals, integers, n, size), numba.carray(x, (n,)), numba.carray(mean, (n,))
    of_values, of_means = numba.carray(of_x, (n,)), numba.carray(of_mean, (n,))
    return transform_gradient(
        data, spread, means, x_values, numba.carray(of_out, (n,)), of_log_det, of_values, of_means
    )


_FORWARDS = External("ppdinf_whitening", types.float64(*_INPUTS, types.boolean, _REALS), _forwards)
_BACKWARDS = External(
    "ppdinf_whitening_back", types.float64(*_INPUTS, _REALS, types.float64, _REALS, _REALS), _backwards
)
_call_forwards, _call_backwards = _FORWARDS.call, _BACKWARDS.call


@register_funcify_default_op_cache_key(Whitening)
def _compiled(op: Whitening, node: Apply, **kwargs: object) -> tuple[Callable[..., Any], int]:
    _FORWARDS.provide()
    inverse = op.inverse

    @numba_njit
    def whitening_transform(x, mean, spread, reals, integers):  # type: ignore[no-untyped-def]
        _check(x, mean, reals, integers)
        out, x_values, means = np.empty(x.size), np.ascontiguousarray(x), np.ascontiguousarray(mean)
        log_det = _call_forwards(
            x_values.ctypes,
            means.ctypes,
            spread.item(),
            reals.ctypes,
            integers.ctypes,
            x.size,
            integers.size,
            inverse,
            out.ctypes,
        )
        return out, np.asarray(log_det)

    return whitening_transform, 2


@register_funcify_default_op_cache_key(WhiteningGradient)
def _compiled_back(op: WhiteningGradient, node: Apply, **kwargs: object) -> tuple[Callable[..., Any], int]:
    _BACKWARDS.provide()

    @numba_njit
    def pull_back(x, mean, spread, reals, integers, of_out, of_log_det):  # type: ignore[no-untyped-def]
        _check(x, mean, reals, integers)
        x_values, means, of_values = np.ascontiguousarray(x), np.ascontiguousarray(mean), np.ascontiguousarray(of_out)
        of_x, of_mean = np.empty(x.size), np.empty(x.size)
        of_spread = _call_backwards(
            x_values.ctypes, means.ctypes, spread.item(), reals.ctypes, integers.ctypes, x.size, integers.size,
            of_values.ctypes, of_log_det.item(), of_x.ctypes, of_mean.ctypes,
        )  # fmt: skip
        return of_x, of_mean, np.asarray(of_spread)

    return pull_back, 2
