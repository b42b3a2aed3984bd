r"""Gaussian noise on a lattice {z : A z = 0}: its delta, and the scale for a required delta.

zcdp: a lattice Gaussian has the largest mass if centred on the lattice, so that rho = 1 / (2 sigma^2) per unit of
squared distance, in every dimension. exact: the loss between x and x + h at noise z exceeds epsilon if
<z, h> < |h|^2 / 2 - sigma^2 epsilon: delta is a sum over the law of the integer <z, h>. theorem14: as published,
sigma^2 = 2 c ln(1/delta) / epsilon^2 with the smallest c for which the proof is valid: c/3 >= ln K and
2c/3 - 2 - 2m >= m ln(2c), where K is the constant of Theorem 12.

P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, Theorems 12, 14, 15.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import sparse, special
from scipy.optimize import brentq

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Integers
from ppdinf.errors import PrivacyError
from ppdinf.lattice.blocks import Structure, structure
from ppdinf.lattice.systems import MatrixLike
from ppdinf.laws import Law
from ppdinf.laws.additive_law import GAUSSIAN, L2, log_mass
from ppdinf.noise.exact.klein import klein, squares_across
from ppdinf.noise.exact.theta import FLAT, log_ratio
from ppdinf.privacy.zcdp import as_delta, zcdp_rho


def zcdp_sigma(epsilon: Parameter, delta: Parameter) -> float:
    """Return the sigma of lattice Gaussian noise whose zCDP gives (epsilon, delta) at l2 distance 1."""
    return math.sqrt(1 / (2 * zcdp_rho(epsilon, delta)))


def theorem14_sigma(structure: Structure, epsilon: Parameter, delta: Parameter) -> float:
    """Return the published sigma of lattice Gaussian noise, with an explicit constant."""
    size = float(as_fraction(epsilon, "epsilon"))
    chance = float(as_delta(delta))
    if not chance < size < 1 / math.e:
        raise PrivacyError(f"Theorem 14 needs delta < epsilon < 1/e, found epsilon = {size:g}, delta = {chance:g}")
    m = structure.lattice.rank
    c = max(3 * log_constant(structure), 0.5)
    while 2 * c / 3 - 2 - 2 * m < m * math.log(2 * c):  # once false, it remains false for larger c
        c *= 1.001
    return math.sqrt(2 * c * math.log(1 / chance)) / size


def exact_sigma(structure: Structure, step: Integers, epsilon: Parameter, delta: Parameter) -> float:
    """Return the smallest sigma of lattice Gaussian noise for (epsilon, delta) between tables that differ by a step."""
    size, goal = float(as_fraction(epsilon, "epsilon")), float(as_delta(delta))
    law = _step_law(structure, tuple(step))
    high = math.sqrt(float(step @ step) / (2 * zcdp_rho(epsilon, delta)))
    while law.delta(high, size) > goal:  # the bound exceeds the conversion from zCDP if sigma is small
        high *= 1.25
    low = high
    while law.delta(low, size) <= goal and low > 1e-3:
        low /= 2
    return float(brentq(lambda sigma: law.delta(sigma, size) / goal - 1, low, high, xtol=1e-10 * high))


def lattice_delta(structure: Structure, step: Integers, sigma: float, epsilon: float) -> float:
    r"""Bound the delta of lattice Gaussian noise at an epsilon, between tables that differ by a step."""
    return _step_law(structure, tuple(step)).delta(sigma, epsilon)


@lru_cache(maxsize=64)
def _step_law(structure: Structure, step: tuple[int, ...]) -> _StepLaw:
    return _StepLaw(structure, np.array(step, dtype=np.int64))


class _StepLaw:
    """The law of <z, h> for lattice Gaussian z."""

    def __init__(self, structure: Structure, step: Integers) -> None:
        h = np.asarray(step, dtype=np.int64)
        values = np.abs(sparse.csc_array(structure.lattice.basis).T @ h)
        self.squared = int(h @ h)
        self.spacing = int(np.gcd.reduce(values)) if values.size else 0
        if not self.spacing or np.any(structure.class_system[:, structure.classes] @ h):
            raise PrivacyError("the step must be a difference of two tables with the same public sums, not 0")
        self.squares = squares_across(structure, h)

    def delta(self, sigma: float, epsilon: float) -> float:
        """Return the sum of the positive part of one law minus exp(epsilon) times the other."""
        spread = sigma * math.sqrt(self.squared)
        reach = math.ceil((40 * spread + abs(sigma**2 * epsilon)) / self.spacing) + 2
        if reach > 10**8:
            raise PrivacyError(f"sigma = {sigma:g} is too wide to sum its law")
        t = self.spacing * np.arange(-reach, reach + 1, dtype=np.float64)
        log_p = -0.5 * (t / spread) ** 2
        log_q = -0.5 * ((t + self.squared) / spread) ** 2 + epsilon
        above = log_q < log_p
        total = special.logsumexp(log_p)
        gain = np.exp(log_p[above] - total) * -np.expm1(log_q[above] - log_p[above])
        widths = sigma**2 / self.squares
        # the smallest share of its mass that the shifted lattice across the step keeps
        evenness = math.exp(math.fsum(log_ratio(0.5, v) for v in widths[widths < FLAT].tolist()))
        return min(1.0, float(gain.sum()) / evenness)


def tail_bound(A: MatrixLike | Structure, law: Law, distance: float) -> float:
    """Bound the probability that lattice noise moves a table by an l2 distance or more.

    The published bound is K t^m exp(-loss(t)), where the lattice has m dimensions and noise of length t has the log
    mass -loss(t). The papers prove it if t is large enough. Here it is used from the distances where the proof applies,
    and the result is 1 below them, so that it is a bound at every distance.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d), or Structure
        Public sums: the noise z satisfies A z = 0.
    law : L2Laplace or DiscreteGaussian
        Law of the noise.
    distance : float
        Length t of the noise in l2, positive.

    Returns
    -------
    float
        Upper bound on ``P(|z| >= t)``, at most 1.

    Raises
    ------
    PrivacyError
        The law is another one, or the distance is not positive.

    See Also
    --------
    ppdinf.GeneralizedLaplace, ppdinf.GeneralizedGaussian, ppdinf.plan

    References
    ----------
    P. Dharangutte et al., "Integer subspace differential privacy", AAAI 2023, Theorem 12 (7), Theorem 15, Proposition
    18. The distances are derived in docs/mathematics/lattice_tails.md.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> round(ppd.privacy.tail_bound([[1, 1, 1]], ppd.laws.L2Laplace(1), 12), 4)
    0.0257
    """
    kind, scale = law.kernel_id
    if kind not in (L2, GAUSSIAN) or not 0 < distance < math.inf:
        raise PrivacyError(
            "the tail bound requires L2Laplace or DiscreteGaussian noise and a positive distance, "
            f"found {law.name} noise and {distance!r}"
        )
    found = A if isinstance(A, Structure) else structure(A)
    m = found.lattice.rank
    if m == 0:
        return 0.0
    loss, twice = (-log_mass(kind, scale, 0, (k * distance) ** 2) for k in (1, 2))
    # (1 + r / 2t)^m <= 2 for the covering radius r: balls of radius 2t have at most twice the points of their volume
    orthogonal = klein(found.lattice, found.tables)
    covering = 0.5 * math.sqrt(math.fsum(orthogonal.squares.tolist()) / (1 - orthogonal.slack))
    if 2 * distance * (2 ** (1 / m) - 1) < covering or twice - loss < (m + 1) * math.log(2):
        return 1.0
    return math.exp(min(0.0, log_constant(found) + m * math.log(distance) - loss))


def log_constant(structure: Structure) -> float:
    """Return log K of Theorem 12: noise moves a table by t or more with probability at most K t^m exp(-loss at t)."""
    m = structure.lattice.rank
    if m == 0:
        return 0.0
    log_ball = m / 2 * math.log(math.pi) - special.gammaln(m / 2 + 1)
    log_squares = np.log(klein(structure.lattice, structure.tables).squares).tolist()  # det(C' C) is their product
    return math.log(4) + m * math.log(2) + float(log_ball) - 0.5 * math.fsum(log_squares)
