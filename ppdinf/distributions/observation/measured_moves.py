"""Moves of a table that preserve some of its noisy sums.

If a sum is known precisely and its cells are not, moves of single cells change the sum and are soon reversed. Moves of
two cells in opposite directions under the same sums are limited only by the information on these cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ppdinf.lattice.moves.families import Transfers
from ppdinf.lattice.moves.moves import Moves
from ppdinf.lattice.moves.support_moves import Embedded, SupportMoves
from ppdinf.measurements import Measurements

SUMS = 4000  # maximum number of noisy sums that are preserved jointly by lattice moves


def measured_moves(plan: SupportMoves, data: Measurements) -> Moves:
    """Add to the moves that connect a fiber transfers within sums of a part, and moves that preserve all sums."""
    connected, d, A = plan.moves, data.frame.size, data.public.A
    families = list(connected.families)
    base = sum(weight for _, weight, _ in families) or 1.0
    held, reasons = [A] if A.shape[0] else [], [connected.reason]
    for part, stated in zip(data.parts, data.stated, strict=True):
        matrix = part.matrix
        if (np.diff(matrix.indptr) <= 1).all():
            continue
        held.append(matrix)
        # transfers between the cells of each sum, if the sums of a part are disjoint
        parts_cells = matrix.nnz == np.unique(matrix.indices).size and (matrix.data == 1).all()
        if parts_cells and not A.shape[0]:
            owner = np.full(d, matrix.shape[0])
            owner[matrix.indices] = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
            inside = np.flatnonzero(owner < matrix.shape[0])
            members = inside[np.argsort(owner[inside], kind="stable")]
            sizes = np.bincount(owner[inside], minlength=matrix.shape[0])
            sizes = sizes[sizes > 0]
            if (sizes > 1).any():
                families.append((_Placed(Transfers(members, sizes), d), base, False))
                name = "; ".join(map(str, stated.statement))
                reasons.append(f"transfers between cells of one sum preserve {name}, whose noise may be narrow.")
    # moves that preserve all sums
    together = sp.csr_array(sp.vstack(held, format="csr")) if held else None
    if together is not None and together.shape[0] <= SUMS:
        moves = plan.with_sums(together, data.shape)
        if moves.families:
            families.append((Embedded(moves, np.arange(d), d), base, False))
            reasons.append(f"moves that preserve all {together.shape[0]:,} noisy and exact sums of several cells.")
    return replace(connected, families=families, reason=" As often: ".join(reasons))


class _Placed:
    """Transfers between cells of a subset."""

    def __init__(self, transfers: Transfers, d: int) -> None:
        self._transfers, self._d = transfers, d

    def draw(self, size: int, rng: np.random.Generator) -> sp.csc_array:
        """Draw `size` directions, one per column."""
        drawn = self._transfers.draw(size, rng)
        return sp.csc_array((drawn.data, drawn.indices, drawn.indptr), shape=(self._d, size))
