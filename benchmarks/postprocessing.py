"""Post-processing of 10,000 noisy cells: seconds for the projection, the rounding, and the complete methods.

Run with ``python benchmarks/postprocessing.py`` (about ten seconds). Noise has rate 1/4 in every cell.

- groups: 50 public sums that partition the cells; projection and rounding sort.
- both margins: 100 x 100; clarabel projects, HiGHS rounds.
- linked: 5,000 pairs with cases >= deaths >= 0 and the total of cases, the programme of partially private data.
- nested: sums of 10 regions and 200 districts at once, which are also solved by sorting.
- top down: nation, 50 states, 1,000 counties and the cells, with the total public, and with both margins public.
"""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import xarray as xr

import ppdinf as ppd
from ppdinf.invariants import at_least, groups, hierarchy, linear, margin, total
from ppdinf.mechanisms.postprocessing.postprocessed import FeasibleTables
from ppdinf.noise.primitives.integers import draw_discrete_laplace
from ppdinf.noise.primitives.stream import seeded_stream

CELLS, RATE = 10_000, "1/4"


def tables():
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.5, 20.0, CELLS))
    number = np.arange(CELLS)
    line = xr.DataArray(
        counts,
        dims="cell",
        coords={
            "state": ("cell", number // 200),
            "county": ("cell", number // 10),
            "region": ("cell", number // 1000),
            "district": ("cell", number // 50),
        },
    )
    square = xr.DataArray(counts.reshape(100, 100), dims=("row", "column"))
    pairs = xr.DataArray(
        np.stack([counts[: CELLS // 2], rng.binomial(counts[: CELLS // 2], 0.1)], axis=1),
        dims=("county", "what"),
        coords={"what": ["cases", "deaths"]},
    )
    cases = np.tile([1, 0], CELLS // 2)[np.newaxis]
    return {
        "groups": (groups("state"), line),
        "both margins": (margin("row") & margin("column"), square),
        "linked": (linear(cases, ["cases"]) & at_least("cases", "deaths", dim="what"), pairs),
        "nested": (groups("region") & groups("district"), line),
    }, line


def seconds(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main():
    examples, line = tables()
    print(f"{'':16}{'cells':>8}{'sums':>7}{'project':>10}{'round':>10}{'nearest l1':>12}   seconds")
    for name, (public, table) in examples.items():
        system = public.on(table)
        target = FeasibleTables.of(system)
        noise = draw_discrete_laplace(ppd.PostProcessed(public, RATE).epsilon, CELLS, seeded_stream(2))
        y = system.cells(table) + noise
        target.round(target.project(y))  # not timed
        project, real = seconds(lambda: target.project(y))  # noqa: B023
        rounding, _ = seconds(lambda: target.round(real))  # noqa: B023
        nearest, _ = seconds(lambda: ppd.PostProcessed(public, RATE, "l1").simulate(table, draws=1, rng=2))  # noqa: B023
        print(f"{name:16}{CELLS:8}{system.A.shape[0]:7}{project:10.3f}{rounding:10.3f}{nearest:12.3f}")
    square = examples["both margins"][1].assign_coords(
        state=("row", np.arange(100) // 2), county=("row", np.arange(100))
    )
    runs = {
        "top down, total": (ppd.TopDown(total(), 1, hierarchy("state", "county")), line),
        "top down, margin": (ppd.TopDown(margin("row") & margin("column"), 1, hierarchy("state")), square),
    }
    for name, (mechanism, table) in runs.items():
        spent, _ = seconds(lambda: mechanism.simulate(table, draws=1, rng=3))  # noqa: B023
        print(f"{name:16}{CELLS:8}{'':7}{'':10}{spent:10.3f}")


if __name__ == "__main__":
    main()
