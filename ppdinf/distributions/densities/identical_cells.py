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

__all__ = ["identical_cells"]


def identical_cells(
    dist: TensorVariable, shape: tuple[int, ...], key: NDArray[np.int64]
) -> tuple[TensorVariable, NDArray[np.int64], NDArray[np.int64]] | None:
    """Group cells with identical distributions.

    Parameters
    ----------
    dist : TensorVariable
        An elementwise distribution of the shape of the table.
    shape : tuple of int
        Shape of the table.
    key : array of int64, shape (d,)
        A number for each cell, which identical cells must share.

    Returns
    -------
    dist : TensorVariable, shape (kinds,)
        Distribution of a cell of each group.
    first : array of int64, shape (kinds,)
        The first cell of each group.
    kind : array of int64, shape (d,)
        Group of each cell.
    None if all cells may differ because a parameter varies between cells and is not constant.

    Examples
    --------
    >>> import pymc as pm
    >>> spread = pm.Gamma.dist(2, 1)
    >>> counts = pm.BetaBinomial.dist(alpha=spread, beta=1, n=[4, 7, 4], shape=3)
    >>> identical_cells(counts, (3,), np.zeros(3, dtype=np.int64))[1:]
    (array([0, 1]), array([0, 1, 0]))
    """
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
