"""What a release protects, per unit of what, against whom, and what it does not protect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ppdinf.errors import PrivacyError

__all__ = ["Guarantee", "ReleaseGuarantee"]

_METRICS = {
    "l1": "the sum over all cells of the absolute differences of their counts",
    "l2": "the Euclidean distance of their counts",
}


@dataclass(frozen=True)
class Guarantee:
    """Privacy guarantee among tables with the same public information.

    For any two tables x, x' that agree on everything public, and any set S of outcomes,
    ``P(M(x) in S) <= exp(epsilon * distance(x, x')) * P(M(x') in S)``: integer subspace
    differential privacy (Dharangutte et al., Definition 2) with ``delta = 0``.

    Attributes
    ----------
    epsilon : Fraction
        Privacy loss per unit of distance.
    metric : str
        ``"l1"`` or ``"l2"``: how the distance between tables is measured, in persons.
    unprotected : tuple of str
        What is published exactly.
    known : tuple of str
        What is taken to be known of every table.

    Examples
    --------
    >>> print(Guarantee(Fraction(1, 4), "l1", ("the total",)).describe().splitlines()[0])
    Not protected, because it is published exactly: the total.
    """

    epsilon: Fraction
    metric: str
    unprotected: tuple[str, ...]
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.metric not in _METRICS:
            raise PrivacyError(f"metric must be one of {sorted(_METRICS)}, found {self.metric!r}")

    def describe(self) -> str:
        """Say it in paragraphs that need no background in privacy."""
        return "\n\n".join([self._open(), self._closed(), self._limits()])

    def to_dict(self) -> dict[str, Any]:
        """Numbers for the release file, rationals as text; words are made when they are read."""
        return {"epsilon": str(self.epsilon), "metric": self.metric}

    def _open(self) -> str:
        published = "; ".join(self.unprotected)
        exactly = f"Not protected, because it is published exactly: {published}."
        lines = [exactly if published else "Nothing is published exactly."]
        if self.known:
            lines.append(f"Not protected, because it is taken to be known of every table: {'; '.join(self.known)}.")
        lines.append("Nor is anything that can be worked out from this alone, nor the labels of the table.")
        return "\n".join(lines)

    def _closed(self) -> str:
        return (
            "Protected: which table, among all that agree with this information, is the confidential one. Whatever "
            "else somebody knows, the release can change the odds between two such tables at distance k by a factor of "
            f"at most exp(epsilon k), with epsilon = {_show(self.epsilon)}. The distance between two tables is "
            f"{_METRICS[self.metric]}; counting one person in another cell is a distance of {_swap(self.metric)}."
        )

    def _limits(self) -> str:
        return (
            "Tables further apart are told apart more easily: at a distance of 20 the factor can reach "
            f"{_factor(20 * self.epsilon)}. Nothing is promised between tables that differ in the public information."
        )


@dataclass(frozen=True, kw_only=True)
class ReleaseGuarantee(Guarantee):
    """The guarantee of one release, whose labels say how near the nearest alternative is.

    Attributes
    ----------
    nearest : int or None
        Distance of the closest different table with the same public sums, on the same metric; None
        when there is none, because the public sums fix every cell.
    fixed : int
        Number of cells that follow from what is published, and so are published too.
    cells : int
        Number of cells.
    sampler : str
        How the noise was drawn; "exact" samplers add nothing to the loss.

    Examples
    --------
    >>> g = ReleaseGuarantee(Fraction(1, 4), "l1", ("the total",), nearest=2, fixed=0, cells=3, sampler="exact")
    >>> g.loss_at_nearest
    Fraction(1, 2)
    """

    nearest: int | None
    fixed: int
    cells: int
    sampler: str

    @property
    def loss_at_nearest(self) -> Fraction | None:
        """Privacy loss between a table and its closest alternative."""
        return None if self.nearest is None else self.epsilon * self.nearest

    def to_dict(self) -> dict[str, Any]:
        """Numbers for the release file, rationals as text; words are made when they are read."""
        return super().to_dict() | {"nearest": self.nearest, "fixed": self.fixed, "cells": self.cells}

    def _open(self) -> str:
        if not self.fixed:
            return super()._open()
        follow = f"{self.fixed} of the {self.cells} cells follow from it and are published as they are."
        return f"{super()._open()}\n{follow}"

    def _closed(self) -> str:
        if self.loss_at_nearest is None:
            return "Protected: nothing. What is published exactly fixes every cell of the table."
        return (
            f"{super()._closed()} No two such tables are closer than {self.nearest} ({_nearest(self.nearest)}); at "
            f"that distance the factor is at most exp({_show(self.loss_at_nearest)}) = {_factor(self.loss_at_nearest)}."
        )

    def _limits(self) -> str:
        return f"{super()._limits()}\n\nNoise: {self.sampler}."


def _show(value: Fraction) -> str:
    short = f"{float(value):.6g}"
    return short if Fraction(short) == value else f"{value} (about {short})"


def _swap(metric: str) -> str:
    return {"l1": "2", "l2": "the square root of 2"}[metric]


def _nearest(distance: int | None) -> str:
    return {
        1: "one person more or less in a cell that no public sum covers",
        2: "one person counted in another cell",
    }.get(distance or 0, "several cells must change together to keep every public sum")


def _factor(loss: Fraction) -> str:
    return f"{math.exp(loss):.3g}" if loss < 50 else f"e^{float(loss):.3g}"
