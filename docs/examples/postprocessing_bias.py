"""
Post-processing against conditioning
====================================

Many agencies add noise and then remove negative counts and restore public totals. Other mechanisms draw noise that has
the public total from the start. A curator compares the two at the same epsilon: the mean error of each county over
1,000 releases. The counts are made up.
"""

import matplotlib.pyplot as plt
import xarray as xr

import ppdinf as ppd

# %%
# Twelve counties, most of them small. The total is public.
counts = [0, 0, 1, 2, 3, 5, 8, 13, 21, 55, 144, 377]
table = xr.DataArray(counts, coords={"county": list("ABCDEFGHIJKL")})
total = ppd.invariants.total()
methods = {
    "noise with an exact total": ppd.GeneralizedLaplace(total, epsilon="1/5"),
    "noise, then projection": ppd.PostProcessed(total & ppd.invariants.nonnegative(), epsilon="1/5"),
}
scores = ppd.compare(methods, table, draws=1000, rng=1, progressbar=False)
print(scores.bias.to_pandas().T.round(2))

# %%
# Projection moves persons from large counties to small ones in every release.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, color in zip(methods, ["#0072B2", "#D55E00"], strict=True):
    one = scores.sel(analysis=name)
    axes.errorbar(range(12), one.bias, 2 * one.rmse / 1000**0.5, fmt="o", color=color, label=name)
axes.axhline(0, color="#767676", linewidth=0.8)
axes.set(xticks=range(12), xticklabels=counts, xlabel="confidential count of the county (persons)")
axes.set(ylabel="mean error (persons)")
axes.legend(frameon=False)
