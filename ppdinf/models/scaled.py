"""A transform by constant factors, which gives all variables of a sampler similar scales.

NUTS starts with a unit mass matrix. Until it has adapted to scales that differ by a factor of 50, its trajectories have
hundreds of steps. With scaled variables they are short from the first draw on.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from ppdinf._internal.pymc_compat import TensorVariable, Transform, Variable


class Scaled(Transform):
    """Divide a variable by constants, such as rough posterior standard deviations."""

    name = "scaled"
    ndim_supp = 0

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = np.asarray(scale, dtype=np.float64)

    def forward(self, value: TensorVariable, *inputs: Variable) -> TensorVariable:
        """Return the value in units of the scale."""
        return value / self.scale

    def backward(self, value: TensorVariable, *inputs: Variable) -> TensorVariable:
        """Return the value of the variable."""
        return value * self.scale

    def log_jac_det(self, value: TensorVariable, *inputs: Variable) -> TensorVariable:
        """Return the log derivative of `backward`, of the shape of the value."""
        return pt.zeros_like(value) + np.log(self.scale)
