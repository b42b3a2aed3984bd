"""Errors of a mean: noise on all of R^d1 projected afterwards, against noise drawn on the public subspace.

Run with ``python case_studies/ppd_rates/run.py`` (half a minute); prints the tables of the README, draws its figure.

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Corollary 13.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ppdinf as ppd
from ppdinf.mechanisms import Mean

HERE = Path(__file__).parent
DRAWS = 4000
KNOWN = "cells of one block are equal"
LOOK = {"#767676": "not projected", "#D55E00": "projected", "#0072B2": "on the subspace"}
# what varies, the other settings, and the slopes of the printed bounds: projected, on the subspace
SWEEPS = {
    "n": ([100, 200, 400, 800, 1600], {"d1": 32, "d2": 8, "epsilon": 1.0}, (-2, -2)),
    "epsilon": ([0.125, 0.25, 0.5, 1.0, 2.0], {"d1": 32, "d2": 8, "n": 400}, (-2, -2)),
    "d1 = 4 d2": ([32, 64, 128, 256, 512], {"epsilon": 1.0, "n": 400}, (2, 2)),
    "d1": ([64, 128, 256, 512, 1024], {"d2": 16, "epsilon": 1.0, "n": 400}, (2, 1)),
    "d2": ([16, 32, 64, 128, 256], {"d1": 512, "epsilon": 1.0, "n": 400}, (0, 1)),
}


def blocks(d1, d2):
    """Basis of the public subspace: d2 blocks of d1 / d2 equal cells."""
    return np.kron(np.eye(d2), np.ones((d1 // d2, 1)))


def records(n, A, rng):
    """Draw records in the unit ball that satisfy the public information."""
    x = rng.normal(size=(n, A.shape[1])) @ A.T
    return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(size=(n, 1))


def errors(n, d1, d2, epsilon, rng, norm="l2", draws=DRAWS):
    """Mean squared errors with their standard errors: released on R^d1, then projected, and drawn on the subspace."""
    A = blocks(d1, d2)
    x = records(n, A, rng)
    objective = Mean(bound=1 if norm == "l2" else np.sqrt(d1))  # the l1 norm of a unit vector is at most sqrt(d1)
    free = ppd.KNormGradient(objective, epsilon=epsilon, norm=norm)
    bound = ppd.KNormGradient(objective, epsilon=epsilon, norm=norm, subspace=A, known=KNOWN)
    y = free.simulate(x, draws=draws, rng=rng)
    projected = y @ A @ A.T * (d2 / d1)
    found = (y, projected, bound.simulate(x, draws=draws, rng=rng))
    squares = [((answer - x.mean(axis=0)) ** 2).sum(axis=1) for answer in found]
    return np.array([(s.mean(), s.std() / np.sqrt(draws)) for s in squares])


def settings(name, value, others):
    """All settings of one point of a sweep."""
    if name == "d1 = 4 d2":
        return {**others, "d1": value, "d2": value // 4}
    return {**others, name: value}


def slope(values, means, standard_errors):
    """Log-log slope by least squares, and its standard error."""
    x = np.log(values) - np.mean(np.log(values))
    return x @ np.log(means) / (x @ x), np.sqrt((x**2) @ (standard_errors / means) ** 2) / (x @ x)


def expected(n, d1, d2, epsilon):
    """State the errors in l2, whose noise has Gamma(d) size of scale 4 / (n epsilon) and uniform direction."""
    scale = (4 / (n * epsilon)) ** 2
    return d1 * (d1 + 1) * scale, d2 * (d1 + 1) * scale, d2 * (d2 + 1) * scale


def main(output=HERE):
    """Print the tables and draw the figure into a folder."""
    rng = np.random.default_rng(13)
    figure, panels = plt.subplots(1, len(SWEEPS), figsize=(13, 3.1), layout="constrained")
    print("| log-log slope in | not projected | projected | printed | on the subspace | printed |")
    print("|---|---|---|---|---|---|")
    for axes, (name, (values, others, printed)) in zip(panels, SWEEPS.items(), strict=True):
        points = [settings(name, value, others) for value in values]
        found = np.array([errors(**point, rng=rng) for point in points])
        closed = np.array([expected(**point) for point in points])
        assert (np.abs(found[..., 0] - closed) < 5 * found[..., 1]).all(), "the closed forms do not hold"
        slopes = [slope(values, found[:, k, 0], found[:, k, 1]) for k in range(3)]
        free, projected, drawn = (f"{s:.3f} ± {error:.3f}" for s, error in slopes)
        print(f"| {name} | {free} | {projected} | {printed[0]} | {drawn} | {printed[1]} |")
        for k, (color, label) in enumerate(LOOK.items()):
            axes.plot(values, found[:, k, 0], "o", color=color, label=label)
            axes.plot(values, closed[:, k], color=color, linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel=name)
        axes.set_xticks(values, [f"{v:g}" for v in values])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean squared error of the mean")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside upper center")
    figure.savefig(output / "rates.png", dpi=90)
    plt.close(figure)

    print("\n| norm, d1, d2 | on R^d1 | projected | on the subspace | ratio | d1 / d2 |")
    print("|---|---|---|---|---|---|")
    for norm, d1, d2 in [("l2", 64, 4), ("l2", 64, 16), ("l1", 64, 4), ("l1", 128, 4), ("l1", 64, 8)]:
        free, projected, drawn = errors(400, d1, d2, 1.0, rng, norm, 1500 if norm == "l1" else DRAWS)
        ratio = projected[0] / drawn[0]
        error = ratio * np.hypot(projected[1] / projected[0], drawn[1] / drawn[0])
        numbers = " | ".join(f"{v[0]:.4f}" for v in (free, projected, drawn))
        print(f"| {norm}, {d1}, {d2} | {numbers} | {ratio:.2f} ± {error:.2f} | {d1 / d2:g} |")


if __name__ == "__main__":
    main()
