"""R-hat and effective sample sizes of every element of a variable, and limits of the largest of many R-hats."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import xarray as xr
from arviz_base import rcParams
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import chi2, rankdata

RHAT = 1.01
LEVEL = 0.05
MIN_DRAWS = 4
"""Draws per chain required for R-hat and effective sample sizes."""
NO_OVERLAP = 100.0
"""R-hat above which chains do not overlap; its exact value is then uninformative."""


def limit(quantities: int, chains: int = 4) -> float:
    """Return the limit for the largest of many R-hats."""
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


BLOCK = 2**21  # draws that are converted to floating point at a time
SMALLEST_RANGE = 1e-15  # numbers with a smaller range are constant

type Floats = NDArray[np.float64]


def chain_statistics(draws: NDArray[np.number], tail: tuple[float, float]) -> Floats:
    """Return bulk and tail effective sample sizes and R-hat of each number."""
    chains, length, numbers = draws.shape
    results = np.full((3, numbers), np.nan)
    if length < 4:
        return results
    size = max(BLOCK // (chains * length), 1)
    for first in range(0, numbers, size):
        part = slice(first, first + size)
        block = np.moveaxis(draws[:, :, part], 2, 0).astype(np.float64)
        finite = np.isfinite(block).all(axis=(1, 2))
        if finite.any():
            results[:, part][:, finite] = _statistics(block[finite], tail)
    if chains == 1:
        results[2] = np.nan
    return results


def _statistics(block: Floats, tail: tuple[float, float]) -> Floats:
    """Return the statistics of finite numbers, shape (numbers, chains, draws)."""
    half = block.shape[2] // 2
    halves = np.concatenate([block[:, :, :half], block[:, :, -half:]], axis=1)
    scores = _normal_scores(halves)
    # distances from the median detect chains with different spreads
    distances = abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
    r_hat = np.fmax(_split_r_hat(scores), _split_r_hat(_normal_scores(distances)))
    quantiles = np.quantile(block, tail, axis=(1, 2), keepdims=True)
    below = [_effective_draws((halves <= quantile).astype(np.float64)) for quantile in quantiles]
    return np.stack([_effective_draws(scores), np.minimum(*below), r_hat])


def _normal_scores(values: Floats) -> Floats:
    """Replace the draws of each number by normal scores of their ranks; equal draws have their mean rank."""
    ranks = rankdata(values.reshape(len(values), -1), axis=1)
    scores: Floats = ndtri((ranks - 3 / 8) / (ranks.shape[1] + 1 / 4))
    return scores.reshape(values.shape)


def _split_r_hat(z: Floats) -> Floats:
    """Return R-hat of half chains, shape (numbers, chains, draws)."""
    length = z.shape[2]
    between, within = length * z.mean(axis=2).var(axis=1, ddof=1), z.var(axis=2, ddof=1).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # constant numbers
        r_hat: Floats = np.sqrt((between / within + length - 1) / length)
    return r_hat


def _effective_draws(z: Floats) -> Floats:
    """Return the number of effective draws of half chains, shape (numbers, chains, draws)."""
    numbers, chains, length = z.shape
    draws = chains * length
    means = z.mean(axis=2)
    transformed = rfft(z - means[:, :, None], next_fast_len(2 * length, real=True), axis=2)
    covariances = irfft(abs(transformed) ** 2, next_fast_len(2 * length, real=True), axis=2)[:, :, :length]
    covariance = covariances.mean(axis=1) / length
    within = covariance[:, :1] * length / (length - 1)
    total = covariance[:, :1] + means.var(axis=1, ddof=1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # constant numbers
        correlation = 1 - (within - covariance) / total
    correlation[:, 0] = 1
    # Geyer's initial positive sequence: sums of pairs of autocorrelations before the first that is not positive
    last = max((length - 1) // 2 - 1, 0)  # last pair that is considered
    even, pairs = correlation[:, : 2 * last + 1 : 2], correlation[:, : 2 * last + 2].reshape(numbers, last + 1, 2)
    sums = pairs.sum(axis=2)
    ends = np.where((sums <= 0).any(axis=1), (sums <= 0).argmax(axis=1), last)
    # the sums of pairs of a reversible chain decrease
    sums = np.minimum.accumulate(sums, axis=1) * (np.arange(last + 1) < ends[:, None])
    at_end = even[np.arange(numbers), ends]
    at_end = np.where((at_end > 0) | (pairs[np.arange(numbers), ends].sum(axis=1) >= 0), at_end, 0)
    time = np.fmax(2 * sums.sum(axis=1) - 1 + at_end, 1 / np.log10(draws))
    effective: Floats = np.where(np.ptp(z, axis=(1, 2)) < SMALLEST_RANGE, draws, draws / time)
    return effective


def convergence(draws: xr.DataArray) -> pd.DataFrame:
    """Measure the agreement of the chains of one variable."""
    draws = draws.transpose("chain", "draw", ...)
    chains, length = draws.shape[:2]
    upper = rcParams["stats.ci_prob"]  # ArviZ's quantiles of the tail
    statistics = chain_statistics(draws.values.reshape(chains, length, -1), (1 - upper, upper))
    columns = dict(zip(("ess_bulk", "ess_tail", "r_hat"), statistics, strict=True))
    labels = [
        map(str, draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim])) for dim in draws.dims[2:]
    ]
    names = [f"{draws.name}[{', '.join(label)}]" for label in itertools.product(*labels)] if labels else [draws.name]
    return pd.DataFrame(columns, index=pd.Index(names))
