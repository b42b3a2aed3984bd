"""Transforms of effects of labels under which NUTS takes long steps, given an approximate normal likelihood.

The transforms are changes of variables; they do not change the distribution of the effects
(:mod:`ppdinf.models.label_effects`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable, Transform
from ppdinf.models.whitening import NormalData
from ppdinf.models.whitening_op import in_graph, whitening_transform

__all__ = ["GroupLikelihood", "NormalLikelihood", "Rescaled", "StandardNormal"]


class NormalLikelihood(NamedTuple):
    """Normal approximation of the likelihood of the effects of a label."""

    fitted: NDArray[np.float64]
    response: NDArray[np.float64]
    information: NDArray[np.float64]
    spread: float  # approximate posterior standard deviation of the log of the effects' standard deviation


class GroupLikelihood(NamedTuple):
    """Normal approximation of the likelihood of weighted averages of effects within each coarser label.

    The likelihood of single labels depends only on their contrasts. The sum of the coarser label informs the average,
    which has the weights ``share``.
    """

    group: NDArray[np.int64]
    share: NDArray[np.float64]
    response: NDArray[np.float64]
    information: NDArray[np.float64]


class Rescaled(Transform):
    """Shift and scale a number to about zero posterior mean and unit posterior standard deviation."""

    name = "rescaled"
    ndim_supp = 0

    def __init__(self, center: float, sd: float) -> None:
        self.center, self.sd = center, sd

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the unconstrained value to the variable."""
        return self.center + self.sd * value

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the variable to the unconstrained value."""
        return (value - self.center) / self.sd

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log Jacobian determinant of `backward`."""
        return pt.full_like(value, np.log(self.sd))


class StandardNormal(Transform):
    """Map independent normal variables to variables that are standard normal in the approximate posterior.

    The posterior is standard normal for every standard deviation of the prior. See :mod:`ppdinf.models.whitening`.

    Parameters
    ----------
    base : array, shape (n,)
        Offsets to which the likelihood is relative.
    likelihood : NormalLikelihood
        Likelihood of each variable.
    groups : GroupLikelihood
        Likelihood of the average of each group.
    """

    name = "standard_normal"
    ndim_supp = 1

    def __init__(self, base: NDArray[np.float64], likelihood: NormalLikelihood, groups: GroupLikelihood) -> None:
        order = np.argsort(groups.group, kind="stable")
        start = np.searchsorted(groups.group[order], np.arange(groups.response.size + 1))
        of_each = np.array(
            [base + likelihood.fitted, base + likelihood.response, likelihood.information, groups.share]
        )[:, order]
        fitted, response, information, share = of_each
        self.data = in_graph(
            NormalData(order, start, fitted, response, information, share, groups.response, groups.information)
        )

    def _changed(
        self, x: TensorVariable, inputs: tuple[TensorVariable, ...], inverse: bool = False
    ) -> tuple[TensorVariable, TensorVariable]:
        mean, spread = inputs[-2:]
        return whitening_transform(self.data, pt.sum(spread), mean, x, inverse=inverse)

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the unconstrained values to the variables."""
        return self._changed(value, inputs)[0]

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Map the variables to the unconstrained values."""
        return self._changed(value, inputs, inverse=True)[0]

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Return the log Jacobian determinant of `backward`."""
        return self._changed(value, inputs)[1]
