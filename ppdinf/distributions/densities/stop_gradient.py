"""An identity through which no gradient flows.

The condition of a branch of a density has no derivative, but zero gradients are propagated through it. Zero times the
infinite slope of an impossible count is nan. PyTensor's `disconnected_grad` cannot be used, because PyTensor removes it
from a graph before PyMC differentiates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ppdinf._internal.jax_callback import CallbackOp
from ppdinf._internal.pymc_compat import (
    Apply,
    TensorVariable,
    Variable,
    disconnected_type,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.types import Array


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
