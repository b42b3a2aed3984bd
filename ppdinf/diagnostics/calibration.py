"""Simulation-based calibration of an inference procedure.

Draw parameters and a confidential table from the prior, a release from the table, and posterior draws from the release.
If inference is correct, every quantity of the truth is distributed as one more posterior draw: its normalized rank is
uniform. An epsilon that is off by 20 %, a missing public sum, or a data model normalized on the fiber make the ranks
non-uniform.

References
----------
S. Talts, M. Betancourt, D. Simpson, A. Vehtari and A. Gelman, "Validating Bayesian inference algorithms with
simulation-based calibration", arXiv:1804.06788.
M. Modrak et al., "Simulation-based calibration checking for Bayesian computation: the choice of test quantities
shapes sensitivity", Bayesian Analysis (2023): quantities may depend on the release.
A. Gandy and J. Scott, "Unit testing for MCMC and other Monte Carlo methods", arXiv:2001.06465, for chains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from ppdinf._internal.workers import Workers, run

BINS = 20  # of normalized ranks, for the chi-square test


def calibrate[Data](
    simulate: Callable[[np.random.Generator], tuple[Mapping[str, float], Data]],
    infer: Callable[[Data, np.random.Generator], Mapping[str, ArrayLike]],
    *,
    replicates: int = 1000,
    rng: int | np.random.Generator | None = None,
    workers: Workers = None,
) -> pd.DataFrame:
    """Return the normalized rank of the truth among posterior draws, for many simulated releases."""

    def replicate(rng: np.random.Generator) -> dict[str, float]:
        truth, data = simulate(rng)
        draws = infer(data, rng)
        return {name: position(value, draws[name], rng) for name, value in truth.items()}

    return pd.DataFrame(list(run(replicate, np.random.default_rng(rng).spawn(replicates), workers)))


def position(truth: float, draws: ArrayLike, rng: np.random.Generator) -> float:
    """Return the normalized rank of a value among draws, uniform on (0, 1) if all have the same distribution."""
    values = np.asarray(draws)
    below = np.count_nonzero(values < truth)
    equal = np.count_nonzero(values == truth)
    return float((below + (equal + 1) * rng.random()) / (values.size + 1))


def uniformity(positions: ArrayLike) -> float:
    """Return the p-value of the hypothesis that normalized ranks are uniform on (0, 1)."""
    values = np.asarray(positions, dtype=float)
    counts = np.histogram(values, bins=BINS, range=(0, 1))[0]
    both = stats.kstest(values, "uniform").pvalue, stats.chisquare(counts).pvalue
    return float(min(1.0, 2 * min(both)))
