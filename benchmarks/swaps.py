"""Errors of noise under two public margins at equal loss for a swap of two records.

    uv run python benchmarks/swaps.py [draws]

K-norm noise for swaps is compared with K-norm noise for two single replacements, and with integer l1 noise.
"""

import sys

import numpy as np

import ppdinf as ppd

inv = ppd.invariants
SHAPES = [(2, 2), (2, 3), (3, 3), (2, 5), (3, 4), (3, 5)]


def main(draws=20_000):
    """Print the root mean square error of a cell by each mechanism, all with epsilon = 1 for a swap."""
    public = inv.margin("a") & inv.margin("b")
    mechanisms = [
        ppd.KNorm(public, 1, neighbours="swapped"),
        ppd.KNorm(public, "1/2"),  # a swap is two replacements
        ppd.GeneralizedLaplace(public, "1/4"),  # and an l1 distance of 4
    ]
    print("shape, swaps, single replacements, l1, ratio of squared errors of the first two")
    for shape in SHAPES:
        table = ppd.as_table(np.full(shape, 20), dims=["a", "b"])
        noise = [mechanism.simulate(table, draws=draws, rng=1) - table for mechanism in mechanisms]
        errors = [float(np.sqrt((z**2).mean())) for z in noise]
        print(shape, *(f"{error:.2f}" for error in errors), f"{(errors[0] / errors[1]) ** 2:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
