"""What analysts do with a noisy table who do not condition on how it was made: to compare with, not to use.

Three ways to take a table for the confidential one (`noisy_as_true`, `clipped`, `projected`), to be observed in any
PyMC model, and one that treats the noise as normal and independent (`gaussian`).
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
    """Return the noisy table as it is; negative cells may be outside the support of a data model.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = Release(np.array([5, -2, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> noisy_as_true(release).values
    array([ 5, -2,  4])
    """
    return release.table


def clipped(release: Release) -> xr.DataArray:
    """Set negative cells to zero; public sums no longer hold.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = Release(np.array([5, -2, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> clipped(release).values
    array([5, 0, 4])
    """
    return release.table.clip(min=0)


def projected(release: Release) -> xr.DataArray:
    """Find the nearest table of counts in l1 that agrees with everything public, as agencies publish them.

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
    found = nearest_feasible(system.A, system.values, B, limits, near=y, row_names=system.names)
    return release.table.copy(data=found.reshape(release.shape))


def gaussian(name: str, mean: Symbolic, variance: Symbolic, release: Release) -> TensorVariable:
    """Observe the noisy table as normal: the data model's moments, and noise as if independent in every cell.

    Parameters
    ----------
    name : str
        The observed variable is called ``{name}_release``, as that of `PartiallyPrivate`.
    mean, variance : tensor_like, shape of the table
        Of the confidential counts given the parameters; both the rate for Poisson counts.
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
        raise ModelError("noise of these releases has no law of single cells that depends on the difference alone")
    noise = np.arange(-likelihood.support_radius, likelihood.support_radius + 1)
    scale = (likelihood.auxiliary.typical,) if isinstance(likelihood.auxiliary, MixingScale) else ()
    mass = np.exp(likelihood.form.law.log_weight(noise, *scale))
    spread = float((mass @ noise**2) / mass.sum())
    sd = pt.sqrt(variance + spread)
    return pm.Normal(f"{name}_release", mean, sd, observed=release.table.values, dims=release.dims)
