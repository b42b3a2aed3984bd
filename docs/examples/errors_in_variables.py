"""
Deaths among noisy numbers of cases
===================================

Deaths by clinic are public, but the numbers of treated persons are published with privacy noise. An epidemiologist
compares the risk of death in rural and urban clinics. A regression on the noisy numbers is biased, because division by
noise does not average out. The data are simulated, so that the true contrast is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import xarray as xr

import ppdinf as ppd

# %%
# 30 rural clinics are small. Their patients have a risk of death that is higher by the factor exp(0.5).
rng = np.random.default_rng(8)
rural = np.repeat([1, 0], 30)
beds = np.where(rural, 10.0, 40.0)  # public
persons = xr.DataArray(rng.negative_binomial(4, 4 / (4 + beds)), coords={"clinic": np.arange(60)})
deaths = rng.binomial(persons, 0.2 * np.exp(0.5 * rural))
mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/10")
release = ppd.Release(mechanism.simulate(persons, draws=1, rng=1)[0], mechanism)


# %%
# The same model is fitted twice: with the confidential numbers as unknowns, and with the released numbers as if they
# were true (numbers below the deaths are replaced by the deaths).
def contrast(aware):
    with pm.Model(coords=release.coords):
        risk = pm.Beta("risk", 2, 6)
        contrast = pm.Normal("contrast", 0, 0.6)
        p = pm.math.minimum(risk * pm.math.exp(contrast * rural), 0.999)
        n = np.maximum(release.table.values, np.maximum(deaths, 1))
        if aware:
            n = ppd.PartiallyPrivate("persons", pm.NegativeBinomial.dist(mu=beds, alpha=4.0), release=release)
        pm.Binomial("deaths", n=n, p=p, observed=deaths)
        return pm.sample(500, tune=500, chains=2, random_seed=1, progressbar=False, quiet=True).posterior.contrast


draws = {"noise in the model": contrast(True), "noisy numbers taken as true": contrast(False)}
for name, drawn in draws.items():
    found = ppd.models.summary(drawn).loc["contrast"]
    print(f"{name}: {found.estimate:.2f}, 90 % interval {found.lower:.2f} to {found.upper:.2f}, truth 0.5")

# %%
# If the noise is ignored, small clinics look larger than they are, which hides most of the contrast.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for (name, drawn), color in zip(draws.items(), ["#0072B2", "#D55E00"], strict=True):
    axes.hist(drawn.values.ravel(), bins=50, density=True, color=color, alpha=0.5, label=name)
axes.axvline(0.5, color="#222222", linestyle="--", label="true contrast")
axes.set(xlabel="log of the risk of rural relative to urban clinics", ylabel="posterior density")
figure.legend(loc="outside upper center", ncols=3, frameon=False)
