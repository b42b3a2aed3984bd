"""A table that satisfies public equalities and bounds, as near as possible to a given one.

Where bounds concern single cells, classes with a public sum are solved exactly by water
filling. Everything else is an integer programme in the positive and negative parts of
the distance, solved by HiGHS (Huangfu and Hall 2018) through SciPy. Its answer is
rounded and checked in integers; if large totals cost it precision, it is refined from
the rounded point, where the numbers that are left are small.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import LinearConstraint, milp

from ppdinf._internal.types import Array
from ppdinf.errors import InvariantError
from ppdinf.lattice.algebra.solution import integer_solution
from ppdinf.lattice.algebra.systems import (
    LARGEST,
    IntVector,
    MatrixLike,
    exact_product,
    integer_matrix,
    integer_vector,
    row_label,
)
from ppdinf.lattice.points.conflict import conflicting_rows
from ppdinf.lattice.structure.blocks import Structure
from ppdinf.lattice.structure.blocks import structure as find_structure

__all__ = ["nearest_feasible"]

REFINEMENTS = 3
Names = Sequence[str] | None


def nearest_feasible(
    A: MatrixLike,
    a: ArrayLike,
    B: MatrixLike | None = None,
    b: ArrayLike | None = None,
    near: ArrayLike | None = None,
    *,
    structure: Structure | None = None,
    row_names: Names = None,
    bound_names: Names = None,
) -> IntVector:
    """Find an integer point of {A x = a, B x >= b} nearest in l1 to a given point.

    Parameters
    ----------
    A : array_like or scipy sparse of whole numbers, shape (k, d)
    a : array_like of whole numbers, shape (k,)
    B : array_like or scipy sparse of whole numbers, shape (l, d), optional
        Inequalities B x >= b; none when omitted.
    b : array_like of whole numbers, shape (l,), optional
    near : array_like of whole numbers, shape (d,), optional
        Any point, feasible or not (a noisy table with negative cells); zeros by default.
    structure : Structure, optional
        ``structure(A)``, when already at hand.
    row_names, bound_names : sequence of str, optional
        Labels of the rows of A and of B for error messages.

    Returns
    -------
    ndarray of int64, shape (d,)
        Satisfies every row, verified in integers. When several points are equally
        near, which one is not specified; water filling spreads a change evenly. Where
        totals beyond 2^40 need a refinement, the point is close but perhaps not nearest.

    Raises
    ------
    InvariantError
        Malformed input, contradictory rows, or no feasible point (the rows that
        cannot be met together are named).

    Notes
    -----
    Water filling costs O(d log d). The integer programme costs what HiGHS takes: about
    a second for 20 stacked margins of 14 x 24.

    Examples
    --------
    >>> nearest_feasible([[1, 1, 1]], [6], np.eye(3, dtype=int), [0, 0, 0], near=[5, -2, 4])
    array([3, 0, 3])
    >>> nearest_feasible([[1, 1]], [1], [[1, 0], [0, 1]], [1, 1], row_names=["total"])
    Traceback (most recent call last):
    ...
    ppdinf.errors.InvariantError: No table has the total of row 0 ('total') within the bounds of its cells. Rows that
    contradict each other: row 0 ('total'), bound row 0, bound row 1.
    """
    matrix = integer_matrix(A, row_names)
    k, d = matrix.shape
    totals = integer_vector(a, k, row_names)
    bounds = integer_matrix(sparse.csc_array((0, d), dtype=np.int64) if B is None else B, bound_names, name="B")
    if bounds.shape[1] != d:
        raise InvariantError(f"A is about {d} cells, but B about {bounds.shape[1]}.")
    limits = integer_vector([] if b is None else b, bounds.shape[0], bound_names, name="b")
    start = integer_vector(np.zeros(d, np.int64) if near is None else near, d, name="near", unit="cell")

    try:
        return _nearest(matrix, totals, bounds, limits, start, structure, row_names, bound_names)
    except InfeasibleError as error:
        rows, others = conflicting_rows(matrix, totals, bounds, limits)
        named = [row_label(i, row_names) for i in rows.tolist()]
        named += [f"bound {row_label(i, bound_names)}" for i in others.tolist()]
        together = f" Rows that contradict each other: {_listed(named)}." if len(named) > 1 else ""
        raise InvariantError(f"{error}{together}") from None


class InfeasibleError(InvariantError):
    """No table obeys all rows."""


def _nearest(
    matrix: sparse.csc_array,
    totals: IntVector,
    bounds: sparse.csc_array,
    limits: IntVector,
    start: IntVector,
    structure: Structure | None,
    row_names: Names,
    bound_names: Names,
) -> IntVector:
    found = structure or find_structure(matrix)
    sums = integer_solution(found.class_system, totals, row_names=row_names)
    if (np.bincount(bounds.indices, minlength=bounds.shape[0]) > 1).any():
        rest, x = np.ones(start.size, dtype=bool), start
    else:
        lower, upper = _cell_bounds(bounds, limits, bound_names)
        x = np.clip(start, lower, upper)
        summed = found.determined[found.classes]
        _water_fill(x, np.flatnonzero(summed), found, sums, lower, upper, row_names)
        rest = ~summed & (np.diff(matrix.indptr) > 0)
    if rest.any():
        inner = np.flatnonzero(np.bincount(bounds[:, rest].indices, minlength=bounds.shape[0]) > 0)
        x[rest] = _integer_programme(
            matrix[:, rest],
            totals - exact_product(matrix[:, ~rest], x[~rest]),
            sparse.csc_array(sparse.csr_array(bounds)[inner][:, rest]),
            limits[inner],
            start[rest],
            row_names,
            None if bound_names is None else [bound_names[i] for i in inner.tolist()],
        )
    if (exact_product(matrix, x) != totals).any() or (exact_product(bounds, x) < limits).any():
        raise AssertionError("a point that was found feasible fails its rows in integers")
    return x


def _cell_bounds(B: sparse.csc_array, b: IntVector, names: Names) -> tuple[IntVector, IntVector]:
    """Turn bounds on single cells into lower and upper limits (2^53 stands for none)."""
    lower, upper = np.full(B.shape[1], -LARGEST), np.full(B.shape[1], LARGEST)
    entries = B.tocoo()
    for row in np.flatnonzero((np.bincount(entries.row, minlength=B.shape[0]) == 0) & (b > 0))[:1]:
        raise InvariantError(f"The bound of {row_label(int(row), names)} has no cell, so it cannot be met.")
    raising = entries.data > 0
    limits = b[entries.row]
    np.maximum.at(lower, entries.col[raising], -(-limits[raising] // entries.data[raising]))
    np.minimum.at(upper, entries.col[~raising], limits[~raising] // entries.data[~raising])
    for cell in np.flatnonzero(lower > upper)[:1]:
        rows = ", ".join(row_label(int(row), names) for row in entries.row[entries.col == cell])
        raise InvariantError(f"The bounds of cell {cell} exclude each other: {rows}.")
    return lower, upper


def _water_fill(
    x: IntVector,
    cells: IntVector,
    found: Structure,
    sums: dict[int, int],
    lower: IntVector,
    upper: IntVector,
    names: Names,
) -> None:
    """Bring each class sum to its total, in place.

    x is the given point clipped to the bounds. Any change that moves all cells of a class
    one way from there has the same l1 cost; it is spread as evenly as the bounds allow.
    """
    group = found.classes[cells]
    missing = np.zeros(found.determined.size, dtype=np.int64)
    for label, value in sums.items():
        if found.determined[label]:
            if abs(value) > LARGEST:
                cell = found.lattice.representatives[label]
                raise InvariantError(f"The totals ask for a sum beyond 2^53 over the class of cell {cell}.")
            missing[label] = value
    if np.abs(x[cells]).sum(dtype=float) >= 2**62:
        raise InvariantError("The given point or the bounds are too large to be summed in 64-bit integers.")
    np.subtract.at(missing, group, x[cells])
    up = (missing > 0)[group]
    room = np.where(up, upper[cells] - x[cells], x[cells] - lower[cells])
    change, short = _spread(np.abs(missing), group, room)
    if short.size:
        rows = found.class_system[:, short[:1]].indices.tolist()
        raise InfeasibleError(
            f"No table has the total of {', '.join(row_label(row, names) for row in rows)} "
            "within the bounds of its cells."
        )
    x[cells] += np.where(up, change, -change)


def _spread(amounts: IntVector, group: IntVector, room: IntVector) -> tuple[IntVector, IntVector]:
    """Split each group's amount over its cells, none beyond its room, as evenly as possible.

    Returns the shares and the groups with too little room.
    """
    order = np.lexsort((room, group))
    group, room = group[order], np.minimum(room[order], amounts[group[order]])
    if room.sum(dtype=float) >= 2**62:
        room = room.astype(object)
    sizes = np.bincount(group, minlength=amounts.size)
    starts = np.cumsum(sizes) - sizes
    filled = np.concatenate([[0], np.cumsum(room)])  # room of all cells before
    short = np.flatnonzero(amounts > filled[starts + sizes] - filled[starts])
    before = filled[:-1] - filled[starts][group]
    place = np.arange(group.size) - starts[group]
    full = before + room * (sizes[group] - place) <= amounts[group]
    # The cells that are not full (the roomiest) share the rest, larger shares last.
    saturated = np.bincount(group, weights=full, minlength=amounts.size).astype(np.int64)
    rest = amounts - (filled[starts + saturated] - filled[starts])
    sharing = np.maximum(sizes - saturated, 1)
    share = rest[group] // sharing[group] + (sizes[group] - place <= rest[group] % sharing[group])
    change = np.empty(group.size, dtype=np.int64)
    change[order] = np.where(full, room, share).astype(np.int64)
    return change, short


def _integer_programme(
    A: sparse.csc_array,
    a: IntVector,
    B: sparse.csc_array,
    b: IntVector,
    near: IntVector,
    row_names: Names,
    bound_names: Names,
) -> IntVector:
    """Minimise the l1 norm of p - q with x = near + p - q, refined from its rounding."""
    x = near
    for _ in range(REFINEMENTS):
        missing, below = a - exact_product(A, x), b - exact_product(B, x)
        if not (missing != 0).any() and not (below > 0).any():
            return x
        step, _ = _shortest_step(A, missing, B, below, elastic=False)
        if step is None:
            step, violated = _shortest_step(A, missing, B, below, elastic=True)
            if step is None or violated.size:
                raise InfeasibleError(_blame(violated, A.shape[0], row_names, bound_names))
        x = integer_vector(x + step, x.size, name="the feasible point")
    raise InvariantError("HiGHS found no point that holds exactly in integers: totals too large for it.")


def _shortest_step(
    A: sparse.csc_array, missing: Array, B: sparse.csc_array, below: Array, *, elastic: bool
) -> tuple[IntVector | None, IntVector]:
    """Solve for the shortest integer z with A z = missing and B z >= below.

    When elastic, rows may be violated and their violation is minimised instead. Returns
    z (None when there is none) and the rows of [A; B] that it violates.
    """
    k, bounds, d = A.shape[0], B.shape[0], A.shape[1]
    equal, above = sparse.hstack([A, -A]), sparse.hstack([B, -B])
    cost = np.ones(2 * d)
    if elastic:
        equal = sparse.hstack([equal, sparse.eye_array(k), -sparse.eye_array(k), sparse.csc_array((k, bounds))])
        above = sparse.hstack([above, sparse.csc_array((bounds, 2 * k)), sparse.eye_array(bounds)])
        cost = np.concatenate([np.zeros(2 * d), np.ones(2 * k + bounds)])
    found = milp(
        cost,
        integrality=np.ones(cost.size),
        constraints=[
            LinearConstraint(equal.tocsc(), missing.astype(float), missing.astype(float)),
            LinearConstraint(above.tocsc(), below.astype(float), np.inf),
        ],
    )
    if found.x is None:
        if found.status == 2:  # infeasible
            return None, np.empty(0, dtype=np.int64)
        raise InvariantError(f"HiGHS stopped without a feasible table: {found.message}")
    z = np.rint(found.x).astype(np.int64)
    slack = z[2 * d :]
    violation = np.concatenate([slack[:k] + slack[k : 2 * k], slack[2 * k :]])
    return z[:d] - z[d : 2 * d], np.flatnonzero(violation)


def _blame(violated: IntVector, k: int, row_names: Names, bound_names: Names) -> str:
    named = [row_label(i, row_names) if i < k else f"bound {row_label(i - k, bound_names)}" for i in violated.tolist()]
    return f"No integer table meets all totals and bounds together; the nearest miss violates {_listed(named)}."


def _listed(names: list[str], shown: int = 8) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
