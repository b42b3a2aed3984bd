"""From a release and a data model to a fiber: windows, supports, moves and a table to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._pymc_internals import compile_pymc, inputvars
from ppdinf.errors import InvariantError, ModelError
from ppdinf.frame import Frame
from ppdinf.invariants import System
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.fiber_tables import cell_intervals
from ppdinf.lattice.moves import Bounds, connected_moves
from ppdinf.mechanisms.weighted import Weighted
from ppdinf.models.answers import cell_windows, public_of_cells, query_of, short_moves
from ppdinf.models.distributions import window_logp
from ppdinf.models.rows import elementwise
from ppdinf.releases import Release
from ppdinf.samplers.fiber import Fiber
from ppdinf.samplers.noise_norm import NoiseNorm

__all__ = ["lay_out"]


def lay_out(model: pm.Model, base: Any, release: Release, frame: Frame) -> tuple[Fiber, NDArray[np.int64]]:
    """Lay out the windows, choose moves for the bounds at hand, and find a table to start from.

    Parameters
    ----------
    model : pymc.Model
    base : TensorVariable
        The data model, of the shape of the table.
    release : Release
    frame : Frame
        Of the table.

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
    system, mechanism, query = public_of_cells(release, frame), release.mechanism, query_of(release)
    if query is None:
        lower, width = _windows(release)
    else:
        nonnegative = ~_support(model, base, frame.shape, np.full(frame.size, -1), 1)[:, 0]
        lower, upper = cell_windows(release, system, mechanism.half_width(len(query.indptr) - 1), nonnegative)
        width = int(np.max(upper - lower)) + 1
    counts = lower[:, None] + np.arange(width)
    public = _allowed(system, counts)
    allowed = public & _support(model, base, frame.shape, lower, width)
    if not allowed.any(axis=1).all():
        cell = frame.cell(int(np.argmin(allowed.any(axis=1))))
        raise ModelError(f"the distribution allows no count near the released one at {cell}")
    given = mechanism.is_mixture or mechanism.shifts is not None  # a variable of the model, which comes in later
    apart = mechanism.coupling is None and not given
    potential = mechanism.potential(release.table.values.reshape(-1, 1) - counts) if apart else 0.0
    log_noise = np.where(public, potential, -np.inf)
    linked = bool(np.any(np.diff(system.B.indptr) > 1))
    bounds: Bounds = "any" if linked else "lower" if allowed[:, -1].all() else "box"
    moves, coupling = connected_moves(system.structure, bounds=bounds), mechanism.coupling
    if coupling is not None and query is not None:
        coupling = NoiseNorm(sp.csc_array(coupling.matrix @ query), coupling.order)
        moves = short_moves(moves, system, coupling)
    fiber = Fiber(system, lower, log_noise, moves, coupling)
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


def _support(
    model: pm.Model, base: Any, shape: tuple[int, ...], lower: NDArray[np.int64], width: int
) -> NDArray[np.bool_]:
    """Tell which counts of each window the data model allows, at the model's initial point."""
    (log_data,) = model.replace_rvs_by_values([window_logp(elementwise(base, shape)[0], shape, lower, width)])
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
    near = np.rint(_nearest_reals(release, lowest, highest)).astype(np.int64)
    start = nearest_feasible(system.A, system.values, B, limits, near=near, row_names=system.names)
    inside = allowed[np.arange(start.size), start - fiber.lower]
    if not inside.all():
        raise InvariantError(
            "no starting table found: the support of the distribution has gaps at "
            f"{system.frame.cell(int(np.argmin(inside)))}"
        )
    return start.reshape(system.frame.shape)


def _nearest_reals(release: Release, lowest: NDArray[np.int64], highest: NDArray[np.int64]) -> NDArray[np.float64]:
    """Real cells nearest to the release: its own, or such as give its answers in least squares."""
    from scipy.optimize import lsq_linear

    y, query = release.table.values.ravel(), query_of(release)
    return y if query is None else lsq_linear(query.toarray(), y, (lowest - 0.5, highest + 0.5)).x
