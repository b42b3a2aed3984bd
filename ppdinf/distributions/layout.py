"""From what was observed and a data model to a fiber: windows, supports, moves and a table to start from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._pymc_internals import TensorVariable, compile_pymc, inputvars
from ppdinf.distributions.answers import cell_windows
from ppdinf.distributions.confidential import log_density
from ppdinf.distributions.observed import Observed
from ppdinf.distributions.rows import elementwise
from ppdinf.distributions.windows import common_width, count_windows
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.fiber import Fiber
from ppdinf.invariants import System
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.moves import Bounds, connected_moves

__all__ = ["lay_out"]


def lay_out(
    model: pm.Model, base: TensorVariable, observed: Observed, *, gaps: bool = False
) -> tuple[Fiber, NDArray[np.int64]]:
    """Lay out the windows, choose moves for the bounds at hand, and find a table to start from.

    Parameters
    ----------
    model : pymc.Model
    base : TensorVariable
        The data model, of the shape of the table.
    observed : Observed
    gaps : bool
        Whether the table may be one that the model does not allow, where its support has gaps.

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
    frame, system, likelihood = observed.frame, observed.system, observed.likelihood
    support = _support(model, base, frame.shape)
    nonnegative = ~support(np.full((frame.size, 1), -1))[:, 0]
    if likelihood.query is None:
        lower, width = count_windows(model, base, observed, nonnegative)
    else:
        lower, upper = cell_windows(observed, nonnegative)
        width = common_width(lower, upper, system)
    counts = lower[:, None] + np.arange(width)
    public = _allowed(system, counts)
    # what follows from a further variable of the model comes in later
    log_weight = observed.log_counts(counts) if likelihood.is_fixed_by_cell else 0.0
    log_noise = np.where(public, log_weight, -np.inf)
    allowed = public & support(counts) & np.isfinite(log_noise)
    if not allowed.any(axis=1).all():
        cell = frame.cell(int(np.argmin(allowed.any(axis=1))))
        raise ModelError(f"the distribution allows no count near the released one at {cell}")
    linked = bool(np.any(np.diff(system.B.indptr) > 1))
    bounds: Bounds = "any" if linked else "lower" if allowed[:, -1].all() else "box"
    coupling = observed.coupling(lower, width)
    moves = observed.moves(connected_moves(system.structure, bounds=bounds, shape=frame.shape), coupling)
    fiber = Fiber(system, lower, log_noise, moves, coupling, nonnegative, likelihood.histogram)
    return fiber, feasible_start(fiber, allowed, observed, gaps=gaps)


def _allowed(system: System, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which counts of each window the public bounds on single cells allow."""
    allowed = np.ones(counts.shape, dtype=bool)
    for row in np.flatnonzero(np.diff(system.B.indptr) == 1):
        at = system.B.indptr[row]
        cell, weight = system.B.indices[at], system.B.data[at]
        allowed[cell] &= weight * counts[cell] >= system.limits[row]
    return allowed


def _support(
    model: pm.Model, base: TensorVariable, shape: tuple[int, ...]
) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Tell which counts of each cell, shape (d, n), the data model allows at the model's initial point."""
    cells = elementwise(base, shape)[0]
    counts = pt.tensor("counts", dtype=cells.dtype, shape=(None, *shape))
    (log_data,) = model.replace_rvs_by_values([log_density(cells, counts)])
    inputs = inputvars([log_data])
    point = model.initial_point() if inputs else {}
    parameters = [variable for variable in inputs if variable is not counts]
    density = compile_pymc([counts, *parameters], log_data, mode="FAST_COMPILE")
    values = [point[variable.name] for variable in parameters]

    def support(at: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = density(at.T.reshape(-1, *shape).astype(cells.dtype), *values)
        return np.isfinite(found.reshape(at.T.shape).T)

    return support


def at_initial_point(model: pm.Model, expression: TensorVariable, shift: float = 0.0) -> NDArray[np.float64]:
    """Evaluate a function of a model's variables where its chains start, or that far from there in every real one."""
    (found,) = model.replace_rvs_by_values([expression])
    inputs = inputvars([found])
    point, rng = model.initial_point() if inputs else {}, np.random.default_rng(1)
    values = [point[variable.name] for variable in inputs]
    values = [x + shift * rng.standard_normal(x.shape) if x.dtype.kind == "f" else x for x in values]
    return compile_pymc(inputs, found, mode="FAST_COMPILE")(*values)


def feasible_start(
    fiber: Fiber, allowed: NDArray[np.bool_], observed: Observed, *, gaps: bool = False
) -> NDArray[np.int64]:
    """Find a table near the release that model and public statements allow; the release may hold negative cells.

    Parameters
    ----------
    fiber : Fiber
    allowed : array of bool, shape (d, width)
        Which counts of each window.
    observed : Observed
    gaps : bool
        Whether to be content with a table in a gap between counts that are allowed.

    Raises
    ------
    InvariantError
        There is none, or in a gap only.
    """
    system, cells = fiber.system, sp.eye_array(fiber.lower.size, dtype=np.int64, format="csc")
    lowest = fiber.lower + allowed.argmax(axis=1)
    highest = fiber.lower + fiber.width - 1 - allowed[:, ::-1].argmax(axis=1)
    further, least = observed.certain()
    B = sp.vstack([cells, -cells, system.B, further])
    limits = np.concatenate([lowest, -highest, system.limits, least])
    near = np.rint(observed.nearest_reals(lowest, highest)).astype(np.int64)
    start = nearest_feasible(system.A, system.values, B, limits, near=near, row_names=system.names)
    inside = allowed[np.arange(start.size), start - fiber.lower]
    if not (gaps or inside.all()):
        raise InvariantError(
            "no starting table found: the support of the distribution has gaps at "
            f"{system.frame.cell(int(np.argmin(inside)))}"
        )
    return start.reshape(system.frame.shape)
