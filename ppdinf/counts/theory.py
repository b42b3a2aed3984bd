"""Representations of mechanisms by scales: polytopes, dimensions and extreme points.

With the 2^(n-1) scales as columns of S, a representation B >= 0 gives the mechanism S B: ``S B 1 = 1``, and with a
fixed point also ``z S B = z``. A representation is extreme exactly if its scales are independent in the sense of
Definition 19 or 8. Definition 19 applies without a fixed point: all scales, column by column. Definition 8 applies with
a fixed point: within each column, the differences of scales divided by their z-means.

For rational epsilon > 0, exp(epsilon) is transcendental, so that independence is a statement about polynomials in it.
The rank over a prime field with exp(epsilon) replaced by a random element certifies it exactly. Full rank is a proof; a
smaller rank is wrong with probability below n^2 / 2^61.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Definitions 7,
8, 18 and 19, Theorems 4 and 11, Corollaries 2 and 5.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import nmod_mat
from numpy.typing import ArrayLike

from ppdinf._internal.rationals import Parameter
from ppdinf._internal.values import Reals
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import as_distribution
from ppdinf.counts.scales import Scales, depths, scales
from ppdinf.errors import PrivacyError

PRIME = 2**61 - 1


def dimensions(n: int, fixed: int | None = None) -> int:
    """Return the dimension of the polytope of representations of mechanisms for n counts.

    Parameters
    ----------
    n : int
    fixed : int, optional
        Number of counts with positive probability in the fixed point; None without a fixed point.

    Returns
    -------
    int
        ``2^(n-1) n - n`` without a fixed point, and ``2^(n-1) fixed - n - fixed + 1`` with one, because columns with
        probability 0 are empty and one equation is redundant.

    See Also
    --------
    ppdinf.counts.scales, ppdinf.counts.representation

    Examples
    --------
    >>> from ppdinf.counts import dimensions
    >>> dimensions(3), dimensions(3, fixed=3)
    (9, 7)
    """
    if n < 1 or (fixed is not None and not 1 <= fixed <= n):
        raise PrivacyError(f"n must be at least 1 and fixed from 1 to n, found {n!r} and {fixed!r}")
    return int(2 ** (n - 1) * n - n if fixed is None else 2 ** (n - 1) * fixed - n - fixed + 1)


def representation(n: int, epsilon: Parameter, z: ArrayLike | None = None) -> tuple[Reals, Reals]:
    """Return equations ``M b = r`` of the representations of mechanisms for small n; with ``b >= 0``, their polytope.

    Parameters
    ----------
    n : int
        From 2 to 20.
    epsilon : int, float, str or Fraction
    z : array_like of float, shape (n,), optional
        Fixed point.

    Returns
    -------
    M : ndarray of float64, shape (n or 2 n, 2^(n-1) n)
        Matrix for ``b = B.ravel()``, where B of shape (2^(n-1), n) contains the weights of the scales by column.
    r : ndarray of float64

    See Also
    --------
    ppdinf.counts.scales, ppdinf.counts.dimensions

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.counts import representation
    >>> M, r = representation(3, 1, z=[0.5, 0.3, 0.2])
    >>> M.shape, int(12 - np.linalg.matrix_rank(M))
    ((6, 12), 7)
    """
    every = scales(n, epsilon)
    rows = np.kron(every, np.ones(n)).astype(np.float64)
    if z is None:
        return rows, np.ones(n)
    z = as_distribution(z)
    return np.vstack([rows, np.kron(z @ every, np.eye(n))]), np.concatenate([np.ones(n), z])


def linearly_simplified(mechanism: CountMechanism) -> bool:
    """Return whether a representation is extreme among those without a fixed point (Definition 19, Theorem 11).

    See Also
    --------
    ppdinf.counts.affinely_simplified, ppdinf.counts.representation

    Examples
    --------
    >>> from ppdinf.counts import linearly_simplified
    >>> import ppdinf as ppd
    >>> linearly_simplified(ppd.counts.truncated_geometric(30, epsilon=1))
    True
    """
    return _independent(_residues(_scales(mechanism)))


def affinely_simplified(mechanism: CountMechanism) -> bool:
    """Return whether a representation is extreme among those with its fixed point (Definition 8, Theorem 4).

    The cost is the rank of a matrix of order n over a prime field: 1 s for 1,000 counts.

    Parameters
    ----------
    mechanism : CountMechanism
        A mechanism of scales with a fixed point.

    Returns
    -------
    bool
        For rational epsilon, True is proved.

    See Also
    --------
    ppdinf.counts.linearly_simplified, ppdinf.counts.representation

    Examples
    --------
    >>> from ppdinf.counts import affinely_simplified
    >>> import ppdinf as ppd
    >>> affinely_simplified(ppd.counts.heuristic([0.5, 0.3, 0.1, 0.1], epsilon=1))
    True
    """
    mechanism_scales = _scales(mechanism)
    if mechanism.z is None:
        raise PrivacyError("the mechanism must have a fixed point; use linearly_simplified for mechanisms without one")
    residues = _residues(mechanism_scales)
    weights = _weights(mechanism.z)
    means = [sum(w * s for w, s in zip(weights, row, strict=True)) % PRIME for row in residues]
    differences = []
    for j in np.unique(mechanism_scales.column).tolist():
        first, *others = np.flatnonzero(mechanism_scales.column == j).tolist()
        for other in others:
            a, b = pow(means[other], -1, PRIME), pow(means[first], -1, PRIME)
            pairs = zip(residues[other], residues[first], strict=True)
            differences.append([(s * a - f * b) % PRIME for s, f in pairs])
    return _independent(differences)


def extreme(mechanism: CountMechanism) -> bool:
    """Return whether a mechanism is an extreme point of all mechanisms (Theorem 9, Corollaries 3 and 4).

    Extreme representations can have mechanisms that are mixtures of others. A mechanism is extreme if no direction
    keeps its row sums, its fixed point and all ratios that are at their bound: runs of rows with such ratios, over all
    columns, are independent in the row sums and column means.

    Parameters
    ----------
    mechanism : CountMechanism
        A mechanism of scales. With a fixed point, it is compared with the mechanisms that have this fixed point.

    Returns
    -------
    bool
        For rational epsilon, True is proved.

    See Also
    --------
    ppdinf.counts.affinely_simplified, ppdinf.counts.linearly_simplified

    Examples
    --------
    >>> import ppdinf as ppd
    >>> ppd.counts.extreme(ppd.counts.truncated_geometric(30, epsilon=1))
    True
    """
    own = _scales(mechanism)
    powers, n = _powers(mechanism.n), mechanism.n
    share = np.zeros(n) if mechanism.z is None else mechanism.z
    weights = _weights(share)
    runs = []
    for j in np.unique(own.column).tolist():
        rising = own.rising[own.column == j]
        moves = ~(rising.all(axis=0) | ~rising.any(axis=0))  # steps whose ratio is not at its bound
        height = depths(rising[:1])[0].max() - depths(rising[:1])[0]
        for rows in np.split(np.arange(n), np.flatnonzero(moves) + 1):
            vector = [0] * (2 * n)
            for i in rows.tolist():
                vector[i] = powers[int(height[i])]
                vector[n + j] = (vector[n + j] + weights[i] * vector[i]) % PRIME
            runs.append(vector)
    return _independent(runs)


def _scales(mechanism: CountMechanism) -> Scales:
    if mechanism.scales is None:
        raise PrivacyError("the mechanism must be stored as scales")
    return mechanism.scales


def _residues(scales: Scales) -> list[list[int]]:
    """Return scales up to a factor, with a random element of the field instead of exp(epsilon)."""
    powers = _powers(scales.rising.shape[1] + 1)
    height = depths(scales.rising)
    height = height.max(axis=1, keepdims=True) - height
    return [[powers[h] for h in row] for row in height.tolist()]


def _powers(n: int) -> list[int]:
    """Return powers 0 to n of a random element of the field."""
    base = int(np.random.default_rng().integers(2, PRIME - 1))
    return [pow(base, k, PRIME) for k in range(n + 1)]


def _weights(z: Reals) -> list[int]:
    """Return the elements of the field that the probabilities are."""
    exact = [Fraction(float(p)) for p in z]
    return [p.numerator * pow(p.denominator, -1, PRIME) % PRIME for p in exact]


def _independent(rows: list[list[int]]) -> bool:
    return not rows or (len(rows) <= len(rows[0]) and nmod_mat(rows, PRIME).rank() == len(rows))
