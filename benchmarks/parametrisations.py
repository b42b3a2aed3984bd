"""Parametrizations of effects for NUTS: the ready model compared with centered and non-centered models.

Run with ``python benchmarks/parametrisations.py [problem ...]``. All problems are simulated from a seed: counts of
counties in twelve states with public state totals, l1 noise.

Problems: sparse, 150 counties with counts of 0 to 3 and epsilon = 1/10; dense, 150 counties with counts in the hundreds
and epsilon = 1; mixed, populations that span a factor of 1,000 and epsilon = 1/2. Each is written with `log_rates`,
with centered effects, and with non-centered effects: 2 x (1,000 + 1,000) draws of PyMC's own NUTS in one process. The
first model is also sampled by `ppdinf.samplers.FixedLengthHMC` (fixed length). CPU times exclude compiling. ESS is the
smallest bulk ESS over the common quantities: spreads, intercept and effects.
"""

import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import arviz as az
import numpy as np
import pymc as pm

import ppdinf as ppd
from ppdinf.models.label_effects import log_rates

SEED, CHAINS = 1, 2
PROBLEMS = {  # epsilon, log of a typical count, standard deviation of log populations
    "sparse": ("1/10", -0.5, 0.5), "dense": ("1", 5.5, 0.5), "mixed": ("1/2", 1.5, 1.7),
}  # fmt: skip
LABELS = ["state", "county"]


def released(problem, counties=150, states=12):
    epsilon, typical, uneven = PROBLEMS[problem]
    rng = np.random.default_rng(SEED)
    state = np.sort(np.concatenate([np.arange(states), rng.integers(0, states, counties - states)]))
    people = np.exp(rng.normal(9, uneven, counties)).astype(int) + 50
    rate = np.exp(typical - 9 + rng.normal(0, 0.4, states)[state] + rng.normal(0, 0.5, counties))
    table = ppd.as_table(rng.poisson(people * rate), dims=["county"])
    table = table.assign_coords(state=("county", state), people=("county", people))
    public = ppd.invariants.groups("state") & ppd.invariants.covariates("people")
    mechanism = ppd.GeneralizedLaplace(public, epsilon=epsilon)
    return ppd.Release(mechanism.simulate(table, draws=1, rng=SEED).squeeze("draw", drop=True), mechanism)


def by_hand(release, centred):
    people = release.frame.broadcast("people")
    eta = pm.Normal("intercept", np.log(max(release.table.values.sum(), 1) / people.sum()), 2.5)
    for name in LABELS:
        codes, labels = release.frame.codes(name)
        spread = pm.HalfNormal(f"{name}_spread", 1)
        if centred:
            effect = pm.Normal(f"{name}_effect", 0, spread, shape=len(labels))
        else:
            z = pm.Normal(f"{name}_unit", 0, 1, shape=len(labels))
            effect = pm.Deterministic(f"{name}_effect", spread * z)
        eta = eta + effect[codes]
    return eta


def ready(release):
    return log_rates(release, LABELS, exposure="people")


METHODS = {
    "ready": ready,
    "centred": lambda release: by_hand(release, True),
    "fixed length": ready,
    "not centred": lambda release: by_hand(release, False),
}


def measure(problem, method):
    release, begun = released(problem), []
    with pm.Model(coords=release.coords):
        rate = pm.math.exp(METHODS[method](release)) * release.frame.broadcast("people")
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=True)
        idata = pm.sample(
            1000, tune=1000, chains=CHAINS, cores=1, random_seed=SEED, nuts_sampler="pymc", progressbar=False,
            quiet=True, compute_convergence_checks=False,
            step=ppd.samplers.FixedLengthHMC() if method == "fixed length" else None,
            callback=lambda **_: None if begun else begun.append(time.process_time()),
        )  # fmt: skip
    seconds = time.process_time() - begun[0]
    names = ["intercept", *(f"{name}_{what}" for name in LABELS for what in ("spread", "effect"))]
    found = az.summary(idata, var_names=names, kind="diagnostics", round_to="none")
    stats = idata.sample_stats
    return (
        float(found["ess_bulk"].min()), float(found["ess_tail"].min()), float(found["r_hat"].max()), seconds,
        float(stats["n_steps"].mean()), int(stats["diverging"].sum()), found["ess_bulk"].idxmin(),
    )  # fmt: skip


def main():
    warnings.simplefilter("ignore")
    line = "{:<8}{:<13}{:>7}{:>7}{:>8}{:>8}{:>7}{:>10}{:>11}  {}".format
    print(line("problem", "written", "ESS", "tail", "R-hat", "CPU s", "steps", "diverged", "ESS/CPU s", "worst"))
    for problem in sys.argv[1:] or PROBLEMS:
        for method in METHODS:
            ess, tail, r_hat, seconds, steps, diverged, worst = measure(problem, method)
            shown = (f"{ess:.0f}", f"{tail:.0f}", f"{r_hat:.3f}", f"{seconds:.1f}", f"{steps:.0f}", diverged)
            print(line(problem, method, *shown, f"{ess / seconds:.1f}", worst), flush=True)


if __name__ == "__main__":
    main()
