"""Disclosure limits as public information: k-anonymity and t-closeness of a count.

They exclude certain values of a count. This conditions its laws, and removes pairs of secrets if one secret has
become impossible. The mechanism does not change, and protects fewer pairs.

J. Seeman, M. Reimherr, A. Slavkovic, "Formal privacy for partially private data", Example 2 and equations (10), (18).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ppdinf._internal.frozen import assign
from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf.errors import PrivacyError

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
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        bounds = f"of at least {low}" if high == math.inf else f"from {low} to {high}"
        raise PrivacyError(f"{name} must be an integer {bounds}, found {value!r}")


def as_probability(value: Parameter, name: str) -> Fraction:
    """Return a number from 0 to 1 as an exact fraction."""
    exact = Fraction(0) if str(value) in ("0", "0.0") else as_fraction(value, name)
    if exact > 1:
        raise PrivacyError(f"{name} must be a probability such as 0.3 or '1/3', found {value!r:.60}")
    return exact
