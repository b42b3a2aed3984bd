"""
Multinomial logit from a noisy table
====================================

A survey publishes answers by gender and race with privacy noise. The number of respondents in each group is exact. A
sociologist fits the usual multinomial logit model to the noisy table. The table is "belief in afterlife" of the General
Social Survey 1991 (A. Agresti, An Introduction to Categorical Data Analysis, 2nd ed., 2007, table 6.4).
"""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import ppdinf as ppd

# %%
# The noisy table keeps the sums of its rows.
text = """group,yes,undecided,no
white women,371,49,74
white men,250,45,71
black women,64,9,15
black men,25,5,13"""
table = pd.read_csv(io.StringIO(text), index_col="group").rename_axis(columns="answer")
mechanism = ppd.GeneralizedLaplace(ppd.invariants.margin("group"), epsilon="1/4")
noisy = mechanism.simulate(table, draws=1, rng=1)[0]
print(noisy.to_pandas())

# %%
# The log odds of "yes" and "undecided" relative to "no" depend on gender and race. The same model is fitted to the
# release, to the noisy counts as if they were true, and to the confidential table.
women, white = np.array([[1], [0], [1], [0]]), np.array([[1], [1], [0], [0]])
data = {"release": ppd.Release(noisy, mechanism), "counts taken as true": noisy.clip(0).values}
found = {}
for name, seen in (data | {"confidential table": table.values}).items():
    with pm.Model(coords={"effect": ["women", "white"], "odds": ["yes", "undecided"]}):
        level, slope = pm.Normal("level", 0, 2, dims="odds"), pm.Normal("slope", 0, 1, dims=("effect", "odds"))
        eta = level + women * slope[0] + white * slope[1]
        p = pm.math.softmax(pm.math.concatenate([eta, np.zeros((4, 1))], axis=1), axis=1)
        if name == "release":
            ppd.PartiallyPrivate("persons", pm.Multinomial.dist(n=table.sum(axis=1), p=p), release=seen)
        else:
            pm.Multinomial("persons", n=seen.sum(axis=1), p=p, observed=seen)
        idata = pm.sample(500, tune=500, chains=2, random_seed=1, progressbar=False, quiet=True)
    found[name] = ppd.models.summary(idata.posterior.slope)
width = {name: (one.upper - one.lower).mean() for name, one in found.items()}
print(f"Mean width of 90 % intervals: {', '.join(f'{width[name]:.2f} ({name})' for name in width)}")

# %%
# The noise costs precision. If the counts are taken as true, the intervals are too narrow.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for k, (name, one) in enumerate(found.items()):
    error, color = [one.estimate - one.lower, one.upper - one.estimate], ["#0072B2", "#D55E00", "#222222"][k]
    axes.errorbar(one.estimate, np.arange(4) + 0.2 * (k - 1), xerr=error, fmt="o", color=color, label=name)
axes.axvline(0, color="#767676", linewidth=0.8)
axes.set_yticks(range(4), [", ".join(pair) for pair in one.index])
axes.set(xlabel='log odds ratio, relative to the answer "no"', ylabel="effect, answer")
figure.legend(loc="outside upper center", ncols=3, frameon=False)
