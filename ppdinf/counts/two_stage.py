"""Tables with a privatized histogram: the histogram first, then cells that have it.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Section 1.2 and
appendix F (rule of thumb for the budget).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Array, Integers, Reals, assign, numbers, require_choice
from ppdinf.counts.clipped_noise import truncated_geometric, unfixed
from ppdinf.counts.count_mechanism import CountMechanism
from ppdinf.counts.distribution import POSTPROCESSING, histogram, require_counts, require_size, rerank, to_distribution
from ppdinf.counts.heuristic import SELECTORS, heuristic
from ppdinf.counts.noisy_histogram import PURE
from ppdinf.counts.optimal import optimal
from ppdinf.counts.scales import as_epsilon
from ppdinf.errors import PrivacyError, RoundingError
from ppdinf.invariants import Public, System
from ppdinf.invariants.public import bind
from ppdinf.laws.likelihood import HistogramNoise, Likelihood
from ppdinf.mechanism import PreparedRelease
from ppdinf.mechanisms.input_checks import validate_input
from ppdinf.mechanisms.transition import NO_SUMS, CellLaw, require_no_sums
from ppdinf.noise.primitives.stream import BitStream, secure_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.unit_loss import PRESENT
from ppdinf.releases.release import Release
from ppdinf.tables.table import TableLike

LARGEST = 8192  # largest n: matrices of single-count mechanisms then take 0.5 GB
SPARE = Fraction(1, 2**30)  # margin of the second budget for rows that are divided by their sums
CONSTRUCTORS = ("ranked", *SELECTORS, "best", "optimal", "unfixed")
RANKED_SHARE = Fraction(2, 5)  # least product of W1 ~ share^(-2/3) (isotonic regression) and error ~ 1 / (1 - share)


def budget_share(epsilon: Parameter) -> Fraction:
    """Return the share of the budget for the histogram by the paper's rule of thumb.

    The share is ``0.106 + 0.533 exp(-2.87 epsilon)``.

    See Also
    --------
    ppdinf.counts.TwoStage

    Examples
    --------
    >>> from ppdinf.counts import budget_share
    >>> budget_share(1), budget_share("0.1")
    (Fraction(136221, 1000000), Fraction(506023, 1000000))
    """
    share = 0.106 + 0.533 * math.exp(-2.87 * as_fraction(epsilon, "epsilon"))
    return Fraction(round(share * 10**6), 10**6)


@dataclass(frozen=True, eq=False)
class TwoStage(CellLaw):
    """Mechanism that preserves the privatized histogram of counts of a table.

    Parameters
    ----------
    epsilon : int, float, str or Fraction
        Total privacy loss of both stages between tables that differ by one person, present or absent.
    n : int, optional
        Number of possible counts, 0 to n - 1. It is public and must be chosen without reference to the table. Top-code
        larger counts. Without n, `release` chooses 2, 3, 5, 9, ... or 4097 from the noisy cumulative counts, at no
        further loss, and top-codes the table.
    split : int, float, str or Fraction, optional
        Share of epsilon for the histogram; by default 2/5 with "ranked", otherwise the rule of thumb of `budget_share`.
    constructor : {"ranked", "best", "sandwich", "max", "min", "optimal", "unfixed"}
        Mechanism of the cells. "ranked": truncated geometric noise, then `rerank` to the privatized histogram. The
        others draw each cell from a matrix; "best" compares the three selectors of `heuristic` by their expected error.
    privatizer, postprocessing : str
        As in `noisy_histogram` and `to_distribution`, without the cyclic Gaussian, because privacy is pure.
    public : Public, optional
        Covariates and bounds. Public sums are not allowed, because such releases do not preserve them.
    measured, drawn : sequence of int, optional
        In releases: the noisy sums of the histogram, and with "ranked" the noisy cells before they were re-ranked.

    Raises
    ------
    PrivacyError
        A parameter is unknown or out of range.

    See Also
    --------
    ppdinf.counts.CountMechanism, ppdinf.counts.noisy_histogram, ppdinf.PartiallyPrivate

    Notes
    -----
    The released cells follow the rows of the mechanism exactly, and the largest ratio of the mechanism is audited. Both
    stages read secure words.

    If rounding prevents the constructor from reaching its epsilon, the mechanism is that of "best", or otherwise the
    truncated geometric one, so a release does not fail after the histogram is drawn.

    The table is a variable of the model, because the probability of `measured` depends on the table as a whole
    (docs/counts.md). With "ranked", the likelihood is that of `measured` and `drawn`; the released table follows from
    both.

    Examples
    --------
    >>> from ppdinf.counts import TwoStage
    >>> release = TwoStage(epsilon=1, n=20).release([12, 7, 0, 9, 12, 3, 5, 0])
    >>> release.guarantee.epsilon, release.mechanism.budgets
    (Fraction(1, 1), (Fraction(2, 5), Fraction(3, 5)))
    """

    kind: ClassVar[str] = "two-stage"
    title = "cells with a privatized histogram"
    epsilon: Any  # given as a `Parameter`, stored as a Fraction
    n: Any = None
    split: Any = None
    constructor: str = "ranked"
    privatizer: str = "cumulative"
    postprocessing: str = "isotonic"
    public: Public = NO_SUMS
    measured: Sequence[int] | None = None
    drawn: Sequence[int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_no_sums(self.public)
        exact = as_fraction(self.epsilon, "epsilon")
        theory = RANKED_SHARE if self.constructor == "ranked" else budget_share(exact)
        share = theory if self.split is None else as_fraction(self.split, "split")
        if share >= 1:
            raise PrivacyError(f"split, the share of epsilon for the histogram, must be below 1, found {self.split!r}")
        as_epsilon((1 - share) * exact)
        if self.n is not None:
            require_size(self.n)
        elif self.privatizer != "cumulative" or self.measured is not None:
            raise PrivacyError('n is required, unless `release` chooses it with the privatizer "cumulative"')
        if self.n is not None and self.n > LARGEST:
            raise PrivacyError(
                f"n must be at most {LARGEST:,} because the mechanism has n x n probabilities, found {self.n}: "
                "top-code larger counts, or use GeneralizedLaplace"
            )
        for name, known in (("constructor", CONSTRUCTORS), ("privatizer", PURE), ("postprocessing", POSTPROCESSING)):
            require_choice(name, getattr(self, name), known)
        assign(self, epsilon=exact, split=share)
        if self.measured is not None:
            assign(self, measured=_whole(self.measured, PURE[self.privatizer].size(self.n)))
        if self.drawn is not None:
            assign(self, drawn=tuple(require_counts(self.drawn, self.n).tolist()))

    @cached_property
    def noisy(self) -> Reals | None:
        """The noisy histogram, float64 of shape (n,), estimated from the noisy sums; None before they are drawn."""
        return None if self.measured is None else PURE[self.privatizer].estimate(np.array(self.measured), self.n)

    @property
    def budgets(self) -> tuple[Fraction, Fraction]:
        """Epsilon of the histogram and of the cells."""
        return self.split * self.epsilon, (1 - self.split) * self.epsilon

    @cached_property
    def mechanism(self) -> CountMechanism:
        """The mechanism of the cells.

        Raises
        ------
        PrivacyError
            The histogram is not privatized yet; `release` does this.
        """
        if self.noisy is None:
            raise PrivacyError(
                "the mechanism of the cells requires the privatized histogram: call release(table) first"
            )
        if self.constructor != "ranked":
            for constructor in dict.fromkeys((self.constructor, "best")):
                with suppress(ArithmeticError, np.linalg.LinAlgError):
                    return self._constructed(constructor, self._fixed_point)
        return truncated_geometric(self.n, self.budgets[1] * (1 - SPARE))

    @property
    def _fixed_point(self) -> Reals:
        assert self.noisy is not None
        return to_distribution(self.noisy, self.postprocessing)  # type: ignore[arg-type]

    def _constructed(self, constructor: str, z: Reals) -> CountMechanism:
        second = self.budgets[1]
        within = second * (1 - SPARE)
        if constructor == "optimal":
            found = optimal(z, within)
        elif constructor == "unfixed":
            found = unfixed(z, within)
        else:
            found = heuristic(z, within, constructor)  # type: ignore[arg-type]
        audit = found.audit()
        if audit.epsilon + 3 * audit.row_error > second:
            raise RoundingError(f"the mechanism of the cells exceeds its epsilon: {audit}")
        return found

    @property
    def probabilities(self) -> Reals:
        """Matrix of the mechanism of the cells."""
        return self.mechanism.matrix

    def _enclosed(self, i: int) -> list[arb]:
        return self.mechanism.enclosed(i)

    def likelihood(self, system: System) -> Likelihood:
        """Return the likelihood of the cells and of the noisy sums."""
        return replace(super().likelihood(system), histogram=self.histogram_noise)

    @cached_property
    def histogram_noise(self) -> HistogramNoise | None:
        """The law of the noisy sums given the table; None before they are drawn."""
        if self.measured is None:
            return None
        return PURE[self.privatizer].noise(np.array(self.measured), self.n, self.budgets[0])

    def on(self, system: System) -> TwoStage:
        """Check that the noisy sums belong to a table of this size.

        Raises
        ------
        PrivacyError
            The noisy sums have a different number of cells.
        """
        in_sums = None if self.measured is None else PURE[self.privatizer].cells(np.array(self.measured))
        for cells in (in_sums, None if self.drawn is None else len(self.drawn)):
            if cells not in (None, system.frame.size):
                raise PrivacyError(
                    f"the noisy sums and the table must have the same number of cells, found {cells} and "
                    f"{system.frame.size}: use both from the same release"
                )
        return self

    def draft(self, table: TableLike, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Check a table, and prepare its release: privatize the histogram, construct the mechanism and draw cells.

        Raises
        ------
        PrivacyError
            The object belongs to a release: its histogram is already drawn.
        CountError
            A count above n - 1.
        """
        if self.noisy is not None:
            raise PrivacyError("this TwoStage already belongs to a release: create a new TwoStage for another table")
        frame, cells = validate_input(self.public, table)
        if self.n is not None:
            require_counts(cells, self.n)

        def draw() -> Release:
            stream = secure_stream()
            first = self._first_stage(cells, stream)
            made: Release = first._drafted(frame, first._top_coded(cells), allow_mcmc=allow_mcmc).draw()
            if self.constructor != "ranked":
                return made
            noisy = made.table.values.ravel()
            second = replace(first, drawn=noisy.tolist())
            return Release.of_draw(frame, first._ranked(noisy, stream), second, made.kept, made.plan)

        return PreparedRelease(self, bind(self.public, frame, cells), None, draw)

    def _first_stage(self, cells: Integers, stream: BitStream) -> TwoStage:
        if self.n is None:
            return self._chosen(cells, stream)
        measured = PURE[self.privatizer].measure(histogram(cells, self.n), self.budgets[0], stream)
        return replace(self, measured=measured.tolist())

    def _chosen(self, cells: Integers, stream: BitStream) -> TwoStage:
        """Choose n: the noisy cumulative counts of all counts are private together, so a stopping time is free."""
        measured, n = [cells.size], 2
        while True:
            own = histogram(np.minimum(cells, n - 1), n)
            measured += PURE[self.privatizer].measure(own, self.budgets[0], stream)[len(measured) :].tolist()
            if measured[-1] >= cells.size or 2 * n - 1 > LARGEST:  # no noisy cell has n - 1 or more
                return replace(self, n=n, measured=measured)
            n = 2 * n - 1

    def _top_coded(self, cells: Integers) -> Integers:
        return np.minimum(cells, self.n - 1)

    def _ranked(self, noisy: Integers, stream: BitStream) -> Integers:
        return rerank(noisy, self._fixed_point, stream) if self.constructor == "ranked" else noisy

    def before_postprocessing(self, table: Array) -> Array:
        """Return the noisy cells before they were re-ranked, in the shape of `table`."""
        return table if self.drawn is None else np.array(self.drawn).reshape(table.shape)

    def log_weight(self, system: System, y: Integers, x: Integers) -> float:
        """Return the log probability of the noisy sums and cells given the table x."""
        return super().log_weight(system, self.before_postprocessing(y), x)

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw releases of a table, int64 of shape (draws, d), or noisy cells if the histogram is already drawn."""
        if self.noisy is not None:
            return super().draw(system, cells, draws, stream, plan)
        released = []
        for own in np.broadcast_to(cells, (draws, np.shape(cells)[-1])):
            first = self._first_stage(own, stream)
            noisy = CellLaw.draw(first, system, first._top_coded(own), 1, stream, plan)[0]
            released.append(first._ranked(noisy, stream))
        return np.array(released)

    @property
    def guarantee(self) -> Guarantee:
        """The composition of both stages: epsilon between tables that differ by one person, present or absent."""
        return Guarantee("pure", self.epsilon, neighbours=PRESENT, **self.public.open)


def _whole(measured: Sequence[float], size: int) -> tuple[int, ...]:
    """Validate noisy sums."""
    found = numbers(measured, "measured")
    if found.shape != (size,) or not (np.abs(found) < 2**52).all() or (found != np.rint(found)).any():
        raise PrivacyError(f"measured must have {size} integers below 2**52")
    return tuple(int(value) for value in found)
