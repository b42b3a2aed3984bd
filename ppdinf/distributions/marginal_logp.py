"""Marginal likelihood of a noisy table with public totals.

The confidential counts are marginalized exactly (:mod:`ppdinf.fiber.sums_given_totals.totals`), so NUTS samples only
the parameters. One Op evaluates both forms of weights:

* a table of log weights, ``logw[i, k]`` for ``x_i = lo[i] + k``, any function of the parameters;
* exponential families, ``h_i(x) exp(eta_i x)`` with fixed ``h``: Poisson (``eta`` = log rate), binomial
  (logit), negative binomial of fixed shape. Only ``eta`` is differentiated, and ``h`` is computed once.

The Op returns gradients with the value (:mod:`ppdinf.distributions.ops`). They are
posterior marginals and posterior means of the counts.
"""

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from ppdinf._internal.pymc_compat import NUMBA_CONSTANT_SIZE_LIMIT, TensorVariable
from ppdinf._internal.values import Integers, Reals
from ppdinf.distributions.data_models import constant
from ppdinf.distributions.ops import SumsGivenTotals, shared_constants
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.fiber.sums_given_totals.value_and_gradient import pack
from ppdinf.lattice.rows import Rows

MAX_PIECES = 2**18  # maximum number of pieces of log normalizers: 40 MB
MAX_NODES = 2**16  # maximum number of pieces with Gauss nodes: 57 MB, about four seconds
CLOSE = 25  # distance of a likely count from the lower end, below which the end may have weight
ON_GRIDS = 2**24  # maximum number of values on grids of frequencies: 130 MB

# distinct rows of weights, their upper_envelope, and the row of each cell
type OfRows = tuple[Reals, Reals, Integers]


def fixed(table: Reals, name: str) -> TensorVariable:
    """Put numbers in a graph, as a constant if numba can still cache a model with a constant of that size."""
    if table.nbytes <= NUMBA_CONSTANT_SIZE_LIMIT:
        return pt.as_tensor(table)
    variable = pytensor.shared(table, name=name)
    variable.tag.is_constant = True  # it is not data, whose changes densities detect
    return variable


def _integers(values: pt.TensorLike, name: str) -> TensorVariable:
    variable = pt.as_tensor(values)
    if np.dtype(variable.dtype).kind not in "iu":
        raise InvariantError(f"{name} must have an integer type, found {variable.dtype}; convert without rounding")
    return pt.atleast_1d(variable.astype("int64"))


def _logp(
    varying: pt.TensorLike,
    cells: int,
    of_rows: OfRows,
    lo: pt.TensorLike,
    total: pt.TensorLike,
    block: ArrayLike,
    as_means: bool,
    near: Integers | None = None,
) -> TensorVariable:
    goal, lower, blocks = _integers(total, "total"), constant(_integers(lo, "lo")), np.atleast_1d(np.asarray(block))
    if goal.type.shape[0] is None:
        raise InvariantError("the number of totals must be known when the model is built")
    if lower is None:
        raise InvariantError("lo must be known when the model is built")
    if blocks.dtype.kind not in "iu" or not ((blocks >= -1) & (blocks < goal.type.shape[0])).all():
        raise InvariantError(
            f"block must be an index of the {goal.type.shape[0]} totals (from 0), or -1 for a free cell"
        )
    if not {blocks.size, lower.size} <= {1, cells}:
        raise ModelError(f"lo has {lower.size:,} entries and block {blocks.size:,}: both need 1 or {cells:,}")
    lower, blocks = (np.broadcast_to(x.astype(np.int64), cells) for x in (lower, blocks))
    sums = constant(goal)

    def constants() -> Integers:
        approximations, grids, nodes = totals.NO_PIECES, totals.NO_GRIDS, totals.NO_NODES
        if as_means:
            approximations, grids, nodes = _cut(of_rows[0], of_rows[2], blocks, lower, sums, near)
        known = np.zeros(goal.type.shape[0], dtype=np.int64) if sums is None else sums
        return pack(*of_rows[:2], blocks, of_rows[2], lower, known, approximations, grids, nodes)

    packed = shared_constants((of_rows, blocks, lower, goal.type.shape[0], sums, as_means, near), constants)
    totals_as_data = [goal] if sums is None else []
    return SumsGivenTotals(as_means=as_means)(varying, packed, *totals_as_data)[0]


def _cut(
    table: Reals, row: Integers, blocks: Integers, lower: Integers, total: Integers | None, near: Integers | None
) -> tuple[totals.Pieces, totals.Grids, totals.NodePieces]:
    """Approximate rows of free cells and of large blocks by piecewise polynomials, rows of smaller blocks on grids."""
    size = np.bincount(blocks[blocks >= 0], minlength=1)[blocks]
    few, every = (blocks >= 0) & (size <= totals.FEW), np.arange(len(table))
    # grids are faster than nodes, but take seconds for wide rows, and often do not serve counts near the lower end
    close = np.isin(blocks, blocks[near - lower < CLOSE]) if near is not None else np.zeros(blocks.size, dtype=bool)
    many = totals.MANY if table.shape[1] > totals.WIDEST else 2 * totals.MANY
    is_wide = table.shape[1] > totals.WIDEST // 2
    by_nodes = few & (size >= many) & (close | is_wide)
    nodes = totals.NO_NODES
    if by_nodes.any():
        likely = np.full(len(table), np.nan)
        if near is not None:
            likely[row] = near - lower
        nodes = totals.node_pieces(table, np.isin(every, row[by_nodes]), likely, MAX_NODES)
    on_grids = few & (size >= totals.FEWEST) & (~by_nodes | (not is_wide)) & (total is not None)
    useful = (blocks < 0) | (~by_nodes & (size >= totals.MANY)) | on_grids
    if not useful.any():
        return totals.NO_PIECES, totals.NO_GRIDS, nodes
    approximations = totals.pieces_of(table, np.isin(every, row[useful]), MAX_PIECES)
    if total is None or not on_grids.any():
        return approximations, totals.NO_GRIDS, nodes
    offsets = total.astype(np.int64)
    np.subtract.at(offsets, blocks[blocks >= 0], lower[blocks >= 0])
    grids = totals.grids_of(
        table, row, blocks, offsets, approximations, ON_GRIDS, None if near is None else near - lower
    )
    return approximations, grids, nodes


def logp_table(logw: pt.TensorLike, *, lo: pt.TensorLike, total: pt.TensorLike, block: ArrayLike = 0) -> TensorVariable:
    """Return the log weight of all tables with the given totals, from log weights of every cell and value."""
    table, none = pt.as_tensor(logw).astype("float64"), np.empty((0, 0))
    cells = table.type.shape[0] or np.broadcast(lo, block).size
    return _logp(table, cells, (none, none, np.arange(cells)), lo, total, block, False)


def logp_natural(
    eta: pt.TensorLike,
    logh: ArrayLike | Rows[np.float64],
    *,
    lo: pt.TensorLike,
    total: pt.TensorLike,
    block: ArrayLike = 0,
    near: Integers | None = None,
) -> TensorVariable:
    """Return the log weight of all tables with the given totals, for weights ``exp(logh[i, k] + eta[i] x)``."""
    rows = logh if isinstance(logh, Rows) else Rows.each(np.ascontiguousarray(logh, dtype=np.float64))
    table = rows.values
    if table.ndim != 2 or not (table < np.inf).all():
        raise ModelError(f"logh must be a (cells, width) table without nan or +inf; its shape is {table.shape}")
    table, row = _distinct(table)
    row = row[rows.of]
    return _logp(eta, row.size, (table, totals.upper_envelope(table), row), lo, total, block, True, near)


def _distinct(table: Reals) -> tuple[Reals, Integers]:
    """Return the distinct rows of a table, and the row of each cell."""
    # sums of bits with random factors modulo 2^64 are sorted faster than rows; equality is checked
    factors = np.random.default_rng(1).integers(2**63, size=table.shape[1])
    _, first, row = np.unique(table.view(np.int64) @ factors, return_index=True, return_inverse=True)
    rows = table[first]
    if not np.array_equal(rows[row], table):
        rows, row = np.unique(table, axis=0, return_inverse=True)
    return rows, row.astype(np.int64)
