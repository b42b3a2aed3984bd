"""The Wasserstein exponential mechanism on integer tables, with base measures that know what is public.

J. Seeman, M. Reimherr, A. Slavković, "Formal privacy for partially private data", Theorem 9 and section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ppdinf._frozen import assign, made
from ppdinf.errors import CountError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice.shortest import shortest_distance
from ppdinf.laws import LAPLACE, DoubleGeometric, L2Laplace
from ppdinf.mechanisms.border import require_public
from ppdinf.mechanisms.weighted import BaseMeasure, Weighted
from ppdinf.noise.plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.rationals import as_fraction, ball
from ppdinf.releases.mechanism import Mechanism

__all__ = ["DirichletMultinomial", "WassersteinExponential"]


@dataclass(frozen=True)
class DirichletMultinomial:
    r"""Weights of a table that resembles an earlier one: ``prod_j Gamma(y_j + alpha_j) / (Gamma(alpha_j) y_j!)``.

    Up to a constant the Dirichlet-multinomial law of a table with a given total, with ``alpha_j`` the `concentration`
    times the earlier count plus `pseudo_count`. (The paper prints ``Gamma(y_j)`` for ``y_j!``, ``Gamma(alpha_j + 1)``
    for ``Gamma(alpha_j)``, and no pseudo-count.)

    Parameters
    ----------
    previous : sequence of int
        The earlier counts, cell by cell; public.
    concentration : int, float, str or Fraction
        How much an earlier person weighs.
    pseudo_count : int, float, str or Fraction
        Added to every earlier count: a cell with none would otherwise be forced to stay empty.

    Raises
    ------
    CountError
        The earlier counts are not whole numbers from 0 on.

    Examples
    --------
    >>> earlier = DirichletMultinomial([3, 0], concentration="1/2")
    >>> earlier.alpha
    (Fraction(7, 4), Fraction(1, 4))
    """

    previous: tuple[int, ...]
    concentration: Fraction
    pseudo_count: Fraction

    def __init__(
        self,
        previous: Any,
        concentration: int | float | str | Fraction = 1,
        pseudo_count: int | float | str | Fraction = "1/2",
    ) -> None:
        counts = np.asarray(previous).ravel()
        if counts.dtype.kind not in "iu" or not counts.size or (counts < 0).any():
            raise CountError("previous must hold whole numbers from 0 on, one for each cell")
        assign(
            self,
            previous=tuple(int(count) for count in counts),
            concentration=as_fraction(concentration, "concentration"),
            pseudo_count=as_fraction(pseudo_count, "pseudo_count"),
        )

    @property
    def alpha(self) -> tuple[Fraction, ...]:
        """Parameters of the Dirichlet law."""
        return tuple(self.concentration * (count + self.pseudo_count) for count in self.previous)

    def weight(self, cell: int, count: int) -> arb:
        """Enclose the weight of a count in a cell."""
        alpha = ball(self.concentration * (self.previous[cell] + self.pseudo_count))
        return ((alpha + count).lgamma() - alpha.lgamma() - (arb(count) + 1).lgamma()).exp()

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight of counts from `low` to `high`: at an end, since the weights rise or fall."""
        if low < 0:
            raise PrivacyError("Dirichlet-multinomial weights need counts from 0 on: declare nonnegative() public")
        if self.concentration * (self.previous[cell] + self.pseudo_count) <= 1:
            return self.weight(cell, int(low))
        if math.isinf(high):
            raise PrivacyError(
                "Dirichlet-multinomial weights have no end where no public sum limits a cell: declare between(0, most)"
            )
        return self.weight(cell, int(high))

    def around(self, center: Sequence[int], groups: NDArray[np.int64]) -> BaseMeasure:
        """Take the growth out of the weights, for tables whose groups of cells have the sums of `center`.

        Every weight is divided by ``ratio ** (y_j - center_j)`` with the ratio ``1 + alpha_0 / n`` of its group, n
        being the sum of the group and alpha_0 that of its alpha: it then peaks where the Dirichlet-multinomial law
        does.
        Cells with the label -1 stay as they are.
        """
        alpha, counts, ratios = np.array(self.alpha), np.array(center), [Fraction(1)] * len(center)
        for group in np.unique(groups[groups >= 0]):
            cells = np.flatnonzero(groups == group)
            ratio = 1 + Fraction(alpha[cells].sum()) / max(1, int(counts[cells].sum()))
            for cell in cells:
                ratios[cell] = ratio
        return _Around(self, tuple(center), tuple(ratios))

    def to_dict(self) -> dict[str, Any]:
        """Parameters, rationals as text."""
        return {
            "previous": list(self.previous),
            "concentration": str(self.concentration),
            "pseudo_count": str(self.pseudo_count),
        }


@dataclass(frozen=True)
class _Around:
    """Dirichlet-multinomial weights over ``ratios ** (y - center)``."""

    measure: DirichletMultinomial
    center: tuple[int, ...]
    ratios: tuple[Fraction, ...]

    def weight(self, cell: int, count: int) -> arb:
        return self.measure.weight(cell, count) * ball(self.ratios[cell]) ** (self.center[cell] - count)

    def largest(self, cell: int, low: float, high: float) -> arb:
        """Enclose the largest weight: the next one is larger up to ``(alpha - ratio) / (ratio - 1)``."""
        ratio = self.ratios[cell]
        if ratio == 1 or low < 0:
            return self.measure.largest(cell, low, high)
        turn = 1 + (self.measure.alpha[cell] - ratio) // (ratio - 1)
        return self.weight(cell, int(min(max(low, turn), high)))


@dataclass(frozen=True)
class WassersteinExponential(Weighted):
    """Tables with mass proportional to ``exp(-epsilon |y - x| / (2 sensitivity))`` times a base measure.

    Parameters
    ----------
    public : Public
        Sums that the release shares with the table, and bounds that both obey: the congenial set.
    epsilon : int, float, str or Fraction
        Privacy loss between the two statements of every secret pair, in total.
    sensitivity : int, float, str or Fraction
        Delta_z: infinity-Wasserstein distance, in the norm of `loss` (l1 where it is no norm), of the laws of the table
        given what is public and either statement of a secret pair (`ppdinf.privacy.delta_z`).
    secrets : str
        What the pairs are, for example "whether one person is a case".
    base : DirichletMultinomial or another BaseMeasure, optional
        Weights of the released counts; by default all tables of the congenial set count alike. Release files hold
        the first alone.
    loss : {"l1", "l2"} or callable
        Norm of ``y - x``, the same that `sensitivity` goes by. Or ``loss(y, x)``, a finite number from 0 on for two
        whole tables as arrays of the table's shape: ``|y - x| / sensitivity`` above is then ``loss / sigma``, with
        sigma the most by which the loss of a release changes between tables at l1 distance `sensitivity`, found among
        all of them. At most 1,000 tables can then agree with what is public, and release files hold no such loss
        (`ppdinf.mechanisms.stated_loss`).

    Raises
    ------
    PrivacyError, CountError
        A parameter is out of range, or `base` no base measure; when a table comes, a sensitivity below the distance of
        the nearest two tables that agree with what is public.

    Notes
    -----
    Exact draws by elimination; in l2 with bounds or a base measure by rejection from it, for up to some twenty cells.
    Many pairs of counts, one within the other, under one total are too wide for elimination at small epsilon: for
    research, `ppdinf.fiber.pairs` draws them exactly up to double precision.
    The normaliser depends on the table where there are bounds or a base measure. For the counting measure on all
    integer tables leave sums out of `public` and tell the release what is public:
    ``ppd.Release(table, mechanism, public=...)``.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> mechanism = ppd.WassersteinExponential(public, epsilon=1, sensitivity=2, secrets="whether one person is a case")
    >>> int(mechanism.release(np.array([3, 0, 2])).table.sum())
    5
    """

    kind: ClassVar[str] = "wasserstein-exponential"
    title = "Wasserstein exponential mechanism"
    public: Public
    epsilon: Fraction
    sensitivity: Fraction
    secrets: str
    base: BaseMeasure | None
    loss: str | Callable[[Any, Any], float]

    def __init__(
        self,
        public: Public,
        epsilon: int | float | str | Fraction,
        sensitivity: int | float | str | Fraction,
        secrets: str,
        base: BaseMeasure | None = None,
        loss: str | Callable[[Any, Any], float] = "l1",
    ) -> None:
        require_public(public)
        if not isinstance(secrets, str) or not secrets.strip():
            raise PrivacyError("secrets says in words what is protected, for example 'whether one person is a case'")
        if base is not None and not isinstance(base, BaseMeasure):
            raise PrivacyError(f"base must be a DirichletMultinomial or like one, found {type(base).__name__}")
        if loss not in ("l1", "l2") and not callable(loss):
            raise PrivacyError(f"loss must be 'l1', 'l2' or a function of two tables, found {loss!r}")
        exact = {"epsilon": as_fraction(epsilon, "epsilon"), "sensitivity": as_fraction(sensitivity, "sensitivity")}
        assign(self, public=public, **exact, secrets=secrets, base=base, loss=loss)

    @property
    def law(self) -> DoubleGeometric | L2Laplace:
        """Rate ``epsilon / (2 sensitivity)`` per unit of distance."""
        return LAPLACE[self.distance](self.epsilon / (2 * self.sensitivity))

    def base_measure(self, system: System) -> BaseMeasure | None:
        """Return the weights of the released counts.

        Raises
        ------
        CountError
            The earlier table has another number of cells.
        """
        if isinstance(self.base, DirichletMultinomial) and len(self.base.previous) != system.frame.size:
            raise CountError(f"previous has {len(self.base.previous)} cells, the table {system.frame.size}")
        return self.base

    def on(self, system: System) -> WassersteinExponential:
        """Refuse an earlier table of another size, as `base_measure` does; work out a loss of one's own."""
        self.base_measure(system)
        if callable(self.loss):
            from ppdinf.mechanisms.stated_loss import StatedLoss

            return StatedLoss(self, system)
        return self

    @property
    def guarantee(self) -> Guarantee:
        """Pufferfish privacy given what is public (their Definition 3 and Theorem 9)."""
        return Guarantee(
            "pufferfish",
            self.epsilon,
            neighbours=self.secrets,
            models=(
                "every model of the data in which the secret moves the table by an infinity-Wasserstein distance of at "
                f"most Delta = {self.sensitivity} in {self.distance}"
            ),
            **self.public.open,
        )

    @property
    def distance(self) -> str:
        """The norm that `sensitivity` is in: losses of another one do not add up with it."""
        return "l2" if self.loss == "l2" else "l1"

    def _promise_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Refuse where more is public than the noise keeps, so much that no secret moves the table so little."""
        self._require_sensitivity(public)
        return self.guarantee

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose a sampler, as every weighted mechanism does.

        Raises
        ------
        InvariantError
            No exact sampler suits the public sums.
        PrivacyError
            The sensitivity is below the distance of the nearest two tables.
        """
        self._require_sensitivity(system)
        return super().plan_on(system, allow_mcmc=allow_mcmc)

    def _require_sensitivity(self, system: System) -> None:
        nearest = None if system.fixed.all() else shortest_distance(system.free, self.distance)
        if nearest is not None and float(self.sensitivity) < nearest * (1 - 1e-9):
            raise PrivacyError(
                f"the sensitivity is {self.sensitivity}, but no two tables with this public information are nearer "
                f"than {nearest:.4g} in {self.distance}: a secret that moves the table at all moves it that far"
            )

    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, rationals as text."""
        if callable(self.loss):
            raise PrivacyError("release files hold the losses 'l1' and 'l2' alone: a loss of one's own is a program")
        parameters = {
            "epsilon": str(self.epsilon),
            "sensitivity": str(self.sensitivity),
            "secrets": self.secrets,
            "loss": self.loss,
        }
        if self.base is not None and not isinstance(self.base, DirichletMultinomial):
            raise PrivacyError("release files hold Dirichlet-multinomial base measures alone")
        further = {} if self.base is None else {"base": self.base.to_dict()}
        return {"kind": self.kind} | parameters | further

    @classmethod
    def _of_file(cls, public: Public, parameters: dict[str, Any]) -> Mechanism:
        base = parameters.get("base")
        measure = {} if base is None else {"base": made(DirichletMultinomial, base, "a base measure")}
        return super()._of_file(public, parameters | measure)
