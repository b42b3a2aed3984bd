"""A feasible table for public equalities and bounds, nearest to a given table, or rows that contradict each other."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ppdinf._internal.values import Array, Integers, some_of
from ppdinf.errors import InvariantError
from ppdinf.lattice.blocks import Structure
from ppdinf.lattice.blocks import structure as find_structure
from ppdinf.lattice.programme import Programme
from ppdinf.lattice.solution import integer_solution
from ppdinf.lattice.systems import LARGEST, MatrixLike, exact_product, integer_matrix, integer_vector, row_label

LARGEST_PROGRAMME = 20_000  # largest number of rows and columns of the linear program
ZERO = 1e-7


def conflicting_rows(A: sp.csc_array, a: Array, B: sp.csc_array, b: Array) -> tuple[Integers, Integers]:
    """Return rows of A x = a and of B x >= b that no real x satisfies together."""
    k, n = A.shape[0], B.shape[0]
    nothing = np.empty(0, dtype=np.int64)
    if k + n + A.shape[1] > LARGEST_PROGRAMME:
        return nothing, nothing
    # Farkas: multipliers y, w >= 0 with A' y + B' w = 0 and a y + b w > 0; the smallest ones use few rows.
    programme = Programme()
    y = programme.signed(k, 1.0, integer=False)
    w = programme.variables(n, 1.0, integer=False)
    programme.rows(0.0, 0.0, (A.T, y), (B.T, w))
    programme.rows(1.0, 1.0, (sp.coo_array(np.atleast_2d(a)), y), (sp.coo_array(np.atleast_2d(b)), w))
    solution = programme.solve()
    if solution.values is None:
        return nothing, nothing
    sizes = np.abs(np.concatenate([solution.values[y], solution.values[w]]))
    used = sizes > ZERO * sizes.max()
    return np.flatnonzero(used[:k]), np.flatnonzero(used[k:])


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
) -> Integers:
    """Return an integer point of {A x = a, B x >= b} that is nearest in l1 to a given point.

    Parameters
    ----------
    A : array_like or scipy sparse of int, shape (k, d)
    a : array_like of int, shape (k,)
    B : array_like or scipy sparse of int, shape (l, d), optional
        Inequalities B x >= b; none by default.
    b : array_like of int, shape (l,), optional
    near : array_like of int, shape (d,), optional
        Any point, feasible or not (a noisy table with negative cells); zeros by default.
    structure : Structure, optional
        ``structure(A)``, if it is already computed.
    row_names, bound_names : sequence of str, optional
        Labels of the rows of A and of B for error messages.

    Returns
    -------
    ndarray of int64, shape (d,)
        A point that satisfies every row, verified in integers. If several points are equally near, one of them is
        returned; water filling spreads a change evenly. If totals beyond 2^40 require a refinement, the point may not
        be exactly the nearest one.

    Raises
    ------
    InvariantError
        If the input is invalid, rows are contradictory, or no point is feasible. The message names the incompatible
        rows.

    See Also
    --------
    ppdinf.lattice.integer_solution

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.lattice import nearest_feasible
    >>> nearest_feasible([[1, 1, 1]], [6], np.eye(3, dtype=int), [0, 0, 0], near=[5, -2, 4])
    array([3, 0, 3])
    """
    matrix = integer_matrix(A, row_names)
    k, d = matrix.shape
    totals = integer_vector(a, k, row_names)
    bounds = integer_matrix(sp.csc_array((0, d), dtype=np.int64) if B is None else B, bound_names, name="B")
    if bounds.shape[1] != d:
        raise InvariantError(f"A and B must have the same number of columns, found {d} and {bounds.shape[1]}.")
    limits = integer_vector([] if b is None else b, bounds.shape[0], bound_names, name="b")
    start = integer_vector(np.zeros(d, np.int64) if near is None else near, d, name="near", unit="cell")

    try:
        return _nearest(matrix, totals, bounds, limits, start, structure, row_names, bound_names)
    except InfeasibleError as error:
        rows, others = conflicting_rows(matrix, totals, bounds, limits)
        named = [row_label(i, row_names) for i in rows.tolist()]
        named += [f"bound {row_label(i, bound_names)}" for i in others.tolist()]
        together = f" Rows that contradict each other: {some_of(named, 8)}." if len(named) > 1 else ""
        raise InvariantError(f"{error}{together}") from None


class InfeasibleError(InvariantError):
    """No table satisfies all rows."""


def _nearest(
    matrix: sp.csc_array,
    totals: Integers,
    bounds: sp.csc_array,
    limits: Integers,
    start: Integers,
    structure: Structure | None,
    row_names: Names,
    bound_names: Names,
) -> Integers:
    entries = np.bincount(bounds.indices, minlength=bounds.shape[0])
    for row in np.flatnonzero((entries == 0) & (limits > 0))[:1]:
        raise InvariantError(
            f"The bound of {row_label(int(row), bound_names)} cannot be satisfied: it excludes 0, the only value of a "
            "sum of no cells. Correct it."
        )
    found = structure or find_structure(matrix)
    sums = integer_solution(found.class_system, totals, row_names=row_names)
    if (entries > 1).any():
        rest, x = np.ones(start.size, bool), start
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
            sp.csc_array(sp.csr_array(bounds)[inner][:, rest]),
            limits[inner],
            start[rest],
            row_names,
            None if bound_names is None else [bound_names[i] for i in inner.tolist()],
        )
    if (exact_product(matrix, x) != totals).any() or (exact_product(bounds, x) < limits).any():
        raise AssertionError("a feasible point of the solver does not satisfy its rows in integers")
    return x


def _cell_bounds(B: sp.csc_array, b: Integers, names: Names) -> tuple[Integers, Integers]:
    """Convert bounds on single cells to lower and upper limits (2^53 if unlimited)."""
    lower, upper = np.full(B.shape[1], -LARGEST), np.full(B.shape[1], LARGEST)
    entries = B.tocoo()
    raising = entries.data > 0
    limits = b[entries.row]
    np.maximum.at(lower, entries.col[raising], -(-limits[raising] // entries.data[raising]))
    np.minimum.at(upper, entries.col[~raising], limits[~raising] // entries.data[~raising])
    for cell in np.flatnonzero(lower > upper)[:1]:
        rows = ", ".join(row_label(int(row), names) for row in entries.row[entries.col == cell])
        raise InvariantError(f"The bounds of cell {cell} exclude each other: {rows}.")
    return lower, upper


def _water_fill(
    x: Integers, cells: Integers, found: Structure, sums: dict[int, int], lower: Integers, upper: Integers, names: Names
) -> None:
    """Move each class sum to its total, in place."""
    group = found.classes[cells]
    missing = np.zeros(found.determined.size, dtype=np.int64)
    for label, value in sums.items():
        if found.determined[label]:
            if abs(value) > LARGEST:
                cell = found.lattice.representatives[label]
                raise InvariantError(f"The totals require a sum beyond 2^53 over the class of cell {cell}.")
            missing[label] = value
    if np.abs(x[cells]).sum(dtype=float) >= 2**62:
        raise InvariantError("The sums of the given point or of the bounds exceed 64-bit integers.")
    np.subtract.at(missing, group, x[cells])
    up = (missing > 0)[group]
    slack = np.where(up, upper[cells] - x[cells], x[cells] - lower[cells])
    change, short = _spread(np.abs(missing), group, slack)
    if short.size:
        rows = found.class_system[:, short[:1]].indices.tolist()
        raise InfeasibleError(
            f"No table has the total of {', '.join(row_label(row, names) for row in rows)} "
            "within the bounds of its cells."
        )
    x[cells] += np.where(up, change, -change)


def _spread(amounts: Integers, group: Integers, slack: Integers) -> tuple[Integers, Integers]:
    """Split each group's amount over its cells, within the slack of each cell, as evenly as possible."""
    order = np.lexsort((slack, group))
    group, slack = group[order], np.minimum(slack[order], amounts[group[order]])
    if slack.sum(dtype=float) >= 2**62:
        slack = slack.astype(object)
    sizes = np.bincount(group, minlength=amounts.size)
    starts = np.cumsum(sizes) - sizes
    filled = np.concatenate([[0], np.cumsum(slack)])  # slack of all cells before
    short = np.flatnonzero(amounts > filled[starts + sizes] - filled[starts])
    before = filled[:-1] - filled[starts][group]
    place = np.arange(group.size) - starts[group]
    full = before + slack * (sizes[group] - place) <= amounts[group]
    # The cells below their limit (with most slack) share the rest, larger shares last.
    saturated = np.bincount(group, weights=full, minlength=amounts.size).astype(np.int64)
    rest = amounts - (filled[starts + saturated] - filled[starts])
    sharing = np.maximum(sizes - saturated, 1)
    share = rest[group] // sharing[group] + (sizes[group] - place <= rest[group] % sharing[group])
    change = np.empty(group.size, dtype=np.int64)
    change[order] = np.where(full, slack, share).astype(np.int64)
    return change, short


def _integer_programme(
    A: sp.csc_array, a: Integers, B: sp.csc_array, b: Integers, near: Integers, row_names: Names, bound_names: Names
) -> Integers:
    """Minimise the l1 norm of p - q with x = near + p - q, and refine the rounded result."""
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
    raise InvariantError(
        "HiGHS did not find a point that satisfies the rows exactly in integers: the totals are too large."
    )


def _shortest_step(
    A: sp.csc_array, missing: Array, B: sp.csc_array, below: Array, *, elastic: bool
) -> tuple[Integers | None, Integers]:
    """Return the shortest integer z with A z = missing and B z >= below; or the nearest miss and its violated rows."""
    k, bounds, d = A.shape[0], B.shape[0], A.shape[1]
    programme = Programme()
    z = programme.signed(d, 0.0 if elastic else 1.0)
    off, short = programme.signed(k * elastic, 1.0), programme.variables(bounds * elastic, 1.0)
    programme.rows(missing, missing, (A, z), (sp.eye_array(k, off.size), off))
    programme.rows(below, np.inf, (B, z), (sp.eye_array(bounds, short.size), short))
    solution = programme.solve()
    if solution.infeasible:
        return None, np.empty(0, dtype=np.int64)
    if solution.values is None:
        raise InvariantError(f"HiGHS stopped without a feasible table: {solution.message}")
    violation = np.concatenate([solution.values[off], solution.values[short]])
    return solution.values[z].astype(np.int64), np.flatnonzero(violation)


def _blame(violated: Integers, k: int, row_names: Names, bound_names: Names) -> str:
    named = [row_label(i, row_names) if i < k else f"bound {row_label(i - k, bound_names)}" for i in violated.tolist()]
    return f"No integer table meets all totals and bounds together; the nearest miss violates {some_of(named, 8)}."
