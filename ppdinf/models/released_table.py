"""`Released`: a mechanism's release of a table that is a variable of the model."""

from __future__ import annotations

from collections.abc import Sequence

import pymc as pm

import ppdinf.samplers.lattice_gibbs  # noqa: F401  (registers the step method with PyMC)
from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.distributions.densities.mechanism_rv import Labels, mechanism_dist
from ppdinf.mechanisms.table_mechanism import TableMechanism
from ppdinf.tables.table import TableLike, reals_of


def Released(  # noqa: N802  (reads as a PyMC distribution)
    name: str,
    mechanism: TableMechanism,
    table: TensorVariable,
    observed: TableLike | None = None,
    *,
    labels: Labels | None = None,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Add the release of a table to the model, ``mechanism.dist(table)``, observed or free.

    The generative form of `ppdinf.PartiallyPrivate`: a model of tables, then the mechanism. Prior predictive draws
    contain releases, and `pm.observe` and `pm.do` apply to them. The published release can be observed at once. The
    posterior is the same. Within the context of the model, PyMC assigns
    `ppdinf.samplers.lattice_gibbs.LatticeGibbs` to the table.

    Parameters
    ----------
    name : str
    mechanism : TableMechanism
        A mechanism that releases cells, such as `ppdinf.GeneralizedLaplace`.
    table : TensorVariable of integers
        A variable of the model with any integer distribution, including `pm.Multinomial` with a constant n.
    observed : table, optional
        The published release. Labels of DataArrays, Series and DataFrames are compared with those of the table; an
        array must have the table's shape.
    labels : mapping of str to sequence, or a table, optional
        As for `TableMechanism.dist`.
    dims : str or sequence of str, optional
        Dimensions of the release in the model.

    Returns
    -------
    TensorVariable

    Raises
    ------
    LabelError, InvariantError, ModelError
        As for `TableMechanism.dist`, or the observed table has another shape or other labels.

    See Also
    --------
    ppdinf.PartiallyPrivate

    Examples
    --------
    >>> from ppdinf.models import Released
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
        # PyMC casts integers to 32 bits on their way to an observed variable
        given = reals_of(observed, frame, "the observed release")
    return model.register_rv(release, name, observed=given, dims=dims)
