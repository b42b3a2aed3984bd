"""l2 Laplace noise, exp(-epsilon |z|_2), of whole tables and of several published numbers together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainccinv, logsumexp

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Integers, Json, Reals, Symbolic, as_texts, assign, of_texts
from ppdinf.laws.additive_law import L2, AdditiveLaw
from ppdinf.laws.discrete_gaussian import DiscreteGaussian
from ppdinf.laws.double_geometric import DoubleGeometric
from ppdinf.laws.law import Law
from ppdinf.laws.observation_model import ObservationModel, as_observation_model

STEP = 1 / 8
DEVIATIONS = 9.0  # standard deviations beyond which a normal density is negligible
NEGLIGIBLE = -40.0  # log of a negligible share of the total


def log_l2_total(
    log_gaussian_total: Callable[[Fraction], float], epsilon: Fraction, log_identity: float, dimension: int
) -> float:
    """Compute the logarithm of the total weight of all releases with l2 noise."""

    def term(k: int) -> float:
        v = math.exp(STEP * k)
        log_total = log_gaussian_total((Fraction(v) / epsilon) ** 2)
        other_weight = (
            log_total + math.log(-math.expm1(log_identity - log_total)) if log_total > log_identity else -math.inf
        )
        return math.log(STEP * math.sqrt(2 / math.pi)) + STEP * k - v**2 / 2 + other_weight

    first = math.floor(math.log(float(epsilon) / DEVIATIONS) / STEP)
    last = math.ceil(math.log(math.sqrt(dimension + 1) + DEVIATIONS) / STEP)
    terms = [log_identity, *map(term, range(min(first, last), last + 1))]
    # Extend both ends where bounds or base measures move releases far from the table.
    for outward in (count(last + 1), count(min(first, last) - 1, -1)):
        terms += _until_negligible(map(term, outward), float(np.logaddexp.reduce(terms)))
    return float(np.logaddexp.reduce(terms))


def _until_negligible(terms: Iterator[float], log_total: float) -> list[float]:
    summed = []
    for log_term in terms:
        summed.append(log_term)
        log_total = float(np.logaddexp(log_total, log_term))
        if log_term < log_total + NEGLIGIBLE:
            return summed
    return summed


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

    def __init__(self, epsilon: Parameter) -> None:
        assign(self, epsilon=as_fraction(epsilon, "epsilon"))

    @property
    def kernel_id(self) -> tuple[int, float]:
        """Identifier and scale of the law in `ppdinf.laws.additive_law`."""
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
            (`ppdinf.noise.exact.l2_laplace_mixture`).
        """
        sigma = scale / float(self.epsilon)
        return -0.5 * z**2 / sigma**2

    def support_radius(self, cells: int, tail_probability: float) -> int:
        """Return a bound on ``|z|`` over `cells` cells of a lattice, with tail probability `tail_probability`.

        Given the mixing scale v, the noise is Gaussian. The scale v is stochastically smaller than a chi variable whose
        degrees of freedom are the dimension of the lattice plus 1.
        """
        # quantile of the chi distribution
        widest = math.sqrt(2 * float(gammainccinv((cells + 1) / 2, tail_probability / 2))) / float(self.epsilon)
        return math.ceil(widest * math.sqrt(2 * math.log(4 * cells / tail_probability)))

    def widest_half_width(self, cells: int, tail_probability: float) -> int:
        """Return the bound of the dominating l1 noise; every further condition that zero noise satisfies is allowed."""
        return self.dominating_law(cells).widest_half_width(cells, tail_probability)

    def dominating_law(self, cells: int) -> DoubleGeometric:
        """Return noise whose weights are not smaller than ``exp(-epsilon |z|_2)`` anywhere.

        ``|z|_2`` is at least ``|z|_1`` divided by the square root of `cells`.
        """
        return DoubleGeometric(self.epsilon * Fraction(2**20, math.isqrt(cells * 2**40) + 1))


GRID = 200  # number of scales in the grid of forward draws and moments


@dataclass(frozen=True, eq=False)
class JointL2(ObservationModel):
    """Noise of several numbers together whose size is measured by their l2 norm.

    Weight ``exp(-epsilon |y - x|_2)`` of all numbers that share one object of this class.

    The noise is a scale mixture. Given v with density ``exp(-v**2 / 2)``, the numbers are independent Gaussians with
    standard deviation ``v / epsilon``. Integrating over v gives the weight. Samplers draw v given the table.

    Attributes
    ----------
    law : L2Laplace

    See Also
    --------
    ppdinf.laws.L2Laplace

    Examples
    --------
    >>> import ppdinf as ppd
    >>> noise = ppd.laws.JointL2(ppd.laws.L2Laplace(1))
    >>> counts = ppd.measured(ppd.invariants.margin("sex"), [3, 9], noise)
    >>> ppd.Measurements({"sex": ["f", "m"]}, counts)
    <Measurements (sex: 2): 2 noisy sums, 0 exact; Published exactly: nothing.>
    """

    name: ClassVar[str] = "l2-laplace"
    gives: ClassVar[str] = "a count with noise"
    law: L2Laplace

    def __str__(self) -> str:
        return str(self.law)

    def to_dict(self) -> Json:
        """Return the name and epsilon."""
        return {"name": self.name} | as_texts(self.law)

    @classmethod
    def _of_texts(cls, parameters: Json) -> JointL2:
        return cls(of_texts(L2Laplace, parameters, "l2 Laplace noise"))

    @property
    def mixture_rate(self) -> float:
        """Rate epsilon of the l2 noise."""
        return float(self.law.epsilon)

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the contribution of each number to the joint log weight; the numbers are along the first axis."""
        z2 = (np.asarray(y - x, dtype=np.float64)) ** 2
        norm = np.sqrt(z2.sum(axis=0))
        return -float(self.law.epsilon) * z2 / np.where(norm > 0, norm, 1.0)

    def log_total(self, numbers: int) -> float:
        """Return the log of the total weight, by quadrature over the scale."""
        return _log_total(self.law.epsilon, numbers)

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return bounds on the count given each y; jointly they fail with probability at most `tail_probability`."""
        far = float(self.law.support_radius(max(np.size(y), 1), tail_probability)) if tail_probability > 0 else np.inf
        return y - far, y + far

    def noise_moments(self, numbers: int) -> tuple[float, float]:
        """Return the moments given each scale, averaged over a fine grid of scales."""
        v, p = self._scales(numbers)
        variances = [DiscreteGaussian(scale).noise_variance for scale in (v / float(self.law.epsilon)).tolist()]
        return 0.0, float(p @ variances)

    def _scales(self, k: int) -> tuple[Reals, Reals]:
        """Return a fine grid of scales of k numbers, and their probabilities."""
        epsilon = float(self.law.epsilon)
        v = np.sqrt(k) * np.exp(np.linspace(-14, 2, GRID))
        far = np.arange(-int(12 * v[-1] / epsilon) - 1, int(12 * v[-1] / epsilon) + 2.0)
        log_total = np.array([logsumexp(-0.5 * (far * epsilon / scale) ** 2) for scale in v])
        log_p = -0.5 * v**2 + k * log_total + np.log(v)  # log density of log v, because the grid is even in log v
        return v, np.exp(log_p - logsumexp(log_p))

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Add noise to numbers along the last axis: draw a scale from a fine grid, then Gaussian noise by inversion."""
        epsilon, (v, p) = float(self.law.epsilon), self._scales(x.shape[-1])
        noisy = np.empty_like(x)
        for at in np.ndindex(x.shape[:-1]):
            gaussian = DiscreteGaussian(float(v[rng.choice(GRID, p=p)] / epsilon))
            noisy[at] = AdditiveLaw(gaussian).publish(x[at], rng)
        return noisy


@lru_cache(maxsize=64)
def _log_total(epsilon: Fraction, numbers: int) -> float:
    return log_l2_total(lambda v: numbers * DiscreteGaussian(variance=v).log_total, epsilon, 0.0, numbers)


@as_observation_model.register
def _(law: L2Laplace) -> JointL2:
    return JointL2(law)


@jit
def mixing_precision(epsilon: float, squares: float, rng: np.random.Generator) -> float:
    """Draw ``(epsilon / v)**2`` given the sum of squared errors."""
    b = epsilon**2 * squares
    inverse = rng.wald(b**-0.5, 1.0) if b > 0 else 1 / max(rng.standard_normal() ** 2, 1e-300)
    return float(epsilon**2 * inverse)
