"""The release file: a zip of canonical JSON and CSV that R, Excel and people can read.

``manifest.json`` holds the schema version, the origin of the table, mechanism, dimensions of its noise, public
statements, sampler plan, numbers of the guarantee, and the size and SHA-256 of each other part. It contains a digest
of itself (`ppdinf.releases.sealed`). ``table.csv`` holds one row per cell, ``public.csv`` one row per public sum. The
file holds nothing else: no seeds, confidential values, durations, host names or paths.

The parts are stored, not compressed. Compress the file for transport.

An apostrophe precedes labels that a spreadsheet would run as a formula.

In R: ``read.csv(unz("file.ppd", "table.csv"), na.strings = character(), colClasses = c(fips = "character"))``;
text is quoted and may be "NA", so state which columns of digits are text.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from ppdinf._internal.values import Json
from ppdinf.errors import PpdinfError, ReleaseFileError
from ppdinf.invariants.statement import plain
from ppdinf.mechanism import Mechanism
from ppdinf.releases import sealed
from ppdinf.releases.sealed import as_csv

if TYPE_CHECKING:
    from ppdinf.releases.release import Release

SCHEMA = 3
PARTS = ("table.csv", "public.csv")
FIELDS = {
    "schema", "provenance", "mechanism", "part_of", "kept", "dimensions", "public", "plan", "guarantee", "dims",
    "coordinates", "parts", "digest",
}  # fmt: skip
REBUILT = "A noise law of your own needs a `name` and a constructor that takes the texts of its `to_dict`"


def save_release(release: Release, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write `release` to `path`."""
    mechanism, stored = release.mechanism, release.mechanism.to_dict()
    try:
        again = Mechanism.from_dict(stored, mechanism.public).on(release.kept).to_dict()
    except (PpdinfError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise ReleaseFileError(f"the mechanism cannot be read from a file again: {error}. {REBUILT}") from error
    if again != stored:
        raise ReleaseFileError(f"a reader would rebuild another mechanism, {again}. {REBUILT}")
    sealed.save(path, pack_release(release), overwrite=overwrite, why="no release can be drawn again")


def pack_release(release: Release) -> bytes:
    """Return the bytes of the file: the same for the same release, on every machine."""
    frame = release.frame
    columns = [frame.broadcast(name).tolist() for name in frame.coords]
    tables = {
        "table.csv": as_csv([*frame.coords, "released"], *columns, release.table.values.ravel().tolist()),
        "public.csv": as_csv(["sum", "value"], release.public.names, release.public.values.tolist()),
    }
    manifest = {
        "schema": SCHEMA,
        "provenance": release.provenance,
        "mechanism": release.mechanism.to_dict(),
        "part_of": _complete(release),
        "kept": release.mechanism.public.to_dict(),
        "dimensions": release.kept.lattice.rank,
        "public": release.public.public.to_dict(),
        "plan": None if release.plan is None else release.plan.to_dict(),
        "guarantee": release.guarantee.numbers(),
        **sealed.coordinates(frame),
    }
    return sealed.pack(manifest, tables)


def _complete(release: Release) -> Json | None:
    """Return the mechanism of the complete publication, and the selected labels of a part of a release."""
    selection = release.selection
    complete = release.part_of if selection is None else selection.mechanism
    if complete is None:
        return None
    selected = {} if selection is None else {"selected": {dim: plain(v) for dim, v in selection.labels.items()}}
    return {"mechanism": complete.to_dict(), "public": complete.public.to_dict()} | selected
