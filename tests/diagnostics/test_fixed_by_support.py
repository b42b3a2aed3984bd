"""Cells that a public sum determines only because the data model has no negative counts."""

import numpy as np
import pymc as pm

import ppdinf as ppd


def test_counts_under_a_public_sum_of_0_are_not_stuck():
    public = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    noisy = np.array([[2, -1, 3], [1, 1, 2]])  # the second column sums to 0
    release = ppd.Release(noisy, ppd.GeneralizedLaplace(public, epsilon=1))
    with pm.Model(coords=release.coords) as model:
        ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0, shape=(2, 3)), release=release)
        idata = pm.sample(
            400, tune=50, chains=4, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert ppd.diagnose(idata, model).cells["fixed"].tolist() == [False, True, False] * 2
