"""R-hat and effective sample sizes of every element of a variable, and limits of the largest of many R-hats."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import xarray as xr
from arviz_base import rcParams
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import chi2, rankdata

from ppdinf._internal.values import Array, Reals

RHAT = 1.01
LEVEL = 0.05
MIN_DRAWS = 4
"""Draws per chain required for R-hat and effective sample sizes."""
NO_OVERLAP = 100.0
"""R-hat above which chains do not overlap; its exact value is then uninformative."""


def limit(quantities: int, chains: int = 4) -> float:
    """Return the limit for the largest of many R-hats, 1.01 for one quantity."""
    # for chains that mix, R-hat**2 - 1 is about a scaled chi-square variable; the joint 95 % quantile (Bonferroni)
    freedom = 2 * chains - 1
    grows = chi2.isf(LEVEL / max(quantities, 1), freedom) / chi2.isf(LEVEL, freedom)
    return float(np.sqrt(1 + (RHAT**2 - 1) * grows))


def format_rhat(value: float, threshold: float) -> str:
    """Format an R-hat with enough digits to compare it with the limit, and the limit if it is exceeded."""
    if np.isnan(value):
        return "not a number"
    if value > NO_OVERLAP:
        return f"above {NO_OVERLAP:.0f}"
    if value <= threshold:
        return f"{value:.3f}"
    digits = next((k for k in range(3, 16) if f"{value:.{k}f}" != f"{threshold:.{k}f}"), 16)
    return f"{value:.{digits}f} (above {threshold:.{digits}f})"


TOGETHER = 2**21  # draws of several numbers that are measured together


def convergence(draws: xr.DataArray) -> pd.DataFrame:
    """Measure the agreement of the chains of one variable, as ArviZ does number by number in ten times the time."""
    draws = draws.transpose("chain", "draw", ...)
    chains, length = draws.shape[:2]
    numbers = np.moveaxis(draws.values.reshape(chains, length, -1), 2, 0)
    table = np.full((3, len(numbers)), np.nan)
    size = max(1, TOGETHER // max(chains * length, 1))
    for first in range(0, len(numbers) if length >= MIN_DRAWS else 0, size):
        values = numbers[first : first + size].astype(np.float64)
        known = np.isfinite(values).all(axis=(1, 2))
        if known.any():
            table[:, first + np.flatnonzero(known)] = _measured(values[known])
    labels = [
        map(str, draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim])) for dim in draws.dims[2:]
    ]
    names = [f"{draws.name}[{', '.join(label)}]" for label in itertools.product(*labels)] if labels else [draws.name]
    return pd.DataFrame(dict(zip(("ess_bulk", "ess_tail", "r_hat"), table, strict=True)), index=pd.Index(names))


def _measured(values: Reals) -> Reals:
    """Return bulk and tail effective sample sizes and R-hat of numbers, shape (numbers, chains, draws)."""
    upper = rcParams["stats.ci_prob"]  # ArviZ's quantiles of the tail
    halves = _halves(values)
    scores = _normal_scores(halves)
    tails = [_effective(_halves(values <= np.quantile(values, q, (1, 2), keepdims=True))) for q in (1 - upper, upper)]
    r_hat = np.full(len(values), np.nan)
    if values.shape[1] > 1:
        folded = _normal_scores(np.abs(halves - np.median(halves, (1, 2), keepdims=True)))
        r_hat = np.fmax(_r_hat(scores), _r_hat(folded))
    return np.stack([_effective(scores), np.minimum(*tails), r_hat])


def _halves(values: Array) -> Reals:
    """Split chains into halves."""
    half = values.shape[2] // 2
    return np.concatenate([values[..., :half], values[..., -half:]], axis=1).astype(np.float64)


def _normal_scores(values: Reals) -> Reals:
    """Return the normal quantiles of the ranks of all draws of each number (Vehtari et al., 2021, equation 14)."""
    ranks = rankdata(values.reshape(len(values), -1), axis=1)
    return ndtri((ranks - 3 / 8) / (ranks.shape[1] + 1 / 4)).reshape(values.shape)


def _r_hat(values: Reals) -> Reals:
    """Return R-hat of the given chains (equation 4)."""
    n, means = values.shape[2], values.mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):  # constant numbers
        return np.sqrt(means.var(axis=1, ddof=1) / values.var(axis=2, ddof=1).mean(axis=1) + (n - 1) / n)


def _effective(values: Reals) -> Reals:
    """Return effective sample sizes by Geyer's initial monotone sequence of autocorrelations (equations 10 and 11)."""
    numbers, m, n = values.shape
    means, size = values.mean(axis=2, keepdims=True), next_fast_len(2 * n)
    covariance = irfft(np.abs(rfft(values - means, size)) ** 2, size)[..., :n].mean(axis=1) / n
    total = covariance[:, 0] + means[..., 0].var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # constant numbers
        rho = 1 - (covariance[:, :1] * n / (n - 1) - covariance) / total[:, None]
    rho[:, 0] = 1.0
    # sums of pairs of autocorrelations, up to the first that is not positive or to the last of the chain
    most = max((n - 1) // 2, 1)
    pairs = rho[:, : 2 * most : 2] + rho[:, 1 : 2 * most : 2]
    ended = ~(pairs > 0)
    last = np.where(ended.any(axis=1), ended.argmax(axis=1), most - 1)
    cumulative = np.cumsum(np.minimum.accumulate(pairs, axis=1), axis=1)
    rows = np.arange(numbers)
    before = np.where(last > 0, cumulative[rows, last - 1], 0.0)
    even = rho[rows, 2 * last]
    even = np.where((even > 0) | (pairs[rows, last] >= 0), even, 0.0)
    time = np.maximum(2 * before - 1 + even, 1 / np.log10(m * n))
    return np.where(np.ptp(values, axis=(1, 2)) < np.finfo(float).resolution, m * n, m * n / time)
