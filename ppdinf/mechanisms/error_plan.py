"""The error for each privacy loss, and the loss for a required error: computed before any privacy is spent."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pandas as pd
import xarray as xr

from ppdinf._internal.progress import Advance, progress
from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import as_html
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import System
from ppdinf.mechanisms.expected_error import expected_error, labels_alone, require_simulation, system_of_labels
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.tables.table import TableLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("1/20", "1/10", "1/4", "1/2", "1", "2")
NEAR = Fraction(1, 50)  # relative excess over the smallest sufficient loss that is accepted for a simpler fraction
HALVINGS = 8  # of an interval whose upper end is twice the lower end, to NEAR / 4 or less
DOUBLINGS = 18  # from 1: noise of up to several hundred thousand persons

type Family = Callable[[Fraction], TableMechanism]


@dataclass(frozen=True)
class ErrorPlan:
    """Errors of one family of mechanisms over several losses; made by `ppdinf.plan`.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each loss and kind of cell, with the columns of `Mechanism.expected_error`. ``cells``: number of
        cells; ``sd`` and ``support_radius``: in persons; ``cv_50``: standard deviation divided by a count of 50;
        ``across_5``: probability that a count at distance 5 from a limit is released beyond the limit; ``swap_5``:
        probability that two cells whose counts differ by 5 are released in reversed order; ``exact``.

    See Also
    --------
    ppdinf.plan, ppdinf.plots.plot_plan

    Examples
    --------
    >>> import ppdinf as ppd
    >>> total = ppd.invariants.total()
    >>> found = ppd.plan(lambda epsilon: ppd.GeneralizedLaplace(total, epsilon), {"county": 67}, ["1/4", 1])
    >>> print(found.loss_for(cv="1/10", at=50))
    5/18
    """

    table: pd.DataFrame
    family: Family = field(repr=False)
    labels: xr.DataArray = field(repr=False)
    systems: list[System] = field(repr=False, default_factory=list)

    def _repr_html_(self) -> str:
        return as_html("Errors of released cells by privacy loss", "", self.table.to_html())

    def plot(self, name: str = "epsilon", *, cv: Parameter | None = None, at: int | None = None) -> Figure:
        """Plot the errors against the privacy loss; parameters and errors as for `ppdinf.plots.plot_plan`."""
        return importlib.import_module("ppdinf.plots").plot_plan(self, name, cv=cv, at=at)

    def loss_for(
        self,
        *,
        sd: Parameter | None = None,
        support_radius: int | None = None,
        cv: Parameter | None = None,
        at: int | None = None,
    ) -> Fraction:
        """Find the loss that an error requires, for the cells with the largest noise.

        Parameters
        ----------
        sd : number, optional
            Largest standard deviation of the noise, in persons.
        support_radius : int, optional
            Number of persons that the noise must not exceed with probability 90 %.
        cv : number, optional
            Largest coefficient of variation, such as ``"1/10"``, of a count of `at`.
        at : int, optional
            Count for which `cv` holds.

        Returns
        -------
        Fraction
            A simple fraction that suffices, at most 2 % (and one half) above the smallest sufficient loss. Where sums
            cross or noise is simulated, its accuracy is limited by the simulated draws.

        Raises
        ------
        PrivacyError
            Not exactly one error is named; `cv` is given without `at`; no loss between 1/250,000 and 250,000
            suffices, or the mechanism cannot draw noise for a loss in this range.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> error_plan = ppd.plan(lambda e: ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=e), (67,))
        >>> error_plan.loss_for(cv="1/10", at=50)
        Fraction(5, 18)
        """
        if sum(value is not None for value in (sd, support_radius, cv)) != 1 or (cv is None) != (at is None):
            raise PrivacyError("name exactly one error: sd=, support_radius=, or cv= together with its count at=")
        column, upper = ("support_radius", support_radius) if support_radius is not None else ("sd", sd)
        if cv is not None and at is not None:
            upper = as_fraction(cv, "cv") * as_fraction(at, "at")
        limit = as_fraction(upper or 0, column)

        def suffices(loss: Fraction) -> bool:
            errors = expected_error(self.family(loss), self.labels, sizes=(), known=self.systems)
            return bool(errors[column].max() <= limit)

        with progress("Finding the loss", DOUBLINGS + HALVINGS) as advance:
            low, high = _bracket(suffices, advance)
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if suffices(middle) else (middle, high)
                advance(1)
        simple = simplest_between(high, high * (1 + NEAR))
        return simple if suffices(simple) else high.limit_denominator(10**6)

    def guarantee(self, loss: Parameter) -> ReleaseGuarantee:
        """State the guarantee of a release with one loss, from labels and public sums alone.

        Parameters
        ----------
        loss : int, float, str or Fraction

        Returns
        -------
        ReleaseGuarantee
            Its `describe_unit` states the largest loss of one person; the sampler is not planned.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> error_plan = ppd.plan(lambda e: ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=e), (67,))
        >>> print(error_plan.guarantee("1/4").describe_unit())
        One person can lose at most epsilon = 0.5 (a factor of 1.65 in the odds), delta = 0.
        """
        mechanism = self.family(as_fraction(loss, "a loss"))
        system = system_of_labels(mechanism, self.labels, self.systems)
        if system.limits.size:
            system = replace(system, B=system.B[:0], limits=system.limits[:0])  # bounds depend on counts
        return mechanism.on(system).guarantee_on(system, None)


def plan(
    family: Family,
    table: TableLike | Mapping[str, int],
    losses: Iterable[Parameter] = LOSSES,
    *,
    sizes: Sequence[int] = (10, 100, 1000),
    gaps: Sequence[int] = (1, 10, 100),
) -> ErrorPlan:
    """Tabulate the error for each privacy loss, from labels and noise distributions, never from counts.

    Parameters
    ----------
    family : callable
        Returns the mechanism for a loss: ``lambda epsilon: ppd.GeneralizedLaplace(public, epsilon=epsilon)``. The
        public statements matter: sums that are kept exactly reduce the noise, and cells that they fix have no noise.
    table : table, tuple of int, or dict
        Only the labels are used. A shape suffices where the statements name no labels, or sizes by dimension,
        ``{"county": 67, "sex": 2}``.
    losses : iterable of int, float, str or Fraction
        A sequence, even for one loss: ``["1/4"]``.
    sizes : sequence of int
        Counts for which to state the coefficient of variation.
    gaps : sequence of int
        Distances from a limit, and between two cells of one kind, for which to state the probability that noise
        reverses the order; ties count half.

    Returns
    -------
    ErrorPlan
        `ErrorPlan.table` holds the errors, `loss_for` finds the loss for an error, `ppdinf.plots.plot_plan` draws them.

    Raises
    ------
    PrivacyError
        The error depends on the counts, as for mechanisms with bounds, base measures or post-processing; or losses are
        not a sequence; or sizes or gaps are not positive integers.
    InvariantError
        Where sums cross, the error is computed from simulated draws: for one of the losses they would take more than 20
        seconds, or no sampler applies. The message names the losses that can be planned.

    See Also
    --------
    ppdinf.privacy.audit, ppdinf.Session, ppdinf.plots.plot_plan

    Examples
    --------
    >>> import ppdinf as ppd
    >>> public = ppd.invariants.margin("county")
    >>> def laplace(epsilon):
    ...     return ppd.GeneralizedLaplace(public, epsilon=epsilon)
    >>> error_plan = ppd.plan(laplace, {"county": 67, "age": 5}, ["1/4", 1], sizes=[50], gaps=[5])
    >>> error_plan.table.round(2).reset_index("noise of cells", drop=True).T
    loss         1/4     1
    cells        335   335
    sd          4.36  1.01
    support_radius   7.0   2.0
    cv_50       0.09  0.02
    across_5    0.11   0.0
    swap_5       0.2  0.01
    exact       True  True
    """
    if isinstance(losses, str) or not isinstance(losses, Iterable):
        raise PrivacyError(f"losses must be a sequence such as ['1/4'] or ['1/10', 1], found {losses!r:.60}")
    blank = labels_alone(table)
    mechanisms = {str(exact): family(exact) for exact in (as_fraction(loss, "a loss") for loss in losses)}
    if not mechanisms:
        raise PrivacyError("losses are empty: name at least one, such as ['1/10', '1/4', 1]")
    systems: list[System] = []
    for mechanism in mechanisms.values():
        if (system := system_of_labels(mechanism, blank, systems)) not in systems:
            systems.append(system)
    with progress("Planning", 2 * len(mechanisms)) as advance:
        _require_simulations(mechanisms, blank, systems, advance)
        errors = {}
        for loss, mechanism in mechanisms.items():
            errors[loss] = expected_error(mechanism, blank, sizes, gaps, systems)
            advance(1)
    return ErrorPlan(pd.concat(errors, names=["loss"]), family, blank, systems)


def _require_simulations(
    mechanisms: Mapping[str, TableMechanism], blank: xr.DataArray, systems: list[System], advance: Advance
) -> None:
    """Refuse losses whose noise cannot be simulated, before any simulation, and name the other losses."""
    refused: dict[str, InvariantError] = {}
    for loss, mechanism in mechanisms.items():
        try:
            require_simulation(mechanism, system_of_labels(mechanism, blank, systems))
        except InvariantError as error:
            refused[loss] = error
        advance(1)
    if not refused:
        return
    others = [loss for loss in mechanisms if loss not in refused]
    way_out = f". The other losses can be planned: losses={others}" if others else ""
    first = next(iter(refused))
    raise InvariantError(f"no plan for the losses {', '.join(refused)}: with {first}, {refused[first]}{way_out}")


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Fraction with the smallest denominator in an interval of positive numbers, by the Stern-Brocot tree."""
    floor = low.numerator // low.denominator
    if low == floor:
        return Fraction(floor)
    if floor + 1 <= high:
        return Fraction(floor + 1)
    return floor + 1 / simplest_between(1 / (high - floor), 1 / (low - floor))


def _bracket(suffices: Callable[[Fraction], bool], advance: Advance) -> tuple[Fraction, Fraction]:
    """Return two losses, one twice the other: the larger suffices and the smaller does not."""
    loss = Fraction(1)
    step = Fraction(1, 2) if suffices(loss) else Fraction(2)
    for done in range(DOUBLINGS):
        further = loss * step
        if suffices(further) != (step < 1):
            advance(DOUBLINGS - done)
            return (further, loss) if step < 1 else (loss, further)
        advance(1)
        loss = further
    if step < 1:
        raise PrivacyError("the smallest loss suffices: the allowed error is larger than any sensible noise")
    raise PrivacyError("no loss in the searched range is large enough for so small an error")
