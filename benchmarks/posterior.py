"""Posterior sampling from noisy tables: effective draws per CPU second, compared with models that PyMC users write
today.

Run with ``PPDINF_BENCHMARKS=folder python benchmarks/posterior.py [problem ...]``; the folder contains p1.json and
p2.json.

Problems: p1, 20 areas with a public total; p2, a 4 x 4 table with public margins; areas, 200 areas like those of p1,
simulated from a seed; low, 20 such areas with noise at epsilon = 0.02; months, 500 areas in 24 months (12,000 cells)
with a public total each month. Every line of the table is a separate process on one core, for both chains. The problem
months uses a core for each chain, and its seconds are wall seconds. ESS is the smallest bulk ESS over all parameters.
CPU seconds include compiling with an empty cache of PyTensor, as for every new model. The package's own kernels are
compiled once per installation, in the first run. Rows with fewer than 4,000 effective draws are marked. Deviation is
from reference answers if a file has them, otherwise from the first method: the largest of |mean - reference| / sd, and
the largest of |sd / reference - 1|.

- marginal, fiber: `PartiallyPrivate`, table marginalized or sampled on its fiber; p2 with `dense_steps`, a dense
metric.
  If noise leaves cells little information (low), effects are not centered and the intercept is sampled through the
  expected total (`intercept_given_total`). Otherwise effects are centered by information, for every method: other
  parametrizations of the same posterior.
- last cell: cells as unknowns of PyMC, dependent cells solved, the noise as a Potential (its default steps).
- relaxed: the same with real-valued cells and gamma functions for factorials, all by NUTS; p2 also with a dense metric.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

SEED, WANTED = 1, 4000
QUIET = {"chains": 2, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def p1_like(data, epsilon=0.25):
    return {**data, "eps": epsilon, "Y": np.array(data["Y"]), "pop": np.array(data["pop"])}


def simulated(areas, epsilon):
    """Simulate p1 with other areas, from a seed: noise with sum zero by the exact sampler."""
    from fractions import Fraction

    from ppdinf.noise.exact.single_sums import draw_class
    from ppdinf.noise.primitives.stream import seeded_stream

    rng = np.random.default_rng(SEED)
    pop = rng.integers(700, 18_000, areas)
    x = rng.poisson(pop * np.exp(rng.normal(-5.1, 0.5, areas)))
    noise = draw_class(areas, 0, Fraction(str(epsilon)), seeded_stream(rng))[0]
    return {"eps": epsilon, "Y": x + noise, "pop": pop}


def simulated_months(areas=500, months=24):
    """Simulate areas with separate levels and a common trend over months, with public totals of months."""
    from fractions import Fraction

    from ppdinf.noise.exact.single_sums import draw_class
    from ppdinf.noise.primitives.stream import seeded_stream

    rng = np.random.default_rng(SEED)
    area, course = rng.normal(0, 0.8, areas), np.cumsum(rng.normal(0, 0.15, months))
    x = rng.poisson(np.exp(np.log(10) + area[:, None] + course - course.mean()))
    noise = draw_class(areas, 0, Fraction(1, 4), seeded_stream(rng), size=months).T
    return {"eps": 0.25, "Y": x + noise}


def load(problem):
    folder = Path(os.environ["PPDINF_BENCHMARKS"])
    if problem == "p1":
        return p1_like(json.loads((folder / "p1.json").read_text()))
    if problem == "p2":
        data = json.loads((folder / "p2.json").read_text())
        return {**data, "Y": np.array(data["Y"])}
    if problem == "months":
        return simulated_months()
    return simulated(200, 0.25) if problem == "areas" else simulated(20, 0.02)


def log_rates(problem, data):
    """Define the priors of the problem and return the log rate of every cell, in the shape of the table."""
    import pymc as pm

    if problem == "p2":
        u = np.array(data["u"])
        mu, beta = pm.Normal("mu", 3, 2), pm.Normal("beta", 0, 1)
        a, b = pm.Normal("a", 0, 1, shape=3), pm.Normal("b", 0, 1, shape=3)
        rows, columns = pm.math.concatenate([[0.0], a]), pm.math.concatenate([[0.0], b])
        return mu + rows[:, None] + columns[None, :] + beta * np.outer(u, u)
    if problem == "months":
        from ppdinf.models.label_effects import intercept_given_total

        effects = [
            pm.ZeroSumNormal(name, pm.HalfNormal(f"tau_{name}", 1), shape=n)
            for name, n in zip(("area", "month"), data["Y"].shape, strict=True)
        ]
        effect = effects[0][:, None] + effects[1]
        return intercept_given_total("mu", pm.Normal.dist(2, 2), effect, data["Y"].sum()) + effect
    return np.log(data["pop"]) + log_rates_of_areas(problem, data)


def log_rates_of_areas(problem, data):
    """Return effects centered by the information of the release, or in coordinates that suit NUTS."""
    import pymc as pm

    tau, pop = pm.HalfNormal("tau", 1), data["pop"]
    expected = pop * data["Y"].sum() / pop.sum()
    information = expected**2 / (expected + 2 / data["eps"] ** 2)  # information of a release about a log rate
    usual = 1 / 0.5**2  # information of a prior with standard deviation 1/2
    if np.mean(information) > usual:
        mu, centred = pm.Normal("mu", -5, 2), information / (information + usual)
        z = pm.Normal("z", centred * mu, tau**centred, shape=pop.size)
        return pm.Deterministic("eta", mu + tau ** (1 - centred) * (z - centred * mu))
    from ppdinf.models.label_effects import intercept_given_total

    effect = tau * pm.Normal("z", 0, 1, shape=pop.size)
    mu = intercept_given_total("mu", pm.Normal.dist(-5, 2), np.log(pop) + effect, data["Y"].sum())
    return pm.Deterministic("eta", mu + effect)


def ours(problem, data, marginalize):
    import pymc as pm

    import ppdinf as ppd

    margins = ppd.invariants.margin("dim_0") & ppd.invariants.margin("dim_1")
    months = ppd.invariants.margin("dim_1")
    public = {"p2": margins, "months": months}.get(problem, ppd.invariants.total())
    release = ppd.Release(data["Y"], ppd.GeneralizedLaplace(public, epsilon=data["eps"]))
    with pm.Model(coords=release.coords) as model:
        rate = pm.math.exp(log_rates(problem, data))
        ppd.PartiallyPrivate("x", pm.Poisson.dist(rate), release=release, marginalize=marginalize)
    return model


def solved(free, Y):
    """Complete a table from its free cells: the last cell, or the last row and column."""
    import pytensor.tensor as pt

    if Y.ndim == 1:
        return pt.concatenate([free, [Y.sum() - free.sum()]])
    rows = pt.concatenate([free, (Y.sum(axis=1)[:-1] - free.sum(axis=1))[:, None]], axis=1)
    return pt.concatenate([rows, (Y.sum(axis=0) - rows.sum(axis=0))[None, :]], axis=0)


def last_cell(problem, data):
    import pymc as pm
    import pytensor.tensor as pt

    Y, inner = data["Y"], tuple(n - 1 for n in data["Y"].shape)
    start = np.maximum(nearest(Y), 0)[tuple(slice(n) for n in inner)]
    with pm.Model() as model:
        rate = pt.exp(log_rates(problem, data))
        cut = tuple(slice(n) for n in inner)
        free = pm.Poisson("free", rate[cut], shape=inner, initval=start)
        x = solved(free, Y)
        rest = pm.logp(pm.Poisson.dist(rate), x).sum() - pm.logp(pm.Poisson.dist(rate[cut]), free).sum()
        pm.Potential("sums", pt.switch(pt.all(x >= 0), rest, -np.inf))
        pm.Potential("noise", -data["eps"] * pt.abs(Y - x).sum())
    return model


def relaxed(problem, data):
    import pymc as pm
    import pytensor.tensor as pt

    Y, inner = data["Y"], tuple(n - 1 for n in data["Y"].shape)
    start = nearest(Y)[tuple(slice(n) for n in inner)] + 0.5
    with pm.Model() as model:
        log_rate = log_rates(problem, data)
        free = pm.HalfFlat("free", shape=inner, initval=start)
        x = solved(free, Y)
        log_data = x * log_rate - pt.exp(log_rate) - pt.gammaln(pt.maximum(x, 0) + 1)
        pm.Potential("cells", pt.switch(pt.all(x > 0), log_data.sum(), -np.inf))
        pm.Potential("noise", -data["eps"] * pt.abs(Y - x).sum())
    return model


def nearest(Y):
    """Return a table of positive counts with the public sums of Y, the start of PyMC models."""
    from ppdinf.lattice import margin_matrix
    from ppdinf.lattice.feasible import nearest_feasible

    A = np.ones((1, Y.size), dtype=int) if Y.ndim == 1 else margin_matrix(Y.shape, [(0,), (1,)])
    cells = np.eye(Y.size, dtype=int)
    return nearest_feasible(A, A @ Y.ravel(), cells, np.ones(Y.size, dtype=int), Y.ravel()).reshape(Y.shape)


METHODS = {
    "marginal": lambda problem, data: ours(problem, data, True),
    "fiber": lambda problem, data: ours(problem, data, False),
    "last cell": last_cell,
    "relaxed": relaxed,
}
DRAWS = {  # per chain, after 1,000 tuning draws: enough for 4,000 effective draws if this takes minutes
    "p1": {"marginal": 8000, "fiber": 25_000, "last cell": 40_000, "relaxed": 16_000},
    "p2": {"fiber": 12_000, "last cell": 30_000, "relaxed": 8000},
    "areas": {"marginal": 8000, "fiber": 20_000, "last cell": 60_000, "relaxed": 5000},
    "low": {"marginal": 8000, "fiber": 25_000},
    "months": {"marginal": 2000},
}
NAMES = {"p2": ["mu", "a", "b", "beta"], "months": ["mu", "tau_area", "tau_month", "area", "month"]}


def work(problem, method, channel):
    """Sample one model and send the entries of the table."""
    warnings.simplefilter("ignore")
    import arviz as az
    import pymc as pm

    data = load(problem)
    first, parallel = [], problem == "months"
    clock = time.perf_counter if parallel else time.process_time
    begun = clock()
    with METHODS[method](problem, data):
        from ppdinf.samplers import dense_steps

        idata = pm.sample(
            DRAWS[problem][method],
            tune=500 if parallel else 1000,
            cores=2 if parallel else 1,
            step=dense_steps() if (problem, method) == ("p2", "fiber") else None,
            # jitter would make the last cell negative
            init="auto" if method != "relaxed" else "adapt_full" if problem == "p2" else "adapt_diag",
            random_seed=SEED,
            callback=lambda trace, draw: None if first else first.append(clock()),
            **QUIET,
        )
    seconds = clock() - begun
    names = NAMES.get(problem, ["mu", "tau", "eta"])
    found = az.summary(idata, var_names=names, kind="all", round_to="none")
    moments = {
        n: (idata.posterior[n].mean(("chain", "draw")).values, idata.posterior[n].std(("chain", "draw")).values)
        for n in names
    }
    channel.send((float(found["ess_bulk"].min()), float(found["r_hat"].max()), seconds, first[0] - begun, moments))


def measure(problem, method):
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(problem, method, sender))
    with tempfile.TemporaryDirectory() as empty:
        os.environ["PYTENSOR_FLAGS"] = f"base_compiledir={empty}"
        process.start()
        sender.close()
        try:
            return receiver.recv()
        finally:
            process.join()


def deviation(moments, reference):
    """Return the largest error of means in posterior sds, and the largest relative error of sds."""
    means = max(np.max(np.abs(m - reference[n][0]) / reference[n][1]) for n, (m, _) in moments.items())
    sds = max(np.max(np.abs(s / np.asarray(reference[n][1]) - 1)) for n, (_, s) in moments.items())
    return means, sds


def main():
    line = "{:<8}{:<11}{:>7}{:>8}{:>11}{:>11}{:>8}{:>10}{:>8}".format
    print(line("problem", "method", "ESS", "CPU s", "compiling", "ESS/CPU s", "R-hat", "mean dev", "sd dev"))
    for problem in sys.argv[1:] or DRAWS:
        given = load(problem).get("reference", {})
        reference = {n: (np.array(given[n]["mean"]), np.array(given[n]["sd"])) for n in given}
        for method in DRAWS[problem]:
            ess, rhat, seconds, compiling, moments = measure(problem, method)
            reference = reference or moments
            means, sds = deviation(moments, reference)
            short = " (ESS under 4,000)" if ess < WANTED else ""
            times = (f"{seconds:.1f}", f"{compiling:.1f}", f"{ess / seconds:.1f}")
            shown = (f"{ess:.0f}", *times, *(f"{x:.3f}" for x in (rhat, means, sds)))
            print(line(problem, method, *shown) + short, flush=True)


if __name__ == "__main__":
    main()
