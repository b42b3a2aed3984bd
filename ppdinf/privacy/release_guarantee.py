"""The guarantee of one release, at the nearest other table that the public sums allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Integers, Json
from ppdinf.lattice.blocks import structure
from ppdinf.lattice.shortest import shortest_step
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.unit_loss import (
    ADDED,
    PRESENT,
    REPLACED,
    SWAPPED,
    UNLIMITED,
    UnitLoss,
    describe_unit,
    distance_of_unit,
    exp_of,
    factor_of,
    round_up,
    unit_loss,
)


@dataclass(frozen=True, eq=False)
class PossibleTables:
    """Tables with the same public sums."""

    sums: sparse.csc_array
    answers: sparse.csc_array | None = None
    labels: str = ""

    @cached_property
    def _kinds(self) -> Integers:
        """One cell of each set of cells whose records give the same answers."""
        if self.answers is None:
            return np.arange(self.sums.shape[1])
        return np.unique(self.answers.toarray(), axis=1, return_index=True)[1]

    def nearest_step(self, guarantee: Guarantee) -> tuple[int | float, Integers | None] | None:
        """Return the smallest distance, in the terms of a guarantee, and a change at this distance."""
        kinds = self._kinds
        if guarantee.metric is not None:
            step = shortest_step(structure(self.sums), guarantee.metric)
            if step is None:
                return None
            return (int(np.abs(step).sum()) if guarantee.metric == "l1" else math.sqrt(int(step @ step))), step
        sums = sparse.csc_array(self.sums[:, kinds])
        if guarantee.neighbours in (REPLACED, SWAPPED):  # the number of records is known
            sums = sparse.vstack([sums, np.ones((1, kinds.size), dtype=np.int64)])
        elif guarantee.neighbours not in (ADDED, PRESENT):
            return 1, None
        elif self.answers is not None:  # a record without an answer changes nothing
            sums = sums[:, np.flatnonzero(abs(self.answers[:, kinds]).sum(axis=0))]
        step = shortest_step(structure(sums))
        if step is None:
            return None
        size = int(np.abs(step).sum())
        moved = {REPLACED: size // 2, SWAPPED: -(-size // 4)}  # of the records, and of their pairs
        return moved.get(str(guarantee.neighbours), size), None

    def joined(self, other: PossibleTables) -> PossibleTables | None:
        """Return the tables that two releases allow; None if the releases are not known to be of one table."""
        if self.sums.shape[1] != other.sums.shape[1]:
            return None
        sums = sparse.csc_array(sparse.vstack([self.sums, other.sums]))
        if self.answers is None and other.answers is None:
            return PossibleTables(sums, None, self.labels) if self.labels == other.labels else None
        if self.answers is None or other.answers is None:
            return PossibleTables(sums, None, self.labels if self.answers is None else other.labels)
        return PossibleTables(sums, sparse.csc_array(sparse.vstack([self.answers, other.answers])), self.labels)


RARE = "1e-6"


@dataclass(frozen=True, kw_only=True)
class ReleaseGuarantee(Guarantee):
    """The guarantee of one release, whose labels determine the nearest alternative table.

    Attributes
    ----------
    nearest : float or None
        Distance of the nearest different table with the same public sums, in the same metric (without a metric, in
        steps between neighbours); None if the public sums fix every cell.
    fixed : int
        Number of cells that follow from the published information, and are therefore published.
    cells : int
        Number of cells.
    sampler : str
        Description of the sampler; exact samplers add nothing to the loss.
    sampler_distance : float
        Bound on the total variation distance between the law of the draws and the stated law; 0 if exact. For a
        Markov chain it is measured, at 95 % confidence, and not proved.
    change : str, optional
        Difference to the nearest different table.
    part : str, optional
        For a part of a release: the selected labels.
    is_free : bool
        Whether it is proved that one record can be counted in any other cell, except in cells that follow from the
        published information, without a change of public sums.

    See Also
    --------
    ppdinf.privacy.Guarantee, ppdinf.Release

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import ReleaseGuarantee
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
    part: str | None = None
    is_free: bool = False

    @property
    def loss_at_nearest(self) -> Fraction | float | None:
        """Privacy loss between a table and its nearest alternative."""
        return None if self.nearest is None else self.loss(self.nearest)

    @property
    def distance_of_unit(self) -> int | float | None:
        """As for `Guarantee`; at least the distance of the nearest table with the same public sums."""
        return distance_of_unit(self, self.nearest or 0)

    @property
    def unit_loss(self) -> UnitLoss:
        """As for `Guarantee`; infinite if every cell is published, or if the law of the noise is not known."""
        return UNLIMITED if self.nearest is None or self.sampler_distance >= 1 else unit_loss(self)

    def delta_at(self, distance: float | Fraction = 1) -> float:
        """Delta at a distance, including the contribution of a Markov chain."""
        return min(1.0, super().delta_at(distance) + self._chain_delta(distance))

    @property
    def sampler_delta(self) -> float:
        """Contribution of a Markov chain to delta at the nearest alternative: ``(1 + exp(loss)) sampler_distance``."""
        return 0.0 if self.nearest is None else self._chain_delta(self.nearest)

    def _chain_delta(self, distance: float | Fraction) -> float:
        if not self.sampler_distance:
            return 0.0
        return min(1.0, (1 + math.exp(min(float(self.loss(distance)), 700.0))) * self.sampler_distance)

    def describe_unit(self) -> str:
        """As for `Guarantee`; without the loss together with others if each record alone can change."""
        if self.nearest is None:
            return "No guarantee: the exactly published information fixes every cell of the table."
        if self.sampler_distance >= 1:
            return "No guarantee: the distance of the noise from its stated law is not known."
        return describe_unit(self) if self.is_free else super().describe_unit()

    def numbers(self) -> Json:
        """Return the numbers in release files, with rational numbers as text; texts are composed by the reader."""
        nearest = None if self.nearest is None else float(self.nearest)
        further = {"nearest": nearest, "fixed": self.fixed, "cells": self.cells}
        return super().numbers() | further | {"sampler_distance": self.sampler_distance}

    def to_dict(self) -> Json:
        """Return plain data, with rational numbers as text, with the fields of the OpenDP deployments registry."""
        numbers = self.numbers()
        return super().to_dict() | {name: numbers[name] for name in ("nearest", "fixed", "cells", "sampler_distance")}

    def _open(self) -> str:
        if not self.fixed:
            return super()._open()
        follow = f"{self.fixed} of the {self.cells} cells follow from this information"
        return f"{super()._open()}\n{follow}: their exact counts are published."

    def _closed(self) -> str:
        if self.nearest is None:
            return "Protected: nothing. The exactly published information fixes every cell of the table."
        if self.sampler_distance >= 1:
            return "No guarantee: the distance between the draws of the Markov chain and the stated law is not known."
        loss = self.loss(self.nearest)
        if self.metric is None and self.nearest == 1:
            return super()._closed()
        if self.metric is None:
            tail_probability = (
                f", except with probability {round_up(super().delta_at(self.nearest))}" if self.delta else ""
            )
            return (
                f"{super()._closed()} Two such tables are at least {self.nearest} steps apart; at this distance the "
                f"factor is at most {exp_of(loss)}{tail_probability}."
            )
        if self.rho is None:
            there = f"the factor is at most {exp_of(loss)}"
        else:
            # a bound on the loss itself (Bun and Steinke); the epsilon of `to_approximate` is smaller and bounds less
            epsilon = float(loss) + 2 * math.sqrt(float(loss) * -math.log(float(RARE)))
            epsilon = float(round_up(epsilon))
            there = f"the factor exceeds exp({epsilon:g}) = {factor_of(epsilon)} with probability at most {RARE}"
        change = f" ({self.change})" if self.change else ""
        return (
            f"{super()._closed()} The distance of two such tables is at least {float(self.nearest):.4g}{change}; "
            f"at this distance {there}."
        )

    def _limits(self) -> str:
        chain = ""
        if 0 < self.sampler_distance < 1:
            by = round_up(self.sampler_distance, 2)
            chain = (
                f" The law of the Markov chain's draws may differ from the stated law by up to {by} in "
                f"total variation, a bound that was measured at 95 % confidence and is not proved; it adds "
                f"{round_up(self.sampler_delta, 2)} to delta at the nearest alternative."
            )
        reach = "" if self.nearest is None else super()._limits()
        selected = (
            f" The table is a part of a release ({self.part}). Selecting costs no privacy: the guarantee of "
            "the complete release also holds for the part."
            if self.part
            else ""
        )
        return f"{reach} Noise: {self.sampler}.{chain}{selected}".lstrip()
