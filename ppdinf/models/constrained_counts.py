"""`ConstrainedCounts`: the distribution of an integer table whose sums are known exactly, without noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ppdinf._internal.pymc_compat import TensorVariable
from ppdinf.errors import ModelError
from ppdinf.invariants import System
from ppdinf.measurements import Measurements
from ppdinf.models.partially_private import PartiallyPrivate
from ppdinf.tables.totals import all_labels


def ConstrainedCounts(  # noqa: N802  (reads as a PyMC distribution)
    name: str,
    dist: TensorVariable,
    public: System,
    marginalize: bool | str = "auto",
    *,
    dims: str | Sequence[str] | None = None,
) -> TensorVariable:
    """Give a distribution to an integer table of which only exact sums are public.

    Examples are contingency tables with fixed margins, voters by group and party (ecological inference), and counts
    behind totals. PyMC has no sampler for latent integers with a given sum.

    Parameters
    ----------
    name : str
        Name of the table.
    dist : unnamed PyMC distribution of integers
        As for `ppdinf.PartiallyPrivate`. It is not renormalized on the sums, so the sums inform its parameters.
    public : System
        Statements bound to labels and values: ``public.on(table, values=...)``.
    marginalize : {"auto", True, False}
        As for `ppdinf.PartiallyPrivate`: with nested sums the table is marginalized, otherwise it is sampled.
    dims : str or sequence of str, optional
        Dimensions of the table in the model.

    Returns
    -------
    TensorVariable
        The confidential table.

    Raises
    ------
    ModelError
        `public` is not bound to values, neither the sums nor the prior bound some cell, or
        `ppdinf.PartiallyPrivate` raises the error.
    InvariantError
        No table in the support of `dist` has the stated sums.

    See Also
    --------
    ppdinf.PartiallyPrivate, ppdinf.samplers.LatticeGibbs

    Notes
    -----
    The model also contains an observed variable ``{name}_release`` with no elements, which represents the sums.

    Examples
    --------
    Two groups, two outcomes, both margins known: given the odds ratio, a cell is noncentral hypergeometric (Fisher).

    >>> import numpy as np
    >>> import pymc as pm, ppdinf as ppd
    >>> margins = ppd.invariants.margin("group") & ppd.invariants.margin("answer")
    >>> labels = ppd.as_table(np.zeros((2, 2), dtype=int), dims=("group", "answer"))
    >>> public = margins.on(labels, values=[3, 4, 2, 5])
    >>> with pm.Model(coords={"group": [0, 1], "answer": [0, 1]}) as model:
    ...     voters = ppd.models.ConstrainedCounts("voters", pm.Poisson.dist(np.array([[3.0, 1.0], [1.0, 1.0]])), public)
    ...     idata = pm.sample(50, tune=0, chains=1, random_seed=1, progressbar=False, quiet=True,
    ...                       compute_convergence_checks=False)
    >>> idata.posterior.voters.sum("answer").values[0, -1].tolist()
    [3, 4]
    """
    if not isinstance(public, System):
        raise ModelError("public must be bound to its values: pass public.on(table, values=...)")
    labels = public.frame.table(np.zeros(public.frame.size, dtype=np.int64))
    seen = Measurements(labels, public=public, not_totals=list(all_labels(public.frame)))
    return PartiallyPrivate(name, dist, seen, marginalize, dims=dims)
