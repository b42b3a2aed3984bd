r"""The log predictive density of each released cell given all other released cells and the parameters.

Cells under one public sum are dependent, and the released cells have this sum, too. Leaving out ``y_i`` therefore
leaves out the sum T. Let S be the sum of the other released cells of the group, p the data model, f the noise of one
cell, and ``C_i(s)`` the weight of all tables of the other cells with sum s. Then

.. math:: p(y_i | y_{-i}) = \frac{\sum_x p(x) f(y_i - x) C_i(T - x)}{\sum_x f(y_i - x) C_i(T - x)},

with integers x of either sign in the denominator, which sums the numerator over all ``y_i`` (``T = S + y_i``; the p(x)
sum to 1). Both are weights of the group under its public sum; in the denominator the cell has the weight f alone.

References
----------
P.-C. Buerkner, J. Gabry, A. Vehtari, "Efficient leave-one-out cross-validation for Bayesian non-factorized normal and
Student-t models", Comput. Stat. 36 (2021), 1243-1261: az.loo applies to these conditional densities.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.observation.observed_release import ObservedRelease
from ppdinf.errors import ModelError
from ppdinf.fiber.sums_given_totals.totals import log_coefficient

NEGLIGIBLE = -36.0  # log weight at an end of a range, relative to the largest
LARGEST = 2**20  # counts of a range
TILTS = np.sinh(np.linspace(-6, 6, 25)) / 20  # up to 10


def require_cells(law: ConfidentialRV) -> None:
    """Refuse releases whose cells have no such density."""
    observed = law.observed
    if not isinstance(observed, ObservedRelease) or not observed.is_integer:
        raise ModelError("of='cells' requires a single release with integer noise by a mechanism of ppdinf")
    if observed.likelihood.normaliser is not None or observed.likelihood.query is not None:
        raise ModelError("of='cells' requires independent noise of cells given the public sums: use of='groups'")
    A = observed.system.A
    if observed.system.limits.size:
        raise ModelError("of='cells' does not support public bounds, whose probability depends on the parameters")
    if (A.data != 1).any() or (np.bincount(A.indices, minlength=1) > 1).any():
        raise ModelError("of='cells' requires that every cell is in at most one public sum, with weight 1")


def counts_of_cells(law: ConfidentialRV) -> NDArray[np.int64]:
    """Return the integers within the radius of the noise around each released cell, shape (d, size)."""
    y, reach = law.observed.y.astype(np.int64), int(np.ceil(law.observed.likelihood.support_radius))
    return np.asarray(y[:, None] + np.arange(-reach, reach + 1))


def wider_counts(
    law: ConfidentialRV, counts: NDArray[np.int64], log_p: NDArray[np.float64]
) -> NDArray[np.int64] | None:
    """Return wider ranges of counts if the weight at the end of a range is not negligible at this draw, or None."""
    (block, total), noise, at = law.groups, law.observed.log_counts(counts), counts.astype(np.float64)
    log_weights = log_p + noise
    lowest, highest = np.zeros(block.size), np.zeros(block.size)
    heavy = np.zeros((2, block.size), dtype=bool)
    for b in range(total.size):
        own = np.flatnonzero(block == b)
        means, of_noise = _tilted_means(log_weights[own], at[own]), _tilted_means(noise[own], at[own])
        together = means.sum(axis=1, keepdims=True)
        sums = np.hstack([together, together - means + of_noise])  # of all cells; with the noise alone in cell i
        tilts = np.array([np.interp(total[b], column, TILTS) for column in sums.T])
        lowest[own], highest[own] = tilts.min(), tilts.max()
        of_alone = noise[own] + tilts[1:, None] * at[own]
        heavy[0, own], heavy[1, own] = _is_heavy(of_alone, 0), _is_heavy(of_alone, -1)
    heavy[0] |= _is_heavy(log_weights + lowest[:, None] * at, 0)
    heavy[1] |= _is_heavy(log_weights + highest[:, None] * at, -1)
    if not heavy.any():
        return None
    size = counts.shape[1]
    first, last = counts[:, 0] - size * heavy[0], counts[:, -1] + size * heavy[1]
    widest = int((last - first).max()) + 1
    if widest > LARGEST:
        raise ModelError(
            f"the released cells are so far from the data model that of='cells' would sum over {widest:,} counts of a "
            "cell: use of='groups'"
        )
    return np.asarray(first[:, None] + np.arange(widest))


def _tilted_means(log_weights: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean count of each cell with weights times exp(t x), shape (tilts, cells)."""
    return np.array([(softmax(log_weights + t * at, axis=1) * at).sum(axis=1) for t in TILTS])


def _is_heavy(log_weights: NDArray[np.float64], end: int) -> NDArray[np.bool_]:
    """Return whether the weight at an end is not negligible; also if no count of the range is possible."""
    largest = log_weights.max(axis=1)
    return np.asarray((log_weights[:, end] > largest + NEGLIGIBLE) | ~np.isfinite(largest))


def log_densities_of_cells(
    law: ConfidentialRV, counts: NDArray[np.int64], log_p: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log predictive density of each cell given the others."""
    (block, total), noise, size = law.groups, law.observed.log_counts(counts), counts.shape[1]
    log_weights = log_p + noise
    found = np.logaddexp.reduce(log_weights, axis=1) - law.observed.log_constants()  # cells in no public sum
    for b in range(total.size):
        own = np.flatnonzero(block == b)
        n = own.size
        copies = np.repeat(log_weights[None, own], n + 1, axis=0)  # copy i has the noise alone in cell i; the last: all
        copies[np.arange(n), np.arange(n)] = noise[own]
        weights = log_coefficient(
            copies.reshape(-1, size),
            lo=np.tile(counts[own, 0], n + 1),
            total=np.full(n + 1, total[b]),
            block=np.repeat(np.arange(n + 1), n),
        )
        found[own] = weights[n] - weights[:n]
    return found
