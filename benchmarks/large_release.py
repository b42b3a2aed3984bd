"""A large table from Parquet files to a signed release, part by part: seconds and peak memory of this process.

    uv run --extra census --extra sign python benchmarks/large_release.py --cells 10000000

Simulated blocks of 1,000,000 in each state and 1,000 in each county, one Parquet file per state. County, state and
national totals are public. The release is one record of a session, its index is signed, and one part is read again.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import ppdinf as ppd
from ppdinf.releases.signatures import new_key, sign, verify

STATE, COUNTY = 1_000_000, 1_000  # blocks


def simulate(state, blocks, folder):
    """Write the confidential counts of one state to a Parquet file."""
    rng = np.random.default_rng([1, state])
    place = np.arange(blocks)
    rows = {
        "state": np.full(blocks, f"{state:03d}"),
        "county": np.char.mod(f"{state:03d}%04d", place // COUNTY),
        "block": np.char.mod(f"{state:03d}%08d", place),
        "persons": rng.negative_binomial(0.6, 0.6 / (0.6 + 30), blocks),
    }
    pd.DataFrame(rows).to_parquet(folder / f"{state:03d}.parquet", index=False)


def main(cells, folder, workers):
    """Print one row per step."""
    start, begun = time.perf_counter(), time.process_time()

    def row(step):
        nonlocal start, begun
        seconds, spent = time.perf_counter() - start, time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # Linux: kilobytes
        print(f"{step:34} {seconds:8.1f} s {spent:8.1f} CPU s   peak {peak:5.2f} GB", flush=True)
        start, begun = time.perf_counter(), time.process_time()

    sizes = [min(STATE, cells - first) for first in range(0, cells, STATE)]
    for state, blocks in enumerate(sizes):
        simulate(state, blocks, folder)
    row(f"{cells:,} cells simulated")

    def read(state):
        rows = pd.read_parquet(folder / f"{state}.parquet")
        return ppd.as_table(rows, count="persons", dims=["block"], covariates=["state", "county"])

    mechanism = ppd.GeneralizedLaplace(ppd.invariants.hierarchy("state", "county"), epsilon="1/4")
    session = ppd.Session.open(folder / "people.budget", epsilon="1/2")
    labels = [f"{state:03d}" for state in range(len(sizes))]
    out = folder / "out"
    parts = session.release_parts(
        mechanism, read, labels, by="state", folder=out, name="2030", workers=workers, progressbar=False
    )
    row("validated, drawn and written")
    new_key(folder / "agency.key")
    sign(out / "index.ppd", folder / "agency.key", title="Persons by block", period="2030")
    verify(out / "index.ppd", folder / "agency.key.pub")
    row("signed and verified")
    part = ppd.releases.read_parts(out)[labels[-1]]
    row(f"one part of {part.frame.size:,} cells read")
    files = [pd.read_parquet(folder / f"{label}.parquet", columns=["persons"]) for label in labels]
    exact = parts.sums["total"] == sum(int(rows.persons.sum()) for rows in files)
    disk = sum(path.stat().st_size for path in out.iterdir()) / 1e9
    print(f"{len(parts)} parts, {disk:.2f} GB; national total {parts.sums['total']:,}, exact: {exact}")
    print(f"left of the budget: {session.left['epsilon']}; {len(session.table())} record in the session")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        main(given.cells, Path(temporary), given.workers)
