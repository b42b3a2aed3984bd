"""From a release and a data model to a fiber: windows, supports, moves and a table to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import scipy.sparse as sp
from numpy.typing import NDArray
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import inputvars

from ppdinf.errors import InvariantError, ModelError
from ppdinf.invariants import System
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.lattice.moves import Bounds, connected_moves
from ppdinf.mechanisms.weighted import Weighted
from ppdinf.models.distributions import window_logp
from ppdinf.models.rows import elementwise
from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber

__all__ = ["lay_out"]


def lay_out(model: pm.Model, base: Any, release: Release) -> tuple[Fiber, NDArray[np.int64]]:
    """Lay out the windows, choose moves for the bounds at hand, and find a table to start from.

    Parameters
    ----------
    model : pymc.Model
    base : TensorVariable
        The data model, of the shape of the table.
    release : Release

    Returns
    -------
    fiber : Fiber
    start : array of int64, shape of the table
        Agrees with everything public and has positive probability at the model's initial point.

    Raises
    ------
    ModelError, InvariantError
        No count, or no table, that model and public statements both allow.
    """
    system, y = release.public, release.table.values.ravel()
    lower, width = _windows(release)
    counts = lower[:, None] + np.arange(width)
    public = _allowed(system, counts)
    allowed = public & _support(model, base, release, lower, width)
    if not allowed.any(axis=1).all():
        cell = release.frame.cell(int(np.argmin(allowed.any(axis=1))))
        raise ModelError(f"the distribution allows no count near the released one at {cell}")
    potential = 0.0 if release.mechanism.is_mixture else release.mechanism.potential(y[:, None] - counts)
    log_noise = np.where(public, potential, -np.inf)
    linked = bool(np.any(np.diff(system.B.indptr) > 1))
    bounds: Bounds = "any" if linked else "lower" if allowed[:, -1].all() else "box"
    fiber = Fiber(system, lower, log_noise, connected_moves(system.structure, bounds=bounds))
    return fiber, _feasible_start(fiber, allowed, release)


def _windows(release: Release) -> tuple[NDArray[np.int64], int]:
    """First counts, and the number of counts in each window: those from which noise reaches the release.

    Where bounds or a base measure carry releases far, what is public of each cell is nearer than what noise reaches.
    One count beyond it stays in the window, so that no count that is possible lies at an edge (`Fiber.at_edge`).
    """
    system, y = release.public, release.table.values.ravel()
    reach = release.mechanism.half_width(y.size)
    lower, upper = np.floor(y).astype(np.int64) - reach, np.ceil(y).astype(np.int64) + reach
    if release.depends_on_table:
        low, high = cell_intervals(system.A, system.values, system.B, system.limits)
        free = isinstance(release.mechanism, Weighted) and release.mechanism.base_measure(release.kept) is None
        low, high = low - 1, high + 1
        inner_low = np.maximum(lower, low) if free else np.where(np.isfinite(low), low, lower)
        inner_high = np.minimum(upper, high) if free else np.where(np.isfinite(high), high, upper)
        lower, upper = inner_low.astype(np.int64), inner_high.astype(np.int64)
    return lower, int(np.max(upper - lower)) + 1


def _allowed(system: System, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which counts of each window the public bounds on single cells allow."""
    allowed = np.ones(counts.shape, dtype=bool)
    for row in np.flatnonzero(np.diff(system.B.indptr) == 1):
        at = system.B.indptr[row]
        cell, weight = system.B.indices[at], system.B.data[at]
        allowed[cell] &= weight * counts[cell] >= system.limits[row]
    return allowed


def _support(model: pm.Model, base: Any, release: Release, lower: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    """Tell which counts of each window the data model allows, at the model's initial point."""
    (log_data,) = model.replace_rvs_by_values(
        [window_logp(elementwise(base, release.shape)[0], release.shape, lower, width)]
    )
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
    near = np.rint(release.table.values.ravel()).astype(np.int64)
    start = nearest_feasible(system.A, system.values, B, limits, near=near, row_names=system.names)
    inside = allowed[np.arange(start.size), start - fiber.lower]
    if not inside.all():
        raise InvariantError(
            "no starting table found: the support of the distribution has gaps at "
            f"{release.frame.cell(int(np.argmin(inside)))}"
        )
    return start.reshape(release.shape)
