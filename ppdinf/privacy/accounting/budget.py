"""A budget of privacy loss, and the loss that guarantees spend together."""

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


@dataclass(frozen=True)
class Budget:
    """A budget: epsilon, epsilon and delta, or rho, per unit of distance or between neighbours."""

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None

    def __init__(
        self, epsilon: Parameter | None = None, delta: Parameter | None = None, rho: Parameter | None = None
    ) -> None:
        if (epsilon is None) == (rho is None):
            raise PrivacyError("a budget must have either epsilon or rho")
        if delta is not None and epsilon is None:
            raise PrivacyError("delta requires epsilon: a budget of rho implies an epsilon for every delta")
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
        """Describe how much one unit can lose if the whole budget is spent, for each unit of losses."""
        variant = "zcdp" if self.rho is not None else "approximate" if self.delta is not None else "pure"
        total_guarantee = partial(Guarantee, variant, self.epsilon, self.delta or Fraction(0), self.rho)
        total_guarantee = partial(total_guarantee, unit=unit, contributions=contributions)
        records = f" with up to {contributions} records" if contributions > 1 else ""
        return "\n".join(
            (
                f"One {unit}{records} can lose at most, if the whole budget is spent:",
                f"  {describe_loss(total_guarantee(metric='l1'))} by l1 noise, or noise for a record added or removed",
                f"  {describe_loss(total_guarantee(metric='l2'))} by l2 noise",
                f"  {describe_loss(total_guarantee(neighbours=REPLACED))} by noise for a record replaced by another",
                "With public sums the loss can be larger: the guarantee of each release states its loss.",
            )
        )

    def composed(self, guarantees: Sequence[Guarantee], parts: Sequence[str | None] | None = None) -> Guarantee:
        """Return the joint guarantee of releases in the terms of the budget; `parts` names each release's part."""
        counted = guarantees if self.rho is None else [to_zcdp(guarantee) for guarantee in guarantees]
        # the noise of different releases is independent
        return compose_partition(counted, [None] * len(counted) if parts is None else parts)

    def spent(self, guarantees: Sequence[Guarantee], parts: Sequence[str | None] | None = None) -> dict[str, Fraction]:
        """Return the spent amount of each part of the budget; `parts` as for `composed`."""
        if not guarantees:
            return dict.fromkeys(self.total, Fraction(0))
        if self.rho is None and any(guarantee.rho is not None for guarantee in guarantees):
            raise PrivacyError("a zCDP release cannot be entered against a budget of epsilon: use a budget of rho")
        together = self.composed(guarantees, parts)
        if together.delta and self.delta is None:
            raise PrivacyError("a release with a delta requires a budget with a delta, or a budget of rho")
        loss = Fraction(together.loss(1))
        return {name: together.delta if name == "delta" else loss for name in self.total}

    def left(self, guarantees: Sequence[Guarantee], parts: Sequence[str | None] | None = None) -> dict[str, Fraction]:
        """Return the remaining amount of each part of the budget; `parts` as for `composed`."""
        spent = self.spent(guarantees, parts)
        return {name: total - spent[name] for name, total in self.total.items()}

    def require(
        self,
        earlier: Sequence[Guarantee],
        guarantee: Guarantee,
        parts: Sequence[str | None] = (),
        part: str | None = None,
    ) -> None:
        """Refuse a release above the budget; `parts` are the parts of earlier releases, `part` is its part."""
        parts = parts or [None] * len(earlier)
        for name, increased in self.spent([*earlier, guarantee], [*parts, part]).items():
            if increased > self.total[name]:
                raise BudgetError(
                    f"this release would raise {name} to {float(increased):.6g}, above the budget of "
                    f"{float(self.total[name]):.6g} ({float(self.left(earlier, parts)[name]):.6g} remaining)"
                )
