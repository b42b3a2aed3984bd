"""The public statements of a released table: sums that its noise keeps, and statements published otherwise."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ppdinf._internal.types import Array
from ppdinf.errors import InvariantError
from ppdinf.invariants import Public, System
from ppdinf.invariants.system import bind
from ppdinf.lattice.algebra.integer_rows import check_consistent
from ppdinf.tables.frame import Frame

ROUNDING = 1e-9  # relative error of a sum of real numbers above which it counts as violated


def bind_released(public: Public, frame: Frame, cells: Array) -> System:
    """Bind statements to the sums of a noisy table, rounded to integers if its cells are real."""
    if cells.dtype == np.int64:
        return bind(public, frame, cells)
    blank = bind(public, frame, np.zeros(frame.size, dtype=np.int64))
    return bind(public, frame, np.zeros(frame.size, dtype=np.int64), np.rint(blank.A @ cells).astype(np.int64).tolist())


def require_kept(kept: System, cells: Array, *, bounds: bool) -> None:
    """Refuse a table that violates the sums that its noise keeps; real sums up to rounding."""
    if cells.dtype == np.int64:
        kept.require_cells(cells, bounds=bounds)
        return
    off = np.abs(kept.A @ cells - kept.values) > ROUNDING * (1 + abs(kept.A) @ np.abs(cells))
    if off.any():
        raise InvariantError(
            f"the table violates the public sum {kept.names[int(np.argmax(off))]!r}, which the noise keeps"
        )


def join_kept(public: System, kept: System, cells: Array) -> System:
    """Add the sums that the noise keeps to the public statements; refuse contradictions."""
    names = [*public.names, *(f"{name} (as released)" for name in kept.names)]
    check_consistent(sp.vstack([public.A, kept.A]), np.concatenate([public.values, kept.values]), row_names=names)
    further = Public(tuple(statement for statement in kept.public if statement not in public.public.statements))
    if not further.statements:
        return public
    values = [*public.values.tolist(), *bind_released(further, kept.frame, cells).values.tolist()]
    return bind(public.public & further, kept.frame, cells, values)
