"""What is checked of a table before noise is added: what it would publish that nothing declares public."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.types import Json
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError, PrivacyWarning
from ppdinf.invariants import Public, System
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import LARGEST, TableLike, labelled_cells, ranked

__all__ = [
    "copied_counts",
    "ranked_labels",
    "refuse_seed",
    "refuse_undeclared",
    "require_draws",
    "require_public",
    "validate_input",
    "warn_fixed",
    "warn_leaky_labels",
]


def validate_input(public: Public, table: TableLike) -> tuple[Frame, NDArray[np.int64]]:
    """Validate a confidential table, once.

    Raises
    ------
    CountError, LabelError
        It cannot be taken as it is; a coordinate is not declared public; a count has no room for noise.
    """
    frame, cells = labelled_cells(table)
    refuse_undeclared(frame, public)
    _require_room(frame, cells)
    return frame, cells


def refuse_seed(seed: Json, instead: str) -> None:
    """Refuse whatever is passed to `release` beside what is to be released."""
    if seed:
        raise PrivacyError(
            f"release() takes no {next(iter(seed))!r}: noise that can be drawn again can be subtracted again; for "
            f"research, draw with {instead}"
        )


def require_draws(draws: object) -> int:
    """Refuse all but positive whole numbers."""
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
        raise PrivacyError(f"draws must be a positive whole number, found {draws!r}")
    return int(draws)


def _require_room(frame: Frame, cells: NDArray[np.int64]) -> None:
    """Refuse counts that noise could carry to where files round them.

    Not once noise has done so: a second draw has another law.
    """
    if np.abs(cells).max() > LARGEST // 2:
        cell = frame.cell(int(np.argmax(np.abs(cells))))
        raise CountError(f"the cell at {cell} is beyond 2**52, so that noise could carry it where files round it")


def require_public(public: object) -> None:
    """Refuse anything but public statements where they belong."""
    if not isinstance(public, Public):
        raise InvariantError("the first argument says what is public, for example ppdinf.invariants.total()")


def refuse_undeclared(frame: Frame, public: Public) -> None:
    """Refuse coordinates that nothing declares public."""
    declared = public.coordinates()
    loose = [name for name in frame.coords if name not in frame.dims and name not in declared]
    if loose:
        names = ", ".join(map(repr, loose))
        raise LabelError(
            f"nothing declares the coordinates {names} public: add covariates({names}) to the public information "
            f"to publish them, or drop them with table.drop_vars([{names}])"
        )


def ranked_labels(frame: Frame, cells: NDArray[np.int64], public: Public) -> str | None:
    """Say which labels come in the order of their counts, unless what is public declares them in that order."""
    declared = {vars(statement)["dim"] for statement in public if statement.kind == "labels"}
    found = [dim for dim in ranked(frame, cells) if dim not in declared]
    if not found:
        return None
    return (
        f"the labels of {found[0]!r} come in the order of their counts, as value_counts() leaves them, and their order "
        "is published: sort the table by its labels (table.sort_index(), table.sortby(...)), or declare labels that "
        f"have an order of their own: ppdinf.invariants.labels({found[0]!r}, [...])"
    )


def copied_counts(frame: Frame, cells: NDArray[np.int64]) -> str | None:
    """Say which coordinate is the counts over again, or so many times them: it would publish the table as it is."""
    for name, (dims, values) in frame.coords.items():
        if name in frame.dims or values.dtype.kind not in "iuf" or cells.size < 3 or not np.ptp(cells):
            continue
        order = np.argsort([frame.dims.index(dim) for dim in dims])
        shape = [size if dim in dims else 1 for dim, size in zip(frame.dims, frame.shape, strict=True)]
        told = np.broadcast_to(np.transpose(values, order).reshape(shape), frame.shape).ravel().astype(float)
        if not told.any() or not np.isfinite(told).all():
            continue
        if np.allclose(told / np.abs(told).max(), cells / np.abs(cells).max()):
            return (
                f"the coordinate {name!r} is the counts themselves, or so many times them, and would be published "
                f"as it is: drop it with table.drop_vars({name!r})"
            )
    return None


def warn_leaky_labels(frame: Frame, cells: NDArray[np.int64], public: Public) -> None:
    """Warn of labels that come in the order of their counts, and of coordinates that are the counts."""
    for told in (ranked_labels(frame, cells, public), copied_counts(frame, cells)):
        if told:
            warnings.warn(told, PrivacyWarning, stacklevel=3)


def warn_fixed(system: System) -> None:
    """Warn of cells that public sums fix, structural zeros apart."""
    fixed = np.flatnonzero(system.fixed & ~system.empty)
    if fixed.size:
        warnings.warn(
            f"the public sums fix {fixed.size} of {system.frame.size} cells, the first at "
            f"{system.frame.cell(int(fixed[0]))}: they are published as they are, without noise",
            PrivacyWarning,
            stacklevel=3,
        )
