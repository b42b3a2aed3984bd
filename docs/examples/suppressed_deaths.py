"""
Suppressed deaths
=================

Many agencies replace counts from 1 to 9 by a mark and publish the totals of rows and columns. A reader of such a table
wants to know what the marks can stand for, and what they probably stand for. No model is needed. The deaths are
those of the simulated epidemic of the package.
"""

import matplotlib.pyplot as plt
import numpy as np

import ppdinf as ppd

# %%
# The published table: 20 counties, 8 months, and both margins.
inv = ppd.invariants
deaths = ppd.datasets.epidemic().deaths.isel(county=slice(0, 20), month=slice(6, 14)).reset_coords(drop=True)
hidden = ((deaths > 0) & (deaths < 10)).values
cells = ppd.suppressed(deaths.where(~hidden), below=10, least=1, empty="suppressed")
seen = ppd.Measurements(
    {"county": deaths.county.values, "month": deaths.month.values},
    public={
        inv.margin("county", "month"): cells,
        inv.margin("county"): deaths.sum("month"),
        inv.margin("month"): deaths.sum("county"),
    },
)
print(cells.to_pandas().iloc[:5, :5])

# %%
# The margins limit the counts: ``identified_bounds`` finds the smallest and largest possible value of every cell.
bounds = ppd.identified_bounds(seen, progressbar=False)
possible = (bounds.upper - bounds.lower).to_numpy().reshape(hidden.shape)[hidden]
print(f"{(possible == 0).sum()} of {hidden.sum()} counts are disclosed, {(possible < 8).sum()} are limited.")

# %%
# ``denoise`` draws tables that agree with everything published.
posterior = ppd.denoise(seen, draws=1000, rng=1, progressbar=False)
found = posterior.summary().to_numpy().reshape(*hidden.shape, -1)[hidden]
truth = deaths.values[hidden]
print(
    f"Mean error: {abs(found[:, 0] - truth).mean():.2f} deaths, {abs(5 - truth).mean():.2f} if each mark is read as 5."
)

# %%
# The middle of 1 to 9 is too large for small counties and quiet months, and too small for others.
order = np.argsort(found[:, 0])
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
axes.vlines(range(len(order)), *found[order, 2:4].T, color="#0072B2", alpha=0.3, lw=3, label="90 % interval")
axes.plot(found[order, 0], color="#0072B2", label="posterior mean")
axes.plot(truth[order], "x", color="#222222", label="confidential count")
axes.axhline(5, color="#D55E00", linestyle="--", label="middle of 1 to 9")
axes.set(xlabel="suppressed cells, ordered by posterior mean", ylabel="deaths per county and month")
axes.legend(frameon=False)
