r"""Cells that bounds of two cells join to trees, such as cases >= deaths of a county: total weights and exact draws.

    P(y) ~ prod_i f_i(y_i)    on {y : B y >= b},    f_i(y) = noise(y - x_i) nu_i(y) exp(tilt_i (y - x_i))

The weight of a cell times the sums over the subtrees below it, summed over the first counts that a bound admits, is a
prefix sum. A cell given its parent is drawn by inversion of prefix sums, from the root down. Doubles with bounds on
their errors decide nearly all draws, and balls of any precision decide the others.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
import scipy.sparse as sp
from flint import arb
from scipy.sparse.csgraph import breadth_first_order, connected_components

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.errors import InvariantError
from ppdinf.invariants import System
from ppdinf.lattice.integer_rows import row_algebra
from ppdinf.laws import IntegerLaw
from ppdinf.noise.primitives.enclosures import compare_enclosures, integer_bounds, precision
from ppdinf.noise.primitives.stream import BitStream

BITS = 88  # mass outside of windows in double precision: 2^-88
WIDEST = 2**22  # counts in the window of one cell
UNIT, UNDERFLOW = 2.0**-53, 2.0**-900
BLOCK = 256  # terms of a prefix sum in one block
MOST_SUMS, FEW = 3, 20  # sums of more than a few cells; every sum divides the acceptance rate by its relative spread

type Numbers = Array
"""Doubles, or an object array of balls."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Public statements as disjoint trees of bounds, and independent sums of cells."""

    sums: Integers  # (q, d)
    order: list[int]  # parents first
    parent: list[int]  # -1 at roots
    edges: dict[int, tuple[int, int, int]]  # bound ``own y + parents a >= limit`` of a cell and its parent

    @property
    def has_total(self) -> bool:
        """Whether public sums are sums of disjoint sets of roots, so that the normalizer has one integer per tree."""
        disjoint = np.isin(self.sums, (0, 1)).all() and (self.sums.sum(axis=0) <= 1).all()
        return bool(disjoint and not self.sums[:, list(self.edges)].any())

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Children of every cell that has any."""
        below: dict[int, list[int]] = {}
        for i in self.edges:
            below.setdefault(self.parent[i], []).append(i)
        return below

    def step(self, i: int) -> int:
        """Return 1 if counts are in increasing order, so that the bound admits the first ones, otherwise -1."""
        return -1 if i in self.edges and self.edges[i][0] > 0 else 1

    def without(self, pivots: list[int]) -> Forest:
        """Remove the bounds of some cells, which become roots like their children."""
        kept = {i: edge for i, edge in self.edges.items() if i not in pivots and self.parent[i] not in pivots}
        return Forest(self.sums, self.order, [p if i in kept else -1 for i, p in enumerate(self.parent)], kept)


@lru_cache(maxsize=16)
def forest_of(system: System) -> Forest | str:
    """Return the trees of bounds of a system, or the reason why its statements have another form."""
    chosen, d = row_algebra(sp.csc_array(system.A)).independent, system.frame.size
    if len(chosen) > MOST_SUMS and d > FEW:
        return f"{len(chosen)} independent public sums, more than {MOST_SUMS}"
    sums, B = sp.csr_array(system.A)[chosen].toarray(), sp.csr_array(system.B)
    entries = np.diff(B.indptr)
    if (entries > 2).any():
        return f"the bound {system.bound_names[int(np.argmax(entries))]!r} has more than two cells"
    linked = np.flatnonzero(entries == 2)
    i, j = (B.indices[B.indptr[linked] + k] for k in (0, 1))
    graph = sp.coo_array((np.ones(linked.size), (i, j)), shape=(d, d)).tocsr()
    groups, label = connected_components(graph, directed=False)
    if linked.size != d - groups:
        return "bounds of two cells form a cycle"
    rows = {frozenset(pair): row for pair, row in zip(zip(i.tolist(), j.tolist(), strict=True), linked, strict=True)}
    order, parent, edges = [], [-1] * d, {}
    in_sums = np.argsort(~(sums != 0).any(axis=0), kind="stable")  # roots are cells of sums where possible
    for start in in_sums[np.unique(label[in_sums], return_index=True)[1]].tolist():
        found, before = breadth_first_order(graph, start, directed=False)
        order += found.tolist()
        for cell in found[1:].tolist():
            parent[cell] = int(before[cell])
            row = B[[rows[frozenset((cell, parent[cell]))]]].toarray()[0]
            limit = int(system.limits[rows[frozenset((cell, parent[cell]))]])
            edges[cell] = int(row[cell]), int(row[parent[cell]]), limit
    return Forest(sums, order, parent, edges)


@dataclass(frozen=True, eq=False)
class Window:
    """Weights ``exp(logs)`` of a cell from `first` on, relative to the weight of its count, and their errors."""

    first: int
    logs: Reals
    error: float  # of logs
    tail: float  # bound on the weights outside, relative to those inside


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights f_i of the cells of one table."""

    x: Integers
    low: Reals
    high: Reals
    noise: IntegerLaw
    alpha: tuple[Fraction | None, ...]
    tilt: tuple[Fraction, ...]

    def enclose(self, i: int, y: int) -> arb:
        """Enclose a weight at Arb's working precision."""
        z = y - int(self.x[i])
        weight = self.noise.weight(abs(z)) * (ball(self.tilt[i]) * z).exp()
        if (alpha := self.alpha[i]) is None:
            return weight
        a, x = ball(alpha), int(self.x[i])
        return weight * ((a + y).lgamma() - (a + x).lgamma() - arb(y + 1).lgamma() + arb(x + 1).lgamma()).exp()

    def logs(self, i: int, first: int, last: int) -> tuple[Reals, float]:
        """Return log weights and a bound on their errors."""
        y, x, tilt = np.arange(first, last + 1), int(self.x[i]), float(self.tilt[i])
        logs = np.asarray(self.noise.log_weight((y - x).astype(np.float64)))
        error = 8 * UNIT * (1.0 + float(np.abs(logs).max()))
        if (alpha := self.alpha[i]) is None:
            return logs + tilt * (y - x), error + 4 * UNIT * abs(tilt) * y.size
        excess = (float(alpha) - 1.0) / (y[:-1] + 1.0)
        ratios = np.log1p(excess)  # of successive weights
        steps = ratios + tilt  # summed outwards from x, so that errors are those of small numbers
        drift = np.concatenate([-prefix_sums(steps[: x - first][::-1])[:0:-1], prefix_sums(steps[x - first :])])
        doubt = np.abs(ratios) + np.abs(excess) / (1.0 + excess) + abs(tilt) + 1.0 / (y[:-1] + float(alpha))
        error += UNIT * (1.1 * terms(y.size) * float(np.abs(steps).sum()) + 8.0 * float(doubt.sum()))
        return logs + drift, error

    def window(self, i: int, bits: int) -> Window:
        """Tabulate a cell on a window with all but 2^-bits of its weight."""
        x, reach = int(self.x[i]), [reach_of(self.noise, bits)] * 2
        while True:
            first = int(max(self.low[i], x - reach[0]))
            last = int(min(self.high[i], x + reach[1]))
            if last - first > WIDEST:
                raise InvariantError(
                    f"the weights of a cell cover more than {WIDEST:,} counts: choose a larger epsilon"
                )
            logs, error = self.logs(i, first, last)
            mass = float(logs.max()) + math.log(np.exp(logs - logs.max()).sum())
            tails = [
                0.0 if complete else math.exp(min(0.0, float(logs[end]) + log_tail - mass + 0.01))
                for complete, end, log_tail in (
                    (first == self.low[i], 0, self._log_tail(i, first, -1)),
                    (last == self.high[i], -1, self._log_tail(i, last, 1)),
                )
            ]
            if max(tails) <= 2.0**-bits:
                return Window(first, logs, error, 1.01 * sum(tails))
            reach = [2 * r if tail > 2.0**-bits else r for r, tail in zip(reach, tails, strict=True)]

    def _log_tail(self, i: int, end: int, side: int) -> float:
        """Bound the log of all weights beyond an end of a window, relative to the weight at the end."""
        log_ratio = float(self.noise.largest_ratio(abs(end - int(self.x[i]))).log().upper()) + side * float(
            self.tilt[i]
        )
        if (alpha := self.alpha[i]) is not None:
            if side > 0:  # the ratio (y + alpha) / (y + 1) tends to 1
                log_ratio += max(0.0, math.log((end + float(alpha)) / (end + 1)))
            elif alpha < 1:  # the ratio y / (y - 1 + alpha) increases up to 1 / alpha
                log_ratio -= math.log(alpha)
            elif end > 0:
                log_ratio += math.log(end / (end - 1 + float(alpha)))
        return log_ratio - math.log(-math.expm1(log_ratio)) if log_ratio < -1e-12 else math.inf


@lru_cache(maxsize=256)
def reach_of(noise: IntegerLaw, bits: int) -> int:
    """Return a distance beyond which the weights of noise sum to at most 2^-bits."""
    return noise.tail_start(-bits * math.log(2))


def terms(size: int) -> float:
    """Return the largest number of additions behind an entry of `prefix_sums`."""
    return BLOCK + size / BLOCK + 4


def prefix_sums(values: Numbers) -> Numbers:
    """Return 0 and all sums of the first values; doubles are summed in blocks to bound the rounding error."""
    if values.dtype == object:
        return np.concatenate([np.array([arb(0)]), np.cumsum(values)])
    padded = np.zeros(-(-values.size // BLOCK) * BLOCK)
    padded[: values.size] = values
    rows = np.cumsum(padded.reshape(-1, BLOCK), axis=1)
    rows[1:] += np.cumsum(rows[:-1, -1])[:, np.newaxis]
    return np.concatenate([[0.0], rows.ravel()[: values.size]])


@dataclass(frozen=True, eq=False)
class Node:
    """A cell of a tree: weights of its subtree by the count of the cell in its order, divided by ``exp(log_scale)``."""

    start: int
    weights: Numbers
    sums: Numbers  # over the first counts
    log_scale: float
    omitted: arb | float  # bound on the weights outside of the windows of the subtree, whatever the parent
    relative: float  # bound on the relative errors of the sums
    full: arb | float  # sum without the bounds within the subtree
    tail: float


class Trees:
    """Independent trees of one table: total weight, and exact draws."""

    def __init__(self, forest: Forest, weights: Weights, cells: list[int]) -> None:
        self.forest = forest
        self.weights = weights
        self.order = [i for i in forest.order if i in set(cells)]
        self.nodes: dict[int, Node] = {}
        for i in reversed(self.order):
            self.nodes[i] = self._node(i)
        self.roots = [i for i in self.order if forest.parent[i] < 0]
        tops = [self.nodes[i] for i in self.roots]
        self.log_total = sum(node.log_scale for node in tops)
        self.error = sum(node.relative + float(node.omitted) for node in tops)

    @lru_cache(maxsize=4)  # noqa: B019  a cache in the object is a cycle, which keeps its tables in memory
    def _node(self, i: int, bits: int = 0) -> Node:
        """Sum the weights of a subtree: in doubles, divided by their sum, or in balls for words of some bits."""
        forest, window = self.forest, self.weights.window(i, bits + BITS)
        counts = np.arange(window.first, window.first + window.logs.size)
        log_scale = float(window.logs.max())
        step = forest.step(i)
        if bits:
            weights: Numbers = np.array([*(self.weights.enclose(i, y) for y in counts.tolist()), None])[:-1]
        else:
            weights = np.exp(window.logs - log_scale)
        full = weights.sum()
        relative = window.error + 8 * UNIT
        tail = window.tail
        for child in forest.children.get(i, []):
            node = self._node(child, bits) if bits else self.nodes[child]
            weights = weights * node.sums[self._admitted(child, node, counts)]
            full = full * node.full
            relative += node.relative + 2 * UNIT
            tail += node.tail
            log_scale += node.log_scale
        weights = weights[::step]
        sums = prefix_sums(weights)
        if not bits:
            if not (top := float(sums[-1])) > 0:
                raise InvariantError("no counts within the windows of their weights satisfy the bounds")
            sums, weights, full, log_scale = sums / top, weights / top, full / top, log_scale + math.log(top)
        omitted = full * (1.02 * tail) + (0.0 if bits else UNDERFLOW)
        relative += 1.1 * terms(counts.size) * UNIT
        return Node(int(counts[::step][0]), weights, sums, log_scale, omitted, relative, full, tail)

    def enclose_total(self, bits: int) -> arb:
        """Enclose the total weight at the working precision for `bits`."""
        total = arb(1)
        for node in (self._node(i, bits) for i in self.roots):
            total *= node.sums[-1] + arb(0).union(node.omitted)
        return total

    def _admitted(self, i: int, node: Node, above: Integers) -> Integers:
        """Return how many of the first counts of a cell its bound admits, given counts of its parent."""
        own, parents, limit = self.forest.edges[i]
        last = (parents * above - limit) // abs(own)  # own y + parents a >= limit
        return np.clip(last + 1 - node.start if own < 0 else last + 1 + node.start, 0, node.sums.size - 1)

    def draw(self, y: Integers, stream: BitStream) -> None:
        """Draw all cells of the trees into the rows of a table."""
        for i in self.order:
            node, above, step = self.nodes[i], self.forest.parent[i], self.forest.step(i)
            admitted = np.full(len(y), node.sums.size - 1)
            if above >= 0:
                admitted = self._admitted(i, node, y[:, above])
            words = stream(len(y))
            total = node.sums[admitted]
            goal = words * 2.0**-64 * total
            k = np.minimum(np.searchsorted(node.sums, goal, side="right") - 1, np.maximum(admitted - 1, 0))
            margin = total * (2 * node.relative + 8 * UNIT) + float(node.omitted)
            near = np.minimum(goal - node.sums[k], node.sums[k + 1] - goal) <= margin
            y[:, i] = node.start + step * k
            for row in np.flatnonzero(near).tolist():
                find = partial(self._find, i, None if above < 0 else int(y[row, above]))
                y[row, i] = compare_enclosures(words[row], 64, stream, find)

    def _find(self, i: int, above: int | None, word: int, bits: int) -> int | None:
        """Return the count of every u with these first bits, given the count of the parent; None if undecided."""
        with precision(bits):
            node, scale = self._node(i, bits), arb(2) ** bits
            last = node.sums.size - 1 if above is None else int(self._admitted(i, node, np.array([above]))[0])
            total = node.sums[last]
            if not total > 0:
                return None
            goal = arb(word) / scale * total.mid()
            k = bisect_right(node.sums, goal, 1, last, key=arb.mid) - 1  # the last sum that does not exceed the goal
            before, after = (node.sums[k] + node.omitted) / total, node.sums[k + 1] / (total + node.omitted)
            decided = integer_bounds(before * scale)[1] <= word < integer_bounds(after * scale)[0]
        return node.start + self.forest.step(i) * k if decided else None
