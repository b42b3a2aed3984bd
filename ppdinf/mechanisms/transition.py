"""Cells released one by one by a stochastic matrix: a law of noise that need not depend on the difference alone.

Random rounding to a base, cell-key tables, truncated geometric noise and mechanisms with a fixed point state a
probability P(y | x) for every count x and released count y. As a likelihood of x given y such a matrix serves inference
as any other noise does: summed out where the public sums allow, by walks otherwise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf._internal.frozen import assign
from ppdinf._internal.types import Array, Json
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.laws.likelihood import Likelihood
from ppdinf.laws.transition_matrix import TransitionMatrix
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.categorical_rows import draw_rows
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.unit_loss import PRESENT

__all__ = ["CellLaw", "Transition", "random_rounding"]

ENTRIES = 25_000_000  # of a matrix: 200 MB
ROUNDING = 1e-9  # error of a row's sum that is taken for rounding
NOTHING = Public()  # is published exactly


class CellLaw(TableMechanism):
    """Releases that are drawn cell by cell, each count from its own row of probabilities."""

    public: Public

    @property
    @abstractmethod
    def probabilities(self) -> NDArray[np.float64]:
        """Probability of each released count for every count, shape (counts, released counts), both from 0 on."""

    @abstractmethod
    def _enclosed(self, i: int) -> list[arb]:
        """Enclose the weights of row i at Arb's working precision."""

    @cached_property
    def _matrix(self) -> TransitionMatrix:
        return TransitionMatrix(self.probabilities)

    def likelihood(self, system: System) -> Likelihood:
        """State the matrix; no released count is as far from its count as it is long."""
        return Likelihood(self._matrix, max(self.probabilities.shape))

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Say that cells are independent."""
        return Plan("rows of a matrix", True, "every cell is drawn from the row of its count")

    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, stream: BitStream, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Draw releases of a table; int64 of shape (draws, d)."""
        every = np.broadcast_to(cells, (draws, np.shape(cells)[-1]))
        if ((every < 0) | (every >= self.probabilities.shape[0])).any():
            raise CountError(
                f"some counts lie outside 0 to {self.probabilities.shape[0] - 1}, for which the matrix has rows: "
                "top-code what lies above with numpy.minimum(counts, ...), or give a larger matrix"
            )
        return draw_rows(self.probabilities, every.ravel(), self._enclosed, stream).reshape(every.shape)


def require_no_sums(public: Public) -> None:
    """Refuse sums that a law of single cells cannot keep."""
    require_public(public)
    if public.exact and any(not statement.known and statement.kind != "covariates" for statement in public):
        raise InvariantError(
            "cells that are released one by one keep no sum: leave sums out here, and where some are public anyway, "
            "give them to ppd.Release(table, mechanism, public=sums.on(table, values=...))"
        )


@dataclass(frozen=True, eq=False)
class Transition(CellLaw):
    """Cells released one by one by a matrix of probabilities.

    Parameters
    ----------
    matrix : array_like of float, shape (n, m)
        ``matrix[x, y]``, probability of releasing y when the count is x; each row adds up to 1 within 1e-9, by which
        it is divided.
    public : Public, optional
        Covariates and bounds that hold for every table; no sums, which such releases do not keep.

    Raises
    ------
    PrivacyError
        No matrix of probabilities; neighbouring counts that are told apart for certain.
    InvariantError
        Sums among the public statements.

    Notes
    -----
    The guarantee is read off the matrix, between a count and the next: epsilon where all ratios of neighbouring rows
    are finite, else epsilon 0 but for a probability delta, their largest distance in total variation.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> rounding = ppd.mechanisms.random_rounding(3, most=6)
    >>> rounding.probabilities[:4].round(2)
    array([[1.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.  ],
           [0.67, 0.  , 0.  , 0.33, 0.  , 0.  , 0.  ],
           [0.33, 0.  , 0.  , 0.67, 0.  , 0.  , 0.  ],
           [0.  , 0.  , 0.  , 1.  , 0.  , 0.  , 0.  ]])
    >>> released = rounding.release([4, 0, 5]).table.values
    >>> bool((released % 3 == 0).all())
    True
    """

    kind: ClassVar[str] = "transition"
    title = "probabilities of single cells"
    matrix: Array
    public: Public = NOTHING

    def __post_init__(self) -> None:
        require_no_sums(self.public)
        try:
            found = np.array(self.matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise PrivacyError("matrix holds the probability of every released count for every count") from error
        if found.ndim != 2 or 0 in found.shape or not np.isfinite(found).all() or (found < 0).any():
            raise PrivacyError("matrix must have two dimensions and hold finite probabilities from 0 on")
        off = np.abs(found.sum(axis=1) - 1)
        if (off > ROUNDING).any():
            raise PrivacyError(f"the probabilities for a count of {int(np.argmax(off))} do not add up to 1")
        found.setflags(write=False)
        assign(self, matrix=found)

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The matrix."""
        found: NDArray[np.float64] = self.matrix
        return found

    def _enclosed(self, i: int) -> list[arb]:
        return [arb(float(p)) for p in self.matrix[i]]

    @cached_property
    def guarantee(self) -> Guarantee:
        """What neighbouring rows promise between tables that differ by one person, present or absent."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.abs(np.diff(np.log(self.matrix), axis=0))
        worst = float(np.nan_to_num(steps, nan=0.0, posinf=np.inf).max(initial=0.0))
        if math.isfinite(worst):
            return Guarantee(
                "pure", Fraction(math.ceil((worst + 1e-9) * 10**9), 10**9), neighbours=PRESENT, **self.public.open
            )
        delta = Fraction(math.ceil(np.abs(np.diff(self.matrix, axis=0)).sum(axis=1).max() / 2 * 10**9), 10**9)
        if delta >= 1:
            raise PrivacyError("the matrix tells some count from the next for certain: there is nothing to promise")
        return Guarantee("approximate", Fraction(0), delta=delta, neighbours=PRESENT, **self.public.open)

    def to_dict(self) -> Json:
        """Kind and matrix."""
        return {"kind": self.kind, "matrix": self.matrix.tolist()}


def random_rounding(base: int, most: int, public: Public | None = None) -> Transition:
    """Random rounding to a multiple of a base, without bias, as statistical offices use it (Stats NZ: base 3).

    Parameters
    ----------
    base : int
        At least 2. A count x goes up with probability (x mod base) / base.
    most : int
        Largest count that a cell can have, public.
    public : Public, optional
        As in `Transition`.

    Returns
    -------
    Transition

    Examples
    --------
    >>> round(float(random_rounding(5, most=10).guarantee.delta), 6)  # how often 4 and 5 are told apart
    0.2
    """
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in (base, most))
    if not whole or base < 2 or most < 1:
        raise PrivacyError(f"base must be a whole number from 2 on, most one from 1 on, found {base!r} and {most!r}")
    columns = -(-most // base) * base + 1
    if (most + 1) * columns > ENTRIES:
        raise PrivacyError(
            f"counts up to {most} rounded to multiples of {base} take {most + 1} x {columns} probabilities, more than "
            f"{ENTRIES:,}: choose a smaller most, or a law of noise that needs no matrix"
        )
    counts = np.arange(most + 1)
    matrix = np.zeros((most + 1, columns))
    matrix[counts, counts // base * base] = 1 - counts % base / base
    matrix[counts, -(-counts // base) * base] += counts % base / base
    return Transition(matrix, Public() if public is None else public)
