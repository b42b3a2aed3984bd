"""Noise samplers: effective draws per CPU second, as ratios to the published chain, in one run.

Run with ``python benchmarks/noise.py`` (about three minutes on one core), or name the systems whose samplers are to be
compared: ``python benchmarks/noise.py "10 x 10 margins, l1" "30 x 30 margins, l1"``.

- published: Algorithm 1 of integer subspace differential privacy, compiled, with the tuning of its authors (exp(-1) for
l1
  on small systems, exp(-2.5) for county totals, exp(-1.5) and exp(-2) for l2). Where they report no tuning (10 x 10,
  30 x 30), the best of three is used.
- lines, row pairs: lattice Gibbs along single directions, or over pairs of rows and columns.
- annealed: independence chains with annealed proposals, on tables with at least 100 cells.
- exact: independent draws (`ppdinf.noise.sampler_plan`), from a seeded stream.

Effective draws are the minimum over cells and the l1 norm. R-hat is the maximum over the same quantities, from two
chains with different starts. A chain with R-hat above 1.05 is marked: its figure is not meaningful. Loading of compiled
code is not timed; set-up (kernels, lists of moves, tables) is in a separate column.

Further tables: acceptance of the exact l2 samplers, secure integer draws, and ten million cells with 51 totals.

The last table is the time until coupled chains certify a total variation distance of 0.05. It shows the number of steps
for the estimate and for its 95 % upper limit, from 1,000 pairs (100 for large systems).
"""

import math
import os
import resource
import sys
import time
from fractions import Fraction

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from arviz_stats.base import array_stats
from scipy import sparse

from ppdinf.errors import InvariantError
from ppdinf.lattice import kernel, margin_matrix, structure
from ppdinf.laws import DoubleGeometric, L2Laplace
from ppdinf.noise import LatticeMetropolis
from ppdinf.noise.mcmc.coupled_noise import annealed_meeting, gibbs_meeting
from ppdinf.noise.mcmc.independence_metropolis import annealed, annealing
from ppdinf.noise.mcmc.lattice_gibbs_noise import gibbs_moves, noise_gibbs
from ppdinf.noise.mcmc.tv_bound import tv_bound
from ppdinf.noise.primitives.integers import draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import secure_stream, seeded_stream
from ppdinf.noise.sampler_plan import exact_noise

SECONDS = 3.0  # approximate CPU time of each measurement
NUMBERS = 10**7  # upper limit of cells times recorded states of a chain
CONVERGED = 1.05


def two_way(n):
    return margin_matrix((n, n), [(0,), (1,)])


def three_sets():
    """Return a system of 14 records in the seven regions of three crossing sets, two records in each."""
    regions = [(i & 1, i >> 1 & 1, i >> 2 & 1) for i in range(1, 8)]
    return np.repeat(np.array(regions).T, 2, axis=1)


EXAMPLES = {
    "4 x 4 margins, l1": (two_way(4), DoubleGeometric("1/4"), [1.0]),
    "10 x 10 margins, l1": (two_way(10), DoubleGeometric("1/4"), [1.0, 2.0, 2.5]),
    "30 x 30 margins, l1": (two_way(30), DoubleGeometric("1/4"), [2.5, 4.0, 5.5]),
    "three sets, 14 records, l1": (three_sets(), DoubleGeometric("1/4"), [1.0]),
    "102 counties, l1, eps .192": (np.ones((1, 102), dtype=int), DoubleGeometric("0.192"), [2.5]),
    "4 x 4 margins, l2": (two_way(4), L2Laplace("1/4"), [2.0]),
    "30 x 30 margins, l2": (two_way(30), L2Laplace("1/4"), [2.0, 3.0, 4.0]),
    "three sets, 14 records, l2": (three_sets(), L2Laplace("1/4"), [1.5]),
}


def clocked(work):
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def quality(noise):
    """Return the smallest effective number of draws and the largest R-hat over cells and norm."""
    cells = noise[..., np.linspace(0, noise.shape[2] - 1, min(noise.shape[2], 24)).astype(int)]
    values = np.concatenate([cells, np.abs(noise).sum(axis=2, keepdims=True)], axis=2).astype(float)
    values = values[..., np.ptp(values, axis=(0, 1)) > 0]
    ess = array_stats.ess(values, chain_axis=0, draw_axis=1)
    with np.errstate(all="ignore"):  # the R-hat of a constant chain is nan
        rhat = array_stats.rhat(values, chain_axis=0, draw_axis=1)
    return float(np.min(ess)), float(np.max(np.nan_to_num(rhat, nan=np.inf)))


def chain_rate(run, d):
    """Return effective draws per CPU second of ``run(draws, thin, burn)`` and R-hat; a trial run sets the length."""
    run(2, 1, 0)
    _, trial = clocked(lambda: run(1, 500, 0))
    steps = max(int(SECONDS / 2 / (trial / 1000)), 100)
    draws = min(NUMBERS // d, steps)
    noise, seconds = clocked(lambda: run(draws, steps // draws, steps // 4))
    ess, rhat = quality(noise)
    return ess / seconds, rhat


def published(A, law, logs):
    rates = []
    for log in logs:
        chain = LatticeMetropolis(A, law, math.exp(-log))
        rates.append(
            chain_rate(lambda n, thin, burn, c=chain: c.draw(n, thin=thin, burn=burn, chains=2, rng=1)[0], A.shape[1])
        )
    return min(rates, key=lambda rate: (rate[1] > CONVERGED, -rate[0]))


def gibbs(moves):
    def run(draws, thin, burn):
        return noise_gibbs(moves._replace(sweep=moves.sweep * thin), draws, burn=burn // thin, chains=2, rng=2)

    return chain_rate(run, moves.d)


def annealed_rate(A, law):
    system, setup = clocked(lambda: annealing(A, law))
    annealed(system, 1, chains=2, rng=3)
    _, trial = clocked(lambda: annealed(system, 2, chains=2, rng=3))
    if trial > SECONDS:  # thirty steps would take minutes
        return math.nan, math.inf, setup
    steps = max(30, int(SECONDS / (trial / 2)))
    (noise, _), seconds = clocked(lambda: annealed(system, steps, burn=steps // 4, chains=2, rng=3))
    ess, rhat = quality(noise)
    return ess / seconds, rhat, setup


def exact(A, law):
    found = structure(A)
    noise, setup = clocked(lambda: exact_noise(found, law))
    size, (_, seconds) = 1, clocked(lambda: noise.draw(1, seeded_stream(3)))
    setup += seconds
    while seconds < SECONDS / 3:
        size *= 4
        _, seconds = clocked(lambda: noise.draw(size, seeded_stream(4)))  # noqa: B023
    kinds = ", ".join(part.sampler for part in noise.parts)
    return size / seconds, setup, kinds


def rows(A, law, logs):
    base, rhat = published(A, law, logs)
    yield "published", base, rhat, 0.0, ""
    moves, setup = clocked(lambda: gibbs_moves(A, law))
    if moves.rows.size:
        yield "row pairs", *gibbs(moves), setup, ""
    none = np.empty((0, 0), dtype=np.int64)
    yield "lines", *gibbs(moves._replace(rows=none, columns=none, sweep=kernel(A).rank)), setup, ""
    if A.shape[1] >= 100 and moves.rows.size and isinstance(law, DoubleGeometric):
        yield "annealed", *annealed_rate(A, law), ""
    try:
        rate, setup, kinds = exact(A, law)
        yield "exact", rate, 1.0, setup, kinds
    except InvariantError:
        pass


def speeds(names):
    line = "{:<28}{:<11}{:>16}{:>9}{:>8}{:>9}  {}".format
    print(line("system", "sampler", "eff. draws/s", "ratio", "R-hat", "set-up s", ""))
    for name in names:
        A, law, logs = EXAMPLES[name]
        base = None
        for sampler, rate, rhat, setup, note in rows(A, law, logs):
            converged = rhat <= CONVERGED
            base = (rate if converged else math.nan) if base is None else base
            ratio = "-" if math.isnan(base) else f"{rate / base:.3g}"
            shown = f"{rate:,.0f}" if converged and rate >= 10 else f"{rate:.2g}" if converged else "not converged"
            print(line(name, sampler, shown, ratio, f"{rhat:.3f}", f"{setup:.2f}", note), flush=True)


def sizes():
    """Print the acceptance of l2 noise, and the times of a million secure integers and of ten million cells."""
    for name in ("4 x 4 margins, l2", "30 x 30 margins, l2"):
        A, law, _ = EXAMPLES[name]
        (part,) = exact_noise(structure(A), law).parts
        print(f"\n{name}: {part.sampler}, acceptance {part.acceptance:.4f}", end="")
    for name, draw in (("Laplace", draw_discrete_laplace), ("Gaussian", draw_discrete_gaussian)):
        draw(Fraction(1, 4), 10, secure_stream())
        _, seconds = clocked(lambda draw=draw: draw(Fraction(1, 4), 10**6, secure_stream()))
        print(f"\n10^6 secure discrete {name} draws: {seconds:.3f} s", end="")
    states = np.repeat(np.arange(51), 10**7 // 51 + 1)[: 10**7]
    totals = sparse.csr_array((np.ones(10**7, dtype=np.int64), (states, np.arange(10**7))))
    noise, setup = clocked(lambda: exact_noise(structure(totals), DoubleGeometric("1/4")))
    z, seconds = clocked(lambda: noise.draw(1, secure_stream()))
    kept = not (totals @ z[0]).any()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"\n10^7 cells, 51 totals kept ({kept}): set-up {setup:.1f} s, draw {seconds:.1f} s, peak {peak:.1f} GB",
        flush=True,
    )


def chains(A, law, log):
    """Return meeting times, a run of a given number of steps, and the steps after which a pair is stopped."""
    published, moves = LatticeMetropolis(A, law, math.exp(-log)), gibbs_moves(A, law)
    yield "published", published.meeting, lambda n: published.draw(1, thin=n, rng=5), 300_000
    yield "Gibbs", gibbs_meeting(moves), lambda n: noise_gibbs(moves, 1, burn=n - 1, rng=5), 50_000
    levels = annealing(A, law)
    yield "annealed", annealed_meeting(levels), lambda n: annealed(levels, 1, burn=n - 1, rng=5), 500


def certificates():
    line = "{:<28}{:<11}{:>7}{:>7}{:>14}{:>17}{:>14}  {}".format
    print("\n" + line("system", "chain", "pairs", "lag", "TV<.05 after", "its limit after", "ms per draw", ""))
    for name in (
        "4 x 4 margins, l1",
        "three sets, 14 records, l1",
        "102 counties, l1, eps .192",
        "10 x 10 margins, l1",
    ):
        A, law, logs = EXAMPLES[name]
        for chain, meeting, run, limit in chains(A, law, logs[-1]):
            hopeless = tv_bound(meeting, pairs=2, lag=1, limit=limit, rng=6).unmet
            bound = tv_bound(meeting, pairs=2 if hopeless else 1000 if A.shape[1] < 20 else 100, limit=limit, rng=7)
            if bound.unmet:
                print(line(name, chain, bound.meetings.size, bound.lag, "-", "-", "-", str(bound)), flush=True)
                continue
            times = np.unique(
                np.append(np.arange(1, 400), np.geomspace(400, bound.meetings.max() + 1, 400).astype(int))
            )
            after = int(times[np.argmax(bound.estimate(times) < 0.05)])
            run(2)
            _, seconds = clocked(lambda: [run(after) for _ in range(10)])  # noqa: B023
            found = (
                chain,
                bound.meetings.size,
                bound.lag,
                f"{after:,}",
                str(bound.steps(0.05)),
                f"{100 * seconds:.3f}",
            )
            print(line(name, *found, ""), flush=True)


if __name__ == "__main__":
    speeds(sys.argv[1:] or EXAMPLES)
    if not sys.argv[1:]:
        sizes()
        certificates()
