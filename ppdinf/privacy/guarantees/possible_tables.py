"""The nearest two tables that the public sums of one or several releases allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf.lattice.points.shortest import shortest_step
from ppdinf.lattice.structure.blocks import structure
from ppdinf.privacy.guarantees.unit_loss import ADDED, PRESENT, REPLACED

if TYPE_CHECKING:
    from ppdinf.privacy.guarantees.guarantee import Guarantee


@dataclass(frozen=True, eq=False)
class PossibleTables:
    """Tables with the same public sums."""

    sums: sparse.csc_array
    answers: sparse.csc_array | None = None
    labels: str = ""

    @cached_property
    def _kinds(self) -> NDArray[np.int64]:
        """One cell of each set of cells whose records give the same answers."""
        if self.answers is None:
            return np.arange(self.sums.shape[1])
        return np.unique(self.answers.toarray(), axis=1, return_index=True)[1]

    def nearest_step(self, guarantee: Guarantee) -> tuple[int | float, NDArray[np.int64] | None] | None:
        """Return the smallest distance, in the terms of a guarantee, and a change at this distance."""
        kinds = self._kinds
        if guarantee.metric is not None:
            step = shortest_step(structure(self.sums), guarantee.metric)
            if step is None:
                return None
            return (int(np.abs(step).sum()) if guarantee.metric == "l1" else math.sqrt(int(step @ step))), step
        sums = sparse.csc_array(self.sums[:, kinds])
        if guarantee.neighbours == REPLACED:  # the number of records is known
            sums = sparse.vstack([sums, np.ones((1, kinds.size), dtype=np.int64)])
        elif guarantee.neighbours not in (ADDED, PRESENT):
            return 1, None
        elif self.answers is not None:  # a record without an answer changes nothing
            sums = sums[:, np.flatnonzero(abs(self.answers[:, kinds]).sum(axis=0))]
        step = shortest_step(structure(sums))
        if step is None:
            return None
        size = int(np.abs(step).sum())
        return size // 2 if guarantee.neighbours == REPLACED else size, None

    def joined(self, other: PossibleTables) -> PossibleTables | None:
        """Return the tables that two releases allow; None if the releases are not known to be of one table."""
        if self.sums.shape[1] != other.sums.shape[1]:
            return None
        sums = sparse.csc_array(sparse.vstack([self.sums, other.sums]))
        if self.answers is None and other.answers is None:
            return PossibleTables(sums, None, self.labels) if self.labels == other.labels else None
        if self.answers is None or other.answers is None:
            return PossibleTables(sums, None, self.labels if self.answers is None else other.labels)
        return PossibleTables(sums, sparse.csc_array(sparse.vstack([self.answers, other.answers])), self.labels)
