"""Infinity-Wasserstein distance between discrete laws.

    W(p, q)  =  inf over couplings (X, X') of p and q of  ess sup |X - X'|

It is the sensitivity of Pufferfish mechanisms (`ppdinf.privacy.delta_z`). On the line W = sup_u |F^-(u) - G^-(u)| over
the jump levels of both laws (equation (35) in docs/errata.md). In higher dimensions it is the smallest t for which all
mass flows along pairs of points at distance at most t, found by bisection with one maximum flow each.

Probabilities given as int or Fraction are used exactly. W jumps if probabilities that should be equal differ
in the last digit, so floats have a tolerance: levels that agree to 1e-10 of the smaller tail count as equal,
and in higher dimensions a mass of 1e-12 may remain unmoved.

S. Song, Y. Wang, K. Chaudhuri, "Pufferfish privacy mechanisms for correlated data", SIGMOD 2017.
J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Theorem 9.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from numbers import Rational, Real
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from ppdinf._internal.values import Flags, require_choice
from ppdinf.errors import PrivacyError

ROOM = 1e-10
LEFT = Fraction(1, 10**12)
MOST = 10**6  # values on the line, or pairs of values in higher dimensions
GRAIN = 2**60  # floats in higher dimensions are rounded to units of 1 / GRAIN

NORMS: dict[str, Callable[[list[Any]], Any]] = {"l1": lambda h: sum(map(abs, h)), "linf": lambda h: max(map(abs, h))}


type Number = int | Fraction | float
type Law = Mapping[tuple[Number, ...], Number]


def wasserstein_infinity(p: object, q: object, *, norm: str = "l1") -> Number:
    """Return the infinity-Wasserstein distance of two laws.

    Parameters
    ----------
    p, q : mapping of value to probability, or frozen scipy.stats distribution
        Values are numbers, or tuples of numbers of equal length. Frozen distributions are tabulated if their support
        is finite and discrete; otherwise both must belong to one location-scale family.
    norm : {"l1", "l2", "linf"}
        Distance between tuples.

    Returns
    -------
    int, Fraction or float
        Exact if values and probabilities are integers or fractions (for l2 up to the square root);
        inf if the laws differ in scale and are unbounded.

    Raises
    ------
    PrivacyError
        Probabilities that are negative, not finite or do not sum to 1; values that are not numbers or differ in length;
        frozen distributions that are neither finite nor of one family; an unknown norm; more than 1,000,000 values, or
        in higher dimensions pairs of values.

    See Also
    --------
    ppdinf.WassersteinExponential, ppdinf.privacy.delta_z

    Notes
    -----
    If probabilities are floats, a guarantee based on this distance omits a delta of up to 1e-10 of a tail; fractions
    are exact. On the line the cost is O(n log n), in higher dimensions about log2(n m) maximum flows on n m arcs
    (docs/speed.md).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import wasserstein_infinity
    >>> half = Fraction(1, 2)
    >>> wasserstein_infinity({0: half, 1: half}, {1: half, 4: half})
    3
    >>> wasserstein_infinity({(0, 2): half, (2, 0): half}, {(1, 1): 1})
    2
    """
    require_choice("norm", norm, (*NORMS, "l2"))
    if not (isinstance(p, Mapping) and isinstance(q, Mapping)):
        family = _location_scale(p, q)
        if family is not None:
            return family
    first, second = _finite(p), _finite(q)
    dimensions = {len(value) for value in (*first, *second)}
    if len(dimensions) > 1:
        raise PrivacyError(f"the values of both laws must have one length, found {sorted(dimensions)}")
    if dimensions == {1}:
        return max(_ahead(first, second), _ahead(second, first))
    return _bottleneck(first, second, norm)


def _ahead(p: Law, q: Law) -> Number:
    """Return the largest G^-(u) - F^-(u), the smallest t >= 0 with F(x) <= G(x + t) for all x."""
    x, y = sorted(p), sorted(q)
    F = list(accumulate(p[v] for v in x))
    G = list(accumulate(q[v] for v in y))
    above_F, above_G = _above([p[v] for v in x]), _above([q[v] for v in y])
    exact = all(isinstance(level, int | Fraction) for level in (F[-1], G[-1]))
    down, up = (1, 1) if exact else (1 - ROOM, 1 + ROOM)
    falling = [-left for left in above_G]
    gaps = []
    for k, value in enumerate(x):
        reached = bisect_left(G, F[k] * down) if 2 * F[k] <= 1 else bisect_left(falling, -above_F[k] * up)
        gaps.append(y[reached][0] - value[0])
    return max(0, *gaps)


def _above(probabilities: Sequence[Number]) -> list[Number]:
    return list(accumulate(reversed(probabilities), initial=0))[-2::-1]


def _bottleneck(p: Law, q: Law, norm: str) -> Number:
    if len(p) * len(q) > MOST:
        raise PrivacyError(f"the laws have {len(p):,} and {len(q):,} values; the limit is {MOST:,} pairs of values")
    supply, demand, room = _units(list(p.values()), list(q.values()))
    length = NORMS.get(norm, lambda h: sum(a * a for a in h))
    gaps = [[length([a - b for a, b in zip(x, y, strict=True)]) for y in q] for x in p]  # type: ignore[no-untyped-call]
    levels = sorted({gap for row in gaps for gap in row})
    matrix, enough = np.array(gaps, dtype=object), sum(supply) - room
    last = len(levels) - 1
    least = levels[bisect_left(levels, True, hi=last, key=lambda t: _flow(supply, demand, matrix <= t) >= enough)]
    return math.sqrt(least) if norm == "l2" else least


def _units(p: list[Number], q: list[Number]) -> tuple[list[int], list[int], int]:
    """Return probabilities as integers of a common unit, and the number of units that may remain unmoved."""
    if all(isinstance(v, int | Fraction) for v in (*p, *q)):
        unit = math.lcm(*(Fraction(v).denominator for v in (*p, *q)))
        return [int(v * unit) for v in p], [int(v * unit) for v in q], 0
    return [round(v * GRAIN) for v in p], [round(v * GRAIN) for v in q], int(2 * LEFT * GRAIN)


def _flow(supply: list[int], demand: list[int], allowed: Flags) -> int:
    """Return the largest flow from supplies to demands along allowed pairs, exact for integers of any size."""
    n, m = allowed.shape
    digit = 30 - (n + m).bit_length()
    source, sink, limit = n + m, n + m + 1, 2**30  # above all used capacities; the sum of two does not overflow
    flow = np.zeros((n, m), dtype=object)
    shifts = range((max(*supply, *demand).bit_length() - 1) // digit * digit, -1, -digit)
    for shift in shifts:
        flow *= 2**digit
        out = np.array([v >> shift for v in supply], dtype=object) - flow.sum(axis=1)
        into = np.array([v >> shift for v in demand], dtype=object) - flow.sum(axis=0)
        capacity = np.zeros((n + m + 2, n + m + 2), dtype=np.int32)
        capacity[:n, n:source] = allowed * limit
        capacity[n:source, :n] = np.minimum(flow, limit).T
        capacity[source, :n] = np.minimum(out, limit)
        capacity[n:source, sink] = np.minimum(into, limit)
        gained = maximum_flow(csr_array(capacity), source, sink).flow.toarray()
        flow += gained[:n, n:source].astype(object)
    return int(flow.sum())


def _finite(law: object) -> dict[tuple[Number, ...], Number]:
    """Convert a law to a mapping from tuples to positive probabilities that sum to 1."""
    if not isinstance(law, Mapping):
        law = _tabulated(law)
    probabilities: dict[tuple[Number, ...], Number] = {}
    for value, probability in law.items():
        point = tuple(_number(entry, "a value") for entry in (value if isinstance(value, tuple) else (value,)))
        weight = _number(probability, "a probability")
        if weight < 0:
            raise PrivacyError(f"probabilities must not be negative, found {float(weight):.6g} at {value!r}")
        if weight > 0:
            probabilities[point] = probabilities.get(point, 0) + weight
    total = sum(probabilities.values())
    exact = isinstance(total, int | Fraction)
    if total != 1 if exact else not abs(float(total) - 1) < 1e-9:
        raise PrivacyError(f"the probabilities of a law must sum to 1, found {float(total):.12g}")
    return probabilities


def _number(value: object, what: str) -> Number:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not math.isfinite(value):
        raise PrivacyError(f"{what} of a law must be a finite number, found {value!r:.60}")
    if isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
        return int(exact) if exact.denominator == 1 else exact
    return float(value)


def _tabulated(law: Any) -> dict[int, float]:
    if not (hasattr(law, "support") and hasattr(law, "dist")):
        raise PrivacyError(
            f"a law must be a mapping from values to probabilities or a frozen scipy.stats distribution, found "
            f"{type(law).__name__}"
        )
    low, high = law.support()
    if not hasattr(law.dist, "pmf") or not math.isfinite(low) or not math.isfinite(high):
        raise PrivacyError(
            f"{law.dist.name} has infinite support: the distance can be infinite. Give a mapping from values to "
            "probabilities, or two laws of one location family"
        )
    if high - low > MOST:
        raise PrivacyError(
            f"{law.dist.name} has more than {MOST:,} values, too many to tabulate: give a mapping from fewer values to "
            "probabilities, or two laws of one location family"
        )
    values = np.arange(int(low), int(high) + 1)
    return {int(v): float(w) for v, w in zip(values, law.pmf(values), strict=True)}


def _location_scale(p: Any, q: Any) -> float | None:
    """Return the distance of two laws of one family: sup |location + scale x| over the standard support."""
    if not (hasattr(p, "dist") and hasattr(q, "dist")) or p.dist.name != q.dist.name:
        return None
    (shape, *first), (other, *second) = (law.dist._parse_args(*law.args, **law.kwds) for law in (p, q))
    if tuple(shape) != tuple(other):
        return None
    shift, stretch = np.subtract(first, second)
    if stretch == 0:
        return abs(shift.item())
    return float(max(abs(shift + stretch * end) for end in p.dist(*shape).support()))
