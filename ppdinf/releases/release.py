"""A release: the noisy table, the public statements, and the mechanism."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.values import Array, as_html
from ppdinf.errors import InvariantError, LabelError, PrivacyError
from ppdinf.invariants import Public, System
from ppdinf.invariants.public import bind
from ppdinf.lattice.integer_rows import check_consistent
from ppdinf.laws.likelihood import Likelihood
from ppdinf.mechanism import Mechanism
from ppdinf.noise.sampler_plan import Plan
from ppdinf.privacy.guarantee import Guarantee
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.releases.release_file import save_release
from ppdinf.releases.selection import Selection, restricted_system, selected_cells
from ppdinf.tables.frame import Frame, Framed, native
from ppdinf.tables.table import TableLike, labelled_cells, labelled_reals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-9  # relative error of a sum of real numbers above which it counts as violated


def bind_released(public: Public, frame: Frame, cells: Array) -> System:
    """Bind statements to the sums of a noisy table, rounded to integers if its cells are real."""
    if cells.dtype == np.int64:
        return bind(public, frame, cells)
    blank = bind(public, frame, np.zeros(frame.size, dtype=np.int64))
    return bind(public, frame, np.zeros(frame.size, dtype=np.int64), np.rint(blank.A @ cells).astype(np.int64).tolist())


def require_kept(kept: System, cells: Array, *, bounds: bool) -> None:
    """Refuse a table that violates the sums that its noise keeps; real sums up to rounding."""
    if cells.dtype == np.int64:
        kept.require_cells(cells, bounds=bounds)
        return
    off = np.abs(kept.A @ cells - kept.values) > ROUNDING * (1 + abs(kept.A) @ np.abs(cells))
    if off.any():
        raise InvariantError(
            f"the table violates the public sum {kept.names[int(np.argmax(off))]!r}, which the noise keeps"
        )


def join_kept(public: System, kept: System, cells: Array) -> System:
    """Add the sums that the noise keeps to the public statements; refuse contradictions."""
    names = [*public.names, *(f"{name} (as released)" for name in kept.names)]
    check_consistent(sp.vstack([public.A, kept.A]), np.concatenate([public.values, kept.values]), row_names=names)
    further = Public(tuple(statement for statement in kept.public if statement not in public.public.statements))
    if not further.statements:
        return public
    values = [*public.values.tolist(), *bind_released(further, kept.frame, cells).values.tolist()]
    return bind(public.public & further, kept.frame, cells, values)


TRUST = (
    "that the noise was drawn as described here: no mechanism made this release, so its guarantee is stated by the "
    "person who put it together"
)


class Release(Framed):
    """A published table: everything that an analyst may know, and nothing confidential.

    Parameters
    ----------
    table : xarray.DataArray, pandas object or numpy.ndarray of integers
        The noisy table; cells can be negative, and real numbers if the mechanism's noise is real.
    mechanism : Mechanism
        The mechanism of the noise.
    public : System, optional
        Public statements bound to exact values. By default the sums that the mechanism keeps are computed from
        `table`. Give it if more is public than the noisy table itself satisfies, as in noisy
        measurement files: ``public.on(table, values=...)``.
    plan : Plan, optional
        How the noise was drawn, if known.

    Attributes
    ----------
    table : xarray.DataArray of int64, or float64
    mechanism : Mechanism
        Bound to the public sums of the table (`Mechanism.on`).
    public : System
        ``public.A``, ``public.values``, ``public.check(table)``: the statements that the confidential table
        satisfies, including the sums that the noise keeps.
    kept : System
        The sums that the noise keeps, which released and confidential table share. The same
        object as `public` unless `public` was bound to other statements.
    plan : Plan or None
    frame : Frame
        Labels of the table.
    provenance : {"drawn", "stated"}
        "drawn": the mechanism's `release` method drew the table. "stated": the creator of this object states how it
        was drawn.
    part_of : Mechanism or None
        The mechanism of the complete publication, if this is the noisy table of a post-processed table.
    selection : Selection or None
        For a part of a release (`sel`): the mechanism of the complete release, and the selected labels.

    Raises
    ------
    PrivacyError
        `mechanism` is not a mechanism of ppdinf.
    InvariantError
        `public` is not bound; the table violates a sum that the mechanism keeps, or a structural zero.
    LabelError
        `public` is bound to a table with other labels.

    See Also
    --------
    ppdinf.read_release, ppdinf.PartiallyPrivate, ppdinf.sample_release

    Examples
    --------
    >>> import ppdinf as ppd
    >>> published = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> release = ppd.Release([33, -2, 15], published)
    >>> release.public.values
    array([46])
    """

    def __init__(
        self, table: TableLike, mechanism: Mechanism, public: System | None = None, plan: Plan | None = None
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise PrivacyError(f"mechanism must be a ppdinf mechanism, found {type(mechanism).__name__}")
        if public is not None and not isinstance(public, System):
            raise InvariantError("public must be bound to its values: pass public.on(table, values=...)")
        frame, cells = labelled_cells(table, nonnegative=False) if mechanism.is_integer else labelled_reals(table)
        if public is None:
            public = bind_released(mechanism.public, frame, cells)
        frame.check_same(public.frame, "the table that the public information is bound to")
        kept = public if public.public == mechanism.public else bind_released(mechanism.public, frame, cells)
        require_kept(kept, cells, bounds=mechanism.keeps_bounds)
        if kept is not public:
            public = join_kept(public, kept, cells)
        self._set(frame, cells, mechanism.on(kept), kept, public, plan)

    def _set(
        self, frame: Frame, cells: Array, mechanism: Mechanism, kept: System, public: System, plan: Plan | None
    ) -> None:
        self.frame, self.kept, self.public, self.mechanism, self.plan = frame, kept, public, mechanism, plan
        self.table = frame.table(cells, "released")
        self.part_of: Mechanism | None = None
        self.selection: Selection | None = None
        self._drawn: Array | None = None

    @staticmethod
    def of_draw(frame: Frame, cells: Array, mechanism: Mechanism, kept: System, plan: Plan | None) -> Release:
        """Return a release drawn by a bound mechanism; only for mechanisms, which check their sums.

        Parameters
        ----------
        frame : Frame
        cells : array, shape (d,)
        mechanism : Mechanism
            Bound to `kept`.
        kept : System
            Sums of the confidential table that the noise keeps.
        plan : Plan or None
        """
        release: Release = object.__new__(Release)
        release._set(frame, cells, mechanism, kept, kept, plan)
        return as_drawn(release)

    def as_part_of(self, public: System, complete: Mechanism) -> Release:
        """Return this release as a part of a complete publication, with all public statements of the latter."""
        release: Release = object.__new__(Release)
        cells = self.table.values.ravel()
        release._set(self.frame, cells, self.mechanism, self.kept, join_kept(public, self.kept, cells), self.plan)
        return as_drawn(release, complete)

    @property
    def provenance(self) -> str:
        """Origin of the table: "drawn" or "stated"; a table changed since was not "drawn"."""
        is_drawn = self._drawn is not None and np.array_equal(self._drawn, self.table.values)
        return "drawn" if is_drawn else "stated"

    @cached_property
    def likelihood(self) -> Likelihood:
        """Return the likelihood of the confidential cells given the release, for inference.

        Raises
        ------
        ModelError
            The likelihood is not available; the message states an alternative.
        """
        return self.mechanism.require_likelihood(self.kept, self.table.values.ravel())

    @property
    def entry(self) -> Release:
        """Return the ledger entry: the release itself."""
        return self

    @property
    def joint_guarantee(self) -> Guarantee:
        """The guarantee of everything that was drawn for the release."""
        return self.guarantee if self.part_of is None else self.part_of.guarantee_on(self.public, None)

    @cached_property
    def guarantee(self) -> ReleaseGuarantee:
        """The privacy guarantee of the release."""
        everything = self.mechanism.public & self.public.public
        guarantee = self.mechanism.guarantee_on(self.kept, self.plan, self.public)
        known = dict.fromkeys((*guarantee.known, *everything.known))
        trust = () if self.provenance == "drawn" else (TRUST,)
        part = None if self.selection is None else str(self.selection)
        open_ = everything.open | {"known": tuple(known)}
        return replace(guarantee, **open_, assumed=(*guarantee.assumed, *trust), part=part)

    def check(self) -> pd.DataFrame:
        """Compare the sums of the noisy table with the public values; real sums up to rounding.

        Returns
        -------
        pandas.DataFrame
            As for `System.check`: one row per public sum and bound, ``found``, ``relation``, ``public``, ``agrees``.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> ppd.Release([33.25, -2.0, 14.75], ppd.KNorm(ppd.invariants.total(), epsilon="1/4")).check()
               found relation  public  agrees
        total   46.0        =      46    True
        """
        if self.mechanism.is_integer:
            return self.public.check(self.table)
        y, rows = self.table.values.ravel(), sp.vstack([self.public.A, self.public.B], format="csr")
        public = np.concatenate([self.public.values, self.public.limits])
        sums, slack = rows @ y, ROUNDING * (1 + abs(rows) @ np.abs(y))
        relation = np.repeat(["=", ">="], [self.public.values.size, self.public.limits.size])
        agrees = np.where(relation == "=", np.abs(sums - public) <= slack, sums >= public - slack)
        shown = {"found": sums.round(6), "relation": relation, "public": public, "agrees": agrees}
        return pd.DataFrame(shown, index=[*self.public.names, *self.public.bound_names])

    def covariate(self, name: str) -> xr.DataArray:
        """Return a public coordinate of the table, such as the population.

        Parameters
        ----------
        name : str

        Raises
        ------
        LabelError
            The release has no coordinate of this name; the message lists its coordinates.
        """
        self.frame.coordinate(name)
        return self.table.coords[name].reset_coords(drop=True)

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write the release as one zip file of JSON and CSV; see `ppdinf.read_release`.

        Parameters
        ----------
        path : str or path
        overwrite : bool, default False
            Replace an existing file. Noise cannot be drawn again, so the old release is lost.

        Raises
        ------
        ReleaseFileError
            The file exists, or a reader could not rebuild the mechanism.
        WriteError
            The file cannot be written: disk full, no permission, or no such folder. An existing file is not changed.
        """
        save_release(self, path, overwrite=overwrite)

    def sel(self, indexers: Mapping[str, object] | None = None, **labels: object) -> Release:
        """Select a part by labels whose public sums stay whole; the part is a release.

        Choose the labels independently of the noisy counts. Otherwise a posterior from the part alone ignores that the
        counts determined the choice. ``release.table.sel(...)`` selects numbers without these conditions.

        Parameters
        ----------
        indexers : mapping of dimension to labels, optional
            Instead of keywords.
        **labels : label, list of labels or slice
            By dimension, as for `xarray.DataArray.sel`: a single label drops the dimension, a list or slice keeps it.

        Returns
        -------
        Release
            The noisy cells of the part with its labels, coordinates and public sums. Its noise has the exact marginal
            distribution, so that inference from the part is exact. Selecting costs no privacy: the guarantee of the
            complete release holds for the part.

        Raises
        ------
        InvariantError
            A public sum or bound has cells on both sides and does not follow from sums within the part; the message
            names it.
        LabelError
            A dimension or label is unknown, labels are given both ways, or a single label of every dimension is
            selected.
        ModelError
            The noise of the cells is not independent given the public sums: l2 noise, noise conditioned on bounds,
            real-valued noise, histograms of counts.
        PrivacyError
            This is the noisy table of a post-processed table, whose guarantee is that of the complete publication.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.margin("month"), epsilon=1)
        >>> release = ppd.Release(ppd.as_table([[3, 1], [4, 7]], dims=("area", "month"), nonnegative=False), mechanism)
        >>> february = release.sel(month=1)
        >>> february.dims, february.public.values
        (('area',), array([8]))
        """
        if self.part_of is not None:
            raise PrivacyError(
                "this is the noisy table of a post-processed table: a part of it has no guarantee of its own. Use "
                "release.table.sel(...) for the numbers"
            )
        by_mapping = {} if indexers is None else indexers
        if not isinstance(by_mapping, Mapping) or (by_mapping and labels):
            raise LabelError("sel takes labels by dimension as one mapping or as keywords, not both")
        chosen = {**by_mapping, **labels}
        frame, cells = selected_cells(self.table, chosen)
        kept = restricted_system(self.kept, frame, cells)
        public = kept if self.public is self.kept else restricted_system(self.public, frame, cells)
        mechanism = self.mechanism.on_part(kept.public)
        part = Release(frame.table(self.table.values.ravel()[cells]), mechanism, public=public, plan=self.plan)
        complete = self.mechanism if self.selection is None else self.selection.mechanism
        earlier = {} if self.selection is None else self.selection.labels
        where = {}
        for dim in map(str, chosen):
            codes, known = self.frame.codes(dim)
            where[dim] = tuple(native(known[code]) for code in pd.unique(codes[cells]))
        part.selection = Selection(complete, {**earlier, **where})
        return as_drawn(part) if self.provenance == "drawn" else part

    def transpose(self, *dims: str) -> xr.DataArray:
        """Return the noisy table with reordered dimensions; the release does not change.

        Parameters
        ----------
        *dims : str
            Dimensions in the new order.
        """
        return self.table.transpose(*dims)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per cell: labels, covariates, and the noisy count in the column ``released``.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> ppd.Release([[3, -1]], ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1)).to_dataframe()
           dim_0  dim_1  released
        0      0      0         3
        1      0      1        -1
        """
        columns = {name: self.frame.broadcast(name) for name in (*self.dims, *self.frame.coords)}
        return pd.DataFrame({**columns, "released": self.table.values.ravel()})

    def to_dataset(self) -> xr.Dataset:
        """Return the noisy table and the public sums.

        Returns
        -------
        xarray.Dataset
            ``released``, the noisy table with its covariates, and ``public``, the public sums by name.

        Raises
        ------
        LabelError
            A dimension or covariate of the table is called ``public`` or ``public_sum``.
        """
        if taken := [name for name in ("public", "public_sum") if name in self.frame.coords]:
            raise LabelError(
                f"the table has a dimension or covariate {taken[0]!r}, which this dataset uses for the public sums: "
                "rename it in release.table, and get the public sums from release.public"
            )
        sums = xr.DataArray(self.public.values, dims="public_sum", coords={"public_sum": list(self.public.names)})
        return xr.Dataset({"released": self.table, "public": sums})

    def _repr_html_(self) -> str:
        title = f"Release by {type(self.mechanism).__name__}; {self.public.public}"
        table = self.table._repr_html_()  # type: ignore[no-untyped-call]
        return as_html(title, self.guarantee.describe(), table)

    def plot(self) -> Figure:
        """Plot the distribution of the noise of a cell; as `ppdinf.plots.plot_noise`, with its errors."""
        return importlib.import_module("ppdinf.plots").plot_noise(self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim}: {n}" for dim, n in zip(self.dims, self.shape, strict=True))
        return f"<Release ({sizes}) by {type(self.mechanism).__name__}; {self.public.public}>"


def as_drawn(release: Release, part_of: Mechanism | None = None) -> Release:
    """Mark a release as drawn by its mechanism; only for `Mechanism.release` and for reading its files."""
    release._drawn, release.part_of = release.table.values.copy(), part_of
    return release
