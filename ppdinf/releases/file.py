"""The release file: a zip of canonical JSON and CSV that R, Excel and people can read.

``manifest.json`` holds the schema version, mechanism, public statements, sampler plan, guarantee and the
size and SHA-256 of each other part, and is sealed by a digest of itself; ``table.csv`` holds one row
per cell, ``public.csv`` one row per public sum. Nothing else may be inside, and everything is
verified before it is parsed. Never in it: seeds, confidential values, durations, host names, paths.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from ppdinf.errors import PpdinfError, ReleaseFileError
from ppdinf.invariants import Public, System
from ppdinf.mechanisms.base import Mechanism
from ppdinf.releases.release import Release
from ppdinf.samplers.plan import Plan

__all__ = ["read_release", "write"]

SCHEMA = 1
MANIFEST = "manifest.json"
PARTS = ("public.csv", "table.csv")
_FIELDS = {"schema", "mechanism", "public", "plan", "guarantee", "dims", "coordinates", "parts", "digest"}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same release always gives the same bytes


def write(release: Release, path: str | PathLike[str]) -> None:
    """Write `release` to `path`.

    Parameters
    ----------
    release : Release
    path : str or path
    """
    frame = release.frame
    parts = {"table.csv": _table_csv(release), "public.csv": _public_csv(release.public)}
    manifest = {
        "schema": SCHEMA,
        "mechanism": release.mechanism.to_dict(),
        "public": release.public.public.to_dict(),
        "plan": release.plan and release.plan.to_dict(),
        "guarantee": release.guarantee.to_dict(),
        "dims": dict(zip(frame.dims, frame.shape, strict=True)),
        "coordinates": {
            name: {"dims": list(dims), "type": "integer" if values.dtype.kind == "i" else "string"}
            for name, (dims, values) in frame.coords.items()
        },
        "parts": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in parts.items()
        },
    }
    manifest["digest"] = _digest(manifest)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {MANIFEST: _canonical(manifest), **parts}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)


def read_release(path: str | PathLike[str]) -> Release:
    """Read a release file after verifying every byte of it.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Release

    Raises
    ------
    ReleaseFileError
        Not a release file; parts missing, added, edited or truncated; another schema version;
        public values that the statements or the table do not agree with.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, ppdinf as ppd
    >>> release = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release(np.array([3, 1, 2]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(pathlib.Path(folder, "small.ppd"))
    ...     again = read_release(pathlib.Path(folder, "small.ppd"))
    >>> again.table.equals(release.table)
    True
    """
    path = Path(path)
    manifest, parts = _verified(path)
    try:
        public = Public.from_dict(manifest["public"])
        mechanism = Mechanism.from_dict(manifest["mechanism"], public)
        table = _parse_table(parts["table.csv"], manifest)
        names, values = _parse_public(parts["public.csv"])
        system = public.on(table, values=values)
        if system.names != names:
            raise ReleaseFileError("public.csv names other sums than the public statements give")
        plan = manifest["plan"] and Plan(**manifest["plan"])
        return Release(table, mechanism, public=system, plan=plan)
    except (KeyError, TypeError, ValueError, PpdinfError) as error:
        raise ReleaseFileError(f"{path.name} is whole but does not make sense: {error}") from error


def _verified(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            found = sorted(archive.namelist())
            if found != sorted((MANIFEST, *PARTS)):
                raise ReleaseFileError(f"{path.name} holds {found}, a release file holds {sorted((MANIFEST, *PARTS))}")
            manifest = _parse_manifest(path, _read(archive, MANIFEST, 64 * 2**20))
            parts = {}
            for name in PARTS:
                stated = manifest["parts"].get(name, {})
                data = _read(archive, name, int(stated.get("bytes", 0)))
                if len(data) != stated.get("bytes") or hashlib.sha256(data).hexdigest() != stated.get("sha256"):
                    raise ReleaseFileError(f"{name} in {path.name} was changed after it was written: get a fresh copy")
                parts[name] = data
            return manifest, parts
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ReleaseFileError(f"{path.name} is not a release file, or was cut short: {error}") from error


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    with archive.open(name) as part:
        data = part.read(limit + 1)  # never unpack more than was stated
    if len(data) > limit:
        raise ReleaseFileError(f"{name} is larger than the manifest states")
    return data


def _parse_manifest(path: Path, data: bytes) -> dict[str, Any]:
    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ReleaseFileError(f"{MANIFEST} in {path.name} repeats a key")
        return dict(pairs)

    def finite(text: str) -> Any:
        raise ReleaseFileError(f"{MANIFEST} in {path.name} holds {text}")

    try:
        manifest = json.loads(data.decode("utf-8"), object_pairs_hook=distinct, parse_constant=finite)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ReleaseFileError(f"{MANIFEST} in {path.name} is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        version = manifest.get("schema") if isinstance(manifest, dict) else None
        raise ReleaseFileError(f"{path.name} has schema {version!r}; this version of ppdinf reads schema {SCHEMA}")
    if set(manifest) != _FIELDS:
        raise ReleaseFileError(
            f"{MANIFEST} in {path.name} has fields {sorted(set(manifest) ^ _FIELDS)} too many or too few"
        )
    if manifest["digest"] != _digest(manifest) or data != _canonical(manifest):
        raise ReleaseFileError(f"{MANIFEST} in {path.name} was changed after it was written: get a fresh copy")
    return manifest


def _canonical(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _digest(manifest: dict[str, Any]) -> str:
    body = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(_canonical(body)).hexdigest()


def _table_csv(release: Release) -> bytes:
    frame = release.frame
    columns = [frame.broadcast(name) for name in frame.coords]
    return _csv([*frame.coords, "released"], zip(*columns, release.table.values.ravel(), strict=True))


def _public_csv(system: System) -> bytes:
    return _csv(["sum", "value"], zip(system.names, system.values, strict=True))


def _csv(header: Sequence[str], rows: Any) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode("utf-8")


def _parse_csv(data: bytes, header: Sequence[str], part: str) -> list[list[str]]:
    rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
    if not rows or rows[0] != list(header):
        raise ReleaseFileError(f"{part} must have the columns {list(header)}")
    return rows[1:]


def _parse_table(data: bytes, manifest: dict[str, Any]) -> xr.DataArray:
    dims = tuple(manifest["dims"])
    shape = tuple(manifest["dims"].values())
    coordinates = manifest["coordinates"]
    rows = _parse_csv(data, [*coordinates, "released"], "table.csv")
    if len(rows) != int(np.prod(shape)):
        raise ReleaseFileError(f"table.csv has {len(rows)} cells, the manifest states {int(np.prod(shape))}")
    columns = list(zip(*rows, strict=True))
    coords = {}
    for (name, entry), column in zip(coordinates.items(), columns, strict=False):
        cells = np.array(column, dtype=object).reshape(shape)
        if entry["type"] == "integer":
            cells = cells.astype(np.int64)
        first = tuple(slice(None) if dim in entry["dims"] else 0 for dim in dims)
        values = cells[first]
        kept = [dim for dim in dims if dim in entry["dims"]]
        coords[name] = (tuple(kept), values)
    released = np.array(columns[-1], dtype=object).astype(np.int64).reshape(shape)
    return xr.DataArray(released, dims=dims, coords=coords)


def _parse_public(data: bytes) -> tuple[list[str], list[int]]:
    rows = _parse_csv(data, ["sum", "value"], "public.csv")
    return [row[0] for row in rows], [int(row[1]) for row in rows]
