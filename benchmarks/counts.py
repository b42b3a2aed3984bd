"""Releases that preserve the histogram: errors beside simpler methods; mechanisms with a fixed point: errors and times.

Run with ``python benchmarks/counts.py`` (ten minutes on an idle core; one minute with the argument ``quick``; the first
table alone with ``histograms``). Times are CPU times of one core without compilation. The general solver is SciPy's
``linprog(method="highs-ipm")`` on all entries of the matrix.
"""

import math
import os
import sys
import time
from itertools import product

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from scipy.optimize import isotonic_regression, linprog

from ppdinf import counts
from ppdinf.counts.heuristic import SELECTORS
from ppdinf.datasets.table_file import public_file

EPSILONS = ("0.1", "0.3", "0.5", "1", "3")


def homicides(n):
    """Return homicides by county, top-coded at n - 1, or simulated counts if the file is missing."""
    rng = np.random.default_rng(5)
    if file := public_file("homicides_by_county.csv"):
        raw = np.genfromtxt(file, delimiter=",", names=True, usecols=4)["murders"].astype(int)
    else:
        raw = np.where(rng.random(3136) < 0.5, 0, (rng.pareto(0.9, 3136) * 1.5).astype(int))
    return counts.histogram(np.minimum(raw, n - 1), n) / raw.size


def points(n, at, shares):
    """Return a distribution on one or two counts."""
    z = np.zeros(n)
    z[at] = shares
    return z


DISTRIBUTIONS = {
    "binomial": lambda n: np.bincount(np.random.default_rng(0).binomial(n - 1, 0.5, 10_000), minlength=n) / 10_000,
    "geometric": lambda n: 0.9 ** np.arange(n) / (0.9 ** np.arange(n)).sum(),
    "uniform": lambda n: np.full(n, 1 / n),
    "homicides": homicides,
    "one point": lambda n: points(n, n // 3, 1),
    "two points": lambda n: points(n, [0, n - 2], [0.3, 0.7]),
}


def seconds(work):
    """Return the CPU time of a call, and its result."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def kept(sizes):
    """Print the largest errors of Algorithm 1 over all distributions, epsilons and selectors, by size."""
    print(
        "| counts | row sums | fixed point | epsilon over stated | mechanisms | s, worst |\n|---|---|---|---|---|---|"
    )
    for n in sizes:
        worst, longest, number = np.zeros(3), 0.0, 0
        for name, epsilon, selector in ((a, b, c) for a in DISTRIBUTIONS for b in EPSILONS for c in SELECTORS):
            z = DISTRIBUTIONS[name](n)
            spent, audit = seconds(lambda z=z, e=epsilon, s=selector: counts.heuristic(z, e, s).audit())
            found = (audit.row_error, audit.fixed_point_error, audit.epsilon / float(audit.stated) - 1)
            worst, longest, number = np.maximum(worst, found), max(longest, spent), number + 1
        print(f"| {n} | {worst[0]:.1e} | {worst[1]:.1e} | {worst[2]:.1e} | {number} | {longest:.3f} |", flush=True)


def growth(sizes):
    """Print the time of Algorithm 1 and the number of its scales by size."""
    print("| counts | s with audit | scales |\n|---|---|---|")
    for n in sizes:
        z = 0.999 ** np.arange(n) / (0.999 ** np.arange(n)).sum()
        spent, found = min(
            (seconds(lambda z=z: counts.heuristic(z, "1/2")) for _ in range(3)), key=lambda pair: pair[0]
        )
        audit, _ = seconds(found.audit)
        print(f"| {n} | {spent + audit:.3f} | {found.scales.column.size} |", flush=True)


def general(z, epsilon):
    """Return the smallest error by a general solver over all entries."""
    n, up = z.size, math.exp(epsilon)
    steps = sparse.diags_array([np.full(n, -1.0), np.full(n - 1, up)], offsets=[0, 1], shape=(n - 1, n))
    back = sparse.diags_array([np.full(n, up), np.full(n - 1, -1.0)], offsets=[0, 1], shape=(n - 1, n))
    private = -sparse.kron(sparse.vstack([steps, back]), sparse.eye_array(n))
    rows = sparse.vstack([sparse.kron(sparse.eye_array(n), np.ones((1, n))), sparse.kron(z[None], sparse.eye_array(n))])
    cost = z[:, None] * np.abs(np.arange(n)[:, None] - np.arange(n))
    found = linprog(
        cost.ravel(), private, np.zeros(private.shape[0]), rows, np.append(np.ones(n), z), method="highs-ipm"
    )
    return found.fun


def least(sizes, alone):
    """Compare the method for any costs with a general solver and the closed form: error, audited epsilon, time."""
    print(
        "| counts | general | closed form | audited epsilon | s | s, general | ratio |\n|---|---|---|---|---|---|---|"
    )
    for n in (*sizes, alone):
        z = DISTRIBUTIONS["binomial"](n)
        cost = z[:, None] * np.abs(np.arange(n)[:, None] - np.arange(n))
        spent, found = seconds(lambda z=z, cost=cost: counts.optimal(z, "1/2", weights=cost))
        exact = found.count_error() / counts.optimal(z, "1/2").count_error() - 1
        line = f"| {n} | "
        if n == alone:
            print(f"{line}- | {exact:.0e} | {found.audit().epsilon:.15g} | {spent:.2f} | - | - |", flush=True)
            continue
        other, error = seconds(lambda z=z: general(z, 0.5))
        apart, epsilon = found.count_error() / error - 1, found.audit().epsilon
        times = f"{spent:.2f} | {other:.2f} | {other / spent:.0f}"
        print(f"{line}{apart:.0e} | {exact:.0e} | {epsilon:.15g} | {times} |", flush=True)


def tables():
    """Return four tables: homicides by county and teachers per school from files, and two simulated ones."""
    rng = np.random.default_rng(7)
    drawn = {
        "binomial": (rng.binomial(20, 0.5, 10_000), 21),
        "negative binomial": (rng.negative_binomial(2, 0.2, 2000), 60),
    }
    if file := public_file("homicides_by_county.csv"):
        raw = np.genfromtxt(file, delimiter=",", names=True, usecols=4)["murders"].astype(int)
        drawn = {"homicides": (raw, 51)} | drawn
    if file := public_file("teachers_per_school_counts_vermont_only.csv"):
        teachers, schools = np.genfromtxt(file, delimiter=",", skip_header=1).astype(int).T
        drawn["teachers"] = (np.repeat(np.maximum(teachers, 0), schools), 81)
    return {name: (np.minimum(x, n - 1), n) for name, (x, n) in drawn.items()}


def geometric(epsilon, size, rng):
    """Draw double geometric noise."""
    return np.subtract(*rng.geometric(-math.expm1(-epsilon), (2, size)))


def reranked(share):
    """Return the method of a dozen lines: isotonic cumulative counts, and noisy cells that are re-ranked to them."""

    def release(x, n, epsilon, rng):
        below = np.cumsum(np.bincount(x, minlength=n))[:-1] + geometric(share(epsilon) * epsilon, n - 1, rng)
        fitted = np.rint(isotonic_regression(below).x.clip(0, x.size))
        noisy = x + geometric((1 - share(epsilon)) * epsilon, x.size, rng)
        order = np.lexsort((rng.random(x.size), noisy))
        released = np.empty(x.size, dtype=int)
        released[order] = np.searchsorted(fitted, np.arange(x.size), side="right")
        return released

    return release


def two_stage(*options):
    """Return releases by `TwoStage` with these options after n."""
    return lambda x, n, epsilon, rng: counts.TwoStage(epsilon, n, *options).simulate(x, draws=1, rng=rng).values[0]


def clipped(x, n, epsilon, rng):
    """Add noise to the cells alone."""
    return np.clip(x + geometric(epsilon, x.size, rng), 0, n - 1)


METHODS = {
    "`TwoStage`": two_stage(),
    "cells clipped": clipped,
    "re-ranked, rule of thumb": reranked(lambda epsilon: float(counts.budget_share(epsilon))),
    "re-ranked, half": reranked(lambda epsilon: 0.5),
    "isotonic cyclic noise": two_stage(None, "best", "cyclic-laplace", "isotonic"),
    "projected cyclic noise": two_stage(None, "best", "cyclic-laplace", "simplex"),
}


def histograms(draws):
    """Print W1 of the histogram and mean absolute error of a cell by method, and which are better in both errors."""
    print("| table | epsilon | " + " | ".join(METHODS) + " | better in both |\n|" + "---|" * (len(METHODS) + 3))
    for (name, (x, n)), epsilon in product(tables().items(), (0.1, 0.3, 1, 3)):
        found, rng = {}, np.random.default_rng(11)
        for method, release in METHODS.items():
            drawn = [release(x, n, epsilon, rng) for _ in range(draws)]
            shares = [counts.histogram(y, n) / x.size for y in drawn]
            w1 = [counts.wasserstein(share, counts.histogram(x, n) / x.size) for share in shares]
            found[method] = np.array([w1, np.abs(np.array(drawn) - x).mean(axis=1)])
        own = found["`TwoStage`"]
        error = {
            method: np.hypot(*(part.std(axis=1) for part in (own, both))) / draws**0.5 for method, both in found.items()
        }
        better = [m for m, both in found.items() if (both.mean(axis=1) < own.mean(axis=1) - 2 * error[m]).all()]
        cells = " | ".join("{:.4f}, {:.3f}".format(*both.mean(axis=1)) for both in found.values())
        print(f"| {name} | {epsilon:g} | {cells} | {', '.join(better) or 'none'} |", flush=True)


def main(quick, only_histograms=False):
    """Print the tables."""
    histograms(20 if quick else 200)
    if only_histograms:
        return
    counts.heuristic(np.full(9, 1 / 9), 1).audit()
    counts.optimal(np.full(9, 1 / 9), 1)
    kept((21, 81, 200) if quick else (21, 81, 200, 500, 1000, 2000))
    growth((500, 1000) if quick else (1000, 2000, 4000, 8000))
    least((41,) if quick else (41, 81, 161), 81 if quick else 300)


if __name__ == "__main__":
    main("quick" in sys.argv[1:], "histograms" in sys.argv[1:])
