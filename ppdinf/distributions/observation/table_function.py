"""A number that depends on a complete table, computed outside of PyTensor graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba
import numpy as np
from numpy.typing import NDArray
from pytensor.tensor import as_tensor, dscalar

from ppdinf._internal.pymc_compat import Apply, Op, TensorVariable, numba_njit, register_funcify_and_cache_key
from ppdinf._internal.types import Array

# a function of cells that are integers or real numbers, as stored in the table
type OfCells = Callable[[NDArray[np.int64]], float] | Callable[[NDArray[np.float64]], float]


class _OfTable(Op):
    """Map one table to one number, without a gradient because tables are integers."""

    __props__ = ("function",)

    def __init__(self, function: OfCells) -> None:
        self.function = function

    def make_node(self, x: TensorVariable) -> Apply:
        """Apply to one table; the output is a scalar."""
        return Apply(self, [as_tensor(x)], [dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Array], outputs: list[list[NDArray[np.float64] | None]]) -> None:
        """Compute the number."""
        outputs[0][0] = np.asarray(self.function(inputs[0].ravel()))


def of_table(function: OfCells, x: TensorVariable) -> TensorVariable:
    """Apply a function of cells, shape (d,), to a symbolic table."""
    return _OfTable(function)(x)


@register_funcify_and_cache_key(_OfTable)
def _of_table_numba(op: _OfTable, node: Apply, **kwargs: object) -> tuple[Callable[[Array], NDArray[np.float64]], None]:
    def number(x: Array) -> float:
        return float(op.function(x.ravel()))

    @numba_njit
    def evaluate(x):  # type: ignore[no-untyped-def]
        with numba.objmode(value="float64"):
            value = number(x)
        return np.asarray(value)

    return evaluate, None  # excluded from PyTensor's disk cache: the published numbers are part of the function
