"""All months of the COVID study in one posterior, from noisy monthly tables.

Only noisy numbers of a county are published, in every month; the state's cases of each month are exact. Cases are
Poisson around the county's share of the state's cases. Log shares follow a random walk over months, with wider steps in
small counties and a drift by a tilt common to the state. Deaths are Poisson around a fatality per case expected in two
months (deaths are reported weeks after cases). The fatality follows a random walk with the state and differs by county
and by cell. The bound that deaths do not exceed cases is not used.

Shares and fatalities of all cells are variables, so confidential counts are Poisson. Their exponential-family form is
marginalized in a fifth of the time of negative binomials of unknown shape. The parametrization of a cell's fatality
interpolates between centered, if deaths are informative, and non-centered. `run.py` in this folder calls this
module.
"""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

import ppdinf as ppd
from ppdinf.invariants import Public, margin

EPSILON, DELTA_Z = 1, 2  # of one month, both tables
TABLES = 500  # maximum per chain, so that drawing tables takes less time than sampling
START, SPREAD = 0.7, 0.3  # standard deviations: of initial log shares, and typical values of all others


def released(table, rng):
    """Draw noisy cases and deaths of all months, with the cases of each month exact: two releases."""
    mechanism = ppd.GeneralizedLaplace(Public(()), epsilon=f"{EPSILON}/{2 * DELTA_Z}")
    exact = {"cases": margin("month").on(table.cases), "deaths": None}
    noisy = {name: mechanism.simulate(table[name], draws=1, rng=rng)[0] for name in exact}
    return {name: ppd.Release(noisy[name], mechanism, public=public) for name, public in exact.items()}


def told(release):
    """Return the approximate share of the release, relative to the prior, in the information on a cell's log count."""
    counts, noise = np.maximum(release.table.values, 1.0), 2 * (2 * DELTA_Z / EPSILON) ** 2
    known = SPREAD**2 * counts**2 / (counts + noise)
    return known / (1 + known)


def model_of(cases, deaths, population):
    """Model both confidential tables, given their releases and the population of counties."""
    totals = cases.public.values.astype(float)
    counties, months = cases.shape
    size = np.log(population)[:, np.newaxis]
    size = (size - size.mean()) / size.std()
    expected = totals * (population / population.sum())[:, np.newaxis]
    begin = told(cases) * np.log(np.maximum(cases.table.values, 1) / expected)
    of_two = (totals + np.append(totals[0], totals[:-1])) / 2
    with pm.Model(coords=cases.coords) as model:
        step, rise = pm.Normal("step", np.log(SPREAD), 0.5), pm.Normal("rise", 0, SPREAD)
        spread = {name: pm.HalfNormal(f"spread_{name}", SPREAD) for name in ("month", "county", "cell")}
        level = pm.GaussianRandomWalk(
            "level", sigma=spread["month"], init_dist=pm.Normal.dist(-4, 0.7), steps=months - 1, dims="month"
        )
        tilt = pm.Normal("tilt", 0, SPREAD, shape=months - 1)
        drift = pt.concatenate([pt.zeros((counties, 1)), tilt * size], axis=1)
        steps = pt.repeat(pt.exp(step + rise * size), months - 1, axis=1)
        log_share = pm.CustomDist(
            "log_share",
            drift,
            pt.concatenate([pt.full((counties, 1), START), steps], axis=1),
            dist=lambda mu, sigma, size: pt.cumsum(pm.Normal.dist(mu, sigma), axis=1),
            initval=begin,
            dims=("county", "month"),
        )
        # shares sum to 1 by the exact total; otherwise a factor common to a month would be unidentified
        shares = (population / population.sum())[:, np.newaxis] * pt.exp(log_share)
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(totals * shares), release=cases)
        of_county = spread["county"] * pm.Normal("of_county", dims="county")[:, np.newaxis]
        known = told(deaths)
        cell = pm.Normal("cell", 0, spread["cell"] ** known, dims=("county", "month"))
        fatality = pt.exp(level + of_county + spread["cell"] ** (1 - known) * cell)
        ppd.PartiallyPrivate("deaths", pm.Poisson.dist(of_two * shares * fatality), release=deaths)
    return model


def posterior(table, tune, draws, rng):
    """Release and sample: noisy tables, exact draws (draws, counties, months, 2), the diagnosis, and its verdict."""
    releases = released(table, rng)
    model = model_of(releases["cases"], releases["deaths"], table.population.values)
    seeds = [int(seed) for seed in rng.integers(2**31, size=3)]
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the diagnosis contains all warnings
        idata = pm.sample(draws, tune=tune, chains=2, cores=2, random_seed=seeds[0], progressbar=False, quiet=True)
        verdict = ppd.diagnose(idata)
        apart = idata.posterior.to_dataset().isel(draw=slice(None, None, max(1, draws // TABLES)))
        few = xr.DataTree.from_dict({"posterior": apart})
        tables = [
            ppd.sample_confidential(few, name=name, random_seed=seed).values.reshape(-1, *release.shape)
            for (name, release), seed in zip(releases.items(), seeds[1:], strict=True)
        ]
    noisy = np.stack([release.table.values for release in releases.values()], axis=-1)
    return noisy, np.stack(tables, axis=-1).astype(np.int32), str(verdict), verdict.ok
