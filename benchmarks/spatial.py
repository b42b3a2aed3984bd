"""Spatial and temporal effects: the ready model compared with the natural parametrization of BYM2 in PyMC.

Run with ``python benchmarks/spatial.py [problem [method [tune draws]]]``. Areas are random points of a square, and
neighbours share an edge of the Delaunay triangulation. Counts are simulated from a seed with a smooth effect of areas
and a random walk over months, and released with l1 noise.

Problems: months, 67 areas and 24 months, public totals of months, epsilon = 1/4; nation, 3,143 areas with counts near
5 and a public total, epsilon = 1/2. Methods: ready, `log_rates` with NUTS; fixed length, the same with
`ppdinf.samplers.FixedLengthHMC`; natural, `pm.ICAR` and independent effects, non-centered, with NUTS, as in PyMC's
example gallery. Two chains in one process. CPU times exclude compiling. ESS is the smallest bulk ESS over spreads,
mixing parameters, intercept and effects.
"""

import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import arviz as az
import numpy as np
import pymc as pm
import scipy.sparse as sp
from scipy.spatial import Delaunay

import ppdinf as ppd
from ppdinf.models.label_effects import log_rates
from ppdinf.models.neighbours import path_edges, scaled_icar

SEED, CHAINS = 1, 2
PROBLEMS = {"months": (67, 24, 2.5, "1/4"), "nation": (3143, 1, 1.6, "1/2")}  # areas, months, log mean, epsilon


def released(problem):
    """Return a release of the problem's table, and the matrix of neighbours."""
    areas, months, level, epsilon = PROBLEMS[problem]
    rng = np.random.default_rng(SEED)
    triangles = Delaunay(rng.random((areas, 2))).simplices
    first, second = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]).T
    W = sp.coo_array((np.ones(first.size), (first, second)), shape=(areas, areas)).tocsr()
    W = ((W + W.T) > 0).astype(float)
    smooth = scaled_icar(np.argwhere(np.triu(W.toarray())), areas)
    s = smooth.vectors @ (np.sqrt(smooth.variances) * rng.normal(size=areas))
    eta = level + 0.6 * (np.sqrt(0.7) * s + np.sqrt(0.3) * rng.normal(size=areas))[:, None]
    counts = rng.poisson(np.exp(eta + np.cumsum(rng.normal(0, 0.2, months))))
    if months == 1:
        table, public = ppd.as_table(counts[:, 0], dims=["area"]), ppd.invariants.total()
    else:
        table, public = ppd.as_table(counts, dims=["area", "month"]), ppd.invariants.margin("month")
    mechanism = ppd.GeneralizedLaplace(public, epsilon=epsilon)
    return ppd.Release(mechanism.simulate(table, draws=1, rng=SEED).squeeze("draw", drop=True), mechanism), W


def ready(release, W):
    months = "month" if "month" in release.dims else None
    return log_rates(release, list(release.dims), spatial={"area": W}, temporal=months)


def bym2(name, edges, n):
    """Return BYM2 effects as in PyMC's gallery: ICAR and independent effects, scaled and mixed."""
    W = np.zeros((n, n))
    W[tuple(edges.T)] = 1
    spectrum = scaled_icar(edges, n)
    eigenvalues = np.linalg.eigvalsh(np.diag((W + W.T).sum(axis=0)) - W - W.T)
    scale = np.sqrt(spectrum.variances.sum() / (1 / eigenvalues[1:]).sum())  # connected graphs
    spread, mixing = pm.HalfNormal(f"{name}_spread", 1), pm.Uniform(f"{name}_mixing", 0, 1)
    s, e = pm.ICAR(f"{name}_icar", W=W + W.T), pm.Normal(f"{name}_iid", shape=n)
    return pm.Deterministic(
        f"{name}_effect", spread * (pm.math.sqrt(mixing) * scale * s + pm.math.sqrt(1 - mixing) * e)
    )


def natural(release, W):
    eta = pm.Normal("intercept", np.log(release.table.values.mean()), 2.5)
    eta = eta + bym2("area", np.argwhere(np.triu(W.toarray())), W.shape[0]).reshape(
        (-1,) + (1,) * (release.table.ndim - 1)
    )
    if "month" in release.dims:
        months = release.shape[1]
        eta = eta + bym2("month", path_edges(months), months)
    return eta


METHODS = {"ready": ready, "fixed length": ready, "natural": natural}


def measure(problem, method, tune, draws):
    (release, W), begun, start = released(problem), [], time.process_time()
    with pm.Model(coords=release.coords):
        rate = pm.math.exp(METHODS[method](release, W))
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=True)
        idata = pm.sample(
            draws, tune=tune, chains=CHAINS, cores=1, random_seed=SEED, nuts_sampler="pymc", progressbar=False,
            quiet=True, compute_convergence_checks=False,
            callback=lambda **_: begun or begun.append(time.process_time()),
            step=ppd.samplers.FixedLengthHMC() if method == "fixed length" else None,
        )  # fmt: skip
    seconds = time.process_time() - begun[0]
    labels = [name for name in ("area", "month") if name in release.dims]
    names = ["intercept", *(f"{name}_{what}" for name in labels for what in ("spread", "mixing", "effect"))]
    found = az.summary(idata, var_names=names, kind="diagnostics", round_to="none")
    stats = idata.sample_stats
    return (
        float(found["ess_bulk"].min()), float(found["ess_tail"].min()), float(found["r_hat"].max()), seconds,
        begun[0] - start, float(stats["n_steps"].mean()), int(stats["diverging"].sum()), found["ess_bulk"].idxmin(),
    )  # fmt: skip


def main():
    warnings.simplefilter("ignore")
    line = "{:<8}{:<13}{:>7}{:>7}{:>8}{:>8}{:>10}{:>7}{:>10}{:>11}  {}".format
    print(
        line("problem", "written", "ESS", "tail", "R-hat", "CPU s", "before", "steps", "diverged", "ESS/CPU s", "worst")
    )
    tune, draws = map(int, sys.argv[3:5] or (500, 500))
    for problem in sys.argv[1:2] or PROBLEMS:
        for method in sys.argv[2:3] or METHODS:
            ess, tail, r_hat, seconds, before, steps, diverged, worst = measure(problem, method, tune, draws)
            shown = (
                f"{ess:.0f}",
                f"{tail:.0f}",
                f"{r_hat:.3f}",
                f"{seconds:.1f}",
                f"{before:.0f}",
                f"{steps:.0f}",
                diverged,
            )
            print(line(problem, method, *shown, f"{ess / seconds:.2f}", worst), flush=True)


if __name__ == "__main__":
    main()
