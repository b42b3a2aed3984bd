"""County populations given state totals: noise that preserves totals, and truncation at zero.

Run with ``ppdinf reproduce county_census``. Populations are those of 2010 in ``county_population_2010.csv`` of the
folder of PPDINF_DATA (or ``--data``), otherwise simulated. If the folder contains county files of IPUMS NHGIS's
privacy-protected demonstration data (``nhgis*county*.csv``), of the nation or of some states, their errors are also
shown.

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
    "demonstration data": "#000000",
}
FILES = "nhgis*county*.csv"
COUNT = "H7V001"  # total population in the November 2020 vintage


def counties(folder):
    """Read or simulate populations of counties within states."""
    if folder:
        rows = pd.read_csv(Path(folder, "county_population_2010.csv"), dtype={"fips": str})
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
    files = [read_demonstration(path, COUNT) for path in sorted(Path(folder).glob(FILES))] if folder else []
    if not files:
        return None
    read = xr.concat(files, "county")
    codes, times = np.unique(read["county"].values, return_counts=True)
    for fault, found in (
        ("are in more than one demonstration file", codes[times > 1]),
        ("of the demonstration files are not in county_population_2010.csv", np.setdiff1d(codes, table["county"])),
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
    found, sizes = {}, np.log10(table.sel(county=errors["county"].values).values)
    for state in np.unique(errors["state"]):
        among = errors["state"].values == state
        if among.sum() > 2:
            line = stats.linregress(sizes[among], errors.values[among])
            found[str(state)] = (line.slope, line.pvalue)
    return pd.DataFrame(found, index=["slope", "p"], dtype=float).T


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
    right.set(xlabel="slope in log10 population, persons;\na circle a state, filled: p < 0.01")
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
    table, real = counties(folder), folder is not None
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
    study.write()
