"""Compiled log masses of laws that depend only on |z|_1 or |z|_2^2, and geometric draws, for Markov chains.

Both sums are integers. Chains update them for the cells that move, without rounding errors.
"""

from __future__ import annotations

import math

import numpy as np

from ppdinf._internal.numba_jit import jit

L1, L2, GAUSSIAN = 0, 1, 2


@jit
def log_mass(kind: int, scale: float, absolute: int, squares: int) -> float:
    """Return the log mass, up to a constant, given |z|_1 and |z|_2^2."""
    if kind == L1:
        return -scale * absolute
    if kind == L2:
        return -scale * math.sqrt(squares)
    return -0.5 * squares / (scale * scale)


@jit
def double_geometric(rate: float, rng: np.random.Generator) -> int:
    """Draw from the law proportional to exp(-rate |k|) on the integers by inversion of one uniform variable."""
    a = math.exp(-rate)
    u = rng.random() * (1.0 + a)
    if u < 1.0 - a:
        return 0
    u = (u - (1.0 - a)) / a  # uniform on [0, 2): selects the sign and the tail probability
    side = 1 if u < 1.0 else -1
    tail = 1.0 - (u if u < 1.0 else u - 1.0)  # in (0, 1]
    return side * (1 + int(math.log(tail) / -rate))
