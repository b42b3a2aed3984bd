"""Double geometric noise on a class of cells, given its sum: exact and independent draws.

n cells have independent noise with law proportional to exp(-epsilon |z_i|), conditioned on
z_1 + ... + z_n = s. Write z = U - V with independent geometric U_i, V_i of ratio exp(-epsilon). Then
t = V_1 + ... + V_n has, given the sum,

    P(t)  proportional to  C(t+s+n-1, n-1) C(t+n-1, n-1) exp(-2 epsilon t),    t >= max(0, -s),

and given t, U and V are independent uniform compositions of t+s and of t into n parts >= 0. The
first is drawn by exact inversion, the second by an urn of integers. A table split into classes, each
with its sum kept, is this law class by class.

References
----------
N. L. Johnson and S. Kotz, Urn Models and Their Application (Wiley, 1977), chapter 4: Polya's urn,
started with one ball of each colour, gives the uniform law on compositions.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb, fmpq
from numba import njit
from numpy.typing import NDArray

from ppdinf.samplers.inversion import Inversion
from ppdinf.samplers.tape import Tape, Words, bounded, fill

__all__ = ["draw_class", "draw_partition"]

BATCH = 2**17  # cells at a time: the working arrays stay in cache


def draw_class(n: int, total: int, epsilon: Fraction, tape: Tape, *, size: int = 1) -> NDArray[np.int64]:
    """Draw the noise of n cells given its sum, exactly.

    Parameters
    ----------
    n : int
        Number of cells in the class.
    total : int
        Sum of the noise.
    epsilon : Fraction
        Rate of the law exp(-epsilon |z_i|) of each cell.
    tape : Tape
        Source of words.
    size : int
        Number of independent draws.

    Returns
    -------
    ndarray of int64, shape (size, n)
        Each row sums to ``total``.
    """
    noise = np.empty((size, n), dtype=np.int64)
    if n == 1:
        noise[:] = total
        return noise
    negative = _negative_part(n, total, epsilon).draw(size, tape)
    rows = max(1, BATCH // n)
    for start in range(0, size, rows):
        t = negative[start : start + rows]
        bars = _bars(t + total, n, tape)
        bars -= _bars(t, n, tape)
        noise[start : start + rows] = np.diff(bars, axis=1)
    return noise


def draw_partition(
    labels: NDArray[np.integer], n_classes: int, epsilon: Fraction, tape: Tape, draws: int
) -> NDArray[np.int64]:
    """Draw the noise of a table whose cells are split into classes, every class sum kept at zero.

    Parameters
    ----------
    labels : ndarray of int, shape (d,)
        Class of each cell, from 0 to ``n_classes - 1``.
    n_classes : int
        Number of classes; some may be empty.
    epsilon : Fraction
        Rate of the law exp(-epsilon |z_i|) of each cell.
    tape : Tape
        Source of words.
    draws : int
        Number of independent draws.

    Returns
    -------
    ndarray of int64, shape (draws, d)
    """
    labels = np.asarray(labels)
    sizes = np.bincount(labels, minlength=n_classes)
    cells_by_class = np.argsort(labels, kind="stable")
    starts = np.cumsum(sizes) - sizes
    noise = np.empty((draws, len(labels)), dtype=np.int64)
    for n in np.unique(sizes[sizes > 0]):
        cells = cells_by_class[starts[sizes == n, np.newaxis] + np.arange(n)]
        alike = draw_class(int(n), 0, epsilon, tape, size=draws * len(cells))
        noise[:, cells] = alike.reshape(draws, *cells.shape)
    return noise


@lru_cache(maxsize=1024)
def _negative_part(n: int, total: int, epsilon: Fraction) -> Inversion:
    """Return the law of t, the sum of V, for n >= 2."""
    first = max(0, -total)

    def weight(t: int) -> arb:
        u = (arb(t + total + n).lgamma() - arb(t + total + 1).lgamma()) + (
            arb(t + n).lgamma() - arb(t + 1).lgamma()
        )
        return (u - 2 * t * _arb(epsilon)).exp()

    def rises(t: int) -> bool:
        """P(t+1) > P(t)."""
        ratio = arb(fmpq((t + total + n) * (t + n), (t + total + 1) * (t + 1)))
        return bool(ratio > (2 * _arb(epsilon)).exp())

    top = 1
    while rises(first + top):
        top *= 2
    low, high = first, first + top  # the mode is the least t that does not rise
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if rises(middle) else (low, middle)
    return Inversion(weight, low, first)


def _arb(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def _bars(totals: NDArray[np.int64], n: int, tape: Tape) -> NDArray[np.int64]:
    """Draw uniform compositions of each total into n >= 2 parts, as partial sums 0 <= ... <= total."""
    bars = np.empty((len(totals), n + 1), dtype=np.int64)
    bars[:, 0] = 0
    bars[:, n] = totals
    fill(_urn, tape, len(totals) * (n - 1), bars)
    bars[:, 1:n].sort(axis=1)
    return bars


@njit(cache=True, nogil=True)
def _urn(words: Words, position: int, bars: NDArray[np.int64]) -> int:
    """Place n - 1 bars among the total + 1 gaps of each row, uniformly over multisets of gaps.

    Polya's urn: every gap starts with one ball, and each bar draws a ball and adds one like it.
    """
    n = bars.shape[1] - 1
    for word in words:
        row, placed = divmod(position, n - 1)
        gaps = bars[row, n] + 1
        ball, accepted = bounded(word, np.uint64(gaps + placed))
        if accepted:
            ball = np.int64(ball)
            bars[row, placed + 1] = ball if ball < gaps else bars[row, ball - gaps + 1]
            position += 1
    return position
