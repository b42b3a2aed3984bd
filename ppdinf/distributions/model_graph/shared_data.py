"""Digest of the data of a table's distribution, and conditions that they are unchanged.

Windows of counts are computed from these data (`ppdinf.distributions.model_graph.build_fiber`). Windows also depend on
prior draws, so data of the priors of the parameters are included, and on the data of observed dependents of the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from ppdinf._internal.pymc_compat import (
    Constant,
    RandomType,
    SharedVariable,
    TensorVariable,
    Variable,
    ancestors,
    graph_inputs,
)
from ppdinf._internal.types import Array
from ppdinf.distributions.densities.marginal_logp import fixed
from ppdinf.distributions.model_graph.dependents import dependents_of, observed_among


def windows_are_stale(table: TensorVariable, model: pm.Model) -> bool:
    """Return whether data differ from those from which the windows of a table were computed."""
    return table.owner.op.data_digest != _digest(table, model, dependents_of(table, model))


def note_data(table: TensorVariable, model: pm.Model, dependents: Sequence[TensorVariable] | None = None) -> None:
    """Store the data from which the windows of a table were computed."""
    law = table.owner.op
    law.data_digest = _digest(table, model, dependents_of(table, model) if dependents is None else dependents)
    shared = dict.fromkeys(leaf for leaf in _leaves(table, model) if isinstance(leaf, SharedVariable))
    law.unchanged = [_equals(leaf, np.asarray(leaf.get_value())) for leaf in shared]


def _leaves(table: TensorVariable, model: pm.Model, dependents: Sequence[TensorVariable] = ()) -> Iterator[Variable]:
    """Yield constants and shared data on which a table depends, in the same order for copies of a model."""
    given = [x for x in table.owner.inputs if not isinstance(x.type, RandomType)]
    given += observed_among(dependents, model)
    above = set(ancestors(given))
    values = [value for rv, value in model.rvs_to_values.items() if rv in above and rv not in model.free_RVs]
    for leaf in graph_inputs([*given, *values]):
        if isinstance(leaf, Constant | SharedVariable) and not isinstance(leaf.type, RandomType):
            yield leaf


def digest_of_model(model: pm.Model) -> bytes:
    """Return a digest of all constants and data of a model."""
    observed = [value for rv, value in model.rvs_to_values.items() if rv not in model.free_RVs]
    leaves = graph_inputs([*model.basic_RVs, *model.potentials, *observed])
    return _digest_of(
        x for x in leaves if isinstance(x, Constant | SharedVariable) and not isinstance(x.type, RandomType)
    )


def _digest(table: TensorVariable, model: pm.Model, dependents: Sequence[TensorVariable]) -> bytes:
    return _digest_of(_leaves(table, model, dependents))


def _digest_of(leaves: Iterable[Variable]) -> bytes:
    digest = hashlib.sha256()
    for leaf in leaves:
        values = leaf.data if isinstance(leaf, Constant) else leaf.get_value(borrow=True)
        if isinstance(values, np.ndarray | np.generic):
            digest.update(f"{values.shape} {values.dtype}".encode() + values.tobytes())
    return digest.digest()


def _equals(shared: TensorVariable, values: Array) -> TensorVariable:
    """Return the condition that data have the given values, for every shape of the data."""
    same_shape = pt.all(pt.eq(shared.shape, np.array(values.shape, dtype=np.int64)))
    known = fixed(values.ravel(), "data_of_windows")
    given = pt.concatenate([shared.ravel(), pt.zeros(values.size, dtype=shared.dtype)])[: values.size]
    same = pt.eq(given, known)
    if values.dtype.kind == "f":
        same = pt.or_(same, pt.and_(pt.isnan(given), pt.isnan(known)))
    return pt.and_(same_shape, pt.all(same))
