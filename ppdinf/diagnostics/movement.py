"""Movement of a chain of tables: changes of each cell, cells that can move, and a bound by coupled chains."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf._internal.values import Flags, Integers
from ppdinf.distributions.confidential_rv import ConfidentialRV
from ppdinf.distributions.tables import dependent_factors
from ppdinf.errors import ModelError
from ppdinf.fiber.gibbs.table_update import Directions, advance, directions
from ppdinf.models.model_order import in_model_order
from ppdinf.models.posterior_tables import of_draws
from ppdinf.noise.mcmc.tv_bound import TVBound, tv_bound
from ppdinf.samplers.lattice_gibbs import SWEEPS, scales_of


def acceptance_by_cell(draws: xr.DataArray) -> pd.DataFrame:
    """Measure how often each cell of a chain of integer tables moves, and its number of distinct values.

    Parameters
    ----------
    draws : xarray.DataArray of integers, dimensions ``("chain", "draw", ...)``

    Returns
    -------
    pandas.DataFrame
        One row per cell, indexed by its labels. ``moved``: the fraction of draws that differ from the previous
        draw, smallest over chains. ``changes``: the number of such draws in all chains. ``distinct``: the number of
        distinct values in all chains.

    See Also
    --------
    ppdinf.diagnose, ppdinf.plots.plot_chains

    Examples
    --------
    >>> import xarray as xr
    >>> from ppdinf.diagnostics import acceptance_by_cell
    >>> import numpy as np
    >>> table = xr.DataArray(np.array([[[1, 5], [2, 5], [2, 5]]]), dims=("chain", "draw", "county"))
    >>> acceptance_by_cell(table)
            moved  changes  distinct
    county
    0         0.5        1         2
    1         0.0        0         1
    """
    cells = [dim for dim in draws.dims if dim not in ("chain", "draw")]
    draws = draws.transpose("chain", "draw", *cells)
    values = draws.values
    changed = np.diff(values, axis=1) != 0
    moved, changes = changed.mean(axis=1).min(axis=0), changed.sum(axis=(0, 1))
    flat = np.sort(values.reshape(-1, *values.shape[2:]), axis=0)
    distinct = 1 + (np.diff(flat, axis=0) != 0).sum(axis=0)
    if not cells:
        one = {"moved": [float(moved)], "changes": [int(changes)], "distinct": [int(distinct)]}
        return pd.DataFrame(one, index=[draws.name])
    labels = [draws.indexes[dim] if dim in draws.indexes else range(draws.sizes[dim]) for dim in cells]
    index = pd.MultiIndex.from_product(labels, names=cells) if len(cells) > 1 else pd.Index(labels[0], name=cells[0])
    columns = {"moved": moved.ravel(), "changes": changes.ravel(), "distinct": distinct.ravel()}
    return pd.DataFrame(columns, index=index)


STEPS = 32  # steps, each from another posterior draw


def mobile_cells(table: TensorVariable, idata: xr.DataTree, model: pm.Model) -> Flags:
    """Return which cells move in steps from posterior draws, shape (d,); all True if steps cannot be repeated."""
    law, posterior, rng = table.owner.op, idata.posterior, np.random.default_rng(0)
    fiber = law.fiber
    draws = in_model_order(posterior[table.name], table.name, model).values
    moved = np.zeros(fiber.lower.size, dtype=bool)
    by_cell, _ = dependent_factors(table, model)
    try:
        conditional = of_draws(law.conditional(table, by_cell), posterior, model)
    except ModelError:  # parameters without draws
        return ~moved
    truncation, variances = scales_of(table, model)
    each = SWEEPS * moved.size
    starts, where, steps = directions(fiber, each * STEPS, rng, variances)
    for k in range(STEPS):
        chain, draw = rng.integers(draws.shape[:2])
        before = draws[chain, draw].ravel().astype(np.int64)
        before[fiber.uninformed] = fiber.lower[fiber.uninformed]  # drawn from the data model, not by the step
        if not fiber.holds(before):
            return ~np.zeros_like(moved)
        weights, *rest = conditional((chain, draw))
        offsets = truncation.draw(rng)
        lower, width = truncation.around(before, offsets)
        weights = weights if offsets is None else truncation.restricted(weights, lower, width)
        along = starts[each * k : each * (k + 1) + 1], where, steps
        moved |= advance(fiber, before, [weights, *rest], along, rng, lower=lower) != before
    return moved


LAWS = 16  # posterior draws of the parameters from which pairs choose one
AHEAD = 8  # draws whose directions are drawn together


def coupling_bound(
    idata: xr.DataTree,
    model: pm.Model | None = None,
    *,
    pairs: int = 200,
    limit: int = 500,
    rng: int | np.random.Generator = 0,
) -> TVBound:
    """Bound the distance between the table after t draws and its posterior given the parameters, by coupled chains.

    Compiles one function, which takes seconds. A pair costs twice its meeting time in draws. Stores 16 tables of log
    weights, each d x width.

    Parameters
    ----------
    idata : xarray.DataTree
        Result of `pm.sample` for `model`.
    model : pymc.Model, optional
        The model, outside its context, with one sampled `PartiallyPrivate` table.
    pairs : int
        Number of pairs of chains. The 95 % upper limit is at least about ``3 / pairs``.
    limit : int
        Maximum number of draws of a pair.
    rng : int or numpy.random.Generator

    Returns
    -------
    TVBound
        Its steps are draws of `LatticeGibbs` with the default number of sweeps. The bound holds for the mean over 16
        posterior draws of the parameters. It concerns the table given the parameters, not the mixing of the parameters.

    Raises
    ------
    ModelError
        The model has no such table, or the normalizer of the mechanism depends on the table.
    InvariantError
        The draws are not of this model: they violate a public sum, or are outside the support of the noise.

    See Also
    --------
    ppdinf.diagnose, ppdinf.diagnostics.tv_bound

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from ppdinf.diagnostics import coupling_bound
    >>> import ppdinf as ppd
    >>> release = ppd.Release(np.array([3, 1, 2]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model:
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(2.0), release=release, marginalize=False)
    ...     idata = pm.sample(50, tune=0, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> coupling_bound(idata, model).steps(0.05) <= 3
    True
    """
    model = pm.modelcontext(model)
    tables = [rv for rv in model.free_RVs if isinstance(rv.owner.op, ConfidentialRV) and rv.name in idata.posterior]
    if len(tables) != 1:
        raise ModelError(f"the posterior must have one sampled confidential table, found {len(tables)}")
    (rv,) = tables
    fiber = rv.owner.op.fiber
    if why := not_coupled(rv, model):
        raise ModelError(why)
    pick, main = np.random.default_rng(rng).spawn(2)
    # conditional distributions of the table at random posterior draws of the parameters
    places = pick.integers([idata.posterior.sizes["chain"], idata.posterior.sizes["draw"]], size=(LAWS, 2))
    by_cell, _ = dependent_factors(rv, model)
    function = of_draws(rv.owner.op.conditional(rv, by_cell), idata.posterior, model)
    laws = [[np.array(part) for part in function((chain, draw))] for chain, draw in places]
    cells, (truncation, variances) = fiber.lower.size, scales_of(rv, model)
    draws = in_model_order(idata.posterior[rv.name], rv.name, model).values.reshape(-1, cells)

    def meeting(lag: int, limit: int, rng: np.random.Generator) -> int:
        law = laws[rng.integers(LAWS)]
        ahead, behind = draws[rng.integers(len(draws), size=2)]
        fiber.require(ahead)
        fiber.require(behind)
        # one step of both chains per draw; the second chain starts `lag` draws later
        each = SWEEPS * cells
        for time in range(1, limit + 1):
            at = (time - 1) % AHEAD * each
            if not at:
                starts, where, steps = directions(fiber, each * AHEAD, rng, variances)
            along = starts[at : at + each + 1], where, steps
            offsets, seed = truncation.draw(rng), rng.integers(2**63)

            # both chains use the same directions, random truncation and uniform numbers
            def next_after(
                table: Integers, along: Directions = along, offsets: Integers | None = offsets, seed: np.int64 = seed
            ) -> Integers:
                lower, width = truncation.around(table, offsets)
                weights = law[0] if offsets is None else truncation.restricted(law[0], lower, width)
                return advance(fiber, table, [weights, *law[1:]], along, np.random.default_rng(seed), lower=lower)

            ahead = next_after(ahead)
            if time > lag:
                behind = next_after(behind)
                if (ahead == behind).all():
                    return time
        return -1

    return tv_bound(meeting, pairs=pairs, limit=limit, rng=main)


def not_coupled(table: TensorVariable, model: pm.Model) -> str | None:
    """Return why chains of a sampled table cannot be coupled, or None."""
    if table.owner.op.observed.likelihood.normaliser is not None:
        return f"chains of {table.name!r} are not coupled: proposals can be rejected for the normalizer of the noise"
    if table.owner.op.fiber.uninformed.any():
        return f"chains of {table.name!r} are not coupled: cells on which nothing published depends are drawn anew"
    if dependent_factors(table, model)[1]:
        return f"chains of {table.name!r} do not meet: proposals can be rejected for a variable of several cells"
    return None
