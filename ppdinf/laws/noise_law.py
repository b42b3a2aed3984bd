"""Noise laws on a lattice {z : A z = 0}, known up to their normalising constant.

- l1 Laplace: exp(-epsilon |z|_1), independent double geometric noise conditioned on A z = 0;
- l2 Laplace: exp(-epsilon |z|_2);
- Gaussian: exp(-|z|_2^2 / (2 sigma^2)).

All three depend on z through |z|_1 and |z|_2^2 alone, which are integers: chains carry the two sums
along and change them by the cells that move, without rounding.

References
----------
P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023,
Definitions 9 and 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from scipy.special import gammainccinv

from ppdinf._compiled import jit
from ppdinf.errors import PrivacyError
from ppdinf.rationals import as_fraction

__all__ = ["NoiseLaw", "double_geometric", "log_mass"]

L1, L2, GAUSSIAN = 0, 1, 2


@dataclass(frozen=True)
class NoiseLaw:
    """One of the three laws with its scale.

    Parameters
    ----------
    kind : {"l1", "l2", "gaussian"}
    scale : int, float, str or Fraction
        epsilon for the Laplace laws (per unit of distance), sigma for the Gaussian.

    Raises
    ------
    PrivacyError
        The kind is unknown, or the scale is not a positive finite number.

    Examples
    --------
    >>> NoiseLaw("l1", "1/4").log_mass([1, -1, 0])
    -0.5
    """

    kind: Literal["l1", "l2", "gaussian"]
    scale: Fraction

    def __init__(self, kind: str, scale: int | float | str | Fraction) -> None:
        if kind not in ("l1", "l2", "gaussian"):
            raise PrivacyError(f"kind must be 'l1', 'l2' or 'gaussian', found {kind!r}")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "scale", as_fraction(scale, "sigma" if kind == "gaussian" else "epsilon"))

    @property
    def code(self) -> tuple[int, float]:
        """What compiled kernels take: the kind as a number, and the scale."""
        return ("l1", "l2", "gaussian").index(self.kind), float(self.scale)

    def potential(self, z: Any, scale: Any = None) -> Any:
        """Log weight of each noise value, elementwise; NumPy or PyTensor.

        Parameters
        ----------
        z : array or tensor of integers
        scale : scalar, optional
            For the l2 law, a value v of the mixing scale with density ``exp(-v**2 / 2)``: given v, the noise is
            Gaussian with standard deviation ``v / epsilon``, and integrating v out leaves ``exp(-epsilon |z|_2)``
            (`ppdinf.noise.exact.mixture`).
        """
        size = float(self.scale)
        if self.kind == "l1":
            return -size * abs(z)
        sigma = size if self.kind == "gaussian" else scale / size
        return -0.5 * z**2 / sigma**2

    def half_width(self, cells: int, rare: float) -> int:
        """Bound on ``|z|`` over `cells` cells of a lattice, exceeded with at most the probability `rare`.

        Laplace: given the other cells' law, a cell has mass at most ``exp(-epsilon |k|)`` relative to that of 0, since
        the mass that the others leave to ``-k`` is largest at 0, their law having a positive Fourier transform.
        Gaussian: a lattice Gaussian has ``E exp(u z) <= exp(sigma**2 u**2 / 2)``, its mass being largest when it is
        centred on the lattice. l2: given the mixing scale v it is Gaussian, and v is stochastically smaller than
        a chi variable with one degree of freedom more than the lattice has dimensions.
        """
        size = float(self.scale)
        if self.kind == "l1":
            return math.ceil(math.log(2 * cells / -math.expm1(-size) / rare) / size)
        if self.kind == "gaussian":
            return math.ceil(size * math.sqrt(2 * math.log(2 * cells / rare)))
        widest = math.sqrt(2 * float(gammainccinv((cells + 1) / 2, rare / 2))) / size  # chi's quantile
        return math.ceil(widest * math.sqrt(2 * math.log(4 * cells / rare)))

    def log_mass(self, z: Any) -> float:
        """Logarithm of the mass at z, up to a constant."""
        z = np.asarray(z, dtype=np.int64)
        return float(log_mass(*self.code, np.abs(z).sum(), (z * z).sum()))


@jit
def log_mass(kind: int, scale: float, absolute: int, squares: int) -> float:
    """Logarithm of the mass, up to a constant, given |z|_1 and |z|_2^2."""
    if kind == L1:
        return -scale * absolute
    if kind == L2:
        return -scale * math.sqrt(squares)
    return -0.5 * squares / (scale * scale)


@jit
def double_geometric(rate: float, rng: Any) -> int:
    """Draw from the law proportional to exp(-rate |k|) on the integers, by inversion of one uniform."""
    a = math.exp(-rate)
    u = rng.random() * (1.0 + a)
    if u < 1.0 - a:
        return 0
    u = (u - (1.0 - a)) / a  # uniform on [0, 2): a side, and the tail beyond it
    side = 1 if u < 1.0 else -1
    tail = 1.0 - (u if u < 1.0 else u - 1.0)  # in (0, 1]
    return side * (1 + int(math.log(tail) / -rate))
