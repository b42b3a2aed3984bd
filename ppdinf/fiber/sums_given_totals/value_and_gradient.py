"""Log coefficients of blocks of cells given their totals, and their gradient, the posterior of each cell."""

from __future__ import annotations

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import Deferred
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.sums_given_totals.cell_windows import (
    Weights,
    WindowRows,
    moments,
    normalise,
    probabilities,
    row_of,
    slack_for,
    tilted,
    upper_envelope,
    vectorised,
)
from ppdinf.fiber.sums_given_totals.cumulants import MANY, by_cumulants, values_and_means
from ppdinf.fiber.sums_given_totals.fixed_frequencies import by_frequencies
from ppdinf.fiber.sums_given_totals.fourier import by_convolution, by_probabilities, convolved, inverted
from ppdinf.fiber.sums_given_totals.frequency_grids import Grids
from ppdinf.fiber.sums_given_totals.gauss_nodes import WIDTH as NODE_WIDTH
from ppdinf.fiber.sums_given_totals.gauss_nodes import NodePieces
from ppdinf.fiber.sums_given_totals.node_sums import by_nodes
from ppdinf.fiber.sums_given_totals.piecewise_polynomials import WIDTH, Pieces, placed

LARGEST = 1e14
"""Above, the product of a natural parameter and a count has no digits left for log weights: the result is nan."""


@vectorised
def pair_of(w: Weights, cells: NDArray, target: int) -> tuple[float, WindowRows, NDArray]:
    """Return the log coefficient of two cells, and their posterior probabilities and means, by one direct sum."""
    row, other = w.logw[w.row[cells[0]]], w.logw[w.row[cells[1]]]
    begin, end = max(target - other.size + 1, 0), min(target, row.size - 1)
    n, rate = max(end - begin + 1, 0), w.slope[cells[0]] - w.slope[cells[1]]
    p, mean = np.empty(2 * n), np.zeros(2)
    for k in range(n):
        p[k] = row[begin + k] + other[target - begin - k] + rate * k
    value = normalise(p[:n])
    if not value > -np.inf:
        return value, WindowRows(np.zeros(2, np.int64), np.zeros(3, np.int64), p), mean
    for k in range(n):
        p[n + k] = p[n - 1 - k]
        mean[0] += k * p[k]
    mean[1] = n - 1 - mean[0]
    value += w.slope[cells[0]] * begin + w.slope[cells[1]] * (target - begin)
    return value, WindowRows(np.array([begin, target - end]), np.array([0, n, 2 * n]), p), mean


@vectorised
def block_of(w: Weights, cells: NDArray, target: int, as_means: bool) -> tuple[float, WindowRows, NDArray]:
    """Return the log coefficient of one block, and the posterior probabilities or means (``as_means``) of its cells."""
    d = cells.size
    if d == 2:
        return pair_of(w, cells, target)
    rows, mean, var, tilt, log_z = tilted(w, cells, target)
    if not log_z > -np.inf:
        return log_z, WindowRows(rows.first, np.zeros(d + 1, np.int64), rows.p), mean
    room, center = slack_for(rows, target), mean
    probability, error, rest, mean = inverted(rows, center, var, room, as_means)
    value, accurate = log_z + np.log(probability), probability > 0 and error < 1e-9
    if accurate and as_means:
        return value - tilt * target, rows, mean / probability
    if not accurate:
        accurate, value, rows, rest = by_probabilities(w, cells, target, tilt)
    if accurate:
        for k in range(rows.p.size):
            rows.p[k] = max(rows.p[k] * rest.p[k], 0.0)
    else:
        value, rows, partial = by_convolution(w, cells, target, tilt, log_z)
        if value == -np.inf:
            return value, WindowRows(rows.first, np.zeros(d + 1, np.int64), rows.p), mean
        room = slack_for(rows, target)
        after = convolved(rows, room, True)
        for i in range(d):
            row = row_of(rows, i)
            for k in range(row.size):
                mass = 0.0
                for a in range(room - k + 1):
                    mass += np.exp(partial[i, a] + after[d - 1 - i, room - k - a] + row[k] - value)
                row[k] = mass
    for i in range(d):
        row, mass, mean[i] = row_of(rows, i), 0.0, 0.0
        for k in range(row.size):
            mass += row[k]
        for k in range(row.size):
            row[k] /= mass
            mean[i] += k * row[k]
    return value - tilt * target, rows, mean


@vectorised
def has_digits(eta: NDArray, cells: NDArray) -> bool:
    """Return whether the natural parameters of cells are at most `LARGEST`."""
    found = True
    for i in cells:
        found = found and abs(eta[i]) <= LARGEST
    return found


@vectorised
def grouped(block: NDArray, totals: int, eta: NDArray) -> tuple[NDArray, NDArray]:
    """Return cells by block and the start of each block; free cells are last, empty ones omitted."""
    start, order = np.zeros(totals + 3, np.int64), np.empty(block.size, np.int64)
    for i in range(block.size):
        if not -1 <= block[i] < totals:
            raise InvariantError("block must be the number of a total or -1")
        start[(block[i] if block[i] >= 0 else totals) + 2] += 0 if eta[i] == -np.inf else 1
    for b in range(totals + 1):
        start[b + 2] += start[b + 1]
    for i in range(block.size):
        if eta[i] != -np.inf:
            b = (block[i] if block[i] >= 0 else totals) + 1
            order[start[b]] = i
            start[b] += 1
    return order[: start[totals + 1]], start


@vectorised
def _free(w: Weights, pieces: Pieces, order: NDArray, begin: int, lo: NDArray, value: NDArray, out: NDArray) -> NDArray:
    """Evaluate free cells (from ``order[begin]`` on) that have a piece; return the order of the other cells."""
    cells = order[begin:]
    number, by = np.empty(cells.size, np.int64), np.empty(cells.size)
    log_z, mean = np.empty(cells.size), np.empty(cells.size)
    left = order[: begin + placed(pieces, w, cells, 0.0, number, by)].copy()
    values_and_means(pieces, number, by, log_z, mean)
    for n in range(cells.size):
        i = cells[n]
        if number[n] < 0:
            left[begin] = i
            begin += 1
        else:
            value[-1] += log_z[n] + w.slope[i] * lo[i]
            out[i, 0] = lo[i] + mean[n]
    return left


@vectorised
def log_weight_of_zero(logw: NDArray, lo: int) -> float:
    """Return the log weight of 0 in a window that starts at `lo`."""
    return logw[-lo] if 0 <= -lo < logw.size else -np.inf


@vectorised
def add_rest(
    w: Weights, lo: NDArray, order: NDArray, bounds: NDArray, total: NDArray, left: NDArray, as_means: bool,
    value: NDArray, out: NDArray,
) -> None:  # fmt: skip
    """Add the blocks `left`, and the cells after all blocks, from all counts of their windows."""
    free = order.size - bounds[total.size]
    for n in range(left.size + free):
        b = left[n] if n < left.size else total.size
        at = bounds[total.size] + n - left.size
        cells = order[bounds[b] : bounds[b + 1]] if n < left.size else order[at : at + 1]
        if not has_digits(w.slope, cells):
            value[b] = np.nan
            for i in cells:
                out[i] = np.nan
            continue
        if b == total.size and not as_means:  # all counts at once, so that no envelope is needed
            p = out[cells[0]]
            for k in range(p.size):
                p[k] = w.logw[w.row[cells[0]], k] + w.slope[cells[0]] * k
            value[b] += normalise(p) + w.slope[cells[0]] * lo[cells[0]]
            continue
        if b == total.size:
            rows, part = probabilities(w, cells, 0.0)
            mean = np.array([moments(rows.p)[0]])
        else:
            target = total[b]
            for i in cells:
                target -= lo[i]
            part, rows, mean = block_of(w, cells, target, as_means)
        possible = part > -np.inf
        for m in range(cells.size):
            i, p = cells[m], row_of(rows, m)
            part += w.slope[i] * lo[i]
            if as_means and possible:
                out[i, 0] = lo[i] + rows.first[m] + mean[m]
            elif not as_means:
                for k in range(p.size):
                    out[i, rows.first[m] + k] = p[k]
        value[b] += part


def rest_through_pointers(  # type: ignore[no-untyped-def]
    logw, lid, row, eta, lo, order, bounds, total, left, rows, width, chunks, d, ordered, n, many, as_means, columns,
    value, out,
) -> float:  # fmt: skip
    """Call `add_rest` with arrays behind pointers."""
    w = Weights(carray(logw, (rows, width)), carray(lid, (rows, chunks)), carray(row, (d,)), carray(eta, (d,)))
    members, start = carray(order, (ordered,)), carray(bounds, (n + 3,))
    goal, blocks = carray(total, (n,)), carray(left, (many,))
    values, posteriors = carray(value, (n + 1,)), carray(out, (d, columns))
    add_rest(w, carray(lo, (d,)), members, start, goal, blocks, as_means, values, posteriors)
    return 0.0


_REALS, _INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
_REST = Deferred(
    "ppdinf_blocks_by_windows",
    types.float64(
        _REALS, _REALS, _INTEGERS, _REALS, *[_INTEGERS] * 5, *[types.int64] * 7, types.boolean, types.int64, _REALS,
        _REALS,
    ),
    rest_through_pointers,
)  # fmt: skip  # compiled in the first evaluation that nodes and polynomials do not serve
_rest = _REST.call


@vectorised
def evaluate(
    logw: NDArray,
    eta: NDArray,
    lid: NDArray,
    row: NDArray,
    lo: NDArray,
    block: NDArray,
    total: NDArray,
    pieces: Pieces,
    grids: Grids,
    nodes: NodePieces,
    as_means: bool,
    value: NDArray,
    out: NDArray,
) -> None:
    """Add log coefficients to ``value`` (one per total, then all free cells) and posteriors to ``out``."""
    if not row.size == eta.size == lo.size == block.size:
        raise ModelError("weights, natural parameters, lower ends and blocks must have the same number of cells")
    order, bounds = grouped(block, total.size, eta)
    direct = not as_means
    for b in range(total.size):
        direct = direct and bounds[b + 1] - bounds[b] == 2
    w = Weights(logw, lid if lid.size or direct else upper_envelope(logw), row, eta)
    for i in range(eta.size):
        if eta[i] == -np.inf:
            part = log_weight_of_zero(logw[row[i]], lo[i])
            value[block[i]] += part  # block -1 is the last entry, the free cells
            if not as_means and part > -np.inf:
                out[i, -lo[i]] = 1.0
    if as_means and pieces.table.shape[0]:
        order = _free(w, pieces, order, bounds[total.size], lo, value, out)
    left, shifts = np.empty(total.size, np.int64), np.empty(order.size)
    many = 0
    for b in range(total.size):
        cells, part = order[bounds[b] : bounds[b + 1]], np.nan
        if as_means and (pieces.table.shape[0] or nodes.table.shape[0]) and has_digits(eta, cells):
            target = total[b]
            for i in cells:
                target -= lo[i]
            if grids.table.shape[0] and grids.group[b, 0] >= 0:
                part = by_frequencies(w, pieces, grids, b, cells, target, shifts)
            if np.isnan(part) and nodes.table.shape[0]:
                part = by_nodes(w, nodes, cells, target, shifts)
            if np.isnan(part) and pieces.table.shape[0] and cells.size >= MANY:
                part = by_cumulants(w, pieces, cells, target, shifts)
        if np.isnan(part):
            left[many] = b
            many += 1
            continue
        for n in range(cells.size):
            i = cells[n]
            part += eta[i] * lo[i]
            out[i, 0] = lo[i] + shifts[n]
        value[b] += part
    if many or bounds[total.size] < order.size:
        failed = _rest(
            logw.ctypes, w.lid.ctypes, row.ctypes, eta.ctypes, lo.ctypes, order.ctypes, bounds.ctypes, total.ctypes,
            left.ctypes, logw.shape[0], logw.shape[1], w.lid.shape[1], row.size, order.size, total.size, many, as_means,
            out.shape[1], value.ctypes, out.ctypes,
        )  # fmt: skip
        if np.isnan(failed):
            value[:] = np.nan


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
    integer = carray(packed, (size,))
    real = integer[integer[SIZES - 1] :].view(np.float64)
    n, rows, columns, chunks = integer[1], integer[2], integer[3], integer[4]
    in_pieces, units, number, grids, on_grids = integer[5], integer[6], integer[7], integer[8], integer[9]
    in_nodes, nodes = integer[10], integer[11]
    if integer[0] != d:
        return 0
    at = SIZES
    block, row, lo = integer[at : at + d], integer[at + d : at + 2 * d], integer[at + 2 * d : at + 3 * d]
    total = carray(totals, (n,))
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
        logw, lid = carray(varying, (d, width)), np.empty((0, 0))
    eta = carray(varying, (d,)) if as_means else np.zeros(d)
    pieces, on_grid = Pieces(first, unit, table), Grids(group, place, waves)
    with_nodes = NodePieces(by_row, start, node)
    values, posteriors = carray(value, (n + 1,)), carray(out, (d, width))
    evaluate(logw, eta, lid, row, lo, block, total, pieces, on_grid, with_nodes, as_means, values, posteriors)
    return 1
