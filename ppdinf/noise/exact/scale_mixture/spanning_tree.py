"""Wide cells that tie a two-way table together, and the exact odds that its scales hold some.

A table is *backed* if some row, the root, has a wide cell in a column where any other row has one too, and every
column has a wide cell. Then wide cells hold a spanning tree of rows and columns in which any row and column are at
most 5 steps apart; 3, if all cells of the root are wide, which may be asked for. So may s such rows: as s ways from
column to column side by side resist 2 / s times as much as a cell, row and column are then as good as 1 + 2 / s steps
apart, while those rows are still to be drawn. More wide cells never spoil that.

Drawing (scales, noise) among backed tables alone gives noise z too little weight, by the probability c(z) that its
scales are backed. Keeping z with probability c(0) / c(z) sets that right, and needs neither number: scales given z are
independent and rise with abs(z), so wide cells for z = 0 can be drawn as a subset of those for z. Draw the former; if
they back the table, keep z. Else draw the latter: if they back it, drop z, else begin again. So z is kept with
probability c(0) (1 + (1 - c(z)) + (1 - c(z))^2 + ...).
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

__all__ = ["PATHS", "kept_for_backbone", "root_of"]

PATHS = (*(1 + Fraction(2, s) for s in (8, 4, 3, 2)), Fraction(3), Fraction(5))
ERROR = 2.0**-30  # more than the error of the logarithm of a probability below, above FAINT
FAINT = 1e-12


def root_of(wide: NDArray[np.bool_], path: Fraction | int) -> int | None:
    """Return the row with most wide cells among those that can be the root; None if the table is not backed.

    Examples
    --------
    >>> root_of(np.array([[True, False], [True, True], [True, False]]), 5), root_of(np.eye(2, dtype=bool), 5)
    (1, None)
    """
    degrees = wide.sum(axis=1)
    if path <= 3:
        full = int((degrees == wide.shape[1]).sum())
        return int(np.argmax(degrees)) if full * (path - 1) >= 2 and degrees.all() else None
    if not wide.any(axis=0).all():
        return None
    found = _root(wide, np.argsort(degrees, kind="stable"))
    return None if found < 0 else found


def kept_for_backbone(
    z: NDArray[np.int64],
    epsilon: Fraction,
    width: Fraction,
    backed: Callable[[NDArray[np.bool_]], bool],
    stream: BitStream,
) -> bool:
    """Keep noise with probability c(0) / c(z); cells are wide from scale `width` on, and more of them back no less."""
    square = epsilon**2 * width / 2
    log_wide = np.full(z.size, math.log(math.erfc(math.sqrt(square))))
    while True:
        still = draw_bernoulli(log_wide, ERROR, lambda _: ball(square).sqrt().erfc(), stream).reshape(z.shape)
        if backed(still):
            return True
        narrow = ~still
        sizes = np.abs(z[narrow])
        narrow[narrow] = draw_bernoulli(*_log_stays(sizes, epsilon, width), _Stays(sizes, epsilon, width), stream)
        if backed(~narrow):
            return False


class _Stays:
    """Enclosures of the probability that a cell narrow for z = 0 is narrow for z."""

    def __init__(self, sizes: NDArray[np.int64], epsilon: Fraction, width: Fraction) -> None:
        self._sizes, self._epsilon, self._width = sizes, epsilon, width

    def __call__(self, i: int) -> arb:
        size = int(self._sizes[i])
        x, y = size / (2 * ball(self._width)).sqrt(), (ball(self._epsilon**2 * self._width) / 2).sqrt()
        narrow = (x - y).erfc() - (2 * size * ball(self._epsilon)).exp() * (x + y).erfc()
        return narrow / (2 * y.erf())


def _log_stays(
    sizes: NDArray[np.int64], epsilon: Fraction, width: Fraction
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of the probabilities that `_Stays` encloses, and bounds on their errors."""
    w, eps = float(width), float(epsilon)
    x, y = sizes / math.sqrt(2 * w), eps * math.sqrt(w / 2)
    # exp(2 eps size) = exp(4 x y); (x + y)^2 - 4 x y = (x - y)^2
    narrow = erfc(x - y) - np.exp(-((x - y) ** 2)) * erfcx(x + y)
    clear = narrow > FAINT
    logs = np.log(np.where(clear, narrow, FAINT)) - math.log(2 * math.erf(y))
    return logs, np.where(clear, 2.0**-50 / np.where(clear, narrow, 1.0) + ERROR, 0.5)


@jit
def _root(wide: NDArray[np.bool_], order: NDArray[np.int64]) -> int:
    """Try rows from the one with most wide cells; those with fewest tell soonest. -1 if there is none."""
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
