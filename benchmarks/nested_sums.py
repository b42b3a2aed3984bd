"""Nested sums: seconds and memory by the number of cells, and groups with one sum each compared with `totals`.

Run with ``python benchmarks/nested_sums.py`` (a minute of one core). There are five levels: cells (variance 10), blocks
(4), two more levels (6, 5), and an exact root. Noise is discrete Gaussian, x >= 0 with a flat prior, and cells share
one table of weights. *First* is an evaluation that has to compute its tilts; *again* is one that has them
(``settled``): only the upward pass. Times are CPU times of one core without compilation (except for the first line);
memory is the peak of the process.
"""

import os
import resource
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ppdinf.fiber.nested_sums.nested_sums import LogTable, NestedSums
from ppdinf.fiber.sums_given_totals import totals

VARIANCES, CELL_VARIANCE, REACH = (5.0, 6.0, 4.0), 10.0, 32


def gaussian(variance, size, rng):
    k = np.arange(-40, 41)
    p = np.exp(-(k**2) / (2 * variance))
    return rng.choice(k, size, p=p / p.sum())


def census(fan, rng):
    """Return the sums of a simulated tree, given the number of parts per level, and the weights of cells."""
    parent, first, levels = [np.array([-1])], 0, [np.zeros(1, int)]
    for parts in fan[:-1]:
        above = levels[-1]
        parent.append(np.repeat(above, parts))
        first += above.size
        levels.append(first + np.arange(above.size * parts))
    node, parent = np.repeat(levels[-1], fan[-1]), np.concatenate(parent)
    x = rng.negative_binomial(0.5, 0.5 / 20.5, node.size)
    truth = np.bincount(node, x, parent.size).astype(int)
    for level in levels[:0:-1]:
        np.add.at(truth, parent[level], truth[level])
    law = np.repeat(np.arange(len(levels) - 1), [level.size for level in levels[1:]])
    noise = np.concatenate(
        [gaussian(v, level.size, rng) for v, level in zip(VARIANCES[-len(levels) + 1 :], levels[1:], strict=True)]
    )
    y = x + gaussian(CELL_VARIANCE, x.size, rng)
    low = np.maximum(y - REACH, 0)
    least, most = np.zeros(parent.size, int), np.full(parent.size, 2**40)
    least[0] = most[0] = truth[0]
    plan = NestedSums(
        low=low,
        width=y + REACH + 1 - low,
        start=low - (y - REACH),
        node=node,
        parent=parent,
        least=least,
        most=most,
        measured=(np.arange(1, parent.size), (truth[1:] + noise), law),
        laws=[LogTable([0.0], (0, 1 / v), (0, 1 / v)) for v in VARIANCES],
    )
    return plan, -(np.arange(-REACH, REACH + 1) ** 2) / (2 * CELL_VARIANCE)


def seconds(work, times=1):
    spent = []
    for _ in range(times):
        begun = time.process_time()
        found = work()
        spent.append(time.process_time() - begun)
    return min(spent), found


def measured(fan):
    """Print the seconds of each step, GB and bound of one tree, and its number of cells."""
    made, (plan, weights) = seconds(lambda: census(fan, np.random.default_rng(1)))
    first, evaluated = seconds(lambda: plan.evaluate(weights))
    settled = evaluated.settled
    del evaluated
    again, evaluated = seconds(lambda: settled.evaluate(weights))
    one, _ = seconds(lambda: evaluated.draw(1, rng=1), 3)
    ten, _ = seconds(lambda: evaluated.draw(10, rng=1))
    down, _ = seconds(evaluated.posteriors)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return plan.cells, (made, first, again, one, ten / 10, down, memory, evaluated.bound[0])


def growth():
    print("| cells | plan | first | again | a draw | each of ten | posteriors | GB | bound |\n" + "|---" * 9 + "|")
    sizes, times = [], []
    for fan in ((4, 5, 5, 10), (4, 5, 5, 10), (10, 10, 10, 10), (20, 16, 16, 20), (40, 32, 20, 26), (40, 32, 30, 26)):
        cells, found = measured(fan)
        print(f"| {cells:,} | " + " | ".join(f"{s:.3g}" for s in found) + " |", flush=True)
        sizes.append(cells)
        times.append(found[2])
    slope = np.polyfit(np.log(sizes[1:]), np.log(times[1:]), 1)[0]
    print(f"\nThe upward pass grows with cells to the power {slope:.2f}.\n")


def compared_with_totals(d, width):
    """Print microseconds of value and gradient and of a draw, by the tree and by `totals`, for one exact sum."""
    x, center = np.arange(width), np.random.default_rng(1).uniform(0.3, 0.7, (d, 1)) * width
    weights = -((x - center) ** 2) / (2 * (width / 12) ** 2)
    total = int(center.sum())
    cells = {"low": np.zeros(d, int), "width": np.full(d, width), "node": np.zeros(d, int)}
    plan = NestedSums(**cells, parent=[-1], least=[total], most=[total])
    evaluated = plan.evaluate(weights.ravel())
    works = {
        lambda: plan.evaluate(weights.ravel()).posteriors(): 1,
        lambda: totals.marginals(weights, lo=0, total=total): 1,
        lambda: evaluated.draw(100, rng=1): 100,
        lambda: totals.draw(weights, lo=0, total=total, draws=100, rng=1): 100,
    }
    return [1e6 * seconds(work, 5)[0] / times for work, times in works.items()]


if __name__ == "__main__":
    growth()
    print("| cells | width | tree, us | totals, us | tree, draw | totals, draw |\n" + "|---" * 6 + "|")
    for d, width in ((20, 20), (20, 100), (20, 1000), (200, 20), (200, 100), (3000, 100)):
        print(f"| {d} | {width} | " + " | ".join(f"{us:.0f}" for us in compared_with_totals(d, width)) + " |")
