"""Random variables of what is observed: releases of tables, and potentials split by cell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numba
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from ppdinf._internal.pymc_compat import (
    Apply,
    RandomVariable,
    TensorVariable,
    _logprob,
    numba_core_rv_funcify,
    numba_njit,
)
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.distributions.observed import Observed, sums_of_cells
from ppdinf.distributions.ops import of_table
from ppdinf.errors import LabelError, ModelError
from ppdinf.invariants import System
from ppdinf.invariants.public import bind
from ppdinf.lattice.systems import exact_product
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.noise.primitives.stream import seeded_stream
from ppdinf.noise.sampler_plan import Plan
from ppdinf.tables.frame import Frame
from ppdinf.tables.table import TableLike, labelled_reals
from ppdinf.tables.totals import exempt_labels, refuse_totals


class DrawnRV(RandomVariable):
    """A random variable that the sampler of a mechanism draws, in Python."""


@numba_core_rv_funcify.register(DrawnRV)
def _drawn_numba(op: DrawnRV, node: Apply) -> tuple[Callable[..., Array], None]:
    out_type = numba.types.Array(numba.types.int64 if op.dtype == "int64" else numba.types.float64, op.ndim_supp, "C")

    @numba_njit
    def draw(rng, x):  # type: ignore[no-untyped-def]
        with numba.objmode(out=out_type):
            out = np.ascontiguousarray(op.rng_fn(rng, x))
        return out  # noqa: RET504  (numba's object mode returns variables, not expressions)

    @numba_njit
    def draw_given(rng, x, auxiliary):  # type: ignore[no-untyped-def]
        with numba.objmode(out=out_type):
            out = np.ascontiguousarray(op.rng_fn(rng, x, auxiliary, None))
        return out  # noqa: RET504  (numba's object mode returns variables, not expressions)

    # excluded from PyTensor's disk cache: releases and mechanisms are part of the function
    return draw if len(op.ndims_params) == 1 else draw_given, None


def _drawn(op: RandomVariable, *parameters: TensorVariable) -> TensorVariable:
    return op(*parameters, rng=pt.random.shared_rng(seed=None), return_next_rng=True)[1]


class ReleasedRV(DrawnRV):
    """The noisy table given the confidential table; forward draws use the mechanism's sampler."""

    name = "released"
    _print_name = ("Released", "\\operatorname{Released}")
    __props__ = ("name", "signature", "dtype", "inplace", "observed")

    def __init__(self, observed: Observed, ndim: int | None = None, **kwargs: str | bool) -> None:
        self.observed, noisy, likelihood = observed, observed.noisy, observed.likelihood
        kwargs.setdefault("dtype", noisy.dtype.name)
        axes = ",".join(f"x{k}" for k in range(noisy.ndim if ndim is None else ndim))
        variable = likelihood.auxiliary
        auxiliary = "" if variable is None else ",()" if variable.is_scalar else ",(t)"
        outputs_dims = axes if noisy.shape == observed.frame.shape else ",".join(map(str, noisy.shape))
        kwargs.setdefault("signature", f"({axes}){auxiliary}->({outputs_dims})")
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, x: Integers, *further: Array | None) -> Array:
        """Release `x` again; `further` are the auxiliary variable, if there is one, and the size."""
        size = further[-1] if further else None
        lead = x.shape[: x.ndim - self.ndims_params[0]] if size is None else tuple(size)
        draws = int(np.prod(lead))
        cells = np.broadcast_to(x, (*lead, *x.shape[x.ndim - self.ndims_params[0] :])).reshape(draws, -1)
        scales = None
        if self.observed.likelihood.has_unknown_scale:
            given = np.asarray(further[0], dtype=np.float64)
            scales = np.broadcast_to(given, (*lead, given.shape[-1])).reshape(draws, -1)
        return self.observed.draw(cells, rng, scales).reshape(*lead, *self.observed.noisy.shape)


def released(x: TensorVariable, observed: Observed, auxiliary: TensorVariable | None = None) -> TensorVariable:
    """Return the noisy table as a random variable."""
    return _drawn(ReleasedRV(observed, ndim=x.ndim), *([x] if auxiliary is None else [x, auxiliary]))


def table_of(release: TensorVariable) -> TensorVariable:
    """Return the confidential table from which a released table is drawn."""
    return release.owner.op.dist_params(release.owner)[0]


@_logprob.register(ReleasedRV)
def _released_logp(
    op: ReleasedRV, values: Sequence[TensorVariable], *inputs: TensorVariable, **kwargs: object
) -> TensorVariable:
    (y,), (_, _, x, *auxiliary) = values, inputs
    log_density, system = op.observed.log_density(y.ravel(), x.ravel(), *auxiliary), op.observed.system
    log_density -= op.observed.log_constant or 0.0
    if not system.limits.size:
        return log_density
    within = pt.all(pt.ge(sums_of_cells(system.B, x.ravel()), system.limits))
    return pt.switch(within, log_density, -np.inf)


KNOWN = 256  # sets of public sums whose mechanism and plan are cached

type Settled = tuple[System, TableMechanism, Plan, float]
type Labels = TableLike | Mapping[str, Collection[object]]


class ReleaseLaw:
    """The distribution of a release of any table with given labels."""

    def __init__(self, mechanism: TableMechanism, frame: Frame) -> None:
        self.mechanism, self.frame = mechanism, frame
        self._blank = bind(mechanism.public, frame, np.zeros(frame.size, dtype=np.int64))
        self._known: dict[tuple[int, ...], Settled] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_known": {}}  # samplers are rebuilt when needed

    def draw(self, cells: Integers, rng: np.random.Generator) -> Array:
        """Release tables of shape (n, d) by the mechanism's sampler."""
        drawn = np.empty(cells.shape, dtype=np.int64 if self.mechanism.is_integer else np.float64)
        blank, stream = self._blank, seeded_stream(rng)
        for row_cells in cells if blank.limits.size or blank.empty.any() else ():
            bind(blank.public, self.frame, row_cells).require_cells(row_cells)
        by_sums: dict[tuple[int, ...], list[int]] = {}
        for row, row_cells in enumerate(cells):
            by_sums.setdefault(self._sums(row_cells), []).append(row)
        for sums, rows in by_sums.items():
            system, mechanism, plan, _ = self._settled(sums)
            drawn[rows] = mechanism.checked_draw(system, cells[rows], len(rows), stream, plan)
        return drawn

    def log_density(self, y: Array, x: Integers) -> float:
        """Return the log density of a release given a table; -inf for tables that violate public bounds."""
        if self.mechanism.is_integer and exact_product(self._blank.A, y - x).any():
            return -np.inf
        if (self._blank.B @ x < self._blank.limits).any():
            return -np.inf
        system, mechanism, _, log_constant = self._settled(self._sums(x))
        return mechanism.log_weight(system, y, x) - log_constant

    def _sums(self, cells: Integers) -> tuple[int, ...]:
        """Return the public sums that the mechanism depends on."""
        if self.mechanism.is_translation_invariant:
            return tuple(self._blank.values.tolist())
        return tuple(exact_product(self._blank.A, cells).tolist())

    def _settled(self, sums: tuple[int, ...]) -> Settled:
        """Return the system, mechanism, plan and constant of the density for given public sums."""
        if sums not in self._known:
            if len(self._known) == KNOWN:
                self._known.clear()
            system = replace(self._blank, values=np.array(sums, dtype=np.int64))
            mechanism = self.mechanism.on(system)
            log_constant = mechanism.log_constant(system) or 0.0
            self._known[sums] = system, mechanism, mechanism.plan_on(system), log_constant
        return self._known[sums]


class MechanismRV(DrawnRV):
    """A release of a table."""

    name = "mechanism"
    _print_name = ("Mechanism", "\\operatorname{Mechanism}")
    __props__ = ("name", "signature", "dtype", "inplace", "law")

    def __init__(self, law: ReleaseLaw, **kwargs: str | bool) -> None:
        self.law = law
        axes = ",".join(f"x{k}" for k in range(len(law.frame.dims)))
        kwargs.setdefault("dtype", "int64" if law.mechanism.is_integer else "float64")
        kwargs.setdefault("signature", f"({axes})->({axes})")
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, x: Integers, size: tuple[int, ...] | None = None) -> Array:
        """Release tables with independent noise."""
        shape, d = self.law.frame.shape, self.law.frame.size
        lead = x.shape[: x.ndim - len(shape)] if size is None else tuple(size)
        cells = np.broadcast_to(x, (*lead, *shape)).reshape(-1, d).astype(np.int64)
        return self.law.draw(cells, rng).reshape(*lead, *shape)


def mechanism_dist(mechanism: TableMechanism, table: TensorVariable, labels: Labels | None = None) -> TensorVariable:
    """Return the release of a table as an unnamed PyMC distribution; see `TableMechanism.dist`."""
    if mechanism.queries is not None or not isinstance(mechanism, TableMechanism):
        raise ModelError(
            f"{type(mechanism).__name__} does not release the cells of the table: observe its release by "
            "PartiallyPrivate"
        )
    table = pt.as_tensor(table)
    if table.dtype.startswith("float"):
        raise ModelError("the table must have an integer type, but its variable is real")
    frame = frame_of(table, labels)
    refuse_totals(frame, not_totals=exempt_labels(labels))
    return _drawn(MechanismRV(ReleaseLaw(mechanism, frame)), table)


def frame_of(table: TensorVariable, labels: Labels | None = None) -> Frame:
    """Return labels of a table variable: the given ones, or those of its dimensions in the model, or numbers."""
    model = pm.Model.get_context(error_if_none=False)
    dims = None if model is None else model.named_vars_to_dims.get(table.name)
    if labels is None and dims is not None and all(model.coords.get(dim) is not None for dim in dims):
        labels = {str(dim): list(model.coords[dim]) for dim in dims}
    if labels is None:
        shape = table.type.shape
        if None in shape:
            raise LabelError("the shape of the table is unknown: pass labels=, or give its variable dims")
        labels = {f"dim_{k}": list(range(size)) for k, size in enumerate(shape)}
    if isinstance(labels, Mapping) and not isinstance(labels, xr.DataArray):
        sizes = tuple(len(list(values)) for values in labels.values())
        coords = {dim: list(values) for dim, values in labels.items()}
        labels = xr.DataArray(np.broadcast_to(np.int64(0), sizes), dims=list(labels), coords=coords)
    frame = Frame.of(labels) if isinstance(labels, xr.DataArray) else labelled_reals(labels)[0]
    static = table.type.shape
    if len(static) != len(frame.shape) or any(n not in (None, m) for n, m in zip(static, frame.shape, strict=True)):
        raise LabelError(f"the table has the shape {static}, but its labels have {frame.shape}")
    for dim, name in zip(dims or (), frame.dims, strict=False):
        known = model.coords.get(dim)
        if dim not in frame.dims:
            continue
        if dim != name or (known is not None and list(known) != frame.coords[dim][1].tolist()):
            raise LabelError(f"the labels of {dim!r} are in another order than those of the variable {table.name!r}")
    return frame


@_logprob.register(MechanismRV)
def _mechanism_logp(
    op: MechanismRV, values: Sequence[TensorVariable], *inputs: TensorVariable, **kwargs: object
) -> TensorVariable:
    (y,), (_, _, x) = values, inputs
    d, integer = op.law.frame.size, np.int64 if op.law.mechanism.is_integer else np.float64

    def log_density(both: Reals) -> float:
        return op.law.log_density(both[:d].astype(integer), np.rint(both[d:]).astype(np.int64))

    return of_table(log_density, pt.concatenate([y.ravel().astype("float64"), x.ravel().astype("float64")]))


class ObservedPotentialRV(RandomVariable):
    """Observed zeros with given log densities."""

    name = "observed_potential"
    signature = "()->()"
    dtype = "float64"
    _print_name: ClassVar[tuple[str, str]] = ("Potential", "\\operatorname{Potential}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, density: Reals, size: tuple[int, ...] | None = None) -> Reals:
        """Return zeros."""
        return np.zeros(np.shape(density) if size is None else size)


def observed_potential(density: TensorVariable) -> TensorVariable:
    """Return a random variable with the given elementwise log densities."""
    return _drawn(ObservedPotentialRV(), density.astype("float64"))


@_logprob.register(ObservedPotentialRV)
def _observed_potential_logp(
    op: ObservedPotentialRV, values: Sequence[TensorVariable], *inputs: TensorVariable, **kwargs: object
) -> TensorVariable:
    return inputs[-1]


@numba_core_rv_funcify.register(ObservedPotentialRV)
def _observed_potential_numba(
    op: ObservedPotentialRV, node: Apply
) -> tuple[Callable[[np.random.Generator, float], float], int]:
    @numba_njit
    def zero(rng, density):  # type: ignore[no-untyped-def]
        return 0.0

    return zero, 1
