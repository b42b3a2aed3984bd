"""Fiber of a table within its windows: weights of counts, supports, moves, initial table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pymc as pm
import scipy.sparse as sp
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.distributions.data_models import kind_of_support
from ppdinf.distributions.factors import CellFactor
from ppdinf.distributions.observed import Observed
from ppdinf.distributions.tables import DataOfDependents, data_of_dependents, dependents_of, note_data
from ppdinf.distributions.windows import DataModel, Windows, choose, common_width, kinds_of
from ppdinf.errors import InvariantError, ModelError
from ppdinf.fiber.gibbs.fiber import Fiber
from ppdinf.fiber.gibbs.measured_sums import MeasuredSums
from ppdinf.invariants.statement import CellNames, Joined
from ppdinf.lattice.feasible import nearest_feasible
from ppdinf.lattice.rows import Rows, kinds
from ppdinf.lattice.support_moves import support_moves
from ppdinf.lattice.supports import Support, nearest_table
from ppdinf.laws.noise_norm import NoiseNorm

NEARLY = 0.01  # maximum weight of all other counts of a nearly known cell

type Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TableSupport:
    """Possible counts of the cells of a table."""

    possible: Rows[np.bool_]
    allowed: Rows[np.bool_]
    cut: bool = False


def fiber_of(
    observed: Observed, lower: NDArray[np.int64], noise: Rows[np.float64], support: TableSupport,
    coupling: NoiseNorm | MeasuredSums | None, nonnegative: Mask, without_window: Mask | None = None,
) -> Fiber:  # fmt: skip
    """Plan the sampling of a table within its windows."""
    system, held = observed.system, observed.hard_inequalities
    B = sp.csr_array(sp.vstack([system.B, held[0]], format="csr"))
    plan = support_moves(
        system.A, system.values, B, np.concatenate([system.limits, held[1]]), Support(lower, support.possible),
        _nearly_known(noise, observed), found=system.structure, cut=support.cut, shape=observed.frame.shape,
    )  # fmt: skip
    moves = plan.moves if coupling is None else observed.moves(plan, coupling)
    proved = plan.proved and not Support(lower, support.allowed).holes.any() and not _has_holes(coupling)
    restricted = plan.held is not None
    return Fiber(
        system, lower, noise, moves, coupling, nonnegative, observed.likelihood.histogram,
        plan.support if restricted or not proved else None, proved, restricted, without_window,
    )  # fmt: skip


def with_support(fiber: Fiber, observed: Observed, allowed: Rows[np.bool_]) -> Fiber:
    """Plan again for a table with further dependents, if they exclude more counts than upper tails."""
    possible = np.isfinite(fiber.log_noise)
    now = Support(fiber.lower, allowed)
    if now.is_empty or not fiber.proved:
        return fiber
    ends = Support(fiber.lower, Rows.each(possible)).high
    if not now.holes.any() and (now.high == ends).all():
        return fiber
    assert fiber.nonnegative is not None
    possible &= ~fiber.nonnegative[:, None] | (fiber.lower[:, None] + np.arange(fiber.width) >= 0)
    support = TableSupport(Rows.each(possible), allowed, cut=True)
    return fiber_of(
        observed, fiber.lower, fiber.noise, support, fiber.coupling, fiber.nonnegative, fiber.without_window
    )


def _nearly_known(noise: Rows[np.float64], observed: Observed) -> Mask:
    """Return cells of which one count has nearly all the weight; none if sums split the cells into groups."""
    if observed.system.structure.is_partition:
        return np.zeros(noise.of.size, dtype=bool)
    peak = noise.values.max(axis=1, keepdims=True)
    weights = np.exp(noise.values - np.where(np.isfinite(peak), peak, 0.0))
    return (weights.sum(axis=1) - 1 < NEARLY)[noise.of]


def _has_holes(coupling: NoiseNorm | MeasuredSums | None) -> bool:
    """Return whether a value of a noisy sum is impossible while smaller and larger values are possible."""
    if not isinstance(coupling, MeasuredSums) or not coupling.log_weights.size:
        return False
    parts = (coupling.log_weights[start:end] for start, end in pairwise(coupling.ends))
    runs = (np.flatnonzero(np.isfinite(part)) for part in parts)
    return any(run.size and run[-1] - run[0] + 1 > run.size for run in runs)


def build_fiber(
    observed: Observed, data_model: DataModel, windows: Windows, *, gaps: bool = False
) -> tuple[Fiber, NDArray[np.int64]]:
    """Compute weights of counts in windows of equal width, moves, and an initial table."""
    frame, system, likelihood = observed.frame, observed.system, observed.likelihood
    lower = windows.lower
    # cells of a kind share a row: one window, and the same noise, public bounds and support
    first, of = kinds([kinds_of(observed, data_model), lower, windows.upper])
    rows = first.size if gaps else lower.size
    width = common_width(windows.upper - lower, np.arange(lower.size), frame, rows)
    uninformed, nonnegative = windows.uninformed[first, None], windows.nonnegative[first, None]
    coupling = observed.coupling(lower, width)
    # counts that everything published permits, and those that the data model permits at the initial point
    counts = lower[first, None] + np.arange(width)
    possible_now, kind = data_model.allowed(lower, width, first), kind_of_support(data_model.base)
    low, high = (ends[first, None] for ends in system.cell_limits)
    public = (counts >= low) & (counts <= high)
    # terms with an auxiliary variable of the model are added later
    y = observed.y if first.size == lower.size else observed.y[first]
    log_weight = likelihood.log_counts(y, counts) if likelihood.is_fixed_by_cell else 0.0
    log_noise = np.where(public, log_weight, -np.inf)
    reached = public & np.isfinite(log_noise)
    allowed = reached & possible_now
    if uninformed.any():  # the first allowed count of the window represents all counts
        lower = lower + np.where(uninformed.ravel(), allowed.argmax(axis=1), 0)[of]
        alone = (np.arange(width) == 0) & allowed.any(axis=1, keepdims=True)
        reached, allowed = (np.where(uninformed, alone, counted) for counted in (reached, allowed))
        log_noise = np.where(uninformed, np.where(alone, 0.0, -np.inf), log_noise)
    if not allowed.any(axis=1).all():
        cell = frame.cell(int(first[np.argmin(allowed.any(axis=1))]))
        raise ModelError(f"the distribution excludes all counts near the released one at {cell}")
    possible = allowed if kind == "constant" else reached & (~nonnegative | (counts >= 0))
    support = TableSupport(Rows(possible, of), Rows(allowed, of), cut=kind == "unknown")
    fiber = fiber_of(
        observed, lower, Rows(log_noise, of), support, coupling, windows.nonnegative, windows.uninformed
    )  # fmt: skip
    likely = lower + log_noise.argmax(axis=1)[of] if windows.likely is None else windows.likely
    fiber = replace(fiber, is_typical=windows.is_typical, likely=likely)
    return fiber, feasible_start(fiber, support.allowed, observed, gaps=gaps)


def give_windows(table: TensorVariable, read: Mask, model: pm.Model) -> None:
    """Rebuild the fiber of a table if other variables of the model depend on cells without a window."""
    if (table.owner.op.fiber.uninformed & read).any():
        renew_windows(table, model, read)


def renew_windows(table: TensorVariable, model: pm.Model, read: Mask | None = None) -> None:
    """Choose windows again by the present data of a model; further cells in `read` need a window."""
    law = table.owner.op
    data_model = data_model_of(table, model, data_of_dependents(table, dependents_of(table, model), model))
    with_window = ~law.fiber.uninformed if read is None else read | ~law.fiber.uninformed
    set_windows(table, data_model, choose(law.observed, data_model, read=with_window))
    note_data(table, model)


def widen_windows(
    table: TensorVariable,
    dependents: Sequence[TensorVariable],
    model: pm.Model,
    known: Mapping[TensorVariable, list[CellFactor]],
) -> None:
    """Extend windows if data of dependents of a table make counts outside its windows possible."""
    law = table.owner.op
    data = data_of_dependents(table, dependents, model, known)
    if data is not None:
        data_model = data_model_of(table, model, data)
        present = Windows.of(law.fiber)
        if (windows := choose(law.observed, data_model, present=present)) is not present:
            set_windows(table, data_model, windows)
    note_data(table, model, dependents)


def data_model_of(table: TensorVariable, model: pm.Model, data: DataOfDependents | None = None) -> DataModel:
    """Return the data model of a table of a model."""
    for rv in model.free_RVs:  # a variable that is being added has no initial value yet
        model.rvs_to_initial_values.setdefault(rv, None)
    law = table.owner.op
    return DataModel(model, law.base(table.owner.inputs)[0], law.start.shape, data)


def set_windows(table: TensorVariable, data_model: DataModel, windows: Windows) -> None:
    """Build the fiber of a table again."""
    law = table.owner.op
    gaps = table not in data_model.model.free_RVs
    law.fiber, law.start = build_fiber(law.observed, data_model, windows, gaps=gaps)
    for name in ("groups", "nested", "lines"):
        law.__dict__.pop(name, None)


def feasible_start(
    fiber: Fiber, allowed: Rows[np.bool_], observed: Observed, *, gaps: bool = False
) -> NDArray[np.int64]:
    """Find a table near the release that model and public statements allow; the release may have negative cells."""
    system, cells = fiber.system, sp.eye_array(fiber.lower.size, dtype=np.int64, format="csc")
    support = Support(fiber.lower, allowed)
    lowest, highest = support.low, support.high
    further, hard_limits = observed.hard_inequalities
    B = sp.vstack([cells, -cells, system.B, further])
    limits = np.concatenate([lowest, -highest, system.limits, hard_limits])
    near = np.rint(observed.nearest_reals(lowest, highest)).astype(np.int64)
    of_cells = CellNames(system.frame, np.arange(fiber.lower.size), system.frame.dims)
    names = Joined([of_cells, of_cells, system.bound_names, observed.hard_names])
    start = nearest_feasible(
        system.A, system.values, B, limits, near=near, row_names=system.names, bound_names=names
    )  # fmt: skip
    inside = allowed.values[allowed.of, start - fiber.lower]
    if gaps or (inside.all() and fiber.is_possible(start)):
        return start.reshape(system.frame.shape)
    table = None
    if fiber.diagram is not None:
        table = fiber.diagram.nearest(near, fiber.lower, allowed.whole)
    else:
        B, limits = sp.vstack([system.B, further]), np.concatenate([system.limits, hard_limits])
        table = nearest_table(system.A, system.values, sp.csr_array(B), limits, support, near)
    if table is None or not fiber.is_possible(table):
        raise InvariantError(
            "no starting table found: no table with the public sums, within a search of 20 seconds, has only counts "
            "and sums that the distribution and the laws of the published numbers allow. Correct a published number, "
            "its law or the distribution"
        )
    return table.reshape(system.frame.shape)
