"""Recomputation of windows of counts after changes of a model's data.

Windows are computed when a table is added to a model. Functions such as `pymc.set_data` and `pymc.do` can later change
the data of the table's distribution. Windows are therefore compared with the data whenever PyMC builds the density of a
model, and computed again if the data differ. Functions that were compiled earlier raise an error
(`ppdinf.distributions.densities.confidential_rv`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np
import pymc as pm

from ppdinf._internal.pymc_compat import Constant, TensorVariable
from ppdinf.distributions.model_graph.build_fiber import extend_windows, renew_windows
from ppdinf.distributions.model_graph.counted_twice import refuse_counted_twice
from ppdinf.distributions.model_graph.dependents import ConfidentialTable, dependents_of, tables_of
from ppdinf.distributions.model_graph.model_hooks import restart_among
from ppdinf.distributions.model_graph.plausible_windows import plausible_windows
from ppdinf.distributions.model_graph.predictions import new_labels
from ppdinf.distributions.model_graph.shared_data import digest_of_model, note_data, windows_are_stale
from ppdinf.errors import ModelError


def follow_data(model: pm.Model) -> None:
    """Compute the windows of all tables of a model from its present data."""
    for table in tables_of(model.root):
        _refuse_other_numbers(table, model.root)
        if dims := new_labels(table, model.root):
            raise ModelError(
                f"the labels of {dims[0]!r} differ from those of the release of {table.name!r}, which has no density "
                "for other labels: restore labels and data by pm.set_data, or predict tables of the present labels by "
                "pm.sample_posterior_predictive(..., predictions=True)"
            )
        follow_data_of(table.variable, model.root)
    _extend(model.root)


def _refuse_other_numbers(table: ConfidentialTable, model: pm.Model) -> None:
    """Refuse observed values other than the release, for which windows and sums of the table were computed."""
    value = model.rvs_to_values[table.released]
    given = value.data if isinstance(value, Constant) else table.law.observed.noisy.values
    if not np.array_equal(given, table.law.observed.noisy.values):
        raise ModelError(
            f"{table.released.name!r} is observed with other numbers than those of its release, for which the windows "
            f"of {table.name!r} were computed: write the model again with PartiallyPrivate for the other numbers, or "
            "write it with ppdinf.models.Released, whose releases pm.observe and simulation-based calibration replace"
        )


def follow_data_of(table: TensorVariable, model: pm.Model) -> None:
    """Compute the windows of a table from its present data."""
    if windows_are_stale(table, model):
        law = table.owner.op
        refuse_counted_twice(model, law.base(table.owner.inputs)[0], law.observed)
        renew_windows(table, ~law.fiber.uninformed, model)
        law.fitted_data.clear()
        restart_among(table, dependents_of(table, model), model)
    else:
        note_data(table, model)  # copies of a model share the table's law, but not its data


def _extend(model: pm.Model) -> None:
    """Extend windows to the counts at plausible parameters, once for the data of a model."""
    tables, digest = tables_of(model), digest_of_model(model)
    if all(digest in table.law.fitted_data for table in tables):
        return
    for table, windows in plausible_windows(model).items():
        extend_windows(table, windows, model)
        restart_among(table, dependents_of(table, model), model)
        note_data(table, model)
    for table in tables:
        table.law.fitted_data.add(digest)


def _after_following[**P, T](density: Callable[P, T]) -> Callable[P, T]:
    """Update the windows before the density of a model is built."""

    @wraps(density)
    def of_model(*args: P.args, **kwargs: P.kwargs) -> T:
        follow_data(args[0])
        return density(*args, **kwargs)

    return of_model


for kind in (pm.Model, pm.FrozenModel):
    kind.logp = _after_following(kind.logp)
