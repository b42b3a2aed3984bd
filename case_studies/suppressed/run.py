"""Deaths by county and month, of which 1 to 9 are suppressed while both margins are exact.

Run with ``ppdinf reproduce suppressed``. With PPDINF_DATA, the table is the deaths with COVID-19 in Pennsylvania by
county and month, otherwise a simulated one. The true counts are known and are used for the comparison only.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import ppdinf as ppd
from ppdinf.datasets.table_file import public_file
from ppdinf.models.label_effects import log_rates

from .._shared.estimates import Estimate
from .._shared.study import Study

TAKES = "25 min"
inv = ppd.invariants
BELOW, BASE, YEAR = 10, 5, 12  # suppressed below 10, rounded to multiples of 5, months used
CLASSES = {"1 or 2": (1, 2), "3 to 5": (3, 5), "6 to 9": (6, 9)}
COLORS = {
    "zeros": "#767676", "4.5": "#56B4E9", "midpoint 5": "#E69F00", "imputed": "#D55E00", "posterior": "#009E73",
    "posterior, no margins": "#0072B2", "posterior, space and time": "#CC79A7",
}  # fmt: skip


STYLES = {"imputed": "s:"}  # nearly the same errors as those of the midpoint


def real_table():
    """Return deaths by county and month, and where they are from."""
    file = public_file("covid_pa_monthly.csv")
    data = ppd.datasets.epidemic() if file is None else ppd.datasets.read_epidemic(file)
    deaths = data.deaths.isel(month=slice(3, 3 + YEAR))
    return deaths.drop_vars(
        [c for c in deaths.coords if c not in deaths.dims]
    ), "simulated" if file is None else file.name


def populations(table):
    """Return persons by county, or None without a file of them."""
    file = public_file("pa_population.csv")
    if file is None:
        return None
    people = pd.read_csv(file).set_index("county")["pop_2021_estimate"]
    return xr.DataArray(people.loc[table.county.values].values, {"county": table.county.values})


def simulated_table(rng, counties=20, months=8):
    """Draw a table from the prior's kind of model: negative binomial with effects of counties and months."""
    mean = np.exp(1.6 + rng.normal(0, 1, (counties, 1)) + rng.normal(0, 0.5, (1, months)))
    shape = 6.0
    counts = rng.negative_binomial(shape, shape / (shape + mean))
    labels = {"county": [f"c{k}" for k in range(counties)], "month": [f"m{k}" for k in range(months)]}
    return xr.DataArray(counts, labels)


def doubled_table(rng):
    """Draw a table that the prior does not describe: every third county has deaths in clusters of 6."""
    table = simulated_table(rng)
    clustered = 6 * rng.poisson(table.values / 6)
    return table.copy(data=np.where(np.arange(table.sizes["county"])[:, None] % 3 == 0, clustered, table.values))


def published(table, margins=True):
    """Suppress counts from 1 to 9 and publish both margins."""
    shown = ppd.suppressed(table.where((table == 0) | (table >= BELOW)), below=BELOW, least=1, empty="suppressed")
    public = {inv.margin("county", "month"): shown}
    if margins:
        public |= {inv.margin(dim): table.sum([d for d in table.dims if d != dim]) for dim in table.dims}
    return ppd.Measurements({dim: table[dim].values for dim in table.dims}, public=public)


def space_and_time(table, people, draws, rng):
    """Return the posterior of the table with BYM2 effects of counties and months, negative binomial counts.

    The rates need a release for their coordinates and the center of the intercept's prior: the midpoints as one.
    """
    midpoints = table.where((table == 0) | (table >= BELOW), BELOW // 2).astype(int).assign_coords(people=people)
    stated = inv.margin("month") & inv.covariates("people")
    about = ppd.Release(midpoints, ppd.GeneralizedLaplace(stated, epsilon="1/3"))
    edges, seen = pd.read_csv(Path(__file__).parent / "neighbors.txt"), published(table)
    with pm.Model(coords=seen.coords) as model:
        eta = log_rates(about, list(table.dims), exposure="people", spatial={"county": edges}, temporal="month")
        mean = pm.math.exp(eta) * people.values[:, None]
        counts = pm.NegativeBinomial.dist(mu=mean, alpha=pm.Gamma("shape", 2, 0.2))
        ppd.PartiallyPrivate("deaths", counts, release=seen)
        seed = int(rng.integers(2**31))
        idata = pm.sample(draws, tune=draws, chains=2, random_seed=seed, nuts_sampler="pymc", progressbar=False,
                          quiet=True, compute_convergence_checks=False)  # fmt: skip
    return ppd.sample_confidential(idata, model)


def imputed(table, draws, rng):
    """Draw suppressed counts uniformly from 1 to 9; margins are ignored."""
    return rng.integers(1, BELOW, (draws, *table.shape))


def errors(table, estimate, lower, upper):
    """Estimate mean absolute error and coverage for suppressed cells, in all and by size."""
    x, found = table.values, {}
    for name, (low, high) in {"all": (1, BELOW - 1), **CLASSES}.items():
        cells = (x >= low) & (x <= high)
        found[f"error, {name}"] = Estimate.of(np.mean, np.abs(estimate - x)[cells])
        found[f"coverage, {name}"] = (
            Estimate.share(((lower <= x) & (x <= upper))[cells]) if lower is not None else Estimate(np.nan)
        )
    return found


def summarized(posterior, table):
    """Return estimate and interval of every cell as arrays."""
    found = posterior.to_dataset()
    return [found[name].transpose(*table.dims).values for name in ("estimate", "lower", "upper")]


def compared(table, draws, rng, people=None, progressbar=False):
    """Return one row of errors per method, and the identified bounds; with `people`, also in space and time."""
    seed = int(rng.integers(2**31))
    seen = published(table)
    sampled = imputed(table, 400, rng)
    rows = {
        "zeros": errors(table, np.zeros(table.shape), None, None),
        "4.5": errors(table, np.full(table.shape, 4.5), None, None),
        "midpoint 5": errors(table, np.full(table.shape, 5.0), None, None),
        "imputed": errors(
            table, sampled.mean(axis=0), *np.quantile(sampled, [0.05, 0.95], axis=0, method="inverted_cdf")
        ),
        "posterior, no margins": errors(
            table, *summarized(ppd.denoise(published(table, False), draws, rng=seed, progressbar=progressbar), table)
        ),
        "posterior": errors(table, *summarized(ppd.denoise(seen, draws, rng=seed, progressbar=progressbar), table)),
    }
    if people is not None:
        drawn = space_and_time(table, people, draws // 2, rng).transpose("chain", "draw", *table.dims)
        drawn = drawn.values.reshape(-1, *table.shape)
        interval = np.quantile(drawn, [0.05, 0.95], axis=0, method="inverted_cdf")
        rows["posterior, space and time"] = errors(table, drawn.mean(axis=0), *interval)
    return pd.DataFrame(rows).T.rename_axis("method"), ppd.identified_bounds(seen, progressbar=progressbar)


def coverage(draw_table, draws):
    """Return a replicate: the number of suppressed cells, and of those within a 90 % interval.

    Intervals of integers contain more than 90 %. Here their ends are randomized, so that they contain 90 % if the model
    is right: the count is at a uniform place between P(X < x) and P(X <= x).
    """

    def one(rng, _):
        table = draw_table(rng)
        x = table.values
        posterior = ppd.denoise(published(table), draws, rng=int(rng.integers(2**31)), progressbar=False)
        drawn = posterior.draws.transpose("chain", "draw", *table.dims).values.reshape(-1, *table.shape)
        place = (drawn < x).mean(axis=0) + rng.random(x.shape) * (drawn == x).mean(axis=0)
        hidden = (x > 0) & (x < BELOW) & (drawn.min(axis=0) < drawn.max(axis=0))
        return [int(hidden.sum()), int(((place >= 0.05) & (place <= 0.95))[hidden].sum())]

    return one


def rounded_variant(table, draws, rng):
    """Round cells and totals separately to multiples of 5 at random; return errors of both readings."""
    law = ppd.laws.RandomRounding(BASE)
    released = law.publish(table.values, rng)
    totals = {dim: law.publish(table.sum([d for d in table.dims if d != dim]).values, rng) for dim in table.dims}
    seen = ppd.Measurements(
        {dim: table[dim].values for dim in table.dims},
        ppd.measured(inv.margin(*table.dims), released, law),
        *(ppd.measured(inv.margin(dim), values, law) for dim, values in totals.items()),
    )
    posterior = ppd.denoise(seen, draws, rng=int(rng.integers(2**31)), progressbar=False)
    estimate, lower, upper = summarized(posterior, table)
    x = table.values
    return {
        "error of rounded cells": Estimate.of(np.mean, np.abs(released - x).ravel()),
        "error of the posterior": Estimate.of(np.mean, np.abs(estimate - x).ravel()),
        "coverage": Estimate.share(((lower <= x) & (x <= upper)).ravel()),
    }


def establishments(rng, complementary):
    """Return persons employed by county and industry with cells of few firms withheld, and margins exact."""
    firms = rng.poisson(np.exp(rng.normal(1.5, 0.9, (12, 8))))
    persons = np.where(firms > 0, firms + rng.poisson(8.0 * firms), 0)
    withheld = (firms > 0) & (firms < 3)
    if complementary:  # a second cell in rows and columns in which one is withheld
        for axis in (0, 1):
            for k in np.flatnonzero(withheld.sum(axis=1 - axis) == 1):
                line = (k, slice(None)) if axis == 0 else (slice(None), k)
                others = np.where(withheld[line] | (firms[line] == 0), 10**9, persons[line])
                at = int(others.argmin())
                withheld[(k, at) if axis == 0 else (at, k)] = True
    shown = np.where(withheld, "(D)", persons.astype(str))
    return ppd.Measurements(
        {"county": range(12), "industry": range(8)},
        public={
            inv.margin("county", "industry"): ppd.suppressed(shown, least=1),
            inv.margin("county"): persons.sum(axis=1),
            inv.margin("industry"): persons.sum(axis=0),
        },
    ), withheld


def main(output, *, quick=False, seed=6, workers=None):
    """Compare methods; write page, tables and figures to a folder."""
    table, source = real_table()
    draws, replicates = (100, 4) if quick else (600, 60)
    study = Study(
        "What is behind suppressed counts", output,
        about=f"{table.sizes['county']} counties, {table.sizes['month']} months, deaths from 1 to 9 suppressed.",
        settings={"quick": quick, "seed": seed, "data": source},
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    hidden = int(((table > 0) & (table < BELOW)).sum())
    # compiling the rates in space and time takes most of a quick run; their neighbours are those of the file
    people = None if quick or source == "simulated" else populations(table)
    estimates, bounds = compared(table, draws, rng, people)
    rows = estimates.map(float)
    study.table(
        "methods", rows.round(2), f"Mean absolute error (persons) and coverage of 90 % intervals, {hidden} cells."
    )
    best = min(estimates["error, all"][["zeros", "4.5", "midpoint 5", "imputed"]], key=float)
    ours = estimates.loc["posterior", "error, all"]
    study.claim("the posterior has the smallest error", "here", f"{best:.2f} for the best substitute",
                f"{ours:.2f}", holds=(best - ours).above(0))  # fmt: skip
    width = (bounds.upper - bounds.lower)[bounds.upper > bounds.lower]
    study.claim("margins disclose suppressed cells", "here", "some", f"{int(bounds.disclosed.sum())} of {hidden}; "
                f"{int((width < BELOW - 2).sum())} more are limited", holds=bool(bounds.exact.all()))  # fmt: skip
    names = {"model of the prior": simulated_table, "clusters of 6 in every third county": doubled_table}
    for k, (name, draw_table) in enumerate(names.items()):
        counts = np.array(
            list(study.replicates(coverage(draw_table, draws // 2), replicates, workers=workers, name=name))
        )
        share = Estimate.of(lambda n: n[:, 1].sum() / n[:, 0].sum(), counts)
        right = k == 0
        study.claim(
            f"coverage of 90 % intervals, {name}", "here", "0.87 to 0.93" if right else "no guarantee",
            f"{share:.3f} ({replicates} tables)", holds=share.within(0.87, 0.93) if right else True,
        )  # fmt: skip
    rounding = rounded_variant(table, draws, rng)
    study.claim("separately rounded totals reduce the error", "here", f"{rounding['error of rounded cells']:.2f}",
                f"{rounding['error of the posterior']:.2f}, coverage {rounding['coverage']:.2f}",
                holds=(rounding["error of rounded cells"] - rounding["error of the posterior"]).above(0))  # fmt: skip
    for complementary in (False, True):
        seen, withheld = establishments(np.random.default_rng(seed), complementary)
        found = ppd.identified_bounds(seen, progressbar=False)
        name = "with second cells withheld" if complementary else "few firms alone withheld"
        study.claim(
            f"establishments, {name}", "here", "disclosed cells",
            f"{int(found.disclosed.sum())} of {int(withheld.sum())}", holds=bool(found.exact.all()),
        )  # fmt: skip
    figure, (left, right_axes) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
    for name, row in rows.iterrows():
        left.plot(
            list(CLASSES), [row[f"error, {c}"] for c in CLASSES], STYLES.get(name, "o-"), color=COLORS[name], label=name
        )
    left.set(xlabel="suppressed count, persons", ylabel="mean absolute error, persons", title="Error by size")
    left.legend(frameon=False, fontsize="small")
    covered = rows.dropna()
    for name, row in covered.iterrows():
        right_axes.plot(list(CLASSES), [row[f"coverage, {c}"] for c in CLASSES], "o-", color=COLORS[name], label=name)
    right_axes.axhline(0.9, color="black", linewidth=0.6)
    right_axes.set(xlabel="suppressed count, persons", ylabel="share of intervals with the count", ylim=(0, 1.03),
                   title="Coverage of 90 % intervals by size")  # fmt: skip
    right_axes.legend(frameon=False, fontsize="small")
    for axes in (left, right_axes):
        axes.spines[["top", "right"]].set_visible(False)
    study.figure("errors", figure, "Error and coverage by size of the suppressed count, one table.")
    plt.close(figure)
    study.write()
