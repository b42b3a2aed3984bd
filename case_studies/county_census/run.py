"""County populations given state totals: noise that preserves totals, and truncation at zero.

Run with ``ppdinf reproduce county_census``. Populations are those of 2010 in ``county_population_2010.csv`` of the
folder of PPDINF_DATA (or ``--data``), otherwise simulated. If the folder contains county files of IPUMS NHGIS's
privacy-protected demonstration data (``nhgis*county*.csv``), of the nation or of some states, their errors are shown
beside the simulated ones. The page names the files that are missing.

P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, section 5, appendix E.4.
J. Gao, R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022, section 5.1.
"""

import time
from fractions import Fraction
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.datasets.table_file import public_folder
from ppdinf.errors import LabelError
from ppdinf.invariants import groups, nonnegative

from .._shared.estimates import Estimate, every, if_enough
from .._shared.study import Study
from .demonstration_file import read_demonstration

TAKES = "2 min"
ISDP, SDP = "Integer subspace DP", "Subspace DP"
EPSILON = "0.192"  # 4 in total, 0.16 of it for counties, 0.3 of that for populations
DRAWS, CATEGORIES, LEVEL = 1000, 126, 0.01
TOTALS = groups("state")
LOOKS = {
    "integer noise with the total": "#0072B2",
    "projected Laplace noise": "#009E73",
    "projected whole noise, rounded": "#E69F00",
    "truncated at 0, then repaired": "#D55E00",
    "projected Laplace noise, Lemma 3.7": "#56B4E9",
    "demonstration data": "#000000",
}
POPULATIONS, FILES = "county_population_2010.csv", "nhgis*county*.csv"
COUNT = "H7V001"  # total population in the vintages of 2020
SMALLEST, SHOWN = 5, 11  # the paper leaves out states of at most five counties; it shows eleven states


def missing_files(folder):
    """Return what is absent from a folder, or from no folder, and what is shown instead."""
    absent = {
        POPULATIONS: "populations of counties in 2010 (columns state, county, fips, population): they are simulated",
        FILES: "county files of the privacy-protected demonstration data of IPUMS NHGIS, as published "
        "(columns gisjoin, name, state, H7V001_dp, H7V001_sf): real errors are not shown",
    }
    return {name: text for name, text in absent.items() if not (folder and any(Path(folder).glob(name)))}


def counties(folder):
    """Read or simulate populations of counties within states."""
    if POPULATIONS not in missing_files(folder):
        rows = pd.read_csv(Path(folder, POPULATIONS), dtype={"fips": str})
        codes, states, persons = rows["fips"], rows["state"], rows["population"]
    else:
        rng = np.random.default_rng(17)
        sizes = rng.integers(3, 120, 51)
        persons = (rng.lognormal(10.3, 1.3, sizes.sum()) + 80).astype(np.int64)
        states = np.repeat([f"S{k:02d}" for k in range(51)], sizes)
        codes = [f"{k:05d}" for k in range(sizes.sum())]
    coords = {"county": list(codes), "state": ("county", list(states))}
    return xr.DataArray(np.asarray(persons, dtype=np.int64), dims="county", coords=coords)


def demonstration(folder, table):
    """Return errors of the demonstration files in a folder, by code of the county, or None without a file."""
    if missing_files(folder):
        return None
    read = xr.concat([read_demonstration(path, COUNT) for path in sorted(Path(folder).glob(FILES))], "county")
    codes, times = np.unique(read["county"].values, return_counts=True)
    for fault, found in (
        ("are in more than one demonstration file", codes[times > 1]),
        (f"of the demonstration files are not in {POPULATIONS}", np.setdiff1d(codes, table["county"])),
    ):
        if found.size:
            raise LabelError(f"{found.size} counties {fault}: {', '.join(found[:3])}")
    errors = (read["protected"] - read["summary"]).drop_vars(["name", "state"])
    return errors.assign_coords(state=("county", table["state"].sel(county=errors["county"]).values))


def by_category(table, rng):
    """Split every county into many categories, most of them nearly empty, like ages, races and origins."""
    shares = 0.6 ** np.arange(CATEGORIES)
    return np.stack([rng.multinomial(n, rng.dirichlet(2 * shares + 0.002)) for n in table.values])


def repaired(table, rng):
    """Return errors of county sums if noisy categories are truncated at 0 and the state total is then restored."""
    cells = by_category(table, rng)
    errors = np.empty(table.size)
    for state in np.unique(table["state"]):
        among = np.flatnonzero(table["state"].values == state)
        part = xr.DataArray(cells[among], dims=("county", "category"))
        public = ppd.invariants.total() & nonnegative()
        drawn = ppd.PostProcessed(public, EPSILON, "nonnegative").simulate(part, draws=1, rng=rng)
        errors[among] = (drawn[0] - part).sum("category")
    return table.copy(data=errors)


def slopes(errors, table):
    """Regress errors on log populations within every state with enough counties: slope and p-value."""
    found, sizes = {}, np.log(table.sel(county=errors["county"].values).values)
    for state in np.unique(errors["state"]):
        among = errors["state"].values == state
        if among.sum() > SMALLEST:
            line = stats.linregress(sizes[among], errors.values[among])
            found[str(state)] = (line.slope, line.pvalue)
    return pd.DataFrame(found, index=["slope", "p"], dtype=float).T


def common_slope(errors, table):
    """Regress errors on log populations with an intercept for each state: slope and p-value."""
    frame = pd.DataFrame({"x": np.log(table.sel(county=errors["county"].values).values), "y": errors.values})
    centred = frame - frame.groupby(errors["state"].values).transform("mean")
    line = stats.linregress(centred["x"], centred["y"])
    freedom = len(frame) - np.unique(errors["state"]).size - 1
    t = line.rvalue * (freedom / (1 - line.rvalue**2)) ** 0.5
    return line.slope, 2 * stats.t.sf(abs(t), freedom)


def show_demonstration(study, table, published, noise, projected):
    """Compare the errors of the demonstration files with noise in the same counties, state by state."""
    found, rows = slopes(published, table), {}
    for state, own in published.groupby("state"):
        here, wide = (each.sel(county=own["county"].values) for each in (noise, projected))
        rows[state] = {
            "counties": own.size, "sum of errors": int(own.sum()), "sd of errors": float(own.std()),
            "sd of integer noise": float(here.std()), "sd of projected noise": float(wide.std()),
            "slope": found["slope"].get(state, np.nan), "p": found["p"].get(state, np.nan),
        }  # fmt: skip
    rows = pd.DataFrame(rows).T.rename_axis("state")
    study.table(
        "demonstration", rows, "Errors of the demonstration files beside integer noise and the projected noise of "
        "Lemma 3.7, persons. Slope: change of an error if the population grows by a factor of e, with its p-value.",
    )  # fmt: skip
    study.claim(
        "the demonstration data keep the totals of states", SDP, "kept",
        f"{int((rows['sum of errors'] == 0).sum())} of {len(rows)} states", holds=not rows["sum of errors"].any(),
    )  # fmt: skip
    some, falling = significant(found)
    each = ", ".join(f"{state} {row.slope:.1f} (p = {row.p:.2f})" for state, row in found.head(3).iterrows())
    study.claim(
        "errors of the demonstration data fall with the size of the county", SDP, "37 of 48 slopes, 11 with p < 0.01",
        f"{int((found['slope'] < 0).sum())} of {len(found)} slopes, {some} with p < {LEVEL}: {each}",
        holds=if_enough(len(found) > 40, falling == some > 0.01 * len(found)), reason="the paper has 48 states",
    )  # fmt: skip
    slope, p = common_slope(published, table)
    study.claim("the common slope of these states is negative", "here", "negative",
                f"{slope:.1f} (p = {p:.3f})", holds=True if slope < 0 and p < 0.01 else None)  # fmt: skip
    wide = Estimate.of(np.std, published.values)
    study.claim(
        "projected noise spans a scale similar to that of the demonstration data", SDP, "similar",
        f"sd of the data {wide:.1f}, of the noise {float(projected.std()):.1f}",
        holds=(wide / Estimate(float(projected.std()))).within(0.5, 2),
        reason="the papers use the vintage of November 2020",
    )  # fmt: skip


def shown_states(table, published):
    """Return the states of the demonstration files, Illinois, and those with the most counties."""
    first = [] if published is None else np.unique(published["state"]).tolist()
    codes, sizes = np.unique(table["state"], return_counts=True)
    ranked = codes[np.argsort(-sizes, kind="stable")].tolist()
    return list(dict.fromkeys([*(["IL"] if "IL" in ranked else []), *first, *ranked]))[:SHOWN]


def show_states(study, table, noise, draws, published, rng):
    """Plot errors by county of eleven states: noise on the lattice, and projected, rounded, non-negative noise."""
    names = shown_states(table, published)
    part = table[np.isin(table["state"].values, names)]
    public = TOTALS & nonnegative()
    rounded = ppd.PostProcessed(public, EPSILON, "rounded").simulate(part, draws=draws, rng=rng) - part
    figure, panels = plt.subplots(4, 3, figsize=(12, 11), layout="constrained", sharey=True)
    ratios = []
    for axes, state in zip(panels.flat, names, strict=False):
        own = part[part["state"].values == state].sortby(part)
        places = np.arange(own.size)
        for shift, name, draw in (
            (-0.2, "integer noise with the total", noise),
            (0.2, "projected whole noise, rounded", rounded),
        ):
            low, lower, upper, high = np.quantile(
                draw.sel(county=own["county"].values), [0.005, 0.25, 0.75, 0.995], axis=0
            )
            axes.vlines(places + shift, low, high, color=LOOKS[name], linewidth=0.5)
            axes.vlines(places + shift, lower, upper, color=LOOKS[name], linewidth=1.3, label=name)
        ratios.append(
            float(rounded.sel(county=own["county"].values).std() / noise.sel(county=own["county"].values).std())
        )
        here = (
            np.array([])
            if published is None
            else np.flatnonzero(np.isin(own["county"].values, published["county"].values))
        )
        if here.size:
            real = published.sel(county=own["county"].values[here]).values
            axes.plot(here, real, ".", color="#000000", markersize=4, label="demonstration data")
        axes.set_title(f"{state}, {own.size} counties", fontsize=10, loc="left")
        axes.axhline(0, color="black", linewidth=0.5)
        axes.set_xticks([])
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[:, 0]:
        axes.set_ylabel("error, persons")
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    labels = {}
    for axes in panels.flat:
        labels |= {text: handle for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(labels.values(), labels.keys(), frameon=False, loc="outside lower center", ncols=3)
    study.figure(
        "states", figure, f"Errors of county populations in {len(names)} states, {draws} draws, counties in the order "
        "of their population: quartiles (thick) and 99 % of draws (thin). Double geometric noise that is projected, "
        "rounded and non-negative has nearly the same boxes as noise on the lattice of the totals.",
    )  # fmt: skip
    plt.close(figure)
    study.claim(
        "projected, rounded, non-negative noise has the spread of noise on the lattice, state by state", f"{ISDP}, E.4",
        "boxes overlap", f"ratio of standard deviations {min(ratios):.2f} to {max(ratios):.2f}",
        holds=0.9 < min(ratios) <= max(ratios) < 1.1,
    )  # fmt: skip


def significant(found):
    """Count states with a significant slope, and those with a negative one."""
    some = found[found["p"] < LEVEL]
    return len(some), int((some["slope"] < 0).sum())


def show(study, table, errors, state):
    """Draw the errors of one state's counties by size, and the slopes of all states."""
    own = table[table["state"].values == state].sortby(table)
    places = pd.Series(np.arange(own.size), own["county"].values)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", width_ratios=[1.6, 1])
    noise = errors["integer noise with the total"].sel(county=own["county"].values).values
    thin = {"linewidth": 0.4}
    left.boxplot(
        noise, positions=places, widths=0.7, whis=(0.5, 99.5), showfliers=False, patch_artist=True,
        boxprops={"facecolor": "#CFE3F1"} | thin, medianprops={"color": "#0072B2"}, whiskerprops=thin, capprops=thin,
    )  # fmt: skip
    for name in ("truncated at 0, then repaired", "demonstration data"):
        if name in errors:
            shown = errors[name][0, errors[name]["state"].values == state]
            left.plot(places[shown["county"].values], shown, ".", color=LOOKS[name], label=f"{name}, one release")
    left.plot(
        [], [], "s", color="#CFE3F1", markeredgecolor="black", label="integer noise with the total, 99 % of draws"
    )
    ticks = np.linspace(0, own.size - 1, 5).astype(int)
    left.set_xticks(ticks, [f"{own.values[k]:,}" for k in ticks])
    left.axhline(0, color="black", linewidth=0.6)
    left.set(xlabel=f"population of the counties of {state}, in order", ylabel="error, persons")
    left.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=1)
    for row, (name, drawn) in enumerate(errors.items()):
        found = slopes(drawn[0], table)
        sure = found["p"] < LEVEL
        shift = np.random.default_rng(row).uniform(-0.25, 0.25, len(found))
        right.plot(found["slope"][~sure], (row + shift)[~sure], "o", mfc="none", color=LOOKS[name], markersize=4)
        right.plot(found["slope"][sure], (row + shift)[sure], "o", color=LOOKS[name], markersize=4)
    right.axvline(0, color="black", linewidth=0.6)
    right.set_yticks(range(len(errors)), [name.replace(", ", ",\n") for name in errors])
    right.set(xlabel="slope in log population, persons;\na circle a state, filled: p < 0.01")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    study.figure(
        "counties", figure,
        f"Left: errors of county populations in {state} at epsilon = {EPSILON}. Noise that keeps the state total is "
        "centred on 0 for counties of all sizes; categories truncated at 0 and then fitted to the total lift small "
        "counties and lower large ones. Right: the same for all states, by the slope of their errors.",
    )  # fmt: skip
    plt.close(figure)


def main(output, *, quick=False, data=None, seed=1):
    """Compare four methods of publication under state totals; write page, tables and figure to a folder."""
    folder = public_folder() if data is None else Path(data)
    missing = missing_files(folder)
    table, real = counties(folder), POPULATIONS not in missing
    published = demonstration(folder, table)
    study = Study(
        "County populations given state totals", output,
        about=f"{table.size:,} counties {'of 2010' if real else '(simulated)'}, epsilon = {EPSILON} per person, "
        "all state totals exact.", settings={"quick": quick, "seed": seed, "real": real},
    )  # fmt: skip
    rng, draws = np.random.default_rng(seed), 100 if quick else DRAWS
    exact = ppd.GeneralizedLaplace(TOTALS, epsilon=EPSILON)
    exact.simulate(table, draws=1, rng=rng)  # compile kernels
    start = time.perf_counter()
    noise = exact.simulate(table, draws=draws, rng=rng) - table
    seconds = (time.perf_counter() - start) / draws
    projected = ppd.SubspaceLaplace(
        TOTALS, epsilon=2 * Fraction(EPSILON)
    )  # between tables in which one person is replaced
    rounded = ppd.PostProcessed(TOTALS, EPSILON, "rounded")
    errors = {
        "integer noise with the total": noise,
        "projected Laplace noise": projected.simulate(table, draws=20, rng=rng) - table,
        "projected whole noise, rounded": rounded.simulate(table, draws=20, rng=rng) - table,
        "truncated at 0, then repaired": repaired(table, rng).expand_dims("draw"),
        # a replaced person changes two counts, so that the scale of the lemma is 2 / epsilon
        "projected Laplace noise, Lemma 3.7": ppd.SubspaceLaplace(TOTALS, epsilon=EPSILON).simulate(
            table, draws=20, rng=rng
        )
        - table,
    }  # fmt: skip
    if published is not None:
        errors["demonstration data"] = published.expand_dims("draw")
    sums = noise.groupby("state").sum("county")
    study.claim(
        "every state total is kept in every draw",
        ISDP,
        "51 states",
        f"{sums.sizes['state']} states",
        holds=not sums.values.any(),
    )
    noise = noise.values
    within = Estimate.of(np.mean, abs(noise) <= 30)
    study.claim("nearly all errors lie in [-30, 30]", ISDP, "nearly all", f"{within:.2%}", holds=within.above(0.99))
    negative = int((noise + table.values < 0).sum())
    study.claim("no draw has a negative county", ISDP, f"0 of {DRAWS}", f"{negative} of {draws}",
                holds=every(negative == 0, if_enough(False, draws >= DRAWS)))  # fmt: skip
    error = noise.std() / draws**0.5
    worst = np.abs(noise.mean(axis=0)).max() / error
    limit = stats.norm.isf(0.0005 / table.size)
    study.claim(
        "no county is biased", ISDP, "unbiased", f"largest of {table.size:,} mean errors: {worst * error:.2f} persons, "
        f"{worst:.1f} standard errors", holds=every(worst < limit, if_enough(False, (worst + 3) * error < 2)),
    )  # fmt: skip
    rows = []
    for name, drawn in errors.items():
        some, falling = significant(slopes(drawn[0], table))
        states = len(slopes(drawn[0], table))
        rows.append(
            {"way": name, "sd of an error": float(drawn.std()), "states whose error changes with size": some,
             "of these falling": falling, "of": states}
        )  # fmt: skip
    compared = pd.DataFrame(rows).set_index("way")
    study.table("ways", compared, f"Slopes of one release's errors in log population, states with p < {LEVEL}.")
    changing = compared["states whose error changes with size"]
    chance = int(stats.binom.isf(0.001, rows[0]["of"], LEVEL))
    study.claim(
        "errors that keep sums by construction do not change with the size of the county", f"{ISDP}, {SDP}",
        "no trend", f"{changing.iloc[0]} and {changing.iloc[1]} of {rows[0]['of']} states",
        holds=changing.iloc[:2].max() <= chance, reason=f"up to {chance} by chance in 999 of 1,000 runs",
    )  # fmt: skip
    some, falling = rows[3]["states whose error changes with size"], rows[3]["of these falling"]
    study.claim(
        "truncation at 0 lowers large counties", SDP, "11 of 48 states, all falling",
        f"{some} of {rows[3]['of']} states, {falling} falling", holds=some > chance and falling == some,
        reason="one release; the categories of a county are simulated",
    )  # fmt: skip
    whole, real_valued = (Estimate.of(np.std, each.values) for each in list(errors.values())[:2])
    study.claim(
        "noise of the integers is about as large as projected noise", ISDP, "boxes overlap",
        f"sd {whole:.2f} and {real_valued:.2f}", holds=(whole / real_valued).within(0.9, 1.1),
    )  # fmt: skip
    study.text(
        f"One draw of all {table.size:,} counties took {1000 * seconds:.2f} ms; the papers' chain runs 10^6 iterations "
        "of burn-in for each state.", heading="Cost",
    )  # fmt: skip
    shown = np.unique(table["state"] if published is None else published["state"])
    show(study, table, errors, "IL" if "IL" in shown else str(shown[0]))
    if published is not None:
        drawn = (errors[name] for name in ("integer noise with the total", "projected Laplace noise, Lemma 3.7"))
        show_demonstration(study, table, published, *drawn)
    show_states(study, table, errors["integer noise with the total"], draws, published, rng)
    if missing:
        study.text("; ".join(f"{name}: {text}" for name, text in missing.items()) + ".", heading="Missing files")
    study.write()
