"""Real Laplace noise on counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.frozen import assign
from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import law_of_each
from ppdinf.laws.real_valued.real_noise import RealNoise, positive, scale_of_noise


@dataclass(frozen=True)
class Laplace(RealNoise):
    """Real noise with density proportional to ``exp(-|z| / scale)``; the published numbers are reals.

    For integers with discrete Laplace noise, use `DoubleGeometric`.

    Parameters
    ----------
    scale : float or array of float
        The sensitivity divided by epsilon. An array states one scale per entry.

    Raises
    ------
    PrivacyError
        The scale is not positive; the message names the position or label in an array.

    See Also
    --------
    ppdinf.laws.DoubleGeometric, ppdinf.laws.Gaussian

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import Laplace
    >>> Laplace.of_epsilon(0.5, sensitivity=2)
    Laplace(scale=4.0)
    >>> np.exp(Laplace(1).log_weight(2.5, np.array([2, 3, 5]))).round(3)
    array([0.607, 0.607, 0.082])
    """

    name: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        assign(self, scale=scale_of_noise(self.scale, "the scale"))

    @classmethod
    def of_epsilon(cls, epsilon: Any, sensitivity: float = 1.0) -> Any:
        """Return the law of a mechanism with a privacy loss `epsilon`, for counts with a sensitivity.

        Parameters
        ----------
        epsilon : float or array of float
        sensitivity : float
            Largest change of the published counts together, in l1, by one person.

        Raises
        ------
        PrivacyError
            A parameter is not positive; the message names the position or label in an array.
        """
        numerator = positive(sensitivity, "the sensitivity")
        return law_of_each(lambda each: cls(numerator / positive(each, "epsilon")), epsilon)

    @classmethod
    def of_sd(cls, sd: Any) -> Any:
        """Return the law with a standard deviation or an array of them, ``scale = sd / sqrt(2)``."""
        return law_of_each(lambda each: cls(scale_of_noise(each, "the standard deviation") / math.sqrt(2)), sd)

    @classmethod
    def of_margin_of_error(cls, margin: Any, confidence: float) -> Any:
        """Return the law whose noise is within plus or minus `margin` with probability `confidence`.

        Raises
        ------
        PrivacyError
            The margin is not positive, or the confidence is not between 0 and 1. In an array, the message names the
            position or label.
        """
        if not 0 < confidence < 1:
            raise PrivacyError(f"confidence must be between 0 and 1, found {confidence!r}")
        quantile = -math.log1p(-confidence)
        return law_of_each(lambda each: cls(scale_of_noise(each, "the margin of error") / quantile), margin)

    def to_dict(self) -> Json:
        """Return the name and the scale."""
        return {"name": self.name, "scale": repr(self.scale)}

    @property
    def log_quadratic(self) -> tuple[float, float]:
        """The reciprocal scale, and curvature 0."""
        return 1 / self.scale, 0.0

    def log_distribution(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log probability of noise of at most z."""
        z = np.asarray(z, dtype=np.float64) / self.scale
        return np.where(z < 0, np.minimum(z, 0) - math.log(2), np.log1p(-0.5 * np.exp(-np.maximum(z, 0))))

    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw noise in double precision."""
        return rng.laplace(0, self.scale, size)
