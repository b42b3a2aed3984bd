"""The three examples of integer subspace differential privacy, by its chain, by other chains and by exact draws.

Run with ``ppdinf reproduce isdp``. County populations are read from the folder of PPDINF_DATA
(``county_population_2010.csv`` with columns state, county, population); without it, 102 counties are simulated.

P. Dharangutte, J. Gao, R. Gong, F.-Y. Yu, "Integer subspace differential privacy", AAAI 2023, section 5, appendix E.
"""

import math
import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

import ppdinf as ppd
from ppdinf.diagnostics import tv_bound
from ppdinf.lattice import margin_matrix, structure
from ppdinf.laws import LAPLACE, DoubleGeometric
from ppdinf.noise import LatticeMetropolis
from ppdinf.noise.mcmc.coupled_noise import annealed_meeting, gibbs_meeting
from ppdinf.noise.mcmc.independence_metropolis import annealed, annealing
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, noise_gibbs
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.sampler_plan import exact_noise

from .._shared.estimates import Estimate, if_enough
from .._shared.study import Study
from .noise_chains_figure import plot_noise_boxes, plot_tv_bound

TAKES = "3 min; quick 1 min"
ISDP = "Integer subspace DP"
MARGINS = margin_matrix((4, 4), [(0,), (1,)])
# Fourteen records in the seven regions of three sets that intersect in every way, two per region.
THREE_SETS = np.repeat(np.array([(i & 1, i >> 1 & 1, i >> 2 & 1) for i in range(1, 8)]).T, 2, axis=1)
# Public sums, norm, ln a of the published jumps, iterations in the paper's figure, lags shown.
EXAMPLES = {
    "4 x 4 margins, l1": (MARGINS, "l1", -1.0, "10^4", [1000, 4000, 8000]),
    "4 x 4 margins, l2": (MARGINS, "l2", -2.0, "10^5", [30_000, 100_000]),
    "three sets, l1": (THREE_SETS, "l1", -1.0, "10^5", [10_000, 30_000, 60_000]),
    "three sets, l2": (THREE_SETS, "l2", -1.5, "10^6", [150_000, 300_000]),
}
PAIRS, TV, COUNTIES = 200, 0.01, 102
# Table 2: delinquent children by county and education of the head of the household, a fictitious table of the Federal
# Committee on Statistical Methodology (2005).
CHILDREN = xr.DataArray(
    [[15, 1, 3, 1], [20, 10, 10, 15], [3, 10, 10, 2], [12, 14, 7, 2]],
    coords={"county": ["Alpha", "Beta", "Gamma", "Delta"], "education": ["low", "medium", "high", "very high"]},
)
REGIONS = [
    f"{''.join(s for s, inside in zip('123', THREE_SETS[:, i], strict=True) if inside)}{'ab'[i % 2]}" for i in range(14)
]
POPULATIONS = "county_population_2010.csv"


def chains(A, law, log_ratio, lags):
    """Yield chains of one law: name, meeting times, lag (None: by a pilot), maximum of steps, and a run of n steps."""
    published, moves = LatticeMetropolis(A, law, math.exp(log_ratio)), gibbs_moves(A, law)
    for lag in lags:
        yield f"published, lag {lag:,}", published.meeting, lag, 10**7, lambda n: published.draw(1, thin=n, rng=1)
    yield "lattice Gibbs", gibbs_meeting(moves), None, 1000, lambda n: noise_gibbs(moves, 1, burn=n - 1, rng=1)
    if isinstance(law, DoubleGeometric):
        levels = annealing(A, law)
        yield "annealed", annealed_meeting(levels), None, 1000, lambda n: annealed(levels, 1, burn=n - 1, rng=1)


def first_below(bound, tv):
    """Return the smallest number of steps whose estimate is below a total variation."""
    if bound.unmet:
        return None
    times = np.arange(int(bound.meetings.max()) - bound.lag + 1)
    low, high = 0, times.size - 1
    while low < high:  # the estimate decreases with time
        middle = (low + high) // 2
        low, high = (low, middle) if bound.estimate(middle) < tv else (middle + 1, high)
    return low


def clocked(work, repeat):
    """Return CPU seconds of one call, with compiled code loaded."""
    work()
    start = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - start) / repeat


def convergence(name, pairs, seed):
    """Return bounds of all chains of an example, and the cost of one draw of each chain and of the exact sampler."""
    A, norm, log_ratio, paper, lags = EXAMPLES[name]
    law = LAPLACE[norm]("1/4")
    bounds, rows = {}, []
    for number, (chain, meeting, lag, limit, run) in enumerate(chains(A, law, log_ratio, lags)):
        hopeless = chain == "lattice Gibbs" and tv_bound(meeting, pairs=4, lag=1, limit=limit, rng=2).unmet
        bound = tv_bound(meeting, pairs=4 if hopeless else pairs, lag=lag, limit=limit, rng=[number, seed + 2])
        bounds[chain] = bound
        steps = first_below(bound, TV)
        cost = math.nan if steps is None else 1000 * clocked(lambda n=steps, run=run: run(n), 20)
        shown = "not met" if steps is None else f"{steps:,}"
        rows.append({"chain": chain, "paper": paper if lag else "", "steps": shown, "ms per draw": cost})
    exact = exact_noise(structure(A), law)
    (part,) = exact.parts
    cost = clocked(lambda: exact.draw(2000, seeded_stream(4)), 3) / 2
    rows.append({"chain": f"exact ({part.sampler})", "paper": "open", "steps": "", "ms per draw": cost})
    return bounds, pd.DataFrame(rows)


def with_totals(cells):
    """Return a 4 x 4 table as a DataFrame with row and column totals."""
    frame = CHILDREN.copy(data=cells).to_pandas()
    frame["total"] = frame.sum(axis=1)
    frame.loc["total"] = frame.sum()
    return frame


def entries(study, quick, seed):
    """Draw the noise of each cell in both norms, exactly and by the published chain: tables 1 to 3, figures 5 and 7."""
    study.table("children", with_totals(CHILDREN.values), "Table 2: delinquent children, a fictitious table.")
    for system, labels, start in (
        ("4 x 4 margins", [f"{c}, {e}" for c in CHILDREN["county"].values for e in CHILDREN["education"].values], 8),
        ("three sets", REGIONS, 10),
    ):
        noise = {}
        for number, norm in enumerate(("l1", "l2")):
            A, _, log_ratio, _, _ = EXAMPLES[f"{system}, {norm}"]
            law = LAPLACE[norm]("1/4")
            draws = exact_noise(structure(A), law).draw(1000, seeded_stream(seed + start + number))
            noise[norm] = draws[np.newaxis]
            error = draws.std(axis=0) / 1000**0.5
            worst = np.abs(draws.mean(axis=0) / error).max()
            study.claim(
                f"every draw is of integers that keep the sums: {system}, {norm}", ISDP, "kept", "kept",
                holds=not (draws @ A.T).any(),
            )  # fmt: skip
            study.claim(
                f"no entry is biased: {system}, {norm}", ISDP, "unbiased",
                f"largest of {len(labels)} means: {worst:.1f} standard errors", holds=worst < 4.5,
            )  # fmt: skip
            chain = LatticeMetropolis(A, law, math.exp(log_ratio))
            kept, _ = chain.draw(250, thin=100 if quick else 10_000, burn=10**5, chains=4, rng=seed + number)
            sizes = [float(np.abs(each).sum(axis=1).mean()) for each in (draws, kept.reshape(-1, A.shape[1]))]
            study.claim(
                f"the published chain, thinned at 0.01 %, has the noise of exact draws: {system}, {norm}", "here",
                f"mean of the sum of absolute noise {sizes[0]:.1f}", f"{sizes[1]:.1f}",
                holds=if_enough(not quick, abs(sizes[1] / sizes[0] - 1) < 0.1),
            )  # fmt: skip
            if system.startswith("4"):
                one = draws[-1].reshape(4, 4)
                study.table(
                    f"noise_{norm}", with_totals(one),
                    f"Table {1 if norm == 'l1' else 3}: one draw of the {norm} noise, epsilon 1/4.",
                )  # fmt: skip
                study.table(
                    f"released_{norm}",
                    with_totals(CHILDREN.values + one),
                    f"The table of children with this {norm} noise.",
                )
        study.figure(
            f"{system.replace(' ', '_')}_entries", plot_noise_boxes(noise, labels=labels),
            f"{system}: noise of each cell in 1,000 exact draws, epsilon 1/4. Figure {7 if system[0] == '4' else 5} of "
            "the paper." + (" A label names the sets that contain a record." if system[0] == "t" else ""),
        )  # fmt: skip


def county_table(data):
    """Read the populations of the counties of Illinois, or simulate counties."""
    file = Path(data, POPULATIONS) if data else ppd.datasets.public_file(POPULATIONS)
    if file is not None:
        rows = pd.read_csv(file).query("state == 'IL'")
        names, counts = rows["county"].to_numpy(), rows["population"].to_numpy()
    else:
        rng = np.random.default_rng(17)
        counts = np.sort(rng.lognormal(10.3, 1.2, COUNTIES).astype(np.int64) + 4000)
        names = np.array([f"county {k + 1}" for k in range(COUNTIES)])
    order = np.argsort(counts)
    return xr.DataArray(counts[order], dims="county", coords={"county": names[order]}), file is not None


def counties(study, table, seed, quick):
    """Compare a thousand exact draws given the state total with the published chain after its burn-in."""
    from arviz_stats.base import array_stats

    law = DoubleGeometric("0.192")
    mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="0.192")
    noise = (mechanism.simulate(table, draws=1000, rng=seed + 4) - table).values
    published = LatticeMetropolis(np.ones((1, table.size), dtype=int), law, math.exp(-2.5))
    start = time.process_time()
    kept, _ = published.draw(100 if quick else 1000, thin=1000, burn=10**6, chains=4, rng=seed + 5)
    seconds = time.process_time() - start
    rhat = array_stats.rhat(kept.astype(float), chain_axis=0, draw_axis=1)
    ess = float(array_stats.ess(np.abs(kept).sum(axis=2).astype(float), chain_axis=0, draw_axis=1))
    exact = clocked(lambda: mechanism.simulate(table, draws=1000, rng=7), 3)
    within = [float(np.mean(abs(z) <= 30)) for z in (noise, kept)]
    mean, error = np.abs(noise.mean(axis=0)).max(), noise.std() / 1000**0.5
    negative = int((noise + table.values < 0).sum())
    study.claim(
        "counties: every draw keeps the total of the state", ISDP, "kept", "kept", holds=not noise.sum(axis=1).any()
    )
    study.claim(
        "counties: nearly all noise lies in [-30, 30]",
        ISDP,
        "nearly all",
        f"{within[0]:.2%}",
        holds=Estimate.of(np.mean, abs(noise) <= 30).above(0.99),
    )
    study.claim("counties: no draw is negative", ISDP, "0 of 1000", f"{negative} of 1000", holds=negative == 0)
    study.claim("counties: none is biased", ISDP, "unbiased", f"largest of {table.size} means {mean:.2f} ± {error:.2f}",
                holds=mean < 4.5 * error)  # fmt: skip
    study.claim("counties: R-hat of the published chain, 10^6 steps after 10^6 of burn-in", ISDP, "< 1.01",
                f"{rhat.max():.3f}, {kept.shape[1] * 1000:,} steps",
                holds=if_enough(not quick, rhat.max() < 1.01))  # fmt: skip
    both = pd.DataFrame(
        {
            "noise within [-30, 30]": within,
            "standard deviation of a cell, persons": [noise.std(), kept.std()],
            "mean of the sum of absolute noise, persons": [
                np.abs(noise).sum(axis=1).mean(),
                np.abs(kept).sum(axis=2).mean(),
            ],
            "CPU ms per (effective) draw": [exact, 1000 * seconds / ess],
        },
        index=pd.Index(["exact", "published chain"], name="draws"),
    )
    study.table("counties", both, f"{table.size} counties under the total of the state, epsilon = 0.192 per person.")
    study.figure(
        "counties", plot_noise_boxes({"l1, state total": noise[np.newaxis]}, labels=table["county"].values.tolist()),
        f"Noise of {table.size} counties in 1,000 exact draws, smallest county first, persons.",
    )  # fmt: skip


def main(output, *, quick=False, data=None, seed=1):
    """Bound the distance of all chains, and draw counties; write page, tables and figures to a folder."""
    table, real = county_table(data)  # a missing file raises an error before the chains run
    study = Study(
        "Noise that preserves public sums: the published chain, other chains, exact draws", output,
        about="A 4 x 4 table with both margins public, fourteen records under three sets, and counties under the total "
        "of their state.", settings={"quick": quick, "seed": seed, "real": real},
    )  # fmt: skip
    pairs = 40 if quick else PAIRS
    for name in list(EXAMPLES)[: 1 if quick else None]:
        bounds, rows = convergence(name, pairs, seed)
        label = name.replace(" ", "_").replace(",", "")
        study.table(
            label, rows.set_index("chain"), f"{name}: steps until the estimated bound is below {TV}, {pairs} pairs."
        )
        study.figure(
            label, plot_tv_bound(bounds),
            f"{name}, epsilon 1/4: bounds on the total variation between a chain and its law, by steps. Solid: "
            "estimate from coupled pairs; dotted: 95 % limit.",
        )  # fmt: skip
        published = [first_below(bound, TV) for chain, bound in bounds.items() if chain.startswith("published")]
        paper, met = EXAMPLES[name][3], [steps for steps in published if steps]
        power = int(paper[3:])
        study.claim(
            f"steps of the published chain until its bound is below {TV}: {name}", f"{ISDP}, E", f"about {paper}",
            " to ".join(f"{steps:,}" for steps in sorted({min(met), max(met)})) if met else "not met",
            holds=if_enough(not quick, bool(met) and 10 ** (power - 0.7) < np.median(met) < 10 ** (power + 0.7)),
        )  # fmt: skip
        exact = rows["ms per draw"].iloc[-1]
        chain = rows["ms per draw"].iloc[: len(published)].min()
        study.claim(f"exact draws are faster than the chain run that long: {name}", "here", "exact draws are open",
                    f"{chain / exact:,.0f} times", holds=chain > exact)  # fmt: skip
    entries(study, quick, seed)
    counties(study, table, seed, quick)
    study.write()
