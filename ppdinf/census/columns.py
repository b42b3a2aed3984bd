"""A batch of rows of a file as arrays: one row per measurement or constraint, checked as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppdinf.census.schema import Histogram
from ppdinf.errors import CountError, LabelError, PpdinfError, PrivacyError, ReleaseFileError

if TYPE_CHECKING:
    import pyarrow

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
        "sign": [SIGNS.get(found, "") for found in sign],
        "where": where,
    }


def _problems(
    pa: ModuleType,
    columns: Columns,
    where: Sequence[str],
    histogram: Histogram,
    value: Lists,
    groupings: tuple[list[tuple[str, ...]], NDArray[np.int64]],
    variance: NDArray[np.float64],
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
    given = entries[np.repeat(~differs, lengths)].reshape(-1, expected.shape[1])
    differs[~differs] = (given != expected[~differs]).any(axis=1)
    for k in _first(differs):
        yield (
            k,
            CountError(
                f"{where[k]}, column 'query_shape' is {columns['query_shape'][k].as_py()}, but the groupings of its "
                f"axes give {expected[k].tolist()}"
            ),
        )
    for k in _first(sizes != expected.prod(axis=1)):
        yield (
            k,
            CountError(
                f"{where[k]}, column 'value' has {sizes[k]} numbers for a query of shape {expected[k].tolist()}"
            ),
        )
    if "variance" in columns:
        for k in _first(~((variance > 0) & (variance < np.inf))):
            yield k, PrivacyError(f"{where[k]}, column 'variance' must be positive, found {variance[k]}")
    if "sign" in columns:
        for k in _first(np.array([found not in SIGNS for found in sign])):
            yield k, LabelError(f"{where[k]}, column 'sign' must be one of {', '.join(SIGNS)}, found {sign[k]!r}")


def _first(bad: NDArray[np.bool_]) -> list[int]:
    """Return the first wrong row, if there is one."""
    return [int(bad.argmax())] if bad.any() else []


type Lists = tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]
"""Rows with an empty entry, lengths of all rows, and the entries of all rows."""


def _lists(pa: ModuleType, column: pyarrow.Array) -> Lists:
    lengths = pa.compute.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    entries = pa.compute.list_flatten(column)
    holes = np.zeros(lengths.size, dtype=bool)
    holes[np.repeat(np.arange(lengths.size), lengths)[entries.is_null().to_numpy(zero_copy_only=False)]] = True
    return holes, lengths, entries.fill_null(0).to_numpy().astype(np.int64)


def _distinct(columns: Sequence[pyarrow.Array]) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """Return the distinct tuples of several columns, and the tuple of every row."""
    encoded = [column.fill_null("").dictionary_encode() for column in columns]
    labels = [part.dictionary.to_pylist() for part in encoded]
    numbers = np.ravel_multi_index([part.indices.to_numpy() for part in encoded], [len(names) for names in labels])
    used, of = np.unique(numbers, return_inverse=True)
    positions = zip(*np.unravel_index(used, [len(names) for names in labels]), strict=True)
    return [tuple(names[k] for names, k in zip(labels, place, strict=True)) for place in positions], of


def _numbers(column: pyarrow.Array) -> NDArray[np.float64]:
    """Return the shortest decimals of numbers that the file may store in single precision; nan for empty entries."""
    numbers = column.to_numpy(zero_copy_only=False)
    distinct, of = np.unique(numbers, return_inverse=True)
    return np.array([float(str(number)) for number in distinct])[of]


def without_ending(pa: ModuleType, names: pyarrow.Array) -> pyarrow.Array:
    """Return names of queries without the suffix ``_dpq`` or ``_con``."""
    return pa.compute.replace_substring_regex(names, "_(dpq|con)$", "")
