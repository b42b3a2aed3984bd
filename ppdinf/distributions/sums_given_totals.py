"""Sums given their totals as an Op of PyTensor: value and gradient, in compiled code.

Gradients are posterior marginals and posterior means of the counts (Fisher's identity).  They come out of the
same pass as the value, so the Op returns both and the pullback reads its second output.

References
----------
R. A. Fisher (1925), "Theory of statistical estimation", Proc. Camb. Phil. Soc. 22, for the identity
``d log p(y | theta) = E[d log p(x, y | theta) | y]``.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from llvmlite.binding import add_symbol  # type: ignore[import-untyped]
from numba import types

from ppdinf._compiled import callback
from ppdinf._pymc_internals import (
    Apply,
    DisconnectedType,
    Op,
    Variable,
    disconnected_type,
    grad_not_implemented,
    numba_njit,
    register_funcify_default_op_cache_key,
)
from ppdinf.errors import ModelError
from ppdinf.fiber import totals

__all__ = ["SumsGivenTotals", "refuse_jax"]


class SumsGivenTotals(Op):
    """Log coefficients, with the posterior means (``as_means``) or marginals of the cells.

    Inputs: logw (rows, W), eta (d,), lids of logw (rows, 2 chunks) or empty, the table of its pieces, that of those on
    grids of frequencies, the row of each cell (d,), lo (d,), block (d,), total (n,), rows and units of its pieces,
    grids of the groups and places on them.  Outputs: one log coefficient per total and one for all free cells (n + 1,);
    means (d, 1) or marginals (d, W).  Differentiable in eta with means, in logw
    (a row for each cell) with marginals.
    """

    __props__ = ("as_means",)

    def __init__(self, as_means: bool) -> None:
        self.as_means = as_means

    def make_node(self, *inputs: Any) -> Apply:
        """Apply to matrices and vectors of float64 and int64."""
        floats = [pt.as_tensor(x).astype("float64") for x in inputs[:5]]
        whole = [pt.as_tensor(x, dtype="int64") for x in inputs[5:]]
        for x, ndim in zip((*floats, *whole), (2, 1, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2), strict=True):
            if x.type.ndim != ndim:
                raise ModelError(f"{x} has {x.type.ndim} dimensions where {ndim} are needed")
        cells, (n,) = floats[1].type.shape[0], whole[3].type.shape
        totals_and_free = None if n is None else n + 1
        width = 1 if self.as_means else floats[0].type.shape[1]
        value = pt.tensor(dtype="float64", shape=(totals_and_free,))  # known shapes spare checks in every model
        return Apply(self, [*floats, *whole], [value, pt.tensor(dtype="float64", shape=(cells, width))])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Evaluate in compiled code."""
        # constants of a graph are read-only: of another type to numba, for which the kernels would be compiled anew
        own = (np.require(x, None, ["C", "W"]) for x in inputs)
        logw, eta, lid, table, waves, row, lo, block, total, first, unit, group, place = own
        width, pieces = 1 if self.as_means else logw.shape[1], totals.Pieces(first, unit, table)
        value, out = np.zeros(total.size + 1), np.zeros((eta.size, width))
        grids = totals.Grids(group, place, waves)
        totals.evaluate(logw, eta, lid, row, lo, block, total, pieces, grids, self.as_means, value, out)
        output_storage[0][0], output_storage[1][0] = value, out

    def infer_shape(self, node: Apply, shapes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Shapes from the table's and the totals' shapes."""
        return [(shapes[8][0] + 1,), (shapes[1][0], 1 if self.as_means else shapes[0][1])]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Natural parameters (means) or log weights (marginals) are differentiable, the rest is fixed."""
        return [[not self.as_means] * 2, [self.as_means] * 2, *([[False, False]] * 11)]

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]
    ) -> list[Variable]:
        """Posterior marginals for the log weights, posterior means for the natural parameters."""
        fixed = [disconnected_type() for _ in inputs]
        varying = 1 if self.as_means else 0
        if not isinstance(cotangents[1].type, DisconnectedType):
            fixed[varying] = grad_not_implemented(
                self, varying, inputs[varying], "second derivatives of a marginal likelihood"
            )
        else:
            by_cell = cotangents[0][inputs[7]]  # block -1 is the last entry, that of the free cells
            fixed[varying] = by_cell * outputs[1][:, 0] if self.as_means else by_cell[:, None] * outputs[1]
        return fixed


# -- numba ----------------------------------------------------------------------------------------------
# The kernels are called through a symbol, so that they are compiled once per installation and not linked
# into (and optimised again with) every compiled model.

_SYMBOL = "ppdinf_sums_given_totals"
_REALS, _INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
_SIGNATURE = types.int64(
    *[_REALS] * 5, *[_INTEGERS] * 8, *[types.int64] * 11, types.boolean, *[_REALS] * 2
)  # inputs, their sizes, which output, outputs
_sums_given_totals = types.ExternalFunction(_SYMBOL, _SIGNATURE)


@cache
def _provide_symbol() -> Any:
    kernel = callback(_SIGNATURE, totals.through_pointers)
    add_symbol(_SYMBOL, kernel.address)
    return kernel  # its machine code lives as long as this object


@register_funcify_default_op_cache_key(SumsGivenTotals)
def _compiled(op: SumsGivenTotals, node: Apply, **kwargs: Any) -> tuple[Any, int]:
    _provide_symbol()
    as_means = op.as_means

    @numba_njit
    def sums_given_totals(  # type: ignore[no-untyped-def]
        logw, eta, lid, table, waves, row, lo, block, total, first, unit, group, place
    ):
        (different, width), cells = logw.shape, eta.size
        if not cells == row.size == lo.size == block.size:
            raise ModelError("weights, natural parameters, lower ends and blocks differ in their number of cells")
        value, out = np.zeros(total.size + 1), np.zeros((cells, 1 if as_means else width))
        fits = _sums_given_totals(
            np.ascontiguousarray(logw).ctypes,
            np.ascontiguousarray(eta).ctypes,
            np.ascontiguousarray(lid).ctypes,
            np.ascontiguousarray(table).ctypes,
            np.ascontiguousarray(waves).ctypes,
            np.ascontiguousarray(row).ctypes,
            np.ascontiguousarray(lo).ctypes,
            np.ascontiguousarray(block).ctypes,
            np.ascontiguousarray(total).ctypes,
            np.ascontiguousarray(first).ctypes,
            np.ascontiguousarray(unit).ctypes,
            np.ascontiguousarray(group).ctypes,
            np.ascontiguousarray(place).ctypes,
            cells,
            different,
            width,
            lid.shape[1],
            total.size,
            first.shape[0],
            unit.shape[0],
            table.shape[0],
            group.shape[0],
            place.shape[0],
            waves.shape[0],
            as_means,
            value.ctypes,
            out.ctypes,
        )
        if fits == 0:
            raise ModelError("a cell's block is neither the number of a total nor -1, or its weights have no row")
        return value, out

    return sums_given_totals, 5


def refuse_jax() -> None:
    """Register with PyTensor's JAX backend, once something has loaded that, why these sums have no form there.

    Samplers that compile to JAX load it before they ask a model for its density, and ask for the form of each Op before
    they compile anything.
    """
    backend = sys.modules.get("pytensor.link.jax.dispatch.basic")
    if backend is None or SumsGivenTotals in backend.jax_funcify.registry:
        return

    @backend.jax_funcify.register(SumsGivenTotals)
    def no_form(op: SumsGivenTotals, **kwargs: Any) -> None:
        raise ModelError(
            "a confidential table that is summed out has no form in JAX, to which numpyro and blackjax compile: sample "
            "with PyMC's own NUTS, pm.sample(nuts_sampler='pymc'), or with nutpie, pm.sample(nuts_sampler='nutpie'), "
            "which PyMC takes by itself where it is installed (pip install ppdinf[nutpie])"
        )
