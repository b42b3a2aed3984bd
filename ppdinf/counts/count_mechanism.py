"""Mechanisms for one count: a row of probabilities of each released count for every true one.

Privacy between a count and the next bounds the ratio of neighbouring entries in every column. Kept as scales (see
`ppdinf.counts.scales`) a column meets the bound by construction: each ratio is an average of exp(epsilon) and
exp(-epsilon). Kept as logarithms of entries it has to be measured. Both are audited in one go.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from ppdinf._internal.rationals import ball
from ppdinf.counts.distribution import as_distribution, require_counts
from ppdinf.counts.scales import depths, falling
from ppdinf.counts.sums_of_scales import Scales, add_scales, scales_ratio
from ppdinf.errors import PrivacyError
from ppdinf.noise.primitives.categorical_rows import draw_rows
from ppdinf.noise.primitives.stream import BitStream, seeded_stream

__all__ = ["Audit", "CountMechanism", "Scales"]


@dataclass(frozen=True)
class Audit:
    """What a mechanism keeps, measured.

    Attributes
    ----------
    row_error : float
        Largest distance of a row's sum from 1.
    fixed_point_error : float or None
        Largest change of a probability of the fixed point; None without one.
    epsilon : float
        Largest absolute logarithm of the ratio of neighbouring entries in a column, infinite where one of the two is
        0; between it and delta the mechanism chooses one (pure mechanisms have delta 0).
    stated : Fraction
        The epsilon that was asked for.
    delta : float
        Smallest delta for which neighbouring rows are (stated, delta) indistinguishable.
    scales : int or None
        Number of scales, where the mechanism is kept as such.
    most_scales : int or None
        Number that no extreme mechanism with this fixed point exceeds (Corollary 2).
    """

    row_error: float
    fixed_point_error: float | None
    epsilon: float
    stated: Fraction
    delta: float
    scales: int | None
    most_scales: int | None


class CountMechanism:
    """A law of released counts 0 to n - 1 for every true count 0 to n - 1.

    Made by `heuristic`, `optimal`, `unfixed`, `truncated_geometric`, `staircase` and `discrete_gaussian`.

    Attributes
    ----------
    n : int
        Number of possible counts.
    epsilon : Fraction
        Privacy loss between a count and the next, as asked for.
    delta : Fraction
        Probability with which it may be exceeded; 0 for all but the discrete Gaussian.
    name : str
    z : ndarray of float64, shape (n,), or None
        Distribution of counts that the mechanism leaves as it is.
    scales : Scales or None
        The columns as sums of scales.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> mechanism = ppd.counts.heuristic([0.5, 0.3, 0.2], epsilon=1)
    >>> mechanism.scales.column, mechanism.audit().epsilon
    (array([0, 0, 2, 1, 1]), 1.0)
    >>> (mechanism.z @ mechanism.matrix).round(12)
    array([0.5, 0.3, 0.2])
    """

    def __init__(
        self, n: int, epsilon: Fraction, name: str, *, log_matrix: NDArray[np.float64] | None = None,
        scales: Scales | None = None, z: NDArray[np.float64] | None = None, delta: Fraction = Fraction(0),
    ) -> None:  # fmt: skip
        self.n, self.epsilon, self.name, self.z, self.delta = n, epsilon, name, z, delta
        self.scales = scales
        self._log_matrix = log_matrix

    @classmethod
    def of_scales(
        cls,
        column: ArrayLike,
        peak: ArrayLike,
        rising: ArrayLike,
        epsilon: Fraction,
        *,
        name: str,
        z: NDArray[np.float64] | None = None,
    ) -> CountMechanism:
        """Make a mechanism of scales: the column of each, its largest entry and its pattern."""
        scales = Scales(np.asarray(column), np.asarray(peak, dtype=np.float64), np.asarray(rising, dtype=bool))
        return cls(scales.rising.shape[1] + 1, epsilon, name, scales=scales, z=z)

    @classmethod
    def of_logarithms(
        cls, log_matrix: NDArray[np.float64], epsilon: Fraction, *, name: str, z: NDArray[np.float64] | None = None,
        delta: Fraction = Fraction(0),
    ) -> CountMechanism:  # fmt: skip
        """Make a mechanism of the logarithms of its entries, shape (n, n)."""
        return cls(log_matrix.shape[0], epsilon, name, log_matrix=log_matrix, z=z, delta=delta)

    def __repr__(self) -> str:
        return f"<CountMechanism {self.name}: {self.n} counts, epsilon {self.epsilon}>"

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Probabilities ``matrix[count, released]``, shape (n, n); entries below 1e-308 or so are 0."""
        if self.scales is None:
            assert self._log_matrix is not None
            found = np.exp(self._log_matrix)
        else:
            found = np.zeros((self.n, self.n))
            table = falling(np.arange(self.n), self.epsilon)
            add_scales(self.scales.column, self.scales.peak, self.scales.rising, table, found)
        found.setflags(write=False)
        return found

    @cached_property
    def row_error(self) -> float:
        """Largest distance of a row's sum from 1."""
        return float(np.abs(self.matrix.sum(axis=1) - 1).max())

    def audit(self) -> Audit:
        """Measure what the mechanism promises.

        Returns
        -------
        Audit

        Notes
        -----
        O(n k) for k scales, O(n^2) for logarithms: 0.1 s for 2,000 counts.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> audit = ppd.counts.truncated_geometric(5, epsilon=0.5).audit()
        >>> audit.epsilon, audit.row_error < 1e-15
        (0.5, True)
        """
        fixed = None if self.z is None else float(np.abs(self.z @ self.matrix - self.z).max())
        of_scales = self.scales is not None
        return Audit(
            row_error=self.row_error,
            fixed_point_error=fixed,
            epsilon=self._worst_ratio(),
            stated=self.epsilon,
            delta=0.0 if of_scales else _delta(self.matrix, float(self.epsilon)),
            scales=self.scales.column.size if self.scales is not None else None,
            most_scales=None if self.z is None else int(np.count_nonzero(self.z)) + self.n - 1,
        )

    def _worst_ratio(self) -> float:
        if self.scales is not None:
            return scales_ratio(self.scales, float(self.epsilon))
        log = self._log_matrix
        assert log is not None
        with np.errstate(invalid="ignore"):
            steps = np.abs(np.diff(log, axis=0))
        steps[np.isnan(steps)] = 0.0  # zero beside zero
        return float(steps.max(initial=0.0))

    def count_error(self, z: ArrayLike | None = None, *, power: int = 1) -> float:
        """Return the expected absolute deviation of a released count, or its mean squared error.

        Parameters
        ----------
        z : array_like of float, shape (n,), optional
            Distribution of the true counts; without it, the fixed point.
        power : int
            1 for ``E|released - count|``, 2 for the squared error.

        Returns
        -------
        float

        Examples
        --------
        >>> import ppdinf as ppd
        >>> round(ppd.counts.truncated_geometric(3, epsilon=1).count_error([0.5, 0.3, 0.2]), 4)
        0.4189
        """
        given = self.z if z is None else as_distribution(z)
        if given is None:
            raise PrivacyError("this mechanism has no fixed point: say how the true counts are distributed")
        if given.size != self.n:
            raise PrivacyError(f"the mechanism is for {self.n} counts, the distribution for {given.size}")
        away = np.abs(np.arange(self.n)[:, np.newaxis] - np.arange(self.n)) ** power
        return float(given @ (self.matrix * away).sum(axis=1))

    def simulate(self, counts: ArrayLike, rng: int | np.random.Generator | None = None) -> NDArray[np.int64]:
        """Draw a released count for every count, for research; a release is drawn by `TwoStage`.

        Parameters
        ----------
        counts : array_like of int from 0 to n - 1
        rng : int or numpy.random.Generator, optional

        Returns
        -------
        ndarray of int64, in the shape of `counts`

        Notes
        -----
        A million counts take 0.1 s or so: those of one value are drawn together.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> ppd.counts.truncated_geometric(5, epsilon=1).simulate([0, 0, 4, 2], rng=1)
        array([0, 2, 3, 4])
        """
        return self.draw(counts, seeded_stream(np.random.default_rng(rng)))

    def draw(self, counts: ArrayLike, stream: BitStream) -> NDArray[np.int64]:
        """Draw a released count for every count from uniform words, exactly by the stated law.

        Scales are real numbers, sums of ``peak * exp(-epsilon depth)`` with the peaks as they are stored; rows are
        divided by their sums. No floating point decides a draw (`ppdinf.noise.primitives.categorical_rows`).

        Parameters
        ----------
        counts : array_like of int from 0 to n - 1
        stream : BitStream

        Returns
        -------
        ndarray of int64, in the shape of `counts`
        """
        found = require_counts(counts, self.n)
        return draw_rows(self.matrix, found.ravel(), self.enclosed, stream).reshape(found.shape)

    def enclosed(self, i: int) -> list[arb]:
        """Enclose the entries of row i at Arb's working precision."""
        if self.scales is None:
            assert self._log_matrix is not None
            return [arb(0) if entry == -np.inf else arb(float(entry)).exp() for entry in self._log_matrix[i]]
        row = [arb(0)] * self.n
        for k, depth in enumerate(self._depths[:, i].tolist()):
            row[self.scales.column[k]] += arb(float(self.scales.peak[k])) * (-ball(self.epsilon) * depth).exp()
        return row

    @cached_property
    def _depths(self) -> NDArray[np.int64]:
        assert self.scales is not None
        return depths(self.scales.rising)


def _delta(matrix: NDArray[np.float64], epsilon: float) -> float:
    """Smallest delta with which neighbouring rows are (epsilon, delta) indistinguishable."""
    factor = math.exp(epsilon)
    up = np.maximum(matrix[1:] - factor * matrix[:-1], 0).sum(axis=1)
    down = np.maximum(matrix[:-1] - factor * matrix[1:], 0).sum(axis=1)
    return float(max(up.max(), down.max()))
