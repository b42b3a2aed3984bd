"""COVID-19 in 67 counties: effects of public totals on private monthly cases and deaths.

Run with ``ppdinf reproduce covid``. The study reads ``covid_pa_monthly.csv`` and ``pa_population.csv``, or the county
series as downloaded (`health_files`), from the folder of PPDINF_DATA or ``--data``; otherwise it simulates an
epidemic. ``--data FILE.csv`` reads another monthly series with the columns county, fips, month, cases and deaths, such
as that of the health department, with ``pa_population.csv`` in its folder.

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", section 4. Public each month: the
county cases and deaths of the month before, the state's cases of this month, and cases >= deaths >= 0.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import ppdinf as ppd
from ppdinf.datasets import epidemic, read_epidemic
from ppdinf.datasets.table_file import public_folder
from ppdinf.invariants import at_least, linear, margin, nonnegative
from ppdinf.mechanisms import DirichletMultinomial
from ppdinf.mechanisms.postprocessing.postprocessed import FeasibleTables

from .._shared.estimates import Estimate, every
from .._shared.study import Study
from . import algorithms, bulletin, claims, figures, joint_sensitivity, panel, posteriors
from .delta_z_figure import plot_delta_z
from .health_files import read_county_series

TAKES = "30 min on two cores; quick 2 min"
EPSILONS, LOSSES, METHODS, ANALYSES = figures.EPSILONS, figures.LOSSES, figures.METHODS, figures.ANALYSES
DELTA_Z = posteriors.DELTA_Z
CONCENTRATION = 0.1  # of the Dirichlet-multinomial prior; the paper does not state it
BOUNDS = nonnegative() & at_least("cases", "deaths", dim="kind")
DEPARTMENT = "covid_pa_monthly_doh*.csv"  # monthly series of the health department
SERIES = [f"time_series_covid19_{kind}_US.csv" for kind in ("confirmed", "deaths")]


def load(data):
    """Return cases and deaths by county and month, with populations, and their source."""
    folder = public_folder() if data is None else Path(data)
    if folder is None:
        return epidemic(), "simulated"
    if folder.is_file():
        return read_epidemic(folder, population=folder.with_name("pa_population.csv")), folder.name
    persons = folder / "pa_population.csv"
    if not all((folder / name).is_file() for name in SERIES):
        return read_epidemic(folder / "covid_pa_monthly.csv", population=persons), "covid_pa_monthly.csv"
    table = read_county_series(*(folder / name for name in SERIES), revised="zero")
    counts = pd.read_csv(persons, dtype={"fips": str}).set_index("fips").iloc[:, -1]
    return table.assign_coords(population=("county", counts.loc[table.fips.values].values)), "county series"


def both_series(table, data):
    """Compare the table with the health department's series in the same folder, or return None if it has none."""
    folder = public_folder() if data is None else Path(data)
    files = [] if folder is None or folder.is_file() else sorted(folder.glob(DEPARTMENT))
    if not files:
        return None
    own, rows = read_epidemic(files[0]), {}
    shared = [np.intersect1d(own[name], table[name]) for name in ("fips", "month")]
    for name in ("cases", "deaths"):
        here, there = (
            each[name].swap_dims(county="fips").sel(fips=shared[0], month=shared[1]) for each in (table, own)
        )
        apart, noise = np.abs(here.values - there.values), 1 / (np.sqrt(2) * np.sinh(1 / (4 * DELTA_Z)))
        rows[name] = {
            "this series": int(here.sum()),
            "health department": int(there.sum()),
            "correlation": float(np.corrcoef(here.values.ravel(), there.values.ravel())[0, 1]),
            "root mean squared difference": float(np.sqrt((apart**2.0).mean())),
            "share beyond the noise sd (l1, epsilon 1)": float((apart > noise).mean()),
        }
    return pd.DataFrame(rows).T.rename_axis("counts")


# -- releases ---------------------------------------------------------------------------------------------------------


def public_of(counties):
    """State the state's cases as exact, and cases >= deaths >= 0; a row (cases, deaths) per county."""
    row = np.tile([1, 0], counties)[np.newaxis]
    return linear(row, ["cases of the state"]) & BOUNDS


def mechanism_of(public, epsilon, norm="l1", previous=None, concentration=CONCENTRATION):
    """Return the mechanism with noise of rate epsilon / 4, and a base measure around the cases of the month before."""
    cells = [] if previous is None else [count for cases in previous.tolist() for count in (cases, None)]
    measure = DirichletMultinomial(cells, str(concentration)) if cells else None
    delta = joint_sensitivity.DELTA_Z[norm]
    secrets = "whether a person has no case, survived or died"
    return ppd.WassersteinExponential(public, epsilon * delta / DELTA_Z, delta, secrets, measure, norm)


def base_measure(previous):
    """Return the Dirichlet parameters of the cases of all counties after a month."""
    return CONCENTRATION * (previous[:, 0] + 0.5)


def labelled(table):
    """Name the columns of a table."""
    return xr.DataArray(table, dims=("county", "kind"), coords={"kind": ["cases", "deaths"]})


def post_processed(noisy, truth):
    """Project noisy tables on the public information of the confidential one, and round."""
    target = FeasibleTables.of(public_of(len(truth)).on(labelled(truth)))
    return np.stack([target.round(target.project(y.ravel())).reshape(truth.shape) for y in noisy])


def release(table, previous, epsilon, replicates, rng):
    """Draw one month by all methods and both losses: tables (replicates, counties, 2)."""
    rate, public = epsilon / (2 * DELTA_Z), public_of(len(table))
    free = ppd.GeneralizedLaplace(ppd.invariants.Public(()), epsilon=str(rate), norm="l2")
    noise = rng.geometric(-np.expm1(-rate), (2, replicates, *table.shape))
    found = {}
    for norm in LOSSES:
        if norm == "l1":
            noisy = table + noise[0] - noise[1]
        else:
            noisy = free.simulate(labelled(table), draws=replicates, rng=rng).values
        found["counting", norm] = noisy
        found["post-processed", norm] = post_processed(noisy, table)
        for method, earlier in (("congenial", None), ("prior", previous)):
            mechanism = mechanism_of(public, epsilon, norm, earlier)
            found[method, norm] = mechanism.simulate(labelled(table), draws=replicates, rng=rng).values
    return found


# -- all of it --------------------------------------------------------------------------------------------------------


def concentrations(study, truth, months, seed):
    """Tabulate the effect of the concentration, which the paper does not state: l1 loss, some months."""
    errors, zeros, public = {}, {}, public_of(len(truth[months[0]]))
    for epsilon in EPSILONS:
        for concentration in (1, 0.1, 0.01):
            drawn = []
            for t in months:
                mechanism = mechanism_of(public, epsilon, "l1", truth[t - 1][:, 0], concentration)
                rng = np.random.default_rng([seed, t])
                drawn.append(mechanism.simulate(labelled(truth[t]), draws=20, rng=rng).values)
            key = epsilon, f"alpha = {concentration:g}", "l1"
            parts = [claims.relative_errors(y[..., 0], truth[t][:, 0]) for y, t in zip(drawn, months, strict=True)]
            errors[key] = np.concatenate(parts)
            hits = [(y[:, truth[t][:, 0] > 0, 0] == 0).mean() for y, t in zip(drawn, months, strict=True)]
            zeros[epsilon, "l1", key[1]] = 100 * np.mean(hits)
    table = claims.quantiles(errors).assign(**{"left without cases %": pd.Series(zeros)})
    caption = "The prior-congenial base measure by its concentration alpha: relative errors of cases in some months."
    study.table("concentration", table, caption)


def both_totals(study, truth, months, seed):
    """Tabulate the effect of exact state deaths: congenial base measure, l1 loss, some months."""
    rows = {}
    for epsilon in EPSILONS:
        for known in (False, True):
            public = margin("kind") & BOUNDS if known else public_of(len(truth[months[0]]))
            mechanism, away = mechanism_of(public, epsilon), []
            for t in months:
                rng = np.random.default_rng([seed, t])
                away.append(np.abs(mechanism.simulate(labelled(truth[t]), draws=20, rng=rng).values - truth[t]))
            away = np.array(away)
            kind = "cases and deaths" if known else "cases"
            rows[epsilon, kind] = [Estimate.of(np.mean, away[..., q], axis=1) for q in (0, 1)]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["error of cases", "error of deaths"])
    table.index = pd.MultiIndex.from_tuples(table.index, names=["epsilon", "exact totals"])
    study.table(
        "both_totals",
        table.map(float),
        "Mean absolute errors in persons, congenial base measure, l1 loss, some months.",
    )
    ratios = [table.loc[e, "error of deaths"].loc[["cases", "cases and deaths"]].tolist() for e in EPSILONS]
    study.claim(
        "an exact death total makes county deaths more accurate",
        "here",
        "-",
        ", ".join(f"epsilon {e:g}: {a:.1f} to {b:.1f} persons" for e, (a, b) in zip(EPSILONS, ratios, strict=True)),
        holds=every(*((a - b).above(0) for a, b in ratios)),
    )


def congenial_posteriors(study, name, norm, drawn, truth, history, jobs, releases, draws, workers):
    """Infer from releases of both congenial mechanisms in some months; enter coverage, errors and weights."""

    def infer(rng, k):
        epsilon, t = jobs[k]
        found = {}
        for method, alpha in (
            ("congenial", np.ones(len(truth[t]))),
            ("prior", base_measure(truth[t - 1])),
        ):
            own = drawn[epsilon, t][method, norm][:releases]
            found[method] = posteriors.given_releases(own, alpha, truth[t], history, t, epsilon, draws, rng, norm)
        return found

    parts = study.replicates(infer, len(jobs), name=name, workers=workers, progress=True)
    months = sorted({t for _, t in jobs})
    found, released, effective = {}, {}, {}
    for epsilon in EPSILONS:
        own = [part for (e, _), part in zip(jobs, parts, strict=True) if e == epsilon]
        for method in ("congenial", "prior"):
            found[epsilon, method] = np.stack([part[method][0] for part in own])
            effective[epsilon, method] = min(part[method][1].min() for part in own)
            released[epsilon, method] = np.stack([drawn[epsilon, t][method, norm][:releases] for t in months])
    exact = np.stack([truth[t] for t in months])
    table = claims.coverage(found, exact, claims.thirds(history[2]))
    claims.enter_congenial(study, table, released, exact, effective, norm)
    figures.congenial(study, name, norm, table, released, exact, claims.thirds(history[2]))
    caption = f"Posteriors from releases of both congenial mechanisms ({norm} loss), by county size, in some months."
    study.table(f"{name}_posteriors", table.map(float), caption)


def all_months(study, table, months, lengths, seed):
    """Infer from the noisy tables of all months jointly, and of each given previous months; write a page on one."""
    part = table.isel(month=months)
    ((noisy, drawn, verdict, good),) = study.replicates(
        lambda rng, _: panel.posterior(part, *lengths, rng), 1, name="panel", progress=True
    )
    history = table.cases.values, table.deaths.values, table.population.values
    truth = np.stack([part.cases.values, part.deaths.values], axis=-1)
    found = {"panel": [], "month by month": [], "naive": []}
    for k, t in enumerate(months):
        y, rng = noisy[np.newaxis, :, k], np.random.default_rng([seed, t])
        repaired = post_processed(y, truth[:, k])
        one = posteriors.posterior(y, repaired, truth[:, k], history, t, panel.EPSILON, lengths[1], rng)
        found["panel"].append(posteriors.summary(drawn[:, :, k])[np.newaxis])
        found["month by month"].append(one["conditioning"])
        found["naive"].append(one["naive"])
    estimates = {(panel.EPSILON, name): np.stack(parts) for name, parts in found.items()}
    size = claims.thirds(history[2])
    inference = claims.coverage(estimates, truth.swapaxes(0, 1), size)
    claims.enter_panel(study, inference, verdict, good, f"{part.sizes['county']} counties, {len(months)} months")
    figures.panel(study, estimates, part)
    study.table(
        "panel", inference.map(float), "All months from noisy tables only, and one month given exact previous months."
    )
    middle, rate = len(months) // 2, panel.EPSILON / (2 * panel.DELTA_Z)
    noise = np.random.default_rng(seed).geometric(-np.expm1(-rate), (2, 100_000))
    bulletin.bulletin(
        study,
        drawn[:, :, middle],
        int(truth[:, middle, 0].sum()),
        history[2],
        part.county.values,
        title=f"COVID-19 by county, {pd.Period(str(part.month.values[middle])):%B %Y}",
        months=len(months),
        epsilon=panel.EPSILON,
        noise=noise[0] - noise[1],
    )


def main(output, *, quick=False, data=None, seed=1, workers=None):
    """Draw all releases and posteriors; write claims, figures and tables to a folder."""
    table, source = load(data)
    cases, deaths, persons = table.cases.values, table.deaths.values, table.population.values
    months = [t for t in (3, 12, 20) if t < cases.shape[1]] if quick else list(range(1, table.sizes["month"]))
    inferred = months[-2:] if quick else months
    replicates, draws = (8, 100) if quick else (100, 400)
    counties = table.sizes["county"]
    study = Study(
        f"COVID-19 in {counties} counties under public totals",
        output,
        about=f"Monthly cases and deaths ({source}), {len(months)} months, {replicates} replicates: post-processing, "
        "mechanisms conditioned on public information, and posteriors from their releases.",
        settings={"seed": seed, "quick": quick, "data": source, "cases": int(cases.sum()), "deaths": int(deaths.sum())},
    )
    truth = {t: np.stack([cases[:, t], deaths[:, t]], axis=1) for t in range(cases.shape[1])}
    if (compared := both_series(table, data)) is not None:
        study.table("both_series", compared, "Counties and months of two public series of the same epidemic.")
    jobs = [(epsilon, t) for t in months for epsilon in EPSILONS]

    def releases(rng, k):
        epsilon, t = jobs[k]
        return release(truth[t], cases[:, t - 1], epsilon, replicates, rng)

    found = study.replicates(releases, len(jobs), name="releases", workers=workers, progress=True)
    drawn = dict(zip(jobs, found, strict=True))
    released = {
        (epsilon, method, norm): np.stack([drawn[epsilon, t][method, norm] for t in months])
        for epsilon in EPSILONS
        for norm in LOSSES
        for method in METHODS
    }
    some = [job for job in jobs if job[1] in inferred]
    noisy = [tuple(drawn[job][method, "l1"] for method in ("counting", "post-processed")) for job in some]

    def infer(rng, k):
        epsilon, t = some[k]
        return posteriors.posterior(*noisy[k], truth[t], (cases, deaths, persons), t, epsilon, draws, rng)

    parts = study.replicates(infer, len(some), name="posteriors", workers=workers, progress=True)
    estimates = {
        (epsilon, name): np.stack([part[name] for job, part in zip(some, parts, strict=True) if job[0] == epsilon])
        for epsilon in EPSILONS
        for name in ANALYSES
    }

    part, releases = (inferred, 4) if quick else (months[1::4], 8)  # of each month
    inputs = drawn, truth, (cases, deaths, persons), [job for job in jobs if job[1] in part]
    for name, norm, number in (("congenial", "l1", releases), ("congenial_l2", "l2", 1 if quick else 2)):
        congenial_posteriors(study, name, norm, *inputs, number, draws // 2, workers)
    exact = np.stack([truth[t] for t in months])
    errors = {
        key: claims.relative_errors(tables[..., 0], exact[:, np.newaxis, :, 0]) for key, tables in released.items()
    }
    quantiles = claims.quantiles(errors)
    effects = claims.effects(released, exact, persons)
    alphas = [base_measure(truth[t - 1]) for t in months]
    ends = claims.prior_intervals(exact[..., 0].sum(axis=1), alphas)
    claims.enter(study, released, exact, persons, effects, ends)
    joint_sensitivity.enter(study, claims.PAPER)
    truths = np.stack([truth[t] for t in inferred])
    inference = claims.coverage(estimates, truths, claims.thirds(persons), some_months=quick)
    claims.enter_posteriors(study, inference)
    effects, inference = effects.map(float), inference.map(float)

    for norm in LOSSES:
        figures.rates(study, released, table, months, norm)
    figures.relative(study, errors)
    study.table("relative_errors", quantiles, "Relative errors of cases, over counties, months and replicates.")
    concentrations(study, truth, months[1::4], seed)
    both_totals(study, truth, months[1::4], seed)
    figures.contraction(study, effects)
    study.table("contraction", effects, "Shares of releases with contracted counts, of those where that can be.")
    study.figure("delta_z", plot_delta_z(), "Delta_z of one count of n persons who depend on each other.")
    figures.intervals(study, inference, "coverage", "Coverage of the confidential number; grey, 0.92 to 0.98.")
    figures.intervals(study, inference, "rmse", "Errors of the three analyses of the same noisy tables.")
    study.table("inference", inference, "Three analyses of the same noisy tables, by county size.")
    place = len(inferred) // 2
    first = drawn[EPSILONS[0], inferred[place]]["post-processed", "l1"][0]
    given = estimates[EPSILONS[0], "conditioning"][place, 0]
    figures.one_month(study, first, given, table, inferred[place])
    if not quick:
        algorithms.enter(study, table, inferred[place], 400, seed)
    every = slice(None, None, 6 if quick else 1)
    lengths = (300, 200) if quick else (500, 2500)
    all_months(study, table.isel(county=every), list(range(9, 15)) if quick else months, lengths, seed)
    study.write()
