"""Windows of counts are computed again when the data of a model have changed.

Windows are computed when a table enters a model. `pymc.set_data`, `pymc.do` and the like change the data that the
distribution of the table depends on afterwards. So windows are compared with the data whenever PyMC builds the density
of a model, and computed again where they differ. Functions that were compiled before raise an error
(`ppdinf.distributions.densities.confidential_rv`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import pymc as pm

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.distributions.model_graph.build_fiber import renew_windows
from ppdinf.distributions.model_graph.dependents import dependents_of, tables_of
from ppdinf.distributions.model_graph.model_hooks import restart_among
from ppdinf.distributions.model_graph.shared_data import note_data, windows_are_stale

__all__ = ["follow_data"]


def follow_data(model: pm.Model) -> None:
    """Compute the windows of all tables of a model from its data as they are now.

    Raises
    ------
    ModelError, InvariantError
        With these data no table has a positive probability; windows that do not fit into memory.
    """
    for table in tables_of(model.root):
        _follow(table.variable, model.root)


def _follow(table: TensorVariable, model: pm.Model) -> None:
    if windows_are_stale(table, model):
        renew_windows(table, ~table.owner.op.fiber.uninformed, model)
        restart_among(table, dependents_of(table, model), model)
    else:
        note_data(table, model)  # copies of a model share the table's law, but have data of their own


def _after_following[**P, T](density: Callable[P, T]) -> Callable[P, T]:
    """Have the windows follow the data before the density of a model is built."""

    @wraps(density)
    def of_model(*args: P.args, **kwargs: P.kwargs) -> T:
        follow_data(args[0])
        return density(*args, **kwargs)

    return of_model


for kind in (pm.Model, pm.FrozenModel):
    kind.logp = _after_following(kind.logp)
