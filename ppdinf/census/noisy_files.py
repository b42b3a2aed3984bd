"""Unchanged rows of the files, for chosen places, levels and queries, checked as columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ppdinf._internal.values import Flags, Integers, Reals
from ppdinf.census.schema import Histogram
from ppdinf.errors import CountError, LabelError, PpdinfError, PrivacyError, ReleaseFileError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import Array, DataType


SIGNS = {"=": "=", "==": "=", "<=": "<=", ">=": ">="}

type Columns = Mapping[str, pyarrow.Array]


def rows_of(pa: ModuleType, columns: Columns, where: list[str], histogram: Histogram) -> dict[str, list[Any]]:
    """Return the rows of a batch."""
    value = _lists(pa, columns["value"])
    groupings, of = _distinct([columns[name] for name in histogram.names])
    variance = _numbers(columns["variance"]) if "variance" in columns else np.full(len(where), np.nan)
    sign = columns["sign"].to_pylist() if "sign" in columns else [""] * len(where)
    problems = list(_problems(pa, columns, where, histogram, value, (groupings, of), variance, sign))
    if problems:
        raise min(problems, key=lambda problem: problem[0])[1]
    _, sizes, entries = value
    ends = np.cumsum(sizes).tolist()
    return {
        "geocode": columns["geocode"].to_pylist(),
        "query": without_ending(pa, columns["query_name"]).to_pylist(),
        "groupings": [groupings[k] for k in of.tolist()],
        "value": [entries[a:b] for a, b in zip([0, *ends], ends, strict=False)],
        "variance": variance.tolist(),
        "sign": [SIGNS.get(text, "") for text in sign],
        "where": where,
    }


def _problems(
    pa: ModuleType,
    columns: Columns,
    where: Sequence[str],
    histogram: Histogram,
    value: Lists,
    groupings: tuple[list[tuple[str, ...]], Integers],
    variance: Reals,
    sign: Sequence[str],
) -> Iterator[tuple[int, PpdinfError]]:
    """Return for each check the first row that fails it; checks are in the order of their messages for one row."""
    for name in sorted(columns, key=lambda name: name != "geocode"):
        for k in _first(columns[name].is_null().to_numpy(zero_copy_only=False)):
            yield k, ReleaseFileError(f"{where[k]}, column {name!r} is empty")
    holes, sizes, _ = value
    for k in _first(holes):
        yield k, ReleaseFileError(f"{where[k]}, column 'value' has an empty entry")
    # The groupings of a query determine its shape; those of an empty column were refused.
    distinct, of = groupings
    shapes = np.zeros((len(distinct), len(histogram.axes)), dtype=np.int64)
    for n, names in enumerate(distinct):
        for j, (axis, grouping) in enumerate(zip(histogram.axes, names, strict=True)):
            try:
                shapes[n, j] = len(axis.groups(grouping) or [grouping])
            except LabelError as error:
                for k in _first(of == n):
                    yield k, LabelError(f"{where[k]}, column {axis.name!r}: {error}")
    expected = shapes[of]
    _, lengths, entries = _lists(pa, columns["query_shape"])
    differs = lengths != expected.shape[1]
    stated = entries[np.repeat(~differs, lengths)].reshape(-1, expected.shape[1])
    differs[~differs] = (stated != expected[~differs]).any(axis=1)
    for k in _first(differs):
        found, right = columns["query_shape"][k].as_py(), expected[k].tolist()
        yield k, CountError(f"{where[k]}, column 'query_shape' is {found}, but the groupings of its axes give {right}")
    for k in _first(sizes != expected.prod(axis=1)):
        right = expected[k].tolist()
        yield k, CountError(f"{where[k]}, column 'value' has {sizes[k]} numbers for a query of shape {right}")
    if "variance" in columns:
        for k in _first(~((variance > 0) & (variance < np.inf))):
            yield k, PrivacyError(f"{where[k]}, column 'variance' must be positive, found {variance[k]}")
    if "sign" in columns:
        for k in _first(np.array([text not in SIGNS for text in sign])):
            yield k, LabelError(f"{where[k]}, column 'sign' must be one of {', '.join(SIGNS)}, found {sign[k]!r}")


def _first(bad: Flags) -> list[int]:
    """Return the first wrong row, if there is one."""
    return [int(bad.argmax())] if bad.any() else []


type Lists = tuple[Flags, Integers, Integers]
"""Rows with an empty entry, lengths of all rows, and the entries of all rows."""


def _lists(pa: ModuleType, column: pyarrow.Array) -> Lists:
    lengths = pa.compute.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    entries = pa.compute.list_flatten(column)
    holes = np.zeros(lengths.size, dtype=bool)
    holes[np.repeat(np.arange(lengths.size), lengths)[entries.is_null().to_numpy(zero_copy_only=False)]] = True
    return holes, lengths, entries.fill_null(0).to_numpy().astype(np.int64)


def _distinct(columns: Sequence[pyarrow.Array]) -> tuple[list[tuple[str, ...]], Integers]:
    """Return the distinct tuples of several columns, and the tuple of every row."""
    encoded = [column.fill_null("").dictionary_encode() for column in columns]
    labels = [part.dictionary.to_pylist() for part in encoded]
    numbers = np.ravel_multi_index([part.indices.to_numpy() for part in encoded], [len(names) for names in labels])
    used, of = np.unique(numbers, return_inverse=True)
    positions = zip(*np.unravel_index(used, [len(names) for names in labels]), strict=True)
    return [tuple(names[k] for names, k in zip(labels, place, strict=True)) for place in positions], of


def _numbers(column: pyarrow.Array) -> Reals:
    """Return the shortest decimals of numbers that the file may store in single precision; nan for empty entries."""
    distinct, of = np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)
    return np.array([float(str(number)) for number in distinct])[of]


def without_ending(pa: ModuleType, names: pyarrow.Array) -> pyarrow.Array:
    """Return names of queries without the suffix ``_dpq`` or ``_con``."""
    return pa.compute.replace_substring_regex(names, "_(dpq|con)$", "")


DPQUERY, CONSTRAINT = "DPQuery", "Constraint"

LEVELS = (
    "US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Tract", "Block_Group", "Block",
)  # fmt: skip
"""Levels of all files, from coarse to fine; each file has a subset."""

BATCH = 65536  # rows that are in memory at a time
PARTITIONS = {"State": 3, "County": 8}  # characters of the code in the name of a folder; digits, possibly as a number


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

    Tolerated: every width of integers, no column ``sign`` (constraints are equalities then), ``==`` for ``=``, further
    columns, names of partitions as numbers (``State=44``), levels without a file, any names of files.

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
    ReleaseFileError, LabelError, CountError, PrivacyError
        A folder, column or entry is missing, or a column has another type; unknown groupings or signs; arrays of
        another shape than their query; variances that are not positive. Messages name file, row and column.
    ModuleNotFoundError
        pyarrow is not installed: it comes with the extra ``census``.

    See Also
    --------
    ppdinf.census.read_nmf

    Examples
    --------
    >>> import tempfile, numpy as np, xarray as xr, ppdinf as ppd
    >>> from ppdinf.census import read_rows
    >>> blocks = ["04410007A1", "04410009B1"]
    >>> units = xr.DataArray(np.array([[1, 9], [2, 8]]), coords={"block": blocks, "h1": ["vacant", "occupied"]})
    >>> with tempfile.TemporaryDirectory() as root:
    ...     ppd.census.simulate_nmf(units, ppd.census.UNITS_2020, root, "US_Unit_PL_PROD", {"County": 8}, rng=1)
    ...     rows = read_rows(root, "US_Unit_PL_PROD", "DPQuery", ppd.census.UNITS, levels=["Block"])
    >>> rows.geocode.tolist(), rows["query"].unique().tolist()
    (['04410007A1', '04410009B1'], ['detailed'])
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
    names = ["level", "geocode", "query", "groupings", "value", "variance", "sign", "where"]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for level in present if levels is None else [level for level in present if level in levels]:
        for path in _files(folder / f"{level}.parquet" / kind, prefixes):
            shown = path.relative_to(folder).as_posix()
            for batch in _rows(path, shown, level, kind, histogram, prefixes, queries):
                for name, column in columns.items():
                    column += batch[name]
    return pd.DataFrame(columns)


def arrow() -> ModuleType:
    """Import pyarrow."""
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
    return any(value.zfill(width).startswith(prefix[:width]) for prefix in prefixes)


def _rows(
    path: Path,
    shown: str,
    level: str,
    kind: str,
    histogram: Histogram,
    prefixes: tuple[str, ...],
    queries: Collection[str] | None,
) -> Iterator[dict[str, list[Any]]]:
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
    signed = ["sign"] if kind == CONSTRAINT and "sign" in types else []
    for name in [*needed, *signed]:
        lists = name in ("query_shape", "value")
        is_number = pa.types.is_floating(types[name]) or pa.types.is_integer(types[name])
        fits = _is_list_of_whole(pa, types[name]) if lists else is_number == (name == "variance")
        if not fits:
            raise ReleaseFileError(f"{shown}, column {name!r} has the unexpected type {types[name]}")
    # Read batches of rows; skip rows of other places and queries, and check the remaining rows.
    first = 0
    for batch in file.iter_batches(columns=[*needed, *signed], batch_size=BATCH):
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns |= {name: columns[name].cast(pa.string()) for name in (*texts, *signed)}
        if kind == CONSTRAINT and not signed:
            columns["sign"] = pa.array(["="] * len(batch))
        kept = _kept(pa, columns, prefixes, queries)
        where = [f"{shown}, row {row}" for row in (first + kept).tolist()]
        columns = {name: column.take(pa.array(kept)) for name, column in columns.items()}
        yield {"level": [level] * len(where)} | rows_of(pa, columns, where, histogram)
        first += len(batch)


def _kept(
    pa: ModuleType, columns: Mapping[str, Array], prefixes: tuple[str, ...], queries: Collection[str] | None
) -> Integers:
    """Return the rows of the chosen places and queries, and rows with an empty entry that may be of them."""
    codes = columns["geocode"]
    kept = codes.is_null()
    for prefix in prefixes:
        kept = pa.compute.or_(kept, pa.compute.starts_with(codes, prefix).fill_null(False))
    if queries is not None:
        wanted = pa.compute.is_in(without_ending(pa, columns["query_name"]), pa.array(list(queries), pa.string()))
        for column in columns.values():
            wanted = pa.compute.or_(wanted, column.is_null())
        kept = pa.compute.and_(kept, wanted)
    return np.flatnonzero(kept.to_numpy(zero_copy_only=False))


def _is_list_of_whole(pa: ModuleType, kind: DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return lists and pa.types.is_integer(kind.value_type)
