"""Published numbers that no count can have by themselves: sums of counts are not negative."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.errors import InvariantError
from ppdinf.measurements import Measurements

type Reals = NDArray[np.float64]


def require_possible_numbers(data: Measurements) -> None:
    """Refuse an exact sum, a bound or a published number that no table of counts satisfies by itself."""
    system, entries = data.public, data.entries
    exact = system.values.astype(np.float64)
    least = system.limits.astype(np.float64)
    for row in _impossible(system.A, exact, exact):
        raise _error(f"{system.names[row]!r} is published as {system.values[row]}")
    for row in _impossible(system.B, least, np.full(least.size, np.inf)):
        raise _error(f"the public bound {system.bound_names[row]!r} is stated")
    for row in _impossible(entries.matrix, *entries.support_bounds(0.0)):
        value = entries.only(np.array([row])).published[0]
        raise _error(f"{entries.names[row]!r} is published as {value}")


def _error(found: str) -> InvariantError:
    return InvariantError(
        f"{found}, which is possible for no table of counts: counts are not negative. Correct the value, or state "
        "the law of its noise"
    )


def _impossible(matrix: sp.csr_array, low: Reals, high: Reals) -> list[int]:
    """Return the first row whose sum of counts cannot be between its two ends, or no row."""
    row = np.repeat(np.arange(low.size), np.diff(matrix.indptr))
    falls, rises = (np.bincount(row[sign], minlength=low.size) > 0 for sign in (matrix.data < 0, matrix.data > 0))
    rows: list[int] = np.flatnonzero((~rises & (low > 0)) | (~falls & (high < 0)))[:1].tolist()
    return rows
