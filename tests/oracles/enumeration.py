"""Brute force over every table of a small fiber: the oracle of the posterior tests."""

import numpy as np
from grids import tables
from scipy import stats


def fiber_points(A, values, high):
    """All non-negative integer tables with A x = values and cells up to `high`."""
    return tables([0] * A.shape[1], [high] * A.shape[1], A.toarray(), values)


def posterior(points, y, epsilon, rates, prior):
    """Joint posterior of (table, rate multiplier) when cells are Poisson(rate * multiplier), l1 noise.

    Returns p[table, multiplier], with the unconditional Poisson mass as data model.
    """
    log_data = np.stack([stats.poisson.logpmf(points, rates * m).sum(axis=1) for m, _ in prior], axis=1)
    log_noise = -epsilon * np.abs(points - y).sum(axis=1)
    log_joint = log_data + log_noise[:, None] + np.log([p for _, p in prior])
    joint = np.exp(log_joint - log_joint.max())
    return joint / joint.sum()


def total_variation(draws, points, probabilities):
    """Distance between drawn tables and an exact law over `points`; draws elsewhere count in full."""
    place = {tuple(point): k for k, point in enumerate(points.tolist())}
    counts = np.zeros(len(points) + 1)
    for draw in draws.tolist():
        counts[place.get(tuple(draw), -1)] += 1
    frequencies = counts / counts.sum()
    return 0.5 * (np.abs(frequencies[:-1] - probabilities).sum() + frequencies[-1])


def contrast(draws, points, right, wrong):
    """z of the mean log ratio of two laws over independent draws, if the first holds and if the second does.

    The sharpest question to ask where two laws are near each other; a point that neither reaches tells nothing. Draws
    that are none of the points are left out: `total_variation` looks at these.
    """
    score = np.log(np.maximum(right, 1e-300)) - np.log(np.maximum(wrong, 1e-300))
    index = {tuple(point): k for k, point in enumerate(points.tolist())}
    known = [index[tuple(draw)] for draw in draws.tolist() if tuple(draw) in index]
    found, seen = [], score[known].mean()
    for law in right, wrong:
        mean = law @ score
        found.append((seen - mean) / np.sqrt(law @ (score - mean) ** 2 / len(known)))
    return tuple(found)
