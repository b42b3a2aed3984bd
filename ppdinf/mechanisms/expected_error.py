"""The size of a mechanism's noise before a release, from its distribution and the labels, never from counts.

The noise of a cell in no public sum has the distribution ``w(z)``. Under one public sum of n cells with independent
weights (l1 Laplace, Gaussian) it is ``w(z) W(-z)``, where W is the (n - 1)-fold convolution of w, computed by the fast
Fourier transform. Two cells have ``w(z) w(z') V(-z - z')``, where V is the (n - 2)-fold convolution. Where public sums
cross, and for other noise, the distribution is estimated from simulated draws around an empty table.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.values import Array, Integers, Reals, require_number
from ppdinf.errors import InvariantError, LabelError, PrivacyError
from ppdinf.invariants import System
from ppdinf.invariants.public import bind
from ppdinf.laws import IntegerLaw
from ppdinf.mechanisms.counting_queries import answer
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.tables.table import TableLike, as_table, labelled_cells
from ppdinf.tables.totals import exempt_labels

if TYPE_CHECKING:
    from ppdinf.mechanisms.table_mechanism import TableMechanism

PROBABILITY = 0.9
VALUES, FEWEST, LARGEST = 200_000, 200, 10_000  # simulated noise values in total, and bounds on the number of draws
PAIRS = 8  # other cells that each cell is compared with where noise is simulated
SECONDS_OF_CELL = {"scale mixture": 8e-7, "rejection": 6e-8}  # seconds per attempt and cell, by sampler
SECONDS_OF_DRAW = 6e-3  # seconds per accepted attempt
SLOW, TOO_SLOW = 5.0, 20.0  # seconds above which fewer draws are simulated, and above which none are
REDUCED = 2_000  # simulated noise values in total, where draws are slow
WAY_OUT = "state a smaller loss, choose l2 or Gaussian noise, or publish fewer crossing sums"
RARE = 1e-15
LARGEST_GAP = 10_000


def expected_error(
    mechanism: TableMechanism,
    table: TableLike | Mapping[str, int],
    sizes: Sequence[int] = (10, 100, 1000),
    gaps: Sequence[int] = (),
    known: Iterable[System] = (),
) -> pd.DataFrame:
    """Tabulate the error of released cells; see `Mechanism.expected_error`."""
    if not mechanism.is_translation_invariant:
        raise PrivacyError(
            f"the error of {type(mechanism).__name__} may depend on the counts or records: simulate "
            "releases around an already public table, (mechanism.simulate(old, draws=1000, rng=1) - old).std('draw')"
        )
    _require("sizes", sizes, upper=2**53)
    _require("gaps", gaps, upper=LARGEST_GAP)
    system = system_of_labels(mechanism, labels_alone(table), known)
    law = getattr(mechanism.on(system), "law", None)
    kinds, sums = kinds_of_cells(system)
    drawn, rows = None, {}
    values: Array
    # One row for each kind of cell: zero noise, a known law, or simulated noise.
    for kind in dict.fromkeys(kinds):
        cells = np.flatnonzero(kinds == kind)
        size = int(sums[cells[0]])
        if size == 0:
            values, mass, swaps = np.zeros(1), np.ones(1), np.zeros(len(gaps))
        elif size > 0 and isinstance(law, IntegerLaw):
            values, mass = cell_law(law, size)
            swaps = reversed_share(law, size, gaps)
        else:
            if drawn is None:
                drawn = simulate_noise(mechanism, system, simulated_draws(mechanism, system))
            values = drawn[:, cells].ravel()
            mass = np.full(values.size, 1 / values.size)
            swaps = _estimate_reversed_share(drawn[:, cells], gaps)
        sd = float(np.sqrt(mass @ values.astype(float) ** 2))
        rows[kind] = {"cells": cells.size, "sd": sd, "support_radius": _radius(values, mass)}
        rows[kind] |= {f"cv_{count}": sd / count for count in sizes}
        rows[kind] |= {f"across_{gap}": _tail_probability(values, mass, gap) for gap in gaps}
        rows[kind] |= {
            f"swap_{gap}": share if cells.size > 1 else np.nan for gap, share in zip(gaps, swaps, strict=True)
        }
        rows[kind]["exact"] = size == 0 or (size > 0 and isinstance(law, IntegerLaw))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("noise of cells")


def system_of_labels(mechanism: TableMechanism, blank: xr.DataArray, known: Iterable[System] = ()) -> System:
    """Bind public statements to a table of zeros, or return a known system with the same statements."""
    if mechanism.queries is None:
        for system in known:
            if system.public == mechanism.public:
                return system
    answers, zeros = labelled_cells(answer(mechanism.queries, blank), nonnegative=False)
    return bind(mechanism.public, answers, zeros)


def require_simulation(mechanism: TableMechanism, system: System) -> None:
    """Refuse a mechanism whose error has to be simulated and whose noise takes too long to draw."""
    if (kinds_of_cells(system)[1] < 0).any():
        simulated_draws(mechanism, system)


def simulated_draws(mechanism: TableMechanism, system: System) -> int:
    """Return the largest number of simulated draws, or refuse if too few would be affordable, by an estimate."""
    plan, size = mechanism.on(system).plan_on(system), system.frame.size
    upper = int(np.clip(VALUES // size, FEWEST, LARGEST))
    attempt = size * max((cost for name, cost in SECONDS_OF_CELL.items() if name in plan.sampler), default=0.0)
    if not attempt:
        return upper
    seconds, lower = SECONDS_OF_DRAW + attempt / (plan.acceptance or 1.0), _sufficient(size)
    if lower * seconds > TOO_SLOW:
        raise InvariantError(
            f"the error of {size:,} cells under public sums that cross has to be simulated, and {lower} draws would "
            f"take about {lower * seconds:,.0f} s ({plan}): {WAY_OUT}"
        )
    return upper


def simulate_noise(mechanism: TableMechanism, system: System, draws: int) -> Array:
    """Draw the noise of empty tables, and fewer draws if they take more than 5 seconds."""
    mechanism, zeros = mechanism.on(system), np.zeros(system.frame.size, dtype=np.int64)
    plan, stream, lower = mechanism.plan_on(system), seeded_stream(np.random.default_rng(1)), _sufficient(zeros.size)
    begun, parts, made = time.perf_counter(), [], 0
    for target in (-(-lower // 4), lower, draws):
        seconds = time.perf_counter() - begun
        if target > lower:
            target = min(target, int(made * SLOW / seconds))
        elif seconds > TOO_SLOW / 2:
            raise InvariantError(
                f"the error of {zeros.size:,} cells under public sums that cross has to be simulated. {made} draws "
                f"took {seconds:,.0f} s, and {lower} would take about {seconds * lower / made:,.0f} s: {WAY_OUT}"
            )
        if target > made:
            parts.append(mechanism.checked_draw(system, zeros, target - made, stream, plan))
            made = target
    return np.concatenate(parts)


def _sufficient(cells: int) -> int:
    """Return the smallest sufficient number of draws of a table."""
    return -(-REDUCED // cells)


def labels_alone(table: TableLike | tuple[int, ...] | Mapping[str, int]) -> xr.DataArray:
    """Return a table of zeros with the labels of a table; a shape, or sizes by dimension, suffices."""
    names, sizes = (list(table), tuple(table.values())) if isinstance(table, Mapping) else (None, table)
    if not isinstance(sizes, tuple) or not all(isinstance(size, int) for size in sizes):
        frame, _ = labelled_cells(table)  # counts are compared with each other, to refuse totals
        return frame.table(np.zeros(frame.size, dtype=np.int64)).assign_attrs(not_totals=exempt_labels(table))
    if not all(size > 0 for size in sizes):
        raise LabelError(f"sizes of dimensions must be positive integers, found {sizes}")
    return as_table(np.zeros(sizes, dtype=np.int64), dims=names)


def cell_law(law: IntegerLaw, cells: int) -> tuple[Integers, Reals]:
    """Return the distribution of the noise of one cell among `cells` under one public sum (1: no public sum)."""
    values, mass = _free_law(law, cells)
    if cells > 1:
        mass = mass * _sum_mass(values, mass, cells, cells - 1)[-values]
    return values, mass / mass.sum()


def reversed_share(law: IntegerLaw, cells: int, gaps: Sequence[int]) -> Reals:
    """Return the probability that two cells under one public sum are released in reversed order; ties count half."""
    if not len(gaps):
        return np.zeros(0)
    values, mass = _free_law(law, cells)
    n = values.size
    others = _sum_mass(values, mass, cells, cells - 2) if cells > 1 else None
    differences = np.empty(max(gaps) + 1)  # mass of z' - z = d, for d = 0, 1, ...
    for d in range(min(differences.size, n)):
        weights = mass[: n - d] * mass[d:]
        differences[d] = weights.sum() if others is None else weights @ others[-(2 * values[: n - d] + d)]
    differences[n:] = 0
    if others is not None:
        differences /= mass @ _sum_mass(values, mass, cells, cells - 1)[-values]
    within = 2 * np.cumsum(differences) - differences[0]  # of |z' - z| <= d
    return np.array([max(0.0, (1 - within[g - 1] - differences[g]) / 2) for g in gaps])


def _free_law(law: IntegerLaw, cells: int) -> tuple[Integers, Reals]:
    reach = law.support_radius(cells, RARE)
    values = np.arange(-reach, reach + 1)
    mass = np.exp(law.log_weight(values.astype(float)))
    return values, mass / mass.sum()


def _sum_mass(values: Integers, mass: Reals, cells: int, count: int) -> Reals:
    """Return the mass of the sum of `count` cells on a circle: entry s holds the sum s, entry -s the sum -s."""
    spread = np.sqrt(mass @ values**2.0)
    # The circle is wide enough for the largest sum of all cells, so the transform does not wrap around.
    around = 1 << int(np.ceil(np.log2(6 * values[-1] + 24 * spread * np.sqrt(cells) + 2)))
    circle = np.zeros(around)
    circle[values % around] = mass
    return np.maximum(np.fft.irfft(np.fft.rfft(circle) ** count, around), 0)


def _tail_probability(values: Array, mass: Reals, gap: int) -> float:
    """Return the probability that symmetric noise is `gap` or more in one direction; `gap` itself counts half."""
    distance = np.abs(values)
    return float(mass @ (distance > gap) + mass @ (distance == gap) / 2) / 2


def _estimate_reversed_share(noise: Array, gaps: Sequence[int]) -> Reals:
    """Estimate `reversed_share` from draws of several cells; each cell is compared with at most `PAIRS` others."""
    shifts = range(1, min(noise.shape[1], PAIRS + 1))
    differences = np.concatenate([(noise - np.roll(noise, shift, axis=1)).ravel() for shift in shifts] or [np.zeros(1)])
    return np.array(
        [_tail_probability(differences, np.full(differences.size, 1 / differences.size), gap) for gap in gaps]
    )


def _require(name: str, values: Sequence[int], upper: int) -> None:
    for value in values:
        require_number(value, f"{name} must be integers from 1 to {upper:,}", 1, upper)


def kinds_of_cells(system: System) -> tuple[NDArray[np.object_], Integers]:
    """Describe the sums that each cell is in, and return the size of its sum: 0 if fixed, -1 where sums cross."""
    structure = system.structure
    linked = np.bincount(structure.blocks)[structure.blocks]
    one_sum = structure.partition[structure.blocks]
    sums = np.where(one_sum, structure.class_sizes[structure.classes], np.where(linked == 1, 1, -1))
    sums = np.where(structure.fixed, 0, sums)
    descriptions = {0: "fixed by public sums", 1: "in no public sum"}
    _, first, inverse = np.unique(sums * (linked.max() + 1) + linked, return_index=True, return_inverse=True)
    kinds = [
        descriptions.get(n, f"in a public sum of {n} cells") if n >= 0 else f"in sums that cross, {k} cells"
        for n, k in zip(sums[first].tolist(), linked[first].tolist(), strict=True)
    ]
    return np.array(kinds, dtype=object)[inverse], sums


def _radius(values: Array, mass: Reals) -> float:
    """Return the smallest distance that contains the noise with probability 90 %."""
    distance = np.abs(values)
    order = np.argsort(distance, kind="stable")
    within = np.cumsum(mass[order])
    return float(distance[order][min(int(np.searchsorted(within, PROBABILITY - 1e-12)), within.size - 1)])
