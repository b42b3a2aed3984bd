"""Bias of noisy tables by cell size: sums preserved or repaired, with and without a bound at 0.

Run with ``ppdinf reproduce bias``.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, section 4.
J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", sections 3 and 4.2.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

import ppdinf as ppd
from ppdinf.invariants import Public, nonnegative, total
from ppdinf.mechanisms import DoubleGeometric

from .._shared.estimates import Estimate, every, opposite
from .._shared.study import Study

TAKES = "15 s"
EPSILON, DRAWS = "1/4", 20_000
COUNTS = np.arange(21)
BOUNDED = total() & nonnegative()
METHODS = {
    "drawn with the total": (ppd.GeneralizedLaplace(total(), EPSILON), "#0072B2"),
    "projected on the total": (ppd.PostProcessed(total(), EPSILON, "l2"), "#56B4E9"),
    "truncated at 0": (ppd.PostProcessed(Public(), EPSILON, "truncated"), "#767676"),
    "projected on total and bounds": (ppd.PostProcessed(total(), EPSILON, "nonnegative"), "#E69F00"),
    "the same, rounded": (ppd.PostProcessed(total(), EPSILON, "rounded"), "#D55E00"),
    "conditioned on total and bounds": (ppd.Conditioned(BOUNDED, noise=DoubleGeometric(EPSILON)), "#009E73"),
}
READINGS = {
    "the release itself": "#767676",
    "posterior that leaves out C(x)": "#D55E00",
    "posterior with C(x)": "#009E73",
}
PAIR = 20  # public total of the two cells of the second panel
REPEATS = 4000
NEGLIGIBLE = 0.5  # persons; the noise has a standard deviation of 5.6


def biases(seed, draws):
    """Return the mean error in each cell, and its Monte Carlo standard error, for each method."""
    rng = np.random.default_rng(seed)
    for name, (mechanism, _) in METHODS.items():
        errors = mechanism.simulate(COUNTS, draws=draws, rng=rng).values - COUNTS
        yield name, errors.mean(axis=0), errors.std(axis=0) / np.sqrt(draws)


def misreadings(seed, repeats):
    """Return the mean of a confidential count minus its estimate from the release, by the released count.

    The table has two cells with a public total; all tables with the total have equal prior probability.
    """
    mechanism, rng = ppd.Conditioned(BOUNDED, noise=DoubleGeometric(EPSILON)), np.random.default_rng(seed)
    tables = np.column_stack([np.arange(PAIR + 1), PAIR - np.arange(PAIR + 1)])
    released = np.stack([mechanism.simulate(x, draws=repeats, rng=rng).values[:, 0] for x in tables])
    right = np.exp([[mechanism.logp(y, x) for x in tables] for y in tables])  # [y, x]
    wrong = np.exp(mechanism.law.log_weight(tables[:, np.newaxis] - tables).sum(axis=2))
    means = [tables[:, 0], *(weights @ tables[:, 0] / weights.sum(axis=1) for weights in (wrong, right))]
    for name, mean in zip(READINGS, means, strict=True):
        errors = [(np.nonzero(released == y)[0] - mean[y]) for y in tables[:, 0]]
        yield name, np.array([e.mean() for e in errors]), np.array([e.std() / np.sqrt(e.size) for e in errors])


def chance(bias, error):
    """Return the p-value of biases under no bias; 21 cells under one total are nearly independent."""
    return stats.chi2.sf(np.sum((bias / error) ** 2), bias.size)


def biased(bias, error):
    """Decide whether any mean error is not 0: it is if p is below 1e-6, and not if all are within `NEGLIGIBLE`."""
    small = every(*(Estimate(*each).within(-NEGLIGIBLE, NEGLIGIBLE) for each in zip(bias, error, strict=True)))
    return True if chance(bias, error) < 1e-6 else opposite(small)


def frame(found, counts, name, last):
    """Return mean errors at several counts, as text, and the p-value of no error."""
    rows = [
        {
            name: each,
            **{f"at {k}": f"{bias[k]:+.2f} ± {error[k]:.2f}" for k in counts},
            last: f"{chance(bias, error):.2g}",
        }
        for each, bias, error in found
    ]
    return pd.DataFrame(rows).set_index(name)


def panel(axes, found, looks):
    """Draw mean errors with two standard errors, one line per entry."""
    for name, bias, error in found:
        axes.errorbar(COUNTS, bias, 2 * error, fmt="o-", markersize=3, linewidth=1, color=looks[name], label=name)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xticks(range(0, 21, 5))
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


def main(output, *, quick=False, seed=4):
    """Measure all mean errors; write page, tables and figure to a folder."""
    study = Study(
        "Which noisy tables are biased, and where", output,
        about=f"21 cells with 0 to 20 persons, a public total, epsilon = {EPSILON} per person, six ways to publish.",
        settings={"quick": quick, "seed": seed},
    )  # fmt: skip
    scale = 10 if quick else 1
    found, read = list(biases(seed, DRAWS // scale)), list(misreadings(seed + 1, REPEATS // scale))
    study.table(
        "bias", frame(found, (0, 1, 5, 20), "method", "p of no bias"),
        "Mean of the release less the count, persons, by confidential count; Monte-Carlo standard errors.",
    )  # fmt: skip
    study.table(
        "readings", frame(read, (0, 1, 5, 10), "reading", "p of no error"),
        "Mean of the count less its estimate, persons, by released count: two cells that share a public total of 20.",
    )  # fmt: skip
    p = {name: chance(bias, error) for name, bias, error in (*found, *read)}
    is_biased = {name: biased(bias, error) for name, bias, error in (*found, *read)}
    first = {name: Estimate(bias[0], error[0]) for name, bias, error in found}
    for name in ("drawn with the total", "projected on the total"):
        study.claim(
            f"no bias: {name}",
            "Partially private data, 4.2",
            "unbiased",
            f"p = {p[name]:.2g}",
            holds=opposite(is_biased[name]),
        )
    for name in (
        "truncated at 0",
        "projected on total and bounds",
        "the same, rounded",
        "conditioned on total and bounds",
    ):
        study.claim(f"empty cells are lifted: {name}", "Partially private data, 4.2", "biased upwards",
                    f"{first[name]:+.2f} persons", holds=first[name].above(0))  # fmt: skip
    closed = 1 / (1 - np.exp(-2 * 0.25)) * np.exp(-0.25)
    lifted = first["truncated at 0"]
    study.claim("truncation lifts an empty cell by a / (1 - a^2), a = exp(-epsilon)", "here", f"{closed:.2f}",
                f"{lifted:.2f}", holds=lifted.within(closed - 0.2, closed + 0.2))  # fmt: skip
    for name in ("the release itself", "posterior that leaves out C(x)"):
        study.claim(
            f"read wrongly: {name}",
            "Partially private data, 3",
            "biased",
            f"p = {p[name]:.2g}",
            holds=is_biased[name],
        )
    name = "posterior with C(x)"
    study.claim(
        f"read rightly: {name}",
        "Partially private data, 3",
        "unbiased",
        f"p = {p[name]:.2g}",
        holds=opposite(is_biased[name]),
    )

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
    panel(left, found, {name: color for name, (_, color) in METHODS.items()})
    left.set(xlabel="confidential count, persons", ylabel="mean of the release less the count, persons",
             title="21 cells, public total")  # fmt: skip
    panel(right, read, READINGS)
    right.set(xlabel="released count, persons", ylabel="mean of the count less its estimate, persons",
              title="reading two cells with a public total of 20")  # fmt: skip
    study.figure(
        "bias", figure, "Mean errors with two standard errors. Left: of the release. Right: of three readings."
    )
    plt.close(figure)
    study.write()
