r"""Whitening of independent normal variables given a normal likelihood: values and gradients.

In each group, let k be the information of single variables on their contrasts, w their shares, and v the information of
their weighted average. The information of the data is ``H = K - k k' / sum(k) + v w w'``, and for the prior standard
deviation s ``(H + I / s^2)^-1 = L L'`` with

.. math:: L = \mathrm{diag}(a) R_1 R_2, \qquad a_i = s (1 + k_i s^2)^{-1/2}, \qquad R_j = I + (b_j - 1) u_j u_j',

a diagonal matrix and two matrices that scale one direction each. The direction :math:`u_1` is that of :math:`a_i k_i`
with :math:`b_1^2 = \sum k / \sum k (1 + k s^2)^{-1}`. The direction :math:`u_2` is that of :math:`h = R_1 (a w)` with
:math:`b_2^2 = 1 / (1 + v h'h)`. Both follow from the Sherman-Morrison formula. The whitened variables are z. The
original variables are ``mean + L (L' r + z)``, where r is the score of the likelihood at the prior mean.

Gradients are computed by reverse-mode differentiation of the same steps, written by hand.

References
----------
J. Sherman, W. J. Morrison, "Adjustment of an inverse matrix corresponding to a change in one element of a given
matrix", Ann. Math. Statist. 21 (1950), 124-127.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit

kernel = jit(error_model="numpy")


class NormalData(NamedTuple):
    """Normal likelihood of n variables in the order of their groups; group g is ``start[g]`` to ``start[g + 1]``."""

    order: NDArray
    start: NDArray
    fitted: NDArray
    response: NDArray
    information: NDArray
    share: NDArray
    average: NDArray
    precision: NDArray


class _Factor(NamedTuple):
    """Factor L: ``a``, (n,); unit directions ``u`` and ``h``, (n,); their scale factors b and c, (groups,)."""

    a: NDArray
    u: NDArray
    b: NDArray
    size_u: NDArray
    h: NDArray
    c: NDArray
    size_h: NDArray


@kernel
def _stretch(u: NDArray, b: float, x: NDArray, first: int, last: int) -> None:
    """Multiply the component of a group of x along u by b."""
    along = 0.0
    for i in range(first, last):
        along += u[i] * x[i]
    for i in range(first, last):
        x[i] += (b - 1.0) * along * u[i]


@kernel
def _to_unit(x: NDArray, first: int, last: int) -> float:
    """Normalize a group of x to length 1, unless it is 0; return the squared length."""
    size = 0.0
    for i in range(first, last):
        size += x[i] ** 2
    if size > 0.0:
        for i in range(first, last):
            x[i] /= np.sqrt(size)
    return size


@kernel
def _factor(data: NormalData, spread: float) -> _Factor:
    n, groups, information = data.response.size, data.average.size, data.information
    a, u, h, b, c = np.empty(n), np.empty(n), np.empty(n), np.ones(groups), np.empty(groups)
    size_u, size_h = np.empty(groups), np.empty(groups)
    for g in range(groups):
        first, last = data.start[g], data.start[g + 1]
        total = shrunk = 0.0
        for i in range(first, last):
            ratio = 1.0 + information[i] * spread**2
            a[i] = spread / np.sqrt(ratio)
            u[i], h[i] = a[i] * information[i], a[i] * data.share[i]
            total += information[i]
            shrunk += information[i] / ratio
        if total > 0.0:
            b[g] = np.sqrt(total / shrunk)
        size_u[g] = _to_unit(u, first, last)
        _stretch(u, b[g], h, first, last)
        size_h[g] = _to_unit(h, first, last)
        c[g] = 1.0 / np.sqrt(1.0 + data.precision[g] * size_h[g])
    return _Factor(a, u, b, size_u, h, c, size_h)


@kernel
def _score(data: NormalData, g: int, mean: NDArray, r: NDArray) -> None:
    """Write the score of a group's likelihood at its prior mean to r."""
    first, last = data.start[g], data.start[g + 1]
    total = pull = average = 0.0
    for i in range(first, last):
        r[i] = data.information[i] * (data.response[i] - mean[data.order[i]])
        total += data.information[i]
        pull += r[i]
        average += data.share[i] * (mean[data.order[i]] - data.fitted[i])
    beyond = data.precision[g] * (data.average[g] - average)
    for i in range(first, last):
        r[i] += data.share[i] * beyond - (data.information[i] * pull / total if total > 0.0 else 0.0)


@kernel
def transform(data: NormalData, spread: float, mean: NDArray, x: NDArray, inverse: bool, out: NDArray) -> float:
    """Map whitened variables to variables, or the reverse (`inverse`); return the log determinant of the former."""
    a, u, b, _, h, c, _ = _factor(data, spread)
    y, moved, log_det = np.empty(x.size), np.empty(x.size), 0.0
    for g in range(b.size):
        first, last = data.start[g], data.start[g + 1]
        _score(data, g, mean, y)
        for i in range(first, last):
            y[i] *= a[i]
            log_det += np.log(a[i])
        log_det += np.log(b[g]) + np.log(c[g])
        _stretch(u, b[g], y, first, last)
        _stretch(h, c[g], y, first, last)
        if inverse:
            for i in range(first, last):
                moved[i] = (x[data.order[i]] - mean[data.order[i]]) / a[i]
            _stretch(u, 1.0 / b[g], moved, first, last)
            _stretch(h, 1.0 / c[g], moved, first, last)
            for i in range(first, last):
                out[data.order[i]] = moved[i] - y[i]
        else:
            for i in range(first, last):
                y[i] += x[data.order[i]]
            _stretch(h, c[g], y, first, last)
            _stretch(u, b[g], y, first, last)
            for i in range(first, last):
                out[data.order[i]] = mean[data.order[i]] + a[i] * y[i]
    return log_det


@kernel
def _stretch_back(u: NDArray, b: float, x: NDArray, of_x: NDArray, of_u: NDArray, first: int, last: int) -> float:
    """Update the gradient in the scaled x to that in x; add to the gradient in u; return the gradient in b."""
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
    """Update the gradient in a unit direction to that in the vector of squared length `size` before normalization."""
    along = 0.0
    for i in range(first, last):
        along += u[i] * of_u[i]
    for i in range(first, last):
        of_u[i] = (of_u[i] - along * u[i]) / np.sqrt(size) if size > 0.0 else 0.0


@kernel
def transform_gradient(
    data: NormalData, spread: float, mean: NDArray, x: NDArray, of_out: NDArray, of_log_det: float,
    of_x: NDArray, of_mean: NDArray,
) -> float:  # fmt: skip
    """Return the gradient in the spread; write those in x and mean, given gradients in the outputs of `transform`."""
    a, u, b, size_u, h, c, size_h = _factor(data, spread)
    n, of_spread = x.size, 0.0
    r, ar, once, y, twice, back, of_y = np.empty((7, n))
    of_u, of_h, of_a = np.zeros(n), np.zeros(n), np.empty(n)
    for g in range(b.size):
        first, last = data.start[g], data.start[g + 1]
        k, w, v = data.information, data.share, data.precision[g]
        # forward pass: once = R_1 a r, y = R_2 once + x, twice = R_2 y, back = R_1 twice
        _score(data, g, mean, r)
        for i in range(first, last):
            ar[i] = once[i] = a[i] * r[i]
        _stretch(u, b[g], once, first, last)
        for i in range(first, last):
            y[i] = once[i]
        _stretch(h, c[g], y, first, last)
        for i in range(first, last):
            y[i] += x[data.order[i]]
            twice[i] = y[i]
        _stretch(h, c[g], twice, first, last)
        for i in range(first, last):
            back[i] = twice[i]
        _stretch(u, b[g], back, first, last)
        # backward pass from variables to whitened variables and to the score
        for i in range(first, last):
            of = of_out[data.order[i]]
            of_y[i], of_a[i] = of * a[i], of * back[i] + of_log_det / a[i]
        of_b = _stretch_back(u, b[g], twice, of_y, of_u, first, last) + of_log_det / b[g]
        of_c = _stretch_back(h, c[g], y, of_y, of_h, first, last) + of_log_det / c[g]
        for i in range(first, last):
            of_x[data.order[i]] = of_y[i]
        of_c += _stretch_back(h, c[g], once, of_y, of_h, first, last)
        of_b += _stretch_back(u, b[g], ar, of_y, of_u, first, last)
        # gradient in the mean, through the score
        total = pull = beyond = 0.0
        for i in range(first, last):
            of_a[i] += of_y[i] * r[i]
            of_y[i] *= a[i]
            total += k[i]
            pull += k[i] * of_y[i]
            beyond += w[i] * of_y[i]
        for i in range(first, last):
            of_response = k[i] * of_y[i] - (k[i] * pull / total if total > 0.0 else 0.0)
            of_mean[data.order[i]] = of_out[data.order[i]] - of_response - w[i] * v * beyond
        # gradient in a, through the second direction and then the first
        _unit_back(h, size_h[g], of_h, first, last)
        for i in range(first, last):
            of_h[i] -= v * c[g] ** 3 * of_c * np.sqrt(size_h[g]) * h[i]
            once[i] = a[i] * w[i]
        of_b += _stretch_back(u, b[g], once, of_h, of_u, first, last)
        _unit_back(u, size_u[g], of_u, first, last)
        # gradient in the spread
        of_shrunk = -0.5 * of_b * b[g] ** 3 / total if total > 0.0 else 0.0
        for i in range(first, last):
            of_scaled, ratio = of_a[i] + of_h[i] * w[i] + of_u[i] * k[i], 1.0 + k[i] * spread**2
            of_ratio = -of_shrunk * k[i] / ratio**2 - 0.5 * of_scaled * a[i] / ratio
            of_spread += of_scaled / np.sqrt(ratio) + 2.0 * k[i] * spread * of_ratio
    return of_spread
