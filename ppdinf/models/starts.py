"""Normal variables with a start of their own, that of chains which nobody gave another.

PyMC's ``initval=`` does the same, but models with one can be neither copied nor intervened on (`pymc.do`,
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

__all__ = ["started"]


class _Started(RandomVariable):
    """Op of a distribution that knows where chains start: at one number for each element, or one for all."""

    def __init__(self, *, start: tuple[float, ...], **props: object) -> None:
        super().__init__(**props)
        self.start = start


class _StartedNormal(_Started, NormalRV):
    __props__ = (*NormalRV.__props__, "start")


class _StartedHalfNormal(_Started, HalfNormalRV):
    __props__ = (*HalfNormalRV.__props__, "start")


KINDS = {NormalRV: _StartedNormal, HalfNormalRV: _StartedHalfNormal}


def started(name: str, dist: TensorVariable, start: ArrayLike, **options: Transform) -> TensorVariable:
    """Add a variable to the model.

    Parameters
    ----------
    name : str
    dist : TensorVariable
        ``pm.Normal.dist(...)`` or ``pm.HalfNormal.dist(...)``, a number or a vector.
    start : float or array
        Of the variable, not of what moves.
    **options
        Of `pymc.Model.register_rv`: ``transform=``.

    Returns
    -------
    TensorVariable
        Of the same law, density and draws; ``initvals=`` of `pymc.sample` go before its start.
    """
    node = dist.owner
    op = KINDS[type(node.op)](start=tuple(np.atleast_1d(start).tolist()))
    variable: TensorVariable = pm.modelcontext(None).register_rv(op.make_node(*node.inputs).out, name, **options)
    return variable


@_support_point.register(_StartedNormal)
@_support_point.register(_StartedHalfNormal)
def _start_of(op: _Started, variable: TensorVariable, *inputs: Variable) -> TensorVariable:
    start: TensorVariable = pt.broadcast_to(np.array(op.start).reshape(-1 if variable.ndim else ()), variable.shape)
    return start
