"""A county of 2,016 cells with eleven overlapping noisy queries, denoised: time, effective draws, error, coverage.

    uv run python benchmarks/denoise.py [files]
    uv run python benchmarks/denoise.py state

Cells are persons by residence, voting age, ethnicity and race, 40,000 simulated persons. Variances of the noise are
those of counties in the 2020 Census redistricting files. The posterior is compared with least squares clipped at 0, and
with the detailed query as published. The first table is without exact sums, the second one with the total and two
margins. The state has 20 counties of 252 cells, 400,000 persons and twelve queries, nothing exact, and default draws.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

import ppdinf as ppd

inv, laws = ppd.invariants, ppd.laws
SHAPE = (8, 2, 2, 63)
DIMS = ("residence", "age", "ethnicity", "race")
LEVELS = {f"{k}": "household" if k == 0 else "institution" if k < 5 else "other" for k in range(8)}
QUERIES = [
    (inv.total(), (), 4.70),
    (inv.margin("residence"), (0,), 1469.7),
    (inv.margin("age"), (1,), 1469.7),
    (inv.margin("ethnicity"), (2,), 1469.7),
    (inv.margin("race"), (3,), 1469.7),
    (inv.margin("age", "ethnicity"), (1, 2), 1469.7),
    (inv.margin("age", "race"), (1, 3), 524.9),
    (inv.margin("ethnicity", "race"), (2, 3), 524.9),
    (inv.margin("age", "ethnicity", "race"), (1, 2, 3), 145.5),
    (inv.margin(*DIMS), (0, 1, 2, 3), 19.49),
]


STATE = (20, 2, 2, 63)
STATE_DIMS = ("county", "age", "ethnicity", "race")
VARIANCES = {
    (): 4.7, (0,): 19.49, (1,): 1469.7, (2,): 1469.7, (3,): 1469.7, (0, 1): 145.5, (0, 3): 145.5, (1, 2): 1469.7,
    (1, 3): 524.9, (2, 3): 524.9, (1, 2, 3): 145.5, (0, 1, 2, 3): 19.49,
}  # fmt: skip
STATE_QUERIES = [
    (inv.margin(*(STATE_DIMS[k] for k in kept)) if kept else inv.total(), kept, variance)
    for kept, variance in VARIANCES.items()
]


def county(seed):
    """Return the confidential table."""
    rng = np.random.default_rng(seed)
    residence = np.array([0.96, 0.004, 0.001, 0.008, 0.001, 0.015, 0.001, 0.01])
    race = rng.dirichlet(np.concatenate([[60, 12, 1, 5, 0.3, 6], np.full(15, 0.5), np.full(42, 0.02)]))
    p = np.einsum("a,b,c,d->abcd", residence, [0.24, 0.76], [0.85, 0.15], race) * rng.gamma(0.8, 1 / 0.8, SHAPE)
    return rng.multinomial(40_000, p.ravel() / p.sum()).reshape(SHAPE)


def state():
    """Return the confidential table."""
    rng = np.random.default_rng(1)
    race = rng.dirichlet(np.concatenate([[60, 12, 1, 5, 0.3, 6], np.full(15, 0.5), np.full(42, 0.02)]))
    size = rng.lognormal(0, 1, 20)
    p = np.einsum("a,b,c,d->abcd", size, [0.24, 0.76], [0.85, 0.15], race) * rng.gamma(0.8, 1 / 0.8, STATE)
    return rng.multinomial(400_000, p.ravel() / p.sum()).reshape(STATE)


def noisy(sums, variance, rng):
    return np.asarray(sums) + np.rint(rng.normal(0, np.sqrt(variance), np.shape(sums))).astype(int)


def queries(x, of, rng):
    """Return noisy queries of a table."""
    parts = []
    for statement, kept, variance in of:
        sums = x.sum(tuple(k for k in range(4) if k not in kept))
        parts.append(ppd.measured(statement, noisy(sums, variance, rng), laws.DiscreteGaussian(variance=variance)))
    return parts


def published(x, seed, exact):
    """Return the noisy queries and the exact sums."""
    rng = np.random.default_rng(seed)
    parts = queries(x, QUERIES, rng)
    by_level = [x[:1].sum(), x[1:5].sum(), x[5:].sum()]
    levels = inv.groups("residence", LEVELS)
    parts.append(ppd.measured(levels, noisy(by_level, 1469.7, rng), laws.DiscreteGaussian(variance=1469.7)))
    labels = {dim: [str(k) for k in range(n)] for dim, n in zip(DIMS, SHAPE, strict=True)}
    public = {inv.total(): int(x.sum()), inv.margin("residence"): x.sum((1, 2, 3)), inv.margin("age"): x.sum((0, 2, 3))}
    return ppd.Measurements(labels, *parts, public=public if exact else None)


def least_squares(seen):
    """Return weighted least squares of all queries, clipped at 0, with standard deviations, without exact sums."""
    entries = seen.entries
    low, high = entries.support_bounds()
    weight = 1 / (high - low) ** 2 * (2 * 7.13) ** 2  # reciprocal variance, from the radius with tail probability 1e-12
    Q = sp.csc_array(entries.matrix)
    precision = sp.csc_array(Q.T @ sp.diags_array(weight) @ Q)
    return np.maximum(spsolve(precision, Q.T @ (weight * entries.y)), 0)


def in_state():
    """Denoise the table of the state, and print its figures."""
    x = state()
    labels = {dim: [str(k) for k in range(n)] for dim, n in zip(STATE_DIMS, STATE, strict=True)}
    seen = ppd.Measurements(labels, *queries(x, STATE_QUERIES, np.random.default_rng(2)))
    ppd.denoise(seen, draws=2, tune=2, chains=1, rng=1, progressbar=False)  # compiles
    busy = time.process_time()
    posterior = ppd.denoise(seen, rng=1, progressbar=False)
    busy, at = time.process_time() - busy, posterior.convergence
    print(
        f"state: {busy:.0f} CPU s; bulk ESS median {at.ess_bulk.median():.0f}, least {at.ess_bulk.min():.0f}; R-hat "
        f"largest {at.r_hat.max():.3f}"
    )


def main(files=1):
    """Print one table for each case."""
    for exact in (False, True):
        rows, big = {"posterior": [], "least squares, clipped": [], "detailed query": []}, []
        for seed in range(files):
            x = county(seed)
            seen = published(x, seed + 1000, exact)
            start, busy = time.perf_counter(), time.process_time()
            posterior = ppd.denoise(seen, draws=1000 if exact else 600, tune=200, rng=seed, progressbar=False)
            seconds, busy = time.perf_counter() - start, time.process_time() - busy
            truth = x.ravel()
            table, at = posterior.summary(), posterior.convergence
            inside = (table.lower.to_numpy() <= truth) & (truth <= table.upper.to_numpy())
            sizes = {"0": truth == 0, "1-5": (truth > 0) & (truth < 6), "> 5": truth > 5}
            big.append([inside[cells].mean() for cells in sizes.values()])
            detailed = seen.parts[len(QUERIES) - 1].y
            for name, found in zip(rows, (table.estimate.to_numpy(), least_squares(seen), detailed), strict=True):
                rows[name].append(np.sqrt(np.mean((found - truth) ** 2)))
            if seed == 0:
                print(
                    f"{'total and two margins exact' if exact else 'nothing exact'}: {seconds:.0f} s, {busy:.0f} of "
                    f"processors; bulk ESS median {at.ess_bulk.median():.0f}, least {at.ess_bulk.min():.0f}; R-hat "
                    f"median {at.r_hat.median():.3f}, largest {at.r_hat.max():.3f}"
                )
        for name, errors in rows.items():
            print(f"  root mean square error, {name}: {np.mean(errors):.2f}")
        for size, share in zip(sizes, np.mean(big, axis=0), strict=True):
            print(f"  90 % intervals hold {share:.3f} of the cells with {size} persons ({files} files)")


if __name__ == "__main__":
    if sys.argv[1:] == ["state"]:
        in_state()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
