"""A ready model of rates: Poisson counts in a table, cells alike but not the same.

Cell i with exposure e_i (persons at risk, or 1) has

    x_i | r_i ~ Poisson(e_i r_i),    r_i ~ Gamma with mean m_i and standard deviation m_i * spread,
    log m_i = intercept + slope * (log previous rate of i, centred) + effects of its labels,

with priors intercept ~ Normal(log of the overall rate, 2.5), slope ~ Normal(1, 1), spread ~ Gamma(2, 4)
(mean 1/2), and, where the table has several dimensions, effects Normal(0, 1) that sum to zero over the labels of each.
Where nobody is at risk, e_i = 0, the count is 0.

Where the table can be summed out (`ppdinf.models.partially_private`), the rates are variables: given them the counts
are Poisson, whose natural form is summed out in a small fraction of the time that negative binomials of unknown size
take (67 x 6 cells, epsilon = 1/10: a gradient in .4 ms), and no table holds spread and effects in place. Under noise
that comes with a variable of its own (l2), and where public sums cross, the table is walked and the rates are
integrated out (x_i is then negative binomial), so that the chain never has to move a noisy cell's count and rate
together, which it can only do in small steps. The model is the same, and `draw_rates` draws the rates from their exact
law Gamma(1 / spread**2 + x_i) given everything else.

Reference: Clayton and Kaldor, Biometrics 43 (1987), section 3, for rates of small areas. Papaspiliopoulos, Roberts,
Skoeld, Statistical Science 22 (2007), 59-73, for effects centred as far as data tell of them.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable, Variable
from ppdinf.distributions.observation.observed_release import ObservedRelease
from ppdinf.errors import ModelError
from ppdinf.models.partially_private import PartiallyPrivate
from ppdinf.releases import Release
from ppdinf.releases.rate_inputs import effects, exposures, log_earlier_rates, require_rates

__all__ = ["draw_rates", "rate_model"]

USUAL = 0.5  # spread
REACH = 16  # standard deviations of noise, roughly


def rate_model(
    release: Release, *, name: str = "count", exposure: str | None = None, previous: str | None = None
) -> pm.Model:
    """Build the model of rates for a release.

    Parameters
    ----------
    release : Release
        Of a table, not of answers to a query.
    name : str, default "count"
        Name of the confidential table in the posterior.
    exposure : str, optional
        Covariate of the release with the persons at risk in each cell, 0 where nobody lives. Without it rates
        are expected counts.
    previous : str, optional
        Covariate with an earlier count of each cell, which predicts its rate; half a case is added so
        that a zero has a logarithm.

    Returns
    -------
    pymc.Model
        Variables ``intercept``, ``spread``, with `previous` ``slope``, for tables of several dimensions
        ``{dim}_effect`` of each; ``mean_rate``, per unit of exposure; and ``deviation``, of the rate of each cell from
        that, or, where the table is walked, `name`.

    Raises
    ------
    ModelError
        Answers to a query; a name that a parameter has; an exposure that is negative, or 0 everywhere; an earlier
        count that is negative.
    LabelError
        The release has no such covariate.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> [variable.name for variable in rate_model(release).free_RVs]
    ['intercept', 'spread', 'deviation']
    """
    require_rates(release, name, exposure, previous)
    at_risk = exposures(release, exposure)
    overall = max(float(release.table.sum()), 1) / at_risk.sum()
    with pm.Model(coords=release.coords) as model:
        log_mean = pm.Normal("intercept", np.log(overall), 2.5)
        spread = pm.Gamma("spread", 2, 4)  # no mass at 0, where the likelihood is flat
        if previous is not None:
            slope = pm.Normal("slope", 1, 1)
            log_mean = log_mean + slope * log_earlier_rates(release, previous, at_risk)
        for dim in effects(release):
            # no scale of their own to learn: with few labels that makes a funnel that NUTS diverges in
            shape = [-1 if other == dim else 1 for other in release.dims]
            log_mean = log_mean + pm.ZeroSumNormal(f"{dim}_effect", 1, dims=dim).reshape(shape)
        log_mean = log_mean + np.zeros(release.shape)
        mean = pm.Deterministic("mean_rate", pm.math.exp(log_mean), dims=release.dims)
        observed = ObservedRelease(release, release.frame)
        walked = bool(observed.why_not_marginalizable) or observed.likelihood.auxiliary is not None
        if walked:
            size = 1 / spread**2
            # nobody at risk: no count but 0, and no gradient, which the density of negative binomials lacks there
            p = pm.math.switch(at_risk == 0, 1.0, size / (size + mean * np.where(at_risk == 0, 1, at_risk)))
            counts = pm.NegativeBinomial.dist(n=size, p=p)
        else:
            rate = pm.math.exp(_log_rates(log_mean, spread, _information(release), release.dims))
            counts = pm.Poisson.dist(rate * at_risk)
        PartiallyPrivate(name, counts, release=release, marginalize=not walked)
    return model


def _information(release: Release) -> NDArray[np.float64]:
    """Share of the release, as against the prior, in what is known of the log rate of each cell; a rough guess.

    Counts in place of their expectations, a spread of `USUAL`, and noise with a standard deviation of a sixteenth of
    its reach: a 24th under l1 noise, an eighth under Gaussian.
    """
    counts = np.maximum(release.table.values, 1.0)
    noise = release.likelihood.support_radius / REACH
    told = USUAL**2 * counts**2 / (counts + noise**2)
    return told / (1 + told)


def _log_rates(
    log_mean: TensorVariable, spread: TensorVariable, told: NDArray[np.float64], dims: tuple[str, ...]
) -> TensorVariable:
    """Give each cell a log rate, that of a Gamma of the given mean and relative standard deviation.

    What moves is the deviation from the mean in units of `spread` where nothing is told of a cell, the log rate itself
    where all is, and a compromise between.
    """
    deviation = pm.CustomDist(
        "deviation", log_mean, spread, told, dist=_deviation, logp=_deviation_logp, dims=dims,
        support_point=lambda rv, size, log_mean, spread, told: told * log_mean,
    )  # fmt: skip
    return log_mean + spread ** (1 - told) * (deviation - told * log_mean)


def _deviation_logp(
    value: TensorVariable, log_mean: TensorVariable, spread: TensorVariable, told: TensorVariable
) -> TensorVariable:
    scaled = (value - told * log_mean) * spread ** (1 - told)  # log of rate over mean
    shape = 1 / spread**2
    density = shape * pt.log(shape) - pt.gammaln(shape) + shape * (scaled - pt.exp(scaled))
    return density + (1 - told) * pt.log(spread)


def _deviation(
    log_mean: TensorVariable, spread: TensorVariable, told: TensorVariable, size: Variable
) -> TensorVariable:
    shape = 1 / spread**2 + pt.zeros_like(log_mean + told)
    return told * log_mean + spread ** (told - 1) * pt.log(pm.Gamma.dist(shape, shape, size=size))


def draw_rates(
    idata: xr.DataTree,
    release: Release,
    *,
    name: str = "count",
    exposure: str | None = None,
    rng: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Draw the rate of each cell given each posterior draw of a `rate_model`, exactly.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned for ``rate_model(release, name=name, exposure=exposure)``.
    release : Release
    name, exposure : str
        As given to `rate_model`.
    rng : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.DataArray, dimensions ``("chain", "draw", *release.dims)``
        Expected count per unit of exposure; where nobody is at risk, of the rate that the model would expect there.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, 5]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> one = {"mean_rate": (("chain", "draw", "dim_0"), [[[4.0, 4.0]]]), "spread": (("chain", "draw"), [[1e-6]])}
    >>> one["count"] = (("chain", "draw", "dim_0"), [[[2, 6]]])
    >>> draw_rates(xr.DataTree.from_dict({"posterior": xr.Dataset(one)}), release, rng=1).values.round(3)
    array([[[4., 4.]]])
    """
    posterior = idata.posterior
    missing = [wanted for wanted in (name, "mean_rate", "spread") if wanted not in posterior]
    if missing:
        raise ModelError(f"the posterior holds no {missing[0]!r}: pass the result of pm.sample() for rate_model()")
    shape = 1 / posterior["spread"] ** 2
    at_risk = xr.DataArray(exposures(release, exposure), dims=release.dims, coords=release.coords)
    scale = 1 / (shape / posterior["mean_rate"] + at_risk)
    count, shape, scale = xr.broadcast(posterior[name], shape, scale)
    rates = np.random.default_rng(rng).gamma(shape + count, scale)
    return count.copy(data=rates).rename("rate").transpose("chain", "draw", *release.dims)
