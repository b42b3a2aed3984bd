"""Numbers onto the rows of a statement, by label wherever they have labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.types import Array
from ppdinf.errors import LabelError
from ppdinf.invariants.names import CellNames, GroupNames
from ppdinf.tables.frame import Frame

__all__ = ["onto_rows"]


def onto_rows(given: object, names: Sequence[str], frame: Frame, what: str, *, partial: bool = False) -> Array:
    """Bring numbers into the order of the rows of a statement.

    Parameters
    ----------
    given : number, array_like, mapping, xarray.DataArray, pandas.Series or pandas.DataFrame
        Labelled numbers are matched by label, in any order. A dimension of a DataArray is matched by its name; without
        labels it has those of the table, in the order of the table. Numbers without labels and dimensions are in the
        order of the rows.
    names : sequence of str
        Of the rows.
    frame : Frame
        Of the cells.
    what : str
        What messages call the numbers.
    partial : bool
        Whether labels may be absent; their rows get nan.

    Returns
    -------
    array of object, shape (k,)

    Raises
    ------
    LabelError
        A label that is absent, unknown or repeated; a dimension that is absent or unknown; another number of numbers
        than there are rows.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> table = ppd.as_table([[3, 0], [1, 2]], dims=("county", "sex"))
    >>> A, names = next(iter(ppd.invariants.margin("sex"))).equalities(Frame.of(table))
    >>> onto_rows(pd.Series({1: 2, 0: 4}), names, Frame.of(table), "the counts")
    array([4, 2], dtype=object)
    """
    labelled = _as_series(given, names, frame, what)
    if labelled is None:
        return _by_position(given, names, frame, what)
    index, keys = _keys(labelled.index, names, frame, what)
    if index.has_duplicates:
        raise LabelError(f"{what} have {_shown(index[index.duplicated()][0])} twice")
    unknown = np.flatnonzero(keys.get_indexer(index) < 0)
    if unknown.size:
        raise LabelError(f"{what} have {_shown(index[unknown[0]])}, which is not among the sums, such as {names[0]!r}")
    place = index.get_indexer(keys)
    absent = np.flatnonzero(place < 0)
    if absent.size and not partial:
        raise LabelError(f"{what} lack {names[absent[0]]!r}: give nan where nothing was measured")
    found = np.full(len(names), np.nan, dtype=object)
    found[place >= 0] = labelled.to_numpy(dtype=object)[place[place >= 0]]
    return found


def _as_series(given: object, names: Sequence[str], frame: Frame, what: str) -> pd.Series | None:
    """Numbers with their labels; None where they have no labels."""
    if isinstance(given, Mapping):
        return pd.Series(given, dtype=object)
    if isinstance(given, pd.DataFrame):
        return given.stack(list(range(given.columns.nlevels)), future_stack=True)  # type: ignore[return-value]
    if isinstance(given, xr.DataArray) and given.ndim:
        return _of_dataarray(given, names, frame, what)
    return given if isinstance(given, pd.Series) else None


def _of_dataarray(given: xr.DataArray, names: Sequence[str], frame: Frame, what: str) -> pd.Series | None:
    """Label each dimension; a dimension without labels has the labels of the table, in the order of the table."""
    by = names.by if isinstance(names, CellNames) else ()
    bare = [dim for dim in given.dims if dim not in given.indexes]
    if bare and not by and given.ndim == 1:
        if bare[0] in frame.coords and not (isinstance(names, GroupNames) and bare[0] == names.dim):
            raise LabelError(
                f"{what} have the dimension {bare[0]!r}, which does not name the sums, such as {names[0]!r}"
            )
        return None
    if bare and set(given.dims) != set(by):
        raise LabelError(f"{what} have the dimensions {given.dims}, the sums {by}: name the dimensions alike")
    kept: dict[Hashable, object] = {name: given.coords[name] for name in given.indexes}
    for dim in bare:
        labels = frame.codes(str(dim))[1]
        if labels.size != given.sizes[dim]:
            raise LabelError(f"{what} have {given.sizes[dim]} entries along {dim!r}, which has {labels.size} labels")
        kept[dim] = labels
    return given.drop_vars(given.coords).assign_coords(kept).to_series()


def _keys(index: pd.Index, names: Sequence[str], frame: Frame, what: str) -> tuple[pd.Index, pd.Index]:
    """Labels of the numbers and of the rows, alike: by coordinate where the rows are named so, else by name."""
    known = pd.Index(list(names), dtype=object)
    if index.nlevels == 1 and index.isin(known).all():
        return _plain(index), known
    if isinstance(names, CellNames) and names.by:
        columns = [frame.broadcast(by)[names.cells] for by in names.by]
        if isinstance(index, pd.MultiIndex) and set(index.names) == set(names.by):
            index = index.reorder_levels(list(names.by))
        elif set(index.names) - {None} and list(index.names) != list(names.by):
            raise LabelError(f"{what} are labelled by {list(index.names)}, the sums by {list(names.by)}")
        if index.nlevels == len(names.by):
            keys = pd.Index(columns[0], dtype=object) if len(columns) == 1 else pd.MultiIndex.from_arrays(columns)
            return _plain(index), _plain(keys)
    if isinstance(names, GroupNames):
        return _plain(index), pd.Index(names.groups, dtype=object)
    return _plain(index), known


def _plain(index: pd.Index) -> pd.Index:
    found: pd.Index = pd.Index(index.to_flat_index(), dtype=object)
    return found


def _by_position(given: object, names: Sequence[str], frame: Frame, what: str) -> Array:
    """Numbers in the order of the rows, of which they have the shape."""
    found = np.asarray(np.ma.filled(np.ma.asarray(given, dtype=object), np.nan), dtype=object)
    expected: list[tuple[int, ...]] = [(len(names),), *([()] if len(names) == 1 else [])]
    if isinstance(names, CellNames) and names.by:
        expected.append(tuple(frame.codes(by)[1].size for by in names.by))
    if found.shape not in expected or found.size != len(names):
        raise LabelError(f"{what} have the shape {found.shape} for {len(names)} sums, such as {names[0]!r}")
    return found.ravel()


def _shown(label: object) -> str:
    return ", ".join(map(repr, label)) if isinstance(label, tuple) else repr(label)
