"""What a release protects, per unit of what, against whom, and what it does not protect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Literal

from ppdinf._internal.types import Json
from ppdinf.errors import PrivacyError
from ppdinf.privacy.guarantees.wording import factor_of, round_up, shown

__all__ = ["SWAP", "Guarantee", "require_distance"]

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
SWAP = {"l1": 2, "l2": math.sqrt(2)}


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

    Raises
    ------
    PrivacyError
        An unknown variant or metric; neither or both of epsilon and rho; neither or both of metric and neighbours.

    Examples
    --------
    >>> promise = Guarantee("integer-subspace", Fraction(1, 4), metric="l1", unprotected=("the total",))
    >>> print(promise.describe().splitlines()[0])
    Not protected, because it is published exactly: the total.
    >>> promise.loss(2)
    Fraction(1, 2)
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
    def loss_of_unit(self) -> Fraction | float:
        """Privacy loss when one unit's records are all counted elsewhere, or replaced: the loss of their group.

        Of a Pufferfish guarantee that between the two statements of a pair, whatever they are about.
        """
        if self.variant == "pufferfish":
            return self.loss()
        if self.metric is None:
            return self.loss(self.contributions)
        if self.metric == "l2" and self.rho is not None:
            return 2 * self.rho * self.contributions**2
        return self.loss(self.contributions * SWAP[self.metric])

    def delta_at(self, distance: float | Fraction = 1) -> float:
        """Probability with which ``exp(loss(k))`` can be exceeded: ``(e^(epsilon k) - 1) / (e^epsilon - 1) delta``."""
        require_distance(distance)
        if self.delta == 0 or distance == 1 or self.epsilon is None:
            return float(self.delta)
        unit, there = float(self.loss(1)), float(self.loss(distance))
        if not unit or not there:
            return min(1.0, float(self.delta) * float(distance))
        log_ratio = there - unit + math.log(-math.expm1(-there)) - math.log(-math.expm1(-unit))
        return math.exp(min(0.0, log_ratio + math.log(self.delta)))

    def describe(self) -> str:
        """Say it in two paragraphs that need no background in privacy."""
        return "\n\n".join([self._open(), f"{self._closed()} {self._limits()}".rstrip()])

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
        return {
            "dp_flavor": {
                "name": name,
                "input_metric": self.metric or "neighbours",
                "output_measure": measure,
                "unprotected_quantities": list(self.unprotected + self.known),
            },
            "privacy_loss": {
                "privacy_unit": self.unit,
                "privacy_unit_description": f"{unit}; {self._group()}" if self.contributions > 1 else unit,
                "privacy_parameters": {
                    name: value for name, value in Guarantee.numbers(self).items() if name not in ("variant", "metric")
                },
            },
        }

    def _open(self) -> str:
        published = "; ".join(self.unprotected)
        exactly = f"Not protected, because it is published exactly: {published}."
        lines = [exactly if published else "Nothing is published exactly."]
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
                f"in {self.neighbours} by {self._strength('')}.{self._together()}"
            )
        return (
            f"{which}else somebody knows, the release can change the odds between two such tables at distance k by "
            f"{self._strength(' k')}. The distance between two tables is {_METRICS[self.metric]}; counting one "
            f"{self.unit if self.contributions == 1 else 'record'} in another cell is a distance of "
            f"{'2' if self.metric == 'l1' else 'the square root of 2'}.{self._together()}"
        )

    def _group(self) -> str:
        """Say how many records one unit has."""
        return f"one {self.unit} has up to {self.contributions} records"

    def _together(self) -> str:
        """Say what all records of one unit lose, where there can be several."""
        if self.contributions == 1:
            return ""
        loss, where = self.loss_of_unit, "which all of them can move together"
        steps = self.contributions * (1 if self.metric is None else SWAP[self.metric])
        if self.rho is not None:
            return f" {self._group().capitalize()}, {where}: the loss is then rho = {shown(loss)}."
        tail_probability = f", but for a probability of {round_up(self.delta_at(steps))}" if self.delta else ""
        then = f"the factor is then at most exp({shown(loss)}) = {factor_of(loss)}{tail_probability}"
        return f" {self._group().capitalize()}, {where}: {then}."

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
