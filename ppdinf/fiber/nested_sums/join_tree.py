"""Nested sums as a forest of joins of two parts, with the factors of single sums, computed once for all weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.numba_jit import jit
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.sums_given_totals.cell_windows import vectorised


@dataclass(frozen=True, eq=False)
class Forest:
    """Different sums, each below the smallest sum that contains it."""

    node: NDArray[np.int64]
    parent: NDArray[np.int64]
    of_row: NDArray[np.int64]


def forest_of(rows: sp.csr_array) -> Forest | None:
    """Return rows of ones as a forest, or None if entries are not ones or two rows overlap."""
    rows = sp.csr_array(rows)
    if (rows.data != 1).any() or (np.diff(rows.indptr) == 0).any():
        return None
    order = np.argsort(np.diff(rows.indptr), kind="stable")
    node, parent, of_row = (np.full(n, -1, dtype=np.int64) for n in (rows.shape[1], rows.shape[0], rows.shape[0]))
    m = _nest(order, rows.indptr.astype(np.int64), rows.indices.astype(np.int64), node, parent, of_row)
    return Forest(node, parent[:m], of_row) if m >= 0 else None


@jit
def _nest(order: NDArray[np.int64], first: NDArray[np.int64], cells: NDArray[np.int64], node: NDArray[np.int64],
          parent: NDArray[np.int64], of_row: NDArray[np.int64]) -> int:  # fmt: skip
    """Insert rows from small to large; each must contain every sum that it meets. Return the number of sums, or -1."""
    m = 0
    top = np.full(node.size, -1, dtype=np.int64)  # the largest sum so far that contains each cell
    size, met = np.zeros(order.size, dtype=np.int64), np.zeros(order.size, dtype=np.int64)
    for row in order:
        own = cells[first[row] : first[row + 1]]
        for cell in own:
            if top[cell] >= 0:
                met[top[cell]] += 1
        same = -1
        for cell in own:
            t = top[cell]
            if t >= 0 and met[t] > 0:
                if met[t] != size[t]:
                    return -1
                if size[t] == own.size:
                    same = t
                met[t] = 0
        if same >= 0:
            of_row[row] = same
            continue
        for cell in own:
            if top[cell] < 0:
                node[cell] = m
            else:
                parent[top[cell]] = m
            top[cell] = m
        size[m] = own.size
        of_row[row] = m
        m += 1
    return m


DEEP = 45.0  # log weights this far below the maximum are ignored in the width of a law


class LogTable(NamedTuple):
    """Log weights of consecutive integers, with (rate, bend) of both tails, each at least 0."""

    log_weights: ArrayLike
    left: tuple[float, float] = (np.inf, 0.0)
    right: tuple[float, float] = (np.inf, 0.0)


class Factors(NamedTuple):
    """Sum ``v`` has the factors ``begin[v] : begin[v + 1]``: law ``law[j]``, whose table begins at ``shift[j]``."""

    begin: NDArray
    shift: NDArray
    law: NDArray
    start: NDArray  # law l is table[start[l] : start[l + 1]]
    table: NDArray
    tail: NDArray  # left rate, left bend, right rate, right bend
    top: NDArray  # largest log weight of each law
    span: NDArray  # number of integers with a relevant weight


def factors_of(sums: int, node: NDArray, shift: NDArray, law: NDArray, laws: Sequence[LogTable]) -> Factors:
    """Sort factors by their sum, and validate the laws."""
    start, tables, tails = np.zeros(len(laws) + 1, np.int64), [], np.zeros((len(laws), 4))
    top, span = np.zeros(len(laws)), np.zeros(len(laws), np.int64)
    for n, (weights, left, right) in enumerate(laws):
        table, tail = np.atleast_1d(np.asarray(weights, dtype=np.float64)), np.array([*left, *right], dtype=np.float64)
        if table.ndim != 1 or not (table < np.inf).all() or not (table > -np.inf).any():
            raise ModelError(f"law {n} must be a one-dimensional array of log weights below inf, not all -inf")
        if tail.shape != (4,) or not (tail >= 0).all() or not np.isfinite(tail[1::2]).all():
            raise ModelError(f"the tails of law {n} must have rates >= 0 and finite bends >= 0")
        if any(rate < np.inf and table[end] == -np.inf for rate, end in ((tail[0], 0), (tail[2], -1))):
            raise ModelError(f"law {n} must have the rate inf for a tail that begins at log weight -inf")
        start[n + 1], tails[n], top[n] = start[n] + table.size, tail, table.max()
        tables.append(table)
        span[n] = (table > top[n] - DEEP).sum() + sum(
            _reach(DEEP - top[n] + table[end], *tail[2 * side : 2 * side + 2]) for side, end in ((0, 0), (1, -1))
        )
    order, begin = np.argsort(node, kind="stable"), np.zeros(sums + 1, np.int64)
    begin[1:] = np.cumsum(np.bincount(node, minlength=sums))
    table = np.concatenate(tables) if tables else np.empty(0)
    return Factors(begin, shift[order], law[order], start, table, tails, top, span)


def _reach(depth: float, rate: float, bend: float) -> int:
    """Return the number of steps outside of a table until a tail has decreased by ``depth``."""
    if depth <= 0 or rate == np.inf:
        return 0
    steps = depth / rate if rate > 0 else np.inf
    if bend > 0:
        steps = (np.sqrt(rate * rate + 2 * bend * depth) - rate) / bend
    return int(min(steps, 2**40))


def supports(f: Factors) -> tuple[NDArray, NDArray]:
    """Return the smallest and largest value that the factors of each sum allow (-2^62 and 2^62 if unbounded)."""
    sums = f.begin.size - 1
    least, most = np.full(sums, -(2**62)), np.full(sums, 2**62)
    node, size = np.repeat(np.arange(sums), np.diff(f.begin)), np.diff(f.start)
    first, last = _ends(f)
    ends = f.tail[f.law, 0] == np.inf
    np.maximum.at(least, node[ends], (f.shift + first[f.law])[ends])
    ends = f.tail[f.law, 2] == np.inf
    np.minimum.at(most, node[ends], (f.shift + size[f.law] - 1 - last[f.law])[ends])
    return least, most


def _ends(f: Factors) -> tuple[NDArray, NDArray]:
    """Return the number of entries -inf at the start and at the end of each law."""
    rows: Iterable[NDArray] = (f.table[a:b] > -np.inf for a, b in zip(f.start[:-1], f.start[1:], strict=True))
    pairs = [(row.argmax(), row[::-1].argmax()) for row in rows]
    first, last = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return first, last


@vectorised
def log_factor(f: Factors, node: int, s: int) -> float:
    """Return the log weight of one value of a sum: the sum over its factors."""
    total = 0.0
    for j in range(f.begin[node], f.begin[node + 1]):
        law = f.law[j]
        k, start, end = s - f.shift[j], f.start[law], f.start[law + 1] - 1
        if k < 0:
            total += f.table[start] - (f.tail[law, 0] - 0.5 * f.tail[law, 1] * k) * -k
        elif k > end - start:
            k -= end - start
            total += f.table[end] - (f.tail[law, 2] + 0.5 * f.tail[law, 3] * k) * k
        else:
            total += f.table[start + k]
    return total


@vectorised
def _tilted(f: Factors, node: int, s: int, tilt: float, origin: int) -> float:
    return log_factor(f, node, s) + tilt * (s - origin)


@vectorised
def log_factor_bound(f: Factors, node: int, low: int, high: int, tilt: float, origin: int) -> float:
    """Return the largest ``log_factor(s) + tilt (s - origin)`` for ``low <= s <= high``, or a bound on it."""
    begin, end = f.begin[node], f.begin[node + 1]
    if begin == end:
        return max(tilt * (low - origin), tilt * (high - origin)) if tilt != 0.0 else 0.0
    if end == begin + 1 and tilt == 0.0:
        return f.top[f.law[begin]]
    first, last = high + 1, low - 1  # outside of all tables, the log factor is concave and decreasing
    for j in range(begin, end):
        size = f.start[f.law[j] + 1] - f.start[f.law[j]]
        first, last = min(first, f.shift[j]), max(last, f.shift[j] + size - 1)
    first, last, best = max(first, low), min(last, high), -np.inf
    for s in range(first, last + 1):
        best = max(best, _tilted(f, node, s, tilt, origin))
    for a, b in ((low, min(first, last + 1) - 1), (max(first - 1, last) + 1, high)):
        while a < b:  # concave: bisect for the maximum
            s = (a + b) // 2
            if _tilted(f, node, s, tilt, origin) < _tilted(f, node, s + 1, tilt, origin):
                a = s + 1
            else:
                b = s
        if a == b:
            best = max(best, _tilted(f, node, a, tilt, origin))
    return best


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
