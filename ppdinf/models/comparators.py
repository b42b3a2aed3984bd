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
from ppdinf._internal.types import Symbolic
from ppdinf.errors import ModelError
from ppdinf.lattice.points.feasible import nearest_feasible
from ppdinf.laws.additive_law import AdditiveLaw
from ppdinf.laws.likelihood import MixingScale
from ppdinf.releases import Release

__all__ = ["clipped", "gaussian", "noisy_as_true", "projected"]


def noisy_as_true(release: Release) -> xr.DataArray:
    """Return the noisy table unchanged; negative cells may be outside the support of a data model.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = Release(np.array([5, -2, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> noisy_as_true(release).values
    array([ 5, -2,  4])
    """
    return release.table


def clipped(release: Release) -> xr.DataArray:
    """Set negative cells to zero; the public sums are then violated.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = Release(np.array([5, -2, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> clipped(release).values
    array([5, 0, 4])
    """
    return release.table.clip(min=0)


def projected(release: Release) -> xr.DataArray:
    """Return the non-negative integer table nearest in l1 that satisfies everything public, as agencies publish.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = Release(np.array([5, -2, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> projected(release).values
    array([4, 0, 3])
    """
    system, y = release.public, release.table.values.ravel()
    B = sp.vstack([sp.eye_array(y.size, dtype=np.int64), system.B], format="csr")
    limits = np.concatenate([np.zeros(y.size, dtype=np.int64), system.limits])
    nearest = nearest_feasible(system.A, system.values, B, limits, near=y, row_names=system.names)
    return release.table.copy(data=nearest.reshape(release.shape))


def gaussian(name: str, mean: Symbolic, variance: Symbolic, release: Release) -> TensorVariable:
    """Observe the noisy table as normal with the data model's moments and independent noise in every cell.

    Parameters
    ----------
    name : str
        Name of the table; the observed variable is ``{name}_release``, as in `PartiallyPrivate`.
    mean, variance : tensor_like, shape of the table
        Mean and variance of the confidential counts given the parameters; for Poisson counts both are the rate.
    release : Release

    Returns
    -------
    TensorVariable
        The observed release, with the dimensions ``release.dims``.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = Release(np.array([5, -2, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords):
    ...     rate = pm.Gamma("rate", 2, 1, dims=release.dims)
    ...     observed = gaussian("counts", rate, rate, release)
    """
    likelihood = release.likelihood
    if not isinstance(likelihood.form, AdditiveLaw):
        raise ModelError("the normal approximation needs noise that is added cell by cell: use ppd.PartiallyPrivate")
    noise = np.arange(-likelihood.support_radius, likelihood.support_radius + 1)
    scale = (likelihood.auxiliary.typical,) if isinstance(likelihood.auxiliary, MixingScale) else ()
    mass = np.exp(likelihood.form.law.log_weight(noise, *scale))
    spread = float((mass @ noise**2) / mass.sum())
    sd = pt.sqrt(variance + spread)
    return pm.Normal(f"{name}_release", mean, sd, observed=release.table.values, dims=release.dims)
