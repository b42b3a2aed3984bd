"""Marginal likelihood of a noisy table with public totals, as a differentiable PyTensor expression.

With the confidential counts summed out exactly (:mod:`ppdinf.samplers.totals`), NUTS runs on the parameters
alone.  One Op serves both forms of weights:

* a table of log weights, ``logw[i, k]`` for ``x_i = lo[i] + k``, any function of the parameters;
* exponential families, ``h_i(x) exp(eta_i x)`` with fixed ``h``: Poisson (``eta`` = log rate), binomial
  (logit), negative binomial of fixed shape.  Only ``eta`` is differentiated and no table is rebuilt.

Gradients are posterior marginals and posterior means of the counts (Fisher's identity).  They come out of the
same pass as the value, so the Op returns both and the pullback reads its second output.

References
----------
R. A. Fisher (1925), "Theory of statistical estimation", Proc. Camb. Phil. Soc. 22, for the identity
``d log p(y | theta) = E[d log p(x, y | theta) | y]``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.gradient import DisconnectedType, disconnected_type, grad_not_implemented
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.variable import TensorVariable

from ppdinf.errors import ModelError
from ppdinf.samplers.totals import evaluate, peaks

__all__ = ["logp_natural", "logp_table"]


class SumsGivenTotals(Op):
    """Log coefficients, with the posterior means (``as_means``) or marginals of the cells.

    Inputs: logw (d, W), eta (d,), peaks of logw (d, chunks) or empty, lo (d,), block (d,), total (n,).
    Outputs: one log coefficient per total and one for all free cells (n + 1,); means (d, 1) or marginals
    (d, W).
    """

    __props__ = ("as_means",)

    def __init__(self, as_means: bool) -> None:
        self.as_means = as_means

    def make_node(self, *inputs: Any) -> Apply:
        """Apply to matrices and vectors of float64 and int64."""
        floats = [pt.as_tensor(x, dtype="float64") for x in inputs[:3]]
        whole = [pt.as_tensor(x, dtype="int64") for x in inputs[3:]]
        for x, ndim in zip((*floats, *whole), (2, 1, 2, 1, 1, 1), strict=True):
            if x.type.ndim != ndim:
                raise ModelError(f"{x} has {x.type.ndim} dimensions where {ndim} are needed")
        return Apply(self, [*floats, *whole], [pt.dvector(), pt.dmatrix()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate in compiled code."""
        arrays = [np.ascontiguousarray(x) for x in inputs]
        output_storage[0][0], output_storage[1][0] = evaluate(*arrays, self.as_means)

    def infer_shape(self, node: Apply, shapes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Shapes from the table's and the totals' shapes."""
        d, width = shapes[0]
        return [(shapes[5][0] + 1,), (d, 1 if self.as_means else width)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Log weights and natural parameters are differentiable, the rest is fixed."""
        return [[True, True], [True, True], *([[False, False]] * 4)]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Posterior marginals for the log weights, posterior means for the natural parameters."""
        fixed = [disconnected_type() for _ in inputs[2:]]
        if not isinstance(cotangents[1].type, DisconnectedType):
            why = "second derivatives of a marginal likelihood"
            return [*(grad_not_implemented(self, i, inputs[i], why) for i in (0, 1)), *fixed]
        by_cell = cotangents[0][inputs[4]]  # block -1 is the last entry, that of the free cells
        means, table = (
            outputs[1] if op == self else op(*inputs)[1] for op in (SumsGivenTotals(True), SumsGivenTotals(False))
        )
        return [by_cell[:, None] * table, by_cell * means[:, 0], *fixed]


@register_funcify_default_op_cache_key(SumsGivenTotals)
def _compiled(op: SumsGivenTotals, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    as_means = op.as_means

    @numba_njit
    def sums_given_totals(logw, eta, peak, lo, block, total):  # type: ignore[no-untyped-def]
        return evaluate(
            np.ascontiguousarray(logw),
            np.ascontiguousarray(eta),
            np.ascontiguousarray(peak),
            np.ascontiguousarray(lo),
            np.ascontiguousarray(block),
            np.ascontiguousarray(total),
            as_means,
        )

    return sums_given_totals, 1
