"""
Votes of two groups
===================

Votes are counted by precinct, and voters are registered by precinct and group. Nobody publishes how the groups voted.
Ecological inference draws the missing tables, whose margins are all exact, together with the shares of the groups. The
precincts are simulated, so that the answer is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import xarray as xr

import ppdinf as ppd

# %%
# 24 precincts. The shares of the groups differ from precinct to precinct.
rng, inv = np.random.default_rng(3), ppd.invariants
group_a = rng.integers(10, 190, 24)
size = np.column_stack([group_a, 200 - group_a])
share = 1 / (1 + np.exp(-rng.normal([-0.8, 0.7], 0.3, (24, 2))))
yes = rng.binomial(size, share)
coords = {"precinct": np.arange(24), "group": ["A", "B"], "vote": ["yes", "no"]}
voters = xr.DataArray(np.stack([yes, size - yes], axis=-1), coords=coords)
published = (inv.margin("precinct", "group") & inv.margin("precinct", "vote")).on(voters)

# %%
# Given their margins, the four counts of a precinct have one degree of freedom. They are marginalized exactly.
with pm.Model(coords=coords) as model:
    level = pm.Normal("level", 0, 1.5, dims="group")
    spread = pm.HalfNormal("spread", 0.5)
    deviation = pm.Normal("deviation", dims=("precinct", "group"))
    p = pm.math.sigmoid(level + spread * deviation)
    expected = size[..., None] * pm.math.stack([p, 1 - p], axis=-1)
    ppd.models.ConstrainedCounts("voters", pm.Poisson.dist(expected), published, dims=tuple(coords))
    idata = pm.sample(2000, chains=2, random_seed=1, progressbar=False, quiet=True)
drawn_voters = ppd.sample_confidential(idata, model, random_seed=1, progressbar=False)
print(ppd.diagnose(idata, model))
shares = drawn_voters.sel(vote="yes").sum("precinct") / size.sum(axis=0)
print(ppd.models.summary(shares).round(3))

# %%
# Regression of the shares of precincts on their composition (Goodman) agrees here. It has no answer for single
# precincts, whose votes by group the draws contain.
line = np.polynomial.Polynomial.fit(size[:, 0] / 200, yes.sum(axis=1) / 200, 1)
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for k, (group, color) in enumerate({"A": "#0072B2", "B": "#009E73"}.items()):
    drawn = 100 * shares.sel(group=group).values.ravel()
    axes.hist(drawn, bins=40, density=True, color=color, alpha=0.5, label=f"group {group}: posterior")
    axes.axvline(100 * yes.sum(axis=0)[k] / size.sum(axis=0)[k], color="#222222", ls="--", label="truth" if k else None)
    axes.axvline(100 * line(1 - k), color="#D55E00", ls=":", label="regression" if k else None)
axes.set(xlabel="share of the group that voted yes (%)", ylabel="posterior density")
axes.legend(frameon=False)
