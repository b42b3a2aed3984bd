"""
A forecast of the next month
============================

A hospital association publishes admissions by month with privacy noise. The totals of the years are exact. A planner
forecasts the next month with a trend and a season. The admissions are simulated, so that the next month is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import xarray as xr

import ppdinf as ppd

# %%
# Three years of monthly admissions; the last month of the third year is not yet published.
rng, month = np.random.default_rng(5), np.arange(36)
mean = 30 * np.exp(0.01 * month + 0.4 * np.cos(2 * np.pi * month / 12))
admissions = rng.poisson(mean)
coords = {"month": month[:35], "year": ("month", month[:35] // 12)}
table = xr.DataArray(admissions[:35], dims="month", coords=coords)
mechanism = ppd.GeneralizedLaplace(ppd.invariants.groups("year"), epsilon="1/5")
release = ppd.Release(mechanism.simulate(table, draws=1, rng=1)[0], mechanism)

# %%
# The model states the month as data, so that ``pm.set_data`` can replace it by the next month.
with pm.Model(coords=release.coords) as model:
    time = pm.Data("time", month[:35] / 12, dims="month")  # years
    level, trend = pm.Normal("level", 3, 1), pm.Normal("trend", 0, 1)
    winter, spring = pm.Normal("winter", 0, 1), pm.Normal("spring", 0, 1)
    season = winter * pm.math.cos(2 * np.pi * time) + spring * pm.math.sin(2 * np.pi * time)
    ppd.PartiallyPrivate("cases", pm.Poisson.dist(pm.math.exp(level + trend * time + season)), release=release)
    idata = pm.sample(500, tune=500, chains=2, random_seed=1, progressbar=False, quiet=True)
    past = ppd.models.summary(ppd.sample_confidential(idata, model, random_seed=1, progressbar=False))
    pm.set_data({"time": [35 / 12]}, coords={"month": [35]})
    ahead = pm.sample_posterior_predictive(idata, predictions=True, random_seed=1, progressbar=False)
low, middle, high = ahead.predictions.cases.quantile([0.05, 0.5, 0.95]).values
print(f"Forecast: {middle:.0f} admissions, 90 % interval {low:.0f} to {high:.0f}. Later count: {admissions[35]}.")

# %%
# The interval of the forecast is wider than those of the past: the next month has no released count.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.plot(month[:35], release.table, "D", color="#D55E00", markersize=4, label="released")
axes.fill_between(month[:35], past.lower, past.upper, color="#0072B2", alpha=0.25, label="90 % interval")
axes.plot(month[:35], past.estimate, color="#0072B2", label="posterior mean")
axes.errorbar(
    [35], middle, [[middle - low], [high - middle]], fmt="s", color="#009E73", label="forecast, 90 % interval"
)
axes.plot(35, admissions[35], "x", color="#222222", markersize=8, label="later count")
axes.set(xlabel="months since the start", ylabel="admissions per month", ylim=(0, 100))
axes.legend(frameon=False, loc="upper left", ncols=2)
