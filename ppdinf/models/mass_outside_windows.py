"""Posterior probability outside the windows of counts that a confidential table was looked for in.

Windows are laid out before anything is sampled, from the reach of the noise and from draws of the prior
(`ppdinf.distributions.observation.truncation_bounds`). Here they are checked against the posterior: for a marginalized
table by its exact law at posterior draws of the parameters, for a sampled table by the tails of its draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.observation.truncation_bounds import (
    LARGEST_SHARE,
    beyond_draws,
    beyond_marginals,
    possible_counts,
)
from ppdinf.fiber.sums_given_totals import totals

__all__ = ["outside_of_draws", "outside_of_law", "window_problem"]

DRAWS = 64  # of the parameters, at which the law of a table is evaluated

type Reals = NDArray[np.float64]


def outside_of_law(
    law: ConfidentialRV, log_h: Reals | None, of_draw: Callable[[tuple[int, int]], Reals], lead: tuple[int, int]
) -> Reals:
    """Bound the posterior probability of each cell outside its window, mean over posterior draws.

    Parameters
    ----------
    law : ConfidentialRV
        Of a table that is summed out.
    log_h, of_draw
        From `ppdinf.models.posterior_tables.law_of_draws`.
    lead : tuple of int
        Numbers of chains and draws.

    Returns
    -------
    array of float64, shape (d,)
        0 for cells without a window.
    """
    shares = []
    for at in np.unique(np.linspace(0, lead[0] * lead[1] - 1, DRAWS).astype(int)):
        found = of_draw((int(at) // lead[1], int(at) % lead[1]))
        weights, slope = (found, None) if log_h is None else (log_h, found)
        if law.nested is None:
            block, total = law.groups
            marginals = totals.marginals(weights, eta=slope, lo=law.fiber.lower, total=total, block=block)
        else:
            posterior = law.nested.evaluate(weights.ravel(), slope).posteriors()
            marginals = posterior.log_weight.reshape(weights.shape)
        shares.append(beyond_marginals(marginals))
    return np.where(law.fiber.uninformed, 0.0, np.mean(np.array(shares), axis=0))


def outside_of_draws(law: ConfidentialRV, draws: xr.DataArray) -> Reals:
    """Estimate the posterior probability of each cell outside its window, from draws of a table that was sampled."""
    fiber = law.fiber
    nonnegative = np.zeros(fiber.lower.size, dtype=bool) if fiber.nonnegative is None else fiber.nonnegative
    cells = draws.transpose("chain", "draw", ...).values.reshape(-1, fiber.lower.size)
    ends = possible_counts(law.observed.system, nonnegative)
    lower, upper = fiber.lower.astype(float), (fiber.lower + fiber.width - 1).astype(float)
    found = beyond_draws(cells, lower, upper, *ends).sum(axis=0)
    return np.where(fiber.uninformed, 0.0, found)


def window_problem(name: str, law: ConfidentialRV, share: Reals) -> str:
    """Name the cells of a table whose posterior goes beyond their windows; empty where none does."""
    over = np.flatnonzero(~(share <= LARGEST_SHARE))
    if not over.size:
        return ""
    worst = over[np.argsort(-share[over], kind="stable")][:3]
    named = "; ".join(law.observed.frame.cell(int(cell)) for cell in worst)
    more = f" and {over.size - 3} more" if over.size > 3 else ""
    return (
        f"The posterior of {name!r} goes beyond the counts it was looked for in, "
        f"with {share.max():.1g} of the weight at {named}{more}: model and release differ there by more than "
        "noise does once in 1e12 tables. Look at epsilon and at what the model expects of these cells; let "
        "counts vary more (NegativeBinomial in place of Poisson), or give parameters a prior that allows for "
        "them."
    )
