"""What a release protects, per unit of what, against whom, and what it does not protect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Literal

from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantees.unit_loss import UnitLoss, describe_unit, distance_of_unit, group_delta, unit_loss
from ppdinf.privacy.guarantees.wording import factor_of, round_up, shown

__all__ = ["Guarantee", "require_distance"]

type Variant = Literal["pure", "approximate", "zcdp", "subspace", "integer-subspace", "congenial", "pufferfish"]

# name in the literature, and how the loss is measured (the words of the OpenDP deployments registry)
_FLAVOURS = {
    "pure": ("Pure DP", "max divergence"),
    "approximate": ("Approximate DP", "approximate max divergence"),
    "zcdp": ("Zero-concentrated DP", "zero-concentrated divergence"),
    "subspace": ("Subspace DP", "approximate max divergence"),
    "integer-subspace": ("Integer subspace DP", "approximate max divergence"),
    "congenial": ("Congenial DP", "max divergence"),
    "pufferfish": ("Pufferfish given public information", "max divergence over models of the data"),
}
_METRICS = {
    "l1": "the sum over all cells of the absolute differences of their counts",
    "l2": "the Euclidean distance of their counts",
}


@dataclass(frozen=True)
class Guarantee:
    """A privacy guarantee among tables with the same public information.

    With a `metric`, the loss grows with the distance k of two tables: ``P(M(x) in S) <= exp(epsilon k) P(M(x') in S)
    + delta_at(k)`` (integer subspace differential privacy, Dharangutte et al., Definition 2), or
    ``D_alpha(M(x) | M(x')) <= alpha rho k**2`` for all alpha (zCDP). Without one, it holds between `neighbours`.

    Attributes
    ----------
    variant : {"pure", "approximate", "zcdp", "subspace", "integer-subspace", "congenial", "pufferfish"}
        "subspace" compares neighbours with the same public information (Gao et al., Definition 2.2), "congenial"
        conditions a mechanism on what is public (Gong and Meng), "pufferfish" compares models of the data given
        what is public (Seeman et al., Definition 3).
    epsilon : Fraction, optional
        Privacy loss per unit of distance, or between neighbours.
    delta : Fraction
        Probability with which the factor can be exceeded, at distance 1 or between neighbours.
    rho : Fraction, optional
        zCDP loss per unit of squared distance, or between neighbours.
    metric : {"l1", "l2"}, optional
        How the distance between tables is measured, in persons.
    neighbours : str, optional
        What two neighbours differ in.
    gamma : float, optional
        What conditioning on the public information costs: the loss is ``(1 + gamma) epsilon``.
    unprotected : tuple of str
        What is published exactly.
    known : tuple of str
        What is taken to be known of every table.
    unit : str
        Whom it protects (`ppdinf.invariants.unit`).
    contributions : int
        Records of one unit at most.
    models : str, optional
        For "pufferfish", under which models of the data.
    assumed : tuple of str
        What the promise takes on trust, since nothing proves it.
    concentrated : Guarantee, optional
        What the same noise promises in zCDP, where it is Gaussian and stated otherwise: for `ppdinf.privacy.to_zcdp`.
    steps : int, optional
        Number of steps between `neighbours` from a table to one that counts one record in another cell; 0 where steps
        do not lead to every such table. By default 1 for a record that is replaced and 2 for other neighbours.
    tied : float
        Distance of the nearest other table with the same public sums, where one unit's records alone keep no sum.

    Raises
    ------
    PrivacyError
        An unknown variant or metric; neither or both of epsilon and rho; neither or both of metric and neighbours.

    Examples
    --------
    >>> promise = Guarantee("integer-subspace", Fraction(1, 4), metric="l1")
    >>> print(promise.describe().splitlines()[0])
    One person can lose at most epsilon = 0.5 (a factor of 1.65 in the odds), delta = 0.
    >>> promise.loss(2), promise.loss_of_unit
    (Fraction(1, 2), Fraction(1, 2))
    """

    variant: str
    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    metric: str | None = None
    neighbours: str | None = None
    gamma: float | None = None
    unprotected: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    unit: str = "person"
    contributions: int = 1
    models: str | None = None
    assumed: tuple[str, ...] = ()
    concentrated: Guarantee | None = None
    steps: int | None = None
    tied: float | Fraction = 0

    def __post_init__(self) -> None:
        if self.variant not in _FLAVOURS:
            raise PrivacyError(f"variant must be one of {list(_FLAVOURS)}, found {self.variant!r}")
        if self.metric is not None and self.metric not in _METRICS:
            raise PrivacyError(f"metric must be one of {sorted(_METRICS)}, found {self.metric!r}")
        if (self.epsilon is None) == (self.rho is None) or (self.rho is None) == (self.variant == "zcdp"):
            raise PrivacyError("a zCDP guarantee is stated by rho, every other one by epsilon")
        if (self.metric is None) == (self.neighbours is None):
            raise PrivacyError("a guarantee holds per unit of a metric, or between neighbours: state one of the two")
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"delta must lie in [0, 1), found {float(self.delta):g}")
        if self.steps is not None and (type(self.steps) is not int or self.steps < 0):
            raise PrivacyError(f"steps must be an integer from 0 on, found {self.steps!r:.60}")
        require_distance(self.tied)

    def loss(self, distance: float | Fraction = 1) -> Fraction | float:
        """Privacy loss at a distance of the metric, or for a group of that many steps between neighbours.

        Returns
        -------
        Fraction or float
            ``(1 + gamma) epsilon k``, in zCDP ``rho k**2``.

        Raises
        ------
        PrivacyError
            The distance is no finite number from 0 on. Or the guarantee is about two statements under models of the
            data, between which there are no steps.
        """
        require_distance(distance)
        if self.variant == "pufferfish" and distance != 1:
            raise PrivacyError(
                "a Pufferfish guarantee holds between the two statements of a pair, whatever the tables: it has no "
                "loss at a distance, so ask for loss()"
            )
        if self.epsilon is None:
            return (self.rho or 0) * distance**2
        return self.epsilon * distance * (1 if self.gamma is None else 1 + self.gamma)

    @property
    def distance_of_unit(self) -> int | float | None:
        """Distance, or number of steps between neighbours, by which one unit's records can move a table.

        All records of the unit are counted in other cells, replaced, or absent: 2 in l1 and the square root of 2 in l2
        for each record, one step for a record that is replaced, two for one that is removed and added elsewhere. None
        where steps do not lead to every such table.
        """
        return distance_of_unit(self, self.tied)

    @property
    def unit_loss(self) -> UnitLoss:
        """Privacy loss of one unit with all its records, and the delta that belongs to it."""
        return unit_loss(self)

    @property
    def loss_of_unit(self) -> Fraction | float:
        """Privacy loss of one unit with all its records: epsilon, or rho in zCDP; infinite where none is known."""
        return self.unit_loss.loss

    @property
    def delta_of_unit(self) -> Fraction | float:
        """Probability with which ``exp(loss_of_unit)`` can be exceeded."""
        return self.unit_loss.delta

    def delta_at(self, distance: float | Fraction = 1) -> float:
        """Probability with which ``exp(loss(k))`` can be exceeded: ``(e^(epsilon k) - 1) / (e^epsilon - 1) delta``."""
        require_distance(distance)
        return float(group_delta(self, distance))

    def describe(self) -> str:
        """Say it in two paragraphs that need no background in privacy; the first number is the loss of one unit."""
        return "\n\n".join([self._open(), f"{self._closed()} {self._limits()}".rstrip()])

    def describe_unit(self) -> str:
        """State in one or two sentences how much one unit can lose, with delta; `describe` starts with them.

        Examples
        --------
        >>> print(Guarantee("pure", Fraction(1, 2), neighbours="one record added or removed").describe_unit())
        One person can lose at most epsilon = 1 (a factor of 2.72 in the odds), delta = 0.
        """
        if not (self.unprotected and self.metric):
            return describe_unit(self)
        return (
            f"{describe_unit(self)} Where the public sums can be kept only by changing records of others too, the loss "
            "is that of the whole change."
        )

    def numbers(self) -> Json:
        """Give what a release file holds, rationals as text: words are made when they are read."""
        given = {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self.rho}
        texts = {name: str(value) for name, value in given.items() if value is not None}
        rest = {"metric": self.metric, "gamma": self.gamma}
        return {"variant": self.variant} | texts | {name: value for name, value in rest.items() if value is not None}

    def to_dict(self) -> Json:
        """Plain data, rationals as text, under the field names of the OpenDP deployments registry."""
        name, measure = _FLAVOURS[self.variant]
        if self.unprotected and self.variant in ("pure", "approximate", "zcdp"):
            name = f"{name} among tables with the same public information"
        unit = self.neighbours or f"per unit of {self.metric} distance{' squared' * (self.rho is not None)}"
        group = f"one {self.unit} has up to {self.contributions} records"
        return {
            "dp_flavor": {
                "name": name,
                "input_metric": self.metric or "neighbours",
                "output_measure": measure,
                "unprotected_quantities": list(self.unprotected + self.known),
            },
            "privacy_loss": {
                "privacy_unit": self.unit,
                "privacy_unit_description": f"{unit}; {group}" if self.contributions > 1 else unit,
                "privacy_parameters": {
                    name: value for name, value in Guarantee.numbers(self).items() if name not in ("variant", "metric")
                },
            },
        }

    def _open(self) -> str:
        published = "; ".join(self.unprotected)
        exactly = f"Not protected, because it is published exactly: {published}."
        lines = [self.describe_unit(), exactly if published else "Nothing is published exactly."]
        if self.known:
            lines.append(f"Not protected, because it is taken to be known of every table: {'; '.join(self.known)}.")
        lines.append(
            "Nor is anything that can be worked out from this alone, nor the labels of the table or their order."
        )
        if self.assumed:
            lines.append(f"Taken on trust, since nothing here proves it: {'; '.join(self.assumed)}.")
        return "\n".join(lines)

    def _closed(self) -> str:
        if self.variant == "pufferfish":
            return (
                f"Protected: {self.neighbours}. Under {self.models or 'the models of the data that were meant'}, "
                "given what is public, the release changes the odds between the two by a factor of at most "
                f"exp({shown(self.loss())}) = {factor_of(self.loss())}. Under other models nothing is promised."
            )
        which = "Protected: which table, among all that agree with this information, is the confidential one. Whatever "
        if self.metric is None:
            return (
                f"{which}else somebody knows, the release can change the odds between two such tables that differ "
                f"in {self.neighbours} by {self._strength('')}."
            )
        return (
            f"{which}else somebody knows, the release can change the odds between two such tables at distance k by "
            f"{self._strength(' k')}. The distance between two tables is {_METRICS[self.metric]}; counting one "
            f"{self.unit if self.contributions == 1 else 'record'} in another cell is a distance of "
            f"{'2' if self.metric == 'l1' else 'the square root of 2'}."
        )

    def _strength(self, per: str) -> str:
        if self.rho is not None:
            steep = " k^2" if per else ""
            return f"what zero-concentrated differential privacy with rho{steep} allows, with rho = {shown(self.rho)}"
        rate = "(1 + gamma) epsilon" if self.gamma is not None else "epsilon"
        if not self.epsilon and not self.delta:
            return "a factor of 1, which is not at all"
        text = f"a factor of at most exp({rate}{per}), with epsilon = {shown(self.epsilon or 0)}"
        if self.gamma is not None:
            text += f" and gamma = {round_up(self.gamma)}, the cost of conditioning on what is public"
        if self.delta:
            grows = ", a probability that grows with k as the factor does" if per else ""
            text += f", but for a probability of delta = {round_up(self.delta)}{grows}"
        return text

    def _limits(self) -> str:
        nothing = "Nothing is promised between tables that differ in the public information."
        if self.variant == "pufferfish":
            return ""
        if self.metric is None or (not self.epsilon and self.rho is None):
            return nothing
        far = self.loss(20)
        if self.rho is not None:
            reach = f"at a distance of 20 the loss reaches rho = {shown(far)}"
        else:
            reach = f"at a distance of 20 the factor can reach {factor_of(far)}"
        return f"Tables further apart are told apart more easily: {reach}. {nothing}"


def require_distance(distance: object) -> None:
    """Refuse all but finite numbers from 0 on."""
    if isinstance(distance, bool) or not isinstance(distance, Real) or not 0 <= float(distance) < math.inf:
        raise PrivacyError(f"a distance is a finite number from 0 on, found {distance!r:.60}")
