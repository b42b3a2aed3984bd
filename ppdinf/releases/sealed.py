"""A sealed archive: a zip of one JSON manifest and CSV parts, every byte of which is accounted for.

The manifest states the size and SHA-256 of each part, and is sealed by a digest of itself. Parts are stored, not
compressed, so that the same content is the same file on every machine: what is read is packed again and must come out
byte for byte. Whatever was cut, edited, added or made up shows, and nothing can swell while it is unpacked.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Collection, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf._internal.atomic_files import write_whole
from ppdinf._internal.types import Json
from ppdinf.errors import PpdinfError, ReleaseFileError
from ppdinf.tables.frame import Frame

__all__ = [
    "AGAIN", "MANIFEST", "as_csv", "canonical", "columns_of", "coordinates", "digest", "labelled", "packed",
    "require_fields", "save", "says", "unpacked", "verified",
]  # fmt: skip

MANIFEST = "manifest.json"
AGAIN = "get a fresh copy"
_TYPES = {"i": "integer", "f": "number", "O": "string"}
_READ_AS: dict[str, type] = {"integer": np.int64, "number": np.float64, "string": object}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SENSELESS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_UNREADABLE = (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, OverflowError)


def packed(manifest: Json, parts: dict[str, bytes]) -> bytes:
    """Bytes of the archive: the same for the same content, on every machine."""
    sizes = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in parts.items()}
    manifest = manifest | {"parts": sizes}
    manifest["digest"] = digest(manifest)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name, data in {MANIFEST: canonical(manifest), **parts}.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # readable once unpacked, wherever packed
            file.writestr(entry, data)
    return archive.getvalue()


def save(path: str | PathLike[str], data: bytes, *, overwrite: bool, why: str) -> None:
    """Write an archive as a whole or not at all.

    Raises
    ------
    ReleaseFileError
        The file exists; `why` says what is lost with it.
    WriteError
        It cannot be written: no room, no right, no such folder. Nothing of it is left.
    """
    try:
        write_whole(path, data, overwrite=overwrite)
    except FileExistsError:
        raise ReleaseFileError(f"{Path(path).name} exists, and {why}: choose another name, or overwrite=True") from None


def verified[T](path: str | PathLike[str], read: Callable[[bytes], T], pack: Callable[[T, bytes], bytes]) -> T:
    """Read an archive and believe it only if it packs again to the same bytes.

    Parameters
    ----------
    path : str or path
    read : callable
        From the bytes of the file to what it holds.
    pack : callable
        Back to bytes, given those that were read.

    Raises
    ------
    ReleaseFileError
        Naming the file and what is wrong with it.
    """
    path = Path(path)
    data = path.read_bytes()
    try:
        found = read(data)
        same = pack(found, data) == data
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{path.name}: {error}") from error.__cause__
    except (PpdinfError, *_SENSELESS) as error:
        raise ReleaseFileError(f"{path.name} is whole but does not make sense: {error}") from error
    if not same:
        raise ReleaseFileError(f"{path.name} is not what ppdinf writes: it was changed after it was written; {AGAIN}")
    return found


def says(path: str | PathLike[str], field: str, value: object) -> bool:
    """Tell whether a field of a file's manifest has a value; nothing is verified, and what is no archive says no."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive.read(MANIFEST))
    except (*_UNREADABLE, KeyError):
        return False
    return isinstance(manifest, dict) and manifest.get(field) == value


def unpacked(data: bytes, require: Callable[[Any], Sequence[str] | None]) -> tuple[Json, dict[str, bytes]]:
    """Manifest and parts of an archive, checked against each other.

    Parameters
    ----------
    data : bytes
    require : callable
        Refuses a manifest of another kind or version; returns the names of the parts that such an archive has, or None
        where its manifest alone says so.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            found = [entry.filename for entry in entries]
            if not found or found[0] != MANIFEST:
                raise ReleaseFileError(f"it holds {found[:6]}, a release file begins with {MANIFEST}")
            if any(entry.compress_type or entry.flag_bits or entry.file_size > len(data) for entry in entries):
                raise ReleaseFileError("its parts are compressed or encrypted; a release file holds them as they are")
            manifest = _manifest(archive.read(entries[0]))
            names = require(manifest)
            wanted = [MANIFEST, *(manifest["parts"] if names is None else names)]
            if found != wanted:
                raise ReleaseFileError(f"it holds {found[:6]}, such a file holds {wanted[:6]}")
            if manifest["digest"] != digest(manifest):
                raise ReleaseFileError(f"{MANIFEST} was changed after it was written: {AGAIN}")
            parts = {entry.filename: archive.read(entry) for entry in entries[1:]}
    except _UNREADABLE as error:
        if isinstance(error, PpdinfError):
            raise
        raise ReleaseFileError(f"it is not a release file, or was cut short or damaged: {error}") from error
    for name, part in parts.items():
        if manifest["parts"][name] != {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()}:
            raise ReleaseFileError(f"{name} was changed after it was written: {AGAIN}")
    return manifest, parts


def canonical(manifest: Json) -> bytes:
    """Bytes of a manifest."""
    return (json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def digest(manifest: Json) -> str:
    """SHA-256 of everything in a manifest but its digest."""
    body = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(canonical(body)).hexdigest()


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
    raise ReleaseFileError(f"{MANIFEST} holds {text}")


def as_csv(header: Sequence[str], *columns: Iterable[object]) -> bytes:
    """Bytes of a table, text in quotes."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode("utf-8")


def columns_of(data: bytes, types: dict[str, Any] | None, part: str) -> dict[str, np.ndarray]:
    """Columns of a table by name, of the types wanted; all as text where `types` is None."""
    # decimals as text at first, since Python reads them exactly; not as categories, which "00001" would leave as 1
    kinds: Any = object
    if types is not None:
        kinds = {name: kind if kind is np.int64 else object for name, kind in types.items()}
    try:
        found = pd.read_csv(io.BytesIO(data), dtype=kinds, na_filter=False, lineterminator="\n")
    except pd.errors.ParserError as error:
        raise ReleaseFileError(f"{part} is not a table: {error}") from error
    wanted = dict.fromkeys(found.columns, object) if types is None else types
    if list(found.columns) != list(wanted):
        raise ReleaseFileError(f"{part} has the columns {list(found.columns)}, expected {list(wanted)}")
    return {name: np.asarray(found[name]).astype(kind) for name, kind in wanted.items()}


def coordinates(frame: Frame) -> Json:
    """State labels of a table as a manifest does, beside a part whose rows have one column for each coordinate."""
    return {
        "dims": dict(zip(frame.dims, frame.shape, strict=True)),
        "coordinates": {
            name: {"dims": list(dims), "type": _TYPES[values.dtype.kind]}
            for name, (dims, values) in frame.coords.items()
        },
    }


def require_fields(manifest: Json, fields: Collection[str]) -> None:
    """Refuse a manifest with other fields."""
    if wrong := sorted(set(manifest) ^ set(fields)):
        raise ReleaseFileError(f"{MANIFEST} has fields too many or too few: {wrong}")


def labelled(data: bytes, manifest: Json, part: str, counts: Json) -> xr.DataArray:
    """Read a table of one row per cell: its coordinates, and at most one column of counts; else of zeros."""
    shape: dict[str, int] = manifest["dims"]
    entries = {name: (tuple(entry["dims"]), _READ_AS[entry["type"]]) for name, entry in manifest["coordinates"].items()}
    columns = columns_of(data, {name: kind for name, (_, kind) in entries.items()} | counts, part)
    rows = len(next(iter(columns.values())))
    if rows != math.prod(shape.values()):
        raise ReleaseFileError(f"{part} has {rows} rows, the manifest gives {shape}")
    coords = {}
    for name, (dims, _) in entries.items():
        spread = columns[name].reshape(*shape.values())  # written once per cell: the first of each will do
        coords[name] = (dims, spread[tuple(slice(None) if dim in dims else 0 for dim in shape)])
    cells = columns[next(iter(counts))] if counts else np.zeros(rows, dtype=np.int64)
    return xr.DataArray(cells.reshape(*shape.values()), dims=tuple(shape), coords=coords)
