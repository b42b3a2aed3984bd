"""A value set apart from the parameters that it was computed from: no gradient flows through it.

What decides which branch of a density is taken has no derivative, yet gradients are sent through it as zeros, and zero
times the infinite slope of an impossible count is nan. PyTensor's own `disconnected_grad` is taken out of a graph
before PyMC differentiates it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from ppdinf._internal.pymc_compat import (
    Apply,
    Op,
    TensorVariable,
    Variable,
    disconnected_type,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf._internal.types import Array

__all__ = ["apart"]


class Apart(Op):
    """The input itself, without a gradient."""

    __props__ = ()
    view_map: ClassVar[dict[int, list[int]]] = {0: [0]}

    def make_node(self, x: TensorVariable) -> Apply:
        """One variable in, one of its type out."""
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[Array | None]]) -> None:
        """Hand over the input."""
        outputs[0][0] = inputs[0]

    def infer_shape(self, node: Apply, shapes: list[tuple[Variable, ...]]) -> list[tuple[Variable, ...]]:
        """Shape of the input."""
        return shapes

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Nothing is connected."""
        return [[False]]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """No gradient."""
        return [disconnected_type()]


apart = Apart()


@register_funcify_default_op_cache_key(Apart)
def _apart_numba(op: Apart, node: Apply, **kwargs: object) -> tuple[Callable[[Array], Array], int]:
    @numba_njit
    def identity(x):  # type: ignore[no-untyped-def]
        return x

    return identity, 1
