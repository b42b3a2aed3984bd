"""The statement of a guarantee: loss, distance, protected and unprotected information."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING

from ppdinf._internal.values import Json, as_html, require_choice
from ppdinf.errors import PrivacyError
from ppdinf.privacy.unit_loss import (
    UnitLoss,
    describe_others,
    describe_unit,
    distance_of_unit,
    exp_of,
    factor_of,
    format_loss,
    group_delta,
    round_up,
    unit_loss,
)

if TYPE_CHECKING:
    from ppdinf.privacy.release_guarantee import PossibleTables


# name in the literature, and measure of the loss (terms of the OpenDP deployments registry)
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
    ``D_alpha(M(x) | M(x')) <= alpha rho k**2`` for all alpha (zCDP). Without a metric, it holds between `neighbours`.

    Attributes
    ----------
    variant : {"pure", "approximate", "zcdp", "subspace", "integer-subspace", "congenial", "pufferfish"}
        "subspace" compares neighbours with the same public information (Gao et al., Definition 2.6). "congenial"
        conditions a mechanism on public information (Gong and Meng). "pufferfish" compares models of the data given
        public information (Seeman et al., Definition 3), by epsilon or by rho.
    epsilon : Fraction, optional
        Privacy loss per unit of distance, or between neighbours.
    delta : Fraction
        Probability of exceeding the factor, at distance 1 or between neighbours.
    rho : Fraction, optional
        zCDP loss per unit of squared distance, or between neighbours.
    metric : {"l1", "l2"}, optional
        Distance between tables, in persons.
    neighbours : str, optional
        Difference between two neighbours.
    gamma : float, optional
        Cost of conditioning on the public information: the loss is ``(1 + gamma) epsilon``.
    unprotected : tuple of str
        Exactly published information.
    known : tuple of str
        Assumed knowledge about every table.
    unit : str
        The protected unit (`ppdinf.invariants.unit`).
    contributions : int
        Largest number of records of one unit.
    models : str, optional
        For "pufferfish", the models of the data.
    assumed : tuple of str
        Unproved assumptions of the guarantee.
    concentrated : Guarantee, optional
        The zCDP guarantee of the same Gaussian noise, if stated otherwise: for `ppdinf.privacy.to_zcdp`.
    steps : int, optional
        Number of steps between `neighbours` from a table to a table that counts one record in another cell; 0 if steps
        do not lead to every such table. By default 1 for a replaced record and 2 for other neighbours.
    tied : float
        Distance of the nearest other table with the same public sums, if one unit's records alone keep no sum;
        infinite if no other table has them.
    possible : PossibleTables, optional
        The tables with the same public sums: composed guarantees hold for tables with the public sums of all releases.

    Raises
    ------
    PrivacyError
        An unknown variant or metric; neither or both of epsilon and rho; neither or both of metric and neighbours.

    See Also
    --------
    ppdinf.privacy.ReleaseGuarantee, ppdinf.privacy.compose

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ppdinf.privacy import Guarantee
    >>> guarantee = Guarantee("integer-subspace", Fraction(1, 4), metric="l1")
    >>> print(guarantee.describe().splitlines()[0])
    One person can lose at most epsilon = 0.5 (a factor of 1.65 in the odds), delta = 0.
    >>> guarantee.loss(2), guarantee.loss_of_unit
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
    possible: PossibleTables | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        require_choice("variant", self.variant, _FLAVOURS)
        require_choice("metric", self.metric, _METRICS, default=None)
        allowed = {"zcdp": (False,), "pufferfish": (True, False)}.get(self.variant, (True,))
        if (self.epsilon is None) == (self.rho is None) or (self.rho is None) not in allowed:
            raise PrivacyError("a zCDP guarantee must have rho, a Pufferfish guarantee rho or epsilon, others epsilon")
        if (self.metric is None) == (self.neighbours is None):
            raise PrivacyError("a guarantee must have either a metric or neighbours")
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"delta must be in [0, 1), found {float(self.delta):g}")
        if self.steps is not None and (type(self.steps) is not int or self.steps < 0):
            raise PrivacyError(f"steps must be a non-negative integer, found {self.steps!r:.60}")
        if self.tied != math.inf:
            require_distance(self.tied)

    def loss(self, distance: float | Fraction = 1) -> Fraction | float:
        """Privacy loss at a distance of the metric, or for a group of `distance` steps between neighbours.

        Returns
        -------
        Fraction or float
            ``(1 + gamma) epsilon k``, in zCDP ``rho k**2``.

        Raises
        ------
        PrivacyError
            The distance is not a finite non-negative number; or the guarantee is about two statements under models of
            the data, which have no distance.
        """
        require_distance(distance)
        if self.variant == "pufferfish" and distance != 1:
            raise PrivacyError(
                "a Pufferfish guarantee holds between the two statements of a pair, for all tables: it has no loss at "
                "a distance, use loss()"
            )
        if self.epsilon is None:
            return (self.rho or 0) * distance**2
        return self.epsilon * distance * (1 if self.gamma is None else 1 + self.gamma)

    @property
    def distance_of_unit(self) -> int | float | None:
        """Distance, or number of steps between neighbours, by which one unit's records can move a table.

        All records of the unit are counted in other cells, replaced, or absent: 2 in l1 and the square root of 2 in l2
        for each record, one step for a replaced record, two for a record that is removed and added elsewhere. None if
        steps do not lead to every such table.
        """
        return distance_of_unit(self, self.tied)

    @property
    def unit_loss(self) -> UnitLoss:
        """Privacy loss of one unit with all its records, and the corresponding delta."""
        return unit_loss(self)

    @property
    def loss_of_unit(self) -> Fraction | float:
        """Privacy loss of one unit with all its records: epsilon, or rho in zCDP; infinite if no bound is known.

        In Pufferfish privacy, the loss of one secret under the stated models. It does not depend on the unit.
        """
        return self.unit_loss.loss

    @property
    def delta_of_unit(self) -> Fraction | float:
        """Probability of exceeding ``exp(loss_of_unit)``."""
        return self.unit_loss.delta

    def delta_at(self, distance: float | Fraction = 1) -> float:
        """Probability of exceeding ``exp(loss(k))``: ``(e^(epsilon k) - 1) / (e^epsilon - 1) delta``."""
        require_distance(distance)
        return float(group_delta(self, distance))

    def describe(self) -> str:
        """Describe the guarantee in two paragraphs for lay readers; the first number is the loss of one unit."""
        return "\n\n".join([self._open(), f"{self._closed()} {self._limits()}".rstrip()])

    def describe_unit(self) -> str:
        """Describe how much one unit can lose, alone and together with others; `describe` starts with this text.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from ppdinf.privacy import Guarantee
        >>> print(Guarantee("pure", Fraction(1, 2), neighbours="one record added or removed").describe_unit())
        One person can lose at most epsilon = 1 (a factor of 2.72 in the odds), delta = 0.
        """
        return f"{describe_unit(self)} {describe_others(self)}".rstrip() if self.unprotected else describe_unit(self)

    def _repr_html_(self) -> str:
        return as_html(self.describe_unit(), self.describe())

    def numbers(self) -> Json:
        """Return the numbers in release files, with rational numbers as text; texts are composed by the reader."""
        losses = {"epsilon": self.epsilon, "delta": self.delta or None, "rho": self.rho}
        texts = {name: str(value) for name, value in losses.items() if value is not None}
        rest = {"metric": self.metric, "gamma": self.gamma}
        return {"variant": self.variant} | texts | {name: value for name, value in rest.items() if value is not None}

    def to_dict(self) -> Json:
        """Return plain data, with rational numbers as text, with the fields of the OpenDP deployments registry."""
        name, measure = _FLAVOURS[self.variant]
        if self.variant == "pufferfish" and self.rho is not None:
            name, measure = f"Concentrated {name}", measure.replace("max", "zero-concentrated")
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
            lines.append(f"Not protected, because it is assumed to be known of every table: {'; '.join(self.known)}.")
        lines.append(
            "Labels of the table, their order, and everything that follows from this information are not protected."
        )
        if self.assumed:
            lines.append(f"Assumed without proof: {'; '.join(self.assumed)}.")
        return "\n".join(lines)

    def _closed(self) -> str:
        if self.variant == "pufferfish":
            by = f"a factor of at most {exp_of(self.loss())}" if self.rho is None else self._strength("")
            return (
                f"Protected: {self.neighbours}. Under {self.models or 'the intended models of the data'}, "
                f"given the public information, the release changes the odds between the two by {by}. The guarantee "
                "covers no other models."
            )
        which = "Protected: the confidential table among all tables that agree with this information. For every prior "
        if self.metric is None:
            return (
                f"{which}knowledge, the release changes the odds between two such tables that differ in "
                f"{self.neighbours} by {self._strength('')}."
            )
        return (
            f"{which}knowledge, the release changes the odds between two such tables at distance k by "
            f"{self._strength(' k')}. The distance between two tables is {_METRICS[self.metric]}; counting one "
            f"{self.unit if self.contributions == 1 else 'record'} in another cell is a distance of "
            f"{'2' if self.metric == 'l1' else 'the square root of 2'}."
        )

    def _strength(self, per: str) -> str:
        if self.rho is not None:
            steep = " k^2" if per else ""
            return f"the amount that zero-concentrated DP with rho{steep} allows, with rho = {format_loss(self.rho)}"
        rate = "(1 + gamma) epsilon" if self.gamma is not None else "epsilon"
        if not self.epsilon and not self.delta:
            return "a factor of 1, that is, not at all"
        text = f"a factor of at most exp({rate}{per}), with epsilon = {format_loss(self.epsilon or 0)}"
        if self.gamma is not None:
            text += f" and gamma = {round_up(self.gamma)}, the cost of conditioning on public information"
        if self.delta:
            grows = ", a probability that grows with k as the factor does" if per else ""
            text += f", except with probability delta = {round_up(self.delta)}{grows}"
        return text

    def _limits(self) -> str:
        uncovered = "The guarantee does not cover tables that differ in the public information."
        if self.variant == "pufferfish":
            return ""
        if self.metric is None or (not self.epsilon and self.rho is None):
            return uncovered
        far = self.loss(20)
        if self.rho is not None:
            reach = f"at a distance of 20 the loss reaches rho = {format_loss(far)}"
        else:
            reach = f"at a distance of 20 the factor can reach {factor_of(far)}"
        return f"Tables at a larger distance are easier to distinguish: {reach}. {uncovered}"


def circumstances(guarantee: Guarantee) -> Json:
    """Return what does not depend on the losses: public and known information, assumptions, and whom it protects."""
    names = ("unprotected", "known", "assumed", "unit", "contributions")
    return {name: getattr(guarantee, name) for name in names}


def require_distance(distance: object) -> None:
    """Require a finite non-negative number."""
    if isinstance(distance, bool) or not isinstance(distance, Real) or not 0 <= float(distance) < math.inf:
        raise PrivacyError(f"a distance must be a finite non-negative number, found {distance!r:.60}")
