"""Markov chains along random lines: hit-and-run in convex bodies, and slice sampling of densities.

Coupled chains that are far apart use the same direction and the same fraction of their chords. For chains near each
other, the new points are maximally coupled.

References
----------
R. L. Smith, "Efficient Monte Carlo procedures for generating points uniformly distributed over bounded regions",
Operations Research 32(6), 1984. N. Biswas, P. E. Jacob, P. Vanetti, "Estimating convergence of Markov chains with
L-lag couplings", NeurIPS 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog

from ppdinf._internal.values import Reals
from ppdinf.errors import PrivacyError
from ppdinf.noise.k_norm import uniforms
from ppdinf.noise.primitives.stream import exponentials, normals, seeded_stream

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream


type LogDensity = Callable[[Reals], Reals]

type Chord = Callable[[Reals, Reals], tuple[float, float]]

NEAR = 16  # times m^(-3/2): distance below which pairs are coupled maximally, for a body within the unit ball
WIDTH = 3.0  # width of the first bracket in units of the direction


def hit_and_run(chord: Chord, root: Reals, steps: int, draws: int, stream: BitStream) -> Reals:
    """Run independent chains from 0 and return their final points."""
    ends = np.zeros((draws, len(root)))
    for i in range(draws):
        for _ in range(steps):
            ends[i] = _step(chord, root, ends[i], *_words(root, stream))
    return ends


def hit_and_run_meeting(chord: Chord, root: Reals) -> Callable[[int, int, np.random.Generator], int]:
    """Couple two chains with a lag, for `ppdinf.noise.mcmc.tv_bound.tv_bound`."""

    def meeting(lag: int, limit: int, rng: np.random.Generator) -> int:
        stream = seeded_stream(rng)
        first, second = np.zeros(len(root)), np.zeros(len(root))
        for _ in range(lag):
            first = _step(chord, root, first, *_words(root, stream))
        for step in range(lag + 1, limit + 1):
            first, second, met = _coupled(chord, root, first, second, stream)
            if met:
                return step
        return -1

    return meeting


def hull_chord(points: Reals) -> Chord:
    """Return a function for chords of the convex hull of points and their opposites, by linear programmes."""
    n = points.shape[1]
    hull = np.hstack([points, -points])
    total = np.append(np.ones(2 * n), 0.0)[np.newaxis]

    def end(w: Reals, direction: Reals) -> float:
        """Return the largest t for which w + t direction is a sum of points with total weight at most 1."""
        found = linprog(
            np.append(np.zeros(2 * n), -1.0), A_ub=total, b_ub=[1.0], A_eq=np.column_stack([hull, -direction]), b_eq=w
        )
        if not found.success:
            raise PrivacyError(f"the linear programme of a chord failed: {found.message}")
        return float(found.x[-1])

    return lambda w, direction: (-end(w, -direction), end(w, direction))


def _words(root: Reals, stream: BitStream) -> tuple[Reals, float]:
    """Draw a direction and a fraction in (0, 1)."""
    return root @ normals(stream, len(root)), math.exp(-float(exponentials(stream, 1)[0]))


def _step(chord: Chord, root: Reals, w: Reals, direction: Reals, fraction: float) -> Reals:
    low, high = chord(w, direction)
    return w + (low + fraction * (high - low)) * direction


def _coupled(chord: Chord, root: Reals, w: Reals, v: Reals, stream: BitStream) -> tuple[Reals, Reals, bool]:
    """Move both chains by one step; the kind of coupling depends only on their current points."""
    direction, fraction = _words(root, stream)
    moved = _step(chord, root, w, direction, fraction)
    if np.linalg.norm(np.linalg.solve(root, v - w)) > NEAR / len(root) ** 1.5:
        return moved, _step(chord, root, v, direction, fraction), False
    if -float(exponentials(stream, 1)[0]) <= _log_density(chord, root, v, moved) - _log_density(chord, root, w, moved):
        return moved, moved, True
    while True:
        other = _step(chord, root, v, *_words(root, stream))
        ratio = _log_density(chord, root, w, other) - _log_density(chord, root, v, other)
        if -float(exponentials(stream, 1)[0]) > ratio:
            return moved, other, False


def _log_density(chord: Chord, root: Reals, start: Reals, end: Reals) -> float:
    """Return the log density of a step, up to a constant, in coordinates where S is the identity."""
    low, high = chord(start, end - start)
    reach = float(np.linalg.norm(np.linalg.solve(root, end - start)))
    return -math.log((high - low) * reach) - (len(root) - 1) * math.log(reach)


def slice_lines(
    log_density: LogDensity, start: Reals, scale: Reals, *, steps: int, stream: BitStream, radius: float = np.inf
) -> Reals:
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


def _chord(point: Reals, line: Reals, radius: float) -> tuple[Reals, Reals]:
    """Return the ends of the line inside the ball."""
    a, b = np.einsum("ij,ij->i", line, line), np.einsum("ij,ij->i", line, point)
    root = np.sqrt(b * b + a * np.maximum(radius**2 - np.einsum("ij,ij->i", point, point), 0.0))
    return (-b - root) / a, (-b + root) / a


def _bracket(
    log_density: LogDensity, point: Reals, line: Reals, level: Reals, first: Reals, last: Reals, stream: BitStream
) -> tuple[Reals, Reals]:
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
    log_density: LogDensity, point: Reals, line: Reals, level: Reals, low: Reals, high: Reals, stream: BitStream
) -> tuple[Reals, Reals]:
    """Draw from the bracket, and shrink it to every drawn point that is below the level."""
    inside, height = point.copy(), np.empty(len(point))
    left = np.arange(len(point))
    while left.size:
        t = low[left] + (high - low)[left] * uniforms(stream, left.size)
        there = point[left] + t[:, None] * line[left]
        value = log_density(there)
        above = value > level[left]
        inside[left[above]], height[left[above]] = there[above], value[above]
        left, t = left[~above], t[~above]
        low[left], high[left] = np.where(t < 0, t, low[left]), np.where(t < 0, high[left], t)
    return inside, height
