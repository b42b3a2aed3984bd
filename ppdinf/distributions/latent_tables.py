"""Latent integers of plain models as tables with exactly known sums and optional releases.

A latent multinomial has given sums along its last dimension. Other integers have given sums if the model observes
``pm.DiracDelta("total", x.sum(), observed=10)`` or a release by ``mechanism.dist(x)`` that preserves sums. Metropolis
steps of single integers never move such variables. This module converts them to the tables of
`ppdinf.PartiallyPrivate` with the same distribution, so that the same samplers apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.sparse as sp
import xarray as xr

from ppdinf._internal.pymc_compat import (
    DiracDeltaRV,
    DirichletMultinomialRV,
    MeasurableOp,
    MultinomialRV,
    TensorVariable,
    Variable,
    ancestors,
    compile_interpreted,
    graph_replace,
)
from ppdinf._internal.values import Array, Integers
from ppdinf.distributions.build_fiber import build_fiber
from ppdinf.distributions.confidential_rv import confidential
from ppdinf.distributions.data_models import in_double, known
from ppdinf.distributions.factors import CellFactor
from ppdinf.distributions.marginalization import restart
from ppdinf.distributions.observed import Observed, ObservedRelease
from ppdinf.distributions.observed_measurements import ObservedMeasurements
from ppdinf.distributions.random_variables import MechanismRV
from ppdinf.distributions.tables import dependent_factors, depends_on, note_data
from ppdinf.distributions.windows import DataModel, choose
from ppdinf.errors import ModelError
from ppdinf.invariants import Public, linear
from ppdinf.invariants.public import bind
from ppdinf.measurements import Measurements
from ppdinf.releases import Release
from ppdinf.tables.frame import Frame
from ppdinf.tables.totals import all_labels

TRIED = 8  # random tables at which an expression is tested for linearity
CELLS = 10_000  # maximum size of tables whose observed expressions are tested


@dataclass(frozen=True)
class PlainTable:
    """Integers of a model, and exact observations or releases of them."""

    variable: TensorVariable
    sums: list[tuple[sp.csr_array, Integers, str]]
    releases: list[tuple[TensorVariable, Array]]
    observed_variables: list[TensorVariable]

    def stand_in(self, model: pm.Model) -> TensorVariable:
        """Return a confidential table with the same distribution and observations; not a variable of the model."""
        var, observed = self.variable, self._observed(model)
        inputs = list(var.owner.inputs)
        if isinstance(var.owner.op, MultinomialRV | DirichletMultinomialRV):
            inputs[-2] = pt.constant(np.asarray(known(inputs[-2]), dtype=np.int64))  # may be stored as a real number
        again = var.owner.op.make_node(*inputs).outputs[var.owner.outputs.index(var)]
        base = in_double(again, model)
        data_model = DataModel(model, base, observed.frame.shape)
        fiber, start = build_fiber(observed, data_model, choose(observed, data_model))
        table = confidential(base, observed, fiber, start)
        table.name = var.name
        note_data(table, model)
        further = [x for x in (*model.observed_RVs, *model.potentials) if x not in self.observed_variables]
        if others := [x for x in further if depends_on(x, var, model)]:
            restart(table, others, model, var)
        return table

    def factors(self, model: pm.Model) -> tuple[list[CellFactor], list[TensorVariable]]:
        """Return the factors of further dependents; see `dependent_factors`."""
        return dependent_factors(self.variable, model, self.variable.shape.eval(), known=self.observed_variables)

    def _observed(self, model: pm.Model) -> Observed:
        if self.releases:
            frame = self.releases[0][0].owner.op.law.frame
        else:
            frame = Frame.of(xr.DataArray(np.zeros(self.variable.shape.eval(), dtype=np.int64)))
        # exact sums as public statements
        statements, values = Public(), list[int]()
        for matrix, totals, name in self.sums:
            names = [f"{name}, {k + 1}" if len(totals) > 1 else name for k in range(len(totals))]
            stated = linear(matrix, names)
            if stated.statements[0] not in statements.statements:
                statements, values = statements & stated, [*values, *totals.tolist()]
        if not self.releases:
            blank = np.zeros(frame.size, dtype=np.int64)
            system = bind(statements, frame, blank, values)
            seen = Measurements(frame.table(blank), public=system, not_totals=list(all_labels(frame)))
            return ObservedMeasurements(seen)
        # releases with their own sums and the exact sums
        releases = []
        for rv, y in self.releases:
            mechanism = rv.owner.op.law.mechanism
            public = bind(mechanism.public, frame, np.rint(y).astype(np.int64).ravel())
            joined = bind(mechanism.public & statements, frame, y.ravel(), [*public.values.tolist(), *values])
            releases.append(Release(frame.table(y.ravel()), mechanism, public=joined))
        one = ObservedRelease(releases[0], frame) if len(releases) == 1 else None
        if one is not None and (auxiliary := one.likelihood.auxiliary) is None:
            return one
        if one is not None and auxiliary is not None and one.likelihood.normaliser is not None:
            raise ModelError(
                f"{self.variable.name!r} cannot be drawn given {self.releases[0][0].name!r}: its noise requires an "
                f"auxiliary variable, {auxiliary.name}, which a model written with Released does not have. Write "
                f"ppdinf.PartiallyPrivate({self.variable.name!r}, <its distribution>, release), which adds the variable"
            )
        return ObservedMeasurements(Measurements.of_releases(releases))


def plain_table(var: TensorVariable, model: pm.Model) -> PlainTable | None:
    """Return the plain table of a variable of integers with given sums, or None."""
    op = var.owner.op
    if var not in model.free_RVs or not var.dtype.startswith("int") or not hasattr(op, "ndim_supp"):
        return None
    sums, releases, observed_variables = [], [], []
    # rows of a multinomial have the sum n
    if isinstance(op, MultinomialRV | DirichletMultinomialRV):
        n = known(var.owner.inputs[-2])
        if n is None:
            return None
        *rows, width = (int(size) for size in var.shape.eval())
        totals = np.broadcast_to(n, rows).ravel().astype(np.int64)
        matrix = sp.kron(sp.eye_array(totals.size, dtype=np.int64), np.ones((1, width), dtype=np.int64), format="csr")
        sums.append((sp.csr_array(matrix), totals, f"the n of {var.name}"))
    elif op.ndim_supp != 0:
        return None
    # observed releases of the integers, and exact observations of linear functions of them
    for observation in model.observed_RVs:
        if not depends_on(observation, var, model):
            continue
        value, given = known(model.rvs_to_values[observation]), observation.owner.inputs[-1]
        if value is None:
            continue
        if isinstance(observation.owner.op, MechanismRV) and _is(given, var):
            releases.append((observation, value.astype(observation.dtype)))
            observed_variables.append(observation)
        elif isinstance(observation.owner.op, DiracDeltaRV) and (matrix := _linear(given, var)) is not None:
            totals = np.broadcast_to(value, observation.type.shape).ravel().astype(np.int64)
            sums.append((matrix, totals, str(observation.name)))
            observed_variables.append(observation)
    return PlainTable(var, sums, releases, observed_variables) if sums or releases else None


def _is(x: Variable, var: TensorVariable) -> bool:
    """Return whether an expression is a variable, up to its type."""
    while x is not var and x.owner is not None and len(x.owner.inputs) == 1:
        x = x.owner.inputs[0]
    return x is var


def _linear(expression: TensorVariable, var: TensorVariable) -> sp.csr_array | None:
    """Return the matrix of an expression that is linear in a variable and depends on no other, or None."""
    shape = tuple(int(n) for n in var.shape.eval())
    d = int(np.prod(shape))
    given = ancestors([expression], blockers=[var])
    if d > CELLS or any(x is not var and x.owner and isinstance(x.owner.op, MeasurableOp) for x in given):
        return None
    stand_in = var.type()
    (alone,) = graph_replace([expression], {var: stand_in}, strict=False)
    function = compile_interpreted([stand_in], alone.ravel())
    columns = [np.asarray(function(unit.reshape(shape)), dtype=np.float64) for unit in np.eye(d, dtype=var.dtype)]
    matrix = np.rint(np.column_stack(columns)).astype(np.int64)
    rng = np.random.default_rng(1)
    tables: Sequence[Array] = [np.zeros(d, dtype=var.dtype), *rng.integers(0, 100, size=(TRIED, d)).astype(var.dtype)]
    if all(np.array_equal(function(x.reshape(shape)), matrix @ x) for x in tables):
        return sp.csr_array(matrix)
    return None
