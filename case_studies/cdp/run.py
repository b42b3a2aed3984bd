"""Congenial differential privacy on sex by age tables: four ways to publish, side by side, with exact draws.

Run with ``python case_studies/cdp/run.py`` (half a minute); prints the numbers of the README and draws its figure.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, sections 3 and 4.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

import ppdinf as ppd
from ppdinf.invariants import Public, groups, margin, nonnegative, total
from ppdinf.laws import DoubleGeometric
from ppdinf.noise.bits.integers import discrete_laplace
from ppdinf.noise.bits.tape import seeded_tape
from ppdinf.noise.chains.independence import independence, proposal
from ppdinf.privacy.conditioning import conditioning_cost
from ppdinf.rationals import as_fraction

HERE = Path(__file__).parent
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
FREE = [*range(1, 22), *range(23, 45)]  # the paper's {2, ..., 22, 24, ..., 45}
METHODS = ["noise, epsilon 1", "projected, epsilon 1", "conditioned, epsilon 1/2", "noise, epsilon 1/2"]


def labelled(counts):
    """Sex by age, with the voting age as a coordinate."""
    voting = ["minor"] * 4 + ["adult"] * 19
    return xr.DataArray(
        counts, dims=("sex", "age"), coords={"sex": ["female", "male"], "age": AGES, "voting": ("age", voting)}
    )


def conditioned(table, draws, rng):
    """Draw double geometric noise of rate 1/2 given public sums and no negative cell; exact, by elimination."""
    return ppd.Conditioned(PUBLIC, noise=ppd.mechanisms.DoubleGeometric("1/2")).simulate(table, draws=draws, rng=rng)


def released(table, method, rng):
    """Draw releases of one table by one of the four methods."""
    if method == "conditioned, epsilon 1/2":
        return conditioned(table, RELEASES, rng)
    if method == "projected, epsilon 1":
        return ppd.PostProcessed(PUBLIC, 1, "nonnegative").simulate(table, draws=RELEASES, rng=rng)
    epsilon = 1 if method == "noise, epsilon 1" else "1/2"
    return ppd.GeneralizedLaplace(Public(), epsilon=epsilon).simulate(table, draws=RELEASES, rng=rng)


def distances():
    """Average L1 and L2 distance of releases from each of 20 simulated tables, equation (3.1)."""
    rng = np.random.default_rng(2020)
    rows = []
    for number in range(TABLES):
        # mean 5.26 and variance 5.54: success probability .95 as SciPy counts it
        table = labelled(stats.nbinom(100, 0.95).rvs((2, 23), random_state=rng))
        for method in METHODS:
            error = released(table, method, rng.spawn(1)[0]) - table
            l1 = float(abs(error).sum(("sex", "age")).mean())
            l2 = float(np.sqrt((error**2).sum(("sex", "age"))).mean())
            rows.append({"table": number, "method": method, "L1": l1, "L2": l2})
    return pd.DataFrame(rows)


def chain(rates, iterations=500_000):
    """Run the published chain on the published table: acceptance and mean L1 distance by rate of its proposals.

    A second route to the acceptance needs no chain: the mean of min(1, w(z') / w(z)) over exact draws z and
    independent proposals z', with w the ratio of target and proposal.
    """
    table = labelled(np.array(TABLE_1))
    system = PUBLIC.on(table)
    counts = system.cells(table)
    draws = conditioned(table, 5000, np.random.default_rng(3)).values.reshape(5000, -1) - counts
    rows = []
    for rate in rates:
        bounds = {"B": np.eye(46, dtype=int), "limits": -counts}
        prepared = proposal(system.A, DoubleGeometric("1/2"), rate, free=FREE, **bounds)
        noise, accepted = independence(prepared, iterations // 10, thin=10, chains=4, rng=1)
        l1 = np.abs(noise).sum(axis=2).mean(axis=1)

        proposed = np.zeros((iterations // 2, 46), dtype=np.int64)
        words = discrete_laplace(as_fraction(rate, "rate"), proposed.shape[0] * len(FREE), seeded_tape(5))
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
    """Ratio of target and proposal at noise z, shape (n, 46)."""
    return np.exp(prepared.rate * np.abs(z[:, prepared.free]).sum(axis=1) - prepared.scale * np.abs(z).sum(axis=1))


def two_bins(epsilon=0.1, draws=40_000):
    """Mean and variance of the first bin of (12, 40) with a public total; variances in units of 1 / epsilon**2."""
    table, rate = np.array([12, 40]), epsilon / 2
    ways = {
        "conditioned": ppd.GeneralizedLaplace(total(), epsilon=rate),
        "projected": ppd.PostProcessed(total(), rate, "l2"),
        "projected, no negative cell": ppd.PostProcessed(total(), rate, "nonnegative"),
    }
    rows = {}
    for name, mechanism in ways.items():
        first = mechanism.simulate(table, draws=draws, rng=4).values[:, 0]
        rows[name] = {"mean": first.mean(), "error": first.std() / draws**0.5, "variance": first.var() * epsilon**2}
    return pd.DataFrame(rows).T


def figure(found, curve, path):
    """Boxes of average distances, and the acceptance of the chain."""
    fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained", width_ratios=[1, 1, 1.1])
    for ax, norm in zip(axes, ["L1", "L2"], strict=False):
        parts = [found.loc[found["method"] == method, norm] for method in METHODS[::-1]]
        ax.boxplot(parts, orientation="horizontal", widths=0.6, medianprops={"color": "C0"})
        ax.set_yticks(range(1, 5), METHODS[::-1] if norm == "L1" else [""] * 4)
        ax.set_xlabel(f"average {norm} distance")
        ax.spines[["top", "right"]].set_visible(False)
    axes[2].plot(curve["rate"], 100 * curve["acceptance"], "o-", ms=3)
    axes[2].plot(0.6, 1.68, "kx", label="published: 1.68 % at 0.6")
    axes[2].set(xlabel="rate of the chain's proposals", ylabel="accepted, %", ylim=(0, None))
    axes[2].legend(frameon=False)
    axes[2].spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=90)
    plt.close(fig)


def main(output=HERE):
    """Print every number of the README and draw its figure into a folder."""
    found = distances()
    print(found.groupby("method", sort=False)[["L1", "L2"]].agg(["mean", "min", "max"]).round(1).to_string(), "\n")
    curve, exact, error = chain([0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9])
    print(curve.round(4).to_string(index=False), f"\nexact L1: {exact:.2f} +- {error:.2f}\n")
    mechanism = ppd.Conditioned(PUBLIC, noise=ppd.mechanisms.DoubleGeometric("1/2"))
    print(conditioning_cost(mechanism, PUBLIC.on(labelled(np.array(TABLE_1)))), "\n")
    print(two_bins().round(3).to_string())
    figure(found, curve, output / "distances.png")


if __name__ == "__main__":
    main()
