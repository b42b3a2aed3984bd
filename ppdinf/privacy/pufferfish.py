"""Pufferfish privacy given public information: limits of disclosure, conditioned outputs, Delta_z.

    Delta_z  =  sup over models theta and secret pairs (s, s') of  W(P(T | s, theta, z), P(T | s', theta, z))

with the infinity-Wasserstein distance W. A mechanism calibrated to Delta_z is epsilon-Pufferfish given z, for listed
models only. Disclosure limits exclude values of a count: pairs with an impossible secret are not protected.

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Definition 3, Lemma 8, Theorem 9,
Section 4.4, Examples 1 and 2. Lemma 8 is stated for all models; it needs persons who are independent given the public
information, which few public sets leave (R. Gong, X.-L. Meng, "Congenial differential privacy", Theorem 2.1).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import assign, numbers, require_number
from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantee import Guarantee, circumstances
from ppdinf.privacy.wasserstein_distance import wasserstein_infinity

type Law = Mapping[Any, Fraction | float]  # from values; Mapping is invariant in its keys


@dataclass(frozen=True)
class KAnonymity:
    """Public information that a count of n persons, and the number of others, are both at least k.

    See Also
    --------
    ppdinf.privacy.TCloseness

    Examples
    --------
    >>> from ppdinf.privacy import KAnonymity
    >>> print(KAnonymity(20, 5), list(KAnonymity(20, 5).counts)[::5])
    the count lies between 5 and 15 of 20 persons (5-anonymity) [5, 10, 15]
    """

    n: int
    k: int

    def __post_init__(self) -> None:
        require_integer(self.n, 1, math.inf, "n")
        require_integer(self.k, 0, self.n // 2, "k")

    @property
    def counts(self) -> range:
        """Counts that satisfy the limit."""
        return range(self.k, self.n - self.k + 1)

    def __str__(self) -> str:
        return f"the count lies between {self.k} and {self.n - self.k} of {self.n} persons ({self.k}-anonymity)"


@dataclass(frozen=True)
class TCloseness:
    """Public information that the share of counted persons is within t of a public share.

    See Also
    --------
    ppdinf.privacy.KAnonymity

    Examples
    --------
    >>> from ppdinf.privacy import TCloseness
    >>> print(TCloseness(20, "1/4", "0.1"), list(TCloseness(20, "1/4", "0.1").counts))
    the share of 20 persons counted is within 1/10 of 1/4 (t-closeness) [3, 4, 5, 6, 7]
    """

    n: int
    share: Fraction
    t: Fraction

    def __post_init__(self) -> None:
        require_integer(self.n, 1, math.inf, "n")
        assign(self, share=as_probability(self.share, "share"), t=as_probability(self.t, "t"))
        if not self.counts:
            raise PrivacyError(f"no count of {self.n} persons is within {self.t} of a share of {self.share}")

    @property
    def counts(self) -> range:
        """Counts that satisfy the limit."""
        low, high = (self.n * (self.share - self.t), self.n * (self.share + self.t))
        return range(max(0, math.ceil(low)), min(self.n, math.floor(high)) + 1)

    def __str__(self) -> str:
        return f"the share of {self.n} persons counted is within {self.t} of {self.share} (t-closeness)"


def condition_pairs(pairs: Iterable[tuple[Law, Law]], possible: Collection[object]) -> Iterator[tuple[Law, Law]]:
    """Condition pairs of laws on the values that public information allows.

    Parameters
    ----------
    pairs : iterable of (mapping, mapping)
        Mappings from values to probabilities.
    possible : collection
        Values that satisfy the public information, such as `KAnonymity.counts`.

    Yields
    ------
    (mapping, mapping)
        Pairs whose secrets are both possible (equation 10); all other pairs are dropped.

    See Also
    --------
    ppdinf.privacy.condition_output

    Examples
    --------
    >>> from ppdinf.privacy import KAnonymity, condition_pairs
    >>> from ppdinf.privacy import secret_pair, delta_z
    >>> pair = secret_pair(40, "0.2", "0.6")
    >>> delta_z([pair]), delta_z(condition_pairs([pair], KAnonymity(40, 15).counts))
    (18, 9)
    >>> list(condition_pairs([pair], [0]))
    []
    """
    for pair in pairs:
        kept = [{value: weight for value, weight in law.items() if value in possible} for law in pair]
        totals = [sum(law.values()) for law in kept]
        if all(totals):
            first, second = (
                {value: _share(weight, total) for value, weight in law.items()}
                for law, total in zip(kept, totals, strict=True)
            )
            yield first, second


def _share(weight: Fraction | float, total: Fraction | float) -> Fraction | float:
    return Fraction(weight, total) if isinstance(weight, int) and isinstance(total, int) else weight / total


def require_integer(value: object, low: int, high: float, name: str) -> None:
    """Require an integer in a range."""
    bounds = f"of at least {low}" if high == math.inf else f"from {low} to {high}"
    require_number(value, f"{name} must be an integer {bounds}", low, high)


def as_probability(value: Parameter, name: str) -> Fraction:
    """Return a number from 0 to 1 as an exact fraction."""
    exact = Fraction(0) if str(value) in ("0", "0.0") else as_fraction(value, name)
    if exact > 1:
        raise PrivacyError(f"{name} must be a probability such as 0.3 or '1/3', found {value!r:.60}")
    return exact


def condition_output(guarantee: Guarantee, known: str) -> Guarantee:
    """Return the guarantee of a pure mechanism whose output is conditioned on public information.

    Let a mechanism with loss epsilon run until its output Y lies in a public set X*, the same for every table. Its loss
    is at most doubled: ``P(Y in B | Y in X*)`` is a ratio whose numerator and denominator both change by a factor of at
    most exp(epsilon).

    Parameters
    ----------
    guarantee : Guarantee
        Pure differential privacy between neighbours.
    known : str
        Description of the public information about the table, which the output must satisfy.

    Returns
    -------
    Guarantee
        Pufferfish with loss 2 epsilon, for all models in which persons are independent given the public information,
        for example if it concerns each person separately. A public sum makes persons dependent; this result does not
        apply then.

    Raises
    ------
    PrivacyError
        The guarantee is not pure, or the public information is empty.

    See Also
    --------
    ppdinf.privacy.condition_pairs, ppdinf.privacy.conditioning_cost

    Examples
    --------
    >>> from ppdinf.privacy import Guarantee, condition_output
    >>> from fractions import Fraction
    >>> pure = Guarantee("pure", Fraction(1, 4), neighbours="whether a person is in the table")
    >>> conditioned = condition_output(pure, "no count is negative")
    >>> conditioned.variant, conditioned.loss()
    ('pufferfish', Fraction(1, 2))
    """
    if guarantee.variant != "pure" or guarantee.epsilon is None or guarantee.delta:
        raise PrivacyError(f"only pure differential privacy doubles when conditioned, found {guarantee.variant!r}")
    if not isinstance(known, str) or not known.strip():
        raise PrivacyError("known must describe the public information, for example 'no count is negative'")
    return Guarantee(
        "pufferfish",
        2 * guarantee.epsilon,
        neighbours=guarantee.neighbours,
        steps=guarantee.steps,
        **circumstances(guarantee) | {"known": (*guarantee.known, known)},
    )


MOST = 10_000  # persons; their counts have exact probabilities with as many digits


def delta_z(pairs: Iterable[tuple[object, object]], *, norm: str = "l1") -> int | Fraction | float:
    """Return the largest distance over pairs of conditional laws.

    Parameters
    ----------
    pairs : iterable of (law, law)
        One pair for every model and every pair of secrets: the laws of the statistic given either secret
        and the public information, in any form that `wasserstein_infinity` accepts.
    norm : {"l1", "l2", "linf"}
        Distance between values of the statistic, the distance of the mechanism's loss.

    Returns
    -------
    int, Fraction or float
        Exact if the laws are exact.

    Raises
    ------
    PrivacyError
        No pairs remain because public information decides all secrets; or a malformed law.

    See Also
    --------
    ppdinf.privacy.delta_z_counts, ppdinf.privacy.delta_z_normal, ppdinf.privacy.wasserstein_infinity

    Examples
    --------
    >>> from ppdinf.privacy import delta_z
    >>> from scipy import stats
    >>> delta_z([(stats.binom(9, p), stats.binom(9, p, loc=1)) for p in (0.1, 0.5)])
    1
    """
    distances = [wasserstein_infinity(p, q, norm=norm) for p, q in pairs]
    if not distances:
        raise PrivacyError("pairs is empty: public information determines every secret, so there is nothing to protect")
    return max(distances)


def secret_pair(n: int, z0: Parameter, z1: Parameter) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """Return the laws of a count of n persons given that one of them is not, or is, counted.

    If the person is counted, each of the others is counted with probability `z1`, otherwise with probability `z0`:
    Bin(n - 1, z0) and 1 + Bin(n - 1, z1).

    Parameters
    ----------
    n : int
        Number of persons, from 1 to 10,000.
    z0, z1 : int, float, str or Fraction
        Probabilities with 0 <= z0 <= z1 <= 1; a float is read as its shortest decimal.

    Returns
    -------
    tuple of two mappings of int to Fraction

    Raises
    ------
    PrivacyError
        n is not an integer from 1 to 10,000, or z0 and z1 are not probabilities with z0 <= z1.

    See Also
    --------
    ppdinf.privacy.erosion

    Examples
    --------
    >>> from ppdinf.privacy import secret_pair
    >>> secret_pair(2, 0, "1/3")
    ({0: Fraction(1, 1)}, {1: Fraction(2, 3), 2: Fraction(1, 3)})
    """
    require_integer(n, 1, MOST, "n")
    low, high = as_probability(z0, "z0"), as_probability(z1, "z1")
    if low > high:
        raise PrivacyError(f"z0 must not exceed z1, found z0 = {low} and z1 = {high}")
    return _binomial(n - 1, low, 0), _binomial(n - 1, high, 1)


def delta_z_counts(n: int, z0: Parameter, z1: Parameter) -> int:
    """Return Delta_z of a count of n persons with dependent values, exactly.

    Parameters
    ----------
    n : int
        Number of persons, from 1 to 10,000.
    z0, z1 : int, float, str or Fraction
        0 <= z0 <= z1 <= 1. The probability that another person is counted is between z0 and z1, whether one person is
        counted or not.

    Returns
    -------
    int
        Between 1 for independent persons (z0 = z1) and n if one person determines all others (0 and 1).

    Raises
    ------
    PrivacyError
        As for `secret_pair`.

    See Also
    --------
    ppdinf.privacy.delta_z

    Notes
    -----
    Figure 4 of Seeman et al., with both probabilities in [z0, z1]; `secret_pair` is then the worst pair. The bounds of
    the text are one-sided, which allows a distance of n - 2 for all z0 and z1 (docs/errata.md, with a proof).

    Examples
    --------
    >>> from ppdinf.privacy import delta_z_counts
    >>> [delta_z_counts(100, z0, z1) for z0, z1 in [(0.3, 0.3), (0.3, 0.4), (0.1, 0.9), (0, 1)]]
    [1, 12, 81, 100]
    """
    return int(wasserstein_infinity(*secret_pair(n, z0, z1)))


def delta_z_normal(covariance: ArrayLike, width: float) -> float:
    """Return Delta_z of a statistic that is jointly normal with a person's value and public statistics.

    Given the person's value v and the public statistics z, the laws of the statistic are shifts of each other. Between
    v and v' the vector of Example 1 is (v - v', 0): z cancels in equation (16), which prints (Delta, z - mean).

    Parameters
    ----------
    covariance : array_like, shape (2 + k, 2 + k)
        Covariance of the statistic, the person's value and k public statistics, in this order.
    width : float
        Largest distance between two values of the person.

    Returns
    -------
    float
        ``width |b|`` with b the coefficient of the person's value in the regression of the statistic on the value and
        the public statistics. It does not depend on the values of the public statistics or on the means.

    Raises
    ------
    PrivacyError
        The matrix is not symmetric positive semidefinite, or the public statistics fix the person's value;
        the width is not positive and finite.

    See Also
    --------
    ppdinf.privacy.delta_z

    Examples
    --------
    The mean of 50 independent values, and a public statistic that is their sum plus noise with variance 50:

    >>> from ppdinf.privacy import delta_z_normal
    >>> delta_z_normal([[0.02, 0.02], [0.02, 1]], width=10)
    0.2
    >>> round(delta_z_normal([[0.02, 0.02, 1], [0.02, 1, 1], [1, 1, 100]], width=10), 6)
    0.10101
    """
    matrix = numbers(covariance, "covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise PrivacyError(f"covariance must be a square matrix of two rows or more, found shape {matrix.shape}")
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0):
        raise PrivacyError("covariance must be symmetric")
    if not 0 < width < math.inf:
        raise PrivacyError(f"width must be positive and finite, found {width!r}")
    scale = np.sqrt(np.abs(np.diag(matrix)))
    scale[scale == 0] = 1
    correlation = matrix / np.outer(scale, scale)
    if np.linalg.eigvalsh(correlation)[0] < -1e-9:
        raise PrivacyError("covariance must be positive semidefinite")
    if np.linalg.eigvalsh(correlation[1:, 1:])[0] < 1e-12:
        raise PrivacyError("the person's value and the public statistics must not determine each other")
    coefficient = np.linalg.solve(correlation[1:, 1:], correlation[0, 1:])[0] * scale[0] / scale[1]
    return float(width * abs(coefficient))


def _binomial(trials: int, probability: Fraction, shift: int) -> dict[int, Fraction]:
    a, b = probability.numerator, probability.denominator
    weights = ((k, math.comb(trials, k) * a**k * (b - a) ** (trials - k)) for k in range(trials + 1))
    return {k + shift: Fraction(weight, b**trials) for k, weight in weights if weight}
