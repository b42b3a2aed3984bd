r"""Pairs of counts, one within the other, under one total: cases and deaths of counties in a month.

A table holds a pair (c_j, d_j) for each of J groups. Here are exact draws from the laws

    P(c, d) ~ exp(-rate |(c, d) - (x, z)|) prod_j nu_j(c_j)    on  sum_j c_j = sum_j x_j,  c_j >= d_j >= 0

with l1 or l2 distances and, perhaps, Dirichlet-multinomial weights nu: the Wasserstein exponential mechanism
of [1]_, section 4.2, with its congenial base measures.

l1. The smaller count meets nothing but its own larger one, so it is summed out: with v_j its noise weight,

    sum over 0 <= d <= c of v_j(d)

multiplies the weight of c. What is left is one total over J independent integers (`ppdinf.fiber.totals`);
each d is then drawn given its c. No convolution of noise as wide as the table is needed.

l2. With x = rate |.|_2, exp(-x) R(x) = h sqrt(2/pi) sum_j exp(-x^2 / 2v_j^2 - v_j^2 / 2) over the nodes
v_j = (j + 1/2) h, and R lies within [FLOOR, 2 - FLOOR]: draw a node in proportion to its total weight, the table
given the node (Gaussian weights are separable again), and keep it with probability FLOOR / R(x).

References
----------
.. [1] J. Seeman, M. Reimherr, A. Slavković, "Formal privacy for partially private data".
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from ppdinf._compiled import jit
from ppdinf.errors import CountError, PrivacyError
from ppdinf.fiber import totals

__all__ = ["draw", "edge_mass"]

STEP = 0.5  # between nodes
FLOOR = 0.95  # below R, whose least value is .959 with this step
REACH = 64.0  # of l1 noise, in units of 1 / rate
DEVIATIONS = 12.0  # of l2 noise, in standard deviations of the widest node
NEGLIGIBLE = 40.0  # logarithms by which a node may lag behind the heaviest one


class _Windows(NamedTuple):
    """Larger counts looked at: column k of row j stands for ``first[j] + k``; -inf in `base` where none is."""

    first: NDArray[np.int64]
    base: NDArray[np.float64]


@jit
def _log_noise(distance: float, rate: float, power: int) -> float:
    return -rate * distance if power == 1 else -0.5 * (rate * distance) ** 2


@jit
def _prefix(z: int, last: int, rate: float, power: int) -> NDArray[np.float64]:
    """Logarithms of ``sum_{d <= k} noise(d - z)`` for k from 0 to `last`.

    Weights rise up to z, so sums are kept relative to the largest weight so far, and nothing underflows.
    """
    out = np.empty(last + 1)
    total, before = 0.0, _log_noise(abs(z), rate, power)
    for d in range(last + 1):
        here = _log_noise(abs(d - z), rate, power)
        if d <= z:
            total = total * np.exp(before - here) + 1.0
            before = here
        else:
            total += np.exp(here - before)
        out[d] = before + np.log(total)
    return out


@jit
def _tabulate(
    x: NDArray, z: NDArray, first: NDArray, base: NDArray, rate: float, power: int, far: int, out: NDArray
) -> None:
    """Weights of the larger counts, the smaller ones summed out; prefix sums are constant from `far` beyond z on."""
    for j in range(x.size):
        width = base.shape[1]
        prefix = _prefix(z[j], min(first[j] + width - 1, z[j] + far), rate, power)
        for k in range(width):
            c = first[j] + k
            out[j, k] = base[j, k] + _log_noise(abs(c - x[j]), rate, power) + prefix[min(c, prefix.size - 1)]


@jit
def _smaller(c: NDArray, z: NDArray, rate: float, power: int, far: int, u: NDArray, out: NDArray) -> None:
    """Draw each smaller count given its larger one, by inversion."""
    for j in range(z.size):
        prefix = _prefix(z[j], min(c[:, j].max(), z[j] + far), rate, power)
        for n in range(c.shape[0]):
            last = min(c[n, j], prefix.size - 1)
            goal = prefix[last] + np.log(u[n, j])
            out[n, j] = min(np.searchsorted(prefix[: last + 1], goal), last)


def draw(
    larger: ArrayLike,
    smaller: ArrayLike,
    *,
    rate: float,
    norm: str = "l1",
    alpha: ArrayLike | None = None,
    draws: int = 1,
    rng: int | np.random.Generator | None = None,
) -> NDArray[np.int64]:
    r"""Draw tables near one of pairs, with its total of the larger counts, larger >= smaller >= 0.

    Parameters
    ----------
    larger, smaller : array_like of int, shape (J,)
        The table: larger counts (cases), and smaller ones within them (deaths).
    rate : float
        Per person of distance: ``epsilon / (2 Delta_z)`` of the Wasserstein exponential mechanism.
    norm : {"l1", "l2"}
        Distance between tables, over all 2 J counts.
    alpha : array_like of float, shape (J,), optional
        Dirichlet-multinomial weights ``Gamma(c + alpha) / (Gamma(alpha) c!)`` of the larger counts; without it
        all tables count alike.
    draws : int
    rng : int or numpy.random.Generator, optional
        Research randomness (SPEC 7), not for releases.

    Returns
    -------
    ndarray of int64, shape (draws, J, 2)

    Raises
    ------
    CountError
        Counts that are negative or no integers, or a smaller one above its larger one.
    PrivacyError
        A rate or an alpha that is no positive number, or an unknown norm.

    Notes
    -----
    Independent and exact up to double precision, and up to what windows of ``64 / rate`` around the counts (l2: 12
    standard deviations) leave out: `edge_mass` says how much lies at their ends. 67 pairs at rate 1/400: .1 s, and 3 s
    in l2.

    Examples
    --------
    >>> tables = draw([5, 0, 2], [1, 0, 2], rate=0.5, draws=1000, rng=1)
    >>> set(tables[..., 0].sum(axis=1).tolist()), bool((tables[..., 0] >= tables[..., 1]).all())
    ({7}, True)
    """
    x, z = _checked(larger, smaller, rate, norm)
    generator = np.random.default_rng(rng)
    windows = _windows(x, rate, norm, alpha)
    if norm == "l1":
        return _separable(x, z, rate, 1, windows, draws, generator)
    rates, log_weights = _nodes(x, z, rate, windows)
    shares = np.exp(log_weights - logsumexp(log_weights))
    found, missing = np.empty((0, x.size, 2), dtype=np.int64), draws
    while missing:
        nodes = generator.choice(shares.size, size=missing + missing // 10 + 4, p=shares)
        tables = np.empty((nodes.size, x.size, 2), dtype=np.int64)
        for node in np.unique(nodes):
            rows = np.flatnonzero(nodes == node)
            tables[rows] = _separable(x, z, rates[node], 2, windows, rows.size, generator)
        distances = np.sqrt(((tables - np.stack([x, z], axis=1)) ** 2).sum(axis=(1, 2), dtype=np.float64))
        kept = generator.random(nodes.size) * _mixed(rate * distances) < FLOOR
        found = np.concatenate([found, tables[kept][:missing]])
        missing = draws - len(found)
    return found


def edge_mass(
    larger: ArrayLike, smaller: ArrayLike, *, rate: float, norm: str = "l1", alpha: ArrayLike | None = None
) -> float:
    """Probability that any larger count that `draw` makes lies on an end of its window that is no true bound.

    Tails fall at least geometrically there, so what the windows leave out is of this size times ``1 / rate``.

    Parameters
    ----------
    larger, smaller, rate, norm, alpha
        As for `draw`; in l2 the widest node that counts is looked at.

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
    power = 1 if norm == "l1" else 2
    own = rate if norm == "l1" else min(_nodes(x, z, rate, windows)[0])
    shares = totals.marginals(_weights(x, z, own, power, windows), lo=windows.first, total=x.sum())
    ends = np.isfinite(windows.base).sum(axis=1) - 1
    low = np.where(windows.first > 0, shares[:, 0], 0.0)
    high = np.where(windows.first + ends < x.sum(), shares[np.arange(x.size), ends], 0.0)
    return float(np.sum(low + high))


def _checked(larger: ArrayLike, smaller: ArrayLike, rate: float, norm: str) -> tuple[NDArray, NDArray]:
    pair = [np.asarray(larger), np.asarray(smaller)]
    if any(part.dtype.kind not in "iu" or part.ndim != 1 or not part.size for part in pair):
        raise CountError("larger and smaller counts must be one row of whole numbers each")
    x, z = (np.ascontiguousarray(part, dtype=np.int64) for part in pair)
    if x.shape != z.shape:
        raise CountError(f"there are {x.size} larger counts and {z.size} smaller ones: one of each belongs together")
    if (bad := (z < 0) | (z > x)).any():
        raise CountError(f"the smaller count of pair {int(np.flatnonzero(bad)[0])} is not between 0 and the larger one")
    if norm not in ("l1", "l2"):
        raise PrivacyError(f"norm must be 'l1' or 'l2', found {norm!r}")
    if not 0 < rate < np.inf:
        raise PrivacyError(f"rate must be a positive number, found {rate!r}")
    return x, z


def _windows(x: NDArray[np.int64], rate: float, norm: str, alpha: ArrayLike | None) -> _Windows:
    """Cover counts near the table, and near the mean of the Dirichlet-multinomial law."""
    spread = REACH if norm == "l1" else DEVIATIONS * _widest(x.size)
    reach, total = int(np.ceil(spread / rate)), int(x.sum())
    centres = [x]
    if alpha is not None:
        alphas = np.asarray(alpha, dtype=np.float64)
        if alphas.shape != x.shape or not (alphas > 0).all() or not np.isfinite(alphas).all():
            raise PrivacyError("alpha must hold one positive number for each pair")
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
    """Return a node beyond those that count: rate |.|_2 is Gamma(2 J) without bounds, and smaller with them."""
    return float(np.sqrt(2 * pairs + 8 * np.sqrt(2 * pairs))) + 4


def _weights(
    x: NDArray[np.int64], z: NDArray[np.int64], rate: float, power: int, windows: _Windows
) -> NDArray[np.float64]:
    out = np.empty(windows.base.shape)
    _tabulate(x, z, windows.first, windows.base, rate, power, _far(rate, power), out)
    return out


def _far(rate: float, power: int) -> int:
    """Distance whose noise weight, and all beyond, is lost in double precision."""
    return int(np.ceil((REACH if power == 1 else DEVIATIONS) / rate))


def _separable(
    x: NDArray[np.int64],
    z: NDArray[np.int64],
    rate: float,
    power: int,
    windows: _Windows,
    draws: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    weights = _weights(x, z, rate, power, windows)
    c = totals.draw(weights, lo=windows.first, total=x.sum(), draws=draws, rng=rng)
    d = np.empty_like(c)
    _smaller(c, z, rate, power, _far(rate, power), 1 - rng.random(c.shape), d)
    return np.stack([c, d], axis=2)


def _nodes(
    x: NDArray[np.int64], z: NDArray[np.int64], rate: float, windows: _Windows
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gaussian rates of the nodes that count, and their log weights: up from the middle, then down."""
    found: dict[int, float] = {}

    def weigh(j: int) -> bool:
        v = (j + 0.5) * STEP
        weights = _weights(x, z, rate / v, 2, windows)
        found[j] = float(totals.log_coefficient(weights, lo=windows.first, total=x.sum())[0]) - v**2 / 2
        return found[j] > max(found.values()) - NEGLIGIBLE

    start = up = int(np.sqrt(2 * x.size) / STEP)
    while weigh(up) and (up + 0.5) * STEP < _widest(x.size):
        up += 1
    down = start
    while down > 0 and weigh(down - 1):
        down -= 1
    nodes = np.array(sorted(found))
    return rate / ((nodes + 0.5) * STEP), np.array([found[j] for j in nodes.tolist()])


def _mixed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """R(x), the sum over all nodes in units of exp(-x)."""
    v = (np.arange(int((np.sqrt(x.max(initial=0.0)) + 10) / STEP)) + 0.5) * STEP
    return STEP * np.sqrt(2 / np.pi) * np.exp(-((x[:, np.newaxis] / v - v) ** 2) / 2).sum(axis=1)
