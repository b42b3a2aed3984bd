"""Coordinates of effects of labels in which NUTS takes long steps, with what is told of them.

Changes of variables alone: densities are those of the variables that are transformed (:mod:`ppdinf.models.ready`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._pymc_internals import TensorVariable, Transform
from ppdinf._types import Symbolic

__all__ = ["Among", "Standardised", "Told", "Unit"]

type Pairs = list[tuple[TensorVariable, TensorVariable]]
"""Directions u of every group, and by how much each is stretched, b."""


class Told(NamedTuple):
    """What noisy counts tell of the effects of a label, were they normal."""

    fitted: NDArray[np.float64]
    near: NDArray[np.float64]
    information: NDArray[np.float64]
    spread: float  # standard deviation of the logarithm of their spread, about


class Among(NamedTuple):
    """What is told of labels together, in each coarser label that they lie in.

    Single labels are told relative to each other alone; an average, of so much a share, is known besides, for the
    coarser label's sum is.
    """

    group: NDArray[np.int64]
    share: NDArray[np.float64]
    near: NDArray[np.float64]
    information: NDArray[np.float64]


class Unit(Transform):
    """Move a number around a centre in units of about its posterior standard deviation."""

    name = "unit"
    ndim_supp = 0

    def __init__(self, center: float, sd: float) -> None:
        self.center, self.sd = center, sd

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the variable."""
        return self.center + self.sd * value

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return what moves."""
        return (value - self.center) / self.sd

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log determinant of the variable in what moves."""
        return pt.full_like(value, np.log(self.sd))


class Standardised(Transform):
    """Move independent normal variables as what is standard normal once something is told of them, for any spread.

    With H the information of single ones relative to the others of their group, and that of an average of the group,
    the inverse of ``H + I / spread^2`` is L L', L a diagonal matrix times two that change one direction of each group.

    Parameters
    ----------
    base : array, shape (n,)
        To which what is told is relative.
    told : Told
        Of each.
    among : Among
        Of each group.
    """

    name = "told"
    ndim_supp = 1

    def __init__(self, base: NDArray[np.float64], told: Told, among: Among) -> None:
        self.near, self.fitted, self.information = base + told.near, base + told.fitted, told.information
        self.among, self.whole = among, np.bincount(among.group, told.information)
        self.group = pt.constant(among.group)  # PyTensor looks at an array of indices entry by entry, each time

    def _sums(self, x: Symbolic) -> TensorVariable:
        """Sum over every group, as each of its members sees it."""
        if self.whole.size == 1:
            return pt.sum(x)
        return pt.inc_subtensor(pt.zeros(self.whole.size)[self.group], x)[self.group]

    def _factor(self, spread: TensorVariable) -> tuple[TensorVariable, Pairs]:
        """Return L = diag(a) R_1 R_2, ``R = I + (b - 1) u u'`` in every group, as a and both pairs of u and b."""
        group, told = self.among.group, self.information
        precise, pairs = told * spread**2, []
        a = spread / pt.sqrt(1 + precise)
        if told.any():  # H = K - k k' / sum(k)
            none = (self.whole <= 0)[group]
            u, b = a * told, pt.sqrt((self.whole[group] + none) / (self._sums(told / (1 + precise)) + none))
            pairs.append((u / pt.sqrt(self._sums(u**2) + 1e-300), b))
        if self.among.information.any():
            u = self._changed(a * self.among.share, pairs)
            size = self._sums(u**2)
            pairs.append((u / pt.sqrt(size), 1 / pt.sqrt(1 + self.among.information[group] * size)))
        return a, pairs

    def _changed(self, x: TensorVariable, pairs: Pairs) -> TensorVariable:
        """Apply matrices that change one direction of every group, the first one first."""
        for u, b in pairs:
            x = x + (b - 1) * u * self._sums(u * x)
        return x

    def _mean(self, mean: TensorVariable, a: TensorVariable, pairs: Pairs) -> TensorVariable:
        group, whole = self.among.group, np.where(self.whole > 0, self.whole, 1)
        off = self.near - mean
        right = self.information * (off - self._sums(self.information * off) / whole[group])
        if self.among.information.any():
            off = self.among.near[group] - self._sums(self.among.share * (mean - self.fitted))
            right = right + self.among.share * self.among.information[group] * off
        return mean + a * self._changed(self._changed(a * right, pairs), pairs[::-1])

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the variable."""
        a, pairs = self._factor(inputs[-1])
        return self._mean(inputs[-2], a, pairs) + a * self._changed(value, pairs[::-1])

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return what moves."""
        a, pairs = self._factor(inputs[-1])
        moved = (value - self._mean(inputs[-2], a, pairs)) / a
        return self._changed(moved, [(u, 1 / b) for u, b in pairs])

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log determinant of the variable in what moves."""
        a, pairs = self._factor(inputs[-1])
        each = np.unique(self.among.group, return_index=True)[1]  # a member of every group
        return pt.log(a).sum() + sum(pt.log(b[each]).sum() for _, b in pairs)
