"""Laws of published numbers that depend only on the noise ``y - x``, and compiled log masses of chains of noise.

These depend on |z|_1 or |z|_2^2, which are integers: chains update them for the cells that
move, without rounding errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Integers, Json, Reals, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.law import IntegerLaw
from ppdinf.laws.observation_model import Column, IndependentLaw, as_observation_model

L1, L2, GAUSSIAN = 0, 1, 2


@jit
def log_mass(kind: int, scale: float, absolute: int, squares: float) -> float:
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


NEGLIGIBLE = -700.0
"""Log weight at which tabulated weights end, for laws without a formula for their tails."""

EXACT = 10**7
"""Largest number of noise values that are summed for a distribution function."""

DRAWN = -60.0
"""Log weight below which noise values are not drawn."""


@dataclass(frozen=True, eq=False)
class AdditiveLaw(IndependentLaw):
    """Weights of single cells that depend only on the noise ``y - x``."""

    name: ClassVar[str] = "differences"
    gives: ClassVar[str] = "a count with noise"
    law: Any

    def __str__(self) -> str:
        return str(self.law)

    def to_dict(self) -> Json:
        """Return the name and parameters of the law of the noise."""
        return self.law.to_dict()

    @property
    def log_quadratic(self) -> tuple[float, float] | None:
        """Rate and curvature of the law of the noise, if it has a formula."""
        return self.law.log_quadratic

    def log_weight(self, y: Symbolic, x: Symbolic, *scale: Symbolic) -> Symbolic:
        """Return the log weight of each released y given the count x, elementwise; NumPy or PyTensor."""
        return self.law.log_weight(y - x, *scale)

    def log_total(self, numbers: int) -> float:
        """Return the log of the total weight of independent noise."""
        return numbers * self.law.log_total

    def noise_moments(self, numbers: int) -> tuple[float, float]:
        """Return the moments of the noise, whose law is symmetric."""
        return 0.0, self.law.noise_variance

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return bounds on the count given each y; the weight outside of them is at most `tail_probability`."""
        far = float(self.law.widest_half_width(1, tail_probability)) if tail_probability > 0 else math.inf
        return y - far, y + far

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column: the formula of the law if it has one, otherwise tabulated weights."""
        every = np.arange(y.size)
        if self.log_quadratic is not None:
            return [Column(np.zeros(1), every, y, left=self.log_quadratic, right=self.log_quadratic)]
        far = self.law.tail_start(NEGLIGIBLE)
        return [Column(self.law.log_weight(np.arange(-far, far + 1.0)), every, y - far)]

    def column_below(self, threshold: int) -> Column:
        """Return the log probability that ``x + noise < threshold``, up to counts where it is negligible."""
        far, log_sums = self._log_sums
        return Column(log_sums[::-1], np.zeros(1, dtype=np.int64), np.array([threshold - 1 - far]), left=(0.0, 0.0))

    @cached_property
    def _log_sums(self) -> tuple[int, Reals]:
        """Radius of the noise (tail probability about 1e-300), and its log distribution function at -far, ..., far."""
        far = self.law.tail_start(-math.log(2) * 1000)
        if far > EXACT:
            raise PrivacyError(f"{self.law.name} noise of this scale covers more than {EXACT:,} counts; use less noise")
        sums = np.logaddexp.accumulate(self.law.log_weight(np.arange(-far, far + 1).astype(np.float64)))
        return far, sums - sums[-1]

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Draw noise by inversion and add it to the counts."""
        far = self.law.tail_start(DRAWN)
        below = np.cumsum(np.exp(self.law.log_weight(np.arange(-far, far + 1.0))))
        index = np.searchsorted(below, rng.random(x.shape) * below[-1], side="right")
        return x + np.minimum(index, 2 * far) - far


@as_observation_model.register
def _(law: IntegerLaw) -> AdditiveLaw:
    return AdditiveLaw(law)
