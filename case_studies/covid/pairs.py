r"""Exact draws of pairs of counts given one total: for example cases and deaths of counties in a month.

A table has a pair (c_j, d_j) for each of J groups. The laws are

    P(c, d) ~ exp(-rate |(c, d) - (x, z)|) prod_j nu_j(c_j)    on  sum_j c_j = sum_j x_j,  c_j >= d_j >= 0

with l1 or l2 distances and optional Dirichlet-multinomial weights nu: the Wasserstein exponential mechanism of [1]_,
section 4.2, with its congenial base measures.

l1: the smaller count depends only on its larger count and is marginalized. With its noise weight v_j,

    sum over 0 <= d <= c of v_j(d)

multiplies the weight of c. The result is one total over J independent integers
(`ppdinf.fiber.sums_given_totals.totals`). Each d is then drawn given its c. A convolution of noise as wide as the table
is not necessary.

l2: with x = rate |.|_2, exp(-x) R(x) = h sqrt(2/pi) sum_j exp(-x^2 / 2v_j^2 - v_j^2 / 2) over the nodes v_j = (j + 1/2)
h, and R is in [RATIO_BOUND, 2 - RATIO_BOUND]. Draw a node with probability proportional to its total weight and the
table given the node (Gaussian weights are separable again), and accept it with probability RATIO_BOUND / R(x).

The total of the smaller counts may also be exact. All smaller counts except the one with the widest range are then
drawn as before, with weights tilted so that they have this total on average. The remaining smaller count is not
marginalized. It completes the total and is accepted with probability proportional to its weight. Every tilt gives the
same law.

References
----------
.. [1] J. Seeman, M. Reimherr, A. Slavković, "Formal privacy for partially private data".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.fiber.sums_given_totals import totals

from .pair_weights import (
    DEVIATIONS,
    REACH,
    PairLaw,
    draw_smaller,
    expected,
    far,
    highest,
    tabulate,
)

STEP = 0.5  # distance of nodes
RATIO_BOUND = 0.95  # lower bound on R, whose minimum is 0.959 with this step
NEGLIGIBLE = 40.0  # log weights of nodes this far below the largest are omitted
NONE = -1  # code for no remaining pair
MOST = 2**15  # tables per batch
HOPELESS = 1e5  # largest number of attempts per table


class _Windows(NamedTuple):
    """Windows of larger counts: column k of row j is ``first[j] + k``; `base` is -inf outside of the window."""

    first: NDArray[np.int64]
    base: NDArray[np.float64]


def draw(
    larger: ArrayLike,
    smaller: ArrayLike,
    *,
    rate: float,
    norm: str = "l1",
    alpha: ArrayLike | None = None,
    smaller_total: bool = False,
    draws: int = 1,
    rng: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    r"""Draw tables near a table of pairs, with its total of the larger counts and larger >= smaller >= 0.

    Parameters
    ----------
    larger, smaller : array_like of int, shape (J,)
        The table: larger counts (cases), and smaller counts (deaths) that are part of them.
    rate : float
        Rate per person of distance: ``epsilon / (2 Delta_z)`` of the Wasserstein exponential mechanism.
    norm : {"l1", "l2"}
        Distance between tables, over all 2 J counts.
    alpha : array_like of float, shape (J,), optional
        Dirichlet-multinomial weights ``Gamma(c + alpha) / (Gamma(alpha) c!)`` of the larger counts; by default all
        tables have the same base measure.
    smaller_total : bool
        Whether the total of the smaller counts is also exact.
    draws : int
    rng : int or numpy.random.Generator, optional
        Research randomness (SPEC 7), not for releases.

    Returns
    -------
    ndarray of int64, shape (draws, J, 2)

    Raises
    ------
    CountError
        Counts are negative or not integers, or a smaller count exceeds its larger count.
    PrivacyError
        The rate or an alpha is not a positive number, or the norm is unknown.
    InvariantError
        Almost no table within the windows has both totals.

    Notes
    -----
    Draws are independent. They are exact up to double precision and up to the mass outside of windows of ``64 / rate``
    around the counts (l2: 12 standard deviations); `edge_mass` returns the mass at the ends. 67 pairs at rate 1/400
    take 0.1 s, and 3 s in l2.

    Examples
    --------
    >>> tables = draw([5, 0, 2], [1, 0, 2], rate=0.5, draws=1000, rng=1)
    >>> set(tables[..., 0].sum(axis=1).tolist()), bool((tables[..., 0] >= tables[..., 1]).all())
    ({7}, True)
    """
    x, z = _checked(larger, smaller, rate, norm)
    generator = np.random.default_rng(rng)
    windows = _windows(x, rate, norm, alpha)
    apart = int(np.argmax(x)) if smaller_total else NONE
    if norm == "l1":
        laws, log_weights = [_balanced(x, z, PairLaw(rate, 1, 0.0), windows, apart, generator)], np.zeros(1)
    else:
        laws, log_weights = _nodes(x, z, rate, windows, apart, generator)
    shares = np.exp(log_weights - logsumexp(log_weights))
    found, tried = np.empty((0, x.size, 2), dtype=np.int64), 0
    while len(found) < draws:
        hoped = (len(found) + 1) / (tried + 1) if tried else 0.1 if smaller_total else 1.0
        size = min(MOST, int(1.1 * (draws - len(found)) / hoped) + 4)
        nodes = generator.choice(shares.size, size=size, p=shares)
        tables, kept = np.empty((size, x.size, 2), dtype=np.int64), np.empty(size, dtype=bool)
        for node in np.unique(nodes):
            rows = np.flatnonzero(nodes == node)
            tables[rows], kept[rows] = _attempts(x, z, laws[node], windows, apart, rows.size, generator)
        if norm == "l2":
            distances = np.sqrt(((tables - np.stack([x, z], axis=1)) ** 2).sum(axis=(1, 2), dtype=np.float64))
            kept &= generator.random(size) * mixed(rate * distances) < RATIO_BOUND
        found, tried = np.concatenate([found, tables[kept]]), tried + size
        if tried > HOPELESS * (len(found) + 1):
            raise InvariantError("almost no table has both totals: use smaller_total=False")
    return found[:draws]


def edge_mass(
    larger: ArrayLike, smaller: ArrayLike, *, rate: float, norm: str = "l1", alpha: ArrayLike | None = None
) -> float:
    """Return the probability that any larger count of `draw` is at an end of its window that is not a true bound.

    Tails decrease at least geometrically there, so the mass outside of the windows is of this size times ``1 / rate``.

    Parameters
    ----------
    larger, smaller, rate, norm, alpha
        As for `draw`; in l2 the widest relevant node is used.

    Returns
    -------
    float

    Examples
    --------
    >>> edge_mass([50, 20, 90], [1, 0, 2], rate=0.5) < 1e-12
    True
    """
    x, z = _checked(larger, smaller, rate, norm)
    windows = _windows(x, rate, norm, alpha)
    law = PairLaw(rate, 1, 0.0)
    if norm == "l2":
        law = min(_nodes(x, z, rate, windows, NONE, np.random.default_rng(0))[0])  # the node with the lowest rate
    shares = totals.marginals(_weights(x, z, law, windows, NONE), lo=windows.first, total=x.sum())
    ends = np.isfinite(windows.base).sum(axis=1) - 1
    low = np.where(windows.first > 0, shares[:, 0], 0.0)
    high = np.where(windows.first + ends < x.sum(), shares[np.arange(x.size), ends], 0.0)
    return float(np.sum(low + high))


def _checked(larger: ArrayLike, smaller: ArrayLike, rate: float, norm: str) -> tuple[NDArray, NDArray]:
    pair = [np.asarray(larger), np.asarray(smaller)]
    if any(part.dtype.kind not in "iu" or part.ndim != 1 or not part.size for part in pair):
        raise CountError("larger and smaller must be one-dimensional arrays of integers")
    x, z = (np.ascontiguousarray(part, dtype=np.int64) for part in pair)
    if x.shape != z.shape:
        raise CountError(f"larger and smaller must have the same length, found {x.size} and {z.size}")
    if (bad := (z < 0) | (z > x)).any():
        raise CountError(
            f"the smaller count of pair {int(np.flatnonzero(bad)[0])} must be between 0 and the larger count"
        )
    if norm not in ("l1", "l2"):
        raise PrivacyError(f"norm must be 'l1' or 'l2', found {norm!r}")
    if not 0 < rate < np.inf:
        raise PrivacyError(f"rate must be a positive number, found {rate!r}")
    return x, z


def _windows(x: NDArray[np.int64], rate: float, norm: str, alpha: ArrayLike | None) -> _Windows:
    """Return windows that cover counts near the table and near the mean of the Dirichlet-multinomial law."""
    spread = REACH if norm == "l1" else DEVIATIONS * _widest(x.size)
    reach, total = int(np.ceil(spread / rate)), int(x.sum())
    centres = [x]
    if alpha is not None:
        alphas = np.asarray(alpha, dtype=np.float64)
        if alphas.shape != x.shape or not (alphas > 0).all() or not np.isfinite(alphas).all():
            raise PrivacyError("alpha must have one positive number for each pair")
        centres.append(np.rint(total * alphas / alphas.sum()).astype(np.int64))
    first = np.maximum(0, np.min(centres, axis=0) - reach)
    last = np.minimum(total, np.max(centres, axis=0) + reach)
    counts = first[:, np.newaxis] + np.arange(int((last - first).max()) + 1)
    base = np.zeros(counts.shape)
    if alpha is not None:
        base = gammaln(counts + alphas[:, np.newaxis]) - gammaln(counts + 1.0) - gammaln(alphas)[:, np.newaxis]
    base[counts > last[:, np.newaxis]] = -np.inf
    return _Windows(first, base)


def _widest(pairs: int) -> float:
    """Return a node above the relevant nodes: rate |.|_2 is Gamma(2 J) without bounds, and smaller with bounds."""
    return float(np.sqrt(2 * pairs + 8 * np.sqrt(2 * pairs))) + 4


def _weights(
    x: NDArray[np.int64], z: NDArray[np.int64], law: PairLaw, windows: _Windows, apart: int
) -> NDArray[np.float64]:
    out = np.empty(windows.base.shape)
    tabulate(x, z, windows.first, windows.base, law, far(law), apart, out)
    return out


def _attempts(
    x: NDArray[np.int64],
    z: NDArray[np.int64],
    law: PairLaw,
    windows: _Windows,
    apart: int,
    size: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Draw tables and their acceptance: all are accepted unless one smaller count completes the total."""
    c = totals.draw(_weights(x, z, law, windows, apart), lo=windows.first, total=x.sum(), draws=size, rng=rng)
    d = np.empty_like(c)
    draw_smaller(c, z, law, far(law), 1 - rng.random(c.shape), d)
    kept = np.ones(size, dtype=bool)
    if apart != NONE:
        d[:, apart] += z.sum() - d.sum(axis=1)
        rest = d[:, apart]
        away = law.rate * np.abs(rest - z[apart])
        logs = -away if law.power == 1 else -(away**2) / 2
        kept = (rest >= 0) & (rest <= c[:, apart])
        kept &= np.log(1 - rng.random(size)) < logs + law.tilt * rest - highest(int(z[apart]), law)
    return np.stack([c, d], axis=2), kept


def _balanced(
    x: NDArray[np.int64], z: NDArray[np.int64], law: PairLaw, windows: _Windows, apart: int, rng: np.random.Generator
) -> PairLaw:
    """Tilt the smaller counts so that their mean total in drawn tables equals their exact total, if any."""
    if apart == NONE:
        return law
    highest = law.rate / 2
    for _ in range(3):
        c = totals.draw(_weights(x, z, law, windows, NONE), lo=windows.first, total=x.sum(), rng=rng)[0]

        def excess(tilt: float, c: NDArray[np.int64] = c, law: PairLaw = law) -> float:
            tilted = law._replace(tilt=tilt)
            return float(expected(c, z, tilted, far(tilted))) - float(z.sum()) - 0.01

        lowest = -law.rate
        while excess(lowest) > 0 and lowest > -50:
            lowest *= 2
        inside = excess(lowest) < 0 < excess(highest)
        tilt = (
            brentq(excess, lowest, highest, xtol=1e-4 * law.rate)
            if inside
            else lowest
            if excess(highest) > 0
            else highest
        )
        law = law._replace(tilt=float(tilt))
    return law


def _nodes(
    x: NDArray[np.int64], z: NDArray[np.int64], rate: float, windows: _Windows, apart: int, rng: np.random.Generator
) -> tuple[list[PairLaw], NDArray[np.float64]]:
    """Return the Gaussian laws of the relevant nodes and their log weights, from the middle up, then down."""
    found: dict[int, tuple[PairLaw, float]] = {}

    def weigh(j: int) -> bool:
        v = (j + 0.5) * STEP
        law = _balanced(x, z, PairLaw(rate / v, 2, 0.0), windows, apart, rng)
        weights = _weights(x, z, law, windows, apart)
        log_weight = float(totals.log_coefficient(weights, lo=windows.first, total=x.sum())[0]) - v**2 / 2
        if apart != NONE:
            log_weight += highest(int(z[apart]), law) - law.tilt * float(z.sum())
        found[j] = law, log_weight
        return log_weight > max(weight for _, weight in found.values()) - NEGLIGIBLE

    start = up = int(np.sqrt(2 * x.size) / STEP)
    while weigh(up) and (up + 0.5) * STEP < _widest(x.size):
        up += 1
    down = start
    while down > 0 and weigh(down - 1):
        down -= 1
    laws, log_weights = zip(*(found[j] for j in sorted(found)), strict=True)
    return list(laws), np.array(log_weights)


def mixed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return R(x), the sum over all nodes in units of exp(-x)."""
    v = (np.arange(int((np.sqrt(x.max(initial=0.0)) + 10) / STEP)) + 0.5) * STEP
    return STEP * np.sqrt(2 / np.pi) * np.exp(-((x[:, np.newaxis] / v - v) ** 2) / 2).sum(axis=1)
