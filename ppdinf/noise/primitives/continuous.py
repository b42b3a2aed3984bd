"""Real-valued draws by inversion, one word per draw, with 63 bits relative to the tail.

A word gives a sign and 63 bits u in (0, 1), read relative to 0. Draws therefore extend to the quantile with tail mass
2^-64: 9.2 standard deviations of a normal law, 44 scales of a Laplace law. Larger values cannot be drawn, and the
values are floating-point numbers. The law agrees with the law of real numbers up to a total variation distance near
2^-52. A differential privacy guarantee for real noise refers to real numbers. The last bits of a floating-point sum can
reveal which of two tables was used (Mironov, 2012). Integer mechanisms are exact and avoid this risk.

References
----------
I. Mironov, "On significance of the least significant bits for differential privacy", CCS 2012.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from ppdinf._internal.values import Reals

if TYPE_CHECKING:
    from ppdinf.noise.primitives.stream import BitStream


def normals(stream: BitStream, *shape: int) -> Reals:
    """Draw standard normal variables."""
    sign, u = _signed(stream, *shape)
    return sign * ndtri(u / 2)


def laplaces(stream: BitStream, *shape: int) -> Reals:
    """Draw Laplace variables with scale 1."""
    sign, u = _signed(stream, *shape)
    return sign * np.log(u)


def exponentials(stream: BitStream, *shape: int) -> Reals:
    """Draw exponential variables with mean 1."""
    return -np.log((stream(prod(shape)).reshape(shape).astype(float) + 0.5) * 2.0**-64)


def _signed(stream: BitStream, *shape: int) -> tuple[Reals, Reals]:
    words = stream(prod(shape)).reshape(shape)
    magnitude = (words & np.uint64(2**63 - 1)).astype(float)
    return np.where(words >> np.uint64(63), 1.0, -1.0), (magnitude + 0.5) * 2.0**-63
