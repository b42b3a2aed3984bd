"""A release: the noisy table, what is public, and the mechanism that made it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray

from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.frame import Frame
from ppdinf.invariants import Public, System
from ppdinf.invariants.system import bind
from ppdinf.laws.likelihood import Likelihood
from ppdinf.mechanisms.mechanism import Mechanism
from ppdinf.noise.plan import Plan
from ppdinf.privacy.guarantee import ReleaseGuarantee
from ppdinf.tables import labelled_cells, labelled_reals

__all__ = ["Release", "as_drawn", "as_undated"]

ON_TRUST = {
    "stated": (
        "that the noise was drawn as is said here: no mechanism made this release, so its promise is stated by whoever "
        "put it together",
    ),
    "unknown": ("that the noise was drawn as is said here: the file does not say whether a mechanism drew it",),
}
ROUNDING = 1e-9  # relative error of a sum of real numbers beyond which it counts as broken


class Release:
    """Everything an analyst gets, and nothing that an analyst must not get.

    Parameters
    ----------
    table : xarray.DataArray, pandas object or numpy.ndarray of integers
        The noisy table; cells can be negative, and real numbers where the mechanism's noise is real.
    mechanism : Mechanism
        How it was made.
    public : System, optional
        Public information bound to exact values. Without it the sums that the mechanism keeps are read
        off `table`. Give it where more is public than the noisy table itself satisfies, as in noisy
        measurement files: ``public.on(table, values=...)``.
    plan : Plan, optional
        How the noise was drawn, where that is known.

    Attributes
    ----------
    table : xarray.DataArray of int64, or float64
    mechanism : Mechanism
        Settled on the public sums of the table (`Mechanism.on`).
    public : System
        ``public.A``, ``public.values``, ``public.check(table)``: what the confidential table satisfies,
        the sums that the noise keeps included.
    kept : System
        The sums that the noise keeps: what released and confidential table have in common. The same
        object as `public` unless that was bound to other statements.
    plan : Plan or None
    frame : Frame
        Labels of the table.
    provenance : {"drawn", "stated", "unknown"}
        Whether the mechanism's own `release` drew the table, or whoever put the release together says that it was
        drawn so; a file of an earlier version does not say which.
    part_of : Mechanism or None
        What was published as a whole, where this is the noisy table of a post-processed one.

    Raises
    ------
    PrivacyError
        `mechanism` is not one of ppdinf's.
    InvariantError
        `public` is not bound; the table breaks a sum that the mechanism keeps, or a structural zero.
    LabelError
        `public` belongs to a table with other labels.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> published = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> release = Release([33, -2, 15], published)
    >>> release.public.values
    array([46])
    """

    def __init__(
        self, table: Any, mechanism: Mechanism, public: System | None = None, plan: Plan | None = None
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise PrivacyError(f"mechanism says how the noise was drawn, found {type(mechanism).__name__}")
        if public is not None and not isinstance(public, System):
            raise InvariantError("public must be bound to its values: pass public.on(table, values=...)")
        cells: NDArray[Any]
        if mechanism.is_integer:
            self.frame, cells = labelled_cells(table, nonnegative=False)
        else:
            self.frame, cells = labelled_reals(table)
        self.table = self.frame.table(cells, "released")
        if public is None:
            public = _read_off(mechanism.public, self.frame, cells)
        self.frame.check_same(public.frame, "the table that the public information was bound to")
        self.public = public
        self.kept = public if public.public == mechanism.public else _read_off(mechanism.public, self.frame, cells)
        _require_kept(self.kept, cells, bounds=mechanism.keeps_bounds)
        if self.kept is not public:
            self.public = _join(public, self.kept, cells)
        self.mechanism = mechanism.on(self.kept)
        self.plan = plan
        self.part_of: Mechanism | None = None
        self._drawn: NDArray[Any] | None = None
        self._otherwise = "stated"

    @property
    def provenance(self) -> str:
        """Whether a mechanism drew the table, or somebody says so; a table that was changed since was not drawn."""
        if self._drawn is not None and np.array_equal(self._drawn, self.table.values):
            return "drawn"
        return self._otherwise

    @cached_property
    def likelihood(self) -> Likelihood:
        """What inference asks: how probable the release is given the confidential cells.

        Raises
        ------
        ModelError
            It is not known, or nothing to infer with; it says what to do instead.
        """
        return self.mechanism.require_likelihood(self.kept)

    @property
    def depends_on_table(self) -> bool:
        """Whether the total weight of all releases differs between tables, so that a likelihood must divide by it."""
        return self.likelihood.normaliser is not None

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
    def guarantee(self) -> ReleaseGuarantee:
        """What is and is not protected."""
        everything = self.mechanism.public & self.public.public
        found = self.mechanism.guarantee_on(self.kept, self.plan, self.public)
        known = dict.fromkeys((*found.known, *everything.known))
        trust = ON_TRUST.get(self.provenance, ())
        return replace(found, **everything.open | {"known": tuple(known)}, assumed=(*found.assumed, *trust))

    def check(self) -> pd.DataFrame:
        """Compare the sums of the noisy table with what is public; those of real numbers up to rounding.

        Returns
        -------
        pandas.DataFrame
            As `System.check`: one row per public sum and bound, ``found``, ``relation``, ``public``, ``agrees``.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> Release([33.25, -2.0, 14.75], ppd.KNorm(ppd.invariants.total(), epsilon="1/4")).check()
               found relation  public  agrees
        total   46.0        =      46    True
        """
        if self.mechanism.is_integer:
            return self.public.check(self.table)
        y, rows = self.table.values.ravel(), sp.vstack([self.public.A, self.public.B], format="csr")
        public = np.concatenate([self.public.values, self.public.limits])
        found, slack = rows @ y, ROUNDING * (1 + abs(rows) @ np.abs(y))
        relation = np.repeat(["=", ">="], [self.public.values.size, self.public.limits.size])
        agrees = np.where(relation == "=", np.abs(found - public) <= slack, found >= public - slack)
        shown = {"found": found.round(6), "relation": relation, "public": public, "agrees": agrees}
        return pd.DataFrame(shown, index=[*self.public.names, *self.public.bound_names])

    def covariate(self, name: str) -> xr.DataArray:
        """Return a public coordinate that travelled with the table, such as the population.

        Parameters
        ----------
        name : str

        Returns
        -------
        xarray.DataArray

        Raises
        ------
        LabelError
            The release has no coordinate of that name; those that it has are listed.
        """
        self.frame.coordinate(name)
        return self.table.coords[name].reset_coords(drop=True)

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release as one zip file of JSON and CSV; see `ppdinf.read_release`.

        Parameters
        ----------
        path : str or path
        overwrite : bool, default False
            Replace a file that is there already. Noise cannot be drawn again, so that what was in it is lost.

        Raises
        ------
        ReleaseFileError
            The file exists.
        """
        from ppdinf.releases.file import write

        write(self, path, overwrite=overwrite)

    def sel(self, **labels: Any) -> xr.DataArray:
        """Cut out a part of the noisy table by its labels, ``release.sel(county="A")``.

        A table, not a release: what is public speaks of the whole.
        """
        return self.table.sel(labels)

    def transpose(self, *dims: str) -> xr.DataArray:
        """Return the noisy table with its dimensions in another order; the release keeps its own."""
        return self.table.transpose(*dims)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per cell: labels, covariates, and the noisy count in the column ``released``.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> Release([[3, -1]], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)).to_dataframe()
           dim_0  dim_1  released
        0      0      0         3
        1      0      1        -1
        """
        columns = {name: self.frame.broadcast(name) for name in (*self.dims, *self.frame.coords)}
        return pd.DataFrame({**columns, "released": self.table.values.ravel()})

    def to_dataset(self) -> xr.Dataset:
        """Return the noisy table as ``released``, with its covariates, and the public sums as ``public`` by name."""
        sums = xr.DataArray(self.public.values, dims="public_sum", coords={"public_sum": list(self.public.names)})
        return xr.Dataset({"released": self.table, "public": sums})

    def _repr_html_(self) -> str:
        from html import escape

        said = escape(f"Release by {type(self.mechanism).__name__}; {self.public.public}")
        return f"<p><strong>{said}</strong></p>{self.table._repr_html_()}"

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim}: {n}" for dim, n in zip(self.dims, self.shape, strict=True))
        return f"<Release ({sizes}) by {type(self.mechanism).__name__}; {self.public.public}>"


def as_drawn(release: Release, part_of: Mechanism | None = None) -> Release:
    """Mark a release as drawn by its mechanism; for `Mechanism.release` and for reading what that wrote, alone."""
    release._drawn, release.part_of = release.table.values.copy(), part_of
    return release


def as_undated(release: Release) -> Release:
    """Mark a release as read from a file that does not say who drew it."""
    release._otherwise = "unknown"
    return release


def _read_off(public: Public, frame: Frame, cells: NDArray[Any]) -> System:
    """Bind statements to the sums of a noisy table, to the nearest whole numbers where its cells are real."""
    if cells.dtype == np.int64:
        return bind(public, frame, cells)
    blank = bind(public, frame, np.zeros(frame.size, dtype=np.int64))
    return bind(public, frame, np.zeros(frame.size, dtype=np.int64), np.rint(blank.A @ cells).astype(np.int64).tolist())


def _require_kept(kept: System, cells: NDArray[Any], *, bounds: bool) -> None:
    """Refuse a table without the sums that its noise keeps; real ones up to rounding."""
    if cells.dtype == np.int64:
        kept.require_cells(cells, bounds=bounds)
        return
    off = np.abs(kept.A @ cells - kept.values) > ROUNDING * (1 + abs(kept.A) @ np.abs(cells))
    if off.any():
        raise InvariantError(
            f"the table disagrees with what is public about {kept.names[int(np.argmax(off))]!r}: the noise keeps it"
        )


def _join(public: System, kept: System, cells: NDArray[Any]) -> System:
    """Add to what is public the sums of the noisy table that the noise kept; refuse a contradiction."""
    from ppdinf.lattice.rows import check_consistent

    names = [*public.names, *(f"{name} (as released)" for name in kept.names)]
    check_consistent(sp.vstack([public.A, kept.A]), np.concatenate([public.values, kept.values]), row_names=names)
    further = Public(tuple(statement for statement in kept.public if statement not in public.public.statements))
    if not further.statements:
        return public
    values = [*public.values.tolist(), *_read_off(further, kept.frame, cells).values.tolist()]
    return bind(public.public & further, kept.frame, cells, values)
