"""The release file: a zip of canonical JSON and CSV that R, Excel and people can read.

``manifest.json`` holds the schema version, who drew the table, mechanism, dimensions of its noise, public statements,
sampler plan, numbers of the guarantee, the size and SHA-256 of each other part, and is sealed by a digest of itself;
``table.csv`` holds one row
per cell, ``public.csv`` one row per public sum. Nothing else is inside. Never in it: seeds,
confidential values, durations, host names, paths.

The parts are stored, not compressed, so that a release is the same file on every machine: what is
read is written again and must come out byte for byte. Whatever was cut, edited, added or made up
shows, and nothing can swell while it is unpacked. Compress it for transport.

In R: ``read.csv(unz("file.ppd", "table.csv"), na.strings = character(), colClasses = c(fips = "character"))``;
text is quoted and may be "NA", so say which columns of digits are text.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdinf._whole_files import write_whole
from ppdinf.errors import ReleaseFileError

if TYPE_CHECKING:
    from ppdinf.releases.release import Release

__all__ = ["packed", "write"]

SCHEMA = 3
UNDATED = 2  # the schema before, whose files do not say who drew the table
MANIFEST = "manifest.json"
PARTS = ("table.csv", "public.csv")
FIELDS = {
    "schema", "provenance", "mechanism", "part_of", "kept", "dimensions", "public", "plan", "guarantee", "dims",
    "coordinates", "parts", "digest",
}  # fmt: skip
NEW = {"provenance", "part_of", "dimensions"}
_TYPES = {"i": "integer", "f": "number", "O": "string"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(release: Release, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write `release` to `path`.

    Parameters
    ----------
    release : Release
    path : str or path
    overwrite : bool, default False
        Replace a file that is there already.

    Raises
    ------
    ReleaseFileError
        The file exists.
    WriteError
        It cannot be written: no room, no right, no such folder. Nothing of it is left.
    """
    data = packed(release)
    try:
        write_whole(path, data, overwrite=overwrite)
    except FileExistsError:
        raise ReleaseFileError(
            f"{Path(path).name} exists, and no release can be drawn again: choose another name, or overwrite=True"
        ) from None


def packed(release: Release, as_in: dict[str, Any] | None = None) -> bytes:
    """Bytes of the file: the same for the same release, on every machine.

    With the manifest of a file of the schema before, as that version would write them: it worked out some guarantees
    otherwise, so that those are left as they are. Who reads such a file gets the guarantee of today.
    """
    frame, whole = release.frame, release.part_of
    columns = [frame.broadcast(name).tolist() for name in frame.coords]
    tables = {
        "table.csv": _csv([*frame.coords, "released"], *columns, release.table.values.ravel().tolist()),
        "public.csv": _csv(["sum", "value"], release.public.names, release.public.values.tolist()),
    }
    manifest = {
        "schema": SCHEMA,
        "provenance": release.provenance,
        "mechanism": release.mechanism.to_dict(),
        "part_of": None if whole is None else {"mechanism": whole.to_dict(), "public": whole.public.to_dict()},
        "kept": release.mechanism.public.to_dict(),
        "dimensions": release.kept.lattice.rank,
        "public": release.public.public.to_dict(),
        "plan": None if release.plan is None else release.plan.to_dict(),
        "guarantee": release.guarantee.numbers(),
        "dims": dict(zip(frame.dims, frame.shape, strict=True)),
        "coordinates": {
            name: {"dims": list(dims), "type": _TYPES[values.dtype.kind]}
            for name, (dims, values) in frame.coords.items()
        },
        "parts": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in tables.items()
        },
    }
    if as_in is not None and as_in["schema"] == UNDATED:
        manifest = {name: value for name, value in manifest.items() if name not in NEW}
        manifest |= {"schema": UNDATED, "guarantee": as_in["guarantee"]}
    manifest["digest"] = digest(manifest)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as file:
        for name, data in {MANIFEST: canonical(manifest), **tables}.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # readable once unpacked, wherever packed
            file.writestr(entry, data)
    return archive.getvalue()


def canonical(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def digest(manifest: dict[str, Any]) -> str:
    body = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(canonical(body)).hexdigest()


def _csv(header: Sequence[str], *columns: Iterable[Any]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode("utf-8")
