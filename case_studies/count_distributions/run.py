"""Histograms of counts under privatization: the experiments of Kohli and Laskowski, section 6 and appendix F.

Run with ``ppdinf reproduce count_distributions``. Homicides by county are read from the folder of public tables
(``homicides_by_county.csv``), and so are teachers per school (``teachers_per_school.csv``, a column ``teachers``).
Tables without a file are simulated with the paper's shape, and the page states it.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms".
"""

import csv
import math
import time
from functools import partial
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from scipy import sparse
from scipy.optimize import curve_fit, linprog

from ppdinf import counts
from ppdinf.datasets.table_file import public_folder
from ppdinf.noise.primitives.stream import seeded_stream

from .._shared.estimates import Estimate, every, if_enough
from .._shared.study import Study

TAKES = "3 min"
PAPER = "Count mechanisms"
FAINTEST = 1e-6  # smallest probability that is drawn
BUDGETS = (0.1, 0.15, 0.22, 0.32, 0.48, 0.71, 1.05, 1.55, 2.29, 3.38, 5.0)
SHARES = np.arange(1, 10) / 10
ENOUGH = 100  # draws from which the noise of the best shares does not decide their claims
GAPS = {0.1: 0.024, 0.5: 0.046, 1.0: 0.017, 5.0: 0.0}  # for the rule of thumb on homicides, as printed
LOOKS = {  # colour, line, label
    "sandwich": ("#0072B2", "-", "fixed point, sandwich"),
    "max": ("#56B4E9", "--", "fixed point, max"),
    "min": ("#009E73", ":", "fixed point, min"),
    "optimal": ("#000000", "-.", "fixed point, least error"),
    "unfixed": ("#D55E00", "-", "unfixed optimum, two stages"),
    "geometric": ("#E69F00", "-", "truncated geometric"),
    "staircase": ("#CC79A7", "--", "staircase"),
    "gaussian": ("#767676", ":", "discrete Gaussian"),
}
SOLVERS = {  # of SciPy, on all entries of the mechanism
    "highs-ds": ("#767676", "--", "linear program, simplex"),
    "highs-ipm": ("#8C4B00", ":", "linear program, interior point"),
}
FIXED = ("sandwich", "max", "min", "optimal")
TWO_STAGE = (*FIXED, "unfixed")
UNITS = {
    "binomial": "successes of 20", "homicides": "homicides per county", "schools": "teachers per school",
}  # fmt: skip
TABLE_3 = {  # best share of the histogram in tenths, by budget
    "uniform": (8, 8, 4, 3, 3, 2, 2, 1, 1, 1, 1),
    "left-skewed": (4, 3, 3, 3, 2, 2, 1, 1, 1, 1, 1),
    "right-skewed": (5, 4, 3, 2, 2, 2, 2, 1, 1, 1, 1),
    "bimodal": (7, 8, 5, 4, 3, 3, 1, 1, 1, 1, 1),
    "zero-inflated": (3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1),
    "top-inflated": (4, 3, 3, 3, 3, 2, 2, 1, 1, 1, 1),
}


def column(folder, name, field):
    """Read counts from a file of the data folder, or return None."""
    if folder is None or not (path := Path(folder, name)).exists():
        return None
    with path.open(encoding="utf-8") as file:
        return np.array([int(float(row[field])) for row in csv.DictReader(file)])


def data_sets(folder, seed):
    """Return the paper's three data sets: their histograms, two of them before top-coding, and which are real."""
    rng = np.random.default_rng([seed, 1])
    homicides = column(folder, "homicides_by_county.csv", "murders")
    teachers = column(folder, "teachers_per_school.csv", "teachers")
    real = [name for name, found in (("homicides", homicides), ("schools", teachers)) if found is not None]
    if homicides is None:  # half zeros and a long tail
        homicides = np.where(rng.random(3136) < 0.53, 0, 1 + (2 * rng.pareto(1.1, 3136)).astype(int))
    if teachers is None:  # mild positive skewness
        teachers = np.maximum(np.rint(rng.gamma(2.6, 13, 95_969)), 0).astype(int)
    sets = {"binomial": (rng.binomial(20, 0.5, 10_000), 21), "homicides": (homicides, 51), "schools": (teachers, 81)}
    histograms = {name: top_coded(raw, n) for name, (raw, n) in sets.items()}
    return histograms, {"homicides": homicides, "schools": teachers}, real


def top_coded(raw, n):
    """Return the histogram of counts, with counts above n - 1 set to n - 1."""
    return counts.histogram(np.minimum(raw, n - 1), n)


def synthetic(seed):
    """Draw the six data sets of appendix F, as histograms."""
    rng = np.random.default_rng([seed, 2])
    falling = (1 / 1.2) ** np.arange(70.0)
    drawn = {
        "uniform": (rng.integers(0, 30, 3000), 30),
        "left-skewed": (rng.choice(70, 10_000, p=falling[::-1] / falling.sum()), 70),
        "right-skewed": (rng.choice(70, 10_000, p=falling / falling.sum()), 70),
        "bimodal": (np.append(rng.binomial(39, 0.7, 10_000), rng.binomial(39, 0.3, 10_000)), 40),
        "zero-inflated": (np.append(rng.integers(0, 80, 9800), np.zeros(200, dtype=int)), 80),
        "top-inflated": (np.append(rng.integers(0, 80, 9900), np.full(100, 79)), 80),
    }
    return {name: counts.histogram(x, n) for name, (x, n) in drawn.items()}


def mechanism_of(method, z, epsilon, cells):
    """Build the mechanism of the cells for one budget."""
    if method == "optimal":
        return counts.optimal(z, epsilon)
    if method == "unfixed":
        return counts.unfixed(z, epsilon)
    if method in FIXED:
        return counts.heuristic(z, epsilon, method)
    n = len(z)
    if method == "gaussian":
        return counts.discrete_gaussian(n, epsilon, 1 / (cells + 1))
    return counts.truncated_geometric(n, epsilon) if method == "geometric" else counts.staircase(n, epsilon)


def errors(own, method, epsilon, draws, rng, share=None):
    """Return means of W1 between histograms, in counts, of the absolute deviation of a released count, and of KS.

    The second row contains their standard errors, which are infinite for one draw. Cells with the same count are drawn
    jointly as numbers of released counts, which has the same distribution.
    """
    n, cells = own.size, own.sum()
    share = float(counts.budget_share(epsilon)) if share is None else share
    away = np.abs(np.arange(n)[:, None] - np.arange(n))
    mechanism, found = None, []
    for _ in range(draws):
        if method in TWO_STAGE:
            noisy = counts.noisy_histogram(own, share * epsilon, seeded_stream(rng))
            mechanism = mechanism_of(method, counts.to_distribution(noisy, "clip"), (1 - share) * epsilon, cells)
        elif mechanism is None:
            mechanism = mechanism_of(method, own / cells, epsilon, cells)
        moved = rng.multinomial(own, mechanism.matrix / mechanism.matrix.sum(axis=1, keepdims=True))
        after = moved.sum(axis=0) / cells, own / cells
        found.append((counts.wasserstein(*after), (moved * away).sum() / cells, counts.kolmogorov_smirnov(*after)))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.full(3, np.inf)
    return np.stack([np.mean(found, axis=0), error])


def all_errors(sets, draws, rng, k):
    """Return errors of one method on one data set, shape (budgets, mean and standard error, 3)."""
    name, method = list(product(sets, LOOKS))[k]
    return np.array([errors(sets[name], method, e, draws, rng) for e in BUDGETS])


def objectives(sets, budgets, draws, rng, k):
    """Return the log of the product of both errors for one data set and budget, by the share of the histogram."""
    name, e = list(product(sets, budgets))[k]
    shares = [*SHARES, None] if len(sets) == 1 else SHARES
    return [float(np.log(errors(sets[name], "sandwich", e, draws, rng, share)[0, :2]).sum()) for share in shares]


def heat_map(mechanism, axes):
    """Draw a mechanism's probabilities: counts downwards, released counts to the right."""
    shown = np.maximum(mechanism.matrix, FAINTEST)
    axes.imshow(shown, norm=LogNorm(FAINTEST, 1), cmap="Blues", interpolation="nearest")


def shapes(study, sets):
    """Draw Figure 4, and one mechanism as a heat map."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    for panel, (name, own) in zip(axes, sets.items(), strict=False):
        panel.bar(np.arange(own.size), own / own.sum(), width=1, color="#0072B2")
        panel.set(title=name, xlabel=UNITS[name], ylabel="share of all cells")
        panel.spines[["top", "right"]].set_visible(False)
    heat_map(counts.heuristic(sets["homicides"] / sets["homicides"].sum(), "1/2"), axes[3])
    axes[3].set(title="mechanism, ε = 1/2", xlabel="released homicides", ylabel="homicides in a county")
    figure.colorbar(axes[3].images[0], ax=axes[3], label="probability")
    caption = "What the three tables hold (top-coded at 50 and 80), and a mechanism that leaves the second as it is."
    study.figure("shapes", figure, caption)
    plt.close(figure)


def privatizers(study, schools, draws, seed):
    """Draw Figure 3: W1 and KS of privatized histograms of schools at epsilon 1, by the number of possible counts."""
    sizes, marks = (20, 40, 80, 160), "osD^v"
    printed = ("cyclic-laplace", "laplace", "hierarchical", "privelet")
    names = (*printed, "cumulative")
    labels = (
        "cyclic Laplace",
        "independent Laplace",
        "hierarchical",
        "Privelet",
        "cumulative, isotonic (not in the paper)",
    )
    colours = ("#0072B2", "#E69F00", "#D55E00", "#CC79A7", "#009E73")
    distances = {"W1": counts.wasserstein, "KS": counts.kolmogorov_smirnov}
    found = {}
    for name, n in product(names, sizes):
        rng, own = np.random.default_rng([seed, 3, n]), top_coded(schools, n)
        method = "isotonic" if name == "cumulative" else "clip"
        drawn = [counts.noisy_histogram(own, 1, seeded_stream(rng), name) for _ in range(draws)]
        shares = [counts.to_distribution(noisy, method) for noisy in drawn]
        for distance, between in distances.items():
            away = [between(z, own / own.sum()) for z in shares]
            found[distance, n, name] = Estimate.of(np.mean, away)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for panel, distance in zip(axes, distances, strict=True):
        for name, mark, colour, label in zip(names, marks, colours, labels, strict=True):
            line = [float(found[distance, n, name]) for n in sizes]
            panel.loglog(sizes, line, marker=mark, color=colour, label=None if distance == "KS" else label)
        panel.set_xticks(sizes, sizes)
        panel.minorticks_off()
        unit = ",\nin teachers per school" if distance == "W1" else ""
        panel.set(xlabel="possible numbers of teachers", ylabel=f"{distance} of the privatized histogram{unit}")
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right upper", fontsize="small")
    study.figure("privatizers", figure, "Distances of privatized histograms from the true one, schools, ε = 1.")
    plt.close(figure)
    shown = pd.Series({key: float(value) for key, value in found.items()}).unstack()[list(names)]
    shown.index.names = ["distance", "possible counts"]
    study.table("privatizers", shown, "The same in numbers: W1 in teachers per school, KS as a share of the schools.")
    for distance in distances:
        own = {n: found[distance, n, printed[0]] for n in sizes}
        best = every(*((found[distance, n, name] - own[n]).above(0) for n in sizes for name in printed[1:]))
        closest = min((found[distance, 80, name] for name in printed[1:]), key=float)
        here = f"{own[80]:.5f} against {closest:.5f} at 80 counts"
        what = f"the cyclic Laplace privatizer is nearest at every size, {distance}"
        study.claim(what, f"{PAPER}, Figure 3", "best", here, holds=best)
    less = every(*((own[n] - found["KS", n, "cumulative"]).above(0) for n in sizes))
    here = f"{found['KS', 80, 'cumulative']:.5f} against {own[80]:.5f} in KS at 80 counts"
    what = "noise on cumulative counts with isotonic regression is nearer than the cyclic Laplace, KS"
    study.claim(what, "not in the paper", "-", here, holds=less)


def compare(study, sets, draws, workers):
    """Draw Figures 5 and 6: all methods at all budgets."""
    work = partial(all_errors, sets, draws)
    every = study.replicates(work, len(sets) * len(LOOKS), name="errors", workers=workers, progress=True)
    found = dict(zip(product(sets, LOOKS), every, strict=True))
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained", sharex=True)
    for (name, method), both in found.items():
        place, (colour, line, label) = list(sets).index(name), LOOKS[method]
        for row in (0, 1):
            style = {"color": colour, "linestyle": line, "label": None if place or row else label}
            axes[row, place].loglog(BUDGETS, both[:, 0, row], linewidth=1.6, **style)
    for place, name in enumerate(sets):
        axes[0, place].set(title=name, ylabel=f"W1 of the histogram, in\n{UNITS[name]}")
        axes[1, place].set(xlabel="ε of both stages", ylabel=f"mean deviation of a cell, in\n{UNITS[name]}")
        axes[1, place].set_xticks(BUDGETS[::2], [f"{e:g}" for e in BUDGETS[::2]])
        axes[1, place].minorticks_off()
        for row in (0, 1):
            axes[row, place].spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right center", fontsize="small")
    caption = "What becomes of the histogram (above) and of single cells (below), by budget."
    study.figure("errors", figure, caption)
    plt.close(figure)
    rows = [
        {"data": name, "method": method, "epsilon": e, "W1": w1, "deviation": off}
        for (name, method), both in found.items()
        for e, (w1, off, _) in zip(BUDGETS, both[:, 0], strict=True)
    ]
    table = pd.DataFrame(rows)
    table.to_csv(study.output / "errors.csv", index=False)
    chosen = table[table.epsilon.isin([0.1, 0.48, 1.05, 5.0])].melt(["data", "method", "epsilon"], var_name="error")
    wide = chosen.pivot(index=["data", "error", "epsilon"], columns="method", values="value")[list(LOOKS)]
    study.table("errors_at_four_budgets", wide, "Errors at four of the eleven budgets.")
    return found


def near(here, printed):
    """Decide whether a number is within 10 % or 0.01 of the printed one."""
    spare = max(0.1 * printed, 0.0101)
    return here.within(printed - spare, printed + spare)


def overlap(study, found, row, methods, where, what):
    """Enter the claim that all methods have errors within 25 % of the first, at all budgets and on all tables."""
    ratios = {
        (name, method, e): Estimate(*found[name, method][k, :, row]) / Estimate(*found[name, methods[0]][k, :, row])
        for name in UNITS
        for method in methods[1:]
        for k, e in enumerate(BUDGETS)
    }
    known = {key: ratio for key, ratio in ratios.items() if np.isfinite(ratio.error)}
    (name, method, e), ratio = max(known.items(), key=lambda item: abs(np.log(float(item[1]))))
    a, b = (found[name, m][BUDGETS.index(e), 0, row] for m in (method, methods[0]))
    beyond = [e for (_, _, e), r in known.items() if r.within(0.8, 1.25) is False]
    here = f"{method} {a:.3f} against {methods[0]} {b:.3f} on {name} at ε = {e:g}: {ratio:.2f} times"
    study.claim(
        what, where, "overlapping curves", here, holds=every(*(r.within(0.8, 1.25) for r in ratios.values())),
        reason=f"the curves overlap below ε = {min(beyond):g}" if beyond else "",
    )  # fmt: skip


def remarks(study, found):
    """Enter what the paper says about Figures 5 and 6 in words: other distances, selectors and one-stage baselines."""

    def error(name, method, k, row):
        return Estimate(*found[name, method][k, :, row])

    baselines = [method for method in LOOKS if method not in FIXED]
    at = BUDGETS.index(0.48)
    less = {
        name: error(name, "sandwich", at, 2) / min((error(name, m, at, 2) for m in baselines), key=float)
        for name in UNITS
    }
    here = ", ".join(f"{name} by {100 - 100 * float(ratio):.0f} %" for name, ratio in less.items())
    what = "fixed points also cut KS at ε = 0.48, on all tables"
    study.claim(what, f"{PAPER}, 6.1", "similar", here, holds=every(*(ratio.below(0.7) for ratio in less.values())))
    ratios = [
        error(name, "sandwich", k, 1) / min((error(name, m, k, 1) for m in ("max", "min")), key=float)
        for name in UNITS
        for k in range(len(BUDGETS))
    ]
    here = f"ratios up to {max(map(float, ratios)):.3f}"
    what = "the sandwich selector has the deviation of the better of max and min, up to 5 %, at all budgets"
    study.claim(what, f"{PAPER}, 6.2", "overlapping", here, holds=every(*(ratio.below(1.05) for ratio in ratios)))
    gains = [error("schools", "unfixed", k, 1) - error("schools", "geometric", k, 1) for k in range(len(BUDGETS))]
    ends = [float(error("schools", "unfixed", k, 1) / error("schools", "geometric", k, 1)) for k in (0, -1)]
    here = f"by {gains[0]:.2f} at ε = 0.1, by {gains[-1]:.3f} at ε = 5; as ratios {ends[0]:.2f} and {ends[1]:.2f}"
    what = "on schools the truncated geometric has less deviation than the unfixed optimum, less so for larger ε"
    holds = every(*(gain.above(0) for gain in gains), (gains[0] - gains[-1]).above(0))
    study.claim(what, f"{PAPER}, 6.2", "yes", here, holds=holds, reason="true in teachers, not as a ratio")


def statements(study, found, real):
    """Enter the claims of sections 6.1 and 6.2."""
    at = {e: BUDGETS.index(e) for e in (0.1, 0.48, 1.05)}
    baselines = [method for method in LOOKS if method not in FIXED]

    def error(name, method, e, row):
        return Estimate(*found[name, method][at[e], :, row])

    def best(name, e, row, methods):
        return min((error(name, method, e, row) for method in methods), key=float)

    where = f"{PAPER}, 6.1"
    base, fixed = best("binomial", 0.48, 0, baselines), error("binomial", "sandwich", 0.48, 0)
    study.claim("W1 of the best baseline at ε = 0.48, binomial", where, 0.64, f"{base:.3f}", holds=near(base, 0.64))
    study.claim("W1 of fixed points at ε = 0.48, binomial", where, 0.04, f"{fixed:.3f}", holds=near(fixed, 0.04))
    for name, printed in (("binomial", 94), ("homicides", 74), ("schools", 87)):
        left = error(name, "sandwich", 0.48, 0) / best(name, 0.48, 0, baselines)
        cut = Estimate(100 - 100 * left.value, 100 * left.error)
        note = "" if name == "binomial" or name in real else "simulated data, not the paper's"
        what = f"fixed points cut W1 at ε = 0.48 by, {name}"
        study.claim(
            what, where, f"{printed} %", f"{cut:.1f} %", holds=cut.within(printed - 5, printed + 5), reason=note
        )
    for method, printed in (("unfixed", 1.44), ("sandwich", 2.17)):
        own = error("homicides", method, 0.1, 0)
        what = f"W1 at ε = 0.1, homicides, {LOOKS[method][2]}"
        study.claim(what, where, printed, f"{own:.2f}", holds=near(own, printed))
    lose = error("homicides", "sandwich", 0.1, 0) - error("homicides", "unfixed", 0.1, 0)
    here = f"W1 is larger by {lose:.2f}"
    study.claim("fixed points lose at ε = 0.1 on homicides", where, "yes", here, holds=lose.above(0))
    fixed, geometric = error("schools", "sandwich", 0.1, 0), error("schools", "geometric", 0.1, 0)
    note = "" if "schools" in real else "simulated data, not the paper's"
    what = "at ε = 0.1 fixed points keep the histogram of schools more than 40 times better"
    here = f"{fixed:.3f} against {geometric:.2f}"
    study.claim(what, where, "0.06 against 2.60", here, holds=(geometric / fixed).above(40), reason=note)

    where = f"{PAPER}, 6.2"
    base, least = best("homicides", 0.48, 1, baselines), error("homicides", "optimal", 0.48, 1)
    what = "deviation of a cell at ε = 0.48, homicides, best baseline"
    study.claim(what, where, 1.27, f"{base:.3f}", holds=near(base, 1.27))
    what = "deviation at ε = 0.48, homicides, fixed point of least error"
    study.claim(what, where, 1.32, f"{least:.3f}", holds=near(least, 1.32))
    cost = least / base
    gap = Estimate(100 * cost.value - 100, 100 * cost.error)
    study.claim(
        "keeping the histogram costs cells a few per cent there", where, "5.7 %", f"{gap:.1f} %", holds=gap.below(10)
    )
    for method, printed in (("geometric", 0.55), ("optimal", 0.64), ("sandwich", 0.66)):
        own = error("homicides", method, 1.05, 1)
        what, note = f"deviation near ε = 1, homicides, {LOOKS[method][2]}", "at ε = 1.05, the nearest budget"
        study.claim(what, where, printed, f"{own:.3f}", holds=near(own, printed), reason=note)
    ratios = [
        Estimate(*found[name, "unfixed"][k, :, 1]) / Estimate(*found[name, method][k, :, 1])
        for name in UNITS
        for method in FIXED
        for k in range(len(BUDGETS))
    ]
    what = "the unfixed optimum has less deviation than any fixed point, up to 1 %, at all budgets"
    here = f"ratios up to {max(map(float, ratios)):.3f}"
    study.claim(what, where, "always", here, holds=every(*(ratio.below(1.01) for ratio in ratios)))
    overlap(study, found, 0, FIXED, f"{PAPER}, Figure 5", "all fixed points have the same W1, at all budgets")
    for row, (name, figure) in enumerate((("W1", 5), ("deviation", 6))):
        what = f"the staircase has the {name} of the truncated geometric, at all budgets"
        overlap(study, found, row, ("geometric", "staircase"), f"{PAPER}, Figure {figure}", what)
    remarks(study, found)


def entries_program(z, epsilon, solver):
    """Solve for the mechanism of least deviation with the fixed point z as a linear program over all entries."""
    n, up = z.size, math.exp(epsilon)
    steps = sparse.diags_array([np.full(n, -1.0), np.full(n - 1, up)], offsets=[0, 1], shape=(n - 1, n))
    back = sparse.diags_array([np.full(n, up), np.full(n - 1, -1.0)], offsets=[0, 1], shape=(n - 1, n))
    private = -sparse.kron(sparse.vstack([steps, back]), sparse.eye_array(n))
    rows = sparse.vstack([sparse.kron(sparse.eye_array(n), np.ones((1, n))), sparse.kron(z[None], sparse.eye_array(n))])
    cost = z[:, None] * np.abs(np.arange(n)[:, None] - np.arange(n))
    return linprog(cost.ravel(), private, np.zeros(private.shape[0]), rows, np.append(np.ones(n), z), method=solver)


def speeds(study, homicides, quick):
    """Draw Figure 7: processor time to build a mechanism, by the number of possible counts."""
    figure, axes = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
    large = (50, 200, 800, 2000)
    sizes = dict.fromkeys(("geometric", "staircase", "unfixed", "sandwich", "optimal"), large)
    sizes |= {"highs-ipm": (25, 50, 100), "highs-ds": (25, 50, 100)}
    spent, error = {}, {}
    for method, n in ((method, n) for method, every_n in sizes.items() for n in every_n[: 2 if quick else None]):
        z = top_coded(homicides, n) / homicides.size
        if method in LOOKS:
            mechanism_of(method, z, 1, homicides.size).audit()  # compile and warm up
        start = time.process_time()
        if method in LOOKS:
            audit = mechanism_of(method, z, 1, homicides.size).audit()
        else:
            error[method, n] = entries_program(z, 1, method).fun
        spent[method, n] = time.process_time() - start
        if method == "sandwich":
            worst, largest = audit.row_error, n
    for method in sizes:
        colour, line, label = (LOOKS | SOLVERS)[method]
        timed = {n: seconds for (name, n), seconds in spent.items() if name == method}
        axes.loglog(list(timed), list(timed.values()), "o", linestyle=line, label=label, color=colour)
    axes.set_xticks((25, *large), [f"{n:,}" for n in (25, *large)])
    axes.minorticks_off()
    axes.set(xlabel="possible counts", ylabel="seconds on one core, audit included")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right upper", fontsize="small")
    study.figure("seconds", figure, "Time to build a mechanism, homicides by county top-coded at n - 1, ε = 1.")
    plt.close(figure)
    here = f"{spent['sandwich', largest]:.2f} s at {largest:,}, rows within {worst:.0e}"
    holds = spent["sandwich", largest] < 10 and worst < 1e-9
    what = f"Algorithm 1 takes seconds for {largest:,} counts"
    study.claim(what, f"{PAPER}, 6.3", "under 10 s", here, holds=holds)
    growth = {}
    for method in SOLVERS:
        small, big = sorted(n for name, n in spent if name == method)[-2:]
        growth[method] = math.log(spent[method, big] / spent[method, small]) / math.log(big / small)
    here = ", ".join(f"{SOLVERS[name][2]} n^{power:.1f}" for name, power in growth.items())
    what = "times of linear programs grow rapidly, those of simplex most"
    holds = growth["highs-ds"] > growth["highs-ipm"] > 2
    reason = "the simplex method of HiGHS, up to 100 counts"
    study.claim(what, f"{PAPER}, 6.3", "yes", here, holds=if_enough(not quick, holds), reason=reason)
    simplex = max(n for name, n in spent if name == "highs-ds")
    z = top_coded(homicides, simplex) / homicides.size
    ratio = max(counts.optimal(z, 1).count_error() / error[name, simplex] for name in SOLVERS)
    here = f"relative difference {ratio - 1:.0e} at {simplex} counts"
    what = "the closed form of the package has the error of the linear program"
    study.claim(what, f"{PAPER}, Figure 7", "-", here, holds=abs(ratio - 1) < 1e-5)


def rule(epsilon, start, end, fall):
    """Return the share of the histogram in the family of the paper's rule of thumb."""
    return end + (start - end) * np.exp(-fall * np.asarray(epsilon))


def splits(study, sets, homicides, draws, workers):
    """Compute Table 3 and Figure 8: the share of the budget for the histogram with the least product of both errors."""
    work = partial(objectives, sets, BUDGETS, draws)
    every = study.replicates(work, len(sets) * len(BUDGETS), name="splits", workers=workers, progress=True)
    both = np.array(every).reshape(len(sets), len(BUDGETS), SHARES.size)
    best = pd.DataFrame(SHARES[both.argmin(axis=2)].T, index=pd.Index(BUDGETS, name="epsilon"), columns=list(sets))
    printed = pd.DataFrame({name: np.array(row) / 10 for name, row in TABLE_3.items()}, index=best.index)
    shown = best.map("{:.1f}".format) + printed.map(" ({:.1f})".format)
    shown["rule of thumb"] = [f"{float(counts.budget_share(e)):.2f}" for e in BUDGETS]
    study.table("shares", shown, "Table 3: best share of the histogram here (and as printed), by ε.")
    close = float((np.abs(best - printed) <= 0.1001).to_numpy().mean())
    what = "best shares of the histogram, 66 data sets and budgets, within a tenth of those printed"
    study.claim(what, f"{PAPER}, Table 3", "all", f"{100 * close:.0f} %", holds=if_enough(draws >= ENOUGH, close > 0.8))
    tenths = np.rint(10 * best.to_numpy()).astype(int)
    falls = bool((tenths[0] > tenths[-1]).all() and (tenths[-1] == 1).all())
    what = "the best share falls with ε, to 0.1, in all six data sets"
    study.claim(what, f"{PAPER}, appendix F", "yes", "yes" if falls else "no", holds=if_enough(draws >= ENOUGH, falls))
    flat = np.repeat(BUDGETS, len(sets)), best.to_numpy().ravel()
    (start, end, fall), _ = curve_fit(rule, *flat, p0=(0.6, 0.1, 3.0))
    here = f"{end:.3f} + {start - end:.3f} exp(-{fall:.2f} ε)"
    apart = np.abs(rule(BUDGETS, start, end, fall) - [float(counts.budget_share(e)) for e in BUDGETS]).max()
    what = "a rule fitted to these shares is the rule of thumb, within a tenth"
    study.claim(
        what, f"{PAPER}, appendix F", "0.106 + 0.533 exp(-2.87 ε)", here, holds=if_enough(draws >= ENOUGH, apart < 0.1)
    )

    work = partial(objectives, {"homicides": homicides}, tuple(GAPS), 5 * draws)
    every = study.replicates(work, len(GAPS), name="rule", workers=workers, progress=True)
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    gaps = []
    for panel, e, (*values, ruled) in zip(axes, GAPS, every, strict=True):
        gaps.append(max(ruled - min(values), 0.0))
        label = (None, None) if len(gaps) > 1 else ("shares 0.1 to 0.9", "rule of thumb")
        panel.plot(SHARES, values, "o-", color="#0072B2", label=label[0])
        panel.plot([float(counts.budget_share(e))], [ruled], "D", color="#D55E00", markersize=9, label=label[1])
        panel.axhline(ruled, color="#D55E00", linestyle="--", linewidth=1)
        panel.set(title=f"ε = {e:g}", xlabel="share of ε for the histogram")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("log of W1 times deviation,\nboth in homicides per county")
    figure.legend(frameon=False, loc="outside right center", fontsize="small")
    study.figure("splits", figure, "What a share of the budget for the histogram costs, homicides by county.")
    plt.close(figure)
    worst = max(gaps)
    what = "the rule of thumb loses little on homicides: log of the product of errors, at ε = 0.1, 0.5, 1 and 5"
    there, here = (", ".join(f"{gap:.3f}" for gap in row) for row in (GAPS.values(), gaps))
    study.claim(what, f"{PAPER}, Figure 8", there, here, holds=if_enough(draws >= ENOUGH, worst < 0.1))


def main(output, *, quick=False, data=None, seed=1, workers=None):
    """Run all experiments; write claims, tables and figures to a folder."""
    folder = public_folder() if data is None else data
    sets, raw, real = data_sets(folder, seed)
    source = ", ".join(real) or "none, all are simulated"
    study = Study(
        "Tables whose histogram of counts survives",
        output,
        about="Three tables, eleven budgets, eight mechanisms; errors of the histogram and of the cells.",
        settings={"quick": quick, "seed": seed, "real data": source},
    )
    study.text(
        "W1 is the Wasserstein distance between the histograms before and after, as shares of cells: how far a cell "
        "has to be moved on average to turn one into the other. Deviation is the mean absolute difference of a "
        "released count. Mechanisms in two stages privatize the histogram first, clip it at 0 and renormalise it, as "
        f"the authors' code does, with the share of ε by their rule of thumb. Tables from files: {source}.",
        heading="What is measured",
    )
    shapes(study, sets)
    privatizers(study, raw["schools"], 20 if quick else 200, seed)
    found = compare(study, sets, 30 if quick else 100, workers)
    statements(study, found, real)
    speeds(study, raw["homicides"], quick)
    splits(study, synthetic(seed), sets["homicides"], 4 if quick else 100, workers)
    study.write()
