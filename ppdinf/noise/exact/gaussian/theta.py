"""Gaussian mass of the shifted integers, rho(Z + f) = sum over k of exp(-(k + f)^2 / (2 v)), and its ratio to f = 0.

Poisson summation gives a second series. The direct series converges fast for small v, and

    rho(Z + f) = sqrt(2 pi v) (1 + 2 sum_{j >= 1} q^(j^2) cos(2 pi j f)),    q = exp(-2 pi^2 v),

converges fast for large v. For double precision both need at most five terms at the value of v where the code switches.

References
----------
R. Bellman, A Brief Introduction to Theta Functions (Holt, Rinehart and Winston, 1961), section 9.
"""

import math

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

MEET = 0.16  # about 1/(2 pi), where both series converge equally fast
FLAT = 4.0  # above this, the shift changes the mass by less than one part in 2^110


@jit
def _direct(f: float, v: float) -> float:
    """Return the log mass for v <= MEET and abs(f) <= 1/2."""
    total = 1.0
    for k in range(1, 6):
        total += math.exp(-k * (k + 2.0 * f) / (2.0 * v)) + math.exp(-k * (k - 2.0 * f) / (2.0 * v))
    return math.log(total) - f * f / (2.0 * v)


@jit
def _dual(f: float, v: float) -> float:
    """Return the log mass minus log sqrt(2 pi v), for v >= MEET."""
    q, total = math.exp(-2.0 * math.pi * math.pi * v), 1.0
    for j in range(1, 5):
        total += 2.0 * q ** (j * j) * math.cos(2.0 * math.pi * j * f)
    return math.log(total)


@jit
def log_ratio(f: float, v: float) -> float:
    """Return log(rho(Z + f) / rho(Z)) for abs(f) <= 1/2: at most 0, accurate to about 2^-48 times 1 plus its size."""
    if v >= FLAT:
        return 0.0
    if v >= MEET:
        return _dual(f, v) - _dual(0.0, v)
    return _direct(f, v) - _direct(0.0, v)


@jit
def log_gaussian_mass(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log rho(Z) for each variance."""
    out = np.empty(v.size)
    for i in range(v.size):
        out[i] = _direct(0.0, v[i]) if v[i] < MEET else _dual(0.0, v[i]) + 0.5 * math.log(2.0 * math.pi * v[i])
    return out


def enclose_mass(f: arb, v: arb) -> arb:
    """Enclose rho(Z + f) for abs(f) <= 1/2 at Arb's working precision."""
    if v > MEET:
        scale = (2 * arb.pi() * v).sqrt()

        def bound(k: int) -> arb:
            return 2 * (-2 * (arb.pi() * k) ** 2 * v).exp()

        def term(k: int) -> arb:
            return bound(k) * (2 * arb.pi() * k * f).cos()
    else:
        scale = (-f * f / (2 * v)).exp()

        def bound(k: int) -> arb:
            return 2 * (-k * (k - 2 * abs(f)) / (2 * v)).exp()

        def term(k: int) -> arb:
            return (-k * (k + 2 * f) / (2 * v)).exp() + (-k * (k - 2 * f) / (2 * v)).exp()

    total, k = 1 + term(1), 2
    while not bound(k) < arb(2) ** -ctx.prec:
        total += term(k)
        k += 1
    return scale * (total + arb(0, (2 * bound(k)).upper()))  # from k = 2 on, each bound is below half of the last one
