"""Published numbers, each of a sum of cells with a law of its own: rows of integers, numbers, laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf.invariants.names import Names
from ppdinf.laws.observation_model import IndependentLaw, ObservationModel

__all__ = ["Entries"]

RARE = 1e-12
"""Probability of noise that goes further than its reach."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Published numbers, each of a sum of cells with a law of its own.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array of int64, shape (k, d)
        The sums: one row per published number.
    names : sequence of str
    y : array of int64, shape (k,)
        What was published; `ppdinf.laws.thresholded.ABSENT` for what stayed below its threshold.
    forms : tuple of (ObservationModel, array of int64)
        Laws, each with the entries that have it.
    """

    matrix: sp.csr_array
    names: Sequence[str]
    y: NDArray[np.int64]
    forms: tuple[tuple[ObservationModel, NDArray[np.int64]], ...]

    @property
    def are_independent(self) -> bool:
        """Whether each has noise of its own, not one scale for several."""
        return all(isinstance(form, IndependentLaw) for form, _ in self.forms)

    def log_weights(self, sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log weight of every entry given possible values of its sum, shape (k, ...)."""
        found = np.empty(sums.shape)
        for form, rows in self.forms:
            y = self.y[rows].reshape(-1, *[1] * (sums.ndim - 1))
            found[rows] = form.log_weight(y, sums[rows])
        return found

    def support_bounds(self, tail_probability: float = RARE) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest value of each sum that its entry comes from, but with probability `rare`."""
        low, high = np.empty(self.y.size), np.empty(self.y.size)
        for form, rows in self.forms:
            low[rows], high[rows] = form.support_bounds(self.y[rows], tail_probability)
        return low, high

    def publish(self, sums: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Publish other sums, shape (n, k), by the same laws."""
        drawn = np.empty(sums.shape, dtype=np.int64)
        for form, rows in self.forms:
            drawn[:, rows] = form.publish(sums[:, rows], rng)
        return drawn

    def only(self, rows: NDArray[np.int64]) -> Entries:
        """Return some of the entries, in the order given."""
        place = np.full(self.y.size, -1)
        place[rows] = np.arange(rows.size)
        forms = [(form, place[own][place[own] >= 0]) for form, own in self.forms]
        names = _Chosen(self.names, rows)
        return Entries(self.matrix[rows], names, self.y[rows], tuple((f, own) for f, own in forms if own.size))


class _Chosen(Names):
    """Some of a sequence of names, spelled out when asked for."""

    def __init__(self, names: Sequence[str], rows: NDArray[np.int64]) -> None:
        self._names, self._rows = names, rows

    def __len__(self) -> int:
        return int(self._rows.size)

    def name(self, row: int) -> str:
        """Name of one row."""
        return self._names[int(self._rows[row])]
