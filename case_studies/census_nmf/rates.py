"""Rates of an event whose denominators were released with noise: fires per occupied unit of blocks.

Events are not confidential; the numbers of occupied units are. The model expresses fires by the confidential
numbers. For comparison, noisy values of blocks, or least squares of all levels, are used as true denominators. Rates
have the same gamma prior in all three analyses, from which the true rates are drawn.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from matplotlib.ticker import MaxNLocator

import ppdinf as ppd
from ppdinf.census import UNITS_2020, read_occupied, simulate_nmf

from .._shared.estimates import Estimate, every

SMALL = 12  # maximum number of units of a small block
SHAPE, UNITS = 4, 10  # gamma prior of rates: the information of 4 fires in 10 units
RATES = ("small blocks", "large blocks", "ratio")
NUMBER = 40


def posterior(seen, small, fires, draws):
    """Draw both rates given noisy numbers and events, with the numbers marginalized."""
    units = seen.frame.coords["units"][1]
    with pm.Model(coords=seen.coords) as model:
        mean, size = pm.Beta("mean", 9, 1), pm.Gamma("size", 2, 0.1)
        rate = pm.Gamma("rate", SHAPE, UNITS, shape=2)
        data = pm.BetaBinomial.dist(alpha=mean * size, beta=(1 - mean) * size, n=units)
        occupied = ppd.PartiallyPrivate("occupied", data, release=seen, marginalize=True)
        pm.Poisson("fires", occupied * rate[small], observed=fires)
        idata = pm.sample(
            draws, tune=draws, chains=2, cores=1, random_seed=1, progressbar=False, compute_convergence_checks=False,
            quiet=True,
        )  # fmt: skip
    del model
    return idata.posterior["rate"].values.reshape(-1, 2)


def as_true(occupied, small, fires, rng):
    """Draw both rates with the given numbers of occupied units treated as true."""
    events, persons = (np.bincount(small, weights=values, minlength=2) for values in (fires, occupied))
    return rng.gamma(SHAPE + events, 1 / (UNITS + persons), size=(4000, 2))


def one_file(rng, draws, state, widths, estimates):
    """Return the rates in one simulated county by three analyses, and the true rates."""
    table = state(rng, 1, tracts=2)
    with tempfile.TemporaryDirectory() as root:
        simulate_nmf(table, UNITS_2020, root, "US_Unit_PL_PROD", widths, rng=rng)
        seen = read_occupied(root)
    units = seen.frame.coords["units"][1]
    truth = table.sel(h1="occupied", block=seen.coords["block"]).values
    small, true_rate = (units > SMALL).astype(int), rng.gamma(SHAPE, 1 / UNITS, size=2)
    fires = rng.poisson(truth * true_rate[small])
    ways = {"posterior": posterior(seen, small, fires, draws)}
    ways |= {way: as_true(occupied, small, fires, rng) for way, occupied in estimates(seen, units).items()}
    found = []
    for way, rates in ways.items():
        for name, own, true in zip(
            RATES, (*rates.T, rates[:, 0] / rates[:, 1]), (*true_rate, true_rate[0] / true_rate[1]), strict=True
        ):
            lower, upper = np.quantile(own, [0.05, 0.95])
            found.append(
                {"way": way, "rate": name, "truth": true, "estimate": own.mean(), "lower": lower, "upper": upper}
            )
    return pd.DataFrame(found, columns=["way", "rate", "truth", "estimate", "lower", "upper"])


def rates(study, one_file, colors, *, quick, workers):
    """Compute bias, error and coverage of rates over simulated files."""
    number, draws = (2, 60) if quick else (NUMBER, 120)
    runs = study.replicates(lambda rng, k: one_file(rng, draws), number, name="rates", workers=workers, progress=True)
    found = pd.concat(runs)
    found["off"] = found["estimate"] / found["truth"] - 1
    found["inside"] = (found["lower"] <= found["truth"]) & (found["truth"] <= found["upper"])
    found["width"] = (found["upper"] - found["lower"]) / found["truth"]
    groups = found.groupby(["rate", "way"], sort=False)
    judged = pd.DataFrame({
        "bias, %": 100 * groups["off"].mean(), "its standard error": 100 * groups["off"].sem(),
        "root mean square error, %": 100 * groups["off"].agg(lambda off: np.sqrt(np.mean(off**2))),
        "coverage at 0.9": groups["inside"].mean(), "width of the intervals, %": 100 * groups["width"].mean(),
    })  # fmt: skip
    study.table("rates", judged, f"Fires for each occupied unit, {number} files; errors relative to the true rate.")
    held = judged["coverage at 0.9"].unstack()
    own = dict(list(found.groupby(["rate", "way"])))
    covered = {name: Estimate.share(own[name, "posterior"]["inside"]) for name in RATES}
    off = {way: own[RATES[0], way]["off"].to_numpy() for way in colors}
    errors = {way: Estimate.of(lambda x: 100 * np.sqrt(np.mean(x**2)), x) for way, x in off.items()}
    study.claim(
        "90 % intervals of rates given noisy denominators have their nominal coverage", "here", "0.8 or more",
        "; ".join(f"{name}: {share:.2f}" for name, share in covered.items()),
        holds=every(*(share.above(0.8) for share in covered.values())),
    )  # fmt: skip
    study.claim(
        "rates of small blocks have smaller errors than with noisy or least squares numbers treated as true",
        "here", "smaller error", ", ".join(f"{way} {error:.0f} %" for way, error in errors.items()),
        holds=every(*((error - errors["posterior"]).above(0) for way, error in errors.items() if way != "posterior")),
    )  # fmt: skip
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for k, (way, color) in enumerate(colors.items()):
        own = found[(found["way"] == way) & (found["rate"] == RATES[0])].sort_values("truth")
        at = np.arange(number) + 0.25 * (k - 1)
        low, high = (own[end] / own["truth"] for end in ("lower", "upper"))
        left.vlines(at, low, high, color=color, linewidth=0.9)
        left.plot(at, own["estimate"] / own["truth"], ".", color=color, markersize=4, label=way)
        right.barh(np.arange(3) + 0.27 * (k - 1), held.loc[list(RATES), way], 0.25, color=color)
    left.axhline(1, color="black", linewidth=0.6)
    left.set_yscale("log")
    ticks = [0.5, 0.7, 1, 1.5, 2, 3]
    left.set_yticks(ticks, [str(tick) for tick in ticks])
    left.yaxis.minorticks_off()
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set(xlabel="simulated file, by its true rate", ylabel="rate of small blocks, over the true one")
    right.axvline(0.9, color="black", linewidth=0.6)
    right.set_yticks(range(3), RATES)
    right.invert_yaxis()
    right.set(xlabel="share of 90 % intervals that hold the true rate", xlim=(0, 1))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*left.get_legend_handles_labels(), frameon=False, ncols=3, loc="outside upper center")
    study.figure("rates", figure, "Rates of fires by occupied units known with noise: 90 % intervals, and coverage.")
    plt.close(figure)
