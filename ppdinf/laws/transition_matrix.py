"""A transition matrix with the probability of every released count for every count, and randomized response."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from ppdinf._internal.values import Flags, Integers, Reals, Symbolic, assign, logarithms, numbers, require_number
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import PerEntry
from ppdinf.laws.observation_model import Column, IndependentLaw

ROUNDING = 1e-6  # tolerance for the sum of a row


class MatrixLaw(IndependentLaw):
    """Probabilities of published numbers for the counts 0, 1, ..., one column for each published number."""

    @abstractmethod
    def log_column(self, y: int) -> Reals:
        """Return the log probability of y for the counts 0, 1, ..., padded on both sides by ``-inf``."""

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each y given the count x, elementwise."""
        y, x = np.broadcast_arrays(np.asarray(y, dtype=np.int64), np.asarray(x, dtype=np.int64))
        weights = np.empty(x.shape)
        for value in np.unique(y).tolist():
            log_p = self.log_column(value)
            weights[y == value] = log_p[np.clip(x[y == value] + 1, 0, log_p.size - 1)]
        return weights

    def is_possible(self, y: Integers) -> Flags:
        """Return whether each number has positive probability for some count."""
        return np.array([np.isfinite(self.log_column(int(value))).any() for value in y], dtype=bool)

    @property
    @abstractmethod
    def outside(self) -> float:
        """The number of different published numbers, since each is compared with its most probable count."""

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y whose relative probability exceeds `tail_probability`."""
        y = np.asarray(y)
        log_tail = math.log(tail_probability) if tail_probability > 0 else -math.inf
        low, high = np.zeros(y.shape), np.zeros(y.shape)
        for value in np.unique(y).tolist():
            log_p = self.log_column(int(value))[1:-1]
            possible = log_p > log_p.max() + log_tail
            low[y == value], high[y == value] = possible.argmax(), log_p.size - 1 - possible[::-1].argmax()
        return low, high

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column of log probabilities for each different published number."""
        columns = []
        for value in np.unique(y).tolist():
            entries = np.flatnonzero(y == value)
            columns.append(Column(self.log_column(value)[1:-1], entries, np.zeros_like(entries)))
        return columns


@dataclass(frozen=True, eq=False)
class TransitionMatrix(MatrixLaw):
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
    gives: ClassVar[str] = "whose probability is 0 in every row of the matrix"
    probabilities: Reals

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

    @cached_property
    def _log_probabilities(self) -> Reals:
        """Log probabilities, padded on all sides by ``-inf``."""
        return np.pad(logarithms(self.probabilities), 1, constant_values=-np.inf)

    def log_column(self, y: int) -> Reals:
        """Return a column of the matrix, or ``-inf`` outside the matrix."""
        return self._log_probabilities[:, min(max(y, -1), self.probabilities.shape[1]) + 1]

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
    def outside(self) -> float:
        """The number of different published numbers, since each is compared with its most probable count."""
        return float(self.probabilities.shape[1])

    def column_below(self, threshold: int) -> Column:
        """Return the log probability of numbers below the threshold for every row."""
        log_p = logarithms(self.probabilities[:, : max(threshold, 0)].sum(axis=1))
        return Column(log_p, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Draw a released number for each count from its row."""
        rows = np.cumsum(self.probabilities, axis=1)[x]
        return (rng.random(x.shape)[..., None] * rows[..., -1:] >= rows).sum(axis=-1)


LARGEST = 20_000  # largest number of respondents: a column takes about N^2 operations
ROWS = 2**22  # terms that are summed together


@dataclass(frozen=True)
class RandomizedResponse(PerEntry, MatrixLaw):
    """Number of respondents who report an answer, of a known number of respondents (Warner, 1965).

    If x of N respondents have the answer, ``Y = Binomial(x, keep) + Binomial(N - x, flip)`` of them report it. The
    density is exact and normalized.

    Parameters
    ----------
    respondents : int or array of int
        N, from 1 to 20,000. An array states one number per entry.
    keep : float
        Probability that a respondent with the answer reports it.
    flip : float
        Probability that a respondent without the answer reports it.

    Raises
    ------
    PrivacyError
        A parameter is out of range, or ``keep`` equals ``flip``, so that reports do not depend on answers.

    See Also
    --------
    ppdinf.laws.TransitionMatrix

    Notes
    -----
    State the reports of one answer only: the number of the other answer is N minus it, and a second statement would
    count the same reports twice. Reports of more than two answers have a joint law: the persons by answer and report
    are a `ppdinf.models.ConstrainedCounts` with the published sums by report (docs/recipes.md).

    References
    ----------
    S. L. Warner, "Randomized response", J. Am. Stat. Assoc. 60 (1965).

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.laws import RandomizedResponse
    >>> coin = RandomizedResponse(10, keep=0.75, flip=0.25)
    >>> coin.log_weight(np.array([5]), np.arange(11)).argmax().item()
    5
    """

    name: ClassVar[str] = "randomized-response"
    respondents: int
    keep: float
    flip: float

    def __post_init__(self) -> None:
        n = self.respondents
        require_number(n, f"respondents must be an integer from 1 to {LARGEST:,}", 1, LARGEST)
        for name in ("keep", "flip"):
            require_number(getattr(self, name), f"{name} must be a probability", 0, 1, kinds=int | float | np.number)
        if self.keep == self.flip:
            raise PrivacyError("keep and flip must differ: otherwise reports do not depend on answers")
        assign(self, respondents=int(n), keep=float(self.keep), flip=float(self.flip))

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is a number of {self.respondents} respondents"

    @lru_cache(maxsize=1024)  # noqa: B019  (laws are values: equal ones share an entry)
    def log_column(self, y: int) -> Reals:
        """Return the log probability of y for x = 0, ..., N, padded on both sides by ``-inf``."""
        n, log_p = self.respondents, np.full(self.respondents + 3, -np.inf)
        if not 0 <= y <= n:
            return log_p
        from_keepers = np.arange(y + 1)
        rows = max(ROWS // (y + 1), 1)
        for start in range(0, n + 1, rows):
            x = np.arange(start, min(start + rows, n + 1))[:, None]
            terms = _binomial(from_keepers, x, self.keep) + _binomial(y - from_keepers, n - x, self.flip)
            log_p[x.ravel() + 1] = logsumexp(terms, axis=1)
        return log_p

    @property
    def outside(self) -> float:
        """The number of different reports."""
        return float(self.respondents + 1)

    def publish(self, x: Integers, rng: np.random.Generator) -> Integers:
        """Draw the reports."""
        return rng.binomial(x, self.keep) + rng.binomial(self.respondents - x, self.flip)


def _binomial(k: Integers, n: Integers, p: float) -> Reals:
    """Return the log probability of k of n successes; ``-inf`` for k > n."""
    rest = np.maximum(n - k, 0)
    log_p: Reals = gammaln(n + 1) - gammaln(k + 1) - gammaln(rest + 1) + xlogy(k, p) + xlog1py(rest, -p)
    return np.where(k <= n, log_p, -np.inf)
