"""What one release protects: its guarantee, at the nearest other table with the same public information."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ppdinf._internal.types import Json
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.unit_loss import (
    UNLIMITED,
    UnitLoss,
    describe_unit,
    distance_of_unit,
    tied_distance,
    unit_loss,
)
from ppdinf.privacy.guarantees.wording import factor_of, round_up, shown

__all__ = ["ReleaseGuarantee"]

RARE = "1e-6"


@dataclass(frozen=True, kw_only=True)
class ReleaseGuarantee(Guarantee):
    """The guarantee of one release, whose labels say how near the nearest alternative is.

    Attributes
    ----------
    nearest : float or None
        Distance of the closest different table with the same public sums, on the same metric (in steps between
        neighbours where there is none); None when the public sums fix every cell.
    fixed : int
        Number of cells that follow from what is published, and so are published too.
    cells : int
        Number of cells.
    sampler : str
        How the noise was drawn; "exact" samplers add nothing to the loss.
    sampler_distance : float
        Limit on the total variation between the law that was drawn from and the stated one; 0 when exact. That of a
        Markov chain is measured, at 95 % confidence, and not proved.
    change : str, optional
        What the closest different table differs in.

    Examples
    --------
    >>> g = ReleaseGuarantee(
    ...     "integer-subspace", Fraction(1, 4), metric="l1", nearest=2, fixed=0, cells=3, sampler="exact"
    ... )
    >>> g.loss_at_nearest
    Fraction(1, 2)
    """

    nearest: float | Fraction | None
    fixed: int
    cells: int
    sampler: str
    sampler_distance: float = 0.0
    change: str | None = None

    @property
    def loss_at_nearest(self) -> Fraction | float | None:
        """Privacy loss between a table and its closest alternative."""
        return None if self.nearest is None else self.loss(self.nearest)

    @property
    def distance_of_unit(self) -> int | float | None:
        """As for `Guarantee`; no less than the distance of the nearest table with the same public sums."""
        return distance_of_unit(self, self.nearest or 0)

    @property
    def unit_loss(self) -> UnitLoss:
        """As for `Guarantee`; infinite where every cell is published, or the law of the noise is not known."""
        return UNLIMITED if self.nearest is None or self.sampler_distance >= 1 else unit_loss(self)

    def delta_at(self, distance: float | Fraction = 1) -> float:
        """Delta at a distance, with what a Markov chain adds to it."""
        return min(1.0, super().delta_at(distance) + self._chain_delta(distance))

    @property
    def sampler_delta(self) -> float:
        """Added to delta at the nearest alternative by a Markov chain: ``(1 + exp(loss)) sampler_distance``."""
        return 0.0 if self.nearest is None else self._chain_delta(self.nearest)

    def _chain_delta(self, distance: float | Fraction) -> float:
        if not self.sampler_distance:
            return 0.0
        return min(1.0, (1 + math.exp(min(float(self.loss(distance)), 700.0))) * self.sampler_distance)

    def describe_unit(self) -> str:
        """As for `Guarantee`; states whether public sums tie the records of one unit to those of others."""
        if self.nearest is None:
            return "Nothing limits the loss: what is published exactly fixes every cell of the table."
        if self.sampler_distance >= 1:
            return "Nothing limits the loss: the distance of the noise from its stated law is not known."
        if not tied_distance(self):
            return describe_unit(self)
        return f"{describe_unit(self)} The public sums can be kept only by changing records of others too."

    def numbers(self) -> Json:
        """Give what a release file holds, rationals as text: words are made when they are read."""
        nearest = None if self.nearest is None else float(self.nearest)
        further = {"nearest": nearest, "fixed": self.fixed, "cells": self.cells}
        return super().numbers() | further | {"sampler_distance": self.sampler_distance}

    def to_dict(self) -> Json:
        """Plain data, rationals as text, under the field names of the OpenDP deployments registry."""
        numbers = self.numbers()
        return super().to_dict() | {name: numbers[name] for name in ("nearest", "fixed", "cells", "sampler_distance")}

    def _open(self) -> str:
        if not self.fixed:
            return super()._open()
        follow = f"{self.fixed} of the {self.cells} cells follow from it and are published as they are."
        return f"{super()._open()}\n{follow}"

    def _closed(self) -> str:
        if self.nearest is None:
            return "Protected: nothing. What is published exactly fixes every cell of the table."
        if self.sampler_distance >= 1:
            return "Promised: nothing. Nobody knows how far the chain that drew this is from the law that was meant."
        loss = self.loss(self.nearest)
        if self.metric is None and self.nearest == 1:
            return super()._closed()
        if self.metric is None:
            tail_probability = (
                f", but for a probability of {round_up(super().delta_at(self.nearest))}" if self.delta else ""
            )
            return (
                f"{super()._closed()} No two such tables are closer than {self.nearest} such steps; {self.nearest} of "
                f"them apart, the factor is at most exp({shown(loss)}) = {factor_of(loss)}{tail_probability}."
            )
        if self.rho is None:
            there = f"the factor is at most exp({shown(loss)}) = {factor_of(loss)}"
        else:
            # a bound on the loss itself (Bun and Steinke); the epsilon of `to_approximate` is smaller, and bounds less
            epsilon = float(loss) + 2 * math.sqrt(float(loss) * -math.log(float(RARE)))
            epsilon = float(round_up(epsilon))
            there = f"the factor exceeds exp({epsilon:g}) = {factor_of(epsilon)} with probability at most {RARE}"
        change = f" ({self.change})" if self.change else ""
        return (
            f"{super()._closed()} No two such tables are closer than {float(self.nearest):.4g}{change}; "
            f"at that distance {there}."
        )

    def _limits(self) -> str:
        chain = ""
        if 0 < self.sampler_distance < 1:
            by = round_up(self.sampler_distance, 2)
            chain = (
                f" The chain that drew the noise may differ from its law by up to {by} in "
                f"total variation, a limit that was measured at 95 % confidence and is not proved; that adds "
                f"{round_up(self.sampler_delta, 2)} to delta at the nearest alternative."
            )
        reach = "" if self.nearest is None else super()._limits()
        return f"{reach} Noise: {self.sampler}.{chain}".lstrip()
