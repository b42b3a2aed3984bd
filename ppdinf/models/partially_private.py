"""`PartiallyPrivate`: one line that ties a PyMC model for a confidential table to its release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray
from pymc.distributions.shape_utils import change_dist_size
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import inputvars
from pymc.util import check_dist_not_registered

import ppdinf.samplers.lattice_gibbs  # noqa: F401  (PyMC learns of the step method here)
from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import System
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.moves import Bounds, connected_moves
from ppdinf.models.distributions import ConfidentialRV, confidential, released, window_logp
from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber

__all__ = ["PartiallyPrivate", "sample_confidential"]


def PartiallyPrivate(name: str, dist: Any, release: Release) -> Any:  # noqa: N802  (reads as a PyMC distribution)
    """Give the confidential table of a release a distribution, and observe the release.

    Adds two variables to the model in context: the confidential table `name`, drawn by
    `ppdinf.samplers.lattice_gibbs.LatticeGibbs`, and the observed ``{name}_release``. The posterior
    accounts for the noise and for every public sum. The distribution is not renormalised on the
    fiber: what the public sums tell about the parameters is counted, once.

    Parameters
    ----------
    name : str
        Name of the confidential table in the posterior.
    dist : unnamed PyMC distribution of integers
        Elementwise, such as ``pm.Poisson.dist(rate)``; its parameters broadcast to the shape of the table.
    release : Release

    Returns
    -------
    TensorVariable
        The confidential table, with dimensions ``release.dims``. Nothing else in the model may depend on it.

    Raises
    ------
    ModelError
        The distribution is not elementwise over integers, does not fit the shape of the table, or the
        coordinates of the model differ from the labels of the release.
    InvariantError
        No table in the support of `dist` agrees with the public sums.

    Notes
    -----
    Counts further from the released ones than the noise reaches with probability 1e-12 are left out.
    Every draw computes the log density at ``width * d`` counts, ``width`` about ``70 / epsilon``.

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    >>> [v.name for v in model.free_RVs], [v.name for v in model.observed_RVs]
    (['rate', 'counts'], ['counts_release'])
    """
    model = pm.modelcontext(None)
    if not isinstance(release, Release):
        raise ModelError(f"release must be a ppdinf Release, found {type(release).__name__}")
    _match_coords(model, release)
    base = _fit_to_table(dist, release)
    fiber, start = _fiber(model, base, release)
    table = confidential(base, fiber, start)
    table = model.register_rv(table, name, dims=release.dims)
    observed = released(table, release)
    model.register_rv(observed, f"{name}_release", observed=release.table.values, dims=release.dims)
    return table


def sample_confidential(idata: Any, model: pm.Model | None = None) -> xr.DataArray:
    """Posterior draws of the confidential table; every one agrees with the public sums.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned.
    model : pymc.Model, optional
        The model, when not in its context. It holds one `PartiallyPrivate` table.

    Returns
    -------
    xarray.DataArray of int64, dimensions ``("chain", "draw", *release.dims)``

    Raises
    ------
    ModelError
        The model has no such table or several, or `idata` comes from another model.

    Examples
    --------
    See `PartiallyPrivate`; ``sample_confidential(idata, model).mean(("chain", "draw"))`` is the
    posterior mean of the confidential table.
    """
    table = confidential_table(pm.modelcontext(model))
    if table.name not in idata.posterior:
        raise ModelError(f"the posterior holds no {table.name!r}: pass the result of pm.sample() for this model")
    return idata.posterior[table.name]


def confidential_table(model: pm.Model) -> Any:
    """Find the one confidential table of a model."""
    tables = [rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialRV)]
    if len(tables) != 1:
        raise ModelError(f"the model has {len(tables)} confidential tables, expected one made by PartiallyPrivate")
    return tables[0]


def _match_coords(model: pm.Model, release: Release) -> None:
    for dim, labels in release.coords.items():
        known = model.coords.get(dim)
        if known is None:
            model.add_coord(dim, labels)
        elif list(known) != list(labels):
            raise ModelError(
                f"the model's coordinate {dim!r} differs from the release's labels: build the model with "
                "pm.Model(coords=release.coords) so that every rate meets its own count"
            )


def _fit_to_table(dist: Any, release: Release) -> Any:
    op = getattr(getattr(dist, "owner", None), "op", None)
    if op is None or not hasattr(op, "ndim_supp"):
        raise ModelError("dist must be an unnamed PyMC distribution such as pm.Poisson.dist(rate)")
    check_dist_not_registered(dist)
    if op.ndim_supp != 0 or not dist.dtype.startswith(("int", "uint")):
        raise ModelError(
            f"the cells need an elementwise distribution over integers, found {op} over {dist.dtype} "
            f"with {op.ndim_supp} support dimensions"
        )
    static = dist.type.shape
    fits = len(static) <= len(release.shape) and all(
        have in (None, 1, want) for have, want in zip(static[::-1], release.shape[::-1], strict=False)
    )
    if not fits:
        sizes = dict(zip(release.dims, release.shape, strict=True))
        raise ModelError(f"the distribution has shape {static}, the release has {sizes}")
    return change_dist_size(dist, release.shape)


def _fiber(model: pm.Model, base: Any, release: Release) -> tuple[Fiber, NDArray[np.int64]]:
    """Lay out the windows, choose moves for the bounds at hand, and find a table to start from."""
    system, y = release.public, release.table.values.ravel()
    reach = release.mechanism.half_width(y.size)
    lower, width = y - reach, 2 * reach + 1
    counts = lower[:, None] + np.arange(width)
    public = _allowed(system, counts)
    allowed = public & _support(model, base, lower, width)
    if not allowed.any(axis=1).all():
        cell = release.frame.cell(int(np.argmin(allowed.any(axis=1))))
        raise ModelError(f"the distribution allows no count near the released one at {cell}")
    log_noise = np.where(public, release.mechanism.potential(y[:, None] - counts), -np.inf)
    linked = bool(np.any(np.diff(system.B.indptr) > 1))
    bounds: Bounds = "any" if linked else "lower" if allowed[:, -1].all() else "box"
    fiber = Fiber(system, lower, log_noise, connected_moves(system.structure, bounds=bounds))
    return fiber, _feasible_start(fiber, allowed, release)


def _allowed(system: System, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which counts of each window the public bounds on single cells allow."""
    allowed = np.ones(counts.shape, dtype=bool)
    for row in np.flatnonzero(np.diff(system.B.indptr) == 1):
        at = system.B.indptr[row]
        cell, weight = system.B.indices[at], system.B.data[at]
        allowed[cell] &= weight * counts[cell] >= system.limits[row]
    return allowed


def _support(model: pm.Model, base: Any, lower: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    """Tell which counts of each window the data model allows, at the model's initial point."""
    (log_data,) = model.replace_rvs_by_values([window_logp(base, lower, width)])
    point, inputs = model.initial_point(), inputvars([log_data])
    values = compile_pymc(inputs, log_data, mode="FAST_COMPILE")(*(point[variable.name] for variable in inputs))
    return np.isfinite(values.reshape(width, -1).T)


def _feasible_start(fiber: Fiber, allowed: NDArray[np.bool_], release: Release) -> NDArray[np.int64]:
    """Find a table near the release that model and public statements allow; the release may hold negative cells."""
    system, cells = fiber.system, sp.eye_array(fiber.lower.size, dtype=np.int64, format="csc")
    lowest = fiber.lower + allowed.argmax(axis=1)
    highest = fiber.lower + fiber.width - 1 - allowed[:, ::-1].argmax(axis=1)
    B = sp.vstack([cells, -cells, system.B])
    limits = np.concatenate([lowest, -highest, system.limits])
    start = nearest_feasible(
        system.A, system.values, B, limits, near=release.table.values.ravel(), row_names=system.names
    )
    inside = allowed[np.arange(start.size), start - fiber.lower]
    if not inside.all():
        raise InvariantError(
            "no starting table found: the support of the distribution has gaps at "
            f"{release.frame.cell(int(np.argmin(inside)))}"
        )
    return start.reshape(release.shape)
