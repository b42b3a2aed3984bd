"""Two releases of one table at epsilon 1/4 each compared with one release at 1/2, with a figure.

    uv run python benchmarks/two_releases.py [tables] [figure.png]

Forty areas have counts from a negative binomial law with mean 20 and shape 1; their total is exact, noise is l1. Both
ways of publishing have the same privacy loss, 1/2 per unit of l1 distance. Published numbers (two releases averaged)
are compared with the posterior of `ppd.denoise`: root mean square error of the cells, width and coverage of 90 %
intervals.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np

import ppdinf as ppd
from ppdinf.plots.style import NAIVE, POSTERIOR, clean, figure_style

inv = ppd.invariants
AREAS, MEAN, SHAPE = 40, 20, 1.0
WAYS = {"one at 1/4": ["1/4"], "two at 1/4": ["1/4", "1/4"], "one at 1/2": ["1/2"]}


def simulated(tables):
    """Return errors of published numbers and of estimates, widths and coverage, by way of publishing."""
    found = {way: [] for way in WAYS}
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        truth = rng.negative_binomial(SHAPE, SHAPE / (SHAPE + MEAN), AREAS)
        for way, epsilons in WAYS.items():
            released = []
            for epsilon in epsilons:
                mechanism = ppd.GeneralizedLaplace(inv.total() & inv.nonnegative(), epsilon=epsilon)
                noisy = mechanism.simulate(truth, draws=1, rng=rng).values[0]
                released.append(ppd.Release(noisy, mechanism))
            average = np.mean([release.table.values for release in released], axis=0)
            table = ppd.denoise(released, draws=200, tune=100, rng=seed, progressbar=False).summary()
            lower, upper = table.lower.to_numpy(), table.upper.to_numpy()
            inside = (lower <= truth) & (truth <= upper)
            errors = np.mean((average - truth) ** 2), np.mean((table.estimate.to_numpy() - truth) ** 2)
            found[way].append((*errors, np.mean(upper - lower), inside.mean()))
    return {way: np.array(rows) for way, rows in found.items()}


def main(tables=16, path=None):
    """Print one line for each way of publishing, and draw the figure."""
    rows = {}
    for way, found in simulated(tables).items():
        mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
        rows[way] = np.sqrt(mean[0]), np.sqrt(mean[1]), mean[2], mean[3], error[1] / (2 * np.sqrt(mean[1])), error[2]
        published, estimate, width, share, *errors = rows[way]
        print(
            f"{way}: root mean square error {published:.2f} as published, {estimate:.2f} +- {errors[0]:.2f} estimated; "
            f"90 % intervals {width:.1f} +- {errors[1]:.1f} persons wide, they hold {share:.3f}"
        )
    if path is None:
        return
    with figure_style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.4), layout="constrained")
        places = np.arange(len(rows))
        left.barh(places - 0.2, [row[0] for row in rows.values()], 0.38, color=NAIVE, label="as published")
        left.barh(places + 0.2, [row[1] for row in rows.values()], 0.38, color=POSTERIOR, label="posterior mean")
        left.set(xlabel="root mean square error of a cell, persons", yticks=places, yticklabels=list(rows))
        left.legend(frameon=False, fontsize="small")
        right.barh(places, [row[2] for row in rows.values()], 0.5, color=POSTERIOR)
        for place, row in zip(places, rows.values(), strict=True):
            right.text(row[2], place, f" holds {100 * row[3]:.0f} %", va="center", fontsize="small")
        right.set(xlabel="width of 90 % intervals, persons", yticks=places, yticklabels=[])
        right.margins(x=0.25)
        for axis in (left, right):
            axis.invert_yaxis()
            clean(axis)
        figure.savefig(path, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 16, sys.argv[2] if len(sys.argv) > 2 else None)
