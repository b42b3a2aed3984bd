"""Marginal likelihood of a noisy table with public totals, as a differentiable PyTensor expression.

With the confidential counts summed out exactly (:mod:`ppdinf.fiber.totals`), NUTS runs on the parameters
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

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from llvmlite.binding import add_symbol  # type: ignore[import-untyped]
from numba import types
from numpy.typing import ArrayLike, NDArray

from ppdinf._compiled import callback
from ppdinf._pymc_internals import (
    NUMBA_CONSTANT_SIZE_LIMIT,
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
from ppdinf.distributions.precision import constant
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber import totals

__all__ = ["logp_natural", "logp_table"]

PIECES = 2**18  # of log normalisers, at most: 40 MB
ON_GRIDS = 2**14  # of these on grids of frequencies, at most: 85 MB
PARTS = ("rows_of_pieces", "units_of_pieces", "pieces")  # names of `totals.Pieces` in a graph
GRIDS = ("grids_of_groups", "places_on_grids", "waves")  # and of `totals.Grids`

# pieces that serve cells of given blocks, with given lower ends and totals
type Cut = Callable[[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None], tuple[totals.Pieces, totals.Grids]]


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


def _refuse_jax() -> None:
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


def fixed(table: NDArray[np.float64], name: str) -> TensorVariable:
    """Put numbers in a graph; as a constant, unless one of that size would keep the model out of numba's cache."""
    return pytensor.shared(table, name=name) if table.nbytes > NUMBA_CONSTANT_SIZE_LIMIT else pt.as_tensor(table)


def _per_cell(values: Any, name: str, cells: Any) -> TensorVariable:
    variable = pt.as_tensor(values)
    if np.dtype(variable.dtype).kind not in "iu":
        raise InvariantError(f"{name} must hold integers, not {variable.dtype}; convert it without rounding")
    return pt.full((cells,), variable, dtype="int64") if variable.ndim == 0 else variable.astype("int64")


def _logp(
    table: Any, eta: Any, lid: Any, row: Any, lo: Any, total: Any, block: ArrayLike, cut: Cut | None
) -> TensorVariable:
    cells = row.shape[0]
    goal = _per_cell(total, "total", 1)
    if goal.type.shape[0] is None:
        raise InvariantError("the number of totals must be known when the model is built")
    blocks = np.asarray(block)
    if blocks.dtype.kind not in "iu" or not ((blocks >= -1) & (blocks < goal.type.shape[0])).all():
        raise InvariantError(f"block must name one of {goal.type.shape[0]} totals (from 0) or be -1 for a free cell")
    _refuse_jax()
    pieces, grids = totals.NO_PIECES, totals.NO_GRIDS
    if cut is not None:
        pieces, grids = cut(blocks, constant(pt.as_tensor(lo)), constant(goal))
    first, unit, polynomials = (fixed(part, name) for part, name in zip(pieces, PARTS, strict=True))
    group, place, waves = (fixed(part, name) for part, name in zip(grids, GRIDS, strict=True))
    cell = [row, _per_cell(lo, "lo", cells), _per_cell(blocks, "block", cells), goal]
    sums = SumsGivenTotals(as_means=cut is not None)
    return sums(table, eta, lid, polynomials, waves, *cell, first, unit, group, place)[0]


def logp_table(logw: Any, *, lo: Any, total: Any, block: ArrayLike = 0) -> TensorVariable:
    """Log weight of all tables with the given totals, from log weights of every cell and value.

    Parameters
    ----------
    logw : tensor_like, shape (d, W)
        ``logw[i, k]`` is the log weight of ``x_i = lo[i] + k``: log probability under the data model plus
        log probability of the noise ``y_i - x_i``; -inf where impossible.
    lo : tensor_like of int, shape (d,) or ()
        The integer that column 0 of each row stands for.
    total : tensor_like of int, shape (n_totals,) or ()
        Public totals.
    block : array_like of int, shape (d,) or ()
        Which total a cell counts towards; -1 for none (a free cell, summed on its own).

    Returns
    -------
    TensorVariable, shape (n_totals + 1,)
        One entry per total, -inf where no table has it, and last the sum over all free cells.  Add up for a
        :class:`pymc.Potential`.  Differentiable once in ``logw``.

    Raises
    ------
    InvariantError
        Totals, lower ends or blocks that are not integers or do not fit.

    Notes
    -----
    Accuracy and cost: :func:`ppdinf.fiber.totals.log_coefficient`.

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.distributions.marginal import logp_table
    >>> dice = np.full((3, 6), -np.log(6))
    >>> np.exp(logp_table(dice, lo=1, total=10).eval()).round(3)
    array([0.125, 1.   ])
    """
    table = pt.as_tensor(logw).astype("float64")
    cells, none = table.shape[0], np.empty((0, 0))
    return _logp(table, pt.zeros(cells), none, pt.arange(cells), lo, total, block, None)


def logp_natural(eta: Any, logh: ArrayLike, *, lo: Any, total: Any, block: ArrayLike = 0) -> TensorVariable:
    """Log weight of all tables with the given totals, for weights ``exp(logh[i, k] + eta[i] x)``.

    The fast form for exponential families: only ``eta`` varies, each call looks at the entries that matter
    under it, and no table is rebuilt.  The log normaliser of the family is left to the caller: subtract
    ``exp(eta).sum()`` for Poisson counts.

    Parameters
    ----------
    eta : tensor_like, shape (d,)
        Natural parameters (log rates of Poisson counts); -inf leaves only ``x_i = 0``.
    logh : array_like, shape (d, W)
        Fixed log weights, such as ``-log x!`` plus the log probability of the noise ``y_i - x``.
    lo, total, block
        As for :func:`logp_table`.

    Returns
    -------
    TensorVariable, shape (n_totals + 1,)
        As for :func:`logp_table`.  The gradient in ``eta`` is the posterior mean of the counts.

    Raises
    ------
    InvariantError, ModelError
        As for :func:`logp_table`; log weights that are nan or +inf.

    Examples
    --------
    Two Poisson counts known by their sum alone, 4: Poisson of the sum of rates.

    >>> import numpy as np
    >>> from scipy.special import gammaln
    >>> from ppdinf.distributions.marginal import logp_natural
    >>> rates, x = np.array([1.0, 2.0]), np.arange(5.0)
    >>> logh = np.tile(-gammaln(x + 1), (2, 1))
    >>> logp = logp_natural(np.log(rates), logh, lo=0, total=4).sum() - rates.sum()
    >>> float(np.exp(logp.eval()).round(6))  # exp(-3) 3^4 / 4!
    0.168031
    """
    table = np.ascontiguousarray(logh, dtype=np.float64)
    if table.ndim != 2 or not (table < np.inf).all():
        raise ModelError(f"logh must be a (cells, width) table without nan or +inf; its shape is {table.shape}")
    table, row = np.unique(table, axis=0, return_inverse=True)  # cells with the same noisy count share a row
    base, lid = fixed(table, "log_h"), fixed(totals.lids(table), "lids")

    def cut(
        blocks: NDArray[Any], lower: NDArray[Any] | None, total: NDArray[Any] | None
    ) -> tuple[totals.Pieces, totals.Grids]:
        """Pieces of the rows of free cells, and of cells in blocks that are large enough; of smaller ones on grids."""
        each = np.broadcast_to(blocks.astype(np.int64), row.shape)
        size = np.bincount(each[each >= 0], minlength=1)[each]
        on_grids = (
            (each >= 0) & (size >= totals.FEWEST) & (size <= totals.FEW) & (lower is not None and total is not None)
        )
        useful = (each < 0) | (size >= totals.MANY) | on_grids
        if not useful.any():
            return totals.NO_PIECES, totals.NO_GRIDS
        pieces = totals.pieces_of(table, np.isin(np.arange(len(table)), row[useful]), PIECES)
        if lower is None or total is None or not on_grids.any():
            return pieces, totals.NO_GRIDS
        offsets = np.atleast_1d(total).astype(np.int64)
        np.subtract.at(offsets, each[each >= 0], np.broadcast_to(lower, row.shape).astype(np.int64)[each >= 0])
        return pieces, totals.grids_of(table, row.astype(np.int64), each, offsets, pieces, ON_GRIDS)

    return _logp(base, eta, lid, row.astype(np.int64), lo, total, block, cut)
