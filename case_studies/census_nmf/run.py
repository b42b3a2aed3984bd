"""Noisy measurement files of the census: housing units of a state to the block, persons of counties and tracts, rates.

Run with ``ppdinf reproduce census_nmf`` (it needs ``ppdinf[census]``). No census file is included: a simulated state
is written in the census schema, with the variances of production, and read back. The shares of the budget of units by
level are assumed to be those of persons.

The study compares the posterior, weighted least squares of all noisy values clipped to the possible range, and noisy
values of single cells treated as true.
"""

import tempfile
import time
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import scipy.sparse as sp
import xarray as xr
from scipy.stats import norm

import ppdinf as ppd
from ppdinf.census import PERSONS, PERSONS_2020, UNITS_2020, read_nmf, read_occupied, simulate_nmf

from .._shared.estimates import Estimate, every
from .._shared.study import Study
from . import rates as rate_models

TAKES = "20 min"
WIDTHS = {"US": 0, "State": 3, "County": 8, "Tract": 13, "Block_Group": 15}
LEVEL, Z = 0.9, norm.isf(0.05)
WAYS = {"posterior": "#0072B2", "least squares": "#E69F00", "finest values": "#D55E00"}


def state(rng, counties, tracts=6):
    """Return occupied and vacant units in blocks of a simulated state; vacancy varies by tract and block."""
    blocks = []
    for county in range(1, counties + 1):
        for tract in range(1, rng.poisson(tracts) + 2):
            for group in range(1, rng.poisson(2) + 2):
                for block in range(rng.poisson(15) + 1):
                    place = f"44{county:03d}{tract:06d}{group}{1000 * group + block:04d}"
                    blocks.append(f"044{county:05d}{tract:05d}{group:02d}{place}")
    units = np.where(rng.random(len(blocks)) < 0.3, 0, rng.negative_binomial(0.8, 0.8 / 30.8, len(blocks)))
    tracts = np.unique([code[:13] for code in blocks], return_inverse=True)[1]
    share = rng.beta(18, 2, tracts.max() + 1)[tracts]
    occupied = rng.binomial(units, rng.beta(10 * share, 10 * (1 - share)))
    return xr.DataArray(np.stack([units - occupied, occupied], axis=1),
                        coords={"block": blocks, "h1": ["vacant", "occupied"]})  # fmt: skip


def least_squares(seen, low, high):
    """Return weighted least squares and standard deviations of every cell, clipped to the possible range."""
    entries = seen.entries
    weight = np.empty(entries.y.size)
    for form, rows in entries.forms:
        weight[rows] = 1 / float(form.law.variance)
    Q = entries.matrix.astype(float)
    precision = sp.csc_array(Q.T @ sp.diags_array(weight) @ Q)
    covariance = np.linalg.inv(precision.toarray())
    return np.clip(covariance @ (Q.T @ (weight * entries.y)), low, high), np.sqrt(np.diag(covariance))


def root_mean_square(errors):
    """Return the root of the mean square."""
    return np.sqrt(np.mean(errors**2))


def judged(truth, ways):
    """Return error and coverage of every analysis: ``{way: (estimate, lower, upper)}``."""
    return pd.DataFrame(
        {
            way: {
                "root mean square error": np.sqrt(np.mean((estimate - truth) ** 2)),
                "mean absolute error": np.mean(abs(estimate - truth)),
                f"coverage at {LEVEL}": np.mean((lower <= truth) & (truth <= upper)),
                "width of the intervals": np.mean(upper - lower),
            }
            for way, (estimate, lower, upper) in ways.items()
        }
    ).T


def around(estimate, sd, low=0, high=np.inf):
    """Return the interval of a normal estimate, clipped to the possible range."""
    return estimate, np.clip(np.ceil(estimate - Z * sd), low, high), np.clip(np.floor(estimate + Z * sd), low, high)


def finest(seen):
    """Return noisy values of single cells, and their standard deviations: the mean if a cell has several values."""
    entries, d = seen.entries, seen.frame.size
    total, weight = np.zeros(d), np.zeros(d)
    alone = np.diff(entries.matrix.indptr) == 1
    for form, rows in entries.forms:
        own = rows[alone[rows]]
        cells = entries.matrix.indices[entries.matrix.indptr[own]]
        np.add.at(total, cells, entries.y[own] / float(form.law.variance))
        np.add.at(weight, cells, 1 / float(form.law.variance))
    return total / weight, weight**-0.5


def housing(study, rng, *, quick):
    """Analyse occupied units of a state by block."""
    table = state(rng, 1 if quick else 4)
    with tempfile.TemporaryDirectory() as root:
        simulate_nmf(table, UNITS_2020, root, "US_Unit_PL_PROD", WIDTHS, rng=rng)
        start = time.perf_counter()
        seen = read_occupied(root)
        reading = time.perf_counter() - start
    units = seen.frame.coords["units"][1]
    truth = table.sel(h1="occupied", block=seen.coords["block"]).values
    start = time.perf_counter()
    with pm.Model(coords=seen.coords):
        mean, size = pm.Beta("mean", 9, 1), pm.Gamma("size", 2, 0.1)
        data = pm.BetaBinomial.dist(alpha=mean * size, beta=(1 - mean) * size, n=units)
        ppd.PartiallyPrivate("occupied", data, release=seen, marginalize=True)
        draws, tune = (60, 60) if quick else (120, 80)
        idata = pm.sample(draws, tune=tune, chains=2, cores=2, random_seed=1, progressbar=False)
        drawn = ppd.sample_confidential(idata, random_seed=1)
    seconds = time.perf_counter() - start
    x = drawn.values.reshape(-1, units.size)
    tail = (1 - LEVEL) / 2
    exact = x.mean(axis=0), *np.quantile(x, [tail, 1 - tail], axis=0, method="closest_observation")
    plain = least_squares(seen, 0, units)
    noisy = finest(seen)
    ways = {
        "posterior": exact, "least squares": around(*plain, 0, units),
        "finest values": around(np.clip(noisy[0], 0, units), noisy[1], 0, units),
    }  # fmt: skip
    found = judged(truth, ways)
    study.table("units", found, f"Occupied units of {units.size:,} blocks with units, {table.sizes['block']:,} in all.")
    held = bool(((x >= 0) & (x <= units)).all())
    study.claim(
        "every draw is between 0 and the units of its block", "here", "always", f"{x.shape[0]} draws", holds=held
    )
    by = xr.DataArray(x, dims=("draw", "block"), coords={"block": seen.coords["block"]})
    tracts = np.array([code[:13] for code in seen.coords["block"]])
    among = by.assign_coords(tract=("block", tracts)).groupby("tract").sum()
    true_of = pd.Series(truth).groupby(tracts).sum().to_numpy()
    lower, upper = np.quantile(among.transpose("draw", "tract").values, [tail, 1 - tail], axis=0)
    cover = np.mean((lower <= true_of) & (true_of <= upper))
    error = {way: Estimate.of(root_mean_square, estimate - truth) for way, (estimate, *_) in ways.items()}
    least = Estimate.share((exact[1] <= truth) & (truth <= exact[2]))
    study.claim(
        "the posterior is nearer to the truth than least squares, and that than noisy values", "here", "smaller error",
        " and ".join(f"{error[way]:.2f}" for way in WAYS) + " units",
        holds=every(*((error[b] - error[a]).above(0) for a, b in pairwise(WAYS))),
    )  # fmt: skip
    study.claim(
        "intervals of blocks have at least nominal coverage (counts are integers)", "here", f"{LEVEL}", f"{least:.3f}",
        holds=least.above(LEVEL - 0.05),
    )  # fmt: skip
    study.text(
        f"Reading {reading:.1f} s; sampling {draws} draws of 2 chains after {tune} {seconds:.0f} s. Totals of "
        f"{true_of.size} tracts are covered {cover:.2f} of the time.", heading="Housing units",
    )  # fmt: skip
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for way, values in (("least squares", plain[0]), ("posterior", exact[0])):
        left.plot(truth, values, ".", color=WAYS[way], markersize=3, alpha=0.6, label=way)
    end = units.max()
    left.plot([0, end], [0, end], color="black", linewidth=0.6)
    left.set(xlabel="occupied units of a block, true", ylabel="estimate")
    left.legend(frameon=False)
    right.barh(list(WAYS), [float(error[way]) for way in WAYS], color=list(WAYS.values()))
    right.set(xlabel="root mean square error of a block, units")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    study.figure("units", figure, "Occupied housing units of blocks: estimates against the truth, and their errors.")
    plt.close(figure)


QUERIES = " * ".join(PERSONS.names)
GEOUNITS = {"County": ("04410007", 12_000), "Tract": ("0441000700101", 4000)}  # code and persons
FILES = 50
SIZES = ("0", "1 to 5", "6 to 50", "over 50")


def people(rng, level):
    """Draw persons of a geounit by residence, voting age, ethnicity and race, most cells empty; and its facilities."""
    code, total = GEOUNITS[level]
    race = np.concatenate([[0.62, 0.12, 0.01, 0.06, 0.002, 0.09], 0.1 * rng.dirichlet(np.full(57, 0.15))])
    facilities = np.zeros((1, PERSONS.shape[0]), dtype=np.int64)
    facilities[0, 3] = 2  # nursing homes
    residence = np.where(facilities[0] > 0, 0.03, 0.0)
    residence[0] = 0.97
    shares = np.einsum("g,a,h,r->gahr", residence, [0.22, 0.78], [0.84, 0.16], race / race.sum())
    shares = shares * np.exp(0.4 * rng.standard_normal(shares.shape))
    shares[3, 0] = 0  # nobody under 18 in nursing homes
    table = rng.multinomial(total, (shares / shares.sum()).ravel()).reshape(1, *shares.shape)
    labels = {axis.name: list(axis.labels) for axis in PERSONS.axes}
    kinds = {level.lower(): [code], "hhgq": labels["hhgq"]}
    return xr.DataArray(table, coords={level.lower(): [code], **labels}), xr.DataArray(facilities, coords=kinds)


def one_file(rng, k, draws):
    """Return answers to every query and three analyses of one geounit: counties and tracts alternate."""
    level = list(GEOUNITS)[k % 2]
    table, facilities = people(rng, level)
    with tempfile.TemporaryDirectory() as root:
        folder = root, "US_Person_PL_PROD"
        simulate_nmf(table, PERSONS_2020, *folder, {}, leaf=level, facilities=facilities, rng=rng)
        seen = read_nmf(*folder, PERSONS)
    possible = ~seen.public.empty
    cells = table.values.ravel()[possible]
    posterior = ppd.denoise(seen, draws=draws, tune=draws, chains=1, rng=rng, progressbar=False)
    drawn = posterior.draws.values.reshape(draws, -1)[:, possible]
    fit, covariance = fitted(seen, possible)
    noisy, sd = (value[possible] for value in finest(seen))
    found = []
    for part, stated in zip(seen.parts, seen.stated, strict=True):
        Q = part.matrix[:, possible]
        truth, x = Q @ cells, drawn @ Q.T
        ways = {
            "posterior": (x.mean(axis=0), *np.quantile(x, [0.05, 0.95], axis=0, method="closest_observation")),
            "least squares": around(np.maximum(Q @ fit, 0), np.sqrt(Q.multiply(Q @ covariance).sum(axis=1))),
            "finest values": around(np.maximum(Q @ noisy, 0), np.sqrt(Q @ sd**2)),
        }
        for way, (estimate, lower, upper) in ways.items():
            own = {"level": level, "query": " * ".join(stated.values.dims[1:]) or "total", "way": way, "truth": truth}
            own |= {"error": estimate - truth, "inside": (lower <= truth) & (truth <= upper)}
            found.append(pd.DataFrame(own)[np.diff(Q.indptr) > 0])
    return pd.concat(found)


def fitted(seen, possible):
    """Return weighted least squares of all queries, with covariance, without structural zeros."""
    entries = seen.entries
    weight = np.empty(entries.y.size)
    for form, rows in entries.forms:
        weight[rows] = 1 / float(form.law.variance)
    Q = entries.matrix[:, possible].astype(float)
    covariance = np.linalg.inv((Q.T @ sp.diags_array(weight) @ Q).toarray())
    return covariance @ (Q.T @ (weight * entries.y)), covariance


def by(found, *names):
    """Return root mean square error and coverage of the three analyses, in columns."""
    groups = found.groupby([*names, "way"], sort=False)
    both = pd.DataFrame({
        "numbers": groups.size(), "error": groups["error"].agg(lambda e: np.sqrt(np.mean(e**2))),
        "coverage": groups["inside"].mean(),
    }).unstack("way")  # fmt: skip
    flat = {f"{way}: {name}": both[name][way] for way in WAYS for name in ("error", "coverage")}
    return pd.DataFrame({"numbers": both["numbers"]["posterior"], **flat})


def persons(study, *, quick, workers):
    """Analyse persons of counties and tracts by eleven overlapping queries, with zeros and bounds."""
    number, draws = (2, 60) if quick else (FILES, 150)
    runs = study.replicates(lambda rng, k: one_file(rng, k, draws), number, name="file", workers=workers, progress=True)
    found = pd.concat(runs, keys=range(number), names=["file"])
    found["size"] = pd.cut(found["truth"], [-1, 0, 5, 50, np.inf], labels=SIZES).astype(str)
    detailed = found[found["query"] == QUERIES]
    sizes, queries = by(detailed, "level", "size"), by(found, "level", "query")
    large = by(detailed[detailed["truth"] > 5].assign(size="over 5"), "level", "size")
    sizes = pd.concat([sizes, large]).reindex([*SIZES, "over 5"], level="size")
    about = (
        f"{number} files, counties of 12,000 persons and tracts of 4,000 in turn; {LEVEL} intervals, errors in persons."
    )
    study.table("sizes", sizes, f"Cells by their true size. {about}")
    study.table("queries", queries, f"Answers of every query. {about}")
    squares = (detailed["error"] ** 2).groupby([detailed["level"], "file", detailed["way"]]).mean().unstack("way")
    error = {
        level: {way: Estimate.of(lambda square: np.sqrt(square.mean()), own[way]) for way in WAYS}
        for level, own in squares.groupby("level")
    }
    study.claim(
        "the posterior of overlapping queries is nearer to the truth than clipped least squares and than the query of "
        "every cell taken as true", "here", "smaller error",
        "; ".join(f"{level}: {', '.join(f'{x:.2f}' for x in own.values())} persons" for level, own in error.items()),
        holds=every(*((own[way] - own["posterior"]).above(0) for own in error.values() for way in list(WAYS)[1:])),
    )  # fmt: skip
    inside = detailed[(detailed["truth"] > 5) & (detailed["way"] == "posterior")].groupby(["level", "file"])["inside"]
    above = {
        level: Estimate.of(lambda n: n[:, 0].sum() / n[:, 1].sum(), own)
        for level, own in inside.agg(["sum", "size"]).groupby("level")
    }
    study.claim(
        "intervals of cells above 5 have nominal coverage", "here", f"{LEVEL} +- 0.04",
        " and ".join(f"{share:.3f} ({level})" for level, share in above.items()),
        holds=every(*(share.within(LEVEL - 0.04, LEVEL + 0.04) for share in above.values())),
        reason="by true size: shrinkage towards a learned prior decreases cells of 6 to 50",
    )  # fmt: skip
    figure, both = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    own = sizes.xs("County", level="level").loc[list(SIZES)]
    for axes, column, unit in (
        (both[0], "coverage", f"coverage at {LEVEL}"),
        (both[1], "error", "root mean square error, persons"),
    ):
        for k, (way, color) in enumerate(WAYS.items()):
            axes.bar(np.arange(len(SIZES)) + 0.27 * (k - 1), own[f"{way}: {column}"], 0.25, color=color, label=way)
        axes.set_xticks(range(len(SIZES)), SIZES)
        axes.set(xlabel="true size of the cell of a county, persons", ylabel=unit)
        axes.spines[["top", "right"]].set_visible(False)
    both[0].axhline(LEVEL, color="black", linewidth=0.6)
    figure.legend(*both[1].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside upper center")
    study.figure("persons", figure, "Coverage of 90 % intervals, and errors, by true size of the cell of a county.")
    plt.close(figure)


def rates(study, *, quick, workers):
    """Analyse rates of an event among occupied units."""

    def estimates(seen, units):
        return {
            "least squares": least_squares(seen, 0, units)[0],
            "finest values": np.clip(finest(seen)[0], 0, units),
        }

    def one(rng, draws):
        return rate_models.one_file(rng, draws, state, WIDTHS, estimates)

    rate_models.rates(study, one, WAYS, quick=quick, workers=workers)


def main(output, *, quick=False, seed=1, workers=None):
    """Write and read files of a state, and compare estimates with the truth; page, tables and figures."""
    study = Study(
        "Noisy measurement files of the census", output,
        about="Simulated files with the variances of production: units to the block, persons of a county.",
        settings={"quick": quick, "seed": seed},
    )  # fmt: skip
    persons(study, quick=quick, workers=workers)
    housing(study, np.random.default_rng(seed), quick=quick)
    rates(study, quick=quick, workers=workers)
    study.write()
