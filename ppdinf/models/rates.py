"""A model of rates: Poisson counts in a table with exchangeable gamma rates.

Cell i with exposure e_i (persons at risk, or 1) has

    x_i | r_i ~ Poisson(e_i r_i),    r_i ~ Gamma with mean m_i and standard deviation m_i * spread,
    log m_i = intercept + slope * (log previous rate of i, centred) + effects of its labels,

with priors intercept ~ Normal(log of the overall rate, 2.5), slope ~ Normal(1, 1), spread ~ Gamma(2, 4)
(mean 1/2), and, where the table has several dimensions, effects Normal(0, 1) that sum to zero over the labels of each.
Where nobody is at risk, e_i = 0, the count is 0.

Where the table can be marginalized (`ppdinf.models.partially_private`), the rates are variables of the model: Poisson
weights are marginalized faster than negative binomials of unknown size. Under noise with an auxiliary variable (l2),
and where public sums are crossed, the table is sampled and the rates are integrated out, so that x_i is negative
binomial. `draw_rates` then draws them from Gamma(1 / spread**2 + x_i). The model is the same (docs/inference.md).

References: Clayton and Kaldor, Biometrics 43 (1987), section 3, for rates of small areas. Papaspiliopoulos, Roberts,
Skoeld, Statistical Science 22 (2007), 59-73, for partially centered effects.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable, Variable
from ppdinf.distributions.marginalization import why_not_marginalizable
from ppdinf.distributions.observed import ObservedRelease
from ppdinf.errors import LabelError, ModelError
from ppdinf.models.effect_coordinates import Rescaled
from ppdinf.models.partially_private import PartiallyPrivate
from ppdinf.releases import Release
from ppdinf.releases.rate_inputs import effects, exposures, log_earlier_rates, require_rates

TYPICAL_SPREAD = 0.5  # relative standard deviation of rates, for the parametrization only
MANY = 1e4  # shape of a gamma distribution above which two terms of Stirling's series are exact to rounding
RADIUS_IN_SD = 16  # radius of the noise in standard deviations, roughly


def rate_model(
    release: Release, *, name: str = "count", exposure: str | None = None, previous: str | None = None
) -> pm.Model:
    """Build the model of rates for a release."""
    require_rates(release, name, exposure, previous)
    at_risk = exposures(release, exposure)
    overall = max(float(release.table.sum()), 1) / at_risk.sum()
    precision = _precision(release, at_risk)
    odds = TYPICAL_SPREAD**2 * precision
    data_weight = odds / (1 + odds)
    with pm.Model(coords=release.coords) as model:
        log_mean = pm.Normal("intercept", np.log(overall), 2.5, transform=_scaled(data_weight, 2.5))
        # the prior has no mass at 0, where the likelihood is flat; PyMC applies transforms after its log transform
        spread = pm.Gamma("spread", 2, 4, transform=_scaled(2 * TYPICAL_SPREAD**2 * data_weight, 0.5))
        if previous is not None:
            log_earlier = log_earlier_rates(release, previous, at_risk)
            slope = pm.Normal("slope", 1, 1, transform=_scaled(data_weight * log_earlier**2, 1))
            log_mean = log_mean + slope * log_earlier
        for dim in effects(release):
            # the scale is fixed: a hierarchical scale of few labels has a funnel in which NUTS diverges
            shape = [-1 if other == dim else 1 for other in release.dims]
            transform = _scaled(data_weight / len(release.coords[dim]), 1)
            log_mean = log_mean + pm.ZeroSumNormal(f"{dim}_effect", 1, dims=dim, transform=transform).reshape(shape)
        log_mean = log_mean + np.zeros(release.shape)
        mean = pm.Deterministic("mean_rate", pm.math.exp(log_mean), dims=release.dims)
        observed = ObservedRelease(release, release.frame)
        sampled = bool(why_not_marginalizable(observed)) or observed.likelihood.auxiliary is not None
        if sampled:
            size = 1 / spread**2
            # nobody at risk: the count is 0; the density of negative binomials has no gradient there
            p = pm.math.switch(at_risk == 0, 1.0, size / (size + mean * np.where(at_risk == 0, 1, at_risk)))
            counts = pm.NegativeBinomial.dist(n=size, p=p)
        else:
            log_observed = np.log(np.maximum(release.table.values, 0.5) / np.where(at_risk == 0, 1, at_risk))
            rate = pm.math.exp(_log_rates(log_mean, spread, precision, log_observed, release.dims))
            counts = pm.Poisson.dist(rate * at_risk)
        PartiallyPrivate(name, counts, release=release, marginalize=not sampled)
    return model


def _precision(release: Release, at_risk: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the approximate precision of the log rate of each cell in the release, 0 where nobody is at risk."""
    counts = np.maximum(release.table.values, 1.0)
    noise = release.likelihood.support_radius / RADIUS_IN_SD
    return np.where(at_risk == 0, 0.0, counts**2 / (counts + noise**2))


def _scaled(information: NDArray[np.float64], prior_sd: float) -> Rescaled:
    """Return the transform by a rough posterior sd, from shares of information that add up over cells."""
    return Rescaled(0.0, min(prior_sd, TYPICAL_SPREAD / np.sqrt(max(information.sum(), 1e-300))))


def _log_rates(
    log_mean: TensorVariable,
    spread: TensorVariable,
    precision: NDArray[np.float64],
    log_observed: NDArray[np.float64],
    dims: tuple[str, ...] | None,
) -> TensorVariable:
    """Give each cell a log rate such that the rate is gamma with the given mean and relative standard deviation."""
    deviation = pm.CustomDist(
        "deviation", log_mean, spread, precision, log_observed, dist=_deviation, logp=_deviation_logp, dims=dims,
        support_point=lambda rv, size, log_mean, spread, precision, log_observed: pt.zeros(size),
    )  # fmt: skip
    shift, scale = _conditional(log_mean, spread, precision, log_observed)
    return log_mean + shift + scale * deviation


def _conditional(
    log_mean: TensorVariable, spread: TensorVariable, precision: TensorVariable, log_observed: TensorVariable
) -> tuple[TensorVariable, TensorVariable]:
    """Return the mean of the log of rate over mean given a normal observation, and its standard deviation."""
    odds = spread**2 * precision
    return odds / (1 + odds) * (log_observed - log_mean), spread / pt.sqrt(1 + odds)


def _deviation_logp(
    value: TensorVariable,
    log_mean: TensorVariable,
    spread: TensorVariable,
    precision: TensorVariable,
    log_observed: TensorVariable,
) -> TensorVariable:
    shift, scale = _conditional(log_mean, spread, precision, log_observed)
    log_ratio, shape = shift + scale * value, 1 / spread**2
    # shape log(shape) - shape - log Gamma(shape), by Stirling's series where the terms cancel
    few = pt.minimum(shape, MANY)
    exact = few * pt.log(few) - few - pt.gammaln(few)
    remainder = pt.switch(shape > MANY, pt.log(shape / (2 * np.pi)) / 2 - 1 / (12 * shape), exact)
    return remainder + shape * (log_ratio - pt.expm1(log_ratio)) + pt.log(scale)


def _deviation(
    log_mean: TensorVariable,
    spread: TensorVariable,
    precision: TensorVariable,
    log_observed: TensorVariable,
    size: Variable,
) -> TensorVariable:
    shift, scale = _conditional(log_mean, spread, precision, log_observed)
    shape = 1 / spread**2 + pt.zeros_like(shift)
    return (pt.log(pm.Gamma.dist(shape, shape, size=size)) - shift) / scale


def draw_rates(
    idata: xr.DataTree,
    release: Release,
    *,
    name: str = "count",
    exposure: str | None = None,
    rng: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Draw the rate of each cell for each posterior draw of a `rate_model`, exactly."""
    posterior = idata.posterior
    missing = [variable for variable in (name, "mean_rate", "spread") if variable not in posterior]
    if missing:
        raise ModelError(f"the posterior has no {missing[0]!r}: pass the result of pm.sample() for rate_model()")
    for dim, labels in release.coords.items():
        if set(posterior[name][dim].values.tolist()) != set(labels.tolist()):
            raise LabelError(
                f"the posterior has other labels of {dim!r} than the release: pass all draws of its labels"
            )
    shape = 1 / posterior["spread"] ** 2
    at_risk = xr.DataArray(exposures(release, exposure), dims=release.dims, coords=release.coords)
    scale = 1 / (shape / posterior["mean_rate"] + at_risk)
    count, shape, scale = xr.broadcast(posterior[name], shape, scale)
    rates = np.random.default_rng(rng).gamma(shape + count, scale)
    return count.copy(data=rates).rename("rate").transpose("chain", "draw", *release.dims)
