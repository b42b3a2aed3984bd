"""Reading release files, every byte of which is verified before it is believed."""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ppdinf.errors import PpdinfError, ReleaseFileError
from ppdinf.invariants import Public
from ppdinf.invariants.system import bind
from ppdinf.noise.plan import Plan
from ppdinf.releases.file import FIELDS, MANIFEST, NEW, PARTS, SCHEMA, UNDATED, digest, packed
from ppdinf.releases.mechanism import Mechanism
from ppdinf.releases.release import Release, as_drawn, as_undated
from ppdinf.tables import labelled_cells, labelled_reals

__all__ = ["read_release"]

_READ_AS: dict[str, type] = {"integer": np.int64, "number": np.float64, "string": object}
_PLAN = {"sampler": str, "exact": bool, "reason": str, "acceptance": float, "distance": float}
_SENSELESS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
_UNREADABLE = (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, OverflowError)


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

    Notes
    -----
    Ten million cells take about half a minute and 5 GB.

    Examples
    --------
    >>> import pathlib, tempfile, ppdinf as ppd
    >>> release = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([3, 1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(pathlib.Path(folder, "small.ppd"))
    ...     again = read_release(pathlib.Path(folder, "small.ppd"))
    >>> again.table.equals(release.table)
    True
    """
    path = Path(path)
    data = path.read_bytes()
    try:
        parts = _unzipped(data)
        manifest = _verified_manifest(parts[MANIFEST])
        _verify_parts(manifest, parts)
        release = _release(manifest, parts)
        same = packed(release, manifest) == data
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{path.name}: {error}") from error.__cause__
    except (PpdinfError, *_SENSELESS) as error:
        raise ReleaseFileError(f"{path.name} is whole but does not make sense: {error}") from error
    if not same:
        raise ReleaseFileError(f"{path.name} is not what ppdinf writes: it was changed after it was written; {_AGAIN}")
    return release


_AGAIN = "get a fresh copy"


def _unzipped(data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            found = [entry.filename for entry in entries]
            if found != [MANIFEST, *PARTS]:
                raise ReleaseFileError(f"it holds {found[:6]}, a release file holds {[MANIFEST, *PARTS]}")
            if any(entry.compress_type or entry.flag_bits or entry.file_size > len(data) for entry in entries):
                raise ReleaseFileError("its parts are compressed or encrypted; a release file holds them as they are")
            return {entry.filename: archive.read(entry) for entry in entries}
    except _UNREADABLE as error:
        if isinstance(error, PpdinfError):
            raise
        raise ReleaseFileError(f"it is not a release file, or was cut short or damaged: {error}") from error


def _verified_manifest(data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_finite)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ReleaseFileError(f"{MANIFEST} is not JSON: {error}") from error
    version = manifest.get("schema") if isinstance(manifest, dict) else None
    if version not in (UNDATED, SCHEMA) or isinstance(version, bool):
        raise ReleaseFileError(
            f"schema {version!r} is not known: this version of ppdinf reads the schemas {UNDATED} and {SCHEMA}"
        )
    fields = FIELDS - NEW if version == UNDATED else FIELDS
    if set(manifest) != fields:
        raise ReleaseFileError(f"{MANIFEST} has fields too many or too few: {sorted(set(manifest) ^ fields)}")
    if manifest["digest"] != digest(manifest):
        raise ReleaseFileError(f"{MANIFEST} was changed after it was written: {_AGAIN}")
    found: dict[str, Any] = manifest
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ReleaseFileError(f"{MANIFEST} repeats a key")
    return dict(pairs)


def _finite(text: str) -> Any:
    raise ReleaseFileError(f"{MANIFEST} holds {text}")


def _verify_parts(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
    for name in PARTS:
        found = {"bytes": len(parts[name]), "sha256": hashlib.sha256(parts[name]).hexdigest()}
        if manifest["parts"][name] != found:
            raise ReleaseFileError(f"{name} was changed after it was written: {_AGAIN}")


def _release(manifest: dict[str, Any], parts: dict[str, bytes]) -> Release:
    public, kept = Public.from_dict(manifest["public"]), Public.from_dict(manifest["kept"])
    mechanism = Mechanism.from_dict(manifest["mechanism"], kept)
    plan = None if manifest["plan"] is None else Plan(**manifest["plan"])
    for name, value in (manifest["plan"] or {}).items():
        if type(value) is not _PLAN[name]:
            raise ReleaseFileError(f"{name!r} in the sampler plan is {value!r}")
    if plan is not None:
        shares = [share for share in (plan.acceptance, plan.distance) if share is not None]
        chain = plan.distance is not None
        doubles = not (plan.exact or chain or mechanism.is_integer)
        if plan.exact + chain + doubles != 1 or not all(0 <= share <= 1 for share in shares):
            raise ReleaseFileError("the sampler plan contradicts itself: chains alone have a distance, from 0 to 1")
    table = _table(parts["table.csv"], manifest, np.int64 if mechanism.is_integer else np.float64)
    frame, cells = labelled_cells(table, nonnegative=False) if mechanism.is_integer else labelled_reals(table)
    values = _columns(parts["public.csv"], {"sum": object, "value": np.int64}, "public.csv")["value"]
    system = bind(public, frame, np.zeros(frame.size, dtype=np.int64), values)
    release = Release(frame.table(cells), mechanism, public=system, plan=plan)
    whole = manifest.get("part_of")
    if manifest.get("provenance") == "drawn":
        own = None if whole is None else Mechanism.from_dict(whole["mechanism"], Public.from_dict(whole["public"]))
        return as_drawn(release, own)
    return release if manifest.get("provenance") == "stated" else as_undated(release)


def _table(data: bytes, manifest: dict[str, Any], kind: type) -> xr.DataArray:
    shape: dict[str, int] = manifest["dims"]
    entries = {name: (tuple(entry["dims"]), _READ_AS[entry["type"]]) for name, entry in manifest["coordinates"].items()}
    types = {name: kind for name, (_, kind) in entries.items()} | {"released": kind}
    columns = _columns(data, types, "table.csv")
    if len(columns["released"]) != math.prod(shape.values()):
        raise ReleaseFileError(f"table.csv has {len(columns['released'])} rows, the manifest gives {shape}")
    coords = {}
    for name, (dims, _) in entries.items():
        spread = columns[name].reshape(*shape.values())  # written once per cell: the first of each will do
        coords[name] = (dims, spread[tuple(slice(None) if dim in dims else 0 for dim in shape)])
    return xr.DataArray(columns["released"].reshape(*shape.values()), dims=tuple(shape), coords=coords)


def _columns(data: bytes, types: dict[str, type], part: str) -> dict[str, np.ndarray]:
    # decimals as text at first, since Python reads them exactly; not as categories, which "00001" would leave as 1
    kinds: Any = {name: kind if kind is np.int64 else object for name, kind in types.items()}
    try:
        found = pd.read_csv(io.BytesIO(data), dtype=kinds, na_filter=False, lineterminator="\n")
    except pd.errors.ParserError as error:
        raise ReleaseFileError(f"{part} is not a table: {error}") from error
    if list(found.columns) != list(types):
        raise ReleaseFileError(f"{part} has the columns {list(found.columns)}, expected {list(types)}")
    return {name: np.asarray(found[name]).astype(kind) for name, kind in types.items()}
