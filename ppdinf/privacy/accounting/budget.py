"""A budget of privacy loss, and what promises take from it together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from ppdinf._internal.frozen import assign
from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf.errors import BudgetError, PrivacyError
from ppdinf.privacy.accounting.composition import compose_partition
from ppdinf.privacy.guarantees.conversion import as_delta
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.restatement import to_zcdp
from ppdinf.privacy.guarantees.unit_loss import REPLACED, describe_loss

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """What may be spent: epsilon, epsilon and delta, or rho, per unit of distance or between neighbours.

    Parameters
    ----------
    epsilon : int, float, str or Fraction, optional
        Budget of epsilons and, where it has a `delta`, of deltas; each of them adds up.
    delta : int, float, str or Fraction, optional
        Beside epsilon; without it, releases with a delta are refused.
    rho : int, float, str or Fraction, optional
        Budget of zCDP loss; pure releases count with half the square of their loss, Gaussian noise with its own rho
        however it was calibrated.

    Raises
    ------
    PrivacyError
        Neither or both of epsilon and rho, delta without epsilon, or one out of range.

    Examples
    --------
    >>> promise = Guarantee("pure", Fraction(1, 2), metric="l1")
    >>> Budget(epsilon=2).spent([promise, promise])
    {'epsilon': Fraction(1, 1)}
    >>> Budget(rho=1).spent([promise, promise])
    {'rho': Fraction(1, 4)}
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None

    def __init__(
        self, epsilon: Parameter | None = None, delta: Parameter | None = None, rho: Parameter | None = None
    ) -> None:
        if (epsilon is None) == (rho is None):
            raise PrivacyError("a budget is in epsilon or in rho: give one of the two")
        if delta is not None and epsilon is None:
            raise PrivacyError("a delta goes beside epsilon: a budget of rho gives an epsilon at every delta")
        assign(
            self,
            epsilon=None if epsilon is None else as_fraction(epsilon, "epsilon"),
            delta=None if delta is None else as_delta(delta),
            rho=None if rho is None else as_fraction(rho, "rho"),
        )

    @property
    def total(self) -> dict[str, Fraction]:
        """The budget by the name of each of its parts."""
        parts = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        return {name: value for name, value in parts.items() if value is not None}

    def describe(self, unit: str = "person", contributions: int = 1) -> str:
        """State how much one unit can lose if the whole budget is spent, for each way in which losses are counted.

        Parameters
        ----------
        unit : str
            Whom the budget protects.
        contributions : int
            Records of one unit at most.

        Examples
        --------
        >>> print(Budget(epsilon=1).describe().splitlines()[1].strip())
        epsilon = 2 (a factor of 7.39 in the odds), delta = 0 by l1 noise, or noise for a record added or removed
        """
        variant = "zcdp" if self.rho is not None else "approximate" if self.delta is not None else "pure"
        whole = partial(Guarantee, variant, self.epsilon, self.delta or Fraction(0), self.rho)
        whole = partial(whole, unit=unit, contributions=contributions)
        records = f" with up to {contributions} records" if contributions > 1 else ""
        return "\n".join(
            (
                f"One {unit}{records} can lose at most, if the whole budget is spent:",
                f"  {describe_loss(whole(metric='l1'))} by l1 noise, or noise for a record added or removed",
                f"  {describe_loss(whole(metric='l2'))} by l2 noise",
                f"  {describe_loss(whole(neighbours=REPLACED))} by noise for a record replaced by another",
                "Under public sums it can be more: the guarantee of each release states its loss.",
            )
        )

    def composed(self, promises: Sequence[Guarantee], parts: Sequence[str | None] | None = None) -> Guarantee:
        """Join what releases promise, in the terms of the budget, where `parts` says which are about whom.

        Raises
        ------
        PrivacyError
            As `ppdinf.privacy.compose_partition` and `to_zcdp`.
        """
        counted = promises if self.rho is None else [to_zcdp(promise) for promise in promises]
        # every release draws noise of its own
        return compose_partition(counted, [None] * len(counted) if parts is None else parts)

    def spent(self, promises: Sequence[Guarantee], parts: Sequence[str | None] | None = None) -> dict[str, Fraction]:
        """Add up what releases take from each part of the budget; `parts` as for `composed`.

        Raises
        ------
        PrivacyError
            As `composed`; or the budget does not count what one of them promises.
        """
        if not promises:
            return dict.fromkeys(self.total, Fraction(0))
        if self.rho is None and any(promise.rho is not None for promise in promises):
            raise PrivacyError("a zCDP release cannot be entered against a budget of epsilon: budget in rho")
        together = self.composed(promises, parts)
        if together.delta and self.delta is None:
            raise PrivacyError("a release with a delta cannot be entered against a budget without one; budget in rho")
        loss = Fraction(together.loss(1))
        return {name: together.delta if name == "delta" else loss for name in self.total}

    def left(self, promises: Sequence[Guarantee], parts: Sequence[str | None] | None = None) -> dict[str, Fraction]:
        """Subtract what releases take from each part of the budget; `parts` as for `composed`."""
        spent = self.spent(promises, parts)
        return {name: total - spent[name] for name, total in self.total.items()}

    def require(
        self,
        earlier: Sequence[Guarantee],
        promise: Guarantee,
        parts: Sequence[str | None] = (),
        part: str | None = None,
    ) -> None:
        """Refuse a release that would overspend; `parts` are those of the earlier ones, `part` is its own.

        Raises
        ------
        BudgetError
            It would; what is left is said.
        PrivacyError
            As `spent`.
        """
        parts = parts or [None] * len(earlier)
        left = self.left(earlier, parts)
        for name, would in self.spent([*earlier, promise], [*parts, part]).items():
            if would > self.total[name]:
                raise BudgetError(
                    f"with this release {name} = {float(would):.6g} would be spent of {float(self.total[name]):.6g}: "
                    f"{float(left[name]):.6g} is left"
                )
