"""What the time of a draw tells of its noise: rank correlation of time and size of the noise, sampler by sampler.

Run with ``python benchmarks/timing.py`` (about two minutes on one core).

Every figure is Spearman's correlation between the time of a vector draw and |z|_1, over 8,000 draws.

- once: time of a single draw from the operating system's words, as an observer of a release would see it.
- replayed: the same words are drawn from five times and the fastest time is kept. Nobody can replay a release; this
  strips the noise of the machine, so that what the algorithm itself gives away is not hidden by it.

Without any relation the figures have a standard error of 0.011. Above 0.1 in either column is marked.
"""

import os
import time
from fractions import Fraction

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import stats

from ppdinf.lattice import margin_matrix, structure
from ppdinf.laws import DiscreteGaussian, DoubleGeometric, L2Laplace
from ppdinf.noise.bits.integers import discrete_gaussian, discrete_laplace
from ppdinf.noise.bits.tape import secure_tape
from ppdinf.noise.chain_noise import chain_noise
from ppdinf.noise.exact_noise import exact_noise

DRAWS, REPLAYS = 8000, 5


def integers(draw, parameter):
    return lambda tape: draw(Fraction(parameter), 100, tape)


def lattice(A, law, sampler=exact_noise):
    noise = sampler(structure(A), law)
    return lambda tape: noise.draw(1, tape)


def two_way(*shape):
    return margin_matrix(shape, [(0,), (1,)])


TOTAL = np.ones((1, 100), dtype=int)
SAMPLERS = {
    "discrete Laplace, 100 cells, eps 1/4": lambda: integers(discrete_laplace, "1/4"),
    "discrete Laplace, 100 cells, eps 1/500": lambda: integers(discrete_laplace, "1/500"),
    "discrete Gaussian, 100 cells, sigma 3": lambda: integers(discrete_gaussian, 9),
    "discrete Gaussian, 100 cells, sigma 1000": lambda: integers(discrete_gaussian, 10**6),
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
    "chain: 3 x 3 margins, eps 1/4": lambda: lattice(two_way(3, 3), DoubleGeometric("1/4"), chain_noise),
}


class Recorder:
    """A secure tape whose words can be read again."""

    def __init__(self):
        self.tape, self.parts, self.place = secure_tape(), [], 0

    def __call__(self, n):
        if self.place == len(self.parts):
            self.parts.append(self.tape(n))
        self.place += 1
        return self.parts[self.place - 1].copy()


def measure(draw):
    """Median time, words read, and the two correlations."""
    once, fastest, sizes, words = (np.empty(DRAWS) for _ in range(4))
    for _ in range(50):
        draw(secure_tape())
    for k in range(DRAWS):
        tape, times = Recorder(), []
        for replay in range(1 + REPLAYS):
            tape.place = 0
            start = time.perf_counter_ns()
            z = draw(tape if replay else secure_tape())
            times.append(time.perf_counter_ns() - start)
            if not replay:
                once[k], single = times.pop(), np.abs(z).sum()
        fastest[k], sizes[k] = min(times), np.abs(z).sum()
        words[k] = sum(part.size for part in tape.parts)
        SINGLE[k] = single
    return np.median(once) / 1000, spearman(once, SINGLE), spearman(fastest, sizes), spearman(words, sizes)


SINGLE = np.empty(DRAWS)


def spearman(a, b):
    return 0.0 if np.ptp(a) == 0 else float(stats.spearmanr(a, b).statistic)


if __name__ == "__main__":
    line = "{:<44}{:>10}{:>8}{:>10}{:>8}  {}".format
    print(line("sampler", "median us", "once", "replayed", "words", ""))
    for name, prepare in SAMPLERS.items():
        median, *found = measure(prepare())
        mark = "above 0.1" if max(map(abs, found)) > 0.1 else ""
        print(line(name, f"{median:.0f}", *(f"{r:+.3f}" for r in found), mark), flush=True)
