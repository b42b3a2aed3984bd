"""Posterior draws of the confidential table, and their probability outside its truncation windows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from ppdinf._internal.progress import progress
from ppdinf._internal.pymc_compat import TensorVariable, ancestors, compile_pymc, graph_replace
from ppdinf._internal.values import Array, Integers, Reals
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.predictions import DataModelDraws, uninformed_cells
from ppdinf.distributions.published_ranges import possible_counts
from ppdinf.distributions.renewed_windows import follow_data, follow_data_of
from ppdinf.distributions.tables import ConfidentialTable, dependent_factors, drawn_for, tables_above, tables_of
from ppdinf.distributions.windows import Windows
from ppdinf.errors import DiagnosisWarning, ModelError
from ppdinf.fiber.sums_given_totals import totals
from ppdinf.invariants import System
from ppdinf.models.model_order import dims_of_draws, in_chains, in_model_order, posterior_of

LARGEST_SHARE = 1e-6  # posterior probability outside the window of a cell above which the window is too small
TAIL = 20  # largest draws from which the scale of a tail is estimated
CELLS = 2**12  # cells whose draws are sorted together
DRAWS = 64  # posterior draws of the parameters at which the distribution of a table is evaluated


def outside_of_law(
    law: ConfidentialRV, log_h: Reals | None, of_draw: Callable[[tuple[int, int]], Reals], lead: tuple[int, int]
) -> Reals:
    """Bound the posterior probability of each cell outside its window, averaged over posterior draws."""
    marginals = []
    for draw in np.unique(np.linspace(0, lead[0] * lead[1] - 1, DRAWS).astype(int)):
        log_weights = of_draw((int(draw) // lead[1], int(draw) % lead[1]))
        weights, slope = (log_weights, None) if log_h is None else (log_h, log_weights)
        if law.nested is None:
            block, total = law.groups
            shares = totals.marginals(weights, eta=slope, lo=law.lower, total=total, block=block)
        else:
            posterior = law.nested.evaluate(weights.ravel(), slope).posteriors()
            shares = posterior.log_weight.reshape(weights.shape)
        marginals.append(_beyond_ends(shares if law.lines is None else law.lines.of_cells(shares)))
    return np.where(law.fiber.uninformed, 0.0, np.mean(marginals, axis=0))


def outside(windows: Windows, system: System, draws: Integers) -> Reals:
    """Estimate the posterior probability of each cell outside its window from draws of the table, shape (n, d)."""
    low, high = possible_counts(system, windows.nonnegative)
    n, d = draws.shape
    k = max(min(TAIL, n // 10), 1)
    shares = np.zeros(d)
    for begin in range(0, d, CELLS):
        some = slice(begin, begin + CELLS)
        part = np.partition(draws[:, some], sorted({0, k, n - 1 - k, n - 1} & set(range(n))), axis=0)
        # an exponential tail on the scale of the k most extreme draws, unless no count beyond the end is possible
        for extreme, inner, end, is_hard in (
            (part[0], part[min(k, n - 1)], windows.lower[some], (windows.lower < low)[some]),
            (-part[-1], -part[max(n - 1 - k, 0)], -windows.upper[some], (windows.upper > high)[some]),
        ):
            scale, gap = (inner - extreme) / np.log(k + 1), np.maximum(extreme - end, 0)
            falls = np.exp(-np.divide(gap, scale, out=np.where(gap > 0, np.inf, 0.0), where=scale > 0))
            shares[some] += np.where(is_hard, 0.0, falls / n)
    return np.where(windows.uninformed, 0.0, shares)


def _beyond_ends(marginals: Reals) -> Reals:
    """Bound the probability of every cell outside its window, from its probabilities inside, shape (d, width)."""
    if marginals.shape[1] < 2:
        return np.zeros(len(marginals))
    result = np.zeros(len(marginals))
    for last, before in ((marginals[:, 0], marginals[:, 1]), (marginals[:, -1], marginals[:, -2])):
        ratio = np.divide(last, before, out=np.ones_like(last), where=before > 0)
        falls = np.where(ratio < 1, ratio / np.maximum(1 - ratio, 1e-3), 1e3)
        result += np.minimum(last * falls, 1.0)
    return result


def window_problem(name: str, law: ConfidentialRV, share: Reals) -> str:
    """Name the cells of a table whose posterior exceeds their windows, or return an empty string."""
    over = np.flatnonzero(~(share <= LARGEST_SHARE))
    if not over.size:
        return ""
    worst = over[np.argsort(-share[over], kind="stable")][:3]
    named = "; ".join(law.observed.frame.cell(int(cell)) for cell in worst)
    more = f" and {over.size - 3} more" if over.size > 3 else ""
    return (
        f"The posterior of {name!r} exceeds the truncation windows, with {share.max():.1g} of the weight at "
        f"{named}{more}: the prior, the release and the variables that depend on these cells contradict each other by "
        "more than the noise does once in 1e12 tables, and the fit before sampling did not find the parameters of this "
        "posterior. Set initial values of the parameters near this posterior (initval=) and sample again. Check "
        "epsilon, the expected counts of the cells, and the data of the dependent variables. Allow more variation of "
        "the counts (NegativeBinomial instead of Poisson)."
    )


def sample_confidential(
    idata: xr.DataTree | xr.Dataset,
    model: pm.Model | None = None,
    *,
    name: str | None = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> xr.DataArray:
    """Return posterior draws of the confidential table; each draw satisfies everything public.

    For a marginalized table, draw one exact, independent table per posterior draw of the parameters, and store the
    draws in ``idata.posterior`` (replacing earlier ones) unless `idata` is read-only, such as
    ``idata.posterior.dataset``. For a sampled table, return its draws. A cell on which no published number and no other
    variable depends is drawn from its data model without truncation. A draw takes about 1 us per cell, with all cores.

    Parameters
    ----------
    idata : xarray.DataTree or xarray.Dataset
        Result of `pm.sample`, its posterior, draws selected from it, or the Dataset of `arviz.extract`.
    model : pymc.Model, optional
        The model, outside its context.
    name : str, optional
        Name of the table, if the model has several.
    random_seed : int or numpy.random.Generator, optional
    progressbar : bool, default True
        As for `ppdinf.denoise`.

    Returns
    -------
    xarray.DataArray of int64, dimensions ``("chain", "draw", *release.dims)``
        With the dimensions of draws of `idata`, if it has other ones.

    Raises
    ------
    ModelError
        The model has no such table or `name` is ambiguous, or `idata` belongs to another model.

    Warns
    -----
    DiagnosisWarning
        Sampling was stopped and chains differ in length: `idata` keeps only the draws that all chains have.
        The posterior of a cell exceeds its truncation window.

    See Also
    --------
    ppdinf.PartiallyPrivate, ppdinf.models.summary, ppdinf.models.aggregate, ppdinf.sample_release

    Examples
    --------
    >>> import numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     rate = pm.Gamma("rate", 2, 1)
    ...     counts = ppd.PartiallyPrivate("counts", pm.Poisson.dist(rate), release=release)
    ...     idata = pm.sample(10, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> table = ppd.sample_confidential(idata, model, random_seed=1)
    >>> table.dims, set(table.sum("dim_0").values.ravel().tolist())
    (('chain', 'draw', 'dim_0'), {6})
    """
    model = pm.modelcontext(model)
    table = only_table(model, name)
    if isinstance(idata, xr.DataTree) and (finished := finished_draws(idata)) is not idata:
        idata["posterior"] = finished.posterior.to_dataset()
    rng = np.random.default_rng(random_seed)
    for above in tables_above(table.variable, model):
        if above.name not in posterior_of(idata):
            sample_confidential(idata, model, name=above.name, random_seed=rng, progressbar=progressbar)
        (rng,) = rng.spawn(1)  # independent of the draws of the other table, also with the same seed
    posterior = posterior_of(idata)
    if not table.is_marginalized:
        if table.name not in posterior:
            raise ModelError(f"the posterior has no {table.name!r}: pass the result of pm.sample() for this model")
        warn_of_windows(table, outside_windows(table, in_chains(posterior), model))
        return posterior[table.name].transpose(*dims_of_draws(posterior), ...)
    number = math.prod(posterior.sizes[dim] for dim in dims_of_draws(posterior))
    with progress("Drawing tables", number, disable=not progressbar) as advance:
        drawn = draw_marginalized(table, posterior, model, rng, advance)
    if isinstance(idata, xr.DataTree) and "posterior" in idata.children:
        idata["posterior"] = posterior.assign({table.name: drawn})
    elif type(idata) in (xr.DataTree, xr.Dataset):
        idata[table.name] = drawn
    return posterior.assign({table.name: drawn})[table.name]


def only_table(model: pm.Model, name: str | None = None) -> ConfidentialTable:
    """Return the confidential table of a model, or the table called `name` if the model has several."""
    follow_data(model)
    tables = {table.name: table for table in tables_of(model)}
    if not tables:
        raise ModelError("the model has no confidential table: create one by PartiallyPrivate")
    if name is None and len(tables) > 1:
        raise ModelError(f"the model has {len(tables)} confidential tables: pass name=, one of {list(tables)}")
    if name is not None and name not in tables:
        raise ModelError(f"the model has no confidential table {name!r}; its tables are {list(tables)}")
    return tables[name] if name is not None else next(iter(tables.values()))


def finished_draws(idata: xr.DataTree) -> xr.DataTree:
    """Keep only the draws that every chain has: nutpie, when stopped, fills missing draws with nan."""
    posterior = posterior_of(idata)
    if not {"chain", "draw"} <= set(posterior.dims):
        return idata
    real = [variable for variable in posterior.data_vars.values() if variable.dtype.kind == "f"]
    there = [v.notnull().all([dim for dim in v.dims if dim not in ("chain", "draw")]) for v in real]
    if not there or all(bool(part.isel(draw=-1).all()) for part in there):
        return idata
    made = np.logical_and.reduce([part.transpose("chain", "draw").values for part in there])
    lengths = made.sum(axis=1)
    if (made != (np.arange(made.shape[1]) < lengths[:, None])).any() or not lengths.min():
        return idata  # nan in the draws themselves: diagnose reports this fault
    warnings.warn(
        f"the chains were stopped after {', '.join(map(str, lengths.tolist()))} draws: "
        f"the first {lengths.min()} of each are used",
        DiagnosisWarning,
        stacklevel=3,
    )
    truncated = idata.copy()
    for group in ("posterior", "sample_stats"):
        if group in truncated.children:
            truncated[group] = truncated[group].to_dataset().isel(draw=slice(int(lengths.min())))
    return truncated


def draw_marginalized(
    table: ConfidentialTable,
    posterior: xr.Dataset,
    model: pm.Model,
    rng: np.random.Generator,
    advance: Callable[[int], object] = lambda n: None,
    *,
    dims: Sequence[str] | None = None,
    mode: str | None = None,
) -> xr.DataArray:
    """Draw the table for every posterior draw of the parameters, given the release and everything public."""
    follow_data_of(table, model)
    posterior = _with_tables_above(table, posterior, model, rng, dims, mode)
    dims, frame = dims_of_draws(posterior) if dims is None else dims, table.law.observed.frame
    drawn = _draw_in_chains(table, in_chains(posterior, dims), model, rng, advance, mode)
    values = drawn.reshape(*(posterior.sizes[dim] for dim in dims), *frame.shape)
    return xr.DataArray(values, dims=(*dims, *frame.dims), coords={d: frame.coords[d][1] for d in frame.dims})


def _with_tables_above(
    table: ConfidentialTable,
    posterior: Any,
    model: pm.Model,
    rng: np.random.Generator,
    dims: Sequence[str] | None,
    mode: str | None,
) -> Any:
    """Add draws of the marginalized tables on which a table depends."""
    for other in tables_of(model):
        if other.variable in tables_above(table.variable, model) and other.name not in posterior:
            drawn = draw_marginalized(other, posterior, model, rng, dims=dims, mode=mode)
            posterior = posterior.assign({other.name: drawn})
    return posterior


def _draw_in_chains(
    table: ConfidentialTable,
    posterior: xr.Dataset,
    model: pm.Model,
    rng: np.random.Generator,
    advance: Callable[[int], object],
    mode: str | None,
) -> Integers:
    log_h, of_draw = law_of_draws(table, posterior, model, mode)
    lead = (posterior.sizes["chain"], posterior.sizes["draw"])
    warn_of_windows(table, outside_of_law(table.law, log_h, of_draw, lead))

    def weights_of(at: tuple[int, int]) -> Reals:
        advance(1)
        return of_draw(at)

    if (nested := table.law.nested) is not None:
        each = map(weights_of, np.ndindex(lead))
        pairs = ((weights, None) if log_h is None else (log_h, weights) for weights in each)
        draws = np.array([nested.evaluate(weights.ravel(), slope).draw(1, rng)[0] for weights, slope in pairs])
    else:
        block, total = table.law.groups
        lo = table.law.lower
        flat = [weights_of(at) for at in np.ndindex(lead)]
        if log_h is not None:
            draws = totals.draw(log_h, eta=np.array(flat), lo=lo, total=total, block=block, rng=rng)
        else:
            draws = np.array([totals.draw(weights, lo=lo, total=total, block=block, rng=rng) for weights in flat])
    draws = draws.reshape(lead[0] * lead[1], -1)
    draws = draws if table.law.lines is None else table.law.lines.tables(draws)
    if (free := table.law.fiber.uninformed).any():
        # cells on which nothing depends: from their data model, once per posterior draw
        (cells,), parameters, columns = _given_draws([uninformed_cells(table.variable)], posterior, model)
        draw = DataModelDraws(cells, parameters)
        draws[:, free] = np.array([draw([column[at] for column in columns], rng) for at in np.ndindex(lead)])
    return draws


def outside_windows(table: ConfidentialTable, posterior: xr.Dataset, model: pm.Model) -> Reals:
    """Return the posterior probability of each cell outside its window, at draws of the parameters or of the table."""
    if not table.is_marginalized:
        draws = in_model_order(posterior[table.name], table.name, model).values
        return outside(Windows.of(table.law.fiber), table.law.observed.system, draws.reshape(-1, table.law.start.size))
    lead = (posterior.sizes["chain"], posterior.sizes["draw"])
    posterior = _with_tables_above(table, posterior, model, np.random.default_rng(1), ("chain", "draw"), "FAST_COMPILE")
    return outside_of_law(table.law, *law_of_draws(table, posterior, model, "FAST_COMPILE"), lead)


def warn_of_windows(table: ConfidentialTable, share: Reals) -> None:
    """Warn if the posterior probability outside the window of a cell is not negligible."""
    if problem := window_problem(table.name, table.law, share):
        warnings.warn(problem, DiagnosisWarning, stacklevel=4)


def law_of_draws(
    table: ConfidentialTable, posterior: xr.Dataset, model: pm.Model, mode: str | None = None
) -> tuple[Reals | None, Callable[[tuple[int, int]], Reals]]:
    """Return the distribution of the cells given everything else, as a function of chain and draw."""
    given, (by_cell, _) = table.variable.owner.inputs, dependent_factors(table.variable, model)
    form = None if by_cell else table.law.exponential_family(given)
    function = of_draws([form[0] if form else table.law.summed_weights(given, by_cell)], posterior, model, mode)
    return form[2].whole if form else None, lambda at: function(at)[0]


def of_draws(
    outputs: list[TensorVariable], posterior: xr.Dataset, model: pm.Model, mode: str | None = None
) -> Callable[[tuple[int, int]], list[Reals]]:
    """Compile symbolic functions of a model's variables, to be evaluated at a chain and a draw of the posterior."""
    outputs, parameters, columns = _given_draws(outputs, posterior, model)
    function = compile_pymc(parameters, outputs, mode=mode)
    last: tuple[list[Array], list[Reals]] | None = None

    def of_draw(at: tuple[int, int]) -> list[Reals]:
        nonlocal last  # a draw equal to the previous one (a rejected proposal) is not evaluated again
        given = [column[at] for column in columns]
        if last is None or not all(map(np.array_equal, given, last[0])):
            last = given, function(*given)
        return last[1]

    return of_draw


def _given_draws(
    outputs: list[TensorVariable], posterior: xr.Dataset, model: pm.Model
) -> tuple[list[TensorVariable], list[TensorVariable], list[Array]]:
    """Return expressions as functions of a model's free variables, these variables, and their draws."""
    outputs = graph_replace(outputs, drawn_for(model, model.free_RVs), strict=False)
    outputs = graph_replace(outputs, {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}, strict=False)
    drawn_variables = [*model.free_RVs, *(table.variable for table in tables_of(model) if table.is_marginalized)]
    near = set(ancestors(outputs, blockers=drawn_variables))
    parameters = [free for free in drawn_variables if free in near]
    if missing := [p.name for p in parameters if p.name not in posterior]:
        raise ModelError(
            f"the posterior has no draws of {missing[0]!r}, on which the law of the table depends: keep them"
        )
    return outputs, parameters, [in_model_order(posterior[p.name], p.name, model).values for p in parameters]
