"""Intercept of a log-linear model, parametrized by the log of the expected public total.

With rates ``exp(intercept + effect_i)`` and a public total of many counts, the expected total is known to a few per
cent. Under much noise the effects are hardly known. The posterior of intercept and effects is then a thin curved shell,
in which NUTS takes small steps and diverges. The log of the expected total is nearly independent of the effects, which
only the cells inform (Poisson counts given their total are multinomial). The chain therefore moves the log of the
expected total.

Reference: S. E. Fienberg, "The Analysis of Cross-Classified Categorical Data", 2nd ed. (1980), section 2.4, for the
factorization of Poisson sampling into total and shares.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.errors import ModelError


def intercept_given_total(name: str, prior: TensorVariable, log_weights: TensorVariable, total: int) -> TensorVariable:
    """Give an intercept its prior, parametrized by the log of the expected total.

    The posterior is that of ``intercept ~ prior``: the change of variables has a constant Jacobian. The level has a
    flat prior, so `pm.sample_prior_predictive` cannot draw it.

    Parameters
    ----------
    name : str
        Name of the intercept in the posterior. ``{name}_level`` is the log of the expected total minus the log of the
        total, in units of the standard error ``1 / sqrt(total)``.
    prior : unnamed PyMC distribution
        Prior of the intercept, a scalar, such as ``pm.Normal.dist(-5, 2)``.
    log_weights : TensorVariable
        Log rates without the intercept, of all cells under the total: effects plus log exposures.
    total : int
        The public total, a positive integer, at which chains start.

    Returns
    -------
    TensorVariable
        The intercept; the log rates are ``log_weights + intercept``.

    Raises
    ------
    ModelError
        The total is not positive.

    Examples
    --------
    >>> from ppdinf.models.reparametrize import intercept_given_total
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     effect = pm.Normal("effect", 0, 1, shape=3)
    ...     mu = intercept_given_total("mu", pm.Normal.dist(0, 2), effect, total=30)
    >>> [variable.name for variable in model.free_RVs]
    ['effect', 'mu_level']
    """
    if not total > 0:
        raise ModelError(f"the total of {name!r} must be positive: an expected total of 0 has no finite logarithm")
    level = np.log(total) + pm.Flat(f"{name}_level") / np.sqrt(total)
    intercept = pm.Deterministic(name, level - pm.math.logsumexp(log_weights))
    pm.Potential(f"{name}_prior", pm.logp(prior, intercept))
    return intercept
