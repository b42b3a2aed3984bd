"""What a release protects, per unit of what, against whom, and what it does not protect."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ppdinf.errors import PrivacyError

__all__ = ["Guarantee"]

_METRICS = {"l1": "the sum of absolute differences of the cells", "l2": "the Euclidean distance of the cells"}


@dataclass(frozen=True)
class Guarantee:
    """Privacy guarantee of a release among tables with the same public information.

    For any two tables x, x' that agree on everything public, and any set S of outcomes,
    ``P(M(x) in S) <= exp(epsilon * distance(x, x')) * P(M(x') in S)``: integer subspace
    differential privacy (Dharangutte et al., Definition 2) with ``delta = 0``.

    Attributes
    ----------
    epsilon : Fraction
        Privacy loss per unit of distance.
    metric : str
        ``"l1"`` or ``"l2"``: how the distance between tables is measured, in persons.
    nearest : int or None
        Distance of the closest different table with the same public information, on the same
        metric; None when there is none, because the public information fixes every cell.
    unprotected : tuple of str
        What anyone learns exactly.
    sampler : str
        How the noise was drawn; "exact" samplers add nothing to the loss.

    Examples
    --------
    >>> g = Guarantee(Fraction(1, 4), "l1", 2, ("the total",), "exact")
    >>> g.loss_at_nearest
    Fraction(1, 2)
    """

    epsilon: Fraction
    metric: str
    nearest: int | None
    unprotected: tuple[str, ...]
    sampler: str

    def __post_init__(self) -> None:
        if self.metric not in _METRICS:
            raise PrivacyError(f"metric must be one of {sorted(_METRICS)}, found {self.metric!r}")

    @property
    def loss_at_nearest(self) -> Fraction | None:
        """Privacy loss between a table and its closest alternative."""
        return None if self.nearest is None else self.epsilon * self.nearest

    def describe(self) -> str:
        """Say it in two paragraphs that need no background in privacy.

        Examples
        --------
        >>> print(Guarantee(Fraction(1, 4), "l1", 2, ("the total",), "exact").describe())  # doctest: +ELLIPSIS
        Not protected, published exactly: the total. Whatever can be computed from these alone is public too.
        <BLANKLINE>
        Protected: which table, ...
        """
        open_part = (
            "Nothing is published exactly."
            if not self.unprotected
            else f"Not protected, published exactly: {'; '.join(self.unprotected)}. "
            "Whatever can be computed from these alone is public too."
        )
        if self.loss_at_nearest is None:
            return f"{open_part}\n\nProtected: nothing. The public information fixes every cell of the table."
        closed_part = (
            "Protected: which table, among all that agree with the public information, is the confidential one. "
            f"Distance between two tables is {_METRICS[self.metric]}, counted in persons, and the privacy loss is "
            f"epsilon = {_show(self.epsilon)} for each unit of it. The closest alternative is at distance "
            f"{self.nearest} ({_nearest(self.nearest)}), so the release can change the odds between it and the confidential "
            f"table by a factor of at most exp({_show(self.loss_at_nearest)}) = {_factor(float(self.loss_at_nearest))}. Tables "
            "further away are told apart more easily: a change of k persons costs up to k times as much. Nothing is "
            f"promised between tables that differ in the public information. Noise: {self.sampler}."
        )
        return f"{open_part}\n\n{closed_part}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the release file; rationals as text."""
        return asdict(self) | {"epsilon": str(self.epsilon), "unprotected": list(self.unprotected)}


def _show(value: Fraction) -> str:
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"{value} (about {short})"


def _nearest(distance: int | None) -> str:
    return {
        1: "one person more or less in a cell that no public sum covers",
        2: "one person counted in another cell, which changes two cells by one",
    }.get(distance or 0, "several cells must change together to keep every public sum")


def _factor(loss: float) -> str:
    return f"{math.exp(loss):.3g}" if loss < 50 else f"e^{loss:.3g}"
