"""
Disease mapping with BYM2
=========================

A registry publishes cases of a disease for 80 small areas with privacy noise. Neighbouring areas have similar risks, so
that a map can be recovered from counts that are mostly noise. The BYM2 prior divides the effects of areas into a smooth
and an independent part. The areas are simulated on a grid, so that the true risks are known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from matplotlib.colors import LogNorm

import ppdinf as ppd

# %%
# The true relative risks vary smoothly, plus a small independent part. The total is exact.
rng, grid = np.random.default_rng(6), np.arange(80).reshape(8, 10)
row, column = np.divmod(grid.ravel(), 10)
risk = np.exp(0.5 * np.sin(row / 2) * np.cos(column / 3) + rng.normal(0, 0.1, 80))
expected = rng.integers(5, 40, 80)
table = xr.DataArray(
    rng.poisson(expected * risk), coords={"area": grid.ravel(), "expected": ("area", expected)}, dims="area"
)
mechanism = ppd.GeneralizedLaplace(ppd.invariants.total() & ppd.invariants.covariates("expected"), epsilon="1/6")
release = ppd.Release(mechanism.simulate(table, draws=1, rng=1)[0], mechanism)

# %%
# Neighbours are the areas to the left and right, above and below.

pairs = [(grid[:, 1:], grid[:, :-1]), (grid[1:], grid[:-1])]
edges = pd.DataFrame(np.concatenate([np.stack(pair, axis=-1).reshape(-1, 2) for pair in pairs]))
with pm.Model(coords=release.coords) as model:
    eta = ppd.models.log_rates(release, ["area"], exposure="expected", spatial={"area": edges})
    relative = pm.Deterministic("risk", pm.math.exp(eta), dims="area")
    ppd.PartiallyPrivate("cases", pm.Poisson.dist(relative * expected), release=release)
    idata = pm.sample(500, tune=500, chains=2, random_seed=1, progressbar=False, quiet=True)
smooth = idata.posterior.risk.mean(("chain", "draw")).values
maps = {"true risk": risk, "released / expected": release.table.values / expected, "posterior mean": smooth}
error = {name: np.sqrt(np.mean((found - risk) ** 2)).round(2).item() for name, found in maps.items()}
print(f"Error of the relative risk: {error['released / expected']} released, {error['posterior mean']} posterior mean")

# %%
# The released counts hide the pattern, and the posterior shows it.
figure, panels = plt.subplots(1, 3, figsize=(8, 2.8), layout="constrained")
for axes, (name, found) in zip(panels, maps.items(), strict=True):
    image = axes.imshow(found.reshape(8, 10).clip(0.4), cmap="PuOr_r", norm=LogNorm(0.4, 2.5, clip=True))
    axes.set(title=name, xlabel="areas, west to east", xticks=[], yticks=[])
panels[0].set_ylabel("areas, north to south")
bar = figure.colorbar(
    image, ax=panels, ticks=[0.4, 0.6, 1, 1.6, 2.5], format="{x:g}", label="relative risk", shrink=0.8
)
bar.minorticks_off()
