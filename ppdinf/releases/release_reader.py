"""Reading of release files, with verification of every byte."""

from __future__ import annotations

from os import PathLike

import numpy as np

from ppdinf._internal.values import Json
from ppdinf.errors import ReleaseFileError
from ppdinf.invariants import Public
from ppdinf.invariants.public import bind
from ppdinf.invariants.statement import as_label, as_text
from ppdinf.mechanism import Mechanism
from ppdinf.noise.sampler_plan import Plan
from ppdinf.releases import sealed
from ppdinf.releases.release import Release, as_drawn
from ppdinf.releases.release_file import FIELDS, PARTS, SCHEMA, pack_release
from ppdinf.releases.selection import Selection
from ppdinf.tables.table import labelled_cells, labelled_reals

_PLAN = {"sampler": str, "exact": bool, "reason": str, "acceptance": float, "distance": float}


def read_release(path: str | PathLike[str]) -> Release:
    """Read a release file and verify every byte.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    ReleaseFileError
        The file is not a release file; parts are missing, added, edited or truncated; the schema version is unknown;
        or public values contradict the statements or the table.

    See Also
    --------
    ppdinf.Release, ppdinf.denoise, ppdinf.PartiallyPrivate

    Examples
    --------
    >>> import pathlib, tempfile, ppdinf as ppd
    >>> release = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1).release([3, 1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(pathlib.Path(folder, "small.ppd"))
    ...     again = ppd.read_release(pathlib.Path(folder, "small.ppd"))
    >>> again.table.equals(release.table)
    True
    """
    return sealed.read_verified(path, lambda data: _release(*sealed.unpack(data, _require)), pack_release)


def _require(manifest: Json) -> tuple[str, ...]:
    """Refuse manifests of other files and of unknown versions."""
    if isinstance(manifest, dict) and "holds" in manifest:
        raise ReleaseFileError(
            f"it contains {manifest['holds']!r:.40}, not a release: ppd.read_measurements reads measurements, and "
            "ppd.releases.read_parts reads the folder of a release in parts"
        )
    sealed.require_manifest(manifest, SCHEMA, FIELDS)
    return PARTS


def _release(manifest: Json, parts: dict[str, bytes]) -> Release:
    public = Public.from_dict(manifest["public"])
    kept = Public.from_dict(manifest["kept"])
    mechanism = Mechanism.from_dict(manifest["mechanism"], kept)
    plan = None if manifest["plan"] is None else Plan(**manifest["plan"])
    for name, value in (manifest["plan"] or {}).items():
        if type(value) is not _PLAN[name]:
            raise ReleaseFileError(f"{name!r} in the sampler plan is invalid: {value!r}")
    if plan is not None:
        shares = [share for share in (plan.acceptance, plan.distance) if share is not None]
        chain = plan.distance is not None
        doubles = not (plan.exact or chain or mechanism.is_integer)
        if plan.exact + chain + doubles != 1 or not all(0 <= share <= 1 for share in shares):
            raise ReleaseFileError("the sampler plan is contradictory: only chains have a distance, from 0 to 1")
    counts = {"released": np.int64 if mechanism.is_integer else np.float64}
    table = sealed.read_labelled(parts["table.csv"], manifest, "table.csv", counts)
    frame, cells = labelled_cells(table, nonnegative=False) if mechanism.is_integer else labelled_reals(table)
    values = sealed.columns_of(parts["public.csv"], {"sum": object, "value": np.int64}, "public.csv")["value"]
    system = bind(public, frame, np.zeros(frame.size, dtype=np.int64), values)
    release = Release(frame.table(cells), mechanism, public=system, plan=plan)
    complete = manifest["part_of"] or {}
    if "selected" in complete:
        release.selection = _selection(release, _complete(complete), complete["selected"])
    if manifest["provenance"] == "drawn":
        return as_drawn(release, _complete(complete) if complete and release.selection is None else None)
    return release


def _complete(data: Json) -> Mechanism:
    return Mechanism.from_dict(data["mechanism"], Public.from_dict(data["public"]))


def _selection(release: Release, complete: Mechanism, selected: Json) -> Selection:
    """Return the selection of a part, if the part has the selected labels and the noise of the complete release."""
    labels = {
        as_text(dim, "a selected dimension"): tuple(as_label(label, f"a selected label of {dim!r}") for label in chosen)
        for dim, chosen in selected.items()
    }
    kept = {dim: tuple(release.frame.coords[dim][1].tolist()) for dim in labels if dim in release.dims}
    if complete.on_part(release.mechanism.public) != release.mechanism or kept != {dim: labels[dim] for dim in kept}:
        raise ReleaseFileError("the part has another mechanism or other labels than its selection from a release")
    return Selection(complete, labels)
