"""Multinomial rows as independent cells, which have the same density given public row totals.

With n persons in a row, Multinomial(n, p) is the distribution of independent Poisson(n p_i) counts given their sum.
Dirichlet-multinomial (n, a) is that of independent negative binomials with sizes a_i and a common probability. The sums
are fixed on the fiber, so densities of cells can be used, minus the density of the sum.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp

from ppdinf._internal.pymc_compat import Constant, DirichletMultinomialRV, MultinomialRV, TensorVariable
from ppdinf.errors import ModelError
from ppdinf.invariants import System
from ppdinf.lattice.points.feasible import nearest_feasible


def has_rows(dist: TensorVariable) -> bool:
    """Return whether a distribution is over rows of counts that `elementwise` can split."""
    return isinstance(dist.owner.op, MultinomialRV | DirichletMultinomialRV)


def elementwise(dist: TensorVariable, shape: tuple[int, ...]) -> tuple[TensorVariable, TensorVariable | float]:
    """Return a distribution of independent cells, and the log density of the row sums to subtract."""
    if not has_rows(dist):
        return dist, 0.0
    n, p = dist.owner.inputs[-2:]
    if isinstance(dist.owner.op, MultinomialRV):
        cells = pm.Poisson.dist(n[..., None] * p, shape=shape)
        sums = pm.logp(pm.Poisson.dist(n), n)
    else:
        strength = p.sum(axis=-1)
        cells = pm.NegativeBinomial.dist(mu=n[..., None] * p / strength[..., None], alpha=p, shape=shape)
        sums = pm.logp(pm.NegativeBinomial.dist(mu=n, alpha=strength), n)
    return cells, pt.sum(pt.broadcast_to(sums, shape[:-1]))


def require_public_rows(dist: TensorVariable, system: System) -> None:
    """Refuse rows whose totals are not public, or differ from those of the distribution."""
    n = dist.owner.inputs[-2]
    if not isinstance(n, Constant):
        raise ModelError("the number of persons in each row must be a constant, the public total of the row")
    *rows_shape, width = system.frame.shape
    totals = np.broadcast_to(np.asarray(n.data), rows_shape).ravel()
    rows = sp.kron(sp.eye_array(totals.size, dtype=np.int64), np.ones((1, width), dtype=np.int64), format="csr")
    moved = np.asarray(abs(rows @ system.lattice.basis).sum(axis=1)).ravel() > 0
    # a public sum is the same for every table, including the released one
    none = system.B[:0], system.limits[:0]
    known = rows @ nearest_feasible(system.A, system.values, *none, row_names=system.names)
    for row in np.flatnonzero(moved | (known != totals))[:1]:
        cell = system.frame.cell(int(row) * width)
        why = "is not public" if moved[row] else "differs from the n of the distribution"
        raise ModelError(f"the total of the row that begins at {cell} {why}: rows need public totals, equal to n")
