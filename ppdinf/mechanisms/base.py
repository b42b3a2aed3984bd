"""What every mechanism shares: a law stated once, from which release, simulation and inference derive."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import xarray as xr

from ppdinf.errors import LabelError, PrivacyError, PrivacyWarning
from ppdinf.invariants import Public, System
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.samplers.plan import Plan
from ppdinf.tables import Frame, as_table

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

    @abstractmethod
    def guarantee_on(self, system: System, plan: Plan | None) -> Guarantee:
        """State the guarantee for a bound system; without a plan, the draws are taken on trust."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Parameters as plain data; `from_dict` reads them back."""

    @staticmethod
    def from_dict(data: dict[str, Any], public: Public) -> Mechanism:
        """Rebuild a mechanism from `to_dict`.

        Raises
        ------
        PrivacyError
            A kind of mechanism that this version does not know.
        """
        parameters = dict(data)
        kind = parameters.pop("kind", None)
        if kind not in Mechanism._kinds:
            raise PrivacyError(f"this version of ppdinf does not know mechanisms of kind {kind!r}")
        return Mechanism._kinds[kind](public, **parameters)

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
    def noise(self, system: System, draws: int, tape: Tape) -> np.ndarray:
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

    def release(self, table: Any) -> Release:
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

        Warns
        -----
        PrivacyWarning
            The public sums fix some cells: these are published as they are.
        """
        from ppdinf.releases import Release
        from ppdinf.samplers.tape import secure_tape

        data = as_table(table)
        _refuse_undeclared(data, self.public)
        system = self.public.on(data)
        system.require(data)
        plan = self.plan_on(system)
        _warn_fixed(system)
        noise = self.noise(system, 1, secure_tape())[0]
        return Release(data + noise.reshape(data.shape), self, public=system, plan=plan)

    def simulate(self, table: Any, *, draws: int, rng: int | np.random.Generator | None = None) -> xr.DataArray:
        """Draw many noisy versions of a table for research; never publish one.

        Parameters
        ----------
        table : xarray.DataArray, pandas object or numpy.ndarray of counts
        draws : int
        rng : int or numpy.random.Generator, optional
            The same algorithm as `release`, on a stream that can be repeated.

        Returns
        -------
        xarray.DataArray of int64, dimensions ``("draw", *table.dims)``
        """
        from ppdinf.samplers.tape import seeded_tape

        data = as_table(table)
        system = self.public.on(data)
        noise = self.noise(system, draws, seeded_tape(np.random.default_rng(rng)))
        return data + xr.DataArray(noise.reshape(draws, *data.shape), dims=("draw", *data.dims))

    def logp(self, y: Any, x: Any) -> float:
        """Log density of releasing `y` when the confidential table is `x`, normaliser dropped.

        The normaliser is the same for every x, so differences between tables are exact.

        Parameters
        ----------
        y, x : tables with the same labels
            `y` may hold negative cells.

        Returns
        -------
        float
            ``-inf`` where `x` and `y` differ in a public sum.
        """
        system = self.public.on(y)
        cells_y, cells_x = system.cells(y), system.cells(x)
        if np.any(system.A @ (cells_y - cells_x)):
            return -np.inf
        return float(np.sum(self.potential(cells_y - cells_x)))


def _refuse_undeclared(table: xr.DataArray, public: Public) -> None:
    declared = public.coordinates()
    loose = [name for name in Frame.of(table).coords if name not in table.dims and name not in declared]
    if loose:
        names = ", ".join(repr(name) for name in loose)
        raise LabelError(
            f"nothing declares the coordinates {names} public: add covariates({names}) to the public information "
            f"to publish them, or drop them with table.drop_vars([{names}])"
        )


def _warn_fixed(system: System) -> None:
    fixed = np.flatnonzero(system.structure.fixed)
    if fixed.size:
        warnings.warn(
            f"the public sums fix {fixed.size} of {system.frame.size} cells, the first at "
            f"{system.frame.cell(int(fixed[0]))}: they are published as they are, without noise",
            PrivacyWarning,
            stacklevel=3,
        )
