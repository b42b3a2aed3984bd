"""A release: the noisy table, what is public, and the mechanism that made it."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import xarray as xr

from ppdinf.errors import InvariantError
from ppdinf.invariants import System
from ppdinf.mechanisms.base import Mechanism
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.samplers.plan import Plan
from ppdinf.tables import Frame, as_table

__all__ = ["Release"]


class Release:
    """Everything an analyst gets, and nothing that an analyst must not get.

    Parameters
    ----------
    table : xarray.DataArray, pandas object or numpy.ndarray of integers
        The noisy table; cells can be negative.
    mechanism : Mechanism
        How it was made.
    public : System, optional
        Public information bound to exact values. Without it the public sums are read off `table`,
        which is right whenever the mechanism keeps them (as all of ppdinf's do).
    plan : Plan, optional
        How the noise was drawn, where that is known.

    Attributes
    ----------
    table : xarray.DataArray of int64
    mechanism : Mechanism
    public : System
        ``public.A``, ``public.values``, ``public.check(table)``.
    plan : Plan or None

    Raises
    ------
    InvariantError
        `public` is not bound, or belongs to a table with other labels.

    Examples
    --------
    >>> import numpy as np, ppdinf as ppd
    >>> published = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> release = Release(np.array([33, -2, 15]), published)
    >>> release.public.values
    array([46])
    """

    def __init__(
        self, table: Any, mechanism: Mechanism, public: System | None = None, plan: Plan | None = None
    ) -> None:
        self.table = as_table(table, nonnegative=False).rename("released")
        self.mechanism = mechanism
        if public is None:
            public = mechanism.public.on(self.table)
        if not isinstance(public, System):
            raise InvariantError("public must be bound to its values: pass public.on(table)")
        self.frame.check_same(public.frame, "the table that the public information was bound to")
        self.public = public
        self.plan = plan

    @cached_property
    def frame(self) -> Frame:
        """Labels of the table."""
        return Frame.of(self.table)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the dimensions, for ``dims=`` in a PyMC model."""
        return self.frame.dims

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Labels of each dimension, for ``pm.Model(coords=...)``."""
        return {dim: self.frame.coords[dim][1] for dim in self.dims}

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels along each dimension."""
        return self.frame.shape

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is and is not protected."""
        return self.mechanism.guarantee_on(self.public, self.plan)

    def covariate(self, name: str) -> xr.DataArray:
        """Return a public coordinate that travelled with the table, such as the population.

        Parameters
        ----------
        name : str

        Returns
        -------
        xarray.DataArray
        """
        self.frame.broadcast(name)  # names what exists when this one does not
        return self.table.coords[name].reset_coords(drop=True)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the release as one zip file of JSON and CSV; see `ppdinf.read_release`.

        Parameters
        ----------
        path : str or path
            Overwritten when it exists.
        """
        from ppdinf.releases.file import write

        write(self, path)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim}: {n}" for dim, n in zip(self.dims, self.shape, strict=True))
        return f"<Release ({sizes}) by {type(self.mechanism).__name__}; {self.public.public}>"
