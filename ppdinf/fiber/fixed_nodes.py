r"""Sums of cells whose log weights are ratios of gamma functions, from nodes that are fixed when a model is built.

The nodes of a cell are Gauss rules of its noise on panels of integers (:mod:`ppdinf.fiber.node_plans`). The rest of
the weight is a smooth function f of the parameters, so that an evaluation computes f at all nodes. For a panel of mass
W with m nodes, the error is at most 4 W M r^(1 - 2 m) / (r - 1), where M bounds |f| on an ellipse around the panel
(docs/mathematics/gauss_nodes.md). Each evaluation computes M from the value and slope of f at the centre of the panel.
The bound therefore holds for all parameters; where it is too large, the result is nan. Steps:

1. compute log f and its derivatives at all points: nodes, centres of panels, and ends of segments of noise;
2. tilt all cells until the mean of their sum is near its total;
3. bound the errors of all panels, and the total variation of all cells;
4. sum characteristic functions over the nodes, and their products over the cells; drop negligible frequencies;
5. bound aliasing, dropped frequencies and errors; if the sum is too large, return nan;
6. compute the posterior of the nodes of each cell, and the derivatives.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.gamma_ratios import ALPHA, BETA, ETA, HIGH, LOW, ZERO, bend, log_of_ratio, log_to_digamma, stirling
from ppdinf.fiber.sums_given_totals.cell_windows import exp_of, vectorised
from ppdinf.fiber.sums_given_totals.node_sums import inverse, products, times

DROP = 30.0  # omitted frequencies are below exp(-DROP) relative to the density at the mean
ENOUGH = 5e-11  # accepted relative error of the coefficient
STEEPEST = 600.0  # largest exponent
NEAR = 1.0  # largest distance of mean and total, in standard deviations of the sum
LARGEST = 3e3  # shapes; above, differences of gamma functions lose digits
SHIFT = 12  # gamma functions of points nearer to a pole are computed by recurrence
ABSENT = -1e300  # log weight of points that are not nodes
# columns of a kind of cells (ALPHA and BETA are its reference parameters), rows of points, columns of panels and groups
CENTRE, FIRST, LAST, LOW_END, HIGH_END, PANELS, PANELS_END, SEGMENTS, LINEAR_NOISE, OF_ZERO, ENDS = range(5, 16)
MOST_ENDS = 4  # ends of the segments of noise
KIND = ENDS + MOST_ENDS
X, LOG_X, Y, LOG_Y, AT, BASE, RISE, LEAN, LEFT, RIGHT = range(10)
POINT = 10
MIDDLE, BOUND, SLOPE, ACROSS, ALONG = range(5)
PANEL = 5
MODULUS, FREQUENCIES, RATE = range(3)
GROUP = 3


class FixedNodes(NamedTuple):
    """Nodes of kinds of cells: cell i is of kind ``cell[i, 0]`` and has waves from ``cell[i, 1]`` on."""

    # points of a kind are a block of `POINT` rows
    # waves at points: exp(s x) and exp(-s x), then cosines and sines of u x, 2 u x and 5 u x; at panels: exp(s A),
    # exp(5 u B)

    cell: NDArray
    kind: NDArray
    point: NDArray
    panel: NDArray
    group: NDArray
    wave: NDArray


@vectorised
def _add_far(x: NDArray, log_x: NDArray, d: float, value: NDArray, psi: NDArray) -> None:
    """Add ``log Gamma(x + d) - log Gamma(x)``, without Stirling's series at x, and write digamma(x + d)."""
    for j in range(x.size):
        z = x[j] + d
        # log(z / x) = e log 2 + log((1 + s) / (1 - s))
        e = (np.float64(z / x[j]).view(np.int64) - 4604544271217802189) >> 52
        y = x[j] * np.int64((e + 1023) << 52).view(np.float64)
        more = e * 0.6931471805599453 + log_of_ratio((d if e == 0 else z - y) / (z + y))
        value[j] += (z - 0.5) * more + d * (log_x[j] - 1.0) + stirling(z)
        psi[j] = more + log_x[j] + log_to_digamma(z)


@vectorised
def _log_of(x: float) -> float:
    """Return the logarithm of a positive number by operations that can be vectorized."""
    bits = np.float64(x).view(np.int64)
    e = (bits - 4604544271217802189) >> 52  # the mantissa is in [sqrt(1/2), sqrt(2))
    m = np.int64(bits - (e << 52)).view(np.float64)
    return e * 0.6931471805599453 + log_of_ratio((m - 1.0) / (m + 1.0))


@vectorised
def _add_near(x: NDArray, d: float, value: NDArray, psi: NDArray) -> None:
    """Add log Gamma(x + d) and write digamma(x + d), by recurrence from an argument that is larger by 10."""
    for j in range(x.size):
        a = x[j] + d
        below, terms = a * (a + 1.0), 2.0 * a + 1.0
        for k in range(2, 5):
            terms = terms * (a + k) + below
            below *= a + k
        above, more = (a + 5.0) * (a + 6.0), 2.0 * a + 11.0
        for k in range(7, 10):
            more = more * (a + k) + above
            above *= a + k
        z = a + 10.0
        log_z = _log_of(z)
        value[j] += (z - 0.5) * log_z - z + 0.9189385332046727 + stirling(z) - _log_of(below * above)
        psi[j] = log_z + log_to_digamma(z) - terms / below - more / above


@vectorised
def _log_f(point: NDArray, kind: NDArray, has: NDArray, p: NDArray, w: NDArray) -> None:
    """Compute log f at all points of a cell, then digamma functions: derivatives by alpha and beta."""
    m, rate = w.size // 3, p[ETA]
    at, f, up, down = point[AT * m : (AT + 1) * m], w[:m], w[m : 2 * m], w[2 * m :]
    for j in range(m):
        f[j] = rate * at[j]
    if has[0]:
        low, d = int(kind[LOW_END]), p[ALPHA] - kind[ALPHA]
        x, log_x = point[X * m : (X + 1) * m], point[LOG_X * m : (LOG_X + 1) * m]
        _add_near(x[:low], d, f[:low], up[:low])
        _add_far(x[low:], log_x[low:], d, f[low:], up[low:])
    if has[1]:
        high, d = int(kind[HIGH_END]), p[BETA] - kind[BETA]
        y, log_y = point[Y * m : (Y + 1) * m], point[LOG_Y * m : (LOG_Y + 1) * m]
        _add_far(y[:high], log_y[:high], d, f[:high], down[:high])
        _add_near(y[high:], d, f[high:], down[high:])


@vectorised
def _copy(x: NDArray, out: NDArray) -> None:
    for j in range(x.size):  # faster than an assignment of slices
        out[j] = x[j]


@vectorised
def _largest(x: NDArray) -> float:
    """Return the largest number; changes the order of the array (loops over halves are vectorized)."""
    n, top = x.size, -np.inf
    while n >= 16 and n % 2 == 0:
        n //= 2
        low, high = x[:n], x[n : 2 * n]
        for j in range(n):
            low[j] = max(low[j], high[j])
    for j in range(n):
        top = max(top, x[j])
    return top


@vectorised
def _weighed(at: NDArray, log_p: NDArray, tilt: float, near: float, p: NDArray) -> tuple[float, float, float]:
    """Compute probabilities of tilted nodes; return log normaliser (approximately `near`), mean and variance."""
    mass = mean = square = 0.0
    for j in range(at.size):
        v = exp_of(log_p[j] + tilt * at[j] - near)
        p[j] = v
        mass += v
        mean += v * at[j]
        square += v * at[j] * at[j]
    scale = 1.0 / mass
    mean *= scale
    for j in range(at.size):
        p[j] *= scale
    return near + math.log(mass), mean, square * scale - mean * mean


@vectorised
def _errors(
    panels: NDArray, point: NDArray, kind: NDArray, has: NDArray, p: NDArray, w: NDArray, tilt: float, log_z: float,
    error: NDArray,
) -> None:  # fmt: skip
    """Compute bounds on the errors of the panels of a cell, relative to its sum."""
    m, rate = w.size // 3, p[ETA] + tilt
    for q in range(error.size):
        j, a, b = int(panels[q, MIDDLE]), panels[q, ACROSS], panels[q, ALONG]
        at = point[AT * m + j]
        x = at + kind[CENTRE]
        k, c = bend(has[0], p[ALPHA] + x - a, p[LOW] + x - a)
        if has[2]:
            more, curved = bend(has[1], p[BETA] - x - a, p[HIGH] - x - a)
            k, c = k + more, c + curved
        steep = abs(rate + w[m + j] - w[2 * m + j] + panels[q, SLOPE])
        size = panels[q, BOUND] + w[j] + tilt * at + steep * a + 0.5 * (c * a * a + k * b * b)
        error[q] = math.exp(max(min(size - log_z, 300.0), -690.0))


@vectorised
def _variation(
    point: NDArray, kind: NDArray, has: NDArray, p: NDArray, w: NDArray, tilt: float, log_z: float, level: NDArray
) -> float:
    """Return a bound on half the total variation of a tilted cell, or infinity: one local maximum in each segment."""
    m, rate, ends, more = w.size // 3, p[ETA] + tilt, 0.0, 0.0
    for n in range(MOST_ENDS):
        j = int(kind[ENDS + n])
        if j >= 0:
            ends += math.exp(point[RISE * m + j] + w[j] + tilt * point[AT * m + j] - log_z)
    j = int(kind[OF_ZERO])
    if j >= 0 and p[ZERO] != 0.0:  # the weight of 0 changes by less than its larger value
        more = math.exp(point[BASE * m + j] + w[j] + tilt * point[AT * m + j] + max(p[ZERO], 0.0) - log_z)
    below, above = has[0] and p[ALPHA] < p[LOW], has[1] and p[BETA] < p[HIGH]
    if kind[LINEAR_NOISE] and below and (above or not has[2]):  # convex within each segment
        return ends + more
    for j in range(m):  # tangents to the neighbours, where log weights are concave
        slope = rate + point[LEAN * m + j] + w[m + j] - w[2 * m + j]
        rise = max(slope * point[RIGHT * m + j], -slope * point[LEFT * m + j])
        level[j] = point[RISE * m + j] + w[j] + tilt * point[AT * m + j] + rise
    level[0] = ABSENT  # the count 0, at which ratios are 1, may be impossible
    top = math.exp(_largest(level[:m]) - log_z)
    if above:
        return np.inf
    return more + (ends + kind[SEGMENTS] * top if below else top)


@vectorised
def _tilted(
    nodes: FixedNodes, parameter: NDArray, has: NDArray, members: NDArray, start: NDArray, target: int, free: bool,
    w: NDArray, p: NDArray, log_z: NDArray,
) -> tuple[float, float, float]:  # fmt: skip
    """Tilt cells until the mean of the sum is near the total; return tilt, total minus centres, variance (or nan)."""
    d, room, tilt, reach, log_p = members.size, 1.0 * target, 0.0, 0.0, np.empty(p.size)
    for n in range(d):
        kind, begin, end = nodes.kind[int(nodes.cell[members[n], 0])], start[n], start[n + 1]
        m, point = end - begin, nodes.point[POINT * int(kind[FIRST]) : POINT * int(kind[LAST])]
        own, base, to, top = w[3 * begin : 3 * end], point[BASE * m : (BASE + 1) * m], log_p[begin:end], p[begin:end]
        _log_f(point, kind, has, parameter[members[n]], own)
        for j in range(m):
            reach = max(reach, abs(point[AT * m + j]))
            to[j] = base[j] + own[j]
        if kind[OF_ZERO] >= 0:
            to[int(kind[OF_ZERO])] += parameter[members[n], ZERO]
        _copy(to, top)
        log_z[n] = _largest(top)
        room -= kind[CENTRE]
    for _ in range(12):
        gap, spread = room, 0.0
        for n in range(d):
            kind, begin, end = nodes.kind[int(nodes.cell[members[n], 0])], start[n], start[n + 1]
            m, first = end - begin, POINT * int(kind[FIRST])
            at = nodes.point[first + AT * m : first + (AT + 1) * m]
            log_z[n], mean, var = _weighed(at, log_p[begin:end], tilt, log_z[n], p[begin:end])
            gap -= mean
            spread += var
        if free or abs(gap) <= NEAR * math.sqrt(spread):
            return tilt, room, spread
        # log probabilities are at most 0, so that those of the next tilt are at most |step| reach
        step = gap / spread
        if not abs(step) * reach < STEEPEST:
            return tilt, room, np.nan
        tilt += step
    return tilt, room, np.nan


@vectorised
def by_fixed_nodes(
    nodes: FixedNodes, parameter: NDArray, has: NDArray, members: NDArray, b: int, target: int, out: NDArray
) -> float:
    """Return the log coefficient of group b, or of a free cell (b = -1), and write its derivatives, or return nan."""
    d, free, start = members.size, b < 0, np.zeros(members.size + 1, np.int64)
    panels = np.zeros(d + 1, np.int64)
    if nodes.kind.shape[0] == 0 or (not free and nodes.group[b, FREQUENCIES] == 0.0):
        return np.nan
    for n in range(d):
        kind, p = nodes.kind[int(nodes.cell[members[n], 0])], parameter[members[n]]
        if p[LOW] != kind[LOW] or (has[2] and p[HIGH] != kind[HIGH]):
            return np.nan
        if (has[0] and not 0.0 < p[ALPHA] < LARGEST) or (has[1] and not 0.0 < p[BETA] - p[HIGH] + 1.0 < LARGEST):
            return np.nan
        start[n + 1] = start[n] + int(kind[LAST] - kind[FIRST])
        panels[n + 1] = panels[n] + int(kind[PANELS_END] - kind[PANELS])
    # 1. log f at all points, and 2. the tilt
    w, p, log_z = np.zeros(3 * start[d]), np.empty(start[d]), np.empty(d)
    tilt, room, spread = _tilted(nodes, parameter, has, members, start, target, free, w, p, log_z)
    if np.isnan(spread):
        return np.nan
    # 3. errors of panels, and total variation
    error, peak, lost, value, level = np.empty(panels[d]), np.empty(d), 0.0, 0.0, np.empty(np.diff(start).max())
    for n in range(d):
        kind, q = nodes.kind[int(nodes.cell[members[n], 0])], parameter[members[n]]
        own = w[3 * start[n] : 3 * start[n + 1]]
        point, bound = nodes.point[POINT * int(kind[FIRST]) : POINT * int(kind[LAST])], error[panels[n] : panels[n + 1]]
        of = nodes.panel[int(kind[PANELS]) : int(kind[PANELS_END])]
        _errors(of, point, kind, has, q, own, tilt, log_z[n], bound)
        lost += bound.sum()
        if not free:
            peak[n] = _variation(point, kind, has, q, own, tilt, log_z[n], level)
        value += log_z[n] - own[0] - point[RISE * own.size // 3]
    if not lost < ENOUGH:
        return np.nan
    if free:
        _expect(nodes, members[0], p, w, 1.0, out[members[0]])
        return value
    modulus, most = int(nodes.group[b, MODULUS]), int(nodes.group[b, FREQUENCIES])
    unit, small = 2.0 * np.pi / modulus, DROP + 0.5 * math.log1p(spread)
    drop, lost, left, largest = math.exp(-small), math.expm1(lost) / modulus, 0.0, -np.inf
    if most < modulus // 2:  # frequencies that are not on the grid
        for n in range(d):
            part = math.log(min(peak[n] / math.sin(0.5 * unit * (most + 1)), 1.0))
            left += part
            largest = part if n == 0 else min(largest, part)
        lost += math.exp(left - largest)
    # 4. characteristic functions
    phi, off, size_of, log_mgf = np.empty((d, 2 * most)), np.zeros(most), np.empty(most), np.zeros(2)
    count = _transformed(nodes, members, start, panels, p, error, peak, unit, drop, phi, off, size_of, log_mgf)
    few, before, others = np.empty((d, 2 * count)), np.empty(2 * count), np.empty(2 * count)
    for n in range(d):
        _copy(phi[n, :count], few[n])
        _copy(phi[n, most : most + count], few[n, count:])
    after = products(few)
    # 5. the total, aliasing and other errors
    rate = nodes.group[b, RATE]
    lost += math.exp(min(log_mgf[0] - rate * (room + modulus), 0.0))
    lost += math.exp(min(log_mgf[1] + rate * (room - modulus), 0.0)) + 2.0 * drop
    for k in range(count):
        whole = math.sqrt(after[0, k] ** 2 + after[0, count + k] ** 2)
        off[k] = min(math.expm1(min(off[k], 300.0)), 1.0 + size_of[k] / whole) + 1e-15 * math.sqrt(1.0 * d)
    total, missing = inverse(after[0], off[:count], modulus, int(room), count, before)
    if not total * ENOUGH > lost + missing:
        return np.nan
    # 6. derivatives, from the products over all other cells
    real, imaginary = np.empty(level.size), np.empty(level.size)
    for n in range(d):
        times(before, after[n + 1], others)
        begin, end, i = start[n], start[n + 1], members[n]
        _posterior(nodes, i, p[begin:end], others, 1.0 / modulus, real[: end - begin], imaginary[: end - begin])
        _expect(nodes, i, p[begin:end], w[3 * begin : 3 * end], total, out[i])
        times(before, few[n], others)
        before, others = others, before
    return value + math.log(total) - tilt * room


@vectorised
def _turned(turn: NDArray, real: NDArray, imaginary: NDArray, re: NDArray, im: NDArray) -> None:
    """Turn the weights of nodes by five frequencies; write sums at these and at two frequencies on either side."""
    m, a, b = real.size, 0.0, 0.0
    # of x exp(iz) and x exp(-iz), by the products of the parts of x with cos z and sin z
    c1 = d1 = e1 = f1 = c2 = d2 = e2 = f2 = 0.0
    for j in range(m):
        x = real[j] * turn[4 * m + j] - imaginary[j] * turn[5 * m + j]
        y = real[j] * turn[5 * m + j] + imaginary[j] * turn[4 * m + j]
        real[j], imaginary[j] = x, y
        a += x
        b += y
        c1 += x * turn[j]
        d1 += x * turn[m + j]
        e1 += y * turn[j]
        f1 += y * turn[m + j]
        c2 += x * turn[2 * m + j]
        d2 += x * turn[3 * m + j]
        e2 += y * turn[2 * m + j]
        f2 += y * turn[3 * m + j]
    re[0], re[1], re[2], re[3], re[4] = c2 + f2, c1 + f1, a, c1 - f1, c2 - f2
    im[0], im[1], im[2], im[3], im[4] = e2 - d2, e1 - d1, b, e1 + d1, e2 + d2


@vectorised
def _transformed(
    nodes: FixedNodes, members: NDArray, start: NDArray, panels: NDArray, p: NDArray, error: NDArray,
    peak: NDArray, unit: float, drop: float, phi: NDArray, off: NDArray, size_of: NDArray, log_mgf: NDArray,
) -> int:  # fmt: skip
    """Compute characteristic functions of cells, their relative errors, and log moment generating functions."""
    most = count = off.size
    product, smallest, more = np.ones(most), np.ones(most), np.empty(most)
    chord = 1.0 / np.sin(0.5 * unit * np.arange(1, most + 1))
    longest = np.diff(start).max()
    real, imaginary = np.empty(longest), np.empty(longest)
    for n in range(members.size):
        weight, bound, at = p[start[n] : start[n + 1]], error[panels[n] : panels[n + 1]], int(nodes.cell[members[n], 1])
        m, number = weight.size, bound.size
        for side in range(2):
            mgf, wave = 0.0, nodes.wave[at + side * m : at + (side + 1) * m]
            for j in range(m):
                mgf += weight[j] * wave[j]
            for q in range(number):
                mgf += bound[q] * nodes.wave[at + 8 * m + q]
            log_mgf[side] += math.log(mgf)
        turn, re, im = nodes.wave[at + 2 * m : at + 8 * m], phi[n, :most], phi[n, most:]
        growth = nodes.wave[at + 8 * m + number : at + 8 * m + 2 * number]
        for j in range(m):  # the third frequency less five
            real[j], imaginary[j] = weight[j] * turn[2 * m + j], -weight[j] * turn[3 * m + j]
        lost = bound.sum()
        for k in range(0, count, 5):
            _turned(turn, real[:m], imaginary[:m], re[k : k + 5], im[k : k + 5])
            before, lost = lost, 0.0
            for q in range(number):
                bound[q] *= growth[q]
                lost += bound[q]
            for r in range(5):  # bounds are convex in the frequency
                more[k + r] = before + 0.2 * (r + 1) * (lost - before)
        for k in range(count):
            size, largest = math.sqrt(re[k] * re[k] + im[k] * im[k]), peak[n] * chord[k]
            off[k] += min(more[k], size + largest) / size
            size = min(size + more[k], largest, 1.0)
            product[k] *= max(size, smallest[k])
            smallest[k] = min(smallest[k], size)
        while count > 0 and product[count - 5 : count].max() < drop:
            count -= 5
    size_of[:] = product * smallest
    return count


@vectorised
def _posterior(
    nodes: FixedNodes, i: int, p: NDArray, others: NDArray, constant: float, real: NDArray, imaginary: NDArray
) -> None:
    """Multiply p by ``Re(constant + sum_k others_k exp(iu_k x))`` at the nodes of a cell, by Horner's rule."""
    count, m, at = others.size // 2, p.size, int(nodes.cell[i, 1]) + 2 * p.size
    turn, o, q = nodes.wave[at : at + 6 * m], others[:count], others[count:]
    real[:] = imaginary[:] = 0.0
    for k in range(count - 5, -1, -5):
        # of the middle frequency; sums and differences of those one and two above and below
        a, b = o[k + 2], q[k + 2]
        c1, d1, e1, f1 = o[k + 3] + o[k + 1], q[k + 3] - q[k + 1], q[k + 3] + q[k + 1], o[k + 3] - o[k + 1]
        c2, d2, e2, f2 = o[k + 4] + o[k], q[k + 4] - q[k], q[k + 4] + q[k], o[k + 4] - o[k]
        for j in range(m):
            x = a + real[j] * turn[4 * m + j] - imaginary[j] * turn[5 * m + j]
            y = b + real[j] * turn[5 * m + j] + imaginary[j] * turn[4 * m + j]
            x += c1 * turn[j] - d1 * turn[m + j] + c2 * turn[2 * m + j] - d2 * turn[3 * m + j]
            y += e1 * turn[j] + f1 * turn[m + j] + e2 * turn[2 * m + j] + f2 * turn[3 * m + j]
            real[j], imaginary[j] = x, y
    for j in range(m):  # times exp(3iux)
        x, y = turn[j] * turn[2 * m + j], turn[m + j] * turn[3 * m + j]
        z = turn[m + j] * turn[2 * m + j] + turn[j] * turn[3 * m + j]
        p[j] *= constant + real[j] * (x - y) - imaginary[j] * z


@vectorised
def _expect(nodes: FixedNodes, i: int, p: NDArray, w: NDArray, total: float, out: NDArray) -> None:
    """Write the derivatives by the parameters of a cell: means of x and of digamma functions."""
    kind, mean, up, down, m = nodes.kind[int(nodes.cell[i, 0])], 0.0, 0.0, 0.0, p.size
    first = POINT * int(kind[FIRST]) + AT * m
    at = nodes.point[first : first + m]
    for j in range(m):
        mean += p[j] * at[j]
        up += p[j] * (w[m + j] - w[m])
        down += p[j] * (w[2 * m + j] - w[2 * m])
    out[ETA], out[ALPHA], out[BETA] = kind[CENTRE] + mean / total, up / total, down / total
    out[ZERO] = p[int(kind[OF_ZERO])] / total if kind[OF_ZERO] >= 0 else 0.0
