"""Validation of a confidential table before noise is added: it must publish nothing that is not declared public."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ppdinf._internal.values import Integers, Json, require_number
from ppdinf.errors import CountError, InvariantError, LabelError, PrivacyError, PrivacyWarning
from ppdinf.invariants import Public, System
from ppdinf.tables.frame import LARGEST, Frame
from ppdinf.tables.table import TableLike, labelled_cells, ranked


def validate_input(public: Public, table: TableLike) -> tuple[Frame, Integers]:
    """Validate a confidential table, once."""
    frame, cells = labelled_cells(table)
    refuse_undeclared(frame, public)
    if np.abs(cells).max() > LARGEST // 2:
        cell = frame.cell(int(np.argmax(np.abs(cells))))
        raise CountError(f"the cell at {cell} exceeds 2**52: noise could move it beyond the integers that files hold")
    return frame, cells


LARGEST_DRAWS = 2**33
"""Counts of all simulated tables together: 64 GiB."""


def refuse_seed(seed: Json, instead: str) -> None:
    """Refuse all further arguments of `release`, such as a seed."""
    if seed:
        raise PrivacyError(
            f"release() takes no {next(iter(seed))!r}: noise that can be repeated can be subtracted; for research, "
            f"draw with {instead}"
        )


def require_draws(draws: Any, size: int = 1) -> int:
    """Return the number of draws of `size` numbers each, a positive integer that memory can hold."""
    require_number(draws, "draws must be a positive integer", 1)
    if int(draws) * size > LARGEST_DRAWS:
        raise PrivacyError(
            f"draws must be at most {LARGEST_DRAWS // size:,} for {size:,} cells, found {draws:,}: simulate in parts"
        )
    return int(draws)


def require_public(public: object) -> None:
    """Require public statements as the first argument."""
    if not isinstance(public, Public):
        raise InvariantError(
            "the first argument must be public statements, for example ppdinf.invariants.total(), or "
            "ppdinf.invariants.Public() if nothing is exact"
        )


def refuse_undeclared(frame: Frame, public: Public) -> None:
    """Refuse coordinates that are not declared public."""
    declared = public.coordinates()
    undeclared = [name for name in frame.coords if name not in frame.dims and name not in declared]
    if undeclared:
        names = ", ".join(map(repr, undeclared))
        raise LabelError(
            f"nothing declares the coordinates {names} public: add covariates({names}) to the public information "
            f"to publish them, or drop them with table.drop_vars([{names}])"
        )


def ranked_labels(frame: Frame, cells: Integers, public: Public) -> str | None:
    """Return a message about labels in the order of their counts, unless they are declared in that order."""
    declared = {vars(statement)["dim"] for statement in public if statement.kind == "labels"}
    leaky = [dim for dim in ranked(frame, cells) if dim not in declared]
    if not leaky:
        return None
    return (
        f"the labels of {leaky[0]!r} are in the order of their counts, as value_counts() returns them, and the order "
        "is published: sort the table by its labels (table.sort_index(), table.sortby(...)), or declare labels with "
        f"an order that does not depend on the data: ppdinf.invariants.labels({leaky[0]!r}, [...])"
    )


def copied_counts(frame: Frame, cells: Integers) -> str | None:
    """Return a message about a coordinate that is proportional to the counts: it would publish the table exactly."""
    for name, (dims, values) in frame.coords.items():
        if name in frame.dims or values.dtype.kind not in "iuf" or cells.size < 3 or not np.ptp(cells):
            continue
        order = np.argsort([frame.dims.index(dim) for dim in dims])
        shape = [size if dim in dims else 1 for dim, size in zip(frame.dims, frame.shape, strict=True)]
        coordinate = np.broadcast_to(np.transpose(values, order).reshape(shape), frame.shape).ravel().astype(float)
        if not coordinate.any() or not np.isfinite(coordinate).all():
            continue
        if np.allclose(coordinate / np.abs(coordinate).max(), cells / np.abs(cells).max()):
            return (
                f"the coordinate {name!r} is proportional to the counts and would be published exactly: "
                f"drop it with table.drop_vars({name!r})"
            )
    return None


def warn_leaky_labels(frame: Frame, cells: Integers, public: Public) -> None:
    """Warn about labels in the order of their counts, and about coordinates that are proportional to the counts."""
    for message in (ranked_labels(frame, cells, public), copied_counts(frame, cells)):
        if message:
            warnings.warn(message, PrivacyWarning, stacklevel=3)


def warn_fixed(system: System) -> None:
    """Warn about cells that public sums fix, except for structural zeros."""
    fixed = np.flatnonzero(system.fixed & ~system.empty)
    if fixed.size:
        warnings.warn(
            f"the public sums fix {fixed.size} of {system.frame.size} cells, the first at "
            f"{system.frame.cell(int(fixed[0]))}: their exact counts are published, without noise",
            PrivacyWarning,
            stacklevel=3,
        )
