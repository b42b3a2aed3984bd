"""Congenial differential privacy on sex by age tables: four methods of publication, with exact draws.

Run with ``ppdinf reproduce cdp``. With PPDINF_DATA (or ``--data``) table P12 of the 2010 census is also released.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, sections 3 and 4.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf._internal.rationals import as_fraction
from ppdinf.datasets.table_file import public_folder
from ppdinf.diagnostics import tv_bound
from ppdinf.invariants import Public, groups, margin, nonnegative, total
from ppdinf.laws import DoubleGeometric
from ppdinf.noise import IndependenceMetropolis
from ppdinf.noise.primitives.integers import draw_discrete_laplace
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.privacy.conditioning import conditioning_cost

from .._shared.estimates import Estimate, every, if_enough
from .._shared.study import Study

TAKES = "1 min"
CDP = "Congenial DP"
TABLES, RELEASES = 20, 100
AGES = [
    "<5", "6-10", "11-15", "16-17", "18-19", "20", "21", "22-24", "25-29", "30-34", "35-39", "40-44", "45-49", "50-54",
    "55-59", "60-61", "62-64", "65-66", "67-69", "70-74", "75-79", "80-84", "85+",
]  # fmt: skip
TABLE_1 = [
    [8, 6, 3, 6, 4, 4, 4, 8, 5, 7, 7, 6, 1, 5, 4, 4, 9, 6, 2, 8, 8, 8, 7],
    [3, 4, 5, 8, 6, 4, 5, 5, 5, 6, 10, 7, 3, 2, 5, 11, 6, 4, 7, 4, 5, 3, 8],
]
# Total, women, and adults; with the total, every sum by sex and by voting age follows.
PUBLIC = margin("sex") & groups("voting") & nonnegative()
BETAS = (0.5, 0.75, 1.0)
REACH = 400  # integers up to which the noise of a bin is enumerated
FREE = [*range(1, 22), *range(23, 45)]  # the paper's {2, ..., 22, 24, ..., 45}
METHODS = ["noise, epsilon 1", "projected, epsilon 1", "conditioned, epsilon 1/2", "noise, epsilon 1/2"]


def labelled(counts):
    """Return sex by age, with the voting age as a coordinate."""
    voting = ["minor"] * 4 + ["adult"] * 19
    return xr.DataArray(
        counts, dims=("sex", "age"), coords={"sex": ["female", "male"], "age": AGES, "voting": ("age", voting)}
    )


def conditioned(table, draws, rng):
    """Draw double geometric noise of rate 1/2 given public sums and no negative cell; exact, by elimination."""
    return ppd.Conditioned(PUBLIC, noise=ppd.mechanisms.DoubleGeometric("1/2")).simulate(table, draws=draws, rng=rng)


def released(table, method, releases, rng):
    """Draw releases of one table by one of the four methods."""
    if method == "conditioned, epsilon 1/2":
        return conditioned(table, releases, rng)
    if method == "projected, epsilon 1":
        return ppd.PostProcessed(PUBLIC, 1, "nonnegative").simulate(table, draws=releases, rng=rng)
    epsilon = 1 if method == "noise, epsilon 1" else "1/2"
    return ppd.GeneralizedLaplace(Public(), epsilon=epsilon).simulate(table, draws=releases, rng=rng)


def simulated(rng):
    """Draw tables with mean 5.26 and variance 5.54, success probability 0.95 in SciPy's parametrization."""
    for _ in range(TABLES):
        yield labelled(stats.nbinom(100, 0.95).rvs((2, 23), random_state=rng))


def counties(folder):
    """Read table P12 of the 2010 census for the smallest counties of Kentucky."""
    rows = pd.read_csv(Path(folder, "p12_sex_by_age_2010_ky_ca.csv")).query("state == 'KY'")
    wide = rows.pivot(index="county", columns="cell", values="sf1")
    wide = wide.sort_values("H76001").head(TABLES)
    for county in wide.index:
        male, female = ([wide.loc[county, f"H76{start + k:03d}"] for k in range(23)] for start in (3, 27))
        yield labelled([female, male])


def distances(tables, releases, rng):
    """Return average L1 and L2 distances of releases from each table, equation (3.1)."""
    rows = []
    for number, table in enumerate(tables):
        for method in METHODS:
            error = released(table, method, releases, rng.spawn(1)[0]) - table
            l1 = float(abs(error).sum(("sex", "age")).mean())
            l2 = float(np.sqrt((error**2).sum(("sex", "age"))).mean())
            rows.append({"table": number, "method": method, "L1": l1, "L2": l2})
    return pd.DataFrame(rows)


def chain(rates, iterations=500_000):
    """Run the published chain on the published table: acceptance and mean L1 distance by rate of its proposals.

    The acceptance is also computed without a chain: the mean of min(1, w(z') / w(z)) over exact draws z and
    independent proposals z', where w is the ratio of target and proposal.
    """
    table = labelled(np.array(TABLE_1))
    system = PUBLIC.on(table)
    counts = system.cells(table)
    draws = conditioned(table, 5000, np.random.default_rng(3)).values.reshape(5000, -1) - counts
    rows = []
    for rate in rates:
        _, published = published_chain(rate)
        noise, accepted = published.draw(iterations // 10, thin=10, chains=4, rng=1)
        prepared = published.system
        l1 = np.abs(noise).sum(axis=2).mean(axis=1)

        proposed = np.zeros((iterations // 2, 46), dtype=np.int64)
        words = draw_discrete_laplace(as_fraction(rate, "rate"), proposed.shape[0] * len(FREE), seeded_stream(5))
        proposed[:, prepared.free] = words.reshape(-1, len(FREE))
        proposed[:, prepared.solved] = proposed[:, prepared.free] @ prepared.factors.T // prepared.divisor
        feasible = proposed[(proposed >= -counts).all(axis=1)]
        candidate, current = (weight(z, prepared) for z in (feasible, draws))
        current.sort()
        below = np.searchsorted(current, candidate, side="right")
        inverse = np.append(np.cumsum(1 / current[::-1])[::-1], 0.0)  # sums of 1 / w over the larger weights
        ratios = (below + candidate * inverse[below]) / current.size
        rows.append(
            {
                "rate": rate,
                "acceptance": accepted.mean(),
                "without a chain": ratios.mean() * len(feasible) / len(proposed),
                "L1": l1.mean(),
                "L1 error": l1.std(ddof=1) / 2,
            }
        )
    exact = np.abs(draws).sum(axis=1)
    return pd.DataFrame(rows), exact.mean(), exact.std() / np.sqrt(exact.size)


def weight(z, prepared):
    """Return the ratio of target and proposal at noise z, shape (n, 46)."""
    return np.exp(prepared.rate * np.abs(z[:, prepared.free]).sum(axis=1) - prepared.scale * np.abs(z).sum(axis=1))


def two_bins(epsilon=0.1, draws=40_000):
    """Return mean and variance of the first bin of (12, 40) with a public total; variances in units of 1/epsilon**2."""
    table, rate = np.array([12, 40]), epsilon / 2
    ways = {
        "conditioned": ppd.GeneralizedLaplace(total(), epsilon=rate),
        "projected": ppd.PostProcessed(total(), rate, "l2"),
        "projected, no negative cell": ppd.PostProcessed(total(), rate, "nonnegative"),
    }
    u = (ppd.GeneralizedLaplace(Public(), epsilon=rate).simulate(table, draws=draws, rng=5) - table).values
    firsts = {name: mechanism.simulate(table, draws=draws, rng=4).values[:, 0] for name, mechanism in ways.items()}
    # f_L1: the released bin lies between s1 + u1 and n - (s2 + u2), with the weight beta
    firsts |= {f"projected in L1, beta {beta:g}": 12 + beta * u[:, 0] - (1 - beta) * u[:, 1] for beta in BETAS}
    rows = {}
    for name, first in firsts.items():
        rows[name] = {
            "mean": first.mean(), "error": first.std() / draws**0.5, "variance": first.var() * epsilon**2,
            "its error": Estimate.of(np.var, first).error * epsilon**2,
        }  # fmt: skip
    return pd.DataFrame(rows).T


def levels(epsilon=0.5, draws=400_000):
    """Return the privacy loss of the two bins when one person changes bins: enumerated, and the largest simulated.

    The noise has rate epsilon / 2 in each bin. Conditioned on the total, that of the first bin has rate epsilon.
    Projected, it is half the difference of both bins' noise, which one person changes by two.
    """
    wide = np.arange(-400, 401)
    one = np.exp(-epsilon / 2 * np.abs(wide))
    laws = {"conditioned": (one**2, 1), "projected": (np.convolve(one, one), 2)}
    ways = {
        "conditioned": ppd.GeneralizedLaplace(total(), epsilon=str(epsilon / 2)),
        "projected": ppd.PostProcessed(total(), str(epsilon / 2), "l2"),
    }
    rows = {}
    for name, (weights, shift) in laws.items():
        kept = weights[weights > weights.max() * 1e-30]
        seen = ways[name].simulate(np.array([12, 40]), draws=draws, rng=6).values[:, 0]
        counts = np.bincount(np.round(shift * (seen - 12)).astype(np.int64) + 400, minlength=801)[:801].astype(float)
        often = (counts[shift:] > 1000) & (counts[:-shift] > 1000)
        loss = np.abs(np.log(counts[shift:][often] / counts[:-shift][often]))
        rows[name] = {
            "stated": epsilon,
            "enumerated": np.abs(np.log(kept[shift:] / kept[:-shift])).max(),
            "simulated": loss.max(),
            "its standard error": np.sqrt(1 / counts[shift:][often] + 1 / counts[:-shift][often])[loss.argmax()],
        }
    return pd.DataFrame(rows).T


def l1_levels(epsilon=0.5):
    """Return the privacy loss of beta u_1 + (1 - beta) u_2 when one person changes bins, noise of rate epsilon / 2.

    The density of continuous noise is (A.1), in the limit (A.2) for beta = 1/2. The integer law is enumerated: four
    times the released bin is 4 s_1 + 4 beta u_1 + 4 (1 - beta) u_2, which one person changes by 4.
    """
    t, rate, wide = np.linspace(-400, 400, 80_001), epsilon / 2, np.arange(-REACH, REACH + 1)
    one = np.exp(-rate * np.abs(wide))
    rows = {}
    for beta in BETAS:

        def density(t, beta=beta):
            if beta == 0.5:
                return (1 + epsilon * np.abs(t)) * np.exp(-epsilon * np.abs(t))
            rest = (1 - beta) * np.exp(-rate / (1 - beta) * np.abs(t)) if beta < 1 else 0.0
            return beta * np.exp(-rate / beta * np.abs(t)) - rest

        parts = int(4 * beta), int(4 * (1 - beta))
        law = np.zeros(8 * REACH + 1)
        np.add.at(law, (parts[0] * wide[:, None] + parts[1] * wide + 4 * REACH).ravel(), np.outer(one, one).ravel())
        near = np.arange(-REACH, REACH + 1) + 4 * REACH
        near = near[(law[near] > 0) & (law[near - 4] > 0)]
        rows[f"{beta:g}"] = {
            "stated": epsilon / (2 * max(beta, 1 - beta)),
            "continuous noise": np.abs(np.log(density(t) / density(t - 1))).max(),
            "integer noise": np.abs(np.log(law[near] / law[near - 4])).max(),
        }
    return pd.DataFrame(rows).T.rename_axis("beta")


def published_chain(rate):
    """Return the paper's Table 1 and the published chain for its public sums and bounds."""
    table = labelled(np.array(TABLE_1))
    system = PUBLIC.on(table)
    bounds = {"B": np.eye(46, dtype=int), "limits": -system.cells(table)}
    return table, IndependenceMetropolis(system.A, DoubleGeometric("1/2"), rate, free=FREE, **bounds)


def traces(study, exact, iterations):
    """Plot the published chain on its table: two of its cells, and the L1 distance at two rates of its proposals."""
    figure, panels = plt.subplots(2, 1, figsize=(7.5, 4.2), sharex=True, sharey=True, layout="constrained")
    cells, sides = plt.subplots(1, 2, figsize=(7.5, 2.6), sharex=True, sharey=True, layout="constrained")
    for axes, rate in zip(panels, (0.6, 0.9), strict=True):
        table, published = published_chain(rate)
        noise, accepted = published.draw(iterations, rng=2)
        for side, cell, what in ((0, 1, "in the index set"), (1, 0, "solved")) if rate == 0.6 else ():
            sides[side].plot(table.values.ravel()[cell] + noise[0, :, cell], lw=0.8, color="#0072B2")
            sides[side].axhline(table.values.ravel()[cell], color="#D55E00", lw=1, ls="--")
            sides[side].set_title(f"{AGES[cell]}, female: {what}", fontsize=10)
            sides[side].set(xlabel="iteration", ylabel="count")
        axes.plot(np.abs(noise[0]).sum(axis=1), lw=0.8, color="#0072B2", label="chain")
        axes.axhline(exact, color="#D55E00", lw=1, ls="--", label="mean of exact draws")
        axes.set_title(f"proposals of rate {rate}: {accepted[0]:.2%} accepted", fontsize=10)
        axes.set_ylabel("L1 distance, persons")
        axes.spines[["top", "right"]].set_visible(False)
    panels[1].set_xlabel("iteration")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=2, loc="outside upper right")
    study.figure("traces", figure, "The published chain on the paper's Table 1: horizontal stretches are refusals.")
    for side in sides:
        side.spines[["top", "right"]].set_visible(False)
    study.figure(
        "cells", cells,
        "Figure 3: the second cell of the table, which proposals draw, and the first, which is solved. Proposals have "
        "the rate 0.6; the confidential count is dashed.",
    )  # fmt: skip
    plt.close("all")


def boxes(axes, found, title, named, norm="L1"):
    """Draw boxes of average distances, one per method."""
    parts = [found.loc[found["method"] == method, norm] for method in METHODS[::-1]]
    axes.boxplot(parts, orientation="horizontal", widths=0.6, medianprops={"color": "#0072B2"})
    axes.set_yticks(range(1, 5), METHODS[::-1] if named else [""] * 4)
    axes.set(xlabel=f"average {norm} distance, persons", title=title)
    axes.spines[["top", "right"]].set_visible(False)


def main(output, *, quick=False, data=None, seed=2020):
    """Compare four methods of publication, and chain and exact draws; write page, tables and figures to a folder."""
    folder = public_folder() if data is None else Path(data)
    study = Study(
        "Conditioning against projection on sex by age tables", output,
        about="2 sexes by 23 ages; public are the total, the number of women, the number of adults, and that no "
        "count is negative.", settings={"quick": quick, "seed": seed, "real": bool(folder)},
    )  # fmt: skip
    rng, releases = np.random.default_rng(seed), 20 if quick else RELEASES
    found = {"simulated": distances(simulated(rng), releases, rng)}
    if folder:
        found["Kentucky, 2010"] = distances(counties(folder), releases, rng)
    for source, rows in found.items():
        means = rows.groupby("method", sort=False)[["L1", "L2"]].agg(["mean", "min", "max"])
        means.columns = [f"{norm}, {what}" for norm, what in means.columns]
        study.table(
            f"distances_{source.split(',')[0].lower()}", means, f"Distances of releases, persons; tables: {source}."
        )
        l1 = {method: Estimate.of(np.mean, own["L1"]) for method, own in rows.groupby("method", sort=False)}
        plain, projected, conditioned_half, half = (l1[method] for method in METHODS)
        study.claim(
            f"conditioned at 1/2 lies between plain noise at 1/2 and at 1 ({source})", CDP, "boxes",
            f"{plain:.1f} < {conditioned_half:.1f} < {half:.1f}",
            holds=every((conditioned_half - plain).above(0), (half - conditioned_half).above(0)),
        )  # fmt: skip
        l2 = {method: Estimate.of(np.mean, own["L2"]) for method, own in rows.groupby("method", sort=False)}
        plain_l2, _, conditioned_l2, half_l2 = (l2[method] for method in METHODS)
        study.claim(
            f"the same in L2 ({source})", CDP, "boxes", f"{plain_l2:.1f} < {conditioned_l2:.1f} < {half_l2:.1f}",
            holds=every((conditioned_l2 - plain_l2).above(0), (half_l2 - conditioned_l2).above(0)),
        )  # fmt: skip
        study.claim(
            f"projected at 1 is on par with its own noise at 1 ({source})", CDP, "boxes",
            f"{projected:.1f} beside {plain:.1f}", holds=(projected / plain).within(0.9, 1.1),
        )  # fmt: skip

    rates = [0.5, 0.6, 0.7, 0.9] if quick else [0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9]
    curve, exact, error = chain(rates, 50_000 if quick else 500_000)
    study.table(
        "chain",
        curve.set_index("rate"),
        f"The published chain by rate of its proposals; exact L1 {exact:.2f} ± {error:.2f}.",
    )
    at = curve.set_index("rate").loc[0.6]
    study.claim("acceptance of the chain at rate 0.6", CDP, "1.68 %", f"{at['acceptance']:.2%}",
                holds=if_enough(not quick, abs(at["acceptance"] - 0.0168) < 0.0036),
                reason="the published run of 10,000 steps has an error of 0.12 %")  # fmt: skip
    study.claim("its acceptance, without a chain", "here", f"{at['acceptance']:.2%}", f"{at['without a chain']:.2%}",
                holds=if_enough(not quick, abs(at["acceptance"] / at["without a chain"] - 1) < 0.1))  # fmt: skip
    best = curve.set_index("rate")["without a chain"].idxmax()
    study.claim("best rate of its proposals", CDP, "0.6", f"{best:g}", holds=if_enough(not quick, 0.55 <= best <= 0.65))
    bound = tv_bound(published_chain(0.6)[1].meeting, pairs=100 if quick else 1000, lag=1000, rng=seed)
    steps = bound.steps(0.05)
    study.claim("steps of the chain until coupled pairs bound its distance by 0.05", "here", "10,000 draws are shown",
                f"{steps:,} (95 % limit of {bound.meetings.size} pairs)" if steps else "no bound",
                holds=if_enough(not quick, steps is not None and steps < 10_000))  # fmt: skip
    traces(study, exact, 10_000)
    mechanism = ppd.Conditioned(PUBLIC, noise=ppd.mechanisms.DoubleGeometric("1/2"))
    cost = conditioning_cost(mechanism, PUBLIC.on(labelled(np.array(TABLE_1))))
    study.text(str(cost), heading="What conditioning costs")

    bins = two_bins(draws=4_000 if quick else 40_000)
    study.table(
        "two_bins", bins, "First of two bins (12, 40) with a public total: mean, and variance in 1 / epsilon^2."
    )
    losses = levels(draws=100_000 if quick else 400_000)
    study.table("two_bins_levels", losses, "Privacy loss when one person changes bins, epsilon 1/2.")
    for name, row in losses.iterrows():
        study.claim(f"privacy loss of two bins, {name}", f"{CDP}, section 4", f"{row['stated']:g}",
                    f"enumerated {row['enumerated']:.3f}, simulated {row['simulated']:.3f}",
                    holds=row["enumerated"] < row["stated"] + 1e-9
                    and row["simulated"] < row["enumerated"] + 5 * row["its standard error"])  # fmt: skip
    family = l1_levels()
    study.table("l1_levels", family, "Privacy loss of L1 projections when one person changes bins, epsilon 1/2.")
    for beta, row in family.iterrows():
        study.claim(f"level of the L1 projection with beta {beta}", f"{CDP}, appendix A", f"{row['stated']:.3f}",
                    f"{row['continuous noise']:.3f} with continuous noise, {row['integer noise']:.3f} with integers",
                    holds=0.99 * row["stated"] < row["continuous noise"] < row["stated"] + 1e-9)  # fmt: skip
    a = np.exp(-0.1)
    for name, there, variance in (("conditioned", "2", 0.1**2 * 2 * a / (1 - a) ** 2), ("projected", "4", 4.0)):
        found_variance = Estimate(*bins.loc[name, ["variance", "its error"]])
        study.claim(f"variance in the first of two bins, {name}", f"{CDP}, section 4", there,
                    f"{found_variance:.2f} (law {variance:.2f})",
                    holds=found_variance.within(0.9 * variance, 1.1 * variance))  # fmt: skip
    for beta in BETAS:
        row = bins.loc[f"projected in L1, beta {beta:g}"]
        variance = (beta**2 + (1 - beta) ** 2) * 8
        mean, spread = Estimate(*row[["mean", "error"]]), Estimate(*row[["variance", "its error"]])
        study.claim(f"mean and variance in the first of two bins, projected in L1, beta {beta:g}", f"{CDP}, Table 2",
                    "s1 = 12; 4 to 8", f"{mean:.2f}; {spread:.2f} (law {variance:.2f})",
                    holds=every(spread.within(0.9 * variance, 1.1 * variance), mean.within(11, 13)))  # fmt: skip
    lifted = Estimate(*bins.loc["projected, no negative cell", ["mean", "error"]])
    study.claim("a bound at 0 lifts the smaller bin", f"{CDP}, section 4", "biased", f"mean {lifted:.2f}, count 12",
                holds=lifted.above(12))  # fmt: skip

    fig, panels = plt.subplots(2, len(found) + 1, figsize=(3.2 * len(found) + 3.4, 5.4), layout="constrained")
    for norm, row in zip(("L1", "L2"), panels, strict=True):
        for place, (source, rows) in enumerate(found.items()):
            boxes(row[place], rows, source, place == 0, norm)
    panels[1, -1].set_axis_off()
    axes = panels[0]
    axes[-1].plot(curve["rate"], 100 * curve["acceptance"], "o-", ms=3, color="#0072B2", label="chain")
    axes[-1].plot(0.6, 1.68, "kx", label="published: 1.68 % at 0.6")
    axes[-1].set(xlabel="rate of proposals, per person", ylabel="accepted, %", ylim=(0, None))
    axes[-1].legend(frameon=False, fontsize="small")
    axes[-1].spines[["top", "right"]].set_visible(False)
    study.figure(
        "distances", fig, "Average L1 and L2 distances of releases from 20 tables by method; acceptance of the chain."
    )
    plt.close(fig)
    study.write()
