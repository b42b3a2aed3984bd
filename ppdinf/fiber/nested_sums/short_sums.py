"""Convolution of two short rows of weights by all products, so that even the smallest weights are accurate."""

import numpy as np
from numpy.typing import NDArray

from ppdinf.fiber.sums_given_totals.cell_windows import vectorised


@vectorised
def copied(source: NDArray, out: NDArray) -> None:
    """Copy a row, in a tenth of the time of an assignment."""
    for k in range(out.size):
        out[k] = source[k]


@vectorised
def convolve(a: NDArray, b: NDArray, skip: int, out: NDArray) -> None:
    """Compute entries ``skip, skip + 1, ...`` of a convolution, ``out[j] = sum_k a[k] b[skip + j - k]``."""
    if a.size > b.size:
        a, b = b, a
    size, padded = b.size, np.zeros(b.size + 14)
    copied(b, padded[7 : 7 + size])
    out[:] = 0.0
    for k in range(0, a.size - 7, 8):  # eight rows at a time, for eight products per load
        first, last = max(0, k - skip), min(out.size, k + 7 - skip + size)
        n = last - first
        if n > 0:
            row, at = out[first:last], skip + first - k + 7
            a0, a1, a2, a3, a4, a5, a6, a7 = a[k], a[k + 1], a[k + 2], a[k + 3], a[k + 4], a[k + 5], a[k + 6], a[k + 7]
            b0, b1, b2, b3 = padded[at:][:n], padded[at - 1 :][:n], padded[at - 2 :][:n], padded[at - 3 :][:n]
            b4, b5, b6, b7 = padded[at - 4 :][:n], padded[at - 5 :][:n], padded[at - 6 :][:n], padded[at - 7 :][:n]
            for j in range(n):
                half = a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j]
                row[j] += half + (a4 * b4[j] + a5 * b5[j] + a6 * b6[j] + a7 * b7[j])
    for k in range(a.size - a.size % 8, a.size):
        first, last = max(0, k - skip), min(out.size, k - skip + size)
        if last > first:
            row, entries = out[first:last], b[skip + first - k :][: last - first]
            for j in range(last - first):
                row[j] += a[k] * entries[j]


@vectorised
def convolve_logs(a: NDArray, b: NDArray, skip: int, out: NDArray) -> None:
    """Compute the same entries in logarithms: slow, and accurate to rounding for all weights."""
    for j in range(out.size):
        first, last, top, mass = max(0, skip + j - b.size + 1), min(a.size, skip + j + 1), -np.inf, 0.0
        for k in range(first, last):
            top = max(top, a[k] + b[skip + j - k])
        if top > -np.inf:
            for k in range(first, last):
                mass += np.exp(a[k] + b[skip + j - k] - top)
        out[j] = top + np.log(mass) if top > -np.inf else -np.inf
