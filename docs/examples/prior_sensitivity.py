"""
Sensitivity to the prior
========================

An analyst estimates rates of a rare disease from noisy counts of eight counties. Reviewers want to know how much the
prior matters. The same model is fitted with three priors of the spread between counties. The numbers are made up.
"""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import ppdinf as ppd

# %%
# The noise has epsilon 1/5, and the total of 163 cases is exact.
text = """county,people,cases
A,412000,73
B,165000,41
C,98000,35
D,54000,4
E,31000,23
F,17000,0
G,9000,-1
H,4000,9"""
table = pd.read_csv(io.StringIO(text), index_col="county")
inv = ppd.invariants
noisy = ppd.measured(inv.margin("county"), table.cases, ppd.laws.DoubleGeometric("1/5"))
seen = ppd.Measurements({"county": table.index}, noisy, public={inv.total(): 163})


# %%
# Rates are log-normal around a common level.
def rates(scale):
    with pm.Model(coords=seen.coords):
        level, spread = pm.Normal("level", np.log(1e-3), 2), pm.HalfNormal("spread", scale)
        effect = pm.Normal("effect", dims="county")
        rate = pm.Deterministic("rate", 1e5 * pm.math.exp(level + spread * effect), dims="county")
        ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate * table.people.to_numpy() / 1e5), release=seen)
        idata = pm.sample(500, tune=500, chains=2, random_seed=1, progressbar=False, quiet=True)
    return ppd.models.summary(idata.posterior.rate)


found = {scale: rates(scale) for scale in [0.1, 0.5, 2.5]}
wider = (found[2.5].upper - found[2.5].lower) / (found[0.1].upper - found[0.1].lower)
print(wider.round(1).rename("width of the interval under the widest prior, relative to the narrowest"))

# %%
# The interval of the largest county hardly depends on the prior. Intervals of small counties depend mainly on it.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for k, (scale, rate) in enumerate(found.items()):
    place = np.arange(len(table)) + 0.22 * (k - 1)
    error = [rate.estimate - rate.lower, rate.upper - rate.estimate]
    color = ["#D55E00", "#0072B2", "#009E73"][k]
    axes.errorbar(place, rate.estimate, error, fmt="o", color=color, label=f"spread ~ HalfNormal({scale})")
labels = [f"{name}\n{people / 1000:.0f}" for name, people in table.people.items()]
axes.set(xticks=range(len(table)), xticklabels=labels, xlabel="county, thousands of persons")
axes.set(ylabel="cases per 100,000 persons, 90 % interval")
axes.legend(frameon=False, loc="upper left")
