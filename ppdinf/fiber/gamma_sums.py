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
    ZERO,
    GammaRatios,
    domain,
    log_weights,
)
from ppdinf.fiber.sums_given_totals.cell_windows import Weights, probabilities, row_of, upper_envelope, vectorised
from ppdinf.fiber.sums_given_totals.value_and_gradient import block_of, grouped, has_digits

SIZES = 9
"""Number of sizes at the start of the integers: cells, totals, whether cells have alpha, beta and c, segments; kinds of
cells, their points and panels. Then follow each cell's total, the segments of each cell (d, 2), and the totals."""
TOTALS = 1  # position of the number of totals


@vectorised
def _equal_apart_from_rates(cells: GammaRatios, members: NDArray) -> tuple[NDArray, NDArray]:
    """Return the kind of each member, and a member of each kind; members of a kind differ in ETA only."""
    order, kind = np.arange(members.size), np.empty(members.size, np.int64)
    first = np.empty(members.size, np.int64)
    for column in (ALPHA, BETA, LOW, HIGH, ZERO):
        own = np.array([cells.parameter[members[n], column] for n in order])
        order = order[np.argsort(own, kind="mergesort")]
    order = order[np.argsort(np.array([cells.span[members[n], 0] for n in order]), kind="mergesort")]
    number = 0
    for k in range(order.size):
        i, before = members[order[k]], members[order[max(k - 1, 0)]]
        same = k > 0 and cells.span[i, 0] == cells.span[before, 0]
        for column in (ALPHA, BETA, LOW, HIGH, ZERO):
            same = same and cells.parameter[i, column] == cells.parameter[before, column]
        if not same:
            first[number] = i
            number += 1
        kind[order[k]] = number - 1
    return kind, first[:number]


@vectorised
def by_windows(cells: GammaRatios, members: NDArray, target: int, free: bool, out: NDArray) -> float:
    """Return the log coefficient of one group (or the log weight of free cells) from all integers."""
    row, first = _equal_apart_from_rates(cells, members)
    lower, width = np.empty(first.size, np.int64), 1
    for r in range(first.size):
        lower[r], high = domain(cells, first[r])
        if high < lower[r]:
            return -np.inf
        width = max(width, high - lower[r] + 1)
    logw, up, down = np.full((first.size, width), -np.inf), np.zeros((first.size, width)), np.zeros((first.size, width))
    x = np.empty(width)
    for r in range(first.size):
        i, (_, high) = first[r], domain(cells, first[r])
        for s in range(cells.span[i, 0], cells.span[i, 1]):
            begin, end = max(lower[r], int(cells.segment[s, BEGIN])), min(high, int(cells.segment[s, END])) + 1
            if begin < end:
                at, to = begin - lower[r], end - lower[r]
                x[at:to] = np.arange(begin, end)
                logw[r, at:to] = 0.0
                log_weights(
                    cells, i, cells.segment[s], -cells.parameter[i, ETA], x[at:to], logw[r, at:to], up[r, at:to],
                    down[r, at:to],
                )  # fmt: skip
    rate, start, least = cells.parameter[members, ETA], 0.0, 0
    for n in range(members.size):
        start += rate[n] * lower[row[n]]
        least += lower[row[n]]
    w = Weights(logw, upper_envelope(logw), row, rate)
    if free:
        rows, value = probabilities(w, np.arange(members.size), 0.0)
    else:
        value, rows, _ = block_of(w, np.arange(members.size), target - least, False)
    if not value > -np.inf:
        return value
    for n in range(members.size):
        i, r, p, mean, at = members[n], row[n], row_of(rows, n), 0.0, rows.first[n]
        out[i, :] = 0.0
        for k in range(p.size):
            mean += p[k] * k
            out[i, ALPHA] += p[k] * up[r, at + k]
            out[i, BETA] += p[k] * down[r, at + k]
        out[i, ETA] = lower[r] + at + mean
        out[i, ZERO] = p[0] if lower[r] + at == 0 else 0.0
    return value + start


def windows_through_pointers(  # type: ignore[no-untyped-def]
    parameter, has, span, segment, members, d, n_segments, n_members, target, free, out
) -> float:
    """Call `by_windows` with arrays behind pointers."""
    cells = GammaRatios(
        numba.carray(parameter, (d, PARAMETERS)),
        numba.carray(has, (3,)),
        numba.carray(span, (d, 2)),
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
    for s in range(cells.span[i, 0], cells.span[i, 1]):
        if cells.segment[s, BEGIN] <= 0.0 <= cells.segment[s, END]:
            log_weights(cells, i, cells.segment[s], 0.0, x, value, out[i, ALPHA : ALPHA + 1], out[i, BETA : BETA + 1])
    cells.parameter[i, ETA], out[i, ZERO] = eta, 1.0
    return value[0]


@vectorised
def evaluate_ratios(
    cells: GammaRatios, nodes: FixedNodes, block: NDArray, total: NDArray, value: NDArray, out: NDArray
) -> None:
    """Add log coefficients to ``value`` (one per total, then all free cells) and write derivatives to ``out``."""
    for i in range(block.size):
        for k in range(PARAMETERS):
            used = k in (ETA, LOW, ZERO) or (k == HIGH and cells.has[2]) or (0 < k < LOW and cells.has[k - 1])
            if used and not cells.parameter[i, k] < np.inf:
                value[:] = np.nan
                return
    order, bounds = grouped(block, total.size, cells.parameter[:, ETA])
    for i in range(block.size):
        if cells.parameter[i, ETA] == -np.inf:
            value[block[i]] += _of_zero(cells, i, out)
    for b in range(total.size + 1):  # groups, then free cells
        free, members = b == total.size, order[bounds[b] : bounds[b + 1]]
        if not has_digits(cells.parameter[:, ETA], members):
            value[b] = np.nan
            continue
        target, left, number, fails = 0 if free else total[b], members.copy(), 0, False
        for n in range(members.size if free else 1):  # each free cell is a sum of its own
            own = members[n : n + 1] if free else members
            part = by_fixed_nodes(nodes, cells.parameter, cells.has, own, -1 if free else b, target, out)
            if np.isnan(part):
                left[number : number + own.size] = own
                number, fails = number + own.size, True
            else:
                value[b] += part
        if fails:
            value[b] += _windows(
                cells.parameter.ctypes, cells.has.ctypes, cells.span.ctypes, cells.segment.ctypes, left.ctypes,
                block.size, cells.segment.shape[0], number, target, free, out.ctypes,
            )  # fmt: skip


def pack(
    has: Sequence[int], segment: NDArray[np.float64], span: NDArray[np.int64], total: NDArray[np.int64],
    block: NDArray[np.int64], nodes: FixedNodes,
) -> NDArray[np.int64]:  # fmt: skip
    """Concatenate all constants of an evaluation, reals as their bits, which `ratios_through_pointers` reads."""
    sizes = np.array((block.size, total.size, *has, len(segment), len(nodes.kind), nodes.point.size, len(nodes.panel)))
    reals = (np.ascontiguousarray(x, dtype=np.float64).view(np.int64).ravel() for x in (segment, *nodes))
    return np.concatenate([sizes, block, span.ravel(), total, *reals]).astype(np.int64)


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
    block, span = integer[SIZES : SIZES + d], integer[SIZES + d : SIZES + 3 * d].reshape((d, 2))
    end = SIZES + 3 * d + n
    total, real = integer[end - n : end], integer[end:].view(np.float64)
    segment, cell, at = _rows(real, 0, segments, SEGMENT), _rows(real, segments * SEGMENT, d, 2), segments * SEGMENT
    at += cell.size
    kind, point = _rows(real, at, kinds, KIND), real[at + kinds * KIND : at + kinds * KIND + points]
    at += kind.size + points
    panel, group = _rows(real, at, panels, PANEL), _rows(real, at + panels * PANEL, n, GROUP)
    cells = GammaRatios(numba.carray(varying, (d, PARAMETERS)), has, span, segment)
    nodes = FixedNodes(cell, kind, point, panel, group, real[at + panel.size + group.size :])
    evaluate_ratios(cells, nodes, block, total, numba.carray(value, (n + 1,)), numba.carray(out, (d, PARAMETERS)))
    return 1
