"""Normal variables with initial values for chains.

PyMC's ``initval=`` does the same, but PyMC can neither copy nor intervene on a model with initial values (`pymc.do`,
`pymc.observe`, `pymc.Model.copy`).
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from ppdinf._internal.pymc_compat import (
    HalfNormalRV,
    NormalRV,
    RandomVariable,
    TensorVariable,
    Transform,
    Variable,
    _support_point,
)


class _Started(RandomVariable):
    """Op of a distribution with initial values of chains: one number per element, or one for all elements."""

    def __init__(self, *, start: tuple[float, ...], **props: object) -> None:
        super().__init__(**props)
        self.start = start


class _StartedNormal(_Started, NormalRV):
    __props__ = (*NormalRV.__props__, "start")


class _StartedHalfNormal(_Started, HalfNormalRV):
    __props__ = (*HalfNormalRV.__props__, "start")


KINDS = {NormalRV: _StartedNormal, HalfNormalRV: _StartedHalfNormal}


def add_with_start(name: str, dist: TensorVariable, start: ArrayLike, **options: Transform) -> TensorVariable:
    """Add a normal or half-normal variable with an initial value to the model."""
    node = dist.owner
    op = KINDS[type(node.op)](start=tuple(np.atleast_1d(start).tolist()))
    return pm.modelcontext(None).register_rv(op.make_node(*node.inputs).out, name, **options)


@_support_point.register(_StartedNormal)
@_support_point.register(_StartedHalfNormal)
def _start_of(op: _Started, variable: TensorVariable, *inputs: Variable) -> TensorVariable:
    return pt.broadcast_to(np.array(op.start).reshape(-1 if variable.ndim else ()), variable.shape)
