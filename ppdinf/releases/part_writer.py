"""Releases of tables that are larger than the memory, part by part, in two passes.

If every public sum has cells of one part only, the possible noise is a product of lattices,
{z : A z = 0} = product over parts p of {z_p : A_p z_p = 0}. Noise whose weights factor over the cells is independent
between parts. A sum of public sums of single parts changes nothing. Every other sum over several parts is refused.

The first pass validates all tables and computes the guarantee, before any privacy is spent. The second one draws each
part from its own secure stream and writes its file to a temporary folder, which gets its name at the end.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd

from ppdinf._internal.atomic_files import as_path, flush_folder, require_place, unwritable, write_atomically
from ppdinf._internal.workers import Workers, run_parts
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError, PrivacyWarning, ReleaseFileError
from ppdinf.invariants import Public, System
from ppdinf.invariants.metadata import Covariates
from ppdinf.invariants.public import bind
from ppdinf.invariants.statement import Statement, as_label, as_text
from ppdinf.invariants.sums import Sums
from ppdinf.mechanism import Mechanism, PreparedRelease
from ppdinf.privacy.release_guarantee import ReleaseGuarantee
from ppdinf.releases.part_index import (
    INDEX,
    Label,
    PartFile,
    ReleaseParts,
    file_of,
    guarantee_of_parts,
    pack_index,
    read_parts,
)
from ppdinf.releases.release_file import pack_release
from ppdinf.releases.selection import Selection
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import TableLike


def split_statements(public: Public, by: str) -> tuple[Public, Public]:
    """Split public statements into those of single parts, and sums over several parts that follow from them."""
    coarser = {s.by[0]: s.within for s in public if isinstance(s, Sums) and len(s.by) == 1 and s.within is not None}
    local = tuple(s for s in public if (by in determined(s, coarser) if isinstance(s, Sums) else s.is_local))
    joint = tuple(statement for statement in public if statement not in local)
    for statement in joint:
        if not any(_sums_up(statement, part, coarser) for part in local):
            raise InvariantError(
                f"{statement} can have cells of several labels of {by!r}, so that the noise of the parts would not be "
                f"independent: drop it, add margin({by!r}) to the public information if these sums may be public, or "
                "release the complete table"
            )
    declared, named = (set[str]().union(*(s.coordinates() for s in part)) for part in (local, joint))
    outer = tuple(sorted(named - declared))  # coarser levels than those of the parts: their labels are public, too
    return Public((*local, Covariates(outer)) if outer else local), Public(joint)


def determined(sums: Sums, coarser: Mapping[str, str]) -> set[str]:
    """Return the coordinates with one label in each sum, if each label of a coordinate has one coarser label."""
    names, new = set[str](), {*sums.by} | ({sums.within} if sums.within is not None else set())
    while new - names:
        names |= new
        new = {coarser[name] for name in names & coarser.keys()}
    return names


def _sums_up(joint: Statement, local: Statement, coarser: Mapping[str, str]) -> bool:
    """Whether each sum of a statement is a sum of sums of a finer statement."""
    return (
        isinstance(joint, Sums)
        and isinstance(local, Sums)
        and joint.weights == local.weights
        and set(joint.by) <= determined(local, coarser)
    )


def require_nested(parts: Iterable[Mapping[str, str]]) -> None:
    """Refuse sums that are stated to lie within one label, but lie in two labels of different parts."""
    first: dict[str, str] = {}
    for part in parts:
        for name, outer in part.items():
            if first.setdefault(name, outer) != outer:
                raise InvariantError(
                    f"{name} lies in {first[name]} and in {outer}, so the levels do not nest: give its parts distinct "
                    f"names, or use margin({outer.partition('=')[0]!r}, ...)"
                )


def outer_labels(frame: Frame, by: tuple[str, ...], within: str) -> dict[str, str]:
    """Return the label of a coarser coordinate of each combination of labels."""
    columns = [frame.broadcast(name).tolist() for name in (*by, within)]
    return {
        ", ".join(f"{name}={label}" for name, label in zip(by, row, strict=False)): f"{within}={row[-1]}"
        for row in set(zip(*columns, strict=True))
    }


type Read = Callable[[Label], TableLike]


@dataclass(frozen=True, eq=False)
class PreparedParts:
    """A validated release in parts without noise."""

    mechanism: Mechanism
    guarantee: ReleaseGuarantee
    sizes: dict[str, int]
    draw: Callable[[], ReleaseParts]


@dataclass(frozen=True)
class _Part:
    """What is known about a part without its counts."""

    dims: tuple[str, ...]
    labels: str
    sums: str
    kinds: dict[str, tuple[str, ...]]
    nearest: float | Fraction | None
    fixed: int
    cells: int
    nested: dict[str, str]


def release_parts(
    mechanism: Mechanism,
    read: Read,
    labels: Sequence[Label],
    *,
    by: str,
    folder: str | PathLike[str],
    workers: Workers = None,
    progressbar: bool = True,
) -> ReleaseParts:
    """Release a table part by part, in the memory of one part, as a folder of release files with an index.

    The noise has the distribution of the mechanism's `release` of the complete table.

    Parameters
    ----------
    mechanism : Mechanism
        Its public statements are about the complete table. Each public sum must have cells of one part only, or follow
        from such sums: ``margin("state", "county")``, ``hierarchy("region", "state", "county")``. Every part has all
        labels that a statement names (``cells``, ``zeros``).
    read : callable
        ``read(label)`` returns the confidential table of one part, for example from a Parquet file. The table has the
        dimension or coordinate `by`, with this label only. `read` is called twice for each part: the first table is
        validated, the second is released.
    labels : sequence of str or int
        The parts: all labels of `by` in the complete table.
    by : str
    folder : str or path
        A folder that does not exist. It gets its name when all parts are written.
    workers : int or distributed.Client, optional
        Processes, or a Dask cluster with access to `folder` and to the files of `read`; by default this process.
    progressbar : bool, default True

    Raises
    ------
    InvariantError
        A public statement makes the noise of the parts dependent. Nothing was drawn. Or the public sums of a part
        changed after they were validated. Nothing was published.
    PrivacyError, ModelError
        The noise does not factor over the cells (l2 Laplace noise, bounds, real-valued noise), or losses do not add up
        over parts. Nothing was drawn.
    CountError, LabelError
        As for `mechanism.release`; the message names the part. Nothing was drawn.
    ReleaseFileError, WriteError
        The folder exists, or cannot be written.

    Warns
    -----
    PrivacyWarning
        As for `mechanism.release`.

    See Also
    --------
    ppdinf.releases.read_parts, ppdinf.Session, ppdinf.GeneralizedLaplace

    Notes
    -----
    The noise of each part is read from its own secure stream. If a worker of a cluster is lost, its part is drawn
    again, and nothing of the first draw is published. A killed run can leave a hidden folder ``.*.unfinished``. Times:
    docs/speed.md.

    Examples
    --------
    >>> from pathlib import Path
    >>> from ppdinf.releases import release_parts
    >>> import tempfile, ppdinf as ppd, xarray as xr
    >>> counts = {"A": [3, 1, 2], "B": [0, 5, 1]}
    >>> def read(state):
    ...     return xr.DataArray(counts[state], dims="age", coords={"state": ("age", [state] * 3)})
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.hierarchy("state"), epsilon="1/2")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder, "out")
    ...     parts = release_parts(mechanism, read, ["A", "B"], by="state", folder=out, progressbar=False)
    ...     parts.sums, int(parts["B"].table.sum())
    ({'total': 12}, 6)
    """
    return prepare_parts(mechanism, read, labels, by=by, folder=folder, workers=workers, progressbar=progressbar).draw()


def prepare_parts(
    mechanism: Mechanism,
    read: Read,
    labels: Sequence[Label],
    *,
    by: str,
    folder: str | PathLike[str],
    workers: Workers = None,
    progressbar: bool = True,
) -> PreparedParts:
    """Validate all parts and compute their guarantee without drawing; parameters and errors as in `release_parts`."""
    if not isinstance(mechanism, Mechanism):
        raise PrivacyError(f"mechanism must be a ppdinf mechanism, found {type(mechanism).__name__}")
    by, labels = as_text(by, "the coordinate of the parts"), [as_label(label, f"a label of {by!r}") for label in labels]
    if not labels or len(set(labels)) < len(labels):
        raise LabelError(f"labels must name at least one part, each once, found {len(labels)} labels of {by!r}")
    folder = as_path(folder)
    if folder.exists():
        raise ReleaseFileError(f"{folder.name} exists, and no release can be drawn again: choose another name")
    require_place(folder)
    local, joint = split_statements(mechanism.public, by)
    guarantee_of_parts(mechanism, by, nearest=None, fixed=0, cells=0)  # refuses guarantees that do not add up
    job = _Job(mechanism, mechanism.on_part(local), joint, read, by)

    parts = run_parts("Validating", job.inspect, labels, workers, progressbar=progressbar)
    for label, part in zip(labels, parts, strict=True):
        if part.dims != parts[0].dims:
            raise LabelError(f"{by}={label} has the dimensions {part.dims}, but {by}={labels[0]} has {parts[0].dims}")
        for name, kinds in part.kinds.items():
            if kinds != parts[0].kinds[name]:
                raise LabelError(
                    f"the labels of {name!r} are {' and '.join(kinds)} in {by}={label}, but "
                    f"{' and '.join(parts[0].kinds[name])} in {by}={labels[0]}: use one kind in all parts"
                )
    require_nested(part.nested for part in parts)
    guarantee = guarantee_of_parts(
        mechanism,
        by,
        nearest=min((part.nearest for part in parts if part.nearest is not None), default=None),
        fixed=sum(part.fixed for part in parts),
        cells=sum(part.cells for part in parts),
    )

    def draw() -> ReleaseParts:
        with _published(folder) as unfinished:
            tasks = enumerate(zip(labels, parts, strict=True))
            written = run_parts("Releasing", partial(job.write, unfinished), tasks, workers, progressbar=progressbar)
            sums: Counter[str] = Counter()
            for _, values in written:
                sums.update(values)
            files = dict(zip(labels, (file for file, _ in written), strict=True))
            index = ReleaseParts(folder, mechanism, by, guarantee, sums, files)
            write_atomically(unfinished / INDEX, pack_index(index))
        return read_parts(folder)

    return PreparedParts(mechanism, guarantee, {"cells": guarantee.cells}, draw)


@dataclass(frozen=True)
class _Job:
    """The work on one part, in any process."""

    whole: Mechanism
    local: Mechanism
    joint: Public
    read: Read
    by: str

    def draft(self, label: Label) -> PreparedRelease:
        """Read and validate the table of a part."""
        try:
            draft = self.local.draft(self.read(label))
            labels = pd.unique(draft.public.frame.coordinate(self.by)[1].ravel()).tolist()
        except (CountError, LabelError, InvariantError) as error:
            raise type(error)(f"{self.by}={label}: {error}") from error
        except Exception as error:
            error.add_note(f"The error occurred in the part {self.by}={label}.")
            raise
        if labels != [label]:
            others = ", ".join(repr(other) for other in labels if other != label)
            raise LabelError(f"the table of {self.by}={label!r} must have this label only, found {others}")
        return draft

    def inspect(self, label: Label) -> _Part:
        """Validate a part."""
        draft = self.draft(label)
        frame, guarantee = draft.public.frame, draft.guarantee
        statements = tuple(s for s in self.local.public if isinstance(s, Sums) and self.by not in s.by)
        names = bind(Public(statements), frame, np.zeros(frame.size, dtype=np.int64)).names
        nested = dict.fromkeys(names, f"{self.by}={label}")
        for statement in self.joint:
            if isinstance(statement, Sums) and statement.within is not None:
                nested |= outer_labels(frame, statement.by, statement.within)
        summed = sorted(set().union(*(statement.coordinates() for statement in self.joint)) & frame.coords.keys())
        labels = {name: frame.coords[name][1].ravel().tolist() for name in summed}
        kinds = {name: tuple(sorted({type(label).__name__ for label in labels[name]})) for name in summed}
        sums = _digest(draft.public)
        return _Part(frame.dims, frame.digest, sums, kinds, guarantee.nearest, guarantee.fixed, guarantee.cells, nested)

    def write(self, folder: Path, task: tuple[int, tuple[Label, _Part]]) -> tuple[PartFile, dict[str, int]]:
        """Draw a part and write its file; return its digest, and its share of the public sums over several parts."""
        number, (label, part) = task
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # the first pass has warned
            draft = self.draft(label)
        changed = f"of {self.by}={label} changed after they were validated: release all parts again, in a new folder"
        if draft.public.frame.digest != part.labels:
            raise LabelError(f"the labels {changed}")
        if _digest(draft.public) != part.sums:
            raise InvariantError(f"the public sums {changed}")
        release = draft.draw()
        release.selection = Selection(self.whole, {self.by: (label,)})
        data = pack_release(release)
        write_atomically(folder / file_of(number), data)
        joint = bind(self.joint, release.frame, release.table.values.ravel())
        return PartFile.of(data), dict(zip(joint.names, joint.values.tolist(), strict=True))


def _digest(public: System) -> str:
    """Return the SHA-256 digest of the values of public sums and bounds."""
    return hashlib.sha256(public.values.tobytes() + public.limits.tobytes()).hexdigest()


@contextmanager
def _published(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which gets its name when the block succeeds, and is removed otherwise."""
    unfinished = folder.parent / f".{secrets.token_hex(8)}.unfinished"
    with unwritable(folder.name):
        unfinished.mkdir()
    try:
        yield unfinished
        with unwritable(folder.name):
            flush_folder(unfinished)
            unfinished.rename(folder)
            flush_folder(folder.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
