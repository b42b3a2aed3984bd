"""Factors of single sums: noisy values under the law of their noise, as log weights of every integer.

A law is a table of log weights with tails on both sides. At k steps outside of the table, the log weight is lower by
``rate k + bend k^2 / 2``. Linear tails (geometric noise) and quadratic tails (Gaussian noise) are therefore exact at
any distance, and the rate inf truncates the law. A sum can have any number of factors, each a law shifted by an
integer.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppdinf.errors import ModelError
from ppdinf.fiber.sums_given_totals.cell_windows import vectorised

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
