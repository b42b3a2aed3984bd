"""The Wasserstein exponential mechanism on integer tables, with an l1, l2 or user-defined loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import ClassVar

import numpy as np

from ppdinf._internal.rationals import Parameter, as_fraction
from ppdinf._internal.values import Array, Integers, Json, Reals, assign, construct
from ppdinf.errors import CountError, InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.lattice.fiber_tables import fiber_tables
from ppdinf.lattice.shortest import shortest_distance
from ppdinf.laws import LAPLACE, DoubleGeometric, L2Laplace
from ppdinf.laws.likelihood import Likelihood
from ppdinf.mechanism import Mechanism
from ppdinf.mechanisms.base_measure import BaseMeasure, DirichletMultinomial, log_base_measure
from ppdinf.mechanisms.input_checks import require_public
from ppdinf.mechanisms.weighted import Weighted
from ppdinf.noise.exact.potentials import table
from ppdinf.noise.exact.variable_elimination import Elimination
from ppdinf.noise.primitives.stream import BitStream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.pufferfish import delta_z

MOST = 1000  # tables; losses are computed for all pairs


def _losses(loss: Callable[[Array, Array], float], tables: Integers, shape: tuple[int, ...]) -> Reals:
    """Compute ``loss(y, x)`` for all pairs, indexed ``[x, y]``."""
    shaped = tables.reshape(-1, *shape)
    shaped.flags.writeable = False
    try:
        losses = np.array([[loss(y, x) for y in shaped] for x in shaped], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PrivacyError("the loss of two tables must be one number: loss(y, x) of two arrays") from error
    if losses.shape != (len(tables), len(tables)) or not np.isfinite(losses).all() or (losses < 0).any():
        raise PrivacyError("the loss of two tables must be finite and non-negative")
    return losses


@dataclass(frozen=True)
class WassersteinExponential(Weighted):
    """Integer tables that keep all public sums and bounds, under a Pufferfish guarantee.

    The release y of a table x has mass proportional to ``exp(-epsilon |y - x| / (2 sensitivity))`` times a base
    measure.

    Parameters
    ----------
    public : Public
        Sums that the release shares with the table, and bounds that both satisfy: the congenial set.
    epsilon : int, float, str or Fraction
        Privacy loss between the two statements of every secret pair, in total.
    sensitivity : int, float, str or Fraction
        Delta_z: infinity-Wasserstein distance between the distributions of the table given the public statements and
        either statement of a secret pair, in the norm of `loss` (l1 for a callable); `ppdinf.privacy.delta_z`.
    secrets : str
        Description of the secret pairs, for example "whether one person is a case".
    base_measure : DirichletMultinomial or another BaseMeasure, optional
        Weights of the released counts; by default all tables of the congenial set have the same weight. Release files
        can store a DirichletMultinomial only.
    loss : {"l1", "l2"} or callable
        Norm of ``y - x``, also the norm of `sensitivity`. Or ``loss(y, x)``, a finite non-negative number for two
        tables, given as arrays of the table's shape. Then ``|y - x| / sensitivity`` above is ``loss / sigma``, where
        sigma is the largest change of the loss of a release between tables at l1 distance `sensitivity`, computed by
        enumeration. At most 1,000 tables may satisfy the public statements, and release files cannot store the loss
        (`ppdinf.mechanisms.wasserstein_exponential`).
    models : iterable of (law, law), optional
        Pairs of distributions of the table given the public statements: one pair for each model and each secret pair,
        as mappings from tuples of all counts, in the order of the table's cells, to probabilities. A sensitivity below
        their infinity-Wasserstein distance is refused. Release files do not store them.

    Raises
    ------
    PrivacyError, CountError
        A parameter is out of range, or `base_measure` is not a base measure. The sensitivity is below the distance of a
        pair of `models`. For a given table: the sensitivity is below the distance of the nearest two tables that
        satisfy the public statements, or a table of `models` has another size or violates them.

    See Also
    --------
    ppdinf.Conditioned, ppdinf.privacy.wasserstein_infinity

    Notes
    -----
    Draws are exact: by elimination, and for l2 or wide noise by independent trees of bounds with rejection
    (`ppdinf.mechanisms.trees_given_sums`), for up to three public sums. Every bound then has at most two cells, such as
    cases >= deaths of a county, and these bounds form no cycle. Cases and deaths of 67 counties take about a second in
    l1, and 3 to 20 seconds in l2.
    With bounds or a base measure, the normalizer depends on the table. For the counting measure on all integer
    tables, leave sums out of `public` and state them for the release:
    ``ppd.Release(table, mechanism, public=...)``.

    Examples
    --------
    >>> import numpy as np, xarray as xr, ppdinf as ppd
    >>> public = ppd.invariants.total() & ppd.invariants.nonnegative()
    >>> mechanism = ppd.WassersteinExponential(public, epsilon=1, sensitivity=2, secrets="whether one person is a case")
    >>> int(mechanism.release(np.array([3, 0, 2])).table.sum())
    5

    Cases and deaths of three counties, with the total of the cases exact and no more deaths than cases:

    >>> inv = ppd.invariants
    >>> cases = inv.linear([[1, 0] * 3], ["cases of all counties"])
    >>> public = cases & inv.nonnegative() & inv.at_least("cases", "deaths", dim="kind")
    >>> earlier = ppd.mechanisms.DirichletMultinomial([8, None, 0, None, 3, None])  # of cases only
    >>> mechanism = ppd.WassersteinExponential(public, 1, 4, "whether one person died, and is a case", earlier)
    >>> table = xr.DataArray([[9, 1], [0, 0], [2, 0]], dims=("county", "kind"), coords={"kind": ["cases", "deaths"]})
    >>> int(mechanism.release(table).table.sel(kind="cases").sum())
    11
    """

    kind: ClassVar[str] = "wasserstein-exponential"
    title = "Wasserstein exponential mechanism"
    public: Public
    epsilon: Fraction
    sensitivity: Fraction
    secrets: str
    loss: str | Callable[[Array, Array], float]
    base_measure: BaseMeasure | None
    models: tuple[tuple[object, object], ...] = field(compare=False, repr=False)

    def __init__(
        self,
        public: Public,
        epsilon: Parameter,
        sensitivity: Parameter,
        secrets: str,
        base_measure: BaseMeasure | None = None,
        loss: str | Callable[[Array, Array], float] = "l1",
        models: Iterable[tuple[object, object]] | None = None,
    ) -> None:
        require_public(public)
        if not isinstance(secrets, str) or not secrets.strip():
            raise PrivacyError("secrets must describe the secret, for example 'whether one person is a case'")
        if base_measure is not None and not isinstance(base_measure, BaseMeasure):
            raise PrivacyError(
                f"base_measure must be a DirichletMultinomial or a BaseMeasure, found {type(base_measure).__name__}"
            )
        if loss not in ("l1", "l2") and not callable(loss):
            raise PrivacyError(f"loss must be 'l1', 'l2' or a function of two tables, found {loss!r}")
        exact = {"epsilon": as_fraction(epsilon, "epsilon"), "sensitivity": as_fraction(sensitivity, "sensitivity")}
        pairs = () if models is None else tuple(models)
        assign(self, public=public, **exact, secrets=secrets, base_measure=base_measure, loss=loss, models=pairs)
        least = 0 if models is None else delta_z(pairs, norm=self.distance)
        if self.sensitivity < least:
            raise PrivacyError(
                f"sensitivity must be at least {float(least):.4g}, the {self.distance} distance between the laws of "
                f"`models`; it is {self.sensitivity}"
            )

    @property
    def law(self) -> DoubleGeometric | L2Laplace:
        """Return noise with rate ``epsilon / (2 sensitivity)`` per unit of distance."""
        return LAPLACE[self.distance](self.epsilon / (2 * self.sensitivity))

    def measure_on(self, system: System) -> BaseMeasure | None:
        """Return the weights of the released counts.

        Raises
        ------
        CountError
            The earlier table has a different number of cells.
        """
        if isinstance(self.base_measure, DirichletMultinomial) and len(self.base_measure.previous) != system.frame.size:
            raise CountError(
                f"previous has {len(self.base_measure.previous)} cells, but the table has {system.frame.size}"
            )
        return self.base_measure

    def on(self, system: System) -> WassersteinExponential:
        """Validate the size of an earlier table, and enumerate the tables for a user-defined loss."""
        self.measure_on(system)
        if callable(self.loss):
            return StatedLoss(self, system)
        return self

    @property
    def guarantee(self) -> Guarantee:
        """Return Pufferfish privacy given the public statements (their Definition 3 and Theorem 9)."""
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
        """Norm of `sensitivity`; losses in different norms cannot be added."""
        return "l2" if self.loss == "l2" else "l1"

    def _guarantee_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Refuse if more is public than the noise keeps and no two tables are within the sensitivity."""
        self._require_sensitivity(public)
        return self.guarantee

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose a sampler as for all weighted mechanisms.

        Raises
        ------
        InvariantError
            No exact sampler applies to the public sums.
        PrivacyError
            The sensitivity is below the distance of the nearest two tables.
        """
        self._require_sensitivity(system)
        return super().plan_on(system, allow_mcmc=allow_mcmc)

    def _require_sensitivity(self, system: System) -> None:
        """Refuse a sensitivity below the nearest two tables, and models of other tables."""
        for cells in chain.from_iterable(
            law if isinstance(law, Mapping) else [law] for pair in self.models for law in pair
        ):
            if not isinstance(cells, tuple) or len(cells) != system.frame.size:
                raise PrivacyError(
                    f"the values of `models` must be tuples of the {system.frame.size} counts of the table, found "
                    f"{cells!r:.60}: state the laws of everything that is released"
                )
            try:
                system.require_cells(np.array(cells))
            except InvariantError as error:
                raise PrivacyError(f"a value of `models` is impossible: {error}") from None
        nearest = None if system.fixed.all() else shortest_distance(system.free, self.distance)
        if nearest is not None and float(self.sensitivity) < nearest * (1 - 1e-9):
            raise PrivacyError(
                f"sensitivity must be at least {nearest:.4g}, the smallest {self.distance} distance between two tables "
                f"with this public information; it is {self.sensitivity}"
            )

    def to_dict(self) -> Json:
        """Return the kind and parameters, with rational numbers as text."""
        if callable(self.loss):
            raise PrivacyError("release files store the losses 'l1' and 'l2' only: a user-defined loss is code")
        if self.base_measure is not None and not isinstance(self.base_measure, DirichletMultinomial):
            raise PrivacyError("release files store Dirichlet-multinomial base measures only")
        return super().to_dict()

    @classmethod
    def _of_file(cls, public: Public, parameters: Json) -> Mechanism:
        stated = parameters.get("base_measure")
        measure = {} if stated is None else {"base_measure": construct(DirichletMultinomial, stated, "a base measure")}
        return super()._of_file(public, parameters | measure)


class StatedLoss(WassersteinExponential):
    """A Wasserstein exponential mechanism with a user-defined loss, and all tables of a bound system."""

    system: System
    tables: Integers
    log_w: Reals  # log weights of every release y given every table x, indexed [x, y]
    sigma: float  # largest change of the loss of any release between tables within l1 distance `sensitivity`

    def __init__(self, stated: WassersteinExponential, system: System) -> None:
        assign(self, **vars(stated))
        tables = fiber_tables(system.A, system.values, system.B, system.limits, most=MOST)
        if tables is None:
            raise InvariantError(
                f"a user-defined loss is computed for all tables, and more than {MOST:,} satisfy the public "
                "statements: use the loss 'l1' or 'l2', or make more public"
            )
        losses = _losses(self.loss, tables, system.frame.shape)  # type: ignore[arg-type]
        near = (np.abs(tables - x).sum(axis=1) <= float(self.sensitivity) for x in tables)
        sigma = max(
            float(np.abs(losses[close] - losses_of_x).max()) for losses_of_x, close in zip(losses, near, strict=True)
        )
        if not sigma and len(tables) > 1:
            raise PrivacyError(
                f"the loss is constant between tables within distance {float(self.sensitivity):g} of each other: give "
                "a loss that distinguishes these tables, or a larger sensitivity"
            )
        log_w = -float(self.epsilon) / 2 / (sigma or 1.0) * losses
        log_w += [log_base_measure(self.measure_on(system), y) for y in tables]
        assign(self, system=system, tables=tables, log_w=log_w, sigma=sigma)

    def on(self, system: System) -> WassersteinExponential:
        """Bind again where the public statements have other values; they are the same statements."""
        bound = self.system
        same = (
            bound.frame.shape == system.frame.shape
            and np.array_equal(bound.values, system.values)
            and np.array_equal(bound.limits, system.limits)
            and np.array_equal(bound.A.toarray(), system.A.toarray())
            and np.array_equal(bound.B.toarray(), system.B.toarray())
        )
        return self if same else StatedLoss(self, system)

    def likelihood(self, system: System) -> Likelihood | None:
        """Return None: samplers update single cells, and this loss does not factor over cells."""
        return None

    def intractable(self, system: System | None = None) -> str:
        """Return the message that states an alternative."""
        return (
            "a user-defined loss is not a sum over the cells, which sampling requires: the tables are few, so add "
            "release.mechanism.logp(release.table, x) to the log prior of each table, or use the loss 'l1' or 'l2'"
        )

    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Return a plan that enumerates all tables; refuse too small a sensitivity."""
        self._require_sensitivity(system)
        return Plan("listed", True, f"{len(self.tables)} tables satisfy the public statements")

    def _place(self, cells: Integers) -> int | None:
        """Return the index of a table in the list, or None."""
        places = np.flatnonzero((self.tables == cells).all(axis=1))
        return int(places[0]) if places.size else None

    def draw(self, system: System, cells: Integers, draws: int, stream: BitStream, plan: Plan | None = None) -> Array:
        """Draw releases of a table; int64 of shape (draws, d), exact for the weights in double precision."""
        one_of = Elimination(np.empty((0, 1), dtype=np.int64), [], [table(0, self.log_w[self._place(cells)])])
        return self.tables[one_of.draw(draws, stream)[:, 0]]

    def log_normaliser(self, system: System, cells: Integers) -> float:
        """Return the logarithm of C(x)."""
        return float(np.logaddexp.reduce(self.log_w[self._place(cells)]))

    def log_weight(self, system: System, y: Integers, x: Integers) -> float:
        """Return the log probability of releasing y given the table x; ``-inf`` where one violates a public bound."""
        released, confidential = self._place(y), self._place(x)
        if released is None or confidential is None:
            return -np.inf
        return float(self.log_w[confidential, released]) - self.log_normaliser(system, x)

    def log_unnormalised(self, system: System, y: Integers, x: Integers) -> float:
        """Return `log_weight`: the listed law is normalized."""
        return self.log_weight(system, y, x)
