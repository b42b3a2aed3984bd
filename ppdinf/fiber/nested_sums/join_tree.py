"""Nested sums as a forest of joins of two parts, computed once for all weights.

The children of a sum (cells and sums) are joined pairwise, narrow ones first, like rare letters in Huffman's algorithm.
No order is much cheaper, and for equal widths the tree is balanced. Joins are stored in postorder, so that one pass up,
one pass down and one stack are sufficient. The ranges that bounds and exact values allow are computed here. A sum
without a possible value raises an error before weights are summed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.errors import InvariantError
from ppdinf.fiber.nested_sums.sum_factors import Factors, supports

NONE = -(2**62)  # code for no second part
LARGEST = 2**52


class OutOfReachError(InvariantError):
    """No table satisfies a sum: ``node`` is its number (or the number of a root if nothing more is known)."""

    def __init__(self, node: int, message: str, cell: int | None = None) -> None:
        super().__init__(message)
        self.node, self.cell = node, cell


class Tree(NamedTuple):
    """Joins of two parts in postorder; few arrays, because each array argument of a kernel takes time."""

    joins: NDArray  # (n, 3): LEFT and RIGHT part: a join, ~cell, or NONE; NODE: the sum that it completes, or -1
    root: NDArray  # last joins of all trees: roots by number, then free cells
    sums: NDArray  # (m, 3): PARENT, or -1; LEAST and MOST, the range of the sum
    cells: NDArray  # (d, 4): the sum ABOVE, or -1; LOW and WIDTH of the window; START of its weights
    widest: int
    room: int  # largest number of entries of the rows of all joins


LEFT, RIGHT, NODE = 0, 1, 2
PARENT, LEAST, MOST = 0, 1, 2
ABOVE, LOW, WIDTH, START = 0, 1, 2, 3


@jit
def _from_below(parent: NDArray) -> NDArray:
    """Return sums, each after the sums below it; sums in cycles are missing."""
    m = parent.size
    waiting, order, n = np.zeros(m, np.int64), np.empty(m, np.int64), 0
    for v in range(m):
        if parent[v] >= 0:
            waiting[parent[v]] += 1
    for v in range(m):
        if waiting[v] == 0:
            order[n] = v
            n += 1
    at = 0
    while at < n:
        above = parent[order[at]]
        at += 1
        if above >= 0:
            waiting[above] -= 1
            if waiting[above] == 0:
                order[n] = above
                n += 1
    return order[:n]


@jit
def _ranges(
    order: NDArray, parent: NDArray, least: NDArray, most: NDArray, node: NDArray, low: NDArray, high: NDArray
) -> int:
    """Narrow the ranges of sums and cells in place; return a sum without a possible value, or -1."""
    floor, ceiling = np.zeros(parent.size, np.int64), np.zeros(parent.size, np.int64)
    for i in range(node.size):
        if node[i] >= 0:
            floor[node[i]] += low[i]
            ceiling[node[i]] += high[i]
    for v in order:
        least[v], most[v] = max(least[v], floor[v]), min(most[v], ceiling[v])
        if least[v] > most[v]:
            return v
        if parent[v] >= 0:
            floor[parent[v]] += least[v]
            ceiling[parent[v]] += most[v]
    for v in order[::-1]:
        p = parent[v]
        if p >= 0:
            a, b = least[v], most[v]
            most[v], least[v] = min(b, most[p] - (floor[p] - a)), max(a, least[p] - (ceiling[p] - b))
    for i in range(node.size):
        p = node[i]
        if p >= 0:
            a, b = low[i], high[i]
            high[i], low[i] = min(b, most[p] - (floor[p] - a)), max(a, least[p] - (ceiling[p] - b))
    return -1


@jit
def _joined(
    order: NDArray, parent: NDArray, node: NDArray, spread: NDArray, cell_spread: NDArray
) -> tuple[NDArray, NDArray, NDArray, NDArray, float]:
    """Join parts from below: return left, right, sum, the last join of every sum, and the approximate entries."""
    m = parent.size
    begin, size = np.zeros(m + 2, np.int64), 0
    for p in node:
        begin[p + 2] += 1 if p >= 0 else 0
    for p in parent:
        begin[p + 2] += 1 if p >= 0 else 0
    begin[1] = 0
    for v in range(m):
        size += max(begin[v + 2] - 1, 1)
        begin[v + 2] += begin[v + 1]
    child, filled = np.empty(begin[m + 1], np.int64), begin[1:].copy()
    for v in range(m):
        if parent[v] >= 0:
            child[filled[parent[v]]] = v
            filled[parent[v]] += 1
    for i in range(node.size):
        if node[i] >= 0:
            child[filled[node[i]]] = ~i
            filled[node[i]] += 1
        else:
            size += 1
    left, right, whole = np.empty(size, np.int64), np.full(size, NONE), np.full(size, -1)
    last, width, made = np.empty(m, np.int64), np.zeros(size), 0
    for v in order:
        parts = child[begin[v + 1] : begin[v + 2]]
        key = np.array([cell_spread[~c] if c < 0 else spread[c] for c in parts])
        sequence, i, j = np.argsort(key), 0, made
        joins = max(parts.size - 1, 1)
        for _ in range(joins):
            for side in range(min(parts.size, 2)):
                if i < parts.size and (j == made or key[sequence[i]] <= width[j]):
                    part, wide = parts[sequence[i]], key[sequence[i]]
                    part = part if part < 0 else last[part]
                    i += 1
                else:
                    part, wide = j, width[j]
                    j += 1
                if side == 0:
                    left[made] = part
                else:
                    right[made] = part
                width[made] += wide
            made += 1
        last[v], whole[made - 1] = made - 1, v
        spread[v] = min(spread[v], width[made - 1])
    for i in range(node.size):
        if node[i] < 0:
            left[made], width[made] = ~i, cell_spread[i]
            made += 1
    return left, right, whole, last, (np.sqrt(width) + 8.0).sum()


@jit
def _postorder(left: NDArray, right: NDArray, whole: NDArray, root: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Sort joins into postorder, with the right part directly before its join."""
    place, stack, at = np.empty(left.size, np.int64), np.empty(left.size + 1, np.int64), left.size
    for r in root[::-1]:
        stack[0], n = r, 1
        while n > 0:
            n -= 1
            join = stack[n]
            at -= 1
            place[join] = at
            for part in (left[join], right[join]):
                if part >= 0:
                    stack[n] = part
                    n += 1
    out = np.empty_like(left), np.empty_like(left), np.empty_like(left)
    for join in range(left.size):
        k = place[join]
        a, b = left[join], right[join]
        out[0][k], out[1][k] = place[a] if a >= 0 else a, place[b] if b >= 0 else b
        out[2][k] = whole[join]
    for n in range(root.size):
        root[n] = place[root[n]]
    return out


def tree_of(
    low: NDArray,
    width: NDArray,
    start: NDArray,
    node: NDArray,
    parent: NDArray,
    least: NDArray,
    most: NDArray,
    factors: Factors,
    possible: list[NDArray] | None = None,
) -> Tree:
    """Compute the joins for validated arrays; `possible` are the ends of cells, if windows omit values."""
    m = parent.size
    below = np.zeros(m + 1, dtype=np.bool_)  # the last sum has no parent
    below[node] = below[parent] = True
    if not below[:m].all():
        raise InvariantError(f"sum {np.argmin(below)} must have cells or sums below it; remove it")
    order = _from_below(parent)
    if order.size < m:
        stuck = np.setdiff1d(np.arange(m), order)[0]
        raise InvariantError(f"sum {stuck} is its own ancestor; parents must end at a root (-1)")
    high = low + width - 1
    if np.maximum(abs(low), abs(high)).sum(dtype=np.float64) > LARGEST:
        raise InvariantError(
            f"the windows of the cells allow sums above {LARGEST}, the limit of exact integers in doubles"
        )
    floor, ceiling = supports(factors)
    least, most = np.maximum(least, floor), np.minimum(most, ceiling)
    inner_low, inner_high = (low.copy(), high.copy()) if possible is None else (a.copy() for a in possible)
    stuck = _ranges(order, parent, least, most, node, inner_low, inner_high)
    if stuck >= 0:
        raise OutOfReachError(
            stuck,
            f"sum {stuck} has no possible value: its constraints contradict the windows of its cells or the sums below "
            "it; widen the windows, or check exact values and bounds",
        )
    span = (most - least + 1).astype(np.float64)
    np.minimum.at(span, np.repeat(np.arange(m), np.diff(factors.begin)), factors.span[factors.law])
    if possible is not None:  # only what no table can have is excluded, also among missing tables
        inner_low, inner_high = np.maximum(inner_low, low), np.minimum(inner_high, high)
    inner = np.maximum(inner_high - inner_low + 1, 0)
    left, right, whole, last, room = _joined(order, parent, node, span**2, inner.astype(np.float64) ** 2)
    free = left.size - np.arange(int((node < 0).sum()), 0, -1)
    root = np.concatenate([last[parent < 0], free]).astype(np.int64)
    joins = np.stack(_postorder(left, right, whole, root), axis=1)
    cells = np.stack([node, inner_low, inner, start + inner_low - low], axis=1)
    sums, widest = np.stack([parent, least, most], axis=1), max(int(inner.max()), 1)
    return Tree(joins, root, sums, cells, widest, int(min(1.2 * room, 2**27)))
