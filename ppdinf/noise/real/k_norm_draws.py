"""Draws from K-norm laws with density proportional to exp(-|z|_K) on R^d.

The norm |z|_K is Gamma(d). It is independent of the direction, which follows the cone measure of the unit ball:

* l1: independent Laplace coordinates;
* l2: Gamma(d) times a uniform point of the sphere;
* linf: Gamma(d + 1) times a uniform point of the cube (a uniform point of any unit ball has size U^(1/d)).

References
----------
M. Hardt, K. Talwar, "On the geometry of differential privacy", STOC 2010.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from ppdinf.noise.primitives.continuous import laplaces, normals

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream

K_NORMS = {"l1": 1, "l2": 2, "linf": np.inf}
"""Names of norms and their order in `numpy.linalg.norm`."""


def uniforms(stream: BitStream, *shape: int) -> NDArray[np.float64]:
    """Draw uniform numbers with 52 bits in the open interval (0, 1)."""
    return ((stream(prod(shape)) >> np.uint64(12)).astype(float).reshape(shape) + 0.5) * 2.0**-52


def k_norm(dimension: int, norm: str, draws: int, stream: BitStream) -> NDArray[np.float64]:
    """Draw from the density proportional to ``exp(-|z|)``, exactly up to double precision."""
    if norm == "l1":
        return laplaces(stream, draws, dimension)
    if norm == "l2":
        direction = normals(stream, draws, dimension)
        size = gammainccinv(dimension, uniforms(stream, draws, 1))
        unit = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    else:
        size = gammainccinv(dimension + 1, uniforms(stream, draws, 1))
        unit = 2 * uniforms(stream, draws, dimension) - 1
    z: NDArray[np.float64] = size * unit
    return z
