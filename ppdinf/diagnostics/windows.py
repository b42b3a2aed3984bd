"""Whether the posterior of a table ends within the windows of counts it was looked for in.

Windows are laid out before anything is sampled (`ppdinf.distributions.windows`), from the reach of the noise and the
prior of the data model. Where the posterior goes further, both routes give an answer for a narrower question without a
sign of trouble in any chain: a table that is walked stays at the ends of its windows; one that is summed out has weight
there.
Beyond the last count of a window weights fall at least as fast as from the last but one to the last, as those of
log-concave data models do, which bounds what is left out by a geometric series.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from ppdinf.distributions.confidential import ConfidentialRV
from ppdinf.distributions.dependents import Table, tables_of
from ppdinf.errors import ModelError
from ppdinf.fiber import totals
from ppdinf.models.posterior_tables import Posterior, law_of_draws

__all__ = ["window_problems"]

DRAWS = 64  # of the parameters, at which a table that was summed out is looked at
LEAST = 1e-6  # share of a cell's weight beyond its window that is spoken of


def window_problems(idata: xr.DataTree, model: pm.Model) -> list[str]:
    """Name the cells whose posterior goes beyond their windows, one sentence for each table.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pm.sample` returned for `model`.
    model : pymc.Model

    Returns
    -------
    list of str
        Empty where all is well.

    Notes
    -----
    For a table that was summed out, compiles one function and works out the law of every cell at 64 posterior draws.
    """
    problems = []
    for table in tables_of(model):
        if table.is_summed_out:
            try:
                share = _summed_out(table, idata.posterior, model)
            except ModelError as error:  # draws left out
                problems.append(f"Whether windows hold the posterior of {table.name!r} is not known: {error}.")
                continue
        elif table.name in idata.posterior:
            share = _walked(table.law, idata.posterior[table.name])
        else:
            continue
        over = np.flatnonzero(~(share <= LEAST))
        if over.size:
            frame = table.law.fiber.system.frame
            worst = over[np.argsort(-share[over], kind="stable")][:3]
            named = "; ".join(frame.cell(int(cell)) for cell in worst)
            more = f" and {over.size - 3} more" if over.size > 3 else ""
            problems.append(
                f"The posterior of {table.name!r} goes beyond the counts it was looked for in, "
                f"with {share.max():.1g} of the weight at {named}{more}: model and release differ there by more than "
                "noise does once in 1e12 tables. Look at epsilon and at what the model expects of these cells; let "
                "counts vary more (NegativeBinomial in place of Poisson), or give parameters a prior that allows for "
                "them."
            )
    return problems


def _walked(op: ConfidentialRV, draws: xr.DataArray) -> NDArray[np.float64]:
    """Share of the draws in which each cell is at an end of its window."""
    fiber, cells = op.fiber, draws.transpose("chain", "draw", ...).values.reshape(-1, op.fiber.lower.size)
    found: NDArray[np.float64] = ((cells == fiber.lower) | (cells == fiber.lower + fiber.width - 1)).mean(axis=0)
    return found


def _summed_out(table: Table, posterior: Posterior, model: pm.Model) -> NDArray[np.float64]:
    """Bound on the share of each cell's weight that lies beyond its window, mean over posterior draws."""
    log_h, of_draw = law_of_draws(table, posterior, model, mode="FAST_COMPILE")
    block, total = table.law.groups
    lead = posterior.sizes["chain"], posterior.sizes["draw"]
    shares = []
    for at in np.unique(np.linspace(0, lead[0] * lead[1] - 1, DRAWS).astype(int)):
        weights = of_draw((int(at) // lead[1], int(at) % lead[1]))
        given = (weights, None) if log_h is None else (log_h, weights)
        law = totals.marginals(given[0], eta=given[1], lo=table.law.fiber.lower, total=total, block=block)
        shares.append(_beyond(law[:, 0], law[:, 1]) + _beyond(law[:, -1], law[:, -2]))
    return np.mean(np.array(shares), axis=0)


def _beyond(last: NDArray[np.float64], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound the weight beyond the last count of a window: all of it where weights do not fall."""
    ratio = np.divide(last, before, out=np.ones_like(last), where=before > 0)
    falls = np.where(ratio < 1, ratio / np.maximum(1 - ratio, 1e-3), 1e3)
    return np.minimum(last * falls, 1.0)
