"""Tables of the total weight of partial sums, with proved error bounds, in doubles or in balls.

All weights are positive, so sums do not cancel. Each addition and product in doubles has a relative error of one
rounding. The mass outside windows and trimmed edges is bounded in absolute terms.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_poly
from numpy.typing import NDArray

from ppdinf._internal.types import Array

UNIT = 2.0**-53
UNDERFLOW = 2.0**-1000  # bound on the sum of entries that doubles round to 0

type Numbers = Array
"""Doubles, or an object array of balls."""


@dataclass(eq=False)
class EliminationFactor:
    """A variable or a message: its values (rows in lexicographic order) and their weights."""

    values: NDArray[np.int64]
    weights: Numbers
    steps: NDArray[np.int64]
    relative: float
    absolute: float
    variables: NDArray[np.int64]  # the variables of the factor: itself or the marginalized ones
    stage: int = -1  # stage of the message
    parts: tuple["EliminationFactor", "EliminationFactor"] | None = None  # factors whose sum is this factor

    @property
    def table(self) -> "PartialSumTable":
        """Table of the weights of a variable over the values from the first to the last."""
        return PartialSumTable(self.values[0], self.weights, self.relative, self.absolute)

    @property
    def shifts(self) -> NDArray[np.int64]:
        """Contribution of each value to the sums, one row per value."""
        return self.values @ self.steps


@dataclass(eq=False)
class PartialSumTable:
    """Total weights of partial sums; the first entry belongs to the sums `origin`."""

    origin: NDArray[np.int64]
    entries: Numbers
    relative: float
    absolute: float

    def look_up(self, sums: NDArray[np.int64]) -> Numbers:
        """Return the entries for sums of shape (..., n)."""
        at, shape = sums - self.origin, np.array(self.entries.shape, dtype=np.int64)
        inside = ((at >= 0) & (at < shape)).all(axis=-1)
        strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1)[: shape.size]
        flat = np.where(inside, at @ strides, 0)
        return np.where(inside, self.entries.ravel()[flat], _zero(self.entries))

    def support_bounds(
        self, factor: EliminationFactor, low: NDArray[np.int64], high: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the smallest and largest sums with a factor, between `low` and `high`."""
        shifts, shape = factor.shifts, np.array(self.entries.shape, dtype=np.int64)
        return (
            np.maximum(low, self.origin + shifts.min(axis=0)),
            np.minimum(high, self.origin + shifts.max(axis=0) + shape - 1),
        )

    def convolve(
        self, factor: EliminationFactor, low: NDArray[np.int64], high: NDArray[np.int64], trim: float
    ) -> "PartialSumTable":
        """Return the table of sums with a factor, between `low` and `high`, without edges below `trim`."""
        shifts, shape = factor.shifts, np.array(self.entries.shape, dtype=np.int64)
        low, high = self.support_bounds(factor, low, high)
        out = np.full(np.maximum(high - low + 1, 0), _zero(self.entries), dtype=self.entries.dtype)
        if out.size:
            for shift, weight in zip(self.origin + shifts - low, factor.weights, strict=True):
                first, end = np.maximum(shift, 0), np.minimum(shift + shape, out.shape)
                if (first < end).all():
                    into = tuple(map(slice, first, end))
                    out[into] += weight * self.entries[tuple(map(slice, first - shift, end - shift))]
        kept, cut = _trimmed(out, trim)
        rounding = 0.0 if out.dtype == object else UNIT * (len(shifts) + 8)
        return PartialSumTable(
            low + np.array([part.start for part in kept], dtype=np.int64),
            np.asarray(out[kept]),
            self.relative + factor.relative + rounding,
            1.01 * (self.absolute + factor.absolute) + cut,
        )


def merged(factors: list[EliminationFactor], trim: float) -> EliminationFactor:
    """Combine variables with equal columns pairwise, so that few wide tables are convolved."""
    while len(factors) > 1:
        pairs = [_pair(first, second, trim) for first, second in itertools.batched(factors[: len(factors) // 2 * 2], 2)]
        factors = pairs + factors[len(pairs) * 2 :]
    return factors[0]


def _pair(first: EliminationFactor, second: EliminationFactor, trim: float) -> EliminationFactor:
    if first.weights.dtype == object:
        found = (arb_poly(first.weights.tolist()) * arb_poly(second.weights.tolist())).coeffs()
        weights = np.array([*found, None], dtype=object)[:-1]
        weights = np.append(weights, [arb(0)] * (len(first.weights) + len(second.weights) - 1 - len(weights)))
        rounding = 0.0
    else:
        weights = np.convolve(first.weights, second.weights)
        rounding = UNIT * (min(len(first.weights), len(second.weights)) + 8)
    (kept,), cut = _trimmed(weights, trim)
    start = int(first.values[0, 0] + second.values[0, 0]) + kept.start
    return EliminationFactor(
        start + np.arange(kept.stop - kept.start)[:, np.newaxis],
        weights[kept],
        first.steps,
        first.relative + second.relative + rounding,
        1.01 * (first.absolute + second.absolute) + cut + UNDERFLOW,
        np.concatenate([first.variables, second.variables]),
        parts=(first, second),
    )


def _zero(entries: Numbers) -> arb | float:
    return arb(0) if entries.dtype == object else 0.0


def _trimmed(entries: Numbers, threshold: float) -> tuple[tuple[slice, ...], float]:
    """Return slices without end slices whose entries are all below a threshold, and the largest entry removed."""
    kept, cut = [slice(0, n) for n in entries.shape], 0.0
    if not threshold or not entries.size:
        return tuple(kept), cut
    sizes = entries if entries.dtype != object else np.vectorize(lambda x: float(x.upper()), otypes=[float])(entries)
    for axis in range(entries.ndim):
        tops = sizes.max(axis=tuple(a for a in range(entries.ndim) if a != axis))
        above = np.flatnonzero(tops >= threshold)
        if above.size:
            kept[axis] = slice(int(above[0]), int(above[-1]) + 1)
            cut = max(cut, 1.01 * float(np.delete(tops, np.arange(above[0], above[-1] + 1)).max(initial=0.0)))
    return tuple(kept), cut
