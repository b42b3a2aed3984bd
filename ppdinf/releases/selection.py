"""A part of a release, selected by labels, whose public sums stay whole.

Let x_S be the cells of the part, x_R all others, and W the public sums whose cells are all in S. A public sum r with
cells on both sides is *cut*. If its row on S is a combination of the rows of W, then it restricts x_S no further:
r_S x_S follows from W x_S, and the possible noise is a product of lattices,

    {z : A z = 0} = {z_S : W z_S = 0} x {z_R : r_R z_R = 0 for all sums that are cut or have no cell in S}.

Noise whose weights factor over the cells is therefore independent between S and R, and its marginal on S is the same
noise under the sums W. The public information factors in the same way. A cut sum that W does not imply links S and R,
so a part that cuts it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.values import Integers, some_of
from ppdinf.errors import InvariantError, LabelError
from ppdinf.invariants import Public, System
from ppdinf.invariants.public import bind
from ppdinf.invariants.statement import Statement
from ppdinf.invariants.sums import SelectedSums
from ppdinf.lattice import kernel
from ppdinf.mechanism import Mechanism
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import labelled_cells

LISTED = 3  # labels of a dimension that a description lists


@dataclass(frozen=True, eq=False)
class Selection:
    """The selection by which a part was taken from a complete release."""

    mechanism: Mechanism
    labels: Mapping[str, tuple[str | int, ...]]

    def __str__(self) -> str:
        return "; ".join(f"{dim} = {_listed(labels)}" for dim, labels in self.labels.items())


def selected_cells(table: xr.DataArray, labels: Mapping[Any, Any]) -> tuple[Frame, Integers]:
    """Select a part of a table as xarray does; return its labels and the positions of its cells in the table."""
    chosen = {dim: label.values if isinstance(label, xr.DataArray) else label for dim, label in labels.items()}
    if wrong := [dim for dim, label in chosen.items() if dim not in table.dims or np.ndim(label) > 1]:
        raise LabelError(
            f"sel needs a label, a list of labels or a slice for dimensions of the table, {table.dims}, found "
            f"{wrong[0]!r}; select by a coordinate with table[dimension][table[coordinate] == label]"
        )
    positions = table.copy(data=np.arange(table.size).reshape(table.shape))
    try:
        part = positions.sel(chosen)
    except KeyError as error:
        raise LabelError("a selected label is not a label of the table: see release.coords") from error
    if not part.dims:
        raise LabelError(
            "a single label of every dimension leaves a part without dimensions: select a list of one label, such as "
            f"sel({table.dims[0]}=[...]), which keeps the dimension"
        )
    return labelled_cells(part, nonnegative=False)


def restricted_system(system: System, part: Frame, cells: Integers) -> System:
    """Return the public statements of a part, with the values of its whole sums."""
    inside, whole, cut = _rows_on(system.A, cells)
    _refuse_links(inside, whole, cut, system.names)
    limits_inside, whole_bounds, cut_bounds = _rows_on(system.B, cells)
    if cut_bounds.size:
        raise _refusal("bound", system.bound_names[int(cut_bounds[0])])
    values = dict(zip(_keys(inside[whole]), system.values[whole].tolist(), strict=True))
    limits = set(zip(_keys(limits_inside[whole_bounds]), system.limits[whole_bounds].tolist(), strict=True))
    public, stated = Public(), []
    for statement in system.public:
        for candidate in statement.restricted(system.frame, part, cells):
            keys = _keys(candidate.equalities(part)[0])
            known = [row for row, key in enumerate(keys) if key in values]
            if keys and not known:
                continue
            kept: Statement = candidate if len(known) == len(keys) else SelectedSums((candidate,), tuple(known))
            if kept not in public.statements:
                public &= Public((kept,))
                stated += [keys[row] for row in known]
    system_of_part = bind(public, part, np.zeros(part.size, dtype=np.int64), [values[key] for key in stated])
    bounds = set(zip(_keys(system_of_part.B), system_of_part.limits.tolist(), strict=True))
    lost = [system.names[row] for row, key in zip(whole, _keys(inside[whole]), strict=True) if key not in set(stated)]
    if lost or bounds != limits:
        raise InvariantError(
            f"the public statement {(lost or ['of bounds'])[0]!r} needs a coordinate that the selection drops: select "
            "a list of labels, which keeps the dimension"
        )
    return system_of_part


def _rows_on(matrix: sp.csr_array, cells: Integers) -> tuple[sp.csr_array, Integers, Integers]:
    """Return rows on the cells of a part, and which rows are whole in the part and which are cut."""
    inside = sp.csr_array(sp.csc_array(matrix)[:, cells])
    inner, every = ((abs(rows) > 0).sum(axis=1) for rows in (inside, matrix))
    return inside, np.flatnonzero((inner > 0) & (inner == every)), np.flatnonzero((inner > 0) & (inner < every))


def _refuse_links(inside: sp.csr_array, whole: Integers, cut: Integers, names: Any) -> None:
    """Refuse a cut sum whose row on the part is not a combination of whole sums: then the rank of the rows grows."""
    cells: int = inside.shape[1]

    def rank(rows: Integers) -> int:
        return cells - kernel(inside[rows]).rank

    if cut.size and rank(np.concatenate([whole, cut])) > rank(whole):
        linked = next(row for row in cut if rank(np.append(whole, row)) > rank(whole))
        raise _refusal("sum", names[int(linked)])


def _refusal(kind: str, name: str) -> InvariantError:
    return InvariantError(
        f"the selection cuts the public {kind} {name!r}, which links the part to other cells: select all cells of this "
        f"{kind} or none, or use release.table.sel(...), which returns numbers and not a release"
    )


def _keys(rows: sp.csr_array) -> list[bytes]:
    """Return each row as bytes, the same for equal rows."""
    rows = sp.csr_array(rows)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    entries = np.column_stack([rows.indices.astype(np.int64), rows.data.astype(np.int64)])
    return [entries[begin:end].tobytes() for begin, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)]


def _listed(labels: tuple[str | int, ...]) -> str:
    return " or ".join(map(str, labels)) if len(labels) <= LISTED else some_of(labels, LISTED)
