"""All constants of an evaluation of sums given their totals in one array of int64, which also holds the bits of reals.

The evaluation uses a dozen arrays. As inputs of a PyTensor graph each of them takes time to compile, about 1 s with
nutpie in every process.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import vectorised
from ppdinf.fiber.sums_given_totals.frequency_grids import Grids
from ppdinf.fiber.sums_given_totals.log_normaliser import WIDTH
from ppdinf.fiber.sums_given_totals.node_pieces import WIDTH as NODE_WIDTH
from ppdinf.fiber.sums_given_totals.node_pieces import NodePieces
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import Pieces
from ppdinf.fiber.sums_given_totals.value_and_gradient import evaluate

SIZES = 13
"""Number of sizes at the start: cells, totals, rows of weights, their width and chunks; rows and units of pieces,
pieces; grids, and numbers on grids; rows and pieces with nodes; integers. Then follow each cell's total, row and lower
end, and the totals."""

TOTALS = 1
"""Position of the number of totals."""


def pack(
    logw: NDArray[np.float64],
    lid: NDArray[np.float64],
    block: NDArray[np.int64],
    row: NDArray[np.int64],
    lo: NDArray[np.int64],
    total: NDArray[np.int64],
    pieces: Pieces,
    grids: Grids,
    nodes: NodePieces,
) -> NDArray[np.int64]:
    """Concatenate the inputs of `ppdinf.fiber.sums_given_totals.value_and_gradient.evaluate`."""
    sizes = (
        row.size, total.size, *logw.shape, lid.shape[1], len(pieces.first), len(pieces.unit), len(pieces.table),
        len(grids.place), len(grids.table), len(nodes.first), len(nodes.table), 0,
    )  # fmt: skip
    # grids may have fewer groups than there are totals, or none
    group = grids.group if len(grids.group) else np.full((total.size, 3), -1)
    reals = (logw, lid, pieces.table, grids.table, nodes.start, nodes.table)
    whole = (np.array(sizes), block, row, lo, total, pieces.first, pieces.unit, group, grids.place, nodes.first)
    integers = np.concatenate([np.asarray(part, dtype=np.int64).ravel() for part in whole])
    integers[SIZES - 1] = integers.size
    bits = (np.ascontiguousarray(part, dtype=np.float64).view(np.int64).ravel() for part in reals)
    return np.concatenate([integers, *bits])


@vectorised
def _cut(array: NDArray, start: int, rows: int, columns: int) -> NDArray:
    return array[start : start + rows * columns].reshape((rows, columns))


def through_pointers(  # type: ignore[no-untyped-def]
    varying, packed, totals, d, width, size, as_means, value, out
) -> int:
    """Evaluate sums given their totals, for callers in C; see `value_and_gradient.evaluate`."""
    integer = numba.carray(packed, (size,))
    real = integer[integer[SIZES - 1] :].view(np.float64)
    n, rows, columns, chunks = integer[1], integer[2], integer[3], integer[4]
    in_pieces, units, number, grids, on_grids = integer[5], integer[6], integer[7], integer[8], integer[9]
    in_nodes, nodes = integer[10], integer[11]
    if integer[0] != d:
        return 0
    at = SIZES
    block, row, lo = integer[at : at + d], integer[at + d : at + 2 * d], integer[at + 2 * d : at + 3 * d]
    total = numba.carray(totals, (n,))
    for i in range(d):
        if not (0 <= row[i] < (rows if as_means else d) and -1 <= block[i] < n):
            return 0
    at += 3 * d + n
    first = _cut(integer, at, in_pieces, 4)
    unit = _cut(integer, at + first.size, units, 2)
    group = _cut(integer, at + first.size + unit.size, n, 3)
    place = _cut(integer, at + first.size + unit.size + group.size, grids, 2 * number)
    by_row = integer[at + first.size + unit.size + group.size + place.size :][:in_nodes]
    logw = _cut(real, 0, rows, columns)
    lid = _cut(real, logw.size, rows, chunks)
    table = _cut(real, logw.size + lid.size, number, WIDTH)
    waves = real[logw.size + lid.size + table.size :][:on_grids]
    left = logw.size + lid.size + table.size + on_grids
    start, node = real[left : left + nodes], _cut(real, left + nodes, nodes, NODE_WIDTH)
    if not as_means:
        logw, lid = numba.carray(varying, (d, width)), np.empty((0, 0))
    evaluate(
        logw,
        numba.carray(varying, (d,)) if as_means else np.zeros(d),
        lid,
        row,
        lo,
        block,
        total,
        Pieces(first, unit, table),
        Grids(group, place, waves),
        NodePieces(by_row, start, node),
        as_means,
        numba.carray(value, (n + 1,)),
        numba.carray(out, (d, width)),
    )
    return 1
