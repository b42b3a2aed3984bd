"""Scales of Gaussian noise on tables with both margins public: three calibrations of one guarantee.

Run with ``ppdinf reproduce gaussian``.

P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, Theorem 14.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import brentq

import ppdinf as ppd
from ppdinf.invariants import margin
from ppdinf.lattice.shortest import shortest_distance
from ppdinf.privacy import gaussian_delta, gaussian_sigma, zcdp_epsilon, zcdp_rho
from ppdinf.privacy.lattice_gaussian import theorem14_sigma

from .._shared.study import Study

TAKES = "30 s"
EPSILON, DELTA = "1/4", "1e-6"
PUBLIC = margin("dim_0") & margin("dim_1")
SIZES = [3, 4, 6, 8, 10, 15, 20, 30]
DRAWS = 2000


def system(size):
    """Return both margins of a square table as public sums."""
    return PUBLIC.on(np.zeros((size, size), dtype=np.int64))


def mechanisms(nearest):
    """Return the calibrations, and the distance at which each guarantees (epsilon, delta)."""
    rho = zcdp_rho(EPSILON, DELTA)
    return [
        ("zcdp", 1, ppd.GeneralizedGaussian(PUBLIC, EPSILON, DELTA)),
        ("zcdp", nearest, ppd.GeneralizedGaussian(PUBLIC, rho=rho / nearest**2)),
        ("exact", nearest, ppd.GeneralizedGaussian(PUBLIC, EPSILON, DELTA, calibration="exact")),
        ("theorem14", 1, ppd.GeneralizedGaussian(PUBLIC, EPSILON, DELTA, calibration="theorem14")),
    ]


def loss(sigma, distance):
    """Return the epsilon at delta of noise on R^d, which equals that of lattice noise of this scale to 9 digits."""
    excess = lambda epsilon: gaussian_delta(epsilon, sigma, sensitivity=distance) / float(DELTA) - 1  # noqa: E731
    return brentq(excess, 1e-6, 5)


def rows(size, draws, seed):
    """Yield scale, measured standard deviation of a cell, and actual loss between nearest tables, by calibration."""
    bound, table = system(size), np.full((size, size), 50)
    nearest = shortest_distance(bound.structure, "l2")
    for name, distance, mechanism in mechanisms(nearest):
        settled = mechanism.on(bound)
        noise = settled.simulate(table, draws=draws, rng=[seed, size]).values - table
        yield {
            "margins of": f"{size} x {size}",
            "calibration": name,
            "guaranteed at l2 distance": float(distance),
            "sigma": float(settled.sigma),
            "sd of a cell": float(noise.std()),
            "epsilon": loss(float(settled.sigma), nearest),
        }


def main(output, *, quick=False, seed=1):
    """Work out all scales, check what is claimed of them, and write page, table and figure into a folder."""
    study = Study(
        "How wide Gaussian noise has to be",
        output,
        about=f"Square tables whose margins are all public, epsilon = {EPSILON}, delta = {DELTA}, noise in persons.",
        settings={"quick": quick, "seed": seed},
    )
    draws = 200 if quick else DRAWS
    found = pd.DataFrame([row for size in (4, 30) for row in rows(size, draws, seed)]).set_index("margins of")
    study.table("scales", found, "Scale of the noise and its guarantee, by calibration.", digits=4)
    flat = {(row["calibration"], row["guaranteed at l2 distance"]): row["sigma"] for row in found.to_dict("records")}
    actual = {
        (row["calibration"], row["guaranteed at l2 distance"]): row["epsilon"] for row in found.to_dict("records")
    }

    wide, least = flat["theorem14", 1], flat["exact", 2]
    study.claim(
        "the published constant costs a factor that grows with the table",
        "Integer subspace DP, Theorem 14",
        "open",
        f"sigma {wide:.0f} where {least:.1f} suffices, at 30 x 30",
        holds=wide > 10 * least,
    )
    study.claim(
        "calibrated exactly, nearest tables have the epsilon that was asked for",
        "here",
        EPSILON,
        f"{actual['exact', 2]:.4f}",
        holds=abs(actual["exact", 2] - 0.25) < 1e-4,
    )
    real = gaussian_sigma(EPSILON, DELTA, sensitivity=2)
    study.claim(
        "noise on the lattice is as wide as real-valued noise of the same sensitivity",
        "here",
        f"{real:.2f}",
        f"{least:.2f}",
        holds=abs(real / least - 1) < 1e-4,
    )
    census = zcdp_epsilon("2.55623", "1e-10")
    study.claim(
        "rho = 2.55623 of the 2020 census person tables, in epsilon at delta = 1e-10",
        "U.S. Census Bureau",
        "17.14",
        f"{census:.2f}",
        holds=round(float(census), 2) == 17.14,
    )

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
    study.figure("sigma", figure, "Scale against the size of the table: only that of Theorem 14 grows with it.")
    plt.close(figure)
    study.write()
