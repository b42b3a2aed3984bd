"""The total weight of all releases of a table, by elimination of cells whose noise is tilted towards public sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from flint import arb, ctx
from scipy.optimize import brentq

from ppdinf._internal.values import Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.invariants import System
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.laws import IntegerLaw
from ppdinf.mechanisms.base_measure import BaseMeasure
from ppdinf.noise.exact.cell_elimination import elimination_work
from ppdinf.noise.exact.potentials import Potential, Window
from ppdinf.noise.exact.variable_elimination import LARGEST_WORK, Elimination

DEVIATIONS = 3.0  # standard deviations of a sum within which it needs no tilt
WIDEST = 2**17  # values of one cell, up to which the tilted support extends where no bound ends it
FASTEST = 40.0  # rate above which tilted noise is 0
NEAR = 64  # noise values that are treated individually
GROWTH = 1.02  # growth of the steps between larger noise values
BITS = 80  # precision of the initial truncation

type Sides = Callable[[int], tuple[list[arb], list[arb], arb]]
"""``sides(bits)``: weights of 0, 1, ... and of 0, -1, ..., and a bound on the sum of all other weights."""


def sides(noise: IntegerLaw, tilt: Fraction, below: float, above: float) -> Sides:
    """Tabulate ``weight(z) exp(tilt z)`` for z from ``-below`` to `above`, once for all cells of a group."""

    @lru_cache(maxsize=2)
    def tabulated(bits: int, precision: int) -> tuple[list[arb], list[arb], arb]:
        up, beyond = noise.window(bits, precision, above, tilt)
        down, beneath = noise.window(bits, precision, below, -tilt)
        return up, down, ((beyond + beneath) / 2).upper()

    return lambda bits: tabulated(bits, ctx.prec)


def tilts(noise: IntegerLaw, below: Reals, above: Reals, groups: Integers) -> dict[int, Fraction]:
    """Tilt every group of cells so that noise between ``-below`` and `above` has a sum with mean 0."""
    if not np.any(groups >= 0) or np.any(below < 0) or np.any(above < 0):
        return {}
    widest = float(max(below.max(), above.max()))
    reach = float(min(noise.tail_start(-BITS * math.log(2)), widest))
    law = approximate_moments(noise, int(min(widest, max(reach, WIDEST))))
    pairs, like = np.unique(np.column_stack([law.within(below), law.within(above)]), axis=0, return_inverse=True)
    mean, variance = law.moments(pairs, 0.0)
    inside = groups >= 0
    sums, spreads = (np.bincount(groups[inside], weights=part[like][inside]) for part in (mean, variance))
    tilt_of_group = {}
    for group in np.flatnonzero(np.abs(sums) > DEVIATIONS * np.sqrt(spreads)).tolist():
        cells = np.flatnonzero(groups == group)
        kinds, counts = np.unique(like[cells], return_counts=True)
        ends = below[cells] if sums[group] > 0 else above[cells]
        rate = -float(noise.largest_ratio(0).log()) / noise.period
        limit = rate + FASTEST if ends.max() <= reach else rate * max(0.5, 1 - reach / WIDEST)
        tilt = law.balanced(pairs[kinds], counts, -limit if sums[group] > 0 else limit)
        if tilt:
            tilt_of_group[group] = Fraction(tilt)
    return tilt_of_group


class _ApproximateMoments:
    """Approximate moments of tilted noise between bounds, to a few percent: one value for each interval."""

    def __init__(self, noise: IntegerLaw, reach: int) -> None:
        starts = list(range(min(NEAR, reach) + 1))
        while starts[-1] < reach:
            starts.append(min(reach, max(starts[-1] + 1, int(starts[-1] * GROWTH))))
        lengths = np.diff([*starts, starts[-1] + 1])
        middles = np.array(starts) + (lengths - 1) // 2
        self._z = np.concatenate([-middles[:0:-1], middles])
        logs = np.log(lengths) + np.array([float(noise.log_weight(int(size))) for size in middles])
        self._logs = np.concatenate([logs[:0:-1], logs])

    def within(self, ends: Reals) -> Integers:
        """Return the largest represented value up to each end, so that few different ends remain."""
        sizes = self._z[self._z >= 0]
        return sizes[np.searchsorted(sizes, ends, side="right") - 1]

    def moments(self, pairs: Integers, tilt: float) -> tuple[Reals, Reals]:
        """Return the mean and variance of noise from ``-pairs[:, 0]`` to ``pairs[:, 1]``."""
        possible = (self._z >= -pairs[:, :1]) & (self._z <= pairs[:, 1:])
        logs = np.where(possible, self._logs + tilt * self._z, -np.inf)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        total = weights.sum(axis=1)
        mean = weights @ self._z / total
        return mean, weights @ self._z.astype(np.float64) ** 2 / total - mean**2

    def balanced(self, pairs: Integers, counts: Integers, limit: float) -> float:
        """Return the tilt between 0 and `limit` for which the sum of all noise has the mean nearest to 0."""

        def mean(tilt: float) -> float:
            return float(counts @ self.moments(pairs, tilt)[0])

        if mean(0.0) * mean(limit) >= 0:
            return limit
        return float(brentq(mean, 0.0, limit, rtol=1e-6, xtol=1e-9 * abs(limit)))


approximate_moments = lru_cache(maxsize=16)(_ApproximateMoments)


SLACK = 16  # factor by which the work may exceed the estimate before a draw is refused


@lru_cache(maxsize=4)
def eliminated_releases(
    system: System, center: tuple[int, ...], noise: IntegerLaw, base: BaseMeasure | None = None
) -> Elimination:
    """Sum the weights of all releases of a table; the result also draws releases."""
    values = system.A @ np.array(center, np.int64)
    around = getattr(base, "around", None)
    base = around(center, _groups(system)) if around is not None else base
    low, high = cell_intervals(system.A, values, system.B, system.limits)
    farthest = float(np.max(high - low, initial=0.0))  # the same for all cells and tables, so that weights are cached
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    if base is None and system.limits.size:
        tabulated = _tilted(noise, np.array(center) - low, high - np.array(center), _groups(system), farthest)
    else:
        tabulated = [sides(noise, Fraction(0), farthest, farthest)] * len(center)
    potentials = [potential_of(tabulated[i], x, (low[i], high[i]), i, base) for i, x in enumerate(center)]
    if not linked.size:
        return Elimination(system.A, values.tolist(), potentials, largest=SLACK * LARGEST_WORK)
    B = system.B[linked]
    slacks = [_slack(B[[k]], int(system.limits[row]), potentials, (low, high)) for k, row in enumerate(linked)]
    rows = sp.block_array([[system.A, None], [B, -sp.eye_array(linked.size, dtype=np.int64)]], format="csr")
    values = np.concatenate([values, system.limits[linked]])
    return Elimination(rows, values.tolist(), [*potentials, *slacks], largest=SLACK * LARGEST_WORK)


def work_of(system: System, noise: IntegerLaw) -> float:
    """Estimate the multiplications of an elimination from the public statements: an upper bound over all tables."""
    low, high = cell_intervals(system.A, system.values, system.B, system.limits)
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    return elimination_work(sp.csr_array(sp.vstack([system.A, system.B[linked]])), (high - low) / 2, noise)


def _groups(system: System) -> Integers:
    """Label cells whose sum is public: one label per class, one for all other cells; -1 where no sum is public."""
    structure = system.structure
    labels = np.where(structure.determined[structure.classes], structure.classes, structure.class_sizes.size)
    others = labels == structure.class_sizes.size
    if np.any(np.asarray(structure.lattice.basis[np.flatnonzero(others)].sum(axis=0))):
        labels[others] = -1
    return labels


def _tilted(noise: IntegerLaw, below: Reals, above: Reals, groups: Integers, farthest: float) -> list[Sides]:
    """Tabulate the noise of every cell, tilted where this moves the mean of a sum to its public value."""
    usual = sides(noise, Fraction(0), farthest, farthest)
    sides_of_group = {}
    for group, tilt in tilts(noise, below, above, groups).items():
        cells = groups == group
        sides_of_group[group] = sides(noise, tilt, float(below[cells].max()), float(above[cells].max()))
    return [sides_of_group.get(group, usual) for group in groups.tolist()]


def potential_of(
    tabulated: Sides, x: int, ends: tuple[float, float], cell: int = 0, base: BaseMeasure | None = None
) -> Potential:
    """Return the weights of a cell between its ends, with those of a base measure, as the input of an elimination."""
    low, high = ends

    def tabulate(bits: int) -> Window:
        largest, further = arb(1) if base is None else base.largest(cell, low, high), 0
        while True:
            up, down, tail = tabulated(bits + further)
            first = int(max(x - len(down) + 1, low))
            last = int(min(x + len(up) - 1, high))
            if first > last:
                raise InvariantError(
                    "a count lies outside the public bounds, beyond the reach of the noise: check the bounds"
                )
            weights = [*down[max(1, x - last) : x - first + 1][::-1], *up[max(0, first - x) : last - x + 1]]
            if base is not None:
                weights = [weight * base.weight(cell, first + k) for k, weight in enumerate(weights)]
            excess = tail * largest * arb(2) ** bits / sum(weights, start=arb(0))
            if base is None or not excess > 1:
                return first, weights, tail * largest
            further += math.ceil(float(excess.log().upper()) / math.log(2)) + 1

    return tabulate


def _slack(
    row: sp.csr_array, limit: int, potentials: list[Potential], ends: Sequence[Reals]
) -> Callable[[int], Window]:
    """Tabulate all values of the slack variable, with weight 1, while the cells are within their supports."""
    (low, high), rising = (end[row.indices] for end in ends), row.data > 0
    largest = float(np.sum(row.data * np.where(rising, high, low))) - limit

    def tabulate(bits: int) -> Window:
        windows = [potentials[cell](bits) for cell in row.indices.tolist()]
        last = np.array(
            [
                first + len(weights) - 1 if up else first
                for (first, weights, _), up in zip(windows, rising.tolist(), strict=True)
            ]
        )
        return 0, [arb(1)] * (int(min(row.data @ last - limit, largest)) + 1), arb(0)

    return tabulate
