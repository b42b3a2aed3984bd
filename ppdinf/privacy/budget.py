"""A budget of privacy loss, and the ledger of all releases of one table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Integers, assign
from ppdinf.errors import BudgetError, PrivacyError, PrivacyWarning
from ppdinf.invariants import System
from ppdinf.invariants.statement import rows_of
from ppdinf.lattice import structure
from ppdinf.lattice.fiber_tables import fixed_cells
from ppdinf.privacy.composition import compose_partition
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.restatement import to_event, to_zcdp
from ppdinf.privacy.unit_loss import REPLACED, describe_loss
from ppdinf.privacy.zcdp import as_delta
from ppdinf.tables.frame import Frame

type Part = str | None
"""Name of a part of a partition of everybody; None for everybody."""


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
                f"One {unit}{records} can lose, if the whole budget is spent on tables without public sums, at most:",
                f"  {describe_loss(total_guarantee(metric='l1'))} by l1 noise, or noise for a record added or removed",
                f"  {describe_loss(total_guarantee(metric='l2'))} by l2 noise",
                f"  {describe_loss(total_guarantee(neighbours=REPLACED))} by noise for a record replaced by another",
                "Public sums can tie others to a change, at a larger loss: the guarantee of each release states it.",
            )
        )

    def composed(self, guarantees: Sequence[Guarantee], parts: Sequence[Part] | None = None) -> Guarantee:
        """Return the joint guarantee of releases in the terms of the budget; `parts` names each release's part."""
        counted = guarantees if self.rho is None else [to_zcdp(guarantee) for guarantee in guarantees]
        # the noise of different releases is independent
        return compose_partition(counted, [None] * len(counted) if parts is None else parts)

    def spent(self, guarantees: Sequence[Guarantee], parts: Sequence[Part] | None = None) -> dict[str, Fraction]:
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

    def left(self, guarantees: Sequence[Guarantee], parts: Sequence[Part] | None = None) -> dict[str, Fraction]:
        """Return the remaining amount of each part of the budget; `parts` as for `composed`."""
        spent = self.spent(guarantees, parts)
        return {name: total - spent[name] for name, total in self.total.items()}

    def require(
        self, earlier: Sequence[Guarantee], guarantee: Guarantee, parts: Sequence[Part] = (), part: Part = None
    ) -> None:
        """Refuse a release above the budget; `parts` are the parts of earlier releases, `part` is its part."""
        parts = parts or [None] * len(earlier)
        for name, increased in self.spent([*earlier, guarantee], [*parts, part]).items():
            if increased > self.total[name]:
                raise BudgetError(
                    f"this release would raise {name} to {float(increased):.6g}, above the budget of "
                    f"{float(self.total[name]):.6g} ({float(self.left(earlier, parts)[name]):.6g} remaining)"
                )


class Entry(Protocol):
    """Required interface of a release in a ledger; a post-processed table has it as ``entry``."""

    frame: Frame
    public: System
    part_of: object
    mechanism: Any

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the release alone."""

    @property
    def joint_guarantee(self) -> Guarantee:
        """Guarantee of everything that was drawn for the release."""


class Ledger:
    """Adds up releases of one table and refuses a release above the budget.

    Parameters
    ----------
    epsilon : int, float, str or Fraction, optional
        Budget of pure loss per unit of distance.
    rho : int, float, str or Fraction, optional
        Budget of zCDP loss per unit of squared distance; pure releases count with half the square of their loss.

    Attributes
    ----------
    releases : list of Release

    Raises
    ------
    PrivacyError
        Neither or both budgets are given.

    See Also
    --------
    ppdinf.Session, ppdinf.privacy.compose

    Examples
    --------
    >>> from ppdinf.privacy import Ledger
    >>> import numpy as np, ppdinf as ppd
    >>> table, ledger = np.array([[3, 1], [4, 2]]), Ledger(epsilon=1)
    >>> by_row = ppd.GeneralizedLaplace(ppd.invariants.margin("dim_0"), epsilon="1/2")
    >>> ledger.add(by_row.release(table))
    >>> ledger.remaining
    Fraction(1, 2)
    """

    def __init__(self, epsilon: Parameter | None = None, rho: Parameter | None = None) -> None:
        self._budget = Budget(epsilon, rho=rho)
        ((self._name, self.budget),) = self._budget.total.items()
        self.releases: list[Entry] = []
        self._fixed = np.zeros(0, dtype=np.int64)

    def add(self, release: object) -> None:
        """Enter a release before its publication.

        Parameters
        ----------
        release : Release or PostProcessedRelease
            The noisy table of a post-processed release counts as the complete release, which was drawn with it.

        Raises
        ------
        PrivacyError
            The release exceeds the budget, its guarantee does not fit the budget, it is not a release, or it is part
            of an entered release. Or Pufferfish releases have sensitivities in several norms.
        LabelError
            The release has other labels.

        Warns
        -----
        PrivacyWarning
            The joint public information of all releases fixes cells that no single release fixes.
        """
        if not hasattr(release, "entry"):
            raise PrivacyError(f"a ledger enters releases, found {type(release).__name__}")
        entry: Entry = release.entry
        if entry.part_of is not None and any(entry is other for other in self.releases):
            raise PrivacyError("this post-processed release was entered already, with its noisy table: it counts once")
        for other in self.releases[:1]:
            other.frame.check_same(entry.frame, "the table of the earlier releases")
        pufferfish = [one for one in (*self.releases, entry) if one.guarantee.variant == "pufferfish"]
        if len({one.mechanism.distance for one in pufferfish}) > 1:
            raise PrivacyError(
                "the sensitivities of the releases are distances in several norms, so their losses do not add up: "
                "state all of them in one norm"
            )
        self._budget.require(self._guarantees, entry.joint_guarantee)
        self.releases.append(entry)
        self._fixed = fixed = self._fixed_together()
        if fixed.size:
            warnings.warn(
                f"the joint public information of all releases fixes {fixed.size} cells that no single release fixes, "
                f"the first at {entry.frame.cell(int(fixed[0]))}: their counts are public despite the noise",
                PrivacyWarning,
                stacklevel=2,
            )

    @property
    def guarantee(self) -> Guarantee:
        """The joint guarantee of all releases, for tables that agree with all published information.

        Raises
        ------
        PrivacyError
            No release was entered.
        """
        return self._budget.composed(self._guarantees)

    @property
    def remaining(self) -> Fraction:
        """The remaining budget."""
        return self._budget.left(self._guarantees)[self._name]

    def epsilon(self, delta: Parameter, *, distance: float = 1) -> float:
        """Convert the spent loss to epsilon at a delta, between tables at a distance, with dp-accounting.

        Parameters
        ----------
        delta : float
        distance : float
            Distance in the metric of `guarantee`.
        """
        events = [to_event(release.joint_guarantee, distance=distance) for release in self.releases]
        import dp_accounting  # `to_event` raises an error with instructions if it is missing

        replaced = dp_accounting.NeighboringRelation.REPLACE_ONE
        accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=replaced)
        for event in events:
            accountant.compose(event)
        return float(accountant.get_epsilon(float(as_delta(delta))))

    def __repr__(self) -> str:
        spent = self.budget - self.remaining
        return f"<Ledger: {len(self.releases)} releases, {self._name} = {spent} of {self.budget} spent>"

    def describe(self) -> str:
        """Describe the spent loss and the public information in paragraphs."""
        spent = self.budget - self.remaining
        head = (
            f"{len(self.releases)} releases have spent {self._name} = {float(spent):.6g} of {float(self.budget):.6g}."
        )
        return f"{self.guarantee.describe()}\n\n{head}" if self.releases else head

    @property
    def _guarantees(self) -> list[Guarantee]:
        """Guarantees of all releases; cells that all public statements fix together are public sums, too."""
        guarantees = [release.joint_guarantee for release in self.releases]
        if self._fixed.size and (first := guarantees[0].possible) is not None and first.answers is None:
            cells = sp.csc_array(rows_of(self._fixed, self.releases[0].frame))
            guarantees[0] = replace(guarantees[0], possible=first.joined(replace(first, sums=cells)))
        return guarantees

    def _fixed_together(self) -> Integers:
        """Return the cells that no single release fixes, but all public statements together."""
        systems = [release.public for release in self.releases]
        if len(systems) < 2:
            return np.zeros(0, dtype=np.int64)
        A, B = (sp.csr_array(sp.vstack([getattr(system, name) for system in systems])) for name in ("A", "B"))
        values, limits = (np.concatenate([getattr(system, n) for system in systems]) for n in ("values", "limits"))
        joined = fixed_cells(structure(A), A, values, B, limits)
        alone = np.any([system.fixed for system in systems], axis=0)
        return np.flatnonzero(joined & ~alone)
