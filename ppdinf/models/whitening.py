"""Whitening of effects given a normal likelihood, and its gradients, as compiled kernels and PyTensor Ops."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import pytensor.tensor as pt
from numba import types
from numpy.typing import NDArray

from ppdinf._internal.kernel_op import CallbackOp
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
from ppdinf._internal.values import Array
from ppdinf.errors import ModelError

kernel = jit(error_model="numpy")


class NormalData(NamedTuple):
    """Normal likelihood of n variables in the order of their groups; group g is ``start[g]`` to ``start[g + 1]``."""

    order: NDArray
    start: NDArray
    fitted: NDArray
    response: NDArray
    information: NDArray
    share: NDArray
    average: NDArray
    precision: NDArray


class _Factor(NamedTuple):
    """Factor L: ``a``, (n,); unit directions ``u`` and ``h``, (n,); their scale factors b and c, (groups,)."""

    a: NDArray
    u: NDArray
    b: NDArray
    size_u: NDArray
    h: NDArray
    c: NDArray
    size_h: NDArray


@kernel
def _stretch(u: NDArray, b: float, x: NDArray, first: int, last: int) -> None:
    """Multiply the component of a group of x along u by b."""
    along = 0.0
    for i in range(first, last):
        along += u[i] * x[i]
    for i in range(first, last):
        x[i] += (b - 1.0) * along * u[i]


@kernel
def _to_unit(x: NDArray, first: int, last: int) -> float:
    """Normalize a group of x to length 1, unless it is 0; return the squared length."""
    size = 0.0
    for i in range(first, last):
        size += x[i] ** 2
    if size > 0.0:
        for i in range(first, last):
            x[i] /= np.sqrt(size)
    return size


@kernel
def _factor(data: NormalData, spread: float) -> _Factor:
    n, groups, information = data.response.size, data.average.size, data.information
    a, u, h, b, c = np.empty(n), np.empty(n), np.empty(n), np.ones(groups), np.empty(groups)
    size_u, size_h = np.empty(groups), np.empty(groups)
    for g in range(groups):
        first, last = data.start[g], data.start[g + 1]
        total = shrunk = 0.0
        for i in range(first, last):
            ratio = 1.0 + information[i] * spread**2
            a[i] = spread / np.sqrt(ratio)
            u[i], h[i] = a[i] * information[i], a[i] * data.share[i]
            total += information[i]
            shrunk += information[i] / ratio
        if total > 0.0:
            b[g] = np.sqrt(total / shrunk)
        size_u[g] = _to_unit(u, first, last)
        _stretch(u, b[g], h, first, last)
        size_h[g] = _to_unit(h, first, last)
        c[g] = 1.0 / np.sqrt(1.0 + data.precision[g] * size_h[g])
    return _Factor(a, u, b, size_u, h, c, size_h)


@kernel
def _score(data: NormalData, g: int, mean: NDArray, r: NDArray) -> None:
    """Write the score of a group's likelihood at its prior mean to r."""
    first, last = data.start[g], data.start[g + 1]
    total = pull = average = 0.0
    for i in range(first, last):
        r[i] = data.information[i] * (data.response[i] - mean[data.order[i]])
        total += data.information[i]
        pull += r[i]
        average += data.share[i] * (mean[data.order[i]] - data.fitted[i])
    beyond = data.precision[g] * (data.average[g] - average)
    for i in range(first, last):
        r[i] += data.share[i] * beyond - (data.information[i] * pull / total if total > 0.0 else 0.0)


@kernel
def transform(data: NormalData, spread: float, mean: NDArray, x: NDArray, inverse: bool, out: NDArray) -> float:
    """Map whitened variables to variables, or the reverse (`inverse`); return the log determinant of the former."""
    a, u, b, _, h, c, _ = _factor(data, spread)
    y, moved, log_det = np.empty(x.size), np.empty(x.size), 0.0
    for g in range(b.size):
        first, last = data.start[g], data.start[g + 1]
        _score(data, g, mean, y)
        for i in range(first, last):
            y[i] *= a[i]
            log_det += np.log(a[i])
        log_det += np.log(b[g]) + np.log(c[g])
        _stretch(u, b[g], y, first, last)
        _stretch(h, c[g], y, first, last)
        if inverse:
            for i in range(first, last):
                moved[i] = (x[data.order[i]] - mean[data.order[i]]) / a[i]
            _stretch(u, 1.0 / b[g], moved, first, last)
            _stretch(h, 1.0 / c[g], moved, first, last)
            for i in range(first, last):
                out[data.order[i]] = moved[i] - y[i]
        else:
            for i in range(first, last):
                y[i] += x[data.order[i]]
            _stretch(h, c[g], y, first, last)
            _stretch(u, b[g], y, first, last)
            for i in range(first, last):
                out[data.order[i]] = mean[data.order[i]] + a[i] * y[i]
    return log_det


@kernel
def _stretch_back(u: NDArray, b: float, x: NDArray, of_x: NDArray, of_u: NDArray, first: int, last: int) -> float:
    """Update the gradient in the scaled x to that in x; add to the gradient in u; return the gradient in b."""
    along = of_along = 0.0
    for i in range(first, last):
        along += u[i] * x[i]
        of_along += u[i] * of_x[i]
    for i in range(first, last):
        of_u[i] += (b - 1.0) * (along * of_x[i] + of_along * x[i])
        of_x[i] += (b - 1.0) * of_along * u[i]
    return along * of_along


@kernel
def _unit_back(u: NDArray, size: float, of_u: NDArray, first: int, last: int) -> None:
    """Update the gradient in a unit direction to that in the vector of squared length `size` before normalization."""
    along = 0.0
    for i in range(first, last):
        along += u[i] * of_u[i]
    for i in range(first, last):
        of_u[i] = (of_u[i] - along * u[i]) / np.sqrt(size) if size > 0.0 else 0.0


@kernel
def transform_gradient(
    data: NormalData, spread: float, mean: NDArray, x: NDArray, of_out: NDArray, of_log_det: float,
    of_x: NDArray, of_mean: NDArray,
) -> float:  # fmt: skip
    """Return the gradient in the spread; write those in x and mean, given gradients in the outputs of `transform`."""
    a, u, b, size_u, h, c, size_h = _factor(data, spread)
    n, of_spread = x.size, 0.0
    r, ar, once, y, twice, back, of_y = np.empty((7, n))
    of_u, of_h, of_a = np.zeros(n), np.zeros(n), np.empty(n)
    for g in range(b.size):
        first, last = data.start[g], data.start[g + 1]
        k, w, v = data.information, data.share, data.precision[g]
        # forward pass: once = R_1 a r, y = R_2 once + x, twice = R_2 y, back = R_1 twice
        _score(data, g, mean, r)
        for i in range(first, last):
            ar[i] = once[i] = a[i] * r[i]
        _stretch(u, b[g], once, first, last)
        for i in range(first, last):
            y[i] = once[i]
        _stretch(h, c[g], y, first, last)
        for i in range(first, last):
            y[i] += x[data.order[i]]
            twice[i] = y[i]
        _stretch(h, c[g], twice, first, last)
        for i in range(first, last):
            back[i] = twice[i]
        _stretch(u, b[g], back, first, last)
        # backward pass from variables to whitened variables and to the score
        for i in range(first, last):
            of = of_out[data.order[i]]
            of_y[i], of_a[i] = of * a[i], of * back[i] + of_log_det / a[i]
        of_b = _stretch_back(u, b[g], twice, of_y, of_u, first, last) + of_log_det / b[g]
        of_c = _stretch_back(h, c[g], y, of_y, of_h, first, last) + of_log_det / c[g]
        for i in range(first, last):
            of_x[data.order[i]] = of_y[i]
        of_c += _stretch_back(h, c[g], once, of_y, of_h, first, last)
        of_b += _stretch_back(u, b[g], ar, of_y, of_u, first, last)
        # gradient in the mean, through the score
        total = pull = beyond = 0.0
        for i in range(first, last):
            of_a[i] += of_y[i] * r[i]
            of_y[i] *= a[i]
            total += k[i]
            pull += k[i] * of_y[i]
            beyond += w[i] * of_y[i]
        for i in range(first, last):
            of_response = k[i] * of_y[i] - (k[i] * pull / total if total > 0.0 else 0.0)
            of_mean[data.order[i]] = of_out[data.order[i]] - of_response - w[i] * v * beyond
        # gradient in a, through the second direction and then the first
        _unit_back(h, size_h[g], of_h, first, last)
        for i in range(first, last):
            of_h[i] -= v * c[g] ** 3 * of_c * np.sqrt(size_h[g]) * h[i]
            once[i] = a[i] * w[i]
        of_b += _stretch_back(u, b[g], once, of_h, of_u, first, last)
        _unit_back(u, size_u[g], of_u, first, last)
        # gradient in the spread
        of_shrunk = -0.5 * of_b * b[g] ** 3 / total if total > 0.0 else 0.0
        for i in range(first, last):
            of_scaled, ratio = of_a[i] + of_h[i] * w[i] + of_u[i] * k[i], 1.0 + k[i] * spread**2
            of_ratio = -of_shrunk * k[i] / ratio**2 - 0.5 * of_scaled * a[i] / ratio
            of_spread += of_scaled / np.sqrt(ratio) + 2.0 * k[i] * spread * of_ratio
    return of_spread


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
    return Whitening(inverse)(x, mean, spread, *data)


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
