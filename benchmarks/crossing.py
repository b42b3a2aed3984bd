"""Exact l1 noise for crossing sums: time of a draw, and acceptance rates compared with their predictions.

Run with ``python benchmarks/crossing.py`` (about five minutes on one core; epsilon is 1/4 unless stated). The first
table has two-way tables with both margins by the size of their smaller side, the second table has other systems. Times
are CPU seconds with words from the operating system. `benchmarks/noise.py` compares with chains by effective draws per
second.
"""

import os
import time
from fractions import Fraction

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ppdinf.lattice import margin_matrix, structure
from ppdinf.noise.exact.scale_mixture.lattice_laplace import Prepared
from ppdinf.noise.exact.scale_mixture.two_way_laplace import TwoWayLaplace
from ppdinf.noise.primitives.stream import secure_stream

SECONDS = 6.0  # approximate CPU time of each measurement
SQUARES = [(n, n) for n in (5, 10, 15, 20, 25, 30, 35, 40, 45)]
LONG = [(67, 24), (200, 10), (1000, 10), (3143, 5)]


def margins(shape, generators):
    return margin_matrix(shape, generators).toarray()


def with_structural_zeros(n, zeros):
    A = margins((n, n), [(0,), (1,)])
    return A[:, np.sort(np.random.default_rng(1).permutation(n * n)[zeros:])]


def one_way(*shape):
    return margins(shape, [(i,) for i in range(len(shape))])


OTHERS = {
    "10 x 10, 10 structural zeros": with_structural_zeros(10, 10),
    "15 x 15, 20 structural zeros": with_structural_zeros(15, 20),
    "4 x 4 x 4, two-way, 6 structural zeros": margins((4, 4, 4), [(0, 1), (1, 2), (0, 2)])[
        :, np.sort(np.random.default_rng(1).permutation(64)[6:])
    ],
    "4 x 4 x 4, one-way margins": one_way(4, 4, 4),
    "5 x 5 x 5, one-way margins": one_way(5, 5, 5),
    "8 x 6 x 6, one-way margins": one_way(8, 6, 6),
    "3 x 3 x 3, two-way margins": margins((3, 3, 3), [(0, 1), (1, 2), (0, 2)]),
    "5 x 4 x 3, two-way margins": margins((5, 4, 3), [(0, 1), (1, 2), (0, 2)]),
    "4 x 4 x 4, two-way margins": margins((4, 4, 4), [(0, 1), (1, 2), (0, 2)]),
    "20 cells, 2 sums with weights to 5": np.random.default_rng(2).integers(0, 6, size=(2, 20)),
    "30 cells, 6 random sets": np.random.default_rng(3).integers(0, 2, size=(6, 30)),
}


def measured(law):
    """Return the acceptance rate, and the seconds per attempt."""
    stream, size, kept, tries, start = secure_stream(), 100, 0, 0, time.process_time()
    list(law._attempts(2, stream))
    while (seconds := time.process_time() - start) < SECONDS and kept < 400:
        kept += sum(1 for _ in law._attempts(size, stream))
        tries += size
        size = min(2 * size, max(1, 2**18 // law.scales.first))
    return kept, tries, seconds / tries


def report(name, law, setup):
    kept, tries, attempt = measured(law)
    share = f"{kept / tries:.2g}" if kept > 20 else "-"
    draw = attempt / (kept / tries if kept > 20 else law.acceptance)
    print(f"{name:<36}{setup:>9.1f}{law.acceptance:>12.2g}{share:>10}{1e3 * draw:>14.3g}", flush=True)


def main():
    print(f"{'system':<36}{'set-up s':>9}{'predicted':>12}{'kept':>10}{'ms a draw':>14}")
    TwoWayLaplace((4, 4), Fraction(1))  # loads compiled code
    for epsilon, shapes in ((Fraction(1, 4), SQUARES + LONG), (Fraction(1, 10), [(30, 30)]), (Fraction(1), [(6, 6)])):
        for shape in shapes:
            start = time.process_time()
            law = TwoWayLaplace(shape, epsilon)
            report("{} x {}".format(*shape) + f", epsilon {epsilon}", law, time.process_time() - start)
    for name, A in OTHERS.items():
        start = time.process_time()
        law = Prepared(structure(A), 0, Fraction(1, 4)).mixture
        report(name, law, time.process_time() - start)


if __name__ == "__main__":
    main()
