"""Errors of a mean: noise on R^d1 projected afterwards, and noise drawn on the public subspace.

Run with ``ppdinf reproduce ppd_rates``.

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Corollary 13 and Lemma 14.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import ppdinf as ppd
from ppdinf.mechanisms import Mean

from .._shared.estimates import Estimate, every
from .._shared.study import Study

TAKES = "1 min"
COROLLARY = "Partially private data, Corollary 13"
LEMMA = "Partially private data, Lemma 14"
TOTAL = 10  # records in two cells
METHODS = ("rounded", "nonnegative", "l2", "truncated")
BOUND = "the printed rate is an upper bound, not sharp where d1 or d2 is held"
DRAWS = 4000
AXES = {
    "n": "records n",
    "d1 = 4 d2": "dimensions d1 = 4 d2",
    "d1": "dimensions d1 of a record",
    "d2": "dimensions d2 of what is\npublic: the mean's subspace",
}
KNOWN = "cells of one block are equal"
LOOK = {"#767676": "not projected", "#D55E00": "projected", "#0072B2": "on the subspace"}
# varied setting, other settings, and the slopes of the printed bounds: projected, on the subspace
SWEEPS = {
    "n": ([100, 200, 400, 800, 1600], {"d1": 32, "d2": 8, "epsilon": 1.0}, (-2, -2)),
    "epsilon": ([0.125, 0.25, 0.5, 1.0, 2.0], {"d1": 32, "d2": 8, "n": 400}, (-2, -2)),
    "d1 = 4 d2": ([32, 64, 128, 256, 512], {"epsilon": 1.0, "n": 400}, (2, 2)),
    "d1": ([64, 128, 256, 512, 1024], {"d2": 16, "epsilon": 1.0, "n": 400}, (2, 1)),
    "d2": ([16, 32, 64, 128, 256], {"d1": 512, "epsilon": 1.0, "n": 400}, (0, 1)),
}


def blocks(d1, d2):
    """Return a basis of the public subspace: d2 blocks of d1 / d2 equal cells."""
    return np.kron(np.eye(d2), np.ones((d1 // d2, 1)))


def records(n, A, rng):
    """Draw records in the unit ball that satisfy the public information."""
    x = rng.normal(size=(n, A.shape[1])) @ A.T
    return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(size=(n, 1))


def errors(n, d1, d2, epsilon, rng, norm="l2", draws=DRAWS):
    """Return mean squared errors with standard errors: released on R^d1, then projected, and drawn on the subspace."""
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
    """Return all settings of one point of a sweep."""
    if name == "d1 = 4 d2":
        return {**others, "d1": value, "d2": value // 4}
    return {**others, name: value}


def slope(values, means, standard_errors):
    """Return the log-log slope by least squares, and its standard error."""
    x = np.log(values) - np.mean(np.log(values))
    return x @ np.log(means) / (x @ x), np.sqrt((x**2) @ (standard_errors / means) ** 2) / (x @ x)


def expected(n, d1, d2, epsilon):
    """Return the errors in l2, whose noise has Gamma(d) size of scale 4 / (n epsilon) and uniform direction."""
    scale = (4 / (n * epsilon)) ** 2
    return d1 * (d1 + 1) * scale, d2 * (d1 + 1) * scale, d2 * (d2 + 1) * scale


def bayes_risks(epsilon):
    """Return the mean posterior variance of the share of the first of two cells, by enumeration.

    The share is uniform, the count given the share and the public total is binomial. The noisy table and its
    post-processed versions are enumerated; the total is known in all cases.
    """
    k, reach = np.arange(TOTAL + 1), int(np.ceil(16 / epsilon))
    tables = np.stack([k, TOTAL - k], axis=1)
    mean, square = (k + 1) / (TOTAL + 2), ((k + 1) * (k + 2) / ((TOTAL + 2) * (TOTAL + 3))).mean()

    def risk(p):
        joint = p / (p.sum(axis=1, keepdims=True) * len(k))
        return square - ((mean @ joint) ** 2 / joint.sum(axis=0)).sum()

    y = np.arange(-reach, TOTAL + reach + 1)
    one = np.exp(-epsilon * np.abs(k[:, np.newaxis] - y))
    risks = {"noisy table": risk((one[:, :, np.newaxis] * one[::-1, np.newaxis, :]).reshape(len(k), -1))}
    for method in METHODS:
        mechanism = ppd.PostProcessed(ppd.invariants.total(), epsilon, method)
        risks[method] = risk(np.exp(mechanism.push(mechanism.public.on(tables[0]), tables, reach)))
    return risks


def main(output, *, quick=False, seed=13):
    """Measure all errors, compare slopes and ratios with the printed ones; write page, tables and figure."""
    study = Study(
        "Project afterwards, or draw on the public subspace?",
        output,
        about="Mean squared error of a private mean of n records in d1 dimensions, known to lie in a subspace of d2.",
        settings={"quick": quick, "seed": seed},
    )
    rng, draws = np.random.default_rng(seed), DRAWS // 10 if quick else DRAWS
    slopes = []
    figure, panels = plt.subplots(1, len(SWEEPS), figsize=(13, 3.1), layout="constrained")
    closed_forms = []
    for axes, (name, (values, others, printed)) in zip(panels, SWEEPS.items(), strict=True):
        points = [settings(name, value, others) for value in values]
        found = np.array([errors(**point, rng=rng, draws=draws) for point in points])
        closed = np.array([expected(**point) for point in points])
        ratios = (found[..., 0] / closed, found[..., 1] / closed)
        closed_forms += [Estimate(value, error) for value, error in zip(*(x.ravel() for x in ratios), strict=True)]
        free, projected, drawn = (slope(values, found[:, k, 0], found[:, k, 1]) for k in range(3))
        slopes.append(
            {
                "log-log slope in": name,
                "not projected": f"{free[0]:.3f} ± {free[1]:.3f}",
                "projected": f"{projected[0]:.3f} ± {projected[1]:.3f}",
                "printed": printed[0],
                "on the subspace": f"{drawn[0]:.3f} ± {drawn[1]:.3f}",
                "printed ": printed[1],
            }
        )
        for place, there, found_slope in (
            ("projected", printed[0], projected),
            ("on the subspace", printed[1], drawn),
        ):
            here = Estimate(*found_slope)
            agrees = here.within(there - 0.05, there + 0.05)
            study.claim(
                f"error of the release {place} has slope {there} in {name}", COROLLARY, there, f"{here:.3f}",
                holds=agrees, reason=BOUND if agrees is False else "",
            )  # fmt: skip
        for k, (color, label) in enumerate(LOOK.items()):
            axes.plot(values, found[:, k, 0], "o", color=color, label=label)
            axes.plot(values, closed[:, k], color=color, linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel=AXES.get(name, name))
        axes.set_xticks(values, [f"{v:g}" for v in values])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean squared error of the mean\n(records in the unit ball)")
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside upper center")
    study.table(
        "slopes", pd.DataFrame(slopes).set_index("log-log slope in"), f"Slopes of log error, {draws} draws a point."
    )
    study.figure("rates", figure, "Errors in l2 against each setting: points are measured, lines are the closed forms.")
    plt.close(figure)
    study.claim(
        "errors are d1 (d1 + 1) c^2, d2 (d1 + 1) c^2 and d2 (d2 + 1) c^2, with c = 4 / (n epsilon)", "here", "1 times",
        f"{min(map(float, closed_forms)):.3f} to {max(map(float, closed_forms)):.3f} times",
        holds=every(*(ratio.within(0.9, 1.1) for ratio in closed_forms)),
    )  # fmt: skip

    ratios = []
    for norm, d1, d2 in [("l2", 64, 4), ("l2", 64, 16), ("l1", 64, 4), ("l1", 128, 4), ("l1", 64, 8)]:
        free, projected, drawn = errors(400, d1, d2, 1.0, rng, norm, min(draws, 1500) if norm == "l1" else draws)
        ratio = projected[0] / drawn[0]
        error = ratio * np.hypot(projected[1] / projected[0], drawn[1] / drawn[0])
        ratios.append(
            {"norm, d1, d2": f"{norm}, {d1}, {d2}", "not projected": free[0], "projected": projected[0],
             "on the subspace": drawn[0], "ratio": ratio, "its error": error, "d1 / d2": d1 / d2}
        )  # fmt: skip
        goal, better = d1 / d2, "d1 / d2"
        if norm == "l2":
            goal, better = (d1 + 1) / (d2 + 1), "(d1 + 1) / (d2 + 1), about d1 / d2,"
        study.claim(
            f"the subspace is better by {better} in {norm}, d1 = {d1}, d2 = {d2}", COROLLARY, f"{goal:.3g}",
            f"{Estimate(ratio, error):.2f}", holds=Estimate(ratio, error).within(0.8 * goal, 1.2 * goal),
        )  # fmt: skip
    study.table(
        "ratios", pd.DataFrame(ratios).set_index("norm, d1, d2"), "Mean squared errors, and what projection loses."
    )
    risks = pd.DataFrame({f"{epsilon:g}": bayes_risks(epsilon) for epsilon in (0.25, 0.5, 1.0, 2.0)}).T
    study.table(
        "bayes_risks",
        risks.rename_axis("epsilon"),
        f"Mean posterior variance of a share, {TOTAL} records in two cells.",
    )
    least = risks.div(risks["noisy table"], axis=0).drop(columns="noisy table")
    study.claim(
        "no post-processed table has less Bayes risk than the noisy table", LEMMA, "1 or more",
        f"{least.min().min():.4f} to {least.max().max():.4f} times", holds=bool((least > 1 - 1e-9).all(axis=None)),
    )  # fmt: skip
    study.write()
