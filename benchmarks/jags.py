"""The same Poisson regression under an exact total in JAGS and in ppdinf: agreement, time, and effective draws.

Run with ``python benchmarks/jags.py`` (10 minutes); needs the program `jags` (https://mcmc-jags.sourceforge.io).
67 counties with an exact total and l1 noise, without effects of counties and with centered ones. JAGS has no exact
sums: the count of the largest county is the total minus all others, and its density and those of the noise are stated
by observed zeros. JAGS draws 2 x 20,000 after 2,000 and keeps every 10th; ppdinf 2 x 1,000 after 1,000, with PyMC's
NUTS and with nutpie. CPU seconds are those of a second run, with stored kernels, and include what is compiled again.
"""

import os
import resource
import subprocess
import tempfile
import time
from fractions import Fraction
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import arviz as az
import numpy as np
import pymc as pm

import ppdinf as ppd

SEED, CHAINS, EPSILON, THIN = 1, 2, "1/10", 10
MODEL = """model {
  level ~ dnorm(-3, 0.25)
  slope ~ dnorm(0, 1)
  %s
  for (i in 1:n) { mu[i] <- persons[i] * exp(level + slope * covariate[i] %s) }
  for (i in 1:(n - 1)) { counts[i] ~ dpois(mu[i]) }
  rest <- total - sum(counts)
  for (i in 1:(n - 1)) { zero[i] ~ dpois(epsilon * abs(noisy[i] - counts[i])) }
  zero[n] ~ dpois(epsilon * abs(noisy[n] - rest))
  minus <- ifelse(rest < 0, 1.0E6, mu[n] - rest * log(mu[n]) + loggam(max(rest, 0) + 1))
  zero[n + 1] ~ dpois(minus + 100)
}
"""
EFFECTS = "spread ~ dnorm(0, 1) T(0, )\n  for (i in 1:n) { effect[i] ~ dnorm(0, 1 / spread^2) }", "+ effect[i]"
ORDERS = "model in model.txt", "data in data.txt", f"compile, nchains({CHAINS})"


def counties(spread):
    """Simulate counts in the thousands and release them; return release, populations and covariate."""
    rng = np.random.default_rng(SEED)
    persons, x = np.exp(rng.normal(10.2, 1.2, 67)).astype(int), rng.normal(0, 1, 67)
    table = ppd.as_table(rng.poisson(persons * np.exp(-2.6 + 0.3 * x + rng.normal(0, spread, 67))), dims=["county"])
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=EPSILON)
    return ppd.Release(mechanism.simulate(table, draws=1, rng=SEED).squeeze("draw", drop=True), mechanism), persons, x


def in_r(**values):
    return "".join(
        f"`{name}` <- c({', '.join(f'{number:.12g}' for number in np.atleast_1d(value))})\n"
        for name, value in values.items()
    )


def by_jags(release, persons, x, names):
    """Return CPU seconds and draws by parameter, shape (chains, draws)."""
    order = np.argsort(release.table.values, kind="stable")  # the largest county last
    noisy, total = release.table.values[order], int(release.public.values[0])
    start = np.maximum(noisy[:-1], 0)
    files = {"model": MODEL % (EFFECTS if "spread" in names else ("", ""))}
    files["data"] = in_r(n=noisy.size, persons=persons[order], covariate=x[order], noisy=noisy, total=total)
    files["data"] += in_r(epsilon=float(Fraction(EPSILON)), zero=np.zeros(noisy.size + 1))
    orders = [*ORDERS]
    for chain in range(CHAINS):
        files[f"start{chain}"] = in_r(counts=start, level=-2.9 - chain / 10, slope=0.2)
        files[f"start{chain}"] += f'".RNG.name" <- "base::Mersenne-Twister"\n".RNG.seed" <- {SEED + chain}\n'
        orders.append(f"parameters in start{chain}.txt, chain({chain + 1})")
    monitors = [f"monitor {name}, thin({THIN})" for name in names]
    files["run"] = "\n".join([*orders, "initialize", "update 2000", *monitors, "update 20000", "coda *"]) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        for name, text in files.items():
            (path / f"{name}.txt").write_text(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["jags", "run.txt"], cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        chains = [np.loadtxt(path / f"CODAchain{chain + 1}.txt")[:, 1] for chain in range(CHAINS)]
        index = np.loadtxt(path / "CODAindex.txt", dtype=str)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows = {name: slice(int(first) - 1, int(last)) for name, first, last in index}
    return cpu, {name: np.array([chain[rows[name]] for chain in chains]) for name in names}


def by_ppdinf(sampler, release, persons, x, names):
    """Return CPU seconds and draws by parameter, shape (chains, draws)."""
    options = {"chains": CHAINS, "cores": 1, "random_seed": SEED, "progressbar": False, "quiet": True}
    begun = time.process_time()
    with pm.Model(coords=release.coords):
        log_rate = pm.Normal("level", -3, 2) + pm.Normal("slope", 0, 1) * x
        if "spread" in names:
            log_rate += pm.Normal("effect", 0, pm.HalfNormal("spread", 1), dims="county")
        ppd.PartiallyPrivate("counts", pm.Poisson.dist(persons * pm.math.exp(log_rate)), release=release)
        idata = pm.sample(nuts_sampler=sampler, compute_convergence_checks=False, **options)
    return time.process_time() - begun, {name: idata.posterior[name].values for name in names}


SAMPLERS = {
    "JAGS": by_jags, "ppdinf, PyMC's NUTS": partial(by_ppdinf, "pymc"), "ppdinf, nutpie": partial(by_ppdinf, "nutpie"),
}  # fmt: skip


def main():
    print("| effects | sampler | CPU s | least ESS | ESS per CPU s | means (standard errors) |\n" + "|---" * 6 + "|")
    for names in (["level", "slope"], ["level", "slope", "spread"]):
        release, persons, x = counties(0.3 if "spread" in names else 0)
        for title, sampler in SAMPLERS.items():
            sampler(release, persons, x, names)
            cpu, draws = sampler(release, persons, x, names)
            found = az.summary(draws, round_to="none")
            means = ", ".join(f"{row.Index} {row.mean:.4f} ({row.mcse_mean:.4f})" for row in found.itertuples())
            ess, effects = found.ess_bulk.min(), "of counties" if "spread" in names else "none"
            print(f"| {effects} | {title} | {cpu:.1f} | {ess:.0f} | {ess / cpu:.0f} | {means} |", flush=True)


if __name__ == "__main__":
    main()
