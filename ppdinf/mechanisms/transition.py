"""Cells released independently by a stochastic matrix: noise that need not depend on the difference alone.

Random rounding to a base, cell-key tables, truncated geometric noise and mechanisms with a fixed point state a
probability P(y | x) for every count x and released count y. The matrix is a likelihood of x given y. In inference the
counts are marginalized where the public sums allow, and sampled otherwise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb

from ppdinf._internal.rationals import as_fraction
from ppdinf._internal.values import Array, Integers, Json, Reals, assign, numbers
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.observation_model import as_observation_model
from ppdinf.laws.transition_matrix import TransitionMatrix
from ppdinf.mechanism import PreparedRelease
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.enclosures import draw_rows
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.unit_loss import PRESENT
from ppdinf.tables.table import TableLike

ENTRIES = 25_000_000  # of a matrix: 200 MB
ROUNDING = 1e-9  # error of the sum of a row that is attributed to rounding
EXACT = 1e-12  # larger errors are removed, because the guarantee is computed from the rows
NO_SUMS = Public()  # nothing is published exactly


def deltas(matrix: Reals, epsilon: float) -> Reals:
    """Return the smallest delta for which each row and the next one are (epsilon, delta)-indistinguishable."""
    one, other = matrix[:-1], matrix[1:]
    factor = math.exp(epsilon)
    down, up = (np.maximum(p - factor * q, 0).sum(axis=1) for p, q in ((one, other), (other, one)))
    return np.maximum(down, up)


class CellLaw(TableMechanism):
    """Releases drawn cell by cell: each count has its own row of probabilities."""

    public: Public

    @property
    @abstractmethod
    def probabilities(self) -> Reals:
        """Probability of each released count for each count, shape (counts, released counts), both starting at 0."""

    @abstractmethod
    def _enclosed(self, i: int) -> list[arb]:
        """Enclose the weights of row i at Arb's working precision."""

    @cached_property
    def _matrix(self) -> TransitionMatrix:
        return TransitionMatrix(self.probabilities)

    def likelihood(self, system: System) -> Likelihood:
        """Return the matrix as a likelihood; its length bounds the distance between a count and its release."""
        return Likelihood(self._matrix, max(self.probabilities.shape))

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Return the plan: cells are independent."""
        return Plan("rows of a matrix", True, "every cell is drawn from the row of its count")

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw releases of a table; int64 of shape (draws, d)."""
        every = np.broadcast_to(cells, (draws, np.shape(cells)[-1]))
        if ((every < 0) | (every >= self.probabilities.shape[0])).any():
            raise CountError(
                f"some counts lie outside 0 to {self.probabilities.shape[0] - 1}, the rows of the matrix: "
                "top-code larger counts with numpy.minimum(counts, ...), or give a larger matrix"
            )
        return draw_rows(self.probabilities, every.ravel(), self._enclosed, stream).reshape(every.shape)


def require_no_sums(public: Public) -> None:
    """Refuse public sums, which independent cells do not keep."""
    require_public(public)
    if public.exact and any(not statement.known and statement.kind != "covariates" for statement in public):
        raise InvariantError(
            "cells that are released independently keep no sums: leave sums out here; if sums are public for another "
            "reason, give them to ppd.Release(table, mechanism, public=sums.on(table, values=...))"
        )


@as_observation_model.register
def _(law: CellLaw) -> TransitionMatrix:
    return law._matrix


@dataclass(frozen=True, eq=False)
class Transition(CellLaw):
    """Cells released independently by a matrix of probabilities.

    The guarantee is computed from the matrix, between each count and the next. If all ratios of neighbouring rows are
    finite, it is epsilon; otherwise it is (epsilon, delta) for the parameter `epsilon`. Delta is the smallest possible
    one. For epsilon 0 it is the largest total variation distance between these rows.

    Parameters
    ----------
    matrix : array_like of float, shape (n, m)
        ``matrix[x, y]`` is the probability of releasing y when the count is x. Each row must sum to 1 within 1e-9
        and is divided by its sum.
    public : Public, optional
        Covariates and bounds that hold for every table; no sums, because such releases do not keep them.
    require_guarantee : bool, default True
        Whether to refuse a matrix without a guarantee: one of which a release distinguishes two neighbouring counts
        with certainty, such as an identity, a permutation or conventional rounding. With False, such a matrix describes
        tables that somebody else published, for simulation and inference. `release` and `guarantee` raise an error.
    epsilon : int, float, str or Fraction, optional
        The epsilon for which the guarantee states delta; without it, 0 if some ratio is infinite.

    Raises
    ------
    PrivacyError
        `matrix` is not a matrix of probabilities, or has no guarantee.
    InvariantError
        The public statements contain sums.

    See Also
    --------
    ppdinf.counts.TwoStage, ppdinf.mechanisms.random_rounding, ppdinf.laws.TransitionMatrix

    Examples
    --------
    >>> import ppdinf as ppd
    >>> rounding = ppd.mechanisms.random_rounding(3, upper=6)
    >>> rounding.probabilities[1].round(2)
    array([0.67, 0.  , 0.  , 0.33, 0.  , 0.  , 0.  ])
    >>> released = rounding.release([4, 0, 5]).table.values
    >>> bool((released % 3 == 0).all())
    True
    """

    kind: ClassVar[str] = "transition"
    title = "probabilities of single cells"
    matrix: Array
    public: Public = NO_SUMS
    require_guarantee: bool = True
    epsilon: Any = None

    def __post_init__(self) -> None:
        require_no_sums(self.public)
        if self.epsilon is not None:
            assign(self, epsilon=as_fraction(self.epsilon, "epsilon"))
        matrix = numbers(self.matrix, "matrix")
        if matrix.ndim != 2 or 0 in matrix.shape or (matrix < 0).any():
            raise PrivacyError("matrix must have two dimensions and non-negative entries")
        sums = matrix.sum(axis=1, keepdims=True)
        off = np.abs(sums - 1)
        if (off > ROUNDING).any():
            raise PrivacyError(f"row {int(np.argmax(off))} of matrix is not a probability vector: it must sum to 1")
        if (off > EXACT).any():
            matrix /= sums
        matrix.setflags(write=False)
        assign(self, matrix=matrix)
        if self.require_guarantee:
            self._require_uncertainty()

    @property
    def probabilities(self) -> Reals:
        """Return the matrix."""
        return self.matrix

    def _enclosed(self, i: int) -> list[arb]:
        return [arb(float(p)) for p in self.matrix[i]]

    @cached_property
    def _distances(self) -> Reals:
        """Smallest delta at `epsilon` between each count and the next: total variation distance if epsilon is 0."""
        return deltas(self.matrix, float(self.epsilon or 0))

    @property
    def _delta(self) -> Fraction:
        return Fraction(math.ceil(self._distances.max(initial=0.0) * 10**9), 10**9)

    def _require_uncertainty(self) -> None:
        """Refuse a matrix of which a release distinguishes two neighbouring counts with certainty."""
        if self._delta >= 1 and np.any(np.diff(self.matrix > 0, axis=0)):
            count = int(np.argmax(self._distances))
            raise PrivacyError(
                f"matrix has no guarantee: a release distinguishes the counts {count} and {count + 1} with certainty "
                "(total variation distance 1 of their rows). Give neighbouring rows a common released count; for "
                "inference from a table that somebody else published, Transition(matrix, require_guarantee=False)"
            )

    def draft(self, data: TableLike, *, allow_mcmc: bool = False) -> PreparedRelease:
        """Plan a release; see `TableMechanism.draft`. A matrix without a guarantee is refused."""
        self._require_uncertainty()
        return super().draft(data, allow_mcmc=allow_mcmc)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Return the guarantee of neighbouring rows for tables that differ by one person, present or absent."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.abs(np.diff(np.log(self.matrix), axis=0))
        worst = float(np.nan_to_num(steps, nan=0.0, posinf=np.inf).max(initial=0.0))
        if math.isfinite(worst) and (self.epsilon is None or self._delta == 0):
            return Guarantee(
                "pure", Fraction(math.ceil((worst + 1e-9) * 10**9), 10**9), neighbours=PRESENT, **self.public.open
            )
        self._require_uncertainty()
        stated = Fraction(self.epsilon or 0)
        return Guarantee("approximate", stated, delta=self._delta, neighbours=PRESENT, **self.public.open)

    def to_dict(self) -> Json:
        """Return the kind, the matrix, and parameters that differ from the defaults."""
        return {name: value for name, value in super().to_dict().items() if value is not True}


def random_rounding(base: int, upper: int, public: Public | None = None) -> Transition:
    """Return unbiased random rounding to multiples of a base, as used by statistical offices (Stats NZ: base 3).

    Parameters
    ----------
    base : int
        At least 2. A count x is rounded up with probability (x mod base) / base.
    upper : int
        Public upper bound on the counts of all cells.
    public : Public, optional
        As in `Transition`.

    See Also
    --------
    ppdinf.laws.RandomRounding, ppdinf.Transition

    Examples
    --------
    >>> from ppdinf.mechanisms import random_rounding
    >>> round(float(random_rounding(5, upper=10).guarantee.delta), 6)  # total variation distance of counts 4 and 5
    0.2
    """
    are_integers = all(isinstance(value, int) and not isinstance(value, bool) for value in (base, upper))
    if not are_integers or base < 2 or upper < 1:
        raise PrivacyError(f"base must be an integer >= 2 and upper an integer >= 1, found {base!r} and {upper!r}")
    columns = -(-upper // base) * base + 1
    if (upper + 1) * columns > ENTRIES:
        raise PrivacyError(
            f"counts up to {upper} rounded to multiples of {base} take {upper + 1} x {columns} probabilities, above "
            f"the limit of {ENTRIES:,}: choose a smaller upper, or noise that needs no matrix"
        )
    counts = np.arange(upper + 1)
    matrix = np.zeros((upper + 1, columns))
    matrix[counts, counts // base * base] = 1 - counts % base / base
    matrix[counts, -(-counts // base) * base] += counts % base / base
    return Transition(matrix, Public() if public is None else public)
