"""Exact draws of the noise laws on the integers and of Bernoulli(exp(-q)), for rational parameters.

All three samplers invert the distribution function with certified integer bounds (`ppdinf.noise.primitives.inversion`).
No floating-point operation affects the draws, at any scale. Equal parameters share one table.

References
----------
C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", Journal of Privacy
and Confidentiality 12(1), 2022: definitions, and a rational rejection sampler for the same laws.
A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy mechanisms", SIAM
Journal on Computing 41(6), 2012: the two-sided (double) geometric law.
"""

from fractions import Fraction
from functools import lru_cache
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.inversion import Inversion, bernoulli
from ppdinf.noise.primitives.stream import BitStream, Words, bounded, fill_entries


def draw_discrete_laplace(epsilon: Fraction, size: int, stream: BitStream) -> NDArray[np.int64]:
    """Draw from P(k) proportional to exp(-epsilon |k|) on the integers (the double geometric law)."""
    return _laplace(positive_fraction("epsilon", epsilon)).draw(size, stream)


def draw_discrete_gaussian(sigma_squared: Fraction, size: int, stream: BitStream) -> NDArray[np.int64]:
    """Draw from P(k) proportional to exp(-k^2 / (2 sigma^2)) on the integers."""
    return _gaussian(positive_fraction("sigma_squared", sigma_squared)).draw(size, stream)


def bernoulli_exp(q: Fraction, size: int, stream: BitStream) -> NDArray[np.bool_]:
    """Draw Bernoulli variables with probability exp(-q)."""
    q = Fraction(0) if q == 0 else positive_fraction("q", q)
    return bernoulli(lambda: (-ball(q)).exp(), size, stream)


def uniform_integers(limits: NDArray[np.integer], stream: BitStream) -> NDArray[np.int64]:
    """Draw one integer from {0, ..., n - 1} for every n of an array."""
    found = np.empty(len(limits), dtype=np.int64)
    fill_entries(_bounded_each, stream, len(limits), np.asarray(limits, dtype=np.uint64), found)
    return found


@jit
def _bounded_each(words: Words, position: int, limits: Words, found: NDArray[np.int64]) -> int:
    for word in words:
        value, accepted = bounded(word, limits[position])
        if accepted:
            found[position] = value
            position += 1
    return position


def positive_fraction(name: str, value: Fraction) -> Fraction:
    """Return a positive rational as a Fraction, or raise PrivacyError."""
    if not isinstance(value, Rational) or isinstance(value, bool) or value <= 0:
        raise PrivacyError(f"{name} must be a positive int or fractions.Fraction, found {value!r}")
    return Fraction(value)


@lru_cache(maxsize=256)
def _laplace(epsilon: Fraction) -> Inversion:
    return Inversion(lambda k: (-abs(k) * ball(epsilon)).exp(), mode=0)


@lru_cache(maxsize=256)
def _gaussian(sigma_squared: Fraction) -> Inversion:
    return Inversion(lambda k: (-(k**2) / ball(2 * sigma_squared)).exp(), mode=0)
