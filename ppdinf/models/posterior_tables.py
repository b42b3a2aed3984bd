"""Posterior draws of the confidential table, whichever way the model was fitted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from ppdinf._internal.pymc_compat import TensorVariable, ancestors, compile_pymc, graph_replace
from ppdinf._internal.types import Array
from ppdinf.distributions.model_graph.data_model_draws import DataModelDraws, uninformed_cells
from ppdinf.distributions.model_graph.dependents import Table, drawn_for, factors_of, tables_of
from ppdinf.distributions.model_graph.renewed_windows import follow_data
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.fiber.nested_sums.nested_sums import NestedSums
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.models.mass_outside_windows import outside_of_draws, outside_of_law, window_problem

__all__ = ["Posterior", "finished_draws", "law_of_draws", "of_draws", "only_table", "sample_confidential"]


class Posterior(Protocol):
    """Draws by name, of dimensions ``chain``, ``draw`` and their own: a group of what `pm.sample` returned."""

    @property
    def sizes(self) -> Mapping[Hashable, int]:
        """Numbers of chains and of draws, and those of other dimensions."""

    def __getitem__(self, name: str, /) -> xr.DataArray:
        """Draws of one variable."""

    def __contains__(self, name: object, /) -> bool:
        """Whether there are draws of a variable."""


def sample_confidential(
    idata: xr.DataTree,
    model: pm.Model | None = None,
    *,
    name: str | None = None,
    random_seed: int | np.random.Generator | None = None,
) -> xr.DataArray:
    """Posterior draws of the confidential table; every one agrees with everything public.

    Where the table was summed out, one exact independent draw for each posterior draw of the parameters,
    added to ``idata.posterior`` in place of earlier ones; where it is a variable of the model, its draws.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned.
    model : pymc.Model, optional
        The model, when not in its context.
    name : str, optional
        Of the table, where the model has several.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.DataArray of int64, dimensions ``("chain", "draw", *release.dims)``

    Raises
    ------
    ModelError
        The model has no such table, or several and none is named, or `idata` comes from another model.

    Warns
    -----
    DiagnosisWarning
        Sampling was stopped and chains differ in length: of each only the draws that all have are kept in `idata`.
        The posterior of a cell goes beyond the window of counts that it was looked for in.

    Notes
    -----
    A cell that nothing published and nothing in the model depends on is drawn from its data model, without a window.
    Some 100 us for each draw of 20 cells.

    Examples
    --------
    >>> import ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    ...     idata = pm.sample(10, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> table = sample_confidential(idata, model, random_seed=1)
    >>> table.dims, set(table.sum("dim_0").values.ravel().tolist())
    (('chain', 'draw', 'dim_0'), {6})
    """
    model = pm.modelcontext(model)
    table = only_table(model, name)
    finished = finished_draws(idata)
    if finished is not idata:
        idata["posterior"] = finished.posterior.to_dataset()
    if not table.is_summed_out:
        if table.name not in idata.posterior:
            raise ModelError(f"the posterior holds no {table.name!r}: pass the result of pm.sample() for this model")
        _warn_of_windows(table, outside_of_draws(table.law, idata.posterior[table.name]))
        return idata.posterior[table.name]
    draws = _draw_summed_out(table, idata.posterior, model, np.random.default_rng(random_seed))
    frame = table.law.observed.frame
    found = xr.DataArray(draws, dims=("chain", "draw", *frame.dims), coords={d: frame.coords[d][1] for d in frame.dims})
    idata["posterior"] = idata.posterior.to_dataset().assign({table.name: found})
    return idata.posterior[table.name]


def only_table(model: pm.Model, name: str | None = None) -> Table:
    """Return the confidential table of a model, or the one of that name where it has several.

    Raises
    ------
    ModelError
        It has none, several, or none of that name.
    """
    follow_data(model)
    tables = {table.name: table for table in tables_of(model)}
    if not tables:
        raise ModelError("the model has no confidential table, expected one made by PartiallyPrivate")
    if name is None and len(tables) > 1:
        raise ModelError(f"the model has {len(tables)} confidential tables: pass name=, one of {list(tables)}")
    if name is not None and name not in tables:
        raise ModelError(f"the model has no confidential table {name!r}, but {list(tables)}")
    return tables[name] if name is not None else next(iter(tables.values()))


def finished_draws(idata: xr.DataTree) -> xr.DataTree:
    """Leave out draws that not every chain has: nutpie, when stopped, fills those it has not made with nan.

    Parameters
    ----------
    idata : xarray.DataTree

    Returns
    -------
    xarray.DataTree
        `idata` itself where chains are equally long.

    Warns
    -----
    DiagnosisWarning
        Saying how many draws of each chain are used.
    """
    posterior = idata.posterior.to_dataset()
    real = [variable for variable in posterior.data_vars.values() if variable.dtype.kind == "f"]
    there = [v.notnull().all([dim for dim in v.dims if dim not in ("chain", "draw")]) for v in real]
    if not there or all(bool(part.isel(draw=-1).all()) for part in there):
        return idata
    made = np.logical_and.reduce([part.transpose("chain", "draw").values for part in there])
    lengths = made.sum(axis=1)
    if (made != (np.arange(made.shape[1]) < lengths[:, None])).any() or not lengths.min():
        return idata  # nan among the draws themselves: a fault, which diagnose names
    warnings.warn(
        f"the chains were stopped after {', '.join(map(str, lengths.tolist()))} draws: "
        f"the first {lengths.min()} of each are used",
        DiagnosisWarning,
        stacklevel=3,
    )
    kept = idata.copy()
    for group in ("posterior", "sample_stats"):
        if group in kept.children:
            kept[group] = kept[group].to_dataset().isel(draw=slice(int(lengths.min())))
    return kept


def _draw_summed_out(
    table: Table, posterior: Posterior, model: pm.Model, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw x given everything else, the release and the totals, for every posterior draw of the parameters."""
    log_h, of_draw = law_of_draws(table, posterior, model)
    lead = (posterior.sizes["chain"], posterior.sizes["draw"])
    _warn_of_windows(table, outside_of_law(table.law, log_h, of_draw, lead))
    if (nested := table.law.nested) is not None:
        draws = _draw_nested(nested, log_h, of_draw, lead, rng)
    else:
        block, total = table.law.groups
        lo = table.law.fiber.lower
        flat = [of_draw(at) for at in np.ndindex(lead)]
        if log_h is not None:
            draws = totals.draw(log_h, eta=np.array(flat), lo=lo, total=total, block=block, rng=rng)
        else:
            draws = np.array([totals.draw(weights, lo=lo, total=total, block=block, rng=rng) for weights in flat])
    draws = draws.reshape(lead[0] * lead[1], -1)
    if (free := table.law.fiber.uninformed).any():
        draws[:, free] = _draw_uninformed(table, posterior, model, rng)
    return draws.reshape(*lead, *table.law.observed.frame.shape)


def _draw_uninformed(
    table: Table, posterior: Posterior, model: pm.Model, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the cells that nothing depends on from their data model, once for every posterior draw."""
    (cells,), parameters, columns = _given_draws([uninformed_cells(table.variable)], posterior, model)
    draw = DataModelDraws(cells, parameters)
    lead = (posterior.sizes["chain"], posterior.sizes["draw"])
    return np.array([draw([column[at] for column in columns], rng) for at in np.ndindex(lead)])


def _warn_of_windows(table: Table, share: NDArray[np.float64]) -> None:
    if problem := window_problem(table.name, table.law, share):
        warnings.warn(problem, DiagnosisWarning, stacklevel=4)


def _draw_nested(
    nested: NestedSums,
    log_h: NDArray[np.float64] | None,
    of_draw: Callable[[tuple[int, int]], NDArray[np.float64]],
    lead: tuple[int, int],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw tables whose measured and exact sums nest, one for every posterior draw."""
    drawn = []
    for at in np.ndindex(lead):
        found = of_draw(at)
        weights, slope = (found, None) if log_h is None else (log_h, found)
        drawn.append(nested.evaluate(weights.ravel(), slope).draw(1, rng)[0])
    return np.array(drawn)


def law_of_draws(
    table: Table, posterior: Posterior, model: pm.Model, mode: str | None = None
) -> tuple[NDArray[np.float64] | None, Callable[[tuple[int, int]], NDArray[np.float64]]]:
    """State the law of the cells given everything else, for a chain and a draw of the posterior.

    Returns
    -------
    log_h : array of float64, shape (d, width), or None
        Of the natural form of the weights, which then are ``log_h + eta x``.
    of_draw : callable
        From a chain and a draw to ``eta``, shape (d,), or where there is no such form to log weights, shape (d, width).
    """
    given, (by_cell, _) = table.variable.owner.inputs, factors_of(table.variable, model)
    form = None if by_cell else table.law.exponential_family(given)
    function = of_draws([form[0] if form else table.law.weights(given, by_cell)], posterior, model, mode)
    return form[2] if form else None, lambda at: function(at)[0]


def of_draws(
    outputs: list[TensorVariable], posterior: Posterior, model: pm.Model, mode: str | None = None
) -> Callable[[tuple[int, int]], list[NDArray[np.float64]]]:
    """Compile symbolic functions of a model's variables, to be called with a chain and a draw of the posterior.

    What was observed has its observed value, whatever depends on it; every other variable that of the posterior.

    Raises
    ------
    ModelError
        Draws of a variable that is needed were left out.
    """
    outputs, parameters, columns = _given_draws(outputs, posterior, model)
    function = compile_pymc(parameters, outputs, mode=mode)
    last: tuple[list[Array], list[NDArray[np.float64]]] | None = None

    def of_draw(at: tuple[int, int]) -> list[NDArray[np.float64]]:
        nonlocal last  # a draw that repeats the one before, as where a chain has stayed, is not evaluated again
        given = [column[at] for column in columns]
        if last is None or not all(map(np.array_equal, given, last[0])):
            last = given, function(*given)
        return last[1]

    return of_draw


def _given_draws(
    outputs: list[TensorVariable], posterior: Posterior, model: pm.Model
) -> tuple[list[TensorVariable], list[TensorVariable], list[Array]]:
    """State expressions as functions of a model's free variables; these variables, and their draws."""
    outputs = graph_replace(outputs, drawn_for(model, model.free_RVs), strict=False)
    outputs = graph_replace(outputs, {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}, strict=False)
    near = set(ancestors(outputs, blockers=model.free_RVs))
    parameters = [free for free in model.free_RVs if free in near]
    if lost := [p.name for p in parameters if p.name not in posterior]:
        raise ModelError(f"the posterior has no draws of {lost[0]!r}, on which the law of the table depends: keep them")
    return outputs, parameters, [posterior[p.name].transpose("chain", "draw", ...).values for p in parameters]
