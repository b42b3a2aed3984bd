"""A release in parts: a folder with one release file per part, and an index with the digest of each file.

``index.ppd`` is a sealed archive (`ppdinf.releases.sealed`): mechanism, public statements, the coordinate whose labels
are the parts, numbers of the guarantee, size and SHA-256 of the file of each part, and in ``public.csv`` the public
sums over several parts. ``part-00000.ppd`` and so on are ordinary release files (`ppdinf.releases.release_file`). A
signature of the index (`ppdinf.releases.signatures.sign`) therefore covers every part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path

import numpy as np

from ppdinf._internal.atomic_files import as_path
from ppdinf._internal.values import Json
from ppdinf.errors import PrivacyError, ReleaseFileError
from ppdinf.invariants import Public
from ppdinf.invariants.statement import as_integer, as_label, as_text
from ppdinf.mechanism import Mechanism
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.releases import sealed
from ppdinf.releases.release import Release
from ppdinf.releases.release_reader import read_release

HOLDS = "parts"
INDEX = "index.ppd"
SCHEMA = 1
SUMS = "public.csv"
FIELDS = {"schema", "holds", "mechanism", "public", "by", "guarantee", "files", "parts", "digest"}

type Label = str | int


@dataclass(frozen=True)
class PartFile:
    """Size and SHA-256 of the file of a part."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> PartFile:
        """Describe the content of a file."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, eq=False)
class ReleaseParts(Mapping[Label, Release]):
    """A release in parts: a mapping of labels to releases, each of which is read from its file when it is accessed.

    Attributes
    ----------
    folder : Path
    mechanism : Mechanism
        The mechanism of the complete table, with its public statements.
    by : str
        The coordinate whose labels are the parts.
    guarantee : ReleaseGuarantee
        The guarantee of all parts together.
    sums : mapping of str to int
        Public sums over several parts, by name. Other public sums are in the parts.
    files : mapping of label to PartFile

    See Also
    --------
    ppdinf.releases.read_parts, ppdinf.releases.release_parts, ppdinf.Release

    Examples
    --------
    See `read_parts`.
    """

    folder: Path
    mechanism: Mechanism
    by: str
    guarantee: ReleaseGuarantee
    sums: Mapping[str, int]
    files: Mapping[Label, PartFile]

    def __getitem__(self, label: Label) -> Release:
        """Read and verify the release of one part; a label without a part raises a KeyError."""
        path = self.verified_file(label)
        release = read_release(path)
        selection = release.selection
        if selection is None or selection.mechanism != self.mechanism or selection.labels != {self.by: (label,)}:
            raise ReleaseFileError(f"{path.name} is not the part {self.by}={label} of this release: {sealed.AGAIN}")
        return release

    def verified_file(self, label: Label) -> Path:
        """Return the path of the file of one part, after a comparison of its digest with the index.

        Raises
        ------
        ReleaseFileError
            The file is missing or was changed.
        """
        if label not in self.files:
            raise KeyError(label)
        path = self.folder / file_of(list(self.files).index(label))
        try:
            file = PartFile.of(path.read_bytes())
        except FileNotFoundError:
            raise ReleaseFileError(f"{path.name}, the part {self.by}={label}, is missing: {sealed.AGAIN}") from None
        if file != self.files[label]:
            raise ReleaseFileError(f"{path.name}, the part {self.by}={label}, was changed: {sealed.AGAIN}")
        return path

    def __contains__(self, label: object) -> bool:
        """Return whether a label has a part, without reading it."""
        return label in self.files

    def __iter__(self) -> Iterator[Label]:
        """Iterate over the labels of the parts."""
        return iter(self.files)

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.files)

    def __repr__(self) -> str:
        name = type(self.mechanism).__name__
        return f"<ReleaseParts: {self.guarantee.cells:,} cells in {len(self)} parts by {self.by!r}, by {name}>"


def read_parts(folder: str | PathLike[str]) -> ReleaseParts:
    """Open a release in parts: read and verify the index of a folder, and no part.

    To know who made the release, verify the signature of the index: ``ppdinf.releases.signatures.verify(folder /
    "index.ppd", key)``. It covers the digest of each part.

    Parameters
    ----------
    folder : str or path
        Folder that `release_parts` wrote.

    Returns
    -------
    ReleaseParts
        ``parts[label]`` reads one part, verified by its digest: an ordinary `ppdinf.Release`.

    Raises
    ------
    ReleaseFileError
        The index is not an index, or was truncated or edited.
    OSError
        The folder has no index.

    See Also
    --------
    ppdinf.releases.release_parts, ppdinf.read_release, ppdinf.denoise

    Examples
    --------
    >>> import tempfile, ppdinf as ppd, xarray as xr
    >>> from pathlib import Path
    >>> def read(state):
    ...     return xr.DataArray([3, 1], dims="age", coords={"state": ("age", [state] * 2)})
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.hierarchy("state"), epsilon="1/2")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder, "out")
    ...     _ = ppd.releases.release_parts(mechanism, read, ["A", "B"], by="state", folder=out, progressbar=False)
    ...     parts = ppd.releases.read_parts(out)
    ...     list(parts), int(parts["B"].table.sum())
    (['A', 'B'], 4)
    """
    return read_index(as_path(folder, ReleaseFileError) / INDEX)


def read_index(path: Path) -> ReleaseParts:
    """Read and verify an index."""
    return sealed.read_verified(path, lambda data: _read(data, path.parent), pack_index)


def pack_index(parts: ReleaseParts) -> bytes:
    """Return the bytes of the index."""
    manifest = {
        "schema": SCHEMA,
        "holds": HOLDS,
        "mechanism": parts.mechanism.to_dict(),
        "public": parts.mechanism.public.to_dict(),
        "by": parts.by,
        "guarantee": parts.guarantee.numbers(),
        "files": [{"label": label} | asdict(file) for label, file in parts.files.items()],
    }
    return sealed.pack(manifest, {SUMS: sealed.as_csv(["sum", "value"], parts.sums.keys(), parts.sums.values())})


def guarantee_of_parts(
    mechanism: Mechanism, by: str, *, nearest: float | Fraction | None, fixed: int, cells: int
) -> ReleaseGuarantee:
    """Return the guarantee of all parts together."""
    guarantee = mechanism.guarantee
    if guarantee.delta or (guarantee.metric, guarantee.rho is None) not in {("l1", True), ("l2", False)}:
        raise PrivacyError(
            f"the guarantee of this {type(mechanism).__name__} does not add up over parts: use l1 noise, or Gaussian "
            "noise with calibration='zcdp', or release the complete table"
        )
    whole = None if nearest is None else int(nearest)
    return ReleaseGuarantee(
        **vars(guarantee),
        nearest=whole if whole == nearest else nearest,
        fixed=fixed,
        cells=cells,
        sampler=f"{mechanism.title}, drawn exactly and independently for each label of {by!r}",
    )


def file_of(number: int) -> str:
    """Return the name of the file of a part."""
    return f"part-{number:05d}.ppd"


def _read(data: bytes, folder: Path) -> ReleaseParts:
    manifest, tables = sealed.unpack(data, _require)
    mechanism = Mechanism.from_dict(manifest["mechanism"], Public.from_dict(manifest["public"]))
    by, numbers = as_text(manifest["by"], "the coordinate of the parts"), manifest["guarantee"]
    fixed, cells = (as_integer(numbers[name], name) for name in ("fixed", "cells"))
    guarantee = guarantee_of_parts(mechanism, by, nearest=numbers["nearest"], fixed=fixed, cells=cells)
    columns = sealed.columns_of(tables[SUMS], {"sum": object, "value": np.int64}, SUMS)
    sums = dict(zip(columns["sum"].tolist(), columns["value"].tolist(), strict=True))
    files = {as_label(entry.pop("label"), "a part"): PartFile(**entry) for entry in map(dict, manifest["files"])}
    return ReleaseParts(folder, mechanism, by, guarantee, sums, files)


def _require(manifest: Json) -> tuple[str, ...]:
    """Refuse manifests of other files and of unknown versions."""
    if not isinstance(manifest, dict) or manifest.get("holds") != HOLDS:
        raise ReleaseFileError("it is not the index of a release in parts: ppd.read_release reads releases")
    sealed.require_manifest(manifest, SCHEMA, FIELDS)
    return (SUMS,)
