"""
A block group of the 2020 Census
================================

The Census Bureau published the noisy measurements behind its redistricting tables: eleven overlapping tables of each
area. A redistricting analyst wants the number of adults by race in one block group, with intervals. The files of this
example are simulated in the format and with the noise of the Bureau. Reading requires the extra ``census``.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import ppdinf as ppd

# %%
# A made-up block group: persons by type of residence, voting age, Hispanic origin and 63 sets of races. It has
# no prisons, dormitories or other facilities, which is public.
axes = {axis.name: list(axis.labels) for axis in ppd.census.PERSONS.axes}
table = xr.DataArray(np.zeros((1, 8, 2, 2, 63), dtype=int), coords={"block_group": ["044010070100001"]} | axes)
share = np.r_[0.62, 0.13, 0.01, 0.08, 0.003, 0.06, 0.05 * 0.5 ** np.arange(57)]
age_by_origin = np.outer([0.25, 0.75], [0.85, 0.15])
table[0, 0] = np.random.default_rng(2).poisson(1400 * np.multiply.outer(age_by_origin, share))

facilities = 0 * table.sum(["votingage", "hispanic", "cenrace"])

# %%
# Write the files and read them. For comparison, the table of all cells is also read alone.
with tempfile.TemporaryDirectory() as folder:
    place = (folder, "US_Person_PL_PROD")
    noise = ppd.census.PERSONS_2020
    ppd.census.simulate_nmf(table, noise, *place, {}, leaf="Block_Group", facilities=facilities, rng=1)
    seen = ppd.census.read_nmf(*place, ppd.census.PERSONS)
    single = ppd.census.read_rows(*place, "DPQuery", ppd.census.PERSONS, queries=["detailed"])

# %%
# ``denoise`` draws all cells. Sums of the draws are draws of the sums.
posterior = ppd.denoise(seen, draws=200, rng=1, progressbar=False)
single_race = ["White", "Black", "American Indian", "Asian", "Pacific Islander", "other"]
races = dict(zip(axes["cenrace"], single_race + 57 * ["two or more"], strict=True))
by_race = ppd.invariants.groups("cenrace", races)
found = posterior.summary(ppd.models.aggregate(posterior.draws.sel(votingage="18 and over"), by_race))
adults = table.sel(votingage="18 and over").sum(["block_group", "hhgq", "hispanic"]).to_series()
noisy = adults.copy()
noisy[:] = single.value[0].reshape(8, 2, 2, 63)[0, 1].sum(axis=0)
result = found.assign(single=noisy.groupby(races).sum(), truth=adults.groupby(races).sum())
print(result.round(1))

# %%
# Two or more races are 57 sets, most of them without a person here. The sum of their noisy cells has the largest error.
error = result.sub(result.truth, axis=0)
names = [f"{race} ({count})" for race, count in result.truth.items()]
figure, panel = plt.subplots(figsize=(6.4, 4), layout="constrained")
panel.hlines(names, error.lower, error.upper, color="#0072B2", alpha=0.4, linewidth=5, label="90 % interval")
panel.plot(error.estimate, names, "o", color="#0072B2", label="posterior mean")
panel.plot(error.single, names, "D", color="#D55E00", label="sum of noisy cells")
panel.axvline(0, color="#222222", linestyle="--", label="confidential count")
panel.set(xlabel="difference from the confidential count (persons)", ylabel="race (confidential count of adults)")
panel.invert_yaxis()
panel.legend(frameon=False)
