"""Total weights of integer noise, by convolution: the constants of the densities of releases."""

from functools import reduce

import numpy as np

FAR = np.arange(-400, 401)


def geometric(epsilon):
    return lambda z: -epsilon * abs(z)


def log_total(log_weight, cells, kept=True):
    """Log of the total weight of the noise of several cells, with the sum 0 if `kept`; for weights or a rate."""
    weights = np.exp((log_weight if callable(log_weight) else geometric(log_weight))(FAR))
    if not kept:
        return cells * np.log(weights.sum())
    sums = reduce(np.convolve, [weights] * cells)
    return np.log(sums[sums.size // 2])
