"""Connections on a campus by group, hour and building: projected real noise and integer noise on the lattice.

Run with ``ppdinf reproduce campus_wifi``. The log of connections is not public; a table of its shape is simulated.

J. Gao, R. Gong, F.-Y. Yu, "Subspace differential privacy", AAAI 2022, section 5.2.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import brentq

import ppdinf as ppd
from ppdinf.invariants import margin
from ppdinf.privacy import gaussian_delta

from .._shared.estimates import Estimate
from .._shared.study import Study

TAKES = "20 s"
SDP = "Subspace DP, section 5.2"
GROUPS, HOURS, BUILDINGS, PERSONS = 14, 24, 20, 3243
# person-hours in every building, by hour over all groups, and by group over the day
PUBLIC = margin("building", "hour") & margin("building", "group")
DRAWS, DELTA = 50, "1e-6"
EXACT = np.sqrt((1 - 1 / GROUPS) * (1 - 1 / HOURS))  # of unit noise on a two-way table after removing both margins


def connections(rng):
    """Simulate person-hours: groups differ by building, buildings by hour."""
    size = rng.dirichlet(np.full(GROUPS, 4)) * PERSONS
    where = rng.dirichlet(np.full(BUILDINGS, 0.4), size=GROUPS)
    peak, width = rng.uniform(8, 22, BUILDINGS), rng.uniform(2, 5, BUILDINGS)
    apart = (np.arange(HOURS)[:, np.newaxis] - peak + 12) % 24 - 12
    when = 0.7 * np.exp(-0.5 * (apart / width) ** 2)
    mean = size[:, np.newaxis, np.newaxis] * where[:, np.newaxis, :] * when
    dims = ("group", "hour", "building")
    labels = [[f"{dim} {k + 1}" for k in range(n)] for dim, n in zip(dims, mean.shape, strict=True)]
    return xr.DataArray(rng.poisson(mean), dims=dims, coords=dict(zip(dims, labels, strict=True)))


def mechanisms():
    """Return both mechanisms, with noise of standard deviation 1 before its restriction to the public sums."""
    excess = lambda epsilon: gaussian_delta(epsilon, 1) / float(DELTA) - 1  # noqa: E731
    epsilon = round(brentq(excess, 1, 20), 6)
    yield "integer lattice", ppd.GeneralizedGaussian(PUBLIC, sigma=1)
    yield "projected", ppd.SubspaceGaussian(PUBLIC, epsilon, DELTA, neighbours="added")


def errors_of(mechanism, table, draws, rng):
    """Return errors of releases, shape (draws, group, hour, building), and seconds per draw."""
    mechanism.simulate(table, draws=1, rng=rng)  # set-up and kernels
    start = time.perf_counter()
    noisy = mechanism.simulate(table, draws=draws, rng=rng)
    return (noisy - table).values, (time.perf_counter() - start) / draws


def main(output, *, quick=False, seed=1):
    """Measure the standard deviation of both releases; write page, table and figure to a folder."""
    study = Study(
        "Connections on a campus by group, hour and building", output,
        about=f"{GROUPS} groups, {HOURS} hours, {BUILDINGS} buildings (simulated): person-hours of every building are "
        "public by hour and by group. Noise of standard deviation 1.", settings={"quick": quick, "seed": seed},
    )  # fmt: skip
    rng, draws = np.random.default_rng(seed), 20 if quick else DRAWS
    table = connections(rng)
    rows, found, spreads = [], {}, {}
    for name, mechanism in mechanisms():
        errors, seconds = errors_of(mechanism, table, draws, rng)
        found[name] = errors.std(axis=0, ddof=1).ravel()
        spreads[name] = Estimate.of(np.median, errors.std(axis=(1, 2, 3)))
        low, middle, high = np.quantile(errors.std(axis=(1, 2, 3)), [0.05, 0.5, 0.95])
        rows.append(
            {"release": name, "sd of a draw, median": middle, "5 %": low, "95 %": high,
             "largest public sum off": max(abs(errors.sum(axis=axis)).max() for axis in (1, 2)), "seconds": seconds}
        )  # fmt: skip
    compared = pd.DataFrame(rows).set_index("release")
    study.table("spread", compared, f"Standard deviation of the 6,720 errors of a draw, {draws} draws, person-hours.")
    structure = PUBLIC.on(table).structure
    sums = table.size - structure.lattice.rank
    study.claim("cells, and independent public sums", SDP, "6,720 and 740", f"{table.size:,} and {sums}",
                holds=(table.size, sums) == (6720, 740))  # fmt: skip
    for name, middle in spreads.items():
        study.claim(f"{name} noise keeps the standard deviation that the sums leave", "here", f"{EXACT:.3f}",
                    f"{middle:.3f}", holds=middle.within(0.99 * EXACT, 1.01 * EXACT))  # fmt: skip
    projected = compared.loc["projected"]
    shown = f"{projected['sd of a draw, median']:.2f} ({projected['5 %']:.2f} to {projected['95 %']:.2f})"
    study.claim(
        f"median standard deviation of the errors over {draws} repetitions", SDP, "0.88 (0.86 to 0.91), 50", shown,
        holds=spreads["projected"].within(0.85, 0.91),
        reason=f"the published figure is that of the variance, {EXACT**2:.3f}",
    )  # fmt: skip
    off = compared.loc["integer lattice", "largest public sum off"]
    study.claim("whole noise keeps every public sum", "here", "0", f"{off:g}", holds=off == 0)
    figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
    for name, color in (("projected", "#009E73"), ("integer lattice", "#0072B2")):
        axes.hist(found[name], bins=60, histtype="step", color=color, label=name, density=True)
    axes.axvline(EXACT, color="black", linewidth=0.8, label=f"law: {EXACT:.3f}")
    axes.axvline(0.88, color="#D55E00", linestyle="--", linewidth=0.8, label="published median: 0.88")
    axes.set(
        xlabel=f"standard deviation of a cell's errors over {draws} draws, person-hours", ylabel="density of cells"
    )
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    study.figure("spread", figure, "Both releases leave every cell the standard deviation that the public sums allow.")
    plt.close(figure)
    study.write()
