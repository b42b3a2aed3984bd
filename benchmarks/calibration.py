"""Rank tests of rejection, importance sampling and `pm.sample`: p-values over simulated releases, and detected faults.

Run with ``python benchmarks/calibration.py [total groups hierarchy two-way]``. Every line simulates 1,000 parameters,
tables and releases, draws from each posterior, and tests whether the ranks of the truth among the draws are uniform:
for theta, the size of the noise and the fit of the table. Regimes: dense (counts of 25, epsilon = 1/4), sparse (0.7,
3/2), flat (4, 1/20). Correct inference has p-values above 1e-6; the faults of dense problems give a p-value below. Two
margins of a 2 x 2 table are marginalized table by table, because `PartiallyPrivate` keeps such a table as a variable.
They have one noise value, which is not sufficient to detect faults. For rejection, the table also shows how many bounds
were proved (the others were found by maximisation), and the median acceptance rate. For importance sampling, it shows
the median and the 95th percentile of k-hat. ``python benchmarks/calibration.py counties deaths`` simulates 200 releases
of a PyMC model with `pm.sample_prior_predictive`, samples each with `pm.observe` and `pm.sample` (2 chains, 300 draws
each, of which 30 are ranked), and shows one p-value per parameter.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracles"))

import numpy as np
import pymc as pm
from posterior_problems import Compiled, Problem

import ppdinf as ppd
from ppdinf.diagnostics.calibration import calibrate, uniformity

SYSTEMS = dict.fromkeys(("total", "groups", "hierarchy", "two-way"), ("dense", "sparse", "flat"))
SUMS = ["epsilon off by 20 %", "a public sum dropped", "P(Z | theta) dropped"]
OWN = {"rejection": "M too small", "importance": "proposal density left out"}


def measure(route, system, regime, compiled, fault):
    problem, seen = Problem(route, system, regime, compiled, fault=fault), []

    def infer(y, rng):
        draws = problem.infer(y, rng)
        seen.append((problem.bound == "proved", problem.acceptance) if route == "rejection" else (problem.k, 0))
        return draws

    begun = time.process_time()
    found = calibrate(problem.simulate, infer, rng=1)
    first, second = np.array(seen).T
    if route == "rejection":
        about = f"{100 * first.mean():.0f} % proved, {100 * np.median(second):.1f} % accepted"
    else:
        about = f"k-hat {np.median(first):.2f}, {np.quantile(first, 0.95):.2f}"
    values = [f"{uniformity(found[name]):.1e}" for name in found]
    return *values, f"{time.process_time() - begun:.0f}", about


def counties():
    """Write a negative binomial regression with unknown shape, whose total is public."""
    release = ppd.Release(np.arange(6, 26), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4"))
    with pm.Model(coords=release.coords) as model:
        level, slope, shape = pm.Normal("level", 2.5, 0.5), pm.Normal("slope", 0, 0.5), pm.Gamma("shape", 3, 1)
        mean = pm.math.exp(level + slope * np.linspace(-1, 1, 20))
        ppd.PartiallyPrivate("cases", pm.NegativeBinomial.dist(mu=mean, alpha=shape), release)
    return model


def deaths():
    """Write noisy deaths among noisy persons of 12 counties: a table whose distribution depends on another."""
    noise = ppd.GeneralizedLaplace(ppd.invariants.Public(), epsilon="1/2")
    first, second = ppd.Release(np.arange(20, 32), noise), ppd.Release(np.arange(4, 16), noise)
    with pm.Model(coords=first.coords) as model:
        level, shape, p = pm.Normal("level", 3, 0.5), pm.Gamma("shape", 4, 1), pm.Beta("p", 2, 4)
        dist = pm.NegativeBinomial.dist(mu=pm.math.exp(level), alpha=shape, shape=12)
        ppd.PartiallyPrivate("deaths", pm.Binomial.dist(n=ppd.PartiallyPrivate("persons", dist, first), p=p), second)
    return model


MODELS = {"counties": counties, "deaths": deaths}


def of_model(model, replicates=200):
    """Return ranks of the parameters among draws of `pm.sample`, for releases of the prior predictive distribution."""
    simulated = pm.sample_prior_predictive(replicates, model, random_seed=1)
    sampling = {"draws": 300, "tune": 300, "chains": 2, "cores": 1, "compute_convergence_checks": False, "quiet": True}
    every = iter(range(replicates))

    def simulate(rng):
        at = {"chain": 0, "draw": next(every)}
        truth, released = simulated.prior.isel(at), simulated.prior_predictive.isel(at)
        return {x.name: truth[x.name].item() for x in model.free_RVs}, {x: released[x].values for x in released}

    def infer(released, rng):
        with pm.observe(model, released):
            drawn = pm.sample(**sampling, progressbar=False, random_seed=rng).posterior
        return {name: drawn[name].values.ravel()[::20] for name in drawn}

    return calibrate(simulate, infer, replicates=replicates, rng=1)


def main():
    chosen = sys.argv[1:] or [*SYSTEMS, *MODELS]
    for name in (name for name in chosen if name in MODELS):
        begun = time.process_time()
        found = of_model(MODELS[name]())
        values = ", ".join(f"{parameter} {uniformity(found[parameter]):.2f}" for parameter in found)
        print(f"{name}: {values} ({len(found)} releases, {time.process_time() - begun:.0f} CPU s)", flush=True)
    line = "{:<11}{:<11}{:<8}{:<27}{:>9}{:>9}{:>9}{:>7}  {}".format
    systems = [name for name in chosen if name not in MODELS]
    if systems:
        print(line("route", "system", "regime", "fault", "theta", "noise", "fit", "CPU s", ""))
    for system in systems:
        enumerated = system == "two-way"
        for route in OWN:
            compiled = Compiled(4 if enumerated else 6, enumerated)
            compiled.compile(route)
            for regime in SYSTEMS[system]:
                faults = [None]
                if regime == "dense" and not enumerated:
                    faults += [*SUMS, OWN[route]]
                for fault in faults:
                    print(
                        line(route, system, regime, fault or "", *measure(route, system, regime, compiled, fault)),
                        flush=True,
                    )


if __name__ == "__main__":
    main()
