"""What all releases of one table have spent, and what they give away together."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.rationals import Parameter
from ppdinf.errors import PrivacyError, PrivacyWarning
from ppdinf.invariants import System
from ppdinf.lattice import structure
from ppdinf.lattice.points.fixed_cells import fixed_cells
from ppdinf.privacy.accounting.budget import Budget
from ppdinf.privacy.guarantees.conversion import as_delta
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.restatement import to_event
from ppdinf.tables.frame import Frame

__all__ = ["Ledger"]


class Entry(Protocol):
    """What a ledger asks of a release; that of a post-processed table is ``entry`` of the whole."""

    frame: Frame
    public: System
    part_of: object
    mechanism: Any

    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def joint_guarantee(self) -> Guarantee: ...


class Ledger:
    """Adds up releases of one table and refuses one that would overspend.

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

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> table, ledger = np.array([[3, 1], [4, 2]]), Ledger(epsilon=1)
    >>> by_row = ppd.GeneralizedLaplace(ppd.invariants.margin("dim_0"), epsilon="1/2")
    >>> ledger.add(by_row.release(table))
    >>> ledger.remaining
    Fraction(1, 2)
    """

    def __init__(
        self,
        epsilon: Parameter | None = None,
        rho: Parameter | None = None,
    ) -> None:
        self._budget = Budget(epsilon, rho=rho)
        ((self._name, self.budget),) = self._budget.total.items()
        self.releases: list[Entry] = []

    def add(self, release: object) -> None:
        """Enter a release that is to be published.

        Parameters
        ----------
        release : Release or PostProcessedRelease
            The noisy table of a post-processed release counts as the whole of it, which was drawn with it.

        Raises
        ------
        PrivacyError
            It overspends the budget, its guarantee is not of the kind that the budget counts, it is no release, or part
            of one that was entered. Or Pufferfish releases measure how far a secret moves the table in several norms.
        LabelError
            It is of a table with other labels.

        Warns
        -----
        PrivacyWarning
            What is public of all releases together fixes cells that none of them fixes alone.
        """
        if not hasattr(release, "entry"):
            raise PrivacyError(f"a ledger enters releases, found {type(release).__name__}")
        entry: Entry = release.entry
        if entry.part_of is not None and any(entry is other for other in self.releases):
            raise PrivacyError("this post-processed release was entered already, with its noisy table: it counts once")
        for other in self.releases[:1]:
            other.frame.check_same(entry.frame, "the table of the earlier releases")
        _require_one_norm([*self.releases, entry])
        self._budget.require(self._promises, entry.joint_guarantee)
        self.releases.append(entry)
        self._warn_fixed()

    @property
    def guarantee(self) -> Guarantee:
        """What all releases promise together, among the tables that agree with everything published.

        Raises
        ------
        PrivacyError
            There is no release yet.
        """
        return self._budget.composed(self._promises)

    @property
    def remaining(self) -> Fraction:
        """What is left of the budget."""
        return self._budget.left(self._promises)[self._name]

    def epsilon(self, delta: Parameter, *, distance: float = 1) -> float:
        """Convert what has been spent to epsilon at a delta, between tables at a distance, with dp-accounting.

        Parameters
        ----------
        delta : float
        distance : float
            In the metric of `guarantee`.

        Returns
        -------
        float
        """
        events = [to_event(release.joint_guarantee, distance=distance) for release in self.releases]
        import dp_accounting  # `to_event` has said what to do where it is missing

        replaced = dp_accounting.NeighboringRelation.REPLACE_ONE
        accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=replaced)
        for event in events:
            accountant.compose(event)
        return float(accountant.get_epsilon(float(as_delta(delta))))

    def __repr__(self) -> str:
        spent = self.budget - self.remaining
        return f"<Ledger: {len(self.releases)} releases, {self._name} = {spent} of {self.budget} spent>"

    def describe(self) -> str:
        """Say in paragraphs what has been spent and what is open."""
        spent = self.budget - self.remaining
        head = (
            f"{len(self.releases)} releases have spent {self._name} = {float(spent):.6g} of {float(self.budget):.6g}."
        )
        return f"{self.guarantee.describe()}\n\n{head}" if self.releases else head

    @property
    def _promises(self) -> list[Guarantee]:
        return [release.joint_guarantee for release in self.releases]

    def _warn_fixed(self) -> None:
        systems = [release.public for release in self.releases]
        if len(systems) < 2:
            return
        A, B = (sp.csr_array(sp.vstack([getattr(system, name) for system in systems])) for name in ("A", "B"))
        values, limits = (np.concatenate([getattr(system, n) for system in systems]) for n in ("values", "limits"))
        joined = fixed_cells(structure(A), A, values, B, limits)
        alone = np.any([system.fixed for system in systems], axis=0)
        newly = np.flatnonzero(joined & ~alone)
        if newly.size:
            warnings.warn(
                f"together, what is public of these releases fixes {newly.size} cells that none fixes alone, the first "
                f"at {systems[0].frame.cell(int(newly[0]))}: their counts are public now, whatever the noise",
                PrivacyWarning,
                stacklevel=3,
            )


def _require_one_norm(releases: list[Entry]) -> None:
    """Refuse Pufferfish releases whose sensitivities are distances in several norms."""
    if len({release.mechanism.distance for release in releases if release.guarantee.variant == "pufferfish"}) > 1:
        raise PrivacyError(
            "the sensitivities of these releases are distances in several norms: what moves the table least in one "
            "need not do so in another, and their losses do not add up, so state all in one norm"
        )
