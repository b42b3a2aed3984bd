"""Randomized response with two answers: the number of reported answers given the number of true ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from ppdinf._internal.frozen import assign, construct
from ppdinf._internal.types import Json, Symbolic
from ppdinf.errors import PrivacyError
from ppdinf.laws.law_array import PerEntry
from ppdinf.laws.observation_model import Column, IndependentLaw

LARGEST = 20_000  # largest number of respondents: a column takes about N^2 operations
ROWS = 2**22  # terms that are summed together


@dataclass(frozen=True)
class RandomizedResponse(PerEntry, IndependentLaw):
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
    are a `ppdinf.models.ConstrainedCounts` with the published sums by report (docs/measurements.md).

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
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= LARGEST:
            raise PrivacyError(f"respondents must be an integer from 1 to {LARGEST:,}, found {n!r}")
        for name in ("keep", "flip"):
            p = getattr(self, name)
            if isinstance(p, bool) or not isinstance(p, int | float | np.number) or not 0 <= p <= 1:
                raise PrivacyError(f"{name} must be a probability, found {p!r}")
        if self.keep == self.flip:
            raise PrivacyError("keep and flip must differ: otherwise reports do not depend on answers")
        assign(self, respondents=int(n), keep=float(self.keep), flip=float(self.flip))

    def to_dict(self) -> Json:
        """Return the name and the parameters."""
        return {
            "name": self.name, "respondents": str(self.respondents), "keep": repr(self.keep), "flip": repr(self.flip)
        }  # fmt: skip

    @classmethod
    def _of_texts(cls, data: Json) -> RandomizedResponse:
        convert = {"respondents": int, "keep": float, "flip": float}
        stated = {key: convert.get(key, str)(value) for key, value in data.items() if key != "name"}
        return construct(cls, stated, "randomized response")

    @property
    def gives(self) -> str:
        """Description of a published number, for messages."""
        return f"which is a number of {self.respondents} respondents"

    @lru_cache(maxsize=1024)  # noqa: B019  (laws are values: equal ones share an entry)
    def _log_p(self, y: int) -> NDArray[np.float64]:
        """Log probability of y for x = 0, ..., N, padded on both sides by ``-inf``."""
        n, found = self.respondents, np.full(self.respondents + 3, -np.inf)
        if not 0 <= y <= n:
            return found
        from_keepers = np.arange(y + 1)
        rows = max(ROWS // (y + 1), 1)
        for start in range(0, n + 1, rows):
            x = np.arange(start, min(start + rows, n + 1))[:, None]
            terms = _binomial(from_keepers, x, self.keep) + _binomial(y - from_keepers, n - x, self.flip)
            found[x.ravel() + 1] = logsumexp(terms, axis=1)
        return found

    def log_weight(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Return the log probability of each y given the count x, elementwise."""
        y, x = np.broadcast_arrays(np.asarray(y, dtype=np.int64), np.asarray(x, dtype=np.int64))
        place, found = np.clip(x + 1, 0, self.respondents + 2), np.empty(x.shape)
        for value in np.unique(y).tolist():
            found[y == value] = self._log_p(value)[place[y == value]]
        return found

    def is_possible(self, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each number has positive probability for some count."""
        return np.array([np.isfinite(self._log_p(int(value))).any() for value in y], dtype=bool)

    @property
    def outside(self) -> float:
        """Sum of the probabilities of all reports over all counts, for both ends."""
        return 2.0 * (self.respondents + 1)

    def support_bounds(self, y: Symbolic, tail_probability: float) -> tuple[Symbolic, Symbolic]:
        """Return the smallest and largest count given each y, except with relative weight `tail_probability`."""
        y = np.asarray(y)
        low, high = np.zeros(y.shape), np.zeros(y.shape)
        for value in np.unique(y).tolist():
            log_p = self._log_p(int(value))[1:-1]
            p = np.exp(log_p - log_p.max()) if np.isfinite(log_p).any() else np.ones(log_p.size)
            below, above = np.cumsum(p), np.cumsum(p[::-1])
            possible = np.isfinite(log_p) if tail_probability <= 0 else below > tail_probability * below[-1]
            low[y == value] = possible.argmax()
            possible = np.isfinite(log_p[::-1]) if tail_probability <= 0 else above > tail_probability * above[-1]
            high[y == value] = self.respondents - possible.argmax()
        return low, high

    def columns(self, y: NDArray[Any]) -> list[Column]:
        """Return one column of log probabilities for each different number of reports."""
        found = []
        for value in np.unique(y).tolist():
            own = np.flatnonzero(y == value)
            found.append(Column(self._log_p(value)[1:-1], own, np.zeros_like(own)))
        return found

    def publish(self, x: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the reports."""
        return rng.binomial(x, self.keep) + rng.binomial(self.respondents - x, self.flip)


def _binomial(k: NDArray[np.int64], n: NDArray[np.int64], p: float) -> NDArray[np.float64]:
    """Return the log probability of k of n successes; ``-inf`` for k > n."""
    rest = np.maximum(n - k, 0)
    log_p: NDArray[np.float64] = gammaln(n + 1) - gammaln(k + 1) - gammaln(rest + 1) + xlogy(k, p) + xlog1py(rest, -p)
    return np.where(k <= n, log_p, -np.inf)
