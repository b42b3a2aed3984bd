"""Mechanisms for one count: a matrix of probabilities of released counts given true counts.

Privacy between a count and the next one bounds the ratio of neighbouring entries in every column. A column that is
stored as a sum of scales (`ppdinf.counts.scales`) satisfies the bound by construction: each ratio is an average of
exp(epsilon) and exp(-epsilon). For a matrix of log probabilities the ratio is measured. `CountMechanism.audit` checks
both.

N. Kohli, P. Laskowski, "Preserving target distributions with differentially private count mechanisms", Section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from ppdinf._internal.rationals import ball
from ppdinf._internal.values import Integers, Reals
from ppdinf.counts.distribution import as_distribution, require_counts
from ppdinf.counts.scales import Scales, add_scales, depths, falling, scales_ratio
from ppdinf.errors import PrivacyError
from ppdinf.mechanisms.transition import deltas
from ppdinf.noise.primitives.enclosures import draw_rows
from ppdinf.noise.primitives.stream import BitStream, seeded_stream


@dataclass(frozen=True)
class MechanismAudit:
    """Measured properties of a mechanism.

    Attributes
    ----------
    row_error : float
        Largest distance of a row sum from 1.
    fixed_point_error : float or None
        Largest change of a probability of the fixed point; None without a fixed point.
    epsilon : float
        Largest absolute log ratio of neighbouring entries in a column. It is infinite if one of the entries is 0. The
        mechanism chooses a trade-off between epsilon and delta (pure mechanisms have delta 0).
    stated : Fraction
        The epsilon of the mechanism's parameters.
    delta : float
        Smallest delta for which neighbouring rows are (stated, delta)-indistinguishable.
    scales : int or None
        Number of scales, if the mechanism is stored as scales.
    most_scales : int or None
        Upper bound on the number of scales of extreme mechanisms with this fixed point (Corollary 2).

    See Also
    --------
    ppdinf.counts.CountMechanism

    Examples
    --------
    >>> import ppdinf as ppd
    >>> audit = ppd.counts.truncated_geometric(5, epsilon=0.5).audit()
    >>> audit.epsilon, audit.stated, audit.delta
    (0.5, Fraction(1, 2), 0.0)
    """

    row_error: float
    fixed_point_error: float | None
    epsilon: float
    stated: Fraction
    delta: float
    scales: int | None
    most_scales: int | None


class CountMechanism:
    """A distribution of released counts 0 to n - 1 for every true count 0 to n - 1.

    The constructors are `heuristic`, `optimal`, `unfixed`, `truncated_geometric`, `bounded_geometric`, `staircase` and
    `discrete_gaussian`.

    Attributes
    ----------
    n : int
        Number of possible counts.
    epsilon : Fraction
        Stated privacy loss between a count and the next one.
    delta : Fraction
        Probability with which epsilon may be exceeded; positive for `bounded_geometric` and `discrete_gaussian`.
    name : str
    z : ndarray of float64, shape (n,), or None
        Distribution of counts that the mechanism preserves (its fixed point).
    scales : Scales or None
        The columns as sums of scales.

    See Also
    --------
    ppdinf.counts.optimal, ppdinf.counts.heuristic, ppdinf.counts.staircase, ppdinf.Transition

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
        self, n: int, epsilon: Fraction, name: str, *, log_matrix: Reals | None = None,
        scales: Scales | None = None, z: Reals | None = None, delta: Fraction = Fraction(0),
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
        z: Reals | None = None,
    ) -> CountMechanism:
        """Construct a mechanism from scales: the column, the largest entry and the pattern of each scale."""
        scales = Scales(np.asarray(column), np.asarray(peak, dtype=np.float64), np.asarray(rising, dtype=bool))
        return cls(scales.rising.shape[1] + 1, epsilon, name, scales=scales, z=z)

    @classmethod
    def of_logarithms(
        cls, log_matrix: Reals, epsilon: Fraction, *, name: str, z: Reals | None = None,
        delta: Fraction = Fraction(0),
    ) -> CountMechanism:  # fmt: skip
        """Construct a mechanism from log probabilities, shape (n, n)."""
        return cls(log_matrix.shape[0], epsilon, name, log_matrix=log_matrix, z=z, delta=delta)

    def __repr__(self) -> str:
        return f"<CountMechanism {self.name}: {self.n} counts, epsilon {self.epsilon}>"

    @cached_property
    def matrix(self) -> Reals:
        """Probabilities ``matrix[count, released]``, shape (n, n); entries below about 1e-308 are 0."""
        if self.scales is None:
            assert self._log_matrix is not None
            matrix = np.exp(self._log_matrix)
        else:
            matrix = np.zeros((self.n, self.n))
            table = falling(np.arange(self.n), self.epsilon)
            add_scales(self.scales.column, self.scales.peak, self.scales.rising, table, matrix)
        matrix.setflags(write=False)
        return matrix

    @cached_property
    def row_error(self) -> float:
        """Largest distance of a row sum from 1."""
        return float(np.abs(self.matrix.sum(axis=1) - 1).max())

    def audit(self) -> MechanismAudit:
        """Measure the stated properties of the mechanism.

        The cost is O(n k) for k scales and O(n^2) for log probabilities: 0.1 s for 2,000 counts.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> audit = ppd.counts.truncated_geometric(5, epsilon=0.5).audit()
        >>> audit.epsilon, audit.row_error < 1e-15
        (0.5, True)
        """
        fixed = None if self.z is None else float(np.abs(self.z @ self.matrix - self.z).max())
        of_scales = self.scales is not None
        return MechanismAudit(
            row_error=self.row_error,
            fixed_point_error=fixed,
            epsilon=self._worst_ratio(),
            stated=self.epsilon,
            delta=0.0 if of_scales else float(deltas(self.matrix, float(self.epsilon)).max()),
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
        steps[np.isnan(steps)] = 0.0  # both entries are zero
        return float(steps.max(initial=0.0))

    def count_error(self, z: ArrayLike | None = None, *, power: int = 1) -> float:
        """Return the expected absolute deviation of a released count, or its mean squared error.

        Parameters
        ----------
        z : array_like of float, shape (n,), optional
            Distribution of the true counts; by default the fixed point.
        power : int
            1 for ``E|released - count|``, 2 for the squared error.

        Examples
        --------
        >>> import ppdinf as ppd
        >>> round(ppd.counts.truncated_geometric(3, epsilon=1).count_error([0.5, 0.3, 0.2]), 4)
        0.4189
        """
        distribution = self.z if z is None else as_distribution(z)
        if distribution is None:
            raise PrivacyError(
                "z, the distribution of the true counts, is required: the mechanism does not have a fixed point"
            )
        if distribution.size != self.n:
            raise PrivacyError(f"z must have {self.n} probabilities like the mechanism, found {distribution.size}")
        away = np.abs(np.arange(self.n)[:, np.newaxis] - np.arange(self.n)) ** power
        return float(distribution @ (self.matrix * away).sum(axis=1))

    def simulate(self, counts: ArrayLike, rng: int | np.random.Generator | None = None) -> Integers:
        """Draw a released count for every count, for research; `TwoStage` draws releases.

        A million counts take about 0.1 s, because equal counts are drawn together.

        Parameters
        ----------
        counts : array_like of int from 0 to n - 1
        rng : int or numpy.random.Generator, optional

        Returns
        -------
        ndarray of int64, in the shape of `counts`

        Examples
        --------
        >>> import ppdinf as ppd
        >>> ppd.counts.truncated_geometric(5, epsilon=1).simulate([0, 0, 4, 2], rng=1)
        array([0, 2, 3, 4])
        """
        return self.draw(counts, seeded_stream(np.random.default_rng(rng)))

    def draw(self, counts: ArrayLike, stream: BitStream) -> Integers:
        """Draw a released count for every count from uniform words, exactly from the stated law.

        The exact probabilities are sums of ``peak * exp(-epsilon depth)`` with the stored peaks, divided by the row
        sums. Rounding errors do not affect a draw (`ppdinf.noise.primitives.enclosures`).

        Parameters
        ----------
        counts : array_like of int from 0 to n - 1
        stream : BitStream

        Returns
        -------
        ndarray of int64, in the shape of `counts`
        """
        cells = require_counts(counts, self.n)
        return draw_rows(self.matrix, cells.ravel(), self.enclosed, stream).reshape(cells.shape)

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
    def _depths(self) -> Integers:
        assert self.scales is not None
        return depths(self.scales.rising)
