r"""Quantile function of the noise along a line z + t b of the lattice: t as an increasing function of one uniform.

l1: the exponent ``-sum_i epsilon_i |z_i + t b_i|``, with a rate for each cell, is linear in t between the breakpoints
-z_i/b_i. The law is therefore geometric, increasing or decreasing, on each segment of integers between breakpoints. The
masses of segments are geometric sums relative to the largest weight, and the position within a segment has a closed
form. An integer t is on the lower side of cell i exactly if ``t <= floor(-z_i/b_i)``. Every integer therefore belongs
to one segment, also if a breakpoint is between integers (``|b_i| > 1``).

l2 and Gaussian: both laws depend on t through (t - c)^2 with c = -<z,b>/<b,b> and decrease away from c. Weights are
summed over the integers whose weight exceeds exp(-40) of the largest. The omitted part is below 1e-14 of the total.

Bounds lower <= t <= upper truncate the laws. The functions are monotone in the uniform variable. Two states that share
it are therefore coupled by common quantiles, and two states on the same line move to the same point.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.laws.integer_noise.chain_kernels import L1, L2, log_mass

type Ints = NDArray[np.int64]

FAR = 2**60  # represents an infinite bound
LEFT_OUT = 40.0  # largest difference of exponents
ALMOST_ONE = 1.0 - 2.0**-53


type Room = tuple[Ints, NDArray[np.float64]]


@jit
def work_space(longest: int) -> Room:
    """Return scratch arrays for the breakpoints and segments of a line over at most `longest` cells."""
    return np.empty((2, longest + 1), np.int64), np.empty((5, longest + 1))


@jit
def line_quantile(
    z: Ints,
    squares: int,
    cells: Ints,
    steps: Ints,
    kind: int,
    rates: NDArray[np.float64],
    lower: int,
    upper: int,
    u: float,
    scratch: Room,
) -> int:
    """Return the u-quantile of t given lower <= t <= upper."""
    if kind == L1:
        return _piecewise_geometric(z, cells, steps, rates, lower, upper, u, scratch)
    inner, length = 0, 0
    for i in range(cells.size):
        inner += z[cells[i]] * steps[i]
        length += steps[i] * steps[i]
    return _window(squares, inner, length, kind, rates[0], lower, upper, u)


@jit
def _piecewise_geometric(
    z: Ints, cells: Ints, steps: Ints, rates: NDArray[np.float64], lower: int, upper: int, u: float, scratch: Room
) -> int:
    (turn, last), (rise, lift, grade, height, mass) = scratch
    n, slope, level = cells.size, 0.0, 0.0
    for i in range(n):  # insertion sort of the breakpoints, with the changes of slope and level
        b, at, rate = steps[i], z[cells[i]], rates[cells[i]]
        size = abs(b)
        signed = at if b > 0 else -at
        place = -signed if size == 1 else (-signed) // size
        slope -= rate * size
        level -= rate * signed
        k = i
        while k > 0 and turn[k - 1] > place:
            turn[k], rise[k], lift[k] = turn[k - 1], rise[k - 1], lift[k - 1]
            k -= 1
        turn[k], rise[k], lift[k] = place, 2.0 * rate * size, 2.0 * rate * signed
    # segments: minus the exponent is slope * t + level on (first, last[k]]; mass relative to the largest weight
    first, lowest = lower, np.inf
    for k in range(n + 1):
        if k > 0:
            slope += rise[k - 1]
            level += lift[k - 1]
        grade[k] = slope
        last[k] = min(upper, turn[k]) if k < n else upper
        mass[k] = 0.0
        if last[k] >= first:
            peak = last[k] if slope < 0 else first
            height[k] = slope * peak + level
            lowest = min(lowest, height[k])
            count = last[k] - first + 1
            if slope == 0 or count == 1:
                mass[k] = count
            else:
                q = abs(slope)
                mass[k] = math.expm1(-q * count) / math.expm1(-q)
            first = last[k] + 1
    # scale all segments to the largest weight, and choose a segment by u
    total = 0.0
    for k in range(n + 1):
        if mass[k] > 0.0:
            mass[k] *= math.exp(lowest - height[k])
            total += mass[k]
    v, k = u * total, 0
    while k < n and v >= mass[k]:
        v -= mass[k]
        k += 1
    while mass[k] == 0.0:  # only by rounding at the last segment
        k -= 1
        v = mass[k]
    # the position within the segment: uniform or geometric from the heavier end
    slope, first = grade[k], lower
    end: int = last[k]
    for i in range(k):
        first = max(first, last[i] + 1)
    count = end - first + 1
    share = min(v / mass[k], 1.0)
    if slope == 0 or count == 1:
        return first + min(int(share * count), count - 1)
    q = abs(slope)
    gone = min(share if slope > 0 else 1.0 - share, ALMOST_ONE)  # counted from the heavier end
    steps_in = min(int(math.log1p(gone * math.expm1(-q * count)) / -q), count - 1)
    return first + steps_in if slope > 0 else end - steps_in


@jit
def _window(squares: int, inner: int, length: int, kind: int, scale: float, lower: int, upper: int, u: float) -> int:
    center = -inner / length
    mode = min(max(int(np.rint(center)), lower), upper)
    offset = (mode - center) ** 2
    if kind == L2:
        across = max(squares - inner * inner / length, 0.0)
        reach = math.sqrt(((math.sqrt(across + length * offset) + LEFT_OUT / scale) ** 2 - across) / length)
    else:
        reach = math.sqrt(offset + 2.0 * LEFT_OUT * scale * scale / length)
    first, end = max(lower, math.ceil(center - reach)), min(upper, math.floor(center + reach))
    top = log_mass(kind, scale, 0, squares + mode * (2 * inner + mode * length))
    total = 0.0
    for t in range(first, end + 1):
        total += math.exp(log_mass(kind, scale, 0, squares + t * (2 * inner + t * length)) - top)
    v, t = u * total, first
    while t < end:
        v -= math.exp(log_mass(kind, scale, 0, squares + t * (2 * inner + t * length)) - top)
        if v < 0.0:
            break
        t += 1
    return t
