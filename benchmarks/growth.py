"""Growth of time and memory: one table with fitted exponents and what they give for 10^9 cells.

Run with ``python benchmarks/growth.py [name ...]`` (minutes of one core; names select rows that begin so). Each size
runs in its own process, after a run of a smaller one, not shown, that compiles. Seconds are CPU seconds; memory is the
peak above that before the run. Exponents are slopes of least squares through the logarithms. Memory below 1 MB is not
fitted.

- nested sums: a tree of cells, blocks and two higher levels with an exact root, evaluated and drawn from once: by
  cells; by nodes with 10^5 cells; by replicates (draws) with 10^4 cells.
- structure: classes of cells of a partition with public sums: by cells; by constraints with four cells for each.
- class sampler: one secure draw: by cells with 51 public sums; by areas (public sums) with 10^5 cells.
- skewed table: counts with median 12 and one of 10^6 under 51 public sums, epsilon 1, a Poisson regression: the model
  with its first density, and then ten gradients.

The last columns extrapolate the largest size to 10^9 cells, for rows by cells, with the exponent or 1 if it is smaller.
They assume that the exponent and the machine remain the same, that the memory exists, and that distributions of counts
and noise do not change.
"""

import multiprocessing
import os
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pymc as pm
from nested_sums import census
from scipy import sparse

import ppdinf as ppd
from ppdinf.lattice import structure
from ppdinf.laws import DoubleGeometric
from ppdinf.noise.primitives.stream import secure_stream
from ppdinf.noise.sampler_plan import exact_noise

GOAL = 1e9


def partition(cells, areas):
    """Return the matrix of the sums of areas, which have equal numbers of cells."""
    area = np.arange(cells) * areas // cells
    return sparse.csr_array((np.ones(cells, dtype=np.int64), (area, np.arange(cells))), shape=(areas, cells))


def nested(fan, draws=1):
    plan, weights = census(fan, np.random.default_rng(1))
    return lambda: plan.evaluate(weights).draw(draws, rng=1)


def of_structure(cells, areas):
    matrix = partition(cells, areas)
    return lambda: structure(matrix)


def class_sampler(cells, areas):
    sampler = exact_noise(structure(partition(cells, areas)), DoubleGeometric("1/4"))
    return lambda: sampler.draw(1, secure_stream())


def skewed_table(cells, gradients=0):
    rng = np.random.default_rng(1)
    x, mean = rng.normal(size=cells), np.exp(rng.normal(np.log(12), 1, cells))
    mean[cells // 2] = 10**6
    table = ppd.as_table(rng.poisson(mean * np.exp(0.1 * x)), dims=["cell"]).assign_coords(
        area=("cell", np.arange(cells) * 51 // cells)
    )
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.groups("area"), epsilon=1)
    release = ppd.Release(mechanism.simulate(table, draws=1, rng=1).squeeze("draw", drop=True), mechanism)

    def density():
        with pm.Model(coords=release.coords) as model:
            rate = mean * pm.math.exp(pm.Normal("level", 0, 0.1) + pm.Normal("slope", 0, 0.1) * x)
            ppd.PartiallyPrivate("cases", pm.Poisson.dist(rate), release=release)
        function = model.logp_dlogp_function(ravel_inputs=True)
        function(np.zeros(2))
        return function

    if not gradients:
        return density
    function = density()
    return lambda: [function(np.full(2, 0.001 * k)) for k in range(gradients)]


SIZES = (3000, 10**4, 3 * 10**4, 10**5, 10**6)
ROWS = {
    "density of a skewed table by cells": {n: lambda n=n: skewed_table(n) for n in SIZES},
    "gradients of a skewed table by cells": {n: lambda n=n: skewed_table(n, 10) for n in SIZES},
    "nested sums by cells": {10 * 100 * k: lambda k=k: nested((10, 10, k, 10)) for k in (3, 10, 30, 100, 300)},
    "nested sums by nodes": {110 + 100 * k: lambda k=k: nested((10, 10, k, 1000 // k)) for k in (5, 10, 25, 50, 100)},
    "nested sums by replicates": {n: lambda n=n: nested((10, 10, 10, 10), n) for n in (10, 30, 100, 300, 1000)},
    "structure by cells": {n: lambda n=n: of_structure(n, 51) for n in (3000, 10**4, 10**5, 3 * 10**5, 10**6)},
    "structure by constraints": {n: lambda n=n: of_structure(4 * n, n) for n in (300, 1000, 3000, 10**4, 3 * 10**4)},
    "class sampler by cells": {n: lambda n=n: class_sampler(n, 51) for n in (3000, 10**4, 10**5, 3 * 10**5, 10**6)},
    "class sampler by areas": {n: lambda n=n: class_sampler(10**5, n) for n in (30, 100, 300, 1000, 3000)},
}


def measure(name, size):
    """Return CPU seconds and MB of one size, in a process of its own."""
    work = ROWS[name][size]()
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    work()
    seconds = time.process_time() - start
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10


def exponent(sizes, values):
    """Return slope and intercept of the logarithms; nan if a value is too small to fit."""
    return np.polyfit(np.log(sizes), np.log(values), 1) if min(values) > 0 else np.full(2, np.nan)


def main(names):
    print("| row | sizes | seconds | exponent | MB | exponent | hours at 10^9 | GB at 10^9 |\n" + "|---" * 8 + "|")
    for name, sizes in ROWS.items():
        if names and not name.startswith(tuple(names)):
            continue
        compiling, *sizes = sizes
        measure(name, compiling)
        found = []
        for size in sizes:
            # PyTensor cannot compile in a forked process
            with multiprocessing.get_context("spawn" if "skewed" in name else "fork").Pool(1) as pool:
                found.append(pool.apply(measure, (name, size)))
        seconds, memory = np.array(found).T
        fits = [exponent(sizes, values) for values in (seconds, np.where(memory < 1, 0, memory))]
        ahead = np.log(GOAL / max(sizes)) if name.endswith("cells") else np.nan
        goal = [
            last * np.exp(ahead * max(fit[0], 1)) for fit, last in zip(fits, (seconds[-1], memory[-1]), strict=True)
        ]
        cells = [
            name, f"{min(sizes):,} to {max(sizes):,}", f"{seconds[0]:.3f} to {seconds[-1]:.2f}", f"{fits[0][0]:.2f}",
            f"{memory[0]:.0f} to {memory[-1]:.0f}", f"{fits[1][0]:.2f}", f"{goal[0] / 3600:.2g}",
            f"{goal[1] / 1000:.3g}",
        ]  # fmt: skip
        print(f"| {' | '.join(cells)} |".replace("nan", "-"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    print("\n" + __doc__.split("\n\n")[-1].strip())
