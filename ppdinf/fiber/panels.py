r"""Panels: runs of consecutive integers that a few real nodes replace in sums of smooth weights, with error bounds.

The Gauss rule of N consecutive integers with m nodes has the error bound 4 N M r^(1 - 2 m) / (r - 1), where M bounds
the weights on an ellipse around the panel (docs/mathematics/gauss_nodes.md). M follows from the value and the slope at
the centre and from `ppdinf.fiber.gamma_ratios.bends`.

Panels of a cell start at its mode and go in both directions. They end where the noise has another formula, or where a
geometric series bounds all further weights by a negligible sum. Short runs, also near poles, remain single integers.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.gamma_ratios import (
    BEGIN,
    END,
    HIGH,
    LINEAR,
    LOW,
    SQUARE,
    GammaRatios,
    bends,
    domain,
    is_concave,
    is_convex,
    level,
)
from ppdinf.fiber.sums_given_totals.cell_windows import vectorised

STEP = 4  # numbers of nodes are multiples of this
LARGEST = 32  # largest number of nodes of a panel
SINGLE = 16  # number of single integers where no panel is accurate
ORDER = 24  # coefficients of the polynomials that give the nodes and the logarithms of their weights
RULES = (LARGEST // STEP, 2, ORDER, LARGEST)
MOST = 32  # largest number of panels of a cell
PANEL = 4  # a panel has a first integer, a number of integers, a number of nodes, and a segment
PLAN = 9
CENTRE, TOP, ERRORS, DISTANCE, FALL, CONCAVE, MODE, PLACE, SMOOTH = 0, 1, 2, 3, 4, 5, 6, 7, 8  # entries of a plan
BOUND = 3  # a bound has a logarithm, D and B
SLACK = math.log(1e-5)  # accepted error relative to the largest weight, of weights tilted by the rate of a plan
TOLERANCE = math.log(1e-13)  # accepted error of a panel, and of omitted weights, relative to the largest weight
FALLS, BENDS, NEAR = 16.0, 4.5, 3.0  # longest panels tried: decrease, in 1 / sqrt(k), and relative to a pole's distance

# radii r of ellipses, as (r + 1/r) / 2, (r - 1/r) / 2, log r and log(r - 1)
RADII = tuple((0.5 * (r + 1 / r), 0.5 * (r - 1 / r), math.log(r), math.log(r - 1)) for r in (1.5, 2.1, 3.0, 4.5, 8.0))


def panel_rules() -> NDArray[np.float64]:
    """Return polynomials in ``(2.5 m / N)^2`` for Gauss rules of N >= 5 m / 2 consecutive integers, shape `RULES`."""
    rules, powers = np.zeros(RULES), np.zeros((ORDER, ORDER))
    for j in range(ORDER):  # Chebyshev polynomials on [0, 1] by their powers
        basis = np.polynomial.Chebyshev.basis(j, domain=[0, 1])
        powers[: j + 1, j] = basis.convert(kind=np.polynomial.Polynomial).coef
    t = 0.5 - 0.5 * np.cos(np.pi * (np.arange(ORDER) + 0.5) / ORDER)
    for r in range(LARGEST // STEP):
        m = STEP * (r + 1)
        k, found = np.arange(1.0, m), np.empty((2, ORDER, m))
        for n, at in enumerate(t):
            side = np.sqrt(k**2 * (1 - at * (k / (2.5 * m)) ** 2) / (4 * (4 * k**2 - 1)))
            node, vector = np.linalg.eigh(np.diag(side, -1))
            found[:, n] = node, np.log(vector[0] ** 2)
        for part in range(2):
            rules[r, part, :, :m] = powers @ np.polynomial.chebyshev.chebfit(2 * t - 1, found[part], ORDER - 1)
    return rules


@vectorised
def place(rules: NDArray, first: int, n: int, node: NDArray, log_weight: NDArray) -> None:
    """Write the nodes of a panel and the logarithms of their weights: as many as the arrays have entries."""
    m = node.size
    if m == n:
        for j in range(m):
            node[j], log_weight[j] = first + j, 0.0
        return
    rule, t = rules[m // STEP - 1], (2.5 * m / n) ** 2
    for j in range(m):
        node[j], log_weight[j] = rule[0, ORDER - 1, j], rule[1, ORDER - 1, j]
    for r in range(ORDER - 2, -1, -1):
        for j in range(m):
            node[j] = node[j] * t + rule[0, r, j]
            log_weight[j] = log_weight[j] * t + rule[1, r, j]
    middle, log_n = first + 0.5 * (n - 1), math.log(n)
    for j in range(m):
        node[j] = middle + n * node[j]
        log_weight[j] += log_n


@vectorised
def _fit(
    cells: GammaRatios,
    i: int,
    segment: NDArray,
    tilt: float,
    begin: int,
    n: int,
    precision: float,
    rate: float,
    result: NDArray,
    top: float,
) -> tuple[int, float, float, float]:
    """Return nodes of an accurate panel, or a large number; the log error bound; A and B."""
    half = 0.5 * (n - 1)
    centre = begin + half
    height, steep = level(cells, i, segment, tilt, centre)
    steep = abs(steep)
    best, error, across, along = 1000, np.inf, 0.0, 0.0
    extent = math.log(4.0 * n)
    for radius_a, radius_b, log_radius, rest in RADII:
        a, b = half * radius_a, half * radius_b
        k, c = bends(cells, i, segment, centre - a, centre + a)
        if k == np.inf:
            break
        size = height + steep * a + 0.5 * c * a * a
        size = (min(size, top) if c == 0.0 else size) + 0.5 * k * b * b + extent - rest
        need = max(0.5 * precision * b * b - TOLERANCE, rate * (abs(centre - result[CENTRE]) + a) - SLACK)
        m = max(int(0.5 * ((size + need - result[TOP]) / log_radius + 1.0)) + 1, 1)
        m = (m + STEP - 1) // STEP * STEP
        if m > best:
            break
        best, error, across, along = m, size - (2 * m - 1) * log_radius, a, b
    return best, error, across, along


@vectorised
def mode_of(cells: GammaRatios, i: int, tilt: float, low: int, high: int) -> tuple[float, int, bool]:
    """Return the mode of a cell with concave log weights, its segment, and whether the slope is 0 there."""
    begin, end = cells.first[i], cells.first[i + 1] - 1
    for s in range(begin, end):  # the last segment that the mode may be in
        if (
            cells.segment[s, END] >= high
            or level(cells, i, cells.segment[s + 1], tilt, cells.segment[s, END])[1] <= 0.0
        ):
            end = s
            break
    segment = cells.segment[end]
    left, right = max(1.0 * low, segment[BEGIN]), min(1.0 * high, segment[END])
    x = right
    for n in range(60):  # the right end, the left end, then Newton's method in a bracket
        here = level(cells, i, segment, tilt, x)[1]
        if (n == 0 and here >= 0.0) or (n == 1 and here <= 0.0):
            return x, end, False
        old, k = x, bends(cells, i, segment, x, x)[0]
        left, right = (x, right) if here > 0.0 else (left, x)
        x = left if n == 0 else x + here / k
        if n > 0 and not left < x < right:
            x = 0.5 * (left + right)
        if n > 1 and (abs(here * (x - old)) < 1e-3 or right - left < 0.5):
            break
    return x, end, True


@vectorised
def _record(size: float, away: float, along: float, bounds: NDArray, result: NDArray) -> None:
    n = int(result[ERRORS])
    bounds[n, 0], bounds[n, 1], bounds[n, 2] = size, away, along
    result[ERRORS], result[DISTANCE] = n + 1, max(result[DISTANCE], away)


@vectorised
def _march(
    cells: GammaRatios,
    i: int,
    s: int,
    tilt: float,
    at: int,
    stop: int,
    precision: float,
    rate: float,
    top: float,
    concave: bool,
    panels: NDArray,
    bounds: NDArray,
    count: int,
    result: NDArray,
) -> tuple[int, bool]:
    """Cover the integers of a segment; return the number of panels, and whether to go on after the segment."""
    segment, side, p = cells.segment[s], 1 if stop >= at else -1, cells.parameter[i]
    _, steep = level(cells, i, segment, tilt, 1.0 * at)
    while side * (stop - at) >= 0:
        if count == MOST:
            return MOST + 1, False
        left, x = side * (stop - at) + 1, 1.0 * at
        k, _ = bends(cells, i, segment, x, x)
        room = (NEAR if side > 0 else 0.7) * (x + p[LOW])
        if cells.has[2]:
            room = min(room, (NEAR if side < 0 else 0.7) * (p[HIGH] - x))
        longest = min(FALLS / (1e-9 + abs(steep)), BENDS / math.sqrt(k + 1e-18), room)
        n, m = int(min(1.0 * left, longest)), 1000
        for _ in range(8):
            if n < SINGLE:
                break
            begin = at if side > 0 else at - n + 1
            m, error, a, b = _fit(cells, i, segment, tilt, begin, n, precision, rate, result, top)
            if m <= min(LARGEST, 2 * n // 5):
                break
            n = (7 * n) // 10 if m > LARGEST or n > 60 else 0
        if n < SINGLE:
            m = n = min(left, SINGLE)
            result[DISTANCE] = max(result[DISTANCE], max(abs(at - result[CENTRE]), abs(at + side * n - result[CENTRE])))
        else:
            away = abs(begin + 0.5 * (n - 1) - result[CENTRE]) + a
            _record(error - result[TOP], away, b, bounds, result)
        panel = panels[count]
        panel[0], panel[1], panel[2], panel[3] = at if side > 0 else at - n + 1, n, m, s
        count += 1
        at += side * n
        height, steep = level(cells, i, segment, tilt, 1.0 * at)
        if concave and side * (stop - at) >= 0:
            fall = -side * steep
            # geometric series, also of weights times exp(s x) if |s| is at most half of the slope
            if fall > 2.0 * rate:
                size = height - result[TOP] - math.log(1.0 - math.exp(-0.5 * fall))
                away = abs(at - result[CENTRE])
                if size < TOLERANCE and size + rate * away < SLACK:
                    _record(size, away, 0.0, bounds, result)
                    result[FALL] = min(result[FALL], fall)
                    return count, False
    return count, True


@vectorised
def peak_of(cells: GammaRatios, i: int, tilt: float, result: NDArray) -> float:
    """Start a plan with the mode of a cell; return an estimate of its variance, or nan if it is not suitable."""
    low, high = domain(cells, i)
    result[:] = 0.0
    result[FALL], result[TOP] = np.inf, -np.inf
    if low > high:
        return np.nan
    first, last = cells.first[i], cells.first[i + 1] - 1
    if is_concave(cells, i):
        mode, s, smooth = mode_of(cells, i, tilt, low, high)
        result[CONCAVE], result[PLACE], result[SMOOTH] = 1.0, s, smooth
        result[CENTRE], result[MODE] = math.floor(mode), mode
        reach = 0.0
        for side in (-1.0, 1.0):
            r = min(s + 1, last) if side > 0.0 and mode == cells.segment[s, END] else s
            k, _ = bends(cells, i, cells.segment[r], mode, mode)
            height, steep = level(cells, i, cells.segment[r], tilt, mode)
            half = 0.5 * max(-side * steep, 0.0)
            reach += 0.5 / (half + math.sqrt(half * half + k) + 1e-9)
            if side < 0.0:
                result[TOP] = height + (2e-3 if smooth else 0.0)
        return min(2.0 * reach * reach, (0.5 * (high - low)) ** 2)
    if is_convex(cells, i):
        for r in range(first, last + 1):  # the largest weight is at an end of a segment
            if cells.segment[r, SQUARE] == 0.0:  # panels are accurate for tilts up to a part of the slope of the noise
                result[FALL] = min(result[FALL], 0.8 * abs(cells.segment[r, LINEAR]))
            begin, end = max(low, int(cells.segment[r, BEGIN])), min(high, int(cells.segment[r, END]))
            for at in (begin, end):
                height, _ = level(cells, i, cells.segment[r], tilt, 1.0 * at)
                if begin <= end and height > result[TOP]:
                    result[CENTRE], result[TOP] = at, height
        return (0.025 * (high - low)) ** 2
    return np.nan


@vectorised
def plan(
    cells: GammaRatios,
    i: int,
    tilt: float,
    precision: float,
    rate: float,
    panels: NDArray,
    bounds: NDArray,
    result: NDArray,
) -> int:
    """Divide a cell into panels, after `peak_of`; return their number, or 0 if there are too many."""
    low, high = domain(cells, i)
    first, last, count = cells.first[i], cells.first[i + 1] - 1, 0
    mode, s, smooth = result[MODE], int(result[PLACE]), result[SMOOTH] == 1.0
    for side in (-1, 1):
        start, r, more = int(mode) + (0 if side < 0 else 1), s, True
        if not result[CONCAVE]:
            start, r, more = low, first, side > 0
        while more and first <= r <= last and count <= MOST:
            segment = cells.segment[r]
            stop = max(low, int(segment[BEGIN])) if side < 0 else min(high, int(segment[END]))
            top = result[TOP] if smooth and r == s else np.inf
            if side * (stop - start) >= 0:
                count, more = _march(
                    cells,
                    i,
                    r,
                    tilt,
                    start,
                    stop,
                    precision,
                    rate,
                    top,
                    result[CONCAVE] == 1.0,
                    panels,
                    bounds,
                    count,
                    result,
                )
                start = stop + side
            r += side
    return count if count <= MOST else 0
