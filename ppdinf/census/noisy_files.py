"""Unchanged rows of the files, for chosen places, levels and queries.

    <root>/<dataset>/<Level>.parquet/{DPQuery,Constraint}/[State=044/][County=04410007/]part-*.parquet

Only files of the chosen places are opened, one batch of rows at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf.census.schema import Histogram
from ppdinf.errors import CountError, LabelError, PrivacyError, ReleaseFileError

if TYPE_CHECKING:
    from pyarrow import DataType, ListScalar, Scalar

__all__ = ["CONSTRAINT", "DPQUERY", "LEVELS", "arrow", "read_rows"]

DPQUERY, CONSTRAINT = "DPQuery", "Constraint"

LEVELS = (
    "US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Tract", "Block_Group", "Block",
)  # fmt: skip
"""Levels of all files, from coarse to fine; each file has a subset."""

SIGNS = {"=": "=", "==": "=", "<=": "<=", ">=": ">="}
ENDINGS = ("_dpq", "_con")
PARTITIONS = {"State": 3, "County": 8}  # characters of the code in the name of a folder; digits, possibly as a number


type Row = tuple[str, str, str, tuple[str, ...], NDArray[np.int64], float, str, str]
"""Level, geocode, query, groupings, value, variance, sign, where."""


def read_rows(
    root: str | PathLike[str],
    dataset: str,
    kind: str,
    histogram: Histogram,
    *,
    within: str | Sequence[str] = "",
    levels: Collection[str] | None = None,
    queries: Collection[str] | None = None,
) -> pd.DataFrame:
    """Read noisy measurements, or constraints, of the chosen geounits.

    Parameters
    ----------
    root : path
        Folder of the files.
    dataset : str
        Subfolder, ``"US_Person_PL_PROD"``.
    kind : {"DPQuery", "Constraint"}
    histogram : Histogram
        Axes of the file, `PERSONS` or `UNITS`.
    within : str or sequence of str
        Prefixes of codes: geounits that are outside, or only partly within, are left out.
    levels, queries : collection of str, optional
        Levels and queries to read; queries without the suffix ``_dpq`` or ``_con``. Default: all.

    Returns
    -------
    pandas.DataFrame
        One row per array: ``level``, ``geocode``, ``query``, ``groupings`` (one per axis), ``value`` (int64, flat),
        ``variance``, ``sign`` (empty for measurements), ``where`` (file and row, for messages).

    Raises
    ------
    ReleaseFileError
        A missing folder; a missing column or a column of another type; a missing entry.
    LabelError
        Unknown groupings and signs.
    CountError
        Arrays whose shape differs from the shape of their query.
    PrivacyError
        Variances that are not positive. Messages name file, row and column.
    ModuleNotFoundError
        pyarrow is not installed: it comes with the extra ``census``.

    See Also
    --------
    ppdinf.census.read_nmf

    Notes
    -----
    Tolerated: every width of integers, no column ``sign`` (constraints are equalities then), ``==`` for ``=``, further
    columns, names of partitions as numbers (``State=44``), levels without a file, any names of files.
    """
    folder = Path(root, dataset)
    if not folder.is_dir():
        raise ReleaseFileError(
            f"the folder {folder} does not exist: give the root of the files and the name of a dataset in it"
        )
    present = [level for level in LEVELS if (folder / f"{level}.parquet").is_dir()]
    for level in levels or ():
        if level not in present:
            raise ReleaseFileError(f"{folder} has no level {level!r}; it has {', '.join(present) or 'none'}")
    prefixes = (within,) if isinstance(within, str) else tuple(within)
    rows = [
        row
        for level in present
        if levels is None or level in levels
        for path in _files(folder / f"{level}.parquet" / kind, prefixes)
        for row in _rows(path, path.relative_to(folder).as_posix(), level, kind, histogram, prefixes, queries)
    ]
    columns = ["level", "geocode", "query", "groupings", "value", "variance", "sign", "where"]
    return pd.DataFrame(rows, columns=columns)


def arrow() -> ModuleType:
    """Import pyarrow.

    Raises
    ------
    ModuleNotFoundError
        pyarrow is not installed; the message names the extra.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "census files are Parquet, which needs pyarrow: pip install pyarrow", name="pyarrow"
        ) from error
    return pyarrow


def _files(folder: Path, prefixes: tuple[str, ...]) -> Iterator[Path]:
    """Return the files that can hold geounits with these prefixes, by the names of their folders."""
    for path in sorted(folder.rglob("*.parquet")):
        parts = [part.partition("=") for part in path.relative_to(folder).parts[:-1]]
        if all(_may_hold(key, value, prefixes) for key, _, value in parts):
            yield path


def _may_hold(key: str, value: str, prefixes: tuple[str, ...]) -> bool:
    width = PARTITIONS.get(key)
    if width is None or not value.isdigit():
        return True
    code = value.zfill(width)
    return any(code.startswith(prefix[:width]) for prefix in prefixes)


def _rows(
    path: Path,
    shown: str,
    level: str,
    kind: str,
    histogram: Histogram,
    prefixes: tuple[str, ...],
    queries: Collection[str] | None,
) -> Iterator[Row]:
    pa = arrow()
    # Open the file and check the names and types of its columns.
    try:
        file = pa.parquet.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ReleaseFileError(f"{shown} is not a complete Parquet file ({error}): download it again") from None
    types = {field.name: field.type for field in file.schema_arrow}
    texts = ["geocode", "query_name", *histogram.names]
    needed = [*texts, "query_shape", "value", *(["variance"] if kind == DPQUERY else [])]
    for name in needed:
        if name not in types:
            raise ReleaseFileError(f"{shown} has no column {name!r}; it has {', '.join(types)}")
    signed = kind == CONSTRAINT and "sign" in types
    for name in [*needed, *(["sign"] if signed else [])]:
        lists = name in ("query_shape", "value")
        fits = _is_list_of_whole(pa, types[name]) if lists else _is_number(pa, types[name]) == (name == "variance")
        if not fits:
            raise ReleaseFileError(f"{shown}, column {name!r} has the unexpected type {types[name]}")
    # Read batches of rows; skip rows of other places and queries, and check each remaining row.
    first = 0
    for batch in file.iter_batches(columns=[*needed, *(["sign"] if signed else [])], batch_size=4096):
        column = {name: batch.column(name) for name in batch.schema.names}
        text = {name: column[name].to_pylist() for name in [*texts, *(["sign"] if signed else [])]}
        for k, code in enumerate(text["geocode"]):
            where = f"{shown}, row {first + k}"
            if code is None:
                raise ReleaseFileError(f"{where}, column 'geocode' is empty")
            if not code.startswith(prefixes):
                continue
            for name in column:
                if not column[name][k].is_valid:
                    raise ReleaseFileError(f"{where}, column {name!r} is empty")
            query = text["query_name"][k]
            query = query[:-4] if query.endswith(ENDINGS) else query
            if queries is not None and query not in queries:
                continue
            groupings = tuple(text[name][k] for name in histogram.names)
            if column["value"][k].values.null_count:
                raise ReleaseFileError(f"{where}, column 'value' has an empty entry")
            value = _array(column["value"][k])
            _check_shape(where, histogram, groupings, _array(column["query_shape"][k]), value)
            variance = _number(column["variance"][k]) if kind == DPQUERY else np.nan
            if kind == DPQUERY and not 0 < variance < np.inf:
                raise PrivacyError(f"{where}, column 'variance' must be positive, found {variance}")
            sign = text["sign"][k] if signed else "=" if kind == CONSTRAINT else ""
            if kind == CONSTRAINT and sign not in SIGNS:
                raise LabelError(f"{where}, column 'sign' must be one of {', '.join(SIGNS)}, found {sign!r}")
            yield level, code, query, groupings, value, variance, SIGNS.get(sign, ""), where
        first += len(batch)


def _is_list_of_whole(pa: ModuleType, kind: DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return lists and pa.types.is_integer(kind.value_type)


def _is_number(pa: ModuleType, kind: DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def _array(scalar: ListScalar) -> NDArray[np.int64]:
    return scalar.values.to_numpy(zero_copy_only=False).astype(np.int64)


def _number(scalar: Scalar) -> float:
    """Return the shortest decimal of a number that the file may store in single precision."""
    value = scalar.as_py()
    return float(str(np.float32(value))) if str(scalar.type) == "float" else float(value)


def _check_shape(
    where: str, histogram: Histogram, groupings: tuple[str, ...], shape: NDArray[np.int64], value: NDArray[np.int64]
) -> None:
    expected = []
    for axis, grouping in zip(histogram.axes, groupings, strict=True):
        try:
            groups = axis.groups(grouping)
        except LabelError as error:
            raise LabelError(f"{where}, column {axis.name!r}: {error}") from None
        expected.append(1 if groups is None else len(groups))
    if tuple(shape.tolist()) != tuple(expected):
        raise CountError(
            f"{where}, column 'query_shape' is {shape.tolist()}, but the groupings of its axes give {expected}"
        )
    if value.size != int(np.prod(expected)):
        raise CountError(f"{where}, column 'value' has {value.size} numbers for a query of shape {expected}")
