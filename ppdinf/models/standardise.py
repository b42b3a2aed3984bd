r"""Independent normal variables as what is standard normal once something is told of them: values and gradients.

In each group, with k the information of single ones relative to the others, w their shares and v the information of
their average, what is told is ``H = K - k k' / sum(k) + v w w'``, and ``(H + I / s^2)^-1 = L L'`` for the spread s with

.. math:: L = \mathrm{diag}(a) R_1 R_2, \qquad a_i = s (1 + k_i s^2)^{-1/2}, \qquad R_j = I + (b_j - 1) u_j u_j',

a diagonal matrix and two that change one direction each: that of :math:`a_i k_i`, by
:math:`b_1^2 = \sum k / \sum k (1 + k s^2)^{-1}`, and that of :math:`h = R_1 (a w)`, by :math:`b_2^2 = 1 / (1 + v h'h)`.
(Sherman and Morrison's formula, twice.) What moves is z, and the variables are ``mean + L (L' r + z)``, r what is told
beyond their prior mean.

Gradients are worked out backwards, by hand, along the same steps.

References
----------
J. Sherman, W. J. Morrison, "Adjustment of an inverse matrix corresponding to a change in one element of a given
matrix", Ann. Math. Statist. 21 (1950), 124-127.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

__all__ = ["Known", "pulled_back", "standardised"]

kernel = jit(error_model="numpy")


class Known(NamedTuple):
    """What is told, of n variables in the order of their groups: group g has ``start[g]`` to ``start[g + 1]``.

    ``order`` are their places, (n,); ``fitted`` and ``near`` where they were fitted and where what is told has them,
    ``information`` and ``share`` k and w, (n,); ``average`` and ``precision`` where the averages of the groups are
    told to be, relative to those fitted, and v, (groups,).
    """

    order: NDArray
    start: NDArray
    fitted: NDArray
    near: NDArray
    information: NDArray
    share: NDArray
    average: NDArray
    precision: NDArray


class _Factor(NamedTuple):
    """L: ``a``, (n,); directions ``u`` and ``h`` of length 1, (n,); how much each is stretched, b and c, (groups,).

    How long directions were before, squared, is kept for gradients.
    """

    a: NDArray
    u: NDArray
    b: NDArray
    size_u: NDArray
    h: NDArray
    c: NDArray
    size_h: NDArray


@kernel
def _stretch(u: NDArray, b: float, x: NDArray, first: int, last: int) -> None:
    """Stretch a group of x along u."""
    along = 0.0
    for i in range(first, last):
        along += u[i] * x[i]
    for i in range(first, last):
        x[i] += (b - 1.0) * along * u[i]


@kernel
def _to_unit(x: NDArray, first: int, last: int) -> float:
    """Scale a group of x to length 1, unless all is 0; return the length squared."""
    size = 0.0
    for i in range(first, last):
        size += x[i] ** 2
    if size > 0.0:
        for i in range(first, last):
            x[i] /= np.sqrt(size)
    return size


@kernel
def _factor(known: Known, spread: float) -> _Factor:
    n, groups, information = known.near.size, known.average.size, known.information
    a, u, h, b, c = np.empty(n), np.empty(n), np.empty(n), np.ones(groups), np.empty(groups)
    size_u, size_h = np.empty(groups), np.empty(groups)
    for g in range(groups):
        first, last = known.start[g], known.start[g + 1]
        whole = rest = 0.0
        for i in range(first, last):
            more = 1.0 + information[i] * spread**2
            a[i] = spread / np.sqrt(more)
            u[i], h[i] = a[i] * information[i], a[i] * known.share[i]
            whole += information[i]
            rest += information[i] / more
        if whole > 0.0:
            b[g] = np.sqrt(whole / rest)
        size_u[g] = _to_unit(u, first, last)
        _stretch(u, b[g], h, first, last)
        size_h[g] = _to_unit(h, first, last)
        c[g] = 1.0 / np.sqrt(1.0 + known.precision[g] * size_h[g])
    return _Factor(a, u, b, size_u, h, c, size_h)


@kernel
def _told(known: Known, g: int, mean: NDArray, r: NDArray) -> None:
    """Put into r what is told of a group beyond its prior mean, times how precisely."""
    first, last = known.start[g], known.start[g + 1]
    whole = pull = average = 0.0
    for i in range(first, last):
        r[i] = known.information[i] * (known.near[i] - mean[known.order[i]])
        whole += known.information[i]
        pull += r[i]
        average += known.share[i] * (mean[known.order[i]] - known.fitted[i])
    beyond = known.precision[g] * (known.average[g] - average)
    for i in range(first, last):
        r[i] += known.share[i] * beyond - (known.information[i] * pull / whole if whole > 0.0 else 0.0)


@kernel
def standardised(known: Known, spread: float, mean: NDArray, x: NDArray, inverse: bool, out: NDArray) -> float:
    """Turn what moves into variables, or these into what moves (`inverse`); return the log determinant of the former.

    Parameters
    ----------
    known : Known
    spread : float
        s, above 0.
    mean, x : arrays, shape (n,)
        Prior means; what moves, or variables.
    inverse : bool
    out : array, shape (n,)
    """
    a, u, b, _, h, c, _ = _factor(known, spread)
    y, moved, log_det = np.empty(x.size), np.empty(x.size), 0.0
    for g in range(b.size):
        first, last = known.start[g], known.start[g + 1]
        _told(known, g, mean, y)
        for i in range(first, last):
            y[i] *= a[i]
            log_det += np.log(a[i])
        log_det += np.log(b[g]) + np.log(c[g])
        _stretch(u, b[g], y, first, last)
        _stretch(h, c[g], y, first, last)
        if inverse:
            for i in range(first, last):
                moved[i] = (x[known.order[i]] - mean[known.order[i]]) / a[i]
            _stretch(u, 1.0 / b[g], moved, first, last)
            _stretch(h, 1.0 / c[g], moved, first, last)
            for i in range(first, last):
                out[known.order[i]] = moved[i] - y[i]
        else:
            for i in range(first, last):
                y[i] += x[known.order[i]]
            _stretch(h, c[g], y, first, last)
            _stretch(u, b[g], y, first, last)
            for i in range(first, last):
                out[known.order[i]] = mean[known.order[i]] + a[i] * y[i]
    return log_det


@kernel
def _stretch_back(u: NDArray, b: float, x: NDArray, of_x: NDArray, of_u: NDArray, first: int, last: int) -> float:
    """Turn the gradient in x stretched into that in x; add to that in u, return that in b."""
    along = of_along = 0.0
    for i in range(first, last):
        along += u[i] * x[i]
        of_along += u[i] * of_x[i]
    for i in range(first, last):
        of_u[i] += (b - 1.0) * (along * of_x[i] + of_along * x[i])
        of_x[i] += (b - 1.0) * of_along * u[i]
    return along * of_along


@kernel
def _unit_back(u: NDArray, size: float, of_u: NDArray, first: int, last: int) -> None:
    """Turn the gradient in a direction into that in the vector of that length squared which has it."""
    along = 0.0
    for i in range(first, last):
        along += u[i] * of_u[i]
    for i in range(first, last):
        of_u[i] = (of_u[i] - along * u[i]) / np.sqrt(size) if size > 0.0 else 0.0


@kernel
def pulled_back(
    known: Known, spread: float, mean: NDArray, x: NDArray, of_out: NDArray, of_log_det: float,
    of_x: NDArray, of_mean: NDArray,
) -> float:  # fmt: skip
    """Gradients of a number, from those in what `standardised` makes of what moves and in the log determinant.

    Parameters
    ----------
    known, spread, mean, x
        As for `standardised`.
    of_out, of_log_det : array, shape (n,), and float
    of_x, of_mean : arrays, shape (n,)
        Gradients in x and mean are put there; that in the spread is returned.
    """
    a, u, b, size_u, h, c, size_h = _factor(known, spread)
    n, of_spread = x.size, 0.0
    r, ar, once, y, twice, back, own = np.empty((7, n))
    of_u, of_h, of_a = np.zeros(n), np.zeros(n), np.empty(n)
    for g in range(b.size):
        first, last = known.start[g], known.start[g + 1]
        k, w, v = known.information, known.share, known.precision[g]
        # forwards once more: y = R_2 once + x, once = R_1 a r; then R_1 twice, twice = R_2 y
        _told(known, g, mean, r)
        for i in range(first, last):
            ar[i] = once[i] = a[i] * r[i]
        _stretch(u, b[g], once, first, last)
        for i in range(first, last):
            y[i] = once[i]
        _stretch(h, c[g], y, first, last)
        for i in range(first, last):
            y[i] += x[known.order[i]]
            twice[i] = y[i]
        _stretch(h, c[g], twice, first, last)
        for i in range(first, last):
            back[i] = twice[i]
        _stretch(u, b[g], back, first, last)
        # back from variables to what moves, and to what is told
        for i in range(first, last):
            of = of_out[known.order[i]]
            own[i], of_a[i] = of * a[i], of * back[i] + of_log_det / a[i]
        of_b = _stretch_back(u, b[g], twice, own, of_u, first, last) + of_log_det / b[g]
        of_c = _stretch_back(h, c[g], y, own, of_h, first, last) + of_log_det / c[g]
        for i in range(first, last):
            of_x[known.order[i]] = own[i]
        of_c += _stretch_back(h, c[g], once, own, of_h, first, last)
        of_b += _stretch_back(u, b[g], ar, own, of_u, first, last)
        # to the mean, through what is told beyond it
        whole = pull = beyond = 0.0
        for i in range(first, last):
            of_a[i] += own[i] * r[i]
            own[i] *= a[i]
            whole += k[i]
            pull += k[i] * own[i]
            beyond += w[i] * own[i]
        for i in range(first, last):
            of_off = k[i] * own[i] - (k[i] * pull / whole if whole > 0.0 else 0.0)
            of_mean[known.order[i]] = of_out[known.order[i]] - of_off - w[i] * v * beyond
        # to a, through the second direction and the first
        _unit_back(h, size_h[g], of_h, first, last)
        for i in range(first, last):
            of_h[i] -= v * c[g] ** 3 * of_c * np.sqrt(size_h[g]) * h[i]
            once[i] = a[i] * w[i]
        of_b += _stretch_back(u, b[g], once, of_h, of_u, first, last)
        _unit_back(u, size_u[g], of_u, first, last)
        # to the spread
        of_rest = -0.5 * of_b * b[g] ** 3 / whole if whole > 0.0 else 0.0
        for i in range(first, last):
            of_one, more = of_a[i] + of_h[i] * w[i] + of_u[i] * k[i], 1.0 + k[i] * spread**2
            of_more = -of_rest * k[i] / more**2 - 0.5 * of_one * a[i] / more
            of_spread += of_one / np.sqrt(more) + 2.0 * k[i] * spread * of_more
    return of_spread
