"""Characteristic functions of cells with a small share in the sum, from a dozen moments.

If many cells share a sum, only low frequencies are relevant, and Taylor's formula gives each cell's characteristic
function and its slope (for posterior means), with a bound on its remainder.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import WindowRows, row_of, vectorised

NODES = 16  # frequencies per batch, so that their cosines fit in the cache
ORDER = 12  # order of the moments of a cell with a small share in the sum; even


class Small(NamedTuple):
    """Moments ``moment[i, r] = E (k_i - center[i])^r / r!``, and whether they replace E exp(iuk)."""

    center: NDArray
    moment: NDArray
    serve: NDArray


@vectorised
def small_cells(rows: WindowRows, mean: NDArray, var: NDArray, spread: float, widest: int) -> Small:
    """Return the moments of all cells; ``widest`` is the longest row and ``spread`` the variance of the sum."""
    d = var.size
    small = Small(np.zeros(d, np.int64), np.ones((d, ORDER + 1)), np.zeros(d, np.bool_))
    # weighted by the product over all cells, about exp(-spread u^2 / 2), the remainders are negligible
    enough = 1e-10 / d * (math.e * spread / ORDER) ** (ORDER // 2)
    power = np.ones((ORDER + 1, 2 * widest + 1))  # k^r / r! for k = -widest..widest
    for r in range(1, ORDER + 1):
        part, before, out, at = 1.0 / r, power[r - 1], power[r], -1.0 * widest
        for k in range(out.size):
            out[k] = part * at * before[k]
            at += 1.0
    for i in range(d):
        row, center, moment = row_of(rows, i), int(mean[i] + 0.5), small.moment[i]
        moment[1] = mean[i] - center
        moment[2] = 0.5 * (var[i] + moment[1] ** 2)
        for r in range(3, ORDER, 2):
            one, two = power[r, widest - center :], power[r + 1, widest - center :]
            sum_one = sum_two = 0.0
            for k in range(row.size):
                sum_one += row[k] * one[k]
                sum_two += row[k] * two[k]
            moment[r], moment[r + 1] = sum_one, sum_two
        small.center[i] = center
        small.serve[i] = moment[ORDER] < enough
    return small


@vectorised
def by_series(small: Small, i: int, highest: float) -> bool:
    """Return whether moments replace a cell at frequencies with ``u^ORDER`` up to `highest`."""
    return small.serve[i] and highest * small.moment[i, ORDER] < 0.05


@vectorised
def series(c: NDArray, u: NDArray, real: NDArray, imaginary: NDArray) -> None:
    """Sum ``c[r] (iu)^r`` over r below ORDER at all frequencies u, in a vectorisable form."""
    c0, c2, c4, c6, c8, c10 = c[0], c[2], c[4], c[6], c[8], c[10]
    c1, c3, c5, c7, c9, c11 = c[1], c[3], c[5], c[7], c[9], c[11]
    for j in range(NODES):
        s = u[j] * u[j]
        real[j] = c0 - s * (c2 - s * (c4 - s * (c6 - s * (c8 - s * c10))))
        imaginary[j] = u[j] * (c1 - s * (c3 - s * (c5 - s * (c7 - s * (c9 - s * c11)))))


@vectorised
def multiply(
    real: NDArray, imaginary: NDArray, more: float, beyond: NDArray, product: NDArray, smallest: NDArray, least: NDArray
) -> None:
    """Multiply the squared sizes of a small cell's series, plus its remainder, into the products."""
    for j in range(NODES):
        square = real[j] * real[j] + imaginary[j] * imaginary[j]
        least[j] = min(least[j], square)
        square += more * beyond[j]
        product[j] *= max(square, smallest[j])
        smallest[j] = min(square, smallest[j])
