"""Scales of Gaussian noise on tables with both margins public: three calibrations of one promise.

Run with ``python case_studies/gaussian/run.py`` (half a minute); prints the numbers of the README, draws its figure.

P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, Theorem 14.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

import ppdinf as ppd
from ppdinf.invariants import margin
from ppdinf.lattice.shortest import shortest_distance
from ppdinf.privacy import gaussian_delta, gaussian_sigma, zcdp_epsilon, zcdp_rho
from ppdinf.privacy.lattice_noise import theorem14_sigma

HERE = Path(__file__).parent
EPSILON, DELTA = "1/4", "1e-6"
PUBLIC = margin("dim_0") & margin("dim_1")
SIZES = [3, 4, 6, 8, 10, 15, 20, 30]
DRAWS = 2000


def system(size):
    """Both margins of a square table, public."""
    return PUBLIC.on(np.zeros((size, size), dtype=np.int64))


def mechanisms(nearest):
    """Name the calibrations, and the distance at which each promises (epsilon, delta)."""
    rho = zcdp_rho(EPSILON, DELTA)
    return [
        ("zcdp", 1, ppd.GeneralizedGaussian(PUBLIC, EPSILON, DELTA)),
        ("zcdp", nearest, ppd.GeneralizedGaussian(PUBLIC, rho=rho / nearest**2)),
        ("exact", nearest, ppd.GeneralizedGaussian(PUBLIC, EPSILON, DELTA, calibration="exact")),
        ("theorem14", 1, ppd.GeneralizedGaussian(PUBLIC, EPSILON, DELTA, calibration="theorem14")),
    ]


def loss(sigma, distance):
    """Find the epsilon that noise on all of R^d has at delta, which lattice noise this wide shares to 9 digits."""
    excess = lambda epsilon: gaussian_delta(epsilon, sigma, sensitivity=distance) / float(DELTA) - 1  # noqa: E731
    return brentq(excess, 1e-6, 5)


def rows(size):
    """Scale, measured standard deviation of a cell, and actual loss between nearest tables, for each calibration."""
    bound, table = system(size), np.full((size, size), 50)
    nearest = shortest_distance(bound.structure, "l2")
    for name, distance, mechanism in mechanisms(nearest):
        settled = mechanism.on(bound)
        noise = settled.simulate(table, draws=DRAWS, rng=size).values - table
        yield name, float(distance), float(settled.sigma), noise.std(), loss(float(settled.sigma), nearest)


def main(output=HERE):
    """Print the tables and draw the figure into a folder."""
    flat = {}
    print("| margins of | calibration | promised at l2 distance | sigma | sd of a cell | epsilon at nearest tables |")
    print("|---|---|---|---|---|---|")
    for size in (4, 30):
        for name, distance, sigma, spread, actual in rows(size):
            flat[name, distance] = sigma
            print(f"| {size} x {size} | {name} | {distance:g} | {sigma:.2f} | {spread:.2f} | {actual:.4f} |")
    print(f"\nreal-valued noise, same promise at distance 2: {gaussian_sigma(EPSILON, DELTA, sensitivity=2):.2f}")
    print(f"rho = 2.55623 at delta = 1e-10: epsilon = {zcdp_epsilon('2.55623', '1e-10'):.2f}")

    figure, axes = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
    published = [theorem14_sigma(system(size).structure, EPSILON, DELTA) for size in SIZES]
    axes.plot(SIZES, published, "o-", color="#D55E00", label="theorem 14, at distance 1")
    looks = {("zcdp", 2.0): ("zCDP, at distance 2", "#0072B2", "-"), ("exact", 2.0): ("exact, at 2", "#009E73", "--")}
    looks["zcdp", 1.0] = ("zCDP, at distance 1", "#56B4E9", "-")
    for key, (label, color, style) in looks.items():
        axes.axhline(flat[key], color=color, linestyle=style, label=label)
    axes.set(xscale="log", yscale="log", xlabel="rows, and columns, of the table", ylabel="sigma, in persons")
    axes.set_xticks(SIZES, SIZES)
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside right upper", fontsize="small")
    figure.savefig(output / "sigma.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
