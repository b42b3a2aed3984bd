"""
Rates of counties and months
============================

A health department publishes cases by county and month with privacy noise. The totals of the months are exact. An
analyst wants the rates on a map, their trend, and their relation to the share of older persons. The state and its cases
are simulated.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import xarray as xr

import ppdinf as ppd

# %%
# The confidential table has 36 counties and 8 months. Populations and shares of older persons are public.
rng = np.random.default_rng(11)
inv, month = ppd.invariants, np.arange(8)
people = np.exp(rng.normal(8.5, 1, 36)).astype(int)
older = np.tile(np.linspace(0.14, 0.26, 6), 6) + rng.normal(0, 0.02, 36)
log_rate = np.log(2e-3) + 4 * (older - 0.2) + rng.normal(0, 0.2, 36)
counts = rng.poisson(people[:, None] * np.exp(log_rate[:, None] + 0.08 * month))
coords = {"county": np.arange(36), "month": month, "people": ("county", people), "older": ("county", older)}
table = xr.DataArray(counts, dims=("county", "month"), coords=coords)

# %%
# The noise has epsilon 1/4 and keeps the totals of the months.
mechanism = ppd.GeneralizedLaplace(inv.margin("month") & inv.covariates("people", "older"), epsilon="1/4")
release = ppd.Release(mechanism.simulate(table, draws=1, rng=1)[0], mechanism)

# %%
# Everything below uses the release alone. The level of a county is normal around a line in the share of older persons.
with pm.Model(coords=release.coords) as model:
    intercept, slope, trend = pm.Normal("intercept", -6, 2), pm.Normal("slope", 0, 5), pm.Normal("trend", 0, 0.3)
    line = intercept + slope * (release.covariate("older").values - 0.2)
    level = pm.Normal("level", line, pm.HalfNormal("spread", 0.5), dims="county")
    rate = pm.Deterministic("rate", pm.math.exp(level[:, None] + trend * month), dims=release.dims)
    cases = pm.Poisson.dist(rate * release.covariate("people").values[:, None])
    ppd.PartiallyPrivate("cases", cases, release=release)
    idata = pm.sample(500, tune=500, chains=2, random_seed=1, progressbar=False, quiet=True)
for name, truth in {"slope": 4, "trend": 0.08}.items():
    found = ppd.models.summary(idata.posterior[name]).loc[name]
    print(f"{name}: {found.estimate:.3f}, 90 % interval {found.lower:.3f} to {found.upper:.3f}, truth {truth}")

# %%
# The map shows mean rates. The other panel shows the county with the fewest people: its released counts contain little
# information, and the posterior follows the trend of the state.
per = 1e5 * idata.posterior.rate
small = people.argmin()
band = ppd.models.summary(per.isel(county=small))
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
grid = left.imshow(per.mean(("chain", "draw", "month")).values.reshape(6, 6), cmap="cividis")
left.set_title("All counties, mean of eight months")
left.set_axis_off()
figure.colorbar(grid, label="cases per 100,000 persons and month", shrink=0.8)
right.fill_between(month, band.lower, band.upper, color="#0072B2", alpha=0.25, label="90 % interval")
right.plot(month, band.estimate, color="#0072B2", label="posterior mean")
right.plot(month, 1e5 * release.table.isel(county=small) / people[small], "D", color="#D55E00", label="released")
right.set(xlabel="month", ylabel="cases per 100,000 persons", title=f"The county with {people[small]:,} persons")
right.legend(frameon=False)
