"""False alarm rate of `ppd.diagnose` over simulated data sets.

Run with ``python benchmarks/false_alarms.py [data sets] [problem ...]``; a data set takes about 10 s of one core.
Parameters are drawn from their priors, tables from the data model and releases from the mechanism. All models are
correct and sampled with PyMC's defaults (four chains of 1,000 draws). A line per problem shows the number of data sets
with reported problems, a 95 % interval for the rate, and the messages.
"""

import sys
import time
import warnings
from collections import Counter

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.errors import DiagnosisWarning


def areas(rng):
    """Return ten areas with a public total: one rate and one contrast, marginalized."""
    slope = np.linspace(-1, 1, 10)
    rate, contrast = rng.gamma(4, 3), rng.normal(0, 0.7)
    table = rng.poisson(rate * np.exp(contrast * slope))
    release = simulated(ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/2"), table, rng)
    with pm.Model(coords=release.coords) as model:
        mean = pm.Gamma("rate", 4, 1 / 3) * pm.math.exp(pm.Normal("contrast", 0, 0.7) * slope)
        ppd.PartiallyPrivate("persons", pm.Poisson.dist(mean), release=release)
    return model


def margins(rng):
    """Return 3 x 4 cells with both margins public and a rate for each column; the table is sampled."""
    table = rng.poisson(rng.gamma(2, 4, size=4), size=(3, 4))
    public = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    release = simulated(ppd.GeneralizedLaplace(public, epsilon="1/2"), table, rng)
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 1 / 4, dims="dim_1")
        ppd.PartiallyPrivate("persons", pm.Poisson.dist(rate), release=release)
    return model


def states(rng):
    """Return three states of four counties with public totals of states: a level and 12 effects; marginalized."""
    effects = 0.5 * rng.normal(size=12)
    table = xr.DataArray(
        rng.poisson(np.exp(rng.normal(2, 0.5) + effects)),
        coords={"county": np.arange(12), "state": ("county", np.repeat(list("ABC"), 4))},
        dims="county",
    )
    release = simulated(ppd.GeneralizedLaplace(ppd.invariants.groups("state"), epsilon="1/2"), table, rng)
    with pm.Model(coords=release.coords) as model:
        log_rate = pm.Normal("level", 2, 0.5) + pm.Normal("effect", 0, 0.5, dims="county")
        ppd.PartiallyPrivate("persons", pm.Poisson.dist(pm.math.exp(log_rate)), release=release)
    return model


def deaths(rng):
    """Return deaths among the confidential cases of eight areas with a public total of cases; marginalized."""
    rate, share = rng.gamma(4, 3), rng.beta(2, 5)
    cases = rng.poisson(rate, size=8)
    release = simulated(ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/2"), cases, rng)
    with pm.Model(coords=release.coords) as model:
        x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 4, 1 / 3), shape=8), release=release)
        pm.Binomial("deaths", n=x, p=pm.Beta("share", 2, 5), observed=rng.binomial(cases, share))
    return model


def pinned(rng):
    """Return 3 x 3 x 3 cells with all two-way margins public and one rate: sparse tables, many cells determined."""
    table = rng.poisson(rng.gamma(2, 1 / 2), size=(3, 3, 3))
    margin = ppd.invariants.margin
    public = margin("dim_0", "dim_1") & margin("dim_0", "dim_2") & margin("dim_1", "dim_2")
    release = simulated(ppd.GeneralizedLaplace(public & ppd.invariants.nonnegative(), epsilon="1/2"), table, rng)
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 2, 2)
        ppd.PartiallyPrivate("persons", pm.Poisson.dist(rate, shape=(3, 3, 3)), release=release)
    return model


def simulated(mechanism, table, rng):
    """Return a simulated release; its public sums are those of the table, and no noise violates them."""
    return ppd.Release(mechanism.simulate(table, draws=1, rng=rng)[0], mechanism)


def found_fault(model, seed):
    """Return the list of problems that `diagnose` reports for a posterior."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiagnosisWarning)
        with model:
            idata = pm.sample(cores=1, chains=4, nuts_sampler="pymc", random_seed=seed, progressbar=False, quiet=True)
            return ppd.diagnose(idata).problems


def main():
    data_sets = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    problems = {"areas": areas, "margins": margins, "states": states, "deaths": deaths, "pinned": pinned}
    for name in sys.argv[2:] or problems:
        begun, said, faulty = time.process_time(), Counter(), 0
        for seed in range(data_sets):
            found = found_fault(problems[name](np.random.default_rng([seed, 2])), seed)
            faulty += bool(found)
            if found:
                print(f"  data set {seed}: {found}", flush=True)
            said.update(text[:90] for text in found)
        low, high = stats.binomtest(faulty, data_sets).proportion_ci(method="exact")
        spent = time.process_time() - begun
        print(f"{name}: {faulty} of {data_sets} ({100 * low:.1f} to {100 * high:.1f} %), {spent:.0f} CPU s", flush=True)
        for text, times in said.most_common():
            print(f"  {times} x {text}")


if __name__ == "__main__":
    main()
