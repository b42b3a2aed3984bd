"""Weights of pairs of counts: the smaller count marginalized, its mean, and draws given the larger one.

Both counts have noise around those of a table; the smaller counts may also be tilted.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

REACH = 64.0  # window radius of l1 noise, in units of 1 / rate
DEVIATIONS = 12.0  # window radius of Gaussian noise, in standard deviations


class PairLaw(NamedTuple):
    """Noise of both counts at the same rate: l1 (power 1) or Gaussian (2), with a tilt of the smaller counts."""

    rate: float
    power: int
    tilt: float


@jit
def _log_noise(distance: float, rate: float, power: int) -> float:
    return -rate * distance if power == 1 else -0.5 * (rate * distance) ** 2


@jit
def _prefix(z: int, last: int, law: PairLaw) -> NDArray[np.float64]:
    """Return the logs of ``sum_{d <= k} noise(d - z) exp(tilt d)`` for k from 0 to `last` without underflow."""
    out = np.empty(last + 1)
    total, top = 0.0, -np.inf
    for d in range(last + 1):
        here = _log_noise(abs(d - z), law.rate, law.power) + law.tilt * d
        if here > top:
            total = total * np.exp(top - here) + 1.0
            top = here
        else:
            total += np.exp(here - top)
        out[d] = top + np.log(total)
    return out


@jit
def tabulate(
    x: NDArray, z: NDArray, first: NDArray, base: NDArray, law: PairLaw, far: int, apart: int, out: NDArray
) -> None:
    """Tabulate weights of the larger counts with the smaller ones marginalized, except for pair `apart`.

    Sums over smaller counts are constant from `far` above z on.
    """
    for j in range(x.size):
        width = base.shape[1]
        prefix = _prefix(z[j], min(first[j] + width - 1, z[j] + far), law)
        for k in range(width):
            c = first[j] + k
            out[j, k] = base[j, k] + _log_noise(abs(c - x[j]), law.rate, law.power)
            if j != apart:
                out[j, k] += prefix[min(c, prefix.size - 1)]


@jit
def draw_smaller(c: NDArray, z: NDArray, law: PairLaw, far: int, u: NDArray, out: NDArray) -> None:
    """Draw each smaller count given its larger count by inversion."""
    for j in range(z.size):
        prefix = _prefix(z[j], min(c[:, j].max(), z[j] + far), law)
        for n in range(c.shape[0]):
            last = min(c[n, j], prefix.size - 1)
            goal = prefix[last] + np.log(u[n, j])
            out[n, j] = min(np.searchsorted(prefix[: last + 1], goal), last)


@jit
def expected(c: NDArray, z: NDArray, law: PairLaw, far: int) -> float:
    """Return the mean of the sum of the smaller counts given the larger ones."""
    total = 0.0
    for j in range(z.size):
        prefix = _prefix(z[j], min(c[j], z[j] + far), law)
        top = prefix[-1]
        total += prefix.size - 1
        for d in range(prefix.size - 1):  # E d = sum over d of P(count > d)
            total -= np.exp(prefix[d] - top)
    return total


def far(law: PairLaw) -> int:
    """Return the distance above the count from which noise weights are negligible in double precision."""
    if law.power == 1:
        return int(np.ceil(REACH / (law.rate - max(0.0, law.tilt))))
    return int(np.ceil(DEVIATIONS / law.rate + max(0.0, law.tilt) / law.rate**2))


def highest(z: int, law: PairLaw) -> float:
    """Return an upper bound on the log weight of a smaller count."""
    if law.power == 1:
        return float(max(law.tilt * z, -law.rate * z))
    mode = max(0.0, z + law.tilt / law.rate**2)
    return float(law.tilt * mode - (law.rate * (mode - z)) ** 2 / 2)
