"""Housing units of a nation's blocks: from files by state to joint draws in Parquet, one state in memory at a time.

Run with ``python benchmarks/nation_blocks.py [--blocks N] [--draws N] [--folder PATH]``. Without a folder, files are
written to a temporary one and removed. Blocks are simulated in 51 states with skewed sizes and six levels: nation,
state, county, tract, block group and block. Each geounit has noisy numbers of vacant and of occupied units, with the
variances of the 2020 file of units, and an exact number of units. The number of occupied units of the nation is exact.
The prior is binomial, with the noisy share of its state. Shares of counties differ by more than binomial variation, so
that sums are far from the prior.

Times are CPU seconds of one core with compiled kernels. Loading is the construction of `ppd.Measurements` from the
arrays of a state, which happens twice.
"""

import argparse
import functools
import os
import resource
import tempfile
import time
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import ppdinf as ppd
from ppdinf.denoising.part_sums import PartSums
from ppdinf.laws.additive_law import AdditiveLaw

inv, LEVELS = ppd.invariants, ("State", "County", "Tract", "Block_Group", "Block")
VARIANCE = {level: queries["detailed"] for level, queries in ppd.census.UNITS_2020.squared_sigmas.items()}
SECONDS = defaultdict(float)


def timed(name, work):
    """Return the same function, whose CPU seconds without those of timed functions within it are added to a table."""

    @functools.wraps(work)
    def measured(*arguments, **options):
        before, begun = sum(SECONDS.values()), time.process_time()
        try:
            return work(*arguments, **options)
        finally:
            within = sum(SECONDS.values()) - before
            SECONDS[name] += time.process_time() - begun - within

    return measured


def simulate(folder, blocks, rng):
    """Write one file of arrays per state; return the exact number of occupied units."""
    share = rng.lognormal(0, 0.9, 51)
    sizes, occupied = np.maximum((blocks * share / share.sum()).astype(int), 40), 0
    for state, size in enumerate(sizes):
        group = np.repeat(np.arange(size), rng.poisson(33, size) + 1)[:size]  # block groups of 34 blocks on average
        tract = np.repeat(np.arange(size), rng.poisson(1.85, size) + 1)[: group[-1] + 1]
        county = np.repeat(np.arange(size), np.ceil(rng.lognormal(2.6, 1.2, size)).astype(int))[: tract[-1] + 1]
        at = {"Block": np.arange(size), "Block_Group": group, "Tract": tract[group]}
        at |= {"County": county[tract[group]], "State": np.zeros(size, int)}
        units = 1 + rng.negative_binomial(0.6, 0.6 / (0.6 + 16.3), size)
        x = rng.binomial(units, rng.beta(27, 3, at["County"][-1] + 1)[at["County"]])
        occupied += x.sum()
        noisy = {}
        for level, of in at.items():
            for kind, counts in (("vacant", units - x), ("occupied", x)):
                sums = np.bincount(of, counts).astype(int)
                law = AdditiveLaw(ppd.laws.DiscreteGaussian(variance=VARIANCE[level]))
                noisy[f"{level}.{kind}"] = law.publish(sums, rng)
        np.savez(folder / f"{state:02d}.npz", units=units, **at, **noisy)
    return occupied


def load(path):
    """Return the measurements of a state."""
    with np.load(path) as stored:
        arrays = dict(stored)
    units, state, stated, coords = arrays["units"], path.stem, [], {}
    for level in LEVELS:
        labels = np.char.add(state, np.char.zfill(np.arange(arrays[level].max() + 1).astype(str), 7))
        coords[level.lower()] = ("block", labels[arrays[level]])
        law = ppd.laws.DiscreteGaussian(variance=VARIANCE[level])
        total = np.bincount(arrays[level], units).astype(int)
        for values in (arrays[f"{level}.occupied"], total - arrays[f"{level}.vacant"]):
            stated.append(ppd.measured(inv.margin(level.lower()), values, law))
    _, blocks = coords.pop("block")
    return ppd.Measurements({"block": blocks}, *stated, coords=coords | {"units": ("block", units)})


def share(path):
    """Return the noisy share of occupied units of a state."""
    with np.load(path) as stored:
        return float(np.clip(stored["State.occupied"][0] / stored["units"].sum(), 0.5, 0.99))


def main(blocks, draws, folder):
    folder.mkdir(parents=True, exist_ok=True)
    occupied = simulate(folder, blocks, np.random.default_rng(1))
    paths = sorted(folder.glob("*.npz"))
    for name in ("__init__", "message", "draw"):
        setattr(PartSums, name, timed(name, getattr(PartSums, name)))
    for name in ("log_weight", "digest"):
        field = functools.cached_property(timed(name, getattr(PartSums, name).func))
        field.__set_name__(PartSums, name)
        setattr(PartSums, name, field)
    pd.DataFrame.to_parquet = timed("parquet", pd.DataFrame.to_parquet)
    names = [path.stem for path in paths]
    run = timed("rest", ppd.denoise_parts)
    posterior = run(
        {path.stem: functools.partial(timed("load", load), path) for path in paths},
        folder / "posterior",
        draws,
        top=ppd.Measurements({"state": names}, public={inv.total(): int(occupied)}),
        prior={path.stem: ppd.denoising.BinomialPrior("units", share(path)) for path in paths},
        rng=1,
    )
    assert (posterior.totals.sum("state") == occupied).all()
    size = sum(path.stat().st_size for path in posterior.files.values()) / 2**20
    print(f"{blocks:,} blocks, {draws} draws, bound {posterior.bound:.1e}, {size:,.0f} MB of Parquet")
    print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in SECONDS.items()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"a draw {SECONDS['draw'] / draws:.2f} s; peak {peak:.2f} GB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=8_100_000)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.folder:
        main(given.blocks, given.draws, given.folder)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(given.blocks, given.draws, Path(temporary))
