"""A posterior of a nation: thousands of areas with public sums, within a minute.

Run with ``python benchmarks/nation.py [problem ...] [method ...]``. Counts of homicides and populations of 2010 by
county are read from the folder that ``PPDINF_DATA`` names (`homicides_by_county.csv`, `county_population_2010.csv`), or
simulated if it is not set.

Problems: counties, 3,143 in 51 states, state totals public, state and county effects, l1 noise of epsilon = 1/2;
months, 500 areas in 24 months (12,000 cells), totals of months public, area and month effects, epsilon = 1/4. Both use
`ppdinf.models.label_effects.log_rates`. Each chain has 1,000 draws after 1,000 tuning draws in a separate process
(nutpie has both chains in one). Seconds are CPU seconds of both chains together and wall seconds, including imports,
kernels and compilation. Chains of the last two methods are shorter, because they take minutes; compare effective draws
per CPU second.

- marginal: `PartiallyPrivate`, table marginalized, PyMC's own NUTS.
- nutpie: the same model by ``pm.sample`` with nutpie installed: chains in threads of one process, which share
constants. - longer steps: the same with ``target_accept=0.65``, which minimises the cost of an effective draw for many
unknowns (A.
  Beskos, N. Pillai, G. Roberts, J.-M. Sanz-Serna, A. Stuart, "Optimal tuning of the hybrid Monte Carlo algorithm",
  Bernoulli 19 (2013), 1501-1534) without curvature.
- fixed length: the same by ``ppdinf.samplers.FixedLengthHMC(target_accept=0.8)``, with trajectory length pi / 2 for
nearly
  standard-normal posteriors. NUTS trajectories are about 3 times as long.
- relaxed: real-valued cells as shares of the public sums, gamma functions for factorials, all by NUTS.
- last cell: integer cells of PyMC, the last of each group solved, the noise as a Potential (its default steps).
"""

import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

SEED = 1
CHAINS = 2
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
PROBLEMS = {"counties": 0.5, "months": 0.25}  # epsilon
SHORTER = {"relaxed": (200, 200), "last cell": (100, 100)}  # tuning draws and draws of a chain
EFFECTS = {"counties": ["state", "county"], "months": ["area", "month"]}


def counties():
    """Return counts by county with their states and populations."""
    folder = os.environ.get("PPDINF_DATA")
    if folder:
        deaths = pd.read_csv(Path(folder) / "homicides_by_county.csv", dtype={"fips": str}).set_index("fips")["murders"]
        people = pd.read_csv(Path(folder) / "county_population_2010.csv", dtype={"fips": str}).set_index("fips")
        people["deaths"] = deaths.reindex(people.index).fillna(0).astype(int)
        return people["deaths"].values, people["state"].values, people["population"].values
    rng = np.random.default_rng(SEED)
    state = np.sort(np.concatenate([np.arange(51), rng.integers(0, 51, 3143 - 51)]))
    people = np.exp(rng.normal(10.2, 1.45, 3143)).astype(int) + 50
    rate = np.exp(-10.2 + rng.normal(0, 0.4, 51)[state] + rng.normal(0, 0.6, 3143))
    return rng.poisson(people * rate), state, people


def released(problem):
    """Return a release of the problem's table, from a seed."""
    import ppdinf as ppd

    rng = np.random.default_rng(SEED)
    if problem == "counties":
        counts, state, people = counties()
        table = ppd.as_table(counts, dims=["county"]).assign_coords(state=("county", state), people=("county", people))
        public = ppd.invariants.groups("state") & ppd.invariants.covariates("people")
    else:
        log_rate = np.log(10) + rng.normal(0, 0.8, 500)[:, None] + np.cumsum(rng.normal(0, 0.15, 24))
        table, public = (
            ppd.as_table(rng.poisson(np.exp(log_rate)), dims=["area", "month"]),
            ppd.invariants.margin("month"),
        )
    mechanism = ppd.GeneralizedLaplace(public, epsilon=PROBLEMS[problem])
    noisy = mechanism.simulate(table, draws=1, rng=SEED).squeeze("draw", drop=True)
    return ppd.Release(noisy, mechanism)


def log_means(problem, release):
    """Return the log of the mean of every cell."""
    from ppdinf.models.label_effects import log_rates

    exposure = "people" if problem == "counties" else None
    eta = log_rates(release, EFFECTS[problem], exposure=exposure)
    return eta if exposure is None else eta + np.log(release.frame.broadcast(exposure).reshape(release.shape))


def marginal(problem, release):
    import pymc as pm

    import ppdinf as ppd

    with pm.Model(coords=release.coords) as model:
        rate = pm.math.exp(log_means(problem, release))
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=True)
    return model


def by_hand(problem, release, relaxed):
    """Return the same model with cells as unknowns, the last of each group solved."""
    import pymc as pm
    import pytensor.tensor as pt

    noisy = release.table.values.ravel()
    if problem == "counties":
        group = pd.factorize(release.frame.broadcast("state"))[0]
    else:
        group = np.broadcast_to(np.arange(24), release.shape).ravel()
    total = np.bincount(group, weights=noisy)
    counted = np.flatnonzero(total[group] > 0)  # cells with total 0 are 0
    last = np.array([np.flatnonzero(group == g)[np.argmax(noisy[group == g])] for g in np.flatnonzero(total)])
    free = np.setdiff1d(counted, last)
    start = np.maximum(noisy, 0.5 if relaxed else 0).astype(float)
    for g in np.flatnonzero(total):  # non-negative and at most the public total
        cells = np.flatnonzero(group == g)
        if relaxed:
            start[cells] *= total[g] / start[cells].sum()
            continue
        over = start[cells].sum() - total[g]
        for i in cells[np.argsort(-start[cells])]:
            less = min(over, start[i])
            start[i] -= less
            over -= less
    with pm.Model(coords=release.coords) as model:
        log_rate = log_means(problem, release).ravel()
        x, into = pt.zeros(noisy.size), pt.zeros(total.size)
        if relaxed:  # shares without hard bounds: uniform on the simplex of every group
            whole = np.zeros(total.size)
            whole[group[last]] = start[last]
            ratio = pm.Flat("free", shape=free.size, initval=np.log(start[free] / whole[group[free]]))
            weight = pt.set_subtensor(pt.set_subtensor(x[free], pt.exp(ratio))[last], 1.0)
            share = weight / pt.inc_subtensor(into[group], weight)[group]
            x = total[group] * share
            pm.Potential("volume", pt.log(share[counted]).sum())
        else:
            cells = pm.Poisson("free", pt.exp(log_rate[free]), shape=free.size, initval=start[free].astype(int))
            solved = (total - pt.inc_subtensor(into[group[free]], cells))[group[last]]
            x = pt.set_subtensor(pt.set_subtensor(x[free], cells)[last], solved)
        log_p = x * log_rate - pt.exp(log_rate) - pt.gammaln(pt.maximum(x, 0) + 1)
        rest = log_p.sum() if relaxed else log_p.sum() - log_p[free].sum()
        pm.Potential("cells", pt.switch(pt.all(x >= 0), rest, -np.inf))
        pm.Potential("noise", -PROBLEMS[problem] * pt.abs(noisy - x).sum())
    return model


METHODS = {
    "marginal": marginal,
    "nutpie": marginal,
    "longer steps": marginal,
    "fixed length": marginal,
    "relaxed": lambda problem, release: by_hand(problem, release, True),
    "last cell": lambda problem, release: by_hand(problem, release, False),
}


def work(problem, method, chain, channel):
    """Draw a chain (both with nutpie) in a separate process; send draws and CPU seconds."""
    warnings.simplefilter("ignore")
    import pymc as pm

    import ppdinf as ppd

    tune, draws = SHORTER.get(method, (1000, 1000))
    release = released(problem)
    first = []
    if method == "nutpie":
        how = {"nuts_sampler": "nutpie", "chains": CHAINS, "cores": CHAINS}
    else:
        how = {"nuts_sampler": "pymc", "chains": 1, "cores": 1}
        how["init"] = "auto" if METHODS[method] is marginal else "adapt_diag"
        how["callback"] = lambda trace, draw: None if first else first.append(time.process_time())
    with METHODS[method](problem, release) as model:
        if method == "fixed length":
            how["step"] = ppd.samplers.FixedLengthHMC(target_accept=0.8)
        elif method == "longer steps":
            how["target_accept"] = 0.65
        idata = pm.sample(draws, tune=tune, random_seed=SEED + chain, **how, **QUIET)
    seconds = time.process_time()
    wanted = [v.name for v in model.unobserved_RVs if v.name in idata.posterior and v.name not in ("x", "free")]
    values = {name: idata.posterior[name].values for name in wanted}
    stats = idata.sample_stats
    leaps = float(stats["n_steps"].mean()) if "n_steps" in stats else np.nan
    diverged = int(stats["diverging"].sum()) if "diverging" in stats else 0
    channel.send((values, seconds, first[0] if first else np.nan, leaps, diverged))


def measure(problem, method):
    """Run chains in parallel, and return the entries of the table."""
    import arviz as az
    import xarray as xr

    context = multiprocessing.get_context("spawn")
    pipes, begun = [], time.perf_counter()
    for chain in range(1 if method == "nutpie" else CHAINS):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(problem, method, chain, sender))
        process.start()
        pipes.append((receiver, process))
    parts = [receiver.recv() for receiver, _ in pipes]
    for _, process in pipes:
        process.join()
    wall = time.perf_counter() - begun
    stacked = {n: np.concatenate([p[0][n] for p in parts]) for n in parts[0][0]}
    posterior = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {n: (("chain", "draw", *(f"{n}_{k}" for k in range(v.ndim - 2))), v) for n, v in stacked.items()}
            )
        }
    )
    found = az.summary(posterior, kind="diagnostics", round_to="none")
    worst = found["ess_bulk"].astype(float).idxmin()
    seconds = sum(p[1] for p in parts)
    return {
        "ess": float(found["ess_bulk"].min()), "tail": float(found["ess_tail"].min()),
        "r_hat": float(found["r_hat"].max()), "CPU s": seconds, "wall s": wall,
        "to first draw": max(p[2] for p in parts), "leapfrogs": np.mean([p[3] for p in parts]),
        "divergences": sum(p[4] for p in parts), "worst": worst,
    }  # fmt: skip


def main():
    asked = sys.argv[1:]
    problems = [p for p in PROBLEMS if p in asked] or list(PROBLEMS)
    methods = [m for m in METHODS if m in asked] or list(METHODS)
    for problem in problems:
        for method in methods:
            found = measure(problem, method)
            shown = ", ".join(f"{k} {v:.4g}" if not isinstance(v, str) else f"{k} {v}" for k, v in found.items())
            per = found["ess"] / found["CPU s"]
            print(f"{problem}, {method}: {shown}, ESS/CPU s {per:.3g}", flush=True)


if __name__ == "__main__":
    main()
