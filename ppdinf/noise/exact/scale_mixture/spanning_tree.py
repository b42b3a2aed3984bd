"""Spanning trees of wide cells of a two-way table, and the exact correction for their condition.

A table is *supported* if every column has a wide cell, and some row, the root, has a wide cell in a column where every
other row also has one. Then wide cells contain a spanning tree of rows and columns in which the path between any row
and column has at most 5 steps, or at most 3 steps if all cells of the root are wide, which may be required. It may also
be required that s rows have only wide cells. The s parallel paths from column to column have 2 / s times the resistance
of a cell, so that row and column are 1 + 2 / s steps apart while these rows are not yet drawn. Further wide cells never
destroy the support.

Drawing (scales, noise) only on supported tables reduces the weight of noise z by the probability c(z) that its scales
are supported. Accepting z with probability c(0) / c(z) corrects this, and neither number has to be computed. Scales
given z are independent and stochastically increasing in abs(z). Wide cells for z = 0 can therefore be drawn as a subset
of the wide cells for z. Draw the former; if they support the table, accept z. Otherwise draw the latter; if they
support the table, reject z, else repeat. z is accepted with probability c(0) (1 + (1 - c(z)) + (1 - c(z))^2 + ...).
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray
from scipy.special import erfc, erfcx

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.rationals import ball
from ppdinf.noise.primitives.bernoulli import draw_bernoulli
from ppdinf.noise.primitives.stream import BitStream

PATHS = (*(1 + Fraction(2, s) for s in (8, 4, 3, 2)), Fraction(3), Fraction(5))
ERROR = 2.0**-30  # bound on the error of the log probabilities below, above FAINT
FAINT = 1e-12


def root_of(wide: NDArray[np.bool_], path: Fraction | int) -> int | None:
    """Return the possible root with most wide cells; None if the table is not supported."""
    degrees = wide.sum(axis=1)
    if path <= 3:
        full = int((degrees == wide.shape[1]).sum())
        return int(np.argmax(degrees)) if full * (path - 1) >= 2 and degrees.all() else None
    if not wide.any(axis=0).all():
        return None
    found = _root(wide, np.argsort(degrees, kind="stable"))
    return None if found < 0 else found


def kept_for_spanning_tree(
    z: NDArray[np.int64],
    epsilon: Fraction,
    width: Fraction,
    supported: Callable[[NDArray[np.bool_]], bool],
    stream: BitStream,
) -> bool:
    """Accept noise with probability c(0) / c(z); cells are wide from scale `width` on."""
    square = epsilon**2 * width / 2
    log_wide = np.full(z.size, math.log(math.erfc(math.sqrt(square))))
    while True:
        still = draw_bernoulli(log_wide, ERROR, lambda _: ball(square).sqrt().erfc(), stream).reshape(z.shape)
        if supported(still):
            return True
        narrow = ~still
        sizes = np.abs(z[narrow])
        narrow[narrow] = draw_bernoulli(
            *_log_stays_narrow(sizes, epsilon, width), _StaysNarrow(sizes, epsilon, width), stream
        )
        if supported(~narrow):
            return False


class _StaysNarrow:
    """Enclosures of the probability that a cell is narrow for z, given that it is narrow for z = 0."""

    def __init__(self, sizes: NDArray[np.int64], epsilon: Fraction, width: Fraction) -> None:
        self._sizes, self._epsilon, self._width = sizes, epsilon, width

    def __call__(self, i: int) -> arb:
        size = int(self._sizes[i])
        x, y = size / (2 * ball(self._width)).sqrt(), (ball(self._epsilon**2 * self._width) / 2).sqrt()
        narrow = (x - y).erfc() - (2 * size * ball(self._epsilon)).exp() * (x + y).erfc()
        return narrow / (2 * y.erf())


def _log_stays_narrow(
    sizes: NDArray[np.int64], epsilon: Fraction, width: Fraction
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logs of the probabilities that `_Stays` encloses, and bounds on their errors."""
    w, eps = float(width), float(epsilon)
    x, y = sizes / math.sqrt(2 * w), eps * math.sqrt(w / 2)
    # exp(2 eps size) = exp(4 x y); (x + y)^2 - 4 x y = (x - y)^2
    narrow = erfc(x - y) - np.exp(-((x - y) ** 2)) * erfcx(x + y)
    clear = narrow > FAINT
    logs = np.log(np.where(clear, narrow, FAINT)) - math.log(2 * math.erf(y))
    return logs, np.where(clear, 2.0**-50 / np.where(clear, narrow, 1.0) + ERROR, 0.5)


@jit
def _root(wide: NDArray[np.bool_], order: NDArray[np.int64]) -> int:
    """Return the first possible root by the number of wide cells, or -1; rows with fewest are checked first."""
    root: int
    for root in order[::-1]:
        tied = True
        for row in order:
            shared = False
            for j in range(wide.shape[1]):
                shared |= wide[root, j] and wide[row, j]
            if not shared:
                tied = False
                break
        if tied:
            return root
    return -1
