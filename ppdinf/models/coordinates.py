"""Coordinates of effects of labels in which NUTS takes long steps, with what is told of them.

Changes of variables alone: densities are those of the variables that are transformed (:mod:`ppdinf.models.ready`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable, Transform
from ppdinf.models.standardise import Known
from ppdinf.models.standardise_op import in_graph, standardise

__all__ = ["Among", "Standardised", "Told", "Unit"]


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

    How: :mod:`ppdinf.models.standardise`.

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
        order = np.argsort(among.group, kind="stable")
        start = np.searchsorted(among.group[order], np.arange(among.near.size + 1))
        of_each = np.array([base + told.fitted, base + told.near, told.information, among.share])[:, order]
        fitted, near, information, share = of_each
        self.told = in_graph(Known(order, start, fitted, near, information, share, among.near, among.information))

    def _changed(
        self, x: TensorVariable, inputs: tuple[TensorVariable, ...], inverse: bool = False
    ) -> tuple[TensorVariable, TensorVariable]:
        mean, spread = inputs[-2:]
        return standardise(self.told, pt.sum(spread), mean, x, inverse=inverse)

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the variable."""
        return self._changed(value, inputs)[0]

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return what moves."""
        return self._changed(value, inputs, inverse=True)[0]

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log determinant of the variable in what moves."""
        return self._changed(value, inputs)[1]
