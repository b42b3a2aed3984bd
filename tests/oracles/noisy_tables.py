"""Small systems of sums, regimes of counts and noise, an independent sampler of noise, faults of calibration."""

import numpy as np
from numba import njit

from ppdinf.diagnostics.calibration import calibrate, uniformity


def rows(*groups, cells=6):
    return np.array([[int(i in group) for i in range(cells)] for group in groups])


SYSTEMS = {  # public sums, and the group of each cell where the sums split the cells
    "total": (rows(range(6)), np.zeros(6, int)),
    "groups": (rows(range(3), range(3, 6)), np.repeat([0, 1], 3)),
    "hierarchy": (rows(range(6), range(4), range(4, 6), range(2), range(2, 4)), np.repeat([0, 1, 2], 2)),
    "two-way": (rows(*(range(3 * k, 3 * k + 3) for k in range(3)), *(range(k, 9, 3) for k in range(3)), cells=9), None),
}
REGIMES = {"dense": (25.0, 0.25), "sparse": (0.7, 1.5), "flat": (4.0, 0.05)}  # mean count, epsilon


def solved(A):
    """Dependent cells as integer combinations of free ones, on {z : A z = 0}."""
    columns, rank = [], 0
    for j in range(A.shape[1]):
        if np.linalg.matrix_rank(A[:, [*columns, j]]) > rank:
            columns, rank = [*columns, j], rank + 1
    free = np.setdiff1d(np.arange(A.shape[1]), columns)
    combination = -np.linalg.lstsq(A[:, columns], A[:, free], rcond=None)[0]
    assert np.allclose(combination, combination.round())
    return np.array(columns), free, combination.round().astype(np.int64)


@njit
def noise(d, dependent, free, combination, epsilon, rng):
    """Discrete Laplace in the free cells, accepted in proportion to the mass of the dependent ones."""
    z, p = np.empty(d, np.int64), 1 - np.exp(-epsilon)
    while True:
        for i in free:
            z[i] = rng.geometric(p) - rng.geometric(p)
        size = 0
        for r, i in enumerate(dependent):
            z[i] = 0
            for c, j in enumerate(free):
                z[i] += combination[r, c] * z[j]
            size += abs(z[i])
        if rng.random() < np.exp(-epsilon * size):
            return z


def noticed(simulate, infer, quantity, *, replicates, each=100, alarm=1e-6):
    """Whether a fault shows by `replicates`, the number at which what is right is tested.

    It is looked at after every `each` of them and the first look that sees it ends the run, so that what is right
    would be taken for a fault with a probability of at most ``replicates / each * alarm``.
    """
    rng, found = np.random.default_rng(1), []
    while len(found) < replicates:
        found += calibrate(simulate, infer, replicates=each, rng=rng)[quantity].tolist()
        if uniformity(found) < alarm:
            return True
    return False
