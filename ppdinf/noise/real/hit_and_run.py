"""Hit-and-run in a convex body: uniform points by a Markov chain, and coupled pairs of chains.

A step chooses a direction and moves to a uniform point of the chord in this direction. The chain needs only the ends of
chords. They follow from the facets of a polytope or, if these are too many to list, from a linear programme over its
vertices (`hull_chord`). Directions follow N(0, S) for an S similar in shape to the body, so that long bodies are not
harder than round ones.

Two chains are coupled to bound the distance of the chain from the uniform law (`ppdinf.noise.mcmc.tv_bound`). Chains
that are far apart use the same direction and the same fraction of their chords, which brings them closer. For chains
near each other, the new points are maximally coupled. In coordinates where S is the identity, the point w' is reached
from w with density proportional to 1 / (L |w' - w|^(m-1)), where L is the length of the chord through both points.

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
from numpy.typing import NDArray
from scipy.optimize import linprog

from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.continuous import exponentials, normals
from ppdinf.noise.primitives.stream import seeded_stream

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream

type Reals = NDArray[np.float64]
type Chord = Callable[[Reals, Reals], tuple[float, float]]

NEAR = 16  # times m^(-3/2): distance below which pairs are coupled maximally, for a body within the unit ball


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
