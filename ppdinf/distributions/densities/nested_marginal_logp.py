"""Marginal likelihood of a table whose measured and exact sums nest.

As in `ppdinf.distributions.densities.marginal_logp`, gradients are posterior marginals or means of the counts
(Fisher's identity). One downward pass computes all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba
import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.jax_callback import CallbackOp
from ppdinf._internal.pymc_compat import (
    Apply,
    DisconnectedType,
    TensorVariable,
    Variable,
    disconnected_type,
    numba_njit,
    register_funcify_and_cache_key,
)
from ppdinf.distributions.densities.sums_given_totals_op import no_second_derivative
from ppdinf.fiber.nested_sums.nested_sums import NestedSums


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

    def values(self, log_weights: NDArray[np.float64], eta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Evaluate; posteriors are 0 if every table has weight 0."""
        sums = self.plan.evaluate(log_weights.ravel(), eta if self.as_means else None)
        value = float(sums.value.sum())
        if not np.isfinite(value):
            return value, np.zeros(eta.shape if self.as_means else log_weights.shape)
        posteriors = sums.posteriors()
        return value, posteriors.cell_mean if self.as_means else posteriors.log_weight.reshape(log_weights.shape)

    def perform(
        self, node: Apply, inputs: Sequence[NDArray[np.float64]], output_storage: list[list[NDArray[np.float64] | None]]
    ) -> None:
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
        if isinstance(cotangents[1].type, DisconnectedType):
            gradients[varying] = cotangents[0] * outputs[1]
        else:
            gradients[varying] = no_second_derivative(self, varying, inputs[varying])
        return gradients


@register_funcify_and_cache_key(NestedWeight)
def _compiled(
    op: NestedWeight, node: Apply, **kwargs: object
) -> tuple[Callable[[NDArray[np.float64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]], None]:
    out_type = numba.types.Array(numba.types.float64, 1 if op.as_means else 2, "C")

    def values(log_weights: NDArray[np.float64], eta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
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
