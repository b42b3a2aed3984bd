"""Missing values among observed variables, marginalized.

PyMC turns missing values of ``pm.Binomial("v", ..., observed=V)`` into the variable ``v_unobserved``. The density of a
value on which nothing depends is integrated to 1, so the model without this variable has the same posterior of all
other variables. Missing integers need Metropolis steps; without them NUTS samples all variables together.
"""

from __future__ import annotations

import pymc as pm

from ppdinf._internal.pymc_compat import (
    PartialObservedRV,
    TensorVariable,
    ancestors,
    fgraph_from_model,
    model_from_fgraph,
)
from ppdinf.errors import ModelError

UNOBSERVED, OBSERVED = "_unobserved", "_observed"  # suffixes of PyMC


def marginalize_missing(model: pm.Model) -> pm.Model:
    """Return a copy of a model in which missing values of observed variables are marginalized.

    To draw missing values afterwards, draw them from their distribution given draws of the table by
    `ppdinf.sample_confidential`.

    Parameters
    ----------
    model : pymc.Model

    Returns
    -------
    pymc.Model
        Without ``{name}_unobserved`` and without the complete ``{name}`` of each variable with missing values. All
        other variables have the same posterior: the marginalization is exact.

    Raises
    ------
    ModelError
        The model has no missing values; another variable depends on them (the message names it); or PyMC cannot
        separate them (multivariate, censored, truncated, mixture and custom distributions).

    See Also
    --------
    ppdinf.PartiallyPrivate, ppdinf.sample_confidential

    Examples
    --------
    >>> import warnings, numpy as np, pymc as pm, ppdinf as ppd
    >>> release = ppd.Release(np.array([3, -1, 4]), ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon=1))
    >>> with pm.Model(coords=release.coords) as model, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
    ...     x = ppd.PartiallyPrivate("x", pm.Poisson.dist(pm.Gamma("rate", 2, 1)), release)
    ...     visits = pm.Binomial("visits", x, 0.5, observed=np.ma.masked_array([1, 0, 2], [False, True, False]))
    >>> [variable.name for variable in model.free_RVs]
    ['rate', 'visits_unobserved']
    >>> [variable.name for variable in ppd.models.marginalize_missing(model).free_RVs]
    ['rate']
    """
    dropped = [variable for rv in model.free_RVs if (pair := _missing(rv, model)) for variable in pair]
    if not dropped:
        raise ModelError("the model has no missing values among its observed variables")
    for rv in dropped:
        if rv.owner is not None and isinstance(rv.owner.op, PartialObservedRV):
            name = str(rv.name).removesuffix(UNOBSERVED)
            raise ModelError(
                f"the missing values of {name!r} cannot be marginalized, because PyMC has one density for its observed "
                "and missing values: state the distribution of the observed values alone"
            )
    for other in (*model.basic_RVs, *model.potentials, *model.deterministics):
        used = set(ancestors([other])).intersection(dropped)
        if other not in dropped and used:
            name = min(str(variable.name) for variable in used)
            raise ModelError(
                f"missing values of {name!r} cannot be marginalized, because {other.name!r} depends on them"
            )
    fgraph, memo = fgraph_from_model(model)
    for variable in dropped:
        fgraph.remove_output(fgraph.outputs.index(memo[variable]))
    return model_from_fgraph(fgraph, mutate_fgraph=True)


def _missing(rv: TensorVariable, model: pm.Model) -> tuple[TensorVariable, TensorVariable] | None:
    """Return the missing values and the complete variable if PyMC split an observed variable, otherwise None."""
    name = str(rv.name).removesuffix(UNOBSERVED)
    complete, observed = model.named_vars.get(name), model.named_vars.get(name + OBSERVED)
    is_split = name != rv.name and complete in model.deterministics and observed in model.observed_RVs
    return (rv, complete) if is_split else None
