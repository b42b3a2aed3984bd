"""Nodes of cells whose log weights are ratios of gamma functions, chosen when a model is built.

The counts of a cell are divided into panels, and each panel gets the Gauss rule of the noise on its integers. The
numbers of nodes are such that the error bounds of :mod:`ppdinf.fiber.fixed_nodes` are small for a range of parameters:
shapes from 0.3 to 16, and rates under which the slope of the log weight at the most likely count is up to 1 / standard
deviation of the noise. The choice affects only the parameters for which nodes can be used, not their accuracy.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy.special import digamma, gammaln

from ppdinf._internal.values import Integers, Reals
from ppdinf.fiber import fixed_nodes as at
from ppdinf.fiber.fixed_nodes import ABSENT, FREQUENCIES, GROUP, KIND, MOST_ENDS, PANEL, POINT, SHIFT, FixedNodes
from ppdinf.fiber.gamma_ratios import BEGIN, CONSTANT, END, LINEAR, ORIGIN, SQUARE, stirling
from ppdinf.fiber.sums_given_totals.gauss_nodes import gauss_rule
from ppdinf.lattice.rows import kinds

_stirling: Callable[[Reals], Reals] = stirling.py_func  # type: ignore[attr-defined]  # also of arrays
SHAPES = (0.3, 1.0, 4.0, 16.0)
SLOPES = (0.0, -1.0, 1.0)  # of log f at the most likely count, times 1 / standard deviation of the noise
MODES = (-3.0, 3.0)  # of f, relative to the most likely count, in standard deviations of the noise
RADII = np.array([1.5, 2.1, 3.0, 4.5, 7.0, 12.0])  # of ellipses around a panel
TOLERANCE, OF_GROUP = 1e-14, 5e-12  # wanted error of a panel, relative to the sum of a cell; of one panel of each cell
MOST_NODES, SINGLES = 24, 16  # largest number of nodes of a panel, and of integers of a panel without a rule
SAMPLE = 300  # counts of a cell at which reference weights are computed
RATES = np.array([2.0, 3.0, 4.0, 5.5, 7.5])  # of Chernoff's inequality, times 1 / standard deviation of the sum
DROP = 33.0  # omitted frequencies and aliasing are below exp(-DROP)
MOST_FREQUENCIES = 400  # numbers of frequencies are multiples of five
MOST_CELLS = 2**12  # largest number of different cells: about 5 seconds


class _Cell:
    """The noise of a cell, and the rest of its weights, f, under reference parameters."""

    def __init__(self, segment: Reals, has: Sequence[int], low: float, high: float) -> None:
        self.segment, self.has, self.low, self.high = segment, has, low, high
        end = min(segment[-1, END], high - 1) if has[2] else segment[-1, END]
        self.counts = np.arange(max(segment[0, BEGIN], 1 - low), end + 1)
        self.of_count = np.minimum(np.searchsorted(segment[:, END], self.counts), len(segment) - 1)
        if not self.counts.size:
            return
        self.log_weight = self.noise(self.counts, self.of_count)[0]
        step = max(self.counts.size // SAMPLE, 1)
        first, every = np.arange(min(SHIFT, self.counts.size)), np.arange(0, self.counts.size, step)
        self.sample = np.unique(np.concatenate([first, every]))
        self.width = np.gradient(self.counts[self.sample]) if self.sample.size > 1 else np.ones(1)
        x, p = self.counts[self.sample], self._normalized(self.log_weight[self.sample][None])
        spread = max(math.sqrt(p[0] @ x**2 - (p[0] @ x) ** 2), 0.5)
        shapes = SHAPES if has[0] else SHAPES[:1]
        alpha = np.repeat(shapes, len(SLOPES) + len(MODES))
        self.references = np.zeros(alpha.size), alpha, high - 1 + alpha
        # rates with given slopes at the most likely count, and rates with the mode of f at other counts
        places = np.array([0.0] * len(SLOPES) + list(MODES)) * spread + self.counts[self.log_weight.argmax()]
        places = np.clip(places, min(self.counts[0] + 0.5, self.counts[-1]), max(self.counts[-1] - 0.5, self.counts[0]))
        slopes = np.array(SLOPES + (0.0,) * len(MODES)) / spread
        rates = np.tile(slopes, len(shapes)) - self.log_f(np.tile(places, len(shapes)))[1]
        most = 0.3 / spread if has[0] and not has[2] else np.inf
        self.references = np.minimum(rates, most), *self.references[1:]
        # reference weights at some of the counts
        log_p = self.log_weight[self.sample] + self.log_f(x[:, None])[0].T
        self.p = self._normalized(log_p)
        self.log_z = _log_sum(log_p + np.log(self.width))
        self.mean = self.p @ x
        self.variance = np.maximum(self.p @ x**2 - self.mean**2, 1e-3)
        self.centre = float(np.rint(np.median(self.mean)))
        self.peak = np.exp((log_p - self.log_z[:, None]).max(axis=1))

    def _normalized(self, log_p: Reals) -> Reals:
        log_p = log_p + np.log(self.width)
        return np.exp(log_p - _log_sum(log_p)[:, None])

    def noise(self, x: Reals, of: Integers) -> tuple[Reals, Reals]:
        """Return the log noise of given segments at real numbers, and its derivative."""
        part = self.segment[of].T
        off = x - part[ORIGIN]
        return part[CONSTANT] + off * (part[LINEAR] + off * part[SQUARE]), part[LINEAR] + 2 * off * part[SQUARE]

    def smooth(self, x: Reals | float) -> tuple[Reals, Reals]:
        """Return the fixed part of log f at real numbers, and its derivative."""
        value, slope = -gammaln(x + self.low), -digamma(x + self.low)
        if self.has[2]:
            value, slope = value - gammaln(self.high - x), slope + digamma(self.high - x)
        return value, slope

    def log_f(self, x: Reals | float) -> tuple[Reals, Reals]:
        """Return log f under all reference parameters at real numbers (n, 1) or a number, and its derivative."""
        rate, alpha, beta = self.references
        value, slope = self.smooth(x)
        value, slope = value + rate * x, slope + rate
        if self.has[0]:
            value, slope = value + gammaln(x + alpha) - gammaln(alpha), slope + digamma(x + alpha)
        if self.has[1]:
            value, slope = value + gammaln(beta - x) - gammaln(beta), slope - digamma(beta - x)
        return value, slope

    def panels(self, precision: Reals, tolerance: float) -> tuple[list[tuple[int, int, int]], list[Reals]]:
        """Return panels as first position, end and number of nodes, and their ellipses (0 for single integers)."""
        x = self.counts
        near = x + self.low - 1 < SHIFT
        if self.has[2]:
            near |= self.high - 1 - x < SHIFT
        found = list[tuple[int, int, int]](), list[Reals]()
        edges = np.concatenate([[0], np.flatnonzero(np.diff(near)) + 1, [x.size]])
        for begin, end in pairwise(edges):
            if near[begin]:
                found[0].append((begin, end, end - begin))
                found[1].append(np.zeros(4))
            else:
                self._divide(begin, end, precision, tolerance, *found)
        return found

    def _divide(
        self, begin: int, end: int, precision: Reals, tolerance: float, panels: list[tuple[int, int, int]],
        ellipses: list[Reals],
    ) -> None:  # fmt: skip
        """Add the panels of a run of counts: one, if a rule with few nodes is accurate, or those of its parts."""
        n = end - begin
        m, ellipse = (n, np.zeros(4)) if n <= SINGLES else self._needed(begin, end, precision, tolerance)
        if n > SINGLES and m > min(MOST_NODES, 3 * n // 4):
            middle = begin + int(math.sqrt((self.counts[begin] + 1) * (self.counts[end - 1] + 1)) - self.counts[begin])
            middle = min(max(middle, begin + n // 4), begin + n // 2)
            self._divide(begin, middle, precision, tolerance, panels, ellipses)
            self._divide(middle, end, precision, tolerance, panels, ellipses)
        else:
            panels.append((begin, end, m))
            ellipses.append(ellipse)

    def _needed(self, begin: int, end: int, precision: Reals, tolerance: float) -> tuple[int, Reals]:
        """Return the number of nodes for a panel, and log mass, r and half axes of its ellipse."""
        half, x = 0.5 * (end - 1 - begin), 0.5 * (self.counts[begin] + self.counts[end - 1])
        mass = _log_sum(self.log_weight[begin:end])
        across, along = 0.5 * half * (RADII + 1 / RADII), 0.5 * half * (RADII - 1 / RADII)
        possible = x - across + self.low >= 0.5
        value, slope = self.log_f(x)
        left, right = x - across[:, None], self.high - x - across[:, None]
        k, c = _bends(self.has[0], self.references[1] + left, self.low + left)
        if self.has[2]:
            possible &= self.high - x - across >= 0.5
            more, curved = _bends(self.has[1], self.references[2] - self.high + right, right)
            k, c = k + more, c + curved
        size = mass + value - self.log_z + abs(slope) * across[:, None] + 0.5 * c * across[:, None] ** 2
        size = (size + 0.5 * (k + precision) * along[:, None] ** 2).max(axis=1) + math.log(4) - np.log(RADII - 1)
        need = np.where(possible, np.maximum(0.5 * ((size - tolerance) / np.log(RADII) + 1), 1), np.inf)
        best = int(need.argmin())
        m = int(need[best]) + 1 if np.isfinite(need[best]) else 10**6
        return m, np.array([mass, RADII[best], across[best], along[best]])


def _log_sum(log_p: Reals) -> Reals:
    """Return the logarithm of a sum over the last axis."""
    top = log_p.max(axis=-1, keepdims=True)
    return np.log(np.exp(log_p - top).sum(axis=-1)) + top[..., 0]


def _bends(has: int, positive: Reals, negative: Reals) -> tuple[Reals, Reals]:
    """Return the bounds of `ppdinf.fiber.gamma_ratios.bend` for arrays; those of impossible ellipses are not used."""
    positive, negative = np.maximum(positive, 0.1), np.maximum(negative, 0.1)
    r, q = 1 / negative, 1 / positive
    if not has:
        return r + r * r, 0 * r
    concave = positive >= negative
    k = np.where(concave, r * r + r - 1 / np.maximum(negative, np.ceil(positive) - 1), 0)
    return k, np.where(concave, 0, q + q * q - r - 0.5 * r * r)


def _points(cell: _Cell, precision: Reals, tolerance: float) -> tuple[Reals, Reals, Reals]:
    """Return the kind of a cell (positions count from its first point and panel), its points and its panels."""
    panels, ellipses = cell.panels(precision, tolerance)
    places, log_w, panel = [np.zeros(1)], [np.full(1, ABSENT)], []
    for (begin, end, m), (mass, r, across, along) in zip(panels, ellipses, strict=True):
        if r == 0:
            places.append(cell.counts[begin:end])
            log_w.append(cell.log_weight[begin:end])
            continue
        node, weight = np.zeros(m), np.zeros(m)
        gauss_rule(np.exp(cell.log_weight[begin:end] - mass), cell.counts[begin], node, weight)
        middle = 0.5 * (cell.counts[begin] + cell.counts[end - 1])
        places += [node[weight > 0], np.array([middle])]
        log_w += [mass + np.log(weight[weight > 0]), np.full(1, ABSENT)]
        panel.append([middle, mass + math.log(4) + (1 - 2 * m) * math.log(r) - math.log(r - 1), 0, across, along])
    nodes = sum(map(len, places))
    # ends of the segments of noise; a segment that continues the one before starts at its end
    ends, of = [cell.counts[0]], [cell.of_count[0]]
    for s in np.unique(cell.of_count)[:-1]:
        last = min(cell.segment[s, END], cell.counts[-1])
        both = [cell.noise(np.array([last]), np.array([t]))[0][0] for t in (s, s + 1)]
        joined = abs(both[0] - both[1]) < 1e-9
        ends += [last] if joined else [last, last + 1]
        of += [s] if joined else [s, s + 1]
    ends, of = [*ends, cell.counts[-1]], [*of, cell.of_count[-1]]
    x = np.concatenate([*places, ends])
    base = np.concatenate([*log_w, np.full(len(ends), ABSENT)])
    segment = np.minimum(np.searchsorted(cell.segment[:, END], x), len(cell.segment) - 1)
    segment[nodes:] = of
    is_end = np.arange(x.size) >= nodes
    order = np.argsort(x, kind="stable")
    near, order = order[x[order] < SHIFT], order[x[order] >= SHIFT]
    parts = [part for own in (near, order) if own.size for part in (own, np.full(-own.size % 8, own[-1]))]
    padded = np.concatenate([np.full(part.size, n % 2 == 1) for n, part in enumerate(parts)])
    order = np.concatenate(parts)
    x, base, segment, is_end = x[order], np.where(padded, ABSENT, base[order]), segment[order], is_end[order] & ~padded
    point = np.zeros((POINT, x.size))
    (noise, lean), (_, slope) = cell.noise(x, segment), cell.smooth(np.clip(x, cell.counts[0], cell.counts[-1]))
    alpha, fixed, zero = cell.low if cell.low >= 0.5 else 1.0, np.zeros(x.size), 0.0
    for side, row in ((0, at.X), (1, at.Y)):
        z, below = (x + alpha, x + cell.low) if side == 0 else (cell.high - x,) * 2
        below = np.where(x < cell.counts[0], z, below)
        is_near, large = (x if side == 0 else cell.high - 1 - x) < SHIFT, np.maximum(z, SHIFT)
        if cell.has[side]:  # with the part of log Gamma(z + d) that does not depend on d
            point[row], point[row + 1] = z, np.log(z)
            rest = np.where(is_near, -gammaln(z), -_stirling(large))
            zero += rest[0] + gammaln(z[0])
            fixed += rest + np.where(z == below, 0.0, gammaln(z) - gammaln(below))
        elif side == 0 or cell.has[2]:
            fixed -= gammaln(below)
    point[[at.AT, at.BASE]] = x - cell.centre, base + fixed
    point[[at.RISE, at.LEAN]] = np.where(padded, ABSENT, noise + fixed), lean + slope
    point[at.RISE, 0] = zero
    # distances to neighbours, without those that have no integer between them
    gap = np.where(np.ceil(x[:-1] + 1e-9) < x[1:] - 1e-9, np.diff(x), 0.0)
    gap[x[:-1] < cell.counts[0]] = 0.0
    point[at.LEFT, 1:], point[at.RIGHT, :-1] = gap, gap
    point[at.LEFT : at.RIGHT + 1, is_end | padded] = 0.0
    kind = np.zeros(KIND)
    kind[1:5] = alpha, cell.high, cell.low, cell.high
    own = np.flatnonzero(is_end)
    kind[[at.CENTRE, at.LAST]] = cell.centre, x.size
    kind[[at.LOW_END, at.HIGH_END]] = np.sum(x < SHIFT), np.sum(cell.high - 1 - x >= SHIFT)
    kind[[at.PANELS_END, at.SEGMENTS, at.LINEAR_NOISE]] = len(panel), len(set(of)), (cell.segment[:, SQUARE] == 0).all()
    of_zero = np.flatnonzero((x == 0) & (base != ABSENT) & ~is_end)
    kind[at.OF_ZERO] = of_zero[0] if of_zero.size else -1
    kind[at.ENDS :] = np.append(own, np.full(MOST_ENDS - own.size, -1))
    ellipse = np.array(panel).reshape(-1, PANEL)
    for q in ellipse:
        j = np.flatnonzero((x == q[at.MIDDLE]) & (base == ABSENT) & ~is_end)[0]
        q[[at.MIDDLE, at.SLOPE]], q[at.BOUND] = (j, slope[j]), q[at.BOUND] + fixed[j]
    return kind, point, ellipse


def _grid(cells: list[_Cell], times: Integers) -> tuple[int, int, float]:
    """Return modulus and number of frequencies of a group of different cells, and a rate for Chernoff's inequality."""
    flat = slice(0, None, len(SLOPES) + len(MODES))  # references without a slope at the most likely count
    variance = sum(n * cell.variance[flat] for n, cell in zip(times, cells, strict=True))
    sd = math.sqrt(variance.max())
    small, log_mgf = DROP + math.log1p(sd), np.zeros((RATES.size, 2, variance.size))
    for n, cell in zip(times, cells, strict=True):
        off = (cell.counts[cell.sample] - cell.mean[flat, None]) / sd
        for side in range(2):
            turned = (RATES * (1 - 2 * side))[:, None, None] * off
            log_mgf[:, side] += n * np.log((np.exp(np.minimum(turned, 600.0)) * cell.p[flat]).sum(axis=2))
            log_mgf[:, side] += np.where(turned.max(axis=2) < 500.0, 0.0, np.inf)  # waves would overflow
    need = (log_mgf.max(axis=(1, 2)) + small) / (RATES / sd)
    if not need.min() < np.inf:
        return 0, 0, 0.0
    modulus = 10 * (int(1.05 * need.min() + 1.5 * sd) // 10 + 1)
    most = min(modulus // 2, MOST_FREQUENCIES)
    chord = np.sin(np.pi * np.arange(1, most + 1) / modulus)[:, None]
    fall, largest = np.zeros((most, variance.size)), np.zeros((most, variance.size))
    for n, cell in zip(times, cells, strict=True):
        part = -np.log(np.minimum(1.1 * cell.peak[flat] / chord, 1))
        fall, largest = fall + n * part, np.maximum(largest, part)
    enough = np.flatnonzero((fall - largest >= small).all(axis=1))
    count = 5 * (int(enough[0]) // 5 + 1) if enough.size else most
    return modulus, count, RATES[need.argmin()] / sd


def no_nodes(cells: int, totals: int) -> FixedNodes:
    """Return empty arrays: all integers are summed."""
    group, none = np.zeros((totals, GROUP)), np.zeros(0)
    return FixedNodes(np.zeros((cells, 2)), np.zeros((0, KIND)), none, np.zeros((0, PANEL)), group, none)


def plan_nodes(
    has: Sequence[int], span: Integers, segment: Reals, low: Reals, high: Reals, block: Integers,
    totals: int,
) -> FixedNodes:  # fmt: skip
    """Return the nodes of all cells, for groups with given totals and free cells (block -1)."""
    of_kinds, points, panels, waves = list[Reals](), [np.zeros(0)], [np.zeros((0, PANEL))], [np.zeros(0)]
    of_cell, group, sizes = np.zeros((block.size, 2)), np.zeros((totals, GROUP)), np.zeros(3, np.int64)
    first, of_made = kinds([span[:, 0], low, high])
    if first.size > MOST_CELLS:
        return no_nodes(block.size, totals)
    made = [_Cell(segment[slice(*span[i])], has, low[i], high[i]) for i in first]
    if any(cell.counts.size == 0 or cell.counts[0] < 0 for cell in made):
        return no_nodes(block.size, totals)
    for b in range(-1, totals):
        members = np.flatnonzero(block == b)
        if not members.size:
            continue
        own, of = np.unique(of_made[members], return_inverse=True)
        cells, times, unit, rate = [made[k] for k in own], np.bincount(of), 0.0, 0.0
        precision, tolerance = np.zeros(1), TOLERANCE
        if b >= 0:
            modulus, count, rate = _grid(cells, times)
            unit = 2 * np.pi / max(modulus, 1)
            precision = 2 / sum(n * cell.variance for n, cell in zip(times, cells, strict=True))
            tolerance = min(TOLERANCE, OF_GROUP / members.size)
        parts = [_points(cell, precision, math.log(tolerance)) for cell in cells]
        if b >= 0:
            group[b] = modulus, count, rate
        for n, (kind, point, panel) in enumerate(parts):
            of_cell[members[of == n]] = len(of_kinds), sizes[2]
            kind[[at.FIRST, at.LAST]] += sizes[0]
            kind[[at.PANELS, at.PANELS_END]] += sizes[1]
            of_kinds.append(kind)
            points.append(point.ravel())
            panels.append(panel)
            if b >= 0 and group[b, FREQUENCIES]:
                ends = cells[n].counts[[0, -1]] - cells[n].centre
                x, turns = rate * np.clip(point[at.AT], *ends), unit * point[at.AT]
                waves += [np.exp(x), np.exp(-x), *(wave(k * turns) for k in (1, 2, 5) for wave in (np.cos, np.sin))]
                with np.errstate(over="ignore"):  # an infinite bound is valid
                    waves += [np.exp(rate * panel[:, at.ACROSS]), np.exp(5 * unit * panel[:, at.ALONG])]
                sizes[2] += sum(map(len, waves[-10:]))
            sizes[:2] += point.shape[1], len(panel)
    return FixedNodes(
        of_cell, np.array(of_kinds), np.concatenate(points), np.concatenate(panels), group, np.concatenate(waves)
    )
