"""Discrete Gaussian draws of blocks; `test_joint_move` tests the blocks."""

import numpy as np
import pytest
from scipy import stats

from ppdinf.fiber.gibbs import joint_move

MOVES, RARE = 4000, 1e-6


def test_discrete_gaussians_around_any_centre():
    """Chi-square tests of draws from a list and by rejection, and masses against sums."""
    rng = np.random.default_rng(2)
    for center, variance in ((0.3, 0.05), (-0.45, 1.0), (0.3, 3.2), (0.5, 60.0)):
        k = np.arange(-120, 121)
        weight = np.exp(-((k - center) ** 2) / (2 * variance))
        assert joint_move._log_mass(center, 1 / variance) == pytest.approx(np.log(weight.sum()), abs=1e-12)
        found = np.array([joint_move._discrete_gaussian(center, 1 / variance, rng) for _ in range(MOVES)])
        expected = MOVES * weight / weight.sum()
        often = expected > 5
        counted = np.array([(found == at).sum() for at in k])
        assert (
            stats.chisquare(counted[often], expected[often] * counted[often].sum() / expected[often].sum()).pvalue
            > RARE
        )
