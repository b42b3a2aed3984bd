"""Some of the sums of other statements, published exactly: the other sums were not published, or only as ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.frozen import assign
from ppdinf._internal.types import Json
from ppdinf.errors import InvariantError
from ppdinf.invariants.names import Chosen, Joined
from ppdinf.invariants.statement import Rows, Statement, plain
from ppdinf.tables.frame import Frame


@dataclass(frozen=True)
class SelectedSums(Statement):
    """Some of the sums of other statements, by their position."""

    kind: ClassVar[str] = "selected-sums"
    of: tuple[Statement, ...]
    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        assign(self, of=tuple(Statement.from_dict(s) if isinstance(s, dict) else s for s in self.of))
        if not self.rows or any(isinstance(row, bool) or not isinstance(row, int) or row < 0 for row in self.rows):
            raise InvariantError("selected sums need at least one position, and positions must be integers >= 0")

    def to_dict(self) -> Json:
        """Return plain data for the release file."""
        return {"kind": self.kind, "of": [statement.to_dict() for statement in self.of], "rows": plain(self.rows)}

    def equalities(self, frame: Frame) -> Rows:
        """Return the selected rows."""
        parts = [statement.equalities(frame) for statement in self.of]
        matrix, names = sp.csr_array(sp.vstack([part for part, _ in parts])), Joined([part for _, part in parts])
        if max(self.rows) >= len(names):
            raise InvariantError(f"the position {max(self.rows)} exceeds the number of sums, {len(names)}, of {self}")
        rows = np.array(self.rows, dtype=np.int64)
        return sp.csr_array(matrix[rows]), Chosen(names, rows)

    def restricted(self, whole: Frame, part: Frame, cells: NDArray[np.int64]) -> tuple[Statement, ...]:
        """Return the other statements: the caller keeps those of their sums that are public."""
        return tuple(found for statement in self.of for found in statement.restricted(whole, part, cells))

    def coordinates(self) -> frozenset[str]:
        """Return the coordinates of the other statements."""
        return frozenset().union(*(statement.coordinates() for statement in self.of))

    def __str__(self) -> str:
        return f"{'; '.join(map(str, self.of))} ({len(self.rows)} selected)"
