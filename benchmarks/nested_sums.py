"""Nested sums: seconds and memory against the number of cells, and groups under one sum each beside `fiber.totals`.

Run with ``python benchmarks/nested_sums.py`` (a minute of one core). Five levels: cells (variance 10), blocks of them
(4), two more levels (6, 5), and an exact root; discrete Gaussian noise, x >= 0 with a flat prior, cells that share one
table of weights. *First* is an evaluation that has to find its tilts, *again* one that has them (``settled``): the
upward pass alone. Times are of one core's processor, compilation not included (but for the first line); memory is the
most that the process held.
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
    """The plan of a simulated tree, given how many parts a sum of each level has; and the weights of cells."""
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
    """Seconds of each step, GB and bound of one tree; its number of cells."""
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


def beside_totals(d, width):
    """Microseconds of value and gradient, and of a draw: tree, then `totals`, for cells under one exact sum."""
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
        print(f"| {d} | {width} | " + " | ".join(f"{us:.0f}" for us in beside_totals(d, width)) + " |")
