"""What every mechanism shares: a law stated once, from which release, simulation and inference derive."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import sparse

from ppdinf._frozen import made
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError, PrivacyWarning
from ppdinf.frame import Frame
from ppdinf.invariants import Public, System
from ppdinf.invariants.system import bind
from ppdinf.noise.plan import Plan
from ppdinf.privacy.guarantee import Guarantee, ReleaseGuarantee
from ppdinf.tables import LARGEST, labelled_cells, ranked

if TYPE_CHECKING:
    from ppdinf.laws.histogram_noise import HistogramNoise
    from ppdinf.laws.noise_norm import NoiseNorm
    from ppdinf.noise.bits.tape import Tape
    from ppdinf.releases import Release

__all__ = ["Mechanism", "require_public"]

CHAIN = "that the chain which drew the noise is as near to its law as coupled chains show at 95 % confidence"


class Mechanism(ABC):
    """Integer tables drawn near a confidential one, with all of its public sums.

    A subclass states its law once, by `potential` and what it adds to that, and says how to draw from it.
    Release, simulation, density, file format and inference derive from these.

    Attributes
    ----------
    kind : str
        Name in release files.
    title : str
        The law in a few words.
    is_integer : bool
        Whether releases are whole numbers; others are doubles, multiples of a grid where that is possible.
    keeps_bounds : bool
        Whether releases obey public bounds as the confidential table does.
    public : Public
        What is kept exactly.
    """

    kind: ClassVar[str]
    title: str = "noise"
    is_integer: ClassVar[bool] = True
    keeps_bounds: ClassVar[bool] = False
    public: Public
    _kinds: ClassVar[dict[str, type[Mechanism]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in vars(cls):  # else a family, not a mechanism
            Mechanism._kinds[cls.kind] = cls

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the law promises on any table."""

    def guarantee_on(self, system: System, plan: Plan | None, public: System | None = None) -> ReleaseGuarantee:
        """State the guarantee of a release and the sampler that was planned.

        Parameters
        ----------
        system : System
            What the release keeps.
        plan : Plan or None
        public : System, optional
            Everything public, where that is more: it decides which tables there are to choose from.
        """
        public = system if public is None else public
        promise = self._promise_on(system, public, plan)
        distance = 0.0 if plan is None or plan.distance is None else plan.distance
        nearest, change = (None, None) if public.fixed.all() else self._nearest(promise, public)
        measured = (CHAIN,) if 0 < distance < 1 else ()
        given = vars(promise) | {"assumed": (*promise.assumed, *measured)}
        return ReleaseGuarantee(
            **given,
            nearest=nearest,
            fixed=int(public.fixed.sum()),
            cells=public.frame.size,
            sampler=self._sampled(plan),
            sampler_distance=distance,
            change=change,
        )

    def _promise_on(self, system: System, public: System, plan: Plan | None) -> Guarantee:
        """Say what is promised of releases that keep the sums of `system`."""
        return self.guarantee

    def _nearest(self, promise: Guarantee, public: System) -> tuple[Any, str | None]:
        """Find how far the nearest other table is, in steps where there is no metric, and what it differs in."""
        from ppdinf.lattice.shortest import shortest_step

        if promise.metric is None:
            return 1, None
        step = shortest_step(public.free, promise.metric)
        if step is None:
            return None, None
        size = int(np.abs(step).sum()) if promise.metric == "l1" else math.sqrt(int(step @ step))
        return size, _in_words(step, promise.unit if promise.contributions == 1 else "record")

    def _sampled(self, plan: Plan | None) -> str:
        """Say how the noise was drawn."""
        return f"{self.title}, {plan or 'drawn in a way that is not stated'}"

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Kind and parameters, without `public`, as plain data; `from_dict` reads them back."""

    @staticmethod
    def from_dict(data: Any, public: Public) -> Mechanism:
        """Rebuild a mechanism from `to_dict`.

        Raises
        ------
        PrivacyError
            A kind of mechanism that this version does not know, or other parameters than it has.
        """
        kind = data.get("kind") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind not in Mechanism._kinds:
            raise PrivacyError(f"this version of ppdinf does not know mechanisms of kind {kind!r}")
        parameters = {name: value for name, value in data.items() if name != "kind"}
        return Mechanism._kinds[kind]._of_file(public, parameters)

    @classmethod
    def _of_file(cls, public: Public, parameters: dict[str, Any]) -> Mechanism:
        """Make a mechanism of what `to_dict` has said."""
        return made(cls, {"public": public} | parameters, f"a mechanism of kind {cls.kind!r}")

    @abstractmethod
    def potential(self, z: Any, scale: Any = None) -> Any:
        """Log weight of each noise value, elementwise, normaliser dropped; NumPy or PyTensor.

        With `is_mixture`, the weight given the mixing scale; with `shifts`, that of noise before its projection.
        """

    def log_given(self, y: Any, x: Any) -> Any:
        """Log weight of releasing each y when the count is x, elementwise; NumPy or PyTensor."""
        return self.potential(y - x)

    @property
    def is_mixture(self) -> bool:
        """Whether the cells are independent, but for the public sums, only given a common half-normal scale."""
        return False

    @property
    def coupling(self) -> NoiseNorm | None:
        """Law of noise that couples the cells, or answers queries, which `potential` cannot state; mostly None."""
        return None

    @property
    def shifts(self) -> sparse.csr_array | None:
        """Directions that a projection has removed from the noise, shape (d, r), unless it was none.

        The law is stated for ``y + shifts @ t``; densities ``exp(-|t_j|)`` of the coordinates t must be taken off.
        """
        return None

    @property
    def histogram_noise(self) -> HistogramNoise | None:
        """What was published of the table's histogram of counts before, as noisy sums; mostly None."""
        return None

    @abstractmethod
    def half_width(self, cells: int) -> int:
        """Bound on ``|z|`` that no cell of a table of that size exceeds but with probability 1e-12."""

    def log_normaliser(self, system: System, cells: NDArray[np.int64]) -> float | None:
        """Logarithm of the total weight of all releases of a table.

        None where it is the same for every table; nan where it is not, but has no sum: samplers then draw releases of
        their own to do without it.
        """
        return None

    def on(self, system: System) -> Mechanism:
        """Settle whatever the mechanism leaves open until it meets a table's public sums; never its counts."""
        return self

    @abstractmethod
    def plan_on(self, system: System, *, allow_mcmc: bool = False) -> Plan:
        """Choose the sampler for a bound system."""

    @abstractmethod
    def draw(
        self, system: System, cells: NDArray[np.int64], draws: int, tape: Tape, plan: Plan | None = None
    ) -> NDArray[np.int64]:
        """Draw releases of a table from uniform 64-bit words; int64 of shape (draws, d)."""

    @abstractmethod
    def log_weight(self, system: System, y: NDArray[np.int64], x: NDArray[np.int64]) -> float:
        """Log density of releasing y when the table is x, up to what is the same for every x; they share all sums."""

    def plan(self, table: Any, *, allow_mcmc: bool = False) -> Plan:
        """Say how the noise for `table` would be drawn, and why.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        allow_mcmc : bool
            As in `release`.

        Returns
        -------
        Plan
        """
        system = self.public.on(table)
        return self.on(system).plan_on(system, allow_mcmc=allow_mcmc)

    def expected_error(self, table: Any, *, sizes: Sequence[int] = (10, 100, 1000)) -> pd.DataFrame:
        """Tabulate how far released cells will be off, before any privacy is spent: from the law of the noise alone.

        Parameters
        ----------
        table : table, or tuple of int
            Labels and public statements are looked at, counts are not; a shape will do where the statements need no
            labels. Of the cells, where the mechanism answers a query.
        sizes : sequence of int
            Counts for which to state the coefficient of variation.

        Returns
        -------
        pandas.DataFrame
            One row per kind of cell, by the public sums that it is in: how many ``cells``; ``sd`` of the noise, in
            persons; ``half_width`` that 90 % of the noise stays within; ``cv_10`` and so on, sd over count; ``exact``:
            computed, or read off simulated draws (right to about 2 %).

        Raises
        ------
        PrivacyError
            The error depends on the counts, as it does with bounds, base measures or post-processing.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
        >>> mechanism.expected_error((67,)).round(2).T
        noise of cells in a public sum of 67 cells
        cells                                   67
        sd                                    5.54
        half_width                             9.0
        cv_10                                 0.55
        cv_100                                0.06
        cv_1000                               0.01
        exact                                 True
        """
        from ppdinf.mechanisms.expected_error import expected_error

        return expected_error(self, table, sizes)

    def release(self, table: Any, *, allow_mcmc: bool = False, **seed: Any) -> Release:
        """Publish a table: draw noise from the operating system's secure source and add it.

        Takes no seed: noise that can be drawn again can be subtracted again.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
            Confidential. Every coordinate beside the labels of its dimensions must be declared
            public (`ppdinf.invariants.covariates`) or dropped.
        allow_mcmc : bool
            Fall back to a Markov chain where no exact sampler serves. Its measured distance from the law enters
            the guarantee, and its generator is seeded with 256 secure bits instead of reading secure words.

        Returns
        -------
        Release
            Every public sum equals that of `table`; cells can be negative.

        Raises
        ------
        CountError, LabelError, InvariantError
            The table cannot be taken as it is, or breaks a declared bound or structural zero.
        PrivacyError
            Anything is passed beside the table: there is no seed to set.

        Warns
        -----
        PrivacyWarning
            The public sums fix cells that are no structural zeros: they are published as they are. Or the labels come
            in the order of their counts, which is published with them.
        """
        from ppdinf.noise.bits.tape import secure_tape
        from ppdinf.releases.release import Release, as_drawn

        if seed:
            raise PrivacyError(
                f"release() takes no {next(iter(seed))!r}: noise that can be drawn again can be subtracted again; for "
                "research, draw with simulate(table, draws=..., rng=...)"
            )
        frame, cells = labelled_cells(table)
        _refuse_undeclared(frame, self.public)
        if np.abs(cells).max() > LARGEST // 2:  # not once noise has carried one beyond: a second draw has another law
            cell = frame.cell(int(np.argmax(np.abs(cells))))
            raise CountError(f"the cell at {cell} is beyond 2**52, so that noise could carry it where files round it")
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        mechanism = self.on(system)
        plan = mechanism.plan_on(system, allow_mcmc=allow_mcmc)
        _warn_fixed(system)
        _warn_ranked(frame, cells, self.public)
        released = mechanism.draw(system, cells, 1, secure_tape(), plan)[0]
        return as_drawn(Release(frame.table(released), mechanism, public=system, plan=plan))

    def simulate(
        self, table: Any, *, draws: int, rng: int | np.random.Generator | None = None, allow_mcmc: bool = False
    ) -> xr.DataArray:
        """Draw many noisy versions of a table for research; never publish one.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        draws : int
            At least 1.
        rng : int or numpy.random.Generator, optional
            The same algorithm as `release`, on a stream that can be repeated. A generator is spawned from,
            so that two calls with the same one differ.
        allow_mcmc : bool
            As in `release`.

        Returns
        -------
        xarray.DataArray of int64, dimensions ``("draw", *table.dims)``

        Raises
        ------
        CountError, LabelError, InvariantError
            As `release`, but coordinates need not be declared.
        PrivacyError
            `draws` is not a positive whole number.
        """
        from ppdinf.noise.bits.tape import seeded_tape

        if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
            raise PrivacyError(f"draws must be a positive whole number, found {draws!r}")
        frame, cells = labelled_cells(table)
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        mechanism = self.on(system)
        plan = mechanism.plan_on(system, allow_mcmc=allow_mcmc)
        generator = rng.spawn(1)[0] if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        return frame.table(mechanism.draw(system, cells, int(draws), seeded_tape(generator), plan))

    def logp(self, y: Any, x: Any) -> float:
        """Log density of releasing `y` when the confidential table is `x`, up to what is the same for every x.

        Differences between tables are exact.

        Parameters
        ----------
        y, x : tables with the same labels
            Both can hold negative cells: bounds do not enter the law of noise that does not depend on the table.

        Returns
        -------
        float
            ``-inf`` where `x` and `y` differ in a public sum.
        """
        from ppdinf.lattice.systems import exact_product

        frame, released = labelled_cells(y, nonnegative=False)
        system = bind(self.public, frame, released)
        cells = system.cells(x)
        if np.any(exact_product(system.A, released - cells)):
            return -np.inf
        return self.on(system).log_weight(system, released, cells)


def require_public(public: Any) -> None:
    """Refuse anything but public statements where they belong."""
    if not isinstance(public, Public):
        raise InvariantError("the first argument says what is public, for example ppdinf.invariants.total()")


def _in_words(step: NDArray[np.int64], unit: str) -> str:
    """Say what a smallest change of the table is."""
    moved = step[step != 0]
    if moved.size == 1 and abs(moved[0]) == 1:
        return f"one {unit} more or less in a cell that no public sum covers"
    if moved.size == 2 and np.all(np.abs(moved) == 1):
        if moved.sum():
            return f"one {unit} more, or one less, in each of two cells"
        return f"one {unit} counted in another cell"
    return "several cells must change together to keep every public sum"


def _refuse_undeclared(frame: Frame, public: Public) -> None:
    declared = public.coordinates()
    loose = [name for name in frame.coords if name not in frame.dims and name not in declared]
    if loose:
        names = ", ".join(map(repr, loose))
        raise LabelError(
            f"nothing declares the coordinates {names} public: add covariates({names}) to the public information "
            f"to publish them, or drop them with table.drop_vars([{names}])"
        )


def ranked_labels(frame: Frame, cells: NDArray[np.int64], public: Public) -> str | None:
    """Say which labels come in the order of their counts, unless what is public declares them in that order."""
    declared = {vars(statement)["dim"] for statement in public if statement.kind == "labels"}
    found = [dim for dim in ranked(frame, cells) if dim not in declared]
    if not found:
        return None
    return (
        f"the labels of {found[0]!r} come in the order of their counts, as value_counts() leaves them, and their order "
        "is published: sort the table by its labels (table.sort_index(), table.sortby(...)), or declare labels that "
        f"have an order of their own: ppdinf.invariants.labels({found[0]!r}, [...])"
    )


def _warn_ranked(frame: Frame, cells: NDArray[np.int64], public: Public) -> None:
    told = ranked_labels(frame, cells, public)
    if told:
        warnings.warn(told, PrivacyWarning, stacklevel=3)


def _warn_fixed(system: System) -> None:
    fixed = np.flatnonzero(system.fixed & ~system.empty)
    if fixed.size:
        warnings.warn(
            f"the public sums fix {fixed.size} of {system.frame.size} cells, the first at "
            f"{system.frame.cell(int(fixed[0]))}: they are published as they are, without noise",
            PrivacyWarning,
            stacklevel=3,
        )
