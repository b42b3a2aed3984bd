"""Files of replicates: results of Python, NumPy and pandas as NumPy archives, which are read without running code.

An archive contains the arrays of a result, and its structure as JSON. Both are read with ``allow_pickle=False``.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppdinf._internal.values import Array
from ppdinf.errors import ReleaseFileError

STRUCTURE = "structure"
PLAIN = "biufcmMUS"  # kinds of arrays that NumPy stores without pickling


def pack(result: object) -> bytes:
    """Write a result as an archive.

    Parameters
    ----------
    result : object
        None, numbers, text, arrays and DataFrames, and tuples, lists and dictionaries that contain them.

    Raises
    ------
    TypeError
        A part has another type, which the message names.

    Examples
    --------
    >>> unpack(pack({"errors": (np.arange(2), 0.5)}), "replicate 1")
    {'errors': (array([0, 1]), 0.5)}
    """
    arrays: list[Array] = []
    structure = json.dumps(_described(result, arrays))
    file = io.BytesIO()
    entries: dict[str, Any] = {STRUCTURE: np.array(structure)} | {f"a{k}": x for k, x in enumerate(arrays)}
    np.savez_compressed(file, **entries)
    return file.getvalue()


def unpack(data: bytes, name: str) -> Any:
    """Read a result.

    Parameters
    ----------
    data : bytes
        From `pack`.
    name : str
        Name of the file in messages.

    Raises
    ------
    ReleaseFileError
        The file is damaged, or is not such an archive.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return _restored(json.loads(str(archive[STRUCTURE])), archive)
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ReleaseFileError(f"{name} is damaged or not a file of a replicate: remove it and run again") from error


def _described(x: object, arrays: list[Array]) -> Any:
    """Describe a result for JSON, with arrays by their numbers."""
    if x is None or type(x) in (bool, int, float, str):
        return x
    if isinstance(x, np.ndarray) and x.dtype.kind in PLAIN:
        arrays.append(x)
        return {"array": len(arrays) - 1}
    if isinstance(x, np.generic) and x.dtype.kind in PLAIN:
        arrays.append(np.asarray(x))
        return {"scalar": len(arrays) - 1}
    if type(x) is dict:
        return {"dict": [[_described(key, arrays), _described(value, arrays)] for key, value in x.items()]}
    if type(x) in (list, tuple):
        return {type(x).__name__: [_described(part, arrays) for part in x]}  # type: ignore[attr-defined]
    if isinstance(x, pd.DataFrame) and not isinstance(x.columns, pd.MultiIndex):
        index = x.index.to_frame(index=False)
        columns = [[_described(name, arrays), _column(x[name], arrays)] for name in x.columns]
        names = [_described(name, arrays) for name in x.index.names]
        return {
            "frame": columns,
            "names": names,
            "index": [_column(index.iloc[:, k], arrays) for k in range(len(names))],
        }
    raise TypeError(
        "replicates return numbers, text, arrays, DataFrames, and tuples, lists and dictionaries that contain them; "
        f"found {type(x).__name__}"
    )


def _column(column: pd.Series, arrays: list[Array]) -> Any:
    values: NDArray[Any] = column.to_numpy()
    plain = values.dtype.kind in PLAIN
    return [str(column.dtype), _described(values if plain else values.tolist(), arrays)]


def _restored(x: Any, archive: Any) -> Any:
    """Restore a result from its description."""
    if not isinstance(x, dict):
        return x
    (kind, value), *rest = x.items()
    if kind == "array":
        return archive[f"a{value}"]
    if kind == "scalar":
        return archive[f"a{value}"][()]
    if kind == "dict":
        return {_restored(key, archive): _restored(part, archive) for key, part in value}
    if kind in ("list", "tuple"):
        parts = [_restored(part, archive) for part in value]
        return parts if kind == "list" else tuple(parts)
    if kind != "frame":
        raise ValueError(f"unknown kind of a part: {kind}")
    (_, names), (_, levels) = rest
    names, levels = [_restored(name, archive) for name in names], [_series(level, archive) for level in levels]
    index = pd.Index(levels[0], name=names[0]) if len(levels) == 1 else pd.MultiIndex.from_arrays(levels, names=names)
    columns = {_restored(name, archive): _series(column, archive).to_numpy() for name, column in value}
    frame = pd.DataFrame(columns, index=index)
    return frame.astype({name: dtype for (name, _), (_, (dtype, _)) in zip(columns.items(), value, strict=True)})


def _series(column: Any, archive: Any) -> pd.Series:
    dtype, values = column
    return pd.Series(_restored(values, archive), dtype=dtype)
