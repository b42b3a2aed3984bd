"""The total weight of all releases of a table, by elimination of cells with tabulated noise and base measures.

The noise is tilted so that public sums lie near the mean of the unconditioned sum; the conditional law does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from flint import arb
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.invariants import System
from ppdinf.lattice.points.fiber_tables import cell_intervals
from ppdinf.laws import IntegerLaw
from ppdinf.mechanisms.bounded.base_measure import BaseMeasure
from ppdinf.mechanisms.bounded.tilting import Sides, sides, tilts
from ppdinf.noise.exact.elimination.cell_elimination import elimination_work
from ppdinf.noise.exact.elimination.potentials import Potential, Window
from ppdinf.noise.exact.elimination.variable_elimination import LARGEST_WORK, Elimination

SLACK = 16  # factor by which the work may exceed the estimate before a draw is refused


@lru_cache(maxsize=4)
def eliminated_releases(
    system: System, center: tuple[int, ...], noise: IntegerLaw, base: BaseMeasure | None = None
) -> Elimination:
    """Sum the weights of all releases of a table; the result also draws releases."""
    values = system.A @ np.array(center, dtype=np.int64)
    around = getattr(base, "around", None)
    base = around(center, _groups(system)) if around is not None else base
    low, high = cell_intervals(system.A, values, system.B, system.limits)
    farthest = float(np.max(high - low, initial=0.0))  # the same for all cells and tables, so that weights are cached
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    if base is None and system.limits.size:
        tabulated = _tilted(noise, np.array(center) - low, high - np.array(center), _groups(system), farthest)
    else:
        tabulated = [sides(noise, Fraction(0), farthest, farthest)] * len(center)
    potentials = [_potential(tabulated[i], x, (low[i], high[i]), i, base) for i, x in enumerate(center)]
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


def _groups(system: System) -> NDArray[np.int64]:
    """Label cells whose sum is public: one label per class, one for all other cells; -1 where no sum is public."""
    structure = system.structure
    labels = np.where(structure.determined[structure.classes], structure.classes, structure.class_sizes.size)
    others = labels == structure.class_sizes.size
    if np.any(np.asarray(structure.lattice.basis[np.flatnonzero(others)].sum(axis=0))):
        labels[others] = -1
    return labels


def _tilted(
    noise: IntegerLaw,
    below: NDArray[np.float64],
    above: NDArray[np.float64],
    groups: NDArray[np.int64],
    farthest: float,
) -> list[Sides]:
    """Tabulate the noise of every cell, tilted where this moves the mean of a sum to its public value."""
    usual = sides(noise, Fraction(0), farthest, farthest)
    sides_of_group = {}
    for group, tilt in tilts(noise, below, above, groups).items():
        cells = groups == group
        sides_of_group[group] = sides(noise, tilt, float(below[cells].max()), float(above[cells].max()))
    return [sides_of_group.get(group, usual) for group in groups.tolist()]


def _potential(tabulated: Sides, x: int, ends: tuple[float, float], cell: int, base: BaseMeasure | None) -> Potential:
    low, high = ends

    def tabulate(bits: int) -> Window:
        largest, further = arb(1) if base is None else base.largest(cell, low, high), 0
        while True:
            up, down, tail = tabulated(bits + further)
            first, last = int(max(x - len(down) + 1, low)), int(min(x + len(up) - 1, high))
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
    row: sp.csr_array, limit: int, potentials: list[Potential], ends: Sequence[NDArray[np.float64]]
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
