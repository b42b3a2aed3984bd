"""What was observed of a confidential table: made once from a release, and asked by everything that comes after.

Public sums of answers W x are sums of the cells, ``A W x = a``, bounds likewise: the system here is always that of the
confidential cells. Where the noise keeps the number of records though nobody stated it, that number is one more sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.frame import Frame
from ppdinf.invariants import System
from ppdinf.laws.likelihood import Likelihood
from ppdinf.releases import Release

__all__ = ["Observed", "observe"]


@dataclass(frozen=True, eq=False)
class Observed:
    """A release, as it speaks of the confidential cells.

    Attributes
    ----------
    release : Release
    frame : Frame
        Labels of the cells; those of the release itself unless it answers queries.
    system : System
        Everything exact of the cells.
    likelihood : Likelihood
        Everything noisy of them.
    """

    release: Release
    frame: Frame
    system: System
    likelihood: Likelihood

    @cached_property
    def y(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """Released numbers, one for each cell or answer."""
        return self.release.table.values.ravel()

    @cached_property
    def obstacle(self) -> str:
        """What links groups of cells, so that the table cannot be summed out group by group; empty if nothing does."""
        if self.likelihood.norm is not None:
            return "its noise is not independent in the cells"
        if self.likelihood.histogram is not None:
            return "noisy sums of its histogram of counts were published with it"
        structure, system = self.system.structure, self.system
        if np.any(~structure.partition & (np.bincount(structure.blocks) > 1)):
            return "public sums cross each other"
        if self.likelihood.normaliser is not None:
            return "the normalising constant of its noise depends on it"
        linked = np.flatnonzero(np.diff(system.B.indptr) > 1)
        return f"the bound {system.bound_names[linked[0]]!r} links cells" if linked.size else ""


def observe(release: Release, frame: Frame) -> Observed:
    """State what a release says of the confidential cells.

    Parameters
    ----------
    release : Release
    frame : Frame
        Of the cells.

    Raises
    ------
    ModelError
        The mechanism has no likelihood of cells.
    """
    likelihood, system = release.likelihood, release.public
    query = likelihood.query
    if query is not None:
        found = {"A": sp.csr_array(system.A @ query), "B": sp.csr_array(system.B @ query)}
        system = replace(system, frame=frame, empty=np.zeros(frame.size, dtype=bool), **found)
    records = None if likelihood.records is None else likelihood.records(release.table.values.ravel())
    if records is not None:
        system = replace(
            system,
            A=sp.vstack([system.A, np.ones((1, frame.size), dtype=np.int64)], format="csr"),
            values=np.append(system.values, records),
            names=[*system.names, "number of records (as released)"],
        )
    return Observed(release, frame, system, likelihood)
