"""Integer subspace differential privacy: its three examples, by its chain, by other chains and by exact draws.

Run with ``python case_studies/isdp/run.py`` (two minutes); prints the numbers of the README and draws its figures.
County populations are read from the folder that the variable PPDINF_DATA names (``county_population_2010.csv``
with columns state, county, population); without it, 102 simulated counties take their place.

P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, section 5, appendix E.
"""

import math
import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import ppdinf as ppd
from ppdinf.lattice import kernel, margin_matrix, structure
from ppdinf.laws import LAPLACE, DoubleGeometric
from ppdinf.noise.bits.tape import seeded_tape
from ppdinf.noise.chains.annealed import annealed, annealing
from ppdinf.noise.chains.coupling import annealed_meeting, gibbs_meeting, isdp_meeting
from ppdinf.noise.chains.isdp import isdp, jumps
from ppdinf.noise.chains.noise_gibbs import gibbs_moves, noise_gibbs
from ppdinf.noise.chains.tv_bound import tv_bound
from ppdinf.noise.exact_noise import exact_noise
from ppdinf.plots.noise_chains import plot_noise_boxes, plot_tv_bound

HERE = Path(__file__).parent
MARGINS = margin_matrix((4, 4), [(0,), (1,)])
# Fourteen records in the seven regions of three sets that intersect in every way, two to a region.
THREE_SETS = np.repeat(np.array([(i & 1, i >> 1 & 1, i >> 2 & 1) for i in range(1, 8)]).T, 2, axis=1)
# Public sums, norm, ln a of the published jumps, iterations that the paper reads off its figure, lags shown.
EXAMPLES = {
    "4 x 4 margins, l1": (MARGINS, "l1", -1.0, "10^4", [1000, 4000, 8000]),
    "4 x 4 margins, l2": (MARGINS, "l2", -2.0, "10^5", [30_000, 100_000]),
    "three sets, l1": (THREE_SETS, "l1", -1.0, "10^5", [10_000, 30_000, 60_000]),
    "three sets, l2": (THREE_SETS, "l2", -1.5, "10^6", [150_000, 300_000]),
}
PAIRS, TV, COUNTIES = 200, 0.01, 102
POPULATIONS = "county_population_2010.csv"


def chains(A, law, log_ratio, lags):
    """Chains of one law: name, meeting times, lag (None: by a pilot), most steps, and a run of so many steps."""
    system, moves = jumps(kernel(A).basis, law, math.exp(log_ratio)), gibbs_moves(A, law)
    for lag in lags:
        yield f"published, lag {lag:,}", isdp_meeting(system), lag, 10**7, lambda n: isdp(system, 1, thin=n, rng=1)
    yield "lattice Gibbs", gibbs_meeting(moves), None, 1000, lambda n: noise_gibbs(moves, 1, burn=n - 1, rng=1)
    if isinstance(law, DoubleGeometric):
        levels = annealing(A, law)
        yield "annealed", annealed_meeting(levels), None, 1000, lambda n: annealed(levels, 1, burn=n - 1, rng=1)


def first_below(bound, tv):
    """Smallest number of steps whose estimate is below a total variation."""
    if bound.unmet:
        return None
    times = np.arange(int(bound.meetings.max()) - bound.lag + 1)
    low, high = 0, times.size - 1
    while low < high:  # the estimate falls with time
        middle = (low + high) // 2
        low, high = (low, middle) if bound.estimate(middle) < tv else (middle + 1, high)
    return low


def clocked(work, repeat):
    """CPU seconds of one call, compiled code loaded beforehand."""
    work()
    start = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - start) / repeat


def convergence(name):
    """Bounds of all chains of an example, and what one draw costs at the bound, with the exact sampler beside."""
    A, norm, log_ratio, paper, lags = EXAMPLES[name]
    law = LAPLACE[norm]("1/4")
    bounds, rows = {}, []
    for number, (chain, meeting, lag, limit, run) in enumerate(chains(A, law, log_ratio, lags)):
        hopeless = chain == "lattice Gibbs" and tv_bound(meeting, pairs=4, lag=1, limit=limit, rng=2).unmet
        bound = tv_bound(meeting, pairs=4 if hopeless else PAIRS, lag=lag, limit=limit, rng=[number, 3])
        bounds[chain] = bound
        steps = first_below(bound, TV)
        cost = math.nan if steps is None else 1000 * clocked(lambda n=steps, run=run: run(n), 20)
        shown = "not met" if steps is None else f"{steps:,}"
        rows.append({"chain": chain, "paper": paper if lag else "", "steps": shown, "ms per draw": cost})
    exact = exact_noise(structure(A), law)
    (part,) = exact.parts
    cost = clocked(lambda: exact.draw(2000, seeded_tape(4)), 3) / 2
    rows.append({"chain": f"exact ({part.sampler})", "paper": "open", "steps": "", "ms per draw": cost})
    return bounds, pd.DataFrame(rows)


def county_table():
    """Read the populations of the counties of Illinois, or simulate some."""
    file = ppd.datasets.public_file(POPULATIONS)
    if file is not None:
        rows = pd.read_csv(file).query("state == 'IL'")
        names, counts = rows["county"].to_numpy(), rows["population"].to_numpy()
    else:
        rng = np.random.default_rng(17)
        counts = np.sort(rng.lognormal(10.3, 1.2, COUNTIES).astype(np.int64) + 4000)
        names = np.array([f"county {k + 1}" for k in range(COUNTIES)])
    order = np.argsort(counts)
    return xr.DataArray(counts[order], dims="county", coords={"county": names[order]})


def counties(table):
    """Compare a thousand exact draws given the state total with the published chain after its burn-in."""
    from arviz_stats.base import array_stats

    law = DoubleGeometric("0.192")
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="0.192")
    noise = (mechanism.simulate(table, draws=1000, rng=5) - table).values
    wide = jumps(kernel(np.ones((1, table.size), dtype=int)).basis, DoubleGeometric("0.1"), math.exp(-2.5))
    system = wide._replace(scale=law.code[1])
    start = time.process_time()
    kept, _ = isdp(system, 1000, thin=1000, burn=10**6, chains=4, rng=6)
    seconds = time.process_time() - start
    rhat = array_stats.rhat(kept.astype(float), chain_axis=0, draw_axis=1)
    ess = array_stats.ess(np.abs(kept).sum(axis=2).astype(float), chain_axis=0, draw_axis=1)
    exact = clocked(lambda: mechanism.simulate(table, draws=1000, rng=7), 3)
    slope = np.corrcoef(noise.mean(axis=0), np.argsort(np.argsort(table)))[0, 1]
    print(f"counties: {table.size}, from {ppd.datasets.public_file(POPULATIONS) or 'simulation'}")
    print(f"sums kept: {not noise.sum(axis=1).any()}")
    print(f"within [-30, 30]: exact {np.mean(abs(noise) <= 30):.4f}, published chain {np.mean(abs(kept) <= 30):.4f}")
    print(f"standard deviation of a cell: exact {noise.std():.3f}, published chain {kept.std():.3f}")
    print(f"mean |z|: exact {np.abs(noise).sum(axis=1).mean():.1f}, chain {np.abs(kept).sum(axis=2).mean():.1f}")
    mean, error = np.abs(noise.mean(axis=0)).max(), noise.std() / 1000**0.5
    print(f"largest |mean noise| of a cell: {mean:.2f} (standard error of a cell's {error:.2f})")
    print(f"correlation of mean noise and size of the county: {slope:+.3f}")
    print(f"negative released counts in 1,000 draws: {int((noise + table.values < 0).sum())}")
    print(f"published chain, 4 x 2 million steps: largest R-hat {rhat.max():.4f}, ESS of |z| {float(ess):.0f}")
    print(f"CPU ms per draw: exact {exact:.4f}, per effective draw of the chain {1000 * seconds / float(ess):.1f}")
    return noise


def main(output=HERE):
    """Print every number of the README and draw its figures."""
    table = county_table()  # a missing file shows before the chains run
    for name in EXAMPLES:
        bounds, rows = convergence(name)
        print(f"{name}, eps 1/4, {PAIRS} pairs: steps until the bound is below {TV}")
        print(rows.to_string(index=False, float_format="{:.4g}".format), "\n", flush=True)
        figure = plot_tv_bound(bounds)
        figure.savefig(output / f"{name.replace(' ', '_').replace(',', '')}.png", dpi=70)
    noise = counties(table)
    figure = plot_noise_boxes(noise[np.newaxis], labels=table["county"].values.tolist())
    figure.savefig(output / "counties.png", dpi=60)


if __name__ == "__main__":
    main()
