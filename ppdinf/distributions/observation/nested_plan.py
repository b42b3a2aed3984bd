"""Nested measured and exact sums as a forest, whose total weight is computed exactly."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.fiber.nested_sums.laminar import Forest, forest_of
from ppdinf.fiber.nested_sums.nested_sums import LogTable, NestedSums, OutOfReachError
from ppdinf.invariants import System
from ppdinf.invariants.names import Joined
from ppdinf.measurements.entries import Entries

FAR = 2**60  # absolute value that no sum reaches


def forest_of_sums(system: System, of_sums: Entries, further: sp.csr_array | None = None) -> Forest | None:
    """Arrange exact sums, bounds of sums, noisy sums and further sums as a forest, in this order."""
    if not of_sums.are_independent:
        return None
    rows = [_rows(system, of_sums), *(() if further is None else (further,))]
    return forest_of(sp.csr_array(sp.vstack(rows, format="csr")))


def _rows(system: System, of_sums: Entries) -> sp.csr_array:
    """Return exact sums, bounds of sums and noisy sums, with bounds from above as sums."""
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    bounds = system.B[linked]
    sign = np.array([bounds.data[start] for start in bounds.indptr[:-1]], dtype=np.int64)
    bounds = sp.csr_array(sp.diags_array(np.sign(sign), dtype=np.int64) @ bounds) if linked.size else bounds
    return sp.csr_array(sp.vstack([system.A, bounds, of_sums.matrix], format="csr"))


def _names(system: System, of_sums: Entries) -> Joined:
    """Return the names of the same rows."""
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    return Joined([system.names, [system.bound_names[int(row)] for row in linked], of_sums.names])


def why_no_forest(system: System, of_sums: Entries) -> str:
    """Return the reason why the sums are not a forest, with the names of two sums that overlap."""
    if not of_sums.are_independent:
        return "l2 noise of several numbers is not independent"
    rows, names = _rows(system, of_sums), _names(system, of_sums)
    weighted = np.flatnonzero(abs(rows - (rows != 0).astype(np.int64)).sum(axis=1))
    if weighted.size:
        return f"the sum {names[int(weighted[0])]!r} has weights other than 1"
    size = np.diff(rows.indptr)
    shared = sp.coo_array(rows @ rows.T)
    crossing = np.flatnonzero(shared.data < np.minimum(size[shared.row], size[shared.col]))
    a, b = sorted((int(shared.row[crossing[0]]), int(shared.col[crossing[0]])))
    return f"the sums {names[a]!r} and {names[b]!r} overlap, and neither contains the other"


def nested_sums(
    forest: Forest, system: System, of_sums: Entries, lower: NDArray[np.int64], width: int | NDArray[np.int64],
    tolerance: float = 1e-10, possible: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
) -> NestedSums:  # fmt: skip
    """Build the forest for cells with windows, of equal width or each with its own."""
    m, k = forest.parent.size, system.A.shape[0]
    least, most = np.full(m, -FAR), np.full(m, FAR)
    exact = forest.of_row[:k]
    np.maximum.at(least, exact, system.values)
    np.minimum.at(most, exact, system.values)
    linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
    for row, node in zip(linked, forest.of_row[k : k + linked.size], strict=True):
        if system.B.data[system.B.indptr[row]] > 0:
            least[node] = max(least[node], system.limits[row])
        else:
            most[node] = min(most[node], -system.limits[row])
    of_row = forest.of_row[k + linked.size :][: of_sums.y.size]
    low, high = of_sums.support_bounds(0.0)
    np.maximum.at(least, of_row, np.ceil(np.maximum(low, -FAR)).astype(np.int64))
    np.minimum.at(most, of_row, np.floor(np.minimum(high, FAR)).astype(np.int64))
    laws: list[LogTable] = []
    sums, shifts, numbers = [], [], []
    for form, rows in of_sums.forms:
        for column in form.columns(of_sums.of(form, rows)):
            sums.append(of_row[rows[column.entries]])
            shifts.append(column.begins)
            numbers.append(np.full(column.begins.size, len(laws)))
            laws.append(LogTable(column.log_weights, left=column.left, right=column.right))
    none = np.zeros(0, dtype=np.int64)
    measured = tuple(np.concatenate(part).astype(np.int64) if part else none for part in (sums, shifts, numbers))
    d = lower.size
    try:
        return NestedSums(
            low=lower, width=np.broadcast_to(width, d), node=forest.node, parent=forest.parent, least=least, most=most,
            measured=measured, laws=laws, tolerance=tolerance, possible=possible,  # type: ignore[arg-type]
        )  # fmt: skip
    except OutOfReachError as error:
        raise contradiction_error(error, forest, system, of_sums) from error


def contradiction_error(error: OutOfReachError, forest: Forest, system: System, of_sums: Entries) -> InvariantError:
    """Return an error that names the sums, or the cell, for which the published numbers leave no possible value."""
    names = _names(system, of_sums)
    faulty = [names[int(row)] for row in np.flatnonzero(forest.of_row[: len(names)] == error.node)[:2]]
    known, parts = " and ".join(map(repr, faulty)), "the published numbers of its parts, or their bounds"
    known = known or "the total"
    if error.cell is not None:
        cell = f"the cell at {system.frame.cell(error.cell)}"
        known, parts = (known, f"the published numbers of {cell}") if faulty else (cell, "its bounds")
    return InvariantError(
        f"the information on {known} contradicts {parts} within the support of the noise. Correct a value, or the "
        "scale of a law"
    )
