"""The likelihood of a mechanism's release: the density of the release as a function of the confidential cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from ppdinf._internal.values import Integers, Reals, Symbolic
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.laws.preimage import Auxiliary, CensoredNoise, PreimageShift
from ppdinf.laws.transition_matrix import TransitionMatrix
from ppdinf.laws.unknown_scale import NoiseScales


@dataclass(frozen=True, eq=False)
class HistogramNoise:
    """Law of noisy sums of a histogram as a function of the table."""

    measured: Integers
    lowest: Integers
    steps: sparse.csc_array
    rate: float
    shifted: bool = False

    @property
    def n(self) -> int:
        """Number of possible counts."""
        return int(self.steps.shape[1]) + 1

    def left(self, cells: Integers) -> Integers:
        """Return the residual noise given a table, shape (k,): measured sums minus the sums of the table."""
        # number of cells above each count
        above = cells.size - np.cumsum(np.bincount(cells.ravel(), minlength=self.n))[:-1]
        return self.measured - cells.size * self.lowest - self.steps @ above

    def log_density(self, cells: Integers) -> float:
        """Return the log probability of the noisy sums given a table."""
        if ((cells < 0) | (cells >= self.n)).any():
            return -math.inf
        left = self.left(cells)
        log_weight = _log_shifted(left, self.rate) if self.shifted else -self.rate * float(np.abs(left).sum())
        return log_weight + left.size * math.log(math.tanh(self.rate / 2))


def _log_shifted(left: Integers, rate: float) -> float:
    """Return the log of the sum over integers c of ``exp(-rate |left + c|_1)``; both tails are geometric series."""
    low, high = -int(left.max()), -int(left.min())  # the signs of left + c change between these values
    ordered = np.sort(left)
    sums = np.append(0, np.cumsum(ordered))
    c = np.arange(low, high + 1)
    below = np.searchsorted(ordered, -c)  # number of entries with left + c < 0
    norm = sums[-1] - 2 * sums[below] + c * (left.size - 2 * below)
    tails = -rate * norm[[0, -1]] - math.log(math.expm1(rate * left.size))
    return float(np.logaddexp.reduce(np.concatenate([-rate * norm, tails])))


def unknown_constant() -> None:
    """Return None: the total weight of all releases of a table cannot be summed."""


@dataclass(frozen=True)
class MixingScale(Auxiliary):
    """The half-normal scale of a mixture of Gaussians; given the scale, the cells are independent."""

    cells: int
    name: ClassVar[str] = "noise_scale"
    is_scalar: ClassVar[bool] = True
    is_bounded: ClassVar[bool] = True

    @property
    def typical(self) -> float:
        """A typical value of the scale."""
        return math.sqrt(self.cells)

    def of_weights(self, scale: Symbolic) -> tuple[Symbolic, ...]:
        """Return the scale."""
        return (scale,)


@dataclass(frozen=True, eq=False)
class RemovedShift(Auxiliary):
    """The component of independent noise that a projection removed: coordinates with density exp(-|t|_1)."""

    directions: sparse.csr_array
    name: ClassVar[str] = "noise_shift"

    def shifted(self, y: Symbolic, shift: Symbolic) -> Symbolic:
        """Return the released table before its projection, shape (d,); NumPy or PyTensor."""
        return y + self.directions.toarray() @ shift

    def log_prior_in_weights(self, shift: Symbolic) -> Symbolic:
        """Return the log density of the prior, which the weights of shifted tables contain."""
        return -abs(shift).sum()


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Total weight C(x) of all releases of a table, if it depends on the table."""

    log: Callable[[Integers], float] | None


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The law of a release as a function of the confidential cells, for the public sums of one table."""

    form: AdditiveLaw | TransitionMatrix | NoiseNorm | CensoredNoise
    support_radius: int
    auxiliary: MixingScale | RemovedShift | PreimageShift | NoiseScales | None = None
    normaliser: Normaliser | None = None
    query: sparse.csr_array | None = None
    records: Callable[[Reals], int | None] | None = None
    follows_bounds: bool = False
    histogram: HistogramNoise | None = None
    of_table: Callable[[Integers], float] | None = None
    is_of_release: bool = False
    constant: Callable[[], float | None] = float  # float() is 0

    @property
    def norm(self) -> NoiseNorm | None:
        """The norm if the weights are not a product over the cells, otherwise None."""
        return self.form if isinstance(self.form, NoiseNorm) else None

    @property
    def is_fixed_by_cell(self) -> bool:
        """Whether the weights of single cells do not depend on an auxiliary variable."""
        return self.norm is None and (self.auxiliary is None or self.has_unknown_scale)

    @property
    def has_unknown_scale(self) -> bool:
        """Whether the model learns scales; weights without an auxiliary variable are then those of a wide scale."""
        return isinstance(self.auxiliary, NoiseScales)

    @property
    def looks_at_table(self) -> bool:
        """Whether the likelihood has a factor of the whole table (`log_of_table`)."""
        return self.histogram is not None or self.normaliser is not None or self.of_table is not None

    def log_of_table(self, cells: Integers) -> float:
        """Return `of_table` and the log density of noisy sums of the histogram, minus the log normaliser, if any."""
        log_density = 0.0 if self.histogram is None else self.histogram.log_density(cells)
        log_density += 0.0 if self.of_table is None else self.of_table(cells)
        if self.normaliser is None or self.normaliser.log is None:
            return log_density
        return log_density - self.normaliser.log(cells)

    def log_counts(self, y: Symbolic, counts: Symbolic, *auxiliary: Symbolic) -> Symbolic:
        """Return log weights of a release, shape (d,), given several counts of each cell, shape (d, n)."""
        assert not isinstance(self.form, NoiseNorm)
        taken = () if self.auxiliary is None else self.auxiliary.of_weights(*auxiliary)
        return self.form.log_weight(self.shifted(y, *auxiliary)[:, None], counts, *taken)

    def log_table(self, y: Symbolic, answers: Symbolic, *auxiliary: Symbolic) -> Symbolic:
        """Return the log weight of a release given the answers on a table, both of shape (d,); NumPy or PyTensor."""
        taken = () if self.auxiliary is None else self.auxiliary.of_weights(*auxiliary)
        y = self.shifted(y, *auxiliary)
        if isinstance(self.form, NoiseNorm):
            log_weight = self.form.of(self.form.image(y - answers))
        else:
            log_weight = self.form.log_weight(y, answers, *taken).sum()
        return log_weight - self.log_prior_in_weights(*auxiliary)

    def shifted(self, y: Symbolic, *auxiliary: Symbolic) -> Symbolic:
        """Return the released table, shape (d,), before a projection of its noise; NumPy or PyTensor."""
        return y if self.auxiliary is None else self.auxiliary.shifted(y, *auxiliary)

    def log_prior_in_weights(self, *auxiliary: Symbolic) -> Symbolic:
        """Return the part of the log prior of the auxiliary variable that the weights contain."""
        return 0.0 if self.auxiliary is None else self.auxiliary.log_prior_in_weights(*auxiliary)
