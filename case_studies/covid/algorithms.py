"""Algorithms 1 and 2 of the paper (rejection, importance sampling) against NUTS, on one month of the COVID study.

Published are noisy cases of some counties (l1, counting measure) and their exact sum. Cases are negative binomial
around the county's share of the previous month, with a tilt by log population and a shape. Rejection accepts with
probability likelihood over its bound, which falls exponentially with the number of counties: it is possible for a few.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import ppdinf as ppd

from .posteriors import DELTA_Z, standardised, tilted

FEW, EPSILON = 8, 0.01
NAMES = {"tilt": "tilt by log population", "log_shape": "log shape"}
COLORS = {"rejection (Algorithm 1)": "#D55E00", "importance (Algorithm 2)": "#009E73", "NUTS": "#0072B2"}


def model_of(cases, previous, population, seed):
    """Return the model of one month given a release drawn with a seed; arguments have one entry per county."""
    table = xr.DataArray(cases, dims="county")
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.Public(()), epsilon=f"{EPSILON / (2 * DELTA_Z)}")
    noisy = mechanism.simulate(table, draws=1, rng=seed)[0]
    release = ppd.Release(noisy, mechanism, public=ppd.invariants.total().on(table))
    share = tilted((previous + 1) / (previous + 1).sum(), 0.0, population)
    with pm.Model(coords=release.coords) as model:
        tilt, log_shape = pm.Normal("tilt", 0, 0.3), pm.Normal("log_shape", 2, 1)
        raised = share * pm.math.exp(tilt * standardised(population))
        law = pm.NegativeBinomial.dist(mu=cases.sum() * raised / raised.sum(), alpha=pm.math.exp(log_shape))
        ppd.PartiallyPrivate("cases", law, release=release)
    return model


def posteriors(model, draws, seed):
    """Sample the posterior by the three algorithms."""
    with model:
        chains = pm.sample(draws // 2, chains=2, cores=1, random_seed=seed, quiet=True, progressbar=False)
    samplers = ppd.samplers.rejection, ppd.samplers.importance
    exact = [sampler(model, draws, rng=seed, progressbar=False) for sampler in samplers]
    return dict(zip(COLORS, [*exact, chains], strict=True))


def summarise(found):
    """Tabulate mean, standard deviation and effective size of each parameter by algorithm."""
    rows = {}
    for name, idata in found.items():
        for key in NAMES:
            values = idata.posterior[key].values
            size = values.size if name != "NUTS" else float(pm.stats.ess(idata, var_names=[key])[key])
            rows[name, key] = {"mean": values.mean(), "sd": values.std(), "effective draws": size}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=["algorithm", "parameter"])
    return table


def agree(table):
    """Return whether means differ from those of NUTS by at most 4 standard errors (false alarm: 1 of 4,000 runs)."""
    for key in NAMES:
        own = table.xs(key, level="parameter")
        squares = own["sd"] ** 2 / own["effective draws"]
        apart = (own["mean"] - own.loc["NUTS", "mean"]).abs()
        if (apart > 4 * np.sqrt(squares + squares["NUTS"])).any():
            return False
    return True


def enter(study, table, month, draws, seed):
    """Compare the algorithms on some counties of a month; enter claim, table and figure."""
    order = np.argsort(table.population.values)
    few = order[:: max(1, len(order) // FEW)][:FEW]
    cases, before = (table.cases.values[few, t] for t in (month, month - 1))
    found = posteriors(model_of(cases, before, table.population.values[few], seed), draws, seed)
    result, names = summarise(found), list(COLORS)
    accepted, effective = (found[name].sample_stats.attrs for name in names[:2])
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axes, (key, label) in zip(panels, NAMES.items(), strict=True):
        for name, idata in found.items():
            values = idata.posterior[key].values.ravel()
            axes.hist(values, 30, density=True, histtype="step", linewidth=1.5, color=COLORS[name], label=name)
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("density")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside upper center")
    caption = (
        f"Three algorithms for one posterior: {FEW} counties, {table.month.values[month]}, epsilon {EPSILON:g}, l1."
    )
    study.figure("algorithms", figure, caption)
    plt.close(figure)
    study.table("algorithms", result, caption)
    study.claim(
        f"Algorithms 1 and 2 sample the posterior that NUTS samples ({FEW} counties, epsilon {EPSILON:g}, l1)",
        "PPD 3.3",
        "exact",
        f"means within 4 standard errors; Algorithm 1 accepts {100 * accepted['acceptance_rate']:.2g} %, "
        f"Algorithm 2 has {effective['ess']:.0f} effective proposals",
        holds=agree(result),
    )
