"""
Post-processing against conditioning
====================================

Many agencies add noise and then remove negative counts and restore public totals. Noise that has the public total from
the start has no bias, but it can make counts negative. Noise conditioned on counts of at least 0 has a known
distribution, which an analyst can use, but its counts are biased, and the bound costs additional privacy loss
(``ppd.privacy.conditioning_cost``). A curator compares the three with the same noise: the mean error of each county
over 1,000 releases. The counts are made up.
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
    "exact total": ppd.GeneralizedLaplace(total, epsilon="1/5"),
    "exact total, counts of at least 0": ppd.Conditioned(
        total & ppd.invariants.nonnegative(), noise=ppd.laws.DoubleGeometric("1/5")
    ),
    "noise, then projection": ppd.PostProcessed(total & ppd.invariants.nonnegative(), epsilon="1/5"),
}
scores = ppd.compare(methods, table, draws=1000, rng=1, progressbar=False)
print(scores.bias.to_pandas().T.round(2).to_string())

# %%
# Projection and conditioning on bounds move persons from large counties to small ones. The distribution of conditioned
# noise is published, so that ``ppd.PartiallyPrivate`` accounts for it; the distribution after projection is not known.
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, color in zip(methods, ["#0072B2", "#009E73", "#D55E00"], strict=True):
    one = scores.sel(analysis=name)
    axes.errorbar(range(12), one.bias, 2 * one.rmse / 1000**0.5, fmt="o", color=color, label=name)
axes.axhline(0, color="#767676", linewidth=0.8)
axes.set(xticks=range(12), xticklabels=counts, xlabel="confidential count of the county (persons)")
axes.set(ylabel="mean error (persons)")
axes.legend(frameon=False)
