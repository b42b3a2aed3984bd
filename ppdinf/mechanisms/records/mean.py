"""The mean of records in a unit ball, as an objective: its answers are sums on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from ppdinf.mechanisms.real.real_noise import FINE, grid_below
from ppdinf.mechanisms.records.objectives import Draw, Objective, Points, record_rows, require_positive, require_within
from ppdinf.noise.real.integer_k_norm import draw_integer_k_norm
from ppdinf.noise.real.k_norm_draws import K_NORMS, k_norm


@dataclass(frozen=True)
class Mean(Objective):
    """The mean of records in a ball: ``L = sum |x_i - y|_2^2 / 2``.

    Records are rounded towards 0 to multiples of the grid, and so is the noise of their sum: answers are these sums
    divided by the number of records. Rounding moves the mean by less than the grid in every coordinate.

    Parameters
    ----------
    bound : float
        Upper bound on the K-norm of every record: subtract the midpoint of the possible values first.

    See Also
    --------
    ppdinf.mechanisms.Quantile, ppdinf.KNormGradient

    Examples
    --------
    >>> import numpy as np
    >>> from ppdinf.mechanisms import Mean
    >>> Mean(1.0).gradient(np.array([[0.5], [0.1]]), np.array([[1.0]]))
    array([[1.4]])
    """

    always_exact: ClassVar[bool] = True
    bound: float

    def __post_init__(self) -> None:
        require_positive(self.bound, "bound")

    def records(self, data: object, norm: str) -> Points:
        """Return one row per record; a vector holds one number per record."""
        rows = record_rows(data, "records")
        require_within(np.linalg.norm(rows, K_NORMS[norm], axis=1), self.bound, f"{norm} norm of a record")
        return rows

    def assumed(self, norm: str) -> str:
        """Return the bound as a phrase."""
        return f"no record has an {norm} norm above {self.bound:g}"

    def dimension(self, records: Points) -> int:
        """Return the length of a record."""
        return int(records.shape[1])

    def gradient(self, records: Points, y: Points) -> Points:
        """Return ``n (y - mean)``."""
        return len(records) * (y - records.mean(axis=0))

    def sensitivity(self, y: Points, norm: str) -> Points:
        """Return the diameter of the ball."""
        return np.full(len(y), 2 * self.bound)

    def grid(self, records: Points, norm: str, rate: Fraction) -> Fraction:
        """Return a grid whose rounding of the records is small compared with the noise of their mean."""
        return grid_below(2 * self.bound / float(rate), steps=min(FINE * len(records), 2**32))

    def on_grid(self, records: Points, grid: Fraction | None) -> Points:
        """Round every number towards 0, so that no norm increases."""
        return records if grid is None else np.trunc(records / float(grid)) * float(grid)

    def exact(
        self, records: Points, basis: Points, norm: str, rate: Fraction, grid: Fraction | None
    ) -> tuple[str, Draw] | None:
        """Draw around the mean, on the whole space or in l2 on a subspace that contains the mean."""
        n, (d, m) = len(records), basis.shape
        if grid is not None:
            units = (records / float(grid)).astype(np.int64).sum(axis=0)
            step = rate * grid / (2 * Fraction(float(self.bound)))
            return (
                f"a {norm} law around the mean",
                # integers times a power of two, rounded once: a function of the exact number
                lambda draws, stream: (units + draw_integer_k_norm(d, norm, step, draws, stream)) * float(grid) / n,
            )
        mean = records.mean(axis=0)
        within = basis.T @ mean  # the component outside the subspace, which is rounding error, is not published
        if m < d and (norm != "l2" or np.linalg.norm(mean - basis @ within) > 1e-9 * self.bound):
            return None
        scale = 2 * self.bound / (n * float(rate))
        return (
            f"a {norm} law around the mean",
            lambda draws, stream: (within + scale * k_norm(m, norm, draws, stream)) @ basis.T,
        )
