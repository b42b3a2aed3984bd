"""Analyses of a noisy table that do not condition on the mechanism; baselines for comparisons, not for use.

`noisy_as_true`, `clipped` and `projected` estimate the confidential table; any PyMC model can observe the estimate.
`gaussian` treats the noise as normal and independent.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.values import Symbolic
from ppdinf.errors import ModelError
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import MixingScale
from ppdinf.releases import Release


def noisy_as_true(release: Release) -> xr.DataArray:
    """Return the noisy table unchanged; negative cells may be outside the support of a data model."""
    return release.table


def clipped(release: Release) -> xr.DataArray:
    """Set negative cells to zero; the public sums are then violated."""
    return release.table.clip(min=0)


def projected(release: Release) -> xr.DataArray:
    """Return the non-negative integer table nearest in l1 that satisfies everything public, as agencies publish."""
    system, y = release.public, release.table.values.ravel()
    B = sp.vstack([sp.eye_array(y.size, dtype=np.int64), system.B], format="csr")
    limits = np.concatenate([np.zeros(y.size, dtype=np.int64), system.limits])
    nearest = nearest_feasible(system.A, system.values, B, limits, near=y, row_names=system.names)
    return release.table.copy(data=nearest.reshape(release.shape))


def gaussian(name: str, mean: Symbolic, variance: Symbolic, release: Release) -> TensorVariable:
    """Observe the noisy table as normal with the data model's moments and independent noise in every cell."""
    likelihood = release.likelihood
    if not isinstance(likelihood.form, AdditiveLaw):
        raise ModelError("the normal approximation needs noise that is added cell by cell: use ppd.PartiallyPrivate")
    noise = np.arange(-likelihood.support_radius, likelihood.support_radius + 1)
    scale = (likelihood.auxiliary.typical,) if isinstance(likelihood.auxiliary, MixingScale) else ()
    mass = np.exp(likelihood.form.law.log_weight(noise, *scale))
    spread = float((mass @ noise**2) / mass.sum())
    sd = pt.sqrt(variance + spread)
    return pm.Normal(f"{name}_release", mean, sd, observed=release.table.values, dims=release.dims)
