"""Sums of cells whose log weights are ratios of gamma functions, given their totals: value and gradient.

Each group is evaluated at nodes that are fixed when the model is built (:mod:`ppdinf.fiber.fixed_nodes`). If the bounds
on their errors are too large, the integers of all windows of the group are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import Deferred
from ppdinf.fiber.fixed_nodes import GROUP, KIND, PANEL, FixedNodes, by_fixed_nodes
from ppdinf.fiber.gamma_ratios import (
    ALPHA,
    BEGIN,
    BETA,
    END,
    ETA,
    HIGH,
    LOW,
    PARAMETERS,
    SEGMENT,
    GammaRatios,
    domain,
    log_weights,
)
from ppdinf.fiber.sums_given_totals.cell_windows import Weights, probabilities, row_of, upper_envelope, vectorised
from ppdinf.fiber.sums_given_totals.value_and_gradient import block_of, grouped, has_digits

SIZES = 9
"""Number of sizes at the start of the integers: cells, totals, whether cells have alpha, beta and c, segments; kinds of
cells, their points and panels. Then follow each cell's total, the first segment of each cell, and the totals."""
TOTALS = 1  # position of the number of totals


@vectorised
def by_windows(cells: GammaRatios, members: NDArray, target: int, free: bool, out: NDArray) -> float:
    """Return the log coefficient of one group (or the log weight of a free cell) from all integers."""
    d, width = members.size, 1
    lower = np.empty(d, np.int64)
    for n in range(d):
        lower[n], high = domain(cells, members[n])
        if high < lower[n]:
            return -np.inf
        width = max(width, high - lower[n] + 1)
    logw, up, down = np.full((d, width), -np.inf), np.zeros(width), np.zeros(width)
    x = np.empty(width)
    for n in range(d):
        _, high = domain(cells, members[n])
        for s in range(cells.first[members[n]], cells.first[members[n] + 1]):
            begin, end = max(lower[n], int(cells.segment[s, BEGIN])), min(high, int(cells.segment[s, END])) + 1
            if begin < end:
                at = begin - lower[n]
                size = end - begin
                x[:size] = np.arange(begin, end)
                into = logw[n, at : at + size]
                into[:] = 0.0
                log_weights(cells, members[n], cells.segment[s], 0.0, x[:size], into, up[:size], down[:size])
    w = Weights(logw, upper_envelope(logw), np.arange(d), np.zeros(d))
    if free:
        rows, value = probabilities(w, np.arange(1), 0.0)
    else:
        value, rows, _ = block_of(w, np.arange(d), target - int(lower.sum()), False)
    if not value > -np.inf:
        return value
    for n in range(d):
        i, p = members[n], row_of(rows, n)
        size = p.size
        x[:size] = lower[n] + rows.first[n] + np.arange(size)
        log_weights(cells, i, cells.segment[0], 0.0, x[:size], logw[0, :size], up[:size], down[:size])
        out[i, :] = 0.0
        out[i, ETA], out[i, ALPHA] = (p * x[:size]).sum(), (p * up[:size]).sum()
        out[i, BETA] = (p * down[:size]).sum()
    return value


def windows_through_pointers(  # type: ignore[no-untyped-def]
    parameter, has, first, segment, members, d, n_segments, n_members, target, free, out
) -> float:
    """Call `by_windows` with arrays behind pointers."""
    cells = GammaRatios(
        numba.carray(parameter, (d, PARAMETERS)),
        numba.carray(has, (3,)),
        numba.carray(first, (d + 1,)),
        numba.carray(segment, (n_segments, SEGMENT)),
    )
    return by_windows(cells, numba.carray(members, (n_members,)), target, free, numba.carray(out, (d, PARAMETERS)))


_REALS, _INTEGERS = types.CPointer(types.float64), types.CPointer(types.int64)
_WINDOWS = Deferred(
    "ppdinf_gamma_windows",
    types.float64(_REALS, _INTEGERS, _INTEGERS, _REALS, _INTEGERS, *[types.int64] * 4, types.boolean, _REALS),
    windows_through_pointers,
)  # compiled in the first evaluation that nodes do not serve: most models never need it
_windows = _WINDOWS.call


@vectorised
def _of_zero(cells: GammaRatios, i: int, out: NDArray) -> float:
    """Return the log weight of a cell in which only the count 0 is possible and write its derivatives."""
    low, high = domain(cells, i)
    if not low <= 0 <= high:
        return -np.inf
    eta, x, value = cells.parameter[i, ETA], np.zeros(1), np.zeros(1)
    cells.parameter[i, ETA] = 0.0
    for s in range(cells.first[i], cells.first[i + 1]):
        if cells.segment[s, BEGIN] <= 0.0 <= cells.segment[s, END]:
            log_weights(cells, i, cells.segment[s], 0.0, x, value, out[i, ALPHA : ALPHA + 1], out[i, BETA : BETA + 1])
    cells.parameter[i, ETA] = eta
    return value[0]


@vectorised
def evaluate_ratios(
    cells: GammaRatios, nodes: FixedNodes, block: NDArray, total: NDArray, value: NDArray, out: NDArray
) -> None:
    """Add log coefficients to ``value`` (one per total, then all free cells) and write derivatives to ``out``."""
    for i in range(block.size):
        for k in range(PARAMETERS):
            used = k in (ETA, LOW) or (k == HIGH and cells.has[2]) or (0 < k < LOW and cells.has[k - 1])
            if used and not cells.parameter[i, k] < np.inf:
                value[:] = np.nan
                return
    order, bounds = grouped(block, total.size, cells.parameter[:, ETA])
    for i in range(block.size):
        if cells.parameter[i, ETA] == -np.inf:
            value[block[i]] += _of_zero(cells, i, out)
    for b in range(total.size + order.size - bounds[total.size]):  # groups, then free cells
        free = b >= total.size
        begin = bounds[total.size] + b - total.size if free else bounds[b]
        members = order[begin : begin + 1 if free else bounds[b + 1]]
        if not has_digits(cells.parameter[:, ETA], members):
            value[total.size if free else b] = np.nan
            continue
        target = 0 if free else total[b]
        part = by_fixed_nodes(nodes, cells.parameter, cells.has, members, -1 if free else b, target, out)
        if np.isnan(part):
            part = _windows(
                cells.parameter.ctypes, cells.has.ctypes, cells.first.ctypes, cells.segment.ctypes, members.ctypes,
                block.size, cells.segment.shape[0], members.size, target, free, out.ctypes,
            )  # fmt: skip
        value[total.size if free else b] += part


def pack(
    has: Sequence[int], segment: NDArray[np.float64], first: NDArray[np.int64], total: NDArray[np.int64],
    block: NDArray[np.int64], nodes: FixedNodes,
) -> NDArray[np.int64]:  # fmt: skip
    """Concatenate all constants of an evaluation, reals as their bits, which `ratios_through_pointers` reads."""
    sizes = np.array((block.size, total.size, *has, len(segment), len(nodes.kind), nodes.point.size, len(nodes.panel)))
    reals = (np.ascontiguousarray(x, dtype=np.float64).view(np.int64).ravel() for x in (segment, *nodes))
    return np.concatenate([sizes, block, first, total, *reals]).astype(np.int64)


@vectorised
def _rows(real: NDArray, start: int, rows: int, columns: int) -> NDArray:
    return real[start : start + rows * columns].reshape((rows, columns))


def ratios_through_pointers(varying, packed, d, size, value, out) -> int:  # type: ignore[no-untyped-def]
    """Evaluate sums of cells whose log weights are ratios of gamma functions, for callers in C."""
    integer = numba.carray(packed, (size,))
    if integer[0] != d:
        return 0
    n, segments, kinds, points, panels = integer[TOTALS], integer[5], integer[6], integer[7], integer[8]
    has = integer[2:5]
    block, first = integer[SIZES : SIZES + d], integer[SIZES + d : SIZES + 2 * d + 1]
    end = SIZES + 2 * d + 1 + n
    total, real = integer[end - n : end], integer[end:].view(np.float64)
    segment, cell, at = _rows(real, 0, segments, SEGMENT), _rows(real, segments * SEGMENT, d, 2), segments * SEGMENT
    at += cell.size
    kind, point = _rows(real, at, kinds, KIND), real[at + kinds * KIND : at + kinds * KIND + points]
    at += kind.size + points
    panel, group = _rows(real, at, panels, PANEL), _rows(real, at + panels * PANEL, n, GROUP)
    cells = GammaRatios(numba.carray(varying, (d, PARAMETERS)), has, first, segment)
    nodes = FixedNodes(cell, kind, point, panel, group, real[at + panel.size + group.size :])
    evaluate_ratios(cells, nodes, block, total, numba.carray(value, (n + 1,)), numba.carray(out, (d, PARAMETERS)))
    return 1
