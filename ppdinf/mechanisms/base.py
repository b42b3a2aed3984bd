"""What every mechanism shares: a law stated once, from which release, simulation and inference derive."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ppdinf.errors import LabelError, PrivacyError, PrivacyWarning
from ppdinf.frame import Frame
from ppdinf.invariants import Public, System
from ppdinf.invariants.system import bind
from ppdinf.privacy.guarantee import Guarantee, ReleaseGuarantee
from ppdinf.samplers.plan import Plan
from ppdinf.tables import labelled_cells

if TYPE_CHECKING:
    from ppdinf.releases import Release
    from ppdinf.samplers.tape import Tape

__all__ = ["Mechanism"]


class Mechanism(ABC):
    """Integer noise on the lattice ``{z : A z = 0}``, with a law that does not depend on the table.

    A subclass states the law by `potential` and says how to draw from it. The density of a release is
    then ``q(y - x)`` with a normaliser free of x (translation invariance), which inference uses.

    Attributes
    ----------
    kind : str
        Name in release files.
    public : Public
        What is kept exactly.
    """

    kind: ClassVar[str]
    public: Public
    _kinds: ClassVar[dict[str, Callable[..., Mechanism]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Mechanism._kinds[cls.kind] = cls

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the law promises on any table."""

    @abstractmethod
    def guarantee_on(self, system: System, plan: Plan | None) -> ReleaseGuarantee:
        """State the guarantee for a bound system and the sampler that was planned."""

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
        try:
            return Mechanism._kinds[kind](public, **parameters)
        except TypeError:
            names = ", ".join(map(repr, parameters))
            raise PrivacyError(f"a mechanism of kind {kind!r} does not have the parameters {names}") from None

    @abstractmethod
    def potential(self, z: Any) -> Any:
        """Log weight of each noise value, elementwise, normaliser dropped; NumPy or PyTensor."""

    @abstractmethod
    def half_width(self, cells: int) -> int:
        """Bound on ``|z|`` that no cell of a table of that size exceeds but with probability 1e-12."""

    @abstractmethod
    def plan_on(self, system: System) -> Plan:
        """Choose the sampler for a bound system."""

    @abstractmethod
    def noise(self, system: System, draws: int, tape: Tape) -> NDArray[np.int64]:
        """Draw noise, int64 of shape (draws, d), from uniform 64-bit words."""

    def plan(self, table: Any) -> Plan:
        """Say how the noise for `table` would be drawn, and why.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts

        Returns
        -------
        Plan
        """
        return self.plan_on(self.public.on(table))

    def release(self, table: Any, **seed: Any) -> Release:
        """Publish a table: draw noise from the operating system's secure source and add it.

        Takes no seed: noise that can be drawn again can be subtracted again.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
            Confidential. Every coordinate beside the labels of its dimensions must be declared
            public (`ppdinf.invariants.covariates`) or dropped.

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
            The public sums fix cells that are no structural zeros: they are published as they are.
        """
        from ppdinf.releases import Release
        from ppdinf.samplers.tape import secure_tape

        if seed:
            raise PrivacyError(
                f"release() takes no {next(iter(seed))!r}: noise that can be drawn again can be subtracted again; for "
                "research, draw with simulate(table, draws=..., rng=...)"
            )
        frame, cells = labelled_cells(table)
        _refuse_undeclared(frame, self.public)
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        plan = self.plan_on(system)
        _warn_fixed(system)
        noise = self.noise(system, 1, secure_tape())[0]
        return Release(frame.table(cells + noise), self, public=system, plan=plan)

    def simulate(self, table: Any, *, draws: int, rng: int | np.random.Generator | None = None) -> xr.DataArray:
        """Draw many noisy versions of a table for research; never publish one.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        draws : int
            At least 1.
        rng : int or numpy.random.Generator, optional
            The same algorithm as `release`, on a stream that can be repeated. A generator is spawned from,
            so that two calls with the same one differ.

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
        from ppdinf.samplers.tape import seeded_tape

        if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
            raise PrivacyError(f"draws must be a positive whole number, found {draws!r}")
        frame, cells = labelled_cells(table)
        system = bind(self.public, frame, cells)
        system.require_cells(cells)
        self.plan_on(system)
        generator = rng.spawn(1)[0] if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        return frame.table(cells + self.noise(system, int(draws), seeded_tape(generator)))

    def logp(self, y: Any, x: Any) -> float:
        """Log density of releasing `y` when the confidential table is `x`, normaliser dropped.

        The normaliser is the same for every x, so differences between tables are exact.

        Parameters
        ----------
        y, x : tables with the same labels
            Both can hold negative cells: bounds do not enter the law of the noise.

        Returns
        -------
        float
            ``-inf`` where `x` and `y` differ in a public sum.
        """
        from ppdinf.lattice.systems import exact_product

        frame, released = labelled_cells(y, nonnegative=False)
        system = bind(self.public, frame, released)
        noise = released - system.cells(x)
        if np.any(exact_product(system.A, noise)):
            return -np.inf
        return float(np.sum(self.potential(noise)))


def _refuse_undeclared(frame: Frame, public: Public) -> None:
    declared = public.coordinates()
    loose = [name for name in frame.coords if name not in frame.dims and name not in declared]
    if loose:
        names = ", ".join(map(repr, loose))
        raise LabelError(
            f"nothing declares the coordinates {names} public: add covariates({names}) to the public information "
            f"to publish them, or drop them with table.drop_vars([{names}])"
        )


def _warn_fixed(system: System) -> None:
    fixed = np.flatnonzero(system.structure.fixed & ~system.empty)
    if fixed.size:
        warnings.warn(
            f"the public sums fix {fixed.size} of {system.frame.size} cells, the first at "
            f"{system.frame.cell(int(fixed[0]))}: they are published as they are, without noise",
            PrivacyWarning,
            stacklevel=3,
        )
