"""The intercept of a log-linear model whose expected total is pinned down by a public one.

With rates ``exp(intercept + effect_i)`` and a public total of many counts, the expected total is known to a few per
cent while effects behind much noise are hardly known at all: intercept and effects then lie on a thin curved shell,
where NUTS takes small steps and diverges. The log of the expected total is nearly independent of the effects, which
the cells inform alone (Poisson counts given their total are multinomial). So that is what the chain moves.

Reference: S. E. Fienberg, "The Analysis of Cross-Classified Categorical Data", 2nd ed. (1980), section 2.4, for the
factorisation of Poisson sampling into total and shares.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.errors import ModelError

__all__ = ["intercept_given_total"]


def intercept_given_total(name: str, prior: TensorVariable, log_weights: TensorVariable, total: int) -> TensorVariable:
    """Give an intercept its prior, but let the chain move the log of the expected total.

    The posterior is that of ``intercept ~ prior``: the change of variables has a constant Jacobian.

    Parameters
    ----------
    name : str
        Name of the intercept in the posterior; ``{name}_level`` is by how many standard errors, of
        ``1 / sqrt(total)``, the log of the expected total exceeds that of the total.
    prior : unnamed PyMC distribution
        Of the intercept, a scalar, such as ``pm.Normal.dist(-5, 2)``.
    log_weights : TensorVariable
        Log rates but for the intercept, of all cells under the total: effects plus log exposures.
    total : int
        The public total, from which chains start; positive.

    Returns
    -------
    TensorVariable
        The intercept: ``log_weights + intercept`` are the log rates.

    Raises
    ------
    ModelError
        The total is not positive.

    Notes
    -----
    The level has a flat prior of its own, so that `pm.sample_prior_predictive` cannot draw it. On 20 areas with
    noise of epsilon = 0.02 (`benchmarks/posterior.py`) divergences vanish and ESS per second grows sixfold.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     effect = pm.Normal("effect", 0, 1, shape=3)
    ...     mu = intercept_given_total("mu", pm.Normal.dist(0, 2), effect, total=30)
    >>> [variable.name for variable in model.free_RVs]
    ['effect', 'mu_level']
    """
    if not total > 0:
        raise ModelError(f"the total of {name!r} is not positive: an expected total of zero has no logarithm")
    level = np.log(total) + pm.Flat(f"{name}_level") / np.sqrt(total)
    intercept = pm.Deterministic(name, level - pm.math.logsumexp(log_weights))
    pm.Potential(f"{name}_prior", pm.logp(prior, intercept))
    return intercept
