"""Posterior probability of counts outside the truncation windows of a confidential table.

Windows are computed before sampling, from the radius of the noise, from draws of the prior and at plausible parameters
(`ppdinf.distributions.model_graph.plausible_windows`). This module compares them with the posterior: for a marginalized
table by its exact distribution at posterior draws of the parameters, for a sampled table by the tails of its draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ppdinf.distributions.densities.confidential_rv import ConfidentialRV
from ppdinf.distributions.observation.possible_values import possible_counts
from ppdinf.distributions.observation.truncation_bounds import (
    LARGEST_SHARE,
    beyond_draws,
    beyond_marginals,
)
from ppdinf.fiber.sums_given_totals import totals

DRAWS = 64  # posterior draws of the parameters at which the distribution of a table is evaluated

type Reals = NDArray[np.float64]


def outside_of_law(
    law: ConfidentialRV, log_h: Reals | None, of_draw: Callable[[tuple[int, int]], Reals], lead: tuple[int, int]
) -> Reals:
    """Bound the posterior probability of each cell outside its window, averaged over posterior draws."""
    shares = []
    for draw in np.unique(np.linspace(0, lead[0] * lead[1] - 1, DRAWS).astype(int)):
        log_weights = of_draw((int(draw) // lead[1], int(draw) % lead[1]))
        weights, slope = (log_weights, None) if log_h is None else (log_h, log_weights)
        if law.nested is None:
            block, total = law.groups
            marginals = totals.marginals(weights, eta=slope, lo=law.fiber.lower, total=total, block=block)
        else:
            posterior = law.nested.evaluate(weights.ravel(), slope).posteriors()
            marginals = posterior.log_weight.reshape(weights.shape)
        shares.append(beyond_marginals(marginals))
    return np.where(law.fiber.uninformed, 0.0, np.mean(np.array(shares), axis=0))


def outside_of_draws(law: ConfidentialRV, draws: xr.DataArray) -> Reals:
    """Estimate the posterior probability of each cell outside its window from draws in the order of the model."""
    fiber = law.fiber
    nonnegative = np.zeros(fiber.lower.size, dtype=bool) if fiber.nonnegative is None else fiber.nonnegative
    cells = draws.values.reshape(-1, fiber.lower.size)
    ends = possible_counts(law.observed.system, nonnegative)
    lower, upper = fiber.lower.astype(float), (fiber.lower + fiber.width - 1).astype(float)
    shares = beyond_draws(cells, lower, upper, *ends).sum(axis=0)
    return np.where(fiber.uninformed, 0.0, shares)


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
