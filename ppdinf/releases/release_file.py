"""The release file: a zip of canonical JSON and CSV that R, Excel and people can read.

``manifest.json`` holds the schema version, who drew the table, mechanism, dimensions of its noise, public statements,
sampler plan, numbers of the guarantee, the size and SHA-256 of each other part, and is sealed by a digest of itself
(`ppdinf.releases.sealed`); ``table.csv`` holds one row per cell, ``public.csv`` one row per public sum. Nothing else is
inside. Never in it: seeds, confidential values, durations, host names, paths.

The parts are stored, not compressed. Compress the file for transport.

In R: ``read.csv(unz("file.ppd", "table.csv"), na.strings = character(), colClasses = c(fips = "character"))``;
text is quoted and may be "NA", so say which columns of digits are text.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from ppdinf._internal.types import Json
from ppdinf.releases import sealed
from ppdinf.releases.sealed import as_csv

if TYPE_CHECKING:
    from ppdinf.releases.release import Release

__all__ = ["packed", "write"]

SCHEMA = 3
UNDATED = 2  # the schema before, whose files do not say who drew the table
PARTS = ("table.csv", "public.csv")
FIELDS = {
    "schema", "provenance", "mechanism", "part_of", "kept", "dimensions", "public", "plan", "guarantee", "dims",
    "coordinates", "parts", "digest",
}  # fmt: skip
NEW = {"provenance", "part_of", "dimensions"}


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
    sealed.save(path, packed(release), overwrite=overwrite, why="no release can be drawn again")


def packed(release: Release, as_in: Json | None = None) -> bytes:
    """Bytes of the file: the same for the same release, on every machine.

    With the manifest of a file of the schema before, as that version would write them: it worked out some guarantees
    otherwise, so that those are left as they are. Who reads such a file gets the guarantee of today.
    """
    frame, whole = release.frame, release.part_of
    columns = [frame.broadcast(name).tolist() for name in frame.coords]
    tables = {
        "table.csv": as_csv([*frame.coords, "released"], *columns, release.table.values.ravel().tolist()),
        "public.csv": as_csv(["sum", "value"], release.public.names, release.public.values.tolist()),
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
        **sealed.coordinates(frame),
    }
    if as_in is not None and as_in["schema"] == UNDATED:
        manifest = {name: value for name, value in manifest.items() if name not in NEW}
        manifest |= {"schema": UNDATED, "guarantee": as_in["guarantee"]}
    return sealed.packed(manifest, tables)
