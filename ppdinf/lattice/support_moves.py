"""Moves for the tables within a support, with the theorem that proves that they connect, if any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Flags, Integers
from ppdinf.lattice.blocks import Structure
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.lattice.move_families import Combinations, Family, Placed
from ppdinf.lattice.moves import Moves, connected_moves
from ppdinf.lattice.supports import Support, presolve


@dataclass(frozen=True, eq=False)
class SupportMoves:
    """Moves for the tables within a support."""

    support: Support
    moves: Moves
    proved: bool
    held: Flags | None

    def with_sums(self, A: sparse.csr_array, shape: tuple[int, ...]) -> Moves:
        """Return moves for the same tables that also preserve further sums; A contains all sums."""
        if self.held is None or not self.held.any():
            return connected_moves(A, bounds="lower" if self.held is None else "box", seconds=0, shape=shape)
        return _of_free(A, sparse.csr_array((0, A.shape[1]), dtype=np.int64), ~self.held, seconds=0)


def support_moves(
    A: sparse.csr_array,
    values: Integers,
    B: sparse.csr_array,
    limits: Integers,
    support: Support,
    nearly_known: Flags,
    *,
    found: Structure,
    cut: bool = False,
    shape: tuple[int, ...] = (),
) -> SupportMoves:
    """Return moves that connect the tables with ``A x = values``, ``B x >= limits`` and counts in a support."""
    linked = bool(np.any(np.diff(B.indptr) > 1))
    if not (linked or cut or nearly_known.any() or _is_cut(A, values, support)):
        moves = connected_moves(found, bounds="lower", shape=shape)
        proved = by_theorem(moves)
        return SupportMoves(support if proved else presolve(A, values, B, limits, support), moves, proved, None)
    support = presolve(A, values, B, limits, support)
    if support.is_empty:  # no table is feasible; the search for a start raises the error
        return SupportMoves(support, connected_moves(found, bounds="lower", seconds=0, shape=shape), False, None)
    up, down = B.maximum(0), B.minimum(0)
    B = sparse.csr_array(B[np.flatnonzero(up @ support.low + down @ support.high < limits)])
    free, held = ~support.fixed, support.fixed | nearly_known
    parts = [_of_free(A, B, free, found, shape)]
    if (free & held).any() and not held.all():
        parts.append(_of_free(A, B, ~held))
    holes, everywhere = bool(support.holes.any()), np.arange(free.size)
    families: list[tuple[Family, float, bool]] = [
        (Placed(each, everywhere, free.size), 1.0, False) for each in parts if each.families
    ]
    why = list(dict.fromkeys(each.reason for each in parts))
    if holes and found.lattice.rank:
        families.append((Combinations(found.lattice.basis), 0.5, False))
        why.append("Connects tables with holes in their support: integer combinations of the basis.")
    moves = Moves(families, everywhere, np.ones(free.size, dtype=np.int64), True, " ".join(why))
    return SupportMoves(support, moves, by_theorem(*parts) and not holes, held)


def by_theorem(*moves: Moves) -> bool:
    """Return whether a theorem proves that finitely many moves connect (not all combinations of the lattice)."""
    families = [family for each in moves for family, _, _ in each.families]
    return all(
        by_theorem(family.family)
        if isinstance(family, Placed) and isinstance(family.family, Moves)
        else not isinstance(family, Combinations)
        for family in families
    )


def _is_cut(A: sparse.csr_array, values: Integers, support: Support) -> bool:
    """Return whether the support excludes counts that public sums and its lower bounds allow."""
    if support.is_empty or support.holes.any():
        return True
    bounded = ~support.rows.values[support.rows.of, -1]
    if not bounded.any():
        return False
    units = sparse.eye_array(bounded.size, dtype=np.int64, format="csr")
    high = cell_intervals(A, values, units, support.low)[1]
    return bool(np.any(bounded & (support.high < high)))


def _of_free(
    A: sparse.csr_array,
    B: sparse.csr_array,
    free: Flags,
    found: Structure | None = None,
    shape: tuple[int, ...] = (),
    seconds: float = 10.0,
) -> Moves:
    """Return moves of the free cells that connect under lower and upper bounds on cells and on the sums B."""
    d, cells = free.size, np.flatnonzero(free)
    if free.all() and not B.shape[0] and found is not None:
        return connected_moves(found, bounds="box", seconds=seconds, shape=shape)
    if not cells.size:
        return Moves([], np.arange(d), np.ones(d, dtype=np.int64), True, "Every cell is known: nothing moves.")
    slacks = -sparse.eye_array(B.shape[0], dtype=np.int64, format="csc")
    parts = [[sparse.csc_array(A)[:, cells], None], [sparse.csc_array(B)[:, cells], slacks]]
    system = sparse.block_array(parts, format="csc") if B.shape[0] else parts[0][0]
    inner = connected_moves(system, bounds="box", seconds=seconds)
    embedded = [(Placed(inner, cells, d), 1.0, False)] if inner.families else []
    return Moves(embedded, np.arange(d), np.ones(d, dtype=np.int64), inner.connected, inner.reason)
