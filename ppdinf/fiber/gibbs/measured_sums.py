"""Walk a table of which noisy sums are known, by exact full conditionals along lines.

The sums Q x are kept up to date: a direction v changes those with ``(Q v)_k != 0``, and only they enter the law along
its line. Gaussian noise of all of them together is one parabola, double geometric noise a bent line for each sum, and
any other law is read off a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.fiber.gibbs.line_gibbs import _add_log_weights, _changed, _drawn, _move, _range
from ppdinf.laws.joint_l2 import mixing_precision

__all__ = ["Measured", "MeasuredSums", "no_sums", "walk_measured"]

type Ints = NDArray[np.int64]
type Reals = NDArray[np.float64]
type Measured = tuple[Ints, Ints, Ints, Ints, Reals, Reals, Ints, Ints, Reals]
"""The matrix by columns, ``indptr, indices, data``; `y`, `precision`, `rate`, `ends`, `first`, `log_weights`."""

NEGLIGIBLE = 60.0
"""Log weight that the ends of a line may lose: 1e-26 of where the table is, times the points of a line."""


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Noisy sums of the cells of a table, each with the log weight of every value that its sum can have.

    Attributes
    ----------
    matrix : scipy.sparse.csc_array of int64, shape (k, d)
    y : array of int64, shape (k,)
        Published values.
    precision : array of float64, shape (k,)
        One over the variance of Gaussian noise; 0 for other noise.
    rate : array of float64, shape (k,)
        Of double geometric noise; 0 for other noise.
    ends : array of int64, shape (k + 1,)
        Where the log weights of each sum begin among all of them; empty ranges for Gaussian and double geometric noise.
    first : array of int64, shape (k,)
        Value of the sum that the first of them is of.
    log_weights : array of float64
    mixtures : tuple of (array of int64, float)
        Sums with l2 Laplace noise together, and its epsilon: Gaussian given a scale, which `given` draws.
    """

    matrix: sp.csc_array
    y: Ints
    precision: Reals
    rate: Reals
    ends: Ints
    first: Ints
    log_weights: Reals
    mixtures: tuple[tuple[Ints, float], ...] = ()

    def given(self, sums: Ints, rng: np.random.Generator) -> Measured:
        """Draw scales of l2 noise given the sums of the table, a Gibbs step, and return what the kernel takes."""
        arrays = self.arrays
        if not self.mixtures:
            return arrays
        precision = self.precision.copy()
        for rows, epsilon in self.mixtures:
            away = (self.y[rows] - sums[rows]).astype(np.float64)
            precision[rows] = mixing_precision(epsilon, float(away @ away), rng)
        return *arrays[:4], precision, *arrays[5:]

    def log_density(self, cells: Ints) -> float:
        """Log weight of everything measured, given a table, up to a constant."""
        sums = self.matrix @ cells
        away = (self.y - sums).astype(np.float64)
        precision = self.precision.copy()
        smooth = -float(self.rate @ np.abs(away))
        for rows, epsilon in self.mixtures:
            precision[rows] = 0
            smooth -= epsilon * float(np.sqrt(away[rows] @ away[rows]))
        smooth -= 0.5 * float(precision @ away**2)
        return smooth + _tabulated(sums, self.ends, self.first, self.log_weights)

    @cached_property
    def arrays(self) -> Measured:
        """What the kernel takes."""
        m = self.matrix
        own = (m.indptr.astype(np.int64), m.indices.astype(np.int64), m.data.astype(np.int64))
        return (*own, self.y, self.precision, self.rate, self.ends, self.first, self.log_weights)


def no_sums(d: int) -> MeasuredSums:
    """Return what `MeasuredSums` is where nothing was published of sums of d cells."""
    none, nothing = np.zeros(0), np.zeros(0, dtype=np.int64)
    ends = np.zeros(1, dtype=np.int64)
    return MeasuredSums(sp.csc_array((0, d), dtype=np.int64), nothing, none, none, ends, nothing, none)


@jit
def _tabulated(sums: Ints, ends: Ints, first: Ints, log_weights: Reals) -> float:
    """Log weight of all tabulated sums."""
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
    """Log weight of all Gaussian noise along a line, ``t (slope - t curve / 2)``."""
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
    """Leave out the ends of a line where Gaussian noise alone takes its weight below that of where the table is.

    Elsewhere than at t the cells weigh at most ``exp(top)`` together, here ``exp(here)``: t is left out where
    ``top + t (slope - t curve / 2) < here - NEGLIGIBLE``.
    """
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
    """Add the log weights of the sums with other noise that a direction changes, at every point of its line."""
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
    """Move a table in place along each direction in turn, as `ppdinf.fiber.gibbs.line_gibbs.walk` does.

    Parameters
    ----------
    x, starts, cells, steps, lower, log_weights, rng
        As there.
    measured : tuple of arrays
        `MeasuredSums.arrays`.
    sums : array of int64, shape (k,)
        ``Q x``; kept true of x.
    """
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
        n = _changed(cells[v], steps[v], lower.size, matrix, c, seen, touched)
        kept, others = _changed_sums(touched[:n], c, seen), False
        for i in touched[:kept]:
            others |= measured[4][i] == 0.0
        slope, curve = _parabola(touched[:kept], c, sums, measured)
        if not others:
            least, most = _within(least, most, slope, curve, x, cells[v], lower, top, log_weights)
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
