r"""Sums of cells whose log weights are ratios of gamma functions, given their total, from real nodes.

As in :mod:`ppdinf.fiber.sums_given_totals.fourier`, the coefficient is a mean of products of characteristic functions
over N frequencies. The characteristic function of a cell is a sum over the nodes of its panels
(:mod:`ppdinf.fiber.panels`), which are chosen anew in each evaluation. The cost of a cell is about
50 nodes for every noise scale and count, and nothing is computed when a model is built. Steps:

1. divide all cells into panels, and compute log weights at the nodes;
2. tilt all cells until the mean of their sum is near its total; if bounds are too large for the tilt, repeat step 1;
3. choose N by Chernoff's inequality;
4. choose the frequencies: a law with total variation v has ``|phi(u)| <= v / (2 sin(u / 2))``;
5. sum products over frequencies, and their derivatives at the nodes;
6. sum the bounds on all errors; if these are too large, return nan.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.gamma_ratios import (
    ALPHA,
    BEGIN,
    BETA,
    END,
    ETA,
    LINEAR,
    SQUARE,
    GammaRatios,
    domain,
    level,
    log_weights,
)
from ppdinf.fiber.panels import (
    BOUND,
    CENTRE,
    CONCAVE,
    DISTANCE,
    ERRORS,
    FALL,
    MOST,
    PANEL,
    PLAN,
    TOP,
    mode_of,
    peak_of,
    place,
    plan,
)
from ppdinf.fiber.sums_given_totals.cell_windows import exp_of, vectorised
from ppdinf.fiber.sums_given_totals.node_sums import inverse, products, times, waves

DROP = 30.0  # omitted frequencies and aliasing are below exp(-DROP) relative to the density at the mean
FREQUENCIES = 128  # largest number of frequencies
ENOUGH = 5e-11  # accepted relative error of the coefficient
NEAR = 1.0  # largest distance of mean and total, in standard deviations of the sum
ROUNDS = 8  # divisions into panels per evaluation


class Nodes(NamedTuple):
    """Nodes of cells, counted from the centres of their plans; cell i has the nodes ``start[i] : start[i + 1]``."""

    plan: NDArray
    bound: NDArray
    start: NDArray
    x: NDArray
    log_weight: NDArray
    top: NDArray
    up: NDArray
    down: NDArray


@vectorised
def _nodes(
    cells: GammaRatios, rules: NDArray, members: NDArray, tilt: float, spread: float, steepest: float, margin: float
) -> tuple[bool, Nodes]:
    """Divide cells into panels and compute log weights at their nodes; return whether all cells have panels."""
    d = members.size
    plans, panels = np.zeros((d, PLAN)), np.empty((d, MOST, PANEL), np.int64)
    counts, start = np.zeros(d, np.int64), np.zeros(d + 1, np.int64)
    bounds, found, estimate = np.empty((d, MOST + 2, BOUND)), True, 0.0
    for i in range(d):
        estimate += peak_of(cells, members[i], tilt, plans[i])
    found = not np.isnan(estimate)
    precision = 1.0 / max(estimate if np.isnan(spread) else spread, 1e-6)
    rate = min(math.sqrt(2.0 * DROP * precision), steepest)
    precision *= margin
    for i in range(d if found else 0):
        counts[i] = plan(cells, members[i], tilt, precision, rate, panels[i], bounds[i], plans[i])
        found = found and counts[i] > 0
        start[i + 1] = start[i]
        for n in range(counts[i]):
            start[i + 1] += panels[i, n, 2]
    size = start[d] if found else 0
    nodes = Nodes(plans, bounds, start, np.empty(size), np.empty(size), np.empty(d), np.zeros(size), np.zeros(size))
    if not found:
        return False, nodes
    for i in range(d):
        at = start[i]
        for n in range(counts[i]):
            first, number, places, s = panels[i, n]
            x, out = nodes.x[at : at + places], nodes.log_weight[at : at + places]
            up, down = nodes.up[at : at + places], nodes.down[at : at + places]
            place(rules, first, number, x, out)
            log_weights(cells, members[i], cells.segment[s], tilt, x, out, up, down)
            for j in range(places):
                x[j] -= plans[i, CENTRE]
            at += places
        top = -np.inf
        for j in range(start[i], start[i + 1]):
            top = max(top, nodes.log_weight[j])
        for j in range(start[i], start[i + 1]):
            nodes.log_weight[j] -= top
        nodes.top[i] = top
    return True, nodes


@vectorised
def _weighed(x: NDArray, log_weight: NDArray, shift: float, p: NDArray) -> tuple[float, float, float]:
    """Compute probabilities of nodes tilted by `shift`; return log normaliser, mean and variance."""
    top, mass, mean, square = -np.inf, 0.0, 0.0, 0.0
    for j in range(x.size):
        p[j] = log_weight[j] + shift * x[j]
        top = max(top, p[j])
    for j in range(x.size):
        p[j] = exp_of(p[j] - top)
        mass += p[j]
        mean += p[j] * x[j]
    mean /= mass
    for j in range(x.size):
        p[j] /= mass
        square += p[j] * (x[j] - mean) ** 2
    return top + math.log(mass), mean, square


@vectorised
def _transformed(p: NDArray, cosine: NDArray, sine: NDArray, count: int, phi: NDArray) -> None:
    """Compute ``E exp(iux)`` at the first multiples of a frequency, real parts first."""
    n, real, imaginary = phi.size // 2, p.copy(), np.zeros(p.size)
    for k in range(count):
        a = b = 0.0
        for j in range(p.size):
            re = real[j] * cosine[j] - imaginary[j] * sine[j]
            im = real[j] * sine[j] + imaginary[j] * cosine[j]
            real[j], imaginary[j] = re, im
            a += re
            b += im
        phi[k], phi[n + k] = a, b


@vectorised
def _posterior(
    p: NDArray, cosine: NDArray, sine: NDArray, others: NDArray, count: int, first: float, out: NDArray
) -> None:
    """Compute ``p Re(first + sum_k others_k exp(iu_k x))`` at nodes with probabilities p."""
    n, real, imaginary = others.size // 2, p.copy(), np.zeros(p.size)
    for j in range(p.size):
        out[j] = first * p[j]
    for k in range(count):
        a, b = others[k], others[n + k]
        for j in range(p.size):
            re = real[j] * cosine[j] - imaginary[j] * sine[j]
            im = real[j] * sine[j] + imaginary[j] * cosine[j]
            real[j], imaginary[j] = re, im
            out[j] += a * re - b * im


@vectorised
def _expect(nodes: Nodes, n: int, p: NDArray, total: float, out: NDArray) -> None:
    """Write the derivatives by the parameters of a cell: means of x and of digamma functions."""
    first, mean, up, down = nodes.start[n], 0.0, 0.0, 0.0
    for j in range(p.size):
        mean += p[j] * nodes.x[first + j]
        up += p[j] * nodes.up[first + j]
        down += p[j] * nodes.down[first + j]
    out[ETA] = nodes.plan[n, CENTRE] + mean / total
    out[ALPHA], out[BETA] = up / total, down / total


@vectorised
def _error(nodes: Nodes, i: int, log_z: float, shift: float, precision: float) -> float:
    """Return the bound on the error of the sum over a tilted cell, relative to its log normaliser."""
    if abs(shift) > 0.5 * nodes.plan[i, FALL]:
        return np.inf
    total = 0.0
    for n in range(int(nodes.plan[i, ERRORS])):
        size, away, along = nodes.bound[i, n]
        total += math.exp(
            min(nodes.plan[i, TOP] - log_z + size + abs(shift) * away + 0.5 * precision * along**2, 300.0)
        )
    return total


@vectorised
def _variation(cells: GammaRatios, i: int, plan: NDArray, tilt: float, shift: float) -> float:
    """Return the logarithm of a bound on half the total variation of weights tilted by ``tilt + shift``."""
    low, high = domain(cells, i)
    if plan[CONCAVE]:  # one local maximum
        mode, s, _ = mode_of(cells, i, tilt + shift, low, high)
        return 2e-3 + level(cells, i, cells.segment[s], tilt + shift, mode)[0] - shift * plan[CENTRE]
    variation, last = 0.0, 0.0  # weights that are convex on each segment have their local maxima at its ends
    for s in range(cells.first[i], cells.first[i + 1]):
        begin, end = max(low, int(cells.segment[s, BEGIN])), min(high, int(cells.segment[s, END]))
        if begin <= end:
            first, _ = level(cells, i, cells.segment[s], tilt, 1.0 * begin)
            variation += max(last, math.exp(first - plan[TOP] + shift * (begin - plan[CENTRE])))
            final, _ = level(cells, i, cells.segment[s], tilt, 1.0 * end)
            last = math.exp(final - plan[TOP] + shift * (end - plan[CENTRE]))
    return plan[TOP] + math.log(variation + last)


@vectorised
def _tilted(
    cells: GammaRatios, rules: NDArray, members: NDArray, total: int, free: bool, margin: float
) -> tuple[bool, Nodes, NDArray, NDArray, NDArray, float, float]:
    """Tilt cells until the mean of their sum is near the total, with small errors."""
    d, tilt, shift, spread, steepest = members.size, 0.0, 0.0, np.nan, np.inf
    log_z, mean, p = np.empty(d), np.empty(d), np.empty(0)
    for i in members:
        for s in range(cells.first[i], cells.first[i + 1]):
            if cells.segment[s, SQUARE] == 0.0:
                steepest = min(steepest, 0.4 * abs(cells.segment[s, LINEAR]))
    for _ in range(ROUNDS):
        found, nodes = _nodes(cells, rules, members, tilt, spread, steepest, margin)
        if not found:
            return False, nodes, p, log_z, mean, tilt, 0.0
        p, shift, near, reach = np.empty(nodes.x.size), 0.0, False, np.inf
        for i in range(d):
            reach = min(reach, 15.0 / (1.0 + nodes.plan[i, DISTANCE]), 0.5 * nodes.plan[i, FALL])
        for _ in range(12):
            gap, spread, worst = 1.0 * total, 0.0, 0.0
            for i in range(d):
                begin, end = nodes.start[i], nodes.start[i + 1]
                log_z[i], mean[i], var = _weighed(nodes.x[begin:end], nodes.log_weight[begin:end], shift, p[begin:end])
                log_z[i] += nodes.top[i]
                gap -= nodes.plan[i, CENTRE] + mean[i]
                spread += var
            near = free or abs(gap) <= NEAR * math.sqrt(spread)
            if near or not spread > 0.0:
                break
            step = shift + gap / spread
            if abs(step) > reach:
                shift = math.copysign(reach, step)
                break
            shift = step
        if near:
            worst = 0.0
            for i in range(d):
                worst += _error(nodes, i, log_z[i], shift, 0.0 if free else margin / spread)
            if worst < ENOUGH:
                return True, nodes, p, log_z, mean, tilt, shift
        if not spread > 0.0:
            break
        tilt += shift
    return False, nodes, p, log_z, mean, tilt, shift


@vectorised
def by_panels(cells: GammaRatios, rules: NDArray, members: NDArray, target: int, free: bool, out: NDArray) -> float:
    """Return the log coefficient of one group and write the derivatives of its cells, or return nan."""
    value = np.nan
    for margin in (2.0, 16.0):  # characteristic functions may decrease more slowly than those of normal laws
        value = _with_margin(cells, rules, members, target, free, margin, out)
        if not np.isnan(value):
            break
    return value


@vectorised
def _with_margin(
    cells: GammaRatios, rules: NDArray, members: NDArray, target: int, free: bool, margin: float, out: NDArray
) -> float:
    """Evaluate one group with panels of some accuracy; see `by_panels`."""
    d = members.size
    found, nodes, p, log_z, mean, tilt, shift = _tilted(cells, rules, members, target, free, margin)
    if not found:
        return np.nan
    if free:
        _expect(nodes, 0, p, 1.0, out[members[0]])
        return log_z[0]
    spread, room, start = 0.0, target, nodes.start
    for i in range(d):
        room -= int(nodes.plan[i, CENTRE])
        for j in range(start[i], start[i + 1]):
            spread += p[j] * (nodes.x[j] - mean[i]) ** 2
    if not spread > 0.0:
        return np.nan
    # 3. the number N of frequencies
    sd = math.sqrt(spread)
    small, need = DROP + math.log1p(sd), 0.0
    rate = math.sqrt(2.0 * small) / sd
    for i in range(d):
        rate = min(rate, 0.5 * nodes.plan[i, FALL] - abs(shift))
    if not rate > 0.0:
        return np.nan
    for side in (-1.0, 1.0):
        log_mgf = -side * rate * room
        for i in range(d):
            mgf = _error(nodes, i, log_z[i], abs(shift) + rate, 0.0)
            for j in range(start[i], start[i + 1]):
                mgf += p[j] * math.exp(side * rate * nodes.x[j])
            log_mgf += math.log(mgf)
        need = max(need, (log_mgf + small) / rate)
    if not need < 1e9:
        return np.nan
    modulus = int(need) + 1
    # 4. the highest frequency
    peak, highest = np.empty(d), math.sqrt(2.0 * small) / sd
    for i in range(d):
        peak[i] = math.exp(_variation(cells, members[i], nodes.plan[i], tilt, shift) - log_z[i])
    while highest < np.pi:
        fall = most = 0.0
        for i in range(d):
            part = -math.log(min(peak[i] / math.sin(0.5 * highest), 1.0))
            fall += part
            most = max(most, part)
        if fall - most >= small:
            break
        highest *= 1.08
    count = min(int(min(highest, np.pi) * modulus / (2.0 * np.pi)), modulus // 2)
    if count > FREQUENCIES:
        return np.nan
    # 5. characteristic functions; frequencies with negligible products are dropped
    unit, drop, frequencies = 2.0 * np.pi / modulus, math.exp(-small), count
    phi, cosine, sine = np.zeros((d, 2 * count)), np.empty(start[d]), np.empty(start[d])
    product, smallest, error, lost = np.ones(count), np.ones(count), np.zeros(count), 2.0 * drop
    for i in range(d):
        begin, end, parts, reach = start[i], start[i + 1], int(nodes.plan[i, ERRORS]), 0.0
        bound, growth = np.empty(parts), np.empty(parts)
        for n in range(parts):
            size, away, along = nodes.bound[i, n]
            bound[n] = math.exp(nodes.plan[i, TOP] - log_z[i] + size + abs(shift) * away)
            growth[n] = math.exp(unit * along)
            lost += bound[n] / modulus
        for j in range(begin, end):
            reach = max(reach, abs(nodes.x[j]))
        waves(nodes.x[begin:end], unit, reach, cosine[begin:end], sine[begin:end])
        _transformed(p[begin:end], cosine[begin:end], sine[begin:end], count, phi[i])
        for k in range(count):
            off = 0.0
            for n in range(parts):
                bound[n] *= growth[n]
                off += bound[n]
            size = math.sqrt(phi[i, k] ** 2 + phi[i, frequencies + k] ** 2)
            largest = peak[i] / math.sin(0.5 * unit * (k + 1))
            error[k] += min(off, size + largest) / size
            size = min(size + off, largest, 1.0)
            product[k] *= max(size, smallest[k])
            smallest[k] = min(smallest[k], size)
        while count > 0 and product[count - 1] < drop:
            count -= 1
    after, before, others = products(phi), np.empty(2 * frequencies), np.empty(2 * frequencies)
    for k in range(count):
        error[k] += 1e-15 * math.sqrt(1.0 * d)
    total, left_out = inverse(after[0], error, modulus, room, count, before)
    lost += left_out
    # 6. the error bound
    if not total * ENOUGH > lost:
        return np.nan
    value = math.log(total) - (tilt + shift) * target
    for i in range(d):
        begin, end = start[i], start[i + 1]
        value += log_z[i] + shift * nodes.plan[i, CENTRE]
        times(before, after[i + 1], others)
        law = np.empty(end - begin)
        _posterior(p[begin:end], cosine[begin:end], sine[begin:end], others, count, 1.0 / modulus, law)
        _expect(nodes, i, law, total, out[members[i]])
        times(before, phi[i], others)
        before, others = others, before
    return value
