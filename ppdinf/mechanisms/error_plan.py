"""Which privacy loss gives which error, and which loss an error needs: decided before any of it is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.rationals import as_fraction
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants.system import bind
from ppdinf.mechanisms.counting_queries import answer
from ppdinf.mechanisms.expected_error import labels_alone, require_simulation
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee
from ppdinf.tables.table import TableLike, labelled_cells

__all__ = ["LOSSES", "ErrorPlan", "plan"]

LOSSES = ("1/20", "1/10", "1/4", "1/2", "1", "2")
NEAR = Fraction(1, 50)  # by how much more than the least loss is taken for the sake of a simple fraction
DOUBLINGS = 18  # from 1: noise of up to some hundred thousand persons

type Loss = int | float | str | Fraction
type Family = Callable[[Fraction], TableMechanism]


@dataclass(frozen=True)
class ErrorPlan:
    """Errors of one family of mechanisms over several losses; made by `ppdinf.plan`.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each loss and kind of cell, with the columns of `Mechanism.expected_error`: ``cells``; ``sd`` and
        ``support_radius``, in persons; ``cv_50``: sd over a count of 50; ``across_5``: probability that a count 5 away
        from a limit is released beyond it; ``swap_5``: that two cells whose counts differ by 5 are released in the
        other order; ``exact``.
    """

    table: pd.DataFrame
    family: Family = field(repr=False)
    labels: xr.DataArray = field(repr=False)

    def loss_for(
        self,
        *,
        sd: Loss | None = None,
        support_radius: int | None = None,
        cv: Loss | None = None,
        at: int | None = None,
    ) -> Fraction:
        """Find the loss that an error needs: for the cells whose noise is largest.

        Parameters
        ----------
        sd : number, optional
            Largest standard deviation of the noise, in persons.
        support_radius : int, optional
            Persons that 90 % of the noise has to stay within.
        cv : number, optional
            Largest coefficient of variation, such as ``"1/10"``, of a count of `at`.
        at : int, optional

        Returns
        -------
        Fraction
            A simple one that serves, at most 2 % (and one half) above the least that does; where sums cross or noise
            is simulated, as right as simulated draws are.

        Raises
        ------
        PrivacyError
            Not one error is named; `cv` comes without `at`; no loss from 1/250,000 to 250,000 serves, or one of them
            is more than the mechanism can draw.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> found = plan(lambda e: ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=e), (67,))
        >>> found.loss_for(cv="1/10", at=50)
        Fraction(5, 18)
        """
        if sum(value is not None for value in (sd, support_radius, cv)) != 1 or (cv is None) != (at is None):
            raise PrivacyError("name one error: sd=, support_radius=, or cv= with the count it is meant at, at=")
        what, most = ("support_radius", support_radius) if support_radius is not None else ("sd", sd)
        if cv is not None and at is not None:
            most = as_fraction(cv, "cv") * as_fraction(at, "at")
        limit = as_fraction(most or 0, what)

        def serves(loss: Fraction) -> bool:
            found = self.family(loss).expected_error(self.labels, sizes=())
            return bool(found[what].max() <= limit)

        low, high = _bracket(serves)
        while high > low * (1 + NEAR / 4):
            middle = (low + high) / 2
            low, high = (low, middle) if serves(middle) else (middle, high)
        simple = simplest_between(high, high * (1 + NEAR))
        return simple if serves(simple) else high.limit_denominator(10**6)

    def guarantee(self, loss: Loss) -> ReleaseGuarantee:
        """State the guarantee of a release with one loss, from labels and public sums alone.

        Parameters
        ----------
        loss : int, float, str or Fraction

        Returns
        -------
        ReleaseGuarantee
            Its `describe_unit` states how much one person can lose; the sampler is not planned.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> found = plan(lambda e: ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=e), (67,))
        >>> print(found.guarantee("1/4").describe_unit())
        One person can lose at most epsilon = 0.5 (a factor of 1.65 in the odds), delta = 0.
        """
        mechanism = self.family(as_fraction(loss, "a loss"))
        answers, zeros = labelled_cells(answer(mechanism.queries, self.labels), nonnegative=False)
        system = bind(mechanism.public, answers, zeros)
        system = replace(system, B=system.B[:0], limits=system.limits[:0])  # bounds depend on counts
        return mechanism.on(system).guarantee_on(system, None)


def plan(
    family: Family,
    table: TableLike | Mapping[str, int],
    losses: Iterable[Loss] = LOSSES,
    *,
    sizes: Sequence[int] = (10, 100, 1000),
    gaps: Sequence[int] = (1, 10, 100),
) -> ErrorPlan:
    """Tabulate which privacy loss gives which error, before anything is drawn: from labels and laws, never from counts.

    Parameters
    ----------
    family : callable
        Makes the mechanism of a loss: ``lambda epsilon: ppd.GeneralizedLaplace(public, epsilon=epsilon)``. What is
        public matters: sums that are kept exactly take part of the noise away, and cells that they fix have none.
    table : table, tuple of int, or dict
        What is looked at are labels alone. A shape will do where statements name no labels, or sizes by dimension,
        ``{"county": 67, "sex": 2}``.
    losses : iterable of int, float, str or Fraction
    sizes : sequence of int
        Counts for which to state the coefficient of variation.
    gaps : sequence of int
        Distances from a limit, and between two cells of one kind, for which to state the probability that noise turns
        the order around; ties count half.

    Returns
    -------
    ErrorPlan
        Its `table`; the loss that an error needs, `loss_for`; `ppdinf.plots.plot_plan` draws it.

    Raises
    ------
    PrivacyError
        The error depends on the counts, as it does with bounds, base measures or post-processing; sizes or gaps are no
        whole numbers from 1 on.
    InvariantError
        Where sums cross, the error is read off simulated draws: it takes more than 20 seconds for one of the losses, by
        an estimate, or no sampler suits. The losses that can be planned are named.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.margin("county")
    >>> def laplace(epsilon):
    ...     return ppd.GeneralizedLaplace(public, epsilon=epsilon)
    >>> found = plan(laplace, {"county": 67, "age": 5}, ["1/4", 1], sizes=[50], gaps=[5])
    >>> found.table.round(2).reset_index("noise of cells", drop=True).T
    loss         1/4     1
    cells        335   335
    sd          4.36  1.01
    support_radius   7.0   2.0
    cv_50       0.09  0.02
    across_5    0.11   0.0
    swap_5       0.2  0.01
    exact       True  True
    """
    labels = labels_alone(table)
    blank = labels.table(np.zeros(labels.size, dtype=np.int64))
    mechanisms = {str(exact): family(exact) for exact in (as_fraction(loss, "a loss") for loss in losses)}
    if not mechanisms:
        raise PrivacyError("losses are empty: name some, such as ['1/10', '1/4', 1]")
    _require_simulations(mechanisms, blank)
    found = {loss: each.expected_error(blank, sizes=sizes, gaps=gaps) for loss, each in mechanisms.items()}
    return ErrorPlan(pd.concat(found, names=["loss"]), family, blank)


def _require_simulations(mechanisms: Mapping[str, TableMechanism], blank: xr.DataArray) -> None:
    """Refuse losses whose noise cannot be simulated, before any is simulated, and name those that can."""
    refused: dict[str, InvariantError] = {}
    for loss, mechanism in mechanisms.items():
        try:
            require_simulation(mechanism, blank)
        except InvariantError as error:
            refused[loss] = error
    if not refused:
        return
    others = [loss for loss in mechanisms if loss not in refused]
    way_out = f". The other losses can be planned: losses={others}" if others else ""
    first = next(iter(refused))
    raise InvariantError(f"no plan for the losses {', '.join(refused)}: with {first}, {refused[first]}{way_out}")


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Fraction with the smallest denominator in an interval of positive numbers, by the Stern-Brocot tree.

    Examples
    --------
    >>> simplest_between(Fraction(314, 100), Fraction(315, 100))
    Fraction(22, 7)
    """
    whole = low.numerator // low.denominator
    if low == whole:
        return Fraction(whole)
    if whole + 1 <= high:
        return Fraction(whole + 1)
    return whole + 1 / simplest_between(1 / (high - whole), 1 / (low - whole))


def _bracket(serves: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction]:
    """Two losses, one twice the other, of which the larger serves and the smaller does not."""
    loss = Fraction(1)
    step = Fraction(1, 2) if serves(loss) else Fraction(2)
    for _ in range(DOUBLINGS):
        further = loss * step
        if serves(further) != (step < 1):
            return (further, loss) if step < 1 else (loss, further)
        loss = further
    if step < 1:
        raise PrivacyError("the least loss serves: the error that you allow is larger than any sensible noise")
    raise PrivacyError("no loss that is any privacy gives so small an error")
