"""`PartiallyPrivate`: one line that ties a PyMC model for a confidential table to its release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray
from pymc.distributions.shape_utils import change_dist_size
from pymc.pytensorf import inputvars
from pymc.util import check_dist_not_registered

import ppdinf.samplers.lattice_gibbs  # noqa: F401  (PyMC learns of the step method here)
from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import System
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.models.distributions import ConfidentialRV, confidential, released
from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber, group_members

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
    fiber = _fiber(release)
    start = _feasible_start(model, base, fiber, release)
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


def _fiber(release: Release) -> Fiber:
    structure, system = release.public.structure, release.public
    y = release.table.values.ravel()
    reach = release.mechanism.half_width(y.size)
    lower = y - reach
    counts = lower[:, None] + np.arange(2 * reach + 1)
    log_noise = np.where(_allowed(system, counts), release.mechanism.potential(y[:, None] - counts), -np.inf)
    grouped = structure.partition[structure.blocks]
    members, starts = group_members(np.where(grouped, structure.classes, -1))
    return Fiber(
        system.A, system.values, system.names, lower, log_noise, members, starts,
        np.flatnonzero(~grouped),
    )  # fmt: skip


def _allowed(system: System, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which counts of each window the public bounds on single cells allow."""
    allowed = np.ones(counts.shape, dtype=bool)
    linked = np.flatnonzero(np.diff(system.B.indptr) != 1)
    if linked.size:
        raise ModelError(f"the bound {system.bound_names[linked[0]]!r} links cells: drop it from the public statements")
    for cell, weight, limit in zip(system.B.indices, system.B.data, system.limits, strict=True):
        allowed[cell] &= weight * counts[cell] >= limit
    return allowed


def _feasible_start(model: pm.Model, base: Any, fiber: Fiber, release: Release) -> NDArray[np.int64]:
    """Find a table near the release that the data model allows; the release itself may hold negative cells."""
    y = release.table.values
    trial = confidential(base, fiber, y)
    (log_data,) = model.replace_rvs_by_values([trial.owner.op.window_logp(trial)])
    point = model.initial_point()
    inputs = inputvars([log_data])
    values = pm.pytensorf.compile(inputs, log_data, mode="FAST_COMPILE")(*(point[v.name] for v in inputs))
    allowed = np.isfinite(values.reshape(fiber.width, -1).T)
    if not allowed.any(axis=1).all():
        cell = release.frame.cell(int(np.argmin(allowed.any(axis=1))))
        raise ModelError(f"the distribution allows no count near the released one at {cell}")
    lowest = fiber.lower + allowed.argmax(axis=1)
    highest = fiber.lower + fiber.width - 1 - allowed[:, ::-1].argmax(axis=1)
    cells = sp.eye_array(y.size, dtype=np.int64, format="csc")
    B, limits = sp.vstack([cells, -cells]), np.concatenate([lowest, -highest])
    start = nearest_feasible(fiber.A, fiber.values, B, limits, near=y.ravel(), row_names=fiber.names)
    inside = allowed[np.arange(y.size), start - fiber.lower]
    if not inside.all():
        raise InvariantError(
            "no starting table found: the support of the distribution has gaps at "
            f"{release.frame.cell(int(np.argmin(inside)))}"
        )
    return start.reshape(y.shape)
