"""How probable a release is given the confidential cells: what inference asks of a mechanism.

    p(y | x)  proportional to  w(y, W x | a) / C(x),     A y = A W x,

with weights w stated cell by cell or by a norm, a linear query W where answers were published, an auxiliary variable a
that is integrated out, and the total weight C(x) of all releases where that depends on the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ppdinf._internal.types import Symbolic
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.histogram_noise import HistogramNoise
from ppdinf.laws.noise_norm import NoiseNorm
from ppdinf.laws.transition_matrix import TransitionMatrix

__all__ = ["Likelihood", "MixingScale", "Normaliser", "RemovedShift"]


@dataclass(frozen=True)
class MixingScale:
    """A half-normal scale given which the cells are independent: that of a mixture of Gaussians.

    Attributes
    ----------
    cells : int
    """

    cells: int
    name: ClassVar[str] = "noise_scale"
    is_scalar: ClassVar[bool] = True
    is_bounded: ClassVar[bool] = True

    @property
    def typical(self) -> float:
        """Near where the scale is."""
        return math.sqrt(self.cells)

    def shifted(self, y: Symbolic, scale: Symbolic) -> Symbolic:
        """Return the released table as it is."""
        return y

    def of_weights(self, scale: Symbolic) -> tuple[Symbolic, ...]:
        """Return what weights of single cells take besides: the scale."""
        return (scale,)

    def log_prior_in_weights(self, scale: Symbolic) -> Symbolic:
        """0: weights given the scale do not hold its prior."""
        return 0.0


@dataclass(frozen=True, eq=False)
class RemovedShift:
    """What a projection removed of noise that was independent: coordinates with the density exp(-|t|_1).

    The weights are those of ``y + directions @ t``; the density at y is their integral over t.

    Attributes
    ----------
    directions : sparse array of float64, shape (d, r)
    """

    directions: sparse.csr_array
    name: ClassVar[str] = "noise_shift"
    is_scalar: ClassVar[bool] = False
    is_bounded: ClassVar[bool] = False

    def shifted(self, y: Symbolic, shift: Symbolic) -> Symbolic:
        """Released table before its projection, shape (d,); NumPy or PyTensor."""
        return y + self.directions.toarray() @ shift

    def of_weights(self, shift: Symbolic) -> tuple[Symbolic, ...]:
        """Return what weights of single cells take besides: nothing."""
        return ()

    def log_prior_in_weights(self, shift: Symbolic) -> Symbolic:
        """Log density of the prior, which the weights of shifted tables hold already: it has to be taken off once."""
        return -abs(shift).sum()


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Total weight C(x) of all releases of a table, where it depends on the table.

    Attributes
    ----------
    log : callable or None
        Logarithm, from cells of shape (d,); None where it has no sum: samplers then draw releases of their own to do
        without it.
    """

    log: Callable[[NDArray[np.int64]], float] | None


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The law of a release as a function of the confidential cells, settled on the public sums of one table.

    Attributes
    ----------
    form : Differences, TransitionMatrix or NoiseNorm
        Weights of single cells, which are then independent but for the public sums; or a norm of all noise together.
    support_radius : int
        Bound on ``|y - W x|`` that no cell exceeds but with probability 1e-12, base measures apart.
    auxiliary : MixingScale or RemovedShift, optional
        A variable given which the weights are stated.
    normaliser : Normaliser, optional
        Where the total weight of all releases depends on the table.
    query : sparse array of int64, shape (answers, cells), optional
        W; without it the cells themselves were released.
    records : callable, optional
        From a release, shape (d,), to the number of records, where the noise keeps it and no public sum states it;
        None where it does not.
    follows_bounds : bool
        Whether weights besides those of the noise can carry a release as far as what is public allows.
    histogram : HistogramNoise, optional
        What was published of the table's histogram of counts before, as noisy sums.
    """

    form: AdditiveLaw | TransitionMatrix | NoiseNorm
    support_radius: int
    auxiliary: MixingScale | RemovedShift | None = None
    normaliser: Normaliser | None = None
    query: sparse.csr_array | None = None
    records: Callable[[NDArray[np.float64]], int | None] | None = None
    follows_bounds: bool = False
    histogram: HistogramNoise | None = None

    @property
    def norm(self) -> NoiseNorm | None:
        """The norm, where the weights are no product over the cells."""
        return self.form if isinstance(self.form, NoiseNorm) else None

    @property
    def is_fixed_by_cell(self) -> bool:
        """Whether the weights of single cells are known before anything is drawn."""
        return self.norm is None and self.auxiliary is None

    @property
    def looks_at_table(self) -> bool:
        """Whether anything depends on the table as a whole, as `log_of_table` does."""
        return self.histogram is not None or self.normaliser is not None

    def log_of_table(self, cells: NDArray[np.int64]) -> float:
        """Log density of noisy sums of a table's histogram, minus the log normaliser where it has a sum."""
        found = 0.0 if self.histogram is None else self.histogram.log_density(cells)
        return found if self.normaliser is None or self.normaliser.log is None else found - self.normaliser.log(cells)

    def log_cells(self, y: Symbolic, x: Symbolic) -> Symbolic:
        """Log weight of releasing each y when the count is x, elementwise, where that `is_fixed_by_cell`."""
        assert not isinstance(self.form, NoiseNorm)
        return self.form.log_weight(y, x)

    def log_counts(self, y: Symbolic, counts: Symbolic, *auxiliary: Symbolic) -> Symbolic:
        """Log weight of a release, shape (d,), given several counts of each cell, shape (d, n); NumPy or PyTensor."""
        assert not isinstance(self.form, NoiseNorm)
        taken = () if self.auxiliary is None else self.auxiliary.of_weights(*auxiliary)
        return self.form.log_weight(self.shifted(y, *auxiliary)[:, None], counts, *taken)

    def log_table(self, y: Symbolic, answers: Symbolic, *auxiliary: Symbolic) -> Symbolic:
        """Log weight of a whole release given the answers on a table, both of shape (d,); NumPy or PyTensor.

        Times the prior of the auxiliary variable, its exponential integrates to the density up to C(x).
        """
        taken = () if self.auxiliary is None else self.auxiliary.of_weights(*auxiliary)
        y = self.shifted(y, *auxiliary)
        if isinstance(self.form, NoiseNorm):
            found = self.form.of(self.form.image(y - answers))
        else:
            found = self.form.log_weight(y, answers, *taken).sum()
        return found - self.log_prior_in_weights(*auxiliary)

    def shifted(self, y: Symbolic, *auxiliary: Symbolic) -> Symbolic:
        """Released table, shape (d,), before anything was removed of its noise; NumPy or PyTensor."""
        return y if self.auxiliary is None else self.auxiliary.shifted(y, *auxiliary)

    def log_prior_in_weights(self, *auxiliary: Symbolic) -> Symbolic:
        """Log density of what the weights hold of the prior of the auxiliary variable."""
        return 0.0 if self.auxiliary is None else self.auxiliary.log_prior_in_weights(*auxiliary)
