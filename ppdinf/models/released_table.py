"""`Released`: a mechanism's release of a table that is itself a variable of the model."""

from __future__ import annotations

from collections.abc import Sequence

import pymc as pm

import ppdinf.samplers.lattice_gibbs  # noqa: F401  (PyMC learns of the step method here)
from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.distributions.densities.mechanism_rv import Labels, mechanism_dist
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.tables.table import TableLike, reals_of

__all__ = ["Released", "mechanism_dist"]


def Released(  # noqa: N802  (reads as a PyMC distribution)
    name: str,
    mechanism: TableMechanism,
    table: TensorVariable,
    observed: TableLike | None = None,
    *,
    labels: Labels | None = None,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Give the release of a table a name in the model: ``mechanism.dist(table)``, observed or to be drawn.

    The generative way to write what `ppdinf.PartiallyPrivate` states: a model of tables, and the mechanism on top. Its
    prior predictive holds releases; `pm.observe` and `pm.do` work; what was published may be observed at once. The
    posterior is the same. PyMC assigns `ppdinf.samplers.lattice_gibbs.LatticeGibbs` to the table, within the context of
    the model.

    Parameters
    ----------
    name : str
    mechanism : TableMechanism
        A mechanism that releases cells, such as `ppdinf.GeneralizedLaplace`.
    table : TensorVariable of integers
        A variable of the model, of any distribution of integers; `pm.Multinomial` with a constant n among them.
    observed : table, optional
        What was released. Labels of DataArrays, Series and DataFrames are compared; an array has the same shape.
    labels : mapping of str to sequence, or a table, optional
        As for `TableMechanism.dist`.
    dims : str or sequence of str, optional
        Of the release in the model.

    Returns
    -------
    TensorVariable

    Raises
    ------
    LabelError, InvariantError, ModelError
        As `TableMechanism.dist` says; an observed table of another shape or with other labels.

    Examples
    --------
    >>> import pymc as pm, ppdinf as ppd
    >>> mechanism = ppd.GeneralizedLaplace(ppd.invariants.total(), epsilon="1/4")
    >>> with pm.Model(coords={"county": list("ABC")}) as model:
    ...     cases = pm.Poisson("cases", 4.0, dims="county")
    ...     release = Released("release", mechanism, cases, observed=[9, -1, 3])
    ...     idata = pm.sample(20, tune=0, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> set(idata.posterior.cases.sum("county").values.ravel().tolist())
    {11}
    """
    model = pm.modelcontext(None)
    release = mechanism_dist(mechanism, table, labels)
    given = None
    if observed is not None:
        frame = release.owner.op.law.frame
        # PyMC casts whole numbers to 32 bits on their way
        given = reals_of(observed, frame, "what was released")
    return model.register_rv(release, name, observed=given, dims=dims)
