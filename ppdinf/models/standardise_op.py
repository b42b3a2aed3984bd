"""Coordinates of what is told, and their gradients, as Ops of PyTensor: compiled once per installation.

Written out, the steps of :mod:`ppdinf.models.standardise` are a hundred nodes of a graph, which every model would
compile for half a minute.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from numba import types

from ppdinf._internal.numba_jit import External, jit, pointers
from ppdinf._internal.pymc_compat import (
    Apply,
    DisconnectedType,
    Op,
    TensorVariable,
    Variable,
    disconnected_type,
    grad_not_implemented,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.types import Array
from ppdinf.distributions.densities.sums_given_totals_op import refuse_jax
from ppdinf.errors import ModelError
from ppdinf.models.standardise import Known, pulled_back, standardised

__all__ = ["in_graph", "standardise"]

type Told = list[TensorVariable]
"""`Known` in a graph: one vector of reals, one of whole numbers."""


def in_graph(known: Known) -> Told:
    """Put what is told in a graph."""
    reals = (known.fitted, known.near, known.information, known.share, known.average, known.precision)
    return [
        pt.constant(np.concatenate(reals), dtype="float64"),
        pt.constant(np.concatenate((known.order, known.start)), dtype="int64"),
    ]


def standardise(
    told: Told, spread: TensorVariable, mean: TensorVariable, x: TensorVariable, *, inverse: bool = False
) -> tuple[TensorVariable, TensorVariable]:
    """Turn what moves into variables, or these into what moves; with the log determinant of the former.

    Parameters
    ----------
    told : Told
    spread : TensorVariable, shape ()
    mean, x : TensorVariable, shape (n,)
    inverse : bool
        The gradient of what moves is not there.

    Returns
    -------
    tuple of TensorVariable, shapes (n,) and ()
    """
    for op in (Standardise, PulledBack):
        refuse_jax(op, "effects of labels in coordinates that suit a release have")
    found: tuple[TensorVariable, TensorVariable] = Standardise(inverse)(x, mean, spread, *told)
    return found


class Standardise(Op):
    """Variables from what moves, or what moves from them (``inverse``), and the log determinant of the former.

    Inputs: what moves (n,), or variables; prior means (n,); spread (); `Told`.
    """

    __props__ = ("inverse",)

    def __init__(self, inverse: bool) -> None:
        self.inverse = inverse

    def make_node(self, x: TensorVariable, mean: TensorVariable, spread: TensorVariable, *told: Variable) -> Apply:
        """Apply to vectors and a number of float64, and what is told."""
        inputs = [pt.as_tensor(value).astype("float64") for value in (x, mean, spread)]
        if [value.type.ndim for value in inputs] != [1, 1, 0]:
            raise ModelError("what is standardised, and its mean, are vectors, its spread a number")
        return Apply(self, [*inputs, *told], [inputs[0].type(), pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: list[list[Array | None]]) -> None:
        """Evaluate in compiled code."""
        x, mean, spread, reals, whole = (np.ascontiguousarray(value) for value in inputs)
        _check(x, mean, reals, whole)
        out = np.empty(x.size)
        arguments = (*pointers(x, mean), spread.item(), *pointers(reals, whole), x.size, whole.size, self.inverse)
        log_det = _FORWARDS.provide().ctypes(*arguments, *pointers(out))
        output_storage[0][0], output_storage[1][0] = out, np.asarray(log_det)

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Shapes of what comes in, and of a number."""
        return [shapes[0], ()]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """All but what is told is differentiable."""
        return [[True, False], [True, False], [True, True], [False, False], [False, False]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Gradients by a pass backwards."""
        if self.inverse:
            why = "gradients of what moves"
            found = [grad_not_implemented(self, i, value, why) for i, value in enumerate(inputs[:3])]
        else:
            of_out, of_log_det = (
                pt.zeros_like(value) if isinstance(gradient.type, DisconnectedType) else gradient
                for value, gradient in zip(outputs, cotangents, strict=True)
            )
            found = list(PulledBack()(*inputs, of_out, of_log_det))
            if isinstance(cotangents[0].type, DisconnectedType):  # the log determinant hangs on the spread alone
                found[:2] = disconnected_type(), disconnected_type()
        return [*found, disconnected_type(), disconnected_type()]


class PulledBack(Op):
    """Gradients in what moves, prior means and the spread, from those in variables and in the log determinant."""

    __props__ = ()

    def make_node(self, *inputs: Variable) -> Apply:
        """Apply to the inputs of `Standardise` and gradients in its outputs."""
        of_out, of_log_det = (pt.as_tensor(value).astype("float64") for value in inputs[5:])
        return Apply(self, [*inputs[:5], of_out, of_log_det], [value.type() for value in inputs[:3]])

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: list[list[Array | None]]) -> None:
        """Evaluate in compiled code."""
        x, mean, spread, reals, whole, of_out, of_log_det = (np.ascontiguousarray(value) for value in inputs)
        _check(x, mean, reals, whole)
        of_x, of_mean = np.empty(x.size), np.empty(x.size)
        arguments = (*pointers(x, mean), spread.item(), *pointers(reals, whole), x.size, whole.size)
        further = (*pointers(of_out), of_log_det.item(), *pointers(of_x, of_mean))
        of_spread = _BACKWARDS.provide().ctypes(*arguments, *further)
        output_storage[0][0], output_storage[1][0], output_storage[2][0] = of_x, of_mean, np.asarray(of_spread)

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Shapes of the inputs."""
        return shapes[:3]


# -- numba ----------------------------------------------------------------------------------------------

_REALS, _WHOLE = types.CPointer(types.float64), types.CPointer(types.int64)
_INPUTS = (_REALS, _REALS, types.float64, _REALS, _WHOLE, types.int64, types.int64)


@jit
def _check(x, mean, reals, whole):  # type: ignore[no-untyped-def]
    """Refuse vectors that are not as long as what is told says."""
    if not (x.size == mean.size and reals.size == 4 * x.size + 2 * (whole.size - x.size - 1)):
        raise ModelError("effects of labels, their means and what is told of them differ in their number")


@jit
def _known(reals, whole, n, size):  # type: ignore[no-untyped-def]
    groups = size - n - 1
    real, integer = numba.carray(reals, (4 * n + 2 * groups,)), numba.carray(whole, (size,))
    part = real[: 4 * n].reshape((4, n))
    by_group = real[4 * n :].reshape((2, groups))
    return Known(integer[:n], integer[n:], part[0], part[1], part[2], part[3], by_group[0], by_group[1])


def _forwards(x, mean, spread, reals, whole, n, size, inverse, out):  # type: ignore[no-untyped-def]
    known, own, means = _known(reals, whole, n, size), numba.carray(x, (n,)), numba.carray(mean, (n,))
    return standardised(known, spread, means, own, inverse, numba.carray(out, (n,)))


def _backwards(x, mean, spread, reals, whole, n, size, of_out, of_log_det, of_x, of_mean):  # type: ignore[no-untyped-def]
    known, own, means = _known(reals, whole, n, size), numba.carray(x, (n,)), numba.carray(mean, (n,))
    of_own, of_means = numba.carray(of_x, (n,)), numba.carray(of_mean, (n,))
    return pulled_back(known, spread, means, own, numba.carray(of_out, (n,)), of_log_det, of_own, of_means)


_FORWARDS = External("ppdinf_standardise", types.float64(*_INPUTS, types.boolean, _REALS), _forwards)
_BACKWARDS = External(
    "ppdinf_standardise_back", types.float64(*_INPUTS, _REALS, types.float64, _REALS, _REALS), _backwards
)
_call_forwards, _call_backwards = _FORWARDS.call, _BACKWARDS.call


@register_funcify_default_op_cache_key(Standardise)
def _compiled(op: Standardise, node: Apply, **kwargs: object) -> tuple[Callable[..., Any], int]:
    _FORWARDS.provide()
    inverse = op.inverse

    @numba_njit
    def standardise(x, mean, spread, reals, whole):  # type: ignore[no-untyped-def]
        _check(x, mean, reals, whole)
        out, own, means = np.empty(x.size), np.ascontiguousarray(x), np.ascontiguousarray(mean)
        log_det = _call_forwards(
            own.ctypes, means.ctypes, spread.item(), reals.ctypes, whole.ctypes, x.size, whole.size, inverse, out.ctypes
        )
        return out, np.asarray(log_det)

    return standardise, 1


@register_funcify_default_op_cache_key(PulledBack)
def _compiled_back(op: PulledBack, node: Apply, **kwargs: object) -> tuple[Callable[..., Any], int]:
    _BACKWARDS.provide()

    @numba_njit
    def pull_back(x, mean, spread, reals, whole, of_out, of_log_det):  # type: ignore[no-untyped-def]
        _check(x, mean, reals, whole)
        own, means, of_own = np.ascontiguousarray(x), np.ascontiguousarray(mean), np.ascontiguousarray(of_out)
        of_x, of_mean = np.empty(x.size), np.empty(x.size)
        of_spread = _call_backwards(
            own.ctypes, means.ctypes, spread.item(), reals.ctypes, whole.ctypes, x.size, whole.size, of_own.ctypes,
            of_log_det.item(), of_x.ctypes, of_mean.ctypes,
        )  # fmt: skip
        return of_x, of_mean, np.asarray(of_spread)

    return pull_back, 1
