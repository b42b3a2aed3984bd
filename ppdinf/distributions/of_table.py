"""A number that depends on a table as a whole, computed outside of PyTensor's graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from pytensor.tensor import as_tensor, dscalar

from ppdinf._pymc_internals import Apply, Op, numba_njit, register_funcify_and_cache_key

__all__ = ["of_table"]


class _OfTable(Op):
    """One table in, one number out; no gradient, as tables are whole."""

    __props__ = ("function",)

    def __init__(self, function: Callable[[NDArray[np.int64]], float]) -> None:
        self.function = function

    def make_node(self, x: Any) -> Apply:
        """One table in, one number out."""
        return Apply(self, [as_tensor(x)], [dscalar()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """One number."""
        outputs[0][0] = np.asarray(self.function(inputs[0].ravel()))


def of_table(function: Callable[[NDArray[np.int64]], float], x: Any) -> Any:
    """Apply a function of cells, shape (d,), to a symbolic table."""
    return _OfTable(function)(x)


@register_funcify_and_cache_key(_OfTable)
def _of_table_numba(op: _OfTable, node: Apply, **kwargs: Any) -> Any:
    def number(x: Any) -> float:
        return float(op.function(x.ravel()))

    @numba_njit
    def evaluate(x):  # type: ignore[no-untyped-def]
        with numba.objmode(value="float64"):
            value = number(x)
        return np.asarray(value)

    return evaluate, None  # never from PyTensor's cache on disk: what was published is part of the function
