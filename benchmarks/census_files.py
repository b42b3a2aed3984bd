"""Noisy measurement files of housing units: CPU seconds to write and to read them, by the number of blocks.

Run with ``python benchmarks/census_files.py [blocks ...]`` (half a minute of one core). A county has 500 blocks and its
own file of blocks, with one measurement and one exact total of every block. *Rows* is `read_rows` of the measurements,
*occupied* is `read_occupied`.
"""

import sys
import tempfile
import time

import numpy as np
import xarray as xr

from ppdinf.census import UNITS, UNITS_2020, read_occupied, read_rows, simulate_nmf

DATA = "US_Unit_PL_PROD"


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(blocks):
    codes = [f"044{k // 500:05d}{k:07d}A" for k in range(blocks)]
    counts = np.random.default_rng(1).integers(0, 40, (blocks, 2))
    units = xr.DataArray(counts, coords={"block": codes, "h1": list(UNITS.axes[0].labels)})
    widths = {"State": 3, "County": 8}
    with tempfile.TemporaryDirectory() as root:
        yield seconds(lambda: simulate_nmf(units, UNITS_2020, root, DATA, widths, by_county=("Block",), rng=1))
        yield seconds(lambda: read_rows(root, DATA, "DPQuery", UNITS))
        yield seconds(lambda: read_occupied(root))


if __name__ == "__main__":
    line = "{:>10}{:>10}{:>10}{:>10}".format
    print(line("blocks", "write", "rows", "occupied"))
    for blocks in map(int, sys.argv[1:] or (10_000, 100_000)):
        print(line(blocks, *(f"{cpu:.2f}" for cpu in measure(blocks))), flush=True)
