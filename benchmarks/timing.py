"""Timing side channels of draws: rank correlation of the time of a draw and the size of its noise, by sampler.

Run with ``python benchmarks/timing.py`` (minutes on one core; ``--draws 2000`` for a preview; names select samplers).

Every figure is Spearman's correlation between the time of a vector draw and |z|_1, over 8,000 draws. Samplers with
bounds and those of counts are timed with set-up, around tables with one total. Their size is the distance of the counts
from the bound, or the sum of |released - counts|.

- once: time of a single draw from the operating system's words, as an observer of a release would see it.
- replayed: the same words are drawn from five times and the fastest time is used. A release cannot be replayed; this
  removes the noise of the machine, so that it does not hide the dependence of the algorithm.

Under independence the figures have a standard error of 0.011. Values above 0.1 in either column are marked.

The information in a time is given in nats of mutual information with the size, by two estimates. The first uses the
correlation: -log(1 - r^2) / 2 with r two standard errors larger than observed, as for normal variables. The second uses
an 8 x 8 table of ranks, which also detects non-monotone relations, minus its bias (8 - 1)^2 / 2n under independence.
"""

import argparse
import os
import time
from fractions import Fraction

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

import ppdinf as ppd
from ppdinf.lattice import margin_matrix, structure
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace
from ppdinf.noise.mcmc.coupled_noise import chain_noise
from ppdinf.noise.primitives.integers import draw_discrete_gaussian, draw_discrete_laplace
from ppdinf.noise.primitives.stream import secure_stream
from ppdinf.noise.sampler_plan import exact_noise

DRAWS, REPLAYS, BINS = 8000, 5, 8


def integers(draw, parameter):
    return lambda stream: draw(Fraction(parameter), 100, stream)


def lattice(A, law, sampler=exact_noise):
    noise = sampler(structure(A), law)
    return lambda stream: noise.draw(1, stream)


def two_way(*shape):
    return margin_matrix(shape, [(0,), (1,)])


def released(mechanism, most=60, cells=6):
    """Draw from a mechanism around varying tables with one total; the size refers to the table."""
    rng = np.random.default_rng(1)

    def draw(stream):
        table = rng.multinomial(most * cells // 3, rng.dirichlet(np.full(cells, 0.5)))
        table = np.minimum(table, most - 1)
        system = mechanism.public.on(table)
        settled = mechanism.on(system)
        plan = settled.plan_on(system)
        draw.clocked = time.perf_counter_ns()
        out = settled.draw(system, table, 1, stream, plan)
        draw.clocked = time.perf_counter_ns() - draw.clocked
        return np.minimum(table, 10) if mechanism.keeps_bounds else out - table

    draw.fresh = True
    return draw


def real(mechanism, cells=12):
    table = np.full(cells, 50)
    system = mechanism.public.on(table)
    settled = mechanism.on(system)
    plan = settled.plan_on(system)
    return lambda stream: settled.draw(system, table, 1, stream, plan) - table


BOUNDED = ppd.invariants.total() & ppd.invariants.nonnegative()
TOTAL = np.ones((1, 100), dtype=int)
THREE_WAY = margin_matrix((3, 3, 3), [(0, 1), (0, 2), (1, 2)])
SAMPLERS = {
    "discrete Laplace, 100 cells, eps 1/4": lambda: integers(draw_discrete_laplace, "1/4"),
    "discrete Laplace, 100 cells, eps 1/500": lambda: integers(draw_discrete_laplace, "1/500"),
    "discrete Gaussian, 100 cells, sigma 3": lambda: integers(draw_discrete_gaussian, 9),
    "discrete Gaussian, 100 cells, sigma 1000": lambda: integers(draw_discrete_gaussian, 10**6),
    "class: total of 100 cells, eps 1/4": lambda: lattice(TOTAL, DoubleGeometric("1/4")),
    "class: total of 100 cells, eps 1/100": lambda: lattice(TOTAL, DoubleGeometric("1/100")),
    "elimination: 2 x 5 margins, eps 1/4": lambda: lattice(two_way(2, 5), DoubleGeometric("1/4")),
    "elimination: two sums that cross, eps 1/4": lambda: lattice(
        [[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], DoubleGeometric("1/4")
    ),
    "rejection: 4 x 4 margins, eps 1/4": lambda: lattice(two_way(4, 4), DoubleGeometric("1/4")),
    "Klein: 4 x 4 margins, sigma 1/2": lambda: lattice(two_way(4, 4), DiscreteGaussian("1/2")),
    "Klein: 4 x 4 margins, sigma 4": lambda: lattice(two_way(4, 4), DiscreteGaussian("4")),
    "mixture: 4 x 4 margins, l2, eps 1/4": lambda: lattice(two_way(4, 4), L2Laplace("1/4")),
    "mixture: total of 100 cells, l2, eps 1/4": lambda: lattice(TOTAL, L2Laplace("1/4")),
    "crossing: 10 x 10 margins, eps 1/4": lambda: lattice(two_way(10, 10), DoubleGeometric("1/4")),
    "crossing lattice: 3 x 3 x 3 two-way margins, eps 1/4": lambda: lattice(THREE_WAY, DoubleGeometric("1/4")),
    "class: total of 100 cells, Gaussian, sigma 3": lambda: lattice(TOTAL, DiscreteGaussian("3")),
    "real: Gaussian on a grid, total of 12": lambda: real(ppd.SubspaceGaussian(ppd.invariants.total(), 1, "1e-6")),
    "real: Laplace on a grid, total of 12": lambda: real(
        ppd.SubspaceLaplace(ppd.invariants.total(), epsilon="1/4", method="extended")
    ),
    "real: correlated Gaussian, total of 12": lambda: real(ppd.CorrelatedGaussian(ppd.invariants.total(), 1, "1e-6")),
    "real: K-norm, total of 12": lambda: real(ppd.KNorm(ppd.invariants.total(), epsilon="1/4")),
    "bounded: Conditioned, total of 6, eps 1/4": lambda: released(
        ppd.Conditioned(BOUNDED, noise=DoubleGeometric("1/4"))
    ),
    "bounded: Wasserstein, total of 6, eps 1/4": lambda: released(ppd.WassersteinExponential(BOUNDED, "1/2", 2, "x")),
    "counts: random rounding to 5": lambda: released(ppd.mechanisms.random_rounding(5, 64)),
    "counts: two stages, eps 1": lambda: released(ppd.counts.TwoStage(1, 64)),
    "chain: 3 x 3 margins, eps 1/4": lambda: lattice(two_way(3, 3), DoubleGeometric("1/4"), chain_noise),
}


class Recorder:
    """A secure stream whose words can be read again."""

    def __init__(self):
        self.stream, self.parts, self.place = secure_stream(), [], 0

    def __call__(self, n):
        if self.place == len(self.parts):
            self.parts.append(self.stream(n))
        self.place += 1
        return self.parts[self.place - 1].copy()


def measure(draw, draws):
    """Return the median time in microseconds, the three correlations, and two estimates of the information in nats."""
    once, single, fastest, sizes, words = (np.empty(draws) for _ in range(5))
    fresh = hasattr(draw, "fresh")  # each draw has another table, so it cannot be replayed
    for _ in range(20 if fresh else 50):
        draw(secure_stream())
    for k in range(draws):
        stream, times = Recorder(), []
        for replay in range(1 if fresh else 1 + REPLAYS):
            stream.place = 0
            start = time.perf_counter_ns()
            z = draw(stream if replay or fresh else secure_stream())
            times.append(draw.clocked if fresh else time.perf_counter_ns() - start)
            if not replay:
                once[k], single[k] = times[0], np.abs(z).sum()
        fastest[k], sizes[k] = min(times[1:] or times), np.abs(z).sum()
        words[k] = sum(part.size for part in stream.parts)
    correlations = spearman(once, single), spearman(fastest, sizes), spearman(words, sizes)
    nats = max(by_correlation(r, draws) for r in correlations[:2]), by_ranks(once, single), by_ranks(fastest, sizes)
    return np.median(once) / 1000, correlations, nats


def spearman(a, b):
    return 0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else float(stats.spearmanr(a, b).statistic)


def by_correlation(r, draws):
    return -np.log1p(-(min(abs(r) + 2 / np.sqrt(draws), 0.999) ** 2)) / 2


def by_ranks(times, sizes):
    """Return the mutual information of ranks in BINS x BINS boxes, minus its expectation under independence."""
    boxes = [np.minimum(stats.rankdata(v) * BINS / (v.size + 1), BINS - 1).astype(int) for v in (times, sizes)]
    joint = np.zeros((BINS, BINS))
    np.add.at(joint, tuple(boxes), 1 / times.size)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    seen = joint > 0
    bias = (np.count_nonzero(joint.sum(axis=1)) - 1) * (np.count_nonzero(joint.sum(axis=0)) - 1) / (2 * times.size)
    return float((joint[seen] * np.log(joint[seen] / apart[seen])).sum() - bias)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="only samplers whose names begin so")
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args()
    line = "{:<54}{:>10}{:>8}{:>10}{:>8}{:>10}{:>8}{:>10}  {}".format
    print(line("sampler", "median us", "once", "replayed", "words", "nats <=", "once", "replayed", ""))
    for name, prepare in SAMPLERS.items():
        if given.names and not name.startswith(tuple(given.names)):
            continue
        median, found, nats = measure(prepare(), given.draws)
        mark = "above 0.1" if max(map(abs, found)) > 0.1 else ""
        print(
            line(name, f"{median:.0f}", *(f"{r:+.3f}" for r in found), *(f"{value:.4f}" for value in nats), mark),
            flush=True,
        )
