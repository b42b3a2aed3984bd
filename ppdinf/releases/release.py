"""A release: the noisy table, what is public, and the mechanism that made it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from html import escape
from os import PathLike

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.types import Array
from ppdinf.errors import InvariantError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.invariants.system import bind
from ppdinf.lattice.algebra.integer_rows import check_consistent
from ppdinf.laws.likelihood import Likelihood
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantees.guarantee import Guarantee
from ppdinf.privacy.guarantees.release_guarantee import ReleaseGuarantee
from ppdinf.releases.mechanism import Mechanism
from ppdinf.releases.release_file import write
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import TableLike, labelled_cells, labelled_reals

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
        self, table: TableLike, mechanism: Mechanism, public: System | None = None, plan: Plan | None = None
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise PrivacyError(f"mechanism says how the noise was drawn, found {type(mechanism).__name__}")
        if public is not None and not isinstance(public, System):
            raise InvariantError("public must be bound to its values: pass public.on(table, values=...)")
        cells: Array
        if mechanism.is_integer:
            frame, cells = labelled_cells(table, nonnegative=False)
        else:
            frame, cells = labelled_reals(table)
        if public is None:
            public = _read_off(mechanism.public, frame, cells)
        frame.check_same(public.frame, "the table that the public information was bound to")
        kept = public if public.public == mechanism.public else _read_off(mechanism.public, frame, cells)
        _require_kept(kept, cells, bounds=mechanism.keeps_bounds)
        if kept is not public:
            public = _join(public, kept, cells)
        self._set(frame, cells, mechanism.on(kept), kept, public, plan)

    def _set(
        self,
        frame: Frame,
        cells: Array,
        mechanism: Mechanism,
        kept: System,
        public: System,
        plan: Plan | None,
    ) -> None:
        self.frame, self.kept, self.public, self.mechanism, self.plan = frame, kept, public, mechanism, plan
        self.table = frame.table(cells, "released")
        self.part_of: Mechanism | None = None
        self._drawn: Array | None = None
        self._otherwise = "stated"

    @staticmethod
    def of_draw(
        frame: Frame,
        cells: Array,
        mechanism: Mechanism,
        kept: System,
        plan: Plan | None,
    ) -> Release:
        """Make a release of what a settled mechanism has drawn; for mechanisms alone, which checked its sums.

        Parameters
        ----------
        frame : Frame
        cells : array, shape (d,)
        mechanism : Mechanism
            Settled on `kept`.
        kept : System
            Sums of the confidential table that the noise keeps.
        plan : Plan or None
        """
        release: Release = object.__new__(Release)
        release._set(frame, cells, mechanism, kept, kept, plan)
        return as_drawn(release)

    def within(self, public: System, whole: Mechanism) -> Release:
        """Make the same release known as a part of what was published, with all that is public of the whole."""
        release: Release = object.__new__(Release)
        cells = self.table.values.ravel()
        release._set(self.frame, cells, self.mechanism, self.kept, _join(public, self.kept, cells), self.plan)
        return as_drawn(release, whole)

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
    def entry(self) -> Release:
        """What a ledger enters: the release itself."""
        return self

    @property
    def joint_guarantee(self) -> Guarantee:
        """The guarantee of everything that was drawn for the release."""
        return self.guarantee if self.part_of is None else self.part_of.guarantee_on(self.public, None)

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
        found: xr.DataArray = self.table.coords[name].reset_coords(drop=True)
        return found

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
        WriteError
            It cannot be written: no room, no right, no such folder. Nothing of it is left; what was there, is.
        """
        write(self, path, overwrite=overwrite)

    def sel(self, **labels: object) -> xr.DataArray:
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
        said = escape(f"Release by {type(self.mechanism).__name__}; {self.public.public}")
        return f"<p><strong>{said}</strong></p>{self.table._repr_html_()}"  # type: ignore[no-untyped-call]

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


def _read_off(public: Public, frame: Frame, cells: Array) -> System:
    """Bind statements to the sums of a noisy table, to the nearest whole numbers where its cells are real."""
    if cells.dtype == np.int64:
        return bind(public, frame, cells)
    blank = bind(public, frame, np.zeros(frame.size, dtype=np.int64))
    return bind(public, frame, np.zeros(frame.size, dtype=np.int64), np.rint(blank.A @ cells).astype(np.int64).tolist())


def _require_kept(kept: System, cells: Array, *, bounds: bool) -> None:
    """Refuse a table without the sums that its noise keeps; real ones up to rounding."""
    if cells.dtype == np.int64:
        kept.require_cells(cells, bounds=bounds)
        return
    off = np.abs(kept.A @ cells - kept.values) > ROUNDING * (1 + abs(kept.A) @ np.abs(cells))
    if off.any():
        raise InvariantError(
            f"the table disagrees with what is public about {kept.names[int(np.argmax(off))]!r}: the noise keeps it"
        )


def _join(public: System, kept: System, cells: Array) -> System:
    """Add to what is public the sums of the noisy table that the noise kept; refuse a contradiction."""
    names = [*public.names, *(f"{name} (as released)" for name in kept.names)]
    check_consistent(sp.vstack([public.A, kept.A]), np.concatenate([public.values, kept.values]), row_names=names)
    further = Public(tuple(statement for statement in kept.public if statement not in public.public.statements))
    if not further.statements:
        return public
    values = [*public.values.tolist(), *_read_off(further, kept.frame, cells).values.tolist()]
    return bind(public.public & further, kept.frame, cells, values)
