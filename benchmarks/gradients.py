"""Time of a gradient of a model with a marginalized table: by pieces, and by the rows of all cells.

Run with ``python benchmarks/gradients.py [problem ...]``. The table shows microseconds of CPU for a log density with
its gradient, as NUTS evaluates it, at log rates within about 0.1 of the logarithms of the counts. It is the best of
many rounds that alternate between the two methods. The table also shows the largest relative difference of densities
and of gradients. Rows: the same model without its pieces (`ppdinf.fiber.sums_given_totals.totals.NO_PIECES`).

Problems: areas, 20 with a public total; months, 500 areas in 24 months (12,000 cells) with a public total each month;
counties, 3,143 in 51 states with public totals, counts like county homicides; each with l1 and Gaussian noise.
"""

import os
import sys
import time
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pymc as pm

import ppdinf as ppd
from ppdinf.distributions import ops
from ppdinf.fiber.sums_given_totals import totals

SEED, ROUNDS = 1, 30
NOISE = {"l1": lambda public: ppd.GeneralizedLaplace(public, epsilon=0.5),
         "Gaussian": lambda public: ppd.GeneralizedGaussian(public, sigma=4)}  # fmt: skip


def areas():
    rng = np.random.default_rng(SEED)
    return ppd.as_table(rng.poisson(np.exp(rng.normal(3.5, 0.8, 20))), dims=["area"]), ppd.invariants.total()


def months():
    rng = np.random.default_rng(SEED)
    log_rate = np.log(10) + rng.normal(0, 0.8, 500)[:, None] + np.cumsum(rng.normal(0, 0.15, 24))
    return ppd.as_table(rng.poisson(np.exp(log_rate)), dims=["area", "month"]), ppd.invariants.margin("month")


def counties():
    rng = np.random.default_rng(SEED)
    state = np.sort(np.concatenate([np.arange(51), rng.integers(0, 51, 3143 - 51)]))
    persons = np.exp(rng.normal(10.2, 1.45, 3143))
    rate = np.exp(-10.2 + rng.normal(0, 0.4, 51)[state] + rng.normal(0, 0.6, 3143))
    table = ppd.as_table(rng.poisson(persons * rate), dims=["county"])
    return table.assign_coords(state=("county", state)), ppd.invariants.groups("state")


def model_of(table, public, noise):
    mechanism = NOISE[noise](public)
    noisy = mechanism.simulate(table, draws=1, rng=SEED).squeeze("draw", drop=True)
    release = ppd.Release(noisy, mechanism)
    with pm.Model() as model:
        log_rate = pm.Normal("log_rate", 2, 2, shape=table.shape)
        ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.math.exp(log_rate)), release=release, marginalize=True)
    return model


def main():
    line = "{:<10}{:<10}{:>12}{:>12}{:>8}{:>12}{:>12}".format
    print(line("problem", "noise", "rows, us", "pieces, us", "ratio", "density", "gradient"))
    for problem in sys.argv[1:] or ["areas", "months", "counties"]:
        for noise in NOISE:
            table, public = globals()[problem]()
            model = model_of(table, public, noise)
            by_pieces = model.logp_dlogp_function(ravel_inputs=True)
            no_pieces = patch.object(totals, "pieces_of", lambda *_: totals.NO_PIECES)
            with no_pieces, patch.object(ops, "_in_graphs", {}):
                by_rows = model.logp_dlogp_function(ravel_inputs=True)
            start = np.log(np.maximum(table.values.ravel(), 0.5))
            rng = np.random.default_rng(SEED)
            points = [start + 0.1 * rng.standard_normal(start.size) for _ in range(10)]
            off = [0.0, 0.0]
            for point in points:
                pairs = zip(by_pieces(point), by_rows(point), strict=True)
                off = [max(o, np.max(np.abs(a - b) / np.max(np.abs(b)))) for o, (a, b) in zip(off, pairs, strict=True)]
            best = [np.inf, np.inf]
            for _ in range(ROUNDS):
                for which, function in enumerate((by_rows, by_pieces)):
                    begun = time.process_time()
                    for point in points:
                        function(point)
                    best[which] = min(best[which], (time.process_time() - begun) / len(points))
            shown = [f"{1e6 * x:.1f}" for x in best]
            print(line(problem, noise, *shown, f"{best[0] / best[1]:.1f}", *(f"{x:.1e}" for x in off)), flush=True)


if __name__ == "__main__":
    main()
