"""Slice sampling along random lines for densities on a ball or on R^m.

State: a point b of R^m per chain. One step draws a direction v = S u with u uniform on a sphere, independent of b, and
a level that is uniform below the density at b. It then draws a point of the line b + t v above this level by Neal's
stepping-out and shrinkage procedures. The density along the line is invariant, hence also the target. All chains move
together, one row per chain, so that each density evaluation covers all chains.

References
----------
R. M. Neal, "Slice sampling", Annals of Statistics 31(3), 2003, figures 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ppdinf.noise.primitives.continuous import normals
from ppdinf.noise.real.k_norm_draws import uniforms

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream

WIDTH = 3.0  # width of the first bracket in units of the direction

type Points = NDArray[np.float64]


def slice_lines(
    log_density: Callable[[Points], Points],
    start: Points,
    scale: Points,
    *,
    steps: int,
    stream: BitStream,
    radius: float = np.inf,
) -> Points:
    """Run one chain per row of `start` and return the final points."""
    point = np.array(start, dtype=float)
    chains, m = point.shape
    height = log_density(point)
    for _ in range(steps):
        direction = normals(stream, chains, m)
        line = (direction * (math.sqrt(m) / np.linalg.norm(direction, axis=1, keepdims=True))) @ scale.T
        level = height + np.log(uniforms(stream, chains))
        first, last = _chord(point, line, radius)
        low, high = _bracket(log_density, point, line, level, first, last, stream)
        point, height = _shrink(log_density, point, line, level, low, high, stream)
    return point


def _chord(point: Points, line: Points, radius: float) -> tuple[Points, Points]:
    """Return the ends of the line inside the ball."""
    if radius == np.inf:
        end = np.full(len(point), np.inf)
        return -end, end
    a, b = np.einsum("ij,ij->i", line, line), np.einsum("ij,ij->i", line, point)
    root = np.sqrt(b * b + a * np.maximum(radius**2 - np.einsum("ij,ij->i", point, point), 0.0))
    return (-b - root) / a, (-b + root) / a


def _bracket(
    log_density: Callable[[Points], Points], point: Points, line: Points, level: Points, first: Points, last: Points,
    stream: BitStream,
) -> tuple[Points, Points]:  # fmt: skip
    """Expand a randomly placed interval until both ends are below the level or on the sphere."""
    low = -WIDTH * uniforms(stream, len(point))
    ends = []
    for end, limit, way in ((low, first, -1.0), (low + WIDTH, last, 1.0)):
        end = way * np.minimum(way * end, way * limit)
        moving = np.flatnonzero(way * end < way * limit)
        while moving.size:
            above = log_density(point[moving] + end[moving, None] * line[moving]) > level[moving]
            moving = moving[above]
            end[moving] = way * np.minimum(way * (end[moving] + way * WIDTH), way * limit[moving])
            moving = moving[way * end[moving] < way * limit[moving]]
        ends.append(end)
    return ends[0], ends[1]


def _shrink(
    log_density: Callable[[Points], Points], point: Points, line: Points, level: Points, low: Points, high: Points,
    stream: BitStream,
) -> tuple[Points, Points]:  # fmt: skip
    """Draw from the bracket, and shrink it to every drawn point that is below the level."""
    found, height = point.copy(), np.empty(len(point))
    left = np.arange(len(point))
    while left.size:
        t = low[left] + (high - low)[left] * uniforms(stream, left.size)
        there = point[left] + t[:, None] * line[left]
        value = log_density(there)
        above = value > level[left]
        found[left[above]], height[left[above]] = there[above], value[above]
        left, t = left[~above], t[~above]
        low[left], high[left] = np.where(t < 0, t, low[left]), np.where(t < 0, high[left], t)
    return found, height
