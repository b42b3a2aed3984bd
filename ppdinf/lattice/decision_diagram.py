"""All integer tables with given sums and supports as a decision diagram, and exact draws from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ppdinf._internal.numba_jit import jit
from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.lattice.kernel import support_components

BASE = 2.0**200  # base of the exponents of weights
LOG_BASE = 200 * 0.6931471805599453
HUGE = 1e15  # log weights below minus this are treated as -inf


@jit
def _scaled(total: float, exponent: int) -> tuple[float, int]:
    """Normalise a positive number ``total * BASE**exponent`` to a total from 1 to BASE."""
    while total >= BASE:
        total, exponent = total / BASE, exponent + 1
    while 0.0 < total < 1.0:
        total, exponent = total * BASE, exponent - 1
    return total, exponent


@jit
def _power(exponent: int) -> float:
    """Return ``BASE**exponent`` for an exponent of at most 0, or 0 if products of two totals would underflow."""
    return 1.0 if exponent == 0 else 1.0 / BASE if exponent == -1 else 1.0 / BASE / BASE if exponent == -2 else 0.0


@jit
def _relative(term: float, exponent: int) -> float:
    """Return ``term * BASE**exponent`` without overflow."""
    while exponent > 0:
        term, exponent = term * BASE, exponent - 1
    return term * _power(exponent)


@jit
def draw_path(first: Integers, child: Integers, position: Integers, log_weights: Reals, uniform: Reals) -> Integers:
    """Draw a path: the position of each layer's value, or -1 in the first place if all paths have weight 0."""
    weights, powers = np.zeros(log_weights.size), np.zeros(log_weights.size, dtype=np.int64)
    for k in range(log_weights.size):
        if log_weights[k] > -HUGE:
            powers[k] = int(np.floor(log_weights[k] / LOG_BASE))
            weights[k] = np.exp(log_weights[k] - powers[k] * LOG_BASE)
    # backward pass: total weight of the paths from each node to the end
    totals, exponents = np.zeros(first.size), np.zeros(first.size, dtype=np.int64)
    totals[first.size - 1] = 1.0  # the end node
    for node in range(first.size - 2, -1, -1):
        total, exponent = 0.0, 0
        for e in range(first[node], first[node + 1]):
            term, power = weights[position[e]] * totals[child[e]], powers[position[e]] + exponents[child[e]]
            if term == 0.0:
                continue
            if total == 0.0:
                total, exponent = term, power
            elif power == exponent:
                total += term
            elif power > exponent:
                total, exponent = total * _power(exponent - power) + term, power
            else:
                total += term * _power(power - exponent)
        totals[node], exponents[node] = _scaled(total, exponent)
    found, node = np.full(uniform.size, -1), 0
    if totals[0] == 0.0 or (first.size == 1 and uniform.size > 0):
        return found
    # forward pass: choose an edge with probability proportional to the weight of the paths through it
    for k in range(uniform.size):
        left, chosen = uniform[k] * totals[node], -1
        for e in range(first[node], first[node + 1]):
            term, power = weights[position[e]] * totals[child[e]], powers[position[e]] + exponents[child[e]]
            term = 0.0 if term == 0.0 else _relative(term, power - exponents[node])
            if term > 0.0:
                chosen = e
                left -= term
                if left < 0.0:
                    break
        found[k], node = position[chosen], child[chosen]
    return found


@jit
def cheapest_path(first: Integers, child: Integers, position: Integers, cost: Reals, layers: int) -> Integers:
    """Return the path of smallest cost: the position of each layer's value, or -1 first if all are infinite."""
    totals, best = np.zeros(first.size), np.zeros(first.size, dtype=np.int64)
    for node in range(first.size - 2, -1, -1):
        totals[node] = np.inf
        for e in range(first[node], first[node + 1]):
            total = cost[position[e]] + totals[child[e]]
            if total < totals[node]:
                totals[node], best[node] = total, e
    found, node = np.full(layers, -1), 0
    if totals[0] == np.inf or (first.size == 1 and layers > 0):
        return found
    for k in range(layers):
        found[k], node = position[best[node]], child[best[node]]
    return found


EDGES = 2**20  # largest number of edges of a diagram
WASTE = 2  # visited edges per allowed edge: some edges have no path to the end
VARIABLES = 1000  # largest size for which variables are ordered
KEYS = 2.0**62  # largest identifier of a node before renumbering

type Layer = tuple[Integers, Integers, Integers, int]
"""Parents, positions and children of edges, and the number of nodes of the next layer."""


@dataclass(frozen=True, eq=False)
class DecisionDiagram:
    """All solutions of ``M v = c`` within the supports of the variables, as paths."""

    order: Integers
    first: Integers
    child: Integers
    position: Integers
    values: Integers

    @property
    def edges(self) -> int:
        """Number of edges, to which the time of a draw is proportional."""
        return self.child.size

    @property
    def used(self) -> Flags:
        """Whether each value occurs in some solution."""
        found = np.zeros(self.values.size, dtype=bool)
        found[self.position] = True
        return found

    def draw(self, log_weights: Reals, rng: np.random.Generator) -> Integers | None:
        """Draw a solution with probability proportional to the product of the weights of its values."""
        found = draw_path(self.first, self.child, self.position, log_weights, rng.random(self.order.size))
        return self._solution(found)

    def nearest(self, cost: Reals) -> Integers | None:
        """Return the solution of smallest total cost; None if all costs are infinite."""
        return self._solution(cheapest_path(self.first, self.child, self.position, cost, self.order.size))

    def _solution(self, positions: Integers) -> Integers | None:
        if positions.size and positions[0] < 0:
            return None
        solution = np.empty(self.order.size, np.int64)
        solution[self.order] = self.values[positions]
        return solution


def decision_diagram(
    M: sparse.csc_array, c: Integers, supports: Sequence[Integers], *, largest: int = EDGES
) -> DecisionDiagram | None:
    """List all solutions of ``M v = c`` with every variable in its support."""
    sizes = np.array([own.size for own in supports], dtype=np.int64)
    if sizes.size > VARIABLES or sizes.sum() > largest:
        return None
    ends = np.array([(own[0], own[-1]) for own in supports], dtype=np.int64).reshape(-1, 2)
    M, offset = sparse.csc_array(M), np.concatenate([[0], np.cumsum(sizes)])
    order = _ordered(M, ends)
    # bounds on the contribution of the variables from a layer on to each row
    low, high = (M.maximum(0) @ ends + M.minimum(0) @ ends[:, ::-1]).T
    left = np.bincount(M.indices, minlength=M.shape[0])  # number of later variables of each row
    states, rows = np.zeros((1, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    layers: list[Layer] = []
    edges, empty = 0, bool(np.any((c < low) | (c > high)))
    for j in order.tolist() if not empty else []:
        column = slice(M.indptr[j], M.indptr[j + 1])
        own, heights, values = M.indices[column], M.data[column], supports[j]
        if len(states) * values.size > WASTE * largest:
            return None
        least, most = np.sort(heights[:, None] * ends[j], axis=1).T
        low[own] -= least
        high[own] -= most
        left[own] -= 1
        new = own[~np.isin(own, rows)]
        states, rows = np.hstack([states, np.tile(c[new], (len(states), 1))]), np.append(rows, new)
        at = np.array([np.flatnonzero(rows == row)[0] for row in own], dtype=np.int64)
        kept = np.ones((len(states), values.size), dtype=bool)
        for place, row, height in zip(at, own, heights, strict=True):
            rest = states[:, place, None] - height * values
            kept &= (rest >= low[row]) & (rest <= high[row])
        parent, value = np.nonzero(kept)
        edges += parent.size
        if edges > WASTE * largest:
            return None
        following = states[parent]
        following[:, at] -= heights * values[value, None]
        still = left[rows] > 0
        child, states, rows = *_distinct(following[:, still]), rows[still]
        layers.append((parent, offset[j] + value, child, len(states)))
        empty |= not parent.size
        if empty:
            break
    found = _without_dead_ends(layers if not empty else [])
    diagram = DecisionDiagram(order, *found, np.concatenate([np.zeros(0, dtype=np.int64), *supports]))
    return diagram if diagram.edges <= largest else None


def _ordered(M: sparse.csc_array, ends: Integers) -> Integers:
    """Order the variables by component, each time choosing the one that leaves the fewest combinations of open sums."""
    entries = M.tocoo()
    rows, columns = entries.row, entries.col
    widths = np.abs(entries.data * (ends[:, 1] - ends[:, 0])[columns]).astype(np.float64)
    before, after = np.zeros((2, M.shape[0]))
    np.add.at(after, rows, widths)
    component = support_components(sparse.csc_array(sparse.csr_array(M).T))
    order: list[int] = []
    for label in range(component.max(initial=-1) + 1):
        waiting = component == label
        own = waiting[columns]
        r, j, w = rows[own], columns[own], widths[own]
        for _ in range(int(waiting.sum())):
            grown = _log_open(before[r] + w, after[r] - w) - _log_open(before[r], after[r])
            cost = np.where(waiting, np.bincount(j, grown, minlength=waiting.size), np.inf)
            chosen = int(np.argmin(cost))
            waiting[chosen] = False
            taken = j == chosen
            before[r[taken]] += w[taken]
            after[r[taken]] -= w[taken]
            order.append(chosen)
    return np.array(order, dtype=np.int64)


def _log_open(before: Reals, after: Reals) -> Reals:
    """Return the log number of values of sums given the contributions before and after a layer."""
    return np.log1p(np.maximum(np.minimum(before, after), 0.0))


def _distinct(states: Integers) -> tuple[Integers, Integers]:
    """Return a number for each row, equal for equal rows, and the distinct rows by number."""
    key, size = np.zeros(len(states), dtype=np.int64), 1.0
    for column in states.T if len(states) else ():
        least, most = int(column.min()), int(column.max())
        if size * (most - least + 1.0) > KEYS:
            key = np.unique(key, return_inverse=True)[1]
            size = key.max() + 1.0
        key = key * (most - least + 1) + (column - least)
        size *= most - least + 1.0
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return number, states[first]


def _without_dead_ends(layers: list[Layer]) -> tuple[Integers, Integers, Integers]:
    """Remove edges without a path to the end; return first edges of nodes, and children and positions of edges."""
    if not layers:
        none = np.zeros(0, dtype=np.int64)
        return np.zeros(1, np.int64), none, none
    alive, reversed_layers = np.ones(1, dtype=bool), []
    for (parent, position, child, _), nodes in zip(layers[::-1], [n for *_, n in layers[-2::-1]] + [1], strict=True):
        kept = alive[child]
        number = np.cumsum(alive) - 1
        parent, position, child = parent[kept], position[kept], number[child[kept]]
        degree = np.bincount(parent, minlength=nodes)  # edges are in the order of their parents
        alive = degree > 0
        reversed_layers.append((degree[alive], position, child))
    degrees, positions, children = zip(*reversed_layers[::-1], strict=True)
    begins = np.cumsum([own.size for own in degrees])  # numbers of the nodes of the next layer
    child = np.concatenate([begin + own for begin, own in zip(begins, children, strict=True)])
    first = np.concatenate([[0], np.cumsum(np.concatenate(degrees))])
    return first.astype(np.int64), child.astype(np.int64), np.concatenate(positions).astype(np.int64)
