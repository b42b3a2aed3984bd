"""Cells that are released independently through a transition matrix; the law need not depend on the noise alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppdinf._internal.arrays import numbers
from ppdinf._internal.frozen import assign, construct
from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.observation_model import Column, IndependentLaw

ROUNDING = 1e-6  # tolerance for the sum of a row


@dataclass(frozen=True, eq=False)
class TransitionMatrix(IndependentLaw):
    """Probabilities P(y | x) of every released count for every count; both start at 0.

    Attributes
    ----------
    probabilities : array of float64, shape (counts, released counts)

    Raises
    ------
    PrivacyError
        The array is not a matrix, or a row is not a probability vector.

    See Also
    --------
    ppdinf.Transition, ppdinf.laws.RandomizedResponse

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import TransitionMatrix
    >>> rounded = TransitionMatrix(np.array([[1.0, 0.0], [0.5, 0.5]]))
    >>> np.exp(rounded.log_weight(np.array([0, 1, 2]), np.array([1, 1, 1])))
    array([0.5, 0.5, 0. ])
    """

    name: ClassVar[str] = "transition-matrix"
    probabilities: NDArray[np.float64]

    def __post_init__(self) -> None:
        p = numbers(self.probabilities, "a transition matrix")
        if p.ndim != 2 or not p.size:
            raise PrivacyError(
                f"a transition matrix must be two-dimensional, with one row for every count, found shape {p.shape}"
            )
        wrong = np.flatnonzero((p < 0).any(axis=1) | ~(np.abs(p.sum(axis=1) - 1) < ROUNDING))
        if wrong.size:
            raise PrivacyError(f"row {wrong[0]} is not a probability vector: entries must be non-negative and sum to 1")
        assign(self, probabilities=p)

    def to_dict(self) -> Json:
        """Return the name and the probabilities."""
        return {"name": self.name, "probabilities": self.probabilities}

    @classmethod
    def _of_texts(cls, data: Json) -> TransitionMatrix:
        return construct(cls, {key: value for key, value in data.items() if key != "name"}, "a transition matrix")

    @cached_property
    def _log_probabilities(self) -> NDArray[np.float64]:
        """Log probabilities, padded on all sides by ``-inf``."""
        with np.errstate(divide="ignore"):
            return np.pad(np.log(self.probabilities), 1, constant_values=-np.inf)

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each released y given the count x, elementwise; ``-inf`` outside the matrix.

        NumPy or PyTensor.
        """
        log_p = self._log_probabilities
        sized = ((x, log_p.shape[0]), (y, log_p.shape[1]))
        if isinstance(x, np.ndarray | int | np.integer | float):
            row, column = (np.clip(np.asarray(value, dtype=np.int64) + 1, 0, size - 1) for value, size in sized)
            return log_p[row, column]
        import pytensor.tensor as pt

        row, column = (pt.clip(pt.as_tensor(value) + 1, 0, size - 1).astype("int64") for value, size in sized)
        return pt.as_tensor(log_p)[row, column]

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return "whose probability is 0 in every row of the matrix"

    def is_possible(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each number has positive probability for some count."""
        possible = np.append((self.probabilities > 0).any(axis=0), False)
        return possible[np.where((y >= 0) & (y < possible.size), y, -1)]

    @property
    def outside(self) -> float:
        """The number of different published numbers, since each is compared with its most probable count."""
        return float(self.probabilities.shape[1])

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y whose relative probability exceeds `tail_probability`."""
        possible = self.probabilities > tail_probability * self.probabilities.max(axis=0, initial=0)
        first, last = possible.argmax(axis=0), possible.shape[0] - 1 - possible[::-1].argmax(axis=0)
        column = np.clip(np.asarray(y, dtype=np.int64), 0, first.size - 1)
        return first[column], last[column]

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column of log probabilities for each different released number."""
        counts = np.arange(self.probabilities.shape[0])
        different, number = np.unique(y, return_inverse=True)
        found = []
        for k, value in enumerate(different):
            own = np.flatnonzero(number == k)
            found.append(Column(self.log_weight(np.full(counts.size, value), counts), own, np.zeros_like(own)))
        return found

    def column_below(self, threshold: int) -> Column:
        """Return the log probability of numbers below the threshold for every row."""
        with np.errstate(divide="ignore"):
            log_p = np.log(self.probabilities[:, : max(threshold, 0)].sum(axis=1))
        return Column(log_p, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw a released number for each count from its row."""
        rows = np.cumsum(self.probabilities, axis=1)[x]
        return (rng.random(x.shape)[..., None] * rows[..., -1:] >= rows).sum(axis=-1)
