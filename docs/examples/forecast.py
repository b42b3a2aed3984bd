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
    t = pm.Data("t", month[:35].astype(float), dims="month")
    level, trend, cos, sin = (
        pm.Normal(name, mu, 1) for name, mu in [("level", 3), ("trend", 0), ("cos", 0), ("sin", 0)]
    )
    season = cos * pm.math.cos(2 * np.pi * t / 12) + sin * pm.math.sin(2 * np.pi * t / 12)
    ppd.PartiallyPrivate("cases", pm.Poisson.dist(pm.math.exp(level + trend * t / 12 + season)), release=release)
    idata = pm.sample(1000, chains=2, random_seed=1, progressbar=False, quiet=True)
    past = ppd.models.summary(ppd.sample_confidential(idata, model, random_seed=1, progressbar=False))
    pm.set_data({"t": [35.0]}, coords={"month": [35]})
    ahead = pm.sample_posterior_predictive(idata, predictions=True, random_seed=1, progressbar=False)
forecast = ppd.models.summary(ahead.predictions.cases.isel(month=0))
print(forecast, "truth:", admissions[35])

# %%
# Figure.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.plot(month[:35], release.table, "D", color="#D55E00", ms=4, label="released")
axes.fill_between(month[:35], past.lower, past.upper, color="#0072B2", alpha=0.25, label="90 % interval")
axes.plot(month[:35], past.estimate, color="#0072B2", label="posterior mean")
axes.errorbar(
    35,
    forecast.estimate,
    np.abs(forecast[["lower", "upper"]].T - forecast.estimate),
    fmt="s",
    color="#0072B2",
    label="forecast",
)
axes.plot(35, admissions[35], "x", color="#222222", label="later count")
axes.set(xlabel="month", ylabel="admissions per month")
axes.legend(frameon=False)
