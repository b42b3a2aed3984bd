"""Gibbs updates of a table along lines given noisy sums, with exact full conditionals.

The sums Q x are updated with x. A direction v changes the sums with ``(Q v)_k != 0``, and only these enter the law
along its line. Gaussian noise of all of them together is one parabola, double geometric noise is piecewise linear for
each sum, and other laws are tabulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.line_gibbs import _add_log_weights, _changed, _drawn, _move, _range
from ppdinf.laws.l2_laplace import mixing_precision

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]
type Measured = tuple[Ints, Ints, Ints, Reals, Reals, Reals, Ints, Ints, Reals]
"""The matrix by columns (``indptr, indices, data``), `y`, `precision`, `rate`, `ends`, `first`, `log_weights`."""

type Mixtures = tuple[Ints, Ints, Reals]
"""Start of the sums of each group with joint l2 noise, these sums, and epsilon of each group."""

NEGLIGIBLE = 60.0
"""Log weight below which ends of a line are omitted: 1e-26 relative to the table, times the points of the line."""


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Noisy sums of the cells of a table, each with the log weights of all possible values of the sum."""

    matrix: sp.csc_array
    y: Reals
    precision: Reals
    rate: Reals
    ends: Ints
    first: Ints
    log_weights: Reals
    mixtures: tuple[tuple[Ints, float], ...] = ()

    def given(self, sums: Ints, rng: np.random.Generator) -> Measured:
        """Draw scales of l2 noise given the sums of the table (a Gibbs step), and return the input of the kernel."""
        arrays = self.arrays
        if not self.mixtures:
            return arrays
        arrays = *arrays[:4], arrays[4].copy(), *arrays[5:]
        draw_scales(self.mixture_arrays, sums, arrays, rng)
        return arrays

    def log_density(self, cells: Ints) -> float:
        """Return the log weight of all measured sums given a table, up to a constant."""
        sums = self.matrix @ cells
        away = self.y - sums
        precision = self.precision.copy()
        smooth = -float(self.rate @ np.abs(away))
        for rows, epsilon in self.mixtures:
            precision[rows] = 0
            smooth -= epsilon * float(np.sqrt(away[rows] @ away[rows]))
        smooth -= 0.5 * float(precision @ away**2)
        return smooth + _tabulated(sums, self.ends, self.first, self.log_weights)

    @cached_property
    def arrays(self) -> Measured:
        """Input of the kernel."""
        m = self.matrix
        own = (m.indptr.astype(np.int64), m.indices.astype(np.int64), m.data.astype(np.int64))
        return (*own, self.y, self.precision, self.rate, self.ends, self.first, self.log_weights)

    @cached_property
    def mixture_arrays(self) -> Mixtures:
        """Groups of sums with joint l2 noise, for kernels."""
        rows = [np.asarray(own, dtype=np.int64) for own, _ in self.mixtures]
        starts = np.cumsum([0, *(own.size for own in rows)], dtype=np.int64)
        epsilon = np.array([epsilon for _, epsilon in self.mixtures], dtype=np.float64)
        return starts, np.concatenate([np.zeros(0, dtype=np.int64), *rows]), epsilon


@jit
def draw_scales(mixtures: Mixtures, sums: Ints, measured: Measured, rng: np.random.Generator) -> None:
    """Draw the precisions of sums with joint l2 noise given the sums, in place."""
    starts, rows, epsilon = mixtures
    y, precision = measured[3], measured[4]
    for k in range(epsilon.size):
        squares = 0.0
        for i in rows[starts[k] : starts[k + 1]]:
            squares += float(y[i] - sums[i]) ** 2
        drawn = mixing_precision(epsilon[k], squares, rng)
        for i in rows[starts[k] : starts[k + 1]]:
            precision[i] = drawn


def no_sums(d: int) -> MeasuredSums:
    """Return `MeasuredSums` without published sums, for d cells."""
    none, nothing = np.zeros(0), np.zeros(0, dtype=np.int64)
    ends = np.zeros(1, dtype=np.int64)
    return MeasuredSums(sp.csc_array((0, d), dtype=np.int64), none, none, none, ends, nothing, none)


@jit
def _tabulated(sums: Ints, ends: Ints, first: Ints, log_weights: Reals) -> float:
    """Return the log weight of all tabulated sums."""
    found = 0.0
    for i in range(sums.size):
        if ends[i + 1] > ends[i]:
            at = sums[i] - first[i]
            found += log_weights[ends[i] + at] if 0 <= at < ends[i + 1] - ends[i] else -np.inf
    return found


@jit
def _changed_sums(touched: Ints, c: Ints, seen: NDArray[np.bool_]) -> int:
    """Keep on the list only sums that a direction changes, return their number, and clear `seen`."""
    kept = 0
    for i in touched:
        seen[i] = False
        if c[i] != 0:
            touched[kept] = i
            kept += 1
    return kept


@jit
def _parabola(moved: Ints, c: Ints, sums: Ints, measured: Measured) -> tuple[float, float]:
    """Return slope and curve of the Gaussian log weight along a line, ``t (slope - t curve / 2)``."""
    y, precision = measured[3], measured[4]
    slope, curve = 0.0, 0.0
    for i in moved:
        if precision[i] > 0.0:
            slope += precision[i] * c[i] * (y[i] - sums[i])
            curve += precision[i] * c[i] * c[i]
    return slope, curve


@jit
def _within(
    least: int, most: int, slope: float, curve: float, x: Ints, cells: Ints, lower: Ints, top: Reals, log_weights: Reals
) -> tuple[int, int]:
    """Omit the ends of a line where Gaussian noise alone makes the weight negligible relative to the table."""
    if curve <= 0.0:
        return least, most
    ahead = NEGLIGIBLE
    for cell in cells:
        if cell < lower.size:
            ahead += top[cell] - log_weights[cell, x[cell] - lower[cell]]
    center = slope / curve
    reach = np.sqrt(center * center + 2.0 * ahead / curve)
    return max(least, int(np.floor(center - reach))), min(most, int(np.ceil(center + reach)))


@jit
def _add_sums(line: Reals, least: int, moved: Ints, c: Ints, sums: Ints, measured: Measured) -> None:
    """Add the log weights of changed sums with non-Gaussian noise at every point of the line."""
    _, _, _, y, precision, rate, ends, first, log_weights = measured
    for i in moved:
        if precision[i] > 0.0:
            continue
        if rate[i] > 0.0:
            away = float(y[i] - sums[i])
            for k in range(line.size):
                line[k] -= rate[i] * abs(away - (least + k) * c[i])
        else:
            for k in range(line.size):
                at = sums[i] + (least + k) * c[i] - first[i]
                line[k] += log_weights[ends[i] + at] if 0 <= at < ends[i + 1] - ends[i] else -np.inf


@jit
def walk_measured(
    x: Ints,
    starts: Ints,
    cells: Ints,
    steps: Ints,
    lower: Ints,
    log_weights: Reals,
    measured: Measured,
    sums: Ints,
    rng: np.random.Generator,
) -> None:
    """Update a table in place along each direction in turn, like `ppdinf.fiber.gibbs.line_gibbs.walk`."""
    matrix = measured[:3]
    c, seen = np.zeros(sums.size, dtype=np.int64), np.zeros(sums.size, dtype=np.bool_)
    touched = np.empty(sums.size, dtype=np.int64)
    buffer, top = np.empty(log_weights.shape[1]), np.empty(lower.size)
    for i in range(lower.size):
        top[i] = log_weights[i].max()
    for r in range(starts.size - 1):
        v, uniform = slice(starts[r], starts[r + 1]), rng.random()
        least, most = _range(x, cells[v], steps[v], lower, log_weights.shape[1])
        if least == most:
            continue
        # changed sums, and their Gaussian log weight as a parabola in t
        n = _changed(cells[v], steps[v], lower.size, matrix, c, seen, touched)
        kept, others = _changed_sums(touched[:n], c, seen), False
        for i in touched[:kept]:
            others |= measured[4][i] == 0.0
        slope, curve = _parabola(touched[:kept], c, sums, measured)
        if not others:
            least, most = _within(least, most, slope, curve, x, cells[v], lower, top, log_weights)
        # the law along the line: parabola, cells, other sums
        line = buffer[: most - least + 1]
        for k in range(line.size):
            line[k] = (least + k) * (slope - 0.5 * (least + k) * curve)
        _add_log_weights(line, x, cells[v], steps[v], least, lower, log_weights)
        _add_sums(line, least, touched[:kept], c, sums, measured)
        t = least + _drawn(line, uniform)
        _move(x, cells[v], steps[v], t)
        for i in touched[:kept]:
            sums[i] += t * c[i]
            c[i] = 0
