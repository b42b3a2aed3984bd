"""l2 Laplace noise of several published numbers together, which is large or small in all numbers at once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ppdinf._internal.frozen import construct
from ppdinf._internal.numba_jit import jit
from ppdinf._internal.types import Json, Symbolic
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.integer_noise.discrete_gaussian import DiscreteGaussian
from ppdinf.laws.integer_noise.l2_laplace import L2Laplace
from ppdinf.laws.integer_noise.l2_total import log_l2_total
from ppdinf.laws.observation_model import ObservationModel, as_observation_model

GRID = 400  # number of scales in the grid of forward draws


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
    law: L2Laplace

    def __str__(self) -> str:
        return str(self.law)

    def to_dict(self) -> Json:
        """Return the name and epsilon."""
        return {"name": self.name, "epsilon": str(self.law.epsilon)}

    @classmethod
    def _of_texts(cls, data: Json) -> JointL2:
        law = construct(L2Laplace, {key: value for key, value in data.items() if key != "name"}, "l2 Laplace noise")
        return cls(law)

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return "a count with noise"

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

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Add noise to numbers along the last axis: draw a scale from a fine grid, then Gaussian noise by inversion."""
        k, epsilon = x.shape[-1], float(self.law.epsilon)
        v = np.sqrt(k) * np.exp(np.linspace(-5, 2, GRID)) + 1e-9
        far = np.arange(-int(12 * v[-1] / epsilon) - 1, int(12 * v[-1] / epsilon) + 2.0)
        log_total = np.array([logsumexp(-0.5 * (far * epsilon / scale) ** 2) for scale in v])
        log_p = -0.5 * v**2 + k * log_total + np.log(v)  # log density of log v, because the grid is even in log v
        p = np.exp(log_p - logsumexp(log_p))
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
