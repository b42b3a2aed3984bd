"""Labelled integer tables: one way in for xarray, pandas and NumPy, with every check in one place.

A table is an :class:`xarray.DataArray` of ``int64`` whose every dimension has labels. Tables come
in exactly as they are or not at all: nothing is cast, clipped, filled or reordered here, and no
message ever shows a cell's value, since the table may be confidential.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.types import Array
from ppdinf.errors import CountError, LabelError
from ppdinf.tables.frame import Frame
from ppdinf.tables.labels import LARGEST, native
from ppdinf.tables.pandas_tables import along, dimension_names, from_frame, from_long, from_series

__all__ = [
    "LARGEST",
    "Frame",
    "TableLike",
    "along",
    "as_table",
    "labelled_cells",
    "labelled_reals",
    "ranked",
    "reals_of",
]

type TableLike = xr.DataArray | pd.Series | pd.DataFrame | ArrayLike
"""What is taken for a table: labelled or bare cells."""


def as_table(
    data: Any,
    *,
    dims: Sequence[str] | None = None,
    count: str | None = None,
    covariates: Sequence[str] = (),
    labels: Mapping[str, Sequence[object]] | None = None,
    nonnegative: bool = True,
) -> xr.DataArray:
    """Bring a table of counts into the form that ppdinf works on, or refuse it.

    Parameters
    ----------
    data : xarray.DataArray, pandas.Series, pandas.DataFrame or numpy.ndarray of integers
        A Series with a MultiIndex becomes one dimension per level, its labels in order of first
        appearance, and must hold every combination once. A DataFrame is a two-way table (rows by
        columns) or, with `count`, a long one with a row per cell. Dimensions without labels are numbered from 0.
    dims : sequence of str, optional
        Names of the dimensions where `data` has none (NumPy arrays, unnamed pandas indexes); with `count` the
        columns that span the table.
    count : str, optional
        Column of a long DataFrame that holds the counts.
    covariates : sequence of str
        Columns of a long DataFrame that describe cells, such as populations: coordinates along the dimensions
        on which they depend.
    labels : mapping of dimension to sequence of labels, optional
        All labels of a dimension, in the order wanted; the counts of those that `data` lacks are 0. State the same in
        ``ppdinf.invariants.labels``, so that every release has them, whatever was counted.
    nonnegative : bool, default True
        Refuse negative cells. Released tables may hold them, confidential ones may not.

    Returns
    -------
    xarray.DataArray
        A copy, ``int64``, same order of dimensions and, unless `labels` says another, of labels. Attributes and
        coordinates of a single value are not carried over.

    Raises
    ------
    CountError
        Cells that are not integers, are negative or exceed 2**53; masked arrays; no cells at all.
    LabelError
        Unnamed dimensions; labels that repeat, are missing, are neither strings nor whole numbers,
        look alike, or say that they are totals of the others; combinations that are absent; labels that are not among
        those declared.

    Notes
    -----
    Ten million cells take about a second, ten million labels of their own a few.

    Examples
    --------
    >>> as_table(np.array([[3, 0], [1, 2]]), dims=("county", "sex")).dims
    ('county', 'sex')

    A long DataFrame, its population by county:

    >>> rows = {"county": ["A", "A", "B", "B"], "sex": ["f", "m"] * 2, "n": [3, 1, 0, 2], "persons": [50, 50, 70, 70]}
    >>> table = as_table(pd.DataFrame(rows), count="n", dims=["county", "sex"], covariates=["persons"])
    >>> table.shape, table.persons.dims
    ((2, 2), ('county',))
    """
    if count is not None:
        data, dims = from_long(data, dims, count, covariates), None
    elif covariates:
        raise LabelError("covariates are columns of a long DataFrame: say which column holds the counts, count=...")
    given, dims = (data, dims) if labels is None else (_with_labels(data, dims, labels), None)
    frame, cells = labelled_cells(given, dims=dims, nonnegative=nonnegative)
    table = frame.table(cells)
    return table.rename(data.name) if isinstance(data, xr.DataArray | pd.Series) else table


def labelled_cells(
    data: object, *, dims: Sequence[str] | None = None, nonnegative: bool = True
) -> tuple[Frame, NDArray[np.int64]]:
    """Labels and cells of a table, checked as `as_table` does.

    Returns
    -------
    frame : Frame
    cells : ndarray of int64, shape (d,)
        A copy, last dimension fastest.

    Examples
    --------
    >>> frame, cells = labelled_cells([[3, 0], [1, 2]])
    >>> frame.dims, cells
    (('dim_0', 'dim_1'), array([3, 0, 1, 2]))
    """
    table = _as_dataarray(data, dims)
    if not table.size or table.ndim == 0:
        raise CountError(f"the table has shape {table.shape}: it needs at least one cell in each dimension")
    frame = Frame.of(table)
    if nonnegative:  # a confidential table; released ones are read as they are
        frame.refuse_totals()
    return frame, _as_counts(table.values.ravel(), frame, nonnegative)


def labelled_reals(data: object, *, dims: Sequence[str] | None = None) -> tuple[Frame, NDArray[np.float64]]:
    """Labels and cells of a published table of real numbers.

    Returns
    -------
    frame : Frame
    cells : ndarray of float64, shape (d,)
        A copy, last dimension fastest.

    Raises
    ------
    CountError
        A cell is no number, or not finite.

    Examples
    --------
    >>> labelled_reals([3.5, -1.0])[1]
    array([ 3.5, -1. ])
    """
    table = _as_dataarray(data, dims)
    if not table.size or table.ndim == 0:
        raise CountError(f"the table has shape {table.shape}: it needs at least one cell in each dimension")
    frame = Frame.of(table)
    if table.dtype.kind not in "iuf":
        raise CountError(f"a table of noisy answers holds numbers, found {table.dtype}")
    cells = table.values.ravel().astype(np.float64)
    if not np.isfinite(cells).all():
        raise CountError(
            f"the cell at {frame.cell(int(np.argmin(np.isfinite(cells))))} is not a finite number: where an answer was "
            "not released, leave out its label"
        )
    return frame, cells


def reals_of(data: TableLike, frame: Frame, what: str) -> NDArray[np.float64]:
    """Cells of a table of numbers over a known frame; its labels, where it has any, are compared with those.

    Returns
    -------
    ndarray of float64, shape of the frame

    Raises
    ------
    LabelError
        Other dimensions, labels or another shape than those of the frame.
    CountError
        A cell is not a finite number.

    Examples
    --------
    >>> frame, _ = labelled_cells([[3, 0], [1, 2]])
    >>> reals_of([[3.5, 0], [1, -2]], frame, "the release")
    array([[ 3.5,  0. ],
           [ 1. , -2. ]])
    """
    given = data if isinstance(data, xr.DataArray) else _as_dataarray(data, frame.dims)
    own, cells = labelled_reals(given)
    if isinstance(data, xr.DataArray | pd.Series | pd.DataFrame):
        frame.check_same(own, what)
    elif own.shape != frame.shape:
        raise LabelError(f"{what} has the shape {own.shape}, the table {frame.shape}")
    return cells.reshape(frame.shape)


def _as_counts(cells: Array, frame: Frame, nonnegative: bool) -> NDArray[np.int64]:
    if cells.dtype.kind not in "iu":
        missing = pd.isna(cells)
        if missing.any():
            raise CountError(
                f"{missing.sum()} cells are missing, the first at {frame.cell(int(np.argmax(missing)))}: write 0 where "
                "none were counted; where counts were not taken, or not released, leave out their labels, or work on "
                "the margin that is known"
            )
        lost = ~np.isfinite(cells) | (cells != np.floor(cells)) if cells.dtype.kind == "f" else missing
        hint = "convert it with .astype('int64') once you know why it is not an integer type"
        if lost.any():
            hint = f"{lost.sum()} cells are fractional or infinite, the first at {frame.cell(int(np.argmax(lost)))}"
        raise CountError(f"counts must have an integer type, found {cells.dtype}: {hint}")
    outside = (cells > LARGEST) | (cells < -LARGEST)
    if outside.any():
        raise CountError(f"the cell at {frame.cell(int(np.argmax(outside)))} is beyond 2**53: check its unit")
    negative = cells < 0
    if nonnegative and negative.any():
        raise CountError(
            f"{negative.sum()} cells are negative, the first at {frame.cell(int(np.argmax(negative)))}: "
            "a confidential table holds counts"
        )
    return np.array(cells, dtype=np.int64)


def ranked(frame: Frame, cells: NDArray[np.int64]) -> list[str]:
    """Name the dimensions whose labels come in the order of their counts, as tables do that were made by counting.

    Labels in an order of their own, sorted as numbers or text, tell nothing; nor do fewer than three. Cells that were
    sorted leave labels in the order of their largest or smallest cell, margins in that of their sums.

    Examples
    --------
    >>> import pandas as pd
    >>> counted = pd.Series(list("bbbaacccc"), name="place").value_counts()
    >>> ranked(*labelled_cells(counted)), ranked(*labelled_cells(counted.sort_index()))
    (['place'], [])
    """
    found = []
    for axis, (dim, size) in enumerate(zip(frame.dims, frame.shape, strict=True)):
        labels = frame.coords[dim][1].tolist()
        if size < 3 or labels == sorted(labels):
            continue
        others = tuple(k for k in range(len(frame.shape)) if k != axis)
        table = cells.reshape(frame.shape).astype(float)
        for summary in (table.sum(axis=others), table.max(axis=others), table.min(axis=others)):
            steps = np.diff(summary)
            if steps.any() and (np.all(steps <= 0) or np.all(steps >= 0)):
                found.append(dim)
                break
    return found


def _with_labels(data: object, dims: Sequence[str] | None, labels: object) -> xr.DataArray:
    """Bring the labels of some dimensions into a stated form; counts of labels that are absent are 0."""
    if not isinstance(labels, Mapping) or any(isinstance(entries, str) for entries in labels.values()):
        raise LabelError("labels are given by dimension, in their order, such as labels={'sex': ['f', 'm']}")
    if isinstance(data, pd.Series) and isinstance(data.index, pd.MultiIndex):
        names = dimension_names(list(data.index.names), dims)
        if data.index.has_duplicates:
            return from_series(data, dims)  # which names what repeats
        levels = [labels.get(name, data.index.unique(level)) for level, name in enumerate(names)]
        for level, (name, entries) in enumerate(zip(names, levels, strict=True)):
            _require_among(name, data.index.unique(level), entries)
        whole = pd.MultiIndex.from_product([list(entries) for entries in levels], names=names)
        return from_series(data.reindex(whole, fill_value=0), names)
    table = _as_dataarray(data, dims)
    frame = Frame.of(table)
    for dim, entries in labels.items():
        if dim not in frame.dims:
            raise LabelError(f"labels are given for {dim!r}, and the table has dimensions {frame.dims}")
        _require_among(dim, frame.coords[dim][1].tolist(), entries)
        loose = [name for name, (along, _) in frame.coords.items() if dim in along and name != dim]
        if loose and len(entries) > frame.shape[frame.dims.index(dim)]:
            raise LabelError(f"{dim!r} lacks labels for which the coordinate {loose[0]!r} has no value: write them out")
        table = table.assign_coords({dim: frame.coords[dim][1]}).reindex({dim: list(entries)}, fill_value=0)
    return table


def _require_among(dim: str, found: Iterable[object], declared: Sequence[object]) -> None:
    known = set(declared)
    if len(known) < len(declared):
        raise LabelError(f"the labels given for {dim!r} hold one twice")
    foreign = [label for label in found if native(label) not in known]
    if foreign:
        raise LabelError(f"{dim!r} has the label {native(foreign[0])!r}, which is not among those given for it")


def _as_dataarray(data: object, dims: Sequence[str] | None) -> xr.DataArray:
    if isinstance(data, xr.DataArray):
        if dims is not None and tuple(dims) != data.dims:
            raise LabelError(f"the table has dimensions {data.dims}, not {tuple(dims)}: rename or transpose it")
        return data
    if isinstance(data, xr.Dataset):
        raise CountError(f"a Dataset holds several tables: choose one of {', '.join(map(repr, data))}")
    if isinstance(data, pd.Series):
        return from_series(data, dims)
    if isinstance(data, pd.DataFrame):
        return from_frame(data, dims)
    if isinstance(data, np.ma.MaskedArray):
        raise CountError("the array is masked: fill or drop the masked cells first")
    try:
        values = np.asarray(data)
    except ValueError:
        raise CountError("the rows have different lengths: write every cell out, with zeros where none is") from None
    if values.ndim == 0:
        raise CountError(f"found {type(data).__name__} in place of a table: pass xarray, pandas or a NumPy array")
    dims = (dims,) if isinstance(dims, str) else dims
    given = tuple(dims) if dims is not None else tuple(f"dim_{k}" for k in range(values.ndim))
    if len(given) != values.ndim:
        raise LabelError(f"{len(given)} dimension names for an array with {values.ndim} dimensions")
    return xr.DataArray(values, dims=given)
