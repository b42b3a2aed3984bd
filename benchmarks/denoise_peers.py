"""`ppd.denoise` and the shortest program for the same table: effective draws per CPU second.

    python benchmarks/denoise_peers.py [suppressed] [conjugate] [blocks]

Suppressed: 20 x 8 counts, 110 of them suppressed, both margins exact, all tables equally likely. The peer swaps units
between two rows and two columns whose four cells are all suppressed. No theorem says that its swaps connect the tables.

Conjugate: 1,000 persons in 12 categories, Dirichlet shares, Gaussian noise with variance 4 and an exact total. The peer
is `pm.sample` of the marginalized model. `denoise` draws tables under the flat prior, which is the law of
multinomial counts with uniform shares; normalized gamma variables with shapes 1 + counts are the shares.

Blocks: 2,000 blocks in 100 groups in 20 tracts, all counts noisy with variance 9. The peer is least squares on counts
of at least 0. The last column is the posterior mean under the law of which the counts were drawn.
"""

from __future__ import annotations

import sys
import time

import arviz as az
import numba
import numpy as np
import pymc as pm
import scipy.sparse as sp
import xarray as xr
from scipy import stats
from scipy.optimize import lsq_linear

import ppdinf as ppd
from ppdinf.denoising.count_windows import published_windows
from ppdinf.distributions.observed_measurements import ObservedMeasurements

inv, laws = ppd.invariants, ppd.laws


@numba.njit
def swaps(x, hidden, draws, each, rng):
    """Draw tables by uniform shifts along basic swaps of suppressed cells."""
    rows, columns = x.shape
    out = np.empty((draws, rows, columns), np.int64)
    for n in range(draws):
        done = 0
        while done < each:
            i, j = rng.integers(0, rows), rng.integers(0, rows)
            k, m = rng.integers(0, columns), rng.integers(0, columns)
            if i == j or k == m or not (hidden[i, k] and hidden[j, m] and hidden[i, m] and hidden[j, k]):
                continue
            low, high = -min(x[i, k], x[j, m]), min(x[i, m], x[j, k])
            t = low + int(rng.random() * (high - low + 1))
            x[i, k] += t
            x[j, m] += t
            x[i, m] -= t
            x[j, k] -= t
            done += 1
        out[n] = x
    return out


def report(name, work):
    """Print effective draws per CPU second of the values that vary, smallest and median; compile before."""
    work(16)
    start = time.process_time()
    draws = work(None)
    seconds = time.process_time() - start
    ess = az.ess(xr.Dataset({"x": draws}))["x"].values.ravel()
    ess = ess[(draws.values.std(axis=(0, 1)) > 0).ravel()]
    print(f"  {name}: {seconds:.2f} CPU s, effective draws per s: least {ess.min() / seconds:,.0f}, ", end="")
    print(f"median {np.median(ess) / seconds:,.0f}")


def suppressed():
    rng = np.random.default_rng(1)
    x = rng.negative_binomial(0.8, 0.8 / (0.8 + 12), (20, 8))
    hidden = (x > 0) & (x < 10)
    further = rng.permutation(np.flatnonzero(~hidden))[: 110 - hidden.sum()]
    hidden.ravel()[further] = True
    shown = np.flatnonzero(~hidden)
    public = {inv.margin("r"): x.sum(1), inv.margin("c"): x.sum(0)}
    public[inv.linear(np.eye(160, dtype=int)[shown])] = x.ravel()[shown]
    seen = ppd.Measurements({"r": range(20), "c": range(8)}, public=public, bounds=inv.nonnegative())

    def denoised(draws):
        return ppd.denoise(seen, draws=draws or 4000, prior="flat", rng=1, progressbar=False).draws

    def peer(draws):
        n, rng = draws or 4000, np.random.default_rng(1)
        chains = [swaps(x.copy(), hidden, n * 3 // 2, 200, rng)[n // 2 :] for _ in range(2)]
        return xr.DataArray(np.array(chains), dims=("chain", "draw", "r", "c"))

    print("20 x 8 counts, 110 suppressed, both margins exact")
    for name, work in (("denoise", denoised), ("25 lines of numba", peer)) * 3:
        report(name, work)


def conjugate():
    rng = np.random.default_rng(1)
    x = rng.multinomial(1000, rng.dirichlet(np.ones(12)))
    law = laws.DiscreteGaussian(variance=4)
    y = x + np.rint(rng.normal(0, 2, 12)).astype(int)
    seen = ppd.Measurements(
        {"category": [f"c{k}" for k in range(12)]},
        ppd.measured(inv.margin("category"), y, law),
        public={inv.total(): 1000},
    )

    def denoised(draws):
        counts = ppd.denoise(seen, draws=draws or 4000, prior="flat", rng=1, progressbar=False).draws
        rates = np.random.default_rng(2).gamma(1.0 + counts)
        return counts.copy(data=rates / rates.sum(axis=2, keepdims=True))

    def sampled(draws):
        with pm.Model(coords=seen.coords):
            shares = pm.Dirichlet("shares", np.ones(12), dims="category")
            ppd.PartiallyPrivate("x", pm.Multinomial.dist(1000, shares), seen)
            idata = pm.sample(draws or 1000, tune=draws or 1000, chains=2, cores=1, random_seed=1, progressbar=False)
        return idata.posterior["shares"]

    print("1,000 persons in 12 categories, Dirichlet shares, Gaussian noise with variance 4")
    for name, work in (("denoise and gamma", denoised), ("pm.sample", sampled)):
        report(name, work)


def nested_blocks(seed):
    """Return the counts of blocks, the sums by level, and everything published."""
    rng = np.random.default_rng(seed)
    rate = 12 * rng.gamma(3, 1 / 3, 20)[:, None, None] * rng.gamma(4, 1 / 4, (20, 5, 1))
    x = (rng.poisson(rate * rng.gamma(1, 1, (20, 5, 20))) * (rng.random((20, 5, 20)) > 0.35)).ravel()
    sums = [sp.kron(sp.eye_array(2000 // size), np.ones((1, size)), format="csr") for size in (1, 20, 100)]
    noisy = [np.rint(A @ x + rng.normal(0, 3, A.shape[0])).astype(int) for A in sums]
    law = laws.DiscreteGaussian(variance=9)
    above = {
        name: ("block", [f"{k // size:03d}" for k in range(2000)]) for name, size in (("group", 20), ("tract", 100))
    }
    names = ("block", "group", "tract")
    parts = [ppd.measured(inv.margin(name), y, law) for name, y in zip(names, noisy, strict=True)]
    mean = np.broadcast_to(rate, (20, 5, 20)).reshape(-1, 1)
    return x, sums, noisy, mean, ppd.Measurements({"block": [f"{k:04d}" for k in range(2000)]}, *parts, coords=above)


def mean_under_the_law(mean, seen):
    """Return posterior means under the zero-inflated geometric law of the simulation."""
    observed = ObservedMeasurements(seen)
    windows = published_windows(observed)
    law = 0.65 * stats.geom.pmf(windows.counts + 1, 1 / (1 + mean)) + 0.35 * (windows.counts == 0)
    sums = observed.in_forest(windows.lower, windows.counts.shape[1])
    return sums.evaluate((windows.log_noise + np.log(law)).ravel()).posteriors().cell_mean


def blocks():
    print("2,000 blocks in 100 groups in 20 tracts")
    ppd.denoise(nested_blocks(0)[-1], draws=5, rng=1, progressbar=False)
    for seed in range(1, 4):
        x, sums, noisy, mean, seen = nested_blocks(seed)
        start = time.process_time()
        posterior = ppd.denoise(seen, rng=seed, progressbar=False)
        seconds, table, ess = time.process_time() - start, posterior.summary(), posterior.convergence["ess_bulk"]
        fit = lsq_linear(sp.vstack(sums, format="csr"), np.concatenate(noisy), (0, np.inf), lsq_solver="lsmr")
        inside = (table.lower.to_numpy() <= x) & (x <= table.upper.to_numpy())
        print(f"  denoise: {seconds:.1f} CPU s, effective draws: least {ess.min():.0f}, median {ess.median():.0f}")
        for size, cells in {"all": x >= 0, "0": x == 0, "1 to 4": (x > 0) & (x < 5), "5 and more": x > 4}.items():
            found = table.estimate.to_numpy(), fit.x, mean_under_the_law(mean, seen)
            errors = [np.sqrt(np.mean((own - x)[cells] ** 2)) for own in found]
            print(
                f"    {size}: 90 % intervals hold {inside[cells].mean():.3f}; root mean square error {errors[0]:.3f}, "
                f"least squares {errors[1]:.3f}, under the law {errors[2]:.3f}"
            )


CASES = {"suppressed": suppressed, "conjugate": conjugate, "blocks": blocks}

if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        CASES[case]()
