"""Bias of noisy tables by cell size: sums kept by construction, or repaired afterwards, with and without a bound at 0.

Run with ``python case_studies/bias/run.py`` (fifteen seconds); prints the numbers of the README, draws its figure.

R. Gong, X.-L. Meng, "Congenial differential privacy under mandated disclosure", FODS 2020, section 4.
J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", sections 3 and 4.2.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import ppdinf as ppd
from ppdinf.invariants import Public, nonnegative, total
from ppdinf.mechanisms import DoubleGeometric

HERE = Path(__file__).parent
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


def biases():
    """Mean error in each cell, and its Monte-Carlo standard error, for each method."""
    rng = np.random.default_rng(4)
    for name, (mechanism, _) in METHODS.items():
        errors = mechanism.simulate(COUNTS, draws=DRAWS, rng=rng).values - COUNTS
        yield name, errors.mean(axis=0), errors.std(axis=0) / np.sqrt(DRAWS)


def misreadings():
    """Mean of a confidential count less what is read from its release, by the released count.

    Two cells with a public total; every table with it is as likely as any other before the release.
    """
    mechanism, rng = ppd.Conditioned(BOUNDED, noise=DoubleGeometric(EPSILON)), np.random.default_rng(5)
    tables = np.column_stack([np.arange(PAIR + 1), PAIR - np.arange(PAIR + 1)])
    released = np.stack([mechanism.simulate(x, draws=REPEATS, rng=rng).values[:, 0] for x in tables])
    right = np.exp([[mechanism.logp(y, x) for x in tables] for y in tables])  # [y, x]
    wrong = np.exp(mechanism.potential(tables[:, np.newaxis] - tables).sum(axis=2))
    means = [tables[:, 0], *(weights @ tables[:, 0] / weights.sum(axis=1) for weights in (wrong, right))]
    for name, mean in zip(READINGS, means, strict=True):
        errors = [(np.nonzero(released == y)[0] - mean[y]) for y in tables[:, 0]]
        yield name, np.array([e.mean() for e in errors]), np.array([e.std() / np.sqrt(e.size) for e in errors])


def chance(bias, error):
    """Probability of biases as large as these where there are none; 21 cells under one total are hardly dependent."""
    return stats.chi2.sf(np.sum((bias / error) ** 2), bias.size)


def panel(axes, found, looks):
    """Draw mean errors with two standard errors, one line for each entry."""
    for name, bias, error in found:
        axes.errorbar(COUNTS, bias, 2 * error, fmt="o-", markersize=3, linewidth=1, color=looks[name], label=name)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_xticks(range(0, 21, 5))
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


def main(output=HERE):
    """Print the tables and draw the figure into a folder."""
    found, read = list(biases()), list(misreadings())
    print("| method | bias at 0 | at 1 | at 5 | at 20 | p-value of no bias |\n|---|---|---|---|---|---|")
    for name, bias, error in found:
        cells = " | ".join(f"{bias[k]:+.2f} ± {error[k]:.2f}" for k in (0, 1, 5, 20))
        print(f"| {name} | {cells} | {chance(bias, error):.2g} |")
    print("\n| reading | error at released 0 | at 1 | at 5 | at 10 | p-value of no error |\n|---|---|---|---|---|---|")
    for name, bias, error in read:
        cells = " | ".join(f"{bias[k]:+.2f} ± {error[k]:.2f}" for k in (0, 1, 5, 10))
        print(f"| {name} | {cells} | {chance(bias, error):.2g} |")

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
    panel(left, found, {name: color for name, (_, color) in METHODS.items()})
    left.set(xlabel="confidential count", ylabel="mean of the release less the count", title="21 cells, public total")
    panel(right, read, READINGS)
    right.set(xlabel="released count", ylabel="mean of the count less its estimate", title="reading two cells")
    figure.savefig(output / "bias.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
