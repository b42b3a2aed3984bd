"""Real Gaussian noise on counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ppdinf._internal.frozen import assign
from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import law_of_each
from ppdinf.laws.real_valued.real_noise import RealNoise, scale_of_noise


@dataclass(frozen=True)
class Gaussian(RealNoise):
    """Real noise with density proportional to ``exp(-z^2 / (2 sd^2))``; the published numbers are reals.

    For integers with discrete Gaussian noise, use `DiscreteGaussian`.

    Parameters
    ----------
    sd : float or array of float
        Standard deviation. An array states one per entry.

    Raises
    ------
    PrivacyError
        The standard deviation is not positive; the message names the position or label in an array.

    See Also
    --------
    ppdinf.laws.Laplace, ppdinf.laws.DiscreteGaussian, ppdinf.laws.Sampled

    Examples
    --------
    >>> from ppdinf.laws import Gaussian
    >>> import ppdinf as ppd
    >>> inv = ppd.invariants
    >>> noisy = ppd.measured(inv.margin("area"), {"A": 11.38, "B": 3.02}, Gaussian.of_margin_of_error(2.5, 0.90))
    >>> seen = ppd.Measurements({"area": ["A", "B"]}, noisy, public={inv.total(): 15})
    >>> bool((ppd.denoise(seen, draws=50, rng=1, progressbar=False).sums(inv.total()) == 15).all())
    True
    """

    name: ClassVar[str] = "gaussian"
    sd: float

    def __post_init__(self) -> None:
        assign(self, sd=scale_of_noise(self.sd, "the standard deviation"))

    @classmethod
    def of_margin_of_error(cls, margin: Any, confidence: float) -> Any:
        """Return the law whose noise is within plus or minus `margin` with probability `confidence`.

        The noise must not depend on the count. Margins of error of surveys depend on the sampled number: small
        estimates have small margins, and sums would be biased towards 0. State survey estimates by `Sampled`.

        Parameters
        ----------
        margin : float or array of float
            nan for numbers without noise; a margin of 0 means that the number is exact, which ``public=`` states.
        confidence : float
            Between 0 and 1.

        Raises
        ------
        PrivacyError
            The margin is not positive, or the confidence is not between 0 and 1. In an array, the message names the
            position or label.

        Examples
        --------
        >>> from ppdinf.laws import Gaussian
        >>> round(Gaussian.of_margin_of_error(1.645, 0.90).sd, 3)
        1.0
        """
        quantile = normal_quantile(confidence)
        return law_of_each(lambda each: cls(scale_of_noise(each, "the margin of error") / quantile), margin)

    def to_dict(self) -> Json:
        """Return the name and the standard deviation."""
        return {"name": self.name, "sd": repr(self.sd)}

    @property
    def log_quadratic(self) -> tuple[float, float]:
        """Rate 0, and the reciprocal variance."""
        return 0.0, self.sd**-2

    def log_distribution(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log probability of noise of at most z."""
        found: NDArray[np.float64] = special.log_ndtr(z / self.sd)
        return found

    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw noise in double precision."""
        return rng.normal(0, self.sd, size)


def normal_quantile(confidence: float) -> float:
    """Return the half-width, in standard deviations, of the central interval of a normal distribution."""
    if not 0 < confidence < 1:
        raise PrivacyError(f"confidence must be between 0 and 1, found {confidence!r}")
    return float(special.ndtri((1 + confidence) / 2))
