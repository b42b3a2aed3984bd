"""A sealed archive: a zip of one JSON manifest and CSV parts, verified byte by byte.

The manifest states the size and SHA-256 of each part, and contains a digest of itself. Parts are stored, not
compressed, so that the same content gives the same file on every machine. A reader packs the content again and compares
all bytes. This detects every truncated, edited, added or invented part, and excludes decompression bombs.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.atomic_files import as_path, write_atomically
from ppdinf._internal.values import Json
from ppdinf.errors import PpdinfError, ReleaseFileError
from ppdinf.tables.frame import Frame

MANIFEST = "manifest.json"
AGAIN = "get a fresh copy"
_TYPES = {"i": "integer", "f": "number", "O": "string"}
_READ_AS: dict[str, type] = {"integer": np.int64, "number": np.float64, "string": object}
_FORMULA = re.compile(r"['=@\t\r]|[+-](?!\d+([.,]\d+)?$)")  # text that a spreadsheet runs, or that has the mark itself
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SENSELESS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_UNREADABLE = (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, OverflowError)


def pack(manifest: Json, parts: dict[str, bytes]) -> bytes:
    """Return the bytes of the archive: the same for the same content, on every machine."""
    sizes = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in parts.items()}
    manifest = manifest | {"parts": sizes}
    manifest["digest"] = digest(manifest)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name, data in {MANIFEST: canonical_json(manifest), **parts}.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # readable after unpacking on every system
            file.writestr(entry, data)
    return archive.getvalue()


def save(path: str | PathLike[str], data: bytes, *, overwrite: bool, why: str) -> None:
    """Write a complete archive or nothing."""
    try:
        write_atomically(path, data, overwrite=overwrite)
    except FileExistsError:
        raise ReleaseFileError(f"{Path(path).name} exists, and {why}: choose another name, or overwrite=True") from None


def read_verified[T](path: str | PathLike[str], read: Callable[[bytes], T], pack: Callable[[T], bytes]) -> T:
    """Read an archive and accept it only if it packs again to the same bytes."""
    path = as_path(path, ReleaseFileError)
    data = path.read_bytes()
    try:
        content = read(data)
        same = pack(content) == data
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{path.name}: {error}") from error.__cause__
    except (PpdinfError, *_SENSELESS) as error:
        raise ReleaseFileError(f"{path.name} is complete but its content is invalid: {error}") from error
    if not same:
        raise ReleaseFileError(f"{path.name} was not written by ppdinf or was changed after it was written: {AGAIN}")
    return content


def has_field(path: str | PathLike[str], field: str, value: object) -> bool:
    """Return whether a field of a file's manifest has a value, without verification; False for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive.read(MANIFEST))
    except (*_UNREADABLE, KeyError):
        return False
    return isinstance(manifest, dict) and manifest.get(field) == value


def unpack(data: bytes, require: Callable[[Any], Sequence[str] | None]) -> tuple[Json, dict[str, bytes]]:
    """Return the manifest and parts of an archive, checked against each other."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            file_names = [entry.filename for entry in entries]
            if not file_names or file_names[0] != MANIFEST:
                raise ReleaseFileError(f"it contains {file_names[:6]}, but a release file begins with {MANIFEST}")
            if any(entry.compress_type or entry.flag_bits or entry.file_size > len(data) for entry in entries):
                raise ReleaseFileError("its parts are compressed or encrypted: a release file stores them unchanged")
            manifest = _manifest(archive.read(entries[0]))
            names = require(manifest)
            wanted = [MANIFEST, *(manifest["parts"] if names is None else names)]
            if file_names != wanted:
                raise ReleaseFileError(f"it contains {file_names[:6]}, but such a file contains {wanted[:6]}")
            if manifest["digest"] != digest(manifest):
                raise ReleaseFileError(f"{MANIFEST} was changed after it was written: {AGAIN}")
            parts = {entry.filename: archive.read(entry) for entry in entries[1:]}
    except _UNREADABLE as error:
        if isinstance(error, PpdinfError):
            raise
        raise ReleaseFileError(f"it is not a release file, or was truncated or damaged: {error}") from error
    for name, part in parts.items():
        if manifest["parts"][name] != {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()}:
            raise ReleaseFileError(f"{name} was changed after it was written: {AGAIN}")
    return manifest, parts


def canonical_json(manifest: Json) -> bytes:
    """Return the bytes of a manifest."""
    return (json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def digest(manifest: Json) -> str:
    """Return the SHA-256 of all fields of a manifest except its digest."""
    body = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(canonical_json(body)).hexdigest()


def _manifest(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_finite)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ReleaseFileError(f"{MANIFEST} is not JSON: {error}") from error


def _distinct(pairs: list[tuple[str, object]]) -> Json:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ReleaseFileError(f"{MANIFEST} repeats a key")
    return dict(pairs)


def _finite(text: str) -> float:
    raise ReleaseFileError(f"{MANIFEST} contains {text}")


def as_csv(header: Sequence[str], *columns: Iterable[object]) -> bytes:
    """Return the bytes of a table, with text in quotes; an apostrophe precedes text that a spreadsheet would run."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(map(_inert, header))
    writer.writerows(zip(*(map(_inert, column) for column in columns), strict=True))
    return text.getvalue().encode("utf-8")


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def columns_of(data: bytes, types: dict[str, Any] | None, part: str) -> dict[str, np.ndarray]:
    """Return the columns of a table by name and type; all as text without `types`."""
    # Decimals are read as text first, because Python parses them exactly; categories would turn "00001" into 1.
    kinds: Any = object
    if types is not None:
        kinds = {_inert(name): kind if kind is np.int64 else object for name, kind in types.items()}
    try:
        frame = pd.read_csv(io.BytesIO(data), dtype=kinds, na_filter=False, lineterminator="\n")
    except pd.errors.ParserError as error:
        raise ReleaseFileError(f"{part} is not a table: {error}") from error
    frame.columns = frame.columns.str.removeprefix("'")
    wanted = dict.fromkeys(frame.columns, object) if types is None else types
    if list(frame.columns) != list(wanted):
        raise ReleaseFileError(f"{part} has the columns {list(frame.columns)}, expected {list(wanted)}")
    for name in frame.select_dtypes(object):
        frame[name] = frame[name].str.removeprefix("'")
    return {name: np.asarray(frame[name]).astype(kind) for name, kind in wanted.items()}


def coordinates(frame: Frame) -> Json:
    """Return the labels of a table for the manifest of a part whose rows have one column per coordinate."""
    return {
        "dims": dict(zip(frame.dims, frame.shape, strict=True)),
        "coordinates": {
            name: {"dims": list(dims), "type": _TYPES[values.dtype.kind]}
            for name, (dims, values) in frame.coords.items()
        },
    }


def require_manifest(manifest: Any, schema: int, fields: Collection[str]) -> None:
    """Refuse unknown versions of a file, and require exactly the given fields."""
    version = manifest.get("schema") if isinstance(manifest, dict) else None
    if version != schema or isinstance(version, bool):
        raise ReleaseFileError(f"schema {version!r} is not known: this version of ppdinf reads schema {schema}")
    if wrong := sorted(set(manifest) ^ set(fields)):
        raise ReleaseFileError(f"{MANIFEST} has missing or unknown fields: {wrong}")


def read_labelled(data: bytes, manifest: Json, part: str, counts: Json) -> xr.DataArray:
    """Read a table with one row per cell: its coordinates, and at most one column of counts; zeros without it."""
    shape: dict[str, int] = manifest["dims"]
    entries = {name: (tuple(entry["dims"]), _READ_AS[entry["type"]]) for name, entry in manifest["coordinates"].items()}
    columns = columns_of(data, {name: kind for name, (_, kind) in entries.items()} | counts, part)
    rows = len(next(iter(columns.values())))
    if rows != math.prod(shape.values()):
        raise ReleaseFileError(f"{part} has {rows} rows, but the manifest states {shape}")
    coords = {}
    for name, (dims, _) in entries.items():
        spread = columns[name].reshape(*shape.values())  # repeated for every cell: use the first value of each label
        coords[name] = (dims, spread[tuple(slice(None) if dim in dims else 0 for dim in shape)])
    cells = columns[next(iter(counts))] if counts else np.zeros(rows, dtype=np.int64)
    return Frame(tuple(shape), tuple(shape.values()), coords).table(cells)
