"""Histograms of counts under privatization: the experiments of Kohli and Laskowski, section 6 and appendix F.

Run with ``python case_studies/count_distributions/run.py`` (some minutes); prints the numbers of the README, draws its
figures. Homicides by county are read from the folder that ``PPDINF_DATA`` names, teachers per school likewise
(``teachers_per_school.csv``, a column ``teachers``); without the files both are simulated to the paper's shape.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms".
"""

import csv
import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ppdinf as ppd
from ppdinf import counts
from ppdinf.noise.bits.tape import seeded_tape

HERE = Path(__file__).parent
BUDGETS = (0.1, 0.15, 0.22, 0.32, 0.48, 0.71, 1.05, 1.55, 2.29, 3.38, 5.0)
DRAWS, FEW = 20, 10
COLOURS = {
    "sandwich": "#0072B2", "max": "#56B4E9", "min": "#009E73", "optimal": "#222222",
    "unfixed": "#D55E00", "geometric": "#E69F00", "staircase": "#CC79A7", "gaussian": "#767676",
}  # fmt: skip
FIXED = ("sandwich", "max", "min", "optimal")
PAPER = {  # statement: (data set, figure, printed)
    "W1 of the best baseline at .48, binomial": 0.64,
    "W1 of fixed points at .48, binomial": 0.04,
    "W1 cut at .48, binomial (%)": 94,
    "W1 cut at .48, homicides (%)": 74,
    "W1 cut at .48, schools (%)": 87,
    "W1 unfixed at .1, homicides": 1.44,
    "W1 fixed at .1, homicides": 2.17,
    "EAD of the best baseline at .48, homicides": 1.27,
    "EAD of the optimum at .48, homicides": 1.32,
}


def column(name, field):
    """Read counts from a file of the data folder, or None."""
    path = Path(os.environ.get("PPDINF_DATA", "."), name)
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        return np.array([int(float(row[field])) for row in csv.DictReader(file)])


def data_sets():
    """Make the paper's three data sets: name, counts before top-coding, number of possible counts."""
    rng = np.random.default_rng(1)
    homicides = column("homicides_by_county.csv", "murders")
    if homicides is None:  # half zeros and a long tail
        homicides = np.where(rng.random(3136) < 0.53, 0, 1 + (2 * rng.pareto(1.1, 3136)).astype(int))
    teachers = column("teachers_per_school.csv", "teachers")
    if teachers is None:  # mild positive skewness
        teachers = np.maximum(np.rint(rng.gamma(2.6, 13, 95_969)), 0).astype(int)
    return {"binomial": (rng.binomial(20, 0.5, 10_000), 21), "homicides": (homicides, 51), "schools": (teachers, 81)}


def mechanism_of(method, z, epsilon, cells):
    """Build the mechanism of the cells, for one budget."""
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


def errors(x, n, method, epsilon, draws, rng, share=None):
    """Mean W1 of the released histogram, and mean absolute deviation of a count."""
    true = counts.histogram(x, n) / x.size
    share = float(counts.budget_share(epsilon)) if share is None else share
    away, off = [], []
    mechanism = None
    for _ in range(draws):
        if method in (*FIXED, "unfixed"):
            noisy = counts.noisy_histogram(counts.histogram(x, n), share * epsilon, seeded_tape(rng))
            mechanism = mechanism_of(method, counts.to_distribution(noisy, "clip"), (1 - share) * epsilon, x.size)
        elif mechanism is None:
            mechanism = mechanism_of(method, true, epsilon, x.size)
        y = mechanism.simulate(x, rng)
        away.append(counts.wasserstein(counts.histogram(y, n) / x.size, true))
        off.append(np.abs(y - x).mean())
    return np.mean(away), np.mean(off)


def compare(output):
    """Figures 5 and 6; all methods at all budgets."""
    found = {}
    sets = data_sets()
    figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for place, (name, (raw, n)) in enumerate(sets.items()):
        x = np.minimum(raw, n - 1)
        for method, colour in COLOURS.items():
            rng = np.random.default_rng(7)
            draws = 3 if method == "optimal" else DRAWS
            found[name, method] = np.array([errors(x, n, method, e, draws, rng) for e in BUDGETS])
            for row in (0, 1):
                axes[row, place].loglog(BUDGETS, found[name, method][:, row], color=colour, label=method)
        axes[0, place].set(title=name, ylabel="W1 of the histogram")
        axes[1, place].set(xlabel="epsilon", ylabel="absolute deviation of a count")
    axes[0, 0].legend(fontsize=7)
    figure.savefig(output / "errors.png", dpi=110)
    plt.close(figure)
    return found


def statements(found):
    """Print the paper's figures beside ours, and which hold."""
    baselines = [m for m in COLOURS if m not in FIXED]
    at = {e: BUDGETS.index(e) for e in (0.1, 0.48)}

    def w1(name, method, e):
        return found[name, method][at[e], 0]

    best = {name: min(w1(name, m, 0.48) for m in baselines) for name in ("binomial", "homicides", "schools")}
    cut = {name: 100 * (1 - w1(name, "sandwich", 0.48) / best[name]) for name in best}
    ours = {
        "W1 of the best baseline at .48, binomial": best["binomial"],
        "W1 of fixed points at .48, binomial": w1("binomial", "sandwich", 0.48),
        "W1 cut at .48, binomial (%)": cut["binomial"],
        "W1 cut at .48, homicides (%)": cut["homicides"],
        "W1 cut at .48, schools (%)": cut["schools"],
        "W1 unfixed at .1, homicides": w1("homicides", "unfixed", 0.1),
        "W1 fixed at .1, homicides": w1("homicides", "sandwich", 0.1),
        "EAD of the best baseline at .48, homicides": min(found["homicides", m][at[0.48], 1] for m in baselines),
        "EAD of the optimum at .48, homicides": found["homicides", "optimal"][at[0.48], 1],
    }
    for name, printed in PAPER.items():
        close = abs(ours[name] - printed) <= (5 if "%" in name else 0.1 * printed + 0.01)
        print(f"{name:45s} paper {printed:6.2f}  here {ours[name]:6.2f}  {'agrees' if close else 'differs'}")
    order = w1("homicides", "sandwich", 0.1) > w1("homicides", "unfixed", 0.1)
    print(f"fixed points lose at .1 on homicides: {'agrees' if order else 'differs'}")


def privatizers(output):
    """Figure 3: distance of privatized histograms of schools at epsilon 1, by the number of possible counts."""
    raw, _ = data_sets()["schools"]
    sizes = (20, 40, 80, 160)
    figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    for name in ("cyclic-laplace", "laplace", "privelet", "hierarchical"):
        rng, away = np.random.default_rng(3), []
        for n in sizes:
            own = counts.histogram(np.minimum(raw, n - 1), n)
            drawn = [
                counts.to_distribution(counts.noisy_histogram(own, 1, seeded_tape(rng), name), "clip")
                for _ in range(100)
            ]
            away.append(np.mean([counts.wasserstein(z, own / own.sum()) for z in drawn]))
        axes.loglog(sizes, away, label=name)
        print(f"W1 of {name:15s} at epsilon 1, n = 20, 40, 80, 160: " + " ".join(f"{w:.5f}" for w in away))
    axes.set(xlabel="possible counts", ylabel="W1 of the privatized histogram")
    axes.legend()
    figure.savefig(output / "privatizers.png", dpi=110)
    plt.close(figure)


def speeds(output):
    """Figure 7: time to build a mechanism, by the number of possible counts."""
    raw, _ = data_sets()["homicides"]
    figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
    for method, sizes in {
        "sandwich": (50, 200, 800, 2000),
        "optimal": (50, 100, 200),
        "unfixed": (50, 200, 800, 2000),
    }.items():
        spent = []
        for n in sizes:
            z = counts.histogram(np.minimum(raw, n - 1), n) / raw.size
            start = time.process_time()
            mechanism_of(method, z, 1, raw.size).audit()
            spent.append(time.process_time() - start)
        axes.loglog(sizes, spent, label=method, color=COLOURS[method])
        print(f"seconds for {method:9s} " + " ".join(f"n = {n}: {s:.3f}" for n, s in zip(sizes, spent, strict=True)))
    axes.set(xlabel="possible counts", ylabel="seconds, audit included")
    axes.legend()
    figure.savefig(output / "seconds.png", dpi=110)
    plt.close(figure)


def synthetic():
    """Draw the six data sets of appendix F."""
    rng = np.random.default_rng(2)
    left = (1 / 1.2) ** np.arange(69, -1, -1.0)
    right = (1 / 1.2) ** np.arange(70.0)
    return {
        "uniform": (rng.integers(0, 30, 3000), 30),
        "left-skewed": (rng.choice(70, 10_000, p=left / left.sum()), 70),
        "right-skewed": (rng.choice(70, 10_000, p=right / right.sum()), 70),
        "bimodal": (np.append(rng.binomial(39, 0.7, 10_000), rng.binomial(39, 0.3, 10_000)), 40),
        "zero-inflated": (np.append(rng.integers(0, 80, 9800), np.zeros(200, dtype=int)), 80),
        "top-inflated": (np.append(rng.integers(0, 80, 9900), np.full(100, 79)), 80),
    }


def splits(output):
    """Table 3 and Figure 8: the share of the budget for the histogram with the least product of both errors."""
    shares = np.arange(1, 10) / 10
    some = BUDGETS[::2]
    print("best share of the histogram at epsilon " + " ".join(f"{e:g}" for e in some))
    for name, (x, n) in synthetic().items():
        best = []
        for e in some:
            rng = np.random.default_rng(5)
            best.append(shares[np.argmin([np.log(errors(x, n, "sandwich", e, FEW, rng, f)).sum() for f in shares])])
        print(f"{name:14s} " + " ".join(f"{f:.1f}" for f in best))
    print("rule of thumb  " + " ".join(f"{float(counts.budget_share(e)):.2f}" for e in some))
    raw, n = data_sets()["homicides"]
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    for own, e in zip(axes, (0.1, 0.5, 1.0, 5.0), strict=True):
        rng, x = np.random.default_rng(5), np.minimum(raw, n - 1)
        own.plot(shares, [np.log(errors(x, n, "sandwich", e, DRAWS, rng, f)).sum() for f in shares])
        own.axvline(float(counts.budget_share(e)), color="#009E73")
        own.set(title=f"epsilon {e}", xlabel="share of the histogram")
    axes[0].set_ylabel("log of the product of both errors")
    figure.savefig(output / "splits.png", dpi=110)
    plt.close(figure)


def shapes(output):
    """Figure 4, and one mechanism as a heat map."""
    figure, axes = plt.subplots(1, 4, figsize=(13, 3), layout="constrained")
    for own, (name, (raw, n)) in zip(axes, data_sets().items(), strict=False):
        own.bar(np.arange(n), counts.histogram(np.minimum(raw, n - 1), n) / raw.size, color="#0072B2")
        own.set(title=name, xlabel="count")
    raw, n = data_sets()["homicides"]
    ppd.plots.heat_map(counts.heuristic(counts.histogram(np.minimum(raw, n - 1), n) / raw.size, "1/2"), axes[3])
    figure.savefig(output / "shapes.png", dpi=110)
    plt.close(figure)


def main(output=HERE):
    """Print all numbers and draw all figures into a folder."""
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    shapes(output)
    privatizers(output)
    statements(compare(output))
    speeds(output)
    splits(output)


if __name__ == "__main__":
    main()
