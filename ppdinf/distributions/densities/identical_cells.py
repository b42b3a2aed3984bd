"""Cells with identical distributions, whose log densities are evaluated once.

Example: blocks of a state with equal numbers of units, and a common mean and spread. Of thousands of blocks, a few
hundred are distinct.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import RandomVariable, TensorVariable
from ppdinf.distributions.observation.float64 import constant


def identical_cells(
    dist: TensorVariable, shape: tuple[int, ...], key: NDArray[np.int64]
) -> tuple[TensorVariable, NDArray[np.int64], NDArray[np.int64]] | None:
    """Group cells with identical distributions."""
    op = dist.owner.op
    if not isinstance(op, RandomVariable) or any(op.ndims_params):
        return None
    parameters, keys = op.dist_params(dist.owner), [key]
    known = [None if all(p.type.broadcastable) else constant(p) for p in parameters]
    for parameter, values in zip(parameters, known, strict=True):
        if values is not None:
            keys.append(np.broadcast_to(values, shape).ravel())
        elif not all(parameter.type.broadcastable):
            return None
    _, first, kind = np.unique(np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True)
    if first.size == kind.size:
        return None
    of_kinds = [
        parameter.ravel() if values is None else pt.constant(np.broadcast_to(values, shape).ravel()[first])
        for parameter, values in zip(parameters, known, strict=True)
    ]
    rng, size = dist.owner.inputs[0], pt.constant([first.size])
    return op.make_node(rng, size, *of_kinds).default_output(), first, kind.ravel()
