"""l2 Laplace noise of vectors, exp(-epsilon |z|_2): a scale mixture of discrete Gaussians.

References
----------
P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, Definition 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainccinv

from ppdinf._internal.frozen import assign
from ppdinf._internal.rationals import as_fraction
from ppdinf._internal.types import Symbolic
from ppdinf.laws.integer_noise.chain_kernels import L2
from ppdinf.laws.integer_noise.double_geometric import DoubleGeometric
from ppdinf.laws.law import Law


@dataclass(frozen=True)
class L2Laplace(Law):
    """Integer noise of a whole table whose size is measured by its l2 norm.

    Weight ``exp(-epsilon |z|_2)`` of a vector z: epsilon-differential privacy per unit of l2 distance.

    Parameters
    ----------
    epsilon : int, float, str or Fraction

    Raises
    ------
    PrivacyError
        epsilon is not a positive finite number.

    See Also
    --------
    ppdinf.laws.DoubleGeometric, ppdinf.laws.JointL2

    Examples
    --------
    >>> from ppdinf.laws import L2Laplace
    >>> L2Laplace("1/2").log_mass([3, -4])
    -2.5
    """

    name: ClassVar[str] = "l2-laplace"
    title: ClassVar[str] = "l2 Laplace"
    is_mixture: ClassVar[bool] = True
    epsilon: Fraction

    def __init__(self, epsilon: int | float | str | Fraction) -> None:
        assign(self, epsilon=as_fraction(epsilon, "epsilon"))

    @property
    def kernel_id(self) -> tuple[int, float]:
        """Identifier and scale of the law in `ppdinf.laws.integer_noise.chain_kernels`."""
        return L2, float(self.epsilon)

    def log_mass(self, z: ArrayLike) -> float:
        """Return ``-epsilon |z|_2``."""
        z = np.asarray(z, dtype=np.int64)
        return -float(self.epsilon) * math.sqrt(int((z * z).sum()))

    def log_weight(self, z: Symbolic, scale: Symbolic) -> Symbolic:
        """Return the log weight of each integer given the mixing scale, elementwise; NumPy or PyTensor.

        Parameters
        ----------
        z : array or tensor of integers
        scale : scalar
            A value v with density ``exp(-v**2 / 2)``. Given v, the noise is Gaussian with standard deviation
            ``v / epsilon``. Integrating over v gives ``exp(-epsilon |z|_2)``
            (`ppdinf.noise.exact.gaussian.l2_laplace_mixture`).
        """
        sigma = scale / float(self.epsilon)
        return -0.5 * z**2 / sigma**2

    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Return a bound on ``|z|`` over `cells` cells of a lattice, with tail probability `tail_probability`.

        Given the mixing scale v, the noise is Gaussian. The scale v is stochastically smaller than a chi variable whose
        degrees of freedom are the dimension of the lattice plus 1.
        """
        widest = math.sqrt(2 * float(gammainccinv((cells + 1) / 2, tail_probability / 2))) / float(
            self.epsilon
        )  # quantile of the chi distribution
        return math.ceil(widest * math.sqrt(2 * math.log(4 * cells / tail_probability)))

    def widest_half_width(self, cells: int, tail_probability: float) -> int:
        """Return the bound of the dominating l1 noise; every further condition that zero noise satisfies is allowed."""
        return self.dominating_law(cells).widest_half_width(cells, tail_probability)

    def dominating_law(self, cells: int) -> DoubleGeometric:
        """Return noise whose weights are not smaller than ``exp(-epsilon |z|_2)`` anywhere.

        ``|z|_2`` is at least ``|z|_1`` divided by the square root of `cells`.
        """
        return DoubleGeometric(self.epsilon * Fraction(2**20, math.isqrt(cells * 2**40) + 1))
