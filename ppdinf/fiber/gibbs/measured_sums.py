"""Noisy sums of a table, and their log weights along the lines of Gibbs updates.

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
from ppdinf.laws.l2_laplace import mixing_precision
from ppdinf.laws.noise_norm import NoiseNorm

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]
type Measured = tuple[Ints, Ints, Ints, Reals, Reals, Reals, Ints, Ints, Reals]
"""The matrix by columns (``indptr, indices, data``), `y`, `precision`, `rate`, `ends`, `first`, `log_weights`."""

type Mixtures = tuple[Ints, Ints, Reals]
"""Start of the sums of each group with joint l2 noise, these sums, and epsilon of each group."""


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
        sums, precision, total = self.matrix @ cells, self.precision.copy(), 0.0
        for rows, epsilon in self.mixtures:
            precision[rows] = 0
            total -= epsilon * float(np.linalg.norm((self.y - sums)[rows]))
        return total + log_weight_of_all(sums, (*self.arrays[:4], precision, *self.arrays[5:]))

    @cached_property
    def arrays(self) -> Measured:
        """Input of the kernel."""
        m = self.matrix
        data = m.data.astype(np.result_type(m.data, np.int64))
        columns = m.indptr.astype(np.int64), m.indices.astype(np.int64), data
        return *columns, self.y, self.precision, self.rate, self.ends, self.first, self.log_weights

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


def sums_of_norm(norm: NoiseNorm, y: Reals) -> MeasuredSums:
    """Return noise whose log density is minus a norm as sums with Gaussian (l2) or Laplace noise (l1)."""
    k = y.size
    return MeasuredSums(
        norm.matrix, y, np.full(k, float(norm.order == 2)), np.full(k, float(norm.order == 1)),
        np.zeros(k + 1, dtype=np.int64), np.zeros(k, dtype=np.int64), np.zeros(0),
    )  # fmt: skip


def no_sums(d: int) -> MeasuredSums:
    """Return `MeasuredSums` without published sums, for d cells."""
    none, nothing = np.zeros(0), np.zeros(0, dtype=np.int64)
    ends = np.zeros(1, dtype=np.int64)
    return MeasuredSums(sp.csc_array((0, d), dtype=np.int64), none, none, none, ends, nothing, none)


@jit
def log_weight(i: int, value: int, measured: Measured) -> float:
    """Return the log weight of a value of sum i."""
    _, _, _, y, precision, rate, ends, first, log_weights = measured
    away = float(y[i] - value)
    size, at = ends[i + 1] - ends[i], value - first[i]
    if size == 0 or precision[i] > 0.0 or rate[i] > 0.0:
        return -0.5 * precision[i] * away * away - rate[i] * abs(away)
    return log_weights[ends[i] + at] if 0 <= at < size else -np.inf


@jit
def log_weights_of(which: Ints, values: Ints, measured: Measured) -> Reals:
    """Return the log weights of values of sums; `which` is the sum of each value."""
    found = np.empty(which.size)
    for n in range(which.size):
        found[n] = log_weight(which[n], values[n], measured)
    return found


@jit
def log_weight_of_all(sums: Ints, measured: Measured) -> float:
    """Return the log weight of all sums."""
    _, _, _, y, precision, rate, ends, first, log_weights = measured
    total = 0.0
    for i in range(sums.size):  # `log_weight`: calls of it would count references to arrays, most of the time
        away, size = y[i] - sums[i], ends[i + 1] - ends[i]
        total -= 0.5 * precision[i] * away * away + rate[i] * abs(away)
        if size > 0 and precision[i] == 0.0 and rate[i] == 0.0:
            at = sums[i] - first[i]
            total += log_weights[ends[i] + at] if 0 <= at < size else -np.inf
    return total


@jit
def changed(
    cells: Ints, steps: Ints, d: int, measured: Measured, c: Ints | Reals, seen: NDArray[np.bool_], touched: Ints
) -> Ints:
    """Return the sums that a direction changes, a part of `touched`, and add their changes to c."""
    first, rows, values = measured[:3]
    n = kept = 0
    for cell, step in zip(cells, steps):  # noqa: B905  (numba)
        if cell < d:  # the remaining entries are slacks
            for j in range(first[cell], first[cell + 1]):
                if not seen[rows[j]]:
                    seen[rows[j]], touched[n] = True, rows[j]
                    n += 1
                c[rows[j]] += step * values[j]
    for i in touched[:n]:
        seen[i] = False
        if c[i] != 0:
            touched[kept] = i
            kept += 1
    return touched[:kept]


@jit
def parabola(moved: Ints, c: Ints | Reals, sums: Ints | Reals, measured: Measured) -> tuple[float, float]:
    """Return slope and curve of the Gaussian log weight along a line, ``t (slope - t curve / 2)``."""
    y, precision = measured[3], measured[4]
    slope, curve = 0.0, 0.0
    for i in moved:
        if precision[i] > 0.0:
            slope += precision[i] * c[i] * (y[i] - sums[i])
            curve += precision[i] * c[i] * c[i]
    return slope, curve


@jit
def add_sums(line: Reals, least: int, moved: Ints, c: Ints | Reals, sums: Ints | Reals, measured: Measured) -> None:
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
            at, step = int(sums[i]) - first[i] + least * int(c[i]), int(c[i])
            for k in range(line.size):
                inside = 0 <= at < ends[i + 1] - ends[i]
                line[k] += log_weights[ends[i] + at] if inside else -np.inf
                at += step


@jit
def subtract_largest(line: Reals, least: int, c: Ints | Reals, sums: Ints | Reals, y: Reals) -> None:
    """Subtract the largest absolute difference of published and true sums at every point of the line."""
    largest, constant = np.zeros(line.size), 0.0
    for i in range(sums.size):
        if c[i] == 0.0:
            constant = max(constant, abs(y[i] - sums[i]))
        else:
            for k in range(line.size):
                largest[k] = max(largest[k], abs(y[i] - sums[i] - (least + k) * c[i]))
    for k in range(line.size):
        line[k] -= max(largest[k], constant)


@jit
def move_sums(sums: Ints | Reals, moved: Ints, c: Ints | Reals, t: int) -> None:
    """Move the sums by t steps along a direction, and set their changes to 0."""
    for i in moved:
        sums[i] += t * c[i]
        c[i] = 0
