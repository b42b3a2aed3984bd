"""Exact integer vectors with mass proportional to exp(-rate |z|) (l1, l2, linf), and weighted choices.

* l1: independent double geometric coordinates;
* l2: a mixture of discrete Gaussians (`ppdinf.noise.exact.gaussian.l2_laplace_mixture`);
* linf: ``exp(-rate |z|) = (1 - exp(-rate)) sum_{R >= |z|} exp(-rate R)``. Therefore z is uniform in the cube of radius
  R, where R has mass proportional to ``exp(-rate R) (2 R + 1)^d``; the factor is the number of points of the cube.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.rationals import ball
from ppdinf.lattice import structure
from ppdinf.laws import L2Laplace
from ppdinf.noise.exact.elimination.variable_elimination import Elimination
from ppdinf.noise.exact_noise import exact_noise
from ppdinf.noise.primitives.enclosed_comparison import precision
from ppdinf.noise.primitives.integers import draw_discrete_laplace, uniform_integers
from ppdinf.noise.primitives.inversion import Inversion

if TYPE_CHECKING:
    from ppdinf.noise.exact.elimination.variable_elimination import Elimination
    from ppdinf.noise.primitives.stream import BitStream


def draw_integer_k_norm(dimension: int, norm: str, rate: Fraction, draws: int, stream: BitStream) -> NDArray[np.int64]:
    """Draw integer vectors with mass proportional to ``exp(-rate |z|)``."""
    if norm == "l1":
        return draw_discrete_laplace(rate, draws * dimension, stream).reshape(draws, dimension)
    if norm == "l2":
        free = structure(np.zeros((1, dimension), dtype=np.int64))
        return exact_noise(free, L2Laplace(rate)).draw(draws, stream)
    radius = _radius(dimension, rate).draw(draws, stream)
    return uniform_integers(np.repeat(2 * radius + 1, dimension), stream).reshape(draws, -1) - radius[:, None]


@lru_cache(maxsize=16)
def _radius(dimension: int, rate: Fraction) -> Inversion:
    def weight(k: int) -> arb:
        return (-ball(rate) * k).exp() * arb(2 * k + 1) ** dimension

    mode = max(0, math.floor(dimension / float(rate)) - 2)
    with precision(64):
        while (arb(2 * mode + 3) / (2 * mode + 1)).log() * dimension > ball(rate):  # the weights still increase
            mode += 1
    return Inversion(weight, mode, first=0)


def one_of(sizes: NDArray[np.int64], log_weights: Sequence[Fraction]) -> Elimination:
    """Return a sampler of k with mass proportional to ``sizes[k] exp(log_weights[k])``."""

    def weights(bits: int) -> tuple[int, list[arb], arb]:
        each = zip(sizes.tolist(), log_weights, strict=True)
        return 0, [arb(size) * ball(log).exp() if size else arb(0) for size, log in each], arb(0)

    return Elimination(np.empty((0, 1), dtype=np.int64), [], [weights])
